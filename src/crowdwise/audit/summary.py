"""What an audit means: its figures, a summary, and whether any of it can be believed, in sentences to act on.

The page, the terminal and `Audit.summary` say these words. Names of classes are given as the reader will see them
(`class_names`): a page marks and cuts them.
"""

from __future__ import annotations

import importlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from crowdwise.audit.audit_tests import audit_tests, finding_kind
from crowdwise.audit.consensus_scores import mark_gold_tasks
from crowdwise.audit.consensus_sentences import (
    COUNTED,
    SURE,
    TRUTH,
    Claim,
    consensus_claims,
    describe_model_basis,
    expected_wrong_answers,
    format_percent,
    task_confidences,
    whole_number_interval,
)
from crowdwise.audit.finding_types import FINE
from crowdwise.labels.errors import InputError
from crowdwise.labels.source_location import format_count
from crowdwise.metrics.identifiability_conditions import find_non_dominant
from crowdwise.registry import learner, method

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.audit.audit import Audit
    from crowdwise.audit.consensus_scores import ConsensusScore
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "check_reliability",
    "common_confusions",
    "describe_consensus_basis",
    "describe_false_alarm_rate",
    "describe_tests_basis",
    "headline_numbers",
    "list_citations",
    "list_tests",
    "summarise",
]


def headline_numbers(audit: Audit) -> list[tuple[str, str]]:
    """The few figures at the top: a number, and what it counts."""
    labels, (n_workers, n_tasks) = audit.labels, _count_those_with_labels(audit)
    flagged = sum(verdict != FINE for verdict in audit.verdicts)
    return [
        (f"{labels.n_labels:,}", "label" if labels.n_labels == 1 else "labels"),
        (f"{n_tasks:,}", "task" if n_tasks == 1 else "tasks"),
        (f"{n_workers:,}", "worker" if n_workers == 1 else "workers"),
        (format_percent(_mean_or_zero(task_confidences(audit.model) >= SURE)), "of tasks it is at least 90% sure of"),
        *_expected_wrong_headline(audit.model),
        (f"{flagged:,}", "worker flagged" if flagged == 1 else "workers flagged"),
    ]


def _expected_wrong_headline(model: Any) -> list[tuple[str, str]]:
    """How many answers are expected to be wrong, where the model can say."""
    wrong = expected_wrong_answers(model)
    if wrong is None:
        return []
    low, high = whole_number_interval(wrong)
    return [(f"{low:,} to {high:,}", "answers probably wrong (90% interval)")]


def summarise(audit: Audit, score: ConsensusScore | None, class_names: Sequence[str]) -> list[Claim]:
    """The whole audit in a handful of sentences, each with what it rests on."""
    model, tests = describe_consensus_basis(audit), describe_tests_basis(audit)
    return [
        Claim(_describe_crowd(audit), COUNTED),
        *consensus_claims(audit, score),
        Claim(_describe_skill(audit), model),
        Claim(_describe_flags(audit), tests),
        *(Claim(text, tests) for text in _describe_other_findings(audit)),
        Claim(_describe_confusions(audit, class_names), model),
    ]


def describe_consensus_basis(audit: Audit) -> str:
    """What the consensus and the skills rest on."""
    return describe_model_basis(int(mark_gold_tasks(audit).sum()))


def describe_tests_basis(audit: Audit) -> str:
    """What the tests of the audit rest on; they never see the gold."""
    return "the labels alone" if audit.truth is None else f"the labels and {TRUTH}"


def _describe_crowd(audit: Audit) -> str:
    labels, (n_workers, n_tasks) = audit.labels, _count_those_with_labels(audit)
    average = labels.n_labels / max(n_tasks, 1)
    return (
        f"{format_count(n_workers, 'worker')} gave {format_count(labels.n_labels, 'label')} on "
        f"{format_count(n_tasks, 'task')}, {f'{average:,.1f}'.removesuffix('.0')} a task, choosing between "
        f"{format_count(labels.n_classes, 'class', 'classes')}."
    )


