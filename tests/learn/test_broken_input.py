"""What users and strangers can get wrong: one clear error each, or it just works; never silently other numbers."""

from __future__ import annotations

import json
import shutil
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from sklearn.linear_model import LogisticRegression
from tests.learn.crowds import crowded
from torch import nn
from torch.utils.data import Dataset, IterableDataset

import crowdwise as cw
from crowdwise.labels import CrowdLabels, InputError
from crowdwise.learn import tensor_files
from crowdwise.learn.features import make_features

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")
QUICK: dict[str, Any] = {"network": "linear", "epochs": 2, "batch_size": 16, "learning_rate": 0.05, "device": "cpu"}
DATA = crowded(24)
WIDTH, CLASSES = DATA.X.shape[1], DATA.labels.n_classes


def fitted(X: Any = DATA.X, labels: Any = DATA.labels, *, valid: Any = None, **changes: Any) -> cw.TraceRegularized:
    return cw.TraceRegularized(**QUICK | changes).fit(X, labels, valid=valid)


# ---- batches of one -----------------------------------------------------------------------------------------------


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, CLASSES))


@pytest.mark.parametrize("batch_size", [7, 21, 22, 100])
def test_batch_normalisation_never_meets_a_last_batch_of_one(batch_size: int) -> None:
    model = fitted(network=normalised(), batch_size=batch_size)  # 22 tasks are learnt from
    assert model.n_epochs_ == 2


def test_batch_normalisation_is_refused_batches_of_one() -> None:
    with pytest.raises(InputError, match="needs batches of 2 tasks"):
        fitted(network=normalised(), batch_size=1)


# ---- networks -----------------------------------------------------------------------------------------------------


class Given(nn.Module):
    """A network that does what it is told."""

    def __init__(self, forward: Callable[..., Any], **members: Any) -> None:
        super().__init__()
        self.linear, self.rule = nn.Linear(WIDTH, CLASSES), forward
        for name, member in members.items():
            setattr(self, name, member)

    def forward(self, x: Any) -> Any:
        return self.rule(self, x)


