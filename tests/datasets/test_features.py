"""Features go with the tasks that they are features of."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from crowdwise.datasets import load
from crowdwise.datasets.features import load_features
from crowdwise.labels.errors import InputError
from crowdwise.reproduction.problems import make_problem

on_real_data = pytest.mark.skipif(not os.environ.get("CROWDWISE_DATA"), reason="CROWDWISE_DATA is not set")

LABELS = "task,worker,label\nb,w,cat\nb,v,dog\na,w,dog\nc,v,cat\n"
TRUTH = "task,label\na,dog\nb,cat\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A crowd whose labels name the tasks b, a, c, and whose features come as a, b, c."""
    monkeypatch.setenv("CROWDWISE_DATA", str(tmp_path))
    home = tmp_path / "pets"
    home.mkdir()
    (home / "labels.csv").write_text(LABELS)
    (home / "truth.csv").write_text(TRUTH)
    return home


def write(folder: Path, **changes: object) -> None:
    arrays = {
        "X_train": np.array([[1.0], [2.0], [3.0]]),
        "id_train": np.array(["a", "b", "c"]),
        "X_test": np.array([[7.0], [8.0]]),
        "y_test": np.array([0, 1]),
        "classes": np.array(["dog", "cat"]),
    }
    np.savez(folder / "features.npz", **{name: each for name, each in (arrays | changes).items() if each is not None})


def test_rows_follow_the_names_and_classes_those_of_the_labels(folder: Path) -> None:
    write(folder)
    real = load("pets")
    found = load_features(real)
    assert found is not None
    rows = dict(zip(real.labels.tasks.to_pylist(), found.x[:, 0].tolist(), strict=True))
    assert rows == {"a": 1.0, "b": 2.0, "c": 3.0}
    assert found.valid is None
    assert found.test is not None
    assert [real.labels.classes.to_pylist()[code] for code in found.test[1]] == ["dog", "cat"]


def test_a_problem_keeps_features_labels_and_truth_together(folder: Path) -> None:
    write(folder)
    truth = {"a": "dog", "b": "cat", "c": None}
    feature = {"a": 1.0, "b": 2.0, "c": 3.0}
    for seed in range(4):
        problem = make_problem({"name": "pets", "train": 2, "test": 1}, {}, seed)
        names = problem.labels.tasks.to_pylist()
        classes = problem.labels.classes.to_pylist()
        assert problem.x[:, 0].tolist() == [feature[name] for name in names]
        assert [None if code < 0 else classes[code] for code in problem.truth] == [truth[name] for name in names]
        assert problem.test is not None
        assert problem.test[0].tolist() == [[7.0]]


def test_a_task_without_a_truth_validates_nothing(folder: Path) -> None:
    write(folder)
    held = [make_problem({"name": "pets", "validation": 0.34}, {}, seed).valid for seed in range(12)]
    seen = {float(each[0][0, 0]) for each in held if each is not None}
    assert seen == {1.0, 2.0}
    assert any(each is None for each in held)


def test_no_file_no_features(folder: Path) -> None:
    assert load_features(load("pets")) is None
    assert make_problem({"name": "pets"}, {}, 0).x is None


def test_what_does_not_fit_is_named(folder: Path) -> None:
    write(folder, id_train=np.array(["a", "b", "x"]))
    with pytest.raises(InputError, match=r"^pets has no features of 1 of its tasks: 'c'"):
        load_features(load("pets"))
    write(folder, classes=np.array(["dog", "cow"]))
    with pytest.raises(InputError, match=r"^pets has test tasks of classes that its labels do not have: 'cow'"):
        load_features(load("pets"))
    write(folder, y_test=None)
    with pytest.raises(InputError, match=r"^The features of pets lack 'y_test'"):
        load_features(load("pets"))
    write(folder)
    with pytest.raises(InputError, match="no validation set of their own"):
        make_problem({"name": "pets", "validation": "own"}, {}, 0)


@pytest.mark.data
@on_real_data
def test_labelme_rows_are_those_that_its_answers_are_of() -> None:
    """The file has the crowd's answers a second time, as a matrix with the rows of the features."""
    with np.load(Path(os.environ["CROWDWISE_DATA"]) / "labelme" / "features.npz", allow_pickle=False) as file:
        answers, x, truth = file["answers"], file["X_train"], file["y_train"]
    problem = make_problem({"name": "labelme", "train": 300, "validation": "own"}, {}, 5)
    labels = problem.labels
    row = {x[number].tobytes(): number for number in range(len(x))}
    at = np.array([row[each.tobytes()] for each in problem.x])
    classes = np.array(labels.classes.to_pylist(), int)
    workers = np.array(labels.workers.to_pylist(), int)
    assert np.array_equal(classes[labels.label], answers[at[labels.task], workers[labels.worker]])
    assert labels.n_labels == int((answers[at] >= 0).sum())
    assert np.array_equal(classes[problem.truth], truth[at])
    assert problem.valid is not None
    assert problem.valid[0].shape == (500, 512)


@pytest.mark.data
@on_real_data
def test_cifar10n_labels_are_of_the_images_that_they_come_with() -> None:
    problem = make_problem({"name": "cifar10n", "train": 2000, "test": 10}, {}, 1)
    known = load("cifar10n")
    from crowdwise.datasets.pictures import load_pictures

    images = load_pictures("cifar10")
    numbers = np.array(problem.labels.tasks.to_pylist(), int)
    assert np.array_equal(problem.x, images.x_train[numbers])
    assert np.array_equal(problem.truth, images.y_train[numbers])
    assert known.labels.n_tasks == len(images.x_train)
    assert np.mean(problem.labels.label == problem.truth[problem.labels.task]) == pytest.approx(0.8233, abs=0.02)
