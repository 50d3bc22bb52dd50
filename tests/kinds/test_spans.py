"""Spans: what is read and refused, how texts are cut and put together again, and what is found in known crowds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crowdwise.aggregate import HmmCrowd
from crowdwise.kinds import read_spans, simulate_spans
from crowdwise.kinds.spans import SpanBsc, SpanHmmCrowd, SpanVotes, score_spans
from crowdwise.kinds.spans.segments import cut_texts, find_splits, read_spans_of_tags, tag_segments
from crowdwise.labels.errors import InputError

EVERY = pytest.mark.parametrize("method", [SpanHmmCrowd, SpanBsc, SpanVotes])


def table(*rows: tuple[Any, ...]) -> dict[str, list[Any]]:
    return dict(zip(("task", "worker", "start", "end", "label"), map(list, zip(*rows, strict=True)), strict=True))


def test_texts_are_cut_and_put_together_again() -> None:
    spans = read_spans(
        table(("a", "ann", 0, 4, "x"), ("a", "ann", 4, 6, "x"), ("a", "bob", 2, 6, "y"), ("b", "bob", 5, 9, "x"))
    )
    segments = cut_texts(spans.task[spans.answer], spans.place, 2)
    assert list(zip(segments.start, segments.end, strict=True)) == [(0, 2), (2, 4), (4, 6), (5, 9)]
    assert tag_segments(segments, 0, spans.place[:2], spans.label[:2]).tolist() == [1, 1, 1]
    alone = spans.keep(np.array([True, False, False]))
    assert find_splits(segments, alone).tolist() == [False, False, True, False]
    posterior = np.eye(3)[[1, 1, 1, 0]]
    task, place, label, sure = read_spans_of_tags(segments, posterior, find_splits(segments, alone))
    assert place.tolist() == [[0, 4], [4, 6]]
    assert task.tolist() == label.tolist() == [0, 0]
    assert sure.tolist() == [1, 1]


def test_it_is_the_method_for_sequences() -> None:
    crowd = simulate_spans(10, 4, random_state=1)
    model = SpanHmmCrowd(tol=0, max_iter=5).fit(crowd.answers)
    rows = [
        (f"{task}_{place}", worker, tag)
        for answer, (task, worker) in enumerate(zip(crowd.answers.task, crowd.answers.worker, strict=True))
        for place, tag in enumerate(
            tag_segments(
                model._segments(),
                int(task),
                crowd.answers.place[crowd.answers.mark_ptr[answer] : crowd.answers.mark_ptr[answer + 1]],
                crowd.answers.label[crowd.answers.mark_ptr[answer] : crowd.answers.mark_ptr[answer + 1]],
            )
        )
    ]
    labels = dict(zip(("task", "worker", "label"), zip(*rows, strict=True), strict=True))
    by_hand = HmmCrowd(sequences="names", smoothing=0.5, tol=0, max_iter=5).fit(labels)
    order = {name: place for place, name in enumerate(by_hand.tasks_)}
    segments = model._segments()
    names = [f"{task}_{place - segments.ptr[task]}" for place, task in enumerate(segments.task)]
    columns = [by_hand.classes_.tolist().index(tag) for tag in range(3)]
    np.testing.assert_allclose(
        model.posterior_, by_hand.posterior_[[order[name] for name in names]][:, columns], atol=1e-9
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a", "ann", 5, 5, "x")], "empty or end before"),
        ([("a", "ann", 5, 2, "x")], "empty or end before"),
        ([("a", "ann", -1, 2, "x")], "no position"),
        ([("a", "ann", 0.5, 2, "x")], "no position"),
        ([("a", "ann", 3, -1, "x")], "no position"),
        ([("a", "ann", 0, 10**12, "x")], "at or beyond 2,147,483,648"),
        ([("a", "ann", 0, None, "x")], "missing or not finite"),
        ([("a", "ann", 0, float("inf"), "x")], "no finite numbers"),
        ([("a", "ann", 0, "end", "x")], "in place of numbers"),
        ([("a", "ann", 0, 5, "x"), ("a", "ann", 3, 8, "x")], "overlap"),
        ([("a", "ann", 0, 5, "x"), ("a", "ann", 0, 5, "x")], "same span twice"),
    ],
)
def test_bad_spans(rows: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_spans(table(*rows))


@EVERY
def test_nothing_marked_and_spans_without_labels(method: Any) -> None:
    nothing = read_spans({"task": ["a", "a"], "worker": ["ann", "bob"], "start": [None, None], "end": [None, None]})
    model = method().fit(nothing)
    assert model.consensus().num_rows == 0
    assert model.predict(nothing).num_rows == 0
    plain = read_spans({"task": ["a", "a"], "worker": ["ann", "bob"], "start": [1, 1], "end": [3, 3]})
    assert method().fit(plain).consensus().select(["start", "end"]).to_pylist() == [{"start": 1, "end": 3}]


@EVERY
def test_consensus_of_a_known_crowd(method: Any) -> None:
    crowd = simulate_spans(80, 8, random_state=3)
    model = method().fit(crowd.answers)
    scores = score_spans(model, crowd.truth)
    assert scores["overlap_f1"] >= scores["f1"] > (0.7 if method is SpanVotes else 0.8)
    recall = model.workers()["recall"].to_numpy()
    exact = (1 - crowd.miss_rate) * (1 - crowd.boundary_rate) ** 2 * (1 - crowd.label_rate)
    assert np.corrcoef(recall, exact)[0, 1] > 0.7
    low, high = (model.workers()[f"recall_{end}"].to_numpy() for end in ("low", "high"))
    if method is SpanBsc:
        assert ((low <= exact) & (exact <= high)).mean() >= 0.6  # 8 workers; .91 of 80 in eight crowds
    predicted = model.predict(crowd.answers)
    assert predicted.num_rows == pytest.approx(model.consensus().num_rows, abs=5)


def test_gold_and_held_out_answers() -> None:
    from crowdwise.kinds.held_out import choose_by_held_out

    crowd = simulate_spans(100, 8, random_state=5)
    first = crowd.truth.filter(pa.compute.less(crowd.truth["task"], 20))
    told = SpanHmmCrowd().fit(crowd.answers, gold=first)
    assert score_spans(told, first)["f1"] == pytest.approx(1)
    league = choose_by_held_out({"bsc": SpanBsc(), "votes": SpanVotes()}, crowd.answers)
    assert league[0].name == "bsc"
    with pytest.raises(InputError, match="known spans have none"):
        SpanBsc().fit(crowd.answers, gold={0: [(1, 3)]})
    with pytest.raises(InputError, match="no use for gold"):
        SpanVotes().fit(crowd.answers, gold=first)


def test_scores() -> None:
    spans = read_spans(table(("a", "ann", 0, 4, "x"), ("a", "ann", 6, 9, "y")))
    model = SpanVotes().fit(spans)
    truth = {"task": ["a", "a"], "start": [0, 5], "end": [4, 7], "label": ["x", "y"]}
    scores = score_spans(model, truth)
    assert (scores["f1"], scores["overlap_f1"]) == (0.5, 1.0)
    assert score_spans(model, {"a": []})["f1"] == 0.0
