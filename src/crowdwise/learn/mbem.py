"""Model-bootstrapped EM: the classifier's own decisions grade the workers.

The generative story. The truth of a task is drawn from the shares p of the classes. Worker w, seeing truth k, says l
with probability A[w, k, l]. A classifier is trained on the posterior q of the truths as on soft labels. What it then
decides is taken for the truth when workers' answers and classes are counted, so that a single label for each task is
enough to tell good workers from bad; q follows by Bayes' rule from p and A, and the classifier is trained further.

A. Khetan, Z. C. Lipton and A. Anandkumar (2018), "Learning from noisy singly-labeled data", ICLR; algorithm 3 of
R. Tanno et al. (2019), CVPR.

| algorithm 3 of Tanno et al. 2019 | here |
|---|---|
| q⁰ = mean labels | `batches.Crowd.task_vote_shares` |
| M-step for θ: −Σ q log f, G iterations | `losses.cross_entropy_to`, the epochs of a step |
| c = argmax f on the training tasks | `one_hot_decisions` |
| M-step for A: counts with c | `em.m_step` |
| p = shares of the decisions | `decision_shares` |
| E-step: q ∝ p Π A | `em.e_step` |

An epoch costs nothing beside the network, a step one pass of the network over all tasks and O(labels × K).

Departures: counts are smoothed, as in `em`. Before the first decisions, the matrices that choose among the first epochs
are counted with q⁰. Steps are spread over the epochs; there are two by default, as in Tanno et al. 2019 and in Khetan
et al.'s own code: a classifier that grades too early may swap classes, and for good. `posterior_` and `predict_proba(X,
labels)` use the classifier and A, not p and A: they speak of features and labels together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn.functional import one_hot

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import ALTERNATION
from crowdwise.fitting.parameter_checks import check_count, check_number
from crowdwise.learn.base import Learner
from crowdwise.learn.em import EmObjective, e_step, m_step
from crowdwise.learn.losses import SMALLEST

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.learn.batches import Crowd
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier
    from crowdwise.learn.objective import Objective

__all__ = ["ModelBootstrappedEm"]


def one_hot_decisions(log_f: Tensor) -> Tensor:
    """All weight on the classifier's most probable class (N, K)."""
    return one_hot(log_f.argmax(dim=1), log_f.shape[1]).to(log_f.dtype)


def decision_shares(decided: Tensor, crowd: Crowd) -> Tensor:
    """How often each class was decided on, among tasks with labels (K,)."""
    return decided[crowd.ptr[1:] > crowd.ptr[:-1]].mean(dim=0)


class MbemObjective(EmObjective):
    """Cross-entropy to the posterior of the last E-step, which the classifier's decisions made."""

    def update_posterior_and_confusions(self, log_f: Tensor) -> None:
        """Matrices and shares of classes from the classifier's decisions, then the posterior from both."""
        decided = one_hot_decisions(log_f)
        self.matrices = m_step(self.crowd, decided, self.smoothing)
        log_prior = decision_shares(decided, self.crowd).clamp(min=SMALLEST).log()
        self.posterior = e_step(log_prior.expand_as(log_f), self.crowd, self.matrices)

    def settle(self, log_f: Tensor) -> None:
        """The matrices are those that the last classifier's decisions make."""
        self.update_posterior_and_confusions(log_f)


@estimator
class ModelBootstrappedEm(Learner):
    """EM in which the classifier's decisions, not the posterior, grade the workers.

    Works with a single label for each task.

    Facts
    -----
    Assumes: the classifier's own decisions grade the workers
    Fails with: a classifier that is often wrong
    Paper: Khetan et al. 2018, ICLR

    Parameters
    ----------
    steps
        EM steps, at least 1, spread evenly over the epochs: workers are graded at the end of each.
    smoothing
        Answers added to every cell of every matrix, above 0.

    Notes
    -----
    When it fails: a classifier that is often wrong grades workers wrongly and then learns from them: with few tasks,
    where most labels are wrong, and with steps of so few iterations that it grades before it has learnt anything.
    Trained long on one posterior, it repeats the labels and finds all workers perfect.
    """

    slug = "mbem"
    family = ALTERNATION
    alternates = True

    steps: int = 2
    smoothing: float = 0.01

    def _check(self) -> None:
        check_count("steps", self.steps)
        check_number("smoothing", self.smoothing, low=0, above=True)

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:  # noqa: ARG002
        return MbemObjective(crowd, self.steps, self.smoothing)
