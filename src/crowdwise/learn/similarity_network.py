"""Clusters of items from their features, and workers who say whether two items are the same.

The generative story. A network gives every item the probabilities f(x) of K clusters. Two items are in one cluster with
probability f(x_i)ᵀ f(x_j). Worker w says "same" of items of one cluster with probability a[w], their sensitivity, and
of others with probability b[w], one less their specificity.

Y.-C. Hsu, Z. Lv, J. Schlosser, P. Odom and Z. Kira (2019), "Multi-class classification without multi-class labels",
ICLR, for the likelihood of pairs; T. Nguyen, S. Ibrahim and X. Fu (2023), "Deep clustering with incomplete noisy
pairwise annotations", ICML, for pairs that are wrong.

| equation | here |
|---|---|
| P("same" is said) = a P(same) + b (1 - P(same)), P(same) = f(x_i)ᵀ f(x_j) | `SimilarityObjective.log_density` |
| a ~ Beta(7, 3), b ~ Beta(3, 7) | `SimilarityObjective.penalty` |
| clusters given features and answers: belief propagation from the prior f(x) | `join_answers` |

A step costs O(answers of the batch × K) beside the network; nothing has the size of items × items.

Departures: rates of each worker, with the priors above; no term for the volume of f. No constant here was chosen by a
truth. That outputs to spare help was seen on digits, whose truth was known.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import nn
from torch.nn.functional import logsigmoid

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_count
from crowdwise.fitting.saved_arrays import SavedArray
from crowdwise.kinds.model import Found
from crowdwise.kinds.similarity.answers import Similarities
from crowdwise.kinds.similarity.belief_propagation import damp, run_messages
from crowdwise.kinds.similarity.metrics import adjusted_rand
from crowdwise.kinds.similarity.model import SimilarityModel, arrays_of
from crowdwise.kinds.similarity.pair_evidence import Rates, count_answers, lay_out_evidence, pool_rates
from crowdwise.labels.errors import InputError
from crowdwise.learn.answer_learner import AnswerLearner, check_pairs
from crowdwise.learn.answer_objective import AnswerObjective

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.kinds.similarity.pair_evidence import Evidence
    from crowdwise.labels.types import FloatArray, IntArray
    from crowdwise.learn.answer_batches import AnswerBatch, AnswerRows
    from crowdwise.learn.batches import NetworkOutput

__all__ = ["SimilarityNetwork"]

RIGHT, WRONG = 6.0, 2.0  # answers that the priors of sensitivity and specificity are worth
PASSES, TOLERANCE = 50, 1e-6  # of belief propagation
TINY = 1e-6  # least probability of what is said


class SimilarityObjective(AnswerObjective):
    """Log-probability of "same" and "different", through the two rates of their workers."""

    def __init__(self, rows: AnswerRows) -> None:
        super().__init__(rows)
        start = torch.full((rows.n_workers,), float(np.log(RIGHT / WRONG)), device=rows.device)
        self.same, self.different = nn.Parameter(start.clone()), nn.Parameter(-start)

    def log_density(self, seen: NetworkOutput, batch: AnswerBatch) -> Tensor:
        """Log-probability of each answer (B,)."""
        shares = seen.logits.softmax(dim=1)[batch.slot]
        together = (shares[:, 0] * shares[:, 1]).sum(dim=1)
        rate, other = self.same[batch.worker].sigmoid(), self.different[batch.worker].sigmoid()
        says = together * rate + (1 - together) * other
        return torch.where(batch.said, says, 1 - says).clamp(min=TINY).log()

    def penalty(self) -> Tensor:
        """Minus the log-density of the priors of the rates."""
        right = RIGHT * (logsigmoid(self.same) + logsigmoid(-self.different))
        wrong = WRONG * (logsigmoid(-self.same) + logsigmoid(self.different))
        return -(right + wrong).sum()

    def rates(self) -> Rates:
        """How often each worker says "same" of items of one cluster, and of others."""
        same, different = (each.detach().double().sigmoid().numpy() for each in (self.same, self.different))
        return Rates(same, different)


def join_answers(evidence: Evidence, rates: Rates, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Probabilities of the clusters (N, K) given features and answers, and of "the same" of each pair (P,).

    Parameters
    ----------
    shares : (N, K)
        Probabilities by the features, of items in the order of the evidence.
    """
    belief = shares.copy()
    message = belief[evidence.edges.neighbour]
    together = np.zeros(evidence.graph.n_pairs)
    for number in range(PASSES):
        together, _, change = run_messages(evidence, rates, shares, message, belief, damp(number))
        if change < TOLERANCE:
            break
    return belief, together


