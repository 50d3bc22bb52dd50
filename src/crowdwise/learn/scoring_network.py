"""Scores of items from their features, and workers who compare them: a reward model that knows its workers.

The generative story. A network gives every item a score s = f(x). Worker w is shown two items and finds the left one
better with log-odds x = u[w] (s - s') + c[w]: the slope u[w] is near 0 for who guesses and negative for who means the
opposite, and c[w] is the bias to the left side, where the sides are known. Or, as in CrowdBT, the worker says what they
find with probability ω[w], and the opposite otherwise. Ties as Davidson's.

X. Chen, P. N. Bennett, K. Collins-Thompson and E. Horvitz (2013), "Pairwise ranking aggregation in a crowdsourced
setting", WSDM, equation 4, for ω; T. Jin, P. Xu, Q. Gu and F. Farnoud (2020), "Rank aggregation via heterogeneous
Thurstone preference models", AAAI, for slopes; P. Christiano et al. (2017), "Deep reinforcement learning from human
preferences", NeurIPS, for the network, whose workers are all alike.

| equation | here |
|---|---|
| L, T, R = (e^(x/2), ν, e^(-x/2)) / (e^(x/2) + ν + e^(-x/2)) | `choice_log_shares` |
| ω L + (1 - ω) R | `ScoringObjective.log_density` |
| u ~ N(1, 1), c ~ N(0, 1/4), ω ~ Beta(4, 2) | `ScoringObjective.penalty` |
| variances of scores: last layer, Laplace (Kristiadi, Hein and Hennig 2020) | `output_uncertainty` |

A step costs O(answers of the batch) beside the network.

Departures: workers have the priors above, of which those of u and ω are those of the methods without a network. No
constant was chosen by a truth. What a score says comes from the features alone: two items of equal features have one
score.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from scipy.special import expit, logit, ndtri
from torch import nn
from torch.nn.functional import logsigmoid

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_choice
from crowdwise.fitting.saved_arrays import SavedArray
from crowdwise.kinds.comparisons.answers import Comparisons
from crowdwise.kinds.comparisons.likelihood import answer_probabilities, differentiate
from crowdwise.kinds.comparisons.model import ComparisonModel
from crowdwise.kinds.item_scores import concordance
from crowdwise.kinds.model import Found
from crowdwise.labels.errors import InputError
from crowdwise.learn.answer_learner import AnswerLearner, check_pairs
from crowdwise.learn.answer_objective import AnswerObjective
from crowdwise.learn.output_uncertainty import last_layer_variances

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from crowdwise.kinds.comparisons.likelihood import Curvature
    from crowdwise.labels.types import FloatArray, IntArray
    from crowdwise.learn.answer_batches import AnswerBatch, AnswerRows
    from crowdwise.learn.batches import NetworkOutput

__all__ = ["ScoringNetwork"]

RELIABILITIES = ("slope", "quality", "none")
SLOPE_SPREAD, BIAS_SPREAD = 1.0, 0.5
RIGHT, WRONG = 4.0, 2.0  # Beta prior of ω, as that of crowd-bt
TINY = 1e-12


def choice_log_shares(x: Tensor, tie: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities of left, tie and right for log-odds x (B,); `tie` is log ν, None where there are no ties."""
    if tie is None:
        return logsigmoid(x), torch.full_like(x, -torch.inf), logsigmoid(-x)
    every = torch.stack([0.5 * x, tie.expand_as(x), -0.5 * x]).log_softmax(dim=0)
    return every[0], every[1], every[2]


