"""All charts of an audit: for its page, for notebooks, and as files, an SVG and a PNG of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.audit.consensus_scores import gold_calibration_bins, score_consensus
from crowdwise.labels.atomic_output import replace_folder
from crowdwise.labels.errors import InputError, quote
from crowdwise.report import charts
from crowdwise.report.audit_page.audit_view import AuditView, choose_workers_to_draw
from crowdwise.report.vega_pictures import draw_png, draw_svg

if TYPE_CHECKING:
    from crowdwise.audit.audit import Audit
    from crowdwise.audit.consensus_scores import ConsensusScore
    from crowdwise.report.charts import Chart

__all__ = ["CONFIG", "audit_charts", "plot_audit", "write_charts"]

MOST_DRAWN_CLASSES = 60  # classes of a matrix that is drawn
SHARPNESS = 2.0  # pixels of a PNG for each unit of the chart
INK, PAPER = "#1f2328", "#ffffff"
GREY = "currentColor"
# Text and lines take the page's own colours, dark or light, as they are at the moment of looking or printing.
CONFIG: dict[str, Any] = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "text": {"color": GREY},
    "axis": {
        "labelColor": GREY, "titleColor": GREY, "domainColor": GREY, "domainOpacity": 0.4, "tickColor": GREY,
        "tickOpacity": 0.4, "gridColor": GREY, "gridOpacity": 0.12, "labelFontSize": 11, "titleFontSize": 12,
        "titleFontWeight": "normal",
    },
    "legend": {"labelColor": GREY, "titleColor": GREY, "labelFontSize": 12, "titleFontWeight": "normal"},
}  # fmt: skip
# A file stands by itself: dark on white.
FILE_CONFIG: dict[str, Any] = json.loads(json.dumps(CONFIG).replace(GREY, INK)) | {"background": PAPER, "padding": 16}


def audit_charts(portrait: AuditView, score: ConsensusScore | None) -> dict[str, Chart]:
    """The charts that an audit has, by name; that of calibration only with a truth."""
    chosen = choose_workers_to_draw(portrait.flagged, portrait.labels.labels_per_worker)
    made = {
        "confidence": charts.confidence_chart(portrait.confidence[portrait.labelled_tasks]),
        "workers": charts.worker_chart(
            [portrait.worker_names[at] for at in chosen],
            portrait.labels.labels_per_worker[chosen],
            portrait.skill[chosen],
            [portrait.verdicts[at] for at in chosen],
            portrait.labels.n_classes,
        ),
    }
    if score is not None:
        made["calibration"] = charts.calibration_chart(score.bins)
    by_gold = gold_calibration_bins(portrait.model, portrait.n_gold)
    if by_gold:
        made["gold-calibration"] = charts.calibration_chart(by_gold)
    if portrait.labels.n_classes <= MOST_DRAWN_CLASSES:
        made["confusion"] = charts.confusion_chart(portrait.mean_confusion, portrait.classes)
    if portrait.graph is not None:
        made["agreement"] = charts.graph_chart(
            portrait.graph, [portrait.worker_names[at] for at in portrait.graph.workers]
        )
    return made


def plot_audit(audit: Audit, what: str, truth: Any = None) -> Chart:
    """One chart of an audit, by name; see `Audit.plot`."""
    made = audit_charts(AuditView(audit), score_consensus(audit, truth))
    if what not in made:
        raise InputError(f"This audit has no chart {quote(what)}. It has: {', '.join(made)}.")
    return made[what]


def write_charts(audit: Audit, folder: str | Path, *, truth: Any = None) -> list[str]:
    """Write every chart of an audit into a folder, as SVG and as PNG: all of them, or none.

    Files of the same names give way; whatever else is in the folder stays.

    Parameters
    ----------
    truth
        True labels of some tasks, as for `write_report`; by default those given to the audit. Adds the chart of
        calibration.

    Returns
    -------
    list of str
        Names of the charts; the files are NAME.svg and NAME.png.
    """
    made = audit_charts(AuditView(audit), score_consensus(audit, truth))
    with replace_folder(Path(folder)) as draft:
        for name, chart in made.items():
            spec = chart.to_dict()
            (draft / f"{name}.svg").write_text(draw_svg(spec, FILE_CONFIG), encoding="utf-8")
            (draft / f"{name}.png").write_bytes(draw_png(spec, FILE_CONFIG, SHARPNESS))
    return list(made)
