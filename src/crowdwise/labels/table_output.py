"""Tables out, in the kind that came in; names defused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from crowdwise.labels.atomic_output import replace_file
from crowdwise.labels.unseen_in_columns import escape_unseen, restore_unseen

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.labels.types import TableKind

__all__ = ["FORMULA", "defuse_table", "defuse_text", "native_table", "restore_names", "write_csv"]

# A spreadsheet runs a cell that begins like this as a formula, blanks before it or not; plain numbers are let be.
# Apostrophes in front belong to it, so that the one that is added can be told from those that were there.
FORMULA = r"^'*([\s\p{Z}]*[=+\-@\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}]|[\t\r])"
NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"


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
    """Write a table as CSV that is safe to open in a spreadsheet (see `defuse_table`), whole or not at all."""
    with replace_file(path) as draft:
        pacsv.write_csv(defuse_table(table), str(draft))


def defuse_table(table: pa.Table) -> pa.Table:
    """Make the text of a table, and the names of its columns, harmless; see `defuse_text`."""
    names = defuse_text(pa.chunked_array([table.column_names], pa.string())).to_pylist()
    return pa.table([defuse_text(column) for column in table.columns], names=names)


def defuse_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    r"""Make text harmless for spreadsheets and terminals; other columns pass.

    A cell that begins like a formula (= + - @, tab, return, blanks before them or not) and is no plain number gets an
    apostrophe in front, which `restore_names` takes away again. What is not seen (controls, marks of direction, what
    has no width) becomes visible (`\u200b`); tabs and line breaks stay, since CSV can quote them.

    >>> defuse_text(pa.chunked_array([["=1+1", "-5", "plain"]])).to_pylist()
    ["'=1+1", '-5', 'plain']
    """
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    column = escape_unseen(column)
    risky = _find_formulas(column)
    if not pc.any(risky).as_py():
        return column
    return pc.if_else(risky, pc.binary_join_element_wise("'", column, ""), column)


def restore_names(names: pa.Array) -> pa.Array:
    """Distinct names from CSV as they were before `defuse_text`.

    A column in which other names begin like a formula, or hold unseen characters, was not written by `defuse_text`, and
    stays as it is.

    >>> restore_names(pa.array(["'=1+1", "plain"])).to_pylist()
    ['=1+1', 'plain']
    >>> restore_names(pa.array(["'=1+1", "=2"])).to_pylist()
    ["'=1+1", '=2']
    """
    restored = names
    marked = pc.starts_with(names, "'")
    if pc.any(marked).as_py() and not pc.any(_find_formulas(names.filter(pc.invert(marked)))).as_py():
        bare = pc.utf8_slice_codeunits(names, 1)
        restored = pc.if_else(pc.and_(marked, _find_formulas(bare)), bare, names)
    restored = restore_unseen(restored)
    return restored if restored is names or len(pc.unique(restored)) == len(names) else names


def _find_formulas(column: Any) -> Any:
    return pc.and_not(pc.match_substring_regex(column, FORMULA), pc.match_substring_regex(column, NUMBER))
