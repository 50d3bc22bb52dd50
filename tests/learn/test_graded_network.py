"""The network for grades: probabilities by the graded response, EM of its workers, and noisy crowds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import ndtri
from sklearn.datasets import load_digits
from tests.learn.answer_crowds import featured

import crowdwise as cw
from crowdwise.kinds import Grades, simulate_grades
from crowdwise.kinds.ordinal.worker_responses import (
    GRID,
    Responses,
    as_responses,
    count_answers,
    crowd_density,
    log_chances,
    mean_worker,
    start_workers,
)
from crowdwise.labels.errors import InputError
from crowdwise.learn.graded_network import (
    find_cuts,
    find_score_posterior,
    grade_log_probabilities,
    log_score_prior,
    settle_workers,
)

LINEAR: dict[str, Any] = {"network": "linear", "learning_rate": 0.03, "device": "cpu"}


def some_workers(n: int, n_classes: int, seed: int = 0) -> Responses:
    rng = np.random.default_rng(seed)
    intercept = np.cumsum(rng.uniform(0.2, 2, (n, n_classes - 1)), axis=1) - n_classes / 2
    return as_responses(rng.normal(2, 2, n), intercept)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_probabilities_are_those_of_the_graded_response(n_classes: int) -> None:
    workers = some_workers(4, n_classes)
    score = torch.as_tensor(GRID).repeat(4)
    slope, intercept = (np.repeat(each, GRID.size, axis=0) for each in (workers.slope, workers.intercept))
    found = grade_log_probabilities(score, torch.as_tensor(slope), torch.as_tensor(intercept)).numpy()
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1, atol=1e-12)
    dense = np.moveaxis(np.exp(log_chances(workers)), 2, 1).reshape(-1, n_classes)
    np.testing.assert_allclose(np.exp(found), np.maximum(dense, np.exp(found) * (dense < 1e-11)), atol=1e-12)
    far = grade_log_probabilities(*(torch.tensor([each]) for each in (40.0, 5.0)), torch.tensor([[-1.0, 2.0]]))
    assert far.isfinite().all()


def test_the_posterior_of_a_score_by_enumeration() -> None:
    answers = featured("ordinal", 10).answers
    workers = some_workers(answers.n_workers, 5)
    f = np.random.default_rng(0).normal(size=10)
    said = count_answers(answers, answers.worker, answers.n_workers)
    value, found = find_score_posterior(said, workers, f, 0.3)
    total = 0.0
    for task in range(10):
        prior = np.exp(-0.5 * (GRID - f[task]) ** 2 / 0.3)
        prior /= prior.sum()
        chance = prior.copy()
        for row in np.flatnonzero(answers.task == task):
            chance *= np.exp(log_chances(workers))[answers.worker[row], answers.grade[row]]
        np.testing.assert_allclose(found[task], chance / chance.sum(), atol=1e-10)
        np.testing.assert_allclose(np.exp(log_score_prior(f, 0.3)[task]), prior, atol=1e-10)
        total += np.log(chance.sum())
    np.testing.assert_allclose(value, total, atol=1e-9)


def test_em_of_the_workers_raises_the_probability_of_the_answers() -> None:
    data = featured("ordinal", 60, seed=2)
    answers, f = data.answers, data.X @ np.array([0.8, -0.5, 0.3])
    start, everyone = start_workers(answers), np.ones(60, bool)
    said = count_answers(answers, answers.worker, answers.n_workers)

    def value(workers: Responses, crowd: Responses, residual: float) -> float:
        prior = crowd_density(workers, crowd, start[1], answers.answers_per_worker > 0, 1.0)
        return find_score_posterior(said, workers, f, residual)[0] + prior

    workers, crowd, residual = settle_workers(answers, f, start, 1.0, everyone)
    before = mean_worker(start[0], start[1], answers.answers_per_worker > 0)
    assert value(workers, crowd, residual) > value(start[0], before, 0.25) + 10
    again = settle_workers(answers, f, (workers, crowd), 1.0, everyone)
    assert abs(value(*again) - value(workers, crowd, residual)) < 2  # near its end
    assert residual < 0.1  # scores are linear in the features, and f is right
    cut = ndtri(np.arange(1, 5) / 5)
    np.testing.assert_allclose(find_cuts(workers, crowd), cut, atol=0.35)


def test_portraits_of_workers() -> None:
    X = np.random.default_rng(0).normal(size=(300, 3))
    line = X @ np.array([0.8, -0.5, 0.3])
    crowd = simulate_grades(300, 8, slope=(0.5, 8.0), bias=0.5, scores=line, random_state=0)
    model = cw.GradedNetwork(**LINEAR, epochs=15).fit(X, crowd.answers)
    name = model.workers_.astype(int)
    assert np.corrcoef(model.slope_, crowd.slope[name])[0, 1] > 0.85
    assert np.corrcoef(model.worker_error_, crowd.slope[name])[0, 1] < -0.7
    assert model.confusion_.shape == (8, 5, 5)
    np.testing.assert_allclose(model.confusion_.sum(axis=2), 1, atol=1e-9)
    right = np.einsum("wkk->w", model.confusion_) / 5
    assert np.corrcoef(right, crowd.slope[name])[0, 1] > 0.5
    table = model.consensus()
    held = (table["low"].to_numpy() <= crowd.grade) & (crowd.grade <= table["high"].to_numpy())
    assert held.mean() >= 0.85  # sets of whole classes hold more than 90 %
    shares = model.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    best = name[right.argmax()]
    told = model.predict_proba(X[:2], {"task": [0, 1], "worker": [int(best)] * 2, "grade": [4, 0]})
    assert told[0, 4] > shares[0, 4]
    with pytest.raises(InputError, match="The model knows no class 9"):
        model.predict(X[:1], {"task": [0, 0], "worker": [1, 2], "grade": [4, 9]})
    with pytest.raises(InputError, match="There is no class '7'"):
        model.score(X, np.full(300, 7))
    with pytest.raises(InputError, match="spread"):
        cw.GradedNetwork(spread=0.0).fit(X, crowd.answers)


def test_ahead_of_the_network_on_the_majority_vote() -> None:
    """Digits cut into five grades, two answers a task, workers from guessing to sharp."""
    X, digit = load_digits(return_X_y=True)
    score = (digit - 4.5) / 2.87
    truth = (score[:, None] > ndtri(np.arange(1, 5) / 5)).sum(axis=1)
    errors: dict[str, list[float]] = {"votes": [], "workers": []}
    for seed in range(2):
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(X))
        train, test = order[:700], order[700:]
        answers = simulate_grades(
            700, 30, answers_per_task=2, slope=(0.0, 8.0), bias=0.4, scores=score[train], random_state=seed
        ).answers
        votes = np.zeros((700, 5))
        np.add.at(votes, (answers.task, answers.grade), 1)
        vote = (votes + 0.1 * rng.random(votes.shape)).argmax(axis=1)
        plain = Grades.from_codes(np.arange(700), np.zeros(700, int), vote, tasks=700, workers=1, classes=5)
        for name, given in (("votes", plain), ("workers", answers)):
            model = cw.GradedNetwork(epochs=20, device="cpu", random_state=seed).fit(X[train], given)
            errors[name].append(-model.score(X[test], truth[test]))
    assert np.mean(errors["workers"]) < np.mean(errors["votes"]) - 0.05


def test_a_mirror_image_is_turned_back() -> None:
    """Whatever the network starts with, most workers end with slopes above 0, though three in ten turn the scale."""
    X = np.random.default_rng(0).normal(size=(100, 2))
    crowd = simulate_grades(100, 10, slope=(3.0, 6.0), bias=0.1, scores=X @ [0.8, -0.6], random_state=0)
    answers = crowd.answers
    turned = replace(answers, grade=np.where(answers.worker < 3, 4 - answers.grade, answers.grade))
    for seed in range(2):
        model = cw.GradedNetwork(**LINEAR, worker_learning_rate=0.3, epochs=15, random_state=seed).fit(X, turned)
        assert (model.slope_ > 0).sum() == 7
        assert model.score(X, crowd.grade) > -0.35
