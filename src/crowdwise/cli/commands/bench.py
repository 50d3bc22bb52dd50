"""`crowdwise bench`: a paper's table run again, judged against what was published, and written down."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from crowdwise.cli import console_tables, output_files
from crowdwise.cli.options import Json, build_option_arguments
from crowdwise.cli.stop_signals import explain_stop
from crowdwise.cli.terminal_names import display_name, escape_unprintable, quote_command
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from crowdwise.reproduction.table_page import TableReport
    from crowdwise.reproduction.table_spec import Axis, Job, Table
    from crowdwise.reproduction.verdicts import Cell

__all__ = ["bench", "choose_methods"]

EPILOG = "Example:\n\n  crowdwise bench tanno-table-1 --quick --out bench"
FAILED = 2
MOST_FAILURES = 5
METHOD, COLUMN = 22, 10  # cells of the terminal for a name, and for a number over the axis
SMALL = (
    "The small version: fewer tasks, epochs and seeds. It shows that everything runs; its numbers are not to be "
    "compared with the paper's."
)
TableName = Annotated[
    str | None,
    typer.Argument(
        metavar="TABLE", help="Its name, or a file of TOML of your own; leave out to list them.", show_default=False
    ),
]


class Device(StrEnum):
    """Where networks are trained."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """What of the table is run, and how."""

    methods: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Some of its methods, by name or slug; all, if left out.")
    ] = None
    seeds: Annotated[int | None, typer.Option(min=1, help="Runs of each cell; as the table says, if left out.")] = None
    device: Annotated[Device, typer.Option(help="Where networks are trained.")] = Device.auto
    processes: Annotated[int, typer.Option(min=1, help="Runs at the same time.")] = 1
    quick: Annotated[
        bool, typer.Option("--quick", help="Its small version, in minutes: shows that all of it runs, no more.")
    ] = False


@dataclass(frozen=True)
class BenchRequest:
    """A table that is asked for, and the folder that its results go to."""

    name: str
    options: BenchOptions
    folder: Path

    @property
    def table(self) -> Table:
        """The table; its small version has nothing to be compared with."""
        from crowdwise.reproduction.table_files import read_table

        full = read_table(self.name)
        return replace(full.quick_version(), published=(), claims=(), notes=()) if self.options.quick else full

    @property
    def file_stem(self) -> str:
        """What the names of the files begin with."""
        return Path(self.name).stem + ("-quick" if self.options.quick else "")

    @property
    def runs_file(self) -> Path:
        """The file of the runs."""
        return self.folder / f"{self.file_stem}.jsonl"

    def command(self, *, out: str) -> str:
        """The command that asks for this again, to be copied."""
        options = self.options
        given = {
            "methods": options.methods,
            "seeds": options.seeds,
            "out": out,
            "device": None if options.device is Device.auto else options.device,
            "processes": None if options.processes == 1 else options.processes,
        }
        return quote_command(
            "crowdwise", "bench", self.name, *(["--quick"] if options.quick else []), *build_option_arguments(given)
        )


def bench(
    table: TableName = None,
    *,
    options: BenchOptions,
    out: Annotated[str, typer.Option(metavar="DIR", help="Where runs, page and pictures go.")] = "crowdwise-bench",
    json: Json = False,
) -> None:
    """Run a paper's table again, and set its numbers beside those published."""
    if table is None:
        found = _list_tables()
        if json:
            output_files.print_json(found)
        else:
            _list_paper_tables(found)
        return
    asked = BenchRequest(table, options, output_files.check_folder(out))
    try:
        report, files = _run_table(asked, _announce_start if sys.stderr.isatty() else lambda _all, _left: None)
    except (KeyboardInterrupt, SystemExit) as stopped:
        raise explain_stop(stopped, _say_how_to_go_on(asked, out)) from stopped
    if json:
        output_files.print_json(_to_json_dict(asked, report, files))
    else:
        _print_page(asked, report, files)
    if report.failed:
        raise typer.Exit(FAILED)


