"""Tasks, workers and classes in an order that depends on the answers alone.

A method that draws at random draws for the first task, the second and so on. If these were first and second by the rows
of a file, the same answers in another order would get other draws, and so another consensus. Here tasks, workers and
classes are sorted by a hash of what they were answered, answered or named with: Weisfeiler–Lehman colours of the graph
of labels, refined until no more are told apart. Whoever has no answers is left out: nothing is drawn for them.

B. Weisfeiler and A. Lehman (1968), "The reduction of a graph to canonical form and the algebra which appears therein",
Nauchno-Technicheskaya Informatsia 2.

What the hashes do not tell apart is alike. Of tasks (two with the same answers of the same workers) any order will do;
workers and classes that are alike, as in a symmetric crowd, follow their names. `average_alike_tasks` and
`average_alike_workers` make the results of a sampler alike for what is alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow.compute as pc

from crowdwise.labels.crowd_labels import CrowdLabels

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.task_graph import TaskGraph
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

    Hashes = npt.NDArray[np.uint64]

__all__ = ["ContentOrder", "average_twins", "hash_answers", "order_by_content", "sort_graph_tasks"]

A = TypeVar("A", bound=np.ndarray[Any, Any])
ROUNDS = 8  # of refinement at most; two or three tell the tasks of most crowds apart
GRAPH_ROUNDS = 64  # the same along pairs of tasks, which may form long chains
OF_TASK, OF_WORKER, OF_CLASS, OF_GOLD, OF_COUNT = (
    np.uint64(odd)
    for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F)
)
STEP = 1e-6  # numbers known beforehand are compared by such steps: their last digits may depend on the order of classes
BORDER = (5**0.5 - 1) / 2  # of a step, where the next one begins: where no share or count that people meet with lies


@dataclass(frozen=True)
class ContentOrder:
    """Positions in the order of content.

    Attributes
    ----------
    tasks : (n,)
        Positions of the tasks that have answers or a known truth.
    workers : (m,)
        Positions of the workers who have answers, here or known from elsewhere.
    classes : (K,)
        Positions of the classes.
    alike_tasks, alike_workers : (n,), (m,)
        A number for each of these, the same for those that the answers do not tell apart.
    """

    tasks: IntArray
    workers: IntArray
    classes: IntArray
    alike_tasks: IntArray
    alike_workers: IntArray

    def arrange(self, labels: CrowdLabels, *, add_worker: bool = False) -> CrowdLabels:
        """The labels with tasks, workers, classes and the edges themselves in this order.

        `add_worker` adds one without answers after the last, who stands for all such.
        """
        task, worker, label = self._ranks(labels)
        order = self._sort_ranks(task, worker, label)
        return CrowdLabels.from_codes(
            task[order],
            worker[order],
            label[order],
            tasks=self.tasks.size,
            workers=self.workers.size + add_worker,
            classes=self.classes.size,
            on_duplicate="all",
        )

    def arrange_knowledge(self, known: PriorKnowledge, *, add_worker: bool = False) -> PriorKnowledge:
        """What is known beforehand, in this order."""
        gold, prior, counts = known.gold, known.class_prior, known.worker_counts
        if gold.size:
            gold = np.append(_invert(self.classes, self.classes.size), -1)[gold[self.tasks]].astype(gold.dtype)
        if counts is not None:
            counts = counts[np.ix_(self.workers, self.classes, self.classes)]
            counts = np.concatenate([counts, np.zeros_like(counts[:1])]) if add_worker else counts
        return replace(
            known, gold=gold, class_prior=None if prior is None else prior[self.classes], worker_counts=counts
        )

    def arrange_posterior(self, posterior: FloatArray) -> FloatArray:
        """Rows (N, K) of the labels' tasks in this order (n, K)."""
        return np.ascontiguousarray(posterior[self.tasks][:, self.classes])

    def restore_posterior(self, found: FloatArray, out: FloatArray) -> FloatArray:
        """Put rows (n, K) of this order where they belong in `out` (N, K), and return it."""
        out[np.ix_(self.tasks, self.classes)] = found
        return out

    def restore_matrices(self, found: FloatArray, out: FloatArray) -> FloatArray:
        """Put matrices (m, K, K) of this order where they belong in `out` (M, K, K), and return it."""
        out[np.ix_(self.workers, self.classes, self.classes)] = found
        return out

    def restore_workers(self, found: A, out: A) -> A:
        """Put values (m, …) of this order where they belong in `out` (M, …), and return it."""
        out[self.workers] = found
        return out

    def sort_edges(self, labels: CrowdLabels) -> IntArray:
        """Positions of the edges in this order."""
        return self._sort_ranks(*self._ranks(labels))

    def average_alike_tasks(self, values: FloatArray) -> FloatArray:
        """Values (n, …) of this order, those of tasks that the answers do not tell apart averaged."""
        return _average_alike(values, self.alike_tasks)

    def average_alike_workers(self, values: FloatArray) -> FloatArray:
        """Values (m, …) of this order, those of workers whom the answers do not tell apart averaged."""
        return _average_alike(values, self.alike_workers)

    def _sort_ranks(self, task: IntArray, worker: IntArray, label: IntArray) -> IntArray:
        size = self.workers.size * self.classes.size
        if self.tasks.size * size < np.iinfo(np.int64).max:  # one key is sorted faster than three
            return np.argsort(task * size + worker * self.classes.size + label)
        return np.lexsort((label, worker, task))

    def _ranks(self, labels: CrowdLabels) -> tuple[IntArray, IntArray, IntArray]:
        """Task, worker and label of each edge as places in this order."""
        return (
            _invert(self.tasks, labels.n_tasks)[labels.task],
            _invert(self.workers, labels.n_workers)[labels.worker],
            _invert(self.classes, labels.n_classes)[labels.label],
        )


