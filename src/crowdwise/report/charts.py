"""The charts of the report and of notebooks, as Vega-Altair charts: `chart.save("x.svg")`, `.png` and `.html` work.

Names of workers, tasks and classes are data of a chart and nowhere else: never an expression, a field or a scale.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from crowdwise.audit.audit import FINE
from crowdwise.audit.consensus_scores import ConsensusScore, bin_gold_confidence, truth_codes_of_model
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.vocabulary import as_vocabulary, positions
from crowdwise.report.audit_page.audit_view import choose_workers_to_draw, have_equal_label_counts
from crowdwise.report.display_names import distinct_names, limit_width

if sys.flags.optimize > 1:
    raise InputError("Charts need altair, which reads docstrings: run Python without -OO (PYTHONOPTIMIZE=2).")
try:
    import altair as alt
except ModuleNotFoundError as error:
    raise InputError(f"Charts need {error.name}, which is not installed: pip install 'crowdwise[report]'.") from error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crowdwise.audit.consensus_scores import ConfidenceBin
    from crowdwise.labels.types import FloatArray, IntArray
    from crowdwise.report.agreement_graph_layout import AgreementGraph

__all__ = [
    "calibration_chart",
    "confidence_chart",
    "confusion_chart",
    "graph_chart",
    "plot_calibration",
    "plot_confidence",
    "plot_confusion",
    "plot_model",
    "plot_worker_map",
    "worker_chart",
]

WIDTH, HEIGHT = 520, 300
# Told apart by those who see no red or no green, and on white as on black; shapes tell the same again.
QUIET, ACCENT = "#8c959f", "#2f81f7"
MOST_NAMED = 24  # workers of a graph that have room for their names
COLOURS = ("#d1242f", "#2f81f7", "#bf8700", "#8250df", "#1a7f37", "#bf3989", "#bc4c00")
SHAPES = ("triangle-up", "square", "diamond", "cross", "triangle-down", "triangle-left", "triangle-right")
NUMBERED = 8  # classes, up to which a matrix has its numbers written in
PALEST = 0.7  # opacity of what is certain, on which dark and light letters can still be read
BIN = 0.05
HALF = 10  # the bin of 50 %, from which a histogram begins at the latest
TENTHS = [each / 10 for each in range(11)]
EDGE = 1.0  # around the graph, in units of the distance of two workers
UNJOINED = "agree no more than skill explains:"
LETTERS = 60  # of names side by side below an axis; more are written aslant
LONGEST_TICK = 24  # letters of a name beside an axis
NAME_WIDTH = 110  # of a name in a chart

Row = dict[str, Any]
Chart: TypeAlias = "alt.Chart | alt.LayerChart | alt.FacetChart"


def plot_model(model: Any, what: str = "overview", **options: Any) -> Chart | alt.HConcatChart:
    """A chart of a fitted model.

    Parameters
    ----------
    what
        "overview" (how sure the consensus is, and the map of workers), "confidence", "workers", "confusion" (of the
        whole crowd, or of `worker=`) or "calibration" (with `truth=`, or on the gold of the fit).
    """
    if not isinstance(what, str):
        raise InputError(f"There is no chart {quote(what)}; give the name of one.")
    if what == "overview":
        return alt.hconcat(plot_confidence(model), plot_worker_map(model))
    kinds: dict[str, Callable[..., Chart]] = {
        "confidence": plot_confidence,
        "workers": plot_worker_map,
        "confusion": plot_confusion,
        "calibration": plot_calibration,
    }
    if what not in kinds:
        raise InputError(f"There is no chart {quote(what)}. There are: overview, {', '.join(kinds)}.")
    return kinds[what](model, **options)


def plot_confidence(model: Any) -> Chart:
    """How sure the consensus of a fitted model is, as a histogram over its tasks."""
    return confidence_chart(model.posterior_.max(axis=1)[model.labels_per_task_ > 0])


def plot_worker_map(model: Any) -> Chart:
    """Skill against number of labels of the workers of a fitted model; of many, two thousand drawn at random."""
    chosen = choose_workers_to_draw(np.full(len(model.workers_), -1.0), model.labels_per_worker_)
    names = distinct_names(model.workers_.tolist())
    return worker_chart(
        [names[at] for at in chosen],
        model.labels_per_worker_[chosen],
        model.skill_[chosen],
        [FINE] * chosen.size,
        len(model.classes_),
    )


def plot_confusion(model: Any, worker: Any = None) -> Chart:
    """Confusion matrix of a worker, by name, or of the whole crowd."""
    if not hasattr(model, "confusion_"):
        raise InputError(f"{type(model).__name__} has no confusion matrices. Fit a model that has, such as DawidSkene.")
    if worker is None:
        matrix = np.average(model.confusion_, axis=0, weights=np.maximum(model.labels_per_worker_, 1e-12))
    else:
        at = int(positions(as_vocabulary([worker], "worker"), model._names.workers)[0])
        if at < 0:
            raise InputError(f"The model knows no worker {quote(worker)}.")
        matrix = model.confusion_[at]
    return confusion_chart(matrix, distinct_names(model.classes_.tolist(), LONGEST_TICK))


def plot_calibration(model: Any, truth: Any = None) -> Chart:
    """Confidence of the consensus against how often it is right, on tasks whose truth is known.

    Without `truth` these are the gold tasks of the fit, judged without their own truth (`model.calibration()`).
    """
    if truth is None:
        if not hasattr(model, "calibration"):
            raise InputError(f"{type(model).__name__} takes no gold. Give the known truth of some tasks as truth=.")
        return calibration_chart(bin_gold_confidence(model))
    codes, chosen = truth_codes_of_model(model, truth), model._decide(model.posterior_)
    known = codes >= 0
    sure = model.posterior_[known, chosen[known]]
    return calibration_chart(ConsensusScore(np.minimum(sure, 1.0), chosen[known] == codes[known]).bins)


# ---- from arrays ------------------------------------------------------------------------------------------


def confidence_chart(sure: FloatArray) -> Chart:
    """A histogram of confidences (N,), in bins of 5 %."""
    edges = np.round(np.arange(0, 1 + BIN / 2, BIN), 10)
    counts, _ = np.histogram(np.minimum(sure, 1.0), edges)
    first = min(int(np.flatnonzero(counts)[0]) if counts.any() else 0, HALF)
    rows = [
        {"low": float(edges[at]), "high": float(edges[at + 1]), "tasks": int(counts[at])}
        for at in range(first, counts.size)
    ]
    x = alt.X("low:Q", title="confidence of the consensus", axis=alt.Axis(format="%", labelFlush=False, values=TENTHS))
    bars = _make_chart(rows).mark_bar(color=ACCENT, binSpacing=1, aria=False)
    tooltip = [alt.Tooltip("low:Q", format=".0%", title="from"), alt.Tooltip("high:Q", format=".0%", title="to")]
    chart: alt.Chart = bars.encode(
        x=x.bin("binned").scale(domain=[float(edges[first]), 1], nice=False),
        x2="high:Q",
        y=alt.Y("tasks:Q", title="tasks"),
        tooltip=[*tooltip, alt.Tooltip("tasks:Q", format=",")],
    ).properties(width=WIDTH, height=HEIGHT, description="Histogram of the confidence of the consensus.")
    return chart


def calibration_chart(bins: Sequence[ConfidenceBin]) -> Chart:
    """Points below the diagonal: surer than right. The bars are 90 % intervals of the share that is right."""
    rows: list[Row] = [
        {"sure": each.confidence, "right": each.right, "tasks": each.n, "low": each.low, "high": each.high}
        for each in bins
    ]
    axis = alt.Axis(format="%", labelFlush=False, values=TENTHS[::2])
    share = alt.Scale(domain=[0, 1])
    lines = _make_chart([{"at": 0}, {"at": 1}]).mark_line(color=QUIET, strokeDash=[4, 4], aria=False)
    base = _make_chart(rows).encode(x=alt.X("sure:Q", title="confidence of the consensus", axis=axis, scale=share))
    told = [
        alt.Tooltip("sure:Q", format=".1%", title="confidence"),
        alt.Tooltip("right:Q", format=".1%", title="right"),
        alt.Tooltip("tasks:Q", format=","),
    ]
    size = alt.Size("tasks:Q", legend=None, scale=alt.Scale(range=[40, 400]))
    return alt.layer(
        lines.encode(x=alt.X("at:Q"), y=alt.Y("at:Q")),
        base.mark_rule(color=ACCENT, aria=False).encode(y=alt.Y("low:Q", scale=share), y2="high:Q"),
        base.mark_circle(color=ACCENT, opacity=0.9, aria=False).encode(
            y=alt.Y("right:Q", title="share that is right", axis=axis, scale=share), size=size, tooltip=told
        ),
    ).properties(width=WIDTH, height=HEIGHT, description="Confidence against the share of tasks that are right.")


def worker_chart(
    names: Sequence[str], n_labels: IntArray, skill: FloatArray, verdicts: Sequence[str], n_classes: int
) -> Chart:
    """Skill against number of labels, coloured by verdict; those of whom something was found lie on top.

    Where all gave as many labels, workers stand side by side, the least skilled first.
    """
    order = sorted(range(len(names)), key=lambda at: verdicts[at] != FINE)
    rank = np.argsort(np.argsort(skill, kind="stable"), kind="stable")
    x = alt.X(
        "labels:Q", title="labels given (log)", scale=alt.Scale(type="log", nice=False, padding=12),
        axis=alt.Axis(format="~s", values=_log_axis_ticks(n_labels)),
    )  # fmt: skip
    if have_equal_label_counts(n_labels):
        side_by_side = alt.Scale(nice=False, zero=False, padding=12)
        x = alt.X(
            "rank:Q",
            title="workers, the least skilled first",
            scale=side_by_side,
            axis=alt.Axis(labels=False, ticks=False, grid=False),
        )
    rows = [
        {
            "worker": names[at],
            "labels": int(n_labels[at]),
            "skill": round(float(skill[at]), 4),
            "rank": int(rank[at]),
            "verdict": verdicts[at],
        }
        for at in order
    ]
    kinds = [kind for kind, _ in Counter(verdicts).most_common() if kind != FINE]
    domain = [FINE, *kinds]
    colours = [QUIET, *(COLOURS[at % len(COLOURS)] for at in range(len(kinds)))]
    shapes = ["circle", *(SHAPES[at % len(SHAPES)] for at in range(len(kinds)))]
    legend = alt.Legend(orient="bottom", title=None, columns=2, symbolOpacity=1) if kinds else None
    query = alt.param(name="query", value="")  # what the page's reader searches for
    found = "query == '' || indexof(lower(datum.worker), query) >= 0"
    points = (
        _make_chart(rows)
        .add_params(query)
        .mark_point(filled=True, size=48, aria=False)
        .encode(
            x=x,
            y=alt.Y("skill:Q", title="skill", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%")),
            color=alt.Color("verdict:N", scale=alt.Scale(domain=domain, range=colours), legend=legend),
            shape=alt.Shape("verdict:N", scale=alt.Scale(domain=domain, range=shapes), legend=legend),
            opacity=alt.when(found).then(alt.value(0.65)).otherwise(alt.value(0.04)),
            tooltip=[
                alt.Tooltip("worker:N"), alt.Tooltip("labels:Q", format=","),
                alt.Tooltip("skill:Q", format=".1%"), alt.Tooltip("verdict:N"),
            ],
        )
    )  # fmt: skip
    guess = _make_chart([{"chance": 1 / n_classes}])
    line = guess.mark_rule(strokeDash=[4, 4], color=QUIET, aria=False).encode(y="chance:Q")
    return alt.layer(line, points).properties(
        width=WIDTH, height=1.2 * HEIGHT, description="Skill of each worker against the number of labels given."
    )


def confusion_chart(matrix: FloatArray, names: Sequence[str]) -> Chart:
    """A matrix (K, K) [truth, label] as a heat map, with numbers where classes are few."""
    names = [_tick_name(name) for name in names]
    long = max(map(len, names), default=0) * len(names) > LETTERS
    rows = [
        {"truth": names[k], "label": names[said], "row": k, "column": said, "chance": round(float(matrix[k, said]), 4)}
        for k in range(len(names))
        for said in range(len(names))
    ]
    base = _make_chart(rows).encode(
        x=alt.X(
            "label:N",
            title="what workers say",
            sort=_sort_by_field("column"),
            axis=_tick_axis(names, -40 if long else 0),
        ),
        y=alt.Y("truth:N", title="what is true", sort=_sort_by_field("row"), axis=_tick_axis(names, 0)),
    )
    chance = alt.Tooltip("chance:Q", format=".1%")
    layers = [
        base.mark_rect(color=ACCENT, aria=False).encode(
            opacity=alt.Opacity("chance:Q", scale=alt.Scale(domain=[0, 1], range=[0.03, PALEST]), legend=None),
            tooltip=[alt.Tooltip("truth:N"), alt.Tooltip("label:N", title="said"), chance],
        )
    ]
    if len(names) <= NUMBERED:
        layers.append(base.mark_text(aria=False, fontSize=12).encode(text=alt.Text("chance:Q", format=".0%")))
    side = min(max(32 * len(names), 160), 560)
    return alt.layer(*layers).properties(
        width=min(side + 120, WIDTH), height=side, description="Chance of each label for each true class."
    )


def graph_chart(graph: AgreementGraph, names: Sequence[str]) -> Chart:
    """Workers as points, joined where they agree beyond what skill explains; groups in colour and with their number."""
    groups = sorted({number for number in graph.group.tolist() if number >= 0})
    domain = ["", *(str(number + 1) for number in groups)]
    colours = alt.Scale(domain=domain, range=[QUIET, *(COLOURS[at % len(COLOURS)] for at in range(len(groups)))])
    shapes = alt.Scale(domain=domain, range=["circle", *(SHAPES[at % len(SHAPES)] for at in range(len(groups)))])
    called = [str(number + 1) if number >= 0 else "" for number in graph.group.tolist()]
    x, y = graph.place.round(3).T.tolist()
    points = [{"x": x[at], "y": y[at], "worker": names[at], "group": called[at]} for at in range(len(names))]
    lines = [
        {
            "x": x[one], "y": y[one], "x2": x[other], "y2": y[other], "strength": round(much, 3),
            "one": names[one], "other": names[other], "group": called[one] if called[one] == called[other] else "",
        }
        for one, other, much in zip(graph.first.tolist(), graph.second.tolist(), graph.strength.tolist(), strict=True)
    ]  # fmt: skip
    heads = []
    for number in groups:
        rows = graph.place[graph.group == number]
        heads.append({"x": float(rows[:, 0].mean()), "y": float(rows[:, 1].max()), "text": str(number + 1)})
    alone = graph.place[~graph.mark_joined_workers]
    rest = [{"x": 0.0, "y": float(alone[:, 1].max()), "text": UNJOINED}] if alone.size else []
    low, high = graph.place.min(axis=0) - EDGE, graph.place.max(axis=0) + EDGE
    across = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[float(low[0]), float(high[0])], nice=False))
    up = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[float(low[1]), float(high[1])], nice=False))
    query = alt.param(name="query", value="")  # what the page's reader searches for
    found = "query == '' || indexof(lower(datum.worker), query) >= 0"
    colour = alt.Color("group:N", scale=colours, legend=None)
    joins = _make_chart(lines).mark_rule(aria=False, opacity=0.55).encode(
        x=across, y=up, x2="x2:Q", y2="y2:Q", color=colour,
        strokeWidth=alt.StrokeWidth("strength:Q", scale=alt.Scale(domain=[0, 1], range=[0.6, 2.5]), legend=None),
        tooltip=[alt.Tooltip("one:N"), alt.Tooltip("other:N"), alt.Tooltip("strength:Q", format=".2f")],
    )  # fmt: skip
    nodes = _make_chart(points).add_params(query).mark_point(filled=True, size=56, aria=False).encode(
        x=across, y=up, color=colour, shape=alt.Shape("group:N", scale=shapes, legend=None),
        opacity=alt.when(found).then(alt.value(1.0)).otherwise(alt.value(0.1)),
        tooltip=[alt.Tooltip("worker:N"), alt.Tooltip("group:N")],
    )  # fmt: skip
    above: dict[str, Any] = {"aria": False, "dy": -13}
    layers = [
        joins,
        nodes,
        _make_chart(heads).mark_text(**above, fontSize=13, fontWeight="bold").encode(x=across, y=up, text="text:N"),
        _make_chart(rest).mark_text(**above, dx=-5, align="left").encode(x=across, y=up, text="text:N"),
    ]
    if len(names) <= MOST_NAMED:
        below = _make_chart(points).mark_text(aria=False, dy=16, fontSize=11, limit=limit_width(names, NAME_WIDTH))
        layers.append(below.encode(x=across, y=up, text="worker:N"))
    height = min(WIDTH * float((high - low)[1] / (high - low)[0]), 80 + 25 * len(names))  # a few need little room
    return alt.layer(*layers).properties(
        width=WIDTH,
        height=height,
        description="Workers who agree beyond what their skill explains, joined by lines.",
    )


def _log_axis_ticks(counts: IntArray) -> list[int]:
    """1, 2, 5, 10, 20, … between the least and the most, and these two where there would be few."""
    least, most = (int(counts.min()), int(counts.max())) if counts.size else (1, 1)
    steps = [step * 10**power for power in range(10) for step in (1, 2, 5)]
    inside = [each for each in steps if least <= each <= most]
    return inside if len(inside) > 2 else sorted({least, *inside, most})


def _make_chart(rows: list[Row]) -> alt.Chart:
    return alt.Chart(alt.InlineData(values=rows))


def _sort_by_field(field: str) -> alt.EncodingSortField:
    """An order that is data, so that no name gets into an expression."""
    return alt.EncodingSortField(field=field, op="min", order="ascending")


def _tick_name(name: str) -> str:
    """A name beside an axis; Vega looks these up in an object of JavaScript, where one word means something else."""
    return f"‘{name}’" if name == "__proto__" else name


def _tick_axis(names: Sequence[str], angle: int) -> alt.Axis:
    limit = limit_width(names, NAME_WIDTH)
    return alt.Axis(labelAngle=angle, labelLimit=limit, labelOverlap=False, ticks=False, domain=False)
