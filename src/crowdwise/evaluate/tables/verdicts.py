"""Published against ours: a verdict for every cell, and for everything that the paper says in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t as student

if TYPE_CHECKING:
    from crowdwise.evaluate.tables.spec import Claim, Published, Table, X

__all__ = ["Cell", "Judged", "cells", "judged"]

LEVEL = 0.99  # of the intervals of means
REPRODUCED, BETTER, WORSE, NOT_RUN = "reproduced", "better", "worse", "not run"
HOLDS, FAILS = "holds", "does not hold"


@dataclass(frozen=True)
class Cell:
    """A number of the table: ours over seeds, as printed, and what was published."""

    setting: str
    x: X | None
    method: str
    measure: str
    values: tuple[float, ...]
    published: Published | None
    verdict: str
    note: str

    @property
    def mean(self) -> float:
        """Over seeds."""
        return float(np.mean(self.values)) if self.values else math.nan

    @property
    def deviation(self) -> float:
        """Standard deviation over seeds; not a number for a single one."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else math.nan

    @property
    def half(self) -> float:
        """Half the width of the 99 % interval of the mean."""
        n = len(self.values)
        return float(student.ppf(0.5 + LEVEL / 2, n - 1)) * self.deviation / math.sqrt(n) if n > 1 else math.nan


@dataclass(frozen=True)
class Judged:
    """A claim, whether it holds in what was run, and the figures that say so."""

    claim: Claim
    verdict: str
    figures: tuple[str, ...]


def cells(table: Table, rows: list[dict[str, Any]]) -> list[Cell]:
    """Every cell of the table, measure by measure."""
    values: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        for measure, value in row["measures"].items():
            if measure in table.measures and not math.isnan(value):
                key = (row["setting"], row["x"], row["method"], measure)
                values.setdefault(key, []).append(value * table.measures[measure].times)
    told = {(each.setting, each.x, each.method, each.measure): each for each in table.published}
    places = [(job["cell"]["setting"], job["cell"]["x"], job["cell"]["method"]) for job in table.jobs(seeds=1)]
    found = []
    for measure in table.measures:
        for setting, x, method in places:
            key = (setting, x, method, measure)
            ours, published = tuple(values.get(key, ())), told.get(key)
            verdict = _verdict(ours, published, table.measures[measure].better)
            found.append(Cell(*key, ours, published, verdict, _noted(table, *key)))
    return found


def _verdict(ours: tuple[float, ...], published: Published | None, better: str) -> str:
    if not ours:
        return NOT_RUN
    if published is None:
        return ""
    gap = float(np.mean(ours)) - published.value
    if abs(gap) <= max(published.tolerance, 0 if math.isnan(published.deviation) else 2 * published.deviation):
        return REPRODUCED
    return BETTER if (gap > 0) == (better == "more") else WORSE


def _noted(table: Table, setting: str, x: X | None, method: str, measure: str) -> str:
    """The notes on a cell, one after another."""
    own = {"setting": setting, "x": x, "method": method, "measure": measure}
    return " ".join(
        note.text
        for note in table.notes
        if all(getattr(note, name) is None or getattr(note, name) == value for name, value in own.items())
    )


def judged(table: Table, found: list[Cell]) -> list[Judged]:
    """Every claim, where its cells were run."""
    return [_judged(table, claim, found) for claim in table.claims]


def _judged(table: Table, claim: Claim, found: list[Cell]) -> Judged:
    sign = 1 if table.measures[claim.measure].better == "more" else -1
    places = _places(claim, claim.measure, found)
    figures, verdicts = [], []
    for (setting, x), row in places.items():
        where = setting if x is None else f"{setting}, {x}"
        for name, bar in claim.reaches.items():
            value = _value(row[name], sign, claim)
            verdicts.append(_met(sign * (value - bar) >= 0, row[name]))
            figures.append(f"{where}: {name} {value:.{_digits(table, claim)}f} against {bar:g}")
        for before, after in zip(claim.order, claim.order[1:], strict=False):
            for first in before:
                for second in after:
                    one, two = row.get(first), row.get(second)
                    if one is None or two is None:
                        continue
                    verdicts.append(_met(_ahead(one, two, sign, claim), one, two))
                    figures.append(
                        f"{where}: {first} {_value(one, sign, claim):.{_digits(table, claim)}f}, "
                        f"{second} {_value(two, sign, claim):.{_digits(table, claim)}f}"
                        + ("" if verdicts[-1] == HOLDS else f" ({verdicts[-1]})")
                    )
    for name, most in claim.alike.items():
        over = [place[name] for place in places.values() if name in place]
        if not over:
            continue
        means = [cell.mean for cell in over]
        verdicts.append(_met(max(means) - min(means) <= most, *over))
        figures.append(f"{name}: {_listed(table, claim, over)}, to differ by at most {most:g}")
    for name, other in claim.beats.items():
        for key, place in _places(claim, other, found).items():
            if name not in place:
                continue
            one, two = places[key][name], place[name]
            verdicts.append(_met(sign * (one.mean - two.mean) > 0, one, two))
            figures.append(f"{key[0]}: {name} {_listed(table, claim, [one, two])}")
    for setting in claim.settings if claim.falls else ():
        along = [row for (where, _), row in places.items() if where == setting]
        for name in claim.falls if len(along) > 1 else ():
            start, end = along[0][name], along[-1][name]
            verdicts.append(_met(_ahead(start, end, sign, claim), start, end))
            figures.append(
                f"{setting}: {name} {_value(start, sign, claim):.{_digits(table, claim)}f} at {start.x}, "
                f"{_value(end, sign, claim):.{_digits(table, claim)}f} at {end.x}"
                + ("" if verdicts[-1] == HOLDS else f" ({verdicts[-1]})")
            )
    overall = FAILS if FAILS in verdicts else NOT_RUN if NOT_RUN in verdicts or not verdicts else HOLDS
    return Judged(claim, overall, tuple(figures))


def _places(claim: Claim, measure: str, found: list[Cell]) -> dict[tuple[str, X | None], dict[str, Cell]]:
    """The cells of a measure that a claim is about: of each setting and place of the axis, by method."""
    places: dict[tuple[str, X | None], dict[str, Cell]] = {}
    for cell in found:
        inside = cell.setting in claim.settings and (claim.at is None or cell.x in claim.at)
        if inside and cell.measure == measure:
            places.setdefault((cell.setting, cell.x), {})[cell.method] = cell
    return places


def _listed(table: Table, claim: Claim, row: list[Cell]) -> str:
    return ", ".join(f"{cell.mean:.{_digits(table, claim)}f}" for cell in row)


def _digits(table: Table, claim: Claim) -> int:
    return table.measures[claim.measure].digits


def _met(holds: bool, *run: Cell) -> str:
    return NOT_RUN if not all(cell.values for cell in run) else HOLDS if holds else FAILS


def _value(cell: Cell, sign: int, claim: Claim) -> float:
    """What a claim is about: the mean over seeds, or the worst of them."""
    if claim.over == "mean" or not cell.values:
        return cell.mean
    return sign * min(sign * value for value in cell.values)


def _ahead(one: Cell, two: Cell, sign: int, claim: Claim) -> bool:
    """Whether the first is better by so much; where the claim says so, beyond the intervals of both."""
    gap = sign * (_value(one, sign, claim) - _value(two, sign, claim))
    if claim.apart:
        return gap > one.half + two.half
    return gap > claim.by if claim.by == 0 else gap >= claim.by
