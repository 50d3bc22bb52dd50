"""One run of a table: the problem, the fit, and the numbers that are read off it."""

from __future__ import annotations

import inspect
import math
import platform
import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.evaluate.tables.problems import problem_of
from crowdwise.labels.errors import InputError, quoted
from crowdwise.learner_registry import learner
from crowdwise.metrics.with_truth import accuracy, confusion_error, log_loss
from crowdwise.registry import method

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.evaluate.tables.problems import Problem
    from crowdwise.evaluate.tables.spec import Job
    from crowdwise.labels.types import FloatArray

__all__ = ["MEASURES", "Fitted", "run"]

SURE = 0.95


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model and the problem that it was fitted to."""

    problem: Problem
    model: Any


def _tested(fitted: Fitted) -> tuple[Any, Any]:
    if fitted.problem.test is None:
        raise InputError("There are no test tasks with features.")
    return fitted.problem.test


def _accuracy(fitted: Fitted) -> float:
    """Of the classifier on test tasks, by the features alone."""
    x, truth = _tested(fitted)
    return accuracy(truth, fitted.model.predict_proba(x).argmax(axis=1))


def _forecast(fitted: Fitted) -> float:
    """Of features and crowd labels together, on test tasks: 001's data-crowds forecaster."""
    x, truth = _tested(fitted)
    return accuracy(truth, fitted.model.predict_proba(x, fitted.problem.test_labels).argmax(axis=1))


def _consensus(fitted: Fitted) -> float:
    """Of what the model says of the tasks that the crowd has labelled."""
    return accuracy(fitted.problem.truth, fitted.model.posterior_.argmax(axis=1))


def _confusion_error(fitted: Fitted) -> float:
    """000, section 3.2: of the workers' matrices; not a number where the method has none."""
    if fitted.problem.confusion is None:
        raise InputError("The true matrices are not known: the crowd is not simulated.")
    found = getattr(fitted.model, "confusion_", None)
    return math.nan if found is None else confusion_error(fitted.problem.confusion, found)


def _last(fitted: Fitted) -> float:
    """Accuracy on the validation tasks after the last epoch, whichever was chosen."""
    if fitted.problem.valid is None:
        raise InputError("There is no validation set: give the data a share `validation`.")
    return float(fitted.model.history_["accuracy"][-1])


def _inference(fitted: Fitted) -> float:
    """004's: as `_consensus`, and of a learner in two stages that of its first, which knows no features."""
    first = getattr(fitted.model, "aggregator", None)
    if first is None:
        return _consensus(fitted)
    model = method(first).load()() if isinstance(first, str) else first
    return accuracy(fitted.problem.truth, model.fit(fitted.problem.labels).posterior_.argmax(axis=1))


def _log_score(fitted: Fitted) -> float:
    """Mean log-probability that the consensus gives to the truth; 0 is best."""
    return -log_loss(fitted.problem.truth, fitted.model.posterior_)


def _sure(fitted: Fitted) -> float:
    """Share of tasks with a class that the model holds for at least 95 % probable (004, figure 4a)."""
    return float((fitted.model.posterior_.max(axis=1) >= SURE).mean())


def _overconfidence(fitted: Fitted) -> float:
    """By how much the model's mean probability of its own consensus exceeds its accuracy."""
    return float(fitted.model.posterior_.max(axis=1).mean()) - _consensus(fitted)


def _spammer(fitted: Fitted) -> float:
    """Accuracy that the model believes extreme spammers to have, who guess (004, figure 4c)."""
    return float(_spammers(fitted).mean())


def _spammer_distance(fitted: Fitted) -> float:
    """How far that lies from guessing, on average over the spammers."""
    return float(np.abs(_spammers(fitted) - 1 / fitted.problem.labels.n_classes).mean())


def _spammers(fitted: Fitted) -> FloatArray:
    crowd = fitted.problem.crowd
    if crowd is None or crowd.kinds is None or "spammer" not in crowd.kinds:
        raise InputError("There are no spammers in this crowd, or nobody knows who they are.")
    matrices = fitted.model.confusion_[np.array(crowd.kinds) == "spammer"]
    found: FloatArray = np.diagonal(matrices, axis1=1, axis2=2).mean(axis=1)
    return found


MEASURES: dict[str, Callable[[Fitted], float]] = {
    "accuracy": _accuracy,
    "forecast": _forecast,
    "consensus": _consensus,
    "inference": _inference,
    "log_score": _log_score,
    "sure": _sure,
    "overconfidence": _overconfidence,
    "spammer": _spammer,
    "spammer_distance": _spammer_distance,
    "confusion_error": _confusion_error,
    "last": _last,
}


def run(job: Job, device: str = "auto") -> dict[str, Any]:
    """A row of the results: the cell, its numbers, how long it took and where."""
    asked = job["run"]
    problem = problem_of(asked["data"], asked["crowd"], asked["seed"], heard="forecast" in asked["measures"])
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = _fitted(problem, asked, device)
    seconds = time.perf_counter() - started
    fitted = Fitted(problem, model)
    row = {
        **job["cell"],
        "digest": job["digest"],
        "measures": {name: round(_measured(name, fitted), 6) for name in asked["measures"]},
        "seconds": round(seconds, 2),
        "where": getattr(model, "device_", "") or platform.processor() or platform.machine(),
    }
    if any(one.category.__name__ == "NotIdentifiable" for one in caught):
        row["warned"] = True
    if hasattr(model, "best_epoch_"):
        row["epoch"] = int(model.best_epoch_)
    if "history" in asked["keep"]:
        row["history"] = [round(float(value), 4) for value in model.history_["accuracy"]]
    if "confusion" in asked["keep"] and problem.confusion is not None:
        row["confusion"] = np.round(model.confusion_, 3).tolist()
        row["true_confusion"] = np.round(problem.confusion, 3).tolist()
    return row


def _measured(name: str, fitted: Fitted) -> float:
    if name not in MEASURES:
        raise InputError(f"There is no measure {quoted(name)}; there are {', '.join(MEASURES)}.")
    return MEASURES[name](fitted)


def _fitted(problem: Problem, asked: Job, device: str) -> Any:
    model = dict(asked["model"])
    kind, slug = model.pop("kind"), model.pop("slug")
    parameters = {name: _made(value) for name, value in model.items()}
    if kind == "aggregator":
        made = method(slug).load()
        seeded = {"seed": asked["seed"]} if "seed" in inspect.signature(made).parameters else {}
        return made(**seeded | parameters).fit(problem.labels)
    entry = learner(slug)
    if entry.needs == "confusion":
        parameters["confusion"] = problem.confusion
    training = asked["training"] | {"seed": asked["seed"], "device": device}
    tasks = problem.labels.tasks.to_pylist()  # rows and tasks are in one order, whatever the tasks are called
    return entry.make(**training | parameters).fit(problem.x, problem.labels, tasks=tasks, valid=_named(problem))


def _named(problem: Problem) -> Any:
    """The validation set, its classes by name, as `fit` wants them."""
    if problem.valid is None:
        return None
    x, truth = problem.valid
    return x, problem.labels.classes.to_numpy(zero_copy_only=False)[truth]


def _made(value: Any) -> Any:
    """A parameter; a table with a slug stands for an aggregator, and a list for a tuple."""
    if isinstance(value, dict) and "slug" in value:
        return method(value["slug"]).load()(**{name: _made(each) for name, each in value.items() if name != "slug"})
    return tuple(value) if isinstance(value, list) else value
