"""Grades from features: a network scores tasks, and every worker cuts the scores into grades in their own way.

The generative story. A network gives every task a score s = f(x), in units of the scores' standard deviation. Worker w
gives at least grade k with probability σ(a[w] s - d[w, k]): the slope a[w] is near 0 for who guesses and below 0 for
who turns the scale round, and d[w, k] / a[w] is the score at which they begin to say k. Slopes, middle intercepts and
the logarithms of the gaps between intercepts are normal about those of the crowd.

F. Samejima (1969), "Estimation of latent ability using a response pattern of graded scores", Psychometrika Monograph
17, with workers in the place of items; P. McCullagh (1980), "Regression models for ordinal data", JRSS B 42, for
thresholds on what a regression says, where all workers are alike.

| equation | here |
|---|---|
| P(grade is k) = σ(a s - d[k]) - σ(a s - d[k + 1]) | `grade_log_probabilities` |
| normal priors about the crowd | `GradedObjective.penalty` |
| after training: the score of a task is N(f, τ²), its posterior on a grid | `find_score_posterior` |
| a, d and τ² given f, by EM | `settle_workers` |
| cuts between classes: d = a × cut by least squares over workers with a > 0 | `find_cuts` |

A step costs O(answers of the batch × K) beside the network.

Departures: while the network is trained, a task's score is what the network says, so that workers' noise is that of the
tasks too; EM after training takes the two apart. τ² is estimated from the tasks held out, where there are some. The
true grade is the one that a worker with the crowd's cuts and no noise would give; of its distribution the median is
predicted, which errs by the fewest classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import nn
from torch.nn.functional import logsigmoid

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.kinds.model import Found
from crowdwise.kinds.ordinal.answers import Grades, order_grades
from crowdwise.kinds.ordinal.graded_response import ScoreModel, cut_classes, score_posterior
from crowdwise.kinds.ordinal.metrics import mean_absolute_error
from crowdwise.kinds.ordinal.model import quantile_class
from crowdwise.kinds.ordinal.worker_responses import (
    GRID,
    Responses,
    count_answers,
    gap_signs,
    improve_workers,
    log_chances,
    mean_worker,
    prior_spreads,
    response_arrays,
    start_workers,
)
from crowdwise.labels.errors import InputError
from crowdwise.learn.answer_learner import AnswerLearner
from crowdwise.learn.answer_objective import AnswerObjective

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from crowdwise.labels.types import BoolArray, FloatArray
    from crowdwise.learn.answer_batches import AnswerBatch, AnswerRows
    from crowdwise.learn.batches import NetworkOutput

__all__ = ["GradedNetwork"]

STEPS = 15  # of EM after training
FIRST_RESIDUAL = 0.25  # τ² before EM; scores have variance 1
FEW = 2.0  # tasks of that variance that count beside those there are
LEAST_RESIDUAL = (0.5 * (GRID[1] - GRID[0])) ** 2  # less than the grid can tell


def grade_log_probabilities(score: Tensor, slope: Tensor, intercept: Tensor) -> Tensor:
    """Log-probability of every grade (B, K) by workers of these slopes (B,) and rising intercepts (B, K-1)."""
    x = (slope * score)[:, None] - intercept
    # σ(u) - σ(v) = σ(u) σ(-v) (1 - e^(v - u)), which loses no digits where both are near 0 or 1.
    between = torch.log(-torch.expm1(intercept[:, :-1] - intercept[:, 1:]))
    inside = logsigmoid(x[:, :-1]) + logsigmoid(-x[:, 1:]) + between
    return torch.cat([logsigmoid(-x[:, :1]), inside, logsigmoid(x[:, -1:])], dim=1)


class GradedObjective(AnswerObjective):
    """Log-probability of grades, through the slopes and thresholds of their workers."""

    def __init__(self, rows: AnswerRows, start: Responses, spread: float) -> None:
        super().__init__(rows)
        first = torch.as_tensor(start.parameters, dtype=torch.float32)
        self.workers = nn.Parameter(first.repeat(rows.n_workers, 1))
        self.shared = nn.Parameter(first.clone())
        self.register_buffer("first", first)
        self.register_buffer("signs", torch.as_tensor(gap_signs(first.shape[1]), dtype=torch.float32))
        self.register_buffer("spreads", torch.as_tensor(prior_spreads(start, spread), dtype=torch.float32))
        self.register_buffer("centre", torch.zeros(()))
        self.register_buffer("length", torch.ones(()))
        self.warm = False

    def begin_epoch(self, epoch: int, forecast: Callable[[], Tensor]) -> None:
        """Mean and standard deviation of the network's output, the units of scores; at first as it starts."""
        self.warm = self.is_warming_up(epoch)
        self.turn_back()
        if epoch > 0:
            said = forecast()[self.crowd.item[:, 0], 0]
            length = self.get_buffer("length")
            self.get_buffer("centre").copy_(said.mean())
            length.copy_(length.sign() * said.std(correction=0).clamp(min=1e-6))

    def turn_back(self) -> None:
        """Turn scores and slopes round where most answers have slopes below 0: no answer's chance changes."""
        with torch.no_grad():
            if self.workers[self.crowd.worker, 0].mean() < 0:
                for each in (self.get_buffer("length"), self.workers[:, 0], self.shared[:, 0]):
                    each.neg_()

    def log_density(self, seen: NetworkOutput, batch: AnswerBatch) -> Tensor:
        """Log-probability of each answer (B,)."""
        score = (seen.logits[batch.slot[:, 0], 0] - self.get_buffer("centre")) / self.get_buffer("length")
        own = (self.workers.detach() if self.warm else self.workers)[batch.worker]
        intercept = own[:, 1:2] + own[:, 2:].exp() @ self.get_buffer("signs").T
        chances = grade_log_probabilities(score, own[:, 0], intercept)
        return chances.gather(1, batch.said[:, None])[:, 0]

    def penalty(self) -> Tensor:
        """Minus the log-density of the workers about the crowd, and of the crowd, which counts as one more worker."""
        spreads = self.get_buffer("spreads")
        own = ((self.workers - self.shared) / spreads).square().sum()
        return 0.5 * (own + ((self.shared - self.get_buffer("first")) / spreads).square().sum())


