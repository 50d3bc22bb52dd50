"""The report of an audit: one HTML file that holds all it needs, asks no network, and reads without JavaScript.

Charts are made by Altair and drawn by Vega in the page, whose code is in the file once; every chart has words that say
the same, and a picture for readers without JavaScript. Names are hostile until escaped: in HTML by the template, in
JSON by escaping every `<`, in charts because they are data. Should one ever get through, the page's content security
policy runs no script but the two whose hashes it names, evaluates no text (Vega interprets its expressions), and loads
nothing.

The size of the file follows what is shown, not what was labelled: of workers beyond `MOST_WORKERS` the table has the
flagged and the busiest, the map draws some thousand, and of the tasks only the most disputed are listed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.audit import summary
from crowdwise.audit.audit import Audit
from crowdwise.audit.consensus_scores import gold_calibration_bins, score_consensus
from crowdwise.audit.consensus_sentences import consensus_claims
from crowdwise.audit.finding_types import FACT
from crowdwise.labels.atomic_output import replace_file
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.source_location import format_count
from crowdwise.report.audit_page import tables
from crowdwise.report.audit_page.audit_view import AuditView
from crowdwise.report.audit_page.charts import CONFIG, audit_charts
from crowdwise.report.display_names import display_name
from crowdwise.report.page_parts import (
    Markup,
    bundle_vega,
    content_security_policy,
    draw_picture,
    escaped_json,
    load_template,
    read_asset,
)
from crowdwise.report.task_items import PictureBudget, read_items

if TYPE_CHECKING:
    from crowdwise.audit.consensus_scores import ConsensusScore
    from crowdwise.evaluate.compare_methods import Comparison

__all__ = ["make_report", "write_report"]

FIRST = 25  # rows that are there without JavaScript; a page of the table with it


def write_report(
    audit: Audit,
    path: str | Path,
    *,
    truth: Any = None,
    league: Comparison | None = None,
    title: str | None = None,
    items: Any = None,
) -> None:
    """Write the page of an audit to a file, which is there whole or not at all.

    Parameters
    ----------
    truth
        True labels of some tasks: a mapping, or a path or table with columns task and label; by default those given to
        the audit. Adds how often the consensus is right, and its calibration, on tasks that are not gold.
    league
        What `compare` gave. Adds the league table of methods.
    title
        At the top of the page.
    items
        What the tasks show: a path or table with a column task and a column text, or image, path or url with local
        pictures. Shown beside tasks in dispute or in doubt.
    """
    text = make_report(audit, truth=truth, league=league, title=title, items=items)
    with replace_file(Path(path)) as draft:
        draft.write_text(text, encoding="utf-8")


def make_report(
    audit: Audit, *, truth: Any = None, league: Comparison | None = None, title: str | None = None, items: Any = None
) -> str:
    """The page as text; parameters as for `write_report`."""
    if not isinstance(audit, Audit):
        raise InputError(f"audit is {quote(audit)}; give what audit_crowd found.")
    portrait = AuditView(audit)
    score = score_consensus(audit, truth)
    by_gold = gold_calibration_bins(audit.model, portrait.n_gold)
    table = None if items is None else read_items(items, audit.labels.tasks)
    room = PictureBudget()
    findings = tables.finding_groups(audit, table, room)
    tasks = tables.disputed_task_rows(portrait)
    shows = [] if table is None else tables.task_items(portrait, table, room)
    drawn = _draw_charts(portrait, score)
    styles, script = read_asset("page.css"), read_asset("page.js")
    bundle = bundle_vega()
    data = {
        "charts": {name: chart for name, (chart, _) in drawn.items()},
        "config": CONFIG,
        "tables": {
            "workers": tables.worker_rows(portrait),
            # A picture that is in the page already is not repeated: the script takes it from there.
            "tasks": [[row[0], [*item[:2], item.picture if at >= FIRST else at], *row[1:]]
                      for at, (row, item) in enumerate(zip(tasks, shows, strict=True))] if shows else tasks,
        },
    }  # fmt: skip
    return load_template("page.html").render(
        fact=FACT,
        title=display_name(title, 200) if title else f"Audit of {format_count(audit.labels.n_workers, 'worker')}",
        policy=content_security_policy(bundle, script),
        styles=Markup(styles),
        bundle=Markup(bundle),
        script=Markup(script),
        data=Markup(escaped_json(data)),
        pictures={name: Markup(picture) for name, (_, picture) in drawn.items()},
        numbers=summary.headline_numbers(audit),
        summary=summary.summarise(audit, score, portrait.class_names),
        consensus=consensus_claims(audit, score),
        basis=summary.describe_consensus_basis(audit),
        n_gold=portrait.n_gold,
        findings=findings,
        tests=tables.test_rows(audit),
        tested_with=summary.describe_tests_basis(audit),
        promise=summary.describe_false_alarm_rate(audit.level),
        method=audit.model.slug,
        calibration=[] if score is None else score.bins,
        workers=data["tables"]["workers"],
        by_gold=by_gold,
        tasks=tasks,
        items=shows,
        first=FIRST,
        n_tasks=audit.labels.n_tasks,
        map_note=tables.worker_map_note(portrait),
        workers_note=tables.workers_note(portrait),
        matrices=tables.matrix_tables(portrait),
        confused=tables.common_error_rows(portrait),
        classes=tables.class_rows(portrait),
        groups=tables.group_rows(portrait),
        n_groups=len(set(audit.group.tolist()) - {-1}),
        graph_note=tables.graph_note(portrait),
        worth="" if audit.effective is None else audit.effective.summary or audit.effective.skipped,
        worth_rests_on="" if audit.effective is None else audit.effective.basis,
        league=league,
        believable=summary.check_reliability(audit, portrait.class_names),
        citations=summary.list_citations(audit),
    )


# ---- charts -----------------------------------------------------------------------------------------------


def _draw_charts(portrait: AuditView, score: ConsensusScore | None) -> dict[str, tuple[dict[str, Any], str]]:
    """Of each chart its specification, and a picture for readers without JavaScript."""
    made = audit_charts(portrait, score)
    if portrait.labels.n_classes <= tables.MOST_CLASSES:
        made.pop("confusion")  # which is written out as a table
    found = {}
    for name, chart in made.items():
        spec = chart.to_dict()
        found[name] = spec | {"width": "container"}, draw_picture(spec, CONFIG, name)
    return found
