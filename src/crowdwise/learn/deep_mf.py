"""Deep mean field: workers' matrices with Dirichlet posteriors, truths and the classifier, each in turn.

The generative story is that of `deep-bp`: the truth is drawn from the classifier's output f, worker w's matrix θ[w]
from a Dirichlet prior, their label l from θ[w, truth]. The posterior of truths and matrices is approximated by a
product, q(truths) · q(matrices), whose factors and the classifier each climb the same bound on the evidence.

H. Kim, S. Cho, D. Kim and J. Ok (2022), "Robust deep learning from crowds with belief propagation", AISTATS.

| equation of Kim et al. 2022 | here |
|---|---|
| (16), (27) log q(truth) = Σ_w E[log θ[w, truth, l]] + log f + constant | `worker_models.log_posterior_given_labels` |
| E[log θ] under Dirichlets, by digamma | `DirichletWorkers.expected_logs` |
| (28), (29) β[w] = α + Σ_t q[t, k] [w said l of t] | `worker_models.soft_counts`, to which α is added |
| (15), (26) the bound | `expected_log_likelihood`, `kl_from_classifier`, `DirichletWorkers.divergence` |
| (17), (30) the classifier's M-step: cross-entropy to q | `losses.cross_entropy_to` |
| section 3.3, Clip(f, c) | `classifier_trust.clip_probabilities`; c is `trust` |
| (3) the one-coin prior | `DirichletWorkers` with `coin=True` |
| (32), (34), table 1: q(truth) = f, a point for θ | E_f[log θ], which is `expected_log_likelihood(f, log θ)` |

An E-step costs O(labels × K + M K²), a step of training nothing beside the network.

Appendix C says that the crowd layer and trace regularisation are deepMF with q(truth) = f and a point for each matrix.
What is equal then is the bound and E_f[log θ], minus Kim et al.'s cross-entropy (34); the coupled cross-entropy that
these two methods minimise has the logarithm outside, −log E_f[θ], and by Jensen's inequality is the smaller of the two.
With a point for each matrix and the *best* q(truth), the bound is log Σ_k f[k] Π_w θ[w, k, l]: minus the coupled
cross-entropy exactly where a task has one label.

Departures: one update of q and β before each epoch (`sweeps`), which is of minibatches unless `batch_size` holds all
tasks, as Kim et al. 2022 train. The E-step sees the classifier without dropout, and the loss has f unclipped; the
authors' program makes one pass for both, with dropout, and clips f in the loss as well. A classifier that explains the
last q worse than class shares do is left out of the E-step, unless `skip_untrained` is False:
`classifier_trust.limit_trust` says why. At the end, q and β are brought to rest with the final classifier. The bound's
first occurrence of f is the clipped one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.distributions import Dirichlet, kl_divergence

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import ALTERNATION
from crowdwise.fitting.parameter_checks import check_choice, check_count, check_flag, check_number
from crowdwise.learn.base import Learner
from crowdwise.learn.classifier_trust import check_trust, clip_probabilities, limit_trust
from crowdwise.learn.losses import SMALLEST, cross_entropy_to
from crowdwise.learn.objective import Objective
from crowdwise.learn.worker_models import (
    confusion_pseudo_counts,
    dirichlet_logs,
    log_posterior_given_labels,
    soft_counts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier

__all__ = ["DeepMeanField"]

PRIORS = ("dirichlet", "one-coin")
MOST_SWEEPS, REST = 500, 1e-13  # the last E-step: until the bound gains no more than this per label


class DirichletWorkers:
    """Beliefs about the workers' matrices: pseudo-counts α and counts of answers, (M, K, K) [worker, truth, label].

    With `coin`, one Beta for each worker, whose right and wrong answers are counted whatever the truth; errors are
    spread evenly over the other labels.
    """

    def __init__(self, alpha: Any, n_classes: int, *, coin: bool) -> None:
        pseudo = torch.as_tensor(confusion_pseudo_counts(alpha, n_classes, pair=coin))
        self.coin = coin
        self.alpha = torch.stack([pseudo[0, 0], pseudo[0].sum() - pseudo[0, 0]]) if coin else pseudo

    def shape(self, counts: Tensor) -> Tensor:
        """(29): Dirichlet parameters β (M, K, K), or (M, 2) of right and wrong for coins."""
        counts = counts.double()
        if self.coin:
            right = counts.diagonal(dim1=1, dim2=2).sum(dim=1)
            counts = torch.stack([right, counts.sum(dim=(1, 2)) - right], dim=1)
        return self.alpha.to(counts.device) + counts

    def expected_logs(self, counts: Tensor) -> Tensor:
        """E[log θ] (M, K, K) [worker, truth, label]."""
        logs = dirichlet_logs(self.shape(counts))
        if not self.coin:
            return logs
        n_classes = counts.shape[1]
        wrong = logs[:, 1] - torch.tensor(n_classes - 1.0).log()
        return _confusion_from_right_and_wrong(logs[:, 0], wrong, n_classes)

    def means(self, counts: Tensor) -> Tensor:
        """E[θ] (M, K, K)."""
        shape = self.shape(counts)
        means = shape / shape.sum(dim=-1, keepdim=True)
        if not self.coin:
            return means
        n_classes = counts.shape[1]
        return _confusion_from_right_and_wrong(means[:, 0], means[:, 1] / (n_classes - 1), n_classes)

    def divergence(self, counts: Tensor) -> Tensor:
        """KL(q(θ; β) ‖ p(θ | α)), over all workers."""
        shape = self.shape(counts)
        prior = self.alpha.to(shape.device).expand_as(shape)
        return kl_divergence(Dirichlet(shape), Dirichlet(prior)).sum()


def expected_log_likelihood(crowd: Crowd, q: Tensor, log_matrices: Tensor) -> Tensor:
    """E[log p(labels | truths, θ)] = Σ over labels of Σ_k q[t, k] E[log θ[w, k, l]]."""
    return (q[crowd.task] * log_matrices[crowd.worker, :, crowd.label]).sum()


def kl_from_classifier(log_f: Tensor, q: Tensor) -> Tensor:
    """KL(q ‖ f), over all tasks; a class that q gives nothing counts nothing."""
    return (torch.xlogy(q, q) - torch.where(q > 0, q * log_f, 0.0)).sum()


def _confusion_from_right_and_wrong(right: Tensor, wrong: Tensor, n_classes: int) -> Tensor:
    """Matrices (M, K, K) with `right` (M,) on the diagonal and `wrong` elsewhere."""
    eye = torch.eye(n_classes, dtype=right.dtype, device=right.device)
    return right[:, None, None] * eye + wrong[:, None, None] * (1 - eye)


class DeepMeanFieldObjective(Objective):
    """Cross-entropy to q; q and the workers' counts from mean field before each epoch."""

    q: Tensor
    counts: Tensor

    def __init__(
        self, crowd: Crowd, workers: DirichletWorkers, *, trust: float, sweeps: int, skip_untrained: bool
    ) -> None:
        super().__init__(crowd)
        check_trust(trust, crowd.n_classes)
        self.workers, self.trust, self.sweeps, self.skip_untrained = workers, trust, sweeps, skip_untrained
        self.register_buffer("q", crowd.task_vote_shares())
        self.register_buffer("counts", torch.zeros(crowd.n_workers, crowd.n_classes, crowd.n_classes))

    def begin_epoch(self, epoch: int, forecast: Callable[[], Tensor]) -> None:  # noqa: ARG002
        """Algorithm 1, lines 2 and 3, and β of line 4."""
        log_f = self._task_log_prior(forecast())
        for _ in range(self.sweeps):
            self._sweep(log_f)

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """(30), as a mean over the batch's tasks."""
        return cross_entropy_to(self.q[batch.task].to(seen.logits.dtype), seen.logits)

    def settle(self, log_f: Tensor) -> Tensor:
        """Log q of all tasks, brought to rest with the final classifier."""
        # The votes of tasks that were held out are new, and their workers' counts with them.
        log_f = self._task_log_prior(log_f)
        kept, self.counts = self.counts.dtype, self.counts.double()
        before = -torch.inf
        for _ in range(MOST_SWEEPS):
            q = self._sweep(log_f)
            now = float(evidence_lower_bound(self.crowd, log_f, q, self.workers, self.counts))
            if now - before <= REST * self.crowd.n_labels:
                break
            before = now
        self.counts = self.counts.to(kept)
        return q.log()

    def confusion(self) -> Tensor:
        """Posterior means of the workers' matrices."""
        return self.workers.means(self.counts).to(self.counts.dtype)

    def log_posterior(self, log_f: Tensor, owner: Tensor, worker: Tensor, label: Tensor, confusion: Tensor) -> Tensor:
        """(16), with clipped f; a stranger's expected logarithms are the logarithms of the mean matrix."""
        known = self.workers.expected_logs(self.counts).to(log_f.dtype)
        logs = torch.cat([known, confusion[-1:].clamp(min=SMALLEST).log()])
        return log_posterior_given_labels(
            clip_probabilities(log_f.exp(), self.trust).log(), owner, logs[worker, :, label]
        )

    def _task_log_prior(self, log_f: Tensor) -> Tensor:
        """What the E-step takes from the classifier (N, K)."""
        return limit_trust(log_f, self.trust, self.crowd, self.q if self.skip_untrained else None).log()

    def _sweep(self, log_f: Tensor) -> Tensor:
        """(27), then (29); gives q in double precision."""
        crowd, logs = self.crowd, self.workers.expected_logs(self.counts)
        q = log_posterior_given_labels(log_f, crowd.task, logs[crowd.worker, :, crowd.label]).exp()
        self.q, self.counts = q.to(self.q.dtype), soft_counts(crowd, q).to(self.counts.dtype)
        return q


