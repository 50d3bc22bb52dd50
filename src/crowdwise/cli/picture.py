"""Confusion matrices as a picture: the true ones above, what was found below."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.cli.digits import Digits
    from crowdwise.labels.types import FloatArray

__all__ = ["drawn_digits"]

CELL, GAP, LEFT, RIGHT, TOP, BETWEEN, BOTTOM = 13, 26, 118, 24, 96, 34, 62
FAINT = 0.02  # chances below are not drawn
STYLE = """
  text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #24292f; }
  .title { font-size: 16px; font-weight: 700; } .strong { font-weight: 700; }
  .quiet { fill: #656d76; } .tick { fill: #656d76; font-size: 9px; }
  .paper { fill: #ffffff; } .frame { fill: #8c959f; fill-opacity: .1; }
  .chance { fill: #0b4f9e; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .quiet, .tick { fill: #9198a1; } .paper { fill: #0d1117; } .chance { fill: #6cb0ff; }
  }
"""


def drawn_digits(digits: Digits) -> str:
    """How the demo's workers err, in truth and as recovered, as SVG text."""
    caption = (
        f"{digits.n_images:,} images, one label each, {digits.labels_right:.0%} of the labels right. The classifier "
        f"gets {digits.accuracy['trace']:.0%} of new images right; trained on these as they are, "
        f"{digits.accuracy['majority-vote']:.0%}."
    )
    return _drawn(digits.true, digits.found, range(10), "How five workers take one digit for another", caption)


def _drawn(true: FloatArray, found: FloatArray, names: Sequence[object], title: str, caption: str) -> str:
    """The figure as SVG text, for light and dark pages: a column for each worker, a row for each of the two."""
    n_workers, n_classes = true.shape[:2]
    side = CELL * n_classes
    width = LEFT + n_workers * side + (n_workers - 1) * GAP + RIGHT
    height = TOP + 2 * side + BETWEEN + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
        f'<text class="title" x="24" y="32">{escape(title)}</text>',
        f'<text class="quiet" x="24" y="52">{escape(caption)}</text>',
    ]
    for worker in range(n_workers):
        x = LEFT + worker * (side + GAP)
        parts.append(
            f'<text class="strong" x="{x + side / 2}" y="{TOP - 18}" text-anchor="middle">worker {worker + 1}</text>'
        )
        for row, matrices in enumerate((true, found)):
            y = TOP + row * (side + BETWEEN)
            parts += _matrix(matrices[worker], names, x, y)
    for row, (name, note) in enumerate((("true", "as simulated"), ("recovered", "from labels and images"))):
        y = TOP + row * (side + BETWEEN) + side / 2
        words = note.split(" and ")
        lines = [words[0], *(f"and {word}" for word in words[1:])]
        parts.append(f'<text class="strong" x="24" y="{y - 4:.0f}">{name}</text>')
        parts += [
            f'<text class="tick" x="24" y="{y + 10 + 11 * at:.0f}">{line}</text>' for at, line in enumerate(lines)
        ]
    return "\n".join([*parts, *_legend(width, height), "</svg>"]) + "\n"


def _matrix(matrix: FloatArray, names: Sequence[object], x: float, y: float) -> list[str]:
    side = CELL * len(names)
    parts = [f'<rect class="frame" x="{x}" y="{y}" width="{side}" height="{side}"/>']
    for place, name in enumerate(names):
        middle = CELL * (place + 0.5)
        text = escape(str(name))
        parts.append(f'<text class="tick" x="{x - 4}" y="{y + middle + 3:.1f}" text-anchor="end">{text}</text>')
        parts.append(f'<text class="tick" x="{x + middle:.1f}" y="{y - 4}" text-anchor="middle">{text}</text>')
        parts += [
            f'<rect class="chance" fill-opacity="{chance:.2f}" x="{x + CELL * other + 0.5}" '
            f'y="{y + CELL * place + 0.5}" width="{CELL - 1}" height="{CELL - 1}">'
            f"<title>{text} taken for {escape(str(names[other]))}: {chance:.0%}</title></rect>"
            for other, chance in enumerate(matrix[place].tolist())
            if chance >= FAINT
        ]
    return parts


def _legend(width: float, height: float) -> list[str]:
    y = height - 34
    parts = [f'<text class="quiet" x="{LEFT}" y="{y + 11}">row: digit shown; column: what the worker says</text>']
    steps = 10
    x = width - RIGHT - steps * CELL - 42
    parts.append(f'<text class="quiet" x="{x - 8}" y="{y + 11}" text-anchor="end">chance 0%</text>')
    parts.append(f'<rect class="frame" x="{x}" y="{y}" width="{steps * CELL}" height="{CELL}"/>')
    parts += [
        f'<rect class="chance" fill-opacity="{(step + 0.5) / steps:.2f}" x="{x + CELL * step}" y="{y}" '
        f'width="{CELL}" height="{CELL}"/>'
        for step in range(steps)
    ]
    parts.append(f'<text class="quiet" x="{width - RIGHT}" y="{y + 11}" text-anchor="end">100%</text>')
    return parts
