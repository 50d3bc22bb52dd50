"""A model that learns label by label: what a stream of labels says of tasks and workers so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.fitting.online_lock import hold_lock
from crowdwise.fitting.online_names import Names
from crowdwise.fitting.online_state import OnlineState
from crowdwise.kernels.online_em import LEAST, log_tables, rescore, set_tables, softmax, swap_truth_and_label
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["OnlineModel", "check_online_model"]

BLOCK = 4_000_000  # numbers of workers' tables held at a time


class OnlineModel(OnlineState):
    """Consensus and workers, learnt from labels as they come.

    Parameters
    ----------
    classes
        Names of the classes, in their order; others are added as they come, but none that differs from one that is
        there only in case or blanks.
    family : "dawid-skene", "one-coin", "confusion-vector", "mean-field"
        What a worker is, as in the methods of these names.
    mode : "exact" or "decay"
        Exact: counts are those of the posteriors of now, of the last `window` labels of the task. Decay: old labels
        count less, by steps t^-0.6 (Cappé & Moulines 2009); a label then costs O(K) for the task and O(K²) for the
        worker, however many labels the task has.
    right, wrong : float, above 0
        Pseudo-counts for each true class, the wrong ones spread over the other classes: how a new worker starts. By
        default 0.5 and 0.25, for a mean field 2 and 1.
    shares : float, 0 or more
        Pseudo-count of each class in the class shares.
    window : int, 0 or more
        Most labels of a task that a new one changes the counts of, in exact mode; 0 for all.
    revisits : int, 0 to 1000
        Earlier tasks that each label is followed by going over again, in exact mode: they are judged by what
        has been learnt of the workers since.
    growth : float, 0 or 1.1 or more
        Refit, from the shares of votes, each time that the labels have grown by this factor, up to 30,000 labels; 0
        for never. A stream's first labels are judged before their workers are known, and what was made of them lasts.

    Attributes
    ----------
    lock
        Several threads may use a model: each call is done whole before the next. Hold this lock (`with model.lock:`)
        around calls that belong together.

    Notes
    -----
    A call that is refused leaves the model as it was.

    Examples
    --------
    >>> model = OnlineModel(["cat", "dog"])
    >>> for worker in ("ann", "bob"):
    ...     model.add("picture 1", worker, "cat")
    >>> model.posterior("picture 1").round(2).tolist()
    [0.82, 0.18]
    >>> round(model.skill("ann"), 2)
    0.75
    """

    # ---- what it says -----------------------------------------------------------------------------------

    @property
    @hold_lock
    def prior(self) -> FloatArray:
        """Share of each class (K,)."""
        shares: FloatArray = np.exp(self._arrays.log_prior)
        total: FloatArray = shares / shares.sum()
        return total

    @property
    @hold_lock
    def posteriors(self) -> FloatArray:
        """Probability of each class for each task (N, K); the class shares where there is no label."""
        return self.posteriors_at(np.arange(len(self.tasks)))

    @hold_lock
    def posteriors_at(self, at: IntArray) -> FloatArray:
        """The same of the tasks at some positions."""
        told = (self._arrays.n_labels[at] > 0) | (self._arrays.gold[at] >= 0)
        found: FloatArray = np.where(told[:, None], self._arrays.posterior[at], self.prior)
        return found

    @hold_lock
    def posterior(self, task: Any) -> FloatArray:
        """Probability of each class (K,) for a task."""
        place = self.tasks.find(task)
        told = self._arrays.n_labels[place] > 0 or self._arrays.gold[place] >= 0
        return self._arrays.posterior[place].copy() if told else self.prior

    @hold_lock
    def consensus(self, task: Any) -> tuple[Any, float]:
        """The most probable class of a task, by name, and its probability."""
        found = self.posterior(task)
        if not found.size:
            raise InputError("The model has no classes yet. Declare them, or add labels.")
        best = int(found.argmax())
        return self.classes.every[best], float(found[best])

    @property
    @hold_lock
    def confusions(self) -> FloatArray:
        """P(worker says l | truth is k), (M, K, K) [worker, truth, label]."""
        tables = swap_truth_and_label(np.exp(self._arrays.log_table[: len(self.workers)]))
        shares: FloatArray = tables / tables.sum(axis=2, keepdims=True)
        return shares

    @hold_lock
    def confusion(self, worker: Any) -> FloatArray:
        """P(the worker says l | truth is k), (K, K) [truth, label]."""
        table = swap_truth_and_label(np.exp(self._arrays.log_table[self.workers.find(worker)]))
        shares: FloatArray = table / table.sum(axis=1, keepdims=True)
        return shares

    @property
    @hold_lock
    def dirichlet_counts(self) -> FloatArray:
        """Answers of each worker, pseudo-counts included, (M, K, K) [worker, truth, label]."""
        return swap_truth_and_label(self._arrays.counts[: len(self.workers)] + self._rule.pseudo)

    @property
    @hold_lock
    def answer_counts(self) -> FloatArray:
        """Expected answers of each worker, (M, K, K) [worker, truth, label], without pseudo-counts."""
        return swap_truth_and_label(np.maximum(self._arrays.counts[: len(self.workers)], 0.0))

    @property
    @hold_lock
    def class_counts(self) -> FloatArray:
        """Expected number of tasks of each class (K,), of those with labels or gold."""
        return np.maximum(self._arrays.class_counts, 0.0)

    @property
    @hold_lock
    def confusion_of_new_worker(self) -> FloatArray:
        """P(label | truth) that a worker starts with, (K, K) [truth, label]."""
        shares: FloatArray = swap_truth_and_label(self._rule.pseudo / self._rule.pseudo.sum(axis=0))
        return shares

    @property
    @hold_lock
    def skill_counts(self) -> FloatArray:
        """Right and wrong answers (M, 2) of each worker, pseudo-counts of one class included: a Beta of the skill."""
        counts = self._arrays.counts[: len(self.workers)]
        right = np.einsum("wkk->w", counts)
        wrong = np.maximum(counts.sum(axis=(1, 2)) - right, 0)
        return np.stack([right + self.right, wrong + self.wrong], axis=1)

    @property
    @hold_lock
    def skills(self) -> FloatArray:
        """Chance to be right of each worker (M,)."""
        counts = self.skill_counts
        shares: FloatArray = counts[:, 0] / counts.sum(axis=1)
        return shares

    @hold_lock
    def skill(self, worker: Any) -> float:
        """Chance that the worker is right: the share of right answers, pseudo-counts included."""
        return float(self.skills[self.workers.find(worker)])

    @property
    @hold_lock
    def labels_per_task(self) -> IntArray:
        """Number of labels of each task (N,)."""
        return _as_read_only(self._arrays.n_labels[: len(self.tasks)])

    @property
    @hold_lock
    def labels_per_worker(self) -> IntArray:
        """Number of labels of each worker (M,)."""
        return _as_read_only(self._arrays.n_answers[: len(self.workers)])

    @property
    @hold_lock
    def gold(self) -> IntArray:
        """Known class of each task (N,), -1 where it is not known."""
        return _as_read_only(self._arrays.gold[: len(self.tasks)])

    @hold_lock
    def has_answered(self, task: Any, worker: Any) -> bool:
        """Whether the worker has labelled the task."""
        return self.tasks.find(task) in self._answered.get(self.workers.find(worker), ())

    @hold_lock
    def answered_by(self, worker: int) -> IntArray:
        """Positions of the tasks that the worker at this position has labelled."""
        tasks = self._answered.get(worker, ())
        return np.fromiter(tasks, np.int64, len(tasks))

    @hold_lock
    def evidence_of_labels(self, task: int) -> FloatArray:
        """Log P(label | truth) of each label of the task at this position, in the order they came, (labels, K).

        Each by the worker's other answers: what this task itself adds to their counts is left out.
        """
        arrays, edges = self._arrays, []
        edge = int(arrays.last_edge[task])
        while edge >= 0:
            edges.append(edge)
            edge = int(arrays.edge_before[edge])
        order = np.array(edges[::-1], np.int64)
        worker, label, one = arrays.edge_worker[order], arrays.edge_label[order], np.arange(order.size)
        others = arrays.counts[worker]
        others[one, label] = np.maximum(others[one, label] - arrays.posterior[task], 0.0)
        found: FloatArray = log_tables(others, self._rule)[one, label]
        return found

    @hold_lock
    def evidence_of_every_label(self) -> tuple[IntArray, FloatArray]:
        """Task of every label, (E,), in the order they came, and its evidence, (E, K), as of `evidence_of_labels`."""
        arrays, last = self._arrays, self.n_labels
        found = np.empty((last, len(self.classes)))
        step = max(BLOCK // max(len(self.classes), 1) ** 2, 1)
        for first in range(0, last, step):
            part = slice(first, min(first + step, last))
            worker, label, task = arrays.edge_worker[part], arrays.edge_label[part], arrays.edge_task[part]
            one = np.arange(label.size)
            others = arrays.counts[worker]
            others[one, label] = np.maximum(others[one, label] - arrays.posterior[task], 0.0)
            found[part] = log_tables(others, self._rule)[one, label]
        return arrays.edge_task[:last].copy(), found

    @hold_lock
    def support_of_labels(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Worker and label of every answer, (E,) each, and the chance that it is right by the task's other labels."""
        arrays, last = self._arrays, self.n_labels
        worker, label = arrays.edge_worker[:last], arrays.edge_label[:last]
        log_posterior = np.log(np.maximum(arrays.posterior[arrays.edge_task[:last]], LEAST))
        found: FloatArray = softmax(log_posterior - arrays.log_table[worker, label])[np.arange(last), label]
        return worker, label, found

    @hold_lock
    def to_codes(self) -> tuple[IntArray, IntArray, IntArray]:
        """Task, worker and class of every label as positions, (E,) each, in the order they came."""
        arrays, last = self._arrays, self.n_labels
        task, worker, label = (
            codes[:last].astype(np.int64) for codes in (arrays.edge_task, arrays.edge_worker, arrays.edge_label)
        )
        return task, worker, label

    @hold_lock
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
        check_online_model("other", other)
        if other.settings != self.settings:
            raise InputError(f"The models have other settings: {quote(self.settings)} and {quote(other.settings)}.")
        models: list[OnlineModel] = [self, other]
        one, two = sorted(models, key=id)  # in one order, or two threads could wait for each other
        with one.lock, two.lock:
            self._merge(other)
        return self

    def _merge(self, other: OnlineModel) -> None:
        self.classes.refuse_twins(other.classes.every)
        task_of, tasks = self.tasks.foresee(other.tasks.every)
        worker_of, workers = self.workers.foresee(other.workers.every)
        class_of, _ = self.classes.foresee(other.classes.every)
        theirs, more = other._arrays, other.n_labels
        task, worker = task_of[theirs.edge_task[:more]], worker_of[theirs.edge_worker[:more]]
        known = theirs.gold[: task_of.size]
        mine = np.full(len(tasks), -1)
        mine[: len(self.tasks)] = self.gold
        mine = mine[task_of]
        if np.any((known >= 0) & (mine >= 0) & (np.append(class_of, -1)[known] != mine)):
            raise InputError("The models were told different truths of a task.")
        pairs = self._find_pairs(task, worker, tasks, workers)
        for names, add in ((other.classes, self.add_class), (other.tasks, self.add_task)):
            for name in names.every:
                add(name)
        for name in other.workers.every:
            self.add_worker(name)
        first, last = self.n_labels, self.n_labels + more
        self._grow(labels=last)
        self._remember_pairs(pairs)
        arrays = self._arrays
        arrays.edge_task[first:last], arrays.edge_worker[first:last] = task, worker
        arrays.edge_label[first:last] = class_of[theirs.edge_label[:more]]
        arrays.gold[task_of[known >= 0]] = class_of[known[known >= 0]]
        cells = np.ix_(worker_of, class_of, class_of)
        arrays.counts[cells] += theirs.counts[: worker_of.size]
        arrays.weight[worker_of] = np.maximum(arrays.weight[worker_of], theirs.weight[: worker_of.size])
        self.n_labels = self._taken = last
        self._chain()
        counted = None if self.mode == "exact" else arrays.counts.copy()
        set_tables(arrays, self._rule)
        rescore(arrays, last, len(self.tasks))
        self._recount()
        if counted is not None:
            arrays.counts[:] = counted
            set_tables(arrays, self._rule)

    def restore(self, tasks: list[Any], workers: list[Any], saved: dict[str, Any]) -> None:
        """Take the place of a saved model of the same settings and classes; `saved` are its arrays by name."""
        self.tasks, self.workers = Names("task", tasks), Names("worker", workers)
        self.n_labels = self._taken = len(saved["edge_task"])
        self._grow(tasks=len(tasks), workers=len(workers), labels=self.n_labels)
        for name, values in saved.items():
            getattr(self._arrays, name)[: len(values)] = values
        self._remember_pairs(self._find_pairs(saved["edge_task"], saved["edge_worker"], tasks, workers))
        self._chain()
        set_tables(self._arrays, self._rule)

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters, classes aside."""
        return {
            name: getattr(self, name)
            for name in ("family", "mode", "right", "wrong", "shares", "window", "revisits", "growth")
        }


def check_online_model(name: str, given: Any) -> None:
    """Refuse a parameter that is no online model."""
    if not isinstance(given, OnlineModel):
        raise InputError(f"{name} is {quote(given)}; it must be a crowdwise.acquire.OnlineModel.")


def _as_read_only(values: IntArray) -> IntArray:
    """A view of the state that its reader cannot change."""
    view = values.view()
    view.flags.writeable = False
    return view
