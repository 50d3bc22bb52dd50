"""What an audit found, in sentences that a manager of a labelling project can act on."""

from __future__ import annotations

import importlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.audit.audit import FINE
from crowdwise.labels.errors import InputError
from crowdwise.labels.source_location import format_count
from crowdwise.learner_registry import learner
from crowdwise.metrics.dominance import find_non_dominant
from crowdwise.registry import method
from crowdwise.report.claims import (
    COUNTED,
    SURE,
    TRUTH,
    Claim,
    consensus_claims,
    expected_wrong,
    interval_of,
    percent,
    rests_on,
)
from crowdwise.report.kinds import kind_of

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray
    from crowdwise.report.audit_page.view import Portrait
    from crowdwise.report.scores import Score

__all__ = ["believable", "citations", "confused", "headlines", "promise", "summary", "tested_with"]

# Where the tests of the audit were published, by their kinds; those that are not here are our own.
TESTS = {
    "colluders": "Traganitis & Giannakis 2021, ICDM (Detecting adversaries in crowdsourcing)",
    "dependent workers": "Jaffe et al. 2016, AISTATS; Traganitis & Giannakis 2022",
    "disparity": "Hardt, Price & Srebro 2016, NeurIPS (equal opportunity)",
}


def headlines(portrait: Portrait) -> list[tuple[str, str]]:
    """The few figures at the top: a number, and what it counts."""
    labels, known = portrait.labels, portrait.labelled_tasks
    flagged = int((portrait.flagged >= 0).sum())
    return [
        (f"{labels.n_labels:,}", "label" if labels.n_labels == 1 else "labels"),
        (f"{labels.n_tasks:,}", "task" if labels.n_tasks == 1 else "tasks"),
        (f"{labels.n_workers:,}", "worker" if labels.n_workers == 1 else "workers"),
        (percent(_share(portrait.confidence[known] >= SURE)), "of tasks it is at least 90% sure of"),
        *_wrong(portrait),
        (f"{flagged:,}", "worker flagged" if flagged == 1 else "workers flagged"),
    ]


def _wrong(portrait: Portrait) -> list[tuple[str, str]]:
    """How many answers are expected to be wrong, where the model can say."""
    wrong = expected_wrong(portrait.model)
    if wrong is None:
        return []
    low, high = interval_of(wrong)
    return [(f"{low:,} to {high:,}", "answers probably wrong (90% interval)")]


def summary(portrait: Portrait, score: Score | None) -> list[Claim]:
    """The whole audit in a handful of sentences, each with what it rests on."""
    return [
        Claim(_crowd(portrait), COUNTED),
        *consensus_claims(portrait.audit, score),
        Claim(_skill(portrait), rests_on(portrait.n_gold)),
        Claim(_flags(portrait), tested_with(portrait)),
        *(Claim(text, tested_with(portrait)) for text in _about_rest(portrait)),
        *(Claim(text, rests_on(portrait.n_gold)) for text in _confusion(portrait)),
    ]


def tested_with(portrait: Portrait) -> str:
    """What the tests of the audit rest on; they never see the gold."""
    return "the labels alone" if portrait.audit.truth is None else f"the labels and {TRUTH}"


def _crowd(portrait: Portrait) -> str:
    labels = portrait.labels
    average = labels.n_labels / max(labels.n_tasks, 1)
    return (
        f"{format_count(labels.n_workers, 'worker')} gave {format_count(labels.n_labels, 'label')} on "
        f"{format_count(labels.n_tasks, 'task')}, {f'{average:,.1f}'.removesuffix('.0')} a task, choosing between "
        f"{format_count(labels.n_classes, 'class', 'classes')}."
    )


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
    caveat = portrait.model.skill_caveat()
    return (
        f"Skill, the chance that an answer is right: {percent(mean)} for a label on average, where guessing would be "
        f"right {percent(chance)} of the time; between {spread} for the middle eight in ten workers."
        + (f" {caveat}" if caveat else "")
    )


def _flags(portrait: Portrait) -> str:
    times = Counter(each for each in portrait.verdicts if each != FINE)
    flagged, n_workers = sum(times.values()), portrait.labels.n_workers
    if not flagged:
        return "No worker is flagged. That is no proof of honesty: those with few labels cannot be told from chance."
    verb = "is" if flagged == 1 else "are"
    told = f"{flagged:,} of {format_count(n_workers, 'worker')} {verb} flagged: {_counts(times)}."
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
    checks = [_enough_labels(labels.labels_per_task), _joined(portrait), _dominant(portrait), _settled(model)]
    return [*checks, *_one_voice(portrait)]


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
    weak = [int(used[k]) for k in find_non_dominant(portrait.mean_confusion[np.ix_(used, used)])]
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
        steps = f" ({model.n_iter_:,} iterations)" if model.n_iter_ > 1 else ""
        return True, f"The fit has settled{steps}."
    return False, (
        f"The fit was still changing after {format_count(int(model.n_iter_), 'iteration')}. Give it more (max_iter) "
        "before "
        "trusting small differences."
    )


def _one_voice(portrait: Portrait) -> list[tuple[bool, str]]:
    """Warn where workers depend on each other and the consensus does not know it."""
    dependent = int((portrait.audit.group >= 0).sum())
    if not dependent or portrait.model.slug.startswith("group-"):
        return []
    told = (
        f"{format_count(dependent, 'worker')} depend on others, and the consensus counts each of them as a voice of "
        "their "
        "own. Leave copies out (crowdwise audit --prune-to), or count each group once: --method group-dawid-skene."
    )
    return [(False, told)]


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
