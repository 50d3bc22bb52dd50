"""BayesDGC: Dirichlet posteriors of matrices and class shares, by stochastic natural gradients beside the network's.

The generative story. Class shares π are drawn from a Dirichlet that knows nothing of the features, every row of worker
w's matrix θ[w] from another. The truth of a task has chances proportional to f(x) · π, with f the classifier; label l
of w has probability θ[w, truth, l]. The posterior is a product: truths, Dirichlet(γ) of the shares, Dirichlet(β) of
rows. Every step, a batch gives the truths' factors in closed form, β and γ a natural-gradient step, f a gradient step.

S.-Y. Li, S.-J. Huang and S. Chen (2021), "Crowdsourcing aggregation with deep Bayesian learning", SCIENCE CHINA
Information Sciences 64.

| update | here |
|---|---|
| q(truth) ∝ f · exp(E[log π] + Σ_w E[log θ[w, truth, l]]), message passing | `BayesDgcObjective.posterior_of` |
| E[log] of Dirichlets | `worker_models.dirichlet_logs` |
| β[w] ← (1 − ρ) β[w] + ρ (α + n_w / b_w · counts of the batch), b_w of their n_w labels being in it | `step_workers` |
| γ ← (1 − ρ) γ + ρ (γ₀ + N · mean of q over the batch) | `step_shares`, with a `share_prior` |
| the classifier: the bound's gradient, which at the best q is that of cross-entropy to q | `losses.cross_entropy_to` |

A step costs O(labels of the batch × K²) and a copy of β, O(M K²), beside the network.

Departures: the paper was not at hand. Model and updates are second hand: from its abstract, from section 3.1 and table
1 of Kim et al. 2022, and from what the authors' program computes. There f and π are multiplied without dividing by
their sum over classes, so that common classes count twice. Where labels are few and the prior of the workers is weak,
this runs away: a class that is a little ahead in q is ahead in π, hence in q, until all tasks have it. By default the
shares are therefore even and not learnt, as in Kim et al.'s program, where this method is a baseline; `share_prior`
learns them. The program's natural gradients are the ones above divided by n_w and N, scaled by a constant and given to
Adam, and a pre-training on the consensus of labels alone comes first. Here, natural gradients are followed as they are,
with one step size; a worker who is not in the batch is left as they are, where the program draws them to the prior; and
there is no pre-training. The program expects 5 right answers and 2 of each wrong label of every worker; here (2, 1) in
all, as in `deep-mf`. With several devices, all keep the first one's β and γ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import ALTERNATION
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.learn.base import Learner
from crowdwise.learn.losses import SMALLEST, cross_entropy_to
from crowdwise.learn.objective import Objective
from crowdwise.learn.worker_models import (
    confusion_pseudo_counts,
    dirichlet_logs,
    log_posterior_given_labels,
    soft_counts_rows,
)

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier

__all__ = ["BayesDgc"]


def step_workers(beta: Tensor, alpha: Tensor, q: Tensor, batch: Batch, answers: Tensor, step: float) -> Tensor:
    """β (M, K, K) after a natural-gradient step of the workers in the batch.

    Parameters
    ----------
    alpha : (K, K)
    q : (B, K)
        Of the batch's tasks.
    answers : (M,)
        Labels that each worker gave in all.
    """
    workers, place = torch.unique(batch.worker, return_inverse=True)
    counts = soft_counts_rows(q[batch.owner], place, batch.label, len(workers))
    scale = answers[workers].to(q.dtype) / torch.bincount(place, minlength=len(workers)).to(q.dtype)
    target = alpha + scale[:, None, None] * counts
    stepped = beta.clone()
    stepped[workers] += step * (target - beta[workers])
    return stepped


def step_shares(gamma: Tensor, pseudo: float, q: Tensor, n_tasks: int, step: float) -> Tensor:
    """γ (K,) after a natural-gradient step."""
    target = pseudo + n_tasks * q.mean(dim=0)
    return gamma + step * (target - gamma)


class BayesDgcObjective(Objective):
    """Cross-entropy to the batch's q; its steps move β and γ as well."""

    beta: Tensor
    gamma: Tensor
    alpha: Tensor
    answers: Tensor

    def __init__(self, crowd: Crowd, alpha: Any, pseudo: float | None, step: float) -> None:
        super().__init__(crowd)
        rows = torch.as_tensor(confusion_pseudo_counts(alpha, crowd.n_classes), dtype=torch.float32)
        self.pseudo, self.step = pseudo, step
        self.n_labelled = int((crowd.ptr[1:] > crowd.ptr[:-1]).sum())
        self.register_buffer("alpha", rows)
        self.register_buffer("beta", rows.repeat(crowd.n_workers, 1, 1))
        share = 1.0 if pseudo is None else pseudo + self.n_labelled / crowd.n_classes
        self.register_buffer("gamma", torch.full((crowd.n_classes,), share))
        self.register_buffer("answers", torch.bincount(crowd.worker, minlength=crowd.n_workers), persistent=False)

    def posterior_of(self, log_f: Tensor, owner: Tensor, log_said: Tensor) -> Tensor:
        """Log q of tasks (B, K) from log f and the expected logarithms (E, K) of their labels."""
        return log_posterior_given_labels(log_f + dirichlet_logs(self.gamma).to(log_f.dtype), owner, log_said)

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """Cross-entropy to q, as a mean over the batch's tasks; in training, β and γ take their step."""
        with torch.no_grad():
            log_f = self.log_f(seen).to(self.beta.dtype)
            said = (
                dirichlet_logs(self.beta[batch.worker])
                .gather(2, _label_column_index(batch.label, log_f.shape[1]))
                .squeeze(2)
            )
            q = self.posterior_of(log_f, batch.owner, said).exp()
            if self.training and len(batch):
                self.beta = step_workers(self.beta, self.alpha, q, batch, self.answers, self.step)
                if self.pseudo is not None:
                    self.gamma = step_shares(self.gamma, self.pseudo, q, self.n_labelled, self.step)
        return cross_entropy_to(q.to(seen.logits.dtype), seen.logits)

    def confusion(self) -> Tensor:
        """Posterior means of the workers' matrices."""
        return self.beta / self.beta.sum(dim=2, keepdim=True)

    def log_posterior(self, log_f: Tensor, owner: Tensor, worker: Tensor, label: Tensor, confusion: Tensor) -> Tensor:
        """The same q; a stranger's expected logarithms are the logarithms of the mean matrix."""
        known = dirichlet_logs(self.beta).to(log_f.dtype)
        logs = torch.cat([known, confusion[-1:].clamp(min=SMALLEST).log()])
        return self.posterior_of(log_f, owner, logs[worker, :, label])


