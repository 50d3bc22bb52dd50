"""Learners keep scikit-learn's habits: clones, pipelines, and searches over parameters with crowd labels as y."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.learn.crowds import crowded

import crowdwise as cw
from crowdwise.labels import CrowdLabels, InputError

if TYPE_CHECKING:
    from crowdwise.registry import LearnerEntry

EVERY = pytest.mark.parametrize("entry", cw.learners(), ids=lambda entry: entry.slug)
PLAN: dict[str, Any] = {"network": "linear", "epochs": 8, "learning_rate": 0.05, "batch_size": 16, "device": "cpu"}
pytestmark = pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")


@EVERY
def test_parameters_and_clones(entry: LearnerEntry) -> None:
    model = entry.make()
    parameters = model.get_params(deep=False)
    assert model.set_params(**parameters) is model
    copy = clone(model)
    assert type(copy) is type(model)
    assert copy.get_params(deep=False).keys() == parameters.keys()
    assert repr(model).startswith(f"{type(model).__name__}(")
    with pytest.raises(ValueError, match="has no parameter 'no_such'"):
        model.set_params(no_such=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'no_such'"):
        entry.make(no_such=1)


def test_a_scaler_before_a_learner() -> None:
    data = crowded(60, skill=0.9)
    far = data.X * [1, 100, 1e-3, 1, 10] + 50
    model = Pipeline([("scale", StandardScaler()), ("learn", cw.TraceRegularized(**PLAN))])
    fitted = clone(model).set_params(learn__epochs=20).fit(far, data.labels)
    assert fitted["learn"].epochs == 20
    assert fitted.score(far, data.truth) > 0.9
    np.testing.assert_array_equal(fitted.classes_, [0, 1, 2])
    np.testing.assert_allclose(fitted.predict_proba(far).sum(axis=1), 1)


def test_a_search_without_a_truth_finds_the_rate_that_learns() -> None:
    data = crowded(90, skill=0.8)
    rows = data.labels.as_rows(range(90))
    model = make_pipeline(StandardScaler(), cw.CrowdLayer(**PLAN))
    grid = {"crowdlayer__learning_rate": [1e-5, 0.05]}
    search = GridSearchCV(model, grid, cv=KFold(3, shuffle=True, random_state=0), error_score="raise").fit(data.X, rows)
    assert search.best_params_ == {"crowdlayer__learning_rate": 0.05}
    assert search.best_estimator_.score(data.X, data.truth) > 0.9
    assert search.best_score_ == pytest.approx(search.cv_results_["mean_test_score"].max())
    assert search.best_score_ > np.log(1 / 3)


def test_scores_of_folds_are_those_of_the_folds_fitted_by_hand() -> None:
    data = crowded(60, skill=0.8)
    # Tasks with names of their own, whose order is not that of the rows, and a row that nobody labelled.
    order = np.random.default_rng(0).permutation(60)
    names = [f"t{row}" for row in range(61)]
    labels = CrowdLabels.from_codes(
        np.argsort(order)[data.labels.task],
        data.labels.worker,
        data.labels.label,
        tasks=[names[row] for row in order],
        workers=4,
        classes=3,
    )
    X = np.vstack([data.X, data.X[:1]])
    cuts = KFold(3)
    found = cross_val_score(cw.TwoStage(**PLAN), X, labels.as_rows(names), cv=cuts, error_score="raise")
    for score, (train, test) in zip(found, cuts.split(X), strict=True):
        kept, out = (labels.select(tasks=[names[row] for row in part if row < 60]) for part in (train, test))
        model = cw.TwoStage(**PLAN).fit(X[train], kept, tasks=[names[row] for row in train])
        chance = model.predict_proba(X[test])
        row = {names[at]: place for place, at in enumerate(test)}
        by_hand = [
            np.log(chance[row[out.tasks[int(t)].as_py()]] @ model.confusion_[w, :, k])
            for t, w, k in zip(out.task, out.worker, out.label, strict=True)
        ]
        assert score == pytest.approx(np.mean(by_hand), abs=1e-6)


def test_labels_that_do_not_suit_the_rows() -> None:
    data = crowded(30)
    with pytest.raises(InputError, match="30 rows of labels for 20 rows of features"):
        cw.TwoStage(**PLAN).fit(data.X[:20], data.labels.as_rows(range(30)))
    model = cw.TwoStage(**PLAN).fit(data.X, data.labels)
    with pytest.raises(InputError, match="There are no labels to score the predictions by"):
        model.score(data.X, data.labels.keep(np.zeros(data.labels.n_labels, np.bool_)))


@EVERY
def test_score_takes_a_truth_or_labels(entry: LearnerEntry) -> None:
    data = crowded(24, skill=0.9)
    more: dict[str, Any] = {"epochs": 2}
    if entry.needs == "confusion":
        more["confusion"] = np.clip(data.confusion, 0.05, 0.9)
    if entry.needs == "sequences":
        more["sequences"] = {row: (row // 4, row % 4) for row in range(24)}
    model = entry.make(**PLAN | more).fit(data.X, data.labels)
    assert model.score(data.X, data.truth) == (model.predict_proba(data.X).argmax(axis=1) == data.truth).mean()
    by_labels = model.score(data.X, data.labels)
    assert by_labels < 0
    assert by_labels == pytest.approx(model.score(data.X, data.labels.as_rows(range(24))))
