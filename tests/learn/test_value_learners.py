"""Learners of values: dense formulas, EM that never falls, generalised least squares, crowds of known workers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.datasets import load_digits

import crowdwise as cw
from crowdwise.kinds import Values, simulate_values
from crowdwise.labels.errors import InputError
from crowdwise.learn import value_posterior as vp
from crowdwise.learn.value_learner import common_line

LINEAR: dict[str, Any] = {"network": "linear", "learning_rate": 0.03, "device": "cpu"}


def some_rows(
    n_tasks: int = 7, n_workers: int = 4, width: int = 1, seed: int = 0
) -> tuple[vp.ValueRows, Any, vp.Lines]:
    """Answers of a ragged crowd, what a network may say, and lines that are nobody's start."""
    rng = np.random.default_rng(seed)
    task, worker = np.nonzero(rng.random((n_tasks, n_workers)) < 0.7)
    rows = vp.ValueRows(task, worker, rng.normal(size=(task.size, width)), n_tasks, n_workers)
    lines = vp.Lines(
        1 + 0.4 * rng.normal(size=(n_workers, width)),
        0.3 * rng.normal(size=(n_workers, width)),
        rng.uniform(0.2, 1, n_workers),
        rng.uniform(0.2, 1, width),
    )
    return rows, rng.normal(size=(n_tasks, width)), lines


def dense_log_density(rows: vp.ValueRows, f: Any, lines: vp.Lines) -> float:
    """Log-density of the answers: those of a task are normal together, with the covariance τ² a aᵀ + diag(σ²)."""
    total = 0.0
    for task in range(rows.n_tasks):
        at = np.flatnonzero(rows.task == task)
        for d in range(rows.value.shape[1]) if at.size else ():
            a, b = lines.scale[rows.worker[at], d], lines.bias[rows.worker[at], d]
            covariance = lines.residual[d] * np.outer(a, a) + np.diag(lines.variance[rows.worker[at]])
            total += multivariate_normal.logpdf(rows.value[at, d], a * f[task, d] + b, covariance)
    return total


@pytest.mark.parametrize("width", [1, 2])
def test_the_objective_is_the_dense_density_with_the_priors(width: int) -> None:
    rows, f, lines = some_rows(width=width)
    other = replace(lines, scale=lines.scale + 0.2, bias=lines.bias - 0.1)
    prior = [-0.5 * ((each.scale - 1) ** 2 / 0.25).sum() - 0.5 * (each.bias**2 / 0.25).sum() for each in (lines, other)]
    dense = [dense_log_density(rows, f, each) for each in (lines, other)]
    found = [vp.objective(rows, f, each) for each in (lines, other)]
    np.testing.assert_allclose(found[1] - found[0], dense[1] + prior[1] - dense[0] - prior[0], atol=1e-10)
    inverse = sum(-2 * np.log(v).sum() - 0.5 * (1 / v).sum() for v in (lines.variance, lines.residual))
    np.testing.assert_allclose(found[0], dense[0] + prior[0] + inverse, atol=1e-10)


def test_the_posterior_is_that_of_a_dense_solve() -> None:
    rows, f, lines = some_rows(width=2)
    found = vp.find_posterior(rows, f, lines)
    said = vp.find_evidence(rows, lines)
    for task in range(rows.n_tasks):
        at = rows.task == task
        for d in range(2):
            a = lines.scale[rows.worker[at], d]
            covariance = lines.residual[d] * np.outer(a, a) + np.diag(lines.variance[rows.worker[at]])
            apart = rows.value[at, d] - a * f[task, d] - lines.bias[rows.worker[at], d]
            gain = lines.residual[d] * np.linalg.solve(covariance, a) if at.any() else np.empty(0)
            np.testing.assert_allclose(found.mean[task, d], f[task, d] + gain @ apart, atol=1e-10)
            np.testing.assert_allclose(found.variance[task, d], lines.residual[d] * (1 - gain @ a), atol=1e-10)
    # The network's gradient is that of the dense density.
    step = 1e-6
    for task in range(rows.n_tasks):
        moved = f.copy()
        moved[task, 0] += step
        slope = (dense_log_density(rows, moved, lines) - dense_log_density(rows, f, lines)) / step
        own = (said.mean - f)[task, 0] / (said.variance[task, 0] + lines.residual[0])
        np.testing.assert_allclose(own, slope, atol=1e-5)


