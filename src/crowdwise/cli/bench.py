"""What `bench` does: a paper's table is run, judged and written down."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli import output
from crowdwise.cli.escaping import shell
from crowdwise.evaluate.tables import reading, results
from crowdwise.evaluate.tables.checks import check_jobs
from crowdwise.labels.errors import InputError, quote
from crowdwise.report.paper import reported

if TYPE_CHECKING:
    from crowdwise.evaluate.tables.spec import Job, Table
    from crowdwise.evaluate.tables.verdicts import Cell
    from crowdwise.report.paper import Report

__all__ = ["Asked", "benched", "chosen", "facts", "listing"]


@dataclass(frozen=True)
class Asked:
    """What the user wants run, and where the results go."""

    name: str
    methods: str | None
    seeds: int | None
    device: str
    processes: int
    quick: bool
    place: Path

    @property
    def table(self) -> Table:
        """The table; its small version has nothing to be compared with."""
        full = reading.read(self.name)
        return replace(full.quickened(), published=(), claims=(), notes=()) if self.quick else full

    @property
    def stem(self) -> str:
        """What the names of the files begin with."""
        return Path(self.name).stem + ("-quick" if self.quick else "")

    @property
    def rows(self) -> Path:
        """The file of the runs."""
        return self.place / f"{self.stem}.jsonl"

    def words(self, *, out: str) -> str:
        """The command that asks for this again, to be copied."""
        given = {"--methods": self.methods, "--seeds": self.seeds, "--out": out}
        named = [word for option, value in given.items() if value is not None for word in (option, str(value))]
        if self.device != "auto":
            named += ["--device", self.device]
        if self.processes != 1:
            named += ["--processes", str(self.processes)]
        return shell("crowdwise", "bench", self.name, *(["--quick"] if self.quick else []), *named)


def benched(asked: Asked, say: Any) -> tuple[Report, list[Path]]:
    """Run what is not there yet, and write the page and its pictures; `say` is told how much there is to do."""
    table = asked.table
    wanted = None if asked.methods is None else chosen(table, asked.methods)
    jobs = table.jobs(wanted, asked.seeds)
    waiting = results.waiting_of(jobs, results.read_rows(asked.rows))
    check_jobs(waiting)
    say(len(jobs), len(waiting))
    results.measure(table, jobs, asked.rows, device=asked.device, processes=asked.processes)
    rows = results.read_rows(asked.rows)
    failed = results.failures_of(jobs, rows)
    _refuse_if_all_failed(jobs, failed)
    every = table.jobs(seeds=max(table.seeds, asked.seeds or 0))
    report = reported(table, results.rows_of(every, rows), failed)
    files = report.files(asked.stem, asked.words(out=str(asked.place)))
    for old in asked.place.glob(f"{asked.stem}-[0-9]*.svg"):
        if old.name not in files:
            old.unlink()
    for name, text in files.items():
        output.write_text(text, asked.place / name)
    return report, [asked.rows, *(asked.place / name for name in files)]


def _refuse_if_all_failed(jobs: list[Job], failed: list[dict[str, Any]]) -> None:
    """One line in place of a page without a number, where all have the same to say."""
    reasons = {row["error"] for row in failed}
    if len(failed) == len(jobs) and len(reasons) == 1:
        raise InputError(f"Every run failed: {reasons.pop()}")


def chosen(table: Table, text: str) -> list[str]:
    """Names of methods between commas, as the table has them or by slug; a name may hold commas itself."""
    found: list[str] = []
    pieces = text.split(",")
    while pieces:
        for size in range(len(pieces), 0, -1):
            names = _named(table, ",".join(pieces[:size]).strip())
            if names:
                break
        else:
            known = ", ".join(method.name for method in table.methods)
            raise InputError(f"{table.name} has no method {quote(pieces[0].strip())}; it has {known}.")
        found += [name for name in names if name not in found]
        pieces = pieces[size:]
    return found


def _named(table: Table, text: str) -> list[str]:
    """The method of this name, or those of this slug."""
    wanted = text.casefold()
    by_name = [method.name for method in table.methods if method.name.casefold() == wanted]
    return by_name or [method.name for method in table.methods if wanted in (method.learner, method.aggregator)]


def listing() -> list[dict[str, Any]]:
    """The tables that come with the package, and how many runs each has."""
    found = []
    for name in reading.names():
        table = reading.read(name)
        sizes = {"runs": len(table.jobs()), "quick_runs": len(table.quickened().jobs())}
        found.append({"name": name, "paper": table.paper, "place": table.place, "title": table.title, **sizes})
    return found


def facts(asked: Asked, report: Report, files: list[Path]) -> dict[str, Any]:
    """Everything that came out, for programs."""
    table = report.table
    return {
        "table": table.name,
        "quick": asked.quick,
        "paper": table.paper,
        "place": table.place,
        "runs": len(report.rows),
        "seconds": round(report.seconds, 2),
        "published": dict(report.tally),
        "cells": [_fact(cell) for cell in report.cells],
        "claims": [
            {"says": each.claim.says, "verdict": each.verdict, "figures": list(each.figures)} for each in report.claims
        ],
        "failed": [{key: row[key] for key in ("setting", "x", "method", "seed", "error")} for row in report.failed],
        "files": [str(path) for path in files],
    }


def _fact(cell: Cell) -> dict[str, Any]:
    published = cell.published
    return {
        "setting": cell.setting,
        "x": cell.x,
        "method": cell.method,
        "measure": cell.measure,
        "seeds": len(cell.values),
        "mean": _or_none(cell.mean),
        "deviation": _or_none(cell.deviation),
        "published": None if published is None else published.value,
        "published_deviation": None if published is None else _or_none(published.deviation),
        "verdict": cell.verdict or None,
        "note": cell.note or None,
    }


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)