def find_score_posterior(said: Any, workers: Responses, f: FloatArray, residual: float) -> tuple[float, FloatArray]:
    """Log-probability of the answers, and posterior (N, G) of scores that are N(f, τ²) beforehand."""
    return score_posterior(said, log_chances(workers), log_score_prior(f, residual))


def log_score_prior(f: FloatArray, residual: float) -> FloatArray:
    """Logarithms (N, G) of the normal distribution about f (N,) on the grid; f beyond the grid counts as its end."""
    off = -0.5 * (GRID - np.clip(f, GRID[0], GRID[-1])[:, None]) ** 2 / residual
    found: FloatArray = off - np.log(np.exp(off).sum(axis=1, keepdims=True))
    return found


def settle_workers(
    answers: Grades, f: FloatArray, start: tuple[Responses, Responses], spread: float, unseen: BoolArray
) -> tuple[Responses, Responses, float]:
    """Workers, crowd and τ² given what the network says (N,), by EM; `unseen` are tasks by which τ² is estimated."""
    said = count_answers(answers, answers.worker, answers.n_workers)
    shape = (answers.n_workers, answers.n_classes, GRID.size)
    there, residual = answers.answers_per_worker > 0, FIRST_RESIDUAL
    workers, crowd = start
    for _ in range(STEPS):
        _, posterior = find_score_posterior(said, workers, f, residual)
        counts = np.asarray(said.T @ posterior).reshape(shape)
        workers = improve_workers(workers, crowd, counts, spread)
        crowd = mean_worker(workers, start[1], there)
        off = (posterior[unseen] * (GRID - np.clip(f[unseen], GRID[0], GRID[-1])[:, None]) ** 2).sum()
        residual = max(float(off + FEW * FIRST_RESIDUAL) / (int(unseen.sum()) + FEW), LEAST_RESIDUAL)
    return workers, crowd, residual


def find_cuts(workers: Responses, crowd: Responses) -> FloatArray:
    """Scores between the classes (K-1,): who guesses says little of them, and who turns the scale round nothing."""
    slope = np.maximum(workers.slope, 0.0)
    square = float(slope @ slope)
    if square <= 0:
        cuts: FloatArray = crowd.intercept[0] / max(float(crowd.slope[0]), 0.1)
        return cuts
    found: FloatArray = slope @ workers.intercept / square
    return found


class NetworkScores(ScoreModel):
    """What grades by a network keep besides.

    Attributes
    ----------
    centre_, length_ : (1,)
        Mean and standard deviation of the network's output over the answers of the fit, units of the scores; the second
        is below 0 where a higher output is a lower score.
    residual_variance_ : (1,)
        Variance of the tasks' scores about what the network says of them, τ².
    """

    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("centre", "1"),
        SavedArray("length", "1"),
        SavedArray("residual_variance", "1", low=SMALLEST),
    )
    centre_: FloatArray
    length_: FloatArray
    residual_variance_: FloatArray

    def _check_restored(self) -> None:
        if abs(self.length_[0]) < SMALLEST:
            raise InputError("length is 0")


