"""Deep belief propagation: its E-step is the aggregator's, its M-step cross-entropy; clipping bounds the classifier."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import crowdwise as cw
from crowdwise.learn.batches import Crowd, NetworkOutput, batches
from crowdwise.learn.classifier_trust import clip_probabilities, limit_trust
from crowdwise.learn.deep_bp import DeepBeliefPropagationObjective, confusion_quadrature_nodes
from crowdwise.learn.features import make_features
from crowdwise.simulate import simulate

pytestmark = pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")


class Constant(nn.Module):
    """The same chances for every task."""

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(n_classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.bias.detach() + 0 * self.bias + 0 * x[:, :1]


def problem(n_classes: int = 2, seed: int = 0, n_tasks: int = 240) -> tuple[np.ndarray, cw.CrowdLabels, np.ndarray]:
    """Blobs, one for each class, and three labels a task by workers of one coin each."""
    crowd = simulate("one-coin", n_tasks=n_tasks, n_workers=n_tasks // 2, n_classes=n_classes, random_state=seed)
    noise = np.random.default_rng(seed).normal(size=(n_tasks, n_classes))
    return 3 * np.eye(n_classes)[crowd.truth] + noise, crowd.labels, crowd.truth


def infer(labels: cw.CrowdLabels, f: torch.Tensor, **settings: object) -> tuple[torch.Tensor, torch.Tensor]:
    """q and the workers' matrices of one E-step, the classifier's word f as it is."""
    solver = cw.BeliefPropagation(**settings)
    objective = DeepBeliefPropagationObjective(Crowd(labels), solver, 1.0, skip_untrained=False).double()
    return objective.settle(f.log()).exp(), objective.confusion()


# ---- the E-step -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("prior", ["one-coin", "class-wise"])
def test_with_a_constant_network_q_is_belief_propagation(n_classes, prior):
    X, labels, _ = problem(n_classes, n_tasks=60)
    settings = {"prior": prior, "alpha": (2.0, 1.0)}
    model = cw.DeepBeliefPropagation(network=Constant(n_classes), epochs=2, trust=1.0, **settings).fit(X, labels)
    alone = cw.BeliefPropagation(**settings).fit(labels)
    np.testing.assert_allclose(model.posterior_, alone.posterior_, atol=1e-8)
    np.testing.assert_allclose(model.confusion_, alone.confusion_, atol=1e-6)


def test_trust_of_one_in_k_is_belief_propagation_whatever_the_network_says():
    X, labels, _ = problem()
    model = cw.DeepBeliefPropagation(network="linear", learning_rate=0.03, epochs=5, trust=0.5, prior="one-coin")
    alone = cw.BeliefPropagation().fit(labels)
    np.testing.assert_allclose(model.fit(X, labels).posterior_, alone.posterior_, atol=1e-8)


def test_the_classifier_is_the_prior_of_the_tasks():
    """Two tasks, one worker, by enumeration: q ∝ f₁ f₂ ∫ p(θ) θ[z₁, y₁] θ[z₂, y₂] dθ; a tree, so messages are exact."""
    labels = cw.CrowdLabels.from_codes([0, 1], [0, 0], [0, 0], tasks=2, workers=1, classes=2)
    f = torch.tensor([[0.9, 0.1], [0.3, 0.7]], dtype=torch.float64)
    q, _ = infer(labels, f, prior="one-coin", alpha=(2.0, 1.0))
    moment = {2: 1 / 2, 1: 1 / 6, 0: 1 / 6}  # of Beta(2, 1): E θ², E θ(1 − θ), E (1 − θ)²
    joint = np.array([[f[0, a] * f[1, b] * moment[(a == 0) + (b == 0)] for b in range(2)] for a in range(2)])
    np.testing.assert_allclose(q[0].numpy(), joint.sum(axis=1) / joint.sum(), atol=1e-10)
    np.testing.assert_allclose(q[1].numpy(), joint.sum(axis=0) / joint.sum(), atol=1e-10)


def test_second_answers_of_a_worker_are_edges_of_their_own():
    labels = cw.CrowdLabels.from_codes(
        [0, 0, 1], [0, 0, 1], [1, 1, 0], tasks=3, workers=2, classes=2, on_duplicate="all"
    )
    f = torch.full((3, 2), 0.5, dtype=torch.float64)
    q, matrices = infer(labels, f)
    assert q[0, 1] > 0.7
    assert q[2].tolist() == [0.5, 0.5]  # no labels: the classifier's word
    assert matrices.shape == (2, 2, 2)


def test_the_crowds_prior_has_its_errors_and_its_accuracy_in_the_middle():
    counts = np.array([[60.0, 30.0, 10.0], [5.0, 80.0, 15.0], [0.0, 0.0, 0.0]])
    nodes, weights = confusion_quadrature_nodes(counts, (2.0, 1.0))
    np.testing.assert_allclose(nodes.sum(axis=2), 1)
    np.testing.assert_allclose(weights.sum(), 1)
    middle = nodes[len(nodes) // 2]
    np.testing.assert_allclose(middle[0], [62 / 103, 30.5 / 103, 10.5 / 103])
    np.testing.assert_allclose(middle[2], [1 / 6, 1 / 6, 2 / 3])  # nothing known of the class but the pseudo-counts
    np.testing.assert_allclose(nodes[:, 0, 1] / nodes[:, 0, 2], 30.5 / 10.5)
    assert (np.diff(nodes[:, 0, 0]) > 0).all()


# ---- clipping -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "highest", "expected"),
    [
        ([0.97, 0.03], 0.9, [0.9, 0.1]),
        ([0.8, 0.2], 0.9, [0.8, 0.2]),
        ([0.94, 0.05, 0.01], 0.9, [0.9, 0.07, 0.03]),
        ([0.6, 0.39, 0.01], 0.4, [0.4, 0.4, 0.2]),  # what is cut off the first pushes the second over
        ([0.5, 0.3, 0.2], 1 / 3, [1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_clipping_by_hand(f, highest, expected):
    got = clip_probabilities(torch.tensor([f], dtype=torch.float64), highest)
    np.testing.assert_allclose(got[0].numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_clipping_is_the_even_rise_that_fits_under_the_limit(n_classes):
    """Oracle: min(f + s, c) with the s at which it sums to one, by bisection."""
    rng = np.random.default_rng(n_classes)
    for f in rng.dirichlet(np.full(n_classes, 0.4), 20):
        highest = rng.uniform(1 / n_classes + 0.01, 1)
        low, high = 0.0, 1.0
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if np.minimum(f + middle, highest).sum() < 1 else (low, middle)
        expected = np.minimum(f + low, highest) if f.max() > highest else f
        np.testing.assert_allclose(clip_probabilities(torch.tensor(f)[None], highest)[0].numpy(), expected, atol=1e-9)


def test_a_classifier_that_knows_less_than_the_shares_is_not_believed():
    labels = cw.CrowdLabels.from_codes(np.arange(4), np.zeros(4, int), [0, 0, 1, 1], tasks=4, workers=1, classes=2)
    q = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    knows = torch.log(torch.tensor([[0.7, 0.3], [0.6, 0.4], [0.3, 0.7], [0.4, 0.6]]))
    np.testing.assert_allclose(limit_trust(knows, 0.65, Crowd(labels), q)[0].numpy(), [0.65, 0.35])
    opposite = knows.flip(1)
    assert (limit_trust(opposite, 0.9, Crowd(labels), q) == 0.5).all()
    np.testing.assert_allclose(limit_trust(opposite, 0.9, Crowd(labels), None)[0].numpy(), [0.3, 0.7])


# ---- learning -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_loss_is_cross_entropy_to_q(dtype):
    X, labels, _ = problem(3, n_tasks=30)
    crowd = Crowd(labels)
    solver = cw.BeliefPropagation(prior="one-coin")
    objective = DeepBeliefPropagationObjective(crowd, solver, 0.9, skip_untrained=True).to(dtype=dtype)
    features = make_features(X).to(torch.device("cpu"), dtype)
    objective.begin_epoch(0, lambda: torch.zeros(30, 3, dtype=dtype))
    assert objective.q.dtype == dtype
    batch = next(batches(features, crowd, torch.tensor([4, 2, 9]), 3))
    logits = torch.randn(3, 3, dtype=dtype, requires_grad=True)
    objective.loss(NetworkOutput(logits, logits), batch).backward()
    f = logits.detach().softmax(dim=1)
    np.testing.assert_allclose(logits.grad.numpy(), (f - objective.q[[4, 2, 9]]).numpy() / 3, atol=1e-6)


@pytest.mark.parametrize("prior", ["crowd", "one-coin"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_features_help_the_crowd_and_the_crowd_the_classifier(prior, n_classes):
    X, labels, truth = problem(n_classes)
    model = cw.DeepBeliefPropagation(prior=prior, network="linear", learning_rate=0.03, epochs=15).fit(X, labels)
    alone = cw.BeliefPropagation().fit(labels)
    assert model.score(X, truth) > 0.93
    assert (model.posterior_.argmax(axis=1) == truth).mean() > (alone.posterior_.argmax(axis=1) == truth).mean() + 0.03
    both = model.predict_proba(X, labels)
    assert (both.argmax(axis=1) == truth).mean() > 0.9


def test_an_untrained_network_does_not_swap_the_classes():
    """Three workers with 300 labels each would side with any network, were it believed before it has learnt."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=300)
    X = rng.normal(size=(300, 2)) + 3 * truth[:, None]
    said = np.where(rng.random((300, 3)) < 0.8, truth[:, None], 1 - truth[:, None])
    labels = cw.CrowdLabels.from_dense(said)
    for seed in range(3):
        model = cw.DeepBeliefPropagation(network="linear", epochs=4, random_state=seed).fit(X, labels)
        assert (model.skill_ > 0.6).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"trust": 0.0}, "trust is 0; it must be a number, above 0"),
        ({"trust": 0.4}, "trust is 0.4; it must be a number, 0.5 or more and at most 1"),
        ({"prior": "coin"}, "prior is 'coin'; it must be one of 'crowd'"),
        ({"alpha": (1.0, -1.0)}, "alpha is .*; it must be two numbers above 0"),
        ({"weights": [1.0]}, "weights are those of a mixture"),
        ({"max_iter": 0}, "max_iter is 0"),
        ({"damping": 1.0}, "damping is 1"),
        ({"tol": -1.0}, "tol is -1"),
        ({"skip_untrained": 1}, "skip_untrained is 1"),
    ],
)
def test_bad_parameters(parameters, message):
    X, labels, _ = problem(n_tasks=20)
    with pytest.raises(cw.InputError, match=message):
        cw.DeepBeliefPropagation(network="linear", epochs=1, **parameters).fit(X, labels)