class NumberedOutputs(SimilarityModel):
    """What clusters by a network keep besides.

    Attributes
    ----------
    output_cluster_ : (K,)
        The cluster that each output of the network stands for: 0 for the largest.
    """

    saved: ClassVar[tuple[SavedArray, ...]] = (SavedArray("output_cluster", "K", low=0, codes="K", integer=True),)
    output_cluster_: IntArray


@estimator
class SimilarityNetwork(AnswerLearner[Similarities], NumberedOutputs):
    """A network that puts items into clusters, from answers whether two items are the same.

    Facts
    -----
    Assumes: the features tell the clusters apart; how a worker errs depends only on whether two items are in one
    Fails with: more clusters than outputs, clusters that features do not tell apart, most workers adversaries
    Paper: Hsu et al. 2019, ICLR; Nguyen et al. 2023, ICML

    Parameters
    ----------
    n_clusters : int, at least 1
        Clusters that there are at most: outputs of the network. Some may stay empty.

    Notes
    -----
    When it fails: an output may take two clusters that the first epochs do not tell apart. Outputs to spare make that
    rarer, and `held_out` of the history shows which of two fits is better.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> crowd = kinds.simulate_similarities(cluster=X.argmax(axis=1), share=0.5, random_state=0)
    >>> model = cw.SimilarityNetwork(n_clusters=3, network="linear", epochs=30, learning_rate=0.05)
    >>> model.fit(X, crowd.answers).score(X, crowd.cluster) > 0.8
    True
    """

    slug = "similarity-network"
    is_default = True
    predicts: ClassVar[str] = "cluster"
    outputs: ClassVar[str] = "one logit for each cluster"

    n_clusters: int = 10

    def _check(self) -> None:
        check_count("n_clusters", self.n_clusters)

    def _check_restored(self) -> None:
        super()._check_restored()
        if not np.array_equal(np.sort(self.output_cluster_), np.arange(self.n_outputs_)):
            raise InputError("output_cluster must name each output's cluster once")

    def _count_outputs(self, answers: Similarities) -> int:  # noqa: ARG002
        return int(self.n_clusters)

    def _say(self, answers: Similarities) -> Tensor:
        return torch.as_tensor(np.array(answers.same))

    def _make_objective(self, answers: Similarities, rows: AnswerRows) -> SimilarityObjective:  # noqa: ARG002
        return SimilarityObjective(rows)

    def _find(self, answers: Similarities, seen: NetworkOutput, objective: SimilarityObjective) -> Found:
        evidence = _in_one_group(answers)
        belief, together = join_answers(evidence, objective.rates(), _shares(seen)[evidence.item])
        output = belief.argmax(axis=1)
        prior = pool_rates(count_answers(evidence, together), RIGHT + WRONG)
        arrays = arrays_of(evidence, together, prior, output, belief.max(axis=1))
        # Numbers of the clusters of items, and after them outputs that no item has.
        number = np.full(self.n_outputs_, -1, np.int64)
        number[output] = arrays["cluster"][evidence.item]
        number[number < 0] = np.arange(number.max() + 1, number.size)
        return Found(arrays | {"output_cluster": number})

    def _predict(self, seen: NetworkOutput, answers: Similarities | None) -> IntArray:
        shares = _shares(seen)
        if answers is not None and answers.n_answers:
            rates, worker = self._known_rates(answers)
            evidence = replace(_in_one_group(answers), worker=worker, n_workers=rates.same.size)
            shares[evidence.item] = join_answers(evidence, rates, shares[evidence.item])[0]
        found: IntArray = self.output_cluster_[shares.argmax(axis=1)]
        return found

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the clusters by the features alone (n, K); column k is that of cluster k."""
        shares = _shares(self._see(X, None, None)[0])
        found: FloatArray = np.empty_like(shares)
        found[:, self.output_cluster_] = shares
        return found

    def predict_same(self, X: Any, left: Any, right: Any) -> FloatArray:
        """Probability that two items are in one cluster (n,), by the features alone.

        `X` are features as for `fit`, `left` and `right` the rows of each pair.
        """
        shares = self.predict_proba(X)
        rows = check_pairs(left, right, len(shares))
        same: FloatArray = (shares[rows[0]] * shares[rows[1]]).sum(axis=-1)
        return same

    def _score(self, predicted: IntArray, truth: Any) -> float:
        """Adjusted Rand index of the clusters by the features alone."""
        return adjusted_rand(predicted, np.unique(np.asarray(truth), return_inverse=True)[1])


def _shares(seen: NetworkOutput) -> FloatArray:
    shares: FloatArray = seen.logits.softmax(dim=1).numpy()
    return shares


def _in_one_group(answers: Similarities) -> Evidence:
    """What answers say of items that features relate, whether pairs join them or not."""
    evidence = lay_out_evidence(answers)
    return replace(evidence, group=np.zeros_like(evidence.group))
