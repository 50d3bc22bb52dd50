"""What the panel says of each task, how sure, and which part of the panel would do.

Two stages. `Auto` makes a posterior from the votes alone, which allows for judges that err together. On the tasks that
people labelled, `calibrate_from_gold` then averages logistic regressions from the votes to the people's answer, each
shrunk to that posterior: temperature, class biases, how far each judge agrees with people, judges' tables, ordered
classes, single judges. What is reported about labelled tasks is cross-fitted: accuracy leaves out the task's own
answer, calibration those of a fifth of the tasks. Without people's labels the posterior is that of the votes, and says
how judges agree, not whether they are right.

The cheapest panel as good is found by leaving out judges one by one, each time the one whose loss costs least log
probability for what it saves; of the panels on the way, it is the cheapest whose accuracy is at most `MARGIN` below the
whole panel's at the lower end of the paired interval. Panels were compared on the same tasks: the accuracy of the
chosen one is a little too high.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.evaluate.auto import Auto
from crowdwise.evaluate.gold_calibration import FEWEST_GOLD, calibrate_from_gold
from crowdwise.fitting.em import StillImproving
from crowdwise.judges.agreement_with_people import NOTHING, estimate_difference, estimate_share, lower_bound_of_share
from crowdwise.metrics.calibration import Reliability, bin_predictions, mean_gap

if TYPE_CHECKING:
    from crowdwise.judges.agreement_with_people import Estimate
    from crowdwise.judges.vote_table import PanelVotes
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["PanelConsensus", "SmallerPanel", "find_cheapest_panel", "fit_panel", "fit_votes_to_people"]

# What a labelled task counts for in the panel's accuracy. The panel is fitted to the labels that score it, each left
# out in turn, and another sample would give another panel: the squared error is a little above the binomial's, by
# simulation 1.06 times (standard error 0.03: 1,700 draws of 50 to 300 labels, `benchmarks/judges.py bound
# simulated_1`). Chosen by simulation; how public panels fare had been seen by then.
WORTH = 0.92
MARGIN = 0.03  # of accuracy that a cheaper panel may lose, at the lower end of the interval
MOST_JUDGES = 12  # up to which smaller panels are tried
MOST_TASKS = 400  # labelled tasks on which smaller panels are compared
BINS = 10
FOLDS = 5  # parts of the labelled tasks that are kept from the fit in turn, for the reliability
MOST_FOLDED = 500  # labelled tasks that take part in it


@dataclass(frozen=True, eq=False)
class PanelConsensus:
    """What the panel says.

    Attributes
    ----------
    posterior : (N, K)
        Probability of each class to be what people would say; the votes' posterior where nobody labelled anything. On
        tasks that people labelled it is made without their answer.
    calibrated
        Whether people's labels took part.
    accuracy
        Share of labelled tasks on which the panel says what most people say, cross-fitted.
    lower_bound
        One-sided bound of it: above the true accuracy in about 5 % of samples.
    best_judge
        Position of the judge with the highest accuracy; -1 without people.
    advantage
        Accuracy of the panel less that of the best judge, on the same tasks.
    calibration_error
        Mean distance of confidence to the share that is right, cross-fitted; NaN without people.
    reliability
        The same as a table; None without people.
    """

    posterior: FloatArray
    calibrated: bool
    accuracy: Estimate
    lower_bound: float
    best_judge: int
    advantage: Estimate
    calibration_error: float
    reliability: Reliability | None

    @property
    def decision(self) -> IntArray:
        """The most probable class of each task, (N,)."""
        decided: IntArray = self.posterior.argmax(axis=1)
        return decided

    @property
    def confidence(self) -> FloatArray:
        """Its probability, (N,)."""
        sure: FloatArray = self.posterior.max(axis=1)
        return sure


def fit_votes_to_people(
    votes: CrowdLabels, reference: IntArray, *, random_state: int = 0
) -> tuple[FloatArray, FloatArray]:
    """The posterior (N, K), cross-fitted on labelled tasks; and the posterior of the votes alone.

    Parameters
    ----------
    reference : (N,)
        What people say, -1 where unknown.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StillImproving)
        alone = Auto(random_state=random_state).fit(votes).posterior_
    if not (reference >= 0).any():
        return alone, alone
    found = calibrate_from_gold(votes, alone, reference, random_state=random_state)
    posterior = found.posterior.copy()
    posterior[found.tasks] = found.cross_fitted
    return posterior, alone


def fit_panel(panel: PanelVotes, *, random_state: int = 0) -> PanelConsensus:
    """Fit the panel's votes to what people say, and measure how well that works."""
    reference = panel.find_reference()
    posterior, alone = fit_votes_to_people(panel.votes, reference, random_state=random_state)
    known = np.flatnonzero((reference >= 0) & (panel.votes.labels_per_task > 0))
    if not known.size:
        nan = float("nan")
        return PanelConsensus(posterior, False, NOTHING, nan, -1, NOTHING, nan, None)
    weight = panel.weight[known]
    right = posterior[known].argmax(axis=1) == reference[known]
    votes = panel.to_matrix()[known]
    shares = np.array([_accuracy(votes[:, judge], reference[known], weight) for judge in range(votes.shape[1])])
    best = int(np.nanargmax(shares)) if not np.isnan(shares).all() else -1
    told = votes[:, best] >= 0
    advantage = estimate_difference(
        right[told].astype(np.float64), (votes[told, best] == reference[known][told]).astype(np.float64), weight[told]
    )
    scored = np.full(reference.size, -1)
    scored[known] = reference[known]
    table = measure_reliability(panel.votes, alone, scored, random_state=random_state)
    return PanelConsensus(
        posterior,
        known.size >= FEWEST_GOLD,
        estimate_share(right, weight, worth=WORTH),
        lower_bound_of_share(right, weight, worth=WORTH),
        best,
        advantage,
        mean_gap(table),
        table,
    )


