"""Belief propagation: messages between tasks and workers, whose skills are integrated out.

The generative story. The truth of task t is drawn from its own prior h[t]: uniform, the class prior, or what a network
says of its features. Worker w draws her confusion matrix θ[w] from a prior over matrices. Each label l of hers on t
has probability θ[w, truth, l]. The skills are integrated out, which joins all tasks of a worker in one factor;
sum-product on the graph of tasks and workers gives each task's posterior.

Q. Liu, J. Peng and A. Ihler (2012), "Variational inference for crowdsourcing", NeurIPS.
H. Kim, S. Cho, D. Kim and J. Ok (2022), "Robust deep learning from crowds with belief propagation", AISTATS.

| equation of Kim et al. 2022 | here |
|---|---|
| (3) one-coin prior, and the two-coin prior after it | `fitting.nodes.coin_nodes`, `class_wise_nodes` |
| (20) task to worker, Π over the other workers | `kernels.task_messages` |
| (20), (42) worker to task, E[θ[truth, l] Π over the other tasks ⟨θ[:, l'], message⟩] | `kernels.worker_messages` |
| (21) the posterior | `kernels.task_messages` |
| E.1 Monte Carlo with S = 400 matrices | `draw_dirichlet_matrices` |

An iteration costs O(labels × nodes), and × K for priors other than one coin. Nodes are n/2 + 1 for a worker of n
labels, 4√n where n is large; the square of that for a class-wise prior and two classes.

Departures: the worker integral of one-coin and class-wise priors is done by quadrature that is exact for them, where
Kim et al. 2022 sample and Liu et al. transform polynomials. Matrices of a Monte Carlo prior are drawn once and shared
by all workers. The Bethe free energy is kept as the log-likelihood: it is exact where the graph is a tree. A second
answer of a worker to the same task is another edge, and so a loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdwise.fitting.base import Aggregator, Fit
from crowdwise.fitting.categorical_em import safe_log
from crowdwise.fitting.content_order import order_by_content
from crowdwise.fitting.em import warn_not_converged
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import BAYESIAN
from crowdwise.fitting.parameter_checks import as_numbers, check_choice, check_count, check_number, check_shares
from crowdwise.fitting.prior_knowledge import GOLD, PRIOR
from crowdwise.fitting.progress_bar import show_progress
from crowdwise.fitting.quadrature import MOST_DIMENSIONS, MOST_NODES, class_wise_nodes, coin_nodes, matrix_nodes
from crowdwise.fitting.skill_intervals import match_beta
from crowdwise.kernels import Messages, TruthPrior, task_messages, worker_messages
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.kernels import NodeSets
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["BeliefPropagation", "PropagatedBeliefs", "propagate_beliefs"]

ALPHA = (2.0, 1.0)  # Kim et al.'s true prior: two answers in three are right, and a few workers are worse


def draw_dirichlet_matrices(counts: FloatArray, n_samples: int, seed: int) -> FloatArray:
    """Draw confusion matrices (n_samples, K, K) whose row k is Dirichlet(`counts[k]`)."""
    generator = np.random.default_rng(seed)
    return np.stack([generator.dirichlet(row, n_samples) for row in counts], axis=1)


def draw_class_wise_matrices(right: float, wrong: float, n_classes: int, n_samples: int, seed: int) -> FloatArray:
    """Draw confusion matrices with a Beta(right, wrong) accuracy for each class, errors spread evenly."""
    accuracy = np.random.default_rng(seed).beta(right, wrong, (n_samples, n_classes, 1))
    identity = np.eye(n_classes)
    return accuracy * identity + (1 - accuracy) * (1 - identity) / (n_classes - 1)


def skill_moments_at_nodes(nodes: NodeSets, prior: FloatArray) -> FloatArray:
    """What to average over a worker's posterior of the nodes: skill, its square, and, but for coins, the matrix."""
    if nodes.are_coins:
        skill = nodes.table[0, 0]
        return np.stack([skill, skill**2], axis=1)
    skill = np.einsum("kks,k->s", nodes.table, prior)
    return np.concatenate([np.stack([skill, skill**2], axis=1), nodes.matrices.reshape(skill.size, -1)], axis=1)


class PropagatedBeliefs(NamedTuple):
    """Where messages have come to.

    Attributes
    ----------
    posterior : (N, K)
    skill : (M, 2)
        Posterior means of each worker's skill and of its square.
    confusion : (M, K, K)
        Posterior means of the workers' matrices.
    bethe : (iterations,)
        Bethe log-partition after each iteration.
    converged
        Whether messages have settled.
    """

    posterior: FloatArray
    skill: FloatArray
    confusion: FloatArray
    bethe: FloatArray
    converged: bool


