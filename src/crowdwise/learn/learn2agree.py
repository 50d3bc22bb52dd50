"""Learn2Agree: no truth but what the workers agree on, which a second stream learns and the classifier leans on.

The story. There is no truth behind the labels: experts differ, and the aim is a classifier that agrees with all of
them. Of a task, α is the share of its labels that are positive. An agreement stream, on what the network's last layer
sees, learns α; its indicator ỹ moves the classifier's probability p̂ towards the class that workers agree on, and leaves
it where ỹ is ½. The classifier is fitted to the labels of every worker, each worker weighing the same, rare classes not
being drowned by common ones.

C. Wang, Y. Gao, C. Fan, J. Hu, T. L. Lam, N. D. Lane and N. Bianchi-Berthouze (2023), "Learn2Agree: fitting with
multiple annotators without objective ground truth".

| equation of Wang et al. 2023 | here |
|---|---|
| (1) ŷ = Σ_k G(y^k) y^k, and ỹ by two layers, ReLU and sigmoid | `DistributionalAgreement` |
| ŷ = ỹ by one layer and a sigmoid | `LinearAgreement` |
| (2) the AR loss, as printed and as a quantile loss, (3) RMSE | `agreement_cost` |
| (4) regularised probability | `regularise_log_odds`, on the log-odds |
| (5) focal loss, (6) the mean over each worker's labels, then over workers | `focal_cost`, `mean_over_workers` |
| (7) γ of each worker | `focal_gammas` |
| (8) log(1 − κ), then a sigmoid | `kappa_cost` |
| (9) α, with the weights w of workers | `positive_label_shares` |

A step costs O(labels of the batch × T + B × T × (D + bins)) beside the network, with T = 1 binary task of two classes
and T = K of more; γ takes O(M T).

Readings, where the paper is not plain. The bins of (1) are said to be 1 apart; as α lies in [0, 1], they are k/n here.
Equation (7) prints m_k above and n_k below, and explains n_k alone, the labels of the majority class: both are n_k.
γ is then 1 for balanced answers, and grows to 0.63 N. The sum in (9) is divided by the workers who labelled the task;
where their weights differ, by the sum of the weights, so that α stays in [0, 1]. (2) as printed costs nothing where all
workers agree (α is 0 or 1), whatever ŷ is: only disagreement teaches the distribution, which is also taught through
(4), as no gradient is held back: nothing else teaches its two layers. The quantile loss that the paper says (2) comes
from has α − ŷ where (2) has ŷ − α, and costs 1 − ŷ at α = 1 and ŷ at α = 0: `agreement_loss="pinball"`. The two
losses, the classifier's and the stream's, are added.
Since (4) adds 2λ(ỹ − ½) to the log-odds, and the sigmoid of log(1 − κ) is (1 − κ) / (2 − κ), no logarithm of a small
number is taken.

Departures. N and J of (6) are those of the batch. The epoch is chosen by (6) or (8) of labels held out. A worker who
only ever used one class, for whom (7) divides by zero, is taken to have used the other once. More than two classes,
which Wang et al. 2023 leave to others, are K tasks of one class against the rest, each with a stream; costs are the
mean of the tasks', and the class probabilities are the K regularised ones over their sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import nn
from torch.nn.functional import logsigmoid

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import HEADS
from crowdwise.fitting.parameter_checks import as_numbers, check_choice, check_count, check_number
from crowdwise.labels.errors import InputError, quote
from crowdwise.learn.base import Learner
from crowdwise.learn.losses import SMALLEST
from crowdwise.learn.networks import representation_width
from crowdwise.learn.objective import Objective

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier

__all__ = ["LearnToAgree"]

HIDDEN = 64  # units between the distribution and the indicator: those of Li et al. 2021, whom Wang et al. 2023 follow
STREAMS = {"distributional": "ar", "linear": "rmse", "none": "rmse"}  # and the loss that suits them, tables 2 and 3


# ---- binary tasks ---------------------------------------------------------------------------------------------------


def log_odds(logits: Tensor) -> Tensor:
    """Log-odds of each binary task (B, T): of the second class of two, or of each class against the rest."""
    if logits.shape[1] == 2:
        return logits[:, 1:] - logits[:, :1]
    log_p = logits.log_softmax(dim=1)
    # 1 − p by subtraction is exact enough up to ½; of the one class that may be above, the others are added up.
    top = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, logits.argmax(dim=1, keepdim=True), value=True)
    others = log_p.masked_fill(top, -torch.inf).logsumexp(dim=1, keepdim=True)
    return log_p - torch.where(top, others, torch.log1p(-log_p.exp().clamp(max=0.5)))


def mark_positive_labels(label: Tensor, n_classes: int) -> Tensor:
    """Whether each label is that of the positive class of each binary task (E, T)."""
    said = label[:, None] == torch.arange(n_classes, device=label.device)
    return said[:, 1:] if n_classes == 2 else said


def regularise_log_odds(odds: Tensor, indicator: Tensor, strength: float) -> Tensor:
    """Equation (4), log-odds in and out: p̃ / (1 − p̃) = p̂ / (1 − p̂) · exp(2λ(ỹ − ½))."""
    return odds + 2 * strength * (indicator - 0.5)


# ---- agreement ------------------------------------------------------------------------------------------------------


def positive_label_shares(said: Tensor, weight: Tensor, owner: Tensor, n_tasks: int) -> tuple[Tensor, Tensor]:
    """Equation (9): share of each task's labels that are positive (B, T), and whether it has any (B,).

    Parameters
    ----------
    said : (E, T)
        Whether each label is positive, as numbers.
    weight : (E,)
        w of each label's worker, above 0.
    owner : (E,)
        Position of each label's task in the batch.
    """
    votes = said.new_zeros(n_tasks, said.shape[1]).index_add_(0, owner, weight[:, None] * said)
    total = weight.new_zeros(n_tasks).index_add_(0, owner, weight)
    return votes / total.where(total > 0, 1)[:, None], total > 0


def agreement_cost(predicted: Tensor, agreement: Tensor, kind: str) -> Tensor:
    """Equation (2), as printed or as a quantile loss, or (3): what ŷ (B, T) costs, the mean over binary tasks."""
    gap = predicted - agreement
    if kind in ("ar", "pinball"):
        gap = gap if kind == "ar" else -gap
        return torch.maximum(agreement * gap, (agreement - 1) * gap).mean()
    # The root has no gradient at zero; a trace of SMALLEST gives it one.
    return ((gap**2).mean(dim=0) + SMALLEST**2).sqrt().mean()


class DistributionalAgreement(nn.Module):
    """Equation (1): a softmax over levels of agreement 0, 1/n, …, 1; two layers turn its shape into the indicator."""

    levels: Tensor

    def __init__(self, width: int, bins: int) -> None:
        super().__init__()
        self.distribution = nn.Linear(width, bins + 1)
        self.shape = nn.Sequential(nn.Linear(bins + 1, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))
        self.register_buffer("levels", torch.linspace(0, 1, bins + 1))

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Predicted agreement ŷ and indicator ỹ, (B,) each."""
        share = self.distribution(features).softmax(dim=1)
        return share @ self.levels, self.shape(share)[:, 0].sigmoid()


