from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from crowdwise.datasets import available, load, names
from crowdwise.datasets.catalogue import CATALOGUE, OTHER_KINDS
from crowdwise.datasets.folders import folders
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

LABELS = "task,worker,label\na,ann,1\na,bob,3\nb,ann,1\nc,bob,3\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two empty folders: data and cache."""
    monkeypatch.setenv("CROWDWISE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def put(folder: Path, labels: str = LABELS, truth: str | None = None) -> None:
    folder.mkdir(parents=True)
    (folder / "labels.csv").write_text(labels)
    if truth is not None:
        (folder / "truth.csv").write_text(truth)


def test_truth_is_laid_beside_the_tasks(home: Path) -> None:
    put(home / "data" / "mine", truth="task,label\nc,3\na,1\n")
    dataset = load("mine")
    assert dataset.labels.classes.to_pylist() == [1, 3]
    assert dataset.truth_codes.tolist() == [0, -1, 1]
    assert repr(dataset).endswith("truth of 2 tasks")


def test_a_class_that_nobody_said_is_declared_in_its_place(home: Path) -> None:
    put(home / "data" / "mine", truth="task,label\na,2\nb,1\n")
    dataset = load("mine")
    assert dataset.labels.classes.to_pylist() == [1, 2, 3]
    assert dataset.truth_codes.tolist() == [1, 0, -1]
    assert dataset.labels.label.tolist() == [0, 2, 0, 2]


def test_a_truth_of_words_joins_classes_of_numbers(home: Path) -> None:
    put(home / "data" / "mine", truth="task,label\na,none\nb,1\n")
    dataset = load("mine")
    assert dataset.labels.classes.to_pylist() == ["1", "3", "none"]
    assert dataset.truth_codes.tolist() == [2, 0, -1]


def test_a_task_with_a_truth_but_no_label_stays_in_the_table_only(home: Path) -> None:
    put(home / "data" / "mine", truth="task,label\nz,1\na,3\na,3\n")
    dataset = load("mine")
    assert dataset.truth is not None
    assert dataset.truth.to_pydict() == {"task": ["z", "a"], "label": [1, 3]}
    assert dataset.truth_codes.tolist() == [1, -1, -1]


def test_gzipped_files_and_the_cache_folder(home: Path) -> None:
    folder = home / "cache" / "crowdwise" / "mine"
    folder.mkdir(parents=True)
    (folder / "labels.csv.gz").write_bytes(gzip.compress(LABELS.encode()))
    (folder / "truth.csv.gz").write_bytes(gzip.compress(b"task,label\nb,1\n"))
    assert load("mine").truth_codes.tolist() == [-1, 0, -1]
    assert available() == ["anaesthetists", "mine"]
    put(home / "data" / "mine")  # CROWDWISE_DATA comes first
    assert load("mine").truth is None


def test_without_truth(home: Path) -> None:
    put(home / "data" / "mine")
    dataset = load("mine")
    assert dataset.truth is None
    assert dataset.truth_codes.tolist() == [-1, -1, -1]


def test_repeated_answers_are_kept_where_the_catalogue_says_so(home: Path) -> None:
    twice = LABELS + "c,bob,1\n"
    put(home / "data" / "zencrowd_us", twice)
    assert len(load("zencrowd_us").labels) == 5
    put(home / "data" / "sp", twice)
    with pytest.raises(InputError, match="repeat an earlier one"):
        load("sp")


@pytest.mark.parametrize(
    ("truth", "message"),
    [
        ("task,truth\na,1\n", "has the columns 'task', 'truth'; the truth needs 'task' and 'label'"),
        ("task,label\na,1\na,3\n", "gives two truths to 1 tasks: 'a'"),
        ("task,label\na,\n", "lines without a task or a label"),
        ("task,label\na,1,2\n", "cannot be read as CSV"),
        ("", "cannot be read as CSV"),
    ],
)
def test_a_bad_truth_file_is_named(home: Path, truth: str, message: str) -> None:
    put(home / "data" / "mine", truth=truth)
    with pytest.raises(InputError, match=message) as caught:
        load("mine")
    assert str(home / "data" / "mine" / "truth.csv") in str(caught.value)


def test_a_missing_data_set_says_what_to_put_where(home: Path) -> None:
    with pytest.raises(InputError) as caught:
        load("bluebird")
    message = str(caught.value)
    for part in (
        "The data set 'bluebird' is not on this machine",
        "columns task, worker, label",
        str(home / "data" / "bluebird" / "labels.csv"),
        str(home / "data" / "bluebird" / "truth.csv"),
        f"Searched: {home / 'data'}, {home / 'cache' / 'crowdwise'}",
        "Welinder",
    ):
        assert part in message


def test_a_missing_data_set_says_that_the_variable_is_not_set(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CROWDWISE_DATA")
    with pytest.raises(InputError, match="the environment variable CROWDWISE_DATA is not set") as caught:
        load("popquorn_offensive")
    assert "truth.csv" not in str(caught.value)  # it has none
    assert str(home / "cache" / "crowdwise" / "popquorn_offensive" / "labels.csv") in str(caught.value)


@pytest.mark.parametrize("name", ["blubird", "../data/bluebird", "", "/etc", "a\nb"])
def test_an_unknown_name_lists_the_known_ones(home: Path, name: str) -> None:
    put(home / "data" / "bluebird")
    with pytest.raises(InputError, match="There is no data set") as caught:
        load(name)
    message = str(caught.value)
    assert "\n" not in message
    assert all(known in message for known in names())
    if name == "blubird":
        assert "Did you mean 'bluebird'?" in message


def test_ratings_are_not_loaded_as_classes(home: Path) -> None:
    put(home / "data" / "wordsim")
    with pytest.raises(InputError, match="'wordsim' holds ratings from 0 to 10, not class labels"):
        load("wordsim")
    assert available() == ["anaesthetists"]


def test_folders(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert folders() == [home / "data", home / "cache" / "crowdwise"]
    monkeypatch.delenv("CROWDWISE_DATA")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(home))
    assert folders() == [home / ".cache" / "crowdwise"]


def test_the_catalogue_is_whole() -> None:
    assert not set(CATALOGUE) & set(OTHER_KINDS)
    assert names() == sorted(CATALOGUE)
    for entry in CATALOGUE.values():
        assert entry.description
        assert entry.citation
        assert (entry.majority_vote is None) == (entry.n_truth == 0)
