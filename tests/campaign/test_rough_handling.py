"""What a campaign once took wrongly: files and folders as they are, signals, requests that break off, odd numbers."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import signal
import socket
import time
from logging.handlers import BufferingHandler
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest
from PIL import Image
from tests.campaign.campaigns import HEAD, TOKEN, make_campaign, serve, write_project

from crowdwise.campaign import server, webhooks
from crowdwise.campaign.check_project import check_project
from crowdwise.campaign.client import Client
from crowdwise.campaign.database import back_up
from crowdwise.campaign.images import encode_image
from crowdwise.campaign.manager_actions import ManagerActions
from crowdwise.campaign.project import Question, read_project
from crowdwise.campaign.running_campaign import open_campaign
from crowdwise.campaign.store import open_store
from crowdwise.campaign.task_files import make_tasks, read_tasks
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_other_database(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CROWDWISE_DATABASE", "CROWDWISE_PASSWORD", "CROWDWISE_TOKEN"):
        monkeypatch.delenv(name, raising=False)


# ---- files ------------------------------------------------------------------------------------------------


def test_the_database_and_its_backup_are_their_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        make_campaign(tmp_path).store.close()
        files = [tmp_path / "campaign.db", back_up(tmp_path / "campaign.db")]
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in files] == [0o600, 0o600]


@pytest.mark.parametrize(
    "given", ["postgresql://127.0.0.1:1/db?password=secret", "postgresql://ann:secret@127.0.0.1:1/db"]
)
@pytest.mark.parametrize("begin", [lambda project: list(check_project(project)), open_store])
def test_no_message_holds_the_password_of_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, begin: Any
) -> None:
    monkeypatch.setenv("CROWDWISE_DATABASE", given)
    with pytest.raises(InputError, match=r"127\.0\.0\.1:1/db cannot be used") as refused:
        begin(read_project(write_project(tmp_path)))
    assert "secret" not in str(refused.value)


def test_what_a_linked_project_names_lies_beside_the_project(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "project.toml").symlink_to(write_project(tmp_path / "there"))
    project = read_project(tmp_path / "project.toml")
    assert project.tasks.parent == project.folder == tmp_path / "there"
    assert len(read_tasks(project)) == 10


def test_names_of_files_that_no_system_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_project(tmp_path)
    monkeypatch.setenv("CROWDWISE_DATABASE", "x" * 300)
    for begin in (open_campaign, lambda project: list(check_project(project))):
        with pytest.raises(InputError, match="cannot be used: File name too long"):
            begin(read_project(path))
    path.write_text(path.read_text().replace("tasks.csv", "x" * 300))
    with pytest.raises(InputError, match="cannot be read: File name too long"):
        read_tasks(read_project(path))


def test_the_check_sees_that_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = read_project(write_project(tmp_path))
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match="nothing can be written to its folder"):
        list(check_project(project))


# ---- what is asked, and answered --------------------------------------------------------------------------


def test_grey_of_16_bits_is_shown_as_grey() -> None:
    steps = np.arange(256, dtype=np.uint16)[None, :]
    buffer = io.BytesIO()
    Image.fromarray(steps * 256 + 7).save(buffer, "PNG")
    _, written = encode_image(buffer.getvalue())
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(written)).convert("L")), steps)


@pytest.mark.parametrize(("given", "stored"), [(0.1 + 0.2, "0.3"), ("-0", "0.0"), (-0.0, "0.0"), (0.7, "0.7")])
def test_numbers_are_stored_as_they_are_written(given: Any, stored: str) -> None:
    assert str(Question("values", "?", low=0, high=1, step=0.1).check_answer(given)) == stored


@pytest.mark.parametrize(("name", "text", "words"), [("a\u3164", "x", "cannot be seen"), ("a", True, "text is True")])
def test_tasks_that_would_be_misread(name: str, text: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make_tasks([{"task": name, "text": text}], Question("classes", "?", ("cat", "dog")), "the file")


def test_classes_that_look_alike(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unseen letters"):
        read_project(write_project(tmp_path, head=HEAD.replace('"dog"', '"cat\\u3164"')))


# ---- servers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_server_under_nohup_stays_when_the_terminal_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: Any
) -> None:
    monkeypatch.setattr(server, "set_up_logs", lambda **_: None)
    monkeypatch.setattr(os, "umask", lambda _: 0)
    monkeypatch.setattr(server.CampaignServer, "run", lambda _self: None)
    was = signal.signal(signal.SIGHUP, before)
    try:
        server.serve_campaign(read_project(write_project(tmp_path)), host="127.0.0.1", port=0)
        assert (signal.getsignal(signal.SIGHUP) == signal.SIG_IGN) is (before == signal.SIG_IGN)
    finally:
        signal.signal(signal.SIGHUP, was)


def test_a_campaign_is_served_once(tmp_path: Path) -> None:
    campaign = make_campaign(tmp_path)
    with serve(campaign):
        pass
    with pytest.raises(InputError, match="has been served already"), serve(campaign):
        pass


@pytest.fixture
def errors_logged() -> Iterator[list[logging.LogRecord]]:
    """What is logged as an error meanwhile; pytest's own plugin for logs is off, since it slows every test."""
    handler = BufferingHandler(1000)
    handler.setLevel(logging.ERROR)
    logging.getLogger().addHandler(handler)
    yield handler.buffer
    logging.getLogger().removeHandler(handler)


def test_half_a_request_leaves_no_error_behind(tmp_path: Path, errors_logged: list[logging.LogRecord]) -> None:
    with serve(make_campaign(tmp_path)) as address, Client(address, TOKEN) as manager:
        token = manager.add_worker("ann").token
        host, _, port = address.removeprefix("http://").partition(":")
        half = "POST /{} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: 99\r\n\r\nn"
        for path in ("api/answers", "manage/login"):
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(half.format(path, token).encode())
        end = time.monotonic() + 10
        while "login" not in (counts := httpx.get(f"{address}/metrics").text) and time.monotonic() < end:
            time.sleep(0.02)
    assert 'status="400"' in counts
    assert 'status="500"' not in counts
    assert not errors_logged


def test_a_slow_receiver_does_not_hold_up_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "MOST_SECONDS", 0.02)
    campaign = make_campaign(tmp_path, 1, more='[server]\nwebhooks = ["http://127.0.0.1:1/"]\n')
    campaign.start()
    campaign.writer.run_blocking(lambda work: campaign.announce_finished(work, [1]))
    sender = webhooks.Webhooks(campaign)
    (row,) = sender._read_due()

    async def wait(_request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(60)
        raise AssertionError("nobody waited")

    async def send() -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(wait)) as client:
            await sender._send(client, row)

    asyncio.run(send())
    campaign.store.clock._offset += 2
    (row,) = sender._read_due()
    assert row.attempts == 1
    campaign.stop()


def test_a_model_goes_on_when_others_were_quicker(tmp_path: Path) -> None:
    campaign = make_campaign(tmp_path, 2, more="[answers]\nper_task = 1\n")
    with serve(campaign) as address, Client(address, TOKEN) as manager:
        stopped: list[str] = []

        def decide(question: Any) -> str:
            if not stopped:  # the task is stopped, and its lease ends, while the model thinks
                stopped.append(question.task)
                ManagerActions(campaign, "test").set_task_state(question.task, "finished")
                worker.leave()
            return "cat"

        with Client(address, manager.add_worker("model").token) as worker:
            assert worker.answer_all(decide) == 1
        assert manager.status().answers == 1
