"""Statements that every registered method must keep, on the same fixtures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.base import clone

import crowdwise as cw
from crowdwise.evaluate import auto_members
from crowdwise.labels import CrowdLabels, InputError

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.registry import Method

EVERY = pytest.mark.parametrize("method", cw.methods(), ids=lambda method: method.slug)
CLIMBERS = pytest.mark.parametrize(
    "method", [method for method in cw.methods() if method.climbs], ids=lambda method: method.slug
)


_FITS: dict[str, Any] = {}


def fitted(method: Method, crowd: CrowdLabels) -> Any:
    """The method fitted to the crowd, once for all tests that only look at the result."""
    if method.slug not in _FITS:
        _FITS[method.slug] = method.load()().fit(crowd)
    return _FITS[method.slug]


_AGAIN: dict[str, tuple[Any, dict[str, Any], Any]] = {}


def fitted_again(method: Method, crowd: CrowdLabels) -> tuple[Any, dict[str, Any], Any]:
    """A second fit to the crowd, by `fit_predict`; its parameters before, and its consensus; once for all tests."""
    if method.slug not in _AGAIN:
        model = method.load()()
        _AGAIN[method.slug] = model, model.get_params(), model.fit_predict(crowd)
    return _AGAIN[method.slug]


def brief(method: Method, max_iter: int) -> Any:
    """The method with a few iterations, if it has any."""
    model = method.load()()
    few = {"max_iter": max_iter, "tol": 0.0}
    return model.set_params(**{name: value for name, value in few.items() if name in model.get_params()})


@EVERY
def test_rows_sum_to_one(method: Method, crowd: CrowdLabels) -> None:
    model = fitted(method, crowd)
    assert model.posterior_.shape == (crowd.n_tasks, crowd.n_classes)
    np.testing.assert_allclose(model.posterior_.sum(axis=1), 1, atol=1e-12)
    assert (model.posterior_ >= 0).all()
    np.testing.assert_allclose(model.prior_.sum(), 1, atol=1e-12)
    if hasattr(model, "confusion_"):
        assert model.confusion_.shape == (crowd.n_workers, crowd.n_classes, crowd.n_classes)
        np.testing.assert_allclose(model.confusion_.sum(axis=2), 1, atol=1e-9)


@EVERY
def test_string_and_integer_names_agree(method: Method, crowd: CrowdLabels) -> None:
    text = CrowdLabels.from_codes(
        crowd.task,
        crowd.worker,
        crowd.label,
        tasks=[f"t{n}" for n in range(crowd.n_tasks)],
        workers=[f"w{n}" for n in range(crowd.n_workers)],
        classes=["low", "middle", "high"],
    )
    model = method.load()().fit(text)
    np.testing.assert_array_equal(model.posterior_, fitted(method, crowd).posterior_)
    assert set(model.predict()) <= {"low", "middle", "high"}


@EVERY
def test_engines_agree(method: Method, crowd: CrowdLabels) -> None:
    one, other = (method.load()(engine=engine).fit(crowd) for engine in ("numpy", "numba"))
    np.testing.assert_allclose(one.posterior_, other.posterior_, atol=1e-9)
    for name in ("skill", "skill_low", "skill_high"):
        np.testing.assert_allclose(one.workers()[name].to_numpy(), other.workers()[name].to_numpy(), atol=1e-9)
    with pytest.raises(InputError, match=r"engine is 'abacus'; it must be one of 'auto', .*'numba', 'numpy'"):
        method.load()(engine="abacus").fit(crowd)


@EVERY
def test_same_bits_at_any_number_of_threads(method: Method) -> None:
    # Enough for several blocks; less for the one that fits all others, each of which is tested by itself.
    n_tasks = 4_000 if method.slug == "auto" else 20_000
    labels = cw.simulate.simulate(
        "dawid-skene", n_tasks=n_tasks, n_workers=60, n_classes=3, labels_per_task=4, random_state=1
    ).labels
    fits = []
    for threads in (1, 2, 5):
        with cw.use_threads(threads), cw.use_engine("numba"):
            fits.append(brief(method, 2).fit(labels))
    for other in fits[1:]:
        np.testing.assert_array_equal(fits[0].posterior_, other.posterior_)
        np.testing.assert_array_equal(fits[0].skill_, other.skill_)
        np.testing.assert_array_equal(fits[0].objective_, other.objective_)


@EVERY
def test_same_seed_same_answer(method: Method, crowd: CrowdLabels) -> None:
    one, two = fitted(method, crowd), fitted_again(method, crowd)[0]
    assert one is not two
    np.testing.assert_array_equal(one.posterior_, two.posterior_)


@EVERY
@pytest.mark.parametrize("n_classes", [2, 5])
def test_unanimous_labels_are_returned(method: Method, n_classes: int) -> None:
    task = np.repeat(np.arange(20), 4)
    labels = CrowdLabels.from_codes(
        task, np.tile(np.arange(4), 20), task % n_classes, tasks=20, workers=4, classes=n_classes
    )
    model = method.load()().fit(labels)
    np.testing.assert_array_equal(model.predict(), np.arange(20) % n_classes)
    assert (model.posterior_.max(axis=1) > 0.85).all()
    assert (model.skill_ > 0.8).all()


@EVERY
def test_one_worker(method: Method) -> None:
    labels = CrowdLabels.from_codes(np.arange(6), np.zeros(6, int), np.arange(6) % 2, tasks=6, workers=1, classes=2)
    model = method.load()().fit(labels)
    assert np.isfinite(model.posterior_).all()
    np.testing.assert_array_equal(model.predict(), np.arange(6) % 2)


@EVERY
def test_one_label_per_task(method: Method) -> None:
    generator = np.random.default_rng(0)
    labels = CrowdLabels.from_codes(
        np.arange(60), generator.integers(0, 5, 60), generator.integers(0, 3, 60), tasks=60, workers=5, classes=3
    )
    model = method.load()().fit(labels)
    np.testing.assert_allclose(model.posterior_.sum(axis=1), 1, atol=1e-12)


@EVERY
@pytest.mark.usefixtures("few_sweeps")
def test_a_class_never_used_a_task_and_a_worker_without_labels(method: Method, crowd: CrowdLabels) -> None:
    larger = CrowdLabels.from_codes(
        crowd.task,
        crowd.worker,
        crowd.label,
        tasks=crowd.n_tasks + 1,
        workers=crowd.n_workers + 1,
        classes=crowd.n_classes + 1,
    )
    model = method.load()().fit(larger)
    assert np.isfinite(model.posterior_).all()
    assert (model.posterior_[:-1, -1] < 0.2).all()
    np.testing.assert_allclose(model.posterior_.sum(axis=1), 1, atol=1e-12)
    table = model.workers()
    assert table["n_labels"][crowd.n_workers].as_py() == 0
    assert all(np.isfinite(table[name].to_numpy()).all() for name in ("skill", "skill_low", "skill_high"))


@EVERY
def test_repeated_answers_count(method: Method) -> None:
    repeated = CrowdLabels.from_codes(
        [0, 0, 0, 1, 1], [0, 0, 1, 0, 1], [0, 0, 1, 1, 1], tasks=2, workers=2, classes=2, on_duplicate="all"
    )
    model = method.load()().fit(repeated)
    assert model.labels_per_worker_.tolist() == [3, 2]
    assert model.predict()[1] == 1


@EVERY
def test_no_labels_raise_the_named_error(method: Method) -> None:
    empty = CrowdLabels.from_codes([], [], [], tasks=2, workers=2, classes=2)
    with pytest.raises(InputError, match="no labels to fit"):
        method.load()().fit(empty)


@EVERY
def test_one_class_is_nothing_to_choose_from(method: Method) -> None:
    one = {"task": ["a", "a"], "worker": ["ann", "bob"], "label": ["x", "x"]}
    with pytest.raises(InputError, match="at least two classes to choose from; there is only 'x'"):
        method.load()().fit(one)
    assert cw.read_labels(one).n_classes == 1
    assert method.load()().fit(cw.read_labels(one, classes=["x", "y"])).predict().tolist() == ["x"]


@EVERY
def test_a_single_new_answer_is_enough(method: Method, crowd: CrowdLabels) -> None:
    model = fitted(method, crowd)
    one = {"task": ["new"], "worker": crowd.workers.to_pylist()[:1], "label": [2]}
    assert model.predict_proba(one).shape == (1, 3)
    with pytest.raises(InputError, match="classes that the model has not seen: 7"):
        model.predict(one | {"label": [7]})


@EVERY
def test_not_fitted_is_said(method: Method) -> None:
    for call in ("predict", "predict_proba", "consensus", "workers"):
        with pytest.raises(InputError, match="not fitted yet"):
            getattr(method.load()(), call)()


@CLIMBERS
def test_the_objective_never_falls(method: Method, crowd: CrowdLabels) -> None:
    model = method.load()(tol=0.0, max_iter=60).fit(crowd)
    gains = np.diff(model.objective_)
    assert gains.min() > -1e-8 * abs(model.objective_[-1])
    assert model.objective_.shape == model.log_likelihood_.shape == (model.n_iter_,)
    assert np.isfinite(model.objective_).all()


@CLIMBERS
def test_not_converged_is_said(method: Method, crowd: CrowdLabels) -> None:
    with pytest.warns(cw.NotConverged, match="stopped after 2 iterations while still improving"):
        model = method.load()(max_iter=2, tol=1e-12).fit(crowd)
    assert not model.converged_
    assert fitted(method, crowd).converged_


@EVERY
def test_fit_predict_is_fit_and_predict(method: Method, crowd: CrowdLabels) -> None:
    np.testing.assert_array_equal(fitted_again(method, crowd)[2], fitted(method, crowd).predict())


@EVERY
def test_new_tasks_and_unknown_workers(method: Method, crowd: CrowdLabels) -> None:
    model = fitted(method, crowd)
    known = crowd.workers.to_pylist()
    new = {"task": ["n1", "n1", "n2"], "worker": [known[0], "a stranger", known[1]], "label": [0, 0, 2]}
    posterior = model.predict_proba(cw.read_labels(new, classes=[0, 1, 2]))
    assert posterior.shape == (2, 3)
    np.testing.assert_allclose(posterior.sum(axis=1), 1, atol=1e-12)
    assert posterior[0].argmax() == 0
    with pytest.raises(InputError, match="classes that the model has not seen: 7"):
        model.predict(cw.read_labels({"task": [1, 1], "worker": [known[0], known[1]], "label": [0, 7]}))


@EVERY
def test_gold_is_used_or_refused(method: Method, crowd: CrowdLabels) -> None:
    votes = crowd.vote_counts()
    task = int(np.argmax(votes.max(axis=1)))
    name, least = crowd.tasks[task].as_py(), int(votes[task].argmin())
    if "gold" not in method.uses:
        with pytest.raises(InputError, match="no use for gold labels"):
            method.load()().fit(crowd, gold={name: least})
        return
    model = method.load()().fit(crowd, gold={name: least})
    np.testing.assert_allclose(model.posterior_[task], np.eye(crowd.n_classes)[least], atol=1e-12)


@EVERY
def test_a_class_prior_is_used_or_refused(method: Method, crowd: CrowdLabels) -> None:
    shares = [0.5, 0.3, 0.2]
    if "class_prior" not in method.uses:
        with pytest.raises(InputError, match="no use for a class prior"):
            method.load()().fit(crowd, class_prior=shares)
        return
    np.testing.assert_allclose(method.load()().fit(crowd, class_prior=shares).prior_, shares, atol=1e-12)
    names = dict(zip(crowd.classes.to_pylist(), shares, strict=True))
    np.testing.assert_allclose(method.load()().fit(crowd, class_prior=names).prior_, shares, atol=1e-12)
    with pytest.raises(InputError, match="shares that sum to 1"):
        method.load()().fit(crowd, class_prior=[0.5, 0.5, 0.5])
    with pytest.raises(InputError, match="classes that the labels do not have: 'dragon'"):
        method.load()().fit(crowd, class_prior={"dragon": 1.0})


@EVERY
def test_known_workers_are_used_or_refused(method: Method, crowd: CrowdLabels) -> None:
    known = {crowd.workers[0].as_py(): np.roll(np.eye(3), 1, axis=1)}  # says the next class, always
    if "known_workers" not in method.uses:
        with pytest.raises(InputError, match="no use for workers known from elsewhere"):
            method.load()().fit(crowd, known_workers=known)
        return
    model = method.load()().fit(crowd, known_workers=known, known_weight=1e5)
    np.testing.assert_allclose(model.confusion_[0], known[crowd.workers[0].as_py()], atol=0.01)
    for wrong in ({0: [[2, -1, 0], [0, 1, 0], [0, 0, 1]]}, {0: "x"}, 3):
        with pytest.raises(InputError, match="known_workers"):
            method.load()().fit(crowd, known_workers=wrong)


@EVERY
def test_registry_tells_the_truth(method: Method) -> None:
    found = method.load()
    assert found.slug == method.slug
    assert found.uses == frozenset(method.uses)
    assert getattr(cw, method.class_name) is found
    assert ("max_iter" in found().get_params()) == method.iterative


@EVERY
def test_parameters_follow_the_habit(method: Method, crowd: CrowdLabels) -> None:
    model, before, _ = fitted_again(method, crowd)
    assert model.get_params() == before, "fit must not change parameters"
    again = clone(model)
    assert not hasattr(again, "posterior_")
    assert again.get_params() == before


@EVERY
def test_saved_and_loaded(method: Method, crowd: CrowdLabels, tmp_path: Path) -> None:
    model = fitted(method, crowd)
    model.save(tmp_path / "model")
    loaded = cw.load(tmp_path / "model")
    assert type(loaded) is type(model)
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.predict_proba(crowd), model.predict_proba(crowd))
    assert loaded.consensus().equals(model.consensus())
    assert loaded.workers().equals(model.workers())
    assert (loaded.n_iter_, loaded.converged_) == (model.n_iter_, model.converged_)
    with np.load(tmp_path / "model" / "arrays.npz") as stored:
        names = {name for name in stored.files if not name.startswith("parameter/")}
    declared = {array.name: array.together for array in type(model)._saved_arrays()}
    assert {name for name, together in declared.items() if not together} <= names <= set(declared)


@EVERY
@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.usefixtures("few_sweeps")
def test_tables_go_out_as_they_came(method: Method, crowd: CrowdLabels, kind: Any) -> None:
    table = crowd.keep_tasks(np.arange(crowd.n_tasks) < 30).with_kind(kind).to_table()
    assert type(table).__module__.startswith(kind)
    model = method.load()().fit(table)
    consensus, workers = model.consensus(), model.workers()
    assert type(consensus).__module__ == type(workers).__module__ == type(table).__module__
    names = list(getattr(consensus, "column_names", None) or consensus.columns)
    assert names[:5] == ["task", "label", "confidence", "n_labels", "entropy"]
    names = list(getattr(workers, "column_names", None) or workers.columns)
    assert names[:5] == ["worker", "n_labels", "skill", "skill_low", "skill_high"]


@EVERY
def test_memory_stays_in_proportion_to_the_labels(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    """25,000 tasks × 12,500 workers, one cell each a byte, would be 300 MB; the labels are 50,000.

    Twice and four times as many of each for two methods that take some memory whatever the number of labels.
    """
    import tracemalloc

    generator = np.random.default_rng(0)
    monkeypatch.setattr(auto_members, "SAMPLE", 12_500)
    n_workers = {"auto": 25_000, "ebcc": 50_000}.get(method.slug, 12_500)
    labels = CrowdLabels.from_codes(
        np.repeat(np.arange(2 * n_workers), 2),
        generator.permutation(np.repeat(np.arange(n_workers), 4)),
        generator.integers(0, 2, 4 * n_workers),
        tasks=2 * n_workers,
        workers=n_workers,
        classes=2,
        on_duplicate="all",
    )
    with cw.use_engine("numba"):  # a first fit imports what others need
        brief(method, 2).fit(labels.keep_tasks(np.arange(labels.n_tasks) < 2000))
    tracemalloc.start()
    brief(method, 2).fit(labels)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 400 * labels.n_labels
