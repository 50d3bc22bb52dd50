"""Similarity against enumeration, dense formulas and finite differences; compiled loops against NumPy."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import beta

from crowdwise.kernels import pair_messages
from crowdwise.kinds.similarity import PairBeliefPropagation, PairMeanField, Similarities, simulate_similarities
from crowdwise.kinds.similarity.belief_propagation import fit_messages, run_messages
from crowdwise.kinds.similarity.mean_field import lower_bound, pass_beliefs
from crowdwise.kinds.similarity.pair_evidence import Rates, RatesPrior, count_answers, lay_out_evidence, update_rates
from crowdwise.kinds.similarity.planted_partition import (
    SHARE_ANSWERS,
    PartitionState,
    expand_shares,
    log_prior_of,
    update_parameters,
)
from crowdwise.kinds.similarity.votes import cluster_by_weights
from crowdwise.labels.engine_choice import use_engine

K = 3


def some_answers(n_items: int, pairs: list[tuple[int, int]], seed: int = 0) -> Similarities:
    generator = np.random.default_rng(seed)
    left, right = np.array(pairs * 2).T
    worker = np.repeat([0, 1], len(pairs))
    return Similarities.from_codes(worker, left, right, generator.random(left.size) < 0.5, items=n_items, workers=2)


def some_state(evidence: Any, seed: int = 1) -> PartitionState:
    generator = np.random.default_rng(seed)
    rates = Rates(generator.uniform(0.6, 0.9, 2), generator.uniform(0.1, 0.4, 2))
    shares = generator.dirichlet(np.ones(K), evidence.group_sizes.size)
    belief = generator.dirichlet(np.ones(K), evidence.n_items)
    prior = RatesPrior((6.0, 2.0), (3.0, 5.0))
    return PartitionState(rates, shares, np.zeros(evidence.graph.n_pairs), belief, prior)


def log_joint(answers: Similarities, state: PartitionState, clusters: Any) -> float:
    """Log-probability of clusters and answers, answer by answer (one group; items named by their positions)."""
    total = float(np.log(state.shares[0][list(clusters)]).sum())
    for worker, left, right, same in zip(answers.worker, answers.left, answers.right, answers.same, strict=True):
        rate = (state.rates.same if clusters[left] == clusters[right] else state.rates.different)[worker]
        total += float(np.log(rate if same else 1 - rate))
    return total


TREE = [(0, 1), (1, 2), (1, 3), (3, 4)]


def test_messages_are_exact_on_a_tree() -> None:
    answers = some_answers(5, TREE)
    evidence = lay_out_evidence(answers)
    state = some_state(evidence)
    every = list(itertools.product(range(K), repeat=5))
    logs = np.array([log_joint(answers, state, each) for each in every])
    chance = np.exp(logs - logsumexp(logs))
    belief = state.belief.copy()
    message = belief[evidence.edges.neighbour]
    together, value = np.zeros(0), 0.0
    for _ in range(8):
        together, value, _ = run_messages(evidence, state.rates, expand_shares(evidence, state.shares), message, belief)
    assert value == pytest.approx(logsumexp(logs), abs=1e-10)
    for item in range(5):
        for cluster in range(K):
            there = np.array([each[item] == cluster for each in every])
            assert belief[item, cluster] == pytest.approx(chance[there].sum(), abs=1e-10)
    for pair, (first, second) in enumerate(zip(evidence.graph.first, evidence.graph.second, strict=True)):
        there = np.array([each[first] == each[second] for each in every])
        assert together[pair] == pytest.approx(chance[there].sum(), abs=1e-10)


def test_the_bound_is_the_dense_formula_and_below_the_evidence() -> None:
    """E_q log P(clusters, answers) - E_q log q, over all partitions; equal to the joint where q is sure."""
    answers = some_answers(5, [*TREE, (0, 2), (0, 4), (2, 4)])
    evidence = lay_out_evidence(answers)
    state = some_state(evidence)
    every = list(itertools.product(range(K), repeat=5))
    logs = np.array([log_joint(answers, state, each) for each in every])
    q = np.array([np.log(state.belief[np.arange(5), list(each)]).sum() for each in every])
    assert lower_bound(evidence, state) == pytest.approx(float((np.exp(q) * (logs - q)).sum()), abs=1e-10)
    assert lower_bound(evidence, state) < logsumexp(logs)
    sure = replace(state, belief=np.eye(K)[[0, 1, 1, 2, 0]])
    assert lower_bound(evidence, sure) == pytest.approx(log_joint(answers, state, [0, 1, 1, 2, 0]), abs=1e-10)


def test_priors_are_densities() -> None:
    evidence = lay_out_evidence(some_answers(5, TREE))
    state = some_state(evidence)
    expected = beta.logpdf(state.rates.same, 7, 3).sum() + beta.logpdf(state.rates.different, 4, 6).sum()
    one = 1 + SHARE_ANSWERS
    expected += gammaln(K * one) - K * gammaln(one) + (one - 1) * np.log(state.shares[0]).sum()
    assert log_prior_of(state) == pytest.approx(float(expected), abs=1e-10)


def test_updates_are_stationary_points_of_the_bound() -> None:
    """By finite differences: of each belief given the others, of rates and of shares given the beliefs."""
    answers = some_answers(6, [*TREE, (0, 2), (2, 5), (4, 5), (0, 5)])
    evidence = lay_out_evidence(answers)
    state = some_state(evidence)
    for _ in range(500):
        state = update_parameters(evidence, pass_beliefs(evidence, state), 8.0)

    def value(belief: Any, rates: Rates, shares: Any) -> float:
        there = replace(state, belief=belief, rates=rates, shares=shares)
        return lower_bound(evidence, there) + log_prior_of(there)

    def tilt(shares: Any, row: int, column: int, step: float) -> Any:
        logs = np.log(np.maximum(shares, 1e-300))
        logs[row, column] += step
        return np.exp(logs - logsumexp(logs, axis=1, keepdims=True))

    h = 1e-5
    for item, cluster in itertools.product(range(6), range(K)):
        up, down = (value(tilt(state.belief, item, cluster, s), state.rates, state.shares) for s in (h, -h))
        assert abs(up - down) / (2 * h) < 1e-5
    for cluster in range(K):
        up, down = (value(state.belief, state.rates, tilt(state.shares, 0, cluster, s)) for s in (h, -h))
        assert abs(up - down) / (2 * h) < 1e-5
    for which, worker in itertools.product(range(2), range(2)):
        moved = []
        for step in (h, -h):
            rates = [each.copy() for each in state.rates]
            rates[which][worker] += step
            moved.append(value(state.belief, Rates(*rates), state.shares))
        assert abs(moved[0] - moved[1]) / (2 * h) < 1e-4


def test_the_gradient_in_the_rates_away_from_an_optimum() -> None:
    """The derivative in a rate is (expected said - rate × expected answers) / (rate (1 - rate)), prior included."""
    evidence = lay_out_evidence(some_answers(5, TREE))
    state = pass_beliefs(evidence, some_state(evidence))
    counts, h = count_answers(evidence, state.together), 1e-6
    assert state.prior is not None
    best = update_rates(counts, state.prior)
    for name in ("same", "different"):
        rate, said = getattr(state.rates, name)[0], getattr(counts, name)[0].sum() + sum(getattr(state.prior, name))
        expected = said * (getattr(best, name)[0] - rate) / (rate * (1 - rate))
        values = []
        for step in (h, -h):
            moved = getattr(state.rates, name).copy()
            moved[0] += step
            there = replace(state, rates=state.rates._replace(**{name: moved}))
            values.append(lower_bound(evidence, there) + log_prior_of(there))
        assert (values[0] - values[1]) / (2 * h) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_the_mean_field_never_falls(seed: int) -> None:
    crowd = simulate_similarities(40, 8, share=0.2, random_state=seed)
    model = PairMeanField(n_clusters=4, tol=0.0, max_iter=40).fit(crowd.answers)
    assert model.objective_.size > 10
    assert (np.diff(model.objective_) >= -1e-9).all()


def test_both_methods_agree_where_answers_are_many() -> None:
    crowd = simulate_similarities(60, 8, share=0.9, random_state=1)
    one, other = PairBeliefPropagation(n_clusters=3).fit(crowd.answers), PairMeanField(n_clusters=3).fit(crowd.answers)
    assert (one.cluster_ == other.cluster_).all()
    np.testing.assert_allclose(one.sensitivity_beta_, other.sensitivity_beta_, rtol=0.02)


def test_local_search_finds_the_best_clusters_of_few_items() -> None:
    generator = np.random.default_rng(0)
    for _ in range(10):
        first, second = np.array(list(itertools.combinations(range(6), 2))).T
        truth = generator.integers(3, size=6)
        weight = np.where(truth[first] == truth[second], 1.0, -1.0) + 0.4 * generator.normal(size=first.size)
        best = max(
            float(weight[np.array(each)[first] == np.array(each)[second]].sum())
            for each in itertools.product(range(4), repeat=6)
        )
        found = cluster_by_weights(first, second, weight, 6)
        assert weight[found[first] == found[second]].sum() == pytest.approx(best)


def test_compiled_loops_are_those_of_numpy() -> None:
    crowd = simulate_similarities(50, 8, share=0.3, random_state=2)
    found = {}
    for engine in ("numpy", "numba"):
        with use_engine(engine):
            evidence = lay_out_evidence(crowd.answers)
            fit = fit_messages(evidence, 3, 8.0, 30, 0.0, 0, "test")
            state = pass_beliefs(evidence, fit.state)
            generator = np.random.default_rng(0)
            cluster = np.arange(50)
            weight = generator.normal(size=evidence.graph.n_pairs)[evidence.edges.pair]
            group = np.zeros(50, np.int64)
            moved = [pair_messages.move_items(evidence.edges, weight, cluster, group, np.array([50])) for _ in range(4)]
            few = cluster % 2
            moved += [pair_messages.move_items(evidence.edges, weight, few, group, np.array([4])) for _ in range(4)]
            found[engine] = (fit.state.together, fit.objective, state.belief, cluster, few, moved)
    for one, two in zip(*found.values(), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)
    assert np.unique(found["numpy"][4]).size <= 4