def _label_column_index(label: Tensor, n_classes: int) -> Tensor:
    """Index (E, K, 1) of each label's column in matrices (E, K, K)."""
    return label[:, None, None].expand(-1, n_classes, 1)


@estimator
class BayesDgc(Learner):
    """A classifier, and Dirichlet posteriors of class shares and workers' matrices by stochastic natural gradients.

    Facts
    -----
    Assumes: matrices and truths with Dirichlet priors, by natural gradients
    Fails with: a prior that is far from the crowd
    Paper: Li et al. 2021, SCIENCE CHINA 64

    Parameters
    ----------
    alpha : pair (α₁, α₂) above 0, or an array (K, K) [truth, label]
        Pseudo-counts of right and of wrong answers of every worker, (2, 1) where None; α₂ is spread over the wrong
        labels.
    share_prior : float, above 0, or None
        Pseudo-count of each class in the prior of the class shares, which are then learnt. None: shares are even, and
        the classifier alone says which classes are common.
    step : float, above 0, at most 1
        Step size ρ of the natural gradients. 1 forgets all but the last batch; a small one averages over 1/ρ batches.

    Attributes
    ----------
    posterior_ : (N, K)
        q, from features, class shares and labels.
    confusion_ : (M, K, K) [worker, truth, label]
        Posterior means of the workers' matrices.

    Notes
    -----
    When it fails: a prior that is far from the crowd; with `share_prior`, few labels and rare classes, which the shares
    make rarer still, until one class is left. Mean field is too sure of itself, and nothing bounds the classifier's
    word as `trust` does for `deep-mf`.

    Given labels of new tasks, `predict_proba` is q with the posteriors learnt; a worker unknown to the model counts as
    the average of its crowd.

    Examples
    --------
    >>> import crowdwise as cw
    >>> X, labels, truth = cw.simulate.simulate_features(n_workers=9)
    >>> cw.BayesDgc(network="linear", epochs=30, learning_rate=0.03).fit(X, labels).score(X, truth) > 0.9
    True
    """

    slug = "bayes-dgc"
    family = ALTERNATION
    alternates = True

    alpha: Any = None
    share_prior: float | None = None
    step: float = 0.1

    def _check(self) -> None:
        if self.share_prior is not None:
            check_number("share_prior", self.share_prior, low=0, above=True)
        check_number("step", self.step, low=0, high=1, above=True)

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:  # noqa: ARG002
        return BayesDgcObjective(crowd, self.alpha, self.share_prior, self.step)
