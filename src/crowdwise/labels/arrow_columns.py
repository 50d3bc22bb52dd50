"""One column of names, however it is held in memory, as an Arrow column of a plain type."""

from __future__ import annotations

import contextlib
import re
import warnings
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.labels.errors import SHOWN, InputError, InputWarning, quote
from crowdwise.labels.vocabulary import refuse_complex, refuse_endless

__all__ = ["as_column", "as_plain_array", "as_plain_column", "find_column", "polars_to_arrow"]

UNORDERED = (set, frozenset, dict)
WIDE_INTEGERS = ("Int128", "UInt128")  # of polars, which Arrow does not have
STORED = ("arrow.bool8", "arrow.json")  # extension types whose storage says the same
UUID = "arrow.uuid"
LONGEST_FLOAT = 8  # bytes, of Arrow's
ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+>$")  # of an object that says no more of itself
INFINITE = ("inf", "-inf", "Infinity", "-Infinity")


def as_column(values: Any, name: str, origin: str = "the table") -> pa.ChunkedArray:
    """Give an Arrow column of a list, a NumPy, pandas, polars or Arrow array; NaN, None and what is masked: nulls."""
    if isinstance(values, pa.ChunkedArray):
        return as_plain_column(values)
    if isinstance(values, str | bytes) or not (hasattr(values, "__iter__") or hasattr(values, "__arrow_c_stream__")):
        raise InputError(f"{origin}: {name} is {quote(values)}; it must be an array with one entry a label.")
    if isinstance(values, UNORDERED):
        raise InputError(
            f"{origin}: {name} is a {type(values).__name__}, whose entries do not stand in rows. Give a list or array."
        )
    if isinstance(values, pa.Array):
        return as_plain_column(pa.chunked_array([values]))
    if hasattr(values, "shape") and len(values.shape) != 1:
        raise InputError(
            f"{origin}: {name} must be one-dimensional; it has shape {values.shape}. For a matrix "
            "with a row a task and a column a worker use CrowdLabels.from_dense."
        )
    library = type(values).__module__.split(".")[0]
    if library == "polars":
        return as_plain_column(find_column(polars_to_arrow(values.to_frame(name)), name))
    if hasattr(values, "__arrow_c_stream__") and library != "pandas":
        try:
            return as_plain_column(pa.chunked_array(values))
        except (pa.ArrowException, TypeError) as error:
            raise _unreadable_column_error(name, origin, error) from error
    if library == "pandas":
        values = _plain_pandas(values)
    elif library == "torch":  # whose entries are no numbers of Python's
        try:
            values = values.detach().cpu().numpy()
        except Exception as error:  # sparse ones, and of types that NumPy does not have
            raise _unreadable_column_error(name, origin, error) from error
    elif not isinstance(values, np.ndarray):
        values = [None if value is np.ma.masked else value for value in values]
        refuse_endless(values, f"{origin}: {name} holds")
    else:
        values = _plain_numbers(values)
        if _has_inner_nul(values):  # where Arrow would cut the text without a word
            values = values.tolist()
    try:
        array = pa.array(values, from_pandas=True)
    except (
        pa.ArrowInvalid,
        pa.ArrowTypeError,
        pa.ArrowNotImplementedError,
        OverflowError,
        TypeError,  # of an infinite Decimal
        UnicodeEncodeError,
    ):
        array = _as_text(values, name, origin)
    if pa.types.is_timestamp(array.type):
        _refuse_mixed_zones(values, name, origin)
    return as_plain_column(array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array]))


def _refuse_mixed_zones(values: Any, name: str, origin: str) -> None:
    """Refuse times of Python's of which some have a zone: Arrow would take the others to be in UTC."""
    zoned = {each.tzinfo is not None for each in values if isinstance(each, datetime)} if _holds_objects(values) else ()
    if len(zoned) > 1:
        raise InputError(
            f"{origin}: column {quote(name)} holds times with a time zone and times without. Give all with a time zone "
            "or all without."
        )


def _holds_objects(values: Any) -> bool:
    return isinstance(values, list) or getattr(getattr(values, "dtype", None), "kind", "") == "O"


def find_column(table: pa.Table, name: str) -> pa.ChunkedArray:
    """The first column of this name: others of the same name are refused where a column is chosen."""
    return table.column(table.column_names.index(name))


