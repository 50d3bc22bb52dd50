"""Files of answers that are no classes: which kind they are, and how they are read as the options say."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from crowdwise.cli.label_files import collect_warnings, split_names
from crowdwise.labels.errors import InputError, InputWarning, NumericLabelsError, OtherKindError

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.cli.label_files import LabelFiles
    from crowdwise.kinds.answers import Answers
    from crowdwise.kinds.kind_registry import Kind

__all__ = ["KindAnswers", "can_be_opened_twice", "find_kind_of_files", "read_answers", "read_labels_or_answers"]


class KindAnswers(NamedTuple):
    """Answers of a kind that is no classes, and what to say about how they were read."""

    kind: Kind
    answers: Answers
    notes: list[str]


def read_labels_or_answers(files: LabelFiles, read: Callable[[LabelFiles], Any]) -> Any:
    """What `read` makes of labels; `KindAnswers` where the options, the columns or the labels say another kind."""
    from crowdwise.kinds.kind_registry import kind as find

    try:
        return read(files)
    except OtherKindError as other:
        kind = find(other.kind)
        return KindAnswers(kind, *read_answers(kind, other.opened, files))
    except NumericLabelsError as error:
        if not can_be_opened_twice(files):
            raise
        kind = find("values")
        answers, notes = read_answers(kind, files.opened, files)
        said = f"Read as values; --kind labels for classes. {str(error).partition('. If they are')[0]}."
        return KindAnswers(kind, answers, [said, *notes])


def find_kind_of_files(files: LabelFiles) -> Kind | None:
    """The kind that --kind or the columns of the files tell; None for labels, and for pipes."""
    from crowdwise.kinds.kind_registry import find_kind, find_kind_of_export, kind
    from crowdwise.labels.columns import Columns
    from crowdwise.labels.read import open_source

    if files.columns.kind is not None:
        return None if files.columns.kind.value == "labels" else kind(files.columns.kind.value)
    if files.export is not None:
        return find_kind_of_export(files.export)
    if not can_be_opened_twice(files):
        return None
    opened = open_source(files.opened)
    return find_kind(opened.names) if isinstance(opened, Columns) else None


def can_be_opened_twice(files: LabelFiles) -> bool:
    """Whether none of the files is standard input or a pipe."""
    return not any(each == "-" or (Path(each).exists() and not Path(each).is_file()) for each in files.files)


def read_answers(kind: Kind, source: Any, files: LabelFiles) -> tuple[Answers, list[str]]:
    """Answers of a kind, with the columns that the options name, and what the reader warns of."""
    columns = files.columns
    if getattr(columns, "time_column", None) is not None:  # drift is looked for in labels alone
        raise InputError(f"{kind.name} take no --time-column. Leave it out.")
    if columns.outer is not None:
        raise InputError(f"{kind.name} are no nested JSON of labels: leave --outer out.")
    named = {"task": columns.task_column, "worker": columns.worker_column, kind.roles[-1]: columns.label_column}
    given = {role: name for role, name in named.items() if name is not None}
    strange = [role for role in given if role not in kind.roles]
    if strange:
        raise InputError(f"{kind.name} have no {strange[0]} column: leave --{strange[0]}-column out.")
    more: dict[str, Any] = {}
    if columns.classes is not None:
        if "classes" not in inspect.signature(kind.read).parameters:
            raise InputError(f"{kind.name} have no classes: leave --classes out.")
        more["classes"] = split_names(columns.classes)
    folders = {Path(each).parent for each in files.files if each != "-"}
    if len(folders) == 1 and "folder" in inspect.signature(kind.read).parameters:
        more["folder"] = folders.pop()  # the table may be open already, and does not say where it was
    answers, notes = collect_warnings(
        InputWarning, lambda: kind.read(source, **given, **more, on_duplicate=columns.on_duplicate.value)
    )
    return answers, notes
