"""What a model that was fitted with gold says about its own confidence: the calibration table and prediction sets."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from crowdwise.evaluate.prediction_sets import conformal_threshold, min_gold_answers, sets_from_posterior
from crowdwise.fitting.em import StillImproving
from crowdwise.fitting.estimator_parameters import clone
from crowdwise.fitting.parameter_checks import check_inner_share
from crowdwise.fitting.prior_knowledge import GOLD
from crowdwise.labels.errors import InputError
from crowdwise.labels.table_output import native_table
from crowdwise.metrics.calibration import Reliability, bin_predictions, wilson_interval

if TYPE_CHECKING:
    from crowdwise.fitting.base import Aggregator
    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["CrossFit", "calibration_table", "cross_fit_gold", "gold_reliability", "prediction_set_table"]

FOLDS = 5  # parts of the gold whose truths are kept from the model in turn


class CrossFit(NamedTuple):
    """Gold tasks (n,), their true classes (n,), and what the model says of them without their own truth (n, K)."""

    tasks: IntArray
    truth: IntArray
    posterior: FloatArray


def calibration_table(model: Aggregator, n_bins: int, level: float) -> Any:
    """`Aggregator.calibration`."""
    level = check_inner_share("level", level)
    table = gold_reliability(model, n_bins)
    filled = table.n_tasks > 0
    low, high = wilson_interval(table.accuracy[filled], table.n_tasks[filled], level)
    columns = {
        "bin_low": table.low[filled],
        "bin_high": table.high[filled],
        "confidence": table.confidence[filled],
        "share_right": table.accuracy[filled],
        "low": low,
        "high": high,
        "n": table.n_tasks[filled],
    }
    return native_table(columns, model.kind_)


def gold_reliability(model: Aggregator, n_bins: int) -> Reliability:
    """Confidence against accuracy on the gold tasks, cross-fitted."""
    found = cross_fit_gold(model)
    decided = model._decide(found.posterior)
    sure = np.minimum(found.posterior[np.arange(decided.size), decided], 1.0)
    return bin_predictions(sure, decided == found.truth, n_bins)


def prediction_set_table(model: Aggregator, coverage: float, labels: CrowdLabels | None) -> Any:
    """`Aggregator.predict_sets`."""
    coverage = check_inner_share("coverage", coverage)
    found = cross_fit_gold(
        model, f" At least {min_gold_answers(coverage)} answers are needed for coverage {coverage:g}."
    )
    threshold = conformal_threshold(found.posterior, found.truth, coverage)
    posterior = model.predict_proba(labels)
    chosen = sets_from_posterior(posterior, threshold)
    if labels is None:
        chosen[found.tasks] = np.arange(posterior.shape[1]) == found.truth[:, None]
    sizes = chosen.sum(axis=1)
    order = np.argsort(-np.where(chosen, posterior, -1.0), axis=1, kind="stable")
    members = order[np.arange(order.shape[1]) < sizes[:, None]]
    names = model._names.classes.take(pa.array(members))
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    columns = {
        "task": model._names.tasks if labels is None else labels.tasks,
        "labels": pa.ListArray.from_arrays(offsets, names),
        "size": sizes,
    }
    return native_table(columns, model.kind_)


def cross_fit_gold(model: Aggregator, hint: str = "") -> CrossFit:
    """What the model says of its gold tasks when their truths are kept from it.

    A model that calibrates from gold has it at hand. Any other is fitted once more for each of `FOLDS` parts of the
    gold, without the truths of that part; the result is kept, and saved with the model.
    """
    if "gold_cross_fitted" not in model.extra_:
        told = getattr(model, "_told", None)
        if told is None and GOLD not in model.uses:
            raise InputError(
                f"This needs gold, for which {model.slug} has no use. Fit a method that has, such as dawid-skene."
            )
        if told is None:
            raise InputError(
                "This needs gold: fit with gold=, the known truth of some tasks drawn at random (a model that was "
                f"saved before it was asked for this must be fitted again).{hint}"
            )
        model.extra_ = {**model.extra_, **_cross_fit(model, *told)}
    return CrossFit(*(model.extra_[f"gold_{name}"] for name in ("tasks", "truth", "cross_fitted")))


def _cross_fit(model: Aggregator, labels: CrowdLabels, known: PriorKnowledge) -> dict[str, Any]:
    tasks = np.flatnonzero(known.gold >= 0)
    if tasks.size < 2:
        raise InputError("One gold answer is too few to be kept from the model and to fit it. Give more.")
    part = np.random.default_rng(0).permutation(tasks.size) % min(FOLDS, tasks.size)
    posterior = np.empty((tasks.size, labels.n_classes))
    for number in range(part.max() + 1):
        hidden = tasks[part == number]
        gold = known.gold.copy()
        gold[hidden] = -1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StillImproving)
            posterior[part == number] = clone(model)._fit(labels, replace(known, gold=gold)).posterior[hidden]
    return {"gold_tasks": tasks, "gold_truth": known.gold[tasks].astype(np.int64), "gold_cross_fitted": posterior}
