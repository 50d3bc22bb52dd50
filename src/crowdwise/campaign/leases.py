"""Which task a worker has next, and where their answer goes: every statement of the hot path, in plain SQL.

What keeps the promises is in the database, so that they hold for any number of servers and after any kill:

| promise | kept by |
|---|---|
| a task has at most `per_task` answers | it has that many rows in `slots`, and an answer needs one of them |
| a worker answers a task once | unique (task, worker) in `slots`, unique (task, worker, revision) in `answers` |
| what is sent twice counts once | unique (worker, client key) in `answers` |
| what a worker holds is given back | a lease has an end, and `sweep` frees what is past it |

On PostgreSQL a free slot is taken by `SELECT … FOR UPDATE SKIP LOCKED`, so that servers do not wait for each other; on
SQLite there is one writer at a time. A function here runs within the transaction of its caller.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from crowdwise.campaign.tables import ANSWERED, CLOSED, FREE, LEASED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crowdwise.campaign.task_queue import TaskQueue

__all__ = ["ACCEPTED", "BARRED", "REPEATED", "Answer", "Leases", "Outcome"]

ACCEPTED, REPEATED, BARRED = "accepted", "repeated", "barred"
TRIES = 24  # candidates of the queue that are tried before the database is asked for any


class Outcome(NamedTuple):
    """What became of a request.

    Attributes
    ----------
    status
        ACCEPTED, REPEATED (it was there already), or why it was refused: BARRED (the worker may not work), "full",
        "answered", "key", "limit", "nothing".
    tasks
        Tasks that the worker holds now.
    task
        The task that was answered, skipped or taken back.
    """

    status: str
    tasks: tuple[int, ...] = ()
    task: int | None = None


@dataclass(frozen=True)
class Answer:
    """An answer or a skip as it came in; `answer` is JSON text, None for a skip."""

    worker: int
    task: int
    key: str
    answer: str | None
    reason: str | None = None
    seconds: float | None = None
    n_next: int = 1


class Leases:
    """The statements of one database.

    Parameters
    ----------
    is_sqlite
        How parameters are written, and whether rows are locked.
    queue
        Which tasks to try first.
    lease_seconds
        How long a worker holds a task.
    room
        How many questions may still be given out.
    late_room
        How many answers may still be bought, of questions that are not out any more.
    """

    def __init__(
        self,
        *,
        is_sqlite: bool,
        queue: TaskQueue,
        lease_seconds: float,
        room: Callable[[], int] = lambda: 1 << 60,
        late_room: Callable[[], int] = lambda: 1 << 60,
        per_worker: int = 0,
    ) -> None:
        self.queue, self.lease_seconds, self.per_worker = queue, lease_seconds, per_worker
        self.room, self.late_room = room, late_room
        self.n_leased = self.n_answers = 0  # in the whole campaign, as far as is known here
        self.touched: set[int] = set()  # tasks that may have been finished since somebody looked

        def line(text: str) -> str:
            return text if is_sqlite else text.replace("?", "%s")

        lock = "" if is_sqlite else " FOR UPDATE SKIP LOCKED"
        free = f"(SELECT slot FROM slots WHERE task_id = ? AND state = {FREE} ORDER BY slot LIMIT 1{lock})"
        self._keys = line("SELECT task_id, kind, answer FROM answers WHERE worker_id = ? AND client_key = ?")
        self._held = line(f"SELECT task_id FROM slots WHERE worker_id = ? AND state = {LEASED} AND expires > ?")
        self._take = line(
            f"UPDATE slots SET worker_id = ?, state = ?, expires = ? WHERE task_id = ? AND slot = {free} "
            f"AND state = {FREE} AND NOT EXISTS (SELECT 1 FROM slots WHERE task_id = ? AND worker_id = ?)"
        )
        self._fill = line(
            f"UPDATE slots SET state = {ANSWERED}, expires = NULL "
            f"WHERE task_id = ? AND worker_id = ? AND state = {LEASED}"
        )
        freed = (  # of a task that was stopped, nobody takes the place
            f"state = CASE (SELECT state FROM tasks WHERE tasks.id = slots.task_id) WHEN 'open' THEN {FREE} "
            f"ELSE {CLOSED} END, worker_id = NULL, expires = NULL"
        )
        self._free = line(f"UPDATE slots SET {freed} WHERE task_id = ? AND worker_id = ? AND state = {LEASED}")
        self._again = line(
            f"UPDATE slots SET state = {LEASED}, expires = ? WHERE task_id = ? AND worker_id = ? AND state = {ANSWERED}"
        )
        self._state = line("SELECT state FROM slots WHERE task_id = ? AND worker_id = ?")
        self._insert = line(
            "INSERT INTO answers (task_id, worker_id, revision, kind, answer, reason, client_key, created, seconds) "
            "VALUES (?, ?, COALESCE((SELECT MAX(revision) + 1 FROM answers WHERE task_id = ? AND worker_id = ?), 0), "
            "?, ?, ?, ?, ?, ?) ON CONFLICT (worker_id, client_key) DO NOTHING"
        )
        self._last = line(
            "SELECT task_id, kind FROM answers AS a WHERE worker_id = ? AND kind = 'answer' AND NOT EXISTS (SELECT 1 "
            "FROM answers AS b WHERE b.task_id = a.task_id AND b.worker_id = a.worker_id AND b.revision > a.revision) "
            "ORDER BY id DESC LIMIT 1"
        )
        self._any = line(
            f"SELECT s.task_id FROM slots AS s JOIN tasks AS t ON t.id = s.task_id WHERE s.state = {FREE} "
            "AND t.state = 'open' AND t.gold IS NULL AND NOT EXISTS (SELECT 1 FROM slots AS o WHERE "
            "o.task_id = s.task_id AND o.worker_id = ?) AND COALESCE((SELECT a.kind FROM answers AS a WHERE "
            "a.task_id = s.task_id AND a.worker_id = ? ORDER BY a.revision DESC LIMIT 1), 'undo') = 'undo' LIMIT 1"
        )
        self._ended = line(f"SELECT task_id, worker_id FROM slots WHERE state = {LEASED} AND expires <= ?{lock}")
        self._leave = line(f"UPDATE slots SET {freed} WHERE state = {LEASED} AND worker_id = ? RETURNING task_id")
        among = "IN (SELECT value FROM json_each(?))" if is_sqlite else "= ANY(%s::int[])"
        self._as_list: Callable[[list[int]], Any] = json.dumps if is_sqlite else list
        self._finish = line(
            f"UPDATE tasks SET state = 'finished', reason = 'cap', finished = ? WHERE id {among} AND state = 'open' "
            f"AND (SELECT COUNT(*) FROM slots WHERE task_id = tasks.id AND state IN ({FREE}, {LEASED})) = 0 "
            "RETURNING id"
        )
        self._reopen = line(  # what the manager stopped stays stopped
            "UPDATE tasks SET state = 'open', reason = '', finished = NULL "
            "WHERE id = ? AND substr(reason, 1, 7) <> 'manager'"
        )
        self._taken = line(f"SELECT COUNT(*) FROM slots WHERE task_id = ? AND state <> {FREE}")
        self._open_slots = line(f"UPDATE slots SET state = {FREE} WHERE task_id = ? AND state = {CLOSED}")

    def lease(self, cursor: Any, worker: int, n: int, now: float) -> tuple[int, ...]:
        """Tasks that the worker holds: those they have, and new ones until there are `n`, where there are any."""
        cursor.execute(self._held, (worker, now))
        return self.lease_more(cursor, worker, [row[0] for row in cursor.fetchall()], n, now)

    def lease_more(self, cursor: Any, worker: int, held: list[int], n: int, now: float) -> tuple[int, ...]:
        """The tasks that are held, and new ones until there are `n`."""
        n = self.count_allowed(worker, len(held), n)
        if len(held) >= n:
            return tuple(held[:n])
        while len(held) < n and (task := self._take_next(cursor, worker, now, held)) is not None:
            held.append(task)
        return tuple(held)

    def count_allowed(self, worker: int, n_held: int, n: int) -> int:
        """How many of `n` tasks a worker may hold, given the budget and the limit of answers for each worker."""
        n = min(n, n_held + max(self.room(), 0))
        return max(min(n, self.per_worker - self.queue.answered[worker]), 0) if self.per_worker else n

    def _take_next(self, cursor: Any, worker: int, now: float, held: list[int]) -> int | None:
        for tried, task in enumerate(self.queue.candidates(worker, held)):
            if self._take_slot(cursor, worker, task, LEASED, now + self.lease_seconds):
                return task
            self.note_refused(cursor, worker, task)
            if tried == TRIES:
                break
        cursor.execute(self._any, (worker, worker))
        row = cursor.fetchone()
        if row is not None and self._take_slot(cursor, worker, row[0], LEASED, now + self.lease_seconds):
            return int(row[0])
        return None

    def note_refused(self, cursor: Any, worker: int, task: int) -> None:
        """Remember why a task could not be taken: this worker has had it on another server, or it is full."""
        cursor.execute(self._state, (task, worker))
        if cursor.fetchone() is None:
            self.queue.mark_full(task)
        else:
            self.queue.seen[worker].add(task)

    def _take_slot(self, cursor: Any, worker: int, task: int, state: int, expires: float | None) -> bool:
        cursor.execute(self._take, (worker, state, expires, task, task, task, worker))
        if cursor.rowcount != 1:
            return False
        self.queue.change(task, 1)
        self.queue.seen[worker].add(task)
        self.n_leased += 1  # an answer without a lease is counted as one when it is noted
        return True

    def submit(self, cursor: Any, given: Answer, now: float) -> Outcome:
        """Store an answer or a skip; a task that was answered or is full is refused.

        The usual way is three statements: the worker's lease becomes an answered slot, the answer is written, the next
        slot is taken. What does not go that way (sent twice, a lease that ran out) is looked at closely.
        """
        held = False
        if given.answer is None or not self.is_at_limit(given.worker):
            cursor.execute(self._free if given.answer is None else self._fill, (given.task, given.worker))
            held = cursor.rowcount == 1
        if not held and (refused := self.look_closely(cursor, given, now)) is not None:
            return refused
        if given.answer is None and held:
            self.queue.change(given.task, -1)
            self.n_leased -= 1
        if not self._write(cursor, given, "skip" if given.answer is None else "answer", now):
            if given.answer is not None:  # the key belongs to another answer
                cursor.execute(self._again, (now + self.lease_seconds, given.task, given.worker))
            elif held:
                self._take_slot(cursor, given.worker, given.task, LEASED, now + self.lease_seconds)
            return Outcome("key", (), given.task)
        self.note_answer(given)
        return Outcome(ACCEPTED, self.lease_after(cursor, given, now), given.task)

    def note_answer(self, given: Answer) -> None:
        """Remember an answer that was written."""
        self.queue.answered[given.worker] += given.answer is not None
        self.n_answers += given.answer is not None
        self.n_leased -= given.answer is not None
        self.queue.seen[given.worker].add(given.task)
        self.touched.add(given.task)

    def lease_after(self, cursor: Any, given: Answer, now: float) -> tuple[int, ...]:
        """The next tasks of a worker who has just answered; one who holds one at a time holds none now.

        Where there is a limit of answers for each worker, what else they hold counts towards it.
        """
        if given.n_next > 1 or self.per_worker:
            return self.lease(cursor, given.worker, given.n_next, now)
        return self.lease_more(cursor, given.worker, [], given.n_next, now)

    def submit_many(self, cursor: Any, batch: list[Answer], now: float) -> list[Outcome]:
        """Store the answers of one transaction."""
        return [self.submit(cursor, given, now) for given in batch]

    def look_closely(self, cursor: Any, given: Answer, now: float) -> Outcome | None:
        """What becomes of an answer without a lease; None if a slot was free for it."""
        cursor.execute(self._keys, (given.worker, given.key))
        if (stored := cursor.fetchone()) is not None:
            kind = "skip" if given.answer is None else "answer"
            same = tuple(stored) == (given.task, kind, given.answer)
            tasks = self.lease(cursor, given.worker, given.n_next, now) if same else ()
            return Outcome(REPEATED if same else "key", tasks, given.task)
        has_room = self._has_room(given.worker)
        is_wanted = given.answer is not None and has_room
        if is_wanted and self._take_slot(cursor, given.worker, given.task, ANSWERED, None):
            return None
        cursor.execute(self._state, (given.task, given.worker))
        is_answered = cursor.fetchone() == (ANSWERED,)
        if given.answer is None and not is_answered:
            return None
        status = "answered" if is_answered else "full" if has_room else "limit"
        return Outcome(status, self.lease(cursor, given.worker, given.n_next, now), given.task)

    def _has_room(self, worker: int) -> bool:
        """Whether an answer to a question that the worker does not hold any more may be bought."""
        return self.late_room() > 0 and not self.is_at_limit(worker)

    def is_at_limit(self, worker: int) -> bool:
        """Whether a worker has given all the answers that one may give."""
        return 0 < self.per_worker <= self.queue.answered[worker]

    def prepare_workers(self, cursor: Any, workers: Iterable[int]) -> None:
        """Before answers or questions of some workers: see what other servers know of them, where there are others."""

    def _write(self, cursor: Any, given: Answer, kind: str, now: float) -> bool:
        """Write a row of answers; False if the worker has used the key already."""
        pair = (given.task, given.worker)
        cursor.execute(self._insert, (*pair, *pair, kind, given.answer, given.reason, given.key, now, given.seconds))
        return bool(cursor.rowcount == 1)

    def undo(self, cursor: Any, worker: int, key: str, now: float) -> Outcome:
        """Take the worker's last answer back, and give them its task again; other tasks that they hold are freed."""
        cursor.execute(self._keys, (worker, key))
        stored = cursor.fetchone()
        if stored is not None:
            return Outcome(REPEATED if stored[1] == "undo" else "key", self.lease(cursor, worker, 1, now), stored[0])
        cursor.execute(self._last, (worker,))
        last = cursor.fetchone()
        if last is None:
            return Outcome("nothing", self.lease(cursor, worker, 1, now))
        task = int(last[0])
        self.leave(cursor, worker)
        cursor.execute(self._again, (now + self.lease_seconds, task, worker))
        if cursor.rowcount != 1:  # the place was given to somebody else, as after an exclusion
            return Outcome("nothing", self.lease(cursor, worker, 1, now))
        self._write(cursor, Answer(worker, task, key, None), "undo", now)
        self.queue.answered[worker] -= 1
        self.n_answers -= 1
        self.n_leased += 1
        cursor.execute(self._reopen, (task,))
        if cursor.rowcount:
            cursor.execute(self._open_slots, (task,))
            cursor.execute(self._taken, (task,))
            self.queue.add(task, cursor.fetchone()[0])
        return Outcome(ACCEPTED, (task,), task)

    def leave(self, cursor: Any, worker: int) -> None:
        """Free what a worker holds; they may be asked it again."""
        cursor.execute(self._leave, (worker,))
        for (task,) in cursor.fetchall():
            self._note_freed(worker, task)

    def _note_freed(self, worker: int, task: int) -> None:
        """Remember that a worker gave no answer to a question that was theirs: it may be asked of them again."""
        self.queue.change(task, -1)
        self.queue.seen[worker].discard(task)
        self.n_leased -= 1

    def sweep(self, cursor: Any, now: float) -> int:
        """Free what was held too long, so that anybody may be asked it (again); returns how many places."""
        cursor.execute(self._ended, (now,))
        ended = cursor.fetchall()
        for task, worker in ended:
            cursor.execute(self._free, (task, worker))
            self._note_freed(worker, task)
        return len(ended)

    def finish_full(self, cursor: Any, now: float) -> list[int]:
        """Mark tasks finished that have all their answers; returns them."""
        if not self.touched:
            return []
        cursor.execute(self._finish, (now, self._as_list(sorted(self.touched))))
        finished = [row[0] for row in cursor.fetchall()]
        for task in finished:
            self.queue.close(task)
        self.touched.clear()
        return finished
