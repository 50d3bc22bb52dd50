"""Runs a campaign under uvicorn: checks first, structured logs, and a stop that loses nothing."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import secrets
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

from crowdwise.campaign.installed_packages import explain_missing_package
from crowdwise.labels.errors import InputError

with explain_missing_package():
    import uvicorn

from crowdwise.campaign.app import make_app
from crowdwise.campaign.database import examine_file
from crowdwise.campaign.http_connection import BoundedHttpConnection
from crowdwise.campaign.running_campaign import open_campaign
from crowdwise.campaign.security import check_token, hash_token, verify_password

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.campaign.project import Project
    from crowdwise.campaign.running_campaign import Campaign

__all__ = ["make_server", "prepare_manager", "serve_campaign"]

QUIET: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False}
LIMITS: dict[str, Any] = {
    "timeout_keep_alive": 30,
    "timeout_graceful_shutdown": 10,
    "limit_concurrency": 2_000,
    "backlog": 1_024,
}
STANDARD = set(vars(logging.makeLogRecord({})))  # what every record has


class JsonLines(logging.Formatter):
    """A log line as JSON: time, level, message, and what was said besides. No addresses, tokens or answers."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update((name, value) for name, value in vars(record).items() if name not in STANDARD | {"color_message"})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def set_up_logs(*, requests: bool) -> None:
    """Log lines as JSON to standard error; of every request only if asked for."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("crowdwise.campaign", "crowdwise.requests", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler] if name != "uvicorn.error" else [], name == "uvicorn.error"
        logger.setLevel(logging.INFO)
    logging.getLogger("crowdwise.requests").setLevel(logging.INFO if requests else logging.WARNING)


@contextlib.contextmanager
def hold_database(project: Project) -> Iterator[None]:
    """Keep a second server off the same SQLite file: what one holds in memory the other would not see."""
    path = project.database_place
    if isinstance(path, str):
        yield
        return
    examine_file(path)
    try:
        handle = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InputError(
            f"The database {path} cannot be used: no file can be written beside it ({error.strerror}). "
            "Name another place under [server] of the project."
        ) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(
                f"Another server runs on {path}. Stop it first; several servers at once need PostgreSQL."
            ) from error
        yield
    finally:
        os.close(handle)


def prepare_manager(campaign: Campaign) -> str:
    """Take the manager's password from CROWDWISE_PASSWORD; without one, the first start makes one and returns it."""
    store = campaign.store
    if token := os.environ.get("CROWDWISE_TOKEN"):
        store.write_setting("token", hash_token(check_token(token, "CROWDWISE_TOKEN")))
    elif store.read_setting("token"):
        store.write_setting("token", "")  # one that was taken out of the environment opens nothing any more
    if given := os.environ.get("CROWDWISE_PASSWORD"):
        if not verify_password(given, store.read_setting("password") or ""):
            campaign.set_password(given)
            store.end_every_session()  # whoever knew the old one is out
        return ""
    if store.read_setting("password"):
        return ""
    password = secrets.token_urlsafe(12)
    campaign.set_password(password)
    return password


def make_server(
    campaign: Campaign, host: str = "127.0.0.1", port: int = 8000, handle: int | None = None
) -> uvicorn.Server:
    """A server that has not begun yet."""
    where: dict[str, Any] = {"host": host, "port": port, "fd": handle}
    config = uvicorn.Config(make_app(campaign), http=BoundedHttpConnection, **where, **QUIET, **LIMITS)
    return CampaignServer(config)


class CampaignServer(uvicorn.Server):
    """Ends streams of events when it is told to stop: they would keep it waiting."""

    def handle_exit(self, sig: int, frame: Any) -> None:
        """A signal to stop; a server that has answered what was under way has done all, and is not to be told again."""
        self.config.app.app.state.service.stopping = True  # type: ignore[union-attr]
        super().handle_exit(sig, frame)
        self._captured_signals.clear()


def _check_port(host: str, port: int) -> None:
    """Refuse an address on which nothing can listen, before anything is opened."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no address"
        raise InputError(f"Nothing can listen on {host}, port {port}: {reason}. Choose another with --port.") from error


def serve_campaign(project: Project, *, host: str, port: int, log_requests: bool = False) -> None:
    """Serve a campaign until a signal stops it."""
    set_up_logs(requests=log_requests)
    _check_port(host, port)
    with hold_database(project):
        os.umask(0o077)  # the database holds secrets
        campaign = open_campaign(project)
        password = prepare_manager(campaign)
        where = project.public_url or f"http://{f'[{host}]' if ':' in host else host}:{port}"
        lines = [f"{project.title}: {len(campaign.tasks):,} tasks, {campaign.n_answers:,} answers so far.",
                 f"Manager: {where}/manage"]  # fmt: skip
        if password:
            lines.append(f"Password, shown this once: {password}")
        if project.links == "open":
            lines.append(f"Workers: {where}/study")
        print("\n".join(lines), flush=True)
        server = make_server(campaign, host, port)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup has it ignored
            signal.signal(signal.SIGHUP, server.handle_exit)  # the terminal was closed: an end like any other
        server.run()
