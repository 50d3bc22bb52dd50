"""What everyone else says of a task: the consensus that a worker's labels are held against, her own left out.

There are two ways to leave her out, for two kinds of question.

*Taken out of a posterior* (`Reference.posterior_without_worker`). One Dawid–Skene fit of the whole crowd, with a
pseudo-count, gives the class shares and each worker's matrix A. By Bayes' rule the posterior of task t without the
labels of some is

    q[t, k] ∝ prior[k] Π_{others w'} A[w', k, l(t, w')],

so that leaving out needs no other fit: O(labels × K). The matrices of the others were fitted with her labels in sight,
which matters little where tasks have three labels or more. An audit fits it once for all tests that ask.

*Held out of the fit* (`posterior_from_others`), for tests of a single worker whose p-value supposes that her labels had
no part at all in what they are compared with. Workers are dealt into folds, the busiest into different ones. For each
fold the model is fitted to the labels of all other folds, and its posterior stands beside the labels of the fold. With
ten workers or fewer each has a fold of her own; with more, a label also misses the few who share its fold. Cost: as
many fits as folds, of a few dozen iterations each.

Labels are noisy and so is the consensus. A table of a worker's labels against the most probable class would count the
consensus' errors as hers. `solve_rates` instead regresses her labels on the posterior,

    A = argmin Σ_e |onehot(label_e) − Aᵀ q_e|² = (Σ q qᵀ)⁻¹ Σ q onehotᵀ,

which is unbiased where the posterior is calibrated, because given the truth her label is independent of what the others
said: E[onehot | q] = Aᵀ q. With a known truth (q of zeros and ones) it is the table of counts, divided by its row sums.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.aggregate.dawid_skene import log_density, m_step
from crowdwise.engines import prepare
from crowdwise.fitting.content_order import order_by_content
from crowdwise.fitting.em import StillImproving, climb
from crowdwise.fitting.pooled_dawid_skene import fit_pooled_dawid_skene
from crowdwise.kernels import NO_GOLD
from crowdwise.labels.truth import truth_codes

if TYPE_CHECKING:
    from typing import Any

    from crowdwise.fitting.categorical_em import ConfusionParameters
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = [
    "CrowdReference",
    "fit_reference",
    "one_hot",
    "pooled_consensus",
    "posterior_from_others",
    "smoothed_consensus",
    "solve_rates",
    "true_or_probable_classes",
]

SMOOTHING = 0.5  # pseudo-count of every cell of a worker's matrix: no label is impossible
STEPS = 100  # of EM
TOLERANCE = 1e-5  # gain per label at which EM stops
FOLDS = 10
RIDGE = 0.1  # pseudo-answers of a class in the regression, which keep a class that nobody met at zero


class CrowdReference(NamedTuple):
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

    def posterior_without_worker(
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

    def restrict_to_labels(self, edges: BoolArray) -> CrowdReference:
        """The same model for some of the labels."""
        names, pair = np.unique(self.pair[edges], return_inverse=True)
        return self._replace(support=self.support[edges], pair=pair, n_pairs=names.size)


def fit_crowd_model(
    labels: CrowdLabels, *, smoothing: float, steps: int, tolerance: float
) -> tuple[ConfusionParameters, FloatArray]:
    """Dawid–Skene from the majority's start, and the posterior of each task (N, K).

    What `DawidSkene` does, but for how sure the workers' skills are, which nothing here asks. Tasks without labels are
    left out of the fit: their posterior, the class shares, would count among these and slow EM down.
    """
    told = labels.labels_per_task > 0
    prepared = prepare(labels if told.all() else labels.keep_tasks(told))
    pseudo = np.full((1, labels.n_classes, labels.n_classes), smoothing)

    def step(parameters: ConfusionParameters) -> tuple[float, float, ConfusionParameters]:
        found = prepared.e_step(parameters.log_prior, parameters.log_table, NO_GOLD)
        return found.log_likelihood + log_density(parameters, pseudo), found.log_likelihood, m_step(found, pseudo)

    start = m_step(prepared.count_against_vote_shares(labels.class_shares, NO_GOLD), pseudo)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StillImproving)  # a last digit of the consensus changes nothing here
        ended = climb([start], step, max_iter=steps, tol=tolerance * labels.n_labels, name="consensus").parameters
    found = np.empty((int(told.sum()), labels.n_classes))
    prepared.e_step(ended.log_prior, ended.log_table, NO_GOLD, found)
    posterior = np.tile(np.exp(ended.log_prior), (labels.n_tasks, 1))
    posterior[told] = found
    return ended, posterior


def fit_reference(labels: CrowdLabels, truth: Any = None, fitted: CrowdReference | None = None) -> CrowdReference:
    """Fit the crowd's model, unless it is at hand; known truths (as for `truth_codes`) are used where given."""
    known = np.full(labels.n_tasks, -1, np.int32) if truth is None else truth_codes(truth, labels)
    if fitted is not None:
        return fitted._replace(truth=known)
    found, posterior = fit_crowd_model(labels, smoothing=SMOOTHING, steps=STEPS, tolerance=TOLERANCE)
    support = found.log_table[labels.worker, :, labels.label]
    pairs = labels.task.astype(np.int64) * labels.n_workers + labels.worker
    names, pair = np.unique(pairs, return_inverse=True)
    log_prior = np.maximum(found.log_prior, np.log(1e-12))
    confusion = np.exp(found.log_table)
    return CrowdReference(log_prior, confusion, posterior, support, pair, names.size, known)


