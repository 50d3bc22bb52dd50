"""Confusion matrices as a picture: the true ones above, what was found below."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from crowdwise.reproduction.svg_parts import LETTER, fit_text, make_caption, make_svg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.labels.types import FloatArray

__all__ = ["draw_matrices"]

LEFT, RIGHT, BETWEEN, BOTTOM = 92, 24, 34, 62
LEAST_GAP, MOST_GAP = 26, 62  # before each matrix, for the names of its rows
TICK = 0.8  # width of a letter there, of one of the usual size
SMALLEST, LARGEST, SIDE = 13, 28, 84  # of a cell, and of a matrix that has room for larger ones
STEP = 13  # of the legend
NARROWEST = 700
FAINT = 0.02  # chances below are not drawn
STYLE, DARK = ".chance { fill: #0b4f9e; }", ".chance { fill: #6cb0ff; }"


def draw_matrices(
    true: FloatArray,
    found: FloatArray,
    names: Sequence[object],
    title: str,
    words: str = "",
    *,
    recovered_from: str = "",
    shown: str = "class shown",
) -> str:
    """SVG text: a column for each worker, a row for each of the two.

    Parameters
    ----------
    true, found : (M, K, K) [worker, truth, label]
        What is drawn above and below.
    names
        Of the classes.
    title, words
        Above the picture.
    recovered_from
        What the matrices below were found from.
    shown
        What a row stands for.
    """
    n_workers, n_classes = true.shape[:2]
    cell = min(max(SIDE // n_classes, SMALLEST), LARGEST)
    side = cell * n_classes
    longest = max(len(str(name)) for name in names)
    gap = min(max(LEAST_GAP, TICK * LETTER * longest + 12), MOST_GAP)
    width = max(LEFT + n_workers * (side + gap) + RIGHT, NARROWEST)
    parts, end = make_caption(title, words, width)
    top = end + 44
    height = top + 2 * side + BETWEEN + BOTTOM
    for worker in range(n_workers):
        x = LEFT + gap + worker * (side + gap)
        name = f"worker {worker + 1}" if side >= 50 else str(worker + 1)
        parts.append(f'<text class="strong" x="{x + side / 2:g}" y="{top - 18:g}" text-anchor="middle">{name}</text>')
        for row, matrices in enumerate((true, found)):
            parts += _draw_matrix(matrices[worker], names, cell, gap, x, top + row * (side + BETWEEN))
    for row, (name, note) in enumerate((("true", "as simulated"), ("recovered", recovered_from))):
        y = top + row * (side + BETWEEN) + side / 2
        first, _, second = note.partition(" and ")
        lines = [first, *([f"and {second}"] if second else [])]
        parts.append(f'<text class="strong" x="24" y="{y - 4:.0f}">{name}</text>')
        parts += [
            f'<text class="tick" x="24" y="{y + 10 + 11 * at:.0f}">{escape(line)}</text>'
            for at, line in enumerate(lines)
        ]
    return make_svg(title, width, height, [*parts, *_draw_legend(width, height, shown)], style=STYLE, dark=DARK)


def _draw_matrix(matrix: FloatArray, names: Sequence[object], cell: int, gap: float, x: float, y: float) -> list[str]:
    side = cell * len(names)
    parts = [f'<rect class="frame" x="{x:g}" y="{y:g}" width="{side}" height="{side}"/>']
    for place, name in enumerate(names):
        middle = cell * (place + 0.5)
        before, above = (fit_text(name, room / TICK) for room in (gap - 8, max(cell, SMALLEST + 4)))
        text = escape(str(name))
        parts.append(f'<text class="tick" x="{x - 4:g}" y="{y + middle + 3:.1f}" text-anchor="end">{before}</text>')
        parts.append(f'<text class="tick" x="{x + middle:.1f}" y="{y - 4:g}" text-anchor="middle">{above}</text>')
        parts += [
            f'<rect class="chance" fill-opacity="{chance:.2f}" x="{x + cell * other + 0.5:g}" '
            f'y="{y + cell * place + 0.5:g}" width="{cell - 1}" height="{cell - 1}">'
            f"<title>{text} taken for {escape(str(names[other]))}: {chance:.0%}</title></rect>"
            for other, chance in enumerate(matrix[place].tolist())
            if chance >= FAINT
        ]
    return parts


def _draw_legend(width: float, height: float, shown: str) -> list[str]:
    y = height - 34
    parts = [f'<text class="quiet" x="24" y="{y + 11:g}">row: {escape(shown)}; column: what the worker says</text>']
    steps = 10
    x = width - RIGHT - steps * STEP - 42
    parts.append(f'<text class="quiet" x="{x - 8:g}" y="{y + 11:g}" text-anchor="end">chance 0%</text>')
    parts.append(f'<rect class="frame" x="{x:g}" y="{y:g}" width="{steps * STEP}" height="{STEP}"/>')
    parts += [
        f'<rect class="chance" fill-opacity="{(step + 0.5) / steps:.2f}" x="{x + STEP * step:g}" y="{y:g}" '
        f'width="{STEP}" height="{STEP}"/>'
        for step in range(steps)
    ]
    parts.append(f'<text class="quiet" x="{width - RIGHT:g}" y="{y + 11:g}" text-anchor="end">100%</text>')
    return parts
