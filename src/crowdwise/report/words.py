"""What an audit found, in sentences that a manager of a labelling project can act on."""

from __future__ import annotations

import importlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.audit.audit import FINE
from crowdwise.labels.errors import InputError
from crowdwise.labels.places import counted
from crowdwise.learner_registry import learner
from crowdwise.metrics.dominance import not_dominant
from crowdwise.registry import method
from crowdwise.report.kinds import kind_of

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray
    from crowdwise.metrics.calibration import Reliability
    from crowdwise.report.portrait import Portrait

__all__ = ["believable", "citations", "confused", "headlines", "percent", "promise", "summary"]

SURE, UNSURE = 0.9, 0.6
LOOSE = 0.05  # mean distance of confidence to accuracy from which it is called too sure or not sure enough
# Where the tests of the audit were published, by their kinds; those that are not here are our own.
TESTS = {
    "colluders": "Traganitis & Giannakis 2021, ICDM (Detecting adversaries in crowdsourcing)",
    "dependent workers": "Jaffe et al. 2016, AISTATS; Traganitis & Giannakis 2022",
    "disparity": "Hardt, Price & Srebro 2016, NeurIPS (equal opportunity)",
}


def percent(share: float) -> str:
    """A share as one reads it; 100 % and 0 % only where that is so.

    >>> percent(0.123), percent(0.9962), percent(1), percent(0.0001)
    ('12%', 'over 99%', '100%', 'under 1%')
    """
    if 0.99 < share < 1:
        return "over 99%"
    if 0 < share < 0.01:
        return "under 1%"
    return f"{share:.0%}"


def headlines(portrait: Portrait) -> list[tuple[str, str]]:
    """The few figures at the top: a number, and what it counts."""
    labels, known = portrait.labels, portrait.labelled_tasks
    flagged = int((portrait.flagged >= 0).sum())
    return [
        (f"{labels.n_labels:,}", "label" if labels.n_labels == 1 else "labels"),
        (f"{labels.n_tasks:,}", "task" if labels.n_tasks == 1 else "tasks"),
        (f"{labels.n_workers:,}", "worker" if labels.n_workers == 1 else "workers"),
        (percent(_share(portrait.confidence[known] >= SURE)), "of tasks at least 90% sure"),
        (f"{flagged:,}", "worker flagged" if flagged == 1 else "workers flagged"),
    ]


def summary(portrait: Portrait, right: Reliability | None) -> list[str]:
    """The whole audit in a handful of sentences."""
    return [
        _crowd(portrait),
        _consensus(portrait, right),
        _skill(portrait),
        _flags(portrait),
        *_about_rest(portrait),
        *_confusion(portrait),
    ]


def _crowd(portrait: Portrait) -> str:
    labels = portrait.labels
    average = labels.n_labels / max(labels.n_tasks, 1)
    return (
        f"{counted(labels.n_workers, 'worker')} gave {counted(labels.n_labels, 'label')} on "
        f"{counted(labels.n_tasks, 'task')}, {f'{average:,.1f}'.removesuffix('.0')} a task, choosing between "
        f"{counted(labels.n_classes, 'class', 'classes')}."
    )


def _consensus(portrait: Portrait, right: Reliability | None) -> str:
    sure = portrait.confidence[portrait.labelled_tasks]
    doubtful = int((sure < UNSURE).sum())
    most = _share(sure >= SURE)
    rest = f"{counted(doubtful, 'task')} ({percent(doubtful / max(sure.size, 1))})" if doubtful else "none"
    sure_of = "all" if most == 1 else f"{percent(most)} of the"
    told = f"The consensus is at least 90% sure of {sure_of} tasks, and less than 60% sure of {rest}."
    if right is None:
        wrong = float((1 - sure).sum())
        return f"{told} If that confidence is right, about {wrong:,.0f} of its answers are wrong."
    n = right.n_tasks.sum()
    accuracy = float(np.nansum(right.accuracy * right.n_tasks) / n)
    gap = float(np.nansum(right.confidence * right.n_tasks) / n) - accuracy
    verdict = "and its confidence can be taken at its word"
    if abs(gap) > LOOSE:
        verdict = "but it is surer than that" if gap > 0 else "more often than it thinks"
    known = counted(int(n), "task")
    return f"{told} Where the truth is known ({known}) it is right {accuracy:.1%} of the time, {verdict}."


def _skill(portrait: Portrait) -> str:
    per_worker = portrait.labels.labels_per_worker
    there = per_worker > 0
    if not there.any():
        return "Nobody has given a label."
    skill = portrait.skill[there]
    mean = float(np.average(skill, weights=per_worker[there]))
    low, high = np.quantile(skill, [0.1, 0.9])
    chance = 1 / portrait.labels.n_classes
    spread = f"{percent(float(low))} and {percent(float(high))}"
    return (
        f"A label is right {percent(mean)} of the time on average, where guessing would be right {percent(chance)}; "
        f"the middle eight in ten workers are right between {spread} of the time."
    )


