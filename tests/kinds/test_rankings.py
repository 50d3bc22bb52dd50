"""Rankings: enumeration, finite differences, brute force, other libraries, bad input, spammers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from crowdwise.kinds import read_rankings, simulate_rankings
from crowdwise.kinds.item_scores import concordance
from crowdwise.kinds.rankings import Borda, Kemeny, PlackettLuce, Rankings
from crowdwise.kinds.rankings.borda import borda_points
from crowdwise.kinds.rankings.kemeny import count_margins, count_worse_choices, fit_dispersion
from crowdwise.kinds.rankings.plackett_luce import RankingObjective, Spreads
from crowdwise.kinds.rankings.stage_likelihood import Stages
from crowdwise.labels.errors import InputError, InputWarning

ROWS = {"worker": ["ann"] * 3 + ["bob"] * 2, "item": ["a", "b", "c", "b", "c"], "rank": [1, 2, 3, 2, 1]}


def tiny(seed: int = 0, *, ties: bool = True) -> Rankings:
    """Rankings of 2 to 4 of 5 items by 3 workers."""
    generator = np.random.default_rng(seed)
    rows: list[tuple[int, int, int, int]] = []
    for task in range(4):
        for worker in range(3):
            items = generator.permutation(5)[: generator.integers(2, 5)]
            ranks = generator.integers(1, 4, size=items.size) if ties else generator.permutation(items.size)
            rows += [(worker, int(item), int(rank), task) for item, rank in zip(items, ranks, strict=True)]
    worker, item, rank, task = zip(*rows, strict=True)
    return Rankings.from_codes(worker, item, rank, items=5, workers=3, task=task, tasks=4)


def dense_log_likelihood(answers: Rankings, x: Any) -> float:
    """The formula of the docstring, one ranking after the other."""
    total = 0.0
    for number in range(answers.n_rankings):
        rows = np.flatnonzero(answers.ranking == number)
        for row in rows:
            left = rows[answers.rank[rows] >= answers.rank[row]]
            total += x[row] - np.log(np.exp(x[left]).sum())
    return total


def test_likelihood_gradient_and_information() -> None:
    answers = tiny()
    x = np.random.default_rng(1).normal(size=answers.n_answers)
    stages = Stages(answers, x)
    assert stages.value == pytest.approx(dense_log_likelihood(answers, x), abs=1e-10)
    columns = []
    for place in range(x.size):
        step = np.zeros(x.size)
        step[place] = 1e-6
        rise = dense_log_likelihood(answers, x + step) - dense_log_likelihood(answers, x - step)
        assert rise / 2e-6 == pytest.approx(stages.gradient[place], abs=1e-6)
        columns.append((Stages(answers, x - step).gradient - Stages(answers, x + step).gradient) / 2e-6)
    matrix = np.column_stack([stages.multiply(column) for column in np.eye(x.size)])
    np.testing.assert_allclose(matrix, np.column_stack(columns), atol=1e-6)
    np.testing.assert_allclose(matrix.diagonal(), stages.diagonal, atol=1e-12)
    first, second, weights = stages.pair_weights(100)
    np.testing.assert_allclose(-matrix[first, second], weights, atol=1e-12)


def test_probabilities_of_all_orders_sum_to_one() -> None:
    score = np.array([0.3, -1.0, 0.8, 0.1])
    total = 0.0
    for order in itertools.permutations(range(4)):
        answers = Rankings.from_codes([0] * 4, order, range(4), items=4, workers=1)
        total += np.exp(Stages(answers, score[answers.item]).value)
    assert total == pytest.approx(1, abs=1e-12)


def test_objective_and_its_gradient() -> None:
    answers = tiny(2)
    objective = RankingObjective(answers, Spreads(1.3, 0.7, 0.4))
    vector = np.random.default_rng(3).normal(size=8)
    found = objective.describe(vector)
    slope = vector[5:] / np.sqrt((vector[5:] ** 2).mean())
    expected = dense_log_likelihood(answers, slope[answers.worker] * vector[:5][answers.item])
    expected -= (vector[:5] ** 2).sum() / (2 * 1.3**2) + ((slope - 0.7) ** 2).sum() / (2 * 0.4**2)
    assert found.value == pytest.approx(expected, abs=1e-10)
    for place in range(8):
        step = np.zeros(8)
        step[place] = 1e-6
        rise = objective.describe(vector + step).value - objective.describe(vector - step).value
        assert rise / 2e-6 == pytest.approx(found.gradient[place], abs=1e-6)
    matrix = np.column_stack([found.multiply(column) for column in np.eye(8)])
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-10)


def test_variances_are_those_of_the_dense_inverse() -> None:
    answers = tiny(4)
    score, slope = np.random.default_rng(5).normal(size=5), np.array([1.2, 0.9, -0.3])
    objective = RankingObjective(answers, Spreads(1.3), slope)
    found = objective.describe(score)
    inverse = np.linalg.inv(np.column_stack([found.multiply(column) for column in np.eye(5)]))
    variance, centred, _ = objective.find_variances(score, slope)
    np.testing.assert_allclose(variance, inverse.diagonal(), rtol=1e-8)
    centre = np.eye(5) - 1 / 5
    np.testing.assert_allclose(centred, (centre @ inverse @ centre).diagonal(), rtol=1e-8)


def test_plackett_luce_is_that_of_choix() -> None:
    choix = pytest.importorskip("choix")
    crowd = simulate_rankings(6, 1, lists_per_worker=40, length=4, spammers=0.0, random_state=2)
    answers = crowd.answers
    data = [tuple(answers.item[row].tolist()) for block in answers.blocks for row in block.row]
    expected = choix.opt_rankings(6, data, alpha=0.5 / 1.5**2, tol=1e-10)
    np.testing.assert_allclose(PlackettLuce(spread=1.5).fit(answers).score_, expected, atol=1e-5)


def test_kemeny_is_the_best_of_all_orders() -> None:
    for seed in range(6):
        crowd = simulate_rankings(6, 4, lists_per_worker=2, length=4, spread=0.7, random_state=seed)
        margins = count_margins(crowd.answers).toarray()
        best = max(
            sum(margins[a, b] for a, b in itertools.combinations(order, 2))
            for order in itertools.permutations(range(6))
        )
        model = Kemeny().fit(crowd.answers)
        order = np.argsort(-model.score_)
        assert sum(margins[a, b] for a, b in itertools.combinations(order, 2)) == best
        assert model.converged_


def test_mallows_dispersion_and_probabilities_by_enumeration() -> None:
    theta, n = 0.7, 4
    orders = list(itertools.permutations(range(n)))
    wrong = np.array([sum(a > b for a, b in itertools.combinations(order, 2)) for order in orders])
    weights = np.exp(-theta * wrong)
    shares = weights / weights.sum()
    model = Kemeny().fit(Rankings.from_codes([0] * n, range(n), range(n), items=n, workers=1))
    model.dispersion_ = np.array([theta])
    for order, share in zip(orders, shares, strict=True):
        answers = Rankings.from_codes([0] * n, order, range(n), items=n, workers=1)
        better, left = count_worse_choices(answers, np.arange(n))
        assert better.sum() == sum(a > b for a, b in itertools.combinations(order, 2))
        assert model.log_density(answers).sum() == pytest.approx(math.log(share), abs=1e-9)
    # A crowd whose mean number of disagreements is that of θ has θ.
    counts = np.round(1e6 * shares).astype(int)
    rows = [count_worse_choices(Rankings.from_codes([0] * n, order, range(n), items=n, workers=1), np.arange(n))
            for order in orders]  # fmt: skip
    better = np.concatenate([np.repeat(row[0], count) for row, count in zip(rows, counts, strict=True)])
    left = np.concatenate([np.repeat(row[1], count) for row, count in zip(rows, counts, strict=True)])
    assert fit_dispersion(better, left) == pytest.approx(theta, abs=1e-4)


def test_borda_by_hand() -> None:
    answers = read_rankings(ROWS | {"rank": [1, 2, 2, 2, 1]})
    table = dict(zip(zip(answers.ranking, answers.item, strict=True), borda_points(answers), strict=True))
    assert table == {(0, 0): 1.0, (0, 1): 0.25, (0, 2): 0.25, (1, 1): 0.0, (1, 2): 1.0}


def test_temperatures_beat_borda_where_workers_spam() -> None:
    """Half of the workers order at random: Plackett-Luce finds them, and orders items better than Borda's count."""
    gains = []
    for seed in range(8):
        crowd = simulate_rankings(30, 20, lists_per_worker=4, length=5, spammers=0.5, random_state=seed)
        model = PlackettLuce().fit(crowd.answers)
        gains.append(
            concordance(model.score_, crowd.score) - concordance(Borda().fit(crowd.answers).score_, crowd.score)
        )
        reliability = model.workers()["reliability"].to_numpy()
        assert reliability[crowd.slope == 0].mean() < reliability[crowd.slope > 0].mean() - 0.05
    assert np.mean(gains) > 0.02
    assert np.mean(np.array(gains) > 0) >= 0.75


