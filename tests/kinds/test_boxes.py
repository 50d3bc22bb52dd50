"""Boxes and points: what is read and refused, the likelihood against enumeration, and what is found in known crowds."""

from __future__ import annotations

import itertools
import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import expit
from scipy.stats import norm

import crowdwise as cw
from crowdwise.kinds import read_boxes, read_points, simulate_boxes, simulate_points
from crowdwise.kinds.boxes import BoxClusters, ObjectBoxes, score_boxes
from crowdwise.kinds.boxes.geometry import BoxGeometry, intersection_over_union
from crowdwise.kinds.boxes.grouping import link_marks, regroup, start_grouping
from crowdwise.kinds.boxes.metrics import match_marks
from crowdwise.kinds.boxes.object_em import (
    expect_things,
    group_marks,
    improve,
    log_prior,
    objective,
    start_crowd,
)
from crowdwise.kinds.boxes.object_likelihood import (
    CARELESS,
    LEVELS,
    Grouping,
    log_likelihood,
    visibility_shares,
)
from crowdwise.kinds.boxes.truth import lay_out
from crowdwise.kinds.points import ObjectPoints, score_points
from crowdwise.labels.errors import InputError

CORNERS = ("x_min", "y_min", "x_max", "y_max")


def table(*rows: tuple[Any, ...], names: tuple[str, ...] = ("task", "worker", *CORNERS)) -> dict[str, list[Any]]:
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


SOME = table(
    ("a", "ann", 0, 0, 10, 10), ("a", "ann", 50, 50, 70, 80), ("a", "bob", 1, 0, 11, 10), ("b", "ann", *[None] * 4)
)


def tiny(seed: int = 0, n_classes: int = 1) -> Any:
    """Two tasks, three workers, few boxes."""
    crowd = simulate_boxes(
        2, 3, answers_per_task=3, objects=1.5, distractors=0.7, n_classes=n_classes, random_state=seed
    )
    answers = crowd.answers
    geometry = BoxGeometry.measure(answers.place, answers.answer[:, None])
    drawn = lay_out(answers, answers.worker, answers.n_workers, geometry)
    grouping = start_grouping(drawn, 0.3)
    random = np.random.default_rng(seed)
    params = replace(
        start_crowd(drawn, grouping),
        draw=random.normal(0.5, 0.5, 3),
        false_draw=random.normal(-1.5, 0.5, 3),
        precision=random.uniform(100, 400, 3),
        objects=1.7,
        distractors=0.9,
    )
    grouping = replace(
        grouping,
        careless=random.integers(0, 2, grouping.careless.shape),
        careless_coordinate=random.integers(0, 2, grouping.careless_coordinate.shape),
    )
    return drawn, params, grouping


def enumerate_thing(drawn: Any, crowd: Any, grouping: Any, rows: Any) -> tuple[float, float]:
    """Probability of a thing's marks if it is an object and if not: sums over all else, an integral on a fine grid."""
    task = drawn.task[rows[0]]
    there = drawn.answer_worker[drawn.answer_task == task]
    seen = drawn.worker[rows]
    density = np.exp(drawn.geometry.log_density(drawn.place[rows].mean(axis=0)))
    size = np.exp(drawn.log_size[rows].mean(axis=0))
    factor = (1 / 9.0) ** (grouping.careless[rows][:, None] + grouping.careless_coordinate[rows])
    sd = size / np.sqrt(crowd.precision[seen][:, None] * factor)
    shares = np.where(grouping.careless_coordinate[rows] == 1, CARELESS, 1 - CARELESS).prod()
    shares *= np.where(grouping.careless[rows] == 1, CARELESS, 1 - CARELESS).prod()
    places = 1.0
    for k in range(4):
        centre, reach = drawn.place[rows, k].mean(), sd[:, k].max() * 10 + np.ptp(drawn.place[rows, k])
        grid = np.linspace(centre - reach, centre + reach, 40001)
        product = np.prod([norm.pdf(x, grid, s) for x, s in zip(drawn.place[rows, k], sd[:, k], strict=True)], axis=0)
        places *= product.sum() * (grid[1] - grid[0])
    n_classes = crowd.label_share.size
    label = 1.0
    if n_classes > 1:
        each = np.full((n_classes, n_classes), (1 - crowd.label_accuracy) / (n_classes - 1))
        np.fill_diagonal(each, crowd.label_accuracy)
        label = sum(crowd.label_share[k] * each[k, drawn.label[rows]].prod() for k in range(n_classes))
    chance = 0.0
    for share, level in zip(visibility_shares(crowd.spread), LEVELS, strict=True):
        drawing = expit(crowd.draw[there] + level)
        chance += share * np.where(np.isin(there, seen), drawing, 1 - drawing).prod()
    drawing = expit(crowd.false_draw[there])
    false = np.where(np.isin(there, seen), drawing, 1 - drawing).prod()
    common = density * places * label * shares
    return crowd.objects * chance * common, crowd.distractors * false * common


