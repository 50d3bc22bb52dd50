"""What a page says of a crowd, made from its audit by sums over edges: nothing here grows as tasks × workers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crowdwise.audit.audit import count_confusion
from crowdwise.audit.consensus_scores import LEVEL, mark_gold_tasks
from crowdwise.report.agreement_graph_layout import agreement_graph
from crowdwise.report.display_names import display_name, distinct_names

if TYPE_CHECKING:
    from crowdwise.audit.audit import Audit
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray
    from crowdwise.report.agreement_graph_layout import AgreementGraph

__all__ = [
    "AuditView",
    "DisputedTask",
    "choose_workers_to_draw",
    "class_entropy",
    "have_equal_label_counts",
    "worker_confusion",
]

MOST_DRAWN = 2_000  # points of the worker map that a browser moves at ease
LEAST_ORDINARY = 500  # of them, for workers of whom nothing was found
MOST_FLAGGED = 4_000
MOST_VOTES = 6  # classes whose votes are told for a task


def worker_confusion(model: Any, labels: CrowdLabels, worker: int) -> FloatArray:
    """A worker's matrix (K, K) [truth, label]: the model's own, or their answers by the posterior where it has none."""
    if hasattr(model, "confusion_"):
        own: FloatArray = model.confusion_[worker]
        return own
    edge, ptr = labels.by_worker
    edges = edge[ptr[worker] : ptr[worker + 1]]
    return count_confusion(model.posterior_, labels.task[edges], labels.label[edges])


def class_entropy(shares: FloatArray) -> FloatArray:
    """Of each task's shares of the classes, in nats."""
    plogp = np.where(shares > 0, shares * np.log(np.maximum(shares, 1e-300)), 0.0)
    entropy: FloatArray = np.maximum(-plogp.sum(axis=1), 0.0)
    return entropy


def have_equal_label_counts(n_labels: IntArray) -> bool:
    """Whether several workers gave as many labels each, so that there is nothing to compare their skill with."""
    return n_labels.size > 1 and bool((n_labels == n_labels[0]).all())


def choose_workers_to_draw(flagged: FloatArray, n_labels: IntArray) -> IntArray:
    """Positions of the workers that a map of limited size shows.

    Everyone flagged (the worst `MOST_FLAGGED`), and of the others as many as there is room for, drawn at random.

    Parameters
    ----------
    flagged : (M,)
        Score of the worst finding; negative where there is none.
    n_labels : (M,)
        Workers without a label are left out.
    """
    there = n_labels > 0
    bad = np.flatnonzero((flagged >= 0) & there)
    bad = bad[np.argsort(-flagged[bad], kind="stable")][:MOST_FLAGGED]
    others = np.flatnonzero((flagged < 0) & there)
    room = max(LEAST_ORDINARY, MOST_DRAWN - bad.size)
    if others.size > room:
        others = np.random.default_rng(0).choice(others, room, replace=False)
    return np.sort(np.concatenate([bad, others]))


@dataclass(frozen=True)
class DisputedTask:
    """A task that the crowd disagrees about; `place` is its position in the labels."""

    place: int
    task: str
    label: str
    confidence: float
    n_labels: int
    entropy: float
    votes: list[tuple[int, str]]


