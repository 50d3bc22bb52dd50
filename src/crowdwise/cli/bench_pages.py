"""What a person sees of `bench`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from crowdwise.cli import console_tables
from crowdwise.cli.escaping import shell, shown, visible
from crowdwise.reproduction import runs
from crowdwise.reproduction.figures import format_value
from crowdwise.reproduction.page import MARKS, cell_text, duration, summary
from crowdwise.reproduction.verdicts import BETTER, FAILS, HOLDS, NOT_RUN, REPRODUCED, WORSE

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from crowdwise.cli.bench import Asked
    from crowdwise.reproduction.page import Report
    from crowdwise.reproduction.spec import Axis
    from crowdwise.reproduction.verdicts import Cell

__all__ = ["bench_page", "say_begun", "say_stopped", "tables_page"]

STYLES = {REPRODUCED: "green", BETTER: "green", WORSE: "red", NOT_RUN: "dim", "": "", HOLDS: "green", FAILS: "red"}
MOST_FAILURES = 5
METHOD, COLUMN = 22, 10  # cells of the terminal for a name, and for a number over the axis
SMALL = (
    "The small version: fewer tasks, epochs and seeds. It shows that everything runs; its numbers are not to be "
    "compared with the paper's."
)


def tables_page(tables: list[dict[str, Any]]) -> None:
    """List the tables."""
    console = console_tables.page()
    rows = [
        [each["name"], f"{each['runs']:,}", f"{each['paper']}, {each['place']}: {each['title']}"] for each in tables
    ]
    console.print(console_tables.table(("table", "left"), ("runs", "right"), ("what it is", "wrap"), rows=rows))
    console_tables.heading(console, "What next")
    first = tables[0]["name"]
    steps = [
        ("See that a table runs, in minutes:", shell("crowdwise", "bench", first, "--quick")),
        ("Run all of it; what is stopped goes on where it was:", shell("crowdwise", "bench", first)),
    ]
    console_tables.commands(console, steps)


def say_begun(runs: int, left: int) -> None:
    """Say how much there is to do, before the first bar appears."""
    done = f", {runs - left:,} of them done already" if left < runs else ""
    console_tables.page(stderr=True).print(Text(f"{runs:,} runs{done}. Ctrl-C stops; what is done is kept."))


def say_stopped(asked: Asked, out: str) -> None:
    """Say what an interruption has left, and how to go on."""
    kept = len(runs.read_rows(asked.rows))
    kept_runs = "1 run is" if kept == 1 else f"{kept:,} runs are"
    message = f"Stopped. {kept_runs} kept in {asked.rows}. To go on: {asked.words(out=out)}"
    console_tables.page(stderr=True).print(Text(f"crowdwise: {visible(message)}"), soft_wrap=True)


def bench_page(asked: Asked, report: Report, files: list[Path]) -> None:
    """Show the cells with their verdicts, the claims, and where the page is."""
    console = console_tables.page()
    table = report.table
    console_tables.paragraph(console, f"{table.title}\n{table.paper}, {table.place}.".replace("\n", " – "))
    if asked.quick:
        console.print()
        console_tables.paragraph(console, SMALL)
    for name, measure in table.measures.items():
        better = "" if measure.better == "more" else ", less is better"
        for setting in table.settings:
            mine = [cell for cell in report.cells if (cell.measure, cell.setting) == (name, setting.name)]
            if mine:
                console_tables.heading(console, visible(f"{measure.title}{better}: {setting.name}"))
                if table.axis is None:
                    _cells(console, report, mine)
                else:
                    _over_axis(console, report, mine, table.axis)
    _claims(console, report)
    if table.published or report.claims:
        console_tables.heading(console, "In short")
        console_tables.paragraph(console, f"  {summary(report)}")
        if table.published and table.axis is not None:
            marks = ", ".join(f"{MARKS[each]} {each}" for each in (REPRODUCED, BETTER, WORSE))
            console_tables.paragraph(console, f"  {marks}; – not run.")
    _failures(console, report)
    console_tables.heading(console, "Written")
    console.print(Text(f"  {visible(files[1])}  the page, with {len(files) - 2} pictures beside it"), soft_wrap=True)
    took = f"{len(report.rows):,} runs, {duration(report.seconds)} of fitting"
    console.print(Text(f"  {visible(files[0])}  {took}"), soft_wrap=True)


def _cells(console: Console, report: Report, mine: list[Cell]) -> None:
    """A line for each method: its number, what was published and the verdict."""
    told = any(cell.published for cell in mine)
    rows: list[list[str | Text]] = []
    for cell in mine:
        verdict = Text(f"{MARKS[cell.verdict]} {cell.verdict}".strip(), style=STYLES[cell.verdict])
        ours = cell_text(cell, report.table, mark=False)
        rows.append([shown(cell.method, 30), ours, *([verdict] if told else [])])
    columns = [("method", "left"), ("ours (published)" if told else "ours", "left")]
    console.print(console_tables.table(*columns, *([("verdict", "left")] if told else []), rows=rows))


def _over_axis(console: Console, report: Report, mine: list[Cell], axis: Axis) -> None:
    """A line for each method and a column for each value of the axis, as many beside one another as there is room."""
    digits = report.table.measures[mine[0].measure].digits
    found = {(cell.method, cell.x): cell for cell in mine}
    values = [x for x in axis.values if any(cell.x == x for cell in mine)]
    several = max(1, (console.width - METHOD - 4) // COLUMN)
    for start in range(0, len(values), several):
        part = values[start : start + several]
        rows: list[list[str | Text]] = [
            [shown(method, METHOD), *(_number(found.get((method, x)), digits) for x in part)]
            for method in dict.fromkeys(cell.method for cell in mine)
        ]
        headings = [(shown(format_value(x), COLUMN - 3).plain, "right") for x in part]
        console.print(console_tables.table((shown(axis.name, METHOD).plain, "left"), *headings, rows=rows))


def _number(cell: Cell | None, digits: int) -> Text:
    if cell is None or not cell.values:
        return Text("–", style="dim")
    return Text(f"{cell.mean:.{digits}f}{MARKS[cell.verdict]}", style=STYLES[cell.verdict])


def _claims(console: Console, report: Report) -> None:
    if not report.claims:
        return
    console_tables.heading(console, "What the paper says")
    rows: list[list[str | Text]] = [
        [Text(each.verdict, style=STYLES[each.verdict]), Text(visible(each.claim.says))] for each in report.claims
    ]
    console.print(console_tables.table(("verdict", "left"), ("claim", "wrap"), rows=rows))


def _failures(console: Console, report: Report) -> None:
    if not report.failed:
        return
    console_tables.heading(console, f"{len(report.failed):,} runs failed; the same command tries them again")
    console_tables.notes(
        console,
        [
            f"{row['method']}, {row['setting']}, seed {row['seed']}: {row['error']}"
            for row in report.failed[:MOST_FAILURES]
        ],
    )
    if len(report.failed) > MOST_FAILURES:
        console_tables.paragraph(console, f"    … and {len(report.failed) - MOST_FAILURES:,} more, on the page.")
