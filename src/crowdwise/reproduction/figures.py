"""The figures of a paper's table, drawn from its runs."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.reproduction.line_chart import Line, draw_line_chart
from crowdwise.reproduction.matrix_chart import draw_matrices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.reproduction.table_spec import Figure, Table, X
    from crowdwise.reproduction.verdicts import Cell

__all__ = ["draw_figures", "error_bar_half_width", "format_axis_value"]

Row = dict[str, Any]
MOST_WORKERS = 6  # whose matrices are drawn
WARNED = "Grey: Crowdwise warns that these labels cannot tell the classifier from its workers."
SPREADS = {"sd": "standard deviation", "99 %": "99 % interval of the mean"}


def draw_figures(table: Table, cells: Sequence[Cell], rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Title and SVG text of every picture that there are runs for; a figure has one for each setting that it shows."""
    found = []
    for figure in table.figures:
        if figure.kind == "lines":
            found += _line_pictures(table, figure, cells, rows)
        elif figure.kind == "curves":
            found += _learning_curve_pictures(table, figure, rows)
        else:
            found += _matrix_pictures(figure, rows)
    return found


def error_bar_half_width(cell: Cell, interval: str) -> float:
    """What follows ±, as the table has it: the standard deviation, or half the 99 % interval of the mean."""
    return cell.interval_half_width if interval == "99 %" else cell.deviation


def format_axis_value(value: X) -> str:
    """A value of the axis, as it is written."""
    return value if isinstance(value, str) else f"{value:g}"


def _line_pictures(table: Table, figure: Figure, cells: Sequence[Cell], rows: Sequence[Row]) -> list[tuple[str, str]]:
    """A measure over the axis; over the settings, where there is none."""
    measure = table.measures[figure.measure]
    shown = [
        cell
        for cell in cells
        if cell.measure == figure.measure and cell.values and figure.includes_cell(cell.setting, cell.method, cell.x)
    ]
    seeds = max((len(cell.values) for cell in shown), default=0)
    spread = f" Bars: {SPREADS[table.interval]}." if seeds > 1 else ""
    found = []
    for setting in (
        _unique_values(cell.setting for cell in shown) if table.axis is not None else [None] if shown else []
    ):
        mine = [cell for cell in shown if setting is None or cell.setting == setting]
        lines = [
            Line(
                method,
                tuple(
                    (cell.setting if cell.x is None else cell.x, cell.mean, error_bar_half_width(cell, table.interval))
                    for cell in mine
                    if cell.method == method
                ),
            )
            for method in _unique_values(cell.method for cell in mine)
        ]
        grey = _values_with_warning(figure, rows, setting)
        words = f"{_describe_seeds(seeds)}{spread}" + (f" {WARNED}" if grey else "")
        title = _picture_title(figure, table, setting)
        x_title = "setting" if table.axis is None else table.axis.name
        found.append((title, draw_line_chart(lines, title, x_title, measure.title, words, grey=grey)))
    return found


def _values_with_warning(figure: Figure, rows: Sequence[Row], setting: str | None) -> list[X]:
    """Values of the axis at which most of the runs shown could not be identified."""
    said: dict[X, list[bool]] = {}
    for row in rows:
        inside = row["setting"] == setting and figure.includes_cell(row["setting"], row["method"], row["x"])
        if inside and row["x"] is not None:
            said.setdefault(row["x"], []).append(bool(row.get("warned")))
    return [x for x, each in said.items() if 2 * sum(each) > len(each)]


def _learning_curve_pictures(table: Table, figure: Figure, rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Validation accuracy over the epochs, the mean over seeds; a run that stopped early ends there.

    The lines of a picture are methods; or settings, where a single method is shown in several.
    """
    shown = [
        row for row in rows if row.get("history") and figure.includes_cell(row["setting"], row["method"], row["x"])
    ]
    alone = len(figure.methods) == 1 and len(figure.settings) > 1
    places: dict[tuple[str | None, X | None], dict[str, list[list[float]]]] = {}
    for row in shown:
        place = places.setdefault((None if alone else row["setting"], row["x"]), {})
        place.setdefault(row["setting"] if alone else row["method"], []).append(row["history"])
    found = []
    for (setting, x), histories in places.items():
        lines = [
            Line(
                name,
                tuple(
                    (epoch + 1, 100 * fmean(each[epoch] for each in kept if len(each) > epoch), math.nan)
                    for epoch in range(max(map(len, kept)))
                ),
            )
            for name, kept in histories.items()
        ]
        title = _picture_title(figure, table, setting, x)
        words = _describe_seeds(max(map(len, histories.values())))
        found.append((title, draw_line_chart(lines, title, "epoch", "validation accuracy, %", words, marks=False)))
    return found


def _matrix_pictures(figure: Figure, rows: Sequence[Row]) -> list[tuple[str, str]]:
    """The true matrices of a run and those recovered, for each method shown: its own, and refined ones if there are."""
    shown = [
        (row, name)
        for row in rows
        for name in ("confusion", "refined_confusion")
        if name in row and figure.includes_cell(row["setting"], row["method"], row["x"])
    ]
    found = []
    for row, name in shown:
        true, recovered = np.array(row["true_confusion"]), np.array(row[name])
        words = f"{row['method']}, {row['setting']}" + ("" if row["x"] is None else f", {format_axis_value(row['x'])}")
        words += "" if name == "confusion" else ", refined"
        if len(true) > MOST_WORKERS:
            words += f"; the first {MOST_WORKERS} of {len(true)} workers"
        first = slice(0, MOST_WORKERS)
        picture = draw_matrices(
            true[first], recovered[first], range(true.shape[1]), figure.title, words, recovered_from="in one run"
        )
        found.append((figure.title if len(shown) == 1 else f"{figure.title} ({words})", picture))
    return found


def _describe_seeds(seeds: int) -> str:
    return f"Mean of {seeds} seeds." if seeds > 1 else "One seed."


def _picture_title(figure: Figure, table: Table, setting: str | None, x: X | None = None) -> str:
    """The figure's title; with the setting and x of this picture, where it has several."""
    several = len(figure.settings or table.settings) > 1
    more = [setting] if setting is not None and several else []
    if x is not None and figure.x is None and table.axis is not None:
        more.append(f"{table.axis.name} {format_axis_value(x)}")
    return ": ".join([figure.title, ", ".join(more)]) if more else figure.title


def _unique_values(names: Any) -> list[Any]:
    return list(dict.fromkeys(names))
