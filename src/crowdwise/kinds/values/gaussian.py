"""Normal models of values: every worker has a standard deviation, and may shift and stretch the scale.

The generative story. The value y of a task is normal with mean μ and variance τ². Worker w, asked about it, says a
number that is normal with mean a[w] y + b[w] and variance σ²[w]. Scales a[w] are normal about 1, biases b[w] about 0,
precisions 1/σ²[w] have a Gamma prior that counts as `strength` answers of a common worker. Student's t adds a weight
u ~ Gamma(ν/2, ν/2) to every answer, whose variance is then σ²[w]/u.

J. Ok, S. Oh, Y. Jang, J. Shin and Y. Yi (2019), "Iterative Bayesian learning for crowdsourced regression", AISTATS.

Values, lines, precisions and weights have independent posteriors, each found given the others: they climb a bound on
the log-evidence (mean-field variational Bayes). The variances of the priors are those that raise the bound most
(empirical Bayes): a crowd without biases is found to have none.

| equation | here |
|---|---|
| y: precision 1/τ² + Σ E[a²]/σ², mean (μ/τ² + Σ (E[a] x - E[ab])/σ²) / precision | `kernels.value_sums` |
| a[w], b[w]: regression of the answers on the values, with normal priors | `line_posteriors` |
| 1/σ²[w] ~ Gamma((strength + n)/2, (strength noise + Σ E(x - a y - b)²)/2) | `line_posteriors.improve` |
| the bound | `line_posteriors.evidence_lower_bound` |
| variances v of the priors: v (v' / v)^f in place of the best v'; f grows while the bound rises | `overrelax` |
| variance of y for lines and noise that are not known exactly | `known_workers` |
| strength by the density of held-out answers | `choose_strength` |

An iteration costs O(answers × D).

Departures: the paper's workers have a variance alone, from a known finite set, and belief propagation. Scale, bias and
their priors are additions. Independent posteriors of values and workers make intervals too short: the first term of
the linear response of the values to the workers (Giordano, Broderick and Jordan 2018) is added to the variances. D
coordinates share a worker's variance, each with a line of its own. Known values enter as tasks whose posterior has no
variance.

Choices. That the strength is chosen, and by the normal density of held-out answers, was settled on simulated crowds,
some of them with answers that pile up at one end of the scale, and with a look at the truths of emotion_anger,
emotion_joy, emotion_valence and wordsim: Student's density and the continuous ranked probability score choose smaller
strengths there, and do worse. All other constants saw no truth.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.fitting.em import climb
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.estimator_parameters import clone
from crowdwise.fitting.parameter_checks import check_choice, check_number
from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.kinds.held_out import choose_by_held_out
from crowdwise.kinds.model import Found
from crowdwise.kinds.values.first_beliefs import lay_out, start
from crowdwise.kinds.values.known_workers import KnownLineModel, KnownWorkers, as_arrays, infer_values
from crowdwise.kinds.values.line_posteriors import (
    Beliefs,
    Crowd,
    Hyperparameters,
    LinePosterior,
    adopt_priors,
    evidence_lower_bound,
    expect_values,
    improve,
    overrelax,
    worker_sums,
)
from crowdwise.labels.table_output import native_table

if TYPE_CHECKING:
    from crowdwise.kernels.value_sums import ValuePass
    from crowdwise.kinds.values.answers import Values
    from crowdwise.labels.types import FloatArray

__all__ = ["GaussianValues", "StudentValues"]

LINES = ("none", "bias", "scale")
STRENGTHS = (4.0, 16.0, 64.0)  # tried by "auto"
MIDDLE = 16.0  # where there are too few answers to try
FEWEST = 30  # answers that "auto" needs
MOST = 200_000  # answers that it looks at
FASTER = 1.5  # growth of the factor by which steps of the priors' variances are lengthened, while the bound rises
SLOW = 1e-3  # gain per answer of a plain step below which steps are lengthened: plain ones choose between optima
ROUGH = 1e-5  # gain per answer at which a fit is near enough to its optimum for a choice by the mean log-density


class State(NamedTuple):
    """Beliefs, what a pass over the answers makes of them, the bound there, and how far the next step goes."""

    beliefs: Beliefs
    passes: list[ValuePass]
    own: FloatArray
    bound: float
    factor: float


def common_variances(crowd: Crowd, beliefs: Beliefs) -> tuple[FloatArray, FloatArray]:
    """Variances (D,) of the mean bias and the mean scale of the workers, which the priors take to be 0 and 1.

    The mean of n workers has 1/n of their variance. That it was estimated from them widens intervals as Student's t
    with n - 1 degrees of freedom does, whose variance is near (n + 1)/(n - 1).
    """
    there = crowd.per_worker > 0
    number = max(int(there.sum()), 2)
    more = (number + 1) / (number - 1) / number
    lines, priors = beliefs.lines, beliefs.priors
    shift = more * crowd.fits_bias * (priors.bias_variance + lines.bias_variance[there].mean(axis=0))
    stretch = more * crowd.fits_scale * (priors.scale_variance + lines.scale_variance[there].mean(axis=0))
    return shift, stretch


class LineModel(KnownLineModel):
    """Base of the normal models.

    Parameters
    ----------
    lines : "scale", "bias", "none"
        What workers make of the scale: stretch and shift it, shift it, or nothing.
    strength : float above 0, "auto"
        How many answers of a common worker the prior of a worker's precision counts as. "auto" takes that of 4, 16 and
        64 under which held-out answers are most probable (`league()` shows them).

    Attributes
    ----------
    strength_ : float
        The strength that was used.
    objective_ : (n_iter_,)
        Bound on the log-evidence at each iteration, in units of the answers' standard deviation.
    """

    uses = frozenset({"gold"})
    climbs = True
    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("strength", "", low=SMALLEST),
        SavedArray("tried", "T", low=SMALLEST),
        SavedArray("tried_scores", "T 3"),
    )

    lines: str
    strength: Any
    max_iter: int
    tol: float

    strength_: FloatArray
    tried_: FloatArray
    tried_scores_: FloatArray
    noise_freedom_: FloatArray

    @property
    def _stranger_freedom(self) -> float:
        return float(self.strength_)

    @property
    def _first_freedom(self) -> float:
        """Degrees of freedom of the noise that a fit starts from; infinite if it is normal."""
        return np.inf

    def _own_arrays(self, priors: Hyperparameters) -> dict[str, FloatArray]:  # noqa: ARG002
        """What a model saves besides."""
        return {}

    def league(self) -> Any:
        """Table of the strengths that "auto" tried, by the mean log-density of held-out answers, the best first."""
        self._check_fitted()
        held_out, behind, error = self.tried_scores_.T
        columns = {"strength": self.tried_, "held_out": held_out, "behind": behind, "behind_error": error}
        return native_table(columns, self.table_kind_)

    def _check(self) -> None:
        check_choice("lines", self.lines, LINES)
        if isinstance(self.strength, str):
            check_choice("strength", self.strength, ("auto",))
        else:
            check_number("strength", self.strength, low=0, above=True)

    def _fit(self, answers: Values, gold: FloatArray | None) -> Found:
        if isinstance(self.strength, str):
            strength, tried = choose_strength(self, answers)
        else:
            strength, tried = float(self.strength), np.empty((0, 4))
        crowd, units = lay_out(answers, gold, self.lines)
        first = start(crowd, strength, self._first_freedom)
        fixed = worker_sums(crowd, first) if first.weight_rate is None else None

        def expect(beliefs: Beliefs, factor: float) -> State:
            passes = expect_values(crowd, beliefs)
            own = worker_sums(crowd, beliefs) if fixed is None else fixed
            return State(beliefs, passes, own, evidence_lower_bound(crowd, beliefs, passes, own), factor)

        def step(now: State) -> tuple[float, float, State]:
            plain = improve(crowd, now.beliefs, now.passes, now.own)
            if now.factor > 1:
                priors = overrelax(now.beliefs.priors, plain.priors, now.factor)
                further = adopt_priors(crowd, replace(plain, priors=priors), now.passes, now.own)
                found = expect(further, now.factor * FASTER)
                if found.bound >= now.bound:
                    return now.bound, now.bound, found
            found = expect(plain, 1.0)
            slow = found.bound - now.bound <= SLOW * answers.n_answers
            return now.bound, now.bound, found._replace(factor=FASTER if slow else 1.0)

        ended = climb(
            [expect(first, 1.0)], step, max_iter=self.max_iter, tol=self.tol * answers.n_answers, name=self.slug
        )
        found, size = ended.parameters.beliefs, units.size
        priors = found.priors
        lines = found.lines
        nothing = np.zeros(answers.n_coordinates)
        shift, stretch = (nothing, nothing) if gold is not None else common_variances(crowd, found)
        known = KnownWorkers(
            LinePosterior(
                lines.scale,
                size * lines.bias,
                lines.scale_variance,
                size**2 * lines.bias_variance,
                size * lines.covariance,
            ),
            size**2 * found.rate / found.shapes.shape,
            2 * found.shapes.shape,
            units.centre,
            units.centre + size * priors.mean,
            size**2 * priors.spread,
            size**2 * shift,
            stretch,
            priors.freedom,
        )
        value, variance = infer_values(answers, answers.worker, known, gold)
        arrays = (
            as_arrays(known)
            | self._own_arrays(priors)
            | {
                "value": value,
                "variance": variance,
                "strength": np.array(strength),
                "tried": tried[:, 0],
                "tried_scores": tried[:, 1:],
            }
        )
        return Found(arrays, ended.objective, ended.n_iter, ended.converged)


def choose_strength(model: LineModel, answers: Values) -> tuple[float, FloatArray]:
    """The strength under which held-out answers are most probable; all that were tried, and their scores (T, 4)."""
    if answers.n_answers < FEWEST:
        return MIDDLE, np.empty((0, 4))
    some = _draw_tasks(answers)
    tol = max(model.tol, ROUGH)
    tried = {str(strength): clone(model).set_params(strength=strength, tol=tol) for strength in STRENGTHS}
    league = choose_by_held_out(tried, some)
    scores = np.array([(float(each.name), each.mean, each.behind, each.error) for each in league])
    return float(scores[0, 0]), scores


def _draw_tasks(answers: Values) -> Values:
    """All answers, or those of tasks drawn by name until they are `MOST`."""
    if answers.n_answers <= MOST:
        return answers
    by_name = pc.sort_indices(answers.tasks.cast(pa.string())).to_numpy()
    order = by_name[np.random.default_rng(0).permutation(answers.n_tasks)]
    kept = np.zeros(answers.n_tasks, np.bool_)
    kept[order[: np.searchsorted(np.cumsum(answers.answers_per_task[order]), MOST)]] = True
    rows = kept[answers.task]
    return replace(
        answers,
        task=(np.cumsum(kept) - 1)[answers.task[rows]].astype(np.int32),
        worker=answers.worker[rows],
        value=answers.value[rows],
        tasks=answers.tasks.take(pa.array(np.flatnonzero(kept))),
    )


@estimator
class GaussianValues(LineModel):
    """Consensus of values: every worker has a standard deviation, and a scale and a bias of their own.

    Facts
    -----
    Assumes: answers are normal about a line in the true value, with a standard deviation for every worker
    Fails with: answers that pile up at the ends of a scale, single answers that are far off
    Cost: O(answers) an iteration
    Paper: Ok et al. 2019, AISTATS
    """

    slug = "gaussian"

    lines: str = "scale"
    strength: Any = "auto"
    max_iter: int = 500
    tol: float = 1e-7


@estimator
class StudentValues(LineModel):
    """Consensus of values as `gaussian`, with noise of Student's t: an answer that is far off counts little.

    Facts
    -----
    Assumes: as gaussian, but any answer may be far off
    Fails with: answers that pile up at the ends of a scale, tasks with two answers
    Cost: O(answers) an iteration
    Paper: Ok et al. 2019, AISTATS, with the noise of Lange et al. 1989

    Attributes
    ----------
    noise_freedom_ : float
        Degrees of freedom of the noise, from 3 to 100, found with the priors: the fewer, the more often answers are far
        off.
    """

    slug = "student-t"
    saved = (SavedArray("noise_freedom", "", low=SMALLEST),)

    lines: str = "scale"
    strength: Any = "auto"
    max_iter: int = 500
    tol: float = 1e-7

    @property
    def _first_freedom(self) -> float:
        return 4.0

    @property
    def _noise_freedom(self) -> float:
        return float(self.noise_freedom_)

    def _own_arrays(self, priors: Hyperparameters) -> dict[str, FloatArray]:
        return {"noise_freedom": np.array(priors.freedom)}
