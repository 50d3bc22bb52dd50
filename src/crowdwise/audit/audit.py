"""The audit of a crowd: every test, at levels that together keep what is promised, and what they found."""

from __future__ import annotations

import importlib
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.audit.audit_tests import CrowdContext, select_tests
from crowdwise.audit.colluders import TEST as COLLUDERS
from crowdwise.audit.consensus_scores import score_consensus
from crowdwise.audit.content_arrangement import ContentArrangement
from crowdwise.audit.dependent_workers import TEST as DEPENDENT_WORKERS
from crowdwise.audit.finding_types import FINE
from crowdwise.audit.inputs import read_known_inputs, screens_of_skipped_inputs
from crowdwise.audit.spammers import TEST as SPAMMERS
from crowdwise.audit.summary import check_reliability, summarise
from crowdwise.dependence.effective_size import estimate_size
from crowdwise.fitting.base import check_enough_labels
from crowdwise.fitting.parameter_checks import check_number, check_random_state
from crowdwise.fitting.progress_bar import show_progress_of
from crowdwise.fitting.underflow import ignore_underflow
from crowdwise.labels.attributes import usable_attributes
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import quote
from crowdwise.labels.old_names import accept_seed
from crowdwise.labels.read import read_labels
from crowdwise.labels.truth import read_truth
from crowdwise.labels.vocabulary import positions
from crowdwise.metrics.identifiability_conditions import crowd_confusion
from crowdwise.registry import method as method_called

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from crowdwise.audit.consensus_sentences import Claim
    from crowdwise.audit.finding_types import Finding, Screen
    from crowdwise.dependence.effective_size import EffectiveSize
    from crowdwise.dependence.groups import Dependence
    from crowdwise.fitting.base import Aggregator
    from crowdwise.labels.truth import Truth
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["FINE", "Audit", "audit_crowd", "count_confusion", "screen_workers"]


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """Everything that was found in a crowd.

    Attributes
    ----------
    labels
        What was audited.
    model
        The fitted aggregator whose consensus, skills and matrices are shown: the method asked for, `auto` by default.
    screens
        What each test says, the ones that do not apply included.
    group : (M,)
        Workers with the same number depend on each other; -1 for those who depend on nobody.
    level
        Chance that anyone is flagged in a crowd where there is nothing to find.
    effective
        How many independent workers the crowd is worth; None if it was not asked.
    truth
        True labels that were given to score and to be doubted, if any were.
    dependence
        How far every two workers agree beyond the truth; None if it was not asked, or cannot be said.
    gold
        Known answers that the consensus learnt from, if any were given.
    """

    labels: CrowdLabels
    model: Any
    screens: tuple[Screen, ...]
    group: IntArray
    level: float
    effective: EffectiveSize | None = None
    truth: Truth | None = None
    dependence: Dependence | None = None
    gold: Truth | None = None

    def __repr__(self) -> str:
        times = Counter(finding.kind for finding in self.findings)
        found = ", ".join(f"{kind} ({n:,})" for kind, n in times.items()) or FINE
        return f"Audit of {self.labels!r}: {found}"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All of them, the surest first."""
        every = [finding for screen in self.screens for finding in screen.findings]
        return tuple(sorted(every, key=lambda finding: (finding.p_value, -finding.score)))

    @property
    def verdicts(self) -> list[str]:
        """The kind of each worker's worst finding, by position in the labels' workers."""
        worst = np.full(self.labels.n_workers, -1.0)
        found = [FINE] * self.labels.n_workers
        place = {name: number for number, name in enumerate(self.labels.workers.to_pylist())}
        for finding in self.findings:
            if finding.about not in ("worker", "workers"):
                continue
            for name in finding.names:
                if finding.score > worst[place[name]]:
                    worst[place[name]], found[place[name]] = finding.score, finding.kind
        return found

    @cached_property
    def mean_confusion(self) -> FloatArray:
        """The crowd's mean matrix (K, K) [truth, label], each worker weighed by their answers."""
        if hasattr(self.model, "confusion_"):
            return crowd_confusion(self.model.confusion_, self.labels.labels_per_worker.astype(np.float64))
        return count_confusion(self.model.posterior_, self.labels.task, self.labels.label)

    def summary(self, *, truth: Any = None) -> list[Claim]:
        """The audit in a handful of sentences (`text`), each with what it rests on (`basis`).

        Parameters
        ----------
        truth
            True labels of some tasks, by default those given to the audit.
        """
        return summarise(self, score_consensus(self, truth), self._class_names)

    def checks(self) -> list[tuple[bool, str]]:
        """What the labels must have for the audit to be believed: whether they have it, and what follows."""
        return check_reliability(self, self._class_names)

    @property
    def _class_names(self) -> list[str]:
        return [quote(name) for name in self.labels.classes.to_pylist()]

    def plot(self, what: str = "workers", *, truth: Any = None) -> Any:
        """A Vega-Altair chart of the audit, for notebooks; `.save("x.svg")` or `"x.png"` writes it.

        Parameters
        ----------
        what
            "workers" (skill against volume, coloured by what was found), "agreement" (who agrees with whom beyond what
            skill explains, if anyone does), "confidence", "confusion", "calibration" (with `truth`) or
            "gold-calibration" (where gold was given, and the method can tell).
        truth
            True labels of some tasks: a mapping, or a path or table with columns task and label; by default those
            given to the audit.
        """
        # Found by name: the room of charts lies above this one, and needs an extra that audits do not.
        return importlib.import_module("crowdwise.report.audit_page.charts").plot_audit(self, what, truth)


