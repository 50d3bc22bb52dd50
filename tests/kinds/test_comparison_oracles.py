"""Comparisons against other libraries, finite differences, enumeration and dense formulas."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from crowdwise.kinds import simulate_comparisons
from crowdwise.kinds.comparisons import BradleyTerry, Comparisons, CrowdBt
from crowdwise.kinds.comparisons.likelihood import (
    Parameters,
    answer_probabilities,
    choice_shares,
    differentiate,
    observe_information,
)
from crowdwise.kinds.comparisons.posterior_mode import TIE_SPREAD, Objective, Priors
from crowdwise.kinds.comparisons.uncertainty import find_variances, propagate_beliefs
from crowdwise.kinds.pair_graph import PairGraph
from crowdwise.labels.engine_choice import use_engine

INFORMATION = (("xx", "xq", "xt"), ("qx", "qq", "qt"), ("tx", "tq", "tt"))
EVERY_PART = ("score", "slope", "bias", "quality", "tie")


def tiny(seed: int = 0, n_items: int = 5, n_workers: int = 3, n: int = 40, *, ties: bool = True) -> Comparisons:
    generator = np.random.default_rng(seed)
    left = generator.integers(n_items, size=n)
    right = (left + generator.integers(1, n_items, size=n)) % n_items
    outcome = generator.choice((-1, 0, 1) if ties else (-1, 1), size=n)
    worker = generator.integers(n_workers, size=n)
    return Comparisons.from_codes(worker, left, right, outcome, items=n_items, workers=n_workers, on_duplicate="all")


def anywhere(answers: Comparisons, seed: int = 1) -> Parameters:
    generator = np.random.default_rng(seed)
    workers = (generator.normal(size=answers.n_workers) for _ in range(3))
    return Parameters(generator.normal(size=answers.n_items), *workers, 0.4)


def dense_log_posterior(answers: Comparisons, now: Parameters, priors: Priors) -> float:
    """The formula of the docstrings, one answer after the other."""
    total, slopes = 0.0, now.slope / np.sqrt((now.slope**2).mean())
    for worker, left, right, outcome in zip(answers.worker, answers.left, answers.right, answers.outcome, strict=True):
        x = slopes[worker] * (now.score[left] - now.score[right]) + now.bias[worker]
        weights = {1: np.exp(x / 2), 0: np.exp(now.tie), -1: np.exp(-x / 2)}
        omega = expit(now.quality[worker])
        share = (omega * weights[outcome] + (1 - omega) * weights[-outcome]) / sum(weights.values())
        total += np.log(share)
    omegas = expit(now.quality)
    total -= 0.5 * (now.score**2).sum() / priors.spread**2
    total -= 0.5 * ((slopes - priors.slope_mean) ** 2).sum() / priors.slope_spread**2
    total -= 0.5 * ((now.bias - priors.bias_mean) ** 2).sum() / priors.bias_spread**2
    total += ((priors.right - 1) * np.log(omegas) + (priors.wrong - 1) * np.log(1 - omegas)).sum()
    return float(total - 0.5 * (now.tie / TIE_SPREAD) ** 2)


def test_objective_and_gradient() -> None:
    answers, priors = tiny(), Priors(spread=1.3, slope_mean=0.6, slope_spread=0.7, bias_mean=0.2, right=4.0, wrong=2.0)
    now = anywhere(answers)
    objective = Objective(answers, EVERY_PART, now, priors)
    vector = objective.pack(now)
    found = objective.describe(vector)
    assert found.value == pytest.approx(dense_log_posterior(answers, now, priors), abs=1e-10)
    for place in range(vector.size):
        step = np.zeros(vector.size)
        step[place] = 1e-6
        rise = objective.describe(vector + step).value - objective.describe(vector - step).value
        assert rise / 2e-6 == pytest.approx(found.gradient[place], abs=1e-6)


def test_information_is_the_expected_curvature() -> None:
    """Fisher's information: the expectation over outcomes of the product of derivatives, and the curvature if ω = 1."""
    x, quality, tie = np.array([0.7, -1.2, 2.0]), np.array([0.3, 2.0, -1.0]), 0.2
    shares = answer_probabilities(x, expit(quality), tie)
    expected = dict.fromkeys(("xx", "qq", "tt", "xq", "xt", "qt"), 0.0)
    for outcome, share in zip((1, 0, -1), shares, strict=True):
        found = differentiate(np.full(3, outcome), x, quality, tie)
        for name in expected:
            one, two = (getattr(found, f"by_{letter}") for letter in name)
            expected[name] = expected[name] + share * one * two
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(found.expected, name), value, atol=1e-12)
    sure = np.full(3, np.inf)
    above, below = (differentiate(np.ones(3, int), x + side * 1e-5, sure, tie).by_x for side in (1, -1))
    curved = differentiate(np.ones(3, int), x, sure, tie).expected.xx
    np.testing.assert_allclose((below - above) / 2e-5, curved, atol=1e-8)