def evidence_lower_bound(crowd: Crowd, log_f: Tensor, q: Tensor, workers: DirichletWorkers, counts: Tensor) -> Tensor:
    """(26), the evidence bound."""
    said = expected_log_likelihood(crowd, q, workers.expected_logs(counts))
    return said - kl_from_classifier(log_f, q) - workers.divergence(counts)


@estimator
class DeepMeanField(Learner):
    """A classifier, the truths and Dirichlet posteriors of the workers' matrices, by mean field.

    Facts
    -----
    Assumes: matrices with a Dirichlet prior, classifier and truth in turn, by mean field
    Fails with: a wrong prior, workers with very many random answers
    Paper: Kim et al. 2022, AISTATS

    Parameters
    ----------
    prior : "dirichlet" or "one-coin"
        Rows of a worker's matrix are Dirichlet; or they have one Beta(α₁, α₂) accuracy, errors spread evenly.
    alpha : pair (α₁, α₂) above 0; for "dirichlet" also an array (K, K) [truth, label]
        Pseudo-counts of right and of wrong answers, (2, 1) where None. "dirichlet" spreads α₂ over the wrong labels.
    trust : float, from 1/K to 1
        Kim et al.'s c: a class probability of the classifier above it counts as `trust` in the E-step. 1 believes the
        classifier's word; 1/K ignores it.
    skip_untrained : bool
        Leave the classifier out of the E-step while it explains the last q no better than class shares do. False: use
        it from the first epoch on, as Kim et al. 2022.
    sweeps : int
        Updates of truths and workers before each epoch, at least 1.

    Attributes
    ----------
    posterior_ : (N, K)
        q, at rest, with all labels and the final classifier, clipped.
    confusion_ : (M, K, K) [worker, truth, label]
        Posterior means of the workers' matrices.

    Notes
    -----
    When it fails: a prior that is far from the crowd, and workers with very many random answers, whom it may take for
    adversaries: it is too sure of itself, as mean field is (Kim et al. 2022, figure 4). `deep-bp` is not.

    Given labels of new tasks, `predict_proba` is equation (16) with the clipped classifier; a worker unknown to the
    model counts as the average of its crowd.
    """

    slug = "deep-mf"
    family = ALTERNATION
    alternates = True

    prior: str = "dirichlet"
    alpha: Any = None
    trust: float = 0.9
    skip_untrained: bool = True
    sweeps: int = 1

    def _check(self) -> None:
        check_choice("prior", self.prior, PRIORS)
        check_number("trust", self.trust, low=0, high=1, above=True)
        check_flag("skip_untrained", self.skip_untrained)
        check_count("sweeps", self.sweeps)

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:  # noqa: ARG002
        workers = DirichletWorkers(self.alpha, crowd.n_classes, coin=self.prior == "one-coin")
        return DeepMeanFieldObjective(
            crowd, workers, trust=self.trust, sweeps=self.sweeps, skip_untrained=self.skip_untrained
        )
