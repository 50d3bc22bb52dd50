"""Every truth of tiny data, one by one: posterior and objective must equal the sum to 1e-10.

The sums are made from the public attributes alone (`prior_`, `confusion_`, `ability_`, …), in plain loops that share
no code with the package.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import logsumexp
from tests.conftest import tiny_labels

import crowdwise as cw
from crowdwise.aggregate import mace
from crowdwise.engines import prepare
from crowdwise.fitting.prior_knowledge import PriorKnowledge

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.labels import CrowdLabels

SIZES = pytest.mark.parametrize(("n_classes", "seed"), [(2, 0), (2, 1), (3, 2), (3, 3), (4, 4)])


def enumerated(labels: CrowdLabels, prior: Any, chance: Callable[[int, int, int, int], float], gold: Any = None) -> Any:
    """Log-probability of the labels and posterior of each task, by going through all K^N truths.

    `chance(task, worker, truth, label)` is the probability of one answer.
    """
    joint, truths = [], list(itertools.product(range(labels.n_classes), repeat=labels.n_tasks))
    for truth in truths:
        value = 1.0
        for task, true_class in enumerate(truth):
            value *= prior[true_class]
            if gold is not None and task in gold and gold[task] != true_class:
                value = 0.0
        for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
            value *= chance(task, worker, truth[task], label)
        joint.append(value)
    total = np.sum(joint)
    posterior = np.zeros((labels.n_tasks, labels.n_classes))
    for truth, value in zip(truths, joint, strict=True):
        for task, true_class in enumerate(truth):
            posterior[task, true_class] += value / total
    return np.log(total), posterior


def by_confusion(model: Any) -> Callable[[int, int, int, int], float]:
    return lambda _task, worker, truth, label: model.confusion_[worker, truth, label]


CONFUSION_MODELS = {
    "dawid-skene": cw.DawidSkene,
    "dawid-skene, smoothed": lambda **kw: cw.DawidSkene(smoothing=0.7, **kw),
    "one-coin": cw.OneCoin,
    "one-coin, smoothed": lambda **kw: cw.OneCoin(smoothing=0.7, **kw),
    "confusion-vector": cw.ConfusionVector,
    "confusion-vector, smoothed": lambda **kw: cw.ConfusionVector(smoothing=0.7, **kw),
    "zencrowd": cw.ZenCrowd,
    "mace, em": lambda **kw: cw.Mace(inference="em", smoothing=0, **kw),
    "mace, em, smoothed": lambda **kw: cw.Mace(inference="em", smoothing=0.7, **kw),
}
MODELS = pytest.mark.parametrize("make", CONFUSION_MODELS.values(), ids=CONFUSION_MODELS)


@SIZES
@MODELS
@pytest.mark.parametrize("max_iter", [1, 3])
def test_posterior_and_log_likelihood(make: Any, n_classes: int, seed: int, max_iter: int) -> None:
    labels = tiny_labels(n_classes, seed, repeats=seed % 2 == 1)
    model = make(max_iter=max_iter, tol=0.0).fit(labels)
    value, posterior = enumerated(labels, model.prior_, by_confusion(model))
    np.testing.assert_allclose(model.posterior_, posterior, atol=1e-10)
    assert model.log_likelihood_[-1] == pytest.approx(value, abs=1e-10)


@MODELS
def test_with_gold(make: Any) -> None:
    labels = tiny_labels(3, 5)
    votes = labels.vote_counts()
    gold = {task: int(votes[task].argmin()) for task in (0, 3)}  # against the votes: ignored gold would show
    model = make(max_iter=2, tol=0.0).fit(labels, gold=gold)
    value, posterior = enumerated(labels, model.prior_, by_confusion(model), gold)
    np.testing.assert_allclose(model.posterior_, posterior, atol=1e-10)
    assert model.log_likelihood_[-1] == pytest.approx(value, abs=1e-10)


@SIZES
def test_glad(n_classes: int, seed: int) -> None:
    labels = tiny_labels(n_classes, seed)
    model = cw.Glad(max_iter=3, tol=0.0).fit(labels)

    def chance(task: int, worker: int, truth: int, label: int) -> float:
        right = 1 / (1 + np.exp(-model.ability_[worker] * model.ease_[task]))
        return right if truth == label else (1 - right) / (n_classes - 1)

    value, posterior = enumerated(labels, np.full(n_classes, 1 / n_classes), chance)
    np.testing.assert_allclose(model.posterior_, posterior, atol=1e-10)
    assert model.log_likelihood_[-1] == pytest.approx(value, abs=1e-10)
    density = stats.norm.logpdf(model.ability_, 1, 1).sum() + stats.norm.logpdf(np.log(model.ease_), 1, 1).sum()
    assert model.objective_[-1] == pytest.approx(value + density, abs=1e-10)


def test_objective_of_smoothed_dawid_skene() -> None:
    labels = tiny_labels(3, 7)
    model = cw.DawidSkene(smoothing=0.4, max_iter=3, tol=0.0).fit(labels)
    density = sum(stats.dirichlet.logpdf(row, np.full(3, 1.4)) for matrix in model.confusion_ for row in matrix)
    assert model.objective_[-1] == pytest.approx(model.log_likelihood_[-1] + density, abs=1e-10)
    assert cw.DawidSkene(max_iter=3, tol=0.0).fit(labels).objective_[-1] == pytest.approx(
        cw.DawidSkene(max_iter=3, tol=0.0).fit(labels).log_likelihood_[-1], abs=0
    )


def test_objective_with_known_workers() -> None:
    labels = tiny_labels(2, 8)
    matrix = np.array([[0.9, 0.1], [0.3, 0.7]])
    model = cw.DawidSkene(smoothing=0.2, max_iter=3, tol=0.0).fit(labels, known_workers={1: matrix}, known_weight=5)
    density = 0.0
    for worker, rows in enumerate(model.confusion_):
        for truth, row in enumerate(rows):
            pseudo = 0.2 + (5 * matrix[truth] if worker == 1 else 0)
            density += stats.dirichlet.logpdf(row, 1 + pseudo * np.ones(2))
    assert model.objective_[-1] == pytest.approx(model.log_likelihood_[-1] + density, abs=1e-10)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_objective_of_smoothed_coins(n_classes: int) -> None:
    labels = tiny_labels(n_classes, 9)
    coin = cw.OneCoin(smoothing=0.4, max_iter=3, tol=0.0).fit(labels)
    density = stats.beta.logpdf(coin.confusion_[:, 0, 0], 1.4, 1.4).sum()
    assert coin.objective_[-1] == pytest.approx(coin.log_likelihood_[-1] + density, abs=1e-10)
    vector = cw.ConfusionVector(smoothing=0.4, max_iter=3, tol=0.0).fit(labels)
    density = stats.beta.logpdf(np.einsum("wkk->wk", vector.confusion_), 1.4, 1.4).sum()
    assert vector.objective_[-1] == pytest.approx(vector.log_likelihood_[-1] + density, abs=1e-10)


def test_objective_of_smoothed_mace() -> None:
    labels = tiny_labels(3, 10)
    model = cw.Mace(inference="em", smoothing=0.4, max_iter=3, tol=0.0).fit(labels)
    competence = model.worker_columns_["competence"]
    habit = (model.confusion_ - competence[:, None, None] * np.eye(3))[:, 0] / (1 - competence)[:, None]
    density = stats.beta.logpdf(competence, 1.4, 1.4).sum()
    density += sum(stats.dirichlet.logpdf(row / row.sum(), np.full(3, 1.4)) for row in habit)
    assert model.objective_[-1] == pytest.approx(model.log_likelihood_[-1] + density, abs=1e-10)


def test_evidence_bound_of_mace() -> None:
    """The bound at three successive parameters, by going through truths and spamming, and by quadrature for KL."""
    labels = tiny_labels(2, 11, n_tasks=3, n_workers=2)
    answers = np.zeros((2, 2))
    np.add.at(answers, (labels.worker, labels.label), 1)
    model = cw.Mace(max_iter=3, tol=0.0).fit(labels)
    parameters = next(iter(cw.Mace()._starts(labels, PriorKnowledge(), answers)))
    for iteration in range(3):
        assert model.objective_[iteration] == pytest.approx(_bound(labels, parameters), abs=1e-8)
        found = prepare(labels).e_step_votes(parameters.log_prior, parameters.log_right - parameters.log_wrong)
        parameters = mace.variational_step(found, parameters, answers)


def _bound(labels: CrowdLabels, parameters: mace.MaceParameters) -> float:
    def mean_log(shape: Any, cell: int) -> float:
        law = stats.beta(shape[cell], shape[1 - cell])
        return integrate.quad(lambda x: np.log(x) * law.pdf(x), 0, 1, limit=500, epsabs=1e-12)[0]

    def divergence(shape: Any, prior: float) -> float:
        law, before = stats.beta(*shape), stats.beta(prior, prior)
        return integrate.quad(lambda x: law.pdf(x) * (law.logpdf(x) - before.logpdf(x)), 0, 1, limit=500)[0]

    competence = [[mean_log(shape, cell) for cell in (0, 1)] for shape in parameters.competence]
    habit = [[mean_log(shape, cell) for cell in (0, 1)] for shape in parameters.habit]
    logs = []
    edges = list(zip(labels.task, labels.worker, labels.label, strict=True))
    for truth in itertools.product(range(2), repeat=labels.n_tasks):
        for spamming in itertools.product((False, True), repeat=len(edges)):
            value = labels.n_tasks * np.log(0.5)
            for (task, worker, label), spams in zip(edges, spamming, strict=True):
                if spams:
                    value += competence[worker][1] + habit[worker][label]
                else:
                    value += competence[worker][0] if truth[task] == label else -np.inf
            logs.append(value)
    loss = sum(divergence(shape, mace.COMPETENCE) for shape in parameters.competence)
    loss += sum(divergence(shape, mace.HABIT) for shape in parameters.habit)
    return float(logsumexp(logs)) - loss
