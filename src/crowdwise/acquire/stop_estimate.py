"""When a task needs no further label, by an estimate: how often the stopped tasks are right, without a promise.

`StopRule` promises a share with a probability, which few known answers can seldom carry. `StopEstimate` asks for less:
tasks are stopped as long as the stopped ones are right in a target share by a calibrated estimate. It may be wrong.

| quantity | from |
|---|---|
| posterior of a task | mean of two fits to all labels, `dawid-skene` and `one-coin`; each label judged by the |
|  | worker's other answers, and n labels tempered as n (n + 1)^-0.4 (`likelihood_tempering`) |
| x | logit of its confidence |
| P(right) at x | c(x) = E[expit(δ + α x)], over what is known of δ and α (`find_chances`) |
| prior of δ and log α | Student's t with 3 degrees of freedom, by the mean and covariance of `SEEN` |
| what gold says | each label at which a gold task becomes surer than ever before, where a threshold would stop it: |
|  | right or wrong, the labels of a task weighing 1 together |
| what checks say | the same, by the class that all their labels name: right with the chance c of that class |
| estimate | mean of c over the stopped tasks; most tasks are stopped that keep it at `target` or above |

The expectation over δ and α is the margin: where little is known of them, c is low. The model is not told the gold. A
task whose consensus by the model differs from that of the two fits is not stopped.

What saw a truth: `SEEN` are δ and α of ten real crowds, each fitted to the truth of all its tasks. Benchmarks leave the
crowd in question out. The weight 1 (against √ and all labels in full) and the t distribution (against a Gaussian) have
the best mean log score of other tasks over the ten crowds, each with 5 % gold and the prior of the other nine. Chosen
without any one crowd they would be the same, but for the weight without bluebird, which would be √. The two families,
and that gold is reordered where skilled workers come first, were chosen with the ten crowds in sight.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from crowdwise.acquire.pair_worth import SKILLS, estimate_skills
from crowdwise.acquire.stopping import FEWEST_PASSED, find_known_answers
from crowdwise.evaluate.likelihood_tempering import EXPONENT
from crowdwise.fitting.online_model import OnlineModel, check_online_model
from crowdwise.fitting.parameter_checks import check_count, check_inner_share, check_number
from crowdwise.kernels.online_em import LEAST, softmax
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self

    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["SEEN", "StopEstimate", "fit_calibration"]

SEEN = {  # δ and α, see above; benchmarks/acquisition.py stop-prior
    "rte": (0.0, 0.9),
    "temp": (0.5, 0.6),
    "dog": (0.67, 0.25),
    "bluebird": (-2.0, 1.1),
    "sp": (0.33, 0.67),
    "zencrowd_us": (0.17, 0.9),
    "web": (0.33, 1.21),
    "ducks": (-0.17, 0.06),
    "music": (0.33, 0.49),
    "labelme": (0.17, 0.49),
}
FAMILIES = ("dawid-skene", "one-coin")
PASSES, NEAR = 60, 1e-3  # of a fit
FREEDOM = 3.0
CERTAIN = 1e-6  # confidences nearer to 0 or 1 are taken as this far from it before the logit
DELTAS = np.linspace(-5, 4, 55)
ALPHAS = np.exp(np.linspace(np.log(0.05), np.log(4), 45))
LARGEST_DELTA = 20.0
LOGITS = np.linspace(-4, 14, 181)  # where P(right) is computed; in between it is interpolated


class Trials(NamedTuple):
    """Moments at which tasks might have been stopped: logit of confidence, chance to be right, weight, (R,) each."""

    logit: FloatArray
    right: FloatArray
    weight: FloatArray


class TaskPosteriors:
    """Posteriors of tasks, with all their labels and with their first ones."""

    def __init__(self, model: OnlineModel) -> None:
        self.n_labels: IntArray = model.labels_per_task.copy()
        self.n_classes = len(model.classes)
        self._fits = [_fit_family(model, family) for family in FAMILIES]

    @cached_property
    def with_all_labels(self) -> FloatArray:
        """(N, K)."""
        size, power = self.n_labels.size, (self.n_labels + 1.0) ** -EXPONENT
        mixed = np.zeros((size, self.n_classes))
        for log_prior, task, evidence in self._fits:
            total = np.stack([np.bincount(task, column, size) for column in evidence.T], axis=1)
            mixed += softmax(total * power[:, None] + log_prior)
        return mixed / len(self._fits)

    def with_first_labels(self, tasks: IntArray, first: FloatArray | None = None) -> FloatArray:
        """(G, most labels, K), in the order the labels came, or by `first`, (E,), the highest of a task first."""
        place = np.full(self.n_labels.size, -1)
        place[tasks] = np.arange(tasks.size)
        longest = int(self.n_labels[tasks].max(initial=0))
        power = (np.arange(longest) + 2.0) ** -EXPONENT
        mixed = np.zeros((tasks.size, longest, self.n_classes))
        for log_prior, task, evidence in self._fits:
            at = np.flatnonzero(place[task] >= 0)
            key = np.zeros(at.size) if first is None else -first[at]
            at = at[np.lexsort((key, place[task[at]]))]
            row = place[task[at]]
            column = np.arange(at.size) - np.searchsorted(row, row)
            each = np.zeros_like(mixed)
            each[row, column] = evidence[at]
            mixed += softmax(np.cumsum(each, axis=1) * power[:, None] + log_prior)
        return mixed / len(self._fits)


def _fit_family(model: OnlineModel, family: str) -> tuple[FloatArray, IntArray, FloatArray]:
    """Log of the class shares, task of each label, and the evidence of each, (E, K), of a fit to all labels."""
    given = model.to_codes()
    fit = OnlineModel(range(len(model.classes)), family=family, growth=0, revisits=0)
    for names, add in ((model.tasks, fit.add_task), (model.workers, fit.add_worker)):
        for place in range(len(names)):
            add(place)
    fit.add_codes(*given)
    fit.refit(max_iter=PASSES, tol=NEAR)
    task, evidence = fit.evidence_of_every_label()
    return np.log(np.maximum(fit.prior, LEAST)), task, evidence


def find_trials(posteriors: FloatArray, n_labels: IntArray, right: FloatArray, min_labels: int) -> Trials:
    """Where each task, (G, W, K), becomes surer than ever before; `right` (G, K) is P(class is right)."""
    confidence, said = posteriors.max(axis=2, initial=0.0), posteriors.argmax(axis=2)
    number = np.arange(confidence.shape[1]) + 1
    confidence[(number > n_labels[:, None]) | (number < min_labels)] = 0.0
    surest = np.maximum.accumulate(confidence, axis=1)
    before = np.concatenate([np.zeros((len(surest), 1)), surest[:, :-1]], axis=1)[:, : surest.shape[1]]
    row, column = np.nonzero(confidence > before)
    weight = 1 / np.maximum(np.bincount(row, minlength=len(surest)), 1)
    return Trials(to_logit(confidence[row, column]), right[row, said[row, column]], weight[row])


def weigh_calibrations(trials: Sequence[Trials], seen: Sequence[tuple[float, float]]) -> FloatArray:
    """Probability of each δ and α of the grid, (D, A), by the crowds seen before and the trials."""
    crowds = np.array([(delta, np.log(alpha)) for delta, alpha in seen])
    apart = np.stack(np.meshgrid(DELTAS, np.log(ALPHAS), indexing="ij"), axis=-1) - crowds.mean(axis=0)
    distance = np.einsum("dai,ij,daj->da", apart, np.linalg.inv(np.cov(crowds.T)), apart)
    total = -(FREEDOM + 2) / 2 * np.log1p(distance / FREEDOM)
    for each in trials:
        total += _log_likelihood(each)
    shares = np.exp(total - total.max())
    found: FloatArray = shares / shares.sum()
    return found


def _log_likelihood(trials: Trials) -> FloatArray:
    yes, no = trials.weight * trials.right, trials.weight * (1 - trials.right)
    found = np.empty((DELTAS.size, ALPHAS.size))
    for a, alpha in enumerate(ALPHAS):
        score = DELTAS[:, None] + alpha * trials.logit
        found[:, a] = log_expit(score) @ yes + log_expit(-score) @ no
    return found


def fit_calibration(model: OnlineModel, truth: IntArray, min_labels: int = 2) -> tuple[float, float]:
    """The δ and α of the grid that fit best where the truth (N,) is known (-1 elsewhere): a line of `SEEN`."""
    known = np.flatnonzero(truth >= 0)
    posteriors = TaskPosteriors(model)
    trials = find_trials(
        posteriors.with_first_labels(known),
        posteriors.n_labels[known],
        np.eye(posteriors.n_classes)[truth[known]],
        min_labels,
    )
    best = np.unravel_index(_log_likelihood(trials).argmax(), (DELTAS.size, ALPHAS.size))
    return float(DELTAS[best[0]]), float(ALPHAS[best[1]])


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
    cap
        Most labels of a task, whatever is estimated; None for no such limit.
    min_labels
        Fewest labels of a stopped task.
    skilled_first
        Whether tasks are put to the most skilled workers first. The labels of gold tasks are then taken in this order,
        however they came, so that gold tasks are stopped as others are.
    seen
        δ and α of at least four crowds, which the calibration starts from.

    Attributes
    ----------
    threshold
        Confidence from which on tasks are stopped; infinite before `calibrate`, and where nothing can be stopped.
    estimate, spread
        Share of the stopped tasks that are right, and its standard error; not numbers where nothing is stopped.

    Examples
    --------
    >>> rule = StopEstimate(target=0.95)
    >>> rule.can_stop, rule.describe()
    (False, 'No task is stopped: calibrate the rule with gold.')
    """

    target: float = 0.95
    cap: int | None = None
    min_labels: int = 2
    skilled_first: bool = False
    seen: Sequence[tuple[float, float]] = tuple(SEEN.values())
    threshold: float = field(default=np.inf, init=False)
    estimate: float = field(default=np.nan, init=False)
    spread: float = field(default=np.nan, init=False)
    _words: str = field(default="calibrate the rule with gold", init=False, repr=False)
    _gold: IntArray = field(default_factory=lambda: np.empty(0, np.int64), init=False, repr=False)
    _looked_at: tuple[Any, int, TaskPosteriors] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        check_inner_share("target", self.target)
        check_count("min_labels", self.min_labels)
        if self.cap is not None:
            check_count("cap", self.cap)
        if not isinstance(self.seen, tuple | list) or len(self.seen) < 4 or any(len(each) != 2 for each in self.seen):
            raise InputError(f"seen is {quote(self.seen)}; it must be pairs of δ and α of at least four crowds.")
        for delta, alpha in self.seen:
            check_number("δ of seen", delta, low=-LARGEST_DELTA, high=LARGEST_DELTA)
            check_number("α of seen", alpha, low=0, above=True)
        if np.linalg.matrix_rank(np.cov(np.array([(delta, np.log(alpha)) for delta, alpha in self.seen]).T)) < 2:
            raise InputError("seen has crowds that hardly differ; it must have some whose δ and α both do.")

    def calibrate(self, model: OnlineModel, gold: Any, checks: Iterable[Any] = ()) -> Self:
        """Learn from gold that the model was not told, and from tasks that were labelled on, which tasks to stop.

        Parameters
        ----------
        gold, checks
            As for `StopRule.calibrate`.
        """
        check_online_model("model", model)
        with model.lock:
            self._gold, truth = find_known_answers(model, gold)
            looked = np.setdiff1d(model.tasks.find_all(checks, "checks"), self._gold)
            self._calibrate(model, truth, looked)
        return self

    def _calibrate(self, model: OnlineModel, truth: IntArray, looked: IntArray) -> None:
        self.threshold, self.estimate, self.spread = np.inf, np.nan, np.nan
        labelled = model.labels_per_task[self._gold] >= self.min_labels
        if labelled.sum() < FEWEST_PASSED:
            have = f"{labelled.sum()} gold tasks have {self.min_labels} labels"
            self._words = f"{have}; at least {FEWEST_PASSED} are needed"
            return
        posteriors = self._find_posteriors(model)
        first = None
        if self.skilled_first:
            first = (estimate_skills(model) @ SKILLS)[model.to_codes()[1]]
        known = np.eye(posteriors.n_classes)[truth]
        trials = [self._try_stopping(posteriors, self._gold, known, first)]
        shares = weigh_calibrations(trials, self.seen)
        every = posteriors.with_all_labels
        logit = to_logit(every.max(axis=1))
        if looked.size:
            likely = _as_chances(every[looked], find_chances(shares, logit[looked]))
            shares = weigh_calibrations([*trials, self._try_stopping(posteriors, looked, likely, first)], self.seen)
        at = np.setdiff1d(np.flatnonzero(posteriors.n_labels >= self.min_labels), self._gold)
        at = at[np.argsort(-logit[at], kind="stable")]
        chance = find_chances(shares, logit[at])
        mean = np.cumsum(chance) / np.arange(1, at.size + 1)
        last_of_equals = np.append(np.diff(logit[at]) < 0, True)[: at.size]
        enough = np.flatnonzero((mean >= self.target) & last_of_equals)
        if not enough.size:
            surest = f"the surest task is right with an estimated chance of {chance[0]:.3f}" if at.size else ""
            self._words = f"{surest or 'no task has enough labels'}; {self.target:g} is asked for"
            return
        stopped = at[: enough[-1] + 1]
        self.threshold = float(every[stopped[-1]].max())
        self.estimate, self.spread = float(mean[enough[-1]]), find_spread(shares, logit[stopped])
        self._words = f"{labelled.sum()} gold tasks and {looked.size} checks"

    def _try_stopping(
        self, posteriors: TaskPosteriors, tasks: IntArray, right: FloatArray, first: FloatArray | None
    ) -> Trials:
        return find_trials(
            posteriors.with_first_labels(tasks, first), posteriors.n_labels[tasks], right, self.min_labels
        )

    def _find_posteriors(self, model: OnlineModel) -> TaskPosteriors:
        """Those of the model as it is now, made once for as long as it has no further label."""
        if self._looked_at is not None:
            seen, number, found = self._looked_at
            if seen() is model and number == model.n_labels and found.n_labels.size == len(model.tasks):
                return found
        found = TaskPosteriors(model)
        self._looked_at = (weakref.ref(model), model.n_labels, found)
        return found

    @property
    def can_stop(self) -> bool:
        """Whether the rule stops tasks for their confidence at all."""
        return bool(np.isfinite(self.threshold))

    def describe(self) -> str:
        """What is estimated of the stopped tasks, or why none is stopped, as a sentence."""
        if not self.can_stop:
            return f"No task is stopped: {self._words}."
        return (
            f"Tasks are stopped at a confidence of {self.threshold:.4g}. By estimate {self.estimate:.1%} of the "
            f"stopped tasks are right, with a standard error of {self.spread:.1%} ({self._words}); this is no promise."
        )

    def should_stop(self, model: OnlineModel, task: Any) -> bool:
        """Whether this task needs no further label."""
        check_online_model("model", model)
        return bool(self.find_stopped(model)[model.tasks.find(task)])

    def find_stopped(self, model: OnlineModel) -> BoolArray:
        """Which tasks (N,) need no further label; gold is never stopped."""
        check_online_model("model", model)
        with model.lock:
            number = model.labels_per_task
            done: BoolArray = np.zeros(number.size, np.bool_)
            if self.can_stop:
                every = self._find_posteriors(model).with_all_labels
                done = (every.max(axis=1) >= self.threshold) & (number >= self.min_labels)
                done &= every.argmax(axis=1) == model.posteriors.argmax(axis=1)
            if self.cap is not None:
                done |= number >= self.cap
            done &= model.gold < 0
            done[self._gold] = False
            return done


def _as_chances(posterior: FloatArray, chance: FloatArray) -> FloatArray:
    """P(class is right), (n, K), where the most probable class is right with this chance, the others share the rest."""
    size = posterior.shape[1]
    found = np.repeat(((1 - chance) / max(size - 1, 1))[:, None], size, axis=1)
    found[np.arange(len(found)), posterior.argmax(axis=1)] = chance
    return found
