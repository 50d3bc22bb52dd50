"""Spans counted by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.metrics import span_scores

# Two sentences:      Ann   Lee   met   Bob | Rome  ,   New    York  Times
TRUTH = ["B-PER", "I-PER", "O", "B-PER", "B-LOC", "O", "B-ORG", "I-ORG", "I-ORG"]
SENTENCE = [0, 0, 0, 0, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("said", "right", "predicted"),
    [
        (TRUTH, 4, 4),
        (["O", "O", "O", "O", "O", "O", "O", "O", "O"], 0, 0),
        # The first name cut short, Rome of another type, the Times without York: Bob alone is right.
        (["B-PER", "O", "O", "B-PER", "B-ORG", "O", "B-ORG", "O", "B-ORG"], 1, 5),
        # I after O, or after another type, begins a span: Bob and Rome are right, New York Times is cut in two.
        (["B-PER", "B-PER", "O", "I-PER", "I-LOC", "O", "I-ORG", "I-ORG", "I-LOC"], 2, 6),
        # B after I begins another span of the same type.
        (["B-PER", "I-PER", "O", "B-PER", "B-LOC", "O", "B-ORG", "I-ORG", "B-ORG"], 3, 5),
    ],
)
def test_by_hand(said: list[str], right: int, predicted: int) -> None:
    scores = span_scores(TRUTH, said, SENTENCE)
    assert (scores.n_right, scores.n_predicted, scores.n_true) == (right, predicted, 4)
    assert scores.precision == (right / predicted if predicted else 0)
    assert scores.recall == right / 4
    assert scores.f1 == pytest.approx(2 * right / (predicted + 4))


def test_no_span_goes_on_in_the_next_sentence() -> None:
    tags = ["B", "I", "I", "O"]
    assert span_scores(tags, tags).n_true == 1
    assert span_scores(tags, tags, [0, 0, 1, 1]).n_true == 2


def test_tasks_in_any_order() -> None:
    names = ["b_1", "a_0", "b_0", "a_1"]  # sentence a: O B-x; sentence b: B-x I-x
    truth = ["I-x", "O", "B-x", "B-x"]
    scores = span_scores(truth, ["O", "O", "B-x", "B-x"], cw.read_sequences("names", names))
    assert (scores.n_right, scores.n_predicted, scores.n_true) == (1, 2, 2)


def test_nothing_to_score() -> None:
    assert span_scores(["O"], ["O"]) == (0.0, 0.0, 0.0, 0, 0, 0)
    assert span_scores([], []).f1 == 0.0
    assert span_scores([], [], cw.read_sequences(None, [])).f1 == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["O"], ["O", "O"]), "truth has 1 tags and predicted has 2"),
        (([0, 1], ["O", "O"]), "truth must hold tags, one for each task: O, B-x and I-x; it holds 0, 1"),
        ((["O", None], ["O", "O"]), "truth must hold tags"),
        ((["O"], ["noun"]), "predicted must hold tags, .* it holds 'noun'"),
        (([["O"]], ["O"]), "truth must hold tags"),
        ((["O"], ["O"], [0, 1]), "sequences speak of 2 tasks and truth of 1"),
        ((["O"], ["O"], np.zeros((1, 1))), "one sequence for each task"),
    ],
)
def test_bad_tags(arguments: Any, message: str) -> None:
    with pytest.raises(cw.InputError, match=message):
        span_scores(*arguments)
