"""Signed distances: every worker draws the true outline, shifted outwards or inwards by their own bias, with noise.

The generative story. φ[n](x) is the distance of pixel x to the true outline of task n, above 0 inside. The outline of
worker m lies at distance φ[n](x) + b[m] + noise, where the noise is normal with a variance v[m] of the worker's own:
b > 0 is a worker who draws too large, v a hand that is not steady. Biases are normal about 0 with variance v[m] / κ,
variances have an inverse gamma prior about the crowd's s.

T. Rohlfing and C. R. Maurer (2007), "Shape-based averaging", IEEE Transactions on Image Processing 16: the mean of
signed distances. Weights and biases of workers are added here, by EM as for values (`kinds.values`).

| equation | here |
|---|---|
| φ given the workers: mean Σ (d - b) / v over Σ 1 / v, variance 1 / Σ 1 / v | `infer_distances` |
| b[m] = e Σ_n mean(d - φ) / (e N[m] + κ) | `DistanceFit.step` |
| v[m] = (e Σ_n (mean (d - φ - b)² + var φ) + κ b² + ν s) / (e N[m] + 1 + ν), at least ¼ | `DistanceFit.step` |
| s = the harmonic mean of v | `DistanceFit.step` |
| log ∫ Π N(d; φ + b, v) dφ and the priors | `DistanceFit.step` |
| P(inside) = Φ(φ / √var φ) | `_levels_to_soft` |

Workers are learnt at pixels next to the outline of the majority vote. Neighbouring pixels err together: all of an
answer's count as e = 5 observations. Answers alone do not tell a bias that all have in common: biases are apart from
the mean of all, weighed by 1 / v. Distances count up to a reach of six times the median distance between the workers'
outlines and the vote's, so that a hole or an island in one mask stays local.

e, κ = 5, ν = 1 and the reach have been chosen in simulated crowds of eleven sorts, by the Dice coefficient with their
truth; that this method is the default as well, and without a truth by how probable held-out masks are
(`benchmarks/mask_methods.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from crowdwise.fitting.em import climb
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.kinds.masks.distance_maps import signed_distance
from crowdwise.kinds.masks.model import MaskModel
from crowdwise.kinds.masks.soft_levels import pack_levels
from crowdwise.kinds.masks.votes import mean_share_inside, share_of_votes
from crowdwise.kinds.masks.worker_rates import mean_interval, means_of_workers
from crowdwise.kinds.model import Found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.kinds.masks.answers import Masks
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["Hands", "OutlineDistances", "SignedDistance", "infer_distances"]

OBSERVATIONS = 5.0  # that the outline of one answer counts for, e
BIAS_COUNT = 5.0  # observations of no bias, κ
SPREAD_COUNT = 1.0  # observations of the crowd's variance, ν
REACH = 6.0  # times the median distance of outlines, beyond which distances count alike
LEAST_REACH, LEAST_SCALE = 3.0, 0.5  # pixels
LEAST_VARIANCE = 0.25  # half a pixel, squared: no outline is drawn better
SLIP_SHARE = 0.9  # of the reach: pixels beyond are far from the outline
SLIP_COUNT = 100.0  # pixels of the crowd's that count beside a worker's own in their slips


class Hands(NamedTuple):
    """How workers draw: bias and variance (M,), and the crowd's variance."""

    bias: FloatArray
    variance: FloatArray
    crowd: float


class OutlineDistances(NamedTuple):
    """Signed distances of a task's answers (answers, pixels) at pixels next to an outline, and the truth's if known."""

    worker: IntArray
    distance: FloatArray
    true: FloatArray | None


def infer_distances(distance: FloatArray, bias: FloatArray, variance: FloatArray) -> tuple[FloatArray, float]:
    """Mean (pixels,) and variance of φ from the distances of a task's answers (answers, pixels)."""
    weight = 1 / variance
    found: FloatArray = weight @ (distance - bias[:, None]) / weight.sum()
    return found, float(1 / weight.sum())


