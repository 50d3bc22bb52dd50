"""What can be said of runs before the first of them: whether their models, measures and data are there."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from crowdwise.labels.errors import InputError, quote
from crowdwise.registry import learner, method, methods
from crowdwise.reproduction.measures import MEASURES
from crowdwise.reproduction.problems import make_problem

if TYPE_CHECKING:
    from crowdwise.reproduction.table_spec import Job

__all__ = ["check_jobs"]


def check_jobs(jobs: list[Job]) -> None:
    """Refuse runs of which none can succeed, rather than let each of them fail by itself."""
    seen: set[Any] = set()
    for job in jobs:
        asked = job["run"]
        for name in asked["measures"]:
            if name not in MEASURES:
                raise InputError(f"There is no measure {quote(name)}; there are {', '.join(MEASURES)}.")
        model = (asked["model"]["slug"], *sorted(asked["model"]), *sorted(asked["training"]))
        if model not in seen:
            _check_model(asked)
        source = (asked["data"].get("name"), asked["crowd"].get("name"))
        if source not in seen:
            make_problem(asked["data"], asked["crowd"], asked["seed"])
        seen |= {model, source}


def _check_model(asked: dict[str, Any]) -> None:
    """Refuse a parameter that the class has not, and learners where there is no torch."""
    model = asked["model"]
    given = [name for name in model if name not in ("kind", "slug")]
    if model["kind"] == "learner":
        made = learner(model["slug"]).load()
        given += asked["training"]
    elif model["slug"] in {entry.slug for entry in methods()}:
        made = method(model["slug"]).load()
    else:
        return  # what is no method of the registry is known to the run alone
    known = list(inspect.signature(made).parameters)
    strange = [name for name in given if name not in known]
    if strange:
        raise InputError(f"{model['slug']} has no parameter {quote(strange[0])}; it has {', '.join(known)}.")
