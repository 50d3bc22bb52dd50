"""Belief propagation on trees against every truth, one by one, with the integral over the workers done apart."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import betaln, gammaln, logsumexp

import crowdwise as cw
from crowdwise.fitting.quadrature import beta_nodes, class_wise_nodes, coin_nodes
from crowdwise.labels import CrowdLabels, InputError

if TYPE_CHECKING:
    from collections.abc import Callable

SETTLED = {"tol": 0.0, "max_iter": 30}


def tree(n_classes: int, seed: int) -> CrowdLabels:
    """Seven tasks and four workers; each new worker takes one task that is there already, and one or two new ones."""
    generator = np.random.default_rng(seed)
    edges, n_tasks = [(0, 0)], 1
    for worker in range(4):
        if worker > 0:
            edges.append((int(generator.integers(n_tasks)), worker))
        for _ in range(2 if worker in (0, 2) else 1):
            edges.append((n_tasks, worker))
            n_tasks += 1
    task, worker = np.array(edges).T
    return CrowdLabels.from_codes(
        task, worker, generator.integers(0, n_classes, task.size), tasks=n_tasks, workers=4, classes=n_classes
    )


def enumerated(labels: CrowdLabels, prior: Any, log_factor: Callable[[Any, Any], float], gold: Any = None) -> Any:
    """Log-probability of the labels, and posteriors; `log_factor(truths, labels)` of one worker's answers."""
    truths = list(itertools.product(range(labels.n_classes), repeat=labels.n_tasks))
    cached = functools.cache(log_factor)
    logs = []
    for truth in truths:
        value = 0.0
        for task, true_class in enumerate(truth):
            value += np.log(prior[task][true_class])
            if gold and task in gold and gold[task] != true_class:
                value = -np.inf
        for worker in range(labels.n_workers):
            own = [edge for edge in range(labels.n_labels) if labels.worker[edge] == worker]
            value += cached(
                tuple(truth[labels.task[edge]] for edge in own), tuple(int(labels.label[edge]) for edge in own)
            )
        logs.append(value)
    total = logsumexp(logs)
    posterior = np.zeros((labels.n_tasks, labels.n_classes))
    for truth, value in zip(truths, logs, strict=True):
        for task, true_class in enumerate(truth):
            posterior[task, true_class] += np.exp(value - total)
    return total, posterior


def one_coin(alpha: tuple[float, float], n_classes: int) -> Callable[[Any, Any], float]:
    def log_factor(truth: Any, label: Any) -> float:
        right = sum(a == b for a, b in zip(truth, label, strict=True))
        wrong = len(truth) - right
        return float(betaln(alpha[0] + right, alpha[1] + wrong) - betaln(*alpha) - wrong * np.log(n_classes - 1))

    return log_factor


def class_wise(alpha: tuple[float, float], n_classes: int) -> Callable[[Any, Any], float]:
    def log_factor(truth: Any, label: Any) -> float:
        value = 0.0
        for k in range(n_classes):
            mine = [b for a, b in zip(truth, label, strict=True) if a == k]
            value += one_coin(alpha, n_classes)([k] * len(mine), mine)
        return value

    return log_factor


def mixture(matrices: Any, weights: Any) -> Callable[[Any, Any], float]:
    def log_factor(truth: Any, label: Any) -> float:
        total = 0.0
        for matrix, weight in zip(matrices, weights, strict=True):
            total += weight * np.prod([matrix[a][b] for a, b in zip(truth, label, strict=True)])
        return float(np.log(total)) if total > 0 else -np.inf

    return log_factor


def assert_exact(model: Any, labels: CrowdLabels, prior: Any, log_factor: Any, gold: Any = None) -> None:
    value, posterior = enumerated(labels, prior, log_factor, gold)
    np.testing.assert_allclose(model.posterior_, posterior, atol=1e-10)
    assert model.log_likelihood_[-1] == pytest.approx(value, abs=1e-10)


def uniform(labels: CrowdLabels) -> Any:
    return np.full((labels.n_tasks, labels.n_classes), 1 / labels.n_classes)


@pytest.mark.parametrize("alpha", [None, (0.2, 0.1), (2.5, 1.3), (30.0, 9.0)], ids=str)
@pytest.mark.parametrize(("n_classes", "seed"), [(2, 0), (2, 1), (3, 2)])
def test_one_coin_on_a_tree(n_classes: int, seed: int, alpha: Any) -> None:
    labels = tree(n_classes, seed)
    model = cw.BeliefPropagation(alpha=alpha, **SETTLED).fit(labels)
    assert_exact(model, labels, uniform(labels), one_coin(alpha or (2.0, 1.0), n_classes))