# ---- runs -------------------------------------------------------------------------------------------------


def _run_table(asked: BenchRequest, say: Callable[[int, int], None]) -> tuple[TableReport, list[Path]]:
    """Run what is not there yet, and write the page and its pictures; `say` is told how much there is to do."""
    from crowdwise.reproduction import run_table
    from crowdwise.reproduction.job_checks import check_jobs
    from crowdwise.reproduction.table_page import make_report

    table, options = asked.table, asked.options
    wanted = None if options.methods is None else choose_methods(table, options.methods)
    jobs = table.jobs(wanted, options.seeds)
    waiting = run_table.pending_jobs(jobs, run_table.read_rows(asked.runs_file))
    check_jobs(waiting)
    say(len(jobs), len(waiting))
    run_table.run_table(table, jobs, asked.runs_file, device=options.device.value, processes=options.processes)
    rows = run_table.read_rows(asked.runs_file)
    failed = run_table.select_failures(jobs, rows)
    _refuse_if_all_failed(jobs, failed)
    every = table.jobs(seeds=max(table.seeds, options.seeds or 0))
    report = make_report(table, run_table.select_rows(every, rows), failed)
    files = report.files(asked.file_stem, asked.command(out=str(asked.folder)))
    output_files.write_texts(files, asked.folder)
    for old in asked.folder.glob(f"{asked.file_stem}-[0-9]*.svg"):
        if old.name not in files:
            old.unlink()
    return report, [asked.runs_file, *(asked.folder / name for name in files)]


def _refuse_if_all_failed(jobs: list[Job], failed: list[dict[str, Any]]) -> None:
    """One line in place of a page without a number, where all have the same to say."""
    reasons = {row["error"] for row in failed}
    if len(failed) == len(jobs) and len(reasons) == 1:
        raise InputError(f"Every run failed: {reasons.pop()}")


def choose_methods(table: Table, text: str) -> list[str]:
    """Names of methods between commas, as the table has them or by slug; a name may hold commas itself."""
    found: list[str] = []
    pieces = text.split(",")
    while pieces:
        for size in range(len(pieces), 0, -1):
            names = _match_methods(table, ",".join(pieces[:size]).strip())
            if names:
                break
        else:
            known = ", ".join(method.name for method in table.methods)
            raise InputError(f"{table.name} has no method {quote(pieces[0].strip())}; it has {known}.")
        found += [name for name in names if name not in found]
        pieces = pieces[size:]
    return found


def _match_methods(table: Table, text: str) -> list[str]:
    """The method of this name, or those of this slug."""
    wanted = text.casefold()
    by_name = [method.name for method in table.methods if method.name.casefold() == wanted]
    return by_name or [method.name for method in table.methods if wanted in (method.learner, method.aggregator)]


def _list_tables() -> list[dict[str, Any]]:
    """The tables that come with the package, and how many runs each has."""
    from crowdwise.reproduction.table_files import read_table, table_names

    found = []
    for name in table_names():
        table = read_table(name)
        sizes = {"runs": len(table.jobs()), "quick_runs": len(table.quick_version().jobs())}
        found.append({"name": name, "paper": table.paper, "place": table.place, "title": table.title, **sizes})
    return found


def _to_json_dict(asked: BenchRequest, report: TableReport, files: list[Path]) -> dict[str, Any]:
    """Everything that came out, for programs."""
    table = report.table
    return {
        "table": table.name,
        "quick": asked.options.quick,
        "paper": table.paper,
        "place": table.place,
        "runs": len(report.rows),
        "seconds": round(report.seconds, 2),
        "published": dict(report.tally),
        "cells": [_cell_to_json_dict(cell) for cell in report.cells],
        "claims": [
            {"says": each.claim.says, "verdict": each.verdict, "figures": list(each.figures)} for each in report.claims
        ],
        "failed": [{key: row[key] for key in ("setting", "x", "method", "seed", "error")} for row in report.failed],
        "files": [str(path) for path in files],
    }


