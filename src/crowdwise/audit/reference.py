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
    pair : (n_labels,)
        Number of the (task, worker) pair of each label: a worker who answers a task twice has one pair.
    truth : (N,)
        Known truths, -1 elsewhere.
    """

    log_prior: FloatArray
    confusion: FloatArray
    posterior: FloatArray
    support: FloatArray
    pair: IntArray
    truth: IntArray

    def from_others(self, labels: CrowdLabels, mine: BoolArray | None = None) -> FloatArray:
        """Posterior of each label's task (n_labels, K) without her own labels and without those of workers in `mine`.

        The truth, where it is known.
        """
        used = np.ones(labels.n_labels, np.bool_) if mine is None else ~mine[labels.worker]
        support = np.where(used[:, None], self.support, 0.0)
        n_classes = labels.n_classes
        log_q = np.empty((labels.n_labels, n_classes))
        for k in range(n_classes):
            total = np.bincount(labels.task, support[:, k], labels.n_tasks)
            own = np.bincount(self.pair, support[:, k])
            log_q[:, k] = self.log_prior[k] + total[labels.task] - own[self.pair]
        log_q -= log_q.max(axis=1, keepdims=True)
        q = np.exp(log_q)
        q /= q.sum(axis=1, keepdims=True)
        known = self.truth[labels.task]
        q[known >= 0] = np.eye(n_classes)[known[known >= 0]]
        return q

    def keep(self, edges: BoolArray) -> Reference:
        """The same model for some of the labels."""
        pair = np.unique(self.pair[edges], return_inverse=True)[1]
        return self._replace(support=self.support[edges], pair=pair)


def fit_reference(labels: CrowdLabels, truth: Any = None) -> Reference:
    """Fit the crowd's model; known truths (as for `truth_codes`) are used where given."""
    known = np.full(labels.n_tasks, -1, np.int32) if truth is None else truth_codes(truth, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # a last digit of the consensus changes nothing here
        model = DawidSkene(smoothing=SMOOTHING, max_iter=100, tol=1e-5).fit(labels)
    confusion = model.confusion_
    support = np.log(confusion[labels.worker, :, labels.label])
    pairs = labels.task.astype(np.int64) * labels.n_workers + labels.worker
    pair = np.unique(pairs, return_inverse=True)[1]
    log_prior = np.log(np.maximum(model.prior_, 1e-12))
    return Reference(log_prior, confusion, model.posterior_, support, pair, known)


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
