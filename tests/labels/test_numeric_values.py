"""Numbers that are values are told from numbers that are the codes of classes."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.labels import CrowdLabels, InputError, read_labels
from crowdwise.labels.numeric_values import explain_numeric_values, measure_agreement
from crowdwise.labels.wide_tables import labels_from_nested
from crowdwise.metrics import krippendorff_alpha

if TYPE_CHECKING:
    from crowdwise.labels.types import IntArray

DATA = Path(os.environ.get("CROWDWISE_DATA", "no data"))


def table(task: IntArray, label: Any) -> dict[str, Any]:
    """Every answer by a worker of its own within the task."""
    return {"task": task, "worker": np.arange(task.size) - np.searchsorted(task, task), "label": label}


def ratings(n_tasks: int, n_labels: int, noise: float, step: int, rng: np.random.Generator) -> dict[str, Any]:
    """Answers from 0 to 100 around a true value."""
    task = np.repeat(np.arange(n_tasks), n_labels)
    value = rng.normal(50, 25, n_tasks)[task] + rng.normal(0, noise, task.size)
    return table(task, (np.round(np.clip(value, 0, 100) / step) * step).astype(int))


def classes(n_classes: int, n_tasks: int, n_labels: int, skill: float, rng: np.random.Generator) -> dict[str, Any]:
    """Answers that are right with chance `skill`, and otherwise confuse each class with a few others."""
    truth = rng.permutation(np.arange(n_tasks) % n_classes)
    task = np.repeat(np.arange(n_tasks), n_labels)
    often = rng.dirichlet(np.full(n_classes, 0.3), n_classes).cumsum(axis=1)
    wrong = (rng.random(task.size)[:, None] > often[truth[task]]).sum(axis=1).clip(max=n_classes - 1)
    return table(task, np.where(rng.random(task.size) < skill, truth[task], wrong))


@pytest.mark.parametrize("step", [1, 5])
@pytest.mark.parametrize("noise", [3, 15, 40])
@pytest.mark.parametrize(("n_tasks", "n_labels"), [(50, 3), (600, 3), (1500, 10)])
def test_ratings_are_values_however_noisy(n_tasks: int, n_labels: int, noise: float, step: int) -> None:
    for seed in range(5):
        source = ratings(n_tasks, n_labels, noise, step, np.random.default_rng(seed))
        size = len(np.unique(source["label"]))
        with pytest.raises(InputError, match=f"{size} distinct numbers among {n_tasks * n_labels:,} labels"):
            read_labels(source)
        assert read_labels(source, kind="labels").n_classes == size


@pytest.mark.parametrize("skill", [0.4, 0.6, 0.9])
@pytest.mark.parametrize(("n_classes", "n_tasks", "n_labels"), [(15, 300, 5), (200, 1000, 5), (200, 4000, 2)])
def test_codes_of_classes_are_classes(n_classes: int, n_tasks: int, n_labels: int, skill: float) -> None:
    for seed in range(5):
        source = classes(n_classes, n_tasks, n_labels, skill, np.random.default_rng(seed))
        assert read_labels(source).n_labels == n_tasks * n_labels


def test_classes_are_hardly_ever_asked_about() -> None:
    """At most 5 % of small crowds of poor workers, who agree on nothing: the hardest case."""
    rng = np.random.default_rng(1)
    sizes = [(15, 120), (30, 240), (80, 480)] * 20
    asked = 0
    for n_classes, n_tasks in sizes:
        source = classes(n_classes, n_tasks, 3, 0.3, rng)
        asked += bool(explain_numeric_values(read_labels(source, kind="labels")))
    assert asked <= 3


def test_ten_steps_are_a_scale() -> None:
    rng = np.random.default_rng(0)
    source = ratings(30, 5, 10, 10, rng)
    assert read_labels(source | {"label": np.minimum(source["label"] // 10, 9)}).n_classes <= 10


def test_fractions_are_values() -> None:
    task = np.repeat(np.arange(200), 2)
    with pytest.raises(InputError, match="some are fractions"):
        read_labels(table(task, (task % 12) / 4))


def test_a_few_words_among_numbers_do_not_hide_them() -> None:
    source = ratings(600, 3, 15, 1, np.random.default_rng(0))
    label = [str(each) for each in source["label"]]
    label[:20] = ["don't know"] * 20
    with pytest.raises(InputError, match="look like values"):
        read_labels(source | {"label": label})


def test_every_way_in_asks() -> None:
    source = ratings(60, 3, 15, 1, np.random.default_rng(0))
    long = (source["task"], source["worker"], source["label"])
    matrix = source["label"].reshape(60, 3)
    nested = {f"t{task}": {f"w{who}": int(matrix[task, who]) for who in range(3)} for task in range(60)}
    for read in (
        lambda **kind: CrowdLabels.from_arrays(*long, **kind),
        lambda **kind: CrowdLabels.from_dense(matrix, **kind),
        lambda **kind: read_labels(matrix, **kind),
        lambda **kind: read_labels(nested, **kind),
    ):
        with pytest.raises(InputError, match="look like values"):
            read()
        assert read(kind="labels").n_labels == 180
    assert labels_from_nested(nested, classes=range(101)).n_classes == 101  # declared: no question


@pytest.mark.parametrize(
    "aggregate",
    [
        cw.MajorityVote().fit,
        lambda labels: cw.compare(labels, ["majority-vote"]),
        cw.audit_crowd,
        lambda labels: cw.held_out_log_probability(cw.DawidSkene(), labels),
    ],
)
def test_values_are_not_aggregated_as_classes(aggregate: Any) -> None:
    with pytest.raises(InputError, match=r"kind='labels' in read_labels .* crowdwise.kinds.read_values"):
        aggregate(ratings(60, 3, 15, 1, np.random.default_rng(0)))


def test_new_labels_of_a_fitted_model_are_not_asked_about() -> None:
    model = cw.MajorityVote().fit(classes(15, 300, 5, 0.9, np.random.default_rng(0)))
    new = {"task": np.arange(15), "worker": np.zeros(15, int), "label": np.arange(15)}
    assert model.predict(new).tolist() == list(range(15))


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InputError, match="kind is 'values'; the only kind"):
        read_labels({"task": [1], "worker": [1], "label": [1]}, kind="values")  # type: ignore[arg-type]


def test_agreement_is_krippendorffs() -> None:
    source = ratings(80, 4, 10, 10, np.random.default_rng(3))
    labels = read_labels(source, kind="labels")
    found = measure_agreement(labels.task, labels.label)
    assert found is not None
    assert found.nominal == pytest.approx(krippendorff_alpha(labels))
    assert found.nominal < found.ranks < 1
    assert measure_agreement(np.arange(5), np.arange(5)) is None


@pytest.mark.data
@pytest.mark.parametrize("name", ["emotion_anger", "emotion_joy", "emotion_valence", "wordsim"])
def test_sets_of_values(name: str) -> None:
    file = DATA / name / "labels.csv"
    with file.open(encoding="utf-8") as stream:
        distinct = len({row["label"] for row in csv.DictReader(stream)})
    with pytest.raises(InputError, match=f"{distinct} distinct numbers"):
        read_labels(file)


@pytest.mark.data
@pytest.mark.filterwarnings("ignore::crowdwise.labels.errors.InputWarning")  # zencrowd's pages differ in case
@pytest.mark.parametrize(
    "name",
    ["bluebird", "cifar10h", "dog", "ducks", "fact_eval", "imagenet15n", "labelme", "lewidi_hsbrexit",
     "popquorn_offensive", "rte", "sp", "temp", "web", "zencrowd_us"],
)  # fmt: skip
def test_sets_of_classes(name: str) -> None:
    file = next((DATA / name).glob("labels.csv*"))
    assert read_labels(file, on_duplicate="all").n_classes <= 15
