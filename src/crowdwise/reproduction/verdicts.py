"""Published against ours: a verdict for every cell, and for everything that the paper says in words."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t as student

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.reproduction.table_spec import Claim, Published, Table, X

__all__ = ["Cell", "ClaimVerdict", "compute_cells", "judge_claims"]

LEVEL = 0.99  # of the intervals of means
FAR = 0.05  # of a share, 5 points: a baseline so far off is not the paper's
REPRODUCED, BETTER, WORSE, DIFFERS, NOT_RUN = "reproduced", "better", "worse", "differs", "not run"
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
    def interval_half_width(self) -> float:
        """Half the width of the 99 % interval of the mean."""
        n = len(self.values)
        return float(student.ppf(0.5 + LEVEL / 2, n - 1)) * self.deviation / math.sqrt(n) if n > 1 else math.nan


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim, whether it holds in what was run, and the figures that say so."""

    claim: Claim
    verdict: str
    figures: tuple[str, ...]


def compute_cells(table: Table, rows: list[dict[str, Any]]) -> list[Cell]:
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
            if measure not in table.measures_of(setting, method):
                continue
            key = (setting, x, method, measure)
            cell = Cell(*key, tuple(values.get(key, ())), told.get(key), "", _notes_on_cell(table, *key))
            found.append(replace(cell, verdict=_judge_number(table, cell)))
    if any(_is_far_off_baseline(table, cell) for cell in found):
        found = [replace(cell, verdict=DIFFERS) if cell.verdict == BETTER else cell for cell in found]
    return found


def _judge_number(table: Table, cell: Cell) -> str:
    """The verdict on a number by itself; a baseline is never better, for a stronger one is another one."""
    published = cell.published
    if not cell.values:
        return NOT_RUN
    if published is None:
        return ""
    gap = cell.mean - published.value
    if abs(gap) <= max(published.tolerance, 0 if math.isnan(published.deviation) else 2 * published.deviation):
        return REPRODUCED
    measure = table.measures[cell.measure]
    ahead = (gap > 0) == (measure.better == "more")
    if _is_proposed(table, cell):
        return BETTER if ahead else WORSE
    return DIFFERS if ahead or abs(gap) > FAR * measure.times else WORSE


def _is_far_off_baseline(table: Table, cell: Cell) -> bool:
    """Whether a baseline is so far off, in either direction, that the set-up is not the paper's."""
    if cell.verdict != DIFFERS or cell.published is None:
        return False
    return abs(cell.mean - cell.published.value) > FAR * table.measures[cell.measure].times


def _is_proposed(table: Table, cell: Cell) -> bool:
    return next(method.proposed for method in table.methods if method.name == cell.method)


def _notes_on_cell(table: Table, setting: str, x: X | None, method: str, measure: str) -> str:
    """The notes on a cell, one after another."""
    own = {"setting": setting, "x": x, "method": method, "measure": measure}
    return " ".join(
        note.text
        for note in table.notes
        if all(getattr(note, name) is None or getattr(note, name) == value for name, value in own.items())
    )


def judge_claims(table: Table, found: list[Cell]) -> list[ClaimVerdict]:
    """Every claim, where its cells were run."""
    return [_judge_claim(table, claim, found) for claim in table.claims]


def _judge_claim(table: Table, claim: Claim, found: list[Cell]) -> ClaimVerdict:
    parts = _ClaimParts(table, claim, found)
    told = [
        *parts.check_reaches(),
        *parts.check_order(),
        *parts.check_alike(),
        *parts.check_beats(),
        *parts.check_falls(),
    ]
    verdicts = [verdict for verdict, _ in told]
    overall = FAILS if FAILS in verdicts else NOT_RUN if NOT_RUN in verdicts or not verdicts else HOLDS
    return ClaimVerdict(claim, overall, tuple(figure for _, figure in told))