def broken(network: nn.Module) -> nn.Module:
    with torch.no_grad():
        next(network.parameters()).fill_(torch.nan)
    return network


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (Given(lambda net, x: net.linear(x) if not net.training else (net.linear(x), x)), "in training, gives tuple"),
        (Given(lambda net, x: {}["logits"]), "cannot take features"),
        (Given(lambda net, x: net.linear(x).long()), "no logits"),
        (Given(lambda net, x: net.linear(x).half()), "gives torch.float16; .* logits.float()"),
        (broken(nn.Linear(WIDTH, CLASSES)), "not finite, before"),
        (Given(lambda net, x: net.linear(x), lock=threading.Lock()), "cannot be copied"),
        (nn.Linear(WIDTH, CLASSES, device="meta"), "cannot be copied"),
    ],
    ids=["tuple in training", "KeyError", "whole numbers", "half", "NaN", "lock", "meta"],
)
def test_networks_that_cannot_be_trained(network: nn.Module, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fitted(network=network)


def test_a_network_without_anything_to_learn() -> None:
    frozen = nn.Linear(WIDTH, CLASSES).requires_grad_(False)
    with pytest.raises(InputError, match="frozen"):
        cw.TwoStage(**QUICK | {"network": frozen}).fit(DATA.X, DATA.labels)


def test_a_network_in_double_precision_is_trained_in_the_precision_asked_for() -> None:
    network = nn.Linear(WIDTH, CLASSES)
    single, double = (fitted(network=each).posterior_ for each in (network, nn.Linear(WIDTH, CLASSES).double()))
    assert single.shape == double.shape
    np.testing.assert_array_equal(single, fitted(network=network.double()).posterior_)


def test_the_trial_before_training_leaves_no_trace() -> None:
    network = normalised()
    model = fitted(network=network, epochs=1, batch_size=100)
    assert int(model.network_.network[1].num_batches_tracked) == 1


def test_a_lazy_network_is_saved_and_loaded(tmp_path: Path) -> None:
    model = fitted(network=nn.LazyLinear(CLASSES))
    model.save(tmp_path / "model")
    again = cw.load(tmp_path / "model", network=nn.LazyLinear(CLASSES))
    np.testing.assert_array_equal(again.predict_proba(DATA.X), model.predict_proba(DATA.X))


# ---- torch's own settings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode], ids=["no_grad", "inference_mode"])
def test_fitting_where_gradients_are_switched_off(context: Callable[[], AbstractContextManager[Any]]) -> None:
    with context():
        model = fitted()
    np.testing.assert_array_equal(model.posterior_, fitted().posterior_)


def test_default_precision_and_device_of_the_user(tmp_path: Path) -> None:
    expected = cw.InstanceTrace(**QUICK).fit(DATA.X, DATA.labels)
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    try:
        model = cw.InstanceTrace(**QUICK).fit(DATA.X, DATA.labels)
        model.save(tmp_path / "model")
        found = cw.load(tmp_path / "model").predict_proba(DATA.X, DATA.labels)
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    np.testing.assert_array_equal(model.posterior_, expected.posterior_)
    np.testing.assert_array_equal(found, expected.predict_proba(DATA.X, DATA.labels))


def test_fits_in_two_threads_are_what_they_are_alone() -> None:
    def fit(seed: int) -> Any:
        return fitted(network="mlp", epochs=40, learning_rate=1e-3, random_state=seed).network_.state_dict()

    alone = [fit(seed) for seed in (1, 2)]
    before = torch.random.get_rng_state()
    together: dict[int, Any] = {}
    threads = [threading.Thread(target=lambda seed=seed: together.update({seed: fit(seed)})) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, weights in zip((1, 2), alone, strict=True):
        for name, value in weights.items():
            assert torch.equal(value, together[seed][name])
    assert torch.equal(before, torch.random.get_rng_state())


# ---- features -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        np.array([[1.0, 1e300]]),
        np.ma.masked_array([[1.0, 2.0]], mask=[[False, True]]),
        [[10**400, 1]],
        torch.zeros(2, 3, device="meta"),
        torch.zeros(2, 3, dtype=torch.complex64),
        scipy.sparse.csr_matrix(np.array([[1j, 0]])),
        [torch.zeros(3, requires_grad=True)] * 2,
        pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]),
        pl.LazyFrame({"a": [1.0]}).select("b"),
    ],
    ids=[
        "beyond float32",
        "masked",
        "huge",
        "meta",
        "complex",
        "sparse complex",
        "tensors with gradients",
        "one name twice",
        "lazy",
    ],
)
def test_features_that_are_no_table_of_numbers(given: Any) -> None:
    with pytest.raises(InputError):
        make_features(given)


def test_lazy_tables_are_computed() -> None:
    assert make_features(pl.LazyFrame({"task": ["x", "y"], "a": [1.0, 2.0]})).shape == (1,)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_tensors(layout: torch.layout) -> None:
    dense = torch.eye(3) * 2
    found = make_features(dense.to_sparse(layout=layout))
    torch.testing.assert_close(next(found.batches(torch.arange(3), 3)), dense)


@pytest.mark.parametrize("unit", [1e-30, 1e-9, 1.0, 1e30])
def test_units_do_not_matter(unit: float) -> None:
    data = crowded(90, apart=6.0)
    model = fitted(data.X * unit, data.labels, epochs=30, learning_rate=0.1)
    assert model.score(data.X * unit, data.truth) > 0.95


def test_what_hardly_varies_beside_its_mean_is_not_blown_up_nor_left_large() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([1e9 + 700 * rng.normal(size=200), rng.normal(size=200), np.full(200, 6.0)])
    features = make_features(X)
    mean, deviation = features.moments()
    scaled = (next(features.batches(torch.arange(200), 200)) - mean) / deviation
    assert scaled.abs().max() < 6


class Items(Dataset[Any]):
    def __init__(self, item: Callable[[int], Any]) -> None:
        self.item = item

    def __len__(self) -> int:
        return 24

    def __getitem__(self, at: int) -> Any:
        return self.item(at)


