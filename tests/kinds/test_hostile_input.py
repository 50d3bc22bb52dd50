"""What answers of other kinds, their truths and their saved models must withstand."""

from __future__ import annotations

import inspect
import json
import math
import warnings
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import crowdwise as cw
from crowdwise.audit import audit_answers
from crowdwise.cli import main
from crowdwise.evaluate import compare_answers
from crowdwise.fitting.part_digests import add_digests
from crowdwise.kinds import (
    Boxes,
    Points,
    Rankings,
    Texts,
    Values,
    kind,
    kinds,
    read_boxes,
    read_comparisons,
    read_grades,
    read_label_sets,
    read_masks,
    read_similarities,
    read_texts,
    read_values,
    simulate_values,
)
from crowdwise.kinds.boxes import BoxClusters
from crowdwise.kinds.points import PointClusters
from crowdwise.kinds.rankings import PlackettLuce
from crowdwise.kinds.texts import Medoid, WordVotes
from crowdwise.kinds.values import Mean, MomentValues
from crowdwise.labels.errors import InputError, InputWarning
from crowdwise.report.answers_page import _headings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ONE: dict[str, Any] = {"tasks": 1, "workers": 1}
PAIR: Any = np.array([1, 2])


def table(**columns: Any) -> dict[str, Any]:
    n = len(next(iter(columns.values())))
    return {"task": [f"t{row}" for row in range(n)], "worker": ["ann"] * n, **columns}


def given(value: Any) -> Any:
    return [value]


