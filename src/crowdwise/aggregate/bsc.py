"""Bayesian sequence combination: workers whose label depends on the truth and on their own label before it.

The generative story. Tasks come in sequences. The truth starts with a draw from a start distribution and goes on by
the rows of a transition matrix. Worker w, who said m about the task before, says l with probability π[w, m, truth, l];
at the beginning of a sequence, or where she skipped the task before, m is "none". The start, every transition row and
every row of π have Dirichlet priors, those of π with more weight on the right answer. Variational Bayes, with the
whole path of a sequence's truth as one factor.

E. D. Simpson and I. Gurevych (2019), "A Bayesian approach for sequence tagging with crowds", EMNLP (BSC-seq).

| in the paper | here |
|---|---|
| the sequential worker model | `previous_labels`, `split_workers_by_previous_label` |
| E[ln T], E[ln π] from Dirichlet posteriors | `fitting.priors.dirichlet_expected_logs` |
| q(t): forward–backward | `fitting.structured_em.label_evidence`, `kernels.chain_pass` |
| q(T), q(π): prior plus expected counts | `BayesianSequenceCombination._fit` |
| rules of the tagging scheme in the prior of T | `transition_prior` |
| the lower bound | `evidence_lower_bound`, constants included |

An iteration costs O(labels × K + tasks × K² + habits × K²); a habit is a pair of worker and previous label that occurs.

Departures: labels alone, without the paper's models of the text. A sequence has a start distribution of its own (the
paper takes the transitions from O). The start of the iterations is the share of votes (the paper's: Dawid–Skene). The
label of a task is its own likeliest class, where the paper takes the likeliest path. Pseudo-counts have fixed defaults;
the paper tunes them on known truths. A tag that may not follow has the small pseudo-count `RARE`, not zero, so that
known truths which break the rule are possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.engines import prepare
from crowdwise.fitting.base import Fit
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import SequenceAggregator
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.fitting.priors import dirichlet_divergence, dirichlet_expected_logs
from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.fitting.skill_intervals import confusion_skill
from crowdwise.fitting.structured_em import estimate_worker_skill_betas, label_evidence
from crowdwise.fitting.transitions import allowed_transitions, expected_transitions
from crowdwise.fitting.variational import confusion_priors, diagonal_prior
from crowdwise.kernels import NO_GOLD, chain_pass, vote_shares
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.sequences import Sequences
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["BayesianSequenceCombination"]

RARE = 0.01  # pseudo-count of a step that BIO tags do not make: about 100 nats against it until one is seen


@dataclass(frozen=True)
class SequenceParameters:
    """Dirichlet parameters of the posterior.

    Attributes
    ----------
    answers : (R, K, K) [habit, truth, label]
        Of what a worker says after a label of hers.
    steps : (K + 1, K) [before, after]
        Of the transitions, and in the last row of the start.
    """

    answers: FloatArray
    steps: FloatArray


def previous_labels(labels: CrowdLabels, sequences: Sequences) -> IntArray:
    """What the worker of each label said about the task before: a class, or K for none, and for several answers."""
    task = sequences.before()[labels.task]
    asked = np.where(task >= 0, task * labels.n_workers + labels.worker, -1)
    given = labels.task.astype(np.int64) * labels.n_workers + labels.worker
    order = np.argsort(given, kind="stable")
    low, high = (np.searchsorted(given, asked, side, sorter=order) for side in ("left", "right"))
    before: IntArray = np.full(labels.n_labels, labels.n_classes, np.int64)
    once = high - low == 1
    before[once] = labels.label[order[low[once]]]
    return before


def split_workers_by_previous_label(labels: CrowdLabels, sequences: Sequences) -> tuple[IntArray, CrowdLabels]:
    """Pairs of worker and previous label, as worker × (K + 1) + label, and the labels with habits for workers."""
    keys = labels.worker.astype(np.int64) * (labels.n_classes + 1) + previous_labels(labels, sequences)
    habits, codes = np.unique(keys, return_inverse=True)
    return habits, _replace_workers_by_codes(codes, habits.size, labels)


def _replace_workers_by_codes(codes: IntArray, n_codes: int, labels: CrowdLabels) -> CrowdLabels:
    return CrowdLabels.from_codes(
        labels.task,
        codes,
        labels.label,
        tasks=labels.n_tasks,
        workers=n_codes,
        classes=labels.n_classes,
        on_duplicate="all",
    )


def transition_prior(allowed: BoolArray, pseudo: float) -> FloatArray:
    """Dirichlet parameters (K + 1, K) of the transitions and the start."""
    return np.where(allowed, pseudo, min(RARE, pseudo))


def evidence_lower_bound(value: float, parameters: SequenceParameters, answers: FloatArray, steps: FloatArray) -> float:
    """The evidence lower bound: the E-step's value less the divergences of the posteriors from their priors."""
    loss = dirichlet_divergence(parameters.answers, answers) + dirichlet_divergence(parameters.steps, steps)
    return value - loss


