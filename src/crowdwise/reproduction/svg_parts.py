"""What every picture of ours has: one look, on light and dark pages, a title, and texts that are escaped."""

from __future__ import annotations

from html import escape
from textwrap import wrap

__all__ = ["fit_text", "make_caption", "make_svg"]

LETTER = 6.3  # pixels that a letter of 12 takes, on average
LINE = 16
STYLE = """
  text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #24292f; }
  .title { font-size: 16px; font-weight: 700; } .strong { font-weight: 700; }
  .quiet { fill: #656d76; } .tick { fill: #656d76; font-size: 9px; }
  .paper { fill: #ffffff; } .frame { fill: #8c959f; fill-opacity: .1; }"""
DARK = "text { fill: #e6edf3; } .quiet, .tick { fill: #9198a1; } .paper { fill: #0d1117; }"


def make_svg(title: str, width: float, height: float, parts: list[str], *, style: str = "", dark: str = "") -> str:
    """A whole SVG; `style` and `dark` are what it has besides what all have."""
    look = f"{STYLE}\n  {style}\n  @media (prefers-color-scheme: dark) {{\n    {DARK}\n    {dark}\n  }}\n"
    opening = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{look}</style>",
        f'<rect class="paper" width="{width:g}" height="{height:g}"/>',
    ]
    return "\n".join([*opening, *parts, "</svg>"]) + "\n"


def make_caption(title: str, words: str, width: float, x: float = 24) -> tuple[list[str], float]:
    """The title and what is said below it, in as many lines as they need; and where they end."""
    parts, y = [], 12.0
    for line in wrap(title, int((width - 2 * x) / (1.42 * LETTER))):
        y += 20
        parts.append(f'<text class="title" x="{x:g}" y="{y:g}">{escape(line)}</text>')
    y += 4
    for line in wrap(words, int((width - 2 * x) / (0.95 * LETTER))):
        y += LINE
        parts.append(f'<text class="quiet" x="{x:g}" y="{y:g}">{escape(line)}</text>')
    return parts, y


def fit_text(name: object, width: float) -> str:
    """A name cut to so many pixels, and escaped.

    >>> fit_text("a < b", 100), fit_text("a very long name", 70)
    ('a &lt; b', 'a very lon…')
    """
    text, most = str(name), max(2, int(width / LETTER))
    return escape(text if len(text) <= most else text[: most - 1] + "…")
