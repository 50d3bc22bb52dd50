"""Generalised EM: its steps against dense formulas and brute force, its schedule, and scikit-learn's classifiers."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from tests.learn.crowds import N_CLASSES, N_TASKS, N_WORKERS, crowded, logits_of, ragged, whole, without_labels

import crowdwise as cw
from crowdwise.learn.batches import Crowd, NetworkOutput
from crowdwise.learn.em import EmObjective, begins_step, e_step, fit_weighted, log_likelihood, m_step
from crowdwise.simulate import simulate_workers

if TYPE_CHECKING:
    from pathlib import Path

FLIPPER, GOOD = [[0.15, 0.85], [0.85, 0.15]], [[0.9, 0.1], [0.2, 0.8]]


def dense(labels: cw.CrowdLabels) -> np.ndarray:
    """Labels as Tanno et al. 2019 have them, tasks × workers, −1 where there is none."""
    table = np.full((labels.n_tasks, labels.n_workers), -1)
    table[labels.task, labels.worker] = labels.label
    return table


def dense_m_step(table: np.ndarray, q: np.ndarray, smoothing: float) -> np.ndarray:
    """Algorithm 2's M-step for A, element by element."""
    n_workers, n_classes = table.shape[1], q.shape[1]
    found = np.empty((n_workers, n_classes, n_classes))
    for r, j, i in np.ndindex(found.shape):
        there = table[:, r] != -1
        above = (there * (table[:, r] == i) * q[:, j]).sum() + smoothing
        found[r, j, i] = above / ((there * q[:, j]).sum() + n_classes * smoothing)
    return found


def dense_e_step(table: np.ndarray, f: np.ndarray, confusion: np.ndarray) -> np.ndarray:
    """Algorithm 2's E-step: f Π A, normalised."""
    q = f.copy()
    for n, r in np.argwhere(table != -1):
        q[n] *= confusion[r, :, table[n, r]]
    return q / q.sum(axis=1, keepdims=True)


@pytest.fixture
def random_parts() -> tuple[Crowd, torch.Tensor, torch.Tensor]:
    """Labels, a classifier's log-probabilities and matrices."""
    generator = torch.Generator().manual_seed(3)
    log_f = torch.randn(N_TASKS, N_CLASSES, dtype=torch.float64, generator=generator).log_softmax(dim=1)
    shape = (N_WORKERS, N_CLASSES, N_CLASSES)
    confusion = torch.randn(shape, dtype=torch.float64, generator=generator).softmax(dim=2)
    return Crowd(ragged()), log_f, confusion


def test_m_step_is_algorithm_2_s(random_parts: tuple[Crowd, torch.Tensor, torch.Tensor]) -> None:
    crowd, log_f, _ = random_parts
    expected = dense_m_step(dense(ragged()), log_f.exp().numpy(), 0.3)
    np.testing.assert_allclose(m_step(crowd, log_f.exp(), 0.3), expected, atol=1e-12)


def test_e_step_is_algorithm_2_s(random_parts: tuple[Crowd, torch.Tensor, torch.Tensor]) -> None:
    crowd, log_f, confusion = random_parts
    expected = dense_e_step(dense(ragged()), log_f.exp().numpy(), confusion.numpy())
    np.testing.assert_allclose(e_step(log_f, crowd, confusion), expected, atol=1e-12)


def test_likelihood_and_posterior_are_those_of_going_through_all_truths(
    random_parts: tuple[Crowd, torch.Tensor, torch.Tensor],
) -> None:
    crowd, log_f, confusion = random_parts
    f, table = log_f.exp().numpy(), dense(ragged())
    evidence, weight = 0.0, np.zeros((N_TASKS, N_CLASSES))
    for truth in itertools.product(range(N_CLASSES), repeat=N_TASKS):
        joint = np.prod([f[n, y] for n, y in enumerate(truth)])
        joint *= np.prod([confusion[r, truth[n], table[n, r]].item() for n, r in np.argwhere(table != -1)])
        evidence += joint
        weight[np.arange(N_TASKS), truth] += joint
    assert log_likelihood(log_f, crowd, confusion).item() == pytest.approx(np.log(evidence), abs=1e-10)
    np.testing.assert_allclose(e_step(log_f, crowd, confusion), weight / evidence, atol=1e-10)


def test_starts_with_the_mean_labels() -> None:
    objective = EmObjective(Crowd(ragged()), None, 0.01)
    table = dense(ragged())
    for n in (0, 1, 3, 4):
        said = table[n][table[n] != -1]
        np.testing.assert_allclose(objective.posterior[n], [(said == k).mean() for k in range(N_CLASSES)], atol=1e-6)
    np.testing.assert_allclose(objective.posterior[2], 1 / N_CLASSES)
    np.testing.assert_allclose(objective.matrices, dense_m_step(table, objective.posterior.numpy(), 0.01), atol=1e-5)


