"""A saved model from a stranger: loaded whole, or refused with one clear error."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crowdwise as cw
from crowdwise.kinds import read_values
from crowdwise.kinds.values import GaussianValues

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.labels import CrowdLabels


@pytest.fixture
def saved(crowd: CrowdLabels, tmp_path: Path) -> Path:
    cw.DawidSkene().fit(crowd).save(tmp_path / "model")
    return tmp_path / "model"


def changed(folder: Path, **arrays: Any) -> None:
    with np.load(folder / "arrays.npz") as stored:
        every = {name: stored[name] for name in stored.files}
    every |= {name: values for name, values in arrays.items() if values is not None}
    np.savez(
        folder / "arrays.npz", **{name: values for name, values in every.items() if arrays.get(name, 0) is not None}
    )


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("prior", np.full(9, 1 / 9)),
        ("prior", np.ones(3)),
        ("prior", None),
        ("skill", None),
        ("posterior", np.full((150, 3), np.nan)),
        ("posterior", np.full((150, 3), "x")),
        ("confusion", np.zeros((12, 3, 3))),
        ("labels_per_worker", np.zeros(3)),
        ("__class_", np.zeros(3)),
        ("posterior/x", np.zeros(3)),
        ("worker_columns/extra", np.zeros(5)),
    ],
)
def test_arrays_that_no_fit_saved(saved: Path, name: str, values: Any) -> None:
    changed(saved, **{name: values})
    with pytest.raises(cw.InputError, match="is damaged"):
        cw.load(saved)


def test_damaged_files(saved: Path, tmp_path: Path) -> None:
    header = saved / "model.json"
    kept = json.loads(header.read_text())
    for wrong in ({"slug": []}, {"slug": "nothing"}, {"kind": "excel"}, {"parameters": {"no": 1}}, {"n_iter": "x"}):
        header.write_text(json.dumps(kept | wrong))
        with pytest.raises(cw.InputError):
            cw.load(saved)
    for unknown, noun in (
        ({"slug": "nothing"}, "method"),
        ({"room": "kinds", "kind_of_answers": []}, "kind of answers"),
    ):
        header.write_text(json.dumps(kept | unknown))
        with pytest.raises(cw.InputError, match=rf"^The saved model in .* is no {noun} of this version"):
            cw.load(saved)
    header.write_text("[" * 100_000)
    with pytest.raises(cw.InputError, match="cannot be read as a saved model"):
        cw.load(saved)
    header.write_text(json.dumps(kept | {"schema": 99}))
    with pytest.raises(cw.InputError, match="schema 99"):
        cw.load(saved)
    header.write_text(json.dumps(kept))
    pq.write_table(pa.table({"name": ["a", "a", "b"]}), saved / "classes.parquet")
    with pytest.raises(cw.InputError, match="is damaged"):
        cw.load(saved)
    (saved / "arrays.npz").write_bytes(b"PK junk")
    with pytest.raises(cw.InputError, match="is damaged"):
        cw.load(saved)
    with pytest.raises(cw.InputError, match="holds no saved model"):
        cw.load(tmp_path)


def test_a_fit_that_used_another_model_is_saved_too(crowd: CrowdLabels, tmp_path: Path) -> None:
    earlier = cw.DawidSkene().fit(crowd)
    later = cw.DawidSkene().fit(crowd, known_workers=earlier)
    later.save(tmp_path / "later")
    loaded = cw.load(tmp_path / "later")
    np.testing.assert_array_equal(loaded.posterior_, later.posterior_)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: cw.OneCoin(smoothing=float("inf")), "smoothing"),
        (lambda: cw.OneCoin(smoothing=10**400), "smoothing"),
        (lambda: cw.DawidSkene(smoothing=float("nan")), "smoothing"),
        (lambda: cw.DawidSkene(random_state=-1), "random_state"),
        (lambda: cw.Mace(random_state="abc"), "random_state"),
        (lambda: cw.Mace(inference=np.array([1, 2])), "inference"),
        (lambda: cw.DawidSkene(init=[[1], [1, 2]]), "init"),
        (lambda: cw.DawidSkene(max_iter=0), "max_iter"),
        (lambda: cw.Glad(tol="x"), "tol"),
        (lambda: cw.ZenCrowd(reliability=2), "reliability"),
        (lambda: cw.WeightedMajorityVote(weights={0: "x"}), "weights"),
    ],
)
def test_bad_parameters_are_named(make: Any, named: str, crowd: CrowdLabels) -> None:
    with pytest.raises(cw.InputError, match=named):
        make().fit(crowd)


def test_numbers_of_numpy_are_numbers(crowd: CrowdLabels) -> None:
    assert cw.OneCoin(max_iter=np.int64(50), smoothing=np.float64(0.5)).fit(crowd).converged_


def test_parameters_changed_after_the_fit_are_checked_before_anything_is_written(
    crowd: CrowdLabels, tmp_path: Path
) -> None:
    values = read_values({"task": [1, 1, 2, 2], "worker": ["a", "b"] * 2, "value": [1.0, 2.0, 3.0, 3.5]})
    truth = crowd.vote_counts().argmax(axis=1)
    features = np.eye(3)[truth]
    folder = tmp_path / "model"
    cw.DawidSkene().fit(crowd).save(folder)
    kept = (folder / "model.json").read_bytes()
    for model, parameter in (
        (cw.DawidSkene().fit(crowd), "smoothing"),
        (GaussianValues().fit(values), "strength"),
        (cw.TwoStage(network="linear", epochs=1).fit(features, crowd), "learning_rate"),
    ):
        model.set_params(**{parameter: float("nan")})
        with pytest.raises(cw.InputError, match=f"{parameter} is nan; it must be a number"):
            model.save(folder)
        assert (folder / "model.json").read_bytes() == kept
