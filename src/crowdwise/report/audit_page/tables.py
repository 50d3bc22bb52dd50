"""The tables of the page: rows of plain text and numbers, as many as a page can bear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.audit.audit import FINE
from crowdwise.audit.audit_tests import finding_kind
from crowdwise.audit.consensus_sentences import skill_sentences
from crowdwise.audit.summary import common_confusions, list_tests
from crowdwise.labels.errors import quote
from crowdwise.labels.source_location import format_count
from crowdwise.report.agreement_graph_layout import MOST_GROUPS, busiest_workers
from crowdwise.report.audit_page.audit_view import choose_workers_to_draw, have_equal_label_counts
from crowdwise.report.display_names import display_name
from crowdwise.report.task_items import PictureBudget

if TYPE_CHECKING:
    from crowdwise.audit.audit import Audit
    from crowdwise.audit.finding_types import Finding
    from crowdwise.labels.types import FloatArray
    from crowdwise.report.audit_page.audit_view import AuditView
    from crowdwise.report.task_items import TaskItem, TaskItems

__all__ = [
    "MOST_CLASSES",
    "class_rows",
    "disputed_task_rows",
    "finding_groups",
    "graph_note",
    "group_rows",
    "matrix_tables",
    "task_items",
    "test_rows",
    "worker_map_note",
    "worker_rows",
    "workers_note",
]

MOST_WORKERS = 20_000  # rows of the workers' table
MOST_TASKS = 200  # rows of the disputed tasks' table
MOST_OF_A_KIND = 5  # findings of one kind that are told in full
MOST_NAMES = 12  # workers or tasks named in one finding
MOST_CLASSES = 12  # classes of a matrix that is written out
FEW_CLASSES = 8  # classes up to which more workers' matrices are
NOUNS = {"worker": "Worker", "workers": "Workers", "task": "Task", "class": "Classes", "attribute": "Attribute"}
LONGEST_SENTENCE = 2_000  # letters of a finding's sentence


def worker_map_note(portrait: AuditView) -> str:
    """What the map of workers shows, and who is drawn where not all are."""
    per_worker = portrait.labels.labels_per_worker
    there = per_worker > 0
    drawn = choose_workers_to_draw(portrait.flagged, per_worker)
    told = "Skill against the number of labels"
    if have_equal_label_counts(per_worker[drawn]):
        told = f"Workers by skill; each gave {format_count(int(per_worker[drawn[0]]), 'label')}"
    told = f"{told}. The dashed line is guessing."
    if drawn.size == there.sum():
        return f"{told} Every worker with a label is drawn."
    flagged = portrait.flagged >= 0
    n_flagged, n_others = int(flagged[drawn].sum()), int((~flagged[drawn]).sum())
    all_flagged, all_others = int((flagged & there).sum()), int((~flagged & there).sum())
    others = f"{n_others:,} of the {all_others:,} workers of whom nothing was found, at random"
    if not n_flagged:
        return f"{told} Drawn are {others}."
    bad = f"all {n_flagged:,} flagged workers"
    if n_flagged < all_flagged:
        bad = f"the worst {n_flagged:,} of {all_flagged:,} flagged workers"
    return f"{told} Drawn are {bad} and {others}."


def worker_rows(portrait: AuditView) -> list[list[Any]]:
    """Name, labels, skill, its interval, verdict and, if there are any, group; the flagged first, then the busiest."""
    per_worker = portrait.labels.labels_per_worker
    order = np.lexsort((-per_worker, -portrait.flagged))[:MOST_WORKERS]
    group = portrait.audit.group
    grouped = bool((group >= 0).any())
    return [
        [
            portrait.worker_names[at],
            int(per_worker[at]),
            round(float(portrait.skill[at]), 6),
            round(float(portrait.low[at]), 6),
            round(float(portrait.high[at]), 6),
            "" if portrait.verdicts[at] == FINE else portrait.verdicts[at],
            *([int(group[at]) + 1 if group[at] >= 0 else None] if grouped else []),
        ]
        for at in order.tolist()
    ]


def workers_note(portrait: AuditView) -> str:
    """Who is in the table of workers, where not all are."""
    n_workers = portrait.labels.n_workers
    if n_workers <= MOST_WORKERS:
        return ""
    return f"The table holds {MOST_WORKERS:,} of the {n_workers:,} workers: those flagged, then the busiest."


def disputed_task_rows(portrait: AuditView) -> list[list[Any]]:
    """Task, consensus, how sure it is, labels, entropy and votes of the most disputed."""
    return [
        [each.task, each.label, round(each.confidence, 6), each.n_labels, round(each.entropy, 6), each.votes]
        for each in portrait.disputes(MOST_TASKS)
    ]


def task_items(portrait: AuditView, items: TaskItems, room: PictureBudget) -> list[TaskItem]:
    """What the tasks of `disputed_task_rows` show."""
    return [items.show(each.place, room) for each in portrait.disputes(MOST_TASKS)]


def finding_groups(
    audit: Audit, items: TaskItems | None = None, room: PictureBudget | None = None
) -> list[dict[str, Any]]:
    """Findings kind by kind, the surest kind first, each as plain text, with what tasks show where that is given."""
    kinds: dict[str, list[Finding]] = {}
    for finding in audit.findings:
        kinds.setdefault(finding.kind, []).append(finding)
    first = [each for found in kinds.values() for each in found[:MOST_OF_A_KIND] if each.about == "worker"]
    skill = skill_sentences(audit, [each.names[0] for each in first])
    return [
        {
            "title": display_name(finding_kind(kind).title),
            "n": len(found),
            "about": found[0].about,
            "advice": _shared_advice(found[:MOST_OF_A_KIND]),
            "told": [
                _finding_text(each)
                | {"items": _finding_items(each, items, room)}
                | {"skill": skill.get(each.names[0], "") if each.about == "worker" else ""}
                for each in found[:MOST_OF_A_KIND]
            ],
        }
        for kind, found in kinds.items()
    ]


def _shared_advice(findings: list[Finding]) -> str:
    """What to do about all of several findings; "" where it differs."""
    advice = {each.advice for each in findings}
    return display_name(advice.pop(), LONGEST_SENTENCE) if len(advice) == 1 else ""


def _finding_text(finding: Finding) -> dict[str, Any]:
    verdict = display_name(finding.verdict, LONGEST_SENTENCE)
    alone = verdict[:1].isupper()  # a sentence by itself, and not what is said of those named
    named = alone and all(quote(name) in verdict for name in finding.names)
    return {
        "names": [] if named else [display_name(name) for name in finding.names[:MOST_NAMES]],
        "more": max(0, len(finding.names) - MOST_NAMES),
        "who": NOUNS.get(finding.about, ""),
        "alone": alone,
        "verdict": verdict if verdict.endswith((".", "!", "?", "…")) else f"{verdict}.",
        "score": finding.score,
        "p_value": finding.p_value,
        **{name: display_name(getattr(finding, name), LONGEST_SENTENCE) for name in ("evidence", "how", "advice")},
    }


def _finding_items(finding: Finding, items: TaskItems | None, room: PictureBudget | None) -> list[TaskItem]:
    """What the tasks of a finding show."""
    if items is None or finding.about != "task":
        return []
    return [each for each in items.make_items_by_name(finding.names[:MOST_NAMES], room or PictureBudget()) if any(each)]


def test_rows(audit: Audit) -> list[tuple[str, str, str]]:
    """Every test, what it asks, and what came of it."""
    rows = list_tests(audit)
    return [(display_name(title), question, display_name(result, LONGEST_SENTENCE)) for title, question, result in rows]


def common_error_rows(portrait: AuditView) -> list[tuple[str, str, float]]:
    """The commonest errors of the crowd, with the names of the classes."""
    names = portrait.classes
    return [(names[truth], names[said], chance) for truth, said, chance in common_confusions(portrait.audit)]


def matrix_tables(portrait: AuditView) -> list[dict[str, Any]]:
    """The crowd's matrix and those of a few workers, written out for the classes that are confused most."""
    n_classes = portrait.labels.n_classes
    kept = np.arange(n_classes)
    if n_classes > MOST_CLASSES:
        errors = portrait.mean_confusion * (1 - np.eye(n_classes))
        worst = np.argsort(-(errors.max(axis=0) + errors.max(axis=1)), kind="stable")[:MOST_CLASSES]
        kept = np.sort(worst)
    names = [portrait.classes[k] for k in kept]
    shown_ones: list[tuple[str, str, FloatArray]] = [
        ("The whole crowd", "mean, weighed by labels", portrait.mean_confusion)
    ]
    shown_ones += [
        (portrait.worker_names[who], why, portrait.confusion(who))
        for why, who in portrait.choose_example_workers(3 if n_classes <= FEW_CLASSES else 1)
    ]
    return [
        {"name": name, "why": why, "classes": names, "rows": matrix[np.ix_(kept, kept)].tolist(), "all": n_classes}
        for name, why, matrix in shown_ones
    ]


