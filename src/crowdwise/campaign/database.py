"""Opening a campaign's database: what the file is, whether it is whole, its migrations, and its backup.

SQLite in a file beside the project, or PostgreSQL. Nothing is changed in a database that is not a campaign's.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.campaign.installed_packages import explain_missing_package
from crowdwise.labels.errors import InputError

with explain_missing_package():
    import sqlalchemy as sa
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from sqlalchemy.dialects import sqlite

    from crowdwise.campaign import tables as db

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "LEASE",
    "back_up",
    "check_encoding",
    "examine_file",
    "explain_failure",
    "open_database",
    "open_to_read",
    "say_failures",
]

LEASE = "lease_seconds"  # the setting that says how long questions were out when they were given out
BACKUPS = 5  # that are kept; the oldest goes
TIME = "typeof({0}) NOT IN ('real', 'integer') OR {0} NOT BETWEEN 0 AND 1e11"
DAMAGES = {  # what SQLite takes and no campaign has: which rows, and what is wrong with them
    f"answers WHERE {TIME.format('created')}": "an answer has no time",
    "answers WHERE typeof(seconds) NOT IN ('real', 'integer', 'null')": "an answer took no number of seconds",
    "answers WHERE kind = 'answer' AND (answer IS NULL OR NOT json_valid(answer))": "an answer cannot be read",
    "tasks WHERE gold IS NOT NULL AND NOT json_valid(gold)": "a known answer cannot be read",
    f"slots WHERE expires IS NOT NULL AND ({TIME.format('expires')})": "a question is out until no time",
    f"actions WHERE {TIME.format('created')}": "an action has no time",
    "tasks WHERE CASE WHEN json_valid(content) THEN json_type(content) <> 'object' END": "a task shows no fields",
    "tasks WHERE id < 1": "a task has no number",
    f"settings WHERE name = '{LEASE}' AND (CAST(value AS REAL) NOT BETWEEN 1 AND 1e6 OR value GLOB '*[^0-9.]*')": (
        "nobody can tell how long questions were out"
    ),
}
STORED = {sa.String: "'text', 'null'", sa.Integer: "'integer', 'null'", sa.Float: "'real', 'integer', 'null'"}


def open_database(place: Path | str, *, backup: bool) -> sa.Engine:
    """Connect to a database, and make its tables or bring them up to date."""
    engine = _make_engine(place)
    with say_failures(engine):
        check_encoding(engine)
        _migrate(engine, backup=backup)
    return engine


@contextmanager
def say_failures(engine: sa.Engine) -> Iterator[None]:
    """Let go of a database that cannot be used, and say so."""
    try:
        yield
    except (sa.exc.DatabaseError, sqlite3.Error) as error:
        engine.dispose()
        raise explain_failure(engine, error) from error


def explain_failure(engine: sa.Engine, error: Exception) -> InputError:
    """A database that cannot be used, in a sentence without its password."""
    url = engine.url  # its parameters may hold a password as well
    where = url.set(query={}).render_as_string(hide_password=True)
    lines = str(getattr(error, "orig", error)).strip().splitlines() or [type(error).__name__]
    return InputError(f"The database {where} cannot be used: {lines[0].rstrip('.')}.")


def _make_engine(place: Path | str) -> sa.Engine:
    if isinstance(place, str):
        return sa.create_engine(place, pool_size=4, max_overflow=4, pool_pre_ping=True, pool_timeout=10)
    examine_file(place)
    _make_file(place)
    url = sa.engine.URL.create("sqlite", database=str(place))
    engine = sa.create_engine(url, connect_args={"check_same_thread": False, "timeout": 30})

    @sa.event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions are begun below: sqlite3 would begin them too late
        for line in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=30000"):
            connection.execute(f"PRAGMA {line}")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        # One writer at a time, from its first statement on: what reads before it writes cannot fail half-way.
        wanted = connection.get_execution_options().get("begin", "BEGIN IMMEDIATE")
        connection.exec_driver_sql(wanted)

    return engine


def _make_file(path: Path) -> None:
    """Make a file, unless it is there, for its owner alone: it will hold secrets. SQLite's side files follow it."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise InputError(f"The database {path} cannot be used: {error.strerror}.") from error


def check_encoding(engine: sa.Engine) -> None:
    """Refuse a database of PostgreSQL that cannot hold every name."""
    if engine.dialect.name != "postgresql":
        return
    try:
        with engine.connect() as connection:
            found = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
    except TypeError:  # SQLAlchemy expects text, and a database without an encoding gives bytes
        found = "SQL_ASCII"
    if found != "UTF8":
        raise InputError(
            "The database of PostgreSQL is not in UTF-8, so that it cannot hold every name. "
            "Make another one: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0."
        )


def _configure_migrations() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config