@dataclass(frozen=True)
class DistanceFit:
    """EM over the outlines of all tasks."""

    outlines: list[OutlineDistances]
    n_workers: int

    def step(self, hands: Hands) -> tuple[float, float, Hands]:
        """Objective and log-likelihood of the workers, and the next."""
        likelihood, rests = 0.0, []
        number, total = np.zeros(self.n_workers), np.zeros(self.n_workers)
        for worker, distance, true in self.outlines:
            bias, variance = hands.bias[worker], hands.variance[worker]
            mean, spread = infer_distances(distance, bias, variance) if true is None else (true, 0.0)
            rest = distance - mean
            logs = np.log(2 * np.pi * variance) + ((rest - bias[:, None]) ** 2).mean(axis=1) / variance
            likelihood -= 0.5 * OBSERVATIONS * (logs.sum() - (np.log(2 * np.pi * spread) if spread else 0.0))
            np.add.at(number, worker, OBSERVATIONS)
            np.add.at(total, worker, OBSERVATIONS * rest.mean(axis=1))
            rests.append((worker, rest, spread))
        bias = total / (number + BIAS_COUNT)
        squares = np.zeros(self.n_workers)
        for worker, rest, spread in rests:
            off = ((rest - bias[worker][:, None]) ** 2).mean(axis=1) + spread
            np.add.at(squares, worker, OBSERVATIONS * off)
        own = squares + BIAS_COUNT * bias**2 + SPREAD_COUNT * hands.crowd
        variance = np.maximum(own / (number + 1 + SPREAD_COUNT), LEAST_VARIANCE)
        if all(each.true is None for each in self.outlines):
            bias = bias - (bias / variance).sum() / (1 / variance).sum()
        following = Hands(bias, variance, float(1 / (1 / variance).mean()))
        return float(likelihood) + self.log_prior(hands), float(likelihood), following

    def log_prior(self, hands: Hands) -> float:
        """Logarithm of the prior of the workers, less a constant."""
        bias, variance, crowd = hands
        own = -0.5 * (np.log(variance) + BIAS_COUNT * bias**2 / variance)
        spread = 0.5 * SPREAD_COUNT * (np.log(crowd / variance) - crowd / variance)
        return float((own + spread).sum())


class DistanceModel(MaskModel):
    """What signed distances keep besides.

    Attributes
    ----------
    bias_, variance_ : (M,)
        Pixels by which a worker's outlines lie outside of the true ones, and the variance about that.
    bias_error_ : (M,)
        Standard error of the bias, with that of a bias that all have in common.
    slip_ : (M, 2)
        Shares of pixels far outside that a worker puts inside, and of pixels far inside that they leave out.
    distance_variance_ : (N,)
        Posterior variance of each task's distances.
    reach_ : (1,)
        Distance beyond which distances count alike, in pixels.
    shift_error_ : (1,)
        Standard error of a bias that all workers have in common, which answers alone do not tell.
    """

    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("bias", "M"),
        SavedArray("bias_error", "M", low=0),
        SavedArray("variance", "M", low=SMALLEST),
        SavedArray("slip", "M 2", low=0, high=1),
        SavedArray("distance_variance", "N", low=SMALLEST),
        SavedArray("reach", "1", low=SMALLEST),
        SavedArray("shift_error", "1", low=0),
    )
    bias_: FloatArray
    bias_error_: FloatArray
    variance_: FloatArray
    slip_: FloatArray
    distance_variance_: FloatArray
    reach_: FloatArray
    shift_error_: FloatArray


