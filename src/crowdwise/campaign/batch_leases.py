"""The answers of one transaction in three statements, for PostgreSQL: each statement is a journey to another process.

As in `leases.py`, in the order fill, write, take, but for all answers of the batch at once. Whatever does not go the
usual way (a skip, a second answer of the same worker, a lease that ran out) is done one by one afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crowdwise.campaign.leases import ACCEPTED, Answer, Leases, Outcome
from crowdwise.campaign.tables import ANSWERED, FREE, LEASED

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["BatchLeases"]

FILL = (
    f"UPDATE slots AS s SET state = {ANSWERED}, expires = NULL FROM unnest(%s::int[], %s::int[]) AS g(task, worker) "  # noqa: S608
    f"WHERE s.task_id = g.task AND s.worker_id = g.worker AND s.state = {LEASED} RETURNING s.task_id, s.worker_id"
)
WRITE = (
    "INSERT INTO answers (task_id, worker_id, revision, kind, answer, client_key, created, seconds) "
    "SELECT g.task, g.worker, COALESCE((SELECT MAX(a.revision) + 1 FROM answers AS a WHERE a.task_id = g.task "
    "AND a.worker_id = g.worker), 0), 'answer', g.answer, g.key, %s, g.seconds "
    "FROM unnest(%s::int[], %s::int[], %s::text[], %s::text[], %s::float8[]) AS g(task, worker, answer, key, seconds) "
    "ON CONFLICT (worker_id, client_key) DO NOTHING RETURNING task_id, worker_id"
)
TAKE = (
    "WITH wanted AS (SELECT * FROM unnest(%s::int[], %s::int[], %s::int[]) AS w(task, worker, place)), "  # noqa: S608
    f"locked AS (SELECT task_id, slot FROM slots WHERE task_id = ANY(%s::int[]) AND state = {FREE} "
    "ORDER BY task_id, slot FOR UPDATE SKIP LOCKED), "
    "free AS (SELECT task_id, slot, row_number() OVER (PARTITION BY task_id ORDER BY slot) AS place FROM locked) "
    f"UPDATE slots AS s SET worker_id = w.worker, state = {LEASED}, expires = %s "
    "FROM wanted AS w JOIN free AS f ON f.task_id = w.task AND f.place = w.place "
    f"WHERE s.task_id = f.task_id AND s.slot = f.slot AND s.state = {FREE} AND NOT EXISTS "
    "(SELECT 1 FROM slots AS o WHERE o.task_id = w.task AND o.worker_id = w.worker) RETURNING s.task_id, s.worker_id"
)
AGAIN = (
    f"UPDATE slots AS s SET state = {LEASED}, expires = %s FROM unnest(%s::int[], %s::int[]) AS g(task, worker) "  # noqa: S608
    f"WHERE s.task_id = g.task AND s.worker_id = g.worker AND s.state = {ANSWERED}"
)
LOCK = "SELECT pg_advisory_xact_lock(7236174, w) FROM (SELECT unnest(%s::int[]) AS w ORDER BY w) AS workers"
COUNT = (
    f"SELECT worker_id, COUNT(*) FROM slots WHERE worker_id = ANY(%s::int[]) AND state = {ANSWERED} GROUP BY worker_id"  # noqa: S608
)
HOLDERS = f"SELECT DISTINCT worker_id FROM slots WHERE worker_id = ANY(%s::int[]) AND state = {LEASED}"  # noqa: S608


class BatchLeases(Leases):
    """The statements of PostgreSQL, for many answers at once."""

    def prepare_workers(self, cursor: Any, workers: Iterable[int]) -> None:
        """Count the answers of some workers anew, and keep other servers off them until the transaction ends.

        Only where there is a limit of answers for each worker: two servers that each count their own would allow twice
        as many.
        """
        wanted = sorted(set(workers))
        if not self.per_worker or not wanted:
            return
        cursor.execute(LOCK, (wanted,))
        cursor.execute(COUNT, (wanted,))
        found = dict(cursor.fetchall())
        self.queue.answered.update((worker, found.get(worker, 0)) for worker in wanted)

    def submit_many(self, cursor: Any, batch: list[Answer], now: float) -> list[Outcome]:
        """Store the answers of one transaction."""
        usual: dict[int, Answer] = {}
        for given in batch:
            is_usual = given.answer is not None and given.n_next <= 1 and not self.is_at_limit(given.worker)
            if is_usual and given.worker not in usual:
                usual[given.worker] = given
        stored = self._store(cursor, list(usual.values()), now)
        taken = self._take_many(cursor, [given for given in stored if given.n_next], now)
        outcomes = []
        for given in batch:
            if usual.get(given.worker) is not given or given not in stored:
                outcomes.append(self.submit(cursor, given, now))
                continue
            task = taken.get(given.worker)
            tasks = (task,) if task is not None else self.lease_after(cursor, given, now)
            outcomes.append(Outcome(ACCEPTED, tasks, given.task))
        return outcomes

    def _store(self, cursor: Any, batch: list[Answer], now: float) -> set[Answer]:
        """Fill the slots that are held and write their answers; returns those that went this way."""
        if len(batch) < 2:
            return set()
        by_pair = {(given.task, given.worker): given for given in batch}
        cursor.execute(FILL, tuple(map(list, zip(*by_pair, strict=True))))
        filled = [by_pair[task, worker] for task, worker in cursor.fetchall()]
        if not filled:
            return set()
        columns = [(g.task, g.worker, g.answer, g.key, g.seconds) for g in filled]
        cursor.execute(WRITE, (now, *map(list, zip(*columns, strict=True))))
        written = {by_pair[task, worker] for task, worker in cursor.fetchall()}
        if unwritten := [(g.task, g.worker) for g in filled if g not in written]:  # the key belongs to another answer
            cursor.execute(AGAIN, (now + self.lease_seconds, *map(list, zip(*unwritten, strict=True))))
        for given in written:
            self.note_answer(given)
        return written

    def _find_holders(self, cursor: Any, workers: list[int]) -> set[int]:
        """Workers who hold other tasks, where that counts towards a limit."""
        if not self.per_worker or not workers:
            return set()
        cursor.execute(HOLDERS, (workers,))
        return {worker for (worker,) in cursor.fetchall()}

    def _take_many(self, cursor: Any, batch: list[Answer], now: float) -> dict[int, int]:
        """A task for each worker, as the queue proposes; without those for whom its proposal was wrong."""
        wanted, places = [], dict[int, int]()
        holders = self._find_holders(cursor, [given.worker for given in batch])
        for given in batch:
            if given.worker in holders or self.count_allowed(given.worker, 0, 1) < 1:
                continue
            task = next(self.queue.candidates(given.worker), None)
            if task is not None:
                places[task] = places.get(task, 0) + 1
                wanted.append((task, given.worker, places[task]))
                self.queue.change(task, 1)
                self.n_leased += 1
        if not wanted:
            return {}
        columns = list(map(list, zip(*wanted, strict=True)))
        cursor.execute(TAKE, (*columns, columns[0], now + self.lease_seconds))
        taken = {worker: task for task, worker in cursor.fetchall()}
        for task, worker, _ in wanted:
            if taken.get(worker) == task:
                self.queue.seen[worker].add(task)
            else:
                self.n_leased -= 1
                self.queue.change(task, -1)
                self.note_refused(cursor, worker, task)
        return taken