class _ClaimParts:
    """The parts of a claim; each gives verdicts and the figures that say so."""

    def __init__(self, table: Table, claim: Claim, found: list[Cell]) -> None:
        self.claim, self.found = claim, found
        self.sign = 1 if table.measures[claim.measure].better == "more" else -1
        self.digits = table.measures[claim.measure].digits
        self.places = _cells_by_place(claim, claim.measure, found)

    def check_reaches(self) -> Iterator[tuple[str, str]]:
        """What a method reaches at least (or at most, where less is better)."""
        for (setting, x), row in self.places.items():
            for name, bar in self.claim.reaches.items():
                verdict = _verdict_if(self.sign * (self.value(row[name]) - bar) >= 0, row[name])
                yield verdict, f"{_describe_place(setting, x)}: {name} {self.format_value(row[name])} against {bar:g}"

    def check_order(self) -> Iterator[tuple[str, str]]:
        """Everyone of a group ahead of everyone of the next."""
        for (setting, x), row in self.places.items():
            for before, after in pairwise(self.claim.order):
                for first, second in product(before, after):
                    if first in row and second in row:
                        words = f"{first} {self.format_value(row[first])}, {second} {self.format_value(row[second])}"
                        yield self.compare(row[first], row[second], f"{_describe_place(setting, x)}: {words}")

    def check_alike(self) -> Iterator[tuple[str, str]]:
        """The most that a method's means differ over the settings."""
        for name, most in self.claim.alike.items():
            cells = [row[name] for row in self.places.values() if name in row]
            if cells:
                means = [cell.mean for cell in cells]
                words = f"{name}: {self.format_means(cells)}, to differ by at most {most:g}"
                yield _verdict_if(max(means) - min(means) <= most, *cells), words

    def check_beats(self) -> Iterator[tuple[str, str]]:
        """A method better in this measure than in another."""
        for name, other in self.claim.beats.items():
            for place, row in _cells_by_place(self.claim, other, self.found).items():
                if name in row:
                    one, two = self.places[place][name], row[name]
                    words = f"{place[0]}: {name} {self.format_means([one, two])}"
                    yield _verdict_if(self.sign * (one.mean - two.mean) > 0, one, two), words

    def check_falls(self) -> Iterator[tuple[str, str]]:
        """Methods worse at the end of the axis than at its start."""
        for setting in self.claim.settings if self.claim.falls else ():
            along = [row for (where, _), row in self.places.items() if where == setting]
            for name in self.claim.falls if len(along) > 1 else ():
                start, end = along[0][name], along[-1][name]
                words = f"{name} {self.format_value(start)} at {start.x}, {self.format_value(end)} at {end.x}"
                yield self.compare(start, end, f"{setting}: {words}")

    def compare(self, one: Cell, two: Cell, words: str) -> tuple[str, str]:
        """Whether the first is better by so much; where the claim says so, beyond the intervals of both."""
        gap = self.sign * (self.value(one) - self.value(two))
        by = self.claim.by
        ahead = (
            gap > one.interval_half_width + two.interval_half_width
            if self.claim.apart
            else gap > by
            if by == 0
            else gap >= by
        )
        verdict = _verdict_if(ahead, one, two)
        return verdict, words if verdict == HOLDS else f"{words} ({verdict})"

    def value(self, cell: Cell) -> float:
        """What a claim is about: the mean over seeds, or the worst of them."""
        if self.claim.over == "mean" or not cell.values:
            return cell.mean
        return self.sign * min(self.sign * value for value in cell.values)

    def format_value(self, cell: Cell) -> str:
        """Its value, as printed."""
        return f"{self.value(cell):.{self.digits}f}"

    def format_means(self, cells: list[Cell]) -> str:
        """Their means, as printed."""
        return ", ".join(f"{cell.mean:.{self.digits}f}" for cell in cells)


def _describe_place(setting: str, x: X | None) -> str:
    return setting if x is None else f"{setting}, {x}"


def _cells_by_place(claim: Claim, measure: str, found: list[Cell]) -> dict[tuple[str, X | None], dict[str, Cell]]:
    """The cells of a measure that a claim is about: of each setting and place of the axis, by method."""
    places: dict[tuple[str, X | None], dict[str, Cell]] = {}
    for cell in found:
        inside = cell.setting in claim.settings and (claim.at is None or cell.x in claim.at)
        if inside and cell.measure == measure:
            places.setdefault((cell.setting, cell.x), {})[cell.method] = cell
    return places


def _verdict_if(holds: bool, *run: Cell) -> str:
    return NOT_RUN if not all(cell.values for cell in run) else HOLDS if holds else FAILS
