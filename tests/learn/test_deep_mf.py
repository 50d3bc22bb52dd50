"""Deep mean field: its updates climb the bound of Kim et al. 2022; with point matrices it is coupled cross-entropy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import nn

import crowdwise as cw
from crowdwise.learn.batches import Batch, Crowd, NetworkOutput, batches
from crowdwise.learn.deep_mf import (
    DeepMeanFieldObjective,
    DirichletWorkers,
    evidence_lower_bound,
    expected_log_likelihood,
    kl_from_classifier,
)
from crowdwise.learn.features import make_features
from crowdwise.learn.losses import coupled_cross_entropy
from crowdwise.learn.worker_models import log_posterior_given_labels, soft_counts
from crowdwise.simulate import simulate

pytestmark = pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")


class Silent(nn.Module):
    """Every class alike, whatever the features."""

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(n_classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0 * self.bias + 0 * x[:, :1]


def problem(n_classes: int = 2, seed: int = 0, n_tasks: int = 240) -> tuple[np.ndarray, cw.CrowdLabels, np.ndarray]:
    crowd = simulate("one-coin", n_tasks=n_tasks, n_workers=n_tasks // 2, n_classes=n_classes, random_state=seed)
    noise = np.random.default_rng(seed).normal(size=(n_tasks, n_classes))
    return 3 * np.eye(n_classes)[crowd.truth] + noise, crowd.labels, crowd.truth


def drawn(n_classes: int, labels_per_task: int, seed: int = 0) -> tuple[Crowd, torch.Tensor, torch.Tensor]:
    """A crowd, a classifier's output and matrices, at random."""
    labels = simulate(
        "dawid-skene", n_tasks=12, n_workers=4, n_classes=n_classes, labels_per_task=labels_per_task, random_state=seed
    ).labels
    rng = np.random.default_rng(seed)
    f = torch.tensor(rng.dirichlet(np.ones(n_classes), 12))
    matrices = torch.tensor(rng.dirichlet(np.ones(n_classes), (4, n_classes)))
    return Crowd(labels), f, matrices


def whole(crowd: Crowd) -> Batch:
    features = make_features(np.zeros((crowd.n_tasks, 1)))
    return next(batches(features, crowd, torch.arange(crowd.n_tasks), crowd.n_tasks))


# ---- appendix C: points for matrices --------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 4])
def test_with_points_and_q_of_the_classifier_the_bound_is_what_004_says(n_classes):
    """(34): KL(q ‖ f) vanishes, and E_f[log θ] is left, written out label by label; Jensen bounds coupled CE by it."""
    crowd, f, matrices = drawn(n_classes, 3)
    value = expected_log_likelihood(crowd, f, matrices.log()) - kl_from_classifier(f.log(), f)
    by_hand = sum(
        float(f[t, k] * torch.log(matrices[w, k, label]))
        for t, w, label in zip(crowd.task.tolist(), crowd.worker.tolist(), crowd.label.tolist(), strict=True)
        for k in range(n_classes)
    )
    np.testing.assert_allclose(float(value), by_hand, atol=1e-10)
    coupled = coupled_cross_entropy(f, matrices, whole(crowd))
    assert float(value) < -float(coupled) - 0.1  # strictly: the classifier is not sure


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("labels_per_task", [1, 3])
def test_with_points_and_the_best_q_the_bound_is_the_likelihood_of_the_labels(n_classes, labels_per_task):
    crowd, f, matrices = drawn(n_classes, labels_per_task)
    logs = matrices.log()
    q = log_posterior_given_labels(f.log(), crowd.task, logs[crowd.worker, :, crowd.label]).exp()
    value = expected_log_likelihood(crowd, q, logs) - kl_from_classifier(f.log(), q)
    dense = torch.ones_like(f)
    for t, w, label in zip(crowd.task.tolist(), crowd.worker.tolist(), crowd.label.tolist(), strict=True):
        dense[t] *= matrices[w, :, label]
    np.testing.assert_allclose(float(value), float((f * dense).sum(dim=1).log().sum()), atol=1e-10)
    coupled = -float(coupled_cross_entropy(f, matrices, whole(crowd)))
    if labels_per_task == 1:
        np.testing.assert_allclose(float(value), coupled, atol=1e-10)  # coupled cross-entropy exactly
    else:
        assert abs(float(value) - coupled) > 0.1  # not, where labels of a task share its truth