class ScoringObjective(AnswerObjective):
    """Log-probability of comparisons, through the slopes and biases, or the qualities, of their workers."""

    def __init__(self, rows: AnswerRows, reliability: str, *, sided: bool, ties: bool) -> None:
        super().__init__(rows)
        start = torch.zeros(rows.n_workers, device=rows.device)
        self.slope = nn.Parameter(start + 1) if reliability == "slope" else None
        self.quality = nn.Parameter(start + float(logit(RIGHT / (RIGHT + WRONG)))) if reliability == "quality" else None
        self.bias = nn.Parameter(start.clone()) if sided and reliability != "none" else None
        self.tie = nn.Parameter(start.new_zeros(())) if ties else None
        self.register_buffer("sign", start.new_ones(()))
        self.warm = False

    def begin_epoch(self, epoch: int, forecast: Callable[[], Tensor]) -> None:  # noqa: ARG002
        """Workers stay as they are while the network knows nothing; those who turned round with it are turned back."""
        self.warm = self.is_warming_up(epoch)
        self.turn_back()

    def turn_back(self) -> None:
        """Turn scores and workers round where most answers come from workers who mean the opposite.

        Both explain the answers as well, and the priors say which of them it is.
        """
        worker = self.crowd.worker
        with torch.no_grad():
            if self.slope is not None and self.slope[worker].mean() < 0:
                turned = [self.get_buffer("sign"), self.slope]
            elif self.quality is not None and self.quality[worker].sigmoid().mean() < 0.5:
                turned = [self.get_buffer("sign"), self.quality, *([] if self.bias is None else [self.bias])]
            else:
                return
            for each in turned:
                each.neg_()

    def log_density(self, seen: NetworkOutput, batch: AnswerBatch) -> Tensor:
        """Log-probability of each answer (B,)."""
        score = self.get_buffer("sign") * seen.logits[batch.slot, 0]
        x, worker = score[:, 0] - score[:, 1], batch.worker
        slope, bias, quality = (
            each if each is None else (each.detach() if self.warm else each)[worker]
            for each in (self.slope, self.bias, self.quality)
        )
        x = x if slope is None else slope * x
        x = x if bias is None else x + bias
        left, tied, right = choice_log_shares(x, self.tie)
        if quality is not None:
            says, turns = logsigmoid(quality), logsigmoid(-quality)
            left, right = torch.logaddexp(says + left, turns + right), torch.logaddexp(says + right, turns + left)
        return torch.where(batch.said > 0, left, torch.where(batch.said < 0, right, tied))

    def penalty(self) -> Tensor:
        """Minus the log-density of the priors of slopes, biases and qualities."""
        total = super().penalty()
        if self.slope is not None:
            total = total + 0.5 * ((self.slope - 1) / SLOPE_SPREAD).square().sum()
        if self.bias is not None:
            total = total + 0.5 * (self.bias / BIAS_SPREAD).square().sum()
        if self.quality is not None:
            total = total - (RIGHT * logsigmoid(self.quality) + WRONG * logsigmoid(-self.quality)).sum()
        return total


class CentredScores(ComparisonModel):
    """What scores by a network keep besides.

    Attributes
    ----------
    centre_ : (1,)
        Mean output of the network over the items of the fit, which scores leave out.
    sign_ : (1,)
        1 or -1: scores are this × (output - centre).
    """

    saved: ClassVar[tuple[SavedArray, ...]] = (SavedArray("centre", "1"), SavedArray("sign", "1", low=-1, high=1))
    centre_: FloatArray
    sign_: FloatArray


