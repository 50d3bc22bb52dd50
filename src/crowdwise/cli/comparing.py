"""`crowdwise compare`: what it does, prints as JSON, and shows."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.text import Text

from crowdwise.cli import console_tables
from crowdwise.cli.escaping import shell, visible

if TYPE_CHECKING:
    from crowdwise.cli.label_files import Reading
    from crowdwise.evaluate.compare import Comparison, Standing
    from crowdwise.labels import CrowdLabels

__all__ = ["compare_methods", "compare_page", "comparison_facts"]

WIDE = 92  # terminals at least this wide show every column of a league table


def compare_methods(labels: CrowdLabels, methods: str | None, truth: Any, folds: int, seed: int) -> Comparison:
    """Compare the methods named, with commas between, or all that apply."""
    from crowdwise.evaluate.compare import compare

    named = None if methods is None else [name.strip() for name in methods.split(",") if name.strip()]
    return compare(labels, named, folds=folds, truth=truth, random_state=seed)


def comparison_facts(comparison: Comparison) -> dict[str, Any]:
    """Give what `compare --json` prints; what could not be measured is null."""
    rows = [
        {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}
        for row in map(asdict, comparison.standings)
    ]
    independence = comparison.independence
    return {
        "best": comparison.best,
        "tied": list(comparison.tied_with_best),
        "recommended": comparison.recommendation,
        "n_truth": comparison.n_truth,
        "best_by_truth": comparison.best_by_truth,
        "tied_by_truth": list(comparison.tied_by_truth),
        "misled": comparison.contradicted_by_truth,
        "independence": None if independence is None else asdict(independence),
        "cautions": list(comparison.cautions),
        "conclusions": list(comparison.conclusions()),
        "methods": rows,
    }


def compare_page(comparison: Comparison, reading: Reading) -> None:
    """Show the league table, and say what may be concluded from it."""
    console = console_tables.page()
    with_truth = comparison.n_truth > 0
    console_tables.heading(console, "Methods, by how well they predict labels hidden from them")
    wide = console.width >= WIDE or not with_truth
    rows: list[list[str | Text]] = [
        [
            Text(row.method, style="bold" if row.rank_low == 1 else ""),
            f"{row.held_out:.4f}",
            f"{row.behind:.4f}" if place else "",
            console_tables.interval(row.rank_low, row.rank_high),
            *([] if with_truth else [f"{row.calibration:.3f}"]),
            *([f"{row.agreement:.1%}"] if wide else []),
            *([_accuracy(row), f"{row.calibration_error:.3f}"] if with_truth else []),
            *([f"{row.seconds:.2g}"] if wide else []),
        ]
        for place, row in enumerate(comparison.standings)
        if not row.note
    ]
    columns = [
        ("method", "left"),
        ("score", "right"),
        ("behind", "right"),
        ("rank", "right"),
        *([] if with_truth else [("calibr.", "right")]),
        *([("agrees", "right")] if wide else []),
        *([("right", "right"), ("ECE", "right")] if with_truth else []),
        *([("s", "right")] if wide else []),
    ]
    console.print(console_tables.table(*columns, rows=rows, indent=0))
    failed = [f"{row.method} has no result: {row.note}" for row in comparison.standings if row.note]
    if failed or comparison.cautions:
        console_tables.heading(console, "Please note")
        console_tables.notes(console, [*comparison.cautions, *failed])
    console_tables.heading(console, "What it says")
    console_tables.paragraph(console, " ".join(comparison.conclusions()))
    console_tables.heading(console, "How to read it")
    console_tables.paragraph(
        console,
        "score: mean log-probability of a hidden label; higher is better. behind: how far the best is ahead. rank: its "
        "90% interval, if other tasks were labelled; methods in bold may be the best."
        + ("" if with_truth else " calibr.: how far such predictions are from how often they come true.")
        + (" agrees: share of tasks decided as the best does." if wide else "")
        + (f" right (accuracy, with its 90% interval) and ECE (calibration error): against the truth of "
           f"{comparison.n_truth:,} tasks." if with_truth else ""),
    )  # fmt: skip
    console_tables.heading(console, "What next")
    console_tables.commands(console, _after_comparison(comparison, reading))


def _accuracy(row: Standing) -> str:
    return f"{row.accuracy:.1%} ({100 * row.accuracy_low:.0f}–{100 * row.accuracy_high:.0f})"


def _after_comparison(comparison: Comparison, reading: Reading) -> list[tuple[str, str]]:
    """The method to use, as far as the comparison tells, and how to learn more."""
    method = comparison.recommendation
    words = shell("crowdwise", "aggregate", *reading.words(), "--method", method, "--out", "results")
    if method == comparison.best_by_truth:
        return [("Use the method that is right most often:", visible(words))]
    if comparison.best_by_truth is not None:
        return [("Use the default, as the truth singles out no method:", visible(words))]
    scored = shell("crowdwise", "compare", *reading.words(), "--truth", "truth.csv")
    again = ("Score the methods with true answers to some tasks, a hundred or more:", visible(scored))
    if method == comparison.best and method != "auto":
        return [("Use the method that predicts labels best:", visible(words)), again]
    return [("Use the default, as this ranking does not say which method is right:", visible(words)), again]