@pytest.mark.parametrize("alpha", [(2.0, 1.0), (0.6, 0.3)], ids=str)
@pytest.mark.parametrize(("n_classes", "seed"), [(2, 3), (3, 4)])
def test_class_wise_on_a_tree(n_classes: int, seed: int, alpha: Any) -> None:
    labels = tree(n_classes, seed)
    model = cw.BeliefPropagation(prior="class-wise", alpha=alpha, **SETTLED).fit(labels)
    assert_exact(model, labels, uniform(labels), class_wise(alpha, n_classes))


@pytest.mark.parametrize("with_gold", [False, True], ids=["no gold", "gold"])
@pytest.mark.parametrize(("n_classes", "seed"), [(2, 5), (3, 6)])
def test_mixture_on_a_tree(n_classes: int, seed: int, with_gold: bool) -> None:
    """A perfect worker among the matrices: probabilities of exactly 0, which leave-one-out must not divide by."""
    labels = tree(n_classes, seed)
    generator = np.random.default_rng(seed)
    matrices = generator.dirichlet(np.ones(n_classes), (4, n_classes))
    matrices[0] = np.eye(n_classes)
    weights = generator.dirichlet(np.ones(4))
    gold = {1: 0, 2: int(labels.label[labels.task == 2][0])} if with_gold else None
    model = cw.BeliefPropagation(prior=matrices, weights=weights, **SETTLED).fit(labels, gold=gold)
    assert_exact(model, labels, uniform(labels), mixture(matrices, weights), gold)


def test_priors_of_tasks_and_of_classes() -> None:
    labels = tree(3, 7)
    prior = np.random.default_rng(0).dirichlet(np.ones(3), labels.n_tasks)
    model = cw.BeliefPropagation(task_prior=prior, **SETTLED).fit(labels)
    assert_exact(model, labels, prior, one_coin((2.0, 1.0), 3))
    np.testing.assert_allclose(model.prior_, prior.mean(axis=0), atol=1e-15)
    shares = [0.6, 0.3, 0.1]
    model = cw.BeliefPropagation(**SETTLED).fit(labels, class_prior=shares)
    assert_exact(model, labels, np.tile(shares, (labels.n_tasks, 1)), one_coin((2.0, 1.0), 3))


def test_skill_is_the_posterior_of_the_accuracy() -> None:
    """All truths known: the accuracy's posterior is a Beta, and so is its interval."""
    labels = tree(3, 8)
    gold = {task: task % 3 for task in range(labels.n_tasks)}
    model = cw.BeliefPropagation(alpha=(2.5, 1.3), **SETTLED).fit(labels, gold=gold)
    for worker in range(labels.n_workers):
        own = labels.worker == worker
        right = int((labels.label[own] == labels.task[own] % 3).sum())
        law = stats.beta(2.5 + right, 1.3 + own.sum() - right)
        assert model.skill_[worker] == pytest.approx(law.mean(), abs=1e-12)
        np.testing.assert_allclose(model.skill_beta_[worker], law.args, rtol=1e-9)
        assert model.confusion_[worker, 0, 0] == pytest.approx(law.mean(), abs=1e-12)
        assert model.confusion_[worker, 0, 1] == pytest.approx((1 - law.mean()) / 2, abs=1e-12)


def test_confusion_is_the_mean_of_the_mixture() -> None:
    labels = CrowdLabels.from_codes([0, 1], [0, 0], [0, 1], tasks=2, workers=1, classes=2)
    matrices = np.array([[[0.9, 0.1], [0.4, 0.6]], [[0.5, 0.5], [0.2, 0.8]]])
    model = cw.BeliefPropagation(prior=matrices, weights=[0.3, 0.7], **SETTLED).fit(labels, gold={0: 0, 1: 0})
    weight = np.array([0.3 * 0.9 * 0.1, 0.7 * 0.5 * 0.5])
    weight /= weight.sum()
    np.testing.assert_allclose(model.confusion_[0], (weight[:, None, None] * matrices).sum(axis=0), atol=1e-12)