def _cell_to_json_dict(cell: Cell) -> dict[str, Any]:
    published = cell.published
    return {
        "setting": cell.setting,
        "x": cell.x,
        "method": cell.method,
        "measure": cell.measure,
        "seeds": len(cell.values),
        "mean": _round_or_none(cell.mean),
        "deviation": _round_or_none(cell.deviation),
        "published": None if published is None else published.value,
        "published_deviation": None if published is None else _round_or_none(published.deviation),
        "verdict": cell.verdict or None,
        "note": cell.note or None,
    }


def _round_or_none(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)


# ---- page -------------------------------------------------------------------------------------------------


def _list_paper_tables(tables: list[dict[str, Any]]) -> None:
    """List the tables."""
    console = console_tables.open_console()
    rows = [
        [each["name"], f"{each['runs']:,}", f"{each['paper']}, {each['place']}: {each['title']}"] for each in tables
    ]
    console.print(console_tables.make_table(("table", "left"), ("runs", "right"), ("what it is", "wrap"), rows=rows))
    first = tables[0]["name"]
    steps = [
        ("See that a table runs, in minutes:", quote_command("crowdwise", "bench", first, "--quick")),
        ("Run all of it; what is stopped goes on where it was:", quote_command("crowdwise", "bench", first)),
    ]
    console_tables.print_next_steps(console, steps)


def _announce_start(runs: int, left: int) -> None:
    """Say how much there is to do, before the first bar appears."""
    done = f", {runs - left:,} of them done already" if left < runs else ""
    console_tables.open_console(stderr=True).print(Text(f"{runs:,} runs{done}. Ctrl-C stops; what is done is kept."))


def _say_how_to_go_on(asked: BenchRequest, out: str) -> str:
    """What an interruption has left, and how to go on."""
    from crowdwise.reproduction.run_table import read_rows

    kept = len(read_rows(asked.runs_file))
    kept_runs = "1 run is" if kept == 1 else f"{kept:,} runs are"
    return f"Stopped. {kept_runs} kept in {asked.runs_file}. To go on: {asked.command(out=out)}"


def _print_page(asked: BenchRequest, report: TableReport, files: list[Path]) -> None:
    """Show the cells with their verdicts, the claims, and where the page is."""
    from crowdwise.reproduction.table_page import MARKS, format_duration, summarise_verdicts
    from crowdwise.reproduction.verdicts import BETTER, DIFFERS, REPRODUCED, WORSE

    console = console_tables.open_console()
    table = report.table
    console_tables.print_paragraph(console, f"{table.title}\n{table.paper}, {table.place}.".replace("\n", " – "))
    if asked.options.quick:
        console.print()
        console_tables.print_paragraph(console, SMALL)
    for name, measure in table.measures.items():
        better = "" if measure.better == "more" else ", less is better"
        for setting in table.settings:
            mine = [cell for cell in report.cells if (cell.measure, cell.setting) == (name, setting.name)]
            if mine:
                console_tables.print_heading(console, escape_unprintable(f"{measure.title}{better}: {setting.name}"))
                if table.axis is None:
                    _print_cells(console, report, mine)
                else:
                    _print_over_axis(console, report, mine, table.axis)
    _print_claims(console, report)
    if table.published or report.claims:
        console_tables.print_heading(console, "In short")
        console_tables.print_paragraph(console, f"  {summarise_verdicts(report)}")
        if table.published and table.axis is not None:
            marks = ", ".join(f"{MARKS[each]} {each}" for each in (REPRODUCED, BETTER, WORSE, DIFFERS))
            console_tables.print_paragraph(console, f"  {marks}; – not run.")
    _print_failures(console, report)
    console_tables.print_heading(console, "Written")
    console.print(
        Text(f"  {escape_unprintable(files[1])}  the page, with {len(files) - 2} pictures beside it"), soft_wrap=True
    )
    took = f"{len(report.rows):,} runs, {format_duration(report.seconds)} of fitting"
    console.print(Text(f"  {escape_unprintable(files[0])}  {took}"), soft_wrap=True)


