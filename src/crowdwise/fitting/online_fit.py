"""`partial_fit` of the methods whose labels can be counted as they come: an online model behind the fitted names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.fitting.crowd_model import Fit
from crowdwise.fitting.online_model import OnlineModel
from crowdwise.labels.errors import InputError
from crowdwise.labels.read import read_labels
from crowdwise.labels.truth import read_truth

if TYPE_CHECKING:
    from crowdwise.fitting.base import Aggregator

__all__ = ["continue_fit"]

FEWEST_CLASSES = 2


def continue_fit(method: Aggregator, labels: Any, gold: Any) -> None:
    """Take labels into the method's stream, which begins with them if there is none, and set the fitted names."""
    given = read_labels(labels)
    truth = None if gold is None else read_truth(gold)
    stream = method._stream
    if stream is None:
        if method._is_loaded:
            raise InputError(
                f"This {type(method).__name__} was loaded, and a saved method holds no labels to go on from. Fit a new "
                "one, or keep the stream in a crowdwise.acquire.OnlineModel, which goes on after load."
            )
        settings = method._online_settings()
        if settings is None:
            raise InputError(
                f"{method.slug} cannot take labels one after the other, with these parameters at least. dawid-skene, "
                "one-coin, confusion-vector and mean-field can."
            )
        stream = OnlineModel(given.classes.to_pylist(), family=method.slug, **settings)
    more = [] if truth is None else truth.labels.unique().to_pylist()
    if len(stream.classes.foresee([*given.classes.to_pylist(), *more])[1]) < FEWEST_CLASSES:
        raise InputError("Labels need at least two classes to choose from. Declare them with classes= in read_labels.")
    method._stream = stream.partial_fit(given, truth)
    extra = {}
    if stream.family == "mean-field":
        extra = {"confusion_counts": stream.dirichlet_counts, "class_counts": stream.class_counts + stream.shares}
    fit = Fit(
        posterior=stream.posteriors,
        prior=stream.prior,
        confusion=stream.confusions,
        skill=stream.skills,
        skill_beta=stream.skill_counts,
        converged=False,
        extra={name: np.ascontiguousarray(values) for name, values in extra.items()},
    )
    method._remember(stream.to_labels().with_kind(given.kind), fit)
