"""One thread that writes: what came in meanwhile is one transaction, and nobody is told "stored" before it is on disk.

A commit waits for the disk; while it waits, requests gather, and the next commit takes them all (group commit). So the
number of answers a second does not depend on how many commits the disk can do. Should a transaction fail, its
requests are tried again one by one on a new connection: they are safe to repeat, because each has a client key.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import queue
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from crowdwise.campaign.leases import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    import sqlalchemy as sa

    from crowdwise.campaign.leases import Outcome
    from crowdwise.campaign.store import Store

__all__ = ["StoreUnavailableError", "Work", "Writer"]

log = logging.getLogger("crowdwise.campaign")
T = TypeVar("T")
BATCH = 512  # requests of one transaction
REMEMBERED = 5.0  # seconds that a failure counts: regular work often writes nothing, and proves nothing
PAUSE = 0.5  # seconds between two rounds of what is to be done regularly


class StoreUnavailableError(Exception):
    """The database did not take it: full disk, restart, lost connection. Nothing was stored; try again."""


class Work(NamedTuple):
    """What a request may use within the transaction."""

    connection: sa.Connection
    cursor: Any
    now: float


class Request(NamedTuple):
    """Something to do, and who waits for it."""

    run: Callable[[Work], Any] | Answer
    future: asyncio.Future[Any] | Future[Any]


class Writer:
    """The thread that writes.

    Parameters
    ----------
    store
        The database.
    submit_many
        Stores answers.
    regular
        Done between requests, every half second.
    recover
        Called after a transaction failed: what is held in memory may be wrong.
    """

    def __init__(
        self,
        store: Store,
        *,
        submit_many: Callable[[Work, list[Answer]], list[Outcome]],
        regular: Callable[[Work], None],
        recover: Callable[[], None] = lambda: None,
    ) -> None:
        self.store, self.submit_many, self.regular, self.recover = store, submit_many, regular, recover
        self.n_commits = 0
        self._failed_at = -math.inf
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._connection: sa.Connection | None = None
        self._thread = threading.Thread(target=self._loop, name="campaign-writer", daemon=True)
        self._stopped = False

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self, timeout: float = 30.0) -> None:
        """Write what is waiting, then end."""
        self._stopped = True
        self._requests.put(None)
        self._thread.join(timeout)

    @property
    def has_begun(self) -> bool:
        """Whether the thread was started, even if it has ended since."""
        return self._thread.ident is not None

    @property
    def failing(self) -> bool:
        """Whether the database refused to write a moment ago, and has stored no answer since."""
        return time.monotonic() - self._failed_at < REMEMBERED

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return self._requests.qsize()

    async def run(self, work: Callable[[Work], T]) -> T:
        """Run something in the next transaction; returns once it is on disk."""
        result: T = await self._send(work)
        return result

    async def submit(self, given: Answer) -> Outcome:
        """Store an answer; returns once it is on disk."""
        outcome: Outcome = await self._send(given)
        return outcome

    async def _send(self, work: Callable[[Work], Any] | Answer) -> Any:
        if self._stopped:
            raise StoreUnavailableError("the server stops")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._requests.put(Request(work, future))
        return await future

    def run_blocking(self, work: Callable[[Work], T]) -> T:
        """The same for code without an event loop."""
        if self._stopped:
            raise StoreUnavailableError("the server stops")
        future: Future[T] = Future()
        self._requests.put(Request(work, future))
        while True:
            try:
                return future.result(timeout=1.0)
            except TimeoutError:
                if future.done() or not self._thread.is_alive():  # the thread ended before it came to this
                    raise StoreUnavailableError("the server stops") from None

    def _loop(self) -> None:
        due = 0.0
        while True:
            batch, ended = self._gather(max(due - time.monotonic(), 0.0))
            if batch:
                self._write(batch)
            if time.monotonic() >= due and not ended:
                self._write([Request(self.regular, Future())])
                due = time.monotonic() + PAUSE
            if ended:
                self._drop_connection()
                return

    def _gather(self, wait: float) -> tuple[list[Request], bool]:
        batch: list[Request] = []
        try:
            first = self._requests.get(timeout=wait) if wait > 0 else self._requests.get_nowait()
            while first is not None:
                batch.append(first)
                if len(batch) == BATCH:
                    return batch, False
                first = self._requests.get_nowait()
        except queue.Empty:
            return batch, False
        return batch, True

    def _write(self, batch: list[Request]) -> None:
        try:
            results = self._run_transaction(batch)
        except Exception as error:
            self._drop_connection()
            self.recover()
            if len(batch) > 1:
                for each in batch:
                    self._write([each])
                return
            self._fail(batch[0], error)
            return
        if any(isinstance(request.run, Answer) for request in batch):
            self._failed_at = -math.inf
        _settle([(request.future, result, None) for request, result in zip(batch, results, strict=True)])

    def _fail(self, request: Request, error: Exception) -> None:
        if isinstance(error, SQLAlchemyError | OSError) or type(error).__module__.startswith(("sqlite3", "psycopg")):
            if not isinstance(error, IntegrityError):
                self._failed_at = time.monotonic()
            log.warning("the database failed", extra={"error": type(error).__name__})
            _settle([(request.future, None, StoreUnavailableError(str(error)))])
            return
        if request.run is self.regular:
            log.error("the regular work failed", exc_info=error)
        _settle([(request.future, None, error)])

    def _run_transaction(self, batch: list[Request]) -> list[Any]:
        self.store.check_file()
        if self._connection is None:
            self._connection = self.store.connect_writer()
        connection = self._connection
        with connection.begin():
            cursor = connection.connection.cursor()
            work = Work(connection, cursor, self.store.clock.now())
            results = self._run_all(work, batch)
            cursor.close()
        self.n_commits += 1
        return results

    def _run_all(self, work: Work, batch: list[Request]) -> list[Any]:
        """Answers together, which is quicker; then everything else in the order in which it came."""
        answers = [request.run for request in batch if isinstance(request.run, Answer)]
        stored = iter(self.submit_many(work, answers) if answers else ())
        return [next(stored) if isinstance(request.run, Answer) else request.run(work) for request in batch]

    def _drop_connection(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(Exception):
                self._connection.invalidate()
            with contextlib.suppress(Exception):
                self._connection.close()
            self._connection = None


def _settle(outcomes: list[tuple[Any, Any, BaseException | None]]) -> None:
    """Tell all who wait. An event loop is woken once, however many of them are on it."""
    loops: dict[Any, list[tuple[Any, Any, BaseException | None]]] = {}
    for outcome in outcomes:
        if isinstance(outcome[0], asyncio.Future):
            loops.setdefault(outcome[0].get_loop(), []).append(outcome)
        else:
            _tell(*outcome)
    for loop, waiting in loops.items():
        with contextlib.suppress(RuntimeError):  # the loop has been closed: the server stops
            loop.call_soon_threadsafe(_tell_all, waiting)


def _tell_all(waiting: list[tuple[Any, Any, BaseException | None]]) -> None:
    for outcome in waiting:
        _tell(*outcome)


def _tell(future: Any, result: Any, error: BaseException | None) -> None:
    if not future.done():  # the client may have gone
        future.set_exception(error) if error is not None else future.set_result(result)
