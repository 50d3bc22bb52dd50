"""The state of a model that learns label by label: arrays with room to grow, and how labels are taken in.

The equations are in `kernels.online_em`. A new task or worker costs O(1) on average, a new class one pass over the
labels.

What saw a truth: the pseudo-counts of new workers, when and how long labels are refitted (`FIRST_REFIT`, `LAST_REFIT`,
`PASSES`, `NEAR`, the growth of 1.2) and the one revisit a label were chosen while the accuracy of streams of dog, rte
and web was looked at; those three are no test of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.fitting.online_arrays import Sizes, make_arrays
from crowdwise.fitting.online_lock import Locked, hold_lock
from crowdwise.fitting.online_names import Names
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
    swap_truth_and_label,
)
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.integer_codes import check_codes
from crowdwise.labels.read import read_labels
from crowdwise.labels.truth import read_truth

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from crowdwise.labels.types import IntArray

__all__ = ["OnlineState"]

ROOM = 64  # tasks, workers and labels that there is room for at first
FIRST_REFIT, LAST_REFIT = 100.0, 30_000.0  # labels; later ones move little, and a pass over them takes a while
START_COUNTS, MEAN_FIELD_COUNTS = (0.5, 0.25), (2.0, 1.0)  # right and wrong; those of `MeanField` for its family
MOST_WAITING = 256  # labels that are taken in together, unless something is asked before
PASSES, NEAR = 15, 1e-2  # of a refit on the way
LEAST_GROWTH = 1.1
MOST_REVISITS = 1000  # each takes as long as a label
MODES = ("exact", "decay")


class OnlineState(Locked):
    """What `OnlineModel` knows, which has its parameters, and how it learns."""

    def __init__(
        self,
        classes: Iterable[Any] = (),
        *,
        family: str = "dawid-skene",
        mode: str = "exact",
        right: float | None = None,
        wrong: float | None = None,
        shares: float = 1.0,
        window: int = 0,
        revisits: int = 1,
        growth: float = 1.2,
    ) -> None:
        super().__init__()
        check_choice("family", family, FAMILIES)
        check_choice("mode", mode, MODES)
        usual = MEAN_FIELD_COUNTS if family == "mean-field" else START_COUNTS
        right, wrong = usual[0] if right is None else right, usual[1] if wrong is None else wrong
        check_number("right", right, low=0, above=True)
        check_number("wrong", wrong, low=0, above=True)
        check_number("shares", shares, low=0)
        check_count("window", window, low=0)
        check_count("revisits", revisits, low=0, high=MOST_REVISITS)
        check_number("growth", growth, low=0)
        if 0 < growth < LEAST_GROWTH:
            raise InputError(f"growth is {growth:g}; it must be 0, for never, or {LEAST_GROWTH:g} or more.")
        if family == "mean-field" and shares == 0:
            raise InputError("shares is 0; a mean field needs a number above 0.")
        self.family, self.mode, self.right, self.wrong = family, mode, float(right), float(wrong)
        self.shares, self.window, self.revisits = float(shares), int(window), int(revisits)
        self.growth, self.next_refit = float(growth), FIRST_REFIT if growth else np.inf
        self.tasks, self.workers, self.classes = Names("task"), Names("worker"), Names("class", classes)
        self.n_labels = 0
        self._taken = 0  # labels that the arrays have been brought up to
        self._answered: dict[int, set[int]] = {}  # tasks by worker, as positions
        self._held = make_arrays(Sizes(ROOM, ROOM, ROOM), len(self.classes))
        self._room = Sizes(ROOM, ROOM, ROOM)
        self._set_rule()
        set_tables(self._held, self._rule)

    @hold_lock
    def add(self, task: Any, worker: Any, label: Any) -> None:
        """Take one label in; a task, worker or class that is new is added. A worker answers a task once.

        What it says of tasks and workers is worked out when they are next asked for, or after a few hundred labels.
        """
        t, w = self.tasks.get(task), self.workers.get(worker)
        if t is not None and w is not None and t in self._answered.get(w, ()):
            raise InputError(f"{quote(worker)} has answered {quote(task)} before; the model keeps the first answer.")
        if t is None:
            self.tasks.check(task)
        if w is None:
            self.workers.check(worker)
        if label not in self.classes:
            self.classes.refuse_twins([self.classes.check(label)])
        k = self.add_class(label)  # from here on nothing is refused
        t, w = self.add_task(task) if t is None else t, self.add_worker(worker) if w is None else w
        edge = self.n_labels
        if edge == self._room.labels:
            self._grow(labels=edge + 1)
        self._answered.setdefault(w, set()).add(t)
        held = self._held
        held.edge_task[edge], held.edge_worker[edge], held.edge_label[edge] = t, w, k
        self.n_labels = edge + 1
        if edge - self._taken >= MOST_WAITING:
            self._take_in()

    def partial_fit(self, labels: Any, gold: Any = None) -> Self:
        """Take many labels in, in the order of `CrowdLabels` or of the table's rows that `read_labels` takes.

        Parameters
        ----------
        gold
            Known truth of some tasks, as for `fit` of the methods.
        """
        given = labels if isinstance(labels, CrowdLabels) else read_labels(labels)
        order = np.arange(given.n_labels)
        if gold is None:
            self.add_labels(given, order)
            return self
        truth = read_truth(gold)
        with self.lock:
            self._foresee(given, order)  # labels that are refused must not leave the gold behind
            Names("class", self.classes.foresee(given.classes.to_pylist())[1]).refuse_twins(truth.labels.to_pylist())
            self.set_gold(truth)
            self.add_labels(given, order)
        return self

    @hold_lock
    def add_labels(self, labels: CrowdLabels, order: IntArray) -> None:
        """Take some labels in by their positions, in this order."""
        if not isinstance(labels, CrowdLabels):
            raise InputError(f"labels are {quote(type(labels).__name__)}; give CrowdLabels, or use partial_fit.")
        order = check_codes(order, labels.n_labels, "order")
        task, worker, pairs = self._foresee(labels, order)
        class_of = np.array([self.add_class(name) for name in labels.classes.to_pylist()], np.int64)
        for names, add in ((labels.tasks, self.add_task), (labels.workers, self.add_worker)):
            for name in names.to_pylist():
                add(name)
        self._append(task, worker, class_of[labels.label[order]], pairs)

    @hold_lock
    def add_codes(self, task: IntArray, worker: IntArray, label: IntArray) -> None:
        """Take labels in whose tasks, workers and classes the model has, as positions in their names."""
        sizes = (len(self.tasks), len(self.workers), len(self.classes))
        task, worker, label = (
            check_codes(codes, size, what)
            for codes, size, what in zip((task, worker, label), sizes, ("task", "worker", "label"), strict=True)
        )
        if not len(task) == len(worker) == len(label):
            raise InputError(
                f"task, worker and label must have the same length; they have {len(task)}, {len(worker)}, {len(label)}."
            )
        self._append(task, worker, label, self._find_pairs(task, worker, self.tasks.every, self.workers.every))

    def _foresee(self, labels: CrowdLabels, order: IntArray) -> tuple[IntArray, IntArray, dict[int, set[int]]]:
        """Tasks and workers of labels as positions once their names are there, and the pairs; nothing is changed."""
        self.classes.refuse_twins(labels.classes.to_pylist())
        task_of, tasks = self.tasks.foresee(labels.tasks.to_pylist())
        worker_of, workers = self.workers.foresee(labels.workers.to_pylist())
        task, worker = task_of[labels.task[order]], worker_of[labels.worker[order]]
        return task, worker, self._find_pairs(task, worker, tasks, workers)

    def _append(self, task: IntArray, worker: IntArray, label: IntArray, pairs: dict[int, set[int]]) -> None:
        first, last = self.n_labels, self.n_labels + len(task)
        self._grow(labels=last)
        self._remember_pairs(pairs)
        held = self._held
        held.edge_task[first:last], held.edge_worker[first:last], held.edge_label[first:last] = task, worker, label
        self.n_labels = last
        self._take_in()

    @property
    @hold_lock
    def _arrays(self) -> OnlineArrays:
        """The state, all labels taken in."""
        if self._taken < self.n_labels:
            self._take_in()
        return self._held

    def _take_in(self) -> None:
        """Bring the state up to all labels, in their order, with a refit each time that they have grown enough."""
        last = self.n_labels
        try:
            while self._taken < last:
                self.n_labels = min(last, max(self._taken + 1, int(min(self.next_refit, last))))
                add_labels(self._held, self._rule, self._taken, self.n_labels)
                self._taken = self.n_labels
                if self.n_labels >= self.next_refit:
                    self.refit(max_iter=PASSES, tol=NEAR)
                    following = max(FIRST_REFIT, self.n_labels * self.growth)
                    self.next_refit = following if following <= LAST_REFIT else np.inf
        except BaseException:  # interrupted, some labels half counted: none is lost, all are counted again
            self.n_labels = self._taken = last
            self._chain()
            set_tables(self._held, self._rule)
            rescore(self._held, last, len(self.tasks))
            self._recount()
            raise

    def _chain(self) -> None:
        """Set what follows from the labels alone: how many a task and a worker have, and which came before which."""
        held, last = self._held, self.n_labels
        task, worker = held.edge_task[:last], held.edge_worker[:last]
        held.n_labels[:] = np.bincount(task, minlength=held.n_labels.size)
        held.n_answers[:] = np.bincount(worker, minlength=held.n_answers.size)
        held.last_edge[:], held.edge_before[:last] = chain_labels(task, held.last_edge.size)

    def _find_pairs(
        self, task: IntArray, worker: IntArray, tasks: list[Any], workers: list[Any]
    ) -> dict[int, set[int]]:
        """Who answers what in new labels, as positions in these names, refusing a second answer."""
        fresh: dict[int, set[int]] = {}
        for t, w in zip(task.tolist(), worker.tolist(), strict=True):
            mine = fresh.setdefault(w, set())
            if t in mine or t in self._answered.get(w, ()):
                names = f"{quote(workers[w])} answers {quote(tasks[t])}"
                raise InputError(
                    f"{names} more than once, here or in what the model has. Keep one answer, as "
                    "read_labels does with on_duplicate='first' or 'last' (on the command line --on-duplicate first)."
                )
            mine.add(t)
        return fresh

    def _remember_pairs(self, pairs: dict[int, set[int]]) -> None:
        for w, tasks in pairs.items():
            self._answered.setdefault(w, set()).update(tasks)

    def set_gold(self, gold: Any) -> None:
        """Tell the truth of tasks: a mapping from task to label, or a path or table with columns task and label."""
        truth = read_truth(gold)
        with self.lock:
            self.classes.refuse_twins(truth.labels.to_pylist())
            for name, label in zip(truth.tasks.to_pylist(), truth.labels.to_pylist(), strict=True):
                task, k = self.add_task(name), self.add_class(label)
                arrays = self._arrays
                newly = bool(arrays.n_labels[task] == 0 and arrays.gold[task] < 0)
                arrays.gold[task] = k
                revisit_task(arrays, self._rule, task, newly)

    @hold_lock
    def add_task(self, name: Any) -> int:
        """Position of a task, which is new if it was not there."""
        found = self.tasks.place.get(name) if type(name) is str else None
        return self._add_name("tasks", name) if found is None else found

    @hold_lock
    def add_worker(self, name: Any) -> int:
        """Position of a worker, who is new if they were not there."""
        found = self.workers.place.get(name) if type(name) is str else None
        return self._add_name("workers", name) if found is None else found

    def _add_name(self, which: str, name: Any) -> int:
        found: int = getattr(self, which).add(name)
        if found >= getattr(self._room, which):
            self._grow(**{which: found + 1})
        return found

    @hold_lock
    def add_class(self, name: Any) -> int:
        """Position of a class; a new one takes a pass over the labels."""
        found = self.classes.place.get(name) if type(name) is str else None
        if found is None:
            before = len(self.classes)
            found = self.classes.add(name)
            if len(self.classes) > before:
                self._widen()
        return found

    @hold_lock
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

    @hold_lock
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

    def _recount(self) -> None:
        recount(self._arrays, self._rule, self.n_labels, len(self.tasks), len(self.workers))

    def _set_rule(self) -> None:
        n_classes = len(self.classes)
        pseudo = diagonal_prior(self.right, self.wrong / max(n_classes - 1, 1), n_classes)
        self._rule = OnlineRule(
            FAMILIES.index(self.family),
            self.mode == "exact",
            self.window,
            np.ascontiguousarray(swap_truth_and_label(pseudo)),
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
        larger = make_arrays(room, n_classes)
        for name, values in self._held._asdict().items():
            getattr(larger, name)[tuple(slice(size) for size in values.shape)] = values
        known = len(self._held.weight) if n_classes == len(self._held.log_prior) else 0
        self._held, self._room = larger, room
        set_tables(larger, self._rule, known)

    def _widen(self) -> None:
        """Room for one more class, of which the labels so far say what the pseudo-counts say."""
        self._take_in()  # by the classes of before
        self._set_rule()
        self._resize(self._room, len(self.classes))
        rescore(self._arrays, self.n_labels, len(self.tasks))
        self._recount()