def test_it_may_start_with_the_posterior_of_the_votes() -> None:
    labels = ragged()
    table, votes = dense(labels), Crowd(labels).task_vote_shares().double().numpy()
    expected = dense_e_step(table, np.ones_like(votes), dense_m_step(table, votes, 0.01))
    objective = EmObjective(Crowd(labels), None, 0.01, "posterior")
    np.testing.assert_allclose(objective.posterior, expected, atol=1e-5)
    np.testing.assert_allclose(objective.matrices, dense_m_step(table, expected, 0.01), atol=1e-5)


def test_workers_who_say_one_class_are_not_believed_at_the_start() -> None:
    crowd = cw.simulate.simulate("naive-majority", n_tasks=400, data="dogs-vs-cats", level="low", random_state=0)
    votes, told = (EmObjective(Crowd(crowd.labels), None, 0.01, start).posterior for start in ("votes", "posterior"))
    assert (votes.argmax(dim=1) == 0).all()  # fifteen of 25 say "cat" of everything
    assert (told.argmax(dim=1).numpy() == crowd.truth).mean() > 0.55


def test_a_step_is_an_e_step_and_then_an_m_step(random_parts: tuple[Crowd, torch.Tensor, torch.Tensor]) -> None:
    crowd, log_f, _ = random_parts
    objective = EmObjective(crowd, None, 0.01).double()
    table, before = dense(ragged()), objective.matrices.numpy()
    objective.n_epochs = 2
    objective.begin_epoch(0, lambda: pytest.fail("the first step needs no forecast"))
    objective.begin_epoch(1, lambda: log_f)
    posterior = dense_e_step(table, log_f.exp().numpy(), before)
    np.testing.assert_allclose(objective.posterior, posterior, atol=1e-6)
    np.testing.assert_allclose(objective.matrices, dense_m_step(table, posterior, 0.01), atol=1e-6)
    assert objective.confusion() is objective.matrices


def test_loss_and_gradient_are_those_of_the_m_step() -> None:
    crowd = Crowd(ragged())
    objective = EmObjective(crowd, None, 0.01).double()
    logits = logits_of()
    loss = objective.loss(NetworkOutput(logits, logits), whole(crowd))
    log_f = torch.log(logits.exp() / logits.exp().sum(dim=1, keepdim=True))
    assert loss.item() == pytest.approx(-(objective.posterior * log_f).sum().item() / N_TASKS, abs=1e-12)
    expected = (logits.softmax(dim=1) - objective.posterior).detach() / N_TASKS
    torch.testing.assert_close(torch.autograd.grad(loss, logits)[0], expected, atol=1e-7, rtol=0)
    one = logits[2:3].detach()
    assert torch.isfinite(objective.loss(NetworkOutput(one, one), without_labels()))


@pytest.mark.parametrize(
    ("n_epochs", "steps", "begins"),
    [(5, None, [1, 2, 3, 4]), (6, 2, [3]), (10, 4, [3, 5, 8]), (4, 1, []), (3, 9, [1, 2])],
)
def test_steps_are_spread_over_the_epochs(n_epochs: int, steps: int | None, begins: list[int]) -> None:
    assert [epoch for epoch in range(n_epochs) if begins_step(epoch, n_epochs, steps)] == begins


def two_good_and_two_who_flip(n_tasks: int = 400) -> tuple[np.ndarray, Any]:
    crowd = simulate_workers([GOOD, GOOD, GOOD, FLIPPER], n_tasks=n_tasks, random_state=1)
    return np.random.default_rng(1).normal(size=(n_tasks, 2)) + 2 * crowd.truth[:, None], crowd


@pytest.mark.parametrize("steps", [None, 3])
def test_learns_a_classifier_and_who_flips(steps: int | None) -> None:
    X, crowd = two_good_and_two_who_flip()
    model = cw.GeneralizedEm(network="linear", epochs=15, learning_rate=0.05, steps=steps).fit(X, crowd.labels)
    assert model.score(X, crowd.truth) > 0.9
    assert cw.metrics.confusion_error(crowd.confusion, model.confusion_) < 0.01
    assert (model.predict(X, crowd.labels) == crowd.truth).mean() > model.score(X, crowd.truth)


@pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")
def test_with_one_label_a_task_the_matrices_stay_at_the_identity() -> None:
    """Tanno et al. 2019, figure 4: the M-step then knows of no disagreement."""
    crowd = simulate_workers([GOOD, GOOD, FLIPPER], n_tasks=300, labels_per_task=1, random_state=1)
    X = np.random.default_rng(1).normal(size=(300, 2)) + 2 * crowd.truth[:, None]
    model = cw.GeneralizedEm(network="linear", epochs=5, learning_rate=0.05).fit(X, crowd.labels)
    np.testing.assert_allclose(model.confusion_, np.broadcast_to(np.eye(2), (3, 2, 2)), atol=0.02)


