"""A line chart: named lines with error bars over numbers or names, each labelled where it ends."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from crowdwise.reproduction.svg_parts import LETTER, fit_text, make_caption, make_svg

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Line", "draw_line_chart"]

X = float | str
WIDTH, LEFT, BOTTOM = 720, 66, 56
PLOT = 300  # pixels of the plot's height, more where the labels need it
LABEL = 15  # pixels between the labels of two lines
MOST_LABEL = 190  # pixels of a label; longer names are cut
BESIDE, MOST_BESIDE = 4.0, 12.0  # pixels between the error bars of two lines at one x, and of all of them together
MOST_TICKS = 16  # values of x that are each written
LIGHT = ("#0b62c1", "#d1570b", "#16855b", "#9a36ad", "#a87b00", "#c2254a", "#0a8499", "#5c636b", "#7a4b2a", "#5a55d6")
DARK = ("#6cb0ff", "#ff9d5c", "#4fd39c", "#d99bea", "#e3bd4a", "#ff8095", "#5fd3e6", "#aab2bb", "#d2a27c", "#a8a5ff")
DASHES = ("", "5 3", "2 3")  # once the colours are used up
MARKS = (
    '<circle cx="{x:.1f}" cy="{y:.1f}" r="3.4"/>',
    '<path d="M{x:.1f} {y:.1f}m-3.2 -3.2h6.4v6.4h-6.4z"/>',
    '<path d="M{x:.1f} {y:.1f}m0 -4.2l4 7.2h-8z"/>',
    '<path d="M{x:.1f} {y:.1f}m0 -4.4l4.4 4.4l-4.4 4.4l-4.4 -4.4z"/>',
)
STYLE = """.grid { stroke: #d0d7de; stroke-width: 1; } .axis { stroke: #8c959f; stroke-width: 1; }
  .line { fill: none; stroke-width: 2; stroke-linejoin: round; } .bar { stroke-width: 1.2; stroke-opacity: .6; }
  .lead { fill: none; stroke-width: 1; stroke-opacity: .45; } .region { fill: #8c959f; fill-opacity: .18; }"""
DARK_STYLE = ".grid { stroke: #2d333b; } .axis { stroke: #656d76; }"


@dataclass(frozen=True)
class Line:
    """A name, and points (x, y, half the length of the error bar, not a number for none)."""

    name: str
    points: tuple[tuple[X, float, float], ...]


@dataclass(frozen=True)
class _PlotArea:
    across: Callable[[X], float]
    down: Callable[[float], float]
    top: float
    right: float
    floor: float


def draw_line_chart(
    lines: Sequence[Line],
    title: str,
    x_title: str,
    y_title: str,
    words: str = "",
    *,
    grey: Sequence[X] = (),
    marks: bool = True,
) -> str:
    """SVG text.

    Parameters
    ----------
    lines
        With one point at least. Texts, or numbers that would overlap, stand side by side along x.
    title, words
        Above the picture.
    x_title, y_title
        Of the axes.
    grey
        Values of x behind which the plot is grey.
    marks
        Whether every point has a mark that says what it is.
    """
    values = _sort_values([x for line in lines for x, _, _ in line.points])
    lines = [replace(line, points=tuple(sorted(line.points, key=lambda at: values.index(at[0])))) for line in lines]
    names = min(max((len(line.name) for line in lines), default=0) * LETTER, MOST_LABEL)
    right = WIDTH - 44 - names
    parts, end = make_caption(title, words, WIDTH)
    top = end + 40
    floor = top + max(PLOT, LABEL * len(lines))
    reached = [y + sign * _zero_if_nan(half) for line in lines for _, y, half in line.points for sign in (-1, 1)]
    ticks = _round_ticks(reached)
    space = 0.04 * (ticks[-1] - ticks[0])
    low, high = max(ticks[0], min(reached) - space), min(ticks[-1], max(reached) + space)
    across, labels = _make_scale(values, LEFT, right, each=marks)
    plot = _PlotArea(across, lambda y: floor - (y - low) / (high - low) * (floor - top), top, right, floor)
    inside = [tick for tick in ticks if low <= tick <= high]
    parts += [*_draw_background(plot, values, grey), *_draw_axes(plot, inside, labels, x_title, y_title)]
    for number, line in enumerate(lines):
        beside = (number - (len(lines) - 1) / 2) * min(BESIDE, MOST_BESIDE / len(lines)) if marks else 0.0
        parts += _draw_line(plot, line, number, beside, marks=marks)
    parts += _draw_labels(plot, lines)
    style = "\n  ".join([STYLE, *_colour_rules(LIGHT, len(lines))])
    dark = "\n    ".join([DARK_STYLE, *_colour_rules(DARK, len(lines))])
    return make_svg(title, WIDTH, floor + BOTTOM, parts, style=style, dark=dark)


def _zero_if_nan(half: float) -> float:
    return 0.0 if math.isnan(half) else half


def _sort_values(values: list[X]) -> list[X]:
    """Every value once: numbers by size, texts as they come."""
    once = list(dict.fromkeys(values))
    numbers = [value for value in once if not isinstance(value, str)]
    return [*sorted(numbers)] if len(numbers) == len(once) else once


def _make_scale(values: list[X], left: float, right: float, *, each: bool) -> tuple[Callable[[X], float], list[X]]:
    """Where a value stands, and the values that are written below the plot."""
    inner = 18.0
    numbers = [value for value in values if not isinstance(value, str)]
    if len(numbers) == len(values) and len(numbers) > 1:
        low, high = numbers[0], numbers[-1]
        step = (right - left - 2 * inner) / (high - low)
        room = max(len(f"{value:g}") for value in numbers) * LETTER + 6
        near = min(b - a for a, b in pairwise(numbers)) * step < room
        if not (each and near):
            written: list[X] = [*numbers]
            if not each or len(numbers) > MOST_TICKS:
                written = [
                    tick for tick in _round_ticks(numbers) if low <= tick <= high and (each or tick == int(tick))
                ]
            return lambda x: left + inner + (float(x) - low) * step, written
    place = {value: number for number, value in enumerate(values)}
    share = (right - left) / max(len(values), 1)
    return lambda x: left + share * (place[x] + 0.5), values


def _round_ticks(values: Sequence[float]) -> list[float]:
    """Round numbers around the values, about six of them.

    >>> _round_ticks([52.3, 81.2]), _round_ticks([0.5])
    ([50.0, 55.0, 60.0, 65.0, 70.0, 75.0, 80.0, 85.0], [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    """
    low, high = min(values, default=0.0), max(values, default=1.0)
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = min((factor * power for factor in (1, 2, 5, 10)), key=lambda size: abs(size - rough))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def _draw_background(plot: _PlotArea, values: list[X], grey: Sequence[X]) -> list[str]:
    """A grey ground behind some values, to half-way to their neighbours."""
    at = [plot.across(value) for value in values]
    edges = [LEFT, *((a + b) / 2 for a, b in pairwise(at)), plot.right]
    return [
        f'<rect class="region" x="{edges[number]:.1f}" y="{plot.top:g}" '
        f'width="{edges[number + 1] - edges[number]:.1f}" height="{plot.floor - plot.top:g}"/>'
        for number, value in enumerate(values)
        if value in grey
    ]


def _draw_axes(plot: _PlotArea, ticks: list[float], labels: list[X], x_title: str, y_title: str) -> list[str]:
    parts = [f'<text class="quiet" x="24" y="{plot.top - 14:g}">{escape(y_title)}</text>']
    for tick in ticks:
        y = plot.down(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{plot.right:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="quiet" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{plot.right:.1f}" y1="{plot.floor:g}" y2="{plot.floor:g}"/>')
    share = (plot.right - LEFT) / max(len(labels), 1)
    for value in labels:
        x, text = plot.across(value), value if isinstance(value, str) else f"{value:g}"
        parts.append(
            f'<text class="quiet" x="{x:.1f}" y="{plot.floor + 17:g}" text-anchor="middle">'
            f"{fit_text(text, share)}<title>{escape(text)}</title></text>"
        )
    middle = (LEFT + plot.right) / 2
    parts.append(f'<text x="{middle:.1f}" y="{plot.floor + 38:g}" text-anchor="middle">{escape(x_title)}</text>')
    return parts


def _draw_line(plot: _PlotArea, line: Line, number: int, beside: float, *, marks: bool) -> list[str]:
    places = [(plot.across(x) + beside, plot.down(y)) for x, y, _ in line.points]
    way = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    parts = [f'<path class="line c{number}" d="M{way}"><title>{escape(line.name)}</title></path>'] if places else []
    for (x, y, half), (left, middle) in zip(line.points, places, strict=True):
        if not math.isnan(half) and half > 0:
            above, below = plot.down(y + half), plot.down(y - half)
            parts.append(
                f'<path class="bar c{number}" fill="none" d="M{left:.1f} {above:.1f}V{below:.1f}'
                f'M{left - 3:.1f} {above:.1f}h6M{left - 3:.1f} {below:.1f}h6"/>'
            )
        if marks:
            spread = "" if math.isnan(half) else f" ± {half:.3g}"
            where = x if isinstance(x, str) else f"{x:g}"
            shape = MARKS[number % len(MARKS)].format(x=left, y=middle)
            title = f"<title>{escape(f'{line.name}, {where}: {y:.4g}{spread}')}</title>"
            parts.append(f'<g class="f{number}">{shape}{title}</g>')
    return parts


def _draw_labels(plot: _PlotArea, lines: Sequence[Line]) -> list[str]:
    """A name beside the end of each line, moved where two would overlap, with a thread to its line."""
    ends = {
        number: (plot.across(line.points[-1][0]), plot.down(line.points[-1][1]))
        for number, line in enumerate(lines)
        if line.points
    }
    order = sorted(ends, key=lambda number: ends[number][1])
    parts = []
    for number, y in zip(order, _space_labels([ends[each][1] for each in order], plot.top, plot.floor), strict=True):
        x, own = ends[number]
        name = lines[number].name
        parts.append(f'<path class="lead c{number}" d="M{x + 6:.1f} {own:.1f}L{plot.right + 6:.1f} {y:.1f}h4"/>')
        parts.append(
            f'<text class="f{number}" x="{plot.right + 14:.1f}" y="{y + 4:.1f}">{fit_text(name, MOST_LABEL)}'
            f"<title>{escape(name)}</title></text>"
        )
    return parts


def _space_labels(wanted: list[float], top: float, floor: float) -> list[float]:
    """Heights in the same order, near to those wanted and at least a label apart.

    Neighbours that are too near are moved together, as a block around the mean of what they want.

    >>> _space_labels([10, 12, 60], 0, 100)
    [3.5, 18.5, 60.0]
    """
    blocks: list[tuple[float, int]] = []  # where the first of a block stands, and how many it has
    for y in wanted:
        first, size = float(y), 1
        while blocks and blocks[-1][0] + LABEL * blocks[-1][1] > first:
            above, others = blocks.pop()
            first = (above * others + (first - LABEL * others) * size) / (others + size)
            size += others
        blocks.append((min(max(first, top), floor - LABEL * (size - 1)), size))
    return [first + LABEL * at for first, size in blocks for at in range(size)]


def _colour_rules(palette: Sequence[str], number: int) -> list[str]:
    """Rules for strokes and fills of the lines; their dashes once the colours begin anew."""
    rules = []
    for at in range(number):
        colour, dash = palette[at % len(palette)], DASHES[at // len(palette) % len(DASHES)]
        dashed = f" .line.c{at} {{ stroke-dasharray: {dash}; }}" if dash else ""
        rules.append(f".c{at} {{ stroke: {colour}; }} .f{at}, text.f{at} {{ fill: {colour}; }}{dashed}")
    return rules
