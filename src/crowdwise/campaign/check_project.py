"""What `crowdwise serve --check` looks at: everything that could go wrong later, without changing anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from crowdwise.campaign.images import FIELDS, check_place, encode_image
from crowdwise.campaign.store import examine_file, explain_failure
from crowdwise.campaign.task_files import read_tasks
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.campaign.project import Project

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
    url = sa.engine.make_url(project.database_url)
    if url.drivername.startswith("postgresql"):
        engine = sa.create_engine(url)
        try:
            with engine.connect() as connection:
                version = connection.exec_driver_sql("SHOW server_version").scalar_one()
        except sa.exc.DatabaseError as error:
            raise explain_failure(engine, error) from error
        finally:
            engine.dispose()
        yield f"PostgreSQL {version} answers."
    else:
        examine_file(Path(str(url.database)))
        yield f"SQLite: {url.database}."
    yield "All is well."