def _flags(portrait: Portrait) -> str:
    times = Counter(each for each in portrait.verdicts if each != FINE)
    flagged, n_workers = sum(times.values()), portrait.labels.n_workers
    if not flagged:
        return "No worker is flagged. That is no proof of honesty: those with few labels cannot be told from chance."
    told = f"{flagged:,} of {counted(n_workers, 'worker')} {'is' if flagged == 1 else 'are'} flagged: {_counts(times)}."
    return f"{told} {promise(portrait.audit.level)}"


def promise(level: float) -> str:
    """How often the tests would accuse where there is nothing to find.

    >>> promise(0.05)
    'False alarms are rare: if there were nothing to find, at least 95 of 100 such audits would flag no worker at all.'
    """
    rare = "False alarms are rare: if" if level <= 0.1 else "If"
    quiet = f"{100 - 100 * level:.3g} of 100 such audits"
    return f"{rare} there were nothing to find, at least {quiet} would flag no worker at all."


def _counts(times: Counter[str]) -> str:
    return ", ".join(f"{n:,} {kind_of(kind).one if n == 1 else kind_of(kind).many}" for kind, n in times.most_common())


def _about_rest(portrait: Portrait) -> list[str]:
    """Findings that are not about workers, counted."""
    found = [each for each in portrait.audit.findings if each.about not in ("worker", "workers")]
    times = Counter("bias of groups" if each.kind == "bias" else each.kind for each in found)
    return [f"Besides the workers: {_counts(times)}."] if times else []


def confused(portrait: Portrait, most: int = 10) -> list[tuple[str, str, float]]:
    """The errors that the crowd makes most often: the truth, what it is taken for, and the chance of that."""
    matrix = portrait.mean_confusion * (1 - np.eye(portrait.labels.n_classes))
    order = np.argsort(-matrix, axis=None, kind="stable")[:most]
    cells = [(int(each) // len(matrix), int(each) % len(matrix)) for each in order]
    return [(portrait.classes[a], portrait.classes[b], float(matrix[a, b])) for a, b in cells if matrix[a, b] > 0.005]


def _confusion(portrait: Portrait) -> list[str]:
    worst = confused(portrait, 1)
    if not worst:
        return ["Classes are hardly ever confused."]
    truth, said, chance = worst[0]
    told = f"when {_apart(truth)} is true, {percent(chance)} of the labels say {_apart(said)}"
    return [f"The commonest confusion: {told}."]


# ---- can any of this be believed --------------------------------------------------------------------------


def believable(portrait: Portrait) -> list[tuple[bool, str]]:
    """What the labels must have for any of this to be believed: whether they have it, and what follows."""
    labels, model = portrait.labels, portrait.model
    return [_enough_labels(labels.labels_per_task), _joined(portrait), _dominant(portrait), _settled(model)]


def _enough_labels(per_task: IntArray) -> tuple[bool, str]:
    share = _share(per_task[per_task > 0] >= 3)
    if share >= 0.5:
        return True, f"{percent(share)} of the tasks have three labels or more: workers can be judged by each other."
    return False, (
        f"Only {percent(share)} of the tasks have three labels or more. With fewer, who errs on a task cannot be told "
        "from the task alone: skills lean on what workers share elsewhere. Ask for more labels on some tasks."
    )


def _joined(portrait: Portrait) -> tuple[bool, str]:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    labels = portrait.labels
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


def _dominant(portrait: Portrait) -> tuple[bool, str]:
    used = np.flatnonzero(portrait.labels.class_shares)
    weak = [int(used[k]) for k in not_dominant(portrait.mean_confusion[np.ix_(used, used)])]
    if not weak:
        return True, "The crowd as a whole says each class most often when it is true: classes are not swapped."
    named = ", ".join(_apart(portrait.classes[k]) for k in weak[:5]) + (
        f" and {len(weak) - 5} more" if len(weak) > 5 else ""
    )
    return False, (
        f"The crowd as a whole says {named} no more often when it is true than when something else is: classes may "
        "have been swapped. Check some tasks by hand."
    )


def _settled(model: Any) -> tuple[bool, str]:
    if model.converged_:
        return True, f"The fit has settled ({counted(int(model.n_iter_), 'iteration')})."
    return False, (
        f"The fit was still changing after {counted(int(model.n_iter_), 'iteration')}. Give it more (max_iter) before "
        "trusting small differences."
    )


def citations(portrait: Portrait) -> list[tuple[str, str]]:
    """What to cite, and for what."""
    slug = portrait.model.slug
    version = importlib.import_module("crowdwise").__version__
    cited = [("This software", f"Crowdwise, version {version}.")]
    for registry in (method, learner):
        try:
            cited.append((f"The consensus, by {slug}", f"{registry(slug).paper}."))
        except InputError:  # of the other registry, or none
            continue
        break
    kinds = [screen.kind for screen in portrait.audit.screens if not screen.skipped and screen.kind in TESTS]
    cited += [(f"The test for {kind}", f"{TESTS[kind]}.") for kind in kinds]
    return cited


def _apart(name: str) -> str:
    """A name within a sentence; the marks keep one that is written from the right from turning what follows."""
    return f"\u2068{name}\u2069"


def _share(which: FloatArray | Any) -> float:
    return float(np.mean(which)) if np.size(which) else 0.0
