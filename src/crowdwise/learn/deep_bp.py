"""Deep belief propagation: workers' matrices are integrated out by belief propagation, the classifier learns the rest.

The generative story. The classifier f gives the chances of a task's classes from its features, and the truth is drawn
from them. Worker w draws their confusion matrix θ[w] from a prior over matrices; their label l on a task has
probability θ[w, truth, l]. Before each epoch, belief propagation on the graph of tasks and workers, with f as the
tasks' priors, gives q, the posterior of the truths (E-step); then f is trained towards q (M-step).

H. Kim, S. Cho, D. Kim and J. Ok (2022), "Robust deep learning from crowds with belief propagation", AISTATS.

| equation of Kim et al. 2022 | here |
|---|---|
| (19)–(21), (36)–(42) messages and q | `aggregate.belief_propagation.propagate_beliefs` |
| (22), (23) the M-step: KL(q ‖ f), so cross-entropy of f to q | `losses.cross_entropy_to` |
| section 3.3, Clip(f, c) | `classifier_trust.clip_probabilities`; c is `trust` |
| algorithm 2, line 5: the q that is returned | `DeepBeliefPropagationObjective.settle` |

An E-step costs O(labels × nodes) for each iteration of the messages, in compiled code on the processor wherever the
network is; a step of training costs nothing beside the network.

Departures: the E-step is done once before each epoch, which is of minibatches unless `batch_size` holds all tasks, as
Kim et al. 2022 train; messages start anew each time. The E-step sees the classifier without dropout, and the loss has f
unclipped, as algorithm 2; the authors' program makes one pass for both, with dropout, and clips f in the loss too. A
classifier that explains the last q worse than class shares do is left out of the E-step, unless `skip_untrained` is
False: `classifier_trust.limit_trust` says why. The default prior is not one of Kim et al.'s, who know their crowds'
priors: it is counted from the labels before every run of messages (`confusion_quadrature_nodes`). The worker integral
is exact for one-coin priors and, up to `n_samples` nodes, for class-wise ones, where Kim et al. 2022 sample. Kim et al.
2022 have two classes; here, as in `belief-propagation`, a one-coin worker's errors are spread evenly over the K − 1
others. Kim et al. 2022 say nothing of new tasks that have labels: Bayes' rule is used, with clipped f and the posterior
means of the workers' matrices, the exact answer for a worker who labels one new task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from crowdwise.aggregate.belief_propagation import BeliefPropagation, propagate_beliefs
from crowdwise.fitting.categorical_em import safe_log
from crowdwise.fitting.em import warn_not_converged
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import ALTERNATION
from crowdwise.fitting.parameter_checks import check_choice, check_count, check_flag, check_number
from crowdwise.fitting.quadrature import matrix_nodes
from crowdwise.kernels import NO_GOLD, TruthPrior
from crowdwise.labels.engine_choice import choose_engine, use_engine
from crowdwise.labels.errors import InputError
from crowdwise.learn.base import Learner
from crowdwise.learn.classifier_trust import check_trust, clip_probabilities, limit_trust
from crowdwise.learn.losses import cross_entropy_to
from crowdwise.learn.objective import Objective
from crowdwise.learn.worker_models import confusion_pseudo_counts, soft_counts

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from crowdwise.kernels import NodeSets
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray
    from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier

__all__ = ["DeepBeliefPropagation"]

CROWD = "crowd"
NODES = 11  # of the Gauss-Hermite rule for how workers differ in skill: exact for polynomials up to degree 21
SPREAD = (
    1.0  # standard deviation, in logits of accuracy: of a crowd right in 70 % of cases, most are right in 46 to 86 %
)


def confusion_quadrature_nodes(counts: FloatArray, alpha: Any) -> tuple[FloatArray, FloatArray]:
    """Matrices (S, K, K) [node, truth, label] and their weights (S,): workers like the crowd, but more or less skilled.

    The crowd's matrix is that of its counts (K, K) and pseudo-counts. A worker's accuracy for every class differs from
    the crowd's by one normal draw in logits; their errors are the crowd's.
    """
    n_classes = len(counts)
    crowd = counts + confusion_pseudo_counts(alpha, n_classes)
    right = np.diag(crowd)
    errors = crowd * (1 - np.eye(n_classes))
    wrong = errors.sum(axis=1)
    draws, weights = np.polynomial.hermite_e.hermegauss(NODES)
    odds = right / wrong * np.exp(SPREAD * draws)[:, None]
    accuracy = (odds / (1 + odds))[:, :, None]
    return accuracy * np.eye(n_classes) + (1 - accuracy) * errors / wrong[:, None], weights / weights.sum()


class DeepBeliefPropagationObjective(Objective):
    """Cross-entropy to q; q and the workers' matrices from belief propagation before each epoch.

    Parameters
    ----------
    solver
        Prior and settings of the messages; its `task_prior` is not used.
    """

    q: Tensor
    matrices: Tensor

    def __init__(self, crowd: Crowd, solver: BeliefPropagation, trust: float, *, skip_untrained: bool) -> None:
        super().__init__(crowd)
        check_trust(trust, crowd.n_classes)
        self.solver, self.trust, self.skip_untrained = solver, trust, skip_untrained
        self._nodes: tuple[CrowdLabels, NodeSets] | None = None  # of the labels that they were made for
        n_workers, n_classes = crowd.n_workers, crowd.n_classes
        self.register_buffer("q", crowd.task_vote_shares())
        self.register_buffer("matrices", torch.full((n_workers, n_classes, n_classes), 1 / n_classes))

    def begin_epoch(self, epoch: int, forecast: Callable[[], Tensor]) -> None:  # noqa: ARG002
        """Algorithm 2, lines 2 and 3."""
        # Messages that have not settled by now have further epochs to do so in; only the last run says if they did not.
        self._infer(forecast())

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """(23), as a mean over the batch's tasks."""
        return cross_entropy_to(self.q[batch.task].to(seen.logits.dtype), seen.logits)

    def settle(self, log_f: Tensor) -> Tensor:
        """Log q of all tasks with the final classifier, in double precision."""
        q, converged = self._infer(log_f)
        if not converged and self.solver.tol > 0:
            warn_not_converged(
                f"The messages of deep-bp still moved after {self.solver.max_iter} iterations. Raise max_iter or tol, "
                "or set damping to 0.5."
            )
        return q.log()

    def confusion(self) -> Tensor:
        """Posterior means of the workers' matrices."""
        return self.matrices

    def log_posterior(self, log_f: Tensor, owner: Tensor, worker: Tensor, label: Tensor, confusion: Tensor) -> Tensor:
        """Bayes' rule, with clipped f."""
        return super().log_posterior(clip_probabilities(log_f.exp(), self.trust).log(), owner, worker, label, confusion)

    def _infer(self, log_f: Tensor) -> tuple[Tensor, bool]:
        """Belief propagation with clipped f; gives q in double precision, and whether messages have settled."""
        gated = self.q if self.skip_untrained else None
        f = limit_trust(log_f, self.trust, self.crowd, gated)
        solver, labels = self.solver, self.crowd.labels
        given = TruthPrior(safe_log(f.cpu().numpy()), NO_GOLD)
        with use_engine(choose_engine(solver.numpy_cost * labels.n_labels, labels.n_classes)):
            found = propagate_beliefs(
                labels,
                self._prior_nodes(),
                given,
                damping=solver.damping,
                max_iter=solver.max_iter,
                tol=solver.tol,
            )
        q, matrices = (torch.as_tensor(each, device=f.device) for each in (found.posterior, found.confusion))
        self.q, self.matrices = q.to(self.q.dtype), matrices.to(self.matrices.dtype)
        return q, found.converged

    def _prior_nodes(self) -> NodeSets:
        """The prior over the workers' matrices: of the crowd as the last q has it, or one that does not change."""
        solver, labels = self.solver, self.crowd.labels
        if isinstance(solver.prior, str) and solver.prior == CROWD:
            counts = soft_counts(self.crowd, self.q.double()).sum(dim=0).cpu().numpy()
            matrices, weights = confusion_quadrature_nodes(counts, solver.alpha)
            return matrix_nodes(matrices, np.log(weights), labels.n_workers)
        if self._nodes is None or self._nodes[0] is not labels:
            self._nodes = labels, solver.make_prior_nodes(labels, solver.n_samples)
        return self._nodes[1]


