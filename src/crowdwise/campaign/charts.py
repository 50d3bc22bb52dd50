"""Small charts of the manager's page, as SVG that is drawn on the server and needs no script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["draw_confidence", "draw_interval", "draw_rate"]

WIDTH, HEIGHT = 560, 150
LEFT, BOTTOM, TOP = 34, 24, 10


def draw_rate(times: Sequence[float], now: float) -> Markup:
    """Answers that had come by each moment."""
    if len(times) < 2:
        return _say("The first answers will be drawn here.")
    begin, end = times[0], max(now, times[-1], times[0] + 1)
    step = max(len(times) // 200, 1)
    places = [(LEFT + (WIDTH - LEFT - 8) * (each - begin) / (end - begin), number + 1)
              for number, each in enumerate(times) if number % step == 0 or number == len(times) - 1]  # fmt: skip
    places.append((LEFT + (WIDTH - LEFT - 8) * (now - begin) / (end - begin), len(times)))
    height = HEIGHT - BOTTOM - TOP
    line = " ".join(f"{x:.1f},{TOP + height * (1 - y / len(times)):.1f}" for x, y in places)
    floor = HEIGHT - BOTTOM
    parts = [
        f'<line class="grid" x1="{LEFT}" y1="{floor}" x2="{WIDTH - 8}" y2="{floor}"/>',
        f'<line class="grid" x1="{LEFT}" y1="{TOP}" x2="{WIDTH - 8}" y2="{TOP}"/>',
        f'<polygon class="area" points="{places[0][0]:.1f},{floor} {line} {places[-1][0]:.1f},{floor}"/>',
        f'<polyline class="line" points="{line}"/>',
        f'<text x="{LEFT - 4}" y="{TOP + 4}" text-anchor="end">{len(times):,}</text>',
        f'<text x="{LEFT - 4}" y="{floor + 4}" text-anchor="end">0</text>',
        f'<text x="{LEFT}" y="{HEIGHT - 6}">{_say_ago(now - begin)} ago</text>',
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 6}" text-anchor="end">now</text>',
    ]
    return _frame(parts, f"{len(times):,} answers since {_say_ago(now - begin)} ago.")


def draw_confidence(values: Sequence[float]) -> Markup:
    """How many tasks have which confidence: bars of a tenth each, from a half up where nothing is below."""
    if not values:
        return _say("How sure the consensus is will be drawn here.")
    low = 0.0 if min(values) < 0.5 else 0.5
    n_bars = 10
    width = (1 - low) / n_bars
    counts = [0] * n_bars
    for value in values:
        counts[min(int((value - low) / width), n_bars - 1)] += 1
    most, height, each = max(counts), HEIGHT - BOTTOM - TOP, (WIDTH - LEFT - 8) / n_bars
    floor = HEIGHT - BOTTOM
    parts = [
        f'<text x="{LEFT - 4}" y="{TOP + 4}" text-anchor="end">{most:,}</text>',
        f'<line class="grid" x1="{LEFT}" y1="{floor}" x2="{WIDTH - 8}" y2="{floor}"/>',
    ]
    for place, count in enumerate(counts):
        tall = height * count / most
        x = LEFT + place * each
        words = f"{low + place * width:.0%} to {low + (place + 1) * width:.0%}: {count:,} tasks"
        parts.append(
            f'<rect class="fill" x="{x + 1.5:.1f}" y="{floor - tall:.1f}" width="{each - 3:.1f}" height="{tall:.1f}" '
            f'rx="2"><title>{words}</title></rect>'
        )
        if place % 2 == 0:
            parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{low + place * width:.0%}</text>')
    parts.append(f'<text x="{WIDTH - 8}" y="{HEIGHT - 6}" text-anchor="end">100%</text>')
    return _frame(parts, f"Confidence of {len(values):,} tasks: {sum(v >= 0.9 for v in values):,} of at least 90%.")


def draw_interval(value: float | None, low: float | None, high: float | None) -> Markup:
    """A number between 0 and 1 with its interval, as small as a line of text."""
    if value is None or not 0 <= value <= 1:
        return Markup("")
    ends = (max(low if low is not None else value, 0.0), min(high if high is not None else value, 1.0))
    at, begin, end = (4 + 120 * each for each in (value, *ends))
    return Markup(
        '<svg class="range" viewBox="0 0 128 14" aria-hidden="true"><line class="axis" x1="4" y1="7" x2="124" y2="7"/>'
        '<line class="whisker" x1="{:.1f}" y1="7" x2="{:.1f}" y2="7"/>'
        '<circle class="dot" cx="{:.1f}" cy="7" r="4"/></svg>'
    ).format(begin, end, at)


def _frame(parts: list[str], words: str) -> Markup:
    inside = "".join(parts)
    return Markup(f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{words}">{inside}</svg>')  # noqa: S704


def _say(words: str) -> Markup:
    return Markup('<p class="quiet">{}</p>').format(words)


def _say_ago(seconds: float) -> str:
    for size, name in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{max(seconds, 1):.0f} seconds"