@estimator
class SignedDistance(DistanceModel):
    """Weighted mean of the signed distances to the workers' outlines, with a bias and a variance for every worker.

    Facts
    -----
    Assumes: workers draw the same outline, shifted and with noise
    Fails with: masks speckled pixel by pixel; workers who all draw too large or too small
    Cost: O(pixels of all answers), twice, and O(pixels of the outlines × answers) an iteration
    Paper: Rohlfing & Maurer 2007, IEEE Transactions on Image Processing
    """

    slug = "signed-distance"
    uses = frozenset({"gold"})
    climbs = True

    max_iter: int = 500
    tol: float = 1e-6

    def _fit(self, answers: Masks, gold: dict[int, BoolArray] | None) -> Found:
        outlines = list(_trace_outlines(answers, gold or {}))
        scale = _typical_distance(outlines)
        reach = max(REACH * scale, LEAST_REACH)
        cut = [
            each._replace(
                distance=np.clip(each.distance, -reach, reach),
                true=None if each.true is None else np.clip(each.true, -reach, reach),
            )
            for each in outlines
        ]
        fit = DistanceFit(cut, answers.n_workers)
        start = Hands(np.zeros(answers.n_workers), np.full(answers.n_workers, scale**2), scale**2)
        told = [each for each in cut if each.true is not None]
        if told:  # what is known of workers goes before what they say of the rest
            start = DistanceFit(told, answers.n_workers).step(start)[2]
        ended = climb([start], fit.step, max_iter=self.max_iter, tol=self.tol * answers.n_answers, name=self.slug)
        hands = ended.parameters
        shift = _shift_error(hands) if not gold else 0.0
        error = _bias_errors(cut, hands)
        share = mean_share_inside(answers)
        spread = np.zeros(answers.n_tasks)
        slips = _Slips(answers.n_workers)

        def fields() -> Iterator[FloatArray]:
            found = _all_distances(answers, answers.worker, hands, np.append(error, shift), reach, share)
            for task, (distance, variance) in enumerate(found):
                known = gold is not None and task in gold
                field = np.clip(signed_distance(gold[task]), -reach, reach) if gold and known else distance
                spread[task] = LEAST_VARIANCE / 25 if known else variance
                slips.add(answers, task, field, reach)
                yield (field / reach + 1) / 2

        levels = pack_levels(fields())
        arrays = {
            "levels": levels, "bias": hands.bias, "bias_error": np.hypot(error, shift), "variance": hands.variance,
            "slip": slips.shares(), "distance_variance": spread, "reach": np.array([reach]),
            "shift_error": np.array([shift]),
        }  # fmt: skip
        return Found(arrays, ended.objective, ended.n_iter, ended.converged)

    def _levels_to_soft(self, task: int, levels: FloatArray) -> FloatArray:
        distance = (2 * levels - 1) * self.reach_[0]
        return np.asarray(ndtr(distance / np.sqrt(self.distance_variance_[task])))

    def _references(self, task: int) -> list[FloatArray]:
        distance = ((2 * self._levels(task) - 1) * self.reach_[0]).reshape(self.height_[task], self.width_[task])
        spread = np.sqrt(self.distance_variance_[task])
        return [np.asarray(ndtr((distance + shift * self.shift_error_[0]) / spread)) for shift in (0, -1, 1)]

    def _with_stranger(self) -> tuple[Hands, FloatArray, FloatArray]:
        """How workers draw, errors of their biases, and slips; a stranger, after the last, is the mean of the crowd.

        Errors end in that of a bias which all have in common.
        """
        counts = self.answers_per_worker_
        variance = np.append(self.variance_, np.average(self.variance_, weights=counts))
        own = np.sqrt(np.maximum(self.bias_error_**2 - self.shift_error_[0] ** 2, 0.0))
        error = np.array([*own, np.sqrt(np.average(self.bias_**2, weights=counts)), self.shift_error_[0]])
        slip = np.concatenate([self.slip_, np.average(self.slip_, axis=0, weights=counts)[None]])
        return Hands(np.append(self.bias_, 0.0), variance, 0.0), error, slip

    def _infer_soft(self, answers: Masks) -> Iterator[FloatArray]:
        hands, error, _ = self._with_stranger()
        worker = self._positions_of_workers(answers)
        found = _all_distances(answers, worker, hands, error, float(self.reach_[0]), float(self.share_inside_[0]))
        for distance, variance in found:
            yield np.asarray(ndtr(distance / np.sqrt(variance)))

    def _chance_inside(self, task: int, levels: FloatArray, worker: int) -> FloatArray:
        hands, _, slip = self._with_stranger()
        distance = (2 * levels - 1) * self.reach_[0] + hands.bias[worker]
        inside = ndtr(distance / np.sqrt(hands.variance[worker] + self.distance_variance_[task]))
        added, missed = slip[worker]
        return np.asarray(added + (1 - added - missed) * inside)

    def _worker_columns(self, level: float) -> dict[str, Any]:
        low, high = mean_interval(self.bias_, self.bias_error_, self.freedom_, level)
        return {"bias": self.bias_, "bias_low": low, "bias_high": high, "unsteadiness": np.sqrt(self.variance_)}


# ---- the pieces ---------------------------------------------------------------------------------------------


