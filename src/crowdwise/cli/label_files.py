"""Where the labels of a command are, how to read them, and what the reader warns of."""

from __future__ import annotations

import contextlib
import csv
import sys
import warnings
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli import console_tables
from crowdwise.cli.options import ColumnOptions, TimedColumnOptions, build_option_arguments, split_workers
from crowdwise.labels.errors import InputError, InputWarning, NumericLabelsError, OtherKindError, listing, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from crowdwise.formats import Export
    from crowdwise.labels import CrowdLabels
    from crowdwise.labels.describe import Description
    from crowdwise.labels.times import TimedLabels
    from crowdwise.report.task_items import TaskItems

__all__ = [
    "LabelFiles",
    "announce_compilation",
    "collect_warnings",
    "describe_files",
    "read_files",
    "read_task_items",
    "read_timed_files",
    "split_names",
]


@dataclass(frozen=True)
class LabelFiles:
    """Where the labels are and how to read them; `source` is one file, or several."""

    source: str | Sequence[str]
    columns: ColumnOptions = field(default_factory=ColumnOptions)

    @property
    def files(self) -> list[str]:
        """The files, one by one."""
        return [self.source] if isinstance(self.source, str) else list(self.source)

    @cached_property
    def opened(self) -> Any:
        """The export of a labelling tool, read; or the files themselves, held in memory where they can be read once.

        What was left out of an export is warned of, once.
        """
        from crowdwise.formats.open_export import find_export, refuse_export_options
        from crowdwise.labels.several_files import join_sources

        columns, workers = self.columns, self.name_workers()
        if columns.format is None and (columns.task_column or columns.worker_column or columns.label_column):
            # Who names columns is taken at their word.
            refuse_export_options(None, columns.question, columns.include_predictions, "columns were named")
            return self.files if workers is None else join_sources(self.files, workers=workers)
        held, export = find_export(
            self.files,
            format=columns.format,
            question=columns.question,
            kind=columns.kind and columns.kind.value,
            include_predictions=columns.include_predictions,
            workers=workers,
        )
        if export is None:
            return held
        export.warn_of_left_out()
        return export

    def name_workers(self) -> list[str] | None:
        """Whose each file is, in the order of the files; None where --worker was not given."""
        if not self.columns.worker:
            return None
        named = {file: name for name, file in split_workers(self.columns.worker)}
        strangers = [file for file in self.files if file not in named]
        if strangers:
            raise InputError(
                f"{quote(strangers[0])} has no worker. Give --worker NAME=FILE for each file, or for none."
            )
        return [named[file] for file in self.files]

    @property
    def export(self) -> Export | None:
        """The export of a labelling tool, if that is what the files are."""
        from crowdwise.formats import Export

        return self.opened if isinstance(self.opened, Export) else None

    def open_side_table(self, file: str | None, *, has_labels: bool = True) -> Any:
        """A table of truth, gold or attributes, with the columns that the options name; None where there is none.

        A table without the task or worker column that the labels have is read by the usual names.
        """
        from crowdwise.labels.columns import Columns, candidates, rename_columns
        from crowdwise.labels.read import open_source

        given = self.columns
        wanted = given.truth_label_column if has_labels else None
        named = {"task": given.task_column, "worker": given.worker_column, "label": wanted}
        if file is None or not any((*named.values(), given.label_column)):
            return file
        opened = open_source(file)
        if not isinstance(opened, Columns):
            return file
        if wanted is not None and wanted not in opened.names:
            raise InputError(
                f"{opened.place.origin} has no column {quote(wanted)} (--truth-label-column); it has "
                f"{listing(opened.names)}."
            )
        if has_labels and wanted is None and not candidates("label", opened.names):
            named["label"] = given.label_column
        return rename_columns(opened, {role: name for role, name in named.items() if name in opened.names})

    def find_gold(self, model: Any) -> Any:
        """The gold of an export, as `read_truth` takes it; None without any, or if the method has no use for it."""
        return None if self.export is None or "gold" not in model.uses else self.export.gold_columns()

    def reader_options(self) -> dict[str, Any]:
        """Give the same to `read_labels`."""
        columns = self.columns
        return {
            "task": columns.task_column,
            "worker": columns.worker_column,
            "label": columns.label_column,
            "on_duplicate": columns.on_duplicate.value,
            "kind": columns.kind and columns.kind.value,
            "outer": columns.outer and columns.outer.value,
            "classes": None if columns.classes is None else split_names(columns.classes),
        }

    def refuse_other_kind(self) -> None:
        """Raise `OtherKindError` where --kind says that the answers are no classes."""
        kind = self.columns.kind
        if kind is not None and kind.value != "labels":
            raise OtherKindError(
                f"--kind {kind.value}: this command takes labels (classes) alone.",
                kind.value,
                self.opened if self.export is None else self.export.to_columns(),
            )

    def build_file_arguments(self) -> list[str]:
        """Give the files on a command line, with their workers where these are named."""
        if self.columns.worker:
            return build_option_arguments({"worker": self.columns.worker})
        return [f"./{each}" if each.startswith("-") and each != "-" else each for each in self.files]

    def build_column_arguments(self, options: Sequence[str] = ()) -> list[str]:
        """Give the options on a command line with these other ones: some mean nothing without them."""
        given = asdict(self.columns) | {"worker": None}
        if not {"--truth", "--gold"} & set(options):
            given["truth_label_column"] = None
        return build_option_arguments(
            given | {"on_duplicate": None if given["on_duplicate"] == "error" else given["on_duplicate"]}
        )

    def build_command_arguments(self, *options: str) -> list[str]:
        """Give files and options on a command line, with other options behind them."""
        return [*self.build_file_arguments(), *self.build_column_arguments(options), *options]


