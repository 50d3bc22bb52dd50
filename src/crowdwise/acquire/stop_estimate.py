"""When a task needs no further label, by an estimate: how often the stopped tasks are right, without a promise.

`StopRule` promises a share with a probability, which few known answers can seldom carry. `StopEstimate` asks for less:
tasks are stopped as long as the stopped ones are right in a target share by a calibrated estimate. It may be wrong.

| quantity | from |
|---|---|
| posterior of a task | `Auto`, fitted to all labels, not told the gold |
| x | logit of its confidence |
| P(right) at x | c(x) = E[expit(δ + α x)], over what is known of δ and α (`find_chances`) |
| prior of δ and log α | Student's t with 3 degrees of freedom, by the mean and covariance of `SEEN` |
| what gold says | each gold task as it is now: x, and right or wrong |
| stopped | the most tasks, the highest c first, whose mean of c is `target` or above |
| given up | chance to be stopped, with the labels that a task can still get, < `hope` (`chance_to_stop`) |

The expectation over δ and α is the margin: where little is known of them, c is low. A task that is not stopped is
open or given up. Given up does not say that its answer is right: it says that more labels of this crowd would hardly
make anyone sure of it. No task is given up before workers have `ENOUGH_ANSWERS` answers each on average, since until
then more labels teach how good the workers are, which the chance does not foresee. Both can change with the next
labels and the next calibration.

Gold speaks for tasks that are labelled as it is: stop and give up gold tasks as all others.

What saw a truth: `SEEN` are δ and α of ten real crowds, each fitted to the truth of all its tasks where they became
surer than ever before, labels played in random order. Benchmarks leave the crowd in question out. `Auto` was itself
made with most of these crowds in sight, and was chosen here with all of them in sight, against the mean of two online
fits and the mean of both; so was `hope`, for the labels that it saves.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from crowdwise.acquire.chance_to_stop import chance_to_stop
from crowdwise.acquire.stopping import FEWEST_PASSED, find_known_answers
from crowdwise.fitting.online_model import check_online_model
from crowdwise.fitting.parameter_checks import check_count, check_inner_share, check_number
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from crowdwise.fitting.online_model import OnlineModel
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["SEEN", "StopEstimate", "Trials", "find_trials", "fit_calibration", "to_logit"]

SEEN = {  # δ and α, see above; benchmarks/acquisition.py stop-prior
    "rte": (0.17, 0.99),
    "temp": (0.83, 0.6),
    "dog": (0.33, 0.4),
    "bluebird": (-0.17, 0.6),
    "sp": (0.33, 0.67),
    "zencrowd_us": (-0.17, 0.74),
    "web": (0.17, 1.21),
    "ducks": (-0.33, 0.55),
    "music": (0.33, 0.55),
    "labelme": (-0.17, 0.6),
}
ENOUGH_ANSWERS = 20  # of a worker, on average: their skill is then known to about .1
FREEDOM = 3.0
CERTAIN = 1e-6  # confidences nearer to 0 or 1 are taken as this far from it before the logit
DELTAS = np.linspace(-5, 4, 55)
ALPHAS = np.exp(np.linspace(np.log(0.05), np.log(4), 45))
LARGEST_DELTA = 20.0
LOGITS = np.linspace(-4, 14, 181)  # where P(right) is computed; in between it is interpolated


class Trials(NamedTuple):
    """Moments at which tasks might have been stopped: logit of confidence, whether right, weight, (R,) each."""

    logit: FloatArray
    right: BoolArray
    weight: FloatArray


class Look(NamedTuple):
    """The consensus of all labels as they are now.

    Attributes
    ----------
    posterior : (N, K)
    confusion : (M, K, K)
    """

    posterior: FloatArray
    confusion: FloatArray


def fit_consensus(model: OnlineModel) -> Look:
    """`Auto`, fitted to all labels of a model."""
    from crowdwise.evaluate.auto import Auto  # takes long to import

    if not model.n_labels:
        size, n_classes = len(model.tasks), len(model.classes)
        return Look(np.full((size, n_classes), 1 / max(n_classes, 1)), np.empty((0, n_classes, n_classes)))
    fit = Auto().fit(model.to_labels())
    return Look(fit.posterior_, fit.confusion_)


def find_trials(confidence: FloatArray, right: BoolArray, counts: BoolArray) -> Trials:
    """Where each task becomes surer than ever before, (tasks, looks) each; only where `counts`.

    The trials of a task weigh 1 together.
    """
    surest = np.maximum.accumulate(np.where(counts, confidence, 0.0), axis=1)
    before = np.pad(surest[:, :-1], ((0, 0), (1, 0)))
    row, column = np.nonzero(counts & (confidence > before))
    weight = 1 / np.maximum(np.bincount(row, minlength=len(surest)), 1)
    return Trials(to_logit(confidence[row, column]), right[row, column], weight[row])


def fit_calibration(trials: Trials) -> tuple[float, float]:
    """The δ and α of the grid that fit best: a line of `SEEN`."""
    best = np.unravel_index(_log_likelihood(trials).argmax(), (DELTAS.size, ALPHAS.size))
    return float(DELTAS[best[0]]), float(ALPHAS[best[1]])


def weigh_calibrations(trials: Trials, seen: Sequence[tuple[float, float]]) -> FloatArray:
    """Probability of each δ and α of the grid, (D, A), by the crowds seen before and the trials."""
    crowds = np.array([(delta, np.log(alpha)) for delta, alpha in seen])
    apart = np.stack(np.meshgrid(DELTAS, np.log(ALPHAS), indexing="ij"), axis=-1) - crowds.mean(axis=0)
    distance = np.einsum("dai,ij,daj->da", apart, np.linalg.inv(np.cov(crowds.T)), apart)
    total = -(FREEDOM + 2) / 2 * np.log1p(distance / FREEDOM) + _log_likelihood(trials)
    shares = np.exp(total - total.max())
    found: FloatArray = shares / shares.sum()
    return found


def _log_likelihood(trials: Trials) -> FloatArray:
    yes, no = trials.weight * trials.right, trials.weight * ~trials.right
    found = np.empty((DELTAS.size, ALPHAS.size))
    for a, alpha in enumerate(ALPHAS):
        score = DELTAS[:, None] + alpha * trials.logit
        found[:, a] = log_expit(score) @ yes + log_expit(-score) @ no
    return found


def find_chances(shares: FloatArray, logit: FloatArray) -> FloatArray:
    """P(right), (n,), of tasks by the logit of their confidence."""
    chance = [float((shares * expit(DELTAS[:, None] + ALPHAS * each)).sum()) for each in LOGITS]
    found: FloatArray = np.interp(logit, LOGITS, chance)
    return found


def find_spread(shares: FloatArray, logit: FloatArray) -> float:
    """Standard error of the mean of P(right) over these tasks, by what is not known of δ and α."""
    number = np.bincount(np.abs(logit[:, None] - LOGITS).argmin(axis=1), minlength=LOGITS.size) / logit.size
    used = np.flatnonzero(number)
    mean = np.zeros_like(shares)
    for each in used:
        mean += number[each] * expit(DELTAS[:, None] + ALPHAS * LOGITS[each])
    middle = (shares * mean).sum()
    return float(np.sqrt((shares * (mean - middle) ** 2).sum()))


def to_logit(confidence: FloatArray) -> FloatArray:
    """Log odds of a confidence, no nearer to certainty than `CERTAIN`."""
    inside = np.clip(confidence, CERTAIN, 1 - CERTAIN)
    found: FloatArray = np.log(inside / (1 - inside))
    return found


@dataclass
class StopEstimate:
    """Stops as many tasks as are right in a target share by a calibrated estimate; there is no promise that they are.

    Parameters
    ----------
    target
        Least share of the stopped tasks that are right, as estimated.
    hope
        Least chance of an open task to be stopped with the labels that it can still get; others are given up. 0 gives
        no task up.
    min_labels
        Fewest labels of a task that is stopped or given up.
    seen
        δ and α of at least four crowds, which the calibration starts from.

    Attributes
    ----------
    threshold
        Confidence from which on tasks are stopped; infinite before `calibrate`, and where nothing can be stopped.
    estimate, spread
        Share of the stopped tasks that are right, and its standard error; not numbers where nothing is stopped.

    Notes
    -----
    What is estimated is how often the consensus of `Auto` is right (`posteriors`), not that of the online model, which
    may differ. Ask gold tasks as all others: `find_stopped` and `find_given_up` speak of them too.

    Examples
    --------
    >>> rule = StopEstimate(target=0.95)
    >>> rule.can_stop, rule.describe()
    (False, 'No task is stopped: calibrate the rule with gold.')
    """

    target: float = 0.95
    hope: float = 1 / 3
    min_labels: int = 2
    seen: Sequence[tuple[float, float]] = tuple(SEEN.values())
    threshold: float = field(default=np.inf, init=False)
    estimate: float = field(default=np.nan, init=False)
    spread: float = field(default=np.nan, init=False)
    _words: str = field(default="calibrate the rule with gold", init=False, repr=False)
    _least_chance: float = field(default=1.0, init=False, repr=False)  # of a stopped task
    _shares: FloatArray | None = field(default=None, init=False, repr=False)
    _looked_at: tuple[Any, int, Look] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        check_inner_share("target", self.target)
        check_number("hope", self.hope, low=0, high=1)
        check_count("min_labels", self.min_labels)
        if not isinstance(self.seen, tuple | list) or len(self.seen) < 4 or any(len(each) != 2 for each in self.seen):
            raise InputError(f"seen is {quote(self.seen)}; it must be pairs of δ and α of at least four crowds.")
        for delta, alpha in self.seen:
            check_number("δ of seen", delta, low=-LARGEST_DELTA, high=LARGEST_DELTA)
            check_number("α of seen", alpha, low=0, above=True)
        if np.linalg.matrix_rank(np.cov(np.array([(delta, np.log(alpha)) for delta, alpha in self.seen]).T)) < 2:
            raise InputError("seen has crowds that hardly differ; it must have some whose δ and α both do.")

    def calibrate(self, model: OnlineModel, gold: Any) -> Self:
        """Learn from gold that the model was not told from which confidence on tasks are stopped.

        Parameters
        ----------
        gold
            Known answers, as for `fit`, of tasks drawn at random.
        """
        check_online_model("model", model)
        with model.lock:
            at, truth = find_known_answers(model, gold)
            self._calibrate(model, at, truth)
        return self

    def _calibrate(self, model: OnlineModel, gold: IntArray, truth: IntArray) -> None:
        self.threshold, self.estimate, self.spread, self._shares = np.inf, np.nan, np.nan, None
        enough = model.labels_per_task >= self.min_labels
        used = enough[gold]
        if used.sum() < FEWEST_PASSED:
            have = f"{used.sum()} gold tasks have {self.min_labels} labels"
            self._words = f"{have}; at least {FEWEST_PASSED} are needed"
            return
        posterior = self._look(model).posterior
        logit = to_logit(posterior.max(axis=1))
        right = posterior.argmax(axis=1)[gold] == truth
        self._shares = weigh_calibrations(Trials(logit[gold[used]], right[used], np.ones(used.sum())), self.seen)
        at = np.setdiff1d(np.flatnonzero(enough), gold)
        at = at[np.argsort(-logit[at], kind="stable")]
        chance = find_chances(self._shares, logit[at])
        mean = np.cumsum(chance) / np.arange(1, at.size + 1)
        last_of_equals = np.append(np.diff(logit[at]) < 0, True)[: at.size]
        reached = np.flatnonzero((mean >= self.target) & last_of_equals)
        self._least_chance = self.target
        if not reached.size:
            surest = f"the surest task is right with an estimated chance of {chance[0]:.3f}" if at.size else ""
            self._words = f"{surest or 'no task has enough labels'}; {self.target:g} is asked for"
            return
        last = reached[-1]
        self.threshold, self._least_chance = float(posterior[at[last]].max()), float(chance[last])
        self.estimate, self.spread = float(mean[last]), find_spread(self._shares, logit[at[: last + 1]])
        self._words = f"{used.sum()} gold tasks"

    def _look(self, model: OnlineModel) -> Look:
        """The consensus of the model as it is now, made once for as long as it has no further label."""
        if self._looked_at is not None:
            seen, number, found = self._looked_at
            if seen() is model and number == model.n_labels and len(found.posterior) == len(model.tasks):
                return found
        found = fit_consensus(model)
        self._looked_at = (weakref.ref(model), model.n_labels, found)
        return found

    @property
    def can_stop(self) -> bool:
        """Whether the rule stops tasks at all."""
        return bool(np.isfinite(self.threshold))

    def describe(self) -> str:
        """What is estimated of the stopped tasks, or why none is stopped, as a sentence."""
        if not self.can_stop:
            return f"No task is stopped: {self._words}."
        return (
            f"Tasks are stopped at a confidence of {self.threshold:.4g}. By estimate {self.estimate:.1%} of the "
            f"stopped tasks are right, with a standard error of {self.spread:.1%} ({self._words}); this is no promise."
        )

    def posteriors(self, model: OnlineModel) -> FloatArray:
        """P(class) of each task, (N, K), by the consensus that is stopped: the most probable class is its answer."""
        check_online_model("model", model)
        with model.lock:
            return self._look(model).posterior.copy()

    def should_stop(self, model: OnlineModel, task: Any) -> bool:
        """Whether this task needs no further label."""
        check_online_model("model", model)
        return bool(self.find_stopped(model)[model.tasks.find(task)])

    def find_stopped(self, model: OnlineModel) -> BoolArray:
        """Which tasks (N,) need no further label; gold tasks as well."""
        check_online_model("model", model)
        with model.lock:
            found: BoolArray = np.zeros(len(model.tasks), np.bool_)
            if self.can_stop:
                sure = self._look(model).posterior.max(axis=1) >= self.threshold
                found = sure & (model.labels_per_task >= self.min_labels)
            return found

    def find_given_up(self, model: OnlineModel, most_labels: int | IntArray) -> BoolArray:
        """Which tasks (N,) are not stopped, and would hardly be with all the labels that they can get.

        Parameters
        ----------
        most_labels
            Labels that a task can have at most, those that it has included; one number, or one for each task (N,).
        """
        check_online_model("model", model)
        with model.lock:
            number = model.labels_per_task
            most = np.asarray(most_labels)
            if most.dtype.kind not in "iu" or most.shape not in ((), number.shape):
                raise InputError(
                    f"most_labels is {quote(most_labels)}; it must be a whole number, or one for each of the "
                    f"{number.size} tasks."
                )
            most = np.broadcast_to(most, number.shape)
            found: BoolArray = np.zeros(number.size, np.bool_)
            answered = np.count_nonzero(model.labels_per_worker)
            if self._shares is None or not self.hope or model.n_labels < ENOUGH_ANSWERS * answered:
                return found
            at = np.flatnonzero(~self.find_stopped(model) & (number >= self.min_labels))
            found[at] = self._find_chance_to_stop(model, self._shares, at, most[at]) < self.hope
            return found

    def _find_chance_to_stop(self, model: OnlineModel, shares: FloatArray, at: IntArray, most: IntArray) -> FloatArray:
        look, rng = self._look(model), np.random.default_rng(0)
        posterior = look.posterior[at]
        chance = find_chances(shares, to_logit(posterior.max(axis=1)))

        def is_sure(confidence: FloatArray, calibration: int) -> BoolArray:
            delta, alpha = DELTAS[calibration // ALPHAS.size], ALPHAS[calibration % ALPHAS.size]
            sure: BoolArray = expit(delta + alpha * to_logit(confidence)) >= self._least_chance
            return sure

        number = model.labels_per_task[at]
        return chance_to_stop(
            posterior,
            chance,
            number,
            most - number,
            look.confusion,
            model.labels_per_worker,
            shares.ravel(),
            is_sure,
            rng,
        )
