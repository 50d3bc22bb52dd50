"""A campaign's database as the campaign uses it: what managers and pages ask for.

The two questions that decide how fast a campaign is, which task comes next and where an answer goes, are in
`leases.py`.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.campaign.clock import CampaignClock
from crowdwise.campaign.installed_packages import explain_missing_package
from crowdwise.labels.errors import InputError, listing, quote

with explain_missing_package():
    import sqlalchemy as sa
    from sqlalchemy.dialects.postgresql import insert as insert_postgresql
    from sqlalchemy.dialects.sqlite import insert as insert_sqlite

    from crowdwise.campaign import tables as db
    from crowdwise.campaign.database import LEASE, open_database, say_failures
    from crowdwise.campaign.images import FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.campaign.project import Project
    from crowdwise.campaign.task_files import Task

__all__ = ["Store", "open_store"]

PROJECT = "project"  # the setting that says which project file the database belongs to


def open_store(project: Project, *, backup: bool = True) -> Store:
    """Open the campaign's database, make or migrate its tables, and return it."""
    engine = open_database(project.database_place, backup=backup)
    with say_failures(engine):
        return Store(engine, project)


class Store:
    """A campaign's database.

    Attributes
    ----------
    engine
        SQLAlchemy's.
    clock
        The campaign's time, by which leases end.
    """

    def __init__(self, engine: sa.Engine, project: Project) -> None:
        self.engine, self.project = engine, project
        self.is_sqlite = engine.dialect.name == "sqlite"
        self._file = Path(engine.url.database) if self.is_sqlite and engine.url.database else None
        self._file_number = self._file.stat().st_ino if self._file else None
        self.clock = self._make_clock()

    def _make_clock(self) -> CampaignClock:
        with self.read() as connection:
            begin = time.time()
            if not self.is_sqlite:
                begin = float(connection.exec_driver_sql("SELECT extract(epoch FROM clock_timestamp())").scalar_one())
            latest = connection.execute(sa.select(sa.func.max(db.answers.c.created))).scalar() or 0.0
            leased = connection.execute(
                sa.select(sa.func.max(db.slots.c.expires)).where(db.slots.c.state == db.LEASED)
            ).scalar()
            if leased is not None:
                lasted = connection.execute(sa.select(db.settings.c.value).where(db.settings.c.name == LEASE)).scalar()
                latest = max(latest, leased - max(float(lasted or 0), self.project.lease_seconds))
        return CampaignClock(begin, latest)

    def fit_leases(self) -> None:
        """Let no question be out for longer than the project says now; by that, the next start tells the time."""
        most = self.clock.now() + self.project.lease_seconds
        with self.write() as connection:
            connection.execute(
                db.slots.update().where(db.slots.c.state == db.LEASED, db.slots.c.expires > most).values(expires=most)
            )
        self.write_setting(LEASE, repr(float(self.project.lease_seconds)))

    def check_file(self) -> None:
        """Raise `OSError` if the file of SQLite was deleted or replaced: what is written would be lost unseen."""
        if self._file is not None and self._file.stat().st_ino != self._file_number:
            raise FileNotFoundError(str(self._file))

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A connection that only reads, and sees one moment of the database."""
        with self.engine.connect() as connection:
            yield connection.execution_options(begin="BEGIN") if self.is_sqlite else connection
            connection.rollback()

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A connection whose changes are kept when all went well."""
        with self.engine.begin() as connection:
            yield connection

    def connect_writer(self) -> sa.Connection:
        """The connection of the thread that writes.

        On PostgreSQL its statements use indexes whatever the tables' statistics say: a plan that was made while a table
        was small, and kept, would read all of it for every answer once it is large.
        """
        connection = self.engine.connect()
        if not self.is_sqlite:
            with connection.begin():
                connection.exec_driver_sql("SET enable_seqscan = off")
        return connection

    def insert(self, table: sa.Table) -> Any:
        """An INSERT that may say what to do on conflict."""
        return insert_sqlite(table) if self.is_sqlite else insert_postgresql(table)

    # ---- tasks --------------------------------------------------------------------------------------------

    def claim_file(self) -> None:
        """Note whose database it is; that of another project is refused."""
        self.check_owner()
        if self.read_setting(PROJECT) != self.project.path.name:
            self.write_setting(PROJECT, self.project.path.name)

    def check_owner(self) -> None:
        """Refuse the SQLite file of another project of the same folder, whose tasks would be mixed with these."""
        was, name = self.read_setting(PROJECT), self.project.path.name
        if self.is_sqlite and was not in (None, name) and (self.project.folder / str(was)).exists():
            raise InputError(
                f"{self.project.database_place} is the database of the project {quote(was)}. Name another one for "
                f'{name}: [server] and under it database = "{self.project.path.stem}.db".'
            )

    def check_answers(self) -> None:
        """Refuse a project whose question the answers that are there do not answer."""
        line = sa.select(db.answers.c.answer).where(db.answers.c.kind == "answer").distinct()
        if self.project.question.kind == "values":  # as many as there are numbers, and all of one kind
            line = line.limit(1)
        with self.read() as connection:
            for given in connection.execute(line).scalars():
                try:
                    answer = json.loads(given)
                    if not isinstance(answer, int | float) or self.project.question.kind != "values":
                        self.project.question.check_answer(answer)  # a scale may be narrowed later
                except InputError as error:
                    raise InputError(
                        f"{self.project.path}: the question has changed since answers were given: {error} "
                        "Put it back as it was, or name another database under [server]."
                    ) from error

    def update_tasks(self, tasks: list[Task]) -> None:
        """Take over known answers and texts that were changed in the file; a text that was answered stays."""
        with self.write() as connection:
            for number, values in self.find_changes(connection, tasks).items():
                connection.execute(db.tasks.update().where(db.tasks.c.id == number).values(values))

    def find_changes(self, connection: sa.Connection, tasks: list[Task]) -> dict[int, dict[str, str | None]]:
        """What was changed in the file of tasks, by the tasks' numbers; refuses what may not be changed any more."""
        given, found = {task.name: task for task in tasks}, {}
        rows, answered = db.tasks.c, sa.select(db.answers.c.task_id).distinct()
        was_shown = set(connection.execute(answered).scalars())
        for row in connection.execute(sa.select(rows.id, rows.name, rows.content, rows.gold)).all():
            task = given.get(row.name)
            if task is None:
                self._check_gold(row.name, row.gold)
                continue
            try:
                content, old = dict(task.content), json.loads(row.content)
            except ValueError:
                continue  # said when it is loaded
            content |= {field: old[field] for field in FIELDS if field in content and field in old}
            gold = None if task.gold is None else json.dumps(task.gold, ensure_ascii=False)
            if content == old and gold == row.gold:
                continue
            if content != old and (row.id in was_shown or content.keys() != old.keys()):
                raise InputError(
                    f"{self.project.tasks}: what task {quote(row.name)} shows has changed since it was taken in. "
                    "Put it back as it was, or give the new task another name."
                )
            found[row.id] = {"content": json.dumps(content, ensure_ascii=False), "gold": gold}
        return found

    def _check_gold(self, name: str, gold: str | None) -> None:
        """Refuse a known answer of a task, added earlier, that does not answer the question any more."""
        try:
            if gold is not None:
                self.project.question.check_answer(json.loads(gold))
        except InputError as error:
            raise InputError(
                f"{self.project.path}: the question has changed since task {quote(name)} was added, whose known answer "
                f"does not fit: {error} Put it back as it was, or name another database under [server]."
            ) from error

    def check_images(self, folder: Path) -> None:
        """Refuse to ask tasks whose images are gone: people would answer what they do not see."""
        with self.read() as connection:
            rows = connection.execute(sa.select(db.tasks.c.name, db.tasks.c.content).where(db.tasks.c.state == "open"))
            shown = [(name, json.loads(content)) for name, content in rows if "image" in content]
        names = [name for name, content in shown if isinstance(content, dict) for field in FIELDS
                 if field in content and not (folder / content[field]).is_file()]  # fmt: skip
        if names:
            raise InputError(
                f"{folder} lacks the image of {listing(names)}. Bring the folder back; it belongs to the database."
            )

    def fit_slots(self) -> None:
        """Give every task as many places as the project says now; places that are taken stay."""
        slots, cap = db.slots.c, self.project.per_task
        counts = (
            sa.select(slots.task_id, sa.func.count(), sa.func.max(slots.slot), db.tasks.c.state, db.tasks.c.reason)
            .join(db.tasks, db.tasks.c.id == slots.task_id)
            .group_by(slots.task_id, db.tasks.c.state, db.tasks.c.reason)
            .having(sa.func.count() != cap)
        )
        with self.write() as connection:
            if not self.is_sqlite:  # servers that start at once do it one after the other, as they add tasks
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7236173)")
            for task, n, last, state, reason in connection.execute(counts).all():
                if n > cap:
                    spare = sa.select(slots.slot).where(
                        slots.task_id == task, slots.state.in_((db.FREE, db.CLOSED))
                    ).order_by(slots.slot.desc()).limit(n - cap)  # fmt: skip
                    chosen = connection.execute(spare).scalars().all()
                    connection.execute(db.slots.delete().where(slots.task_id == task, slots.slot.in_(chosen)))
                    continue
                is_open = state == "open" or reason == "cap"
                if is_open and state != "open":
                    values = {"state": "open", "reason": "", "finished": None}
                    connection.execute(db.tasks.update().where(db.tasks.c.id == task).values(values))
                begin = db.FREE if is_open else db.CLOSED
                connection.execute(db.slots.insert(), [{"task_id": task, "slot": last + each, "state": begin}
                                                       for each in range(1, cap - n + 1)])  # fmt: skip

    def list_new(self, tasks: list[Task]) -> list[Task]:
        """Those of some tasks whose names are not there yet."""
        with self.read() as connection:
            present = set(connection.execute(sa.select(db.tasks.c.name)).scalars())
        return [task for task in tasks if task.name not in present]

    def add_tasks(self, tasks: list[Task]) -> int:
        """Add tasks whose names are new, with their slots; returns how many are new. What is there stays as it is."""
        with self.write() as connection:
            if not self.is_sqlite:  # servers that start at once add them one after the other
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7236173)")
            present = set(connection.execute(sa.select(db.tasks.c.name)).scalars())
            new = [task for task in tasks if task.name not in present]
            if not new:
                return 0
            connection.execute(
                db.tasks.insert(),
                [
                    {
                        "name": task.name,
                        "content": json.dumps(task.content, ensure_ascii=False),
                        "gold": None if task.gold is None else json.dumps(task.gold, ensure_ascii=False),
                    }
                    for task in new
                ],
            )
            numbers = dict(connection.execute(sa.select(db.tasks.c.name, db.tasks.c.id)).all())
            connection.execute(
                db.slots.insert(),
                [
                    {"task_id": numbers[task.name], "slot": slot, "state": db.FREE}
                    for task in new
                    for slot in range(self.project.per_task)
                ],
            )
            connection.exec_driver_sql("ANALYZE")  # plans are made of what is known of the tables
        return len(new)

    def find_task(self, name: str) -> sa.Row[Any] | None:
        """The row of a task, by name."""
        with self.read() as connection:
            return connection.execute(sa.select(db.tasks).where(db.tasks.c.name == name)).first()

    # ---- workers ------------------------------------------------------------------------------------------

    def find_worker(self, name: str) -> sa.Row[Any] | None:
        """The row of a worker, by name."""
        with self.read() as connection:
            return connection.execute(sa.select(db.workers).where(db.workers.c.name == name)).first()

    # ---- settings, sessions, the log of actions -----------------------------------------------------------

    def read_setting(self, name: str) -> str | None:
        """A value that is kept in the database."""
        with self.read() as connection:
            return connection.execute(sa.select(db.settings.c.value).where(db.settings.c.name == name)).scalar()

    def write_setting(self, name: str, value: str, *, replace: bool = True) -> str:
        """Keep a value; with `replace=False` one that is there stays. Returns what is there now."""
        line = self.insert(db.settings).values(name=name, value=value)
        line = (
            line.on_conflict_do_update(index_elements=["name"], set_={"value": value})
            if replace
            else line.on_conflict_do_nothing()
        )
        with self.write() as connection:
            connection.execute(line)
            return str(
                connection.execute(sa.select(db.settings.c.value).where(db.settings.c.name == name)).scalar_one()
            )

    def begin_session(self, digest: str, expires: float) -> None:
        """Remember a manager's session, and forget those that have ended."""
        with self.write() as connection:
            connection.execute(db.sessions.delete().where(db.sessions.c.expires < self.clock.now()))
            connection.execute(db.sessions.insert().values(digest=digest, expires=expires))

    def has_session(self, digest: str) -> bool:
        """Whether a session is there and has not ended."""
        with self.read() as connection:
            ends = connection.execute(sa.select(db.sessions.c.expires).where(db.sessions.c.digest == digest)).scalar()
        return ends is not None and ends > self.clock.now()

    def end_every_session(self) -> None:
        """Forget all sessions."""
        with self.write() as connection:
            connection.execute(db.sessions.delete())

    def end_session(self, digest: str) -> None:
        """Forget a session."""
        with self.write() as connection:
            connection.execute(db.sessions.delete().where(db.sessions.c.digest == digest))

    def log_action(self, manager: str, action: str, subject: str = "", reason: str = "") -> None:
        """Write down what a manager did."""
        with self.write() as connection:
            self._log(connection, manager, action, subject, reason)

    def _log(self, connection: sa.Connection, manager: str, action: str, subject: str, reason: str) -> None:
        connection.execute(
            db.actions.insert().values(
                created=self.clock.now(), manager=manager, action=action, subject=subject, reason=reason
            )
        )

    def list_actions(self, most: int = 200) -> list[sa.Row[Any]]:
        """What managers did, the latest first."""
        with self.read() as connection:
            return list(connection.execute(sa.select(db.actions).order_by(db.actions.c.id.desc()).limit(most)))
