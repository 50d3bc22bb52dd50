"""One run of a table: the problem, the fit, and the numbers that are read off it."""

from __future__ import annotations

import inspect
import platform
import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crowdwise.evaluate.tables.problems import problem_of
from crowdwise.fitting.variational import predicted
from crowdwise.labels.errors import InputError, quoted
from crowdwise.labels.vocabulary import positions
from crowdwise.learner_registry import learner
from crowdwise.metrics.with_truth import accuracy, confusion_error
from crowdwise.metrics.without_truth import agreement_ratio
from crowdwise.registry import method

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.evaluate.tables.problems import Problem
    from crowdwise.evaluate.tables.spec import Job

__all__ = ["MEASURES", "Fitted", "run"]


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
    """Of what the model says of the tasks that the crowd has labelled; ties go where the method has them go."""
    said = pa.array(np.asarray(fitted.model.consensus()["label"]))
    return accuracy(fitted.problem.truth, positions(said, fitted.problem.labels.classes))


def _first_of_ties(fitted: Fitted) -> float:
    """The same, ties going to the class that comes first, as where a paper's code takes the first maximum."""
    return accuracy(fitted.problem.truth, fitted.model.posterior_.argmax(axis=1))


def _agreement_ratio(fitted: Fitted) -> float:
    """003, equation 10: with the raters, on test tasks."""
    x, _ = _tested(fitted)
    if fitted.problem.test_labels is None:
        raise InputError("The raters have said nothing of the test tasks.")
    return agreement_ratio(fitted.model.predict_proba(x).argmax(axis=1), fitted.problem.test_labels)


def _confusion_error(fitted: Fitted) -> float:
    """000, section 3.2: of the workers' matrices."""
    if fitted.problem.confusion is None:
        raise InputError("The true matrices are not known: the crowd is not simulated.")
    return confusion_error(fitted.problem.confusion, fitted.model.confusion_)


MEASURES: dict[str, Callable[[Fitted], float]] = {
    "accuracy": _accuracy,
    "forecast": _forecast,
    "consensus": _consensus,
    "first_of_ties": _first_of_ties,
    "confusion_error": _confusion_error,
    "agreement_ratio": _agreement_ratio,
}
ORACLE = "oracle"  # 002's classifier that knows the workers' matrices and the shares of the classes


@dataclass(frozen=True, eq=False)
class Oracle:
    """Bayes' rule with what the labels of a simulated crowd were drawn from."""

    problem: Problem

    def consensus(self) -> dict[str, Any]:
        """The most probable class of each task."""
        crowd, labels = self.problem.crowd, self.problem.labels
        if crowd is None:
            raise InputError("The true matrices are not known: the crowd is not simulated.")
        tables = np.log(np.maximum(crowd.confusion, np.finfo(np.float64).tiny)).transpose(0, 2, 1)
        posterior = predicted(labels, np.log(crowd.prior), np.ascontiguousarray(tables))
        return {"label": labels.classes.take(pa.array(posterior.argmax(axis=1)))}


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
        if slug == ORACLE:
            return Oracle(problem)
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