def order_by_content(labels: CrowdLabels, known: PriorKnowledge | None = None) -> ContentOrder:
    """Sort tasks, workers and classes by their answers, and by what is known of them."""
    told = labels.labels_per_task > 0
    met = labels.labels_per_worker > 0
    if known is not None and known.gold.size:
        told = told | (known.gold >= 0)
    if known is not None and known.worker_counts is not None:
        met = met | (known.worker_counts.sum(axis=(1, 2)) > 0)
    kind = np.zeros(labels.n_classes, np.uint64)
    if known is not None and known.class_prior is not None:
        kind = _mix(_round_to_bits(known.class_prior) + OF_CLASS)
    task, worker, kind = _refine(labels, known, kind)
    classes = _sort_some(np.ones(kind.size, np.bool_), kind, labels.classes)
    if np.unique(kind).size < kind.size:
        # Tasks of two classes that are alike are not: one has the answers of the one, one those of the other.
        kind[classes] = np.arange(kind.size, dtype=np.uint64)
        task, worker, kind = _refine(labels, known, kind)
    workers = _sort_some(met, worker, labels.workers)
    # Where workers are alike, tasks follow the order that they were given: else two symmetric parts could be crossed.
    place = np.empty(labels.n_workers, np.uint64)
    place[workers] = np.arange(workers.size, dtype=np.uint64)
    said = np.zeros(labels.n_tasks, np.uint64)
    np.add.at(said, labels.task, _mix(place[labels.worker] * OF_WORKER + kind[labels.label]))
    tasks = np.flatnonzero(told)
    tasks = tasks[np.lexsort((said[tasks], task[tasks]))]
    return ContentOrder(tasks, workers, classes, _number(task[tasks]), _number(worker[workers]))


def _refine(labels: CrowdLabels, known: PriorKnowledge | None, kind: Hashes) -> tuple[Hashes, Hashes, Hashes]:
    """Hashes of tasks, workers and classes, from those of classes; each round adds to each what its edges lead to."""
    task, worker = np.zeros(labels.n_tasks, np.uint64), np.zeros(labels.n_workers, np.uint64)
    told = _Told(known)
    distinct = 0
    for _ in range(ROUNDS):
        edge = task[labels.task] * OF_TASK
        edge += worker[labels.worker] * OF_WORKER
        edge += kind[labels.label] * OF_CLASS
        edge = _mix(edge)
        sums = tuple(hashes * OF_COUNT for hashes in (task, worker, kind))
        for total, place in zip(sums, (labels.task, labels.worker, labels.label), strict=True):
            np.add.at(total, place, edge)
        told.add(sums, task, kind)
        task, worker, kind = (_mix(total) for total in sums)
        before, distinct = distinct, np.unique(task).size + np.unique(worker).size + np.unique(kind).size
        if distinct == before:
            break
    return task, worker, kind


