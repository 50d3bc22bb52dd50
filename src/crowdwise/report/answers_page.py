"""The page of answers that are no classes: one HTML file without any script, whose charts are pictures in it.

Names are hostile until escaped: in HTML by the template, in charts because they are data. The page's content security
policy runs no script and loads nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crowdwise.audit.finding_types import FINE
from crowdwise.labels.source_location import format_count
from crowdwise.report.answer_charts import answer_charts
from crowdwise.report.answer_drawings import draw_answers
from crowdwise.report.audit_page.charts import CONFIG
from crowdwise.report.display_names import display_name
from crowdwise.report.page_parts import Markup, content_security_policy, draw_picture, load_template, read_asset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from crowdwise.audit.answer_audit import AnswerAudit

__all__ = ["make_answers_page"]

MOST_ROWS = 60  # of a table
FINDINGS = 50  # that are told


def make_answers_page(
    found: AnswerAudit,
    *,
    title: str | None = None,
    scores: Mapping[str, float] | None = None,
    notes: Sequence[str] = (),
) -> str:
    """The page of an audit of answers, as text.

    Parameters
    ----------
    title
        At the top of the page.
    scores
        Of the consensus against a truth, by name.
    notes
        Sentences about how the answers were read.
    """
    answers, model = found.answers, found.model
    consensus, workers = model.consensus(), model.workers()
    verdicts = found.verdicts
    flagged = [row for row, verdict in enumerate(verdicts) if verdict != FINE]
    order = flagged + [row for row in range(len(verdicts)) if verdicts[row] == FINE]
    judged = workers.add_column(1, "found", [verdicts])
    caveat = model.caveat()
    return load_template("answers.html").render(
        title=display_name(title, 200) if title else f"{answers.kind.capitalize()}: consensus and workers",
        policy=content_security_policy(),
        styles=Markup(read_asset("page.css")),
        kind=answers.kind,
        sizes=str(answers).partition(": ")[2],
        method=model.slug,
        numbers=_tiles(found),
        notes=[*notes, *([caveat] if caveat else [])],
        findings=[_finding(each) for each in found.findings[:FINDINGS]],
        n_findings=len(found.findings),
        level=found.level,
        skipped=list(found.skipped.items()),
        scores=[[(name.replace("_", " "), False), (f"{value:.4g}", True)] for name, value in (scores or {}).items()],
        figures=[
            (name, caption, Markup(draw_picture(chart.to_dict(), CONFIG, name)))
            for name, (caption, chart) in answer_charts(found).items()
        ],
        drawings=[(display_name(name), Markup(picture)) for name, picture in draw_answers(found)],
        consensus=_rows(consensus.slice(0, MOST_ROWS)),
        consensus_columns=_headings(consensus),
        n_consensus=consensus.num_rows,
        workers=_rows(judged.take(order[:MOST_ROWS])),
        worker_columns=_headings(judged),
        n_workers=workers.num_rows,
        most=MOST_ROWS,
    )


def _tiles(found: AnswerAudit) -> list[tuple[str, str]]:
    answers = found.answers
    sizes = {"n_tasks": "tasks", "n_items": "items", "n_workers": "workers", "n_answers": "answers"}
    tiles = [(f"{getattr(answers, name):,}", what) for name, what in sizes.items() if hasattr(answers, name)]
    number = len(found.findings)
    return [*tiles, (f"{number:,}", "finding" if number == 1 else "findings")]


def _finding(finding: Any) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "names": [display_name(name, 40) for name in finding.names[:12]],
        "more": max(len(finding.names) - 12, 0),
        "who": format_count(len(finding.names), "worker").partition(" ")[2].capitalize(),
        "verdict": finding.verdict,
        "evidence": finding.evidence,
        "p_value": finding.p_value,
        "how": finding.how,
        "advice": finding.advice,
    }


def _headings(table: pa.Table) -> list[str]:
    return [display_name(name.replace("_", " "), 40) for name in table.column_names]


def _is_number(column: pa.ChunkedArray) -> bool:
    return str(column.type) in ("double", "float", "int64", "int32")


def _rows(table: pa.Table) -> list[list[tuple[str, bool]]]:
    """Cells of each row, and whether they are numbers."""
    columns = [[(_cell(value), _is_number(column)) for value in column.to_pylist()] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else display_name(value, 300)