def class_rows(portrait: AuditView) -> list[tuple[str, float, float, float]]:
    """Of each class: its share of labels and of the consensus, and how often workers recognise it."""
    n_classes = portrait.labels.n_classes
    decided = np.bincount(portrait.chosen[portrait.labelled_tasks], minlength=n_classes)
    shares = decided / max(int(decided.sum()), 1)
    said, right = portrait.labels.class_shares, np.diag(portrait.mean_confusion)
    order = np.argsort(-shares, kind="stable")[: 4 * MOST_CLASSES]
    return [(portrait.classes[k], float(said[k]), float(shares[k]), float(right[k])) for k in order.tolist()]


def group_rows(portrait: AuditView) -> list[tuple[int, list[str], int, int, float, float]]:
    """Groups of dependent workers: number, names, how many more, size; how often two of them agree, and would by skill.

    The largest first; what was not asked is not a number.
    """
    group, dependence = portrait.audit.group, portrait.audit.dependence
    numbers, sizes = np.unique(group[group >= 0], return_counts=True)
    rows = []
    for at in np.argsort(-sizes, kind="stable")[:MOST_GROUPS].tolist():
        members = np.flatnonzero(group == numbers[at])
        names = [
            portrait.worker_names[who]
            for who in busiest_workers(members, portrait.labels.labels_per_worker, MOST_NAMES)
        ]
        seen = expected = float("nan")
        if dependence is not None:
            inside = np.isin(dependence.tested, members)
            block = np.ix_(inside, inside)
            shared = max(float(dependence.shared[block].sum()), 1e-9)
            seen, expected = (float(table[block].sum()) / shared for table in (dependence.same, dependence.expected))
        rows.append((int(numbers[at]) + 1, names, members.size - len(names), int(members.size), seen, expected))
    return rows


def graph_note(portrait: AuditView) -> str:
    """Who is drawn in the graph of agreement, where not all are."""
    graph = portrait.graph
    if graph is None or graph.workers.size == portrait.labels.n_workers:
        return ""
    n_groups = np.unique(graph.group[graph.group >= 0]).size
    others = int((graph.group < 0).sum())
    told = f"Drawn are {graph.workers.size} of {portrait.labels.n_workers:,} workers"
    if not n_groups:
        return f"{told}, the busiest first."
    rest = f", and {format_count(others, 'busy worker')} of no group" if others else ""
    return f"{told}: the busiest of {'the group' if n_groups == 1 else f'{n_groups} groups'}{rest}."