class LinearAgreement(nn.Module):
    """Agreement by logistic regression; the prediction is the indicator."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, 1)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Predicted agreement ŷ and indicator ỹ, (B,) each."""
        predicted = self.layer(features)[:, 0].sigmoid()
        return predicted, predicted


# ---- the classifier's cost ------------------------------------------------------------------------------------------


def focal_gammas(crowd: Crowd) -> Tensor:
    """Equation (7): γ of each worker in each binary task (M, T), 1 or more; 1 for a worker without labels."""
    said = mark_positive_labels(crowd.label, crowd.n_classes).double()
    yes = said.new_zeros(crowd.n_workers, said.shape[1]).index_add_(0, crowd.worker, said)
    total = torch.bincount(crowd.worker, minlength=crowd.n_workers).double()[:, None]
    most = torch.maximum(yes, total - yes)
    beta = (total - 1).clamp(min=0) / total.clamp(min=1)
    gamma = (1 - beta**most) / (1 - beta ** (total - most).clamp(min=1))
    return torch.where(total > 0, gamma, 1.0).float()


def mean_over_workers(cost: Tensor, worker: Tensor, n_workers: int) -> Tensor:
    """Equation (6): the mean over each worker's labels, then over the workers of the batch, then over binary tasks."""
    count = torch.bincount(worker, minlength=n_workers)
    each = cost / count[worker][:, None]
    return each.sum() / (count > 0).sum().clamp(min=1) / cost.shape[1]


