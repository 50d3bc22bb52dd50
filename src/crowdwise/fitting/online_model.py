"""A model that learns label by label: what a stream of labels says of tasks and workers so far.

The equations are in `kernels.online_em`. Arrays have room to grow: a new task or worker costs O(1) on average, a new
class one pass over the labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdwise.fitting.parameter_checks import check_choice, check_count, check_number
from crowdwise.fitting.variational import diagonal_prior
from crowdwise.kernels.online_em import (
    FAMILIES,
    OnlineArrays,
    OnlineRule,
    add_labels,
    chain_labels,
    recount,
    rescore,
    revisit_task,
    revisit_tasks,
    set_tables,
    start_from_votes,
)
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.read import read_labels
from crowdwise.labels.truth import read_truth

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import Self

    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Names", "OnlineModel"]

ROOM = 64  # tasks, workers and labels that there is room for at first
FIRST_REFIT, LAST_REFIT = 100.0, 100_000.0  # labels; later ones move little, and a pass over them takes a while
PASSES, NEAR = 15, 1e-2  # of a refit on the way
LEAST_GROWTH = 1.1
MODES = ("exact", "decay")
EMPTY = {"gold": -1, "last_edge": -1, "edge_before": -1}


class Names:
    """Names in the order in which they came; 1 and "1" are the same name."""

    def __init__(self, what: str, names: Iterable[Any] = ()) -> None:
        self.what, self.every = what, list(names)
        self.place = {str(name): position for position, name in enumerate(self.every)}
        if len(self.place) < len(self.every):
            raise InputError(f"The {what} names repeat. Name each {what} once.")

    def __len__(self) -> int:
        return len(self.every)

    def __contains__(self, name: object) -> bool:
        return str(name) in self.place

    def find(self, name: Any) -> int:
        """Position of a name; one that is not there is an error."""
        found = self.place.get(str(name))
        if found is None:
            raise InputError(f"There is no {self.what} {quote(name)}. There are: {listing(self.every)}.")
        return found

    def add(self, name: Any) -> int:
        """Position of a name, which is new if it was not there."""
        found = self.place.get(str(name))
        if found is None:
            if name is None or isinstance(name, float) or not str(name).strip():
                raise InputError(f"A {self.what} is called {quote(name)}; give every {self.what} a name.")
            found = self.place[str(name)] = len(self.every)
            self.every.append(name)
        return found


class Sizes(NamedTuple):
    """Room for tasks, workers and labels."""

    tasks: int
    workers: int
    labels: int


class OnlineModel:
    """Consensus and workers, learnt from labels as they come.

    Parameters
    ----------
    classes
        Names of the classes, in their order; others are added as they come.
    family : "dawid-skene", "one-coin", "confusion-vector", "mean-field"
        What a worker is, as in the methods of these names.
    mode : "exact" or "decay"
        Exact: counts are those of the posteriors of now, of the last `window` labels of the task. Decay: old labels
        count less, by steps t^-0.6 (Cappé & Moulines 2009); a label then costs O(K) for the task and O(K²) for the
        worker, however many labels the task has.
    right, wrong : float, above 0
        Pseudo-counts for each true class, the wrong ones spread over the other classes: how a new worker starts.
    shares : float, 0 or more
        Pseudo-count of each class in the class shares.
    window : int, 0 or more
        Most labels of a task that a new one changes the counts of, in exact mode; 0 for all.
    revisits : int, 0 or more
        Earlier tasks that each label is followed by going over again, in turn, in exact mode: they are judged by what
        has been learnt of the workers since.
    growth : float, 0 or 1.1 or more
        Refit, from the shares of votes, each time that the labels have grown by this factor, up to 100,000 labels; 0
        for never. A stream's first labels are judged before their workers are known, and what was made of them lasts.

    Examples
    --------
    >>> model = OnlineModel(["cat", "dog"])
    >>> for worker in ("ann", "bob"):
    ...     model.add("picture 1", worker, "cat")
    >>> model.posterior("picture 1").round(2).tolist()
    [0.82, 0.18]
    >>> round(model.skill("ann"), 2)
    0.7
    """

    def __init__(
        self,
        classes: Iterable[Any] = (),
        *,
        family: str = "dawid-skene",
        mode: str = "exact",
        right: float = 0.5,
        wrong: float = 0.25,
        shares: float = 1.0,
        window: int = 0,
        revisits: int = 1,
        growth: float = 1.5,
    ) -> None:
        check_choice("family", family, FAMILIES)
        check_choice("mode", mode, MODES)
        check_number("right", right, low=0, above=True)
        check_number("wrong", wrong, low=0, above=True)
        check_number("shares", shares, low=0)
        check_count("window", window, low=0)
        check_count("revisits", revisits, low=0)
        check_number("growth", growth, low=0)
        if 0 < growth < LEAST_GROWTH:
            raise InputError(f"growth is {growth:g}; it must be 0, for never, or {LEAST_GROWTH:g} or more.")
        if family == "mean-field" and shares == 0:
            raise InputError("shares is 0; a mean field needs a number above 0.")
        self.family, self.mode, self.right, self.wrong = family, mode, float(right), float(wrong)
        self.shares, self.window, self.revisits = float(shares), int(window), int(revisits)
        self.growth, self._next_refit = float(growth), FIRST_REFIT if growth else np.inf
        self.tasks, self.workers, self.classes = Names("task"), Names("worker"), Names("class", classes)
        self.n_labels = 0
        self._answered: dict[int, set[int]] = {}  # tasks by worker, as positions
        self._arrays = _make_arrays(Sizes(ROOM, ROOM, ROOM), len(self.classes))
        self._room = Sizes(ROOM, ROOM, ROOM)
        self._set_rule()
        set_tables(self._arrays, self._rule)

    # ---- learning ---------------------------------------------------------------------------------------

    def add(self, task: Any, worker: Any, label: Any) -> None:
        """Take one label in; a task, worker or class that is new is added. A worker answers a task once."""
        pair = (self.add_task(task), self.add_worker(worker))
        answered = self._answered.setdefault(pair[1], set())
        if pair[0] in answered:
            raise InputError(f"{quote(worker)} has answered {quote(task)} before; the model keeps the first answer.")
        k = self.add_class(label)
        edge = self.n_labels
        if edge == self._room.labels:
            self._grow(labels=edge + 1)
        answered.add(pair[0])
        arrays = self._arrays
        arrays.edge_task[edge], arrays.edge_worker[edge], arrays.edge_label[edge] = *pair, k
        self.n_labels = edge + 1
        add_labels(arrays, self._rule, edge, edge + 1, len(self.tasks))
        if self.n_labels >= self._next_refit:
            self._refit_when_grown()

    def partial_fit(self, labels: Any, gold: Any = None) -> Self:
        """Take many labels in, in the order of `CrowdLabels` or of the table's rows that `read_labels` takes.

        Parameters
        ----------
        gold
            Known truth of some tasks, as for `fit` of the methods.
        """
        given = labels if isinstance(labels, CrowdLabels) else read_labels(labels)
        if gold is not None:
            self.set_gold(gold)
        self.add_labels(given, np.arange(given.n_labels))
        return self

    def add_labels(self, labels: CrowdLabels, order: IntArray) -> None:
        """Take some labels in by their positions, in this order."""
        for name in labels.classes.to_pylist():
            self.add_class(name)
        task_of = np.array([self.add_task(name) for name in labels.tasks.to_pylist()], np.int64)
        worker_of = np.array([self.add_worker(name) for name in labels.workers.to_pylist()], np.int64)
        class_of = np.array([self.classes.find(name) for name in labels.classes.to_pylist()], np.int64)
        self.add_codes(task_of[labels.task[order]], worker_of[labels.worker[order]], class_of[labels.label[order]])

    def add_codes(self, task: IntArray, worker: IntArray, label: IntArray) -> None:
        """Take labels in whose tasks, workers and classes the model has, as positions in their names."""
        self._remember_pairs(task, worker)
        first, last = self.n_labels, self.n_labels + len(task)
        self._grow(labels=last)
        arrays = self._arrays
        arrays.edge_task[first:last], arrays.edge_worker[first:last], arrays.edge_label[first:last] = (
            task,
            worker,
            label,
        )
        while first < last:
            self.n_labels = min(last, max(first + 1, int(min(self._next_refit, last))))
            add_labels(arrays, self._rule, first, self.n_labels, len(self.tasks))
            first = self.n_labels
            self._refit_when_grown()

    def _remember_pairs(self, task: IntArray, worker: IntArray) -> None:
        """Note who has answered what, refusing a second answer; the model is as it was if one is refused."""
        fresh: dict[int, set[int]] = {}
        for t, w in zip(task.tolist(), worker.tolist(), strict=True):
            mine = fresh.setdefault(w, set())
            if t in mine or t in self._answered.get(w, ()):
                names = f"{quote(self.workers.every[w])} answers {quote(self.tasks.every[t])}"
                raise InputError(f"{names} more than once, here or in what the model has. Keep one answer.")
            mine.add(t)
        for w, mine in fresh.items():
            self._answered.setdefault(w, set()).update(mine)

    def set_gold(self, gold: Any) -> None:
        """Tell the truth of tasks: a mapping from task to label, or a path or table with columns task and label."""
        truth = read_truth(gold)
        for name, label in zip(truth.tasks.to_pylist(), truth.labels.to_pylist(), strict=True):
            task, k = self.add_task(name), self.add_class(label)
            arrays = self._arrays
            if arrays.n_labels[task] == 0 and arrays.gold[task] < 0:
                arrays.class_counts[k] += 1
                arrays.posterior[task] = np.eye(len(self.classes))[k]
            arrays.gold[task] = k
            if arrays.n_labels[task]:
                revisit_task(arrays, self._rule, task)

    def add_task(self, name: Any) -> int:
        """Position of a task, which is new if it was not there."""
        found = self.tasks.place.get(name) if type(name) is str else None
        if found is None:
            found = self.tasks.add(name)
            if found >= self._room.tasks:
                self._grow(tasks=found + 1)
        return found

    def add_worker(self, name: Any) -> int:
        """Position of a worker, who is new if they were not there."""
        found = self.workers.place.get(name) if type(name) is str else None
        if found is None:
            found = self.workers.add(name)
            if found >= self._room.workers:
                self._grow(workers=found + 1)
        return found

    def add_class(self, name: Any) -> int:
        """Position of a class; a new one takes a pass over the labels."""
        found = self.classes.place.get(name) if type(name) is str else None
        if found is None:
            before = len(self.classes)
            found = self.classes.add(name)
            if len(self.classes) > before:
                self._widen()
        return found

    def replay(self, *, max_iter: int = 1000, tol: float = 1e-10) -> int:
        """Go over the tasks again and again until no posterior moves by more than `tol`: the fixed point of batch EM.

        Returns the number of passes.
        """
        check_count("max_iter", max_iter)
        check_number("tol", tol, low=0)
        self._recount()
        number, moved = 0, np.inf
        while moved > tol and number < max_iter:
            moved, number = revisit_tasks(self._arrays, self._rule, len(self.tasks)), number + 1
        self._recount()
        return number

    def refit(self, *, max_iter: int = 1000, tol: float = 1e-10) -> int:
        """Start again from the shares of votes and pass over all labels, as a batch fit does; the number of passes."""
        check_count("max_iter", max_iter)
        check_number("tol", tol, low=0)
        start_from_votes(self._arrays, self.n_labels, len(self.tasks))
        number, moved = 0, np.inf
        while moved > tol and number < max_iter:
            self._recount()
            moved, number = rescore(self._arrays, self.n_labels, len(self.tasks)), number + 1
        self._recount()
        return number

    def _refit_when_grown(self) -> None:
        """Refit each time that the labels have grown by this factor: what early labels said was judged too early."""
        if self.n_labels >= self._next_refit:
            self.refit(max_iter=PASSES, tol=NEAR)
            following = max(FIRST_REFIT, self.n_labels * self.growth)
            self._next_refit = following if following <= LAST_REFIT else np.inf

    def _recount(self) -> None:
        recount(self._arrays, self._rule, self.n_labels, len(self.tasks), len(self.workers))

    # ---- what it says -----------------------------------------------------------------------------------

    @property
    def prior(self) -> FloatArray:
        """Share of each class (K,)."""
        shares: FloatArray = np.exp(self._arrays.log_prior)
        total: FloatArray = shares / shares.sum()
        return total

    @property
    def posteriors(self) -> FloatArray:
        """Probability of each class for each task (N, K); the class shares where there is no label."""
        return self.posteriors_at(np.arange(len(self.tasks)))

    def posteriors_at(self, at: IntArray) -> FloatArray:
        """The same of the tasks at some positions."""
        told = (self._arrays.n_labels[at] > 0) | (self._arrays.gold[at] >= 0)
        found: FloatArray = np.where(told[:, None], self._arrays.posterior[at], self.prior)
        return found

    def posterior(self, task: Any) -> FloatArray:
        """Probability of each class (K,) for a task."""
        place = self.tasks.find(task)
        told = self._arrays.n_labels[place] > 0 or self._arrays.gold[place] >= 0
        return self._arrays.posterior[place].copy() if told else self.prior

    def consensus(self, task: Any) -> tuple[Any, float]:
        """The most probable class of a task, by name, and its probability."""
        found = self.posterior(task)
        best = int(found.argmax())
        return self.classes.every[best], float(found[best])

    @property
    def confusions(self) -> FloatArray:
        """P(worker says l | truth is k), (M, K, K) [worker, truth, label]."""
        tables = np.exp(self._arrays.log_table[: len(self.workers)]).transpose(0, 2, 1)
        shares: FloatArray = tables / tables.sum(axis=2, keepdims=True)
        return shares

    def confusion(self, worker: Any) -> FloatArray:
        """P(the worker says l | truth is k), (K, K) [truth, label]."""
        table = np.exp(self._arrays.log_table[self.workers.find(worker)]).T
        shares: FloatArray = table / table.sum(axis=1, keepdims=True)
        return shares

    @property
    def confusion_of_new_worker(self) -> FloatArray:
        """P(label | truth) that a worker starts with, (K, K) [truth, label]."""
        shares: FloatArray = self._rule.pseudo.T / self._rule.pseudo.sum(axis=0)[:, None]
        return shares

    @property
    def skill_counts(self) -> FloatArray:
        """Right and wrong answers (M, 2) of each worker, pseudo-counts of one class included: a Beta of the skill."""
        counts = self._arrays.counts[: len(self.workers)]
        right = np.einsum("wkk->w", counts)
        wrong = np.maximum(counts.sum(axis=(1, 2)) - right, 0)
        return np.stack([right + self.right, wrong + self.wrong], axis=1)

    @property
    def skills(self) -> FloatArray:
        """Chance to be right of each worker (M,)."""
        counts = self.skill_counts
        shares: FloatArray = counts[:, 0] / counts.sum(axis=1)
        return shares

    def skill(self, worker: Any) -> float:
        """Chance that the worker is right: the share of right answers, pseudo-counts included."""
        return float(self.skills[self.workers.find(worker)])

    @property
    def labels_per_task(self) -> IntArray:
        """Number of labels of each task (N,)."""
        return self._arrays.n_labels[: len(self.tasks)]

    @property
    def labels_per_worker(self) -> IntArray:
        """Number of labels of each worker (M,)."""
        return self._arrays.n_answers[: len(self.workers)]

    @property
    def gold(self) -> IntArray:
        """Known class of each task (N,), -1 where it is not known."""
        return self._arrays.gold[: len(self.tasks)]

    def has_answered(self, task: Any, worker: Any) -> bool:
        """Whether the worker has labelled the task."""
        return self.tasks.find(task) in self._answered.get(self.workers.find(worker), ())

    def answered_by(self, worker: int) -> IntArray:
        """Positions of the tasks that the worker at this position has labelled."""
        tasks = self._answered.get(worker, ())
        return np.fromiter(tasks, np.int64, len(tasks))

    def to_labels(self) -> CrowdLabels:
        """All labels so far."""
        arrays, last = self._arrays, self.n_labels
        return CrowdLabels.from_codes(
            arrays.edge_task[:last],
            arrays.edge_worker[:last],
            arrays.edge_label[:last],
            tasks=self.tasks.every,
            workers=self.workers.every,
            classes=self.classes.every,
        )

    # ---- keeping ----------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write the state into a folder, which appears whole or not at all."""
        from crowdwise.fitting.online_saving import save_online_model

        save_online_model(self, folder)

    @classmethod
    def load(cls, folder: str | Path) -> OnlineModel:
        """Read what `save` wrote."""
        from crowdwise.fitting.online_saving import load_online_model

        return load_online_model(folder)

    def merge(self, other: OnlineModel) -> Self:
        """Add the labels, gold and counts of another model of the same settings, which saw other labels.

        With decayed counts those of both are added; exact ones are those of the joint posteriors.
        """
        if other.settings != self.settings:
            raise InputError(f"The models have other settings: {quote(self.settings)} and {quote(other.settings)}.")
        for k in other.classes.every:
            self.add_class(k)
        task_of = np.array([self.add_task(name) for name in other.tasks.every], np.int64)
        worker_of = np.array([self.add_worker(name) for name in other.workers.every], np.int64)
        class_of = np.array([self.classes.find(name) for name in other.classes.every], np.int64)
        theirs, more = other._arrays, other.n_labels
        task, worker = task_of[theirs.edge_task[:more]], worker_of[theirs.edge_worker[:more]]
        known = theirs.gold[: task_of.size]
        mine = self._arrays.gold[task_of]
        if np.any((known >= 0) & (mine >= 0) & (class_of[known] != mine)):
            raise InputError("The models were told different truths of a task.")
        self._remember_pairs(task, worker)
        first, last = self.n_labels, self.n_labels + more
        self._grow(labels=last)
        arrays = self._arrays
        arrays.edge_task[first:last], arrays.edge_worker[first:last] = task, worker
        arrays.edge_label[first:last] = class_of[theirs.edge_label[:more]]
        arrays.gold[task_of[known >= 0]] = class_of[known[known >= 0]]
        cells = np.ix_(worker_of, class_of, class_of)
        arrays.counts[cells] += theirs.counts[: worker_of.size]
        arrays.weight[worker_of] = np.maximum(arrays.weight[worker_of], theirs.weight[: worker_of.size])
        self.n_labels = last
        self._chain()
        counted = None if self.mode == "exact" else arrays.counts.copy()
        set_tables(arrays, self._rule)
        rescore(arrays, last, len(self.tasks))
        self._recount()
        if counted is not None:
            arrays.counts[:] = counted
            set_tables(arrays, self._rule)
        return self

    def restore(self, tasks: list[Any], workers: list[Any], saved: dict[str, Any]) -> None:
        """Take the place of a saved model of the same settings and classes; `saved` are its arrays by name."""
        self.tasks, self.workers = Names("task", tasks), Names("worker", workers)
        self.n_labels = len(saved["edge_task"])
        self._grow(tasks=len(tasks), workers=len(workers), labels=self.n_labels)
        for name, values in saved.items():
            getattr(self._arrays, name)[: len(values)] = values
        self._remember_pairs(saved["edge_task"], saved["edge_worker"])
        self._chain()
        set_tables(self._arrays, self._rule)

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters, classes aside."""
        return {
            name: getattr(self, name)
            for name in ("family", "mode", "right", "wrong", "shares", "window", "revisits", "growth")
        }

    def _chain(self) -> None:
        """Set what follows from the labels alone: how many a task and a worker have, and which came before which."""
        arrays, last = self._arrays, self.n_labels
        task, worker = arrays.edge_task[:last], arrays.edge_worker[:last]
        arrays.n_labels[:] = np.bincount(task, minlength=arrays.n_labels.size)
        arrays.n_answers[:] = np.bincount(worker, minlength=arrays.n_answers.size)
        arrays.last_edge[:], arrays.edge_before[:last] = chain_labels(task, arrays.last_edge.size)

    # ---- room -------------------------------------------------------------------------------------------

    def _set_rule(self) -> None:
        n_classes = len(self.classes)
        pseudo = diagonal_prior(self.right, self.wrong / max(n_classes - 1, 1), n_classes)
        self._rule = OnlineRule(
            FAMILIES.index(self.family),
            self.mode == "exact",
            self.window,
            np.ascontiguousarray(pseudo.T),
            self.shares,
            self.revisits,
        )

    def _grow(self, **needed: int) -> None:
        """Make room for so many tasks, workers or labels: twice as much as there was, if there was too little."""
        room = Sizes(
            **{name: max(size, 2 * size if needed.get(name, 0) > size else 0, needed.get(name, 0))
               for name, size in self._room._asdict().items()}
        )  # fmt: skip
        if room != self._room:
            self._resize(room, len(self.classes))

    def _resize(self, room: Sizes, n_classes: int) -> None:
        larger = _make_arrays(room, n_classes)
        for name, values in self._arrays._asdict().items():
            getattr(larger, name)[tuple(slice(size) for size in values.shape)] = values
        known = len(self._arrays.weight) if n_classes == len(self._arrays.log_prior) else 0
        self._arrays, self._room = larger, room
        set_tables(larger, self._rule, known)

    def _widen(self) -> None:
        """Room for one more class, of which the labels so far say what the pseudo-counts say."""
        self._set_rule()
        self._resize(self._room, len(self.classes))
        rescore(self._arrays, self.n_labels, len(self.tasks))
        self._recount()


def _make_arrays(room: Sizes, n_classes: int) -> OnlineArrays:
    shapes: dict[str, tuple[int, ...]] = {
        "score": (room.tasks, n_classes),
        "posterior": (room.tasks, n_classes),
        "gold": (room.tasks,),
        "last_edge": (room.tasks,),
        "n_labels": (room.tasks,),
        "counts": (room.workers, n_classes, n_classes),
        "log_table": (room.workers, n_classes, n_classes),
        "weight": (room.workers,),
        "n_answers": (room.workers,),
        "edge_task": (room.labels,),
        "edge_worker": (room.labels,),
        "edge_label": (room.labels,),
        "edge_before": (room.labels,),
        "class_counts": (n_classes,),
        "log_prior": (n_classes,),
    }
    whole = {"gold", "last_edge", "n_labels", "n_answers", "edge_task", "edge_worker", "edge_label", "edge_before"}
    arrays: dict[str, Any] = {
        name: np.full(shape, EMPTY.get(name, 0), np.int64 if name in whole else np.float64)
        for name, shape in shapes.items()
    }
    return OnlineArrays(**arrays)