def as_plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same values in a type that every reader of columns knows; see `as_plain_array`."""
    if _is_plain(column.type):
        return column
    chunks = [as_plain_array(chunk) for chunk in column.chunks]
    return pa.chunked_array(chunks, None if chunks else pa.string())


def as_plain_array(array: pa.Array) -> pa.Array:
    """Undo run-end encoding, string views and known extension types; nulls of a dictionary become nulls of the rows."""
    kind = array.type
    if _is_plain(kind):
        return array
    if pa.types.is_run_end_encoded(kind):
        return as_plain_array(_decode_runs(array))
    if pa.types.is_string_view(kind) or _is_short_decimal(kind):  # short ones are not written as text by Arrow
        wide = pa.large_string() if pa.types.is_string_view(kind) else pa.decimal128(kind.precision, kind.scale)
        return array.cast(wide)
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == UUID:
            encoded = array.storage.dictionary_encode()
            names = pa.array([str(value) for value in kind.wrap_array(encoded.dictionary).to_pylist()], pa.string())
            return pa.DictionaryArray.from_arrays(encoded.indices, names)
        return as_plain_array(array.storage) if kind.extension_name in STORED else array
    return _as_plain_dictionary(array)


def _decode_runs(array: pa.RunEndEncodedArray) -> pa.Array:
    try:
        values = as_plain_array(array.values)
        if pa.types.is_dictionary(values.type):  # which Arrow does not decode in runs
            values = values.dictionary_decode()
        whole = pa.RunEndEncodedArray.from_arrays(array.run_ends, values)
        return pc.run_end_decode(whole.slice(array.offset, len(array)))
    except pa.ArrowException as error:
        raise InputError(
            f"A run-end encoded column ({array.type}) cannot be read: {str(error).splitlines()[0]}"
        ) from error


def _is_plain(kind: pa.DataType) -> bool:
    return not (
        pa.types.is_dictionary(kind)
        or pa.types.is_run_end_encoded(kind)
        or pa.types.is_string_view(kind)
        or _is_short_decimal(kind)
        or isinstance(kind, pa.BaseExtensionType)
    )


def _is_short_decimal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind)) and kind.bit_width < 128


def _as_plain_dictionary(array: pa.DictionaryArray) -> pa.DictionaryArray:
    try:
        array.validate(full=True)  # compiled code follows the codes
    except pa.ArrowException as error:
        raise InputError(f"A dictionary-encoded column is damaged: {str(error).splitlines()[0]}") from error
    names = array.dictionary
    if not names.null_count:
        return array
    here = names.is_valid()
    number = pc.if_else(here, pc.subtract(pc.cumulative_sum(here.cast(pa.int32())), 1), None)
    return pa.DictionaryArray.from_arrays(
        number.take(array.indices), names.drop_null(), ordered=bool(array.type.ordered)
    )


def polars_to_arrow(frame: Any) -> pa.Table:
    """A frame of polars, lazy or not, as an Arrow table; integers of 128 bits that need them as text."""
    import polars as pl

    try:
        found: pl.DataFrame = frame.collect() if isinstance(frame, pl.LazyFrame) else frame
        for name, kind in found.schema.items():
            if kind == pl.Object:  # whose entries Arrow would take for bytes
                with contextlib.suppress(InputError):  # it may be a column that nobody asks for
                    found = found.with_columns(pl.Series(name, as_column(found[name].to_list(), name).to_pylist()))
            if str(kind) in WIDE_INTEGERS:
                short = found[name].cast(pl.Int64, strict=False)
                fits = short.null_count() == found[name].null_count()
                found = found.with_columns(short if fits else found[name].cast(pl.String))
        return found.to_arrow()
    except Exception as error:  # of polars, or of a function of the user's own that a lazy frame runs
        raise InputError(f"The polars table cannot be read: {quote(str(error))}.") from error


def _plain_numbers(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Numbers as Arrow takes them, which would else become text: in the machine's own order of bytes, of 64 bits."""
    kind = values.dtype
    if kind.kind in "iuf" and not kind.isnative:
        values = values.astype(kind.newbyteorder("="))
    if kind.kind == "f" and kind.itemsize > LONGEST_FLOAT:
        with np.errstate(over="ignore"):
            short = values.astype(np.float64)
        return short if bool(((short == values) | (values != values)).all()) else values  # noqa: PLR0124 (NaN)
    return values


