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

| information of a step | where |
|---|---|
| Fisher's | without qualities, where it is the observed one, and with slopes |
| observed + extra, extra = max(0, abs(gradient) / `LONGEST` - own, `LEAST` × Fisher's own - own) | with qualities |

Own is the diagonal. Far from the mode the observed information may be negative, and the logit of a worker who seems
always right nearly flat: extra keeps a parameter's own step to `LONGEST`. At a mode it is 0 where the observed
information is above `LEAST` of Fisher's, and steps are Newton's. The optimum does not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from crowdwise.kinds.answers import names_or_numbers
from crowdwise.kinds.comparisons.answer_sums import inform, sum_answers
from crowdwise.kinds.fisher_scoring import Ascent, LocalModel, climb_by_fisher_scoring

if TYPE_CHECKING:
    from crowdwise.kinds.comparisons.answers import Comparisons
    from crowdwise.kinds.comparisons.likelihood import Curvature, Parameters
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["Objective", "Priors", "RelativeSlopes", "find_mode", "objective_of_known_answers", "relative_slopes"]

UNSEEN = 1e-9  # information on the root mean square of slopes, which nothing depends on
LONGEST = 1.0  # logit or unit of score that a step may go where nothing else is known of the parameter
LEAST = 0.1  # share of Fisher's information that a parameter has at least in a step
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
        self.is_exact = "quality" in self.place and "slope" not in self.place

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
        now = self.unpack(vector)
        relative = self._relative(now)
        found = sum_answers(self.answers, self.place, replace(now, slope=relative.slope), observed=self.is_exact)
        value, prior, precision = self._prior(now)
        gradient = prior + self._project(found.gradient, relative, self.priors.slope_mean - relative.slope)
        fisher, own = (precision + self._shrink(each, relative) for each in (found.fisher, found.seen))
        if self.pinned is not None:
            gradient[: self.pinned.size][self.pinned] = 0.0
        outside = precision.copy()  # what is added to one parameter alone
        if "slope" in self.place:
            outside[self.place["slope"]] = UNSEEN
        if self.is_exact:
            extra = np.maximum(np.maximum(np.abs(gradient) / LONGEST, LEAST * fisher) - own, 0.0)
            outside += extra
            own = own + extra

        def multiply(direction: FloatArray) -> FloatArray:
            moved, turned = direction, np.zeros(0)
            if "slope" in self.place:
                moved, turned = direction.copy(), relative.project(direction[self.place["slope"]])
                moved[self.place["slope"]] = turned
            product = outside * direction + self._project(found.multiply(moved), relative, turned)
            if self.pinned is not None:
                product[: self.pinned.size][self.pinned] = 0.0
            return product

        return LocalModel(value + found.value, gradient, multiply, own)

    def information(self, parameters: Parameters) -> tuple[Curvature, FloatArray, FloatArray, FloatArray]:
        """Fisher's information of each answer, slopes, how slopes move x, and the priors' precisions, at parameters."""
        answers, relative = self.answers, self._relative(parameters)
        found = inform(answers, replace(parameters, slope=relative.slope))
        difference = parameters.score[answers.left] - parameters.score[answers.right]
        return found, relative.slope[answers.worker], difference / relative.size, self._prior(parameters)[2]

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

    def _project(self, total: FloatArray, relative: RelativeSlopes, pull: FloatArray) -> FloatArray:
        """Derivatives by relative slopes, and the pull of their prior, as derivatives by slopes, in place."""
        if "slope" in self.place:
            where = self.place["slope"]
            total[where] = relative.project(total[where] + pull / self.priors.slope_spread**2)
        return total

    def _shrink(self, diagonal: FloatArray, relative: RelativeSlopes) -> FloatArray:
        """Information on relative slopes as that on slopes, as if their root mean square were given."""
        if "slope" in self.place:
            diagonal = diagonal.copy()
            diagonal[self.place["slope"]] /= relative.size**2
        return diagonal


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