def open_to_read(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing: where no server runs, SQLite is not to leave its helper files beside."""
    is_quiet = not path.with_name(f"{path.name}-wal").exists()
    return sqlite3.connect(f"{path.resolve().as_uri()}?{'immutable=1' if is_quiet else 'mode=ro'}", uri=True, timeout=5)


def examine_file(path: Path) -> None:
    """Refuse a file that is no database of a campaign, before anything in it is changed."""
    try:
        has_folder, is_there = path.parent.is_dir(), path.exists()
    except OSError as error:  # a name that is too long
        raise InputError(f"The database {path} cannot be used: {error.strerror}.") from error
    if not has_folder:
        raise InputError(f"{path.parent}: there is no such folder for the database.")
    if not is_there:
        return
    if not path.is_file():
        raise InputError(f"{path} is no file, so that it cannot be the campaign's database.")
    try:
        with path.open("rb") as file:
            begin = file.read(16)
    except OSError as error:
        raise InputError(f"The database {path} cannot be read: {error.strerror}.") from error
    if not begin:
        return
    if begin != b"SQLite format 3\x00":
        raise InputError(f"{path} is no SQLite database. Name another file under [server] of the project.")
    try:
        with closing(open_to_read(path)) as connection:
            found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            health = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            revisions = []
            if "alembic_version" in found:
                revisions = [row[0] for row in connection.execute("SELECT version_num FROM alembic_version")]
    except sqlite3.Error as error:
        raise InputError(f"The database {path} cannot be used: {error}. Take its latest backup.") from error
    if health != "ok" or len(revisions) > 1:
        raise InputError(f"The database {path} is damaged. Take its latest backup ({path.name}.DATE.backup).")
    revision = revisions[0] if revisions else None
    known = {each.revision for each in ScriptDirectory.from_config(_configure_migrations()).walk_revisions()}
    wanted = set(db.metadata.tables)
    if revision not in known and found and not wanted <= found:
        raise InputError(f"{path} is the database of another program. Name another file under [server] of the project.")
    if revision not in known and found:
        raise InputError(f"The database {path} is of a newer crowdwise (revision {revision}). Update crowdwise.")
    if revision in known and not wanted <= found:
        lacking = ", ".join(sorted(wanted - found))
        raise InputError(f"The database {path} lacks the table {lacking}. Take its latest backup.")
    if revision in known:
        _refuse_damage(path)


def _refuse_damage(path: Path) -> None:
    """Refuse rows that somebody or something has changed past what a campaign can read."""
    with closing(open_to_read(path)) as connection:
        for rows, said in {**DAMAGES, **_list_wrong_kinds()}.items():
            if connection.execute(f"SELECT 1 FROM {rows} LIMIT 1").fetchone():  # noqa: S608
                raise InputError(f"The database {path} is damaged: {said}. Take its latest backup.")


def _list_wrong_kinds() -> dict[str, str]:
    """Rows of which a column holds what is of another kind, such as a name that is no text, as SQLite allows."""
    found = {}
    for table in db.metadata.sorted_tables:
        wrong = [
            f"typeof({column.name}) NOT IN ({kinds})"
            for column in table.columns
            for kind, kinds in STORED.items()
            if isinstance(column.type.dialect_impl(sqlite.dialect()), kind)
        ]
        found[f"{table.name} WHERE {' OR '.join(wrong)}"] = f"a row of its table {table.name} cannot be read"
    return found


def _migrate(engine: sa.Engine, *, backup: bool) -> None:
    """Bring the tables up to date; a SQLite file that is changed is copied first."""
    config = _configure_migrations()
    newest = ScriptDirectory.from_config(config).get_current_head()
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":  # two servers that start at once migrate one after the other
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7236172)")
        present = MigrationContext.configure(connection).get_current_revision()
        known = {each.revision for each in ScriptDirectory.from_config(config).walk_revisions()}
        if present is not None and present not in known:
            if not set(db.metadata.tables) <= set(sa.inspect(connection).get_table_names()):
                raise InputError("The database is that of another program. Name another one under [server].")
            raise InputError(f"The database is of a newer crowdwise (revision {present}). Update crowdwise.")
        if present == newest:
            return
        if present is not None and backup and engine.dialect.name == "sqlite":
            back_up(Path(str(engine.url.database)))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def back_up(path: Path) -> Path:
    """Copy a SQLite database, whole and consistent, beside itself; returns where."""
    target = path.with_name(f"{path.name}.{time.strftime('%Y%m%d-%H%M%S')}.backup")
    _make_file(target)
    with (
        closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(target)) as copy,
    ):
        source.backup(copy)
    for old in sorted(path.parent.glob(f"{path.name}.*.backup"))[:-BACKUPS]:
        old.unlink()
    return target
