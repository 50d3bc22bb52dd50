"""Options that several commands share, alone and in groups.

A group is a dataclass whose fields are options. A command that takes a group as a parameter has all of its options on
the command line (`expand_option_groups`).
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import partial, wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from crowdwise.labels.engine_choice import ENGINES
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = [
    "AuditOptions",
    "ColumnOptions",
    "ConsensusOptions",
    "Duplicates",
    "Engine",
    "Features",
    "ImageSize",
    "Json",
    "LabelColumn",
    "LabelKind",
    "Labels",
    "OnDuplicate",
    "Outer",
    "TaskColumn",
    "TimedColumnOptions",
    "WorkerColumn",
    "build_option_arguments",
    "expand_option_groups",
    "make_option",
    "split_workers",
]


# Options that mean nothing without a file that another option names, or without an engine.
OF_FILES = {"truth_label_column": ("truth", "gold"), "gold_share": ("gold",)}
OF_ENGINES = {"memory": ("stream",), "scratch": ("stream", "dask"), "scheduler": ("dask",)}


class OnDuplicate(StrEnum):
    """What to do with a second answer of one worker to one task."""

    error = "error"
    first = "first"
    last = "last"
    all = "all"


class LabelKind(StrEnum):
    """What the answers are; a test compares it with the kinds that there are."""

    labels = "labels"
    boxes = "boxes"
    comparisons = "comparisons"
    masks = "masks"
    multi_label = "multi-label"
    ordinal = "ordinal"
    points = "points"
    rankings = "rankings"
    texts = "texts"
    similarity = "similarity"
    spans = "spans"
    values = "values"


class OuterNames(StrEnum):
    """What the outer names of nested JSON are."""

    tasks = "tasks"
    workers = "workers"


def _check_engine(name: str | None) -> str | None:
    if name is not None and name not in ENGINES:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, ENGINES))}.")
    return name


def make_option(text: str, metavar: str | None = None, *, least: int | None = None, panel: str | None = None) -> Any:
    """An option with its help, what stands for its value, and its least value."""
    return typer.Option(help=text, metavar=metavar, min=least, rich_help_panel=panel)


def _add_files_of_workers(context: typer.Context, labels: list[str]) -> list[str]:
    """LABELS and the files that --worker names, which is read before."""
    named = [file for _, file in split_workers(context.params.get("worker") or [])]
    if not labels and not named and not context.resilient_parsing:
        raise InputError("Missing argument 'LABELS'. Give a file, or --worker NAME=FILE for each worker.")
    return [*labels, *(file for file in named if file not in labels)]


def split_workers(given: Sequence[str]) -> list[tuple[str, str]]:
    """The worker and the file of each --worker NAME=FILE."""
    pairs = [each.partition("=") for each in given]
    wrong = [each for each, (name, _, file) in zip(given, pairs, strict=True) if not name or not file]
    if wrong:
        raise InputError(f"--worker {quote(wrong[0])} is not NAME=FILE, as ann=job1.zip is.")
    return [(name, file) for name, _, file in pairs]


Labels = Annotated[
    list[str],
    typer.Argument(
        metavar="LABELS",
        default_factory=list,
        callback=_add_files_of_workers,
        show_default=False,
        help="CSV, TSV, JSON lines, Parquet or Arrow, plain or gzipped, or the export of a labelling tool as it is "
        "(see `crowdwise formats`); - for standard input. Several files, or a pattern such as 'days/*.csv', are read "
        "as one.",
    ),
]
column_option = partial(make_option, panel="Columns and classes")
TaskColumn = Annotated[str | None, column_option("The task column.", "NAME")]
WorkerColumn = Annotated[str | None, column_option("The worker column.", "NAME")]
LabelColumn = Annotated[str | None, column_option("The label column.", "NAME")]
TruthLabelColumn = Annotated[
    str | None, column_option("The label column of truth and gold; tasks as in the labels, where there is one.", "NAME")
]
Classes = Annotated[str | None, column_option("All classes in their order; others are errors.", "A,B,C")]
Duplicates = Annotated[OnDuplicate, column_option("A second answer of one worker to one task.")]
Kind = Annotated[LabelKind | None, column_option("What the answers are; by the columns, if left out.")]
Outer = Annotated[OuterNames | None, column_option("What the outer names of nested JSON are.")]
export_option = partial(make_option, panel="Exports of labelling tools")
Question = Annotated[str | None, export_option("Which question of an export, where it holds several.", "NAME")]
ExportFormat = Annotated[str | None, export_option("See `crowdwise formats`; by the content, if left out.", "NAME")]
Worker = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=FILE",
        is_eager=True,  # LABELS may be left out where it is given
        help="Whose FILE is (also an archive or folder), where a tool writes one for each worker. Give it for each.",
        rich_help_panel="Exports of labelling tools",
    ),
]
IncludePredictions = Annotated[
    bool,
    typer.Option(
        "--include-predictions",
        help="Count the predictions of models in an export as answers.",
        rich_help_panel="Exports of labelling tools",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a page for people.")]
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
    str | None,
    typer.Option(
        metavar="|".join(ENGINES),
        help="What runs the loops over labels; by the size of the data, if left out.",
        callback=_check_engine,
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """How labels are read."""

    task_column: TaskColumn = None
    worker_column: WorkerColumn = None
    label_column: LabelColumn = None
    truth_label_column: TruthLabelColumn = None
    classes: Classes = None
    on_duplicate: Duplicates = OnDuplicate.error
    kind: Kind = None
    outer: Outer = None
    question: Question = None
    format: ExportFormat = None
    include_predictions: IncludePredictions = False
    worker: Worker = None


@dataclass(frozen=True, kw_only=True)
class TimedColumnOptions(ColumnOptions):
    """The same, with the times of the labels."""

    time_column: Annotated[str | None, column_option("The time column, to find drift.", "NAME")] = None


@dataclass(frozen=True, kw_only=True)
class ConsensusOptions:
    """How a consensus is found, and what its tasks show."""

    method: Annotated[str, make_option("See `crowdwise methods`; auto finds what suits the labels.", "SLUG")] = "auto"
    gold: Annotated[str | None, make_option("Known answers (task, label) for the consensus to learn from.", "FILE")] = (
        None
    )
    items: Annotated[str | None, make_option("What tasks show: task, and text or image (local files).", "FILE")] = None
    engine: Engine = None


@dataclass(frozen=True, kw_only=True)
class AuditOptions(ConsensusOptions):
    """What is asked of an audit, on the terminal or as a page."""

    truth: Annotated[
        str | None, make_option("True labels (task, label): to score the consensus, and to be doubted.", "FILE")
    ] = None
    task_attributes: Annotated[
        str | None, make_option("Groups of tasks (task, and a column for each), to find bias.", "FILE")
    ] = None
    worker_attributes: Annotated[
        str | None, make_option("Groups of workers (worker, and a column for each), to find bias.", "FILE")
    ] = None
    trusted: Annotated[
        str | None, make_option("Workers known to be honest; half of the crowd, if left out.", "A,B,C")
    ] = None
    level: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Chance that anyone is flagged in an honest crowd.")
    ] = 0.05
    seed: Annotated[int, make_option("Same seed, same answer.", least=0)] = 0

    @property
    def files(self) -> list[str | None]:
        """The files that are read besides the labels."""
        return [self.truth, self.gold, self.items, self.task_attributes, self.worker_attributes]

    def build_command_arguments(self) -> list[str]:
        """Give the same on a command line; defaults are left out."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return build_option_arguments(
            {name: value for name, value in given.items() if value != getattr(type(self), name)}
        )


