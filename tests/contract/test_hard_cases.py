"""Labels and knowledge at the edges: whatever comes in, probabilities come out, or one clear error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.fitting import base
from crowdwise.labels import CrowdLabels, InputError

if TYPE_CHECKING:
    from crowdwise.registry import Method

pytestmark = pytest.mark.usefixtures("few_sweeps")
EVERY = pytest.mark.parametrize("method", cw.methods(), ids=lambda method: method.slug)


def those_that_use(*told: str) -> pytest.MarkDecorator:
    """Parametrised over the methods that can be told all of these."""
    able = [method for method in cw.methods() if set(told) <= set(method.uses)]
    return pytest.mark.parametrize("method", able, ids=lambda method: method.slug)


def answers(task: Any, worker: Any, label: Any, shape: tuple[int, int, int]) -> CrowdLabels:
    tasks, workers, classes = shape
    return CrowdLabels.from_codes(
        task, worker, label, tasks=tasks, workers=workers, classes=classes, on_duplicate="all"
    )


def scattered(seed: int) -> CrowdLabels:
    """A few answers of a few workers, with repeats, silent workers and classes, and tasks without labels."""
    generator = np.random.default_rng(seed)
    shape = (6, 4, 4)
    task, worker, label = (generator.integers(0, size, 9) for size in shape)
    return answers(task, worker, label, shape)


def all_right(n_tasks: int, n_classes: int) -> CrowdLabels:
    task, worker = np.repeat(np.arange(n_tasks), 3), np.tile(np.arange(3), n_tasks)
    return answers(task, worker, task % n_classes, (n_tasks, 3, n_classes))


HARD = {
    "scattered": scattered(0),
    "scattered otherwise": scattered(1),
    "one answer": answers([0], [0], [0], (1, 1, 2)),
    "one answer among the silent": answers([1], [1], [1], (3, 3, 3)),
    "one worker who cannot decide": answers([0] * 9, [0] * 9, [0, 1, 2] * 3, (1, 1, 3)),
    "always the same": answers(np.repeat(np.arange(5), 3), [0, 1, 2] * 5, [1] * 15, (5, 3, 3)),
    "each her own class": answers(np.repeat(np.arange(5), 3), [0, 1, 2] * 5, [0, 1, 2] * 5, (5, 3, 3)),
    "everyone met once": answers(np.arange(6), np.arange(6), [0, 1, 2] * 2, (6, 6, 3)),
    "all right": all_right(12, 6),
}
CASES = pytest.mark.parametrize("labels", HARD.values(), ids=HARD.keys())


def assert_sound(model: Any) -> None:
    """Probabilities are probabilities, and no number in the tables is missing."""
    for shares in (model.posterior_, model.prior_):
        assert (shares >= 0).all()
        np.testing.assert_allclose(shares.sum(axis=-1), 1, atol=1e-12)
    assert ((model.skill_ >= 0) & (model.skill_ <= 1)).all()
    assert (model.skill_beta_ > 0).all()
    assert np.isfinite(model.skill_beta_).all()
    if hasattr(model, "confusion_"):
        assert (model.confusion_ >= 0).all()
        np.testing.assert_allclose(model.confusion_.sum(axis=2), 1, atol=1e-9)
    assert not np.isnan(model.objective_).any()
    for table in (model.workers(), model.consensus()):
        numbers = (column.to_numpy() for column in table.columns if str(column.type) == "double")
        assert all(np.isfinite(column).all() for column in numbers)


@EVERY
@CASES
@pytest.mark.filterwarnings("ignore::crowdwise.NotConverged")
def test_probabilities_come_out(method: Method, labels: CrowdLabels) -> None:
    model = method.load()().fit(labels)
    assert_sound(model)
    again = model.predict_proba(labels)
    np.testing.assert_allclose(again.sum(axis=1), 1, atol=1e-9)
    if not method.plug_in:
        np.testing.assert_allclose(again, model.posterior_, atol=1e-6)


@those_that_use("class_prior")
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.filterwarnings("ignore::crowdwise.NotConverged")
def test_a_class_without_a_share_is_ruled_out(method: Method, seed: int) -> None:
    labels = scattered(seed)
    shares = np.array([0, 1, 1, 1]) / 3
    model = method.load()().fit(labels, class_prior=shares)
    assert_sound(model)
    np.testing.assert_array_equal(model.posterior_[:, 0], 0)
    np.testing.assert_array_equal(model.predict_proba(labels)[:, 0], 0)


@those_that_use("gold")
@pytest.mark.parametrize("truth", [0, 3])
@pytest.mark.filterwarnings("ignore::crowdwise.NotConverged")
def test_gold_may_contradict_every_answer(method: Method, truth: int) -> None:
    """Also where it names a class that nobody does."""
    labels = answers(np.repeat(np.arange(6), 3), [0, 1, 2] * 6, [1, 2, 1, 2, 2, 1] * 3, (6, 3, 4))
    for n_known in (2, 6):
        model = method.load()().fit(labels, gold=dict.fromkeys(range(n_known), truth))
        assert_sound(model)
        np.testing.assert_allclose(model.posterior_[:n_known, truth], 1, atol=1e-12)
        if model.objective_.size:
            assert np.isfinite(model.objective_[-1])


@those_that_use("gold")
@pytest.mark.filterwarnings("ignore::crowdwise.NotConverged")
def test_gold_may_name_a_new_class(method: Method) -> None:
    labels = scattered(0)
    model = method.load()().fit(labels, gold={0: 0, 1: 99})
    assert_sound(model)
    assert model.classes_.tolist() == [*labels.classes.to_pylist(), 99]
    np.testing.assert_allclose(model.posterior_[1, -1], 1, atol=1e-12)


@those_that_use("gold", "class_prior")
def test_gold_that_the_class_prior_rules_out_is_refused(method: Method) -> None:
    with pytest.raises(InputError, match="class_prior gives no share to 0, which gold names"):
        method.load()().fit(scattered(0), gold={0: 0, 1: 1}, class_prior=[0, 0.5, 0.25, 0.25])


@those_that_use("known_workers")
@pytest.mark.parametrize("weight", [1e-90, 1e9])
@pytest.mark.filterwarnings("ignore::crowdwise.NotConverged")
def test_known_workers_of_any_weight(method: Method, weight: float) -> None:
    labels = scattered(0)
    for matrix in (np.eye(4), np.roll(np.eye(4), 1, axis=1)):
        for met in (1, labels.n_workers):
            known = dict.fromkeys(range(met), matrix)
            assert_sound(method.load()().fit(labels, known_workers=known, known_weight=weight))


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf"), 1e10, "much"])
def test_weights_that_no_worker_can_have(weight: Any) -> None:
    with pytest.raises(InputError, match="known_weight is"):
        cw.DawidSkene().fit(scattered(0), known_workers={0: np.eye(4)}, known_weight=weight)


def test_gold_withstands_any_number_of_neighbours() -> None:
    labels = all_right(30, 2)
    gold = {task: int(task > 0) for task in range(30)}
    hub = [(0, task) for task in range(1, 30)]
    model = cw.GraphDawidSkene(graph=hub, coupling=500.0).fit(labels, gold=gold)
    np.testing.assert_array_equal(model.posterior_[:, 1], np.arange(30) > 0)


def test_the_bound_rises_where_a_class_is_unused_and_neighbours_pull_hard() -> None:
    labels = answers([0, 0, 0, 1, 1, 3, 4, 5], [2, 3, 2, 2, 2, 2, 2, 3], [0, 0, 0, 1, 1, 3, 0, 1], (6, 4, 4))
    model = cw.GraphDawidSkene(graph=[(0, task) for task in range(1, 6)], coupling=50.0).fit(labels)
    assert np.diff(model.objective_).min() > -1e-9


@EVERY
@pytest.mark.filterwarnings("ignore::crowdwise.NotConverged")
def test_a_perfect_crowd_is_believed(method: Method) -> None:
    """Classes that take the same part are still two: nobody may average over them."""
    labels = answers(np.repeat(np.arange(8), 3), [0, 1, 2] * 8, np.repeat(np.arange(8), 3) % 2, (8, 3, 2))
    model = method.load()().fit(labels)
    np.testing.assert_array_equal(model.predict(), np.arange(8) % 2)


def test_matrices_beyond_the_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = CrowdLabels.from_dense([[0, 1], [1, 1], [0, 0]])
    monkeypatch.setattr(base, "SHARE_OF_MEMORY", 1e-12)
    with pytest.raises(cw.InputError, match="make matrices of 0 GB, several of which this machine cannot hold"):
        cw.DawidSkene().fit(labels)