@pytest.mark.parametrize("alpha", [(2.0, 1.0), (0.2, 0.1), (1.3, 0.7), (40.5, 7.0)], ids=str)
@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("n_labels", [3, 100, 3_000, 100_000])
def test_quadrature(n_labels: int, share: float, alpha: tuple[float, float]) -> None:
    """∫ p^right (1-p)^wrong Beta(p) dp is known; right and wrong up to 100,000."""
    nodes = coin_nodes(*alpha, 2, np.array([n_labels]))
    right = round(share * n_labels)
    wrong = n_labels - right
    logs = nodes.log_weight + right * np.log(nodes.table[0, 0]) + wrong * np.log(nodes.table[0, 1])
    expected = betaln(alpha[0] + right, alpha[1] + wrong) - betaln(*alpha)
    assert logsumexp(logs) == pytest.approx(expected, abs=1e-10 if n_labels <= 100 else 1e-6)
    assert nodes.log_weight.size <= 2_000


def test_a_grid_of_few_nodes_is_close() -> None:
    """300 answers about tasks of two classes that are known to 75 %: the grid that is exact for them, and 12 × 12."""
    label, likely = np.random.default_rng(0).integers(2, size=(2, 300))
    message = np.where(likely[:, None] == [0, 1], 0.75, 0.25)

    def log_evidence(nodes: Any) -> float:
        chance = np.einsum("ek,ekn->en", message, nodes.table[label])
        return float(logsumexp(nodes.log_weight + np.log(chance).sum(axis=0)))

    coarse = class_wise_nodes(2.0, 1.0, 2, np.array([300]), 144)
    assert coarse.log_weight.size == 144
    assert log_evidence(coarse) == pytest.approx(log_evidence(class_wise_nodes(2.0, 1.0, 2, np.array([300]))), abs=0.03)


def test_quadrature_of_a_beta_has_its_moments() -> None:
    log_right, log_wrong, log_weight = beta_nodes(0.5, 3.2, 12)
    weight, place = np.exp(log_weight), np.exp(log_right)
    np.testing.assert_allclose(place + np.exp(log_wrong), 1, atol=1e-14)
    for power in (1, 2, 7, 20):
        moment = np.exp(betaln(0.5 + power, 3.2) - betaln(0.5, 3.2))
        assert weight @ place**power == pytest.approx(moment, rel=1e-12)


def test_a_worker_with_a_hundred_thousand_labels() -> None:
    """One worker on 100,000 tasks of uneven priors, alone: a tree, whose integral scipy does in one dimension."""
    n_tasks = 100_000
    generator = np.random.default_rng(0)
    chance = generator.uniform(0.02, 0.98, n_tasks)  # that the truth is 0
    truth = (generator.random(n_tasks) > chance).astype(int)
    label = np.where(generator.random(n_tasks) < 0.8, truth, 1 - truth)
    labels = CrowdLabels.from_codes(
        np.arange(n_tasks), np.zeros(n_tasks, int), label, tasks=n_tasks, workers=1, classes=2
    )
    prior = np.stack([chance, 1 - chance], axis=1)
    model = cw.BeliefPropagation(task_prior=prior).fit(labels)

    said = np.where(label == 0, chance, 1 - chance)  # prior that the label is right

    def log_density(p: float) -> float:
        return float(np.log(p * said + (1 - p) * (1 - said)).sum() + np.log(2 * p))

    grid = np.linspace(0.75, 0.85, 51)
    peak = grid[np.argmax([log_density(p) for p in grid])]
    highest = log_density(peak)
    steps = np.linspace(peak - 0.02, peak + 0.02, 161)
    density = np.exp(np.array([log_density(p) for p in steps]) - highest)
    mass = integrate.simpson(density, x=steps)
    assert np.isfinite(model.posterior_).all()
    assert model.log_likelihood_[-1] == pytest.approx(highest + np.log(mass), rel=1e-9)
    mean = integrate.simpson(density * steps, x=steps) / mass
    assert model.skill_[0] == pytest.approx(mean, abs=1e-8)
    variance = integrate.simpson(density * (steps - mean) ** 2, x=steps) / mass
    first, second = model.skill_beta_[0]
    assert stats.beta(first, second).var() == pytest.approx(variance, rel=1e-4)
    for task in (0, 1, 77_777):
        right = said[task] * steps
        posterior = right / (right + (1 - said[task]) * (1 - steps))
        expected = integrate.simpson(density * posterior, x=steps) / mass
        assert model.posterior_[task, label[task]] == pytest.approx(expected, abs=1e-9)