def propagate_beliefs(
    labels: CrowdLabels,
    nodes: NodeSets,
    prior: TruthPrior,
    *,
    damping: float,
    max_iter: int,
    tol: float,
    advance: Callable[[float], object] | None = None,
) -> PropagatedBeliefs:
    """Messages (20) from uniform ones until they settle, and the posterior (21).

    Parameters
    ----------
    prior
        Of the truths; its `log_prior` is (N, K), or (1, K) for all tasks alike.
    advance
        Is told the Bethe log-partition after each iteration.
    """
    posterior = np.empty((labels.n_tasks, labels.n_classes))
    incoming, outgoing = np.zeros((2, labels.n_labels, nodes.table.shape[1]))
    messages = Messages(incoming, outgoing, nodes.are_coins)
    task_messages(labels, prior, messages, posterior, 0.0)
    values: list[float] = []
    converged = False
    while not converged and len(values) < max_iter:
        of_workers, _ = worker_messages(labels, nodes, messages)
        moved, of_tasks = task_messages(labels, prior, messages, posterior, damping)
        values.append(float(of_workers.sum() + of_tasks.sum()))
        converged = moved <= tol * labels.n_labels
        if advance is not None:
            advance(values[-1])
    shares = np.exp(prior.log_prior).mean(axis=0)
    _, means = worker_messages(labels, nodes, messages, skill_moments_at_nodes(nodes, shares))
    confusion = _posterior_mean_confusion(means, nodes.are_coins, labels.n_classes)
    return PropagatedBeliefs(posterior, means[:, :2], confusion, np.array(values), converged)


