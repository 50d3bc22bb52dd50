"""Features from what users have, names of rows, and networks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset

from crowdwise.labels import CrowdLabels, InputError
from crowdwise.learn import features as module
from crowdwise.learn.alignment import true_classes
from crowdwise.learn.features import HeldFeatures, StreamedFeatures, make_features
from crowdwise.learn.networks import NETWORKS, Classifier, build_network

ROWS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])


if TYPE_CHECKING:
    from pathlib import Path


def whole(given: Any) -> Any:
    found = make_features(given)
    return torch.cat(list(found.batches(torch.arange(len(found)), 2))).numpy()


@pytest.mark.parametrize(
    "given",
    [
        ROWS,
        ROWS.astype(np.float16),
        ROWS.astype(int),
        ROWS.tolist(),
        torch.tensor(ROWS, requires_grad=True),
        pd.DataFrame(ROWS, columns=["a", "b"]),
        pl.DataFrame(ROWS, schema=["a", "b"]),
        scipy.sparse.csr_matrix(ROWS),
        scipy.sparse.coo_array(ROWS),
        ROWS.astype(object),
        pd.DataFrame(ROWS),  # whose columns are called 0 and 1
        pd.DataFrame(ROWS, columns=["a", 1]),
    ],
    ids=[
        "float64",
        "float16",
        "int",
        "lists",
        "tensor",
        "pandas",
        "polars",
        "csr",
        "coo",
        "object",
        "numbered",
        "both",
    ],
)
def test_rows_of_every_kind(given: Any) -> None:
    found = whole(given)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, ROWS.astype(np.float32))


@pytest.mark.parametrize("shape", [(4, 8, 6), (4, 8, 6, 3), (4, 3, 8, 6)], ids=["grey", "channels last", "first"])
def test_images_of_bytes(shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(0).integers(256, size=shape, dtype=np.uint8)
    found = make_features(pixels)
    assert isinstance(found, HeldFeatures)
    assert found.values.dtype == torch.uint8
    assert found.shape == ((1, 8, 6) if len(shape) == 3 else (3, 8, 6))
    expected = {3: pixels[:, None], 4: pixels if shape[1] == 3 else np.moveaxis(pixels, -1, 1)}[len(shape)]
    np.testing.assert_allclose(whole(pixels), expected / 255, atol=1e-7)


def test_batches_follow_the_order() -> None:
    found = list(make_features(ROWS).batches(torch.tensor([2, 0, 1]), 2))
    assert [len(x) for x in found] == [2, 1]
    np.testing.assert_array_equal(torch.cat(found).numpy(), ROWS[[2, 0, 1]])


def test_moments_scale_rows_and_channels() -> None:
    mean, deviation = make_features(np.column_stack([ROWS, [6.0, 6.0, 6.0]])).moments()
    np.testing.assert_allclose(mean, [3, 13 / 3, 6])
    alike = np.sqrt((8 / 3 + ROWS[:, 1].var()) / 2)  # features of one kind share a deviation
    np.testing.assert_allclose(deviation, [alike, alike, 1])  # what is constant is left alone
    units = np.column_stack([ROWS[:, 0], 1e4 * ROWS[:, 1]])
    np.testing.assert_allclose(make_features(units).moments()[1], units.std(axis=0), rtol=1e-6)  # others have their own
    pixels = np.random.default_rng(1).random((5, 3, 6, 7))
    mean, deviation = make_features(torch.tensor(pixels)).moments()
    assert mean.shape == (3, 1, 1)
    np.testing.assert_allclose(mean[:, 0, 0], pixels.mean(axis=(0, 2, 3)), atol=1e-6)
    np.testing.assert_allclose(deviation[:, 0, 0], np.full(3, np.sqrt(pixels.var(axis=(0, 2, 3)).mean())), atol=1e-6)


class _Set(Dataset[Any]):
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


def test_datasets_are_streamed() -> None:
    for items in (list(ROWS), [(row, 0) for row in torch.tensor(ROWS)], [[row] for row in ROWS]):
        found = make_features(_Set(items))
        assert isinstance(found, StreamedFeatures)
        assert found.shape == (2,)
        order = torch.tensor([2, 0])
        np.testing.assert_array_equal(torch.cat(list(found.batches(order, 1))), ROWS[[2, 0]].astype(np.float32))
    mean, _ = found.moments()
    np.testing.assert_allclose(mean, ROWS.mean(axis=0), atol=1e-6)
    doubled = found.to(torch.device("cpu"), torch.float64)
    assert next(doubled.batches(torch.arange(2), 2)).dtype == torch.float64


class _Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(ROWS)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.arange(3.0), r"shape \(3,\); there must be one row for each task"),
        (np.empty((0, 2)), r"shape \(0, 2\)"),
        (np.empty((2, 0)), r"at least one column"),
        (np.array([[1.0, 2.0], [np.nan, 1.0]]), "row 1 hold a missing or infinite value"),
        (np.array([[np.inf, 2.0]]), "row 0 hold"),
        (np.array([["a", "b"]]), "must be numbers"),
        (pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), "Turn text into numbers first"),
        ([[1, 2], [3]], "rows have different lengths"),
        (np.array([[1 + 2j]]), "must be numbers, not complex128"),
        (_Set([]), "no length or is empty"),
        (_Endless(), "map-style Dataset is needed"),
    ],
)
def test_bad_features(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_features(given)


@pytest.mark.parametrize(
    ("layout", "name", "values"),
    [
        ("csr", "indices", [0, -1, 0]),
        ("csr", "indices", [0, 10**6, 0]),
        ("csr", "indptr", [0, 10**6, 2, 3]),
        ("csr", "indptr", [0, 10**6, 10**6, 0]),
        ("csc", "indices", [0, -1, 0]),
        ("csc", "indptr", [0, 10**6, 0]),
        ("bsr", "indices", [0, -1, 0]),
        ("coo", "col", [0, -1, 0]),
        ("coo", "row", [0, 10**6, 0]),
    ],
)
def test_positions_outside_a_sparse_matrix(layout: str, name: str, values: list[int], tmp_path: Path) -> None:
    """scipy fills the dense array without a look at them."""
    made = scipy.sparse.csr_matrix(([1.0, 1.0, 1.0], ([0, 1, 2], [0, 1, 0])), shape=(3, 2)).asformat(layout)
    scipy.sparse.save_npz(tmp_path / "good.npz", made, compressed=False)
    assert make_features(tmp_path / "good.npz").shape == (2,)
    with np.load(tmp_path / "good.npz") as stored:
        arrays = {each: stored[each] for each in stored.files}
    arrays[name] = np.array(values, arrays[name].dtype)
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(InputError, match=r"sparse matrix of features is damaged|cannot be read as NumPy's"):
        make_features(tmp_path / "bad.npz")


@pytest.mark.filterwarnings("ignore:Sparse CS")
def test_positions_outside_a_sparse_tensor() -> None:
    for made in (
        torch.sparse_coo_tensor(torch.tensor([[0, 5], [0, 1]]), torch.ones(2), (2, 2), check_invariants=False),
        torch.sparse_csr_tensor(
            torch.tensor([0, 1, 2]), torch.tensor([0, -9]), torch.ones(2), (2, 2), check_invariants=False
        ),
    ):
        with pytest.raises(InputError, match="cannot be read from this tensor"):
            make_features(made)


def test_sparse_features_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_DENSE", 20)
    with pytest.raises(InputError, match=r"sparse matrix of shape \(3, 2\) would fill .*TruncatedSVD"):
        make_features(scipy.sparse.csr_matrix(ROWS))


# ---- names --------------------------------------------------------------------------------------------------------


def learnt(labels: CrowdLabels, **given: Any) -> Any:
    import crowdwise as cw

    model = cw.TraceRegularized(network="linear", epochs=1, device="cpu")
    return model.fit(np.arange(8.0).reshape(4, 2), labels, **given)


@pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")
def test_rows_are_found_by_name() -> None:
    labels = CrowdLabels.from_arrays(["c", "a", "a", "d"], ["w", "w", "v", "v"], ["yes", "no", "no", "yes"])
    model = learnt(labels, tasks=["a", "b", "c", "d"])
    assert model.tasks_.tolist() == ["a", "b", "c", "d"]
    assert model.labels_per_task_.tolist() == [2, 0, 1, 1]
    numbers = CrowdLabels.from_arrays(["2", "0", "0", "3"], ["w", "w", "v", "v"], ["yes", "no", "no", "yes"])
    assert learnt(numbers).labels_per_task_.tolist() == [2, 0, 1, 1]
    np.testing.assert_array_equal(learnt(numbers).posterior_, model.posterior_)


@pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_name_their_rows_and_columns(kind: Any, tmp_path: Path) -> None:
    import crowdwise as cw

    labels = CrowdLabels.from_arrays(["c", "a", "a", "d"], ["w", "w", "v", "v"], ["yes", "no", "no", "yes"])
    frame = kind({"one": [0.0, 2, 4, 6], "task": ["a", "b", "c", "d"], "two": [1.0, 3, 5, 7]})
    model = cw.TraceRegularized(network="linear", epochs=1, device="cpu").fit(frame, labels)
    assert (model.columns_, model.shape_) == (("one", "two"), (2,))
    np.testing.assert_array_equal(model.posterior_, learnt(labels, tasks=["a", "b", "c", "d"]).posterior_)
    model.save(tmp_path / "model")
    for fitted in (model, cw.load(tmp_path / "model")):
        np.testing.assert_array_equal(fitted.predict(frame), fitted.predict(np.arange(8.0).reshape(4, 2)))
        with pytest.raises(InputError, match="Column 1 of the features is 'two'; in training it was 'one'"):
            fitted.predict(kind({"two": [1.0], "one": [0.0]}))


def test_names_that_cannot_be_matched() -> None:
    labels = CrowdLabels.from_arrays(["c", "a"], ["w", "w"], ["yes", "no"])
    with pytest.raises(InputError, match=r"no names\. Give them in tasks="):
        learnt(labels)
    with pytest.raises(InputError, match="1 of 2 tasks have labels but no features: 'c'"):
        learnt(labels, tasks=["a", "b", "x", "y"])
    with pytest.raises(InputError, match="tasks names 2 rows, but the features have 4"):
        learnt(labels, tasks=["a", "c"])
    with pytest.raises(InputError, match="Task 4 is no row of the features, which are numbered 0 to 3"):
        learnt(CrowdLabels.from_arrays([0, 4], ["w", "w"], [0, 1]))


def test_true_classes_by_name() -> None:
    classes = pa.array(["no", "yes"])
    assert true_classes(pd.Series(["yes", "no"]), classes, 2).tolist() == [1, 0]
    assert true_classes([1, 0], pa.array([0, 1]), 2).tolist() == [1, 0]
    with pytest.raises(InputError, match=r"shape \(2, 1\); give one for each row"):
        true_classes(pd.DataFrame({"label": ["yes", "no"]}), classes, 2)
    with pytest.raises(InputError, match="2 true labels for 3 rows"):
        true_classes(["yes", "no"], classes, 3)
    with pytest.raises(InputError, match="classes that no worker used: 'maybe'"):
        true_classes(["maybe", "no"], classes, 2)


# ---- networks -----------------------------------------------------------------------------------------------------


def conv(before: int, after: int) -> int:
    return 9 * before * after + after


POOLED = conv(3, 32) + 2 * 32 + conv(32, 32) + conv(32, 64) + conv(64, 64) + 128 * 8 + 8  # the rest depends on the size
CNN = conv(1, 32) + conv(32, 32) + conv(32, 64) + conv(64, 64) + 64 * 10 + 10


@pytest.mark.parametrize(
    ("name", "shape", "parameters"),
    [
        ("linear", (512,), 512 * 8 + 8),
        ("mlp", (512,), 512 * 128 + 128 + 128 * 8 + 8),
        ("cnn", (1, 28, 28), CNN - 2 * 65),
        ("cnn-pooled", (3, 32, 32), POOLED + 64 * 2 * 2 * 128 + 128),
        ("cnn-pooled", (3, 150, 150), POOLED + 64 * 7 * 7 * 128 + 128),
        ("resnet-9", (3, 32, 32), 6_573_130 - 2 * 513),
        ("resnet-18", (3, 32, 32), 11_173_962 - 2 * 513),
        ("resnet-50", (3, 32, 32), 23_520_842 - 2 * 2049),
        ("vgg-16", (3, 32, 32), 14_718_912 + 512 * 8 + 8),
    ],
)
def test_networks(name: str, shape: tuple[int, ...], parameters: int) -> None:
    network = NETWORKS[name](shape, 8).eval()
    seen = Classifier(network).logits_and_representation(torch.zeros(2, *shape))
    assert seen.logits.shape == (2, 8)
    assert seen.features.ndim == 2
    assert sum(parameter.numel() for parameter in network.parameters()) == parameters


def test_pooling_before_relu_is_the_programs_network() -> None:
    """Kim et al.'s program: ReLU, pooling, batch normalisation; four convolutions, 128 units, dropout, logits."""
    network = NETWORKS["cnn-pooled"]((3, 150, 150), 2).eval()
    modules = [type(module).__name__ for module in network]  # type: ignore[attr-defined]
    block = ["Conv2d", "MaxPool2d", "ReLU"]
    assert modules == [*block, "BatchNorm2d", *block * 3, "Flatten", "Linear", "ReLU", "Dropout", "Linear"]
    x = torch.randn(2, 3, 150, 150, generator=torch.Generator().manual_seed(0))
    out = x
    for at in (0, 4, 7, 10):
        out = nn.functional.max_pool2d(network[at](out).relu(), 2)  # type: ignore[index]
        out = network[3](out) if at == 0 else out  # type: ignore[index]
    out = network[17](network[14](out.flatten(1)).relu())  # type: ignore[index]
    torch.testing.assert_close(network(x), out)


