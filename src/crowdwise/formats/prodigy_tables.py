"""Tables in memory, and as CSV, that are exports of Prodigy: answers that accept or reject a suggested label.

They are recognised by their columns; `prodigy` reads the files that Prodigy writes, and says which field is what.
Answers of other views stand in lists, which such tables do not have, and are refused: the column `label` or `answer`
would be read without an error, and mean something else.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.labels.columns import candidates
from crowdwise.labels.errors import InputError, InputWarning, listing
from crowdwise.labels.source_location import SelectedPlace, format_count

if TYPE_CHECKING:
    from crowdwise.labels.columns import Columns, Named
    from crowdwise.labels.types import IntArray

__all__ = ["ANSWERS", "BINARY", "HASHES", "WORKERS", "find_answers"]

ANSWERS = ("accept", "reject", "ignore")
HASHES = ("_task_hash", "_input_hash")
WORKERS = ("_annotator_id", "_session_id")
BINARY = ("classification", "text", "html", "image", "audio", "ner", "spans")  # views that accept or reject as a whole
ELSEWHERE = ("accept", "options", "spans", "relations", "user_input", "audio_spans")  # fields with answers of others
BY_HAND = "Write a table with columns task, worker and label, or name the columns yourself"


def find_answers(source: Columns, named: Named) -> tuple[Columns, Named] | None:
    """The answers of a Prodigy export without those ignored, and their columns; None if it is no such export.

    Parameters
    ----------
    source
        Any table.
    named
        Columns of task, worker and label that the user named; who names the label is taken at their word.
    """
    if "answer" not in source.names or named[2] is not None:
        return None
    if not {*HASHES, *WORKERS, "_view_id", "label"} & set(source.names):
        return None
    answer = _to_plain_text(source.column("answer"))
    if not _is_text(answer.type):
        return None
    said = set(pc.unique(answer).to_pylist()) - {None}
    if not said <= set(ANSWERS):
        _refuse_other_answers(source, said)
        return None
    _refuse_other_views(source)
    kept = np.flatnonzero(pc.fill_null(pc.not_equal(answer, "ignore"), True).to_numpy())
    if kept.size == 0:
        raise InputError(f"{source.place.origin}: every answer is 'ignore'. There is no label to read.")
    if kept.size < len(answer):
        warnings.warn(
            f"{source.place.origin}: {format_count(len(answer) - kept.size, 'answer')} 'ignore' left out: a task that "
            "was skipped has no label.",
            InputWarning,
            stacklevel=2,
        )
    columns = (named[0] or _task_column(source), named[1] or _worker_column(source, kept), "answer")
    return _select_rows(source, kept), columns


def _refuse_other_answers(source: Columns, said: set[str]) -> None:
    """An export of Prodigy in which some answers are none of its own: its label column would mean something else."""
    others = sorted(said - set(ANSWERS))
    if said & set(ANSWERS) and {*HASHES, *WORKERS, "_view_id"} & set(source.names):
        raise InputError(
            f"{source.place.origin} looks like an export of Prodigy, but the column 'answer' holds {listing(others)} "
            f"besides {', '.join(ANSWERS)}. Mend these answers, or name the columns yourself (on the command line "
            "--task-column, --worker-column, --label-column)."
        )


def _refuse_other_views(source: Columns) -> None:
    views = _distinct_values(source, "_view_id")
    others = [name for name in views if name not in BINARY]
    elsewhere = [name for name in ELSEWHERE if name in source.names and not (views and name == "spans")]
    if others or elsewhere:
        what = f"of the view {listing(others)}" if others else f"with the fields {listing(elsewhere)}"
        raise InputError(
            f"{source.place.origin} looks like an export of Prodigy {what}, whose answers are not read yet: they are "
            f"not in the columns 'label' or 'answer'. {BY_HAND}."
        )


def _task_column(source: Columns) -> str:
    if HASHES[0] in source.names:
        return HASHES[0]
    suggested = _distinct_values(source, "label")
    if len(suggested) <= 1:
        tasks = [HASHES[1]] if HASHES[1] in source.names else candidates("task", source.names)
        if len(tasks) == 1:
            return tasks[0]
    raise InputError(
        f"{source.place.origin} looks like an export of Prodigy (answers {', '.join(ANSWERS)} about "
        f"{listing(suggested) if suggested else 'a label'}) without the field '_task_hash', which tells the tasks "
        "apart. Export it with its hashes, or name the column that does with task= in read_labels (on the command line "
        "--task-column). If another column than 'answer' is the label, name that with label= (--label-column)."
    )


def _worker_column(source: Columns, kept: IntArray) -> str:
    """The field with the annotator of every answer."""
    for name in (*WORKERS, *candidates("worker", source.names)):
        if name in source.names and _has_no_empty_cells(source.column(name).take(pa.array(kept))):
            return name
    raise InputError(
        f"{source.place.origin} looks like an export of Prodigy that does not say who gave each answer: "
        f"{' and '.join(repr(name) for name in WORKERS)} are empty or not there. Add a column with the annotator (each "
        "had a database or a session of their own), and name it with worker= in read_labels (on the command line "
        "--worker-column)."
    )


def _select_rows(source: Columns, rows: IntArray) -> Columns:
    """The table with some of its rows."""
    taken = pa.array(rows)
    return replace(
        source,
        column=lambda name: source.column(name).take(taken),
        place=SelectedPlace.select_rows(source.place, rows),
        batches=None,
    )


def _distinct_values(source: Columns, name: str) -> list[str]:
    """What a column holds, each once; nothing if it is not there."""
    if name not in source.names:
        return []
    column = _to_plain_text(source.column(name))
    return [str(value) for value in pc.unique(column).drop_null().to_pylist()] if _is_text(column.type) else []


def _to_plain_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text that is held in a dictionary, or as views, as plain text."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return column.cast(pa.string()) if _is_text(kind) or pa.types.is_string_view(kind) else column


def _has_no_empty_cells(column: pa.ChunkedArray) -> bool:
    """Whether every row has a value; an empty cell of a text file has none."""
    return not column.null_count and not (_is_text(column.type) and pc.any(pc.equal(column, "")).as_py())


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