@estimator
class BeliefPropagation(Aggregator):
    """Consensus by messages between tasks and workers, under a prior over the workers' confusion matrices.

    Facts
    -----
    Assumes: every worker has one accuracy (or a matrix) from a known prior, integrated out on the graph of labels
    Fails with: a prior whose mean accuracy is that of guessing, unbalanced classes, copying workers
    Cost: O(labels × answers of a worker) an iteration, × K for matrices
    Paper: Liu, Peng & Ihler 2012, NeurIPS; Kim et al. 2022, AISTATS

    Parameters
    ----------
    prior : "one-coin", "class-wise", "dirichlet", array (S, K, K) [node, truth, label]
        One Beta(α₁, α₂) accuracy for a worker, errors spread evenly; one for each true class; Dirichlet rows; or a
        mixture of known matrices.
    alpha : pair (α₁, α₂) above 0; for "dirichlet" also an array (K, K) [truth, label]
        Pseudo-counts of right and of wrong answers, (2, 1) where None. "dirichlet" spreads α₂ over the wrong labels.
    weights : array (S,), optional
        Shares of the matrices of a mixture; equal where None.
    task_prior : array (N, K), optional
        Prior of each task's truth, such as a network's output, in the order of the tasks. In place of a class prior.
    n_samples : int
        Matrices to draw where the prior is not integrated exactly: "dirichlet", and "class-wise" for more than three
        classes.
    damping : float, from 0 to below 1
        Share of the old message that is kept; try ½ where messages do not settle.
    tol : float
        Stop when messages move by no more than this, in total variation, on average over the labels.
    random_state : int
        For the matrices drawn.

    Attributes
    ----------
    prior_ : (K,)
        The class prior: uniform, or as given, or the mean of the task priors.
    confusion_ : (M, K, K)
        Posterior mean of P(worker says l | truth is k) at [worker, k, l].
    skill_ : (M,)
        Posterior mean of the chance that a worker is right.
    log_likelihood_, objective_ : (n_iter_,)
        Bethe log-partition: the log-probability of the labels where the graph of tasks and workers is a tree. It need
        not rise.

    Notes
    -----
    Where the prior's mean accuracy is that of guessing, nothing tells right from wrong. The class prior is not learnt.
    "class-wise" is exact for two classes up to about a thousand labels a worker, and three classes up to forty; beyond,
    its grid is coarser than what the labels tell. A sampled prior is coarse sooner: of 400 matrices, only those near
    the truth count. A worker unknown at prediction counts as the average of the crowd, a new task as one of the class
    prior.

    Examples
    --------
    >>> BeliefPropagation().fit(labels).skill_.round(2).tolist()
    [0.79, 0.79, 0.59]
    """

    slug = "belief-propagation"
    numpy_cost = 64
    family = BAYESIAN
    uses = frozenset({GOLD, PRIOR})
    plug_in = True

    prior: Any = "one-coin"
    alpha: Any = None
    weights: Any = None
    task_prior: Any = None
    n_samples: int = 400
    damping: float = 0.0
    max_iter: int = 200
    tol: float = 1e-6
    random_state: int = 0

    def _check(self) -> None:
        check_number("damping", self.damping, low=0, high=0.999)
        check_count("n_samples", self.n_samples)

    def _keeps_unlabelled_tasks(self) -> bool:
        return True  # `task_prior` has a row for each

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        task_prior = self._task_prior(labels, known)
        with np.errstate(divide="ignore"):
            given = TruthPrior(np.log(task_prior), known.gold)
        with show_progress(self.slug, self.max_iter) as advance:
            found = propagate_beliefs(
                labels,
                self.make_prior_nodes(labels),
                given,
                damping=self.damping,
                max_iter=self.max_iter,
                tol=self.tol,
                advance=advance,
            )
        if not found.converged and self.tol > 0:
            warn_not_converged(
                f"{self.slug} stopped after {self.max_iter} iterations while its messages still moved. Raise max_iter "
                "or tol, or set damping to 0.5."
            )
        mean, square = found.skill.T
        return Fit(
            posterior=found.posterior,
            prior=task_prior.mean(axis=0),
            confusion=found.confusion,
            skill=mean,
            skill_beta=match_beta(mean, square - mean**2),
            log_likelihood=found.bethe,
            objective=found.bethe,
            n_iter=found.bethe.size,
            converged=found.converged,
        )

    def _task_prior(self, labels: CrowdLabels, known: PriorKnowledge) -> FloatArray:
        """Prior of each task (N, K), or one for all (1, K)."""
        n_classes = labels.n_classes
        if self.task_prior is None:
            return np.full((1, n_classes), 1 / n_classes) if known.class_prior is None else known.class_prior[None]
        if known.class_prior is not None:
            raise InputError("Give task_prior or class_prior, not both: a task's prior says what its class may be.")
        given = as_numbers(self.task_prior, "task_prior")
        _check_shares("task_prior", given, (labels.n_tasks, n_classes))
        return given

    def make_prior_nodes(self, labels: CrowdLabels, most: int = MOST_NODES) -> NodeSets:
        """The prior over the workers' matrices as nodes, at most so many in the grid of a class-wise prior."""
        n_classes, answers = labels.n_classes, labels.labels_per_worker
        if not isinstance(self.prior, str):
            return self._nodes_from_matrices(n_classes, labels.n_workers)
        check_choice("prior", self.prior, ("one-coin", "class-wise", "dirichlet"))
        if self.weights is not None:
            raise InputError("weights are those of a mixture; the prior must then be matrices of shape (S, K, K).")
        alpha = as_numbers(ALPHA if self.alpha is None else self.alpha, "alpha")
        pair = alpha.shape == (2,)
        matrix = self.prior == "dirichlet" and alpha.shape == (n_classes, n_classes)
        if not (pair or matrix) or not (alpha > 0).all() or not np.isfinite(alpha).all():
            also = f", or an array of shape {(n_classes, n_classes)}" if self.prior == "dirichlet" else ""
            raise InputError(f"alpha is {quote(alpha.tolist())}; it must be two numbers above 0{also}.")
        if self.prior == "one-coin":
            return coin_nodes(alpha[0], alpha[1], n_classes, answers)
        if self.prior == "class-wise" and n_classes <= MOST_DIMENSIONS:
            return class_wise_nodes(alpha[0], alpha[1], n_classes, answers, most)
        # Matrices are drawn for the classes in an order of content, so that the order they are given in does not count.
        order = order_by_content(labels).classes
        if self.prior == "dirichlet":
            if pair:
                right = np.eye(n_classes)
                alpha = alpha[0] * right + alpha[1] / (n_classes - 1) * (1 - right)
            drawn = draw_dirichlet_matrices(alpha[np.ix_(order, order)], self.n_samples, self.random_state)
        else:
            drawn = draw_class_wise_matrices(alpha[0], alpha[1], n_classes, self.n_samples, self.random_state)
        matrices = np.empty_like(drawn)
        matrices[:, order[:, None], order] = drawn
        return matrix_nodes(matrices, np.full(self.n_samples, -np.log(self.n_samples)), labels.n_workers)

    def _nodes_from_matrices(self, n_classes: int, n_workers: int) -> NodeSets:
        matrices = as_numbers(self.prior, "prior")
        if matrices.ndim != 3 or matrices.shape[0] == 0:
            raise InputError(
                f"prior has shape {matrices.shape}; it must be 'one-coin', 'class-wise', 'dirichlet' or matrices of "
                "shape (S, K, K) [node, truth, label]."
            )
        size = matrices.shape[0]
        _check_shares("prior", matrices, (size, n_classes, n_classes))
        if self.alpha is not None:
            raise InputError("alpha is for priors with a name; a mixture has weights.")
        weights = np.full(size, 1 / size) if self.weights is None else as_numbers(self.weights, "weights")
        _check_shares("weights", weights, (size,))
        return matrix_nodes(matrices, safe_log(weights), n_workers)


def _check_shares(name: str, given: FloatArray, shape: tuple[int, ...]) -> None:
    if given.shape != shape:
        raise InputError(f"{name} has shape {given.shape}; it must have shape {shape}.")
    check_shares(name, given)


def _posterior_mean_confusion(means: FloatArray, coins: bool, n_classes: int) -> FloatArray:
    """Posterior mean matrices (M, K, K) from the means of `skill_moments_at_nodes`."""
    if not coins:
        return means[:, 2:].reshape(-1, n_classes, n_classes)
    wrong = (1 - means[:, 0]) / (n_classes - 1)
    confusion = np.repeat(wrong, n_classes**2).reshape(-1, n_classes, n_classes)
    confusion[:, np.arange(n_classes), np.arange(n_classes)] = means[:, :1]
    return confusion