@pytest.mark.parametrize("n_classes", [1, 3])
def test_the_likelihood_and_the_beliefs_are_those_of_enumeration(n_classes: int) -> None:
    drawn, crowd, grouping = tiny(3, n_classes)
    expected, sure = 0.0, []
    for thing in range(grouping.n_things):
        real, false = enumerate_thing(drawn, crowd, grouping, np.flatnonzero(grouping.thing == thing))
        expected += np.log(real + false)
        sure.append(real / (real + false))
    for task in range(2):
        there = drawn.answer_worker[drawn.answer_task == task]
        for share, level in zip(visibility_shares(crowd.spread), LEVELS, strict=True):
            expected -= crowd.objects * share * (1 - (1 - expit(crowd.draw[there] + level)).prod())
        expected -= crowd.distractors * (1 - (1 - expit(crowd.false_draw[there])).prod())
    assert log_likelihood(drawn, crowd, grouping) == pytest.approx(expected, abs=1e-6)
    np.testing.assert_allclose(expect_things(drawn, crowd, grouping).confidence, sure, atol=1e-8)


def test_every_step_rises_and_ends_where_the_objective_is_flat() -> None:
    made = simulate_boxes(8, 4, answers_per_task=4, n_classes=2, random_state=1).answers
    geometry = BoxGeometry.measure(made.place, made.answer[:, None])
    drawn = lay_out(made, made.worker, made.n_workers, geometry)
    grouping = start_grouping(drawn, 0.3)
    crowd = start_crowd(drawn, grouping)
    heights = [objective(drawn, crowd, grouping)]
    for _ in range(400):
        crowd = improve(drawn, crowd, grouping)
        heights.append(objective(drawn, crowd, grouping))
    assert (np.diff(heights) >= -1e-8).all()
    for name in ("objects", "distractors", "spread", "draw_mean", "usual_variance", "label_accuracy"):
        step = 1e-4 * getattr(crowd, name)
        ends = [
            objective(drawn, replace(crowd, **{name: getattr(crowd, name) + side * step}), grouping) for side in (-1, 1)
        ]
        assert abs(ends[1] - ends[0]) / (2e-4) < 0.05, name  # slope in units of the parameter
    for name in ("draw", "false_draw", "precision"):
        for worker in range(4):
            values = getattr(crowd, name)
            step = np.zeros(4)
            step[worker] = 1e-4 * max(abs(values[worker]), 1)
            ends = [objective(drawn, replace(crowd, **{name: values + side * step}), grouping) for side in (-1, 1)]
            assert abs(ends[1] - ends[0]) / 2e-4 < 0.05, name
    assert np.isfinite(log_prior(crowd))
    before = objective(drawn, crowd, grouping)
    grouping, _ = regroup(drawn, crowd, grouping, np.ones(8, bool))
    assert objective(drawn, crowd, grouping) >= before - 1e-8


def groupings(answer: Any) -> Any:
    """All ways to group the marks of a task, no two of an answer together."""
    ways: list[list[int]] = [[0]]
    for mark in range(1, answer.size):
        ways = [
            [*way, thing]
            for way in ways
            for thing in range(max(way) + 2)
            if not any(way[other] == thing and answer[other] == answer[mark] for other in range(mark))
        ]
    return ways


def test_moves_find_the_best_grouping_of_all() -> None:
    for seed in range(3):
        answers = simulate_boxes(1, 3, answers_per_task=3, objects=2, distractors=0.5, random_state=seed + 40).answers
        if not 2 <= answers.n_marks <= 7:
            continue
        geometry = BoxGeometry.measure(answers.place, answers.answer[:, None])
        drawn = lay_out(answers, answers.worker, 3, geometry)
        crowd = start_crowd(drawn, start_grouping(drawn, 0.3))
        found = group_marks(drawn, crowd)
        reached = log_likelihood(drawn, crowd, found)
        plain = (np.zeros(answers.n_marks, np.int64), np.zeros((answers.n_marks, 4), np.int64))
        best = max(log_likelihood(drawn, crowd, Grouping(np.array(way), *plain)) for way in groupings(drawn.answer))
        assert reached >= best - 1e-9


