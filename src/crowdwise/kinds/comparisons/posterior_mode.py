"""The most probable scores and workers: the objective of every method for comparisons, its gradient and information.

| prior | of |
|---|---|
| normal, mean 0, standard deviation `spread` | scores of items |
| normal, mean `slope_mean`, standard deviation `slope_spread` | relative slopes of workers |
| normal, mean `bias_mean`, standard deviation `bias_spread` | biases of workers towards the left side |
| Beta(`right`, `wrong`) | qualities ω of workers |
| normal, mean 0, standard deviation `TIE_SPREAD` | log ν, of ties |

Slopes count relative to their root mean square: scores that are half as large, with slopes twice as large, would give
the same answers, and the mode of scores and slopes together would shrink the one and blow up the other. What stands
for a slope u in the likelihood is u / √(mean of u²), which `relative_slopes` gives; the scores then have one scale.

A method names the parts that it estimates ("score", "slope", "bias", "quality", "tie"); the others stay as they are.
The objective is the log-likelihood and the log-density of the priors of these parts, without constants. A product of
the information with a vector costs O(answers).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from crowdwise.kinds.answers import names_or_numbers
from crowdwise.kinds.comparisons.likelihood import Parameters, differentiate
from crowdwise.kinds.fisher_scoring import Ascent, LocalModel, climb_by_fisher_scoring

if TYPE_CHECKING:
    from crowdwise.kinds.comparisons.answers import Comparisons
    from crowdwise.kinds.comparisons.likelihood import Derivatives
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["Objective", "Priors", "RelativeSlopes", "find_mode", "objective_of_known_answers", "relative_slopes"]

UNSEEN = 1e-9  # information on the root mean square of slopes, which nothing depends on
TIE_SPREAD = 3.0  # ν from 1/150 to 150 with 90 % probability: little is known beforehand


@dataclass(frozen=True)
class Priors:
    """Priors of items and workers; see the table above."""

    spread: float = 1.0
    slope_mean: float = 1.0
    slope_spread: float = 0.5
    bias_mean: float = 0.0
    bias_spread: float = 0.5
    right: float = 2.0
    wrong: float = 1.0


class RelativeSlopes(NamedTuple):
    """Slopes over their root mean square, and that."""

    slope: FloatArray
    size: float

    def project(self, direction: FloatArray) -> FloatArray:
        """How the relative slopes change with the slopes in a direction; the same map takes derivatives back."""
        moved: FloatArray = (direction - self.slope * float(self.slope @ direction) / self.slope.size) / self.size
        return moved


def relative_slopes(slope: FloatArray, *, estimated: bool) -> RelativeSlopes:
    """Slopes as the likelihood takes them; those that are given and not estimated stay as they are."""
    size = float(np.sqrt((slope**2).mean())) if estimated else 1.0
    return RelativeSlopes(slope / size, size)


class Objective:
    """Log-posterior of the estimated parts as a function of one vector, the parts behind one another.

    Parameters
    ----------
    parts
        What is estimated, in the order score, slope, bias, quality, tie.
    base
        What the other parts are, and scores that are pinned.
    pinned : (N,)
        Items whose scores are known and stay as they are.
    """

    def __init__(
        self,
        answers: Comparisons,
        parts: tuple[str, ...],
        base: Parameters,
        priors: Priors,
        pinned: BoolArray | None = None,
    ) -> None:
        self.answers, self.parts, self.base, self.priors, self.pinned = answers, parts, base, priors, pinned
        sizes = [1 if part == "tie" else getattr(base, part).size for part in parts]
        ends = np.cumsum(sizes)
        self.place = {part: slice(end - size, end) for part, size, end in zip(parts, sizes, ends, strict=True)}
        self.size = int(ends[-1])

    def pack(self, parameters: Parameters) -> FloatArray:
        """The estimated parts as one vector."""
        return np.concatenate([np.atleast_1d(getattr(parameters, part)) for part in self.parts]).astype(np.float64)

    def unpack(self, vector: FloatArray) -> Parameters:
        """The parameters that a vector stands for."""
        found = {part: vector[self.place[part]] for part in self.parts}
        tie = float(found.pop("tie")[0]) if "tie" in found else self.base.tie
        return replace(self.base, **found, tie=tie)

    def describe(self, vector: FloatArray) -> LocalModel:
        """Value, gradient and information about a vector."""
        now, answers = self.unpack(vector), self.answers
        worker = answers.worker
        relative = self._relative(now)
        slope, difference = relative.slope[worker], now.score[answers.left] - now.score[answers.right]
        found = differentiate(answers.outcome, slope * difference + now.bias[worker], now.quality[worker], now.tie)
        value, gradient, precision = self._prior(now)
        rest = (self.priors.slope_mean - relative.slope) / self.priors.slope_spread**2
        gradient += self._scatter(found.by_x, found.by_q, found.by_t, slope, difference, relative, rest)
        diagonal = precision + self._diagonal(found, slope, difference, relative)
        if self.pinned is not None:
            gradient[: self.pinned.size][self.pinned] = 0.0

        outside = precision.copy()  # what a prior adds to one parameter alone
        if "slope" in self.place:
            outside[self.place["slope"]] = UNSEEN

        def multiply(direction: FloatArray) -> FloatArray:
            x, q, t, turned = self._directional(direction, slope, difference, relative)
            by_x, by_q, by_t = found.xx * x, found.by_q, found.by_t  # the last two count where they are estimated
            if "quality" in self.place:
                by_x, by_q = by_x + found.xq * q, found.xq * x + found.qq * q
            if "tie" in self.place:
                by_x, by_t = by_x + found.xt * t, found.xt * x + found.qt * q + found.tt * t
                by_q = by_q + found.qt * t
            product = outside * direction + self._scatter(
                by_x,
                by_q,
                by_t,
                slope,
                difference,
                relative,
                turned / self.priors.slope_spread**2,
            )
            if self.pinned is not None:
                product[: self.pinned.size][self.pinned] = 0.0
            return product

        return LocalModel(value + float(found.value.sum()), gradient, multiply, diagonal)

    def information(self, parameters: Parameters) -> tuple[Derivatives, FloatArray, FloatArray, FloatArray]:
        """Derivatives of each answer, slopes, how slopes move x, and the priors' precisions, at parameters."""
        answers, relative = self.answers, self._relative(parameters)
        slope = relative.slope[answers.worker]
        difference = parameters.score[answers.left] - parameters.score[answers.right]
        x = slope * difference + parameters.bias[answers.worker]
        found = differentiate(answers.outcome, x, parameters.quality[answers.worker], parameters.tie)
        return found, slope, difference / relative.size, self._prior(parameters)[2]

    def of_scores(self, parameters: Parameters) -> Objective:
        """The same objective with all but the scores given."""
        return Objective(self.answers, ("score",), parameters, self.priors, self.pinned)

    def settle(self, parameters: Parameters) -> Parameters:
        """The parameters with slopes as the likelihood takes them."""
        return replace(parameters, slope=self._relative(parameters).slope)

    def _relative(self, parameters: Parameters) -> RelativeSlopes:
        return relative_slopes(parameters.slope, estimated="slope" in self.place)

    # ---- parts --------------------------------------------------------------------------------------------

    def _prior(self, now: Parameters) -> tuple[float, FloatArray, FloatArray]:
        """Log-density of the priors, its gradient and its precision."""
        value, gradient, precision = 0.0, np.empty(self.size), np.empty(self.size)
        normal = {
            "score": (0.0, self.priors.spread),
            "bias": (self.priors.bias_mean, self.priors.bias_spread),
            "tie": (0.0, TIE_SPREAD),
        }
        for part, place in self.place.items():
            there = np.atleast_1d(getattr(now, part))
            if part == "quality":
                right, wrong, w = self.priors.right - 1, self.priors.wrong - 1, expit(there)
                value += float((right * log_expit(there) + wrong * log_expit(-there)).sum())
                gradient[place] = right * (1 - w) - wrong * w
                precision[place] = np.maximum((right + wrong) * w * (1 - w), 1e-9)
            elif part == "slope":  # its gradient is a matter of all slopes together: see `describe`
                relative, spread = self._relative(now), self.priors.slope_spread
                value -= 0.5 * float((((relative.slope - self.priors.slope_mean) / spread) ** 2).sum())
                gradient[place] = 0.0
                precision[place] = 1 / (spread * relative.size) ** 2
            else:
                mean, spread = normal[part]
                value -= 0.5 * float((((there - mean) / spread) ** 2).sum())
                gradient[place] = (mean - there) / spread**2
                precision[place] = 1 / spread**2
        return value, gradient, precision

    def _scatter(
        self,
        x: FloatArray,
        q: FloatArray,
        t: FloatArray,
        slope: FloatArray,
        difference: FloatArray,
        relative: RelativeSlopes,
        by_relative: FloatArray,
    ) -> FloatArray:
        """Sums over answers of derivatives by x, q and t, as derivatives by the estimated parts.

        `by_relative` are derivatives by the relative slopes (M,) that are added.
        """
        answers, place, total = self.answers, self.place, np.empty(self.size)
        moved = x * slope
        total[place["score"]] = np.bincount(answers.left, moved, answers.n_items)
        total[place["score"]] -= np.bincount(answers.right, moved, answers.n_items)
        by_worker = {"slope": (x, difference), "bias": (x, None), "quality": (q, None)}
        for part, (values, factor) in by_worker.items():
            if part in place:
                weights = values if factor is None else values * factor
                sums = np.bincount(answers.worker, weights, answers.n_workers)
                total[place[part]] = relative.project(sums + by_relative) if part == "slope" else sums
        if "tie" in place:
            total[place["tie"]] = t.sum()
        return total

    def _directional(
        self, direction: FloatArray, slope: FloatArray, difference: FloatArray, relative: RelativeSlopes
    ) -> tuple[FloatArray, FloatArray | float, float, FloatArray]:
        """How x, q and t of each answer change with the parameters in a direction; and the relative slopes."""
        answers, place = self.answers, self.place
        score = direction[place["score"]]
        x = slope * (score[answers.left] - score[answers.right])
        turned = np.zeros(answers.n_workers)
        if "slope" in place:
            turned = relative.project(direction[place["slope"]])
            x += difference * turned[answers.worker]
        if "bias" in place:
            x += direction[place["bias"]][answers.worker]
        q = direction[place["quality"]][answers.worker] if "quality" in place else 0.0
        return x, q, float(direction[place["tie"]][0]) if "tie" in place else 0.0, turned

    def _diagonal(
        self, found: Derivatives, slope: FloatArray, difference: FloatArray, relative: RelativeSlopes
    ) -> FloatArray:
        """Of the information, as if the root mean square of the slopes were given."""
        answers, total = self.answers, np.empty(self.size)
        for part, place in self.place.items():
            if part == "score":
                weights = found.xx * slope**2
                total[place] = np.bincount(answers.left, weights, answers.n_items)
                total[place] += np.bincount(answers.right, weights, answers.n_items)
            elif part == "tie":
                total[place] = found.tt.sum()
            else:
                weights = {
                    "slope": found.xx * (difference / relative.size) ** 2,
                    "bias": found.xx,
                    "quality": found.qq,
                }[part]
                total[place] = np.bincount(answers.worker, weights, answers.n_workers)
        return total


def find_mode(
    objective: Objective, start: Parameters, *, max_iter: int, tol: float, name: str
) -> tuple[Parameters, Ascent]:
    """Climb the objective from a start; `tol` is a gain per answer."""
    ended = climb_by_fisher_scoring(
        objective.pack(start),
        objective.describe,
        max_iter=max_iter,
        tol=tol * objective.answers.n_answers,
        name=name,
    )
    return objective.unpack(ended.parameters), ended


def objective_of_known_answers(
    answers: Comparisons, base: Parameters, spread: float, pinned: BoolArray | None = None
) -> Objective:
    """Objective of scores where slope, bias and quality are given for each answer, in the place of each worker."""
    lone = replace(
        answers,
        worker=np.arange(answers.n_answers, dtype=np.int32),
        workers=names_or_numbers(answers.n_answers, "worker"),
    )
    return Objective(lone, ("score",), base, Priors(spread=spread), pinned)
