"""Learners saved and loaded: the same numbers, and one clear error for a folder that no `save` wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import crowdwise as cw
from crowdwise.kinds.values import Mean
from crowdwise.learn.tai_dtm import InstanceTransition
from crowdwise.learn.trace import TraceObjective, TraceRegularized
from crowdwise.registry import learners

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.registry import LearnerEntry

pytestmark = pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")
QUICK = {"network": "linear", "epochs": 3, "batch_size": 16}
N, M, K = 60, 4, 3


def crowd() -> tuple[np.ndarray[Any, Any], cw.CrowdLabels]:
    rng = np.random.default_rng(3)
    truth = rng.integers(K, size=N)
    X = rng.normal(size=(N, 5)) + 2 * np.eye(K, 5)[truth]
    said = np.where(rng.random((N, M)) < 0.7, truth[:, None], rng.integers(K, size=(N, M)))
    said[rng.random((N, M)) < 0.3] = -1
    return X, cw.CrowdLabels.from_dense(said)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    X, labels = crowd()
    cw.TraceRegularized(**QUICK).fit(X, labels).save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("entry", learners(), ids=lambda entry: entry.slug)
def test_every_learner_predicts_the_same_after_loading(entry: LearnerEntry, tmp_path: Path) -> None:
    X, labels = crowd()
    known = {"confusion": np.full((M, K, K), 0.2) + 0.4 * np.eye(K)} if entry.needs == "confusion" else {}
    model = entry.make(**QUICK, **known).fit(X, labels)
    model.save(tmp_path / "model")
    before = torch.get_rng_state()
    loaded = cw.load(tmp_path / "model")
    assert torch.equal(before, torch.get_rng_state())
    assert type(loaded) is type(model)
    new = np.random.default_rng(1).normal(size=(9, 5))
    # Two workers the model has met and one it has not, with one task left unlabelled.
    some = {"task": [0, 0, 1, 2, 7], "worker": [0, 3, 1, "new", 2], "label": [0, 1, 2, 2, 1]}
    some["worker"] = [str(name) for name in some["worker"]]
    np.testing.assert_allclose(loaded.predict_proba(new), model.predict_proba(new), atol=1e-6)
    np.testing.assert_allclose(loaded.predict_proba(new, some), model.predict_proba(new, some), atol=1e-6)
    assert not np.allclose(model.predict_proba(new, some), model.predict_proba(new))
    np.testing.assert_array_equal(loaded.posterior_, model.posterior_)
    for one, other in (
        (loaded.consensus(), model.consensus()),
        (loaded.workers(), model.workers()),
        (loaded.history_, model.history_),
    ):
        assert one == other
    assert (loaded.best_epoch_, loaded.n_epochs_, loaded.shape_) == (model.best_epoch_, model.n_epochs_, (5,))
    loaded.save(tmp_path / "again")
    np.testing.assert_array_equal(cw.load(tmp_path / "again").predict_proba(new), loaded.predict_proba(new))


def test_what_is_in_the_folder(saved: Path) -> None:
    files = {file.name for file in saved.iterdir()}
    vocabularies = {"tasks.parquet", "workers.parquet", "classes.parquet"}
    weights = {"network.safetensors", "objective.safetensors"}
    assert files == {"model.json", "arrays.npz", "history.parquet"} | vocabularies | weights
    header = json.loads((saved / "model.json").read_text())
    assert (header["schema"], header["room"], header["slug"]) == (2, "learn", "trace")
    assert header["network"] == {"name": "linear", "shape": [5], "columns": [], "n_classes": 3}
    assert header["parameters"]["epochs"] == 3
    assert set(load_file(saved / "network.safetensors")) == {"mean", "deviation", "network.1.weight", "network.1.bias"}


def test_parameters_and_kinds_are_kept(tmp_path: Path) -> None:
    import pandas as pd

    X, labels = crowd()
    model = cw.TraceRegularized(epochs=2, strength=0.5, checkpoint=str(tmp_path / "check")).fit(
        X, pd.DataFrame(labels.to_table().to_pandas())
    )
    model.save(tmp_path / "model")
    loaded = cw.load(tmp_path / "model")
    assert loaded.get_params() == model.get_params() | {"checkpoint": None}, "a path stays where it was written"
    assert isinstance(loaded.history_, pd.DataFrame)
    assert isinstance(loaded.consensus(), pd.DataFrame)
    pd.testing.assert_frame_equal(loaded.history_, model.history_)


@pytest.mark.parametrize("network", [None, "cnn-pooled"])
def test_images(network: str | None, tmp_path: Path) -> None:
    _, labels = crowd()
    X = np.random.default_rng(0).integers(255, size=(N, 16, 16), dtype=np.uint8)
    model = cw.TraceRegularized(network=network, epochs=1).fit(X, labels)
    model.save(tmp_path / "model")
    np.testing.assert_allclose(cw.load(tmp_path / "model").predict_proba(X), model.predict_proba(X), atol=1e-6)
    with pytest.raises(cw.InputError, match=r"trained on features of shape \(1, 16, 16\), not \(1, 8, 16\)"):
        model.predict_proba(np.zeros((2, 8, 16)))


class Mine(nn.Module):
    def __init__(self, width: int = 7) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, width), nn.Tanh(), nn.Linear(width, K))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def test_a_network_of_the_users_own(tmp_path: Path) -> None:
    X, labels = crowd()
    model = cw.TraceRegularized(network=Mine(), epochs=2).fit(X, labels)
    model.save(tmp_path / "model")
    with pytest.raises(cw.InputError, match=r"network of your own, 'Mine'.*crowdwise.load\(folder, network=module\)"):
        cw.load(tmp_path / "model")
    with pytest.raises(cw.InputError, match="must be a torch module"):
        cw.load(tmp_path / "model", network="mlp")
    with pytest.raises(cw.InputError, match="is damaged"):
        cw.load(tmp_path / "model", network=Mine(9))
    given = Mine()
    kept = given.layers[0].weight.clone()
    loaded = cw.load(tmp_path / "model", network=given)
    np.testing.assert_allclose(loaded.predict_proba(X), model.predict_proba(X), atol=1e-6)
    assert torch.equal(given.layers[0].weight, kept), "the user's module was changed"


def test_network_where_none_is_wanted(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(cw.InputError, match="needs no network="):
        cw.load(saved, network=Mine())
    cw.MajorityVote().fit(crowd()[1]).save(tmp_path / "votes")
    with pytest.raises(cw.InputError, match="of labels alone"):
        cw.load(tmp_path / "votes", network=Mine())
    Mean().fit({"task": [1, 1], "worker": ["a", "b"], "value": [0.5, 0.7]}).save(tmp_path / "means")
    with pytest.raises(cw.InputError, match="of answers alone"):
        cw.load(tmp_path / "means", network=Mine())


def test_saving_before_fitting(tmp_path: Path) -> None:
    with pytest.raises(cw.InputError, match="not fitted yet"):
        cw.TraceRegularized().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_parameter_that_cannot_be_saved(tmp_path: Path) -> None:
    @dataclass(kw_only=True, eq=False, repr=False)
    class Needy(TraceRegularized):
        needed: Any = None

        def _make_objective(self, *given: Any) -> Any:
            assert self.needed is not None, "needed is missing"
            return super()._make_objective(*given)

    model = Needy(**QUICK, needed=[1, 2]).fit(*crowd())
    with pytest.raises(cw.InputError, match=r"cannot be saved: .needed is missing.*cannot hold .* parameter needed is"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_state_of_tasks_and_labels_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class PerLabel(TraceObjective):
        def __init__(self, crowd: Any, *given: Any, **named: Any) -> None:
            super().__init__(crowd, *given, **named)
            self.odd = nn.Parameter(torch.ones(crowd.n_labels, crowd.n_classes))
            self.register_buffer("posterior", crowd.task_vote_shares())
            self.register_buffer("shared", torch.ones(crowd.n_classes))

    X, labels = crowd()
    monkeypatch.setattr("crowdwise.learn.trace.TraceObjective", PerLabel)
    model = cw.TraceRegularized(**QUICK).fit(X, labels)
    model.module_.shared += 1
    model.save(tmp_path / "model")
    assert set(load_file(tmp_path / "model" / "objective.safetensors")) == {"shared", "workers.rho"}
    loaded = cw.load(tmp_path / "model")
    assert loaded.module_.shared.tolist() == [2, 2, 2]
    np.testing.assert_allclose(loaded.predict_proba(X, labels), model.predict_proba(X, labels), atol=1e-6)


def test_a_failed_save_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from crowdwise.learn import tensor_files

    model = cw.TraceRegularized(**QUICK).fit(*crowd())

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tensor_files, "save_file", full)
    with pytest.raises(cw.InputError, match="No space left"):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_another_device_loads(saved: Path) -> None:
    header = json.loads((saved / "model.json").read_text())
    header["parameters"]["device"] = "cuda"
    (saved / "model.json").write_text(json.dumps(header))
    assert cw.load(saved).predict_proba(np.zeros((1, 5))).shape == (1, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"slug": "nothing"},
        {"slug": []},
        {"network": None},
        {"network": {"name": "linear", "shape": [6], "n_classes": 3}},
        {"network": {"name": "linear", "shape": [10**9, 10**9], "n_classes": 3}},
        {"network": {"name": "linear", "shape": ["5"], "n_classes": 3}},
        {"network": {"name": "linear", "shape": 5, "n_classes": 3}},
        {"network": {"name": "linear", "shape": [5], "n_classes": 4}},
        {"network": {"name": "__import__", "shape": [5], "n_classes": 3}},
        {"network": {"name": "cnn", "shape": [5], "n_classes": 3}},
        {"parameters": {"no": 1}},
        {"best_epoch": "x"},
        {"state": []},
        {"kind": "excel"},
    ],
    ids=str,
)
def test_header_that_no_save_wrote(wrong: dict[str, Any], saved: Path) -> None:
    header = json.loads((saved / "model.json").read_text())
    (saved / "model.json").write_text(json.dumps(header | wrong))
    with pytest.raises(cw.InputError):
        cw.load(saved)


def test_damaged_files(saved: Path) -> None:
    for name in ("network.safetensors", "objective.safetensors", "history.parquet", "arrays.npz"):
        whole = (saved / name).read_bytes()
        for bad in (whole[: len(whole) // 2], b"", b"\xff" * 64):
            (saved / name).write_bytes(bad)
            with pytest.raises(cw.InputError, match="is damaged"):
                cw.load(saved)
        (saved / name).unlink()
        with pytest.raises(cw.InputError, match=f"is damaged: '{name}': No such file or directory"):
            cw.load(saved)
        (saved / name).write_bytes(whole)
    assert cw.load(saved).slug == "trace"


def test_tensors_that_no_fit_saved(saved: Path) -> None:
    for file, changes in (
        ("network.safetensors", {"network.1.weight": torch.zeros(3, 6)}),
        ("network.safetensors", {"network.1.weight": torch.zeros(3, 5, dtype=torch.float64)}),
        ("network.safetensors", {"more": torch.zeros(1)}),
        ("network.safetensors", {"network.1.bias": None}),
        ("objective.safetensors", {"workers.rho": torch.zeros(9, 3, 3)}),
        ("objective.safetensors", {"workers.rho": None}),
        ("objective.safetensors", {"more": torch.zeros(1)}),
    ):
        whole = (saved / file).read_bytes()
        tensors = load_file(saved / file) | changes
        save_file({name: value for name, value in tensors.items() if value is not None}, saved / file)
        with pytest.raises(cw.InputError, match="is damaged"):
            cw.load(saved)
        (saved / file).write_bytes(whole)
    for table in ({"epoch": ["one"] * 3}, {"epoch": np.zeros(1_000_000, np.int64)}, {"loss": [1.0, 2.0, 3.0]}):
        pq.write_table(pa.table(table), saved / "history.parquet")
        with pytest.raises(cw.InputError, match="is damaged"):
            cw.load(saved)


def test_values_that_no_training_left(saved: Path, tmp_path: Path) -> None:
    for file, name, value in (
        ("network.safetensors", "deviation", 0.0),
        ("network.safetensors", "network.1.weight", float("inf")),
        ("network.safetensors", "network.1.bias", -float("inf")),
        ("objective.safetensors", "workers.rho", float("nan")),
    ):
        whole = (saved / file).read_bytes()
        tensors = load_file(saved / file)
        save_file(tensors | {name: torch.full_like(tensors[name], value)}, saved / file)
        with pytest.raises(cw.InputError, match=f"is damaged: {file} holds"):
            cw.load(saved)
        (saved / file).write_bytes(whole)
    X, labels = crowd()
    for model, name, value, words in (
        (cw.MaxMig(**QUICK), "order", [0, 1, 7], "one output"),
        (cw.MaxMig(**QUICK), "order", [0, 1, 1], "one output"),
        (InstanceTransition(**QUICK), "source", [0, 1, 2, 99], "no worker has"),
        (InstanceTransition(**QUICK), "source", [0, 1, 2, -1], "no worker has"),
    ):
        folder = tmp_path / "positions"
        model.fit(X, labels).save(folder)
        tensors = load_file(folder / "objective.safetensors")
        save_file(tensors | {name: torch.tensor(value)}, folder / "objective.safetensors")
        with pytest.raises(cw.InputError, match=words):
            cw.load(folder)


def test_sizes_that_the_files_cannot_fill(saved: Path, tmp_path: Path) -> None:
    """No tensor is made, and no file read, that is larger than what the files hold."""
    listed = (saved / "network.safetensors").read_bytes()
    (saved / "network.safetensors").write_bytes((2**40).to_bytes(8, "little") + listed[8:])
    with pytest.raises(cw.InputError, match="longer than the tensors"):
        cw.load(saved)
    (saved / "network.safetensors").write_bytes(listed)
    with (saved / "objective.safetensors").open("r+b") as file:
        file.truncate(1 << 36)
    with pytest.raises(cw.InputError, match="longer than the tensors"):
        cw.load(saved)
    X, labels = crowd()
    for model, change in (
        (cw.InstanceTrace(**QUICK), {"parameters": {"rank": 10**9}}),
        (cw.Conal(**QUICK), {"parameters": {"embedding": 10**9}}),
        (cw.TraceRegularized(**QUICK), {"network": {"shape": [2**28]}}),
    ):
        model.fit(X, labels).save(tmp_path / "large")
        header = json.loads((tmp_path / "large" / "model.json").read_text())
        for part, values in change.items():
            header[part] |= values
        (tmp_path / "large" / "model.json").write_text(json.dumps(header))
        with pytest.raises(cw.InputError, match=r"no file here can fill|does not belong there"):
            cw.load(tmp_path / "large")


def test_images_of_a_size_that_was_never_seen_cost_nothing(tmp_path: Path) -> None:
    """The weights of a network with a global average tell nothing of the size of the images."""
    _, labels = crowd()
    X = np.random.default_rng(0).integers(255, size=(N, 8, 8), dtype=np.uint8)
    cw.Conal(network="cnn", epochs=1).fit(X, labels).save(tmp_path / "model")
    header = json.loads((tmp_path / "model" / "model.json").read_text())
    header["network"]["shape"] = [1, 2**14, 2**14]
    (tmp_path / "model" / "model.json").write_text(json.dumps(header))
    with pytest.raises(cw.InputError, match="trained on features of shape"):
        cw.load(tmp_path / "model").predict_proba(X)


def test_a_loaded_learner_writes_nowhere(saved: Path, tmp_path: Path) -> None:
    header = json.loads((saved / "model.json").read_text())
    header["parameters"]["checkpoint"] = str(tmp_path / "elsewhere")
    (saved / "model.json").write_text(json.dumps(header))
    cw.load(saved).fit(*crowd())
    assert not (tmp_path / "elsewhere").exists()


class Measured(nn.Module):
    """A network of the user's that must be run to find its sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(K))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert float(x.sum()) == float(x.sum())  # asks for numbers
        return self.layers(x)


