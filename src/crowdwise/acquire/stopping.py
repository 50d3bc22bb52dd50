"""When a task needs no further label: a threshold of confidence that known answers have vouched for.

A task is stopped when the posterior of its consensus reaches a threshold τ. Posteriors claim too much: with Dawid and
Skene's model, tasks stopped at .99 were right in .63 to .95 of the cases on ten real crowds. So τ is taken from tasks
whose answer is known (gold) and from checks, tasks that were labelled on after they could have been stopped:

| quantity | from |
|---|---|
| first passage: the class at the first label from which on the posterior of a task reaches τ | `find_first_passages` |
| p = P(the first passage names the class that all labels name) | gold and checks: Beta(1, 1) and their counts |
| r = P(right, if so), s = P(right, if not) | gold alone: Beta(a, b) and Beta(1, 1), and their counts |
| accuracy of stopped tasks at τ | p r + (1 - p) s |

Thresholds are tested from the highest that half of the gold tasks, or `ENOUGH` of them, reach, downwards, and τ is the
last before the first at which P(accuracy ≥ target) < 1 - δ: so no luck among many tests decides (a fixed sequence, as
in Angelopoulos et al. 2021, "Learn then test"). Where the first fails, nothing is stopped, and `promise` says so.
The model is not told the gold: told, it is better at gold tasks than at others, even with a task's own labels left out
of the workers' tables (.97 against .94 right at τ = .98 on the crowd web), and would vouch for too much. The promise is
of the stopped tasks of this project together, given gold that was drawn as the other tasks were; it is no promise about
any one task.

What saw a truth: (a, b) = (6.5, 0.8) is the Beta distribution with the mean and variance of the accuracies of tasks
that were stopped at τ = .999 on ten real crowds. With one crowd left out a is 5.6 to 6.6 and b .66 to .89, but 31 and
2.7 without ducks, the one that misleads most. The benchmark leaves each set out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crowdwise.fitting.online_model import check_online_model
from crowdwise.fitting.parameter_checks import check_count, check_inner_share, check_number
from crowdwise.kernels.online_em import softmax
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.truth import Truth, read_truth

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from crowdwise.fitting.online_model import OnlineModel
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["StopRule", "find_first_passages", "find_known_answers"]

THRESHOLDS = np.array([0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999, 0.99999, 0.999999])
SEEN = (6.5, 0.8)  # see above
DRAWS = 2000
ENOUGH = 50
FEWEST_PASSED = 5  # gold tasks: a promise on fewer would be the prior's alone


def find_first_passages(
    model: OnlineModel, tasks: IntArray, thresholds: FloatArray = THRESHOLDS, min_labels: int = 2
) -> tuple[IntArray, IntArray]:
    """Class of each task (by position) when its confidence first reaches each threshold, (G, T), and at the end (G,).

    -1 where it never does. Labels are taken in the order in which they came.
    """
    passed = np.full((len(tasks), thresholds.size), -1)
    final = np.full(len(tasks), -1)
    log_prior = np.log(np.maximum(model.prior, 1e-300))
    for g, task in enumerate(tasks):
        evidence = model.evidence_of_labels(int(task))
        if not len(evidence):
            continue
        posterior = softmax(np.cumsum(evidence, axis=0) + log_prior)
        final[g] = posterior[-1].argmax()
        later = posterior[min_labels - 1 :]
        for t, threshold in enumerate(thresholds):
            there = np.flatnonzero(later.max(axis=1, initial=0.0) >= threshold)
            if there.size:
                passed[g, t] = later[there[0]].argmax()
    return passed, final


def find_known_answers(model: OnlineModel, gold: Any) -> tuple[IntArray, IntArray]:
    """Positions of gold tasks, in order, and their true classes; refuses gold that the model was told."""
    known = read_truth(gold) if not isinstance(gold, Mapping) or gold else Truth(pa.array([]), pa.array([]))
    names = zip(known.tasks.to_pylist(), known.labels.to_pylist(), strict=True)
    truth_at = {model.tasks.find(task): model.classes.find(truth) for task, truth in names}
    at = np.array(sorted(truth_at), np.int64)
    if (model.gold[at] >= 0).any():
        raise InputError(
            "The model was told gold that is to calibrate the stop rule, and knows those tasks better than others. "
            "Give gold to calibrate alone, not to set_gold or partial_fit."
        )
    return at, np.array([truth_at[task] for task in at.tolist()], np.int64)


@dataclass
class StopRule:
    """Stops tasks whose consensus is right often enough, once known answers show from which confidence on it is.

    Parameters
    ----------
    target
        Least share of stopped tasks that are right.
    delta
        Chance that the share is lower.
    cap
        Most labels of a task, whatever is promised; None for no such limit.
    min_labels
        Fewest labels of a stopped task.
    value
        Least gain in the chance to be right that one more label must be expected to bring (value of information); a
        task of less is stopped too, without a promise. 0 for no such rule.
    prior
        Pseudo-counts of right and wrong among tasks whose stop was confirmed by later labels.

    Attributes
    ----------
    threshold
        Confidence from which on tasks are stopped; infinite before `calibrate`, and where nothing can be promised.

    Examples
    --------
    >>> rule = StopRule(target=0.95)
    >>> rule.can_promise, rule.promise()
    (False, 'Nothing is promised yet, and no task is stopped: calibrate the rule with gold.')
    """

    target: float = 0.95
    delta: float = 0.1
    cap: int | None = None
    min_labels: int = 2
    value: float = 0.0
    prior: tuple[float, float] = SEEN
    threshold: float = field(default=np.inf, init=False)
    _words: str = field(default="calibrate the rule with gold", init=False, repr=False)
    _chance: float = field(default=0.0, init=False, repr=False)
    _gold: IntArray = field(default_factory=lambda: np.empty(0, np.int64), init=False, repr=False)

    def __post_init__(self) -> None:
        check_inner_share("target", self.target)
        check_inner_share("delta", self.delta)
        check_count("min_labels", self.min_labels)
        check_number("value", self.value, low=0, high=1)
        if self.cap is not None:
            check_count("cap", self.cap)
        if not isinstance(self.prior, tuple | list) or len(self.prior) != 2:
            raise InputError(f"prior is {quote(self.prior)}; it must be two numbers above 0.")
        for number in self.prior:
            check_number("a number of prior", number, low=0, above=True)

    def calibrate(self, model: OnlineModel, gold: Any, checks: Iterable[Any] = ()) -> Self:
        """Learn the threshold from gold that the model was not told, and from tasks that were labelled on after a stop.

        Parameters
        ----------
        gold
            The class of tasks whose truth is known, as for `fit`, drawn at random among all tasks. Those without labels
            say nothing.
        checks
            Names of tasks that a stop rule would have stopped, or did, and that were labelled on all the same. They
            must have been drawn at random among such tasks.
        """
        check_online_model("model", model)
        with model.lock:
            self._gold, truth = find_known_answers(model, gold)
            looked = np.setdiff1d(model.tasks.find_all(checks, "checks"), self._gold)
            return self._calibrate(model, truth, looked)

    def _calibrate(self, model: OnlineModel, truth: IntArray, looked: IntArray) -> Self:
        passed, final = find_first_passages(model, self._gold, min_labels=self.min_labels)
        check_passed, check_final = find_first_passages(model, looked, min_labels=self.min_labels)
        rng = np.random.default_rng(0)  # the same known answers give the same threshold
        self.threshold, best = np.inf, (0.0, 0, 0)
        reached = (passed >= 0).sum(axis=0)
        for t in np.flatnonzero(reached >= np.clip(self._gold.size // 2, FEWEST_PASSED, ENOUGH))[::-1]:
            over = passed[:, t] >= 0
            number, right = int(over.sum()), int((passed[over, t] == truth[over]).sum())
            agree = passed[over, t] == final[over]
            correct = passed[over, t] == truth[over]
            seen = check_passed[:, t] >= 0
            kept = int((check_passed[seen, t] == check_final[seen]).sum())
            p = rng.beta(1 + agree.sum() + kept, 1 + (~agree).sum() + seen.sum() - kept, DRAWS)
            r = rng.beta(self.prior[0] + (agree & correct).sum(), self.prior[1] + (agree & ~correct).sum(), DRAWS)
            s = rng.beta(1 + (~agree & correct).sum(), 1 + (~agree & ~correct).sum(), DRAWS)
            chance = float(np.mean(p * r + (1 - p) * s >= self.target))
            best = max(best, (chance, number, right))
            if chance < 1 - self.delta:
                break
            self.threshold, self._chance = float(THRESHOLDS[t]), chance
            self._words = f"{right} of {number} gold tasks were right when they reached it, and {len(looked)} checks"
        if self.can_promise:
            return self
        self._chance, self._words = best[0], self._explain(self._gold.size, best)
        return self

    @property
    def can_stop(self) -> bool:
        """The same as `can_promise`, under the name that all rules have."""
        return self.can_promise

    def describe(self) -> str:
        """The same as `promise`, under the name that all rules have."""
        return self.promise()

    @property
    def can_promise(self) -> bool:
        """Whether the rule stops tasks for their confidence at all."""
        return bool(np.isfinite(self.threshold))

    def promise(self) -> str:
        """What the rule promises, or why it cannot, as a sentence."""
        if not self.can_promise:
            return f"Nothing is promised yet, and no task is stopped: {self._words}."
        return (
            f"Tasks are stopped at a confidence of {self.threshold:g}. With a probability of {1 - self.delta:g}, "
            f"{self.target:.0%} or more of the stopped tasks are right ({self._words})."
        )

    def should_stop(self, model: OnlineModel, task: Any) -> bool:
        """Whether this task needs no further label."""
        check_online_model("model", model)
        with model.lock:
            return bool(self._find_stopped_at(model, np.array([model.tasks.find(task)]))[0])

    def find_stopped(self, model: OnlineModel) -> BoolArray:
        """Which tasks (N,) need no further label; gold is never stopped."""
        check_online_model("model", model)
        with model.lock:
            return self._find_stopped_at(model, np.arange(len(model.tasks)))

    def _find_stopped_at(self, model: OnlineModel, at: IntArray) -> BoolArray:
        posterior, number = model.posteriors_at(at), model.labels_per_task[at]
        done: BoolArray = (posterior.max(axis=1, initial=0.0) >= self.threshold) & (number >= self.min_labels)
        if self.cap is not None:
            done |= number >= self.cap
        if self.value and len(model.classes):
            from crowdwise.acquire.task_policies import ErrorReduction

            crowd = model.confusion_of_new_worker
            if len(model.workers):
                crowd = np.average(model.confusions, axis=0, weights=np.maximum(model.labels_per_worker, 1e-9))
            done |= (ErrorReduction().score(posterior, number, crowd) < self.value) & (number >= self.min_labels)
        return done & (model.gold[at] < 0) & ~np.isin(at, self._gold)

    def _explain(self, n_gold: int, best: tuple[float, int, int]) -> str:
        chance, number, right = best
        if n_gold < FEWEST_PASSED:
            return f"there are {n_gold} gold tasks; at least {FEWEST_PASSED} are needed, and rather 50"
        return (
            f"at best {right} of {number} gold tasks were right when they could have been stopped, so that "
            f"{self.target:.0%} are right with a probability of {chance:.2f}; {1 - self.delta:g} is asked for"
        )
