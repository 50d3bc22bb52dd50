"""Posterior of every worker's skill by Gibbs sampling: truths, workers and the spread of workers are drawn in turn.

The truth is not seen and the other workers are not known either, so the spread of a worker's skill has three parts:
the worker's own answers are few, their truths are uncertain, and so are the workers who would tell. A sampler has all
three. It draws, in each sweep,

| what | from |
|---|---|
| truths | their posterior given the workers' rows and the class shares |
| the spread of workers' accuracies, Beta(μs, (1-μ)s) | a grid of μ and s, given every worker's own accuracy |
| the spread of a worker's accuracies over classes, Beta(mt, (1-m)t) | a grid of t |
| each worker's accuracy m, and by class | a grid of m; then a Beta distribution |
| errors of each worker and class | a Dirichlet distribution around the crowd's errors |
| class shares | a Dirichlet distribution |

How far workers are drawn towards the crowd is thus learnt from the crowd and is no constant. Mean and variance of the
skill are taken given the truths of each sweep and averaged (Rao-Blackwell), which needs few sweeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betainc, gammaln

from crowdwise.kernels import draw_gammas

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.engines import Prepared
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["SkillPosterior", "can_sample", "draw_truths", "sample_coin_skill", "sample_skill"]

BURN_IN, SWEEPS = 20, 80
COIN_BURN_IN, COIN_SWEEPS = 40, 160  # a sweep is cheap where workers have one accuracy each
MOST_LABELS = 100_000  # beyond it, or with more cells of confusion matrices, a closed form takes the sampler's place
MOST_CELLS = 100_000
N_ACCURACIES = 60
MOST_ANSWERS = 5_000  # of a worker and class, up to which logarithms are looked up
ACCURACIES = (np.arange(N_ACCURACIES) + 0.5) / N_ACCURACIES
MEANS = (np.arange(12) + 0.5) / 12  # of the workers' accuracies
STRENGTHS = 2.0 ** np.arange(7)  # answers that a Beta distribution over workers counts as
CLASS_STRENGTHS = 2.0 ** np.arange(10)  # the same for one worker's accuracies over classes
ERROR_STRENGTHS = 2.0 ** np.arange(0, 8)  # the same for the errors, around the crowd's
SMALLEST = 1e-9


@dataclass(frozen=True)
class SkillPosterior:
    """What the sampler found.

    Attributes
    ----------
    mean, variance : (M,)
        Of each worker's chance to be right.
    truths : (N, K)
        Probability of each class for each task, workers' uncertainty included.
    """

    mean: FloatArray
    variance: FloatArray
    truths: FloatArray


def can_sample(labels: CrowdLabels) -> bool:
    """Whether the crowd is small enough for the sampler, and overlaps at all."""
    return labels.n_labels <= MOST_LABELS and labels.n_workers * labels.n_classes**2 <= MOST_CELLS


def draw_truths(posterior: FloatArray, generator: np.random.Generator) -> FloatArray:
    """A class for each task, drawn from its posterior, as rows of zeros and a one (N, K)."""
    chosen = (posterior.cumsum(axis=1) < generator.random((posterior.shape[0], 1))).sum(axis=1)
    drawn: FloatArray = np.eye(posterior.shape[1])[np.minimum(chosen, posterior.shape[1] - 1)]
    return drawn


def sample_skill(
    prepared: Prepared, known: PriorKnowledge, posterior: FloatArray, random_state: int = 0
) -> SkillPosterior:
    """Skill under workers with a confusion matrix each; sampling starts from truths drawn from `posterior` (N, K)."""
    state = _ConfusionState(prepared, known)
    return _run_gibbs(prepared, known, posterior, np.random.default_rng(random_state), state.sweep, BURN_IN, SWEEPS)


def sample_coin_skill(
    prepared: Prepared, known: PriorKnowledge, posterior: FloatArray, random_state: int = 0
) -> SkillPosterior:
    """Skill under workers with one accuracy each, whose errors fall on the other classes alike."""
    before = known.worker_counts

    def sweep(
        truths: FloatArray, shares: FloatArray, posterior: FloatArray, generator: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        counts = prepared.accumulate(truths).counts
        if before is not None:
            counts = counts + before
        right, answers = np.einsum("wkk->w", counts), counts.sum(axis=(1, 2))
        a, b = _COIN_PRIORS
        place = _draw_from_log_weights(
            _log_beta_binomial(right[:, None], answers[:, None], a, b).sum(axis=0), generator
        )[0]
        a, b = right + a[place], answers - right + b[place]
        rate = np.clip(generator.beta(a, b), SMALLEST, 1 - SMALLEST)
        bonus = np.log(rate) - np.log((1 - rate) / max(prepared.n_classes - 1, 1))
        prepared.e_step_votes(
            _safe_log(shares), np.repeat(bonus[:, None], prepared.n_classes, axis=1), known.gold, posterior
        )
        mean = a / (a + b)
        return mean, mean * (1 - mean) / (a + b + 1)

    return _run_gibbs(prepared, known, posterior, np.random.default_rng(random_state), sweep, COIN_BURN_IN, COIN_SWEEPS)


_COIN_PRIORS = (np.outer(MEANS, STRENGTHS).ravel(), np.outer(1 - MEANS, STRENGTHS).ravel())


def _run_gibbs(
    prepared: Prepared,
    known: PriorKnowledge,
    posterior: FloatArray,
    generator: np.random.Generator,
    sweep: Callable[[FloatArray, FloatArray, FloatArray, np.random.Generator], tuple[FloatArray, FloatArray]],
    burn_in: int,
    n_sweeps: int,
) -> SkillPosterior:
    """Sweep, and average. A sweep overwrites the posterior and gives the skill's mean and variance given truths."""
    current = np.array(posterior, order="C")
    means, squares, variances = (np.zeros(prepared.n_workers) for _ in range(3))
    truths_mean = np.zeros_like(current)
    for number in range(burn_in + n_sweeps):
        truths = draw_truths(current, generator)
        shares = known.class_prior
        if shares is None:
            shares = generator.dirichlet(truths.sum(axis=0) + 1)
        mean, variance = sweep(truths, shares, current, generator)
        if number >= burn_in:
            means += mean
            squares += mean**2
            variances += variance
            truths_mean += current
    means /= n_sweeps
    between = np.maximum(squares / n_sweeps - means**2, 0) * n_sweeps / (n_sweeps - 1)
    return SkillPosterior(means, variances / n_sweeps + between, truths_mean / n_sweeps)


