"""The numbers that are read off a run, by name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sklearn.metrics import adjusted_rand_score

from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.vocabulary import positions
from crowdwise.metrics.model_scores_without_truth import agreement_ratio
from crowdwise.metrics.with_truth import accuracy, confusion_error, log_loss
from crowdwise.registry import method
from crowdwise.reproduction.fairness_measures import FAIRNESS_MEASURES
from crowdwise.reproduction.one_worker import OneWorker

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.labels.types import BoolArray, FloatArray, IntArray
    from crowdwise.reproduction.problems import Problem

__all__ = ["FORECASTS", "MEASURES", "FittedModel", "compute_measure"]

SURE = 0.95
FORECASTS = {"forecast", "best_forecast", "last_forecast"}  # measures that ask the crowd about the test tasks


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A model, the problem that it was fitted to, and whether each worker (M,) was removed before, where asked."""

    problem: Problem
    model: Any
    removed: BoolArray | None = None


def _test_set(fitted: FittedModel) -> tuple[Any, Any]:
    if fitted.problem.test is None:
        raise InputError("There are no test tasks with features.")
    return fitted.problem.test


def _classifier_accuracy(fitted: FittedModel) -> float:
    """Of the classifier on test tasks, by the features alone."""
    x, truth = _test_set(fitted)
    return accuracy(truth, fitted.model.predict_proba(x).argmax(axis=1))


def _training_accuracy(fitted: FittedModel) -> float:
    """Of the classifier on the tasks that it has learnt from, by the features alone."""
    return accuracy(fitted.problem.truth, fitted.model.predict_proba(fitted.problem.x).argmax(axis=1))


def _count_labels(fitted: FittedModel) -> float:
    """How many labels there are."""
    return float(fitted.problem.labels.n_labels)


def _share_of_right_labels(fitted: FittedModel) -> float:
    """How many of the labels are right."""
    labels, truth = fitted.problem.labels, fitted.problem.truth
    return accuracy(truth[labels.task], labels.label)


def _forecaster_accuracy(fitted: FittedModel) -> float:
    """Of features and crowd labels together, on test tasks: the data-crowds forecaster of Cao et al. 2019."""
    x, truth = _test_set(fitted)
    return accuracy(truth, fitted.model.predict_proba(x, fitted.problem.test_labels).argmax(axis=1))


def _consensus_accuracy(fitted: FittedModel) -> float:
    """Of what the model says of the tasks that the crowd has labelled; ties go where the method has them go."""
    said = pa.array(np.asarray(fitted.model.consensus()["label"]))
    return accuracy(fitted.problem.truth, positions(said, fitted.problem.labels.classes))


def _consensus_accuracy_first_of_ties(fitted: FittedModel) -> float:
    """The same, ties going to the class that comes first, as where a paper's code takes the first maximum."""
    return accuracy(fitted.problem.truth, fitted.model.posterior_.argmax(axis=1))


def _label_error(fitted: FittedModel) -> float:
    """Share of the crowd's labels that are wrong, of tasks whose truth is known; the same for all methods."""
    labels, truth = fitted.problem.labels, fitted.problem.truth
    known = truth[labels.task] >= 0
    return float((labels.label != truth[labels.task])[known].mean())


def _agreement_ratio(fitted: FittedModel) -> float:
    """With the raters, on test tasks: equation 10 of Wang et al. 2023. Of a rater, with the others."""
    x, _ = _test_set(fitted)
    if fitted.problem.test_labels is None:
        raise InputError("The raters have said nothing of the test tasks.")
    if isinstance(fitted.model, OneWorker):
        return agreement_ratio(*fitted.model.split_labels(fitted.problem.test_labels))
    return agreement_ratio(fitted.model.predict_proba(x).argmax(axis=1), fitted.problem.test_labels)


def _confusion_error(fitted: FittedModel) -> float:
    """Of the method's own matrices (Tanno et al. 2019, section 3.2); not a number where it has none."""
    return _error_of_matrices(fitted, "confusion_")


