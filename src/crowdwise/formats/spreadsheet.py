"""Spreadsheets: Excel workbooks (.xlsx), a row for each answer or a column for each worker.

| sheet | read as |
|---|---|
| columns task, worker and label (or another usual name of each) | a row for each answer; other kinds by their columns |
| a first column of tasks and a column for each worker | an answer for each cell that is not empty; known answers and \
summaries (truth, majority, n_votes) are left out by their names |
| several sheets with a table | a question for each, called as the sheet |

Reading one needs openpyxl. What formulas came to is read, not the formulas; where that was not saved, it is said.
"""

from __future__ import annotations

import math
from datetime import date, datetime, time
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from crowdwise.formats.export_format import TABLE_KINDS, Format
from crowdwise.formats.plain_rows import add_answer, add_rows, are_long, list_answer_columns
from crowdwise.formats.xml_elements import read_elements
from crowdwise.labels.columns import Columns
from crowdwise.labels.errors import SHOWN, InputError, listing, quote
from crowdwise.labels.source_location import Place
from crowdwise.labels.wide_tables import as_wide

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.formats.answer_collector import AnswerCollector
    from crowdwise.formats.export_files import ExportFile, ExportFiles

__all__ = ["FORMAT"]

WORKBOOK = "xl/workbook.xml"
QUESTION = "label"
MOST_COLUMNS = 10_000
MOST_ROWS = 2**20
DIGITS = 15  # of a number that a spreadsheet keeps


class Sheet(NamedTuple):
    """A sheet that begins with names of columns: its rows with their numbers, and the file that it is in."""

    title: str
    origin: str
    names: list[str]
    rows: list[tuple[int, tuple[Any, ...]]]
    file: ExportFile | None


def recognises(files: ExportFiles) -> bool:
    """Whether the archive is a workbook."""
    return files.archive is not None and any(str(file.path) == WORKBOOK for file in files.files)


def read(files: ExportFiles, found: AnswerCollector) -> None:
    """Give the answers of every sheet to the collector."""
    sheets = [sheet for sheet in _read_sheets(files) if sheet.rows]
    if not sheets:
        raise InputError(f"{files.origin} holds no table. Give a header line and a row for each answer.")
    read_any = False
    for sheet in sheets:
        question = sheet.title if len(sheets) > 1 else QUESTION
        origin, names, rows = sheet.origin, sheet.names, sheet.rows
        rounded = list(dict.fromkeys(cell for _, row in rows for cell in row if _may_be_rounded(cell)))
        if rounded:
            found.notes.append(
                f"{origin} holds numbers of more than {DIGITS} digits ({listing(rounded[:5])}), of which a spreadsheet "
                "keeps no more: several names may have become one. Write them as text."
            )
        if are_long(names):
            _refuse_formulas_without_values(sheet, list_answer_columns(names, origin))
            placed = ((dict(zip(names, row, strict=True)), f"{origin}, row {number}") for number, row in rows)
            add_rows(placed, names, question, found, origin)
            read_any = True
        else:
            read_any |= _read_wide(sheet, question, found)
    if not read_any:
        for sheet in sheets:
            _refuse_formulas_without_values(sheet, sheet.names)
        shown = listing(sheets[0].names)
        raise InputError(
            f"{files.origin} has no table of answers; the columns of its first sheet are {shown}. It needs task, "
            "worker and label, or a column of tasks (called task) and a column for each worker (annotator_1, …)."
        )


def _read_wide(sheet: Sheet, question: str, found: AnswerCollector) -> bool:
    origin, names, rows = sheet.origin, sheet.names, sheet.rows
    # As text, as CSV files are: the same table is then read the same way from both.
    cells = {
        name: pa.chunked_array([pa.array([_as_text(row[place]) for _, row in rows], pa.string())])
        for place, name in enumerate(names)
    }
    place = Place(origin, "row", lambda row: rows[row][0])
    wide = as_wide(Columns(names, cells.__getitem__, place=place, text=True))
    if wide is None:
        found.left_out[f"sheet without a table of answers ({quote(question)})"] += 1
        return False
    _refuse_formulas_without_values(sheet, list(wide.columns))
    places = {name: place for place, name in enumerate(names)}
    for number, row in rows:
        task = row[places[wide.task]] if wide.task is not None else number
        for name in wide.worker_columns:
            said = row[places[name]]
            if _as_text(said) is not None:  # an empty cell is no answer
                add_answer(said, task, name, question, found, f"{origin}, row {number}, column {quote(name)}")
    return True