def test_intervals_cover() -> None:
    inside = []
    for seed in range(8):
        crowd = simulate_rankings(20, 15, lists_per_worker=8, length=5, slope=0.0, spread=1.0, random_state=seed)
        table = PlackettLuce().fit(crowd.answers).consensus().sort_by("item")
        inside.append((table["low"].to_numpy() <= crowd.score) & (crowd.score <= table["high"].to_numpy()))
    assert 0.83 <= np.mean(inside) <= 0.96


def test_new_items_and_gold() -> None:
    crowd = simulate_rankings(20, 10, lists_per_worker=12, length=5, random_state=3)
    table = crowd.answers.to_table()
    new = np.isin(crowd.answers.item, (0, 1, 2))
    model = PlackettLuce().fit(read_rankings(table.filter(~new)))
    found = model.predict(table).sort_by("item")
    assert concordance(found["score"].to_numpy(), crowd.score) > 0.85
    gold = {item: float(crowd.score[item]) for item in range(10)}
    pinned = PlackettLuce().fit(crowd.answers, gold)
    assert concordance(pinned.score_[:10], crowd.score[:10]) == 1
    with pytest.raises(InputError, match="borda has no use for gold"):
        Borda().fit(crowd.answers, gold)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rank": [1, 2, float("nan"), 2, 1]}, "rank"),
        ({"rank": [1, 2, float("inf"), 2, 1]}, "no finite numbers"),
        ({"rank": ["1", "2", "third", "2", "1"]}, "'third' in place of numbers"),
        ({"item": ["a", "a", "c", "b", "c"]}, "stand twice in a ranking .*'a' by worker 'ann'"),
        ({"item": ["a", None, "c", "b", "c"]}, "column 'item'"),
        ({"worker": list("abcde"), "item": ["a"] * 5}, "one item alone"),
    ],
)
def test_bad_input_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_rankings(ROWS | changed)


def test_missing_columns_and_groups_are_said() -> None:
    with pytest.raises(InputError, match="Rankings need the columns worker, item and rank"):
        read_rankings({"worker": ["ann"], "item": ["a"]})
    with pytest.warns(InputWarning, match=r"2 groups that no ranking joins .*the largest has 2 of 4"):
        answers = read_rankings({"worker": ["ann", "ann", "bob", "bob"], "item": list("abcd"), "rank": [1, 2, 1, 2]})
    for method in (Borda, PlackettLuce, Kemeny):
        assert method().fit(answers).consensus()["rank"].to_pylist() == [1, 2, 1, 2]
    assert len(read_rankings(ROWS | {"item": ["a", "a", "c", "b", "c"]}, on_duplicate="last")) == 4
