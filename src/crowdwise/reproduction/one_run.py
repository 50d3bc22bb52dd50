"""One run of a table: the problem, the fit, and the numbers that are read off it."""

from __future__ import annotations

import inspect
import platform
import time
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crowdwise.fitting.variational import predict_new
from crowdwise.labels.errors import InputError
from crowdwise.registry import learner, method
from crowdwise.reproduction.measures import FORECASTS, FittedModel, compute_measure
from crowdwise.reproduction.one_worker import OneWorker
from crowdwise.reproduction.problems import make_problem
from crowdwise.reproduction.worker_removal import workers_to_remove

if TYPE_CHECKING:
    from crowdwise.reproduction.problems import Problem
    from crowdwise.reproduction.table_spec import Job

__all__ = ["run_job"]

ORACLE = "oracle"  # Ibrahim et al. 2025's classifier that knows the workers' matrices and the shares of the classes
WORKER = "worker"  # one of the workers, in a model's place


@dataclass(frozen=True, eq=False)
class BayesOracle:
    """Bayes' rule with what the labels of a simulated crowd were drawn from."""

    problem: Problem

    def consensus(self) -> dict[str, Any]:
        """The most probable class of each task."""
        crowd, labels = self.problem.crowd, self.problem.labels
        if crowd is None:
            raise InputError("The true matrices are not known: the crowd is not simulated.")
        tables = np.log(np.maximum(crowd.confusion, np.finfo(np.float64).tiny))
        posterior = predict_new(labels, np.log(crowd.prior), tables)
        return {"label": labels.classes.take(pa.array(posterior.argmax(axis=1)))}


def run_job(job: Job, device: str = "auto") -> dict[str, Any]:
    """A row of the results: the cell, its numbers, how long it took and where."""
    asked = job["run"]
    label_test = bool(FORECASTS & set(asked["measures"]))
    problem = make_problem(asked["data"], asked["crowd"], asked["seed"], label_test=label_test)
    started = time.perf_counter()
    removed = None
    if "remove" in asked:
        removed = workers_to_remove(asked["remove"], problem, asked["seed"])
        problem = replace(problem, labels=problem.labels.keep(~removed[problem.labels.worker]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = _fit_model(problem, asked, device)
    seconds = time.perf_counter() - started
    fitted = FittedModel(problem, model, removed)
    row = {
        **job["cell"],
        "digest": job["digest"],
        "measures": {name: round(compute_measure(name, fitted), 6) for name in asked["measures"]},
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
        if hasattr(model, "refined_confusion_"):
            row["refined_confusion"] = np.round(model.refined_confusion_, 3).tolist()
    return row


def _fit_model(problem: Problem, asked: Job, device: str) -> Any:
    model = dict(asked["model"])
    kind, slug = model.pop("kind"), model.pop("slug")
    parameters = {name: _make_parameter(value) for name, value in model.items()}
    if kind == "aggregator":
        if slug == ORACLE:
            return BayesOracle(problem)
        if slug == WORKER:
            return OneWorker(**parameters)
        made = method(slug).load()
        seeded = {"random_state": asked["seed"]} if "random_state" in inspect.signature(made).parameters else {}
        return made(**seeded | parameters).fit(problem.labels, **_make_knowledge(asked.get("fit", {}), problem))
    entry = learner(slug)
    if entry.needs == "confusion":
        parameters["confusion"] = problem.confusion
    training = asked["training"] | {"random_state": asked["seed"], "device": device}
    tasks = problem.labels.tasks.to_pylist()  # rows and tasks are in one order, whatever the tasks are called
    return entry.make(**training | parameters).fit(
        problem.x, problem.labels, tasks=tasks, valid=_validation_set(problem)
    )


def _make_knowledge(told: dict[str, Any], problem: Problem) -> dict[str, Any]:
    """What an aggregator is told besides the labels; a class prior that is "equal" is that of as many classes."""
    equal = told.get("class_prior") == "equal"
    size = problem.labels.n_classes
    return told | ({"class_prior": np.full(size, 1 / size)} if equal else {})


def _validation_set(problem: Problem) -> Any:
    """The validation set, its classes by name, as `fit` wants them."""
    if problem.valid is None:
        return None
    x, truth = problem.valid
    names = problem.labels.classes.to_numpy(zero_copy_only=False)[truth]
    return (x, names) if problem.valid_labels is None else (x, names, problem.valid_labels)


def _make_parameter(value: Any) -> Any:
    """A parameter; a table with a slug stands for an aggregator, and a list for a tuple."""
    if isinstance(value, dict) and "slug" in value:
        return method(value["slug"]).load()(
            **{name: _make_parameter(each) for name, each in value.items() if name != "slug"}
        )
    return tuple(value) if isinstance(value, list) else value