def _print_cells(console: Console, report: TableReport, mine: list[Cell]) -> None:
    """A line for each method: its number, what was published and the verdict."""
    from crowdwise.reproduction.table_page import MARKS, format_cell

    published = any(cell.published for cell in mine)
    rows: list[list[str | Text]] = []
    for cell in mine:
        verdict = Text(f"{MARKS[cell.verdict]} {cell.verdict}".strip(), style=_verdict_style(cell.verdict))
        ours = format_cell(cell, report.table, mark=False)
        rows.append([display_name(cell.method, 30), ours, *([verdict] if published else [])])
    columns = [("method", "left"), ("ours (published)" if published else "ours", "left")]
    console.print(console_tables.make_table(*columns, *([("verdict", "left")] if published else []), rows=rows))


def _print_over_axis(console: Console, report: TableReport, mine: list[Cell], axis: Axis) -> None:
    """A line for each method and a column for each value of the axis, as many beside one another as there is room."""
    from crowdwise.reproduction.figures import format_axis_value

    digits = report.table.measures[mine[0].measure].digits
    found = {(cell.method, cell.x): cell for cell in mine}
    values = [x for x in axis.values if any(cell.x == x for cell in mine)]
    several = max(1, (console.width - METHOD - 4) // COLUMN)
    for start in range(0, len(values), several):
        part = values[start : start + several]
        rows: list[list[str | Text]] = [
            [display_name(method, METHOD), *(_format_cell(found.get((method, x)), digits) for x in part)]
            for method in dict.fromkeys(cell.method for cell in mine)
        ]
        headings = [(display_name(format_axis_value(x), COLUMN - 3).plain, "right") for x in part]
        console.print(console_tables.make_table((display_name(axis.name, METHOD).plain, "left"), *headings, rows=rows))


def _format_cell(cell: Cell | None, digits: int) -> Text:
    from crowdwise.reproduction.table_page import MARKS

    if cell is None or not cell.values:
        return Text("–", style="dim")
    return Text(f"{cell.mean:.{digits}f}{MARKS[cell.verdict]}", style=_verdict_style(cell.verdict))


def _print_claims(console: Console, report: TableReport) -> None:
    if not report.claims:
        return
    console_tables.print_heading(console, "What the paper says")
    rows: list[list[str | Text]] = [
        [Text(each.verdict, style=_verdict_style(each.verdict)), Text(escape_unprintable(each.claim.says))]
        for each in report.claims
    ]
    console.print(console_tables.make_table(("verdict", "left"), ("claim", "wrap"), rows=rows))


def _print_failures(console: Console, report: TableReport) -> None:
    if not report.failed:
        return
    console_tables.print_heading(console, f"{len(report.failed):,} runs failed; the same command tries them again")
    console_tables.print_notes(
        console,
        [
            f"{row['method']}, {row['setting']}, seed {row['seed']}: {row['error']}"
            for row in report.failed[:MOST_FAILURES]
        ],
    )
    if len(report.failed) > MOST_FAILURES:
        console_tables.print_paragraph(console, f"    … and {len(report.failed) - MOST_FAILURES:,} more, on the page.")


def _verdict_style(verdict: str) -> str:
    from crowdwise.reproduction.verdicts import BETTER, DIFFERS, FAILS, HOLDS, NOT_RUN, REPRODUCED, WORSE

    if verdict == DIFFERS:
        return "yellow"
    good, bad = (REPRODUCED, BETTER, HOLDS), (WORSE, FAILS)
    return "green" if verdict in good else "red" if verdict in bad else "dim" if verdict == NOT_RUN else ""
