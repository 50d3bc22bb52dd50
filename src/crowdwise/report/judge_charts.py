"""Charts of a panel of judges: accuracy against cost, who errs with whom, confidence against accuracy, biases.

Names are data of a chart and nowhere else.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np

from crowdwise.audit.consensus_scores import ConfidenceBin
from crowdwise.labels.atomic_output import replace_folder
from crowdwise.metrics.calibration import wilson_interval
from crowdwise.report.audit_page.charts import FILE_CONFIG, SHARPNESS
from crowdwise.report.charts import ACCENT, HEIGHT, QUIET, WIDTH, calibration_chart
from crowdwise.report.display_names import distinct_names, limit_width
from crowdwise.report.vega_pictures import draw_png, draw_svg

if TYPE_CHECKING:
    from crowdwise.judges.agreement_with_people import Estimate
    from crowdwise.judges.panel_evaluation import PanelEvaluation
    from crowdwise.labels.types import FloatArray
    from crowdwise.report.charts import Chart

__all__ = ["judge_charts", "write_judge_charts"]

ROW = 22  # height of a row with a name
MOST_ROWS = 60


def judge_charts(found: PanelEvaluation) -> dict[str, tuple[str, Chart]]:
    """The charts that an evaluation has, by name, each with its caption."""
    names = distinct_names([judge.name for judge in found.judges], 40)
    made: dict[str, tuple[str, Chart]] = {}
    accuracy = [judge.accuracy for judge in found.judges]
    if any(not math.isnan(each.value) for each in accuracy):
        costs = [judge.cost for judge in found.judges]
        panel = found.consensus.accuracy
        if all(not math.isnan(cost) for cost in costs):
            rows = _rows([*names, "the panel"], [*accuracy, panel])
            for row, cost in zip(rows, [*costs, sum(costs)], strict=True):
                row["cost"] = cost
            made["judges"] = (
                "Judges: agreement with people against the cost of a vote, with intervals of 90%",
                _map(rows),
            )
        else:
            rows = _rows([*names, "the panel"], [*accuracy, panel])
            ceiling = found.humans.ceiling.value if found.humans else math.nan
            made["judges"] = (
                "Agreement with people, with intervals of 90%; the dashed line is how people do among themselves",
                _intervals(rows, "share that says what most people say", ceiling, percent=True),
            )
    if len(found.errors.tree):
        made["tree"] = (
            "Judges that err together are joined near the left; at 1 their errors have nothing in common",
            _tree(found.errors.tree, names),
        )
    if found.consensus.reliability is not None:
        made["reliability"] = (
            "How sure the panel is, and how often it is right; on the line it is as good as it says",
            calibration_chart(_bins(found)),
        )
    for name, caption in (
        ("position", "Preference for the answer shown first, beyond one half"),
        ("length", "How much more often an answer twice as long is preferred"),
        ("self_preference", "How much more often a judge prefers its own answers than people do"),
    ):
        chosen = [(bias.judge, getattr(bias, name)) for bias in found.biases]
        kept = [(judge, each) for judge, each in chosen if not math.isnan(each.value)]
        if kept:
            rows = _rows(distinct_names([judge for judge, _ in kept], 40), [each for _, each in kept])
            made[name] = f"{caption}, with intervals of 90%", _intervals(rows, "points of probability", 0.0)
    return made


def write_judge_charts(found: PanelEvaluation, folder: str | Path) -> list[str]:
    """Write every chart into a folder, as SVG and as PNG: all of them, or none. Gives their names."""
    made = judge_charts(found)
    with replace_folder(Path(folder)) as draft:
        for name, (_, chart) in made.items():
            spec = chart.to_dict()
            (draft / f"{name}.svg").write_text(draw_svg(spec, FILE_CONFIG), encoding="utf-8")
            (draft / f"{name}.png").write_bytes(draw_png(spec, FILE_CONFIG, SHARPNESS))
    return list(made)


def _rows(names: list[str], estimates: list[Estimate]) -> list[dict[str, Any]]:
    return [
        {"name": name, "value": each.value, "low": each.low, "high": each.high}
        for name, each in zip(names, estimates, strict=True)
        if not math.isnan(each.value)
    ]


def _bins(found: PanelEvaluation) -> list[ConfidenceBin]:
    table = found.consensus.reliability
    if table is None:
        return []
    filled = np.flatnonzero(table.n_tasks > 0)
    low, high = wilson_interval(table.accuracy[filled], table.n_tasks[filled])
    return [
        ConfidenceBin(
            float(table.confidence[at]), float(table.accuracy[at]), float(a), float(b), int(table.n_tasks[at])
        )
        for at, a, b in zip(filled, low, high, strict=True)
    ]


def _map(rows: list[dict[str, Any]]) -> Chart:
    base = alt.Chart(alt.InlineData(rows)).encode(x=alt.X("cost:Q", title="cost of a vote"))
    share = alt.Y("value:Q", title="agreement with people", axis=alt.Axis(format="%"), scale=alt.Scale(zero=False))
    chart: Chart = alt.layer(
        base.mark_rule(color=QUIET, strokeWidth=2).encode(y=alt.Y("low:Q", scale=alt.Scale(zero=False)), y2="high:Q"),
        base.mark_point(filled=True, size=60, color=ACCENT, opacity=1).encode(y=share),
        base.mark_text(align="left", dx=8, fontSize=11).encode(y=share, text="name:N"),
    ).properties(width=WIDTH, height=HEIGHT, description="Agreement of judges with people against their cost.")
    return chart


def _intervals(rows: list[dict[str, Any]], title: str, line: float, *, percent: bool = False) -> Chart:
    rows = rows[:MOST_ROWS]
    axis = alt.Axis(format="%") if percent else alt.Axis()
    base = alt.Chart(alt.InlineData(rows))
    names = [row["name"] for row in rows]
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=limit_width(names, 240)))
    layers = [
        base.mark_rule(color=QUIET, strokeWidth=2).encode(x=alt.X("low:Q", title=title, axis=axis), x2="high:Q", y=y),
        base.mark_point(filled=True, size=50, color=ACCENT, opacity=1).encode(
            x=alt.X("value:Q", scale=alt.Scale(zero=False)), y=y
        ),
    ]
    if not math.isnan(line):
        rule = alt.Chart(alt.InlineData([{"at": line}])).mark_rule(strokeDash=[4, 4], color=QUIET)
        layers.append(rule.encode(x="at:Q"))
    chart: Chart = alt.layer(*layers).properties(
        width=WIDTH, height=max(ROW * len(rows), 60), description=f"{title}, for each judge."
    )
    return chart


def _tree(tree: FloatArray, names: list[str]) -> Chart:
    """The dendrogram, from left (same errors) to right, drawn of straight lines."""
    from scipy.cluster.hierarchy import leaves_list

    order = leaves_list(tree)
    place = {int(leaf): float(at) for at, leaf in enumerate(order)}
    height = dict.fromkeys(place, 0.0)
    lines: list[dict[str, Any]] = []
    for number, (one, other, apart, _) in enumerate(tree):
        a, b, node = int(one), int(other), len(names) + number
        lines += [{"x": height[each], "x2": float(apart), "y": place[each], "y2": place[each]} for each in (a, b)]
        lines.append({"x": float(apart), "x2": float(apart), "y": place[a], "y2": place[b]})
        place[node], height[node] = (place[a] + place[b]) / 2, float(apart)
    labels = [{"name": names[int(leaf)], "x": 0.0, "y": float(at)} for at, leaf in enumerate(order)]
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[-0.5, len(names) - 0.5]))
    x = alt.X("x:Q", title="1 − correlation of errors", scale=alt.Scale(domainMin=0))
    drawn = alt.Chart(alt.InlineData(lines)).mark_rule(color=ACCENT, strokeWidth=1.5)
    text = alt.Chart(alt.InlineData(labels)).mark_text(align="right", dx=-6, fontSize=11)
    layers = drawn.encode(x=x, x2="x2:Q", y=y, y2="y2:Q"), text.encode(x=x, y=y, text="name:N")
    chart: Chart = alt.layer(*layers).properties(
        width=WIDTH - 160, height=max(ROW * len(names), 80), description="Which judges err together."
    )
    return chart
