"""Aggregators keep scikit-learn's habits: parameters, clones, pipelines, its own errors and warnings."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import Pipeline

import crowdwise as cw
from crowdwise.labels import CrowdLabels

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.registry import Method

EVERY = pytest.mark.parametrize("method", cw.methods(), ids=lambda method: method.slug)


@EVERY
def test_parameters_and_clones(method: Method) -> None:
    model = method.load()()
    parameters = model.get_params()
    assert model.set_params(**parameters) is model
    copy = clone(model)
    assert type(copy) is type(model)
    assert copy is not model
    assert copy.get_params() == parameters
    assert repr(model) == f"{type(model).__name__}()"


@EVERY
def test_a_strange_parameter_is_refused(method: Method) -> None:
    with pytest.raises(ValueError, match=f"{method.class_name} has no parameter 'no_such'"):
        method.load()().set_params(no_such=1)
    with pytest.raises(ValueError, match="engine is 'auto', which has no parameters of its own: 'inner'"):
        method.load()().set_params(engine__inner=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'no_such'"):
        method.load()(no_such=1)


@EVERY
def test_a_pipeline_of_the_method_alone(method: Method, crowd: CrowdLabels) -> None:
    pipeline = Pipeline([("vote", method.load()())])
    nested = pipeline.get_params()
    assert {f"vote__{name}" for name in method.load()().get_params()} <= set(nested)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cw.NotConverged)
        fitted = clone(pipeline).fit(crowd)
    np.testing.assert_array_equal(fitted.predict(crowd).shape, (crowd.n_tasks,))
    assert not hasattr(pipeline["vote"], "posterior_")


def test_a_fit_that_stops_early_says_it_as_scikit_learn_does(crowd: CrowdLabels) -> None:
    assert issubclass(cw.NotConverged, ConvergenceWarning)
    with pytest.warns(ConvergenceWarning, match="stopped after 2 iterations while still improving"):
        cw.DawidSkene(max_iter=2).fit(crowd)


@EVERY
def test_names_are_there_once_fitted(method: Method) -> None:
    model = method.load()()
    for name in ("tasks_", "workers_", "classes_"):
        assert not hasattr(model, name)
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        model.classes_  # noqa: B018


def test_names_are_numpy_arrays_of_strings_or_integers(tmp_path: Path) -> None:
    labels = CrowdLabels.from_arrays(
        task=["a", "a", "b", "b"], worker=[7, 5, 7, 5], label=["cat", "dog", "cat", "cat"], classes=["dog", "cat"]
    )
    model = cw.DawidSkene(smoothing=0.1).fit(labels)
    model.save(tmp_path / "model")
    for each in (model, cw.load(tmp_path / "model")):
        assert each.tasks_.dtype == each.classes_.dtype == object
        assert each.workers_.dtype == np.int64
        assert each.tasks_.tolist() == ["a", "b"]
        assert each.classes_.tolist() == ["dog", "cat"]
        assert each.workers_.tolist() == labels.workers.to_pylist()
        assert all(type(name) is str for name in each.classes_)
        assert each.predict().dtype == object


def test_names_follow_a_second_fit() -> None:
    first = CrowdLabels.from_dense([["x", "y"], ["y", "y"]])
    model = cw.MajorityVote().fit(first)
    assert model.classes_.tolist() == ["x", "y"]
    model.fit(CrowdLabels.from_dense([["p", "q"], ["r", "q"]]))
    assert model.classes_.tolist() == ["p", "q", "r"]


def test_a_class_of_ones_own(tmp_path: Path) -> None:
    """It may pass on what its base takes; saved, it is the method that it derives from."""

    class Own(cw.DawidSkene):
        def __init__(self, extra: int = 3, **parameters: object) -> None:
            super().__init__(**parameters)  # type: ignore[arg-type]
            self.extra = extra

    labels = CrowdLabels.from_dense([["x", "y"], ["y", "y"]])
    model = Own(extra=4, smoothing=0.5)
    assert {"extra": 4, "smoothing": 0.5}.items() <= clone(model).get_params().items()
    model.fit(labels).save(tmp_path / "model")
    loaded = cw.load(tmp_path / "model")
    assert type(loaded) is cw.DawidSkene
    assert loaded.smoothing == 0.5
    np.testing.assert_array_equal(loaded.posterior_, model.posterior_)