def focal_cost(odds: Tensor, said: Tensor, gamma: Tensor | None) -> Tensor:
    """Equation (5): what each label costs (E, T); cross-entropy without γ (E, T)."""
    towards = torch.where(said, odds, -odds)
    entropy = -logsigmoid(towards)
    return entropy if gamma is None else (gamma * logsigmoid(-towards)).exp() * entropy


def kappa_cost(odds: Tensor, said: Tensor, worker: Tensor, n_workers: int) -> Tensor:
    """Equation (8) with its sigmoid: (1 − κ) / (2 − κ) of each worker in the batch, the mean over workers and tasks.

    1 − κ is observed over expected disagreement (Cohen 1968; between two classes all weights are alike), where the
    classifier's answers are counted with their probabilities (de La Torre et al. 2018).
    """
    p, yes = odds.sigmoid(), said.to(odds.dtype)

    def sum_by_worker(values: Tensor) -> Tensor:
        return values.new_zeros(n_workers, values.shape[1]).index_add(0, worker, values)

    n = sum_by_worker(torch.ones_like(p))
    p_sum, yes_sum = sum_by_worker(p), sum_by_worker(yes)
    observed = sum_by_worker(yes * (1 - p) + (1 - yes) * p)
    expected = (yes_sum * (n - p_sum) + (n - yes_sum) * p_sum) / n.clamp(min=1)
    each = (observed + SMALLEST) / (observed + expected + 2 * SMALLEST)
    met = n > 0
    return (each * met).sum() / met.sum().clamp(min=1)


# ---- the method -----------------------------------------------------------------------------------------------------


class AgreementObjective(Objective):
    """The classifier's cost on all workers' labels, and the agreement stream's."""

    gamma: Tensor
    weights: Tensor

    def __init__(
        self,
        crowd: Crowd,
        streams: list[nn.Module],
        strength: float,
        agreement_loss: str,
        classifier_loss: str,
        weights: Tensor | None = None,
    ) -> None:
        super().__init__(crowd)
        self.register_buffer("weights", torch.ones(crowd.n_workers) if weights is None else weights)
        self.streams = nn.ModuleList(streams)
        self.strength, self.agreement_loss, self.classifier_loss = strength, agreement_loss, classifier_loss
        self.register_buffer("gamma", focal_gammas(crowd))

    def regularised_odds(self, seen: NetworkOutput) -> tuple[Tensor, Tensor | None]:
        """Log-odds by equation (4) and predicted agreement (B, T); without a stream, the classifier's own and None."""
        odds = log_odds(seen.logits)
        if not self.streams:
            return odds, None
        said = [stream(seen.features) for stream in self.streams]
        predicted, indicator = (torch.stack(parts, dim=1) for parts in zip(*said, strict=True))
        return regularise_log_odds(odds, indicator, self.strength), predicted

    def loss(self, seen: NetworkOutput, batch: Batch) -> Tensor:
        """Equation (6) or (8), and (2) or (3) of the tasks that have labels."""
        odds, predicted = self.regularised_odds(seen)
        said = mark_positive_labels(batch.label, self.crowd.n_classes)
        cost = self.classifier_cost(odds[batch.owner], said, batch.worker)
        if predicted is not None and len(batch.label):
            weight = self.weights[batch.worker].to(odds.dtype)
            agreement, labelled = positive_label_shares(said.to(odds.dtype), weight, batch.owner, len(batch))
            cost = cost + agreement_cost(predicted[labelled], agreement[labelled], self.agreement_loss)
        return cost

    def classifier_cost(self, odds: Tensor, said: Tensor, worker: Tensor) -> Tensor:
        """Equation (6) or (8) of labels, given the log-odds of their tasks (E, T)."""
        if self.classifier_loss == "weighted-kappa":
            return kappa_cost(odds, said, worker, self.crowd.n_workers)
        gamma = self.gamma[worker] if self.classifier_loss == "balanced-ce" else None
        return mean_over_workers(focal_cost(odds, said, gamma), worker, self.crowd.n_workers)

    def held_out(self, log_f: Tensor, crowd: Crowd) -> Tensor:
        """Minus the classifier's cost on the labels held out: what is wanted is agreement with them."""
        said = mark_positive_labels(crowd.label, crowd.n_classes)
        return -self.classifier_cost(log_odds(log_f)[crowd.task], said, crowd.worker)

    def log_f(self, seen: NetworkOutput) -> Tensor:
        """Log of the regularised probabilities, over their sum where there are more than two classes."""
        odds, _ = self.regularised_odds(seen)
        if seen.logits.shape[1] == 2:
            return torch.cat([logsigmoid(-odds), logsigmoid(odds)], dim=1)
        return logsigmoid(odds).log_softmax(dim=1)


