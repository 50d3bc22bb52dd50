"""BayesDGC: with step 1 and all tasks in one batch its updates are mean field's; smaller steps average."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import digamma, softmax

import crowdwise as cw
from crowdwise.learn.batches import Batch, Crowd, NetworkOutput, batches
from crowdwise.learn.bayes_dgc import BayesDgcObjective, step_shares, step_workers
from crowdwise.learn.features import make_features
from crowdwise.simulate import simulate

pytestmark = pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")


def problem(n_classes: int = 2, seed: int = 0, n_tasks: int = 240) -> tuple[np.ndarray, cw.CrowdLabels, np.ndarray]:
    crowd = simulate("one-coin", n_tasks=n_tasks, n_workers=n_tasks // 2, n_classes=n_classes, random_state=seed)
    noise = np.random.default_rng(seed).normal(size=(n_tasks, n_classes))
    return 3 * np.eye(n_classes)[crowd.truth] + noise, crowd.labels, crowd.truth


def whole(crowd: Crowd, tasks: list[int]) -> Batch:
    features = make_features(np.zeros((crowd.n_tasks, 1)))
    return next(batches(features, crowd, torch.tensor(tasks, dtype=torch.int64), max(len(tasks), 1)))


@pytest.mark.parametrize("n_classes", [2, 7])
def test_a_batch_against_dense_sums(n_classes):
    """q, the loss, its gradient, β and γ of one batch, worker by worker and class by class."""
    _, labels, _ = problem(n_classes, n_tasks=20)
    crowd = Crowd(labels)
    objective = BayesDgcObjective(crowd, (3.0, 2.0), 1.5, 0.25).double()
    rng = np.random.default_rng(1)
    objective.beta += torch.tensor(rng.gamma(2.0, size=tuple(objective.beta.shape)))
    beta, gamma = objective.beta.numpy().copy(), objective.gamma.numpy().copy()
    logits = torch.tensor(rng.normal(size=(5, n_classes)), requires_grad=True)
    tasks = [3, 7, 1, 19, 4]
    loss = objective.loss(NetworkOutput(logits, logits), whole(crowd, tasks))
    loss.backward()

    f = softmax(logits.detach().numpy(), axis=1)
    logs = digamma(beta) - digamma(beta.sum(axis=2, keepdims=True))
    log_q = np.log(f) + digamma(gamma) - digamma(gamma.sum())
    dense = np.full((labels.n_tasks, labels.n_workers), -1)
    dense[labels.task, labels.worker] = labels.label
    for row, task in enumerate(tasks):
        for worker in np.flatnonzero(dense[task] >= 0):
            log_q[row] += logs[worker, :, dense[task, worker]]
    q = softmax(log_q, axis=1)
    assert loss.item() == pytest.approx(-(q * np.log(f)).sum(axis=1).mean(), abs=1e-9)
    np.testing.assert_allclose(logits.grad.numpy(), (f - q) / 5, atol=1e-9)

    alpha = np.full((n_classes, n_classes), 2.0 / (n_classes - 1))
    np.fill_diagonal(alpha, 3.0)
    for worker in range(labels.n_workers):
        mine = [(row, dense[task, worker]) for row, task in enumerate(tasks) if dense[task, worker] >= 0]
        expected = beta[worker]
        if mine:
            counts = np.zeros((n_classes, n_classes))
            for row, label in mine:
                counts[:, label] += q[row]
            target = alpha + (dense[:, worker] >= 0).sum() / len(mine) * counts
            expected = 0.75 * beta[worker] + 0.25 * target
        np.testing.assert_allclose(objective.beta[worker].numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(objective.gamma.numpy(), 0.75 * gamma + 0.25 * (1.5 + 20 * q.mean(axis=0)), atol=1e-6)


def test_a_whole_step_with_all_tasks_is_mean_fields_update():
    _, labels, _ = problem(3, n_tasks=30)
    crowd = Crowd(labels)
    q = torch.tensor(np.random.default_rng(0).dirichlet(np.ones(3), 30))
    alpha = torch.ones(3, 3, dtype=torch.float64)
    beta = torch.full((crowd.n_workers, 3, 3), 9.0, dtype=torch.float64)
    answers = torch.bincount(crowd.worker)
    got = step_workers(beta, alpha, q, whole(crowd, list(range(30))), answers, 1.0)
    expected = np.ones((crowd.n_workers, 3, 3))
    for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
        expected[worker, :, label] += q[task].numpy()
    np.testing.assert_allclose(got.numpy(), expected)
    np.testing.assert_allclose(step_shares(beta[0, 0], 2.0, q, 30, 1.0).numpy(), 2 + q.numpy().sum(axis=0))


def test_even_shares_leave_q_to_the_classifier_and_the_labels():
    labels = simulate("one-coin", n_tasks=20, n_workers=15, random_state=0).labels
    objective = BayesDgcObjective(Crowd(labels), (3.0, 2.0), None, 0.25).double()
    logits = torch.randn(20, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    logs = digamma([[3.0, 2.0], [2.0, 3.0]]) - digamma(5.0)
    log_q = np.log(softmax(logits.numpy(), axis=1))
    np.add.at(log_q, labels.task, logs.T[labels.label])
    expected = -(softmax(log_q, axis=1) * np.log(softmax(logits.numpy(), axis=1))).sum(axis=1).mean()
    loss = objective.loss(NetworkOutput(logits, logits), whole(objective.crowd, list(range(20))))
    assert float(loss) == pytest.approx(expected, abs=1e-6)
    assert objective.gamma.tolist() == [1.0, 1.0]


def test_even_shares_keep_both_classes_where_learnt_ones_run_away():
    """Three labels a task by weak workers: a class that is a little ahead takes all, if the shares are learnt."""
    X, labels, _ = problem(n_tasks=600)
    settings = {"network": "linear", "learning_rate": 1e-3, "epochs": 60, "batch_size": 600, "held_out": 0.0}
    even = cw.BayesDgc(**settings).fit(X, labels)
    assert 0.3 < even.posterior_.argmax(axis=1).mean() < 0.7
    learnt = cw.BayesDgc(**settings, share_prior=1.0).fit(X, labels)
    assert np.ptp(learnt.prior_) > np.ptp(even.prior_) + 0.1


def test_batches_of_one_task_and_of_none_are_finite_and_evaluation_moves_nothing():
    labels = cw.CrowdLabels.from_codes([0, 0], [0, 1], [0, 1], tasks=2, workers=2, classes=2)
    objective = BayesDgcObjective(Crowd(labels), None, 1.0, 0.1)
    logits = torch.zeros(1, 2, requires_grad=True)
    for task in (0, 1):  # the second has no labels
        assert torch.isfinite(objective.loss(NetworkOutput(logits, logits), whole(objective.crowd, [task])))
    before = objective.beta.clone()
    objective.eval().loss(NetworkOutput(logits, logits), whole(objective.crowd, [0]))
    assert torch.equal(before, objective.beta)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_features_help_the_crowd_and_the_crowd_the_classifier(n_classes):
    X, labels, truth = problem(n_classes)
    model = cw.BayesDgc(network="linear", learning_rate=0.03, epochs=15).fit(X, labels)
    vote = cw.MajorityVote().fit(labels)
    assert model.score(X, truth) > 0.9
    assert (model.posterior_.argmax(axis=1) == truth).mean() > (vote.posterior_.argmax(axis=1) == truth).mean()
    np.testing.assert_allclose(model.predict_proba(X, labels), model.posterior_, atol=1e-5)


def test_beta_finds_the_workers():
    crowd = simulate("dawid-skene", n_tasks=300, n_workers=6, n_classes=2, random_state=2)
    X = 3 * np.eye(2)[crowd.truth] + np.random.default_rng(0).normal(size=(300, 2))
    model = cw.BayesDgc(network="linear", learning_rate=0.03, epochs=20).fit(X, crowd.labels)
    assert np.abs(model.confusion_ - crowd.confusion).max() < 0.15


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"step": 0.0}, "step is 0; it must be a number, above 0 and at most 1"),
        ({"step": 2}, "step is 2"),
        ({"share_prior": -1}, "share_prior is -1"),
        ({"alpha": (0, 1)}, "alpha is .*; it must be two numbers above 0, or an array of shape"),
    ],
)
def test_bad_parameters(parameters, message):
    X, labels, _ = problem(n_tasks=20)
    with pytest.raises(cw.InputError, match=message):
        cw.BayesDgc(network="linear", epochs=1, **parameters).fit(X, labels)
