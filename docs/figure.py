"""The league as a picture: one row for each method, a dot for each data set, a bold tick for the mean."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

WIDTH, LEFT, RIGHT, TOP, ROW, BOTTOM = 880, 216, 64, 62, 19, 48
LOWEST, HIGHEST = 0.4, 1.0  # accuracies below are drawn at the edge, as arrows
STYLE = """
  text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #24292f; }
  .quiet { fill: #656d76; } .strong { font-weight: 700; }
  .grid { stroke: #d0d7de; stroke-width: 1; } .band { fill: #8c959f; fill-opacity: .09; }
  .spotlight { fill: #1a7f5a; fill-opacity: .13; }
  .ours { fill: #2f6fbf; } .peer { fill: #c4601d; } .auto { fill: #1a7f5a; }
  circle, .arrow { fill-opacity: .42; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .quiet { fill: #9198a1; } .grid { stroke: #3d444d; }
    .ours { fill: #6cb0ff; } .peer { fill: #f0a060; } .auto { fill: #4fd39c; }
    circle, .arrow { fill-opacity: .5; }
  }
"""


class Row(NamedTuple):
    """A method: its name, the kind it is drawn as (auto, ours, peer), accuracies by data set, and their mean."""

    name: str
    kind: str
    accuracies: dict[str, float]
    mean: float
    note: str = ""


def across(accuracy: float) -> float:
    return LEFT + (max(accuracy, LOWEST) - LOWEST) / (HIGHEST - LOWEST) * (WIDTH - LEFT - RIGHT)


def dot(name: str, accuracy: float, kind: str, y: float) -> str:
    title = f"<title>{escape(name)}: {accuracy:.3f}</title>"
    x = across(accuracy)
    if accuracy < LOWEST:
        return f'<path class="{kind} arrow" d="M{x - 4:.1f} {y:.1f}l7 -4v8z">{title}</path>'
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.4">{title}</circle>'


def one_row(row: Row, at: int) -> list[str]:
    y = TOP + ROW * (at + 0.5)
    strong = " strong" if row.kind == "auto" else ""
    band = f'<rect class="{{}}" x="8" y="{y - ROW / 2:.1f}" width="{WIDTH - 16}" height="{ROW}" rx="3"/>'
    parts = [band.format("spotlight")] if row.kind == "auto" else [band.format("band")] if at % 2 else []
    parts.append(
        f'<text x="{LEFT - 18}" y="{y + 4:.1f}" text-anchor="end" class="{row.kind}{strong}">{row.name}</text>'
    )
    parts += [dot(name, accuracy, row.kind, y) for name, accuracy in row.accuracies.items()]
    parts.append(
        f'<rect class="{row.kind}" x="{across(row.mean) - 2:.1f}" y="{y - 7.5:.1f}" width="4" height="15" rx="1">'
        f"<title>mean {row.mean:.4f}</title></rect>"
    )
    parts.append(f'<text x="{WIDTH - 14}" y="{y + 4:.1f}" text-anchor="end" class="{strong}">{row.mean:.3f}</text>')
    if row.note:
        parts.append(f'<text x="{LEFT + 8}" y="{y + 4:.1f}" class="quiet">{escape(row.note)}</text>')
    return parts


def legend(kinds: dict[str, str]) -> list[str]:
    parts, x = [], LEFT
    for kind, words in kinds.items():
        parts.append(f'<circle class="{kind}" cx="{x + 4}" cy="20" r="3.4"/>')
        parts.append(f'<rect class="{kind}" x="{x + 13}" y="12" width="4" height="15" rx="1"/>')
        parts.append(f'<text x="{x + 24}" y="24">{words}</text>')
        x += 44 + 7 * len(words)
    parts.append(f'<text x="{x + 4}" y="24" class="quiet">dot: one data set; bar: mean</text>')
    return parts


def drawn(rows: list[Row], *, n_sets: int) -> str:
    """The figure as SVG text, for light and dark pages."""
    height = TOP + ROW * len(rows) + BOTTOM
    floor = TOP + ROW * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<title>Accuracy of every method on every data set</title>",
        f"<style>{STYLE}</style>",
        *legend({"auto": "auto", "ours": "crowdwise", "peer": "crowd-kit"}),
        f'<text x="{WIDTH - 14}" y="{TOP - 8}" text-anchor="end" class="quiet">mean</text>',
    ]
    for tenth in range(round(10 * LOWEST), round(10 * HIGHEST) + 1):
        x = across(tenth / 10)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{floor}"/>')
        parts += [
            f'<text x="{x:.1f}" y="{y}" text-anchor="middle" class="quiet">{tenth / 10:.1f}</text>'
            for y in (TOP - 8, floor + 17)
        ]
    for at, row in enumerate(rows):
        parts += one_row(row, at)
    middle = (LEFT + WIDTH - RIGHT) / 2
    words = f"accuracy on {n_sets} public data sets (arrow: below {LOWEST})"
    parts.append(f'<text x="{middle}" y="{floor + 37}" text-anchor="middle">{words}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