def test_dirichlet_prior_is_the_mixture_of_its_draws() -> None:
    """And the exact Dirichlet integral lies within the error of many draws."""
    labels = tree(3, 9)
    counts = np.array([[3.0, 1.0, 0.5], [0.7, 2.0, 0.4], [1.0, 1.0, 4.0]])
    model = cw.BeliefPropagation(prior="dirichlet", alpha=counts, n_samples=20_000, **SETTLED).fit(labels)

    def log_factor(truth: Any, label: Any) -> float:
        given = np.zeros((3, 3))
        for a, b in zip(truth, label, strict=True):
            given[a, b] += 1
        both = gammaln(counts + given).sum(axis=1) - gammaln((counts + given).sum(axis=1))
        return float((both - gammaln(counts).sum(axis=1) + gammaln(counts.sum(axis=1))).sum())

    value, posterior = enumerated(labels, uniform(labels), log_factor)
    np.testing.assert_allclose(model.posterior_, posterior, atol=0.02)
    assert model.log_likelihood_[-1] == pytest.approx(value, abs=0.05)
    pair = cw.BeliefPropagation(prior="dirichlet", alpha=(3.0, 1.0), n_samples=7, **SETTLED).fit(labels)
    spread = np.full((3, 3), 0.5) + 2.5 * np.eye(3)
    same = cw.BeliefPropagation(prior="dirichlet", alpha=spread, n_samples=7, **SETTLED).fit(labels)
    np.testing.assert_array_equal(pair.posterior_, same.posterior_)


def test_class_wise_of_many_classes_is_sampled() -> None:
    labels = tree(4, 10)
    model = cw.BeliefPropagation(prior="class-wise", n_samples=20_000, **SETTLED).fit(labels)
    value, posterior = enumerated(labels, uniform(labels), class_wise((2.0, 1.0), 4))
    np.testing.assert_allclose(model.posterior_, posterior, atol=0.02)
    assert model.log_likelihood_[-1] == pytest.approx(value, abs=0.05)


def test_damping_ends_at_the_same_messages(crowd: CrowdLabels) -> None:
    plain = cw.BeliefPropagation(tol=1e-12, max_iter=500).fit(crowd)
    damped = cw.BeliefPropagation(tol=1e-12, max_iter=500, damping=0.5).fit(crowd)
    assert damped.n_iter_ > plain.n_iter_ or damped.n_iter_ > 5
    np.testing.assert_allclose(damped.posterior_, plain.posterior_, atol=1e-9)
    assert damped.log_likelihood_[-1] == pytest.approx(plain.log_likelihood_[-1], abs=1e-7)


def test_not_settled_is_said(crowd: CrowdLabels) -> None:
    with pytest.warns(cw.NotConverged, match="stopped after 2 iterations while its messages still moved"):
        assert not cw.BeliefPropagation(max_iter=2).fit(crowd).converged_


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"prior": "two-coin"}, "prior is 'two-coin'"),
    ({"prior": np.eye(2)}, r"prior has shape \(2, 2\)"),
    ({"prior": np.ones((1, 2, 2))}, "prior must hold probabilities"),
    ({"prior": np.eye(3)[None]}, r"prior has shape \(1, 3, 3\); it must have shape \(1, 2, 2\)"),
    ({"prior": np.eye(2)[None], "alpha": (1, 1)}, "alpha is for priors with a name"),
    ({"prior": np.eye(2)[None], "weights": [0.5]}, "weights must hold probabilities"),
    ({"weights": [1.0]}, "weights are those of a mixture"),
    ({"alpha": (0, 1)}, r"alpha is \[0.0, 1.0\]"),
    ({"alpha": np.ones((2, 2))}, "it must be two numbers above 0"),
    ({"prior": "dirichlet", "alpha": [1, 2, 3]}, r"or an array of shape \(2, 2\)"),
    ({"task_prior": [[0.5, 0.5]]}, r"task_prior has shape \(1, 2\)"),
    ({"damping": 1.0}, "damping is 1"),
    ({"n_samples": 0}, "n_samples is 0"),
    ({"random_state": -1}, "random_state is -1"),
    ({"tol": -1.0}, "tol is -1"),
]


@pytest.mark.parametrize(("given", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_parameters_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        cw.BeliefPropagation(**given).fit(tree(2, 0))


def test_two_priors_are_refused() -> None:
    labels = tree(2, 0)
    with pytest.raises(InputError, match="task_prior or class_prior, not both"):
        cw.BeliefPropagation(task_prior=uniform(labels)).fit(labels, class_prior=[0.5, 0.5])