@estimator
class BayesianSequenceCombination(SequenceAggregator):
    """Consensus of tasks in sequences, where a worker's label also depends on her label before (BSC-seq).

    Facts
    -----
    Assumes: a worker's label depends on the truth and on their label before; the truth is a Markov chain
    Fails with: few labels per worker: each has a confusion matrix for every label they gave before
    Cost: O(labels × K + tasks × K² + habits × K²) an iteration
    Paper: Simpson & Gurevych 2019, EMNLP

    Parameters
    ----------
    bio : bool
        Whether classes that are BIO tags (O, B-x and I-x, each letter among them) keep the rule that I-x follows
        only B-x or I-x, by the prior of the transitions. Without effect on other classes, and where all tasks stand
        alone.
    right, wrong : float, above 0
        Pseudo-counts of right and of wrong answers, the latter shared by all wrong classes, for each true class and
        each previous label.
    steps : float, above 0
        Pseudo-count of every transition and every start.

    Attributes
    ----------
    start_ : (K,)
        Share of each class among the first tasks of sequences, posterior mean.
    transition_ : (K, K)
        P(the next truth is l | the truth is k) at [k, l], posterior mean.
    confusion_ : (M, K, K)
        P(worker says l | truth is k) at [worker, k, l], whatever she said before.
    log_likelihood_, objective_ : (n_iter_,)
        The E-step's value and the lower bound on the evidence at each iteration.

    Notes
    -----
    Made for spans: a worker who missed the first word of a name will miss the second too, and that is one mistake.
    Without sequences it is Bayesian Dawid–Skene. New tasks are put in sequences by their names if `sequences` is
    "names", and stand alone otherwise, but for those of the fit with the same labels, which keep its posterior. A
    worker unknown at prediction counts as the average of the crowd, and a known worker after a label that she never
    gave before as her own average.

    Examples
    --------
    >>> BayesianSequenceCombination(sequences="names").fit(labels).predict().tolist()
    ['B', 'I', 'O', 'O', 'B', 'I', 'B', 'I', 'O']
    """

    slug = "bsc"
    saved = (
        SavedArray("extra/habits", "H", low=0, codes="K+1*M"),
        SavedArray("extra/answers", "H K K", low=SMALLEST),
        SavedArray("extra/steps", "K+1 K", low=SMALLEST),
    )

    right: float = 2.0
    wrong: float = 1.0
    steps: float = 1.0

    @property
    def start_(self) -> FloatArray:
        """Share of each class among the first tasks of sequences (K,)."""
        start: FloatArray = self.extra_["steps"][-1] / self.extra_["steps"][-1].sum()
        return start

    @property
    def transition_(self) -> FloatArray:
        """P(the next truth is l | the truth is k) at [k, l]."""
        rows: FloatArray = self.extra_["steps"][:-1] / self.extra_["steps"][:-1].sum(axis=1, keepdims=True)
        return rows

    def _check(self) -> None:
        super()._check()
        for name in ("right", "wrong", "steps"):
            check_number(name, getattr(self, name), low=0, above=True)

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        sequences = self._sequences_of_fit(labels)
        habits, by_habit = split_workers_by_previous_label(labels, sequences)
        who = habits // (labels.n_classes + 1)
        prepared = prepare(by_habit)
        allowed = allowed_transitions(labels, sequences, self.bio)
        steps = transition_prior(allowed, self.steps)
        per_worker = confusion_priors(
            diagonal_prior(self.right, self.wrong / (labels.n_classes - 1), labels.n_classes), known
        )
        answers = per_worker if per_worker.shape[0] == 1 else per_worker[who]

        def m_step(posterior: FloatArray, taken: FloatArray) -> SequenceParameters:
            return SequenceParameters(answers + prepared.accumulate(posterior).counts, steps + taken)

        def e_step(log_table: FloatArray, parameters: SequenceParameters) -> tuple[float, FloatArray, FloatArray]:
            value, posterior = label_evidence(prepared, log_table, known.gold)
            found = chain_pass(sequences, np.exp(dirichlet_expected_logs(parameters.steps)), posterior)
            return value + found.log_likelihood, posterior, found.steps

        def step(parameters: SequenceParameters) -> tuple[float, float, SequenceParameters]:
            value, posterior, taken = e_step(dirichlet_expected_logs(parameters.answers), parameters)
            return evidence_lower_bound(value, parameters, answers, steps), value, m_step(posterior, taken)

        votes = vote_shares(labels, known.gold)
        start = m_step(votes, np.where(allowed, expected_transitions(sequences, votes), 0.0))
        ended = self._climb(start, step, labels)
        _, posterior, _ = e_step(dirichlet_expected_logs(ended.parameters.answers), ended.parameters)
        counts = prepare(labels).accumulate(posterior).counts
        confusion = (per_worker + counts) / (per_worker + counts).sum(axis=2, keepdims=True)
        prior = posterior.mean(axis=0)
        return Fit(
            posterior=posterior,
            prior=prior,
            confusion=confusion,
            skill=confusion_skill(confusion, counts, prior),
            skill_beta=estimate_worker_skill_betas(
                labels, counts, posterior, prior, lambda rows: e_step(rows[who], ended.parameters)[1]
            ),
            extra={
                "habits": habits.astype(np.float64),
                "answers": ended.parameters.answers,
                "steps": ended.parameters.steps,
            },
        ).attach_climb_history(ended)

    def _check_restored(self) -> None:
        super()._check_restored()
        habits = self.extra_["habits"]
        if not habits.size or not (np.diff(habits) > 0).all():
            raise InputError("extra/habits must rise: each worker and label before is there once")

    def _predict_in_sequences(self, labels: CrowdLabels, sequences: Sequences) -> FloatArray:
        """The last E-step's tables along the sequences."""
        met: IntArray = self.extra_["habits"].astype(np.int64)
        table = np.concatenate([dirichlet_expected_logs(self.extra_["answers"]), self._log_confusion_table()])
        keys = labels.worker.astype(np.int64) * (labels.n_classes + 1) + previous_labels(labels, sequences)
        place = np.minimum(np.searchsorted(met, keys), met.size - 1)
        rows = np.where(met[place] == keys, place, met.size + labels.worker)
        _, posterior = label_evidence(prepare(_replace_workers_by_codes(rows, table.shape[0], labels)), table, NO_GOLD)
        chain_pass(sequences, np.exp(dirichlet_expected_logs(self.extra_["steps"])), posterior)
        return posterior
