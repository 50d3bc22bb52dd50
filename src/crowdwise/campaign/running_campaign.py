"""A campaign that runs: its database, the thread that writes, what is held in memory, what workers may ask of it."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from crowdwise.campaign import tables as db
from crowdwise.campaign.answer_tables import counted_answers
from crowdwise.campaign.batch_leases import BatchLeases
from crowdwise.campaign.database import explain_failure
from crowdwise.campaign.images import import_images
from crowdwise.campaign.leases import ACCEPTED, BARRED, Answer, Leases, Outcome
from crowdwise.campaign.security import Signer, hash_password
from crowdwise.campaign.store import Store, open_store
from crowdwise.campaign.task_files import Task, read_tasks
from crowdwise.campaign.task_queue import TaskQueue
from crowdwise.campaign.writer import Work, Writer
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from crowdwise.campaign.project import Project

__all__ = ["Campaign", "KnownTask", "KnownWorker", "open_campaign"]

log = logging.getLogger("crowdwise.campaign")
IMAGES = "media"  # folder of the images, beside the project
OPEN = "open"  # among a worker's details: they came by the open link
INVITED = "invited"  # they were sent a personal link afterwards
NEAR = 5_000  # questions: below this, every server counts them anew before it gives one out
REFRESH = 2.0  # seconds after which what another server changed is known here


@dataclass(frozen=True, slots=True)
class KnownWorker:
    """A worker as held in memory."""

    id: int
    name: str
    state: str
    reason: str
    link: int


@dataclass(frozen=True, slots=True)
class KnownTask:
    """A task as held in memory; `content` is what it shows."""

    id: int
    name: str
    content: dict[str, str]
    has_gold: bool


def open_campaign(project: Project, *, add_tasks: bool = True) -> Campaign:
    """Open the database of a project, migrated, and add the tasks of its file that are new."""
    tasks = read_tasks(project) if add_tasks else []
    store = open_store(project)
    try:
        store.claim_file()
        store.check_answers()
        store.fit_leases()
        store.fit_slots()
        store.update_tasks(tasks)
        store.check_images(project.folder / IMAGES)
        if new := store.list_new(tasks):
            store.add_tasks(import_images(project, new, project.folder / IMAGES))
        return Campaign(project, store)
    except sa.exc.DatabaseError as error:
        store.close()
        raise explain_failure(store.engine, error) from error
    except BaseException:
        store.close()
        raise


class Campaign:
    """A campaign that runs.

    Attributes
    ----------
    tasks, workers
        Every task and worker, by their number; `worker_numbers` by name.
    """

    def __init__(self, project: Project, store: Store) -> None:
        self.project, self.store = project, store
        self.images = project.folder / IMAGES
        try:
            self.signer = Signer(store.write_setting("secret", secrets.token_hex(32), replace=False))
        except ValueError as error:
            raise InputError("The key in the campaign's database is damaged. Take its latest backup.") from error
        self.paused = store.read_setting("paused") == "yes"
        self.tasks: dict[int, KnownTask] = {}
        self.task_numbers: dict[str, int] = {}
        self.workers: dict[int, KnownWorker] = {}
        self.worker_numbers: dict[str, int] = {}
        self.changed = 0  # grows whenever an answer came, so that watchers know
        self._refreshed = 0.0
        self._newest_answer = 0
        self.queue = TaskQueue(project.per_task, project.gold_share, fewest_first=project.policy != "uniform")
        make = Leases if store.is_sqlite else BatchLeases
        self.leases = make(
            is_sqlite=store.is_sqlite,
            queue=self.queue,
            lease_seconds=project.lease_seconds,
            room=lambda: 0 if self.paused else self._budget_left(),
            late_room=self._budget_left,
            per_worker=project.per_worker,
        )
        self.writer = Writer(store, submit_many=self._submit_many, regular=self._do_regular_work, recover=self.load)
        self.load()

    @property
    def n_answers(self) -> int:
        """Answers that count."""
        return self.leases.n_answers

    @property
    def n_leased(self) -> int:
        """Questions that workers have before them."""
        return self.leases.n_leased

    def start(self) -> None:
        """Begin to take answers."""
        self.writer.start()

    def stop(self) -> None:
        """Write what is waiting, and close the database."""
        self.writer.stop()
        self.store.close()

    # ---- what is held in memory ---------------------------------------------------------------------------

    def load(self) -> None:
        """Read the state of the campaign from the database, as after a start or a failed transaction."""
        try:
            with self.store.read() as connection:
                self._load_tasks(connection)
                self.load_workers(connection)
                self.load_queue(connection)
                self.count_answers(connection)
        except sa.exc.SQLAlchemyError as error:  # the database is away: the next transaction tries again
            log.warning("the state cannot be read", extra={"error": type(error).__name__})

    def _load_tasks(self, connection: sa.Connection) -> list[int]:
        """Read the tasks that are not known here; returns their numbers."""
        newest = max(self.tasks, default=0)
        columns = (db.tasks.c.id, db.tasks.c.name, db.tasks.c.content, db.tasks.c.gold)
        for number, name, content, gold in connection.execute(sa.select(*columns).where(db.tasks.c.id > newest)):
            try:
                self.tasks[number] = KnownTask(number, name, json.loads(content), gold is not None)
            except ValueError as error:
                raise InputError(f"Task {quote(name)} in the database is damaged. Take its latest backup.") from error
            self.task_numbers[name] = number
            if gold is not None:
                self.queue.note_gold(number)
        only_gold = all(
            task.has_gold for task in self.tasks.values()
        )  # a test of workers: there is nothing else to ask
        self.queue.gold_share = 1.0 if only_gold else self.project.gold_share
        return [number for number in self.tasks if number > newest]

    def load_workers(self, connection: sa.Connection) -> None:
        """Read every worker."""
        found = {row.id: KnownWorker(row.id, row.name, row.state, row.reason, row.link)
                 for row in connection.execute(sa.select(db.workers))}  # fmt: skip
        self.workers = found
        self.worker_numbers = {worker.name: worker.id for worker in found.values()}

    def load_queue(self, connection: sa.Connection) -> None:
        """Read which tasks are open, how many of their places are taken, and who has had them."""
        queue, slots = self.queue, db.slots.c
        queue.seen.clear()
        queue.answered.clear()
        open_tasks = dict.fromkeys(
            connection.execute(sa.select(db.tasks.c.id).where(db.tasks.c.state == "open")).scalars(), 0
        )
        taken = sa.select(slots.task_id, sa.func.count()).where(slots.state != db.FREE).group_by(slots.task_id)
        open_tasks.update((task, n) for task, n in connection.execute(taken) if task in open_tasks)
        for task in [task for task in queue.taken if task not in open_tasks]:
            queue.close(task)
        for task, n in open_tasks.items():
            queue.add(task, n)
        answers = db.answers.c
        given = sa.select(answers.id, answers.worker_id, answers.task_id, answers.kind).order_by(answers.id)
        self._note_seen(connection.execute(given))
        held = sa.select(slots.worker_id, slots.task_id, slots.state).where(slots.worker_id.is_not(None))
        for worker, task, state in connection.execute(held):
            queue.seen[worker].add(task)
            queue.answered[worker] += state == db.ANSWERED
        self.leases.touched |= {task for task, n in open_tasks.items() if n >= self.project.per_task}

    def _note_seen(self, rows: Iterable[Any]) -> None:
        """Know who has had which task, of rows of answers in their order; who takes an answer back is asked again."""
        for number, worker, task, kind in rows:
            if kind == "undo":
                self.queue.seen[worker].discard(task)
            else:
                self.queue.seen[worker].add(task)
            self._newest_answer = max(self._newest_answer, number)

    def count_answers(self, connection: sa.Connection) -> None:
        """Count answers and leases."""
        counts = sa.select(db.slots.c.state, sa.func.count()).where(db.slots.c.state.in_((db.LEASED, db.ANSWERED)))
        found: dict[int, int] = dict(connection.execute(counts.group_by(db.slots.c.state)).all())
        self.leases.n_leased, self.leases.n_answers = found.get(db.LEASED, 0), found.get(db.ANSWERED, 0)

    def _budget_left(self) -> int:
        return self.project.budget - self.n_answers - self.n_leased if self.project.budget else 1 << 60

    def _do_regular_work(self, work: Work) -> None:
        """Free what was held too long, mark what is finished, and see what another server changed."""
        self.leases.sweep(work.cursor, work.now)
        self.announce_finished(work, self.leases.finish_full(work.cursor, work.now))
        if time.monotonic() - self._refreshed > REFRESH:
            self.load_new(work)
            self.load_workers(work.connection)
            before = self.n_answers
            self.count_answers(work.connection)
            self.changed += before != self.n_answers
            if not self.store.is_sqlite:
                self._see_other_servers(work)
            paused = work.connection.execute(sa.select(db.settings.c.value).where(db.settings.c.name == "paused"))
            self.paused = paused.scalar() == "yes"
            self._refreshed = time.monotonic()

    def _see_other_servers(self, work: Work) -> None:
        """Close tasks that another server finished; know what workers answered or skipped there."""
        tasks, answers, execute = db.tasks.c, db.answers.c, work.connection.execute
        recent = sa.select(tasks.id).where(tasks.state != "open", tasks.finished > work.now - 30 * REFRESH)
        for task in execute(recent).scalars():
            self.queue.close(task)
        # Numbers of answers are given before their commit, so that a lower one may come to be seen later.
        line = sa.select(answers.id, answers.worker_id, answers.task_id, answers.kind)
        self._note_seen(execute(line.where(answers.id > self._newest_answer - 1_000).order_by(answers.id)))
        n_open = execute(sa.select(sa.func.count()).where(tasks.state == "open")).scalar_one()
        if n_open != len(self.queue.taken):
            self.load_queue(work.connection)

    def announce_finished(self, work: Work, finished: Iterable[int]) -> None:
        """Put a message for every webhook into the database, in the transaction that finishes the tasks."""
        for task in finished:
            body = json.dumps({"event": "task.finished", "task": self.tasks[task].name, "time": work.now})
            for address in self.project.webhooks:
                work.connection.execute(db.deliveries.insert().values(address=address, body=body, due=work.now))

    # ---- what workers ask ---------------------------------------------------------------------------------

    async def lease(self, worker: int, n: int = 1) -> Outcome:
        """Tasks for a worker."""
        return await self.writer.run(lambda work: self._lease(work, worker, n))

    def _lease(self, work: Work, worker: int, n: int) -> Outcome:
        if not self._find_active(work, [worker]):
            return Outcome(BARRED)
        self._prepare(work, [worker])
        return self._know(work, Outcome(ACCEPTED, self.leases.lease(work.cursor, worker, n, work.now)))

    def _know(self, work: Work, outcome: Outcome) -> Outcome:
        """The same, after loading what another server has just added if the worker holds it."""
        if any(task not in self.tasks for task in outcome.tasks):
            self.load_new(work)
        return outcome

    def _prepare(self, work: Work, workers: list[int]) -> None:
        """See what other servers gave out, before questions or answers that the budget or a worker's limit may end."""
        if self.store.is_sqlite:
            return
        if self._budget_left() < NEAR:
            work.connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7236175)")
            self.count_answers(work.connection)
        self.leases.prepare_workers(work.cursor, workers)

    def _find_active(self, work: Work, workers: Iterable[int]) -> set[int]:
        """Those of some workers who may work now: they may have been excluded since their request began.

        On PostgreSQL another server may have excluded them, or may be about to: it waits until this transaction ends,
        and frees what is answered here.
        """
        if self.store.is_sqlite:
            return {worker for worker in workers if worker in self.workers and self.workers[worker].state == "active"}
        found = sa.select(db.workers.c.id).where(db.workers.c.id.in_(set(workers)), db.workers.c.state == "active")
        return set(work.connection.execute(found.with_for_update(read=True)).scalars())

    async def submit(self, given: Answer) -> Outcome:
        """Store an answer or a skip; returns once it is on disk, with the next task."""
        outcome = await self.writer.submit(given)
        self.changed += outcome.status == ACCEPTED
        return outcome

    def _submit_many(self, work: Work, batch: list[Answer]) -> list[Outcome]:
        may_work = self._find_active(work, [given.worker for given in batch])
        active = [given for given in batch if given.worker in may_work]
        self._prepare(work, [given.worker for given in active])
        stored = iter(self.leases.submit_many(work.cursor, active, work.now) if active else ())
        return [self._know(work, next(stored)) if given.worker in may_work else Outcome(BARRED) for given in batch]

    async def undo(self, worker: int, key: str) -> Outcome:
        """Take a worker's last answer back."""
        outcome = await self.writer.run(lambda work: self._undo(work, worker, key))
        self.changed += 1
        return outcome

    def _undo(self, work: Work, worker: int, key: str) -> Outcome:
        if not self._find_active(work, [worker]):
            return Outcome(BARRED)
        return self._know(work, self.leases.undo(work.cursor, worker, key, work.now))

    async def find_task(self, name: str) -> int | None:
        """The number of a task, even if another server has just added it; None if there is no such task."""
        if name not in self.task_numbers and not self.store.is_sqlite:
            await self.writer.run(self.load_new)
        return self.task_numbers.get(name)

    def counted_answers(self) -> pa.Table:
        """The answers that count, once their tasks are known here, even those that another server has just added."""
        table = counted_answers(self.store)
        if not self.task_numbers.keys() >= set(table["task"].to_pylist()):
            self.writer.run_blocking(self.load_new)
        return table

    async def leave(self, worker: int) -> None:
        """Free what a worker holds."""
        await self.writer.run(lambda work: self.leases.leave(work.cursor, worker))

    def is_invited(self, name: str) -> bool:
        """Whether a worker of this name has a personal link: nobody else may come in under their name."""
        row = self.store.find_worker(name)
        if row is None:
            return False
        details = json.loads(row.details)
        return not details or INVITED in details

    async def enter(self, name: str, details: dict[str, str] | None = None) -> KnownWorker:
        """The worker of this name who came by the open link, added if new."""
        number = self.worker_numbers.get(name)
        if number is None:
            await self.writer.run(lambda work: self.enter_within(work, name, details or {OPEN: "yes"}))
            number = self.worker_numbers[name]
        return self.workers[number]

    def enter_within(self, work: Work, name: str, details: dict[str, str]) -> None:
        """Add a worker, within a transaction."""
        # A link never begins at a number that it had before: that of a worker who was deleted stays worthless.
        link = secrets.randbelow(1 << 30)
        values = {"name": name, "details": json.dumps(details), "created": work.now, "link": link}
        work.connection.execute(self.store.insert(db.workers).values(values).on_conflict_do_nothing())
        row = work.connection.execute(sa.select(db.workers).where(db.workers.c.name == name)).one()
        self.workers[row.id] = KnownWorker(row.id, row.name, row.state, row.reason, row.link)
        self.worker_numbers[name] = row.id

    def read_link(self, token: str) -> KnownWorker | None:
        """The worker of a personal link; None if it is forged, replaced or of a worker who is gone."""
        found = self.signer.read_link(token)
        if found is None:
            return None
        name, number = found
        worker = self.workers.get(self.worker_numbers.get(name, -1))
        if worker is None or worker.link != number:  # another server may have made the link
            row = self.store.find_worker(name)
            if row is None:
                return None
            worker = KnownWorker(row.id, row.name, row.state, row.reason, row.link)
            self.workers[row.id], self.worker_numbers[name] = worker, row.id
        return worker if worker.link == number else None

    # ---- secrets of the manager ---------------------------------------------------------------------------

    def set_password(self, password: str) -> None:
        """Store the hash of the manager's password."""
        self.store.write_setting("password", hash_password(password))

    async def add_tasks(self, tasks: list[Task]) -> int:
        """Add tasks while the campaign runs; returns how many are new."""
        n_new = await asyncio.to_thread(self.store.add_tasks, tasks)
        await self.writer.run(self.load_new)
        return n_new

    def load_new(self, work: Work) -> None:
        """Know the tasks that were added since."""
        for number in self._load_tasks(work.connection):
            self.queue.add(number)

    def progress(self, worker: int) -> dict[str, Any]:
        """How far a worker is: their answers, and how many they may give (None if there is no end)."""
        done = self.queue.answered.get(worker, 0)
        return {"answered": done, "limit": self.project.per_worker or None}