def _refuse_idle_options(given: Mapping[str, Any]) -> None:
    """Refuse options that would be left aside without a word, since what they are about is not given."""
    for name, files in OF_FILES.items():
        if given.get(name) is not None and all(given.get(file) is None for file in files):
            needed = " or ".join(f"--{file}" for file in files)
            raise InputError(f"--{name.replace('_', '-')} is about {needed}, which is not given. Leave it out.")
    for name, engines in OF_ENGINES.items():
        if given.get(name) is not None and given.get("engine") not in engines:
            needed = " or ".join(f"--engine {engine}" for engine in engines)
            raise InputError(f"--{name} is for {needed}. Leave it out, or add {needed}.")


def build_option_arguments(given: Mapping[str, Any]) -> list[str]:
    """Options and their values as words of a command line; None is left out, and what is switched off.

    >>> build_option_arguments({"max_iter": 5, "gold": None, "compare": True, "worker": ["ann=a.csv", "bob=b.csv"]})
    ['--max-iter', '5', '--compare', '--worker', 'ann=a.csv', '--worker', 'bob=b.csv']
    """
    chosen = [
        (f"--{name.replace('_', '-')}", value)
        for name, every in given.items()
        for value in (every if isinstance(every, list) else [every])
        if value is not None and value is not False
    ]
    return [word for option, value in chosen for word in ((option,) if value is True else (option, str(value)))]


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
    def call_with_option_groups(**given: Any) -> None:
        _refuse_idle_options(given)
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        command(**given)

    call_with_option_groups.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
    call_with_option_groups.__annotations__ = {each.name: each.annotation for each in parameters}
    return call_with_option_groups


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
