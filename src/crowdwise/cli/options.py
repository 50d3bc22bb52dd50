"""Options that several commands share, alone and in groups.

A group is a dataclass whose fields are options. A command that takes a group as a parameter has all of its options on
the command line (`expand_option_groups`).
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "AuditOptions",
    "ColumnOptions",
    "Duplicates",
    "Engine",
    "EngineName",
    "Features",
    "Gold",
    "ImageSize",
    "Items",
    "Json",
    "LabelColumn",
    "LabelKind",
    "Labels",
    "MethodSlug",
    "OnDuplicate",
    "Outer",
    "TaskColumn",
    "TimedColumnOptions",
    "WorkerColumn",
    "expand_option_groups",
    "option_words",
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


class EngineName(StrEnum):
    """What runs the loops over labels."""

    auto = "auto"
    numpy = "numpy"
    numba = "numba"


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
Features = Annotated[
    str,
    typer.Option(
        metavar="FILE|DIR",
        help="Numbers of each task: .npz (FILE.npz:KEY for one array of several), .npy, a table with a column task, or "
        "a folder of images.",
    ),
]
ImageSize = Annotated[int | None, typer.Option(min=1, metavar="N", help="Bring images to N × N pixels.")]
Engine = Annotated[
    EngineName | None,
    typer.Option(help="What runs the loops over labels; by the size of the data, if left out.", show_default=False),
]


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """How labels are read."""

    task_column: TaskColumn = None
    worker_column: WorkerColumn = None
    label_column: LabelColumn = None
    classes: Classes = None
    on_duplicate: Duplicates = OnDuplicate.error
    kind: Kind = None
    outer: Outer = None


@dataclass(frozen=True, kw_only=True)
class TimedColumnOptions(ColumnOptions):
    """The same, with the times of the labels."""

    time_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="The time column, to find drift.", rich_help_panel=COLUMNS)
    ] = None


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """What is asked of an audit, on the terminal or as a page."""

    method: MethodSlug = "auto"
    truth: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="True labels (task, label): to score the consensus, and to be doubted."),
    ] = None
    gold: Gold = None
    task_attributes: Annotated[
        str | None, typer.Option(metavar="FILE", help="Groups of tasks (task, and a column for each), to find bias.")
    ] = None
    worker_attributes: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Groups of workers (worker, and a column for each), to find bias."),
    ] = None
    items: Items = None
    trusted: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Workers known to be honest; half of the crowd, if left out.")
    ] = None
    level: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Chance that anyone is flagged in an honest crowd.")
    ] = 0.05
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same answer.")] = 0
    engine: Engine = None

    @property
    def files(self) -> list[str | None]:
        """The files that are read besides the labels."""
        return [self.truth, self.gold, self.items, self.task_attributes, self.worker_attributes]

    def words(self) -> list[str]:
        """Give the same on a command line; defaults are left out."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return option_words({name: value for name, value in given.items() if value != getattr(type(self), name)})


def option_words(given: Mapping[str, Any]) -> list[str]:
    """Options and their values as words of a command line; None is left out.

    >>> option_words({"max_iter": 5, "gold": None})
    ['--max-iter', '5']
    """
    chosen = {f"--{name.replace('_', '-')}": value for name, value in given.items() if value is not None}
    return [word for option, value in chosen.items() for word in (option, str(value))]


def expand_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The same command with the options of each group of its parameters, as typer reads them."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters = []
    for name, own in signature(command).parameters.items():
        if name in groups:
            parameters += _group_parameters(groups[name])
        else:
            parameters.append(own.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[name]))

    @wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        command(**given)

    run.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _group_parameters(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            each.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(group)
    ]
