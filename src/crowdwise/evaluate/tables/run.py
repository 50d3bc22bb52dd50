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

from crowdwise.evaluate.tables.measures import Fitted, measured
from crowdwise.evaluate.tables.problems import problem_of
from crowdwise.evaluate.tables.removal import removed_workers
from crowdwise.fitting.variational import predict_new
from crowdwise.labels.errors import InputError
from crowdwise.learner_registry import learner
from crowdwise.registry import method

if TYPE_CHECKING:
    from crowdwise.evaluate.tables.problems import Problem
    from crowdwise.evaluate.tables.spec import Job

__all__ = ["run"]

ORACLE = "oracle"  # Ibrahim et al.'s (2025) classifier that knows the workers' matrices and the shares of the classes


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
        posterior = predict_new(labels, np.log(crowd.prior), np.ascontiguousarray(tables))
        return {"label": labels.classes.take(pa.array(posterior.argmax(axis=1)))}


def run(job: Job, device: str = "auto") -> dict[str, Any]:
    """A row of the results: the cell, its numbers, how long it took and where."""
    asked = job["run"]
    problem = problem_of(asked["data"], asked["crowd"], asked["seed"], heard="forecast" in asked["measures"])
    started = time.perf_counter()
    removed = None
    if "remove" in asked:
        removed = removed_workers(asked["remove"], problem, asked["seed"])
        problem = replace(problem, labels=problem.labels.keep(~removed[problem.labels.worker]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = _fitted(problem, asked, device)
    seconds = time.perf_counter() - started
    fitted = Fitted(problem, model, removed)
    row = {
        **job["cell"],
        "digest": job["digest"],
        "measures": {name: round(measured(name, fitted), 6) for name in asked["measures"]},
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
