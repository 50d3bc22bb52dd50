"""Features from files: arrays, tables and folders of images, lined up with labels by name."""

from __future__ import annotations

import gzip
import os
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from scipy import sparse

import crowdwise as cw
from crowdwise.learn import feature_files, features
from crowdwise.learn.features import HeldFeatures, StreamedFeatures, make_features

if TYPE_CHECKING:
    from pathlib import Path

X = np.array([[1.0, 2.0], [3.0, 4.5], [-1.0, 0.0]], np.float32)
NAMES = ["b", "a", "c"]


def values(features: Any) -> list[Any]:
    found = torch.cat(list(features.batches(torch.arange(len(features)), 2)))
    return found.tolist()


def names(features: Any) -> list[list[Any]]:
    return [each.to_pylist() for each in features.names]


def test_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "one.npz", anything=X)
    np.savez_compressed(tmp_path / "two.npz", X=X, more=X + 1, id=np.array(NAMES))
    sparse.save_npz(tmp_path / "sparse.npz", sparse.csr_matrix(X))
    for file in ("x.npy", "one.npz", "sparse.npz"):
        features = make_features(tmp_path / file)
        assert values(features) == X.tolist()
        assert features.names == ()
    both = make_features(str(tmp_path / "two.npz"))
    assert (values(both), names(both)) == (X.tolist(), [NAMES])
    assert values(make_features(f"{tmp_path / 'two.npz'}:more")) == (X + 1).tolist()