@pytest.mark.parametrize("tie", [0.2, -np.inf])
def test_observed_information_is_the_curvature(tie: float) -> None:
    """Minus the second derivatives, for every outcome, by differences of the first ones."""
    x, quality, h = np.array([0.7, -1.2, 2.0]), np.array([0.3, 2.0, -1.0]), 1e-5
    for outcome in (1, 0, -1) if tie > -np.inf else (1, -1):
        said = np.full(3, outcome)
        found = observe_information(differentiate(said, x, quality, tie), said, x, quality, tie)
        moves = {"x": (h, 0, 0), "q": (0, h, 0), "t": (0, 0, h)}
        for name in found._fields if tie > -np.inf else ("xx", "xq", "qq"):
            a, b, c = moves[name[1]]
            above, below = (
                getattr(differentiate(said, x + side * a, quality + side * b, tie + side * c), f"by_{name[0]}")
                for side in (1, -1)
            )
            np.testing.assert_allclose(getattr(found, name), (below - above) / (2 * h), atol=1e-8, err_msg=name)


@pytest.mark.parametrize("parts", [("score",), ("score", "slope", "bias"), ("score", "bias", "quality")])
def test_compiled_sums_are_those_of_numpy(parts: tuple[str, ...]) -> None:
    answers = tiny(5, 6, 4, 60, ties=False)
    now = replace(anywhere(answers), tie=-np.inf)
    now = replace(now, score=9 * now.score, quality=now.quality if "quality" in parts else np.full(4, np.inf))
    objective = Objective(answers, parts, now, Priors(right=3.0, wrong=2.0))
    direction = np.random.default_rng(0).normal(size=objective.size)
    found = []
    for engine in ("numpy", "numba"):
        with use_engine(engine):
            local = objective.describe(objective.pack(now))
            numbers = [local.value, local.gradient, local.multiply(direction), local.diagonal]
            found.append([*numbers, *objective.information(now)[0]])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_compiled_messages_are_those_of_numpy() -> None:
    graph, generator = tiny(2, 9, 3, 60).graph, np.random.default_rng(0)
    weights, own = generator.gamma(1.0, size=graph.n_pairs), generator.gamma(1.0, size=graph.n_items)
    weights[0] = 0.0
    found = []
    for engine in ("numpy", "numba"):
        with use_engine(engine):
            found.append(propagate_beliefs(graph, weights, own))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_crowd_bt_climbs_by_newton() -> None:
    """Few steps: 8, and with Fisher's information 23."""
    answers = simulate_comparisons(300, 60, answers_per_worker=60, ties=0.0, bias=0.0, random_state=1).answers
    model = CrowdBt(spread=1.3).fit(answers)
    assert model.converged_
    assert model.n_iter_ <= 12
    closer = CrowdBt(spread=1.3, tol=1e-13).fit(answers)
    np.testing.assert_allclose(model.score_, closer.score_, atol=1e-3)


def test_information_as_products_is_the_dense_matrix() -> None:
    answers = tiny(3)
    now = anywhere(answers)
    objective = Objective(answers, EVERY_PART, now, Priors(right=3.0, wrong=2.0))
    found = objective.describe(objective.pack(now))
    matrix = np.column_stack([found.multiply(column) for column in np.eye(objective.size)])
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
    assert np.linalg.eigvalsh(matrix).min() > 0


def test_variances_are_those_of_the_dense_inverse() -> None:
    """With slopes whose root mean square is given, as intervals take it."""
    answers = tiny(3)
    now = anywhere(answers)
    objective = Objective(answers, EVERY_PART, now, Priors(right=3.0, wrong=2.0))
    found, slope, moved, precision = objective.information(now)
    matrix = np.diag(precision)
    for row in range(answers.n_answers):
        moves = np.zeros((3, objective.size))
        moves[0, [answers.left[row], answers.right[row]]] = slope[row], -slope[row]
        moves[0, [5 + answers.worker[row], 8 + answers.worker[row]]] = moved[row], 1
        moves[1, 11 + answers.worker[row]] = moves[2, 14] = 1
        weights = np.array(
            [[getattr(found, "".join(sorted(pair, key="xqt".index)))[row] for pair in line] for line in INFORMATION]
        )
        matrix += moves.T @ weights @ moves
    np.testing.assert_allclose(matrix.diagonal(), objective.describe(objective.pack(now)).diagonal, atol=1e-12)
    inverse = np.linalg.inv(matrix)
    variances = find_variances(objective, now)
    graph = answers.graph
    np.testing.assert_allclose(variances.score, inverse.diagonal()[:5], atol=1e-10)
    np.testing.assert_allclose(variances.workers["slope"], inverse.diagonal()[5:8], atol=1e-10)
    pair = [inverse[i, i] + inverse[j, j] - 2 * inverse[i, j] for i, j in zip(graph.first, graph.second, strict=True)]
    np.testing.assert_allclose(variances.pair, pair, atol=1e-10)
    # The mean of a group is known only by the prior, whatever the answers say.
    centre = np.eye(5) - 1 / 5
    np.testing.assert_allclose(variances.centred, (centre @ inverse[:5, :5] @ centre.T).diagonal(), atol=1e-10)