def screen_workers(
    labels: CrowdLabels, *, level: float = 0.05, random_state: int = 0, trusted: Sequence[Any] | None = None
) -> tuple[Screen, Screen, Screen]:
    """Dependent workers, spammers and colluders, as an audit without attributes and times finds them."""
    n_accusing = sum(test.accuses for test in select_tests({}))
    crowd = CrowdContext(labels, level, n_accusing, random_state, trusted=trusted)
    return crowd.run(DEPENDENT_WORKERS), crowd.run(SPAMMERS), crowd.run(COLLUDERS)


@accept_seed
@ignore_underflow
def audit_crowd(
    labels: Any,
    *,
    method: str = "auto",
    gold: Any = None,
    truth: Any = None,
    task_attributes: Any = None,
    worker_attributes: Any = None,
    time: Any = None,
    trusted: Sequence[Any] | None = None,
    level: float = 0.05,
    random_state: int = 0,
) -> Audit:
    """Ask of a crowd who guesses, who copies, what is in doubt, and what it is worth; no truth is needed.

    Parameters
    ----------
    labels
        `CrowdLabels`, or anything that `read_labels` takes.
    method
        Slug of the method that makes the consensus and judges the workers; `crowdwise.methods()` lists them. Only what
        is shown depends on it: the tests make models of their own.
    gold
        Known answers of some tasks, as a mapping, a path or a table (task, label): the consensus learns from them.
    truth
        Labels that tasks are given as true, as a mapping, a path or a table (task, label): to score the consensus, to
        be doubted, and to judge bias by. The consensus never sees them.
    task_attributes, worker_attributes
        Groups of tasks or workers that may be treated, or judge, differently: mappings, paths or tables. An attribute
        that makes no groups (more than 50 values, or 20 numbers) is left out, and a screen of its own says so.
    time
        Time of each label, in the order of the labels, as `read_timed_labels` gives them: for drift.
    trusted
        Workers who are known to be honest; without them, at least half of the crowd is taken to be.
    level
        Chance that any worker is flagged in a crowd where there is nothing to find, above 0 and below 1: the tests that
        accuse share it. Tests of tasks and of classes have it each.
    random_state
        Same seed, same answer.

    Examples
    --------
    >>> from crowdwise.simulate import simulate
    >>> crowd = simulate("spammers", n_tasks=500, n_workers=10, n_classes=3, share=0.2, random_state=0)
    >>> found = audit_crowd(crowd.labels)
    >>> [(finding.kind, finding.names) for finding in found.findings if finding.about == "worker"]
    [('spammer', (8,)), ('spammer', (9,))]
    >>> found
    Audit of CrowdLabels: 5,000 labels by 10 workers on 500 tasks, 3 classes (0, 1, 2): spammer (2)
    """
    check_number("level", level, low=0, high=1, above=True)
    level = float(level)
    check_random_state(random_state)
    answers = read_labels(labels)
    check_enough_labels(answers)
    known = read_known_inputs(answers, truth, task_attributes, worker_attributes, time, trusted)
    gold = None if gold is None else read_truth(gold)
    model = fit_method(answers, method, gold, random_state)  # first: what it cannot use is said before any long work
    if len(model.classes_) > answers.n_classes:  # gold may name a class that no worker used
        answers = extend_classes(answers, model._names.classes)
    given = {
        "truth": known.truth,
        "task_attributes": usable_attributes(known.of_tasks),
        "worker_attributes": usable_attributes(known.of_workers),
        "time": time,
    }
    tests = select_tests(given)
    n_accusing = sum(test.accuses for test in tests)
    arranged = ContentArrangement.of(answers, known.truth)
    of_tasks, of_workers = arranged.arrange_attributes(given["task_attributes"], given["worker_attributes"])
    crowd = CrowdContext(
        arranged.labels,
        level,
        n_accusing,
        random_state,
        truth=known.truth,
        task_attributes=of_tasks,
        worker_attributes=of_workers,
        time=arranged.arrange_times(time),
        trusted=arranged.keep_workers(trusted),
    )
    with show_progress_of("audit", len(tests) + 1, "tests") as advance:
        for test in tests:
            crowd.run(test)
            advance()
        told = gold if known.truth is None else known.truth
        dependence = arranged.restore_dependence(crowd.dependence)
        effective = estimate_size(answers, dependence, random_state, truth=told)
        advance()
    screens = (*(arranged.restore_screen(crowd.run(test)) for test in tests), *screens_of_skipped_inputs(known))
    return Audit(answers, model, screens, effective.groups, level, effective, known.truth, dependence, gold)


def count_confusion(posterior: FloatArray, task: IntArray, label: IntArray) -> FloatArray:
    """Share (K, K) [truth, label] of each label where a class is true, by the posterior of the tasks (N, K)."""
    n_classes = posterior.shape[1]
    counts = np.stack([np.bincount(label, posterior[task, k], n_classes) for k in range(n_classes)])
    totals = counts.sum(axis=1, keepdims=True)
    shares: FloatArray = np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 1e-9)
    return shares


def extend_classes(labels: CrowdLabels, classes: pa.Array) -> CrowdLabels:
    """The same labels in a longer list of classes."""
    place = positions(labels.classes, classes)
    names = {"tasks": labels.tasks, "workers": labels.workers, "classes": classes}
    made = CrowdLabels.from_codes(labels.task, labels.worker, place[labels.label], **names, on_duplicate="all")
    return made.with_kind(labels.kind)


def fit_method(labels: CrowdLabels, slug: str, gold: Truth | None, random_state: int) -> Aggregator:
    """Fit a method of the registry, found by its slug, with the seed where it draws at random."""
    model: Aggregator = method_called(slug).load()()
    parameters = model.get_params()
    # Without a random state, the vote has a rule for ties.
    if "random_state" in parameters and (random_state or parameters["random_state"] is not None):
        model.set_params(random_state=random_state)
    return model.fit(labels, gold=gold)
