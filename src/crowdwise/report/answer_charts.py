"""Charts of answers that are no classes: consensus with intervals, how sure it is, and the workers.

Which charts a kind has follows from the columns of its consensus. Names are data of a chart and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np

from crowdwise.audit.finding_types import FINE
from crowdwise.report.charts import ACCENT, COLOURS, HEIGHT, QUIET, WIDTH, confidence_chart
from crowdwise.report.display_names import distinct_names, limit_width

if TYPE_CHECKING:
    import pyarrow as pa

    from crowdwise.audit.answer_audit import AnswerAudit
    from crowdwise.report.charts import Chart

__all__ = ["answer_charts"]

MOST_ROWS = 40  # items or tasks that are drawn with names
MOST_WORKERS = 2_000
ROW = 16  # height of a row with a name
NUMBERS = ("score", "value", "expected")  # columns that an interval can go with


def answer_charts(found: AnswerAudit) -> dict[str, tuple[str, Chart]]:
    """The charts that these answers have, by name, each with its caption."""
    consensus = found.model.consensus()
    columns = found_columns(consensus)
    made: dict[str, tuple[str, Chart]] = {}
    if columns is not None:
        caption, rows = _choose_rows(consensus, *columns)
        made["intervals"] = caption, _interval_chart(rows, columns[1])
    if "confidence" in consensus.column_names:
        sure = consensus["confidence"].to_numpy()
        made["confidence"] = "How sure the consensus is of its answers", confidence_chart(sure[np.isfinite(sure)])
    if np.isfinite(found.agreement).any():
        made["workers"] = (
            "Workers by how near they are to the consensus of the others: 0 is chance, and below it the opposite",
            _worker_chart(found),
        )
    return made


def found_columns(consensus: pa.Table) -> tuple[str, str] | None:
    """The column of names and that of numbers with an interval; None where there are none to draw."""
    names = consensus.column_names
    number = next((name for name in NUMBERS if name in names), None)
    if number is None or not {"low", "high"} <= set(names):
        return None
    numeric = all(consensus[name].type in ("double", "int64") for name in (number, "low", "high"))
    return (names[0], number) if numeric else None


def _choose_rows(consensus: pa.Table, name: str, number: str) -> tuple[str, list[dict[str, Any]]]:
    """All rows, or of many the best of a ladder, or of values some spread evenly from the lowest to the highest."""
    values = consensus[number].to_numpy()
    order = np.argsort(-values, kind="stable")
    what = "Items, the best first" if name == "item" else "Consensus of the tasks, the highest first"
    if order.size > MOST_ROWS and name == "item":
        order, what = order[:MOST_ROWS], f"The {MOST_ROWS} best of {order.size:,} items"
    elif order.size > MOST_ROWS:
        order = order[np.linspace(0, order.size - 1, MOST_ROWS).round().astype(int)]
        what = f"{MOST_ROWS} of {values.size:,} tasks, spread from the highest to the lowest"
    shown = distinct_names(consensus[name].take(order).to_pylist(), 40)
    ends = {end: consensus[end].to_numpy()[order] for end in ("low", "high")}
    rows = [
        {"name": shown[at], "place": at, "number": float(values[row]), "low": float(ends["low"][at]),
         "high": float(ends["high"][at])}
        for at, row in enumerate(order)
    ]  # fmt: skip
    return f"{what}, with intervals of 90%", rows


def _interval_chart(rows: list[dict[str, Any]], number: str) -> Chart:
    base = alt.Chart(alt.InlineData(rows))
    names = [row["name"] for row in rows]
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=limit_width(names, 220)))
    lines = base.mark_rule(color=QUIET, strokeWidth=2).encode(x=alt.X("low:Q", title=number), x2="high:Q", y=y)
    points = base.mark_point(filled=True, size=50, color=ACCENT, opacity=1).encode(
        x=alt.X("number:Q", scale=alt.Scale(zero=False)), y=y
    )
    chart: Chart = alt.layer(lines, points).properties(
        width=WIDTH, height=ROW * len(rows), description="Consensus with its intervals."
    )
    return chart


def _worker_chart(found: AnswerAudit) -> Chart:
    tested = np.flatnonzero(np.isfinite(found.agreement))
    if tested.size > MOST_WORKERS:
        tested = np.sort(np.random.default_rng(0).choice(tested, MOST_WORKERS, replace=False))
    verdicts = found.verdicts
    rows: list[dict[str, Any]] = [
        {"answers": int(found.n_tested[who]), "agreement": float(found.agreement[who]), "verdict": verdicts[who]}
        for who in sorted(tested, key=lambda who: verdicts[who] != FINE)
    ]
    kinds = list(dict.fromkeys(row["verdict"] for row in rows if row["verdict"] != FINE))
    scale = alt.Scale(domain=[FINE, *kinds], range=[QUIET, *COLOURS[: len(kinds)]])
    legend = alt.Legend(orient="bottom", title=None) if kinds else None
    points = (
        alt.Chart(alt.InlineData(rows))
        .mark_point(filled=True, size=48, opacity=0.75)
        .encode(
            x=alt.X("answers:Q", title="answers that could be judged"),
            y=alt.Y("agreement:Q", title="agreement with the others"),
            color=alt.Color("verdict:N", scale=scale, legend=legend),
            shape=alt.Shape("verdict:N", scale=alt.Scale(domain=[FINE, *kinds]), legend=None),
        )
    )
    line = alt.Chart(alt.InlineData([{"zero": 0}])).mark_rule(strokeDash=[4, 4], color=QUIET).encode(y="zero:Q")
    chart: Chart = alt.layer(line, points).properties(
        width=WIDTH, height=HEIGHT, description="Agreement of each worker with the others, against answers."
    )
    return chart