def test_crowd_bt_is_the_sum_over_exchanges() -> None:
    """P(answers) = the sum over which answers were exchanged, on every answer of a tiny crowd."""
    answers = tiny(2, n=8)
    now = anywhere(answers)
    omega = expit(now.quality)[answers.worker]
    x = now.slope[answers.worker] * (now.score[answers.left] - now.score[answers.right]) + now.bias[answers.worker]
    shares = dict(zip((1, 0, -1), choice_shares(x, now.tie), strict=True))
    total = 0.0
    for exchanged in itertools.product((False, True), repeat=answers.n_answers):
        turned = np.where(exchanged, -1, 1) * answers.outcome
        said = np.array([shares[outcome][place] for place, outcome in enumerate(turned)])
        total += np.prod(np.where(exchanged, 1 - omega, omega) * said)
    value = differentiate(answers.outcome, x, now.quality[answers.worker], now.tie).value
    assert value.sum() == pytest.approx(np.log(total), abs=1e-10)


def strongly_connected() -> tuple[Comparisons, list[tuple[int, int]]]:
    crowd = simulate_comparisons(8, 10, answers_per_worker=60, ties=0.0, slope=0.0, bias=0.0, random_state=3)
    answers = crowd.answers
    won = answers.outcome > 0
    winner, loser = np.where(won, answers.left, answers.right), np.where(won, answers.right, answers.left)
    return answers, list(zip(winner.tolist(), loser.tolist(), strict=True))


def test_bradley_terry_is_maximum_likelihood_by_minorisation() -> None:
    """With a flat prior: the fixed point of Zermelo (1929), s = wins / Σ n / (s + s')."""
    answers, pairs = strongly_connected()
    games = np.zeros((8, 8))
    for one, two in pairs:
        games[one, two] += 1
    strength = np.ones(8)
    for _ in range(5000):
        strength = games.sum(axis=1) / ((games + games.T) / (strength[:, None] + strength)).sum(axis=1)
        strength /= np.exp(np.log(strength).mean())
    found = BradleyTerry(spread=1e5).fit(answers).score_
    np.testing.assert_allclose(found - found.mean(), np.log(strength), atol=1e-6)


def test_bradley_terry_is_that_of_choix() -> None:
    choix = pytest.importorskip("choix")
    answers, pairs = strongly_connected()
    spread = 1.7
    expected = choix.opt_pairwise(8, pairs, alpha=0.5 / spread**2, tol=1e-10)
    np.testing.assert_allclose(BradleyTerry(spread=spread).fit(answers).score_, expected, atol=1e-6)


def test_bradley_terry_is_that_of_evalica() -> None:
    evalica = pytest.importorskip("evalica")
    answers, pairs = strongly_connected()
    first, second = zip(*pairs, strict=True)
    result = evalica.bradley_terry(first, second, [evalica.Winner.X] * len(pairs), tolerance=1e-14, limit=10_000)
    expected = np.log(np.array([result.scores[item] for item in range(8)]))
    found = BradleyTerry(spread=1e5).fit(answers).score_
    np.testing.assert_allclose(found - found.mean(), expected - expected.mean(), atol=1e-6)


def test_beliefs_are_exact_on_trees() -> None:
    generator = np.random.default_rng(4)
    child = np.arange(1, 12)
    parent = np.array([generator.integers(node) for node in child])
    graph = PairGraph.of(child, parent, 12)
    weights, own = generator.uniform(0.1, 3, graph.n_pairs), generator.uniform(0.1, 2, 12)
    matrix: Any = np.diag(own)
    for one, two, weight in zip(graph.first, graph.second, weights, strict=True):
        matrix[[one, two], [one, two]] += weight
        matrix[[one, two], [two, one]] -= weight
    inverse = np.linalg.inv(matrix)
    score, pair = propagate_beliefs(graph, weights, own)
    np.testing.assert_allclose(score, inverse.diagonal(), rtol=1e-6)
    differences = [
        inverse[i, i] + inverse[j, j] - 2 * inverse[i, j] for i, j in zip(graph.first, graph.second, strict=True)
    ]
    np.testing.assert_allclose(pair, differences, rtol=1e-6)
