"""HMM-Crowd: Dawid–Skene workers who label the truth of a hidden Markov chain.

The generative story. Tasks come in sequences, as words do in sentences. The truth of the first task of a sequence is
drawn from a start distribution, that of each other task from the row of a transition matrix that the truth before it
names. Each worker w who meets a task says l with probability A[w, truth, l], independently given the truth. Rows of A
have Dirichlet priors with pseudo-counts (none for maximum likelihood). The truth is unknown: EM.

A. T. Nguyen, B. C. Wallace, J. J. Li, A. Nenkova and M. Lease (2017), "Aggregating and predicting sequence labels from
crowd annotations", ACL.

| in the paper | here |
|---|---|
| E-step: P(h_i, h_{i+1} given all labels), forward–backward | `structured_em.label_evidence`, `kernels.chain_pass` |
| M-step: transitions from expected steps | `estimate_transitions` |
| M-step: worker matrices from expected answers, smoothed | `dawid_skene.m_step` |

An iteration costs O(labels × K + tasks × K²).

Departures: the paper's chain also emits the words; there are no words here, labels alone. A sequence has a start
distribution of its own, and EM starts from the share of votes. Where the classes are BIO tags (O, B-x, I-x), a step
that tags do not make (I-x after anything but B-x or I-x) has the fixed probability `FORBIDDEN`; the paper has no such
rule. Known truths and known workers are additions. Tasks that stand alone are sequences of one, and a crowd of such
tasks is Dawid–Skene's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.aggregate import dawid_skene
from crowdwise.engines import prepare
from crowdwise.fitting.categorical_em import ConfusionParameters
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import SequenceAggregator
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.fitting.saved_arrays import SavedArray
from crowdwise.fitting.structured_em import fit_structured, label_evidence, pseudo_counts
from crowdwise.fitting.transitions import allowed_transitions, expected_transitions
from crowdwise.kernels import NO_GOLD, chain_pass, vote_shares

if TYPE_CHECKING:
    from crowdwise.engines import Statistics
    from crowdwise.fitting.base import Fit
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.sequences import Sequences
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["HmmCrowd"]

FORBIDDEN = 1e-6  # of a step that BIO tags do not make: not zero, since no path at all might be left


@dataclass(frozen=True)
class ChainParameters(ConfusionParameters):
    """Confusion parameters, whose `log_prior` is that of a task anywhere, and the chain.

    Attributes
    ----------
    steps : (K + 1, K) [before, after]
        Transition matrix, and in the last row the start distribution.
    """

    steps: FloatArray


def estimate_transitions(counts: FloatArray, allowed: BoolArray) -> FloatArray:
    """Likeliest transition matrix and start (K + 1, K) given expected steps; rows never met are uniform.

    Steps that are not allowed have probability `FORBIDDEN`, the others share the rest.
    """
    kept = np.where(allowed, counts, 0.0)
    total = kept.sum(axis=1, keepdims=True)
    even = allowed / allowed.sum(axis=1, keepdims=True)
    shares = np.divide(kept, total, out=even, where=total > 0)
    rest = 1 - FORBIDDEN * (~allowed).sum(axis=1, keepdims=True)
    rows: FloatArray = np.where(allowed, rest * shares, FORBIDDEN)
    return rows


def m_step(found: Statistics, steps: FloatArray, allowed: BoolArray, pseudo: FloatArray) -> ChainParameters:
    """Matrices and chain given expected answers and expected steps."""
    matrices = dawid_skene.m_step(found, pseudo)
    return ChainParameters(matrices.log_prior, matrices.log_table, estimate_transitions(steps, allowed))


@estimator
class HmmCrowd(SequenceAggregator):
    """Consensus of tasks in sequences: a confusion matrix for every worker, a Markov chain for the truth, by EM.

    Facts
    -----
    Assumes: every worker has a confusion matrix; the truth along a sequence of tasks is a Markov chain
    Fails with: a worker's mistakes depend on each other along a sequence, as when a whole span is missed
    Cost: O(labels × K + tasks × K²) an iteration
    Paper: Nguyen et al. 2017, ACL

    Parameters
    ----------
    smoothing : float, 0 or more
        Pseudo-count of every cell of every confusion matrix: a Dirichlet(1 + smoothing) prior on its rows, and
        the estimate is the highest posterior. 0 is maximum likelihood.

    Attributes
    ----------
    skill_ : (M,)
        Chance that a worker is right, as for Dawid–Skene.

    Notes
    -----
    A span missed is missed word by word, and counts as several pieces of evidence: `bsc` is made for that. The label of
    a task is its own likeliest class, not part of a likeliest path. New tasks are put in sequences by their names if
    `sequences` is "names", and stand alone otherwise, but for those of the fit with the same labels, which keep its
    posterior. A worker unknown at prediction counts as the average of the crowd.

    Examples
    --------
    >>> model = HmmCrowd(sequences="names").fit(labels)
    >>> model.predict().tolist()
    ['B', 'I', 'O', 'O', 'B', 'I', 'B', 'I', 'O']
    >>> model.start_.round(2).tolist()
    [0.67, 0.0, 0.33]
    """

    slug = "hmm-crowd"
    saved = (SavedArray("extra/steps", "K+1 K", low=0, sums_to_one=True),)

    smoothing: float = 0.0

    @property
    def start_(self) -> FloatArray:
        """Share of each class among the first tasks of sequences (K,)."""
        start: FloatArray = self.extra_["steps"][-1]
        return start

    @property
    def transition_(self) -> FloatArray:
        """P(the next truth is l | the truth is k) at [k, l]."""
        rows: FloatArray = self.extra_["steps"][:-1]
        return rows

    def _check(self) -> None:
        super()._check()
        check_number("smoothing", self.smoothing, low=0)

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        sequences = self._sequences_of_fit(labels)
        prepared = prepare(labels)
        allowed = allowed_transitions(labels, sequences, self.bio)
        pseudo = pseudo_counts(self.smoothing, labels, known)

        def e_step(parameters: ChainParameters) -> tuple[float, FloatArray, FloatArray]:
            value, posterior = label_evidence(prepared, parameters.log_table, known.gold)
            found = chain_pass(sequences, parameters.steps, posterior)
            return value + found.log_likelihood, posterior, found.steps

        votes = vote_shares(labels, known.gold)
        fit, ended = fit_structured(
            labels,
            prepared,
            start=m_step(prepared.accumulate(votes), expected_transitions(sequences, votes), allowed, pseudo),
            e_step=e_step,
            m_step=lambda found, _, steps: m_step(found, steps, allowed, pseudo),
            with_rows=lambda parameters, rows: replace(parameters, log_table=rows),
            log_density=lambda parameters: dawid_skene.log_density(parameters, pseudo),
            **self._climb_options,
        )
        return replace(fit, extra={"steps": ended.steps})

    def _predict_in_sequences(self, labels: CrowdLabels, sequences: Sequences) -> FloatArray:
        """Forward and backward along the sequences."""
        _, posterior = label_evidence(prepare(labels), self._log_confusion_table(), NO_GOLD)
        chain_pass(sequences, self.extra_["steps"], posterior)
        return posterior