def _refuse_formulas_without_values(sheet: Sheet, columns: list[str]) -> None:
    """Refuse empty cells that hold a formula: programs that write workbooks save no value, others save what it is."""
    places = [place for place, name in enumerate(sheet.names) if name in columns]
    empty = {f"{_name_column(place)}{number}" for number, row in sheet.rows for place in places if row[place] is None}
    if not empty or sheet.file is None:
        return
    found, cell = [], {}
    for element in read_elements(sheet.file.blob):
        match element.name.rpartition(":")[2]:
            case "c":
                cell = element.attributes
            case "f" if cell.get("r") in empty and cell.get("t") != "str":  # the value of others is an empty text
                found.append(cell["r"])
    if found:
        raise InputError(
            f"{sheet.origin} holds formulas whose values were not saved: cell {', '.join(found[:SHOWN])}"
            f"{f' and {len(found) - SHOWN:,} more' if len(found) > SHOWN else ''}. Open the workbook in its program, "
            "save it there, and give it again."
        )


def _name_column(place: int) -> str:
    """The letters of a column: A, …, Z, AA and so on."""
    before, last = divmod(place, len(ascii_uppercase))
    return (_name_column(before - 1) if before else "") + ascii_uppercase[last]


def _as_text(value: Any) -> str | None:
    return None if value is None or str(value).strip() == "" else str(value)


def _read_sheets(files: ExportFiles) -> Iterator[Sheet]:
    for file in files.files:
        if file.path.suffix in (".xml", ".rels"):
            next(read_elements(file.blob), None)  # refuses document types, which stand before the first element
    try:
        from openpyxl import load_workbook
    except ModuleNotFoundError as error:
        raise InputError(
            "Reading workbooks needs openpyxl, which is not installed: pip install 'crowdwise[spreadsheets]'. Or save "
            "the sheet as CSV."
        ) from error
    assert files.archive is not None  # noqa: S101 (see `recognises`)
    try:
        with files.archive.stream() as stream:
            book = load_workbook(stream, read_only=True, data_only=True)
            for sheet in book.worksheets:
                sheet.reset_dimensions()  # as the file states them: where they are too small, rows would be lost
                names, rows = _read_sheet(sheet.title, _list_lines(sheet, files), files)
                path = getattr(sheet, "_worksheet_path", None)
                inside = next((file for file in files.files if str(file.path) == path), None)
                yield Sheet(sheet.title, f"{files.origin}, sheet {quote(sheet.title)}", names, rows, inside)
    except InputError:
        raise
    except Exception as error:  # whatever openpyxl raises for a workbook that it cannot read
        raise InputError(
            f"{files.origin} is a damaged workbook ({quote(str(error))}). Save it again, or save the sheet as CSV."
        ) from error


def _list_lines(sheet: Any, files: ExportFiles) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The lines that are not empty, with their numbers."""
    for number, line in enumerate(sheet.iter_rows(values_only=True), 1):
        if number > MOST_ROWS:  # of which a file that says so need hold none
            raise InputError(
                f"{files.origin}, sheet {quote(sheet.title)} has more than {MOST_ROWS:,} rows, as no spreadsheet does. "
                "Give CSV."
            )
        if any(map(_as_text, line)):
            yield number, line


def _read_sheet(
    title: str, lines: Iterator[tuple[int, tuple[Any, ...]]], files: ExportFiles
) -> tuple[list[str], list[tuple[int, tuple[Any, ...]]]]:
    header = [_as_text(cell) for cell in next(lines, (0, ()))[1]]
    width = max((place + 1 for place, name in enumerate(header) if name is not None), default=0)
    names = ["" if name is None else name.strip() for name in header[:width]]
    repeated = sorted({name for name in names if name and names.count(name) > 1})
    if repeated or width > MOST_COLUMNS:
        what = f"more than one column {listing(repeated)}" if repeated else f"more than {MOST_COLUMNS:,} columns"
        raise InputError(f"{files.origin}, sheet {quote(title)} has {what}. Give each column a name of its own.")
    rows = [(number, tuple(map(_plain, (*line[:width], *[None] * (width - len(line)))))) for number, line in lines]
    again = [number for number, row in rows if [_as_text(cell) for cell in row] == header[:width]]
    if again:
        raise InputError(
            f"{files.origin}, sheet {quote(title)} holds the header again (row {listing(again)}), as if tables were "
            "put together. Remove it."
        )
    return names, rows


def _may_be_rounded(value: Any) -> bool:
    return isinstance(value, int) and abs(value) >= 10**DIGITS


def _plain(value: Any) -> Any:
    """A cell: whole numbers are integers, as a spreadsheet has none, and dates are text."""
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(value)
    return value.isoformat() if isinstance(value, datetime | date | time) else value


FORMAT = Format(
    slug="spreadsheet",
    name="Spreadsheet",
    files="Excel workbook (.xlsx), long or wide",
    kinds=TABLE_KINDS,
)
