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
    "LabelColumn",
    "Labels",
    "MethodSlug",
    "OnDuplicate",
    "TaskColumn",
    "WorkerColumn",
]


class OnDuplicate(StrEnum):
    """What to do with a second answer of one worker to one task."""

    error = "error"
    first = "first"
    last = "last"
    all = "all"


Labels = Annotated[
    str,
    typer.Argument(
        metavar="LABELS",
        help="CSV, TSV, JSON lines, Parquet or Arrow, plain or gzipped; - for standard input.",
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
