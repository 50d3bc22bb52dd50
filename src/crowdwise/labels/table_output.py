"""Tables out, in the kind that came in; names defused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from crowdwise.labels.atomic_output import replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.labels.types import TableKind

__all__ = ["defuse_text", "native_table", "write_csv"]

# A spreadsheet runs a cell that begins like this as a formula; plain numbers are let be.
FORMULA = "^[=+\\-@\t\r]"
NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"
CONTROLS = [chr(code) for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n\r"]
UNSEEN = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x{9f}\x{2028}-\x{202e}\x{2066}-\x{2069}]"
# They turn the order of the letters around them, or break a line where no one sees it.
DECEIVING = [chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029)]


def native_table(columns: dict[str, Any], kind: TableKind) -> Any:
    """Make a table of the given kind from Arrow or NumPy columns."""
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    if kind == "pandas":
        return table.to_pandas()
    if kind == "polars":
        import polars as pl

        return pl.from_arrow(table)
    return table


def write_csv(table: pa.Table, path: Path) -> None:
    """Write a table as CSV that is safe to open in a spreadsheet (see `defuse_text`), whole or not at all."""
    columns = [defuse_text(column) for column in table.columns]
    with replace_file(path) as draft:
        pacsv.write_csv(pa.table(columns, names=table.column_names), str(draft))


def defuse_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    r"""Make text harmless for spreadsheets and terminals; other columns pass.

    A cell that begins like a formula (= + - @, tab, return) and is no plain number gets an apostrophe in
    front. Control characters become visible (`\x1b`); tabs and line breaks stay, since CSV can quote them.

    >>> defuse_text(pa.chunked_array([["=1+1", "-5", "plain"]])).to_pylist()
    ["'=1+1", '-5', 'plain']
    """
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    if pc.any(
        pc.match_substring_regex(column, r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x{9f}\x{2028}-\x{202e}\x{2066}-\x{2069}]")
    ).as_py():
        for control in (*CONTROLS, *DECEIVING):
            column = pc.replace_substring(column, control, repr(control)[1:-1])
    risky = pc.and_not(pc.match_substring_regex(column, FORMULA), pc.match_substring_regex(column, NUMBER))
    if not pc.any(risky).as_py():
        return column
    return pc.if_else(risky, pc.binary_join_element_wise("'", column, ""), column)