def _plain_pandas(values: Any) -> Any:
    """Intervals (of `pd.cut`) and periods by their text; a categorical of them keeps its order; sparse ones filled."""
    import pandas as pd

    kind = getattr(values, "dtype", None)
    if isinstance(kind, pd.SparseDtype):
        values = pd.Series(np.asarray(values))
    elif isinstance(kind, np.dtype) and _plain_numbers(np.empty(0, kind)).dtype != kind:
        values = pd.Series(_plain_numbers(np.asarray(values)))
    if isinstance(kind, pd.CategoricalDtype) and isinstance(kind.categories.dtype, pd.IntervalDtype | pd.PeriodDtype):
        return pd.Series(values).cat.rename_categories(str)
    return pd.Series(values).astype("string") if isinstance(kind, pd.IntervalDtype | pd.PeriodDtype) else values


def _has_inner_nul(values: np.ndarray[Any, Any]) -> bool:
    """Whether NumPy's text of a fixed width holds a NUL with more behind it; those at its end are padding."""
    if values.dtype.kind not in "US" or not values.size or not values.dtype.itemsize:
        return False
    letter = np.uint32 if values.dtype.kind == "U" else np.uint8
    letters = np.ascontiguousarray(values.data if isinstance(values, np.ma.MaskedArray) else values).view(letter)
    is_nul = letters.reshape(values.size, -1) == 0
    return bool((is_nul[:, :-1] & ~is_nul[:, 1:]).any())


def _is_not_itself(value: Any) -> bool:
    """Whether a value is a NaN or NaT of any library: they differ from themselves."""
    try:
        return bool(value != value)  # noqa: PLR0124
    except Exception:  # a class of the user's own, or a signalling NaN
        return str(value) == "sNaN"


def _unreadable_column_error(name: str, origin: str, error: Exception) -> InputError:
    return InputError(f"{origin}: column {quote(name)} cannot be read ({quote(str(error))}). Convert it to text first.")


def _as_text(values: Any, name: str, origin: str) -> pa.Array:
    """Names of mixed types, or integers beyond 64 bits, as text."""
    texts: list[str | None] = []
    first: dict[str, Any] = {}
    met: dict[str, tuple[Any, Any]] = {}  # values of two types that are one text
    for row, value in enumerate(values):
        if isinstance(value, list | tuple | dict | set | frozenset | np.ndarray | np.void):
            raise InputError(
                f"{origin}: column {quote(name)} holds lists or records (row {row}: {quote(value)}). "
                "Each row must hold one name: one row for each answer."
            )
        refuse_complex(value, f"{origin}: column {quote(name)}, row {row}: {quote(value)}")
        try:
            text = str(value + 0.0 if isinstance(value, float) else value)  # -0.0 is 0.0
        except Exception as error:  # an integer of too many digits, or a class of the user's own
            raise InputError(
                f"{origin}: column {quote(name)}, row {row}: {quote(value)} cannot be written as text ({error})."
            ) from error
        if callable(value) or (text.startswith("<") and ADDRESS.search(text) and not isinstance(value, str)):
            raise InputError(
                f"{origin}: column {quote(name)}, row {row}: {quote(value)} is no name: another run writes it "
                "otherwise. Give text or numbers."
            )
        missing = value is None or text == "<NA>" or _is_not_itself(value)
        if text in INFINITE and not isinstance(value, str):
            raise InputError(
                f"{origin}: column {quote(name)} holds numbers that are not finite (row {row}: {text}). Remove those "
                "rows."
            )
        texts.append(None if missing else text)
        if not missing and type(first.setdefault(text, value)) is not type(value):
            met.setdefault(text, (first[text], value))
    if met:
        pairs = "; ".join(f"{quote(one)} and {quote(other)}" for one, other in list(met.values())[:SHOWN])
        more = f" and {len(met) - SHOWN:,} more" if len(met) > SHOWN else ""
        warnings.warn(
            f"{origin}: column {quote(name)} holds names of several types, which are taken as one where their text is "
            f"the same: {pairs}{more}. Give all the same type.",
            InputWarning,
            stacklevel=2,
        )
    try:
        return pa.array(texts, pa.string())
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise InputError(
            f"{origin}: column {quote(name)} holds text that is not Unicode: {error}. Clean it first."
        ) from error
