"""When each label was given: a column of times beside the labels, in the labels' own order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.labels.columns import Columns, candidates, check_time_column, choose_columns
from crowdwise.labels.encode import encode
from crowdwise.labels.errors import SHOWN, InputError, listing, quote
from crowdwise.labels.read import Options, labels_from_opened, open_answers
from crowdwise.labels.similar_names import warn_of_twins
from crowdwise.labels.sorting import find_repeated_edges, group_by, group_offsets

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.source_location import Place
    from crowdwise.labels.types import Duplicates, IntArray

__all__ = ["TimedLabels", "find_impossible_times", "read_timed_labels"]

DATE, ZONED = pa.timestamp("us"), pa.timestamp("us", "UTC")
FORMS = (pa.float64(), DATE, ZONED)  # of times that are text: the first that the first of them has
EARLIEST, LATEST = np.datetime64("1900"), np.datetime64("2200")
LARGEST = 1e19  # of a time that is a number: nanoseconds since 1970, for centuries
NAME_IT = "name it with --time-column (in Python time= in read_timed_labels)"
REMEDY = "Write numbers, or dates as 2026-05-31 or 2026-05-31 13:45:00, all with a time zone or all without"


@dataclass(frozen=True, eq=False)
class TimedLabels:
    """Labels, and when they were given.

    Attributes
    ----------
    labels
        As `read_labels` gives them.
    time : (n_labels,)
        Numbers or dates in the order of the labels, NaN or NaT where unknown; None if there are none.
    column
        Where they were read from; None if there are none.
    why_not
        Why there are none, in words; "" if there are.
    """

    labels: CrowdLabels
    time: Any = None
    column: str | None = None
    why_not: str = ""


def read_timed_labels(source: Any, *, time: str | None = None, **options: Any) -> TimedLabels:
    """Read labels as `read_labels` does, and the times at which they were given, if the table has them.

    Parameters
    ----------
    time
        Column of times: numbers, or dates as ISO 8601 writes them (2026-05-31 13:45:00). By default "time", or the one
        column with a usual other name (timestamp, submitted_at, …); where it is not plain, there are no times.
    source, options
        As for `read_labels`.

    Raises
    ------
    InputError
        As `read_labels`; and if a column that was named is not there, or cannot be read as times.

    Examples
    --------
    >>> table = {"task": ["b", "a", "b"], "worker": [1, 1, 2], "label": ["x", "y", "y"], "submitted_at": [30, 10, 20]}
    >>> read_timed_labels(table).time.tolist()
    [30.0, 20.0, 10.0]
    """
    found, told = open_answers(source, Options.of(**options))
    labels = labels_from_opened(source, found, told)
    warn_of_twins(labels, declared=told.classes is not None)
    named = told.named
    if not isinstance(found, Columns) or (named == (None, None, None) and not candidates("worker", found.names)):
        if time is not None:
            raise InputError(f"There is no column {quote(time)}: only a table with a row for each answer has times.")
        return TimedLabels(labels, why_not="There is no time column: the table does not have a row for each answer.")
    columns = choose_columns(found.names, found.place.origin, *named)
    if time is not None:
        chosen = check_time_column(found.names, found.place.origin, time, columns)
        return TimedLabels(labels, _align_times(found, columns, chosen, told.on_duplicate), chosen)
    likely = candidates("time", found.names, set(columns))
    if not likely:
        return TimedLabels(labels, why_not=f"There is no time column. If there is one of an unusual name, {NAME_IT}.")
    if len(likely) > 1:
        return TimedLabels(labels, why_not=f"More than one column may be the time ({listing(likely)}): {NAME_IT}.")
    try:
        return TimedLabels(labels, _align_times(found, columns, likely[0], told.on_duplicate), likely[0])
    except InputError as error:  # nobody asked for it, and the labels are good without
        return TimedLabels(labels, why_not=str(error))


def _align_times(found: Columns, columns: tuple[str, str, str], time: str, on_duplicate: Duplicates) -> Any:
    """Times in the order of the labels, which are sorted by task, and in the order of the table within one."""
    table = found.read_whole_columns([*columns[:2], time])
    task, worker = (
        encode(table[name], role, name=name, place=found.place, text=found.text)
        for name, role in zip(columns, ("task", "worker"), strict=False)
    )
    when = _as_times(table[time], time, found.place)
    if when.size != task.codes.size:
        raise InputError(
            f"{found.place.origin}: column {quote(time)} has {when.size:,} rows, the others {task.codes.size:,}."
        )
    _refuse_impossible_times(when, time, found.place)
    offsets = group_offsets(task.codes, len(task.names))
    order: IntArray = group_by(task.codes, offsets)
    if on_duplicate in ("first", "last"):
        later, earlier = find_repeated_edges(offsets, worker.codes[order], len(worker.names))
        order = np.delete(order, later if on_duplicate == "first" else earlier)
    return when[order]


def find_impossible_times(when: Any) -> tuple[IntArray, str]:
    """Where times are infinite or absurd, and what they must be.

    Such cells mark something else, as 9999-12-31 does, and would come last.
    """
    if when.dtype.kind == "M":
        return np.flatnonzero((when < EARLIEST) | (when >= LATEST)), "dates must lie between 1900 and 2200"
    return np.flatnonzero(np.abs(when) > LARGEST), f"numbers must lie between -{LARGEST:g} and {LARGEST:g}"


def _refuse_impossible_times(when: Any, name: str, place: Place) -> None:
    rows, allowed = find_impossible_times(when)
    if rows.size:
        shown, where = listing(str(each) for each in when[rows[:SHOWN]]), place.name_rows(rows.tolist())
        raise InputError(
            f"Column {quote(name)} holds times at which no label was given: {shown} ({where}); {allowed}. Leave cells "
            "empty where the time is not known."
        )


def _as_times(column: pa.ChunkedArray, name: str, place: Place) -> Any:
    """Numbers as float64, dates as datetime64; NaN and NaT where a cell is empty."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # Arrow gives no array of no chunks
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        try:  # of nanoseconds some digits are dropped; no date may wrap round
            fine = pa.types.is_timestamp(kind) and kind.unit == "ns"
            return array.cast(DATE, safe=not fine).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid as error:
            raise InputError(
                f"{place.origin}: column {quote(name)} holds dates that are too far away. {REMEDY}."
            ) from error
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)):
        raise InputError(f"{place.origin}: column {quote(name)} holds no times, but {kind}. {REMEDY}.")
    text = pc.utf8_trim_whitespace(array.cast(pa.string()))
    text = pc.if_else(pc.equal(text, ""), None, text)
    first = next((value for value in text if value.is_valid), None)
    form = next((form for form in FORMS if first is None or _can_parse_time(first, form)), None)
    try:
        if form is not None:
            return text.cast(form).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        pass
    raise InputError(_unreadable_time_error(text, form, name, place))


def _can_parse_time(value: Any, form: pa.DataType) -> bool:
    try:
        value.cast(form)
    except pa.ArrowInvalid:
        return False
    return True


def _unreadable_time_error(text: pa.Array, form: pa.DataType | None, name: str, place: Place) -> str:
    """Name the first rows that do not have the form of the first time."""
    rows: list[int] = []
    for row, value in enumerate(text):
        if value.is_valid and (form is None or not _can_parse_time(value, form)):
            rows.append(row)
        if len(rows) == SHOWN:
            break
    where, what = place.name_rows(rows), listing(text[row].as_py() for row in rows)
    return f"Column {quote(name)} cannot be read as times: {what} ({where}). {REMEDY}."