def test_marks_are_linked_until_they_are_too_far_apart() -> None:
    near = np.array([[1, 0.8, 0.3], [0.8, 1, 0.5], [0.3, 0.5, 1]])
    assert link_marks(near, np.array([0, 1, 2]), 0.4).tolist() == [0, 0, 0]
    assert link_marks(near, np.array([0, 1, 2]), 0.5).tolist() == [0, 0, 1]
    assert link_marks(near, np.array([0, 0, 2]), 0.1).tolist() in ([0, 1, 1], [1, 0, 0])


def test_matching_has_most_pairs() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        values = random.random((3, 4))
        one, _ = match_marks(values, 0.6)
        most = max(sum(values[i, j] >= 0.6 for i, j in enumerate(way)) for way in itertools.permutations(range(4), 3))
        assert one.size == most
    box = np.array([[0.0, 0, 2, 2]])
    assert intersection_over_union(box, box + 1).item() == pytest.approx(1 / 7)


def test_reading() -> None:
    boxes = read_boxes(SOME)
    assert repr(boxes) == "Boxes: 3 boxes in 3 answers by 2 workers on 2 tasks"
    assert boxes.to_table().num_rows == 4
    sides = table(("a", "ann", 1, 2, 3, 4), names=("task", "worker", "x", "y", "width", "height"))
    assert read_boxes(sides).place.tolist() == [[1, 2, 4, 6]]
    named = read_boxes(table(("a", "ann", 1, 2, 3, 4), names=("task", "worker", *"pqrs")), coordinates=tuple("pqrs"))
    assert named.place.tolist() == [[1, 2, 3, 4]]
    with_label = read_boxes(SOME | {"label": ["cat", "dog", "cat", None]})
    assert with_label.classes.to_pylist() == ["cat", "dog"]
    assert with_label.keep(np.array([False, True, True])).n_marks == 1
    twice = table(("a", "ann", 0, 0, 1, 1), ("a", "ann", 0, 0, 1, 1))
    assert read_boxes(twice, on_duplicate="first").n_marks == read_boxes(twice, on_duplicate="last").n_marks == 1
    assert read_boxes(twice, on_duplicate="all").n_marks == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a", "ann", 5, 0, 1, 1)], "negative"),
        ([("a", "ann", 0, 0, 0, 1)], "no size"),
        ([("a", "ann", 0, 0, float("nan"), 1)], "missing or not finite"),
        ([("a", "ann", 0, 0, float("inf"), 1)], "no finite numbers"),
        ([("a", "ann", 0, 0, "wide", 1)], "in place of numbers"),
        ([("a", "ann", 0, 0, 1, 1), ("a", "ann", 0, 0, 1, 1)], "same box twice"),
        ([("a", None, 0, 0, 1, 1)], "worker"),
    ],
)
def test_bad_boxes(rows: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_boxes(table(*rows))


def test_bad_truths_and_parameters() -> None:
    boxes = read_boxes(SOME)
    with pytest.raises(InputError, match="other tasks"):
        score_boxes(ObjectBoxes().fit(boxes), {"z": [[0, 0, 1, 1]]})
    with pytest.raises(InputError, match="3 numbers"):
        ObjectBoxes().fit(boxes, gold={"a": [[0, 0, 1]]})
    with pytest.raises(InputError, match="share is 2"):
        BoxClusters(share=2).fit(boxes)
    with pytest.raises(InputError, match="no column for x_min"):
        read_boxes({"task": [1], "worker": [1]})
    with pytest.raises(InputError, match="no rows"):
        read_points({"task": [], "worker": [], "x": [], "y": []})


@pytest.mark.parametrize("method", [ObjectBoxes, BoxClusters])
def test_nothing_drawn_one_worker_one_box(method: Any) -> None:
    nothing = read_boxes(table(("a", "ann", *[None] * 4), ("a", "bob", *[None] * 4)))
    assert method().fit(nothing).consensus().num_rows == 0
    one = method().fit(read_boxes(table(("a", "ann", 0, 0, 5, 5))))
    assert one.consensus()["x_max"].to_pylist() == pytest.approx([5])
    assert "No two workers" in one.caveat()
    huge = method().fit(read_boxes(table(("a", "ann", 0, 0, 5e39, 5e39), ("a", "bob", 1e38, 0, 5e39, 5e39))))
    assert huge.consensus()["x_max"].to_pylist() == pytest.approx([5e39])


def test_workers_and_objects_of_a_known_crowd_are_found() -> None:
    covered: dict[str, list[float]] = {"miss_rate": [], "false_positives": [], "error": []}
    sure, right = [], []
    ahead = []
    for seed in range(3):
        crowd = simulate_boxes(40, 8, answers_per_task=6, random_state=seed)
        model = ObjectBoxes().fit(crowd.answers)
        ahead.append(
            score_boxes(model, crowd.truth)["f1"] - score_boxes(BoxClusters().fit(crowd.answers), crowd.truth)["f1"]
        )
        workers = model.workers()
        for name, found in covered.items():
            true = getattr(crowd, name)
            low, high = workers[f"{name}_low"].to_numpy(), workers[f"{name}_high"].to_numpy()
            found.extend((low <= true) & (true <= high))
        true_boxes = crowd.truth.to_pandas().dropna()
        for task in range(40):
            rows = np.flatnonzero(model.object_task_ == task)
            values = intersection_over_union(
                model.place_[rows], true_boxes[true_boxes.task == task][list(CORNERS)].to_numpy()
            )
            hit = np.zeros(rows.size)
            hit[match_marks(values, 0.5)[0]] = 1
            sure.extend(model.confidence_[rows])
            right.extend(hit)
    assert np.mean(ahead) > 0.03
    for name, found in covered.items():
        assert 0.75 <= np.mean(found) <= 1, name  # 24 workers: three standard errors about .9
    assert np.mean(sure) == pytest.approx(np.mean(right), abs=0.05)
    doubtful = (np.array(sure) > 0.1) & (np.array(sure) < 0.9)
    assert np.mean(np.array(sure)[doubtful]) == pytest.approx(np.mean(np.array(right)[doubtful]), abs=0.15)


def test_held_out_answers_are_more_probable_to_the_worker_model() -> None:
    from crowdwise.kinds.held_out import choose_by_held_out

    crowd = simulate_boxes(14, 6, answers_per_task=5, miss_rate=(0.05, 0.7), random_state=3)
    league = choose_by_held_out({"model": ObjectBoxes(max_iter=4, tol=0), "clusters": BoxClusters()}, crowd.answers)
    assert league[0].name == "model"


def test_gold_labels_and_new_tasks() -> None:
    crowd = simulate_boxes(24, 8, n_classes=3, random_state=4)
    model = ObjectBoxes().fit(crowd.answers)
    plain = score_boxes(model, crowd.truth)
    assert plain["label_accuracy"] > 0.9
    assert {"label", "confidence"} <= set(model.consensus().column_names)
    half = crowd.truth.filter(pa.compute.less(crowd.truth["task"], 12))
    told = ObjectBoxes().fit(crowd.answers, gold=half)
    inside = score_boxes(told, half)
    assert inside["f1"] == pytest.approx(1)
    assert inside["mean_iou"] > 0.99
    assert inside["label_accuracy"] == 1
    unnamed = score_boxes(ObjectBoxes(max_iter=3, tol=0).fit(crowd.answers, gold=half.drop_columns("label")), half)
    assert unnamed["f1"] == pytest.approx(1)
    assert unnamed["label_accuracy"] > 0.9
    rest = crowd.answers.keep(crowd.answers.task >= 12)
    known = ObjectBoxes().fit(crowd.answers.keep(crowd.answers.task < 12))
    predicted = known.predict(rest)
    assert set(predicted["task"].to_pylist()) <= set(range(12, 24))
    assert predicted.num_rows > 20
    strangers = replace(rest, workers=pa.array([f"new {k}" for k in range(rest.n_workers)]))
    assert known.predict(strangers).num_rows > 10
    assert np.isfinite(known.log_density(rest)).all()


def test_points() -> None:
    crowd = simulate_points(30, 8, random_state=1)
    model = ObjectPoints().fit(crowd.answers)
    scores = score_points(model, crowd.truth, distance=30)
    assert scores["f1"] > 0.8
    assert scores["mean_distance"] < 10
    error = model.workers()["error"].to_numpy()
    assert np.corrcoef(error, crowd.error)[0, 1] > 0.7
    with pytest.raises(InputError, match="distance"):
        score_points(model, crowd.truth, distance=-1)
    with pytest.raises(InputError, match="missing or not finite"):
        read_points({"task": [1], "worker": [1], "x": [1.0], "y": [None]})


@pytest.mark.skipif("CROWDWISE_DATA" not in os.environ, reason="CROWDWISE_DATA names no folder of data sets")
@pytest.mark.slow
def test_real_boxes() -> None:
    folder = Path(os.environ["CROWDWISE_DATA"]) / "boxes"
    boxes = read_boxes(folder / "boxes.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cw.NotConverged)
        model = ObjectBoxes().fit(boxes)
    clusters = score_boxes(BoxClusters().fit(boxes), folder / "truth.csv")
    scores = score_boxes(model, folder / "truth.csv")
    assert clusters["f1"] == pytest.approx(0.805, abs=0.01)
    assert scores["f1"] > clusters["f1"] + 0.01