@estimator
class LearnToAgree(Learner):
    """A classifier that agrees with all workers, helped by a stream that learns how far they agree.

    For experts without an objective truth. Two classes, as in Wang et al. 2023; more are each taken against the rest.

    Facts
    -----
    Assumes: there is no truth but agreement: a second stream learns it and regularises the classifier
    Fails with: there is a truth, and the majority misses it
    Paper: Wang et al. 2023, AAAI

    Parameters
    ----------
    stream
        How agreement is learnt: "distributional" (a distribution over levels, equation 1), "linear" (logistic
        regression), or "none": every worker's labels are fitted with the same classifier loss (Wang et al.'s
        learn-from-all).
    agreement_loss
        "ar" (equation 2 as printed, which costs nothing where all workers agree), "pinball" (the quantile loss that
        equation 2 comes from, which does) or "rmse" (equation 3); None for the one that suits the stream: "ar" for
        distributional, "rmse" for linear.
    classifier_loss
        "balanced-ce" (equations 5 to 7), "ce" (the same with γ = 0) or "weighted-kappa" (equation 8; a batch must hold
        both classes of a worker's labels for them to teach anything).
    strength
        λ of equation (4), at least 0: the log-odds are moved by up to λ. 3 in the paper.
    bins
        n of equation (1), at least 1; 10 and 5 in the paper.
    worker_weights
        w of equation (9), one number above 0 for each worker in the order of `labels.workers`: how much their labels
        count in what the stream learns as agreement. None for 1 each, as in the paper.

    Notes
    -----
    When it fails: there is a truth and most workers miss it, since it agrees with them; many workers with few labels
    each, since each weighs the same; and "weighted-kappa" with batches in which a worker has few labels.

    With "balanced-ce" a worker who nearly always says one thing has a large γ: their labels count only where the
    classifier is much against them.

    The agreement stream belongs to the classifier: `predict_proba` gives the regularised probabilities, while
    `network_` by itself gives the logits before regularisation.

    Where `worker_learning_rate`, the streams', is None, it is
    `learning_rate`.

    Examples
    --------
    >>> import crowdwise as cw
    >>> X, labels, truth = cw.simulate.simulate_features(skill=0.9)
    >>> model = cw.LearnToAgree(network="linear", learning_rate=0.01, epochs=30).fit(X, labels)
    >>> cw.metrics.agreement_ratio(model.predict(X), labels) > 1
    True
    """

    slug = "learn2agree"
    family = HEADS
    models_workers = False
    held_out_measure: ClassVar[str] = "minus the classifier's cost; 0 is perfect"
    workers_faster: ClassVar[float] = 1.0  # the streams are heads of the classifier

    stream: str = "distributional"
    agreement_loss: str | None = None
    classifier_loss: str = "balanced-ce"
    strength: float = 3.0
    bins: int = 10
    worker_weights: Any = None

    def _check(self) -> None:
        check_choice("stream", self.stream, tuple(STREAMS))
        if self.agreement_loss is not None:
            check_choice("agreement_loss", self.agreement_loss, ("ar", "pinball", "rmse"))
        check_choice("classifier_loss", self.classifier_loss, ("balanced-ce", "ce", "weighted-kappa"))
        check_number("strength", self.strength, low=0)
        check_count("bins", self.bins)

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:
        width = representation_width(classifier, features)
        n_streams = 0 if self.stream == "none" else len(mark_positive_labels(torch.zeros(1), crowd.n_classes)[0])
        streams: list[nn.Module] = [
            DistributionalAgreement(width, self.bins) if self.stream == "distributional" else LinearAgreement(width)
            for _ in range(n_streams)
        ]
        loss = self.agreement_loss or STREAMS[self.stream]
        weights = self._weights_of_workers(crowd.n_workers)
        return AgreementObjective(crowd, streams, self.strength, loss, self.classifier_loss, weights)

    def _weights_of_workers(self, n_workers: int) -> Tensor | None:
        if self.worker_weights is None:
            return None
        given = as_numbers(self.worker_weights, "worker_weights")
        if given.shape != (n_workers,) or not (np.isfinite(given) & (given > 0)).all():
            raise InputError(
                f"worker_weights is {quote(self.worker_weights)}; it must be {n_workers} numbers above 0, one for each "
                "worker."
            )
        return torch.as_tensor(given, dtype=torch.float32)