def smoothed_consensus(labels: CrowdLabels) -> FloatArray:
    """Posterior of each task (N, K) by workers without those who are held out.

    One answer of each kind to each class is added: workers of few labels are not taken for perfect.
    """
    return fit_crowd_model(labels, smoothing=1.0, steps=30, tolerance=1e-6)[1]


def pooled_consensus(labels: CrowdLabels) -> FloatArray:
    """Posterior of each task (N, K) by Dawid and Skene's model in which every matrix starts from the usual one."""
    log_prior, log_table = fit_pooled_dawid_skene(labels)
    posterior = np.empty((labels.n_tasks, labels.n_classes))
    prepare(labels).e_step(log_prior, log_table, NO_GOLD, posterior)
    return posterior


def posterior_from_others(labels: CrowdLabels) -> tuple[FloatArray, BoolArray]:
    """Posterior of each label's task by the others (S, K), and where there are others at all (S,).

    Folds of workers are dealt by volume, and alike ones by content, so that nothing here is random: same labels, same
    answer.
    """
    rank = np.zeros(labels.n_workers, np.int64)
    by_content = order_by_content(labels).workers
    rank[by_content] = np.arange(by_content.size)
    order = np.lexsort((rank, -labels.labels_per_worker))
    fold = np.empty(labels.n_workers, np.int64)
    fold[order] = np.arange(labels.n_workers) % FOLDS
    of_label = fold[labels.worker]
    posterior = np.empty((labels.n_labels, labels.n_classes))
    told = np.zeros(labels.n_labels, np.bool_)
    for number in np.unique(of_label):
        mine = of_label == number
        rest = labels.keep(~mine)
        if not rest.n_labels:
            posterior[mine] = 1 / labels.n_classes
            continue
        posterior[mine] = pooled_consensus(rest)[labels.task[mine]]
        told[mine] = rest.labels_per_task[labels.task[mine]] > 0
    return posterior, told


def true_or_probable_classes(reference: CrowdReference) -> IntArray:
    """Class of each task: the truth where it is known, else the most probable one."""
    best: IntArray = reference.posterior.argmax(axis=1)
    return np.where(reference.truth >= 0, reference.truth, best)


def one_hot(labels: CrowdLabels) -> FloatArray:
    """Labels as rows of zeros and a one (n_labels, K)."""
    rows: FloatArray = np.eye(labels.n_classes)[labels.label]
    return rows


def solve_rates(gram: FloatArray, cross: FloatArray) -> FloatArray:
    """(Σ q qᵀ)⁻¹ Σ q yᵀ, stacks of matrices alike.

    >>> solve_rates(np.array([[4.0, 0.0], [0.0, 2.0]]), np.array([[3.0, 1.0], [0.0, 2.0]])).round(2).tolist()
    [[0.73, 0.24], [0.0, 0.95]]
    """
    return np.asarray(np.linalg.solve(gram + RIDGE * np.eye(gram.shape[-1]), cross), np.float64)
