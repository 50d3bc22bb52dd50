"""From a column of names to integer codes and a vocabulary: first appearance first, nothing repaired."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.labels.column_checks import (
    check_blanks,
    refuse_class_twins,
    refuse_infinite,
    refuse_missing,
    refuse_nested,
    refuse_nul_bytes,
    unreadable_values_error,
    warn_of_lost_digits,
    warn_of_restored_characters,
)
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.integer_codes import smallest_int
from crowdwise.labels.numeric_values import refuse_numeric_values
from crowdwise.labels.sorting import codes_by_first_appearance, look_up
from crowdwise.labels.source_location import Place, format_count
from crowdwise.labels.string_encoder import Interner
from crowdwise.labels.table_output import restore_names
from crowdwise.labels.vocabulary import as_vocabulary, drop_sign_of_zero, parse_integers, plain_arrow_names, positions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crowdwise.labels.types import Duplicates, IntArray, TableKind

__all__ = ["ColumnEncoder", "Encoded", "encode", "labels_from_encoded", "settle_classes"]


class Encoded(NamedTuple):
    """A column as codes into its distinct names.

    `ordered` says that the names are a declared scale: their order is meant, and so are names never used.
    """

    codes: IntArray
    names: pa.Array
    ordered: bool = False


class ColumnEncoder:
    """Encodes one column, batch after batch, refusing missing values, nested values and names that are twins.

    Parameters
    ----------
    what
        "task", "worker" or "label".
    name
        The column's name in the source, for errors.
    place
        Names a row in an error.
    text
        The column was read from text, so that integers are to be recognised.
    """

    def __init__(self, what: str, name: str | None = None, place: Place | None = None, *, text: bool = False) -> None:
        self.what, self.place, self.text = what, place or Place(), text
        self.called = f"column {quote(name if name is not None else what)}"
        self.rows = 0
        self.missing: list[IntArray] = []
        self.chunks: list[pa.Array] = []
        self.interner = Interner()

    def add(self, array: pa.Array) -> None:
        """Take one batch: text is numbered at once, other types wait for the whole."""
        refuse_nested(array.type, self.called, self.place)
        if array.null_count:
            self.missing.append(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)) + self.rows)
        elif _is_text(array.type):
            self.interner.add(array)
        else:
            self.chunks.append(array)
        self.rows += len(array)

    def take(self, column: pa.ChunkedArray) -> Encoded:
        """Encode a whole column that is in memory."""
        refuse_nested(column.type, self.called, self.place)
        for chunk in column.chunks:
            self.add(chunk)
        return self.finish()

    def finish(self) -> Encoded:
        """Check the whole column and hand over its codes and names."""
        if self.missing:
            refuse_missing(np.concatenate(self.missing), self.called, self.place)
        kind = self.chunks[0].type if self.chunks else pa.string()
        try:
            if self.chunks:
                codes, names, ordered = _codes(pa.chunked_array(self.chunks))
                self.chunks = []
                if pa.types.is_floating(names.type):
                    refuse_infinite(codes, names, self.called, self.place)
                warn_of_lost_digits(names, kind, self.called, self.place)
                names = plain_arrow_names(names)
                if pa.types.is_string(names.type):
                    names.validate(full=True)
            else:
                codes, names = self.interner.finish()
                ordered = False
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise unreadable_values_error(kind, self.called, self.place) from error
        if pa.types.is_string(names.type):
            if self.text:
                written, names = names, restore_names(names)
                warn_of_restored_characters(written, names, self.called, self.place)
            check_blanks(codes, names, self.what, self.called, self.place)
            refuse_nul_bytes(codes, names, self.called, self.place)
            names = parse_integers(names) if self.text else names
        return Encoded(codes, names, ordered)


def encode(
    column: pa.ChunkedArray, what: str, *, name: str | None = None, place: Place | None = None, text: bool = False
) -> Encoded:
    """Encode one column that is in memory; see `ColumnEncoder`."""
    return ColumnEncoder(what, name, place, text=text).take(column)


def labels_from_encoded(
    task: Encoded,
    worker: Encoded,
    label: Encoded,
    *,
    classes: Iterable[Any] | None = None,
    on_duplicate: Duplicates = "error",
    as_classes: bool = False,
    kind: TableKind = "pyarrow",
    place: Place | None = None,
) -> CrowdLabels:
    """Put three encoded columns together, once the classes are settled.

    Labels that look like values are refused, unless the classes are declared or `as_classes` says what they are.
    """
    place = place or Place()
    mapping, names = settle_classes(label, classes, place)
    codes = look_up(mapping.astype(smallest_int(len(names))), label.codes)
    labels = CrowdLabels._sorted(
        task.codes, worker.codes, codes, task.names, worker.names, names, on_duplicate, kind, place
    )
    if classes is None and not as_classes:
        refuse_numeric_values(labels)
    return labels


# ---- codes ----------------------------------------------------------------------------------------------


def _codes(column: pa.ChunkedArray) -> tuple[IntArray, pa.Array, bool]:
    """Codes in order of first appearance (or of an ordered dictionary) and the names they stand for."""
    kind = column.type
    if len(column) == 0:
        return np.zeros(0, np.int32), pa.array([], pa.string()), False
    if pa.types.is_dictionary(kind):
        encoded = _dictionary_codes(column)
        if encoded is not None:
            return encoded
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        with contextlib.suppress(pa.ArrowInvalid):  # 1.0, 2.0: integers that met a missing value on the way
            column = column.cast(pa.int64())
    column = drop_sign_of_zero(column)
    if pa.types.is_integer(column.type):
        dense = _dense_codes(column)
        if dense is not None:
            return *dense, False
    encoded = pc.dictionary_encode(column)
    # The kernel keeps one dictionary over all chunks, in order of first appearance.
    return _numpy(chunk.indices for chunk in encoded.chunks), encoded.chunk(0).dictionary, False


def _dense_codes(column: pa.ChunkedArray) -> tuple[IntArray, pa.Array] | None:
    """Codes of integers in a range not much wider than they are many: a table look-up instead of hashing."""
    bounds = pc.min_max(column)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is None or high > 2**63 - 1 or high - low >= 4 * len(column) + 2**16:
        return None
    values = _numpy(chunk if chunk.type in _COMPILED else chunk.cast(pa.int64()) for chunk in column.chunks)
    codes, seen = codes_by_first_appearance(values, low, high - low + 1)
    return codes, pa.array(seen)


_COMPILED = (pa.int32(), pa.int64())


def _dictionary_codes(column: pa.ChunkedArray) -> tuple[IntArray, pa.Array, bool] | None:
    if column.num_chunks > 1:
        try:
            column = column.unify_dictionaries()
        except pa.ArrowNotImplementedError:
            return None
    if column.num_chunks == 0:
        return None
    names = column.chunk(0).dictionary
    if pa.types.is_string_view(names.type):  # few kernels know it
        names = names.cast(pa.string())
    names = drop_sign_of_zero(names)
    if names.null_count or pc.count_distinct(names).as_py() < len(names):
        return None
    indices = _numpy(chunk.indices.cast(pa.int32()) for chunk in column.chunks)
    if column.type.ordered:
        return indices, names, True
    codes, seen = codes_by_first_appearance(indices, 0, len(names))
    return codes, names.take(pa.array(seen)), False


def _is_text(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def _numpy(chunks: Iterable[pa.Array]) -> IntArray:
    arrays = [chunk.to_numpy(zero_copy_only=False) for chunk in chunks]
    result: IntArray = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    return result


# ---- classes --------------------------------------------------------------------------------------------


def settle_classes(label: Encoded, classes: Iterable[Any] | None, place: Place) -> tuple[IntArray, pa.Array]:
    """The classes, declared or as they occur, and which each name of the labels is."""
    return _infer_classes(label, place) if classes is None else _apply_declared_classes(label, classes, place)


def _infer_classes(label: Encoded, place: Place) -> tuple[IntArray, pa.Array]:
    """Classes from the labels that occur: in the order of their scale, or sorted."""
    names = label.names
    refuse_class_twins(label, place)
    if label.ordered:
        return np.arange(len(names)), names
    order = pc.sort_indices(names).to_numpy()
    mapping = np.empty(len(names), np.int64)
    mapping[order] = np.arange(len(names))
    return mapping, names.take(pa.array(order))


def _apply_declared_classes(label: Encoded, classes: Iterable[Any], place: Place) -> tuple[IntArray, pa.Array]:
    """Classes as the user declared them; a label outside is an error."""
    if isinstance(classes, str):
        raise InputError(f"classes is the text {quote(classes)}; give a list of class names.")
    names = as_vocabulary(classes, "class")
    if isinstance(classes, set | frozenset):  # the order of a set changes from run to run
        names = names.take(pc.sort_indices(names))
    if pa.types.is_integer(label.names.type):
        names = parse_integers(names)
    mapping = positions(label.names, names)
    used = np.zeros(len(mapping), np.bool_)
    used[label.codes] = True
    strange = np.flatnonzero((mapping < 0) & used)
    if strange.size:
        rows = np.flatnonzero(np.isin(label.codes, strange))
        shown = listing(label.names.take(pa.array(strange)).to_pylist())
        raise InputError(
            f"{format_count(rows.size, 'label')} outside the declared classes ({listing(names.to_pylist())}): "
            f"{shown} ({place.name_rows(rows.tolist())}). Add to classes= (on the command line --classes), or "
            "remove those rows."
        )
    return np.maximum(mapping, 0), names