def read_files(given: LabelFiles) -> CrowdLabels:
    """Read labels as the options say; what is doubtful about them is said on standard error.

    Raises
    ------
    OtherKindError
        If the options or the columns say that the answers are no classes.
    """
    from crowdwise.labels import read_labels

    _read_and_warn(lambda: given.opened)  # by itself: what it warns of is said, whatever comes of the labels
    given.refuse_other_kind()
    labels: CrowdLabels = _read_and_warn(lambda: read_labels(given.opened, **given.reader_options()))
    return labels


def read_timed_files(given: LabelFiles) -> TimedLabels:
    """Read labels and their times as the options say; what is doubtful about them is said on standard error."""
    from crowdwise.labels.times import read_timed_labels

    _read_and_warn(lambda: given.opened)
    given.refuse_other_kind()
    time = given.columns.time_column if isinstance(given.columns, TimedColumnOptions) else None
    timed: TimedLabels = _read_and_warn(lambda: read_timed_labels(given.opened, time=time, **given.reader_options()))
    return timed


def describe_files(given: LabelFiles) -> Description:
    """Describe labels; those that look like values as well, which is said among the warnings."""
    from crowdwise.labels import read_labels

    labels, notes = collect_warnings(
        InputWarning, lambda: read_labels(given.opened, **given.reader_options() | {"kind": "labels"})
    )
    found: Description = labels.describe()
    already = " ".join(found.warnings)
    return replace(found, warnings=[*(note for note in notes if note not in already), *found.warnings])


def read_task_items(file: str | None, labels: CrowdLabels, files: LabelFiles) -> TaskItems | None:
    """Read what the tasks show, where a table of it is given, or the export says it."""
    from crowdwise.report.task_items import read_items

    source = files.export.item_columns() if file is None and files.export is not None else file
    return None if source is None else read_items(source, labels.tasks)


def _read_and_warn(read: Callable[[], Any]) -> Any:
    """What a reader returns; what it warns of is printed, also where answers of another kind are handed on."""
    notes: list[str] = []
    try:
        with _gather_warnings(InputWarning, notes):
            return read()
    except NumericLabelsError:
        notes.clear()  # the file is read anew, as values
        raise
    finally:
        console_tables.print_notes(console_tables.open_console(stderr=True), notes)


def collect_warnings(category: type[Warning], call: Callable[[], Any]) -> tuple[Any, list[str]]:
    """What a call returns, and each sentence that it warns of once; warnings of other categories are passed on."""
    notes: list[str] = []
    with _gather_warnings(category, notes):
        result = call()
    return result, notes


@contextlib.contextmanager
def _gather_warnings(category: type[Warning], notes: list[str]) -> Iterator[None]:
    """Put each sentence that is warned of into `notes`, once, and pass warnings of other categories on."""
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", category)
            yield
    finally:
        notes += dict.fromkeys(str(each.message) for each in caught if issubclass(each.category, category))
    for other in caught:
        if not issubclass(other.category, category):
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)


def split_names(given: str, option: str = "--classes") -> list[str]:
    """Split names at commas; a name with a comma stands in double quotes, as in CSV."""
    try:
        names = next(csv.reader([given], skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        raise InputError(f"{option} {quote(given)} cannot be read as a list of names: {error}.") from error
    if not names or not all(name.strip() for name in names):
        raise InputError(f"{option} {quote(given)} holds an empty name. Give names with commas between: cat,dog.")
    return [name.strip() for name in names]


def announce_compilation(labels: CrowdLabels) -> None:
    """Say on a terminal why the first run with compiled loops takes some seconds longer."""
    from crowdwise.labels.engine_choice import choose_engine

    if choose_engine(labels.n_labels, labels.n_classes) != "numba":
        return
    kept = Path(__file__).parent.parent / "kernels" / "compiled" / "__pycache__"
    if sys.stderr.isatty() and not any(kept.glob("*.nbc")):
        print("First run: compiling the kernels takes some seconds, once on this machine.", file=sys.stderr)