@pytest.mark.parametrize("make", [Measured, lambda: Measured().layers])
@pytest.mark.parametrize("learner", ["trace", "conal"])
def test_sizes_in_a_strangers_header_are_not_run(make: Any, learner: str, tmp_path: Path) -> None:
    """2^28 features took gigabytes before the file, of some kilobytes, was looked at."""
    X, labels = crowd()
    model = cw.learner(learner).load()(**QUICK | {"network": make()}).fit(X, labels)
    model.save(tmp_path / "model")
    loaded = cw.load(tmp_path / "model", network=make())
    np.testing.assert_allclose(loaded.predict_proba(X), model.predict_proba(X), atol=1e-6)
    path = tmp_path / "model" / "model.json"
    header = json.loads(path.read_text())
    header["network"]["shape"] = [2**28]
    path.write_text(json.dumps(header))

    def refuse_to_run(*_: Any) -> Any:
        raise AssertionError("it was run")

    given = make()
    given.register_forward_pre_hook(lambda _module, inputs: None if inputs[0].is_meta else refuse_to_run())
    with pytest.raises(cw.InputError, match=r"is damaged: (features of shape|network\.safetensors holds)"):
        cw.load(tmp_path / "model", network=given)


def test_large_images_in_a_strangers_header_are_not_run(tmp_path: Path) -> None:
    labels = crowd()[1]
    images = np.random.default_rng(0).normal(size=(N, 3, 4, 4)).astype(np.float32)

    def make() -> nn.Module:
        return nn.Sequential(nn.LazyConv2d(4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LazyLinear(K))

    model = cw.learner("conal").load()(**QUICK | {"network": make()}).fit(images, labels)
    model.save(tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    header = json.loads(path.read_text())
    header["network"]["shape"] = [3, 9000, 9000]
    path.write_text(json.dumps(header))
    given = make()
    met: list[bool] = []
    given.register_forward_pre_hook(lambda _module, inputs: met.append(inputs[0].is_meta))
    assert cw.load(tmp_path / "model", network=given).shape_ == (3, 9000, 9000)
    assert all(met)