@estimator
class GradedNetwork(AnswerLearner[Grades], NetworkScores):
    """A network for grades, and workers with a slope and thresholds of their own.

    Facts
    -----
    Assumes: one score, a function of the features, says how high a task is graded; workers cut it in their own way
    Fails with: grades that mix several qualities; most workers guess or turn the scale round
    Paper: Samejima 1969, Psychometrika; McCullagh 1980, JRSS B

    Notes
    -----
    When it fails: scores and slopes may both change sign, which explains the answers as well. Scores are those by which
    most answers come from workers of slopes above 0; where most turn the scale round, all is turned round.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> crowd = kinds.simulate_grades(200, 10, scores=X @ [0.8, -0.6], random_state=0)
    >>> model = cw.GradedNetwork(network="linear", epochs=30, learning_rate=0.02).fit(X, crowd.answers)
    >>> model.score(X, crowd.grade) > -0.5
    True
    """

    slug = "graded-network"
    is_default = True
    predicts: ClassVar[str] = "grade"
    outputs: ClassVar[str] = "one score for each task"

    spread: float = 1.0

    def _check(self) -> None:
        check_number("spread", self.spread, low=1e-3, high=1e3)

    def _say(self, answers: Grades) -> Tensor:
        return torch.as_tensor(answers.grade.astype(np.int64))

    def _make_objective(self, answers: Grades, rows: AnswerRows) -> GradedObjective:
        return GradedObjective(rows, start_workers(answers)[1], self.spread)

    def _find(self, answers: Grades, seen: NetworkOutput, objective: GradedObjective) -> Found:
        objective.turn_back()
        output = seen.logits[:, 0].numpy()
        told, sign = output[answers.task], float(objective.get_buffer("length").sign())
        centre, length = float(told.mean()), sign * max(float(told.std()), 1e-6)
        f = (output - centre) / length
        # Slopes that were learnt in units of the epoch, in those of all answers.
        workers, shared = (
            _change_units(each.detach().double().numpy(), objective, centre, length)
            for each in (objective.workers, objective.shared)
        )
        workers, crowd, residual = settle_workers(
            answers, f, (workers, shared), self.spread, self._unseen_tasks(answers)
        )
        cuts = find_cuts(workers, crowd)
        said = count_answers(answers, answers.worker, answers.n_workers)
        _, posterior = find_score_posterior(said, workers, f, residual)
        there = answers.answers_per_task > 0
        prior = (posterior[there].sum(axis=0) + 1e-6) / (there.sum() + 1e-6 * GRID.size)
        return Found({
            "posterior": cut_classes(posterior, cuts),
            "prior": cut_classes(prior[None], cuts)[0],
            "score_posterior": posterior,
            "score_prior": prior,
            "cuts": cuts,
            **response_arrays(workers, crowd),
            "centre": np.array([centre]),
            "length": np.array([length]),
            "residual_variance": np.array([residual]),
        })  # fmt: skip

    def predict_proba(self, X: Any, answers: Any = None, *, tasks: Any = None) -> FloatArray:
        """Probability of every class (n, K); parameters as for `predict`."""
        return self._predict_shares(*self._see(X, answers, tasks))

    def _predict_shares(self, seen: NetworkOutput, answers: Grades | None) -> FloatArray:
        f = (seen.logits[:, 0].numpy() - self.centre_[0]) / self.length_[0]
        prior = log_score_prior(f, float(self.residual_variance_[0]))
        if answers is None:
            return cut_classes(np.exp(prior), self.cuts_)
        known = self._with_own_classes(answers)
        table = np.log(np.maximum(self._chances(), SMALLEST))
        said = count_answers(known, self._positions_of_workers(answers), len(table))
        return cut_classes(score_posterior(said, table, prior)[1], self.cuts_)

    def _predict(self, seen: NetworkOutput, answers: Grades | None) -> Any:
        chosen = quantile_class(self._predict_shares(seen, answers), 0.5)
        return self._as_numpy("classes")[chosen]

    def _score(self, predicted: Any, truth: Any) -> float:
        """Minus the mean number of classes by which predictions miss the true grades."""
        classes = self._names["classes"]
        return -mean_absolute_error(*(order_grades(each, classes) for each in (predicted, truth)))

    @property
    def confusion_(self) -> FloatArray:
        """P(grade | class) of each worker (M, K, K), over the scores that a class has."""
        self._check_fitted()
        inside = cut_classes(np.eye(GRID.size), self.cuts_) * self.score_prior_[:, None]  # (G, K)
        inside /= np.maximum(inside.sum(axis=0), SMALLEST)
        found: FloatArray = np.einsum("gk,wlg->wkl", inside, self._chances()[:-1])
        return found


def _change_units(parameters: FloatArray, objective: GradedObjective, centre: float, length: float) -> Responses:
    """Workers whose scores have other units: a s - d is the same."""
    own = float(objective.get_buffer("length"))
    now = parameters.copy()
    now[:, 1] -= parameters[:, 0] * (centre - float(objective.get_buffer("centre"))) / own
    now[:, 0] *= length / own
    return Responses(now)