def _count_those_with_labels(audit: Audit) -> tuple[int, int]:
    """Workers, and tasks, that have labels: the others have no part in an audit."""
    labels = audit.labels
    return int((labels.labels_per_worker > 0).sum()), int((labels.labels_per_task > 0).sum())


def _describe_skill(audit: Audit) -> str:
    per_worker = audit.labels.labels_per_worker
    there = per_worker > 0
    if not there.any():
        return "Nobody has given a label."
    skill = audit.model.skill_[there]
    mean = float(np.average(skill, weights=per_worker[there]))
    low, high = np.quantile(skill, [0.1, 0.9])
    chance = 1 / audit.labels.n_classes
    spread = f"{format_percent(float(low))} and {format_percent(float(high))}"
    caveat = audit.model.skill_caveat()
    return (
        f"Skill, the chance that an answer is right: {format_percent(mean)} for a label on average, where guessing "
        f"would be right {format_percent(chance)} of the time; between {spread} for the middle eight in ten workers."
        + (f" {caveat}" if caveat else "")
    )


def _describe_flags(audit: Audit) -> str:
    times = Counter(each for each in audit.verdicts if each != FINE)
    flagged, (n_workers, _) = sum(times.values()), _count_those_with_labels(audit)
    if not flagged:
        return "No worker is flagged. That is no proof of honesty: those with few labels cannot be told from chance."
    are, workers = "is" if flagged == 1 else "are", format_count(n_workers, "worker")
    found = f"{flagged:,} of {workers} {are} flagged: {_list_finding_counts(times)}."
    return f"{found} {describe_false_alarm_rate(audit.level)}"


def describe_false_alarm_rate(level: float) -> str:
    """How often the tests would accuse where there is nothing to find.

    >>> describe_false_alarm_rate(0.05)
    'False alarms are rare: if there were nothing to find, at least 95 of 100 such audits would flag no worker at all.'
    """
    rare = "False alarms are rare: if" if level <= 0.1 else "If"
    quiet = f"{100 - 100 * level:.3g} of 100 such audits"
    return f"{rare} there were nothing to find, at least {quiet} would flag no worker at all."


def _list_finding_counts(times: Counter[str]) -> str:
    kinds = {name: finding_kind(name) for name in times}
    return ", ".join(f"{n:,} {kinds[name].one if n == 1 else kinds[name].many}" for name, n in times.most_common())


def _describe_other_findings(audit: Audit) -> list[str]:
    """Findings that are not about workers, counted."""
    found = [each for each in audit.findings if each.about not in ("worker", "workers")]
    times = Counter("bias of groups" if each.kind == "bias" else each.kind for each in found)
    return [f"Besides the workers: {_list_finding_counts(times)}."] if times else []