@pytest.mark.parametrize("learnt", [(True, True), (True, False), (False, True), (False, False)])
def test_no_update_falls(learnt: tuple[bool, bool]) -> None:
    rows, f, lines = some_rows(n_tasks=20, n_workers=5, width=2, seed=3)
    values = [vp.objective(rows, f, lines)]
    for _ in range(30):
        lines = vp.improve(rows, f, lines, scales=learnt[0], biases=learnt[1])
        values.append(vp.objective(rows, f, lines))
    assert (np.diff(values) >= -1e-10).all()
    assert values[-1] > values[0]


def test_em_with_a_linear_network_is_generalised_least_squares() -> None:
    """Exact M-steps of the network in turn with those of the workers: never falls, and ends in the closed form."""
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(40), rng.normal(size=(40, 2))])
    crowd = simulate_values(40, 6, error=(0.1, 0.8), values=X @ [0.1, 0.7, -0.4], random_state=1)
    answers = crowd.answers
    rows = vp.ValueRows(answers.task, answers.worker, answers.value, 40, 6)
    lines, f, values = vp.start_lines(rows), np.zeros((40, 1)), []
    for _ in range(60):
        lines = vp.improve(rows, f, lines, scales=False, biases=False)
        said = vp.find_evidence(rows, lines)
        weight = 1 / (said.variance + lines.residual)
        f = X @ np.linalg.solve(X.T @ (weight * X), X.T @ (weight * said.mean))
        values.append(vp.objective(rows, f, lines))
    assert (np.diff(values) >= -1e-9).all()
    design = X[rows.task]
    same = rows.task[:, None] == rows.task
    covariance = lines.residual[0] * same + np.diag(lines.variance[rows.worker])
    half = np.linalg.solve(covariance, design)
    closed = np.linalg.solve(design.T @ half, half.T @ rows.value)
    np.testing.assert_allclose(f, X @ closed, atol=1e-9)
    # By steps of gradient descent, in units of the answers, the learner comes near.
    model = cw.GaussianEm(**LINEAR, layer="none", epochs=40, held_out=0.0, schedule="cosine").fit(X[:, 1:], answers)
    np.testing.assert_allclose(model.predict(X[:, 1:]), f[:, 0], atol=0.06)


def test_lines_of_workers_are_found() -> None:
    X = np.random.default_rng(0).normal(size=(400, 3))
    truth = 50 + X @ [10.0, -6.0, 3.0]
    crowd = simulate_values(400, 10, scale=0.3, bias=8.0, error=(2.0, 20.0), values=truth, random_state=0)
    model = cw.GaussianEm(**LINEAR, epochs=15).fit(X, crowd.answers)
    name = model.workers_.astype(int)
    assert np.corrcoef(model.worker_error_, crowd.error[name])[0, 1] > 0.98
    assert np.corrcoef(model.worker_scale_[:, 0], crowd.scale[name])[0, 1] > 0.95
    middle = model.worker_scale_[:, 0] * 50 + model.worker_bias_[:, 0]
    assert np.corrcoef(middle, (crowd.scale * 50 + crowd.bias)[name])[0, 1] > 0.95
    layer = cw.CrowdLayerRegression(**LINEAR, epochs=15, worker_learning_rate=0.03).fit(X, crowd.answers)
    assert np.corrcoef(layer.worker_scale_[:, 0], crowd.scale[name])[0, 1] > 0.9
    # New answers by known workers move a prediction to them, the more the better the worker.
    best, worst = name[model.worker_error_.argmin()], name[model.worker_error_.argmax()]
    alone = model.predict(X[:1])[0]
    moved = [
        abs(model.predict(X[:1], {"task": [0], "worker": [int(who)], "value": [alone + 30]})[0] - alone)
        for who in (best, worst)
    ]
    assert moved[0] > 2 * moved[1]
    stranger = model.predict(X[:1], {"task": [0], "worker": [99], "value": [alone + 30]})[0]
    assert abs(stranger - alone) < moved[0]


def test_intervals_cover() -> None:
    """Of 90 % intervals of the consensus, 85 to 95 % hold the truth; those of the workers' noise too, more or less."""
    held: list[float] = []
    errors: list[float] = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(200, 3))
        truth = 50 + X @ [10.0, -6.0, 3.0] + 5 * rng.normal(size=200)
        crowd = simulate_values(
            200, 15, answers_per_task=3, bias=5.0, error=(4.0, 20.0), values=truth, random_state=seed
        )
        model = cw.GaussianEm(**LINEAR, epochs=10, random_state=seed).fit(X, crowd.answers)
        table = model.consensus()
        held.append(((table["low"].to_numpy() <= truth) & (truth <= table["high"].to_numpy())).mean())
        workers, error = model.workers(), crowd.error[model.workers_.astype(int)]
        errors.append(((workers["error_low"].to_numpy() <= error) & (error <= workers["error_high"].to_numpy())).mean())
    assert 0.85 <= np.mean(held) <= 0.95
    assert 0.8 <= np.mean(errors) <= 0.98