@estimator
class DeepBeliefPropagation(Learner):
    """A classifier that is the tasks' prior of belief propagation, and learns from its posterior.

    Facts
    -----
    Assumes: matrices with any prior, integrated out by belief propagation; the classifier in turn
    Fails with: a crowd, or a prior, no better than guessing; copying workers
    Paper: Kim et al. 2022, AISTATS

    Parameters
    ----------
    prior : "crowd", "one-coin", "class-wise", "dirichlet", array (S, K, K) [node, truth, label]
        Prior over the workers' matrices. "crowd": as the labels show it, with no knowledge of the workers, so that all
        may mistake the same classes for each other. The crowd's matrix is counted with the last q, and workers differ
        from it in skill. The others are those of `BeliefPropagation`: one Beta(α₁, α₂) accuracy for a worker, errors
        spread evenly (Kim et al.'s); one for each true class; Dirichlet rows; or a mixture of known matrices.
    alpha : pair (α₁, α₂) above 0; for "crowd" and "dirichlet" also an array (K, K) [truth, label]
        Pseudo-counts of right and of wrong answers: of each worker; for "crowd", of the crowd as a whole. None for
        (2, 1): two answers in three are right.
    weights : array (S,), optional
        Shares of the matrices of a mixture; equal where None.
    trust : float, from 1/K to 1
        Kim et al.'s c: a class probability of the classifier above it counts as `trust` in the E-step, so that no
        classifier can overrule the crowd altogether. 1 believes the classifier's word; 1/K ignores it, and q is that of
        `belief-propagation`.
    skip_untrained : bool
        Leave the classifier out of the E-step while it explains the last q no better than class shares do. False: use
        it from the first epoch on, as Kim et al. 2022.
    n_samples : int
        Matrices to draw where the prior is not integrated exactly; most nodes where it is, but for a class-wise prior.
    damping : float, from 0 to below 1
        Share of the old message that is kept; try ½ where messages do not settle.
    max_iter, tol : int, float
        Most iterations of the messages before each epoch; fewer where they move by no more than `tol`, in total
        variation, on average over the labels.

    Attributes
    ----------
    posterior_ : (N, K)
        q: belief propagation with all labels and the final classifier, clipped.
    confusion_ : (M, K, K) [worker, truth, label]
        Posterior means of the workers' matrices under the same.

    Notes
    -----
    When it fails: the prior's mean accuracy, or the crowd's, is that of guessing (nothing tells right from wrong), or
    workers copy each other. A classifier that fits noise (features that say nothing, many epochs) feeds it back: lower
    `trust`.

    Given labels of new tasks, `predict_proba` is Bayes' rule with the clipped classifier and `confusion_`; a worker
    unknown to the model counts as the average of its crowd.
    """

    slug = "deep-bp"
    family = ALTERNATION
    alternates = True

    prior: Any = CROWD
    alpha: Any = None
    weights: Any = None
    trust: float = 0.9
    skip_untrained: bool = True
    n_samples: int = 400
    damping: float = 0.0
    max_iter: int = 200
    tol: float = 1e-6

    def _check(self) -> None:
        check_number("trust", self.trust, low=0, high=1, above=True)
        check_count("n_samples", self.n_samples)
        check_number("damping", self.damping, low=0, high=0.999)
        check_count("max_iter", self.max_iter)
        check_number("tol", self.tol, low=0)
        check_flag("skip_untrained", self.skip_untrained)
        if isinstance(self.prior, str):
            check_choice("prior", self.prior, (CROWD, "one-coin", "class-wise", "dirichlet"))
            if self.weights is not None:
                raise InputError("weights are those of a mixture; the prior must then be matrices of shape (S, K, K).")

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:  # noqa: ARG002
        names = ("prior", "alpha", "weights", "n_samples", "damping", "max_iter", "tol", "random_state")
        solver = BeliefPropagation(**{name: getattr(self, name) for name in names})
        return DeepBeliefPropagationObjective(crowd, solver, self.trust, skip_untrained=self.skip_untrained)