def common_confusions(audit: Audit, most: int = 10) -> list[tuple[int, int, float]]:
    """The errors that the crowd makes most often: the true class, what it is taken for, and the chance of that."""
    matrix = audit.mean_confusion * (1 - np.eye(audit.labels.n_classes))
    order = np.argsort(-matrix, axis=None, kind="stable")[:most]
    cells = [(int(each) // len(matrix), int(each) % len(matrix)) for each in order]
    return [(a, b, float(matrix[a, b])) for a, b in cells if matrix[a, b] > 0.005]


def _describe_confusions(audit: Audit, class_names: Sequence[str]) -> str:
    worst = common_confusions(audit, 1)
    if not worst:
        return "Classes are hardly ever confused."
    truth, said, chance = worst[0]
    told = f"when {class_names[truth]} is true, {format_percent(chance)} of the labels say {class_names[said]}"
    return f"The commonest confusion: {told}."


# ---- can any of this be believed --------------------------------------------------------------------------


def check_reliability(audit: Audit, class_names: Sequence[str]) -> list[tuple[bool, str]]:
    """What the labels must have for any of this to be believed: whether they have it, and what follows."""
    return [
        _check_labels_per_task(audit.labels.labels_per_task),
        _check_connected(audit),
        _check_dominant(audit, class_names),
        _check_converged(audit.model),
        *_check_independent(audit),
    ]


def _check_labels_per_task(per_task: IntArray) -> tuple[bool, str]:
    share = _mean_or_zero(per_task[per_task > 0] >= 3)
    if share >= 0.5:
        return (
            True,
            f"{format_percent(share)} of the tasks have three labels or more: workers can be judged by each other.",
        )
    return False, (
        f"Only {format_percent(share)} of the tasks have three labels or more. With fewer, who errs on a task cannot "
        "be told from the task alone: skills lean on what workers share elsewhere. Ask for more labels on some tasks."
    )


def _check_connected(audit: Audit) -> tuple[bool, str]:
    labels = audit.labels
    size = labels.n_tasks + labels.n_workers
    ends = (labels.task, labels.worker.astype(np.int64) + labels.n_tasks)
    part = connected_components(coo_array((np.ones(labels.n_labels, np.int8), ends), (size, size)), directed=False)[1]
    parts = np.unique(part[labels.task]).size
    if parts <= 1:
        return True, "All workers are joined through tasks that they share, and so can be compared."
    return False, (
        f"The workers fall into {parts:,} parts with no task in common. Skills of different parts are not measured "
        "against each other: give some tasks to workers of several parts."
    )


def _check_dominant(audit: Audit, class_names: Sequence[str]) -> tuple[bool, str]:
    used = np.flatnonzero(audit.labels.class_shares)
    weak = [int(used[k]) for k in find_non_dominant(audit.mean_confusion[np.ix_(used, used)])]
    if not weak:
        return True, "The crowd as a whole says each class most often when it is true: classes are not swapped."
    named = ", ".join(class_names[k] for k in weak[:5]) + (f" and {len(weak) - 5} more" if len(weak) > 5 else "")
    return False, (
        f"The crowd as a whole says {named} no more often when it is true than when something else is: classes may "
        "have been swapped. Check some tasks by hand."
    )


def _check_converged(model: Any) -> tuple[bool, str]:
    if model.converged_:
        steps = f" ({model.n_iter_:,} iterations)" if model.n_iter_ > 1 else ""
        return True, f"The fit has settled{steps}."
    return False, (
        f"The fit was still changing after {format_count(int(model.n_iter_), 'iteration')}. Give it more (max_iter) "
        "before trusting small differences."
    )


def _check_independent(audit: Audit) -> list[tuple[bool, str]]:
    """Warn where workers depend on each other and the consensus does not know it."""
    dependent = int((audit.group >= 0).sum())
    if not dependent or audit.model.slug.startswith("group-"):
        return []
    told = (
        f"{format_count(dependent, 'worker')} depend on others, and the consensus counts each of them as a voice of "
        "their own. Leave copies out (crowdwise audit --prune-to), or count each group once: "
        "--method group-dawid-skene."
    )
    return [(False, told)]


def list_tests(audit: Audit) -> list[tuple[str, str, str]]:
    """Every test: its title, what it asks, and what came of it."""
    tests = {test.kind: test for test in audit_tests()}
    rows = []
    for screen in audit.screens:
        test = tests.get(screen.kind)
        nothing = FINE if test is None else test.nothing
        result = format_count(len(screen.findings), "finding") if screen.findings else nothing
        title, question = (screen.kind, "") if test is None else (test.title, test.question)
        rows.append((title, question, f"Not tested: {screen.skipped}" if screen.skipped else result))
    return rows


def list_citations(audit: Audit) -> list[tuple[str, str]]:
    """What to cite, and for what."""
    slug = audit.model.slug
    version = importlib.import_module("crowdwise").__version__
    cited = [("This software", f"Crowdwise, version {version}.")]
    for registry in (method, learner):
        try:
            cited.append((f"The consensus, by {slug}", f"{registry(slug).paper}."))
        except InputError:  # of the other registry, or none
            continue
        break
    done = {screen.kind for screen in audit.screens if not screen.skipped}
    tests = [test for test in audit_tests() if test.citation and test.kind in done]
    return cited + [(f"The test for {test.kind}", f"{test.citation}.") for test in tests]


def _mean_or_zero(which: FloatArray | Any) -> float:
    return float(np.mean(which)) if np.size(which) else 0.0