def test_ahead_of_the_network_on_plain_means() -> None:
    """Digits as values, two answers a task by workers with scales, biases and noise of their own."""
    X, digit = load_digits(return_X_y=True)
    truth, errors = 10.0 * digit, {"means": [], "layer": [], "em": []}
    for seed in range(2):
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(X))
        train, test = order[:700], order[700:]
        crowd = simulate_values(
            700, 30, answers_per_task=2, error=(3.0, 60.0), scale=0.3, bias=15.0, values=truth[train], random_state=seed
        )
        answers = crowd.answers
        mean = np.bincount(answers.task, answers.value[:, 0]) / answers.answers_per_task
        plain = Values.from_codes(np.arange(700), np.zeros(700, int), mean, tasks=700, workers=1)
        shared = {"epochs": 20, "device": "cpu", "random_state": seed}
        for name, model, given in (
            ("means", cw.CrowdLayerRegression(layer="none", **shared), plain),
            ("layer", cw.CrowdLayerRegression(**shared), answers),
            ("em", cw.GaussianEm(**shared), answers),
        ):
            model.fit(X[train], given)
            errors[name].append(np.sqrt(((model.predict(X[test]) - truth[test]) ** 2).mean()))
    assert np.mean(errors["layer"]) < np.mean(errors["means"]) - 0.2
    assert np.mean(errors["em"]) < np.mean(errors["means"]) - 0.5


def test_several_coordinates_and_constants() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    truth = X @ rng.normal(size=(2, 2)) * 10 + [20, 300]
    task, worker = np.repeat(np.arange(60), 3), np.tile(np.arange(6), 30)
    said = truth[task] + rng.normal(size=(180, 2))
    answers = Values.from_codes(task, worker, said, tasks=60, workers=6, coordinates=("x", "y"))
    model = cw.GaussianEm(**LINEAR, epochs=20).fit(X, answers)
    assert model.predict(X).shape == (60, 2)
    assert model.score(X, truth) > 0.95
    with pytest.raises(InputError, match="Answers have 1 numbers each, not 2"):
        model.predict(X, {"task": [0], "worker": [0], "value": [3.0]})
    constant = Values.from_codes(task, worker, np.full(180, 7.0), tasks=60, workers=6)
    for learner in (cw.GaussianEm, cw.CrowdLayerRegression):
        same = learner(**LINEAR, epochs=20).fit(X, constant)
        np.testing.assert_allclose(same.predict(X), 7.0, atol=0.5)
    with pytest.raises(InputError, match="layer is 'square'"):
        cw.GaussianEm(layer="square").fit(X, answers)


def test_the_common_worker_is_on_the_side_of_most_answers() -> None:
    lines = vp.Lines(np.array([[2.0], [1.0], [-3.0]]), np.array([[1.0], [0.0], [9.0]]), np.ones(3), np.ones(1))
    np.testing.assert_allclose(np.concatenate(common_line(lines, np.array([1, 3, 2]))), [1.25, 0.25])
    turned = replace(lines, scale=-lines.scale)  # the network learnt to say the opposite
    np.testing.assert_allclose(np.concatenate(common_line(turned, np.array([1, 3, 2]))), [-1.25, 0.25])
    np.testing.assert_allclose(np.concatenate(common_line(replace(lines, scale=0 * lines.scale), np.ones(3))), [1, 0])


def test_who_turns_the_scale_round() -> None:
    X = np.random.default_rng(0).normal(size=(300, 2))
    truth = X @ [2.0, -1.0]
    crowd = simulate_values(300, 10, error=(0.3, 0.6), values=truth, random_state=0)
    answers = crowd.answers
    turned = replace(answers, value=np.where(answers.worker[:, None] < 3, -answers.value, answers.value))
    model = cw.GaussianEm(**LINEAR, epochs=15).fit(X, turned)
    assert model.score(X, truth) > 0.97
    assert sorted(model.workers_[model.worker_scale_[:, 0] < 0]) == sorted(answers.workers.to_pylist()[:3])
