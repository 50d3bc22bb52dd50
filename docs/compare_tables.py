"""What benchmarks/compare_ranking.py measured, as the tables of docs/choosing.md."""

from __future__ import annotations

import json
import math
from statistics import fmean
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BROKEN = {
    "independent": "nothing",
    "spammers": "nothing; 30 % of the workers answer by habit",
    "imbalance": "nothing; class shares .8, .15, .05 or .9, .1",
    "hard tasks": "everybody guesses on 30 % of the tasks",
    "families": "60 % of the workers share opinions, in three families",
    "misled": "10 % of the tasks draw everybody to one wrong class",
    "misled classes": "25 % of each class draw most workers to the next",
}
FIGURES = ("spearman", "held_out_best", "auto", "truth_best")
HEADINGS = ["Spearman", "best by held-out labels", "`auto`", "best by truth", "worse beyond chance", "caution"]


def compare_tables(results: Path, table: Callable[[list[str], list[list[str]]], str]) -> str:
    """Agreement of held-out ranking and truth, for simulated crowds and for real sets; and how far intervals hold."""
    rows = json.loads(results.read_text())["rows"]
    groups: dict[str, list[dict[str, Any]]] = {"real": [], "simulated": [], "check": [], "coverage": []}
    for row in rows:
        groups[row["part"]].append(row)
    simulated = [
        [name, what, *figures([row for row in groups["simulated"] if row["name"] == name])]
        for name, what in BROKEN.items()
    ]
    real = [[f"`{row['name']}`", *figures([row])] for row in groups["real"]]
    parts = [
        f"**Simulated crowds**, {len(groups['simulated'])} in all; accuracies are means:",
        table(["crowd", "what is broken", *HEADINGS], simulated),
        "**Real sets with a truth**:",
        table(["set", *HEADINGS], [*real, ["**mean**", *figures(groups["real"])]]),
        split_by_caution(groups),
    ]
    if groups["check"]:
        parts.append(checks(groups["check"]))
    if groups["coverage"]:
        held = fmean(row["coverage"] for row in groups["coverage"])
        draws = sum(row["draws"] for row in groups["coverage"])
        parts.append(
            f"Rank intervals of {groups['coverage'][0]['methods']} methods hold the rank by the mean score over new "
            f"tasks of the same workers in {held:.0%} of cases ({draws} comparisons); at least 90 % are promised."
        )
    return "\n\n".join(parts)


def figures(rows: list[dict[str, Any]]) -> list[str]:
    """Means over crowds, and how often the choice was worse beyond chance and there was a caution."""
    if not rows:
        return ["–"] * len(HEADINGS)
    means = [mean_of(rows, key) for key in FIGURES]
    counts = [f"{sum(bool(row[key]) for row in rows)} of {len(rows)}" for key in ("misled", "caution")]
    if len(rows) == 1:
        counts = ["yes" if rows[0][key] else "no" for key in ("misled", "caution")]
    return [*map(short, means), *counts]


def split_by_caution(groups: dict[str, list[dict[str, Any]]]) -> str:
    """What the caution is worth: ranking and loss with it and without."""
    sentences = []
    for part, words in (("simulated", "simulated crowds"), ("real", "real sets")):
        for caution, having in ((True, "with"), (False, "without")):
            rows = [row for row in groups[part] if row["caution"] is caution]
            if rows:
                gain = fmean(row["held_out_best"] - row["auto"] for row in rows)
                sentences.append(
                    f"{len(rows)} {words} {having} a caution: Spearman {short(mean_of(rows, 'spearman'))}, best by "
                    f"held-out labels {short(gain, sign=True)} against `auto`"
                )
    return f"{'; '.join(sentences)}."


def checks(rows: list[dict[str, Any]]) -> str:
    shares = {name: [row["caution"] for row in rows if row["name"] == name] for name in BROKEN}
    told = ", ".join(f"{name} {sum(found)} of {len(found)}" for name, found in shares.items() if found)
    return f"How often the caution appears in crowds of 2, 4 and 8 classes that no choice has seen: {told}."


def mean_of(rows: list[dict[str, Any]], key: str) -> float:
    known = [row[key] for row in rows if row[key] is not None and not math.isnan(row[key])]
    return fmean(known) if known else math.nan


def short(value: float, *, sign: bool = False) -> str:
    """Three digits: .873, −.310."""
    if math.isnan(value):
        return "–"
    digits = f"{abs(value):.3f}".removeprefix("0")
    return f"{'−' if value < 0 else '+' if sign else ''}{digits}"