class _ConfusionState:
    """The workers' part of a sweep where each has a confusion matrix: what one sweep hands to the next."""

    def __init__(self, prepared: Prepared, known: PriorKnowledge) -> None:
        self.prepared, self.known = prepared, known
        self.before = known.worker_counts
        self.strength = 8.0
        self.chosen: IntArray | None = None

    def sweep(
        self, truths: FloatArray, shares: FloatArray, posterior: FloatArray, generator: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        counts = self.prepared.accumulate(truths).counts
        if self.before is not None:
            counts = counts + self.before
        diagonal = np.arange(self.prepared.n_classes)
        right, answers = counts[:, diagonal, diagonal], counts.sum(axis=2)
        weights = self._draw_accuracies(right, answers, generator)
        strength, own = self.strength, ACCURACIES[self.chosen][:, None]
        rate = generator.beta(right + strength * own, answers - right + strength * (1 - own))
        table = _draw_errors(counts, generator) * np.clip(1 - rate, SMALLEST, 1)[:, :, None]
        table[:, diagonal, diagonal] = np.clip(rate, SMALLEST, 1)
        self.prepared.e_step(_safe_log(shares), _safe_log(table), self.known.gold, posterior)
        given = (right[:, None, :] + strength * ACCURACIES[:, None]) / (answers + strength)[:, None, :]
        spread = (given * (1 - given) / (answers + strength + 1)[:, None, :]) @ shares**2
        skill = given @ shares
        mean = (weights * skill).sum(axis=1)
        return mean, (weights * (spread + skill**2)).sum(axis=1) - mean**2

    def _draw_accuracies(self, right: FloatArray, answers: FloatArray, generator: np.random.Generator) -> FloatArray:
        """Draw the two spreads and each worker's accuracy; returns the chance of each accuracy (M, G)."""
        if self.chosen is None:
            share = (right.sum(axis=1) + 0.5) / (answers.sum(axis=1) + 1)
            self.chosen = np.minimum((share * N_ACCURACIES).astype(np.int64), N_ACCURACIES - 1)
        across = _LOG_ACROSS @ np.bincount(self.chosen, minlength=N_ACCURACIES)
        prior = _LOG_ACROSS[_draw_from_log_weights(across, generator)[0]]
        own = ACCURACIES[self.chosen][:, None]
        strengths = CLASS_STRENGTHS[:, None, None]
        fits = _log_beta_binomial(right, answers, own * strengths, (1 - own) * strengths).sum(axis=(1, 2))
        self.strength = float(CLASS_STRENGTHS[_draw_from_log_weights(fits, generator)[0]])
        self.chosen, weights = _draw_from_log_weights(
            _grid_log_likelihood(right, answers, self.strength) + prior, generator
        )
        return weights


def _draw_errors(counts: FloatArray, generator: np.random.Generator) -> FloatArray:
    """What each worker says when wrong [worker, truth, label], around the crowd's errors; 0 where the label is right.

    How strongly the errors are drawn to the crowd's is drawn first.
    """
    n_classes = counts.shape[1]
    if n_classes == 2:
        return np.broadcast_to(1.0 - np.eye(2), counts.shape).copy()
    diagonal = np.arange(n_classes)
    wrong = counts.copy()
    wrong[:, diagonal, diagonal] = 0
    crowd = wrong.sum(axis=0) + 0.5
    crowd[diagonal, diagonal] = 0
    crowd /= crowd.sum(axis=1, keepdims=True)
    truth, said = np.nonzero(crowd)
    fits = []
    for strength in ERROR_STRENGTHS:
        base = strength * crowd[truth, said]
        gain = (gammaln(wrong[:, truth, said] + base) - gammaln(base)).sum()
        fits.append(gain - (gammaln(wrong.sum(axis=2) + strength) - gammaln(strength)).sum())
    strength = ERROR_STRENGTHS[_draw_from_log_weights(np.array(fits), generator)[0]]
    drawn = draw_gammas(wrong + strength * crowd, generator)
    drawn[:, diagonal, diagonal] = 0
    errors: FloatArray = drawn / np.maximum(drawn.sum(axis=2, keepdims=True), np.finfo(np.float64).tiny)
    return errors


def _log_prior_grid() -> FloatArray:
    """Log-probability of each accuracy of the grid (priors, G) under each Beta distribution over workers."""
    a, b = (shape[:, None] for shape in _COIN_PRIORS)
    mass = np.diff(betainc(a, b, np.linspace(0, 1, N_ACCURACIES + 1)), axis=1)
    logs: FloatArray = np.log(np.maximum(mass, 1e-12))
    return logs


_LOG_ACROSS = _log_prior_grid()


def _grid_log_likelihood(right: FloatArray, answers: FloatArray, strength: float) -> FloatArray:
    """Log-probability (M, G) of each worker's right answers at each accuracy of the grid, up to a constant.

    Answers are whole numbers (those known from elsewhere are rounded), so that most logarithms are looked up.
    """
    a = strength * ACCURACIES
    if answers.max() > MOST_ANSWERS:
        direct = _log_beta_binomial(right[:, None, :], answers[:, None, :], a[:, None], strength - a[:, None])
        summed: FloatArray = direct.sum(axis=2)
        return summed
    hits, misses = np.rint(right).astype(np.int64), np.rint(answers - right).astype(np.int64)
    logs = gammaln(np.arange(hits.max(initial=0) + misses.max(initial=0) + 1)[:, None] + a) - gammaln(a)
    fit: FloatArray = (logs[hits] + logs[misses][:, :, ::-1]).sum(axis=1)  # the grid is symmetric
    return fit


def _log_beta_binomial(right: FloatArray, answers: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """Log-probability of right answers, in a given order, where the accuracy is Beta(a, b)."""
    found: FloatArray = (
        gammaln(right + a) - gammaln(a) + gammaln(answers - right + b) - gammaln(b) - gammaln(answers + a + b)
    ) + gammaln(a + b)
    return found


def _draw_from_log_weights(logs: FloatArray, generator: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """A place along the last axis drawn with these log-weights, and the weights as shares."""
    shares = np.exp(logs - logs.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    below = shares.cumsum(axis=-1) < generator.random((*shares.shape[:-1], 1))
    return np.minimum(below.sum(axis=-1), shares.shape[-1] - 1), shares


def _safe_log(values: FloatArray) -> FloatArray:
    logs: FloatArray = np.log(np.maximum(values, 1e-300))
    return logs