def _refined_confusion_error(fitted: FittedModel) -> float:
    """The same of the matrices that go with the classifier, where a method has both."""
    return _error_of_matrices(fitted, "refined_confusion_")


def _error_of_matrices(fitted: FittedModel, name: str) -> float:
    if fitted.problem.confusion is None:
        raise InputError("The true matrices are not known: the crowd is not simulated.")
    found = getattr(fitted.model, name, None)
    return math.nan if found is None else confusion_error(fitted.problem.confusion, found)


def _last_epoch_accuracy(fitted: FittedModel) -> float:
    """Accuracy on the validation tasks after the last epoch, whichever was kept."""
    return _validation_accuracies(fitted)[-1]


def _best_epoch_accuracy(fitted: FittedModel) -> float:
    """Accuracy on the validation tasks in the epoch in which it was highest, whichever was kept."""
    return max(_validation_accuracies(fitted))


def _validation_accuracies(fitted: FittedModel) -> list[float]:
    if fitted.problem.valid is None:
        raise InputError("There is no validation set: give the data a share `validation`.")
    return [float(each) for each in fitted.model.history_["accuracy"]]


def _best_epoch_forecast(fitted: FittedModel) -> float:
    """The forecaster's best epoch on the validation tasks, whichever is the classifier's."""
    return float(np.max(_forecasts(fitted)))


def _last_epoch_forecast(fitted: FittedModel) -> float:
    """The forecaster on the validation tasks after the last epoch."""
    return float(_forecasts(fitted)[-1])


def _forecasts(fitted: FittedModel) -> FloatArray:
    if fitted.problem.valid_labels is None:
        raise InputError("The crowd has not labelled a validation set: give the data validation = 'test'.")
    return np.asarray(fitted.model.history_["forecast"])


def _inference_accuracy(fitted: FittedModel) -> float:
    """As Kim et al. 2022: the first of the most probable classes; in two stages, of the labels-only stage."""
    first = getattr(fitted.model, "aggregator", None)
    if first is None:
        return _consensus_accuracy_first_of_ties(fitted)
    model = method(first).load()() if isinstance(first, str) else first
    return accuracy(fitted.problem.truth, model.fit(fitted.problem.labels).posterior_.argmax(axis=1))


def _log_score(fitted: FittedModel) -> float:
    """Mean log-probability that the consensus gives to the truth; 0 is best."""
    return -log_loss(fitted.problem.truth, fitted.model.posterior_)


def _share_of_sure_tasks(fitted: FittedModel) -> float:
    """Share of tasks with a class that the model holds for at least 95 % probable (Kim et al. 2022, figure 4a)."""
    return float((fitted.model.posterior_.max(axis=1) >= SURE).mean())


def _overconfidence(fitted: FittedModel) -> float:
    """By how much the model's mean probability of its own consensus exceeds its accuracy."""
    return float(fitted.model.posterior_.max(axis=1).mean()) - _consensus_accuracy_first_of_ties(fitted)


def _estimated_spammer_accuracy(fitted: FittedModel) -> float:
    """Accuracy that the model believes extreme spammers to have, who guess (Kim et al. 2022, figure 4c)."""
    return float(_accuracy_of_each_spammer(fitted).mean())


def _spammer_distance_from_guessing(fitted: FittedModel) -> float:
    """How far that lies from guessing, on average over the spammers."""
    return float(np.abs(_accuracy_of_each_spammer(fitted) - 1 / fitted.problem.labels.n_classes).mean())


def _accuracy_of_each_spammer(fitted: FittedModel) -> FloatArray:
    crowd = fitted.problem.crowd
    if crowd is None or crowd.kinds is None or "spammer" not in crowd.kinds:
        raise InputError("There are no spammers in this crowd, or nobody knows who they are.")
    matrices = fitted.model.confusion_[np.array(crowd.kinds) == "spammer"]
    found: FloatArray = np.diagonal(matrices, axis1=1, axis2=2).mean(axis=1)
    return found


