"""Baselines of papers: one matrix for all, soft bootstrapping, learning from all labels, and the oracle.

Tanno et al. 2019 and Wang et al. 2023 compare with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from tests.learn.crowds import N_CLASSES, N_TASKS, N_WORKERS, logits_of, ragged, whole, without_labels

import crowdwise as cw
from crowdwise.learn.batches import Crowd, NetworkOutput
from crowdwise.learn.learn_from_all import AllObjective
from crowdwise.learn.losses import noisy_log_likelihood, one_hot_winners
from crowdwise.learn.oracle import OracleObjective
from crowdwise.learn.single_cm import SingleObjective
from crowdwise.learn.soft_bootstrap import BootstrapObjective
from crowdwise.simulate import simulate_workers

if TYPE_CHECKING:
    from crowdwise.learn.objective import Objective

FLIPPER, GOOD = [[0.15, 0.85], [0.85, 0.15]], [[0.9, 0.1], [0.1, 0.9]]
SIZES = pytest.mark.parametrize("n_classes", [2, 3, 7])


def compare(objective: Objective, logits: torch.Tensor, crowd: Crowd, dense: torch.Tensor) -> None:
    """Value and gradients of the loss against a dense one; a lone task without labels costs a finite number."""
    loss = objective.loss(NetworkOutput(logits, logits), whole(crowd))
    assert loss.item() == pytest.approx(dense.item(), abs=1e-12)
    wanted = [logits, *objective.parameters()]
    ours, theirs = torch.autograd.grad(loss, wanted), torch.autograd.grad(dense, wanted)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=0)
    alone = logits[2:3].detach()
    assert torch.isfinite(objective.loss(NetworkOutput(alone, alone), without_labels()))
    small = logits.detach().float()
    assert objective.float().loss(NetworkOutput(small, small), whole(crowd)).item() == pytest.approx(
        dense.item(), rel=1e-5
    )


def majority(labels: cw.CrowdLabels) -> np.ndarray:
    """Votes counted one by one; ties, and tasks without labels, spread."""
    counts = np.zeros((labels.n_tasks, labels.n_classes))
    for task, label in zip(labels.task, labels.label, strict=True):
        counts[task, label] += 1
    best = counts == counts.max(axis=1, keepdims=True)
    return best / best.sum(axis=1, keepdims=True)


@SIZES
def test_votes_are_counted_and_ties_spread(n_classes: int) -> None:
    labels = ragged(n_classes, seed=2)
    np.testing.assert_allclose(one_hot_winners(Crowd(labels).task_vote_shares()), majority(labels), atol=1e-6)


@SIZES
def test_one_matrix_for_all_is_the_dense_formula(n_classes: int) -> None:
    labels = ragged(n_classes)
    crowd, logits = Crowd(labels), logits_of(n_classes)
    objective = SingleObjective(crowd, 0.3).double()
    objective.vote = torch.as_tensor(majority(labels))
    rho = objective.shared.rho[0]
    positive = torch.log(1 + rho.exp())
    matrix = positive / positive.sum(dim=1, keepdim=True)
    f = logits.exp() / logits.exp().sum(dim=1, keepdim=True)
    dense = 0.3 * sum(matrix[k, k] for k in range(n_classes))
    for t in range(N_TASKS):
        for label in range(n_classes):
            said = sum(f[t, k] * matrix[k, label] for k in range(n_classes))
            dense = dense - objective.vote[t, label] * torch.log(said) / N_TASKS
    compare(objective, logits, crowd, dense)


@SIZES
def test_soft_bootstrapping_is_cross_entropy_and_entropy(n_classes: int) -> None:
    labels = ragged(n_classes)
    crowd, logits = Crowd(labels), logits_of(n_classes)
    objective = BootstrapObjective(crowd, 0.8).double()
    objective.vote = torch.as_tensor(majority(labels))
    f = logits.exp() / logits.exp().sum(dim=1, keepdim=True)
    dense = -(0.8 * objective.vote * f.log() + 0.2 * f * f.log()).sum() / N_TASKS
    compare(objective, logits, crowd, dense)


@SIZES
def test_learning_from_all_is_the_likelihood_of_the_labels(n_classes: int) -> None:
    labels = ragged(n_classes)
    logits = logits_of(n_classes)
    f = logits.exp() / logits.exp().sum(dim=1, keepdim=True)
    dense = -sum(f[t, k].log() for t, k in zip(labels.task, labels.label, strict=True)) / labels.n_labels
    compare(AllObjective(Crowd(labels)), logits, Crowd(labels), dense)


@SIZES
def test_the_oracle_s_loss_is_that_of_the_true_matrices(n_classes: int) -> None:
    labels = ragged(n_classes)
    crowd, logits = Crowd(labels), logits_of(n_classes)
    matrices = torch.randn(N_WORKERS, n_classes, n_classes, dtype=torch.float64).softmax(dim=2)
    f = logits.exp() / logits.exp().sum(dim=1, keepdim=True)
    edges = zip(labels.task, labels.worker, labels.label, strict=True)
    dense = -sum((matrices[w].T @ f[t])[k].log() for t, w, k in edges) / N_TASKS
    compare(OracleObjective(crowd, matrices), logits, crowd, dense)


@pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")
def test_where_all_tasks_have_as_many_labels_all_is_soft_labels() -> None:
    crowd = simulate_workers([GOOD, GOOD, FLIPPER], n_tasks=50, random_state=1)
    X = np.random.default_rng(1).normal(size=(50, 2)) + 2 * crowd.truth[:, None]
    settings = {"network": "linear", "epochs": 4, "learning_rate": 0.05}
    one = cw.LearnFromAll(**settings).fit(X, crowd.labels)
    other = cw.TwoStage(aggregator="majority-vote", soft=True, **settings).fit(X, crowd.labels)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-4)


def flipped(n_tasks: int = 600, labels_per_task: int | None = 1) -> tuple[np.ndarray, cw.simulate.Simulation]:
    """One of four says the opposite; one label a task."""
    crowd = simulate_workers(
        [GOOD, GOOD, GOOD, FLIPPER], n_tasks=n_tasks, labels_per_task=labels_per_task, random_state=1
    )
    return np.random.default_rng(1).normal(size=(n_tasks, 2)) + 3 * crowd.truth[:, None], crowd


def test_labels_held_out_are_predicted_by_the_classifier_and_guesses() -> None:
    """Of three labels f gives ½, ½ and 0: with a share s of f, 2 log(s/2 + (1 − s)/3) + log((1 − s)/3), best at 0."""
    crowd = Crowd(cw.CrowdLabels.from_codes([0, 1, 1], [0, 0, 1], [0, 1, 2], tasks=2, workers=2, classes=3))
    sharp, right = torch.tensor([[0.5, 0.5, 0], [0.5, 0.5, 0]]).log(), torch.eye(3)[:2].log()
    fits = [2 * np.log(s / 2 + (1 - s) / 3) + np.log((1 - s) / 3) for s in np.arange(20) / 20]
    assert noisy_log_likelihood(sharp, crowd).item() == pytest.approx(max(fits) / 3, rel=1e-5)
    fits = [2 * np.log(s + (1 - s) / 3) + np.log((1 - s) / 3) for s in np.arange(20) / 20]
    assert noisy_log_likelihood(right, crowd).item() == pytest.approx(max(fits) / 3, rel=1e-5)
    assert noisy_log_likelihood(right.roll(1, dims=1), crowd).item() < noisy_log_likelihood(right, crowd).item()
    uniform = torch.full((2, 3), 1 / 3).log()
    assert AllObjective(crowd).held_out(uniform, crowd).item() == pytest.approx(-np.log(3))


@pytest.mark.parametrize("learner", [cw.SingleConfusion, cw.SoftBootstrap, cw.LearnFromAll, cw.TwoStage])
def test_a_mirrored_start_is_not_the_best_epoch(learner: type[cw.SoftBootstrap]) -> None:
    """Matrices that are counted would not mind that the start calls things by the other name."""
    X, crowd = flipped()
    network = torch.nn.Linear(2, 2)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[3.0, 3.0], [-3.0, -3.0]]))
        network.bias.copy_(torch.tensor([-4.5, 4.5]))
    model = learner(network=network, learning_rate=0.05, worker_learning_rate=0.001, epochs=40).fit(X, crowd.labels)
    history = model.history_["held_out"].to_pylist()
    assert history[-1] > history[0]
    assert model.score(X, crowd.truth) > 0.9


@pytest.mark.parametrize("learner", [cw.SingleConfusion, cw.SoftBootstrap, cw.LearnFromAll])
def test_learns_a_classifier_and_counts_who_flips(learner: type[cw.SoftBootstrap]) -> None:
    X, crowd = flipped()
    model = learner(network="linear", epochs=20, learning_rate=0.05).fit(X, crowd.labels)
    assert model.score(X, crowd.truth) > 0.95
    assert model.skill_[3] < 0.4
    assert model.skill_[:3].min() > 0.7


def test_one_matrix_for_all_is_the_crowd_s_mean() -> None:
    X, crowd = flipped(2000)
    model = cw.SingleConfusion(network="linear", epochs=20, batch_size=200, learning_rate=0.05).fit(X, crowd.labels)
    np.testing.assert_allclose(model.vote_confusion_, crowd.confusion.mean(axis=0), atol=0.08)


def test_the_oracle_keeps_its_matrices_and_believes_a_flipper() -> None:
    """Most labels are wrong, but it is known how."""
    crowd = simulate_workers([FLIPPER, FLIPPER, GOOD], n_tasks=600, labels_per_task=1, random_state=1)
    X = np.random.default_rng(1).normal(size=(600, 2)) + 3 * crowd.truth[:, None]
    model = cw.OracleConfusion(confusion=crowd.confusion, network="linear", epochs=20, learning_rate=0.05)
    model.fit(X, crowd.labels)  # without a warning: the workers are known, not guessed
    np.testing.assert_allclose(model.confusion_, crowd.confusion, atol=1e-6)
    assert model.score(X, crowd.truth) > 0.95


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (cw.SingleConfusion(strength=-1), r"strength is -1; it must be a number, 0 or more"),
        (cw.SoftBootstrap(trust=1.5), r"trust is 1.5; it must be a number, 0 or more and at most 1"),
        (cw.OracleConfusion(), r"The oracle needs the workers' true matrices"),
        (cw.OracleConfusion(confusion=np.ones((4, 3, 3))), r"confusion must hold probabilities that sum to 1"),
        (cw.OracleConfusion(confusion=np.eye(3)[None]), r"confusion has shape \(1, 3, 3\); .* it must be \(5, 3, 3\)"),
    ],
)
def test_refuses_bad_parameters(model: cw.SoftBootstrap, message: str) -> None:
    with pytest.raises(cw.InputError, match=message):
        model.fit(np.zeros((N_TASKS, 1)), ragged(N_CLASSES))
