"""The order of all methods of a table, as published and as found: pairs that are turned round."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from crowdwise.reproduction.figures import format_axis_value

if TYPE_CHECKING:
    from crowdwise.reproduction.table_spec import Table, X
    from crowdwise.reproduction.verdicts import Cell

__all__ = ["OrderComparison", "compare_orders"]


@dataclass(frozen=True)
class OrderComparison:
    """How many pairs of methods the paper tells apart, how many are in its order, and in words which are not."""

    pairs: int
    kept: int
    turned: tuple[str, ...]


def compare_orders(table: Table, found: list[Cell]) -> OrderComparison:
    """Every pair of methods with published numbers of one measure in one place.

    A pair is told apart by the paper if its numbers differ by more than both standard deviations together, or, where
    none is printed, by more than the tolerance. It is turned round if our means are not in the same order.
    """
    places: dict[tuple[str, str, X | None], list[Cell]] = {}
    for cell in found:
        if cell.published is not None and cell.values:
            places.setdefault((cell.measure, cell.setting, cell.x), []).append(cell)
    pairs, turned = 0, []
    for (measure, setting, x), cells in places.items():
        sign = 1 if table.measures[measure].better == "more" else -1
        ahead: dict[Cell, list[Cell]] = {}
        for one, two in combinations(cells, 2):
            first, second = (one, two) if sign * _published_gap(one, two) > 0 else (two, one)
            if abs(_published_gap(one, two)) > _published_spread(one, two):
                pairs += 1
                if sign * (first.mean - second.mean) <= 0:
                    ahead.setdefault(second, []).append(first)
        place = setting if x is None else f"{setting}, {format_axis_value(x)}"
        turned += [
            (len(behind), f"{place}, {table.measures[measure].title}: {_describe_turned(table, cell, behind)}")
            for cell, behind in ahead.items()
        ]
    return OrderComparison(pairs, pairs - sum(n for n, _ in turned), tuple(words for _, words in turned))


def _published_gap(one: Cell, two: Cell) -> float:
    return _published_value(one) - _published_value(two)


def _published_value(cell: Cell) -> float:
    return math.nan if cell.published is None else cell.published.value


def _published_spread(one: Cell, two: Cell) -> float:
    told = [each.published for each in (one, two) if each.published is not None]
    spread = sum(each.deviation for each in told)
    return max(each.tolerance for each in told) if math.isnan(spread) else spread


def _describe_turned(table: Table, cell: Cell, behind: list[Cell]) -> str:
    """The method that should be behind, and those that it is ahead of or level with."""
    digits = table.measures[cell.measure].digits
    named: dict[str, list[str]] = {"is ahead of": [], "is level with": []}
    for each in behind:
        gap = abs(cell.mean - each.mean)
        close = 0 < gap <= cell.deviation + each.deviation  # other seeds could turn them round again
        words = f"{each.method} {each.mean:.{digits}f}" + (" (within the deviations of both)" if close else "")
        named["is ahead of" if gap else "is level with"].append(words)
    said = [f"{how} {', '.join(names)}" for how, names in named.items() if names]
    return f"{cell.method} {cell.mean:.{digits}f} {' and '.join(said)}"