def _count_removed(fitted: FittedModel) -> float:
    """How many workers were removed."""
    return float(_removed_workers(fitted).sum())


def _removal_sensitivity(fitted: FittedModel) -> float:
    """Share of the adversaries who were removed; 1 where there are none."""
    adverse = _mark_adversaries(fitted)
    return float(_removed_workers(fitted)[adverse].mean()) if adverse.any() else 1.0


def _removal_specificity(fitted: FittedModel) -> float:
    """Share of the honest workers who were kept; 1 where there are none."""
    honest = ~_mark_adversaries(fitted)
    return float((~_removed_workers(fitted)[honest]).mean()) if honest.any() else 1.0


def _detection_f1(fitted: FittedModel) -> float:
    """F1 of who was removed against the adversaries; 1 where there are none and nobody was."""
    found, adverse = _removed_workers(fitted), _mark_adversaries(fitted)
    total = int(found.sum() + adverse.sum())
    return 2 * float((found & adverse).sum()) / total if total else 1.0


def _removed_workers(fitted: FittedModel) -> BoolArray:
    if fitted.removed is None:
        raise InputError("The method removes nobody: give it `remove`, or name the measure's methods.")
    return fitted.removed


def _mark_adversaries(fitted: FittedModel) -> BoolArray:
    kinds = fitted.problem.kinds
    if kinds is None:
        raise InputError("Nobody knows who is honest in this crowd: name the measure's settings.")
    return np.array([kind != "honest" for kind in kinds], np.bool_)


def _grouping_rand_index(fitted: FittedModel) -> float:
    """Adjusted Rand index of the groups that the model has found against the true ones; who is alone is a group."""
    crowd = fitted.problem.crowd
    if crowd is None or crowd.groups is None:
        raise InputError("Nobody knows the groups of this crowd: name the measure's settings.")
    if not hasattr(fitted.model, "group_"):
        raise InputError("The method finds no groups: name the measure's methods.")
    return float(adjusted_rand_score(_separate_ungrouped(crowd.groups), _separate_ungrouped(fitted.model.group_)))


def _separate_ungrouped(groups: IntArray) -> IntArray:
    """Groups (M,) with a number of her own for everyone who is in none."""
    return np.where(groups < 0, groups.max(initial=-1) + 1 + np.arange(groups.size), groups)


MEASURES: dict[str, Callable[[FittedModel], float]] = {
    "accuracy": _classifier_accuracy,
    "training_accuracy": _training_accuracy,
    "labels": _count_labels,
    "right_labels": _share_of_right_labels,
    "forecast": _forecaster_accuracy,
    "best_forecast": _best_epoch_forecast,
    "last_forecast": _last_epoch_forecast,
    "consensus": _consensus_accuracy,
    "label_error": _label_error,
    "first_of_ties": _consensus_accuracy_first_of_ties,
    "inference": _inference_accuracy,
    "log_score": _log_score,
    "sure": _share_of_sure_tasks,
    "overconfidence": _overconfidence,
    "spammer": _estimated_spammer_accuracy,
    "spammer_distance": _spammer_distance_from_guessing,
    "confusion_error": _confusion_error,
    "refined_confusion_error": _refined_confusion_error,
    "last": _last_epoch_accuracy,
    "best": _best_epoch_accuracy,
    "agreement_ratio": _agreement_ratio,
    "removed": _count_removed,
    "sensitivity": _removal_sensitivity,
    "specificity": _removal_specificity,
    "detection": _detection_f1,
    "grouping": _grouping_rand_index,
    **FAIRNESS_MEASURES,
}


def compute_measure(name: str, fitted: FittedModel) -> float:
    """The measure of this name."""
    if name not in MEASURES:
        raise InputError(f"There is no measure {quote(name)}; there are {', '.join(MEASURES)}.")
    return MEASURES[name](fitted)
