"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

__all__ = [
    "COLUMNS",
    "Classes",
    "Duplicates",
    "Gold",
    "Items",
    "Json",
    "Kind",
    "LabelColumn",
    "LabelKind",
    "Labels",
    "MethodSlug",
    "OnDuplicate",
    "Outer",
    "OuterNames",
    "TaskColumn",
    "WorkerColumn",
]


class OnDuplicate(StrEnum):
    """What to do with a second answer of one worker to one task."""

    error = "error"
    first = "first"
    last = "last"
    all = "all"


class LabelKind(StrEnum):
    """What the answers are."""

    labels = "labels"


class OuterNames(StrEnum):
    """What the outer names of nested JSON are."""

    tasks = "tasks"
    workers = "workers"


Labels = Annotated[
    list[str],
    typer.Argument(
        metavar="LABELS",
        help="CSV, TSV, JSON lines, Parquet or Arrow, plain or gzipped; - for standard input. Several files, or a "
        "pattern such as 'days/*.csv', are read as one.",
    ),
]
COLUMNS = "Columns and classes"
TaskColumn = Annotated[str | None, typer.Option(metavar="NAME", help="The task column.", rich_help_panel=COLUMNS)]
WorkerColumn = Annotated[str | None, typer.Option(metavar="NAME", help="The worker column.", rich_help_panel=COLUMNS)]
LabelColumn = Annotated[str | None, typer.Option(metavar="NAME", help="The label column.", rich_help_panel=COLUMNS)]
Classes = Annotated[
    str | None,
    typer.Option(metavar="A,B,C", help="All classes in their order; others are errors.", rich_help_panel=COLUMNS),
]
Duplicates = Annotated[
    OnDuplicate,
    typer.Option(help="A second answer of one worker to one task.", rich_help_panel=COLUMNS),
]
Kind = Annotated[
    LabelKind | None,
    typer.Option(help="The labels are classes, even if they look like values.", rich_help_panel=COLUMNS),
]
Outer = Annotated[
    OuterNames | None,
    typer.Option(help="What the outer names of nested JSON are.", rich_help_panel=COLUMNS),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a page for people.")]
MethodSlug = Annotated[
    str, typer.Option(metavar="SLUG", help="See `crowdwise methods`; auto finds what suits the labels.")
]
Gold = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Known answers (task, label) for the consensus to learn from."),
]
Items = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="What tasks show: task, and text or image (local files)."),
]