# ---- scikit-learn's classifiers -------------------------------------------------------------------------------


def test_a_weighted_fit_is_that_of_soft_labels() -> None:
    """A classifier without features gives the mean posterior."""
    posterior = np.array([[0.9, 0.1, 0], [0.2, 0.3, 0.5]])
    fitted = fit_weighted(DummyClassifier(strategy="prior"), np.zeros((2, 1)), posterior)
    np.testing.assert_allclose(fitted.predict_proba(np.zeros((1, 1)))[0], [0.55, 0.2, 0.25])


def test_raykar_s_method_climbs_to_a_fixed_point_of_em() -> None:
    X, crowd = two_good_and_two_who_flip()
    model = cw.GeneralizedEm(classifier=LogisticRegression(C=1e4), smoothing=1e-6).fit(X, crowd.labels)
    loss = np.asarray(model.history_["loss"])
    assert (np.diff(loss) < 1e-5).all()
    assert model.n_epochs_ < 50  # converged
    assert model.score(X, crowd.truth) > 0.9
    assert cw.metrics.confusion_error(crowd.confusion, model.confusion_) < 0.01
    # The posterior and the matrices are each other's.
    table = dense(crowd.labels)
    posterior = dense_e_step(table, model.predict_proba(X), model.confusion_)
    np.testing.assert_allclose(model.posterior_, posterior, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(X, crowd.labels), posterior, atol=1e-5)
    np.testing.assert_allclose(dense_m_step(table, posterior, 1e-6), model.confusion_, atol=2e-3)


def test_without_features_it_is_dawid_and_skene() -> None:
    """The classifier is then the prior, and EM that of 1979."""
    crowd = simulate_workers([GOOD, GOOD, GOOD, FLIPPER], n_tasks=300, random_state=5)
    model = cw.GeneralizedEm(classifier=DummyClassifier(strategy="prior"), smoothing=1e-6, steps=500)
    with pytest.warns(cw.NotIdentifiable, match="hardly tells some classes apart"):
        model.fit(np.zeros((300, 1)), crowd.labels)
    plain = cw.DawidSkene(max_iter=2000, tol=1e-9).fit(crowd.labels)
    np.testing.assert_allclose(model.confusion_, plain.confusion_, atol=5e-3)
    np.testing.assert_allclose(model.posterior_, plain.posterior_, atol=2e-2)


@pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")
def test_tables_images_and_a_class_that_nobody_used() -> None:
    crowd = simulate_workers([GOOD, GOOD, GOOD], n_tasks=60, random_state=1)
    labels = cw.CrowdLabels.from_codes(
        *(crowd.labels.task, crowd.labels.worker, crowd.labels.label), tasks=60, workers=3, classes=["a", "b", "never"]
    )
    X = np.random.default_rng(1).normal(size=(60, 2, 2)) + 2 * crowd.truth[:, None, None]
    model = cw.GeneralizedEm(classifier=GaussianNB(), steps=4).fit(X, labels)
    assert model.predict_proba(X).shape == (60, 3)
    assert model.predict_proba(X)[:, 2].max() < 1e-6
    assert len(model.workers()["worker"]) == 3
    assert set(model.consensus()["label"].to_pylist()) == {"a", "b"}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"steps": 0}, r"steps is 0; it must be a whole number, 1 or more"),
        ({"smoothing": 0}, r"smoothing is 0; it must be a number, above 0"),
        ({"classifier": LinearRegression()}, r"must be a scikit-learn classifier with predict_proba"),
        ({"classifier": make_pipeline(LogisticRegression())}, r"whose fit takes sample_weight"),
    ],
)
def test_refuses_bad_parameters(bad: dict[str, object], message: str) -> None:
    with pytest.raises(cw.InputError, match=message):
        cw.GeneralizedEm(**bad).fit(np.zeros((N_TASKS, 1)), ragged())


def test_a_classifier_has_no_epochs_to_choose_from() -> None:
    with pytest.raises(cw.InputError, match=r"A validation set chooses among epochs"):
        cw.GeneralizedEm(classifier=GaussianNB()).fit(
            np.zeros((N_TASKS, 1)), ragged(), valid=(np.zeros((1, 1)), [ragged().classes[0].as_py()])
        )


def test_a_scikit_learn_classifier_is_not_saved(tmp_path: Path) -> None:
    data = crowded(20)
    model = cw.GeneralizedEm(classifier=GaussianNB(), steps=1).fit(data.X, data.labels)
    with pytest.raises(cw.InputError, match=r"A GaussianNB cannot be saved without pickle.*Train network='linear'"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
