"""JSON lines, and JSON of other shapes: records, columns, or {task: {worker: label}}."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.json as pajson

from crowdwise.labels.arrow_columns import as_column
from crowdwise.labels.columns import Columns
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.nested import columns_of_rows
from crowdwise.labels.source_location import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from crowdwise.labels.byte_source import Blob

__all__ = ["json_source"]

SHAPES = 'one object a line ({"task": …, "worker": …, "label": …}), a list of those, or {task: {worker: label}}'
TOO_LONG = "an integer of more digits than Python reads. Write it as text, in quotes"
SAMPLED = 100  # lines in which the names of the fields are looked for: a record may lack some
ARROW_TYPES: dict[type, pa.DataType] = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}


def json_source(blob: Blob) -> Columns | Mapping[Any, Any]:
    """Columns of JSON lines or records; a nested mapping is handed on as it is."""
    blob.refuse_bomb()
    lines = list(islice((line for line in blob.lines() if line.removeprefix(b"\xef\xbb\xbf").strip()), 2))
    record = _parse_line(lines[0]) if lines else None
    if record is None:
        return _parse_whole(blob)
    # On a single line, an object of objects or of lists is the whole table; on the first of several, it is one record.
    if len(lines) == 1 and record and any(_all_values_are(kind, record) for kind in (dict, list)):
        return _parse_whole(blob)
    return _Lines(blob).columns()


def _parse_line(line: bytes) -> dict[str, Any] | None:
    """The object that a line holds, if it holds one."""
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _all_values_are(kind: type, record: Mapping[str, Any]) -> bool:
    return all(isinstance(value, kind) for value in record.values())


class _Lines:
    """JSON lines: read by Arrow where the types hold throughout, otherwise line by line.

    Fields that nobody asks for may hold anything, lists and objects too.
    """

    def __init__(self, blob: Blob) -> None:
        self.blob = blob
        self.names: dict[str, type] = {}  # and the type of the first value that is there
        for line in islice(blob.lines(), SAMPLED):
            for name, value in (_parse_line(line) or {}).items():
                if self.names.get(name, type(None)) is type(None):
                    self.names[name] = type(value)
        self.records: list[dict[str, Any]] | None = None
        self.numbers: list[int] | None = None
        self.rows = 0  # that Arrow found

    def columns(self) -> Columns:
        return Columns(list(self.names), self.column, place=Place(self.blob.name, "line", self.line))

    def column(self, name: str) -> pa.ChunkedArray:
        kind = ARROW_TYPES.get(self.names[name])
        if kind is not None and self.records is None:
            # A stated type, since Arrow would turn text that looks like a date into a date.
            options = pajson.ParseOptions(explicit_schema=pa.schema([(name, kind)]), unexpected_field_behavior="ignore")
            try:
                column = pajson.read_json(self.blob.open_for_arrow(), parse_options=options).column(name)
                column.validate(full=True)
            except (pa.ArrowException, OSError):
                if self.blob.gz:
                    self.blob.all()  # says so if the compressed data are damaged
            else:
                self.rows = len(column)
                return column
        self.parse()
        return as_column([record.get(name) for record in self.records or ()], name, self.blob.name)

    def parse(self) -> None:
        if self.records is not None:
            return
        records, numbers = [], []
        for number, line in enumerate(self.blob.lines(), 1):
            if line.strip():
                records.append(self.record(line, number))
                numbers.append(number)
        self.records, self.numbers = records, numbers

    def record(self, line: bytes, number: int) -> dict[str, Any]:
        where = f"{self.blob.name}, line {number}"
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            value = json.loads(text, object_pairs_hook=_refuse_repeated_keys)
        except UnicodeDecodeError as error:
            raise InputError(f"{where}: not UTF-8. Save the file as UTF-8.") from error
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
        except (json.JSONDecodeError, RecursionError) as error:
            raise InputError(f"{where} is not JSON ({error}). Mend or remove that line.") from error
        except ValueError as error:
            raise InputError(f"{where}: {TOO_LONG}.") from error
        if not isinstance(value, dict):
            raise InputError(f"{where} holds {quote(value)}, not an object. Give {SHAPES}.")
        return value

    def line(self, row: int) -> int:
        if self.numbers is None:
            self.numbers = [number for number, line in enumerate(self.blob.lines(), 1) if line.strip()]
            if len(self.numbers) != self.rows:  # Arrow also takes objects that share a line, or go over several
                self.parse()
        return self.numbers[row]


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that names a key twice, where JSON would forget the first answer."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = dict.fromkeys(name for name in names if names.count(name) > 1)
        raise InputError(f"A JSON object names {listing(repeated)} more than once. Keep one answer for each name.")
    return found


def _parse_whole(blob: Blob) -> Columns | Mapping[Any, Any]:
    try:
        value = json.loads(blob.all().decode("utf-8-sig"), object_pairs_hook=_refuse_repeated_keys)
    except UnicodeDecodeError as error:
        raise InputError(f"{blob.name} is not UTF-8 (byte {error.start}). Save the file as UTF-8.") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{blob.name}, line {error.lineno} is not JSON ({error.msg}). Give {SHAPES}.") from error
    except RecursionError as error:
        raise InputError(f"{blob.name} is nested too deeply. Give {SHAPES}.") from error
    except InputError as error:
        raise InputError(f"{blob.name}: {error}") from error
    except ValueError as error:
        raise InputError(f"{blob.name}: {TOO_LONG}.") from error
    if isinstance(value, dict) and value:
        if all(isinstance(answers, dict) for answers in value.values()):
            table = columns_of_rows(value)
            if table is None:
                return value
            value = table
        if all(isinstance(answers, list) for answers in value.values()):
            return Columns(list(value), lambda name: as_column(value[name], name, blob.name), place=Place(blob.name))
        if not any(isinstance(answers, dict | list) for answers in value.values()):
            value = [value]
    if isinstance(value, list) and value and all(isinstance(record, dict) for record in value):
        names = list(dict.fromkeys(name for record in value for name in record))
        return Columns(names, _columns_of_records(value, blob.name), place=Place(blob.name, "record"))
    if value in ([], {}):
        raise InputError(f"{blob.name} holds no labels. Give {SHAPES}.")
    raise InputError(f"{blob.name} is JSON of an unknown shape. Give {SHAPES}.")


def _columns_of_records(records: list[dict[str, Any]], origin: str) -> Callable[[str], pa.ChunkedArray]:
    return lambda name: as_column([record.get(name) for record in records], name, origin)
