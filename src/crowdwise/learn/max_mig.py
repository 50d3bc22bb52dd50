"""Max-MIG: the classifier and the crowd agree on the same task, and not on different ones.

The generative story. Features and labels are independent given the truth, and nothing is said of how the labels depend
on each other: workers may copy. Then all that features and labels know of each other is the truth. A classifier f(x)
and an aggregator g(labels) = softmax(Σ_w W[w, :, label] + log p) are trained together to raise their f-mutual
information gain: rewarded where they agree on one task, punished where f of one agrees with g of another. Its largest
value is the mutual information of features and labels, and is reached where both are the Bayes posteriors.

P. Cao, Y. Xu, Y. Kong and Y. Wang (2019), "Max-MIG: an information theoretic approach for joint learning from crowds",
ICLR.

| equation of Cao et al. 2019 | here |
|---|---|
| (1) MIG of a batch: agreement on its tasks, less that on its pairs i ≠ j | `information_gain` |
| table 1: ∂f(K) and f*(∂f(K)) of KL, Pearson χ², Jensen–Shannon | `positive_pair_reward`, `negative_pair_penalty` |
| section 3.1: aggregator g | `aggregate_labels` |
| (2) start of W, with Q the share of the votes | `start_weights` |
| section 3.1: data-crowds forecaster ζ ∝ f·g/p | `MigObjective.log_posterior`: g/p ∝ exp(Σ W) |

A step costs O(labels of the batch × K) and, for the pairs, O(B² K) beside the network.

Departures:

- Equation (2) divides by all tasks, each of which every worker has labelled. Here a worker's row is divided by the
  tasks that *they* labelled: otherwise their silence would speak against a class. It is smoothed by `smoothing` answers
  like the crowd's, where equation (2) has log 0.
- `start="mean"`, which is ours, divides equation (2) by the mean number of labels of a task, so that the aggregator
  begins as the *mean* of its workers' opinions, not as their sum. The sum is naive Bayes: with many workers it is sure
  from the first step, its softmax has no gradient left, and what a hundred copies of a coin said stands for ever
  (example E.2). Weights of the full size must then be learnt, which takes many steps at the paper's rate of 1e-4.
- The definition in appendix C.1 has its arguments the other way round: what (1) attains is Σ V f(U/V), which for KL is
  Shannon's mutual information.
- Mutual information does not know the classes' names: f and g may both be right but for a permutation. Before each
  epoch the outputs get the names under which the weights of all labels given speak most for what they say
  (`match_outputs_to_classes`), unless a given prior tells the classes apart.
- The best epoch is chosen by the gain on the tasks held out. The likelihood of their labels counts copies as if they
  were witnesses, which is what theorem E.3 has against it.
- W is no confusion matrix. A constant added to a column of W cancels in g, and theorem 3.4 gives a worker who copies
  weight 0, however good they are. Confusion matrices are counted with the posterior, as for methods without any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
from scipy.optimize import linear_sum_assignment
from torch import nn

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import HEADS
from crowdwise.fitting.parameter_checks import as_numbers, check_choice, check_count, check_number, check_shares
from crowdwise.labels.errors import InputError, quote
from crowdwise.learn.base import Learner
from crowdwise.learn.objective import Objective
from crowdwise.learn.worker_models import log_posterior_given_labels, vote_confusions

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier

__all__ = ["MaxMig"]

DIVERGENCES = ("kl", "pearson", "js")
STARTS = ("sum", "mean")
MOST_PAIRED = 2048  # tasks held out that are paired at one time
LOG_2 = 0.6931471805599453


def positive_pair_reward(log_k: Tensor, divergence: str) -> Tensor:
    """∂f(K) of table 1, from log K."""
    if divergence == "kl":
        return 1 + log_k
    if divergence == "pearson":
        return 2 * (log_k.exp() - 1)
    return LOG_2 - nn.functional.softplus(-log_k)  # log(2K / (1 + K))


def negative_pair_penalty(k: Tensor, divergence: str) -> Tensor:
    """f*(∂f(K)) of table 1."""
    if divergence == "kl":
        return k
    if divergence == "pearson":
        return k**2 - 1
    return torch.log1p(k) - LOG_2


def information_gain(log_f: Tensor, log_g: Tensor, log_p: Tensor, divergence: str) -> Tensor:
    """Equation (1): MIG of f and g (B, K) with the prior p (K,), over a batch of at least two tasks."""
    size = len(log_f)
    scaled = log_f - log_p
    same = positive_pair_reward((scaled + log_g).logsumexp(dim=1), divergence).mean()
    crossed = negative_pair_penalty(scaled.exp() @ log_g.exp().T, divergence)
    pairs = crossed.sum() - crossed.diagonal().sum()
    return same - pairs / (size * (size - 1))


def aggregate_labels(log_p: Tensor, weights: Tensor, owner: Tensor, worker: Tensor, label: Tensor, size: int) -> Tensor:
    """Log g of every task (B, K): the sum of the chosen columns of W, and log p. Without labels, g is p."""
    return log_posterior_given_labels(log_p.expand(size, -1), owner, weights[worker, :, label])


def start_weights(crowd: Crowd, smoothing: float, start: str) -> Tensor:
    """Equation (2): log-confusions (M, K, K) [worker, truth, label] counted with the shares of the votes."""
    log_rows = vote_confusions(crowd, smoothing).log()
    if start == "sum":
        return log_rows
    labelled = int((crowd.ptr.diff() > 0).sum())
    return log_rows * (max(labelled, 1) / max(crowd.n_labels, 1))


def match_outputs_to_classes(weights: Tensor, counts: Tensor) -> Tensor:
    """For every class, which of the outputs its labels speak for most: (K,), a permutation.

    Parameters
    ----------
    weights : (M, K, K)
    counts : (M, K)
        Labels of every class that each worker gave.
    """
    spoken = torch.einsum("wkl,wl->kl", weights - weights.mean(dim=1, keepdim=True), counts)
    finite = spoken.double().nan_to_num()  # of weights that have diverged, which the loss tells
    output, label = linear_sum_assignment(finite.cpu().numpy(), maximize=True)
    return torch.as_tensor(output[label.argsort()], device=weights.device)


class MigObjective(Objective):
    """Minus the information gain of the classifier and the aggregator."""

    def __init__(
        self, crowd: Crowd, prior: Tensor, prior_is: str, divergence: str, smoothing: float, start: str
    ) -> None:
        super().__init__(crowd)
        self.divergence = divergence
        self.weights = nn.Parameter(start_weights(crowd, smoothing, start))
        self.prior_logits = nn.Parameter(prior.log(), requires_grad=prior_is == "learnt")
        self.named = prior_is == "given"
        self.order: Tensor
        self.register_buffer("order", torch.arange(crowd.n_classes, device=self.device))
        said = torch.bincount(crowd.worker * crowd.n_classes + crowd.label, minlength=self.weights[..., 0].numel())
        self.counts: Tensor
        self.register_buffer("counts", said.view(-1, crowd.n_classes).float())

    def check_restored(self) -> None:
        """Each class has one output of the network."""
        if not torch.equal(self.order.sort().values, torch.arange(len(self.order))):
            raise InputError("order does not give each class one output of the network")

    def begin_epoch(self, epoch: int, forecast: Callable[[], Tensor]) -> None:
        """Settle which output of the network is which class."""
        del forecast
        if epoch and not self.named:
            self.order.copy_(match_outputs_to_classes(self.weights.detach(), self.counts))

    def log_prior(self) -> Tensor:
        """Log p (K,)."""
        return self.prior_logits.log_softmax(dim=0)

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """Equation (1), its sign turned. A single task has no pairs: it costs nothing, and nothing is learnt of it."""
        log_f, log_p = seen.logits.log_softmax(dim=1), self.log_prior()
        log_g = aggregate_labels(log_p, self.weights, batch.owner, batch.worker, batch.label, len(batch))
        if len(batch) < 2:
            return 0.0 * (log_f.exp().sum() + log_g.exp().sum())
        return -information_gain(log_f, log_g, log_p, self.divergence)

    def log_f(self, seen: NetworkOutput) -> Tensor:
        """The classifier's log-probabilities (B, K), in the order of the classes."""
        return seen.logits.log_softmax(dim=1)[:, self.order]

    def log_posterior(self, log_f: Tensor, owner: Tensor, worker: Tensor, label: Tensor, confusion: Tensor) -> Tensor:
        """Log ζ: f·g/p, normalised. A stranger has the mean of the weights of workers who have labels."""
        del confusion
        stranger = self.weights[self.counts.sum(dim=1) > 0].mean(dim=0, keepdim=True)
        weights = torch.cat([self.weights, stranger])[:, self.order]
        return log_posterior_given_labels(log_f, owner, weights[worker, :, label].to(log_f.dtype))

    def held_out(self, log_f: Tensor, crowd: Crowd) -> Tensor | None:
        """The gain on tasks held out: the likelihood of their labels would believe copies as much as all others."""
        if len(log_f) < 2:
            return None
        log_p, weights = self.log_prior()[self.order], self.weights[:, self.order]
        log_g = aggregate_labels(log_p, weights, crowd.task, crowd.worker, crowd.label, len(log_f))
        return torch.stack(
            [
                information_gain(f, g, log_p, self.divergence)
                for f, g in zip(torch.split(log_f, MOST_PAIRED), torch.split(log_g, MOST_PAIRED), strict=True)
                if len(f) > 1
            ]
        ).mean()