def sort_graph_tasks(labels: CrowdLabels, known: PriorKnowledge, graph: TaskGraph) -> IntArray:
    """All tasks (N,) by their answers and those of their neighbours, near and far; by name where these are alike."""
    by_answers = order_by_content(labels, known)
    task = np.zeros(labels.n_tasks, np.uint64)
    task[by_answers.tasks] = by_answers.alike_tasks.astype(np.uint64) + np.uint64(1)
    begin, distinct = np.repeat(np.arange(labels.n_tasks), np.diff(graph.ptr)), 0
    for _ in range(GRAPH_ROUNDS if graph.n_pairs else 0):
        total = task * OF_COUNT
        np.add.at(total, begin, _mix(task[graph.neighbour] * OF_TASK))
        task = _mix(total)
        before, distinct = distinct, np.unique(task).size
        if distinct == before:
            break
    return _sort_some(np.ones(labels.n_tasks, np.bool_), task, labels.tasks)


def hash_answers(labels: CrowdLabels) -> IntArray:
    """A hash of the answers of each task (N,), by the positions of workers and classes; 0 for a task without."""
    said = np.zeros(labels.n_tasks, np.uint64)
    edge = labels.worker.astype(np.uint64) * OF_WORKER
    edge += labels.label.astype(np.uint64) * OF_CLASS
    np.add.at(said, labels.task, _mix(edge))
    return said.view(np.int64)


def average_twins(labels: CrowdLabels, workers: IntArray, values: FloatArray) -> FloatArray:
    """Values (n, …) of workers (n,), averaged over those who gave the same answers to the same tasks."""
    chosen = np.zeros(labels.n_workers, np.bool_)
    chosen[workers] = True
    edges = np.flatnonzero(chosen[labels.worker])
    said = np.zeros(labels.n_workers, np.uint64)
    edge = labels.task[edges].astype(np.uint64) * OF_TASK
    edge += labels.label[edges].astype(np.uint64) * OF_CLASS
    np.add.at(said, labels.worker[edges], _mix(edge))
    return _average_alike(values, _number(said[workers]))


class _Told:
    """What is known beforehand, as edges of the graph: a task's truth, and answers that a worker gave elsewhere."""

    def __init__(self, known: PriorKnowledge | None) -> None:
        self.tasks = self.truths = np.empty(0, np.int64)
        self.cells: tuple[Any, ...] = ()
        if known is None:
            return
        if known.gold.size:
            self.tasks = np.flatnonzero(known.gold >= 0)
            self.truths = known.gold[self.tasks]
        if known.worker_counts is not None:
            self.cells = np.nonzero(known.worker_counts)
            self.bits = _round_to_bits(known.worker_counts[self.cells])

    def add(self, sums: tuple[Hashes, ...], task: Hashes, kind: Hashes) -> None:
        """Add these edges to the sums over the edges of tasks, workers and classes."""
        edge = _mix(task[self.tasks] * OF_TASK + kind[self.truths] * OF_GOLD)
        np.add.at(sums[0], self.tasks, edge)
        np.add.at(sums[2], self.truths, edge)
        if self.cells:
            worker, truth, label = self.cells
            np.add.at(sums[1], worker, _mix(kind[truth] * OF_GOLD + kind[label] * OF_CLASS + self.bits))


def _mix(hashes: Hashes) -> Hashes:
    """Scramble each number (the finaliser of SplitMix64), so that sums of them tell their terms apart."""
    mixed = hashes + OF_TASK
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def _round_to_bits(values: FloatArray) -> Hashes:
    """Numbers as they are stored, after rounding down to a border between steps."""
    return np.floor(values.astype(np.float64) / STEP + BORDER).view(np.uint64)


def _sort_some(chosen: BoolArray, hashes: Hashes, names: pa.Array) -> IntArray:
    """Positions of the chosen ones by their hashes, and by name where the answers do not tell them apart."""
    places = np.flatnonzero(chosen)
    order = np.argsort(hashes[places], kind="stable")
    if np.unique(hashes[places]).size < places.size:
        by_name = _invert(pc.sort_indices(names).to_numpy(), len(names))
        order = np.lexsort((by_name[places], hashes[places]))
    return places[order]


def _number(hashes: Hashes) -> IntArray:
    """A number for each hash, the same for the same."""
    numbers: IntArray = np.unique(hashes, return_inverse=True)[1]
    return numbers


def _invert(places: IntArray, size: int) -> IntArray:
    """The rank of each position among `places`."""
    ranks = np.zeros(size, np.int64)
    ranks[places] = np.arange(places.size)
    return ranks


def _average_alike(values: FloatArray, alike: IntArray) -> FloatArray:
    sizes = np.bincount(alike)
    if sizes.size == alike.size:
        return values
    sums = np.zeros((sizes.size, *values.shape[1:]))
    np.add.at(sums, alike, values)
    means: FloatArray = sums[alike] / sizes[alike].reshape(-1, *[1] * (values.ndim - 1))
    return means
