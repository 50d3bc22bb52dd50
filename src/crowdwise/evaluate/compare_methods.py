"""The league table: methods compared on labels they have not seen, and on a truth where there is one.

Two things are said with it. How far the scores can put the methods in order: intervals of ranks (`rank_intervals`). And
whether the labels contradict the assumption that workers err independently (`independence`): then a method that
predicts the mistakes that workers share scores well without being right.
"""

from __future__ import annotations

import math
import time
import warnings
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextvars import copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise import metrics, registry
from crowdwise.evaluate.comparison_result import Comparison, MethodStanding
from crowdwise.evaluate.held_out import (
    given_answer_probabilities,
    predict_held_out,
    split_into_folds,
    standard_error_over_tasks,
)
from crowdwise.evaluate.independence_check import check_independence
from crowdwise.evaluate.rank_intervals import LEVEL, rank_intervals
from crowdwise.fitting.base import check_enough_labels
from crowdwise.fitting.em import StillImproving
from crowdwise.fitting.progress_bar import show_progress_of
from crowdwise.fitting.underflow import ignore_underflow
from crowdwise.kernels import n_threads, use_threads
from crowdwise.labels.errors import CrowdwiseError, InputError, quote
from crowdwise.labels.old_names import accept_seed
from crowdwise.labels.read import read_labels
from crowdwise.labels.truth import truth_codes
from crowdwise.metrics.calibration import bin_predictions, mean_gap, wilson_interval

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from crowdwise.evaluate.held_out import HeldOutFold
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["Comparison", "MethodStanding", "compare"]


@dataclass
class _MethodFits:
    """What the fits of one method gave, filled in as they end."""

    probability: FloatArray
    top: FloatArray
    hit: BoolArray
    posterior: FloatArray
    decided: IntArray
    seconds: float = math.nan
    note: str = ""

    @classmethod
    def make_empty(cls, labels: CrowdLabels) -> Self:
        size = labels.n_labels
        return cls(np.empty(size), np.empty(size), np.empty(size, np.bool_), np.empty((0, 0)), np.empty(0, np.int64))


@accept_seed
@ignore_underflow
def compare(
    labels: Any, methods: Iterable[str] | None = None, *, folds: int = 5, truth: Any = None, random_state: int = 0
) -> Comparison:
    """Compare methods without a truth, by how well they predict labels hidden from them; and with one, if given.

    Parameters
    ----------
    labels
        As for `fit`.
    methods
        Slugs; by default all that need no further structure (sequences, a graph).
    folds
        Parts into which the labels are cut at random; each is predicted from the others.
    truth
        True labels of some tasks, for scoring alone: a mapping, or a path or table with columns task and label.
    random_state
        For the cut.

    Notes
    -----
    Every method is fitted `folds` + 1 times with default parameters, several fits at a time. A method that cannot be
    fitted to some part has a note instead of a score.

    A good score says that labels are predicted well, which is not how often the consensus is right. See
    `tied_with_best` for the methods that the labels do not tell apart from the best, and `cautions` for assumptions
    that the labels contradict.

    Examples
    --------
    >>> from crowdwise.simulate import simulate
    >>> labels = simulate("one-coin", n_tasks=200, n_workers=10, n_classes=3, labels_per_task=5, random_state=0).labels
    >>> compare(labels, ["majority-vote", "one-coin"]).best
    'one-coin'
    """
    answers = read_labels(labels)
    check_enough_labels(answers)
    slugs = _method_slugs(methods)
    codes = None if truth is None else truth_codes(truth, answers)
    cuts = list(split_into_folds(answers, folds, random_state))
    found = {slug: _MethodFits.make_empty(answers) for slug in slugs}
    jobs = [(slug, cut) for cut in (None, *cuts) for slug in slugs]
    with warnings.catch_warnings(), show_progress_of("comparing", len(jobs), "fits") as advance:
        warnings.simplefilter("ignore", StillImproving)
        with ThreadPoolExecutor(n_threads()) as pool:
            running = [
                pool.submit(copy_context().run, _fit_and_predict, slug, answers, cut, found[slug]) for slug, cut in jobs
            ]
            for job in as_completed(running):
                job.result()
                advance()
    return _make_league_table(answers, found, codes)