@estimator
class ScoringNetwork(AnswerLearner[Comparisons], CentredScores):
    """A network that scores items, from comparisons by workers of different reliability.

    Facts
    -----
    Assumes: one score, a function of the features, moves every worker, the more or less, or the other way
    Fails with: most workers adversaries; workers with different tastes; features that do not tell items apart
    Paper: Chen et al. 2013, WSDM; Jin et al. 2020, AAAI; Christiano et al. 2017, NeurIPS

    Parameters
    ----------
    reliability
        What a worker has of their own: "slope" (how differences of scores move them), "quality" (ω of CrowdBT: the
        chance that they say what they find) or "none" (all are alike, and no bias to a side is learnt). With the first
        two a bias to the left side is learnt where the sides are known.

    Notes
    -----
    When it fails: scores and slopes may both change sign, which explains the answers as well. Scores are those by which
    most answers come from workers who do not mean the opposite; where most do, all is turned round.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> crowd = kinds.simulate_comparisons(30, answers_per_worker=50, scores=X @ [2.0, -1.0], random_state=0)
    >>> model = cw.ScoringNetwork(network="linear", epochs=30, learning_rate=0.02).fit(X, crowd.answers)
    >>> model.score(X, crowd.score) > 0.9
    True
    """

    slug = "scoring-network"
    is_default = True
    predicts: ClassVar[str] = "score"
    outputs: ClassVar[str] = "one score for each item"

    reliability: str = "slope"

    def _check(self) -> None:
        check_choice("reliability", self.reliability, RELIABILITIES)

    def _say(self, answers: Comparisons) -> Tensor:
        return torch.as_tensor(answers.outcome.astype(np.int64))

    def _make_objective(self, answers: Comparisons, rows: AnswerRows) -> ScoringObjective:
        return ScoringObjective(rows, self.reliability, sided=answers.sided, ties=answers.has_ties)

    def _find(self, answers: Comparisons, seen: NetworkOutput, objective: ScoringObjective) -> Found:
        objective.turn_back()
        output, sign = seen.logits[:, 0].numpy(), float(objective.get_buffer("sign"))
        asked = answers.answers_per_item > 0
        centre = float(output[asked].mean())
        score = sign * (output - centre)
        n_workers = answers.n_workers
        slope = _values(objective.slope, np.ones(n_workers))
        bias = _values(objective.bias, np.zeros(n_workers))
        quality = _values(objective.quality, np.full(n_workers, np.inf))
        tie = -np.inf if objective.tie is None else float(objective.tie.detach())
        difference = score[answers.left] - score[answers.right]
        log_odds = slope[answers.worker] * difference + bias[answers.worker]
        expected = differentiate(answers.outcome, log_odds, quality[answers.worker], tie).expected
        graph = answers.graph
        item, pair = last_layer_variances(
            self.network_,
            seen,
            np.stack([answers.left, answers.right], axis=1),
            expected.xx * slope[answers.worker] ** 2,
            centre=np.flatnonzero(asked),
            pairs=np.stack([graph.first, graph.second], axis=1),
        )
        return Found({
            "score": score,
            "score_variance": item,
            "pair_variance": pair,
            "worker_slope": slope,
            "worker_bias": bias,
            "worker_quality": expit(quality),
            **_worker_variances(answers, difference, expected, objective),
            "tie": np.array([np.exp(tie)]),
            "spread": np.array([max(float(score[asked].std()), TINY)]),
            "centre": np.array([centre]),
            "sign": np.array([sign]),
        })  # fmt: skip

    def _remember(self, answers: Comparisons, found: Found) -> None:
        super()._remember(answers, found)
        self.group_ = np.zeros(answers.n_items, np.int64)  # one network scores all of them

    def _predict(self, seen: NetworkOutput, answers: Comparisons | None) -> FloatArray:
        if answers is not None:
            raise InputError(f"{self.slug} scores items by their features alone: leave the answers out.")
        scores: FloatArray = self.sign_[0] * (seen.logits[:, 0].numpy() - self.centre_[0])
        return scores

    def predict_pairs(self, X: Any, left: Any, right: Any) -> FloatArray:
        """Probability that a common worker finds the left item better than the right one (n,), ties left aside.

        Parameters
        ----------
        X
            Features of items, as for `fit`.
        left, right
            Rows of X, one pair for each probability.
        """
        score = self.predict(X)
        rows = check_pairs(left, right, len(score))
        chances = answer_probabilities(score[rows[0]] - score[rows[1]], np.ones(rows[0].shape), -np.inf)[0]
        return np.asarray(chances, np.float64)

    def _score(self, predicted: FloatArray, truth: Any) -> float:
        """Share of the pairs of different true scores that are ordered rightly."""
        return concordance(predicted, np.asarray(truth, np.float64))

    def _reliability(self, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        typical = self._typical_difference()
        if self.reliability == "none":
            return super()._reliability(level)
        reach = float(ndtri((1 + level) / 2))
        if self.reliability == "slope":
            off = reach * np.sqrt(self.worker_slope_variance_)
            low, middle, high = (expit(typical * (self.worker_slope_ + step)) for step in (-off, 0.0, off))
            return middle, low, high
        off, share = reach * np.sqrt(self.worker_quality_variance_), expit(typical)
        inner = logit(np.clip(self.worker_quality_, TINY, 1 - TINY))
        low, middle, high = (
            1 - share + (2 * share - 1) * expit(inner + step) for step in (-off, 0.0, off)
        )  # fmt: skip
        return middle, low, high


def _values(parameter: Tensor | None, otherwise: FloatArray) -> FloatArray:
    return otherwise if parameter is None else parameter.detach().double().numpy()


def _worker_variances(
    answers: Comparisons, difference: FloatArray, expected: Curvature, objective: ScoringObjective
) -> dict[str, FloatArray]:
    """Variances (M,) of slopes, biases and qualities, each worker's together, by Laplace's approximation."""
    parts: dict[str, tuple[IntArray | FloatArray, float]] = {}
    one = np.ones(answers.n_answers)
    if objective.slope is not None:
        parts["slope"] = (difference, SLOPE_SPREAD**-2)
    if objective.bias is not None:
        parts["bias"] = (one, BIAS_SPREAD**-2)
    if objective.quality is not None:
        parts["quality"] = (one, RIGHT * WRONG / (RIGHT + WRONG))
    names = list(parts)
    information = np.zeros((answers.n_workers, len(names), len(names)))
    for i, first in enumerate(names):
        information[:, i, i] += parts[first][1]
        for j, second in enumerate(names):
            number = (first == "quality") + (second == "quality")
            each = (expected.xx, expected.xq, expected.qq)[number] * parts[first][0] * parts[second][0]
            information[:, i, j] += np.bincount(answers.worker, each, answers.n_workers)
    nothing: Any = np.zeros(answers.n_workers)
    own = dict.fromkeys(("slope", "bias", "quality"), nothing)
    if names:
        inverse: FloatArray = np.asarray(np.linalg.inv(information), np.float64)
        own |= {name: inverse[:, at, at] for at, name in enumerate(names)}
    return {f"worker_{name}_variance": values for name, values in own.items()}