def _trace_outlines(answers: Masks, gold: dict[int, BoolArray]) -> Iterator[OutlineDistances]:
    """Distances at the outline of each task's majority vote, or of its truth; tasks without an outline are left out."""
    for task, votes in enumerate(share_of_votes(answers, np.ones(answers.n_answers), 0.0)):
        middle = signed_distance(gold.get(task, votes > 0.5))
        near = np.abs(middle) < 1
        rows = slice(int(answers.task_ptr[task]), int(answers.task_ptr[task + 1]))
        if near.any() and rows.stop > rows.start:
            distance = np.array([signed_distance(each)[near] for each in answers.masks_of_task(task)])
            yield OutlineDistances(answers.worker[rows], distance, middle[near] if task in gold else None)


def _typical_distance(outlines: list[OutlineDistances]) -> float:
    """Median distance of the workers' outlines from the vote's where they differ, as a standard deviation."""
    apart = np.concatenate([np.abs(each.distance).ravel() for each in outlines]) if outlines else np.zeros(0)
    apart = apart[apart > 0.5] - 0.5
    return max(1.4826 * float(np.median(apart)), LEAST_SCALE) if apart.size else LEAST_SCALE


def _shift_error(hands: Hands) -> float:
    """Standard error of the mean bias, weighed as distances are: that of so many workers from all there could be."""
    weight = 1 / hands.variance
    spread = float(weight @ hands.bias**2) / float(weight.sum())
    return float(np.sqrt(spread * (weight @ weight)) / weight.sum())


def _bias_errors(outlines: list[OutlineDistances], hands: Hands) -> FloatArray:
    """Standard errors of the biases (M,), from how much they differ between the answers of a worker."""
    worker, means = [], []
    for each in outlines:
        bias, variance = hands.bias[each.worker], hands.variance[each.worker]
        mean = infer_distances(each.distance, bias, variance)[0] if each.true is None else each.true
        worker.append(each.worker)
        means.append((each.distance - mean).mean(axis=1))
    if not worker:
        return np.sqrt(hands.variance / BIAS_COUNT)
    return means_of_workers(np.concatenate(worker), np.concatenate(means), hands.bias)


def _all_distances(
    answers: Masks, worker: IntArray, hands: Hands, error: FloatArray, reach: float, share: float
) -> Iterator[tuple[FloatArray, float]]:
    """Mean (height, width) and variance of φ, task by task; of a task without answers as the share inside has it.

    Parameters
    ----------
    error
        Standard errors of the biases, and last of one that all workers have in common.
    """
    for task in range(answers.n_tasks):
        shape = int(answers.height[task]), int(answers.width[task])
        who = worker[answers.task_ptr[task] : answers.task_ptr[task + 1]]
        if not who.size:
            yield np.full(shape, max(reach / 3 * float(ndtri(share)), -reach)), (reach / 3) ** 2
            continue
        weight = 1 / hands.variance[who]
        total = np.zeros(shape)
        for mask, part, bias in zip(answers.masks_of_task(task), weight, hands.bias[who], strict=True):
            total += part * (np.clip(signed_distance(mask), -reach, reach) - bias)
        share_of = weight / weight.sum()
        variance = 1 / weight.sum() + share_of**2 @ error[who] ** 2 + error[-1] ** 2
        yield np.clip(total / weight.sum(), -reach, reach), float(variance)


class _Slips:
    """Counts pixels far from the outline that workers have on the wrong side."""

    def __init__(self, n_workers: int) -> None:
        self.wrong, self.far = np.zeros((n_workers, 2)), np.zeros((n_workers, 2))

    def add(self, answers: Masks, task: int, distance: FloatArray, reach: float) -> None:
        """Count those of a task whose distances are known."""
        outside, inside = distance < -SLIP_SHARE * reach, distance > SLIP_SHARE * reach
        for row in range(answers.task_ptr[task], answers.task_ptr[task + 1]):
            mask, who = answers.mask(row), answers.worker[row]
            self.wrong[who] += (mask & outside).sum(), (inside & ~mask).sum()
            self.far[who] += outside.sum(), inside.sum()

    def shares(self) -> FloatArray:
        """Shares (M, 2), drawn to the crowd's."""
        crowd = (self.wrong.sum(axis=0) + 1) / (self.far.sum(axis=0) + SLIP_COUNT)
        found: FloatArray = (self.wrong + SLIP_COUNT * crowd) / (self.far + SLIP_COUNT)
        return np.minimum(found, 0.49)