def _method_slugs(methods: Iterable[str] | None) -> list[str]:
    if methods is None:
        return [entry.slug for entry in registry.methods() if not entry.needs]
    if isinstance(methods, str):
        methods = [methods]
    if not np.iterable(methods):
        raise InputError(
            f"methods is {quote(methods)}; give a list of methods' names, as `crowdwise methods` has them."
        )
    slugs = list(dict.fromkeys(registry.method(slug).slug for slug in methods))
    if not slugs:
        raise InputError("methods is empty. Name at least one method, or leave it out for all.")
    return slugs


def _fit_and_predict(slug: str, labels: CrowdLabels, cut: HeldOutFold | None, found: _MethodFits) -> None:
    """Fit all labels, or those kept by a cut whose hidden labels are then predicted."""
    if found.note:
        return
    try:
        with use_threads(1):  # fits, rather than lanes, share the cores
            started = time.perf_counter()
            model = registry.method(slug).load()().fit(labels if cut is None else cut.kept)
            if cut is None:
                found.seconds = time.perf_counter() - started
                found.posterior, found.decided = model.posterior_, model._decide(model.posterior_)
                return
            every = predict_held_out(model, cut)
    except (CrowdwiseError, ArithmeticError, ValueError, MemoryError) as error:
        found.note = str(error)
        return
    found.probability[cut.hidden] = given_answer_probabilities(every, cut)
    found.top[cut.hidden] = every.max(axis=1)
    found.hit[cut.hidden] = every.argmax(axis=1) == cut.held.label


def _make_league_table(labels: CrowdLabels, found: dict[str, _MethodFits], truth: IntArray | None) -> Comparison:
    logs = {slug: np.log(entry.probability) for slug, entry in found.items() if not entry.note}
    if not logs:
        slug, entry = next(iter(found.items()))
        raise InputError(f"None of the methods could be fitted. {slug}: {entry.note}")
    order = sorted(logs, key=lambda slug: -logs[slug].mean()) + [slug for slug in found if slug not in logs]
    best = order[0]
    sizes = labels.labels_per_task.astype(np.float64)
    decided = [found[slug].decided if slug in logs else np.full(labels.n_tasks, np.nan) for slug in order]
    agreement = np.array([[np.mean((one == two)[sizes > 0]) for two in decided] for one in decided])
    scored = [slug for slug in order if slug in logs]
    sums = np.empty((labels.n_tasks, len(scored)))
    for place, slug in enumerate(scored):
        sums[:, place] = np.bincount(labels.task, logs[slug], minlength=labels.n_tasks)
    ranks = rank_intervals(sums[sizes > 0], sizes[sizes > 0])
    against_truth = _score_truth({slug: found[slug] for slug in scored}, truth)
    standings = []
    for place, slug in enumerate(scored):
        entry, gap = found[slug], logs[best] - logs[slug]
        standings.append(
            MethodStanding(
                slug,
                held_out=float(logs[slug].mean()),
                standard_error=standard_error_over_tasks(labels.task, logs[slug]),
                behind=float(gap.mean()),
                behind_error=standard_error_over_tasks(labels.task, gap),
                rank_low=int(ranks.low[place]),
                rank_high=int(ranks.high[place]),
                calibration=mean_gap(bin_predictions(entry.top, entry.hit)),
                agreement=float(agreement[0, place]),
                seconds=entry.seconds,
                **against_truth[slug],
            )
        )
    standings += [MethodStanding(slug, note=found[slug].note) for slug in order if slug not in logs]
    n_truth = 0 if truth is None else int((truth >= 0).sum())
    return Comparison(tuple(standings), agreement, n_truth, labels.kind, check_independence(labels))


def _score_truth(found: dict[str, _MethodFits], truth: IntArray | None) -> dict[str, dict[str, Any]]:
    """Accuracy of each method, with intervals of it and of its rank; nothing without a truth."""
    if truth is None:
        return {slug: {} for slug in found}
    known = truth >= 0
    right = np.stack([entry.decided[known] == truth[known] for entry in found.values()], axis=1)
    ranks = rank_intervals(right.astype(np.float64), np.ones(len(right)))
    low, high = wilson_interval(right.mean(axis=0), len(right), LEVEL)
    scores = {}
    for place, (slug, entry) in enumerate(found.items()):
        scores[slug] = {
            "accuracy": metrics.accuracy(truth, entry.decided),
            "accuracy_low": float(low[place]),
            "accuracy_high": float(high[place]),
            "truth_rank_low": int(ranks.low[place]),
            "truth_rank_high": int(ranks.high[place]),
            "calibration_error": metrics.expected_calibration_error(truth, entry.posterior),
        }
    return scores