def test_for_one_label_a_task_the_gradient_is_that_of_coupled_cross_entropy():
    """At the best q, the M-step's gradient of the classifier (30) is coupled cross-entropy's."""
    crowd, f, matrices = drawn(3, 1)
    logits = f.log().requires_grad_()
    coupled_cross_entropy(logits.softmax(dim=1), matrices, whole(crowd)).backward()
    q = log_posterior_given_labels(f.log(), crowd.task, matrices.log()[crowd.worker, :, crowd.label]).exp()
    np.testing.assert_allclose(logits.grad.numpy(), (f - q).numpy(), atol=1e-10)


# ---- Dirichlet and Beta ---------------------------------------------------------------------------------


def test_expected_logarithms_means_and_divergence_of_a_coin_by_quadrature():
    counts = torch.zeros(1, 3, 3, dtype=torch.float64)
    counts[0, 0, 0], counts[0, 2, 1] = 1.5, 0.7  # right 1.5, wrong 0.7
    workers = DirichletWorkers((2.0, 1.0), 3, coin=True)
    beta, prior = stats.beta(3.5, 1.7), stats.beta(2, 1)

    def expected(function) -> float:
        return integrate.quad(lambda p: beta.pdf(p) * function(p), 0, 1)[0]

    logs, means = workers.expected_logs(counts)[0], workers.means(counts)[0]
    assert float(logs[1, 1]) == pytest.approx(expected(np.log), abs=1e-6)
    assert float(logs[1, 0]) == pytest.approx(expected(lambda p: np.log((1 - p) / 2)), abs=1e-6)
    assert float(means[0, 0]) == pytest.approx(3.5 / 5.2)
    assert float(means[0, 1]) == pytest.approx(1.7 / 5.2 / 2)
    divergence = expected(lambda p: beta.logpdf(p) - prior.logpdf(p))
    assert float(workers.divergence(counts)) == pytest.approx(divergence, abs=1e-6)


def test_beta_is_prior_and_counts():
    """(29) by hand: worker 0 said 1 of two tasks of which q believes 0.2 and 0.9 that they are 1."""
    labels = cw.CrowdLabels.from_codes([0, 1], [0, 0], [1, 1], tasks=2, workers=1, classes=2)
    q = torch.tensor([[0.8, 0.2], [0.1, 0.9]], dtype=torch.float64)
    workers = DirichletWorkers(None, 2, coin=False)
    counts = soft_counts(Crowd(labels), q)
    np.testing.assert_allclose(workers.shape(counts)[0].numpy(), [[2.0, 1.9], [1.0, 3.1]])


# ---- the updates ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("coin", [False, True])
@pytest.mark.parametrize("n_classes", [2, 7])
def test_every_update_raises_the_bound(coin, n_classes):
    _, labels, _ = problem(n_classes, n_tasks=60)
    crowd = Crowd(labels)
    log_f = torch.tensor(np.random.default_rng(1).dirichlet(np.ones(n_classes), 60)).log()
    workers = DirichletWorkers((2.0, 1.0), n_classes, coin=coin)
    counts = torch.zeros(crowd.n_workers, n_classes, n_classes, dtype=torch.float64)
    values = []
    for _ in range(6):
        logs = workers.expected_logs(counts)
        q = log_posterior_given_labels(log_f, crowd.task, logs[crowd.worker, :, crowd.label]).exp()
        values.append(float(evidence_lower_bound(crowd, log_f, q, workers, counts)))
        counts = soft_counts(crowd, q)
        values.append(float(evidence_lower_bound(crowd, log_f, q, workers, counts)))
    assert (np.diff(values) > -1e-9).all()
    assert values[-1] > values[0] + 0.1