class Stream(IterableDataset[Any]):
    def __len__(self) -> int:
        return 24

    def __iter__(self) -> Iterator[Any]:
        return iter(DATA.X)


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (Items(lambda at: DATA.X[at][: 2 + (at == 5)]), r"shapes \(2,\) and \(3,\)"),
        (Items(lambda at: DATA.X[at] * (np.nan if at == 20 else 1)), "item of the Dataset holds a missing"),
        (Items(lambda at: np.zeros(0)), "nothing to learn from"),
        (Stream(), "map-style"),
    ],
    ids=["shapes", "missing", "empty", "iterable"],
)
def test_datasets_that_cannot_be_used(dataset: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fitted(dataset)


def test_datasets_of_tensors_with_gradients_and_of_single_numbers() -> None:
    rows = Items(lambda at: torch.tensor(DATA.X[at], requires_grad=True))
    np.testing.assert_array_equal(fitted(rows, epochs=1).posterior_, fitted(epochs=1).posterior_)
    assert make_features(Items(lambda at: torch.tensor(float(at)))).shape == (1,)


def test_pictures_of_a_dataset_have_their_channels_first_as_those_of_an_array() -> None:
    pixels = np.random.default_rng(0).integers(256, size=(24, 8, 6, 3), dtype=np.uint8)
    held, streamed = make_features(pixels), make_features(Items(lambda at: pixels[at]))
    assert held.shape == streamed.shape == (3, 8, 6)
    some = torch.arange(4)
    torch.testing.assert_close(next(held.batches(some, 4)), next(streamed.batches(some, 4)))


def test_a_row_far_beyond_what_was_learnt_is_refused_not_answered_with_no_number() -> None:
    model = fitted(DATA.X * 1e-3)
    with pytest.raises(InputError, match="no number for row 1"):
        model.predict_proba(np.stack([DATA.X[0] * 1e-3, np.full(WIDTH, 3e38), DATA.X[1]]))


@pytest.mark.parametrize(
    "tasks", [3, "ab", {0, 1, 2}, {0: 1}, np.zeros((24, 2))], ids=["number", "text", "set", "dict", "two axes"]
)
def test_names_of_rows_need_an_order(tasks: Any) -> None:
    with pytest.raises(InputError, match="in the order of the rows"):
        cw.TraceRegularized(**QUICK).fit(DATA.X, DATA.labels, tasks=tasks)


def test_names_of_rows_in_a_tensor() -> None:
    model = cw.TraceRegularized(**QUICK).fit(DATA.X, DATA.labels, tasks=torch.arange(24))
    np.testing.assert_array_equal(model.posterior_, fitted().posterior_)


# ---- validation sets and parameters -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("valid", "message"),
    [
        (3, "must be a pair"),
        ((DATA.X,), "must be a pair"),
        ((DATA.X[:, :2], DATA.truth), r"shape \(2,\)"),
        ((DATA.X, np.eye(3)[DATA.truth]), r"shape \(24, 3\)"),
        ((DATA.X, None), r"shape \(\)"),
    ],
)
def test_validation_sets_that_are_none(valid: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fitted(valid=valid)


@pytest.mark.parametrize(
    "wrong",
    [{"random_state": 2**64}, {"batch_size": 10**30}, {"checkpoint": 3}, {"checkpoint": ""}, {"checkpoint": "a\0b"}],
    ids=str,
)
def test_parameters_beyond_what_torch_takes(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        fitted(**wrong)


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    numbers: dict[str, Any] = {
        "learning_rate": np.float32(0.05),
        "batch_size": np.int64(16),
        "random_state": np.int64(3),
    }
    fitted(**numbers, checkpoint=tmp_path / "run").save(tmp_path / "model")  # a warning would be an error
    again = cw.load(tmp_path / "model")
    assert {name: getattr(again, name) for name in numbers} == numbers


# ---- checkpoints --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints") / "run"
    fitted(checkpoint=folder)
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def test_a_full_disk_is_said_and_loses_no_checkpoint(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (run / "checkpoint.safetensors").read_bytes()
    model = fitted()

    def fail(*_: Any) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(tensor_files, "save_file", fail)
    with pytest.raises(InputError, match=r"Writing .*checkpoint.safetensors' failed: .*No space left"):
        fitted(checkpoint=run, epochs=3)
    assert (run / "checkpoint.safetensors").read_bytes() == before
    with pytest.raises(InputError, match=r"Writing .*model' failed: .*No space left"):
        model.save(run.parent / "model")


def test_a_checkpoint_of_other_features_is_refused(run: Path) -> None:
    with pytest.raises(InputError, match="another features"):
        fitted(DATA.X + 1, checkpoint=run)


def test_a_checkpoint_whose_epochs_were_chosen_otherwise_is_refused(run: Path) -> None:
    with pytest.raises(InputError, match="another valid"):
        fitted(checkpoint=run, epochs=3, valid=(DATA.X, DATA.truth))


@pytest.mark.parametrize(
    "facts",
    [
        {"plan": 3},
        {"epoch": -5},
        {"epoch": 99},
        {"best_epoch": 10**9},
        {"history": []},
        {"history": [1, 2]},
        {"history": [{"epoch": "a"}, {"epoch": "b"}]},
        {"history": [{"epoch": 1.0}, {"epoch": 2.0}]},
        {"best_score": float("nan")},
    ],
    ids=str,
)
def test_checkpoints_with_facts_that_no_epoch_left(facts: dict[str, Any], run: Path) -> None:
    path = run / "checkpoint.safetensors"
    with safe_open(path, framework="pt") as file:
        before = json.loads(file.metadata()["facts"])
    save_file(load_file(path), path, {"facts": json.dumps(before | facts)})
    with pytest.raises(InputError, match="cannot be used"):
        fitted(checkpoint=run, epochs=3)


def test_a_history_of_other_columns(run: Path) -> None:
    path = run / "checkpoint.safetensors"
    with safe_open(path, framework="pt") as file:
        facts = json.loads(file.metadata()["facts"])
    tensors = load_file(path)
    facts["history"] = [row | {"evil": 1.0} for row in facts["history"]]
    save_file(tensors, path, {"facts": json.dumps(facts)})
    with pytest.raises(InputError, match=r"has a history of .* and 1 more, where training measures .*\. Delete it"):
        fitted(checkpoint=run, epochs=3)
    facts["history"] = [row | {"epoch": 1.0} for row in facts["history"]]
    save_file(tensors, path, {"facts": json.dumps(facts)})
    with pytest.raises(InputError, match="the history has other epochs"):
        fitted(checkpoint=run, epochs=3)


@pytest.mark.parametrize(
    "change",
    [
        lambda found: {name: value for name, value in found.items() if not name.startswith("best/")},
        lambda found: {name: value * torch.nan if name.startswith("best/") else value for name, value in found.items()},
        lambda found: {name: value for name, value in found.items() if name != "optimiser/0/exp_avg"},
        lambda found: found | {"optimiser/0/exp_avg": torch.zeros(1)},
        lambda found: found | {"optimiser/77/exp_avg": torch.zeros(1)},
        lambda found: {name: value.long() if "weight" in name else value for name, value in found.items()},
        lambda found: {name: value * torch.inf if "weight" in name else value for name, value in found.items()},
        lambda found: {name: value * 0 + 3e38 if "weight" in name else value for name, value in found.items()},
        lambda found: found | {"optimiser/0/exp_avg": found["optimiser/0/exp_avg"] * torch.nan},
        lambda found: found | {"optimiser/0/exp_avg_sq": -1 - found["optimiser/0/exp_avg_sq"]},
        lambda found: found | {"optimiser/0/step": torch.ones(2)},
    ],
    ids=[
        *("no best", "NaN", "half of Adam", "Adam's shape", "Adam's number", "whole numbers", "infinite"),
        *("huge", "Adam's NaN", "Adam's square", "Adam's step"),
    ],
)
def test_checkpoints_with_tensors_that_no_epoch_left(change: Callable[..., Any], run: Path) -> None:
    path = run / "checkpoint.safetensors"
    with safe_open(path, framework="pt") as file:
        facts = file.metadata()
    save_file(change(load_file(path)), path, facts)
    with pytest.raises(InputError, match="cannot be used"):
        fitted(checkpoint=run, epochs=3)


@pytest.mark.parametrize("learner", [cw.TraceRegularized, cw.TwoStage, cw.CoinNet, cw.MaxMig])
@pytest.mark.parametrize("rate", ["learning_rate", "worker_learning_rate"])
@pytest.mark.filterwarnings("ignore::crowdwise.learn.training_loop.Diverged")
def test_weights_too_large_to_reckon_with_are_said(learner: Any, rate: str, tmp_path: Path) -> None:
    """Their probabilities are no numbers, from which eigenvalues and matchings were looked for."""
    for epochs in (1, 2):
        model = learner(**QUICK | {"epochs": epochs, "batch_size": 64, "learning_rate": 1e-3, rate: 1e37})
        try:
            model.fit(DATA.X, DATA.labels)
        except InputError as error:
            assert "smaller learning_rate" in str(error)  # noqa: PT017
        else:  # its workers have no parameters, or what they are is finite after all
            model.save(tmp_path / "model")
            cw.load(tmp_path / "model")


# ---- saving -------------------------------------------------------------------------------------------------------


def test_a_model_whose_network_was_changed_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="changed after it was fitted"):
        fitted().set_params(network="mlp").save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["network", "objective"])
def test_weights_that_are_no_numbers_are_not_loaded(name: str, tmp_path: Path) -> None:
    fitted().save(tmp_path / "model")
    path = tmp_path / "model" / f"{name}.safetensors"
    save_file({key: value * torch.nan for key, value in load_file(path).items()}, path)
    with pytest.raises(InputError, match="damaged"):
        cw.load(tmp_path / "model")


# ---- classifiers of scikit-learn ----------------------------------------------------------------------------------


class OneColumn(LogisticRegression):
    def predict_proba(self, X: Any) -> Any:
        return super().predict_proba(X)[:, :1]


class NoNumber(LogisticRegression):
    def predict_proba(self, X: Any) -> Any:
        return super().predict_proba(X) * np.nan


@pytest.mark.parametrize(
    ("classifier", "message"),
    [
        (LogisticRegression, "must be a scikit-learn classifier"),
        (LogisticRegression(C=-1), "cannot be fitted"),
        (OneColumn(), "no probability of every class"),
        (NoNumber(), "no probability of every class"),
    ],
    ids=["class", "its parameters", "a column", "NaN"],
)
def test_classifiers_that_cannot_be_used(classifier: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        cw.GeneralizedEm(classifier=classifier).fit(DATA.X, DATA.labels)


def test_a_classifier_that_needs_two_classes_but_meets_one() -> None:
    everyone = np.arange(24)
    labels = CrowdLabels.from_codes(everyone, everyone % 2, everyone * 0, tasks=24, workers=2, classes=2)
    with pytest.raises(InputError, match="to 1 classes of 24 tasks"):
        cw.GeneralizedEm(classifier=LogisticRegression()).fit(DATA.X, labels)


@pytest.mark.parametrize(
    "model", [cw.GeneralizedEm(smoothing=1e39), cw.BayesDgc(share_prior=1e39)], ids=lambda m: m.slug
)
def test_parameters_beyond_32_bits(model: Any) -> None:
    """They gave posteriors that were no numbers, or torch's own error."""
    with pytest.raises(InputError, match=r"is 1e\+39; learners compute with 32 bits: it must be at most 1e\+38"):
        model.set_params(**QUICK).fit(DATA.X, DATA.labels)


def test_more_devices_than_there_are() -> None:
    """Each is a process."""
    with pytest.raises(InputError, match="devices is 1000000; with device='cpu' there may be"):
        fitted(devices=10**6)
