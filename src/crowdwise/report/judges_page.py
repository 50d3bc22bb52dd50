"""The page of a panel of judges: one HTML file without any script, whose charts are pictures in it.

Names and texts are hostile until escaped: in HTML by the template, in charts because they are data. The page's content
security policy runs no script and loads nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.report.audit_page.charts import CONFIG
from crowdwise.report.display_names import display_name
from crowdwise.report.judge_charts import judge_charts
from crowdwise.report.page_parts import Markup, content_security_policy, draw_picture, load_template, read_asset
from crowdwise.report.task_items import PictureBudget, read_items

if TYPE_CHECKING:
    from crowdwise.judges.agreement_with_people import Estimate
    from crowdwise.judges.panel_evaluation import PanelEvaluation

__all__ = ["make_judges_page"]

MOST_ROWS = 60  # of a table
MOST_DISPUTED = 40  # tasks on which people and panel differ
LONGEST = 300  # letters of a task's text

Row = list[tuple[str, bool]]


def make_judges_page(found: PanelEvaluation, *, title: str | None = None, items: Any = None) -> str:
    """The page of an evaluation, as text.

    Parameters
    ----------
    title
        At the top of the page.
    items
        A file or table with the text of each task, as for `crowdwise report --items`.
    """
    shown = None if items is None else read_items(items, found.panel.votes.tasks)
    return load_template("judges.html").render(
        title=display_name(title, 200) if title else "A panel of judges",
        policy=content_security_policy(),
        styles=Markup(read_asset("page.css")),
        numbers=_tiles(found),
        sentences=[display_name(sentence, 1000) for sentence in found.sentences()],
        figures=[
            (name, caption, Markup(draw_picture(chart.to_dict(), CONFIG, name)))
            for name, (caption, chart) in judge_charts(found).items()
        ],
        judges=_judge_rows(found),
        smaller=_smaller_rows(found),
        scores=_score_rows(found),
        biases=_bias_rows(found),
        disputed=_disputed(found, shown),
        chosen=_next_rows(found, shown),
    )


def _tiles(found: PanelEvaluation) -> list[tuple[str, str]]:
    votes, size, panel = found.panel.votes, found.errors.size, found.consensus
    alone = found.errors.size_by_votes
    tiles = [(f"{votes.n_workers:,}", "judges"), (f"{votes.n_tasks:,}", "tasks")]
    if found.humans is not None:
        tiles.append((f"{found.humans.n_tasks:,}", "labelled by people"))
    if not math.isnan(size.size):
        tiles.append((f"{size.size:.1f}", "independent votes"))
        if alone is not None and not math.isnan(alone.size):
            tiles.append((f"{alone.size:.1f}", "the same without people"))
    if not math.isnan(panel.accuracy.value):
        tiles.append((f"{panel.accuracy.value:.1%}", "panel agrees with people"))
        tiles.append((f"{panel.lower_bound:.1%}", "at least, with 95% confidence"))
    return tiles


def _text(value: str, most: int = 60) -> tuple[str, bool]:
    return display_name(value, most), False


def _number(value: float, form: str = ".3f") -> tuple[str, bool]:
    return ("–" if math.isnan(value) else format(value, form)), True


def _range(estimate: Estimate, form: str = ".1%") -> tuple[str, bool]:
    if math.isnan(estimate.value):
        return "–", True
    return f"{estimate.value:{form}} ({estimate.low:{form}} to {estimate.high:{form}})", True


def _judge_rows(found: PanelEvaluation) -> list[Row]:
    rows = []
    for judge in found.judges[:MOST_ROWS]:
        test = judge.replaces
        verdict = "–" if test is None or test.skipped else "yes" if test.passes else "no"
        nan = float("nan")
        rows.append(
            [
                _text(judge.name),
                _range(judge.accuracy),
                _number(test.winning_rate if test else nan, ".2f"),
                _number(test.advantage if test else nan, ".2f"),
                (verdict, False),
                _number(judge.consistency, ".1%"),
                (f"{judge.unparseable:,} of {judge.n_answers:,}", True),
                _number(judge.cost, ".4g"),
            ]
        )
    return rows


def _smaller_rows(found: PanelEvaluation) -> list[Row]:
    return [
        [
            _text(", ".join(each.judges), 200),
            _number(each.cost, ".4g"),
            _range(each.accuracy),
            _range(each.difference, "+.3f"),
            ("yes" if each.as_good else "no", False),
        ]
        for each in found.smaller
    ]


def _score_rows(found: PanelEvaluation) -> list[Row]:
    rows = [
        [
            _text(each.what),
            _text(each.system or "all tasks"),
            _range(each.estimate, ".3f"),
            _range(each.by_people, ".3f"),
            _range(each.corrected, ".3f") if each.corrected is not None else ("–", True),
            _number(each.by_panel),
        ]
        for each in found.scores[:MOST_ROWS]
    ]
    for gap in found.differences:
        whose = f"{gap.first} {'less' if gap.even == 0 else 'against'} {gap.second}"
        rows.append(
            [_text(gap.what), _text(whose, 100), _range(gap.estimate, "+.3f"), ("–", True), ("–", True), ("–", True)]
        )
    return rows


def _bias_rows(found: PanelEvaluation) -> list[Row]:
    return [
        [
            _text(each.judge),
            (f"{each.n_comparisons:,}", True),
            (f"{each.n_ties:,}", True),
            _range(each.position, "+.3f"),
            ("both orders" if each.both_orders else "one order", False),
            _range(each.length, "+.3f"),
            _range(each.self_preference, "+.3f"),
        ]
        for each in found.biases[:MOST_ROWS]
    ]


def _disputed(found: PanelEvaluation, shown: Any) -> list[dict[str, Any]]:
    """Tasks on which people and the panel differ, those that the panel is surest of first."""
    panel, consensus = found.panel, found.consensus
    reference = panel.find_reference()
    differ = np.flatnonzero((reference >= 0) & (consensus.decision != reference) & (panel.votes.labels_per_task > 0))
    differ = differ[np.argsort(-consensus.confidence[differ], kind="stable")][:MOST_DISPUTED]
    names, classes, votes, judges = panel.tasks, panel.classes, panel.to_matrix(), panel.judges
    room = PictureBudget()
    found_rows = []
    for at in differ:
        item = None if shown is None else shown.show(int(at), room)
        said = [f"{display_name(judges[each], 30)}: {display_name(classes[votes[at, each]], 30)}"
                for each in np.flatnonzero(votes[at] >= 0)[:12]]  # fmt: skip
        found_rows.append(
            {
                "task": display_name(names[at]),
                "text": "" if item is None else display_name(item.whole or item.short, LONGEST),
                "picture": "" if item is None else item.picture,
                "people": display_name(classes[reference[at]]),
                "panel": display_name(classes[consensus.decision[at]]),
                "confidence": float(consensus.confidence[at]),
                "votes": "; ".join(said),
            }
        )
    return found_rows


def _next_rows(found: PanelEvaluation, shown: Any) -> list[Row]:
    chosen, panel = found.next_tasks, found.panel
    if chosen is None:
        return []
    names, classes = panel.tasks, panel.classes
    rows = []
    for at, weight in list(zip(chosen.task, chosen.weight, strict=True))[:MOST_ROWS]:
        row = [_text(names[at]), _text(classes[found.consensus.decision[at]]),
               _number(float(found.consensus.confidence[at]), ".1%"), _number(float(weight), ".4g")]  # fmt: skip
        rows.append(row if shown is None else [*row, _text(shown.describe(int(at)), LONGEST)])
    return rows