def test_what_the_last_layer_saw() -> None:
    network = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3))
    x = torch.tensor(ROWS).float()
    seen = Classifier(network).logits_and_representation(x)
    torch.testing.assert_close(seen.features, network[1](network[0](x)))
    torch.testing.assert_close(seen.logits, network[2](seen.features))


def test_networks_by_default_and_scaling() -> None:
    rows = build_network(None, make_features(ROWS), 2)
    assert isinstance(rows.network[1], nn.Linear)  # type: ignore[index]
    assert rows.network[1].out_features == 128  # type: ignore[index]
    images = build_network(None, make_features(np.zeros((2, 9, 9), np.uint8)), 2)
    assert isinstance(images.network[0], nn.Conv2d)  # type: ignore[index]
    scaled = (torch.tensor(ROWS).float() - rows.mean) / rows.deviation
    np.testing.assert_allclose(scaled.mean(dim=0), 0, atol=1e-6)
    own = nn.Linear(2, 2)
    copy = build_network(own, make_features(ROWS), 2)
    assert copy.mean is None
    assert copy.network is not own


@pytest.mark.parametrize("name", ["cnn", "cnn-pooled", "resnet-9", "resnet-18", "resnet-50", "vgg-16"])
def test_images_are_needed(name: str) -> None:
    with pytest.raises(InputError, match=f"network '{name}' is for images"):
        build_network(name, make_features(ROWS), 2)


def test_small_images_are_refused() -> None:
    with pytest.raises(InputError, match=r"8 × 8 pixels are too few. Use cnn"):
        NETWORKS["cnn-pooled"]((1, 8, 8), 2)


@pytest.mark.parametrize("kind", [np.complex128, "U8"])
def test_a_sparse_matrix_of_no_numbers(kind: object) -> None:
    made = scipy.sparse.csr_matrix(np.eye(3))
    made.data = made.data.astype(kind)
    with pytest.raises(InputError, match="not real numbers"):
        make_features(made)


def test_a_sparse_matrix_of_numbers_too_large() -> None:
    with pytest.raises(InputError):
        make_features(scipy.sparse.csr_matrix(np.diag([1e308, 1.0, 1.0])))


def test_a_pointer_whose_difference_overflows() -> None:
    made = scipy.sparse.csr_matrix(np.eye(3))
    made.indptr = np.array([0, 1, -(2**31), -(2**31)], np.int32)
    with pytest.raises(InputError, match="do not rise from 0"):
        make_features(made)
