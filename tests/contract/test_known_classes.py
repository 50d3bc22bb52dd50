"""Workers known from a model with other classes: matched by name, nothing taken as known of a new class."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

import crowdwise as cw
from crowdwise.fitting.prior_knowledge import align_knowledge
from crowdwise.kinds.ordinal import NominalDawidSkene
from crowdwise.labels import InputError

if TYPE_CHECKING:
    from crowdwise.labels import CrowdLabels
    from crowdwise.labels.types import FloatArray


MODEL = SimpleNamespace(
    workers_=np.array(["ann", "bob"], object),
    classes_=np.array(["cat", "dog", "elk"], object),
    confusion_=np.array([
        [[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.3, 0.1, 0.6]],
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    ]),
)  # fmt: skip


def labels_with(classes: list[str], workers: list[str]) -> CrowdLabels:
    task = np.repeat(np.arange(len(classes)), len(workers))
    return cw.read_labels(
        {"task": task, "worker": workers * len(classes), "label": np.array(classes)[task].tolist()}, classes=classes
    )


def counts_of(labels: CrowdLabels, known: object) -> FloatArray:
    found = align_knowledge(
        labels, gold=None, class_prior=None, known_workers=known, known_weight=10.0, slug="any",
        uses=frozenset({"known_workers"}),
    )  # fmt: skip
    assert found.worker_counts is not None
    return found.worker_counts


def test_classes_in_another_order_are_matched_by_name() -> None:
    order = [2, 0, 1]
    counts = counts_of(labels_with(["elk", "cat", "dog"], ["bob", "ann", "new"]), MODEL)
    np.testing.assert_allclose(counts[1], 10 * MODEL.confusion_[0][np.ix_(order, order)])
    np.testing.assert_allclose(counts[0], 10 * np.eye(3))
    assert not counts[2].any()


def test_of_a_new_class_nothing_is_known() -> None:
    counts = counts_of(labels_with(["cat", "dog", "elk", "fox"], ["ann", "bob"]), MODEL)
    np.testing.assert_allclose(counts[:, :3, :3], 10 * MODEL.confusion_)
    assert not counts[:, 3].any()  # what they say of foxes
    np.testing.assert_allclose(counts[0, :3, 3], [1.0, 1.5, 2.0])  # as often as another wrong answer
    np.testing.assert_allclose(counts[1, :3, 3], 0)


def test_a_class_that_is_no_more_is_left_out() -> None:
    counts = counts_of(labels_with(["dog", "cat"], ["ann", "bob"]), MODEL)
    np.testing.assert_allclose(counts[0], [[7, 1], [1.5, 8]])


def test_other_classes_altogether_are_refused() -> None:
    with pytest.raises(InputError, match=r"classes 'cat', 'dog', 'elk'; these labels have none of them, but 'x', 'y'"):
        counts_of(labels_with(["x", "y"], ["ann"]), MODEL)
    with pytest.raises(InputError, match="None of the known workers"):
        counts_of(labels_with(["cat", "fox"], ["zoe"]), MODEL)


def test_a_mapping_keeps_the_shape_of_the_labels() -> None:
    with pytest.raises(InputError, match=r"the matrix of 'ann' must have shape \(4, 4\)"):
        counts_of(labels_with(["cat", "dog", "elk", "fox"], ["ann"]), {"ann": MODEL.confusion_[0]})


@pytest.mark.parametrize("slug", ["dawid-skene", "mean-field", "auto"])
def test_a_spammer_known_from_before_counts_less_where_a_class_is_new(slug: str) -> None:
    """Of three workers two always say class 0; the model of the first project knows it."""
    rng = np.random.default_rng(0)
    good, spam = ["ann"], ["sid", "sam"]

    def project(n_classes: int, n_tasks: int, prefix: str) -> tuple[CrowdLabels, np.ndarray]:
        truth = rng.integers(0, n_classes, n_tasks)
        rows = [(f"{prefix}{task}", who, f"class {true if who in good else 0}")
                for task, true in enumerate(truth) for who in good + spam]  # fmt: skip
        task, worker, label = zip(*rows, strict=True)
        classes = [f"class {each}" for each in range(n_classes)]
        return cw.read_labels({"task": task, "worker": worker, "label": label}, classes=classes), truth

    first, truth = project(3, 90, "a")
    gold = {f"a{task}": f"class {true}" for task, true in enumerate(truth)}
    model = cw.DawidSkene().fit(first, gold=gold)
    second, truth = project(4, 40, "b")
    found = cw.method(slug).load()().fit(second, known_workers=model, known_weight=50)
    right = np.array([f"class {true}" for true in truth])
    old = truth < 3
    assert (found.predict() == right)[old].mean() > 0.9
    assert (cw.MajorityVote().fit(second).predict() == right)[old].mean() < 0.6


def test_shares_in_a_series_go_by_their_names() -> None:
    labels = labels_with(["cat", "dog"], ["ann", "bob"])

    def shares_of(given: object) -> list[float]:
        found = align_knowledge(
            labels, gold=None, class_prior=given, known_workers=None, known_weight=10.0, slug="any",
            uses=frozenset({"class_prior"}),
        )  # fmt: skip
        assert found.class_prior is not None
        return found.class_prior.tolist()

    assert shares_of(pd.Series({"dog": 0.25, "cat": 0.75})) == [0.75, 0.25]
    assert shares_of(pd.Series([0.75, 0.25])) == [0.75, 0.25]
    with pytest.raises(InputError, match="names a class more than once"):
        shares_of(pd.Series([0.5, 0.5], index=["cat", "cat"]))
    with pytest.raises(InputError, match="class_prior has masked entries"):
        shares_of(np.ma.array([0.75, 0.25], mask=[False, True]))


def test_shares_in_a_series_that_was_turned_round() -> None:
    """Its index counts down: names, not the order that pandas gives where there are none."""
    labels = cw.read_labels({"task": [0, 0, 1, 1], "worker": ["a", "b"] * 2, "label": [0, 1, 1, 1]})
    found = align_knowledge(
        labels, gold=None, class_prior=pd.Series([0.75, 0.25]).iloc[::-1], known_workers=None, known_weight=10.0,
        slug="any", uses=frozenset({"class_prior"}),
    )  # fmt: skip
    assert found.class_prior is not None
    assert found.class_prior.tolist() == [0.75, 0.25]


def test_matrices_in_a_frame_go_by_their_names() -> None:
    labels = labels_with(["cat", "dog"], ["ann", "bob"])
    frame = pd.DataFrame([[0.9, 0.1], [0.3, 0.7]], ["cat", "dog"], ["cat", "dog"])
    expected = counts_of(labels, {"ann": frame.to_numpy()})
    turned = frame.loc[["dog", "cat"], ["dog", "cat"]]
    for given in (frame, turned, frame.iloc[::-1], pd.DataFrame(frame.to_numpy())):
        np.testing.assert_array_equal(counts_of(labels, {"ann": given}), expected)
    with pytest.raises(InputError, match="both must be the classes, 'cat', 'dog'"):
        counts_of(labels, {"ann": frame.rename(index={"cat": "elk"})})
    with pytest.raises(InputError, match="known_workers is empty"):
        counts_of(labels, {})


def test_known_workers_of_a_model_without_labels_are_refused() -> None:
    grades = {"task": [1, 1, 2, 2], "worker": ["ann", "bob"] * 2, "grade": [1, 2, 3, 3]}
    model = NominalDawidSkene().fit(grades)
    with pytest.raises(cw.InputError, match="known_workers is a NominalDawidSkene, a model of answers that are no"):
        cw.DawidSkene().fit(labels_with(["cat", "dog"], ["ann", "bob"]), known_workers=model)
    with pytest.raises(cw.InputError, match="known_workers must be a fitted model"):
        cw.DawidSkene().fit(labels_with(["cat", "dog"], ["ann", "bob"]), known_workers=cw.DawidSkene)
