"""What everyone else says of a task: the consensus that a worker's labels are held against, her own left out.

One Dawid–Skene fit of the whole crowd, with a pseudo-count, gives the class shares and each worker's matrix A. By
Bayes' rule the posterior of task t without the labels of some workers is

    q[t, k] ∝ prior[k] Π_{others w'} A[w', k, l(t, w')],

so that leaving out needs no other fit: O(labels × K). The matrices of the others were fitted with her labels in sight,
which matters little where tasks have three labels or more.

Labels are noisy and so is the consensus. A table of a worker's labels against the most probable class would count the
consensus' errors as hers. `rates` instead regresses her labels on the posterior,

    A = argmin Σ_e |onehot(label_e) − Aᵀ q_e|² = (Σ q qᵀ)⁻¹ Σ q onehotᵀ,

which is unbiased where the posterior is calibrated, because given the truth her label is independent of what the others
said: E[onehot | q] = Aᵀ q. With a known truth (q of zeros and ones) it is the table of counts, divided by its row sums.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.aggregate.dawid_skene import DawidSkene
from crowdwise.fitting.em import NotConverged
from crowdwise.labels.truth import truth_codes

if TYPE_CHECKING:
    from typing import Any

    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["Reference", "edge_outer", "fit_reference", "one_hot", "rates", "task_classes"]

SMOOTHING = 0.5  # pseudo-count of every cell of a worker's matrix: no label is impossible
RIDGE = 0.1  # pseudo-answers of a class in the regression, which keep a class that nobody met at zero


class Reference(NamedTuple):
    """The crowd's own model.

    Attributes
    ----------
    log_prior : (K,)
    confusion : (M, K, K) [worker, truth, label]
    posterior : (N, K)
    support : (n_labels, K)
        Log-probability of each label for every truth.
    pair, n_pairs : (n_labels,), int
        Number of the (task, worker) pair of each label: a worker who answers a task twice has one pair.
    truth : (N,)
        Known truths, -1 elsewhere.
    """

    log_prior: FloatArray
    confusion: FloatArray
    posterior: FloatArray
    support: FloatArray
    pair: IntArray
    n_pairs: int
    truth: IntArray

    def from_others(
        self, labels: CrowdLabels, mine: BoolArray | None = None, edges: IntArray | None = None
    ) -> FloatArray:
        """Posterior of each label's task (n_labels, K) without her own labels and without those of workers in `mine`.

        The truth, where it is known. Of `edges` only, if given: all labels of some tasks.
        """
        if edges is None:
            edges = np.arange(labels.n_labels)
        task, pair, support = labels.task[edges], self.pair[edges], self.support[edges]
        if mine is not None:
            support[mine[labels.worker[edges]]] = 0.0
        twice = self.n_pairs < labels.n_labels
        q = np.empty(support.shape)
        for k in range(labels.n_classes):
            total = np.bincount(task, support[:, k], labels.n_tasks)
            own = np.bincount(pair, support[:, k])[pair] if twice else support[:, k]
            q[:, k] = self.log_prior[k] + total[task] - own
        q -= q.max(axis=1, keepdims=True)
        np.exp(q, out=q)
        q /= q.sum(axis=1, keepdims=True)
        known = self.truth[task]
        q[known >= 0] = np.eye(labels.n_classes)[known[known >= 0]]
        return q

    def keep(self, edges: BoolArray) -> Reference:
        """The same model for some of the labels."""
        names, pair = np.unique(self.pair[edges], return_inverse=True)
        return self._replace(support=self.support[edges], pair=pair, n_pairs=names.size)


def fit_reference(labels: CrowdLabels, truth: Any = None) -> Reference:
    """Fit the crowd's model; known truths (as for `truth_codes`) are used where given."""
    known = np.full(labels.n_tasks, -1, np.int32) if truth is None else truth_codes(truth, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # a last digit of the consensus changes nothing here
        model = DawidSkene(smoothing=SMOOTHING, max_iter=100, tol=1e-5).fit(labels)
    confusion = model.confusion_
    support = np.log(confusion[labels.worker, :, labels.label])
    pairs = labels.task.astype(np.int64) * labels.n_workers + labels.worker
    names, pair = np.unique(pairs, return_inverse=True)
    log_prior = np.log(np.maximum(model.prior_, 1e-12))
    return Reference(log_prior, confusion, model.posterior_, support, pair, names.size, known)


def task_classes(reference: Reference) -> IntArray:
    """Class of each task: the truth where it is known, else the most probable one."""
    best: IntArray = reference.posterior.argmax(axis=1)
    return np.where(reference.truth >= 0, reference.truth, best)


def one_hot(labels: CrowdLabels) -> FloatArray:
    """Labels as rows of zeros and a one (n_labels, K)."""
    rows: FloatArray = np.eye(labels.n_classes)[labels.label]
    return rows


def edge_outer(left: FloatArray, right: FloatArray, unit: IntArray, n_units: int) -> FloatArray:
    """Σ left_e rightᵀ_e over the edges of each unit: (n_units, K, K)."""
    rows, columns = left.shape[1], right.shape[1]
    found = np.empty((n_units, rows, columns))
    if n_units < rows * columns:  # fewer units than cells: unit by unit
        order = np.argsort(unit, kind="stable")
        for each, edges in enumerate(np.split(order, np.cumsum(np.bincount(unit, minlength=n_units))[:-1])):
            np.matmul(left[edges].T, right[edges], out=found[each])
        return found
    for i in range(rows):
        for j in range(columns):
            found[:, i, j] = np.bincount(unit, left[:, i] * right[:, j], n_units)
    return found


def rates(gram: FloatArray, cross: FloatArray) -> FloatArray:
    """(Σ q qᵀ)⁻¹ Σ q yᵀ, stacks of matrices alike.

    >>> rates(np.array([[4.0, 0.0], [0.0, 2.0]]), np.array([[3.0, 1.0], [0.0, 2.0]])).round(2).tolist()
    [[0.73, 0.24], [0.0, 0.95]]
    """
    return np.asarray(np.linalg.solve(gram + RIDGE * np.eye(gram.shape[-1]), cross), np.float64)