class AuditView:
    """An audit as a page needs it: names that can be shown, arrays over workers and tasks, and choices of what to show.

    Attributes
    ----------
    confidence, entropy : (N,)
    chosen : (N,)
        Consensus, as positions of classes.
    labelled_tasks : (N,)
        Which tasks anyone labelled; the others are left out of what is counted.
    skill, low, high : (M,)
        Chance that an answer of the worker is right, and its interval, as the model's own table of workers has them.
    flagged : (M,)
        Score of the worst finding; -1 where there is none.
    n_gold
        Tasks whose gold answer the model learnt from.
    """

    def __init__(self, audit: Audit) -> None:
        self.audit, self.labels, self.model = audit, audit.labels, audit.model
        model = self.model
        self.classes = distinct_names(self.labels.classes.to_pylist(), 40)
        self.chosen: IntArray = model._decide(model.posterior_)
        self.confidence: FloatArray = model.posterior_[np.arange(self.chosen.size), self.chosen]
        votes = self.labels.vote_counts()
        self.entropy = class_entropy(votes / np.maximum(votes.sum(axis=1, keepdims=True), 1))
        self.labelled_tasks = self.labels.labels_per_task > 0
        self.skill: FloatArray = model.skill_
        table = model.workers(LEVEL)
        self.low, self.high = table["skill_low"].to_numpy(), table["skill_high"].to_numpy()
        self.n_gold = int(mark_gold_tasks(audit).sum())
        self.verdicts = audit.verdicts
        self.flagged = self._worst_finding_scores()

    def _worst_finding_scores(self) -> FloatArray:
        worst = np.full(self.labels.n_workers, -1.0)
        guilty = {name for finding in self.audit.findings for name in _finding_workers(finding)}
        if not guilty:
            return worst
        place = {name: at for at, name in enumerate(self.labels.workers.to_pylist()) if name in guilty}
        for finding in self.audit.findings:
            for name in _finding_workers(finding):
                worst[place[name]] = max(worst[place[name]], finding.score)
        return worst

    @property
    def class_names(self) -> list[str]:
        """Names of the classes within a sentence; the marks keep those written from the right from turning the rest."""
        return [f"\u2068{name}\u2069" for name in self.classes]

    @cached_property
    def worker_names(self) -> list[str]:
        """Names of the workers, no two alike."""
        return distinct_names(self.labels.workers.to_pylist())

    @property
    def mean_confusion(self) -> FloatArray:
        """The crowd's mean matrix."""
        return self.audit.mean_confusion

    @cached_property
    def graph(self) -> AgreementGraph | None:
        """Who agrees with whom beyond what skill explains; None if nobody does, or it was not asked."""
        if self.audit.dependence is None:
            return None
        return agreement_graph(self.audit.dependence, self.audit.group, self.labels.labels_per_worker)

    def confusion(self, worker: int) -> FloatArray:
        """A worker's matrix."""
        return worker_confusion(self.model, self.labels, worker)

    def choose_example_workers(self, most: int = 3) -> list[tuple[str, int]]:
        """Workers whose matrices are worth a look, and why: flagged, worst and best of those with enough labels."""
        per_worker = self.labels.labels_per_worker
        enough = per_worker >= min(np.median(per_worker[per_worker > 0]), 20 * self.labels.n_classes)
        bad = np.flatnonzero(self.flagged >= 0)
        order = np.flatnonzero(enough)
        order = order[np.argsort(self.skill[order], kind="stable")]
        picked: dict[int, str] = {}
        bad = bad[np.lexsort((-per_worker[bad], -self.flagged[bad]))]
        turn: Counter[str] = Counter()  # the worst of every kind come before the second worst of any
        turns = []
        for who in bad.tolist():
            turn[self.verdicts[who]] += 1
            turns.append(turn[self.verdicts[who]])
        for who in bad[np.argsort(turns, kind="stable")][:most]:
            picked[int(who)] = f"flagged: {self.verdicts[who]}"
        for who in order[:most]:
            picked.setdefault(int(who), "among the least skilled")
        for who in order[::-1][:most]:
            picked.setdefault(int(who), "among the most skilled")
        return [(why, who) for who, why in picked.items()]

    def disputes(self, most: int = 200) -> list[DisputedTask]:
        """The tasks whose votes differ most, of those that do alike the least sure first, and how their votes fell."""
        order = np.lexsort((self.confidence, -self.entropy))
        order = order[self.labelled_tasks[order] & (self.entropy[order] > 1e-3)][:most]
        names = self.labels.tasks.take(pa.array(order)).to_pylist()
        ptr = self.labels.task_ptr
        found = []
        for task, name in zip(order.tolist(), names, strict=True):
            votes = np.bincount(self.labels.label[ptr[task] : ptr[task + 1]], minlength=self.labels.n_classes)
            found.append(
                DisputedTask(
                    task,
                    display_name(name),
                    self.classes[self.chosen[task]],
                    float(self.confidence[task]),
                    int(votes.sum()),
                    float(self.entropy[task]),
                    self._count_votes_in_words(votes),
                )
            )
        return found

    def _count_votes_in_words(self, votes: IntArray) -> list[tuple[int, str]]:
        """How many said what, the most frequent first."""
        order = [k for k in np.argsort(-votes, kind="stable").tolist() if votes[k]]
        told = [(int(votes[k]), self.classes[k]) for k in order[:MOST_VOTES]]
        rest = int(votes[order[MOST_VOTES:]].sum())
        return [*told, (rest, "others")] if rest else told


def _finding_workers(finding: Any) -> tuple[Any, ...]:
    names: tuple[Any, ...] = finding.names if finding.about in ("worker", "workers") else ()
    return names