def measure_reliability(
    votes: CrowdLabels, alone: FloatArray, reference: IntArray, *, random_state: int = 0
) -> Reliability:
    """Confidence against accuracy on labelled tasks, each predicted from the answers to those of other folds.

    Leaving out one task at a time will not do here: of tasks with the same votes, one that the panel gets wrong is
    surer when left out than one that it gets right, and bins would show that and nothing else.
    """
    rng = np.random.default_rng(random_state)
    known = rng.permutation(np.flatnonzero(reference >= 0))[:MOST_FOLDED]
    chosen = np.zeros(reference.size, np.bool_)
    chosen[known] = True
    kept, start, truth = votes.keep_tasks(chosen), alone[chosen], reference[chosen]
    fold = rng.permutation(truth.size) % min(FOLDS, truth.size)
    posterior = np.empty_like(start)
    for number in range(fold.max() + 1):
        told = np.where(fold == number, -1, truth)
        found = calibrate_from_gold(kept, start, told, random_state=random_state)
        posterior[fold == number] = found.posterior[fold == number]
    return bin_predictions(np.minimum(posterior.max(axis=1), 1.0), posterior.argmax(axis=1) == truth, BINS)


def _accuracy(vote: IntArray, reference: IntArray, weight: FloatArray) -> float:
    told = vote >= 0
    return float(np.average(vote[told] == reference[told], weights=weight[told])) if told.any() else float("nan")


@dataclass(frozen=True, eq=False)
class SmallerPanel:
    """A part of the panel: its judges, what a task costs, and its accuracy less the whole panel's."""

    judges: tuple[str, ...]
    cost: float
    accuracy: Estimate
    difference: Estimate
    as_good: bool


def find_cheapest_panel(panel: PanelVotes, cost: FloatArray, *, random_state: int = 0) -> list[SmallerPanel]:
    """The panels met on leaving out judges one by one, from the whole to one judge; none with too few labels of people.

    Parameters
    ----------
    cost : (M,)
        Of one vote of each judge.
    """
    reference = panel.find_reference()
    known = np.flatnonzero((reference >= 0) & (panel.votes.labels_per_task > 0))
    n_judges = panel.votes.n_workers
    if known.size < FEWEST_GOLD or not 2 <= n_judges <= MOST_JUDGES:
        return []
    if known.size > MOST_TASKS:
        known = np.sort(np.random.default_rng(random_state).choice(known, MOST_TASKS, replace=False))
    truth, weight = reference[known], panel.weight[known]
    chosen = np.zeros(panel.votes.n_tasks, np.bool_)
    chosen[known] = True
    votes = panel.votes.keep_tasks(chosen)
    members = list(range(n_judges))
    predicted = _predict_held_out(votes, members, truth, random_state)
    whole = (predicted.argmax(axis=1) == truth).astype(np.float64)
    found = [_describe(panel, members, cost, whole, whole, weight)]
    while len(members) > 1:
        trials = [[each for each in members if each != left] for left in members]
        predictions = [_predict_held_out(votes, trial, truth, random_state) for trial in trials]
        logs = [np.average(np.log(np.maximum(each[np.arange(truth.size), truth], 1e-12)), weights=weight)
                for each in predictions]  # fmt: skip
        saved = cost[members] / max(cost[members].sum(), 1e-300)
        best = int(np.argmax([log + 0.02 * share for log, share in zip(logs, saved, strict=True)]))
        members = trials[best]
        right = (predictions[best].argmax(axis=1) == truth).astype(np.float64)
        found.append(_describe(panel, members, cost, right, whole, weight))
    return found


def _predict_held_out(votes: CrowdLabels, members: list[int], truth: IntArray, random_state: int) -> FloatArray:
    """What these judges alone say of each labelled task, without its own answer, from the shares of their votes."""
    kept = votes.keep(np.isin(votes.worker, members))
    counts = np.asarray(kept.vote_counts(), np.float64) + 0.5 / votes.n_classes
    shares = counts / counts.sum(axis=1, keepdims=True)
    found = calibrate_from_gold(kept, shares, truth, draw_levels=False, random_state=random_state)
    predicted: FloatArray = found.cross_fitted
    return predicted


def _describe(
    panel: PanelVotes, members: list[int], cost: FloatArray, right: FloatArray, whole: FloatArray, weight: FloatArray
) -> SmallerPanel:
    difference = estimate_difference(right, whole, weight)
    return SmallerPanel(
        tuple(panel.judges[each] for each in members),
        float(cost[members].sum()),
        estimate_share(right > 0, weight),
        difference,
        difference.low >= -MARGIN,
    )
