"""What `crowdwise serve --check` looks at: everything that could go wrong later, without changing anything."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from crowdwise.campaign.database import check_encoding, examine_file, explain_failure, open_to_read
from crowdwise.campaign.images import FIELDS, check_place, encode_image
from crowdwise.campaign.store import Store
from crowdwise.campaign.task_files import read_tasks
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.campaign.project import Project
    from crowdwise.campaign.task_files import Task

__all__ = ["check_project"]


def check_project(project: Project) -> Iterator[str]:
    """Read the tasks, open every image, reach the database; gives a line for each that is fine."""
    tasks = read_tasks(project)
    n_gold = sum(task.gold is not None for task in tasks)
    yield f"{project.path}: {project.question.kind}, {project.per_task} answers for each task at most."
    yield f"{project.tasks}: {len(tasks):,} tasks, {n_gold:,} of them gold."
    n_images = 0
    base = (project.images or project.tasks.parent).resolve()
    for task in tasks:
        for path in [base / task.content[field] for field in FIELDS if field in task.content]:
            check_place(task, path, base)
            try:
                encode_image(path.read_bytes())
            except (OSError, InputError) as error:
                raise InputError(f"Task {quote(task.name)}: the image {path} cannot be shown. {error}") from error
            n_images += 1
    if n_images:
        yield f"{n_images:,} images can be shown."
    most = len(tasks) * project.per_task
    if project.budget and project.budget < most:
        yield f"The budget of {project.budget:,} answers ends before every task has {project.per_task} ({most:,})."
    yield _check_database(project, tasks)
    yield "All is well."


def _check_database(project: Project, tasks: list[Task]) -> str:
    """Reach the database, and see whether what is in it goes with the project; says which it is."""
    place = project.database_place
    if isinstance(place, Path):
        examine_file(place)
        if not os.access(place.parent, os.W_OK):
            raise InputError(f"The database {place} cannot be used: nothing can be written to its folder.")
        engine = sa.create_engine("sqlite://", creator=partial(open_to_read, place))
    else:
        engine = sa.create_engine(place)
    try:
        check_encoding(engine)
        if isinstance(place, str) or (place.is_file() and place.stat().st_size):
            _compare_stored(engine, project, tasks)
        if isinstance(place, Path):
            return f"SQLite: {place}."
        with engine.connect() as connection:
            return f"PostgreSQL {connection.exec_driver_sql('SHOW server_version').scalar_one()} answers."
    except sa.exc.DatabaseError as error:
        raise explain_failure(engine, error) from error
    finally:
        engine.dispose()


def _compare_stored(engine: sa.Engine, project: Project, tasks: list[Task]) -> None:
    """Refuse a project that the campaign in the database does not go with."""
    if sa.inspect(engine).has_table("answers"):
        store = Store(engine, project)
        store.check_owner()
        store.check_answers()
        with store.read() as connection:
            store.find_changes(connection, tasks)
