"""What every method of every kind keeps: the contract of `KindModel`, and what its docstring promises."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone

import crowdwise as cw
from crowdwise.kinds import kinds
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.kinds.kind_registry import Kind, KindMethod

EVERY_KIND = pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)
EVERY = pytest.mark.parametrize(
    ("kind", "method"),
    [pytest.param(kind, method, id=f"{kind.name}-{method.slug}") for kind in kinds() for method in kind.methods()],
)
_CROWDS: dict[str, Any] = {}
_FITS: dict[tuple[str, str], Any] = {}


def crowd(kind: Kind) -> Any:
    """A small simulated crowd of the kind, once for all tests."""
    if kind.name not in _CROWDS:
        _CROWDS[kind.name] = kind.simulate(random_state=5)
    return _CROWDS[kind.name]


def fitted(kind: Kind, method: KindMethod) -> Any:
    """The method fitted to that crowd, once for all tests."""
    key = kind.name, method.slug
    if key not in _FITS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cw.NotConverged)
            _FITS[key] = method.load()().fit(crowd(kind).answers)
    return _FITS[key]


@EVERY_KIND
def test_a_kind_is_known_by_its_columns_and_read_back(kind: Kind) -> None:
    answers = crowd(kind).answers
    table = answers.to_table()
    assert kind.recognises(table.column_names)
    again = kind.read(table)
    assert repr(again) == repr(answers)
    assert again.to_table().equals(table)
    assert kind.method().slug == kind.default == kind.methods()[0].slug
    with pytest.raises(InputError, match="There is no method"):
        kind.method("no such method")


@EVERY
def test_facts_are_said(kind: Kind, method: KindMethod) -> None:
    cls = method.load()
    assert cls.kind == kind.name
    assert all((method.summary, method.fails, method.complexity, method.paper))
    assert clone(cls()).get_params() == cls().get_params()


@EVERY
def test_tables_scores_and_iterations(kind: Kind, method: KindMethod) -> None:
    model = fitted(kind, method)
    consensus, workers = model.consensus(), model.workers()
    assert isinstance(consensus, pa.Table)
    assert isinstance(workers, pa.Table)
    assert workers["worker"].to_pylist() == model.workers_.tolist()
    for table in (consensus, workers):
        for column in table.columns:
            if pa.types.is_floating(column.type):
                assert np.isfinite(column.to_numpy()).all()
    assert np.isfinite(list(kind.score(model, crowd(kind).truth).values())).all()
    if method.load().climbs:
        assert (np.diff(model.objective_) >= -1e-9 * (1 + np.abs(model.objective_[1:]))).all()


@EVERY
def test_rows_may_come_in_any_order(kind: Kind, method: KindMethod) -> None:
    answers = crowd(kind).answers
    table = answers.to_table()
    order = np.random.default_rng(0).permutation(table.num_rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cw.NotConverged)
        other = method.load()().fit(kind.read(table.take(pa.array(order))))
    first, second = (each.consensus().sort_by("task" if "task" in each.consensus().column_names else "item")
                     for each in (fitted(kind, method), other))  # fmt: skip
    for one, two in zip(first.columns, second.columns, strict=True):
        if pa.types.is_floating(one.type):
            np.testing.assert_allclose(two.to_numpy(), one.to_numpy(), atol=1e-6, rtol=1e-6)
        else:
            assert one.to_pylist() == two.to_pylist()


@EVERY
def test_saved_and_loaded(kind: Kind, method: KindMethod, tmp_path: Path) -> None:
    model = fitted(kind, method)
    model.save(tmp_path / "model")
    again = cw.load(tmp_path / "model")
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    assert again.consensus().equals(model.consensus())
    assert again.workers().equals(model.workers())
    answers = crowd(kind).answers
    assert again.predict(answers).equals(model.predict(answers))


@EVERY
def test_not_fitted_and_nothing_to_fit(kind: Kind, method: KindMethod) -> None:
    answers = crowd(kind).answers
    with pytest.raises(InputError, match="not fitted"):
        method.load()().consensus()
    with pytest.raises(InputError, match="no answers"):
        method.load()().fit(answers.keep(np.zeros(answers.n_answers, bool)))
