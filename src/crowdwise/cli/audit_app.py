"""The commands that ask who can be trusted, and their options; `app` takes them in."""

from __future__ import annotations

from typing import Annotated

import typer

from crowdwise.cli.options import (
    COLUMNS,
    Classes,
    Duplicates,
    Gold,
    Items,
    Json,
    Kind,
    LabelColumn,
    Labels,
    MethodSlug,
    OnDuplicate,
    Outer,
    TaskColumn,
    WorkerColumn,
)

__all__ = ["audit", "report"]

Trusted = Annotated[
    str | None, typer.Option(metavar="A,B,C", help="Workers known to be honest; half of the crowd, if left out.")
]
Truth = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="True labels (task, label): to score the consensus, and to be doubted."),
]
TaskAttributes = Annotated[
    str | None, typer.Option(metavar="FILE", help="Groups of tasks (task, and a column for each), to find bias.")
]
WorkerAttributes = Annotated[
    str | None, typer.Option(metavar="FILE", help="Groups of workers (worker, and a column for each), to find bias.")
]
TimeColumn = Annotated[
    str | None, typer.Option(metavar="NAME", help="The time column, to find drift.", rich_help_panel=COLUMNS)
]
Level = Annotated[float, typer.Option(min=0.0, max=1.0, help="Chance that anyone is flagged in an honest crowd.")]
Seed = Annotated[int, typer.Option(min=0, help="Same seed, same answer.")]


def audit(
    labels: Labels,
    *,
    method: MethodSlug = "auto",
    truth: Truth = None,
    gold: Gold = None,
    task_attributes: TaskAttributes = None,
    worker_attributes: WorkerAttributes = None,
    items: Items = None,
    trusted: Trusted = None,
    level: Level = 0.05,
    details: Annotated[
        bool, typer.Option("--details", help="Also the numbers behind each finding, and how they were come by.")
    ] = False,
    prune_to: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Write the labels without the workers flagged, as CSV; - for standard output."
        ),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
    task_column: TaskColumn = None,
    worker_column: WorkerColumn = None,
    label_column: LabelColumn = None,
    time_column: TimeColumn = None,
    classes: Classes = None,
    on_duplicate: Duplicates = OnDuplicate.error,
    kind: Kind = None,
    outer: Outer = None,
) -> None:
    """Say who guesses, who copies and who says the opposite, how sure that is, and what to do about it."""
    from crowdwise.audit.pruning import prune
    from crowdwise.cli import audit_pages as pages
    from crowdwise.cli import output, work
    from crowdwise.labels.errors import InputError

    if prune_to is not None:
        output.checked_file(prune_to, "--prune-to", (*labels, truth, gold, items, task_attributes, worker_attributes))
        if json and prune_to == "-":
            raise InputError("--json and --prune-to - would both go to standard output. Write the labels to a file.")
    columns = (task_column, worker_column, label_column)
    reading = work.Reading(labels, *columns, classes, on_duplicate.value, time_column, kind, outer)
    asked = pages.Asked(method, truth, gold, task_attributes, worker_attributes, items, trusted, level, seed)
    timed, found, shows = pages.run_audit(reading, asked)
    pruned = None
    if prune_to is not None:
        kept, pruned = prune(timed.labels, found.findings)
        output.put_csv(kept.to_table(), prune_to)
    if json:
        output.print_json(pages.facts(found, timed.column))
    elif prune_to != "-":
        page = pages.AuditPage(found, reading, asked, timed.column, shows, details=details)
        page.put(prune_to, pruned)


def report(
    labels: Labels,
    *,
    method: MethodSlug = "auto",
    truth: Truth = None,
    gold: Gold = None,
    task_attributes: TaskAttributes = None,
    worker_attributes: WorkerAttributes = None,
    items: Items = None,
    out: Annotated[
        str, typer.Option(metavar="FILE", help="Where the page goes; - for standard output.")
    ] = "report.html",
    charts: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Also write every chart there, as SVG and as PNG.")
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also compare the methods that apply; takes a while.")
    ] = False,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Heading of the page.")] = None,
    trusted: Trusted = None,
    level: Level = 0.05,
    seed: Seed = 0,
    task_column: TaskColumn = None,
    worker_column: WorkerColumn = None,
    label_column: LabelColumn = None,
    time_column: TimeColumn = None,
    classes: Classes = None,
    on_duplicate: Duplicates = OnDuplicate.error,
    kind: Kind = None,
    outer: Outer = None,
) -> None:
    """Write the audit as one HTML page: consensus, workers, findings, disputed tasks, and how sure it all is."""
    from crowdwise.cli import audit_pages as pages
    from crowdwise.cli import comparing, output, work

    output.checked_file(out, "--out", (*labels, truth, gold, items, task_attributes, worker_attributes))
    if charts is not None:
        output.checked_place(charts, "--charts")
    pages.check_report()
    columns = (task_column, worker_column, label_column)
    reading = work.Reading(labels, *columns, classes, on_duplicate.value, time_column, kind, outer)
    asked = pages.Asked(method, truth, gold, task_attributes, worker_attributes, items, trusted, level, seed)
    timed, found, shows = pages.run_audit(reading, asked)
    league = comparing.compare_methods(timed.labels, None, found.truth, 5, seed) if compare else None
    pages.put_page(found, out, charts, league=league, title=title, items=shows)