@estimator
class MaxMig(Learner):
    """A classifier and an aggregator of labels that know of each other only through the truth, however workers copy.

    `predict_proba(X, labels)` is the data-crowds forecaster of the paper.

    Facts
    -----
    Assumes: classifier and crowd know of each other only through the truth, however workers copy
    Fails with: very few labels per worker; small batches
    Paper: Cao et al. 2019, ICLR

    Parameters
    ----------
    divergence
        "kl" (Shannon's mutual information), "pearson" (χ²) or "js" (Jensen–Shannon).
    prior
        Shares p of the classes: "uniform", "learnt" (from uniform), or a list of K probabilities above 0 that are kept.
    smoothing
        Answers like the crowd's that are added to each row of the matrices the weights start from, above 0.
    start
        "sum": at first the aggregator is the sum of the workers' log-odds, equation (2) of the paper, which many
        workers of one opinion can make sure of what is wrong before anything is learnt. "mean": their mean.

    Notes
    -----
    When it fails: features tell more of the label than the truth does (workers who err on the same kinds of tasks), or
    workers with very few labels, whose weights are hardly more than their start. `batch_size` must be at least 2; pairs
    of small batches are few, and noisy.

    The weights W are in `module_.weights` (M, K, K) [worker, truth, label]; a worker who adds nothing to the others has
    equal columns. Output `module_.order[k]` of `network_` is class k.

    Where `worker_learning_rate` is None it is `learning_rate`, as for cats and dogs in Cao et al. 2019.
    """

    slug = "max-mig"
    family = HEADS
    models_workers = False
    held_out_measure: ClassVar[str] = "information shared with the classifier; 0 is none"
    workers_faster: ClassVar[float] = 1.0  # Cao et al. 2019 have one rate for both

    divergence: str = "kl"
    prior: Any = "uniform"
    smoothing: float = 1.0
    start: str = "sum"

    def _check(self) -> None:
        check_choice("divergence", self.divergence, DIVERGENCES)
        check_number("smoothing", self.smoothing, low=0, above=True)
        check_choice("start", self.start, STARTS)
        check_count("batch_size", self.batch_size, low=2)
        if isinstance(self.prior, str):
            check_choice("prior", self.prior, ("uniform", "learnt"))

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:  # noqa: ARG002
        prior = torch.full((crowd.n_classes,), 1 / crowd.n_classes)
        if not isinstance(self.prior, str):
            given = as_numbers(self.prior, "prior")
            if given.shape != prior.shape or (given <= 0).any():
                raise InputError(
                    f"prior is {quote(self.prior)}; it must be 'uniform', 'learnt', or {crowd.n_classes} probabilities"
                    " above 0, one for each class."
                )
            check_shares("prior", given)
            prior = torch.as_tensor(given, dtype=torch.float32)
        prior_is = self.prior if isinstance(self.prior, str) else "given"
        return MigObjective(crowd, prior, prior_is, self.divergence, self.smoothing, self.start)