def test_tables(tmp_path: Path) -> None:
    table = pa.table({"one": X[:, 0], "task": NAMES, "two": X[:, 1]})
    pq.write_table(table, tmp_path / "x.parquet")
    pa.feather.write_feather(table, str(tmp_path / "x.arrow"))
    rows = [f"{x},{name},{y}" for (x, y), name in zip(X.tolist(), NAMES, strict=True)]
    text = "\n".join(["one,task,two", *rows]) + "\n"
    (tmp_path / "x.csv").write_text(text)
    (tmp_path / "x.tsv").write_text(text.replace(",", "\t"))
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "x.jsonl").write_text(
        "".join(
            f'{{"task": "{name}", "one": {x}, "two": {y}}}\n' for (x, y), name in zip(X.tolist(), NAMES, strict=True)
        )
    )
    for file in ("x.parquet", "x.arrow", "x.csv", "x.tsv", "x.csv.gz", "x.jsonl"):
        features = make_features(tmp_path / file)
        assert (values(features), names(features)) == (X.tolist(), [NAMES]), file
    (tmp_path / "plain.csv").write_text("one,two\n1,2\n3,4\n")
    assert make_features(tmp_path / "plain.csv").names == ()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: np.savez(f, a=X, b=X), r"more than one that may be the features: 'a', 'b'.*file:a"),
        (lambda f: np.savez(f, a=X[0]), "none with rows and columns"),
        (lambda f: np.savez(f, X=X, tasks=np.arange(2)), "tasks names 2 rows, but there are 3"),
        (lambda f: np.savez(f, X=X, tasks=np.array(["a", "a", "b"])), "The task names repeat 'a'"),
        (lambda f: np.savez(f, X=np.array([[object()]])), "cannot be read as NumPy's: 'Object arrays cannot"),
        (lambda f: f.write(b"PK\x03\x04 nonsense"), "cannot be read as NumPy's"),
        (lambda f: f.write(b"\x93NUMPY\x01\x00"), "cannot be read as NumPy's"),
        (lambda f: np.save(f, X[0]), "there must be one row for each task"),
        (lambda f: np.save(f, np.array([[1.0, np.nan]])), "row 0 hold a missing or infinite value"),
        (lambda f: f.write(b"task,one,word\n1,2,cat\n"), "the column 'word' does not hold numbers"),
        (lambda f: f.write(b"task,one\n1,2\n2,\n"), "the column 'one' has 1 empty cell"),
        (
            lambda f: np.savez(f, X=X, task=np.array(["a", "b", "c"], object)),
            r"Save text as text: names\.astype\(str\)",
        ),
        (lambda f: f.write(b"task,one\n1,2\n1,3\n"), "The task names repeat 1"),
        (lambda f: f.write(b"item,sample,one\n1,2,3\n"), "more than one column that may name the tasks"),
        (lambda f: f.write(b"task,one,one\n1,2,3\n"), "columns of the same name"),
        (lambda f: f.write(b"task\n1\n"), "Features are columns of numbers"),
        (lambda f: f.write(b"task,one\n"), "no rows"),
        (lambda f: f.write(b'{"a": {"b": 1}}'), "nested JSON"),
        (lambda f: f.write(b""), "is empty"),
    ],
)
def test_refused(make: Any, message: str, tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        make(file)
    with pytest.raises(cw.InputError, match=message):
        make_features(tmp_path / "file")


def test_what_is_not_there(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", X=X)
    with pytest.raises(cw.InputError, match="has no array 'Y'; it has 'X'"):
        make_features(f"{tmp_path / 'x.npz'}:Y")
    with pytest.raises(cw.InputError, match="There is no file"):
        make_features(tmp_path / "gone.npz")
    with pytest.raises(cw.InputError, match="An image size is for a folder of images"):
        feature_files.read_features(tmp_path / "x.npz", image_size=8)


# ---- images -------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "images"
    (place / "more").mkdir(parents=True)
    for number, name in enumerate(("b.png", "a.png", "more/c.PNG")):
        Image.fromarray(np.full((4, 6), 50 * number, np.uint8)).save(place / name, format="png")
    (place / "notes.txt").write_text("not an image")
    (place / ".hidden.png").write_text("nor this")
    return place


def test_images(folder: Path) -> None:
    features = make_features(str(folder))
    assert isinstance(features, HeldFeatures)
    assert (features.shape, features.values.dtype) == ((1, 4, 6), torch.uint8)
    assert names(features) == [["a.png", "b.png", "c.PNG"], ["a", "b", "c"]]
    assert [row[0][0][0] for row in values(features)] == pytest.approx([50 / 255, 0, 100 / 255])


def test_colour_size_and_large_folders(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("RGB", (3, 3), (255, 0, 0)).save(folder / "d.jpg")
    with pytest.raises(cw.InputError, match=r"'d.jpg' has 3 × 3 pixels, 'a.png' has 6 × 4.*--image-size"):
        make_features(folder)
    held = feature_files.read_features(folder, image_size=2)
    assert held.shape == (3, 2, 2)
    monkeypatch.setattr(feature_files, "MOST_HELD", 10)
    streamed = feature_files.read_features(folder, image_size=2)
    assert isinstance(streamed, StreamedFeatures)
    assert values(streamed) == values(held)
    assert names(streamed) == names(held)


def test_images_of_one_stem(folder: Path) -> None:
    Image.new("L", (6, 4)).save(folder / "a.jpg")
    assert names(make_features(folder)) == [["a.jpg", "a.png", "b.png", "c.PNG"]]
    Image.new("L", (6, 4)).save(folder / "more" / "a.png")
    with pytest.raises(cw.InputError, match=r"The task names repeat 'a.png'"):
        make_features(folder)


def test_bad_images(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(cw.InputError, match="from 1 to 4096 pixels"):
        feature_files.read_features(folder, image_size=0)
    (tmp_path / "empty").mkdir()
    with pytest.raises(cw.InputError, match="holds no images"):
        make_features(tmp_path / "empty")
    whole = (folder / "b.png").read_bytes()
    for bad in (b"nonsense", whole[: len(whole) - 20]):
        (folder / "b.png").write_bytes(bad)
        with pytest.raises(cw.InputError, match=r"The image 'b\.png' cannot be read"):
            make_features(folder)
    # Where images are streamed, one that is cut short is found when it is needed.
    monkeypatch.setattr(feature_files, "MOST_HELD", 10)
    with pytest.raises(cw.InputError, match=r"The image 'b\.png' cannot be read"):
        values(make_features(folder))
    Image.fromarray(np.zeros((4, 6), np.uint16)).save(folder / "b.png")
    with pytest.raises(cw.InputError, match=r"b\.png' has pixels of type I;16, not of 8 bits"):
        make_features(folder)


# ---- names --------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")
@pytest.mark.parametrize("suffix", ["", ".png"])
def test_learning_from_a_folder(suffix: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(30) % 2
    order = rng.permutation(30)
    for number in order:
        pixels = rng.integers(100, size=(5, 5)) + 150 * truth[number]
        Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / f"{number}.png")
    labels = {
        "task": [f"{task}{suffix}" for task in range(30) for _ in range(2)],
        "worker": ["ann", "bob"] * 30,
        "label": [("dark", "light")[truth[task]] for task in range(30) for _ in range(2)],
    }
    model = cw.TraceRegularized(network="linear", epochs=40, learning_rate=0.05, batch_size=8).fit(tmp_path, labels)
    said = dict(zip(model.tasks_.tolist(), model.predict(tmp_path), strict=True))
    assert said == {f"{task}{suffix}": ("dark", "light")[truth[task]] for task in range(30)}
    shuffled = {name: column[::-1] for name, column in labels.items()}
    np.testing.assert_allclose(model.predict_proba(tmp_path, shuffled), model.posterior_, atol=1e-6)


def test_a_pipe_among_the_images(tmp_path: Path) -> None:
    Image.new("L", (4, 4)).save(tmp_path / "a.png")
    os.mkfifo(tmp_path / "b.png")
    with pytest.raises(cw.InputError, match=r"'b.png' is a pipe, not a plain file"):
        make_features(tmp_path)


def test_labels_of_other_tasks(folder: Path) -> None:
    labels = {"task": ["a", "b", "zebra"], "worker": ["w"] * 3, "label": ["x", "y", "x"]}
    with pytest.raises(
        cw.InputError, match=r"1 of 3 tasks have labels but no features: 'zebra'. The rows of the features are 'a', "
    ):
        cw.TraceRegularized().fit(folder, labels)


def test_arrays_beside_what_is_none(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X", "hello")
    with pytest.raises(cw.InputError, match="holds 'X', which NumPy did not write"):
        feature_files.read_features(path)


def test_names_of_rows_in_a_column(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", values=np.eye(3), task=np.array([[2], [1], [0]]))
    assert feature_files.read_features(tmp_path / "x.npz").names[0].to_pylist() == [2, 1, 0]


def test_names_of_rows_are_read_as_those_of_labels(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("task,a\n'=t0,1\nt1,2\n")
    with pytest.warns(cw.InputWarning, match="They are read without it"):
        assert feature_files.read_features(path).names[0].to_pylist() == ["=t0", "t1"]
    path.write_text("task,a\nt0 ,1\nt0,2\n")
    with pytest.raises(cw.InputError, match="differ only in blanks"):
        feature_files.read_features(path)


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_numbers_of_rows_are_no_feature(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"{name},task,a\n0,t0,1\n1,t1,2\n")
    with pytest.raises(cw.InputError, match="a column without a name"):
        feature_files.read_features(path)


def test_columns_of_different_length(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"task": ["t0", "t1"], "a": [1]}')
    with pytest.raises(cw.InputError, match="the rows are 'task' 2, 'a' 1"):
        feature_files.read_features(path)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_large_arrays_stay_on_the_disk(
    dtype: type[np.generic], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = np.random.default_rng(0).normal(100, 20, size=(300, 7)).astype(dtype)
    np.save(tmp_path / "x.npy", given)
    held = feature_files.read_features(tmp_path / "x.npy")
    moments = held.moments()
    monkeypatch.setattr(feature_files, "MOST_HELD", 100)
    monkeypatch.setattr(features, "MOST_AT_ONCE", 50)  # seven rows, and one left over
    mapped = feature_files.read_features(tmp_path / "x.npy")
    assert isinstance(held, features.HeldFeatures)
    assert isinstance(mapped, features.HeldFeatures)
    order = torch.tensor([299, 3, 3])
    torch.testing.assert_close(next(mapped.batches(order, 3)), next(held.batches(order, 3)), rtol=0, atol=0)
    for found, expected in zip(mapped.moments(), moments, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    assert mapped.digest() == held.digest()
    # What is written to the file is seen: nothing was copied.
    with (tmp_path / "x.npy").open("r+b") as file:
        file.seek(-given.itemsize, 2)
        file.write(np.array([50], dtype).tobytes())
    assert mapped.values[299, 6] == 50
    assert held.values[299, 6] == given[299, 6]


def test_a_mapped_array_is_checked_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = np.zeros((30, 2), np.float32)
    given[23, 1] = np.nan
    np.save(tmp_path / "x.npy", given)
    monkeypatch.setattr(features, "MOST_AT_ONCE", 5)
    with pytest.raises(cw.InputError, match="Features of row 23 hold a missing or infinite value"):
        features.make_features(np.load(tmp_path / "x.npy", mmap_mode="r"))