@pytest.mark.parametrize(
    ("read", "match"),
    [
        (lambda: read_values(table(value=pa.array([b"\xff"]))), "no UTF-8"),
        (lambda: read_texts(table(text=pa.array([b"\xff"]))), "no UTF-8"),
        (lambda: read_label_sets(table(labels=pa.array([b"\xff"]))), "no UTF-8"),
        (lambda: read_texts(table(text=[1.0, np.nan])), "no text"),
        (lambda: read_label_sets(table(labels=["a|b", "c;d"])), "Use one of them"),
        (lambda: read_grades(table(grade=["1", "1.0", "2"])), "several ways"),
        (lambda: read_grades(table(grade=["1", "nan", "2"])), "no finite number"),
        (lambda: read_masks(table(rle=['{"size":[4,4],"counts":[8.9,8.2]}'])), "no whole numbers"),
        (lambda: read_masks(table(rle=['{"size":[4,4],"counts":{"8":1,"8 ":2}}'])), "no whole numbers"),
        (lambda: Values.from_codes([0], [0], ["x"], **ONE), "no number"),
        (lambda: Values.from_codes([0], [0], [1.0], tasks=10**12, workers=1), "there can be"),
        (lambda: Boxes.from_codes([0], [0], [["a", "b", "c", "d"]], **ONE), "no number"),
        (lambda: Points.from_codes([0], [0], [[1e308, 0]], **ONE), "beyond"),
        (lambda: Boxes.from_codes([0], [0], [[0, 0, 1e-300, 1]], **ONE), "no size"),
        (lambda: Rankings.from_codes([0, 0], [0, 1], [[1, 2]], items=2, workers=1), "same length"),
        (lambda: Texts.from_codes([0], [0], given(None), **ONE), "in place of a text"),
        (lambda: Texts.from_codes([0], [0], given(b"a"), **ONE), "in place of a text"),
        (lambda: Texts.from_codes([0], [0], ["\ud800"], **ONE), "surrogate"),
    ],
)
def test_what_is_no_answer_is_refused(read: Callable[[], Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        read()


def test_a_missing_set_of_numbers_is_empty() -> None:
    read = read_label_sets(table(labels=[1.0, np.nan]))
    assert read.classes.to_pylist() == [1]
    assert read.member.tolist() == [[True], [False]]


@pytest.mark.parametrize("given", [None, 3, {}])
def test_audit_and_comparison_take_answers(given: Any) -> None:
    for function in (audit_answers, compare_answers):
        with pytest.raises(InputError, match="Read them first"):
            function(given)


def test_truths_and_parameters_that_cannot_be_are_refused() -> None:
    values, boxes = kind("values").simulate(random_state=0).answers, kind("boxes").simulate(random_state=0).answers
    with pytest.raises(InputError, match="random_state"):
        compare_answers(values, ["mean"], random_state=-1)
    for gold in ({}, {"task": ["a"]}):
        with pytest.raises(InputError):
            kind("values").method().load()().fit(values, gold=gold)
    for truth in ({0: 1}, {0: [1]}, {0: "abcd"}):
        with pytest.raises(InputError, match="numbers"):
            kind("boxes").score(BoxClusters().fit(boxes), truth)
    with pytest.raises(InputError, match="distance"):
        PointClusters(distance=PAIR).fit(kind("points").simulate(n_tasks=3, random_state=0).answers)
    with pytest.raises(InputError, match="distance"):
        Medoid(distance=PAIR).fit(kind("texts").simulate(n_tasks=3, random_state=0).answers)
    with pytest.raises(InputError, match="spread"):
        PlackettLuce(spread=1000.0).fit(kind("rankings").simulate(random_state=0).answers)
    with pytest.raises(InputError, match="level"):
        Mean().fit(values).workers(1 - 1e-16)


@pytest.mark.parametrize("method", [Medoid, WordVotes])
def test_no_texts_have_no_consensus(method: Any) -> None:
    answers = kind("texts").simulate(n_tasks=5, random_state=0).answers
    predicted = method().fit(answers).predict(answers.keep(np.zeros(answers.n_answers, bool)))
    assert predicted["text"].null_count == predicted.num_rows


@pytest.mark.parametrize("value", [0.0, 5.0])
def test_moments_of_equal_answers_are_finite(value: float) -> None:
    columns = {"task": np.repeat(range(5), 4), "worker": np.tile(range(4), 5), "value": np.full(20, value)}
    found = MomentValues().fit(columns).consensus()
    assert all(np.isfinite(found[name].to_numpy()).all() for name in ("value", "low", "high"))


@pytest.mark.parametrize(
    ("slug", "method", "crowd"),
    [
        ("values", "gaussian", {"n_tasks": 20, "n_workers": 5}),
        ("comparisons", "worker-slope", {"n_items": 8, "n_workers": 5, "answers_per_worker": 10}),
        ("rankings", "plackett-luce", {"n_items": 8, "n_workers": 5}),
        ("texts", "word-votes", {"n_tasks": 8, "n_workers": 5}),
        ("points", "object-em", {"n_tasks": 4, "n_workers": 5}),
        ("masks", "signed-distance", {"n_tasks": 3, "n_workers": 4, "height": 16, "width": 16}),
    ],
)
def test_workers_without_answers_change_nothing(slug: str, method: str, crowd: dict[str, int]) -> None:
    answers = kind(slug).simulate(random_state=1, **crowd).answers
    more = replace(
        answers,
        worker=answers.worker + 1,
        workers=pa.array(["silent", *(str(name) for name in answers.workers.to_pylist()), "quiet"]),
    )
    named = replace(answers, workers=pa.array([str(name) for name in answers.workers.to_pylist()]))
    first, second = (kind(slug).method(method).load()().fit(each) for each in (named, more))
    assert second.consensus().equals(first.consensus())
    assert second.workers().equals(first.workers())


@pytest.mark.parametrize(
    ("slug", "method", "name", "change"),
    [
        ("values", "mean", "answers_per_worker", lambda old: old * 0),
        ("values", "mean", "worker_scale", lambda old: old * 0),
        ("boxes", "iou-clusters", "freedom", lambda old: old * 0 + 1e-99),
        ("points", "distance-clusters", "frame", lambda old: np.append(old[:-1], 1e6)),
        ("rankings", "kemeny", "dispersion", lambda old: old * 0),
        ("spans", "majority-vote", "span_counts", lambda old: old[:, ::-1] + [[9, 0, 0]]),
    ],
)
def test_saved_numbers_that_no_fit_finds_are_refused(
    tmp_path: Path, slug: str, method: str, name: str, change: Callable[[Any], Any]
) -> None:
    sizes = {"n_items": 6} if slug == "rankings" else {"n_tasks": 6}
    model = kind(slug).method(method).load()().fit(kind(slug).simulate(random_state=1, **sizes).answers)
    model.save(tmp_path / "model")
    arrays = dict(np.load(tmp_path / "model" / "arrays.npz"))
    np.savez(tmp_path / "model" / "arrays.npz", **(arrays | {name: change(arrays[name])}))
    add_digests(tmp_path / "model")
    with pytest.raises(InputError, match="damaged"):
        cw.load(tmp_path / "model")


def test_names_of_columns_are_visible_on_the_page() -> None:
    assert _headings(pa.table({"probability_\u202ea": [0.5]})) == ["probability \\u202ea"]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)
def test_crowds_that_cannot_be_simulated(kind: Any) -> None:
    for given in ({"n_workers": 0}, {"n_workers": -1}, {"random_state": "x"}):
        with pytest.raises(InputError, match=rf"{next(iter(given))} is "):
            kind.simulate(**given)


def test_fewer_workers_than_answers() -> None:
    assert simulate_values(3, 2, answers_per_task=5).answers.n_answers == 6


def test_names_that_hardly_differ_are_noted() -> None:
    with pytest.warns(InputWarning, match=r"Workers whose names differ only in .*'ann' and 'Ann'"):
        read_values({"task": ["a", "a"], "worker": ["ann", "Ann"], "value": [1, 2]})
    with pytest.warns(InputWarning, match=r"Items whose names differ only in .*'A' and 'a'"):
        read_comparisons({"worker": ["w", "w"], "left": ["A", "a"], "right": ["B", "B"], "label": ["left", "right"]})


def test_an_audit_in_which_nothing_can_be_judged_says_nothing_odd() -> None:
    answers = {"worker": ["u", "v", "w"], "left": [1, 2, 3], "right": [2, 3, 4], "same": ["yes", "no", "yes"]}
    assert not audit_answers(read_similarities(answers)).findings


def test_commands_say_and_write_what_can_be_read(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.csv").write_text("task,worker,value\na,u,1\na,v,2\nb,u,3\nb,v,4\n")
    (tmp_path / "t.csv").write_text("task,value\na,1\n")  # of one task there is no correlation
    assert main(["aggregate", "v.csv", "--truth", "t.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["pearson"] is None
    assert main(["audit", "v.csv", "--time-column", "value"]) == 2
    assert "values take no --time-column" in capsys.readouterr().err
    assert main(["describe", "v.csv"]) == 0
    assert "aggregate v.csv\n" in capsys.readouterr().out  # and no option that nobody gave
    (tmp_path / "c.csv").write_text("worker,prompt,chosen,rejected\nu,p,x,y\nv,p,x,y\n")
    assert main(["aggregate", "c.csv", "--out", "o", "--write-dpo", "o"]) == 2
    assert not (tmp_path / "o").exists()


SCENE = {"error": (3.0, 5.0), "miss_rate": (0.1, 0.2), "careless": 0.1, "objects": 2.0}  # of boxes and points


@pytest.mark.parametrize("each", kinds(), ids=lambda each: each.name)
def test_simulators_check_their_own_parameters(each: Any) -> None:
    given = inspect.signature(each.simulate).parameters
    own = {name: one.default for name, one in given.items() if isinstance(one.default, float | tuple)}
    own |= SCENE if each.name in ("boxes", "points") else {}
    for name in own:
        for wrong in ("auto", -1.0, math.nan, math.inf, {}, lambda: 1, (2.0, 1.0), np.zeros((2, 2))):
            with pytest.raises(InputError, match=name):
                each.simulate(**{name: wrong})


def test_simulators_take_numpy_numbers_and_fractions() -> None:
    assert kind("comparisons").simulate(ties=Fraction(1, 3)).answers.n_answers
    assert kind("values").simulate(spread=np.float32(2), error=np.array([1, 2])).answers.n_answers
    assert kind("rankings").simulate(n_items=3, length=np.uint8(5)).answers.n_answers  # of three items, three


def test_clusters_that_are_no_whole_numbers_are_refused() -> None:
    for wrong in ("ab", [1], [[1, 2]], [0.5, 1], [math.nan, 1]):
        with pytest.raises(InputError, match="cluster"):
            kind("similarity").simulate(cluster=wrong)


def test_objects_that_have_no_room_are_refused() -> None:
    with pytest.raises(InputError, match="no room for"):
        kind("points").simulate(apart=2000.0)


@pytest.mark.parametrize(("rate", "missed"), [(0.0, 0.0), (1.0, 1.0)])
def test_workers_may_miss_nothing_or_all(rate: float, missed: float) -> None:
    crowd = kind("points").simulate(miss_rate=(rate, rate), false_positives=(0, 0), distractors=0.0, objects=3.0)
    objects = len(crowd.truth["x"].drop_null())
    assert crowd.answers.n_marks == 6 * objects * (1 - missed)  # six workers see each task


@pytest.mark.parametrize(
    ("read", "given"),
    [
        (read_values, {"value": []}),
        (read_values, {"value": [[]]}),
        (read_comparisons, {"winner": np.array([1, 2])}),
        (read_masks, {"folder": b"images"}),
    ],
)
def test_options_of_readers_that_are_no_names_are_refused(read: Any, given: dict[str, Any]) -> None:
    table = {"task": [1], "worker": ["ann"], "value": [1.0], "mask": ["[]"], "winner": ["a"], "loser": ["b"]}
    with pytest.raises(InputError, match=next(iter(given))):
        read(table, **given)


def test_values_too_small_to_reckon_with() -> None:
    table = {"task": [1, 1, 2], "worker": ["a", "b", "a"], "value": [1e-31, -2e-31, 0.0]}
    with pytest.raises(InputError, match=r"as large as 1e-30\. Give them in a smaller unit"):
        read_values(table)
    with pytest.raises(InputError, match="as large as 1e-30"):
        Values.from_codes([0, 0], [0, 1], [1e-300, 0.0], tasks=1, workers=2)
    assert read_values({**table, "value": [1e-31, 2.0, 0.0]}).n_answers == 3
    assert read_values({**table, "value": [0.0, 0.0, 0.0]}).n_answers == 3


def test_runs_of_no_length() -> None:
    mask = json.dumps({"size": [4, 4], "counts": [-3, 19]})
    with pytest.raises(InputError, match="the counts hold -3; a run is of no pixels or more"):
        read_masks({"task": [1], "worker": ["a"], "rle": [mask]})


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (read_label_sets, {"labels": ["cat|dog", "Cat", "cat", "dog"]}),
        (read_grades, {"grade": ["low", "Low", "high", "low"], "classes": ["low", "Low", "high"]}),
        (read_boxes, {"x_min": [1] * 4, "y_min": [1] * 4, "x_max": [2] * 4, "y_max": [2] * 4, "label": [*"aAab"]}),
    ],
    ids=["sets", "declared grades", "boxes"],
)
def test_classes_that_hardly_differ_are_noted(read: Any, said: dict[str, Any]) -> None:
    classes = said.get("classes")
    table = {"task": [1, 1, 2, 2], "worker": ["a", "b"] * 2, **said}
    table.pop("classes", None)
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        read(table, **({} if classes is None else {"classes": classes}))
    assert len([each for each in noted if "Classes whose names differ" in str(each.message)]) == (classes is None)
