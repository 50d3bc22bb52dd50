"""How many labels a target accuracy needs, from what is there so far.

The labels are thinned at random to several shares, and a consensus is found from each part. How often it is right there
is measured on gold, which the fits are not told; without gold it is the mean confidence, which real crowds fall short
of, and the forecast says so. The error is then carried on along

    error(n) = e + b f(n),   n labels a task, e ≥ 0, b ≥ 0, f one of n^-.5, n^-1, n^-2, exp(-n/2), exp(-n/4), exp(-n/8),

fitted by least squares: it falls as a power where some tasks are hard, exponentially where workers err by themselves.
Intervals come from weighing tasks at random (Bayesian bootstrap, Rubin 1981), one right and one wrong answer added to
gold and weighed with it, so that a few tasks that are all right, or a single one, do not look certain. They hold no
further than the curve does. No constant saw a truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import nnls

from crowdwise.fitting.base import check_enough_labels
from crowdwise.fitting.content_order import order_by_content
from crowdwise.fitting.online_model import OnlineModel
from crowdwise.fitting.parameter_checks import check_inner_share, check_random_state
from crowdwise.fitting.prior_knowledge import PriorKnowledge
from crowdwise.fitting.underflow import ignore_underflow
from crowdwise.labels.errors import InputError
from crowdwise.labels.read import read_labels
from crowdwise.labels.truth import read_truth, truth_codes

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Plan", "plan"]

SHARES = (0.2, 0.35, 0.5, 0.7, 0.85, 1.0)
PARTS = 4  # of each share
BOOTSTRAPS = 200
POWERS, SPANS = (0.5, 1.0, 2.0), (2.0, 4.0, 8.0)
FURTHEST = 3.0  # times the labels that there are: a curve is not carried on beyond
POINTS = 13
FEWEST_LABELS = 20


@dataclass(frozen=True, eq=False)
class Plan:
    """A forecast: accuracy against labels, and the labels for a target.

    Attributes
    ----------
    labels : (P,)
        Numbers of labels in all.
    accuracy, low, high : (P,)
        Accuracy of the consensus there, and its interval.
    target
        Accuracy wanted.
    n_labels
        Labels that there are.
    needed, needed_low, needed_high
        Labels in all for the target, and the interval; None where it is not reached with three times the labels.
    n_gold
        Tasks whose known answer the accuracy was measured on; 0 if it is what the model claims.
    """

    labels: IntArray
    accuracy: FloatArray
    low: FloatArray
    high: FloatArray
    target: float
    n_labels: int
    needed: int | None
    needed_low: int | None
    needed_high: int | None
    n_gold: int

    def sentences(self) -> list[str]:
        """What the forecast says, in words."""
        here = int(np.argmin(np.abs(self.labels - self.n_labels)))
        right = f"{self.accuracy[here]:.1%} of the consensus is right"
        if self.n_gold:
            interval = f" ({self.low[here]:.1%} to {self.high[here]:.1%})"
            said = [f"With the {self.n_labels:,} labels so far about {right}{interval}."]
        else:
            said = [f"The model claims that with the {self.n_labels:,} labels so far {right}."]
            said.append("Without gold that is not measured, and real crowds fall short of it.")
            said.append("Known answers to fifty tasks would measure it.")
        if self.needed is None:
            most = int(self.labels[-1])
            said.append(f"{self.target:.1%} is not reached with {most:,} labels; more of the same will hardly help.")
        elif self.n_gold:
            end = f"{self.needed_high:,}" if self.needed_high is not None else "more than three times as many"
            start = f"{self.needed_low:,}" if self.needed_low is not None else f"{self.needed:,}"
            said.append(f"{self.target:.1%} needs about {self.needed:,} labels in all ({start} to {end}).")
        else:
            said.append(f"{self.target:.1%} needs {self.needed:,} labels in all at least.")
        return said


@ignore_underflow
def plan(labels: Any, target: float = 0.95, *, gold: Any = None, level: float = 0.9, random_state: int = 0) -> Plan:
    """Forecast the accuracy of the consensus with more labels like those that there are.

    Parameters
    ----------
    labels
        An `OnlineModel`, whose gold counts, or labels as `read_labels` takes them.
    target
        Accuracy wanted.
    gold
        Known answers to some tasks.
    level
        Of the intervals.
    random_state
        Draws the parts of the labels, in an order of their content, whatever that of the rows.

    Examples
    --------
    >>> from crowdwise.simulate import simulate
    >>> sizes = {"n_tasks": 200, "n_workers": 20, "n_classes": 2, "labels_per_task": 4}
    >>> crowd = simulate("dawid-skene", **sizes, skill=0.7, random_state=1)
    >>> found = plan(crowd.labels, 0.8, gold=dict(enumerate(crowd.truth)))
    >>> found.needed_low <= found.needed, found.n_gold
    (True, 200)
    """
    check_inner_share("target", target)
    level = check_inner_share("level", level)
    check_random_state(random_state)
    if isinstance(labels, OnlineModel):
        given, code = labels.to_labels(), labels.gold.copy()
    else:
        given = read_labels(labels)
        code = np.full(given.n_tasks, -1)
    if gold is not None:
        code = truth_codes(read_truth(gold), given)
    if given.n_labels < FEWEST_LABELS:
        raise InputError(f"There are {given.n_labels} labels; a forecast needs {FEWEST_LABELS} or more.")
    check_enough_labels(given)
    rng = np.random.default_rng(random_state)
    told = PriorKnowledge(gold=code)
    order = order_by_content(given, told)
    given, code = order.arrange(given), order.arrange_knowledge(told).gold
    measured = np.flatnonzero((code >= 0) & (given.labels_per_task > 0))
    n_gold = int(measured.size)
    tasks = measured if n_gold else np.flatnonzero(given.labels_per_task > 0)
    per_task = given.n_labels / max(int((given.labels_per_task > 0).sum()), 1)
    right = np.stack([_measure(given, code, tasks, share, rng) for share in SHARES])  # (shares, tasks)
    if n_gold:
        right = np.column_stack([right, np.ones(len(SHARES)), np.zeros(len(SHARES))])
    weights = [np.full(right.shape[1], 1 / right.shape[1]), *rng.dirichlet(np.ones(right.shape[1]), BOOTSTRAPS)]
    grid = np.unique(np.round(np.linspace(SHARES[0], FURTHEST, POINTS * 4) * given.n_labels).astype(np.int64))
    scale = per_task / given.n_labels
    seen = np.array(SHARES) * per_task
    carried = (grid * scale).astype(np.float64)
    curves = np.stack([_carry_on(seen, 1 - right @ weight, carried) for weight in weights])
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(curves[1:], (tail, 100 - tail), axis=0)
    needed = np.array([_first(grid, curve, target) for curve in curves])
    bounds = np.percentile(needed[1:], (tail, 100 - tail), method="nearest")
    shown = np.unique(np.linspace(0, grid.size - 1, POINTS).round().astype(np.int64))
    return Plan(
        grid[shown],
        curves[0][shown],
        np.minimum(low, curves[0])[shown],
        np.maximum(high, curves[0])[shown],
        float(target),
        given.n_labels,
        _whole(needed[0]),
        _whole(min(bounds[0], needed[0])),
        _whole(max(bounds[1], needed[0])),
        n_gold,
    )


def _measure(
    labels: CrowdLabels, code: IntArray, tasks: IntArray, share: float, rng: np.random.Generator
) -> FloatArray:
    """How right the consensus of a share of the labels is on each task, on gold or as claimed; mean of several."""
    total = np.zeros(tasks.size)
    parts = PARTS if share < 1 else 1
    for _ in range(parts):
        model = OnlineModel(labels.classes.to_pylist(), growth=0)
        chosen = np.sort(rng.permutation(labels.n_labels)[: round(share * labels.n_labels)])
        model.add_labels(labels, chosen)
        model.refit(max_iter=50, tol=1e-3)
        posterior = model.posteriors[tasks]
        best = posterior.argmax(axis=1)
        total += best == code[tasks] if (code[tasks] >= 0).all() else posterior[np.arange(tasks.size), best]
    mean: FloatArray = total / parts
    return mean


def _carry_on(seen: FloatArray, error: FloatArray, at: FloatArray) -> FloatArray:
    """Accuracy along the fitted curve, at other numbers of labels a task."""
    best, curve = np.inf, np.full(at.size, 1 - error[-1])
    shapes = [(seen**-power, at**-power) for power in POWERS] + [(np.exp(-seen / s), np.exp(-at / s)) for s in SPANS]
    for fitted, carried in shapes:
        (floor, slope), miss = nnls(np.stack([np.ones(seen.size), fitted], axis=1), error)
        if miss < best:
            best, curve = miss, 1 - (floor + slope * carried)
    found: FloatArray = np.clip(curve, 0, 1)
    return found


def _first(grid: IntArray, curve: FloatArray, target: float) -> float:
    there = np.flatnonzero(curve >= target)
    return float(grid[there[0]]) if there.size else np.inf


def _whole(number: float) -> int | None:
    return int(number) if np.isfinite(number) else None