def test_with_a_silent_network_q_is_mean_field():
    X, labels, _ = problem(3, n_tasks=60)
    model = cw.DeepMeanField(network=Silent(3), epochs=2).fit(X, labels)
    alone = cw.MeanField(tol=1e-13).fit(labels, class_prior=np.full(3, 1 / 3))
    np.testing.assert_allclose(model.posterior_, alone.posterior_, atol=1e-4)
    np.testing.assert_allclose(model.confusion_, alone.confusion_, atol=1e-4)
    np.testing.assert_allclose(
        model.predict_proba(X, labels), model.posterior_, atol=1e-4
    )  # at rest, (16) changes nothing


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_loss_is_cross_entropy_to_q(dtype):
    _, labels, _ = problem(3, n_tasks=30)
    crowd = Crowd(labels)
    workers = DirichletWorkers(None, 3, coin=False)
    objective = DeepMeanFieldObjective(crowd, workers, trust=0.9, sweeps=1, skip_untrained=True).to(dtype=dtype)
    objective.begin_epoch(0, lambda: torch.zeros(30, 3, dtype=dtype))
    logits = torch.randn(30, 3, dtype=dtype, requires_grad=True)
    objective.loss(NetworkOutput(logits, logits), whole(crowd)).backward()
    expected = (logits.detach().softmax(dim=1) - objective.q) / 30
    assert objective.q.dtype == dtype
    np.testing.assert_allclose(logits.grad.numpy(), expected.numpy(), atol=1e-6)


@pytest.mark.parametrize("prior", ["dirichlet", "one-coin"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_features_help_the_crowd_and_the_crowd_the_classifier(prior, n_classes):
    X, labels, truth = problem(n_classes)
    model = cw.DeepMeanField(prior=prior, network="linear", learning_rate=0.03, epochs=15).fit(X, labels)
    vote = cw.MajorityVote().fit(labels)
    assert model.score(X, truth) > 0.93
    assert (model.posterior_.argmax(axis=1) == truth).mean() > (vote.posterior_.argmax(axis=1) == truth).mean() + 0.03
    assert np.allclose(model.confusion_.sum(axis=2), 1)


def test_a_stranger_counts_as_the_average_worker():
    X, labels, truth = problem()
    model = cw.DeepMeanField(network="linear", learning_rate=0.03, epochs=5).fit(X, labels)
    stranger = cw.read_labels({"task": [0], "worker": ["nobody"], "label": [int(truth[0])]})
    before, after = model.predict_proba(X[:1])[0, truth[0]], model.predict_proba(X[:1], stranger)[0, truth[0]]
    mean = model.confusion_.mean(axis=0)[:, truth[0]]
    shares = np.clip(np.array([1 - before, before]) if truth[0] else np.array([before, 1 - before]), 0.1, 0.9)
    expected = (shares * mean / (shares * mean).sum())[truth[0]]
    assert after == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"trust": 1.5}, "trust is 1.5"),
        ({"trust": 0.4}, "trust is 0.4; it must be a number, 0.5 or more and at most 1"),
        ({"prior": "class-wise"}, "prior is 'class-wise'; it must be one of 'dirichlet', 'one-coin'"),
        ({"alpha": (1.0, 0.0)}, "alpha is .*; it must be two numbers above 0, or an array of shape"),
        ({"alpha": np.ones((2, 2)), "prior": "one-coin"}, "it must be two numbers above 0\\."),
        ({"sweeps": 0}, "sweeps is 0"),
    ],
)
def test_bad_parameters(parameters, message):
    X, labels, _ = problem(n_tasks=20)
    with pytest.raises(cw.InputError, match=message):
        cw.DeepMeanField(network="linear", epochs=1, **parameters).fit(X, labels)
