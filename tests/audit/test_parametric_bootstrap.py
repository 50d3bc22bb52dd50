"""Draws in pieces are the draws at once; p-values by the largest statistic, by hand; draws that end early."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.audit.crowds import honest
from tests.engines.test_simulated_scores import plain_scores

from crowdwise.audit import parametric_bootstrap
from crowdwise.audit.parametric_bootstrap import max_statistic_p_values, simulate_scores_in_chunks
from crowdwise.kernels.simulated_scores import AnswerModel
from crowdwise.simulate.draws import cumulate_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.labels.types import FloatArray


def test_draws_are_those_of_plain_numpy_one_after_the_other() -> None:
    rng = np.random.default_rng(0)
    labels, truth = honest(30, 8, 3, 4, rng)
    confusion, log_prior = rng.dirichlet(np.ones(3), (8, 3)), np.log([0.2, 0.3, 0.5])
    table = np.log(confusion)
    model = AnswerModel(cumulate_rows(confusion), log_prior, table.transpose(0, 2, 1))
    draws = np.random.default_rng(1)
    found = list(
        simulate_scores_in_chunks(
            labels, lambda tasks: truth[tasks], confusion, log_prior, table, np.random.default_rng(1), 70
        )
    )
    assert [(some.start, some.stop, tasks.start, tasks.stop) for some, tasks, _ in found] == [
        (0, 50, 0, 30),
        (50, 70, 0, 30),
    ]
    for some, _, (best, own) in found:
        for row in range(some.stop - some.start):
            expected = plain_scores(labels, truth, draws.random(labels.n_labels), model)
            np.testing.assert_allclose((best[row], own[row]), expected, rtol=1e-12)


def test_pieces_of_a_large_crowd_hold_every_task_once_a_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parametric_bootstrap, "MOST_AT_ONCE", 10)
    labels, truth = honest(23, 30, 3, 4, np.random.default_rng(0))
    labels = labels.keep((labels.task != 5) & ((labels.task != 22) | (labels.worker < 0)))  # two without labels
    seen = np.zeros((60, 23), int)
    for some, tasks, (best, own) in simulate_scores_in_chunks(
        labels,
        lambda tasks: truth[tasks],
        np.full((30, 3, 3), 1 / 3),
        np.zeros(3),
        np.full((30, 3, 3), -1.0),
        np.random.default_rng(0),
        60,
    ):
        seen[some, tasks] += 1
        np.testing.assert_allclose(best, -np.tile(labels.labels_per_task[tasks], (best.shape[0], 1)))
        np.testing.assert_allclose(best, own)
    assert (seen == 1).all()


def pieces(largest: list[float], size: int) -> Iterator[tuple[slice, FloatArray]]:
    for first in range(0, len(largest), size):
        some = slice(first, min(first + size, len(largest)))
        yield some, np.array([[-1.0, value] for value in largest[some]])


def test_p_values_by_hand() -> None:
    observed = np.array([5.0, 2.0, np.nan, 0.5])
    p_value = max_statistic_p_values(observed, pieces([1.0, 2.0, 3.0, 4.0], 2), 4, level=0.3)
    np.testing.assert_allclose(p_value, [1 / 5, 4 / 5, np.nan, 5 / 5])


def test_draws_end_once_nothing_can_be_flagged() -> None:
    taken = []

    def counted() -> Iterator[tuple[slice, FloatArray]]:
        for some, statistics in pieces([9.0] * 10, 2):
            taken.append(some)
            yield some, statistics

    # Of 10 draws, (1 + r) / 11 is above 0.3 from r = 3 on: known after two pieces of two, seen when the third comes.
    assert (max_statistic_p_values(np.array([5.0, 2.0]), counted(), 10, level=0.3) == 1).all()
    assert len(taken) == 3
    assert max_statistic_p_values(np.array([10.0, 2.0]), pieces([9.0] * 10, 2), 10, level=0.3)[0] == pytest.approx(
        1 / 11
    )
