"""The chart of a forecast: accuracy against labels with its interval, the labels that there are, and the target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from crowdwise.labels.atomic_output import replace_files
from crowdwise.labels.errors import InputError, quote
from crowdwise.report.charts import ACCENT, HEIGHT, QUIET, WIDTH

if TYPE_CHECKING:
    from crowdwise.acquire.forecast import Plan
    from crowdwise.report.charts import Chart

__all__ = ["check_picture_name", "plan_chart", "write_plan_chart"]

ENDINGS = (".svg", ".png")


def plan_chart(found: Plan) -> Chart:
    """Accuracy against labels in all: measured up to the labels that there are, dashed beyond."""
    import altair as alt  # `report.charts` has said what to install, if it is not there

    rows = [
        {"labels": int(n), "accuracy": float(a), "low": float(low), "high": float(high)}
        for n, a, low, high in zip(found.labels, found.accuracy, found.low, found.high, strict=True)
    ]
    number = alt.X("labels:Q", title="labels in all", axis=alt.Axis(format="~s"), scale=alt.Scale(nice=False))
    title = "consensus that is right" if found.n_gold else "consensus that is right, as the model claims"
    share = alt.Y("accuracy:Q", title=title, axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=False))
    here = [row for row in rows if row["labels"] <= found.n_labels]
    beyond = [*here[-1:], *(row for row in rows if row["labels"] > found.n_labels)]
    lines = [
        alt.Chart(alt.InlineData(values=part)).mark_line(color=ACCENT, strokeDash=dash).encode(x=number, y=share)
        for part, dash in ((here, [1, 0]), (beyond, [5, 4]))
        if part
    ]
    band = alt.Chart(alt.InlineData(values=rows)).mark_area(color=ACCENT, opacity=0.2)
    target = alt.Chart(alt.InlineData(values=[{"accuracy": found.target}])).mark_rule(color=QUIET, strokeDash=[2, 3])
    now = alt.Chart(alt.InlineData(values=[{"labels": found.n_labels}])).mark_rule(color=QUIET)
    interval = band.encode(x=number, y=alt.Y("low:Q", scale=alt.Scale(zero=False)), y2="high:Q")
    chart: Chart = alt.layer(
        *([interval] if found.n_gold else []),  # that of a claim covers no truth
        target.encode(y=share),
        now.encode(x=number),
        *lines,
    ).properties(
        width=WIDTH,
        height=HEIGHT,
        description="Accuracy of the consensus against labels, with its interval; the target is dotted.",
    )
    return chart


def check_picture_name(out: str) -> None:
    """Refuse a file whose name ends otherwise than a picture's."""
    if Path(out).suffix.lower() not in ENDINGS:
        raise InputError(f"--out {quote(out)} is no picture: its name must end in {' or '.join(ENDINGS)}.")


def write_plan_chart(found: Plan, out: str) -> None:
    """Write the chart as SVG or PNG, by the ending of the name."""
    from crowdwise.report.audit_page.charts import FILE_CONFIG, SHARPNESS  # says what to install

    from crowdwise.report.vega_pictures import draw_png, draw_svg  # isort: skip

    spec = plan_chart(found).to_dict()
    with replace_files([Path(out)]) as (draft,):
        if Path(out).suffix.lower() == ".svg":
            draft.write_text(draw_svg(spec, FILE_CONFIG), encoding="utf-8")
        else:
            draft.write_bytes(draw_png(spec, FILE_CONFIG, SHARPNESS))
