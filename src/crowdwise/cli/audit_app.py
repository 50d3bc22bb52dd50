"""The command that asks who can be trusted, and its options; `app` takes it in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crowdwise.cli.options import Classes, Duplicates, Json, LabelColumn, Labels, OnDuplicate, TaskColumn, WorkerColumn

__all__ = ["audit"]


def audit(
    labels: Labels,
    *,
    trusted: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Workers known to be honest; half of the crowd, if left out.")
    ] = None,
    level: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Chance that anyone is flagged in an honest crowd.")
    ] = 0.05,
    prune_to: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the labels without the workers flagged, as CSV.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same answer.")] = 0,
    json: Json = False,
    task_column: TaskColumn = None,
    worker_column: WorkerColumn = None,
    label_column: LabelColumn = None,
    classes: Classes = None,
    on_duplicate: Duplicates = OnDuplicate.error,
) -> None:
    """Say who guesses, who copies and who says the opposite, how sure that is, and what to do about it."""
    from crowdwise.audit.audit import audit_crowd
    from crowdwise.audit.prune import prune
    from crowdwise.cli import audit_pages as pages
    from crowdwise.cli import put, work
    from crowdwise.cli.first_run import say_if_compiling

    if not 0 < level < 1:
        raise typer.BadParameter("--level must lie between 0 and 1, both excluded")
    if prune_to is not None:
        put.checked_place(str(Path(prune_to).parent), "--prune-to")
    reading = work.Reading(labels, task_column, worker_column, label_column, classes, on_duplicate.value)
    say_if_compiling()
    answers = work.read(reading)
    found = audit_crowd(answers, trusted=work.named(trusted, answers.workers), level=level, seed=seed)
    pruned = None
    if prune_to is not None:
        kept, pruned = prune(answers, found.findings)
        put.put_csv(kept.to_table(), prune_to)
    if json:
        put.print_json(pages.facts(found))
    else:
        pages.audit_page(found, reading, prune_to, pruned)
