"""M-steps stand at the top of what they climb, gradients match differences, methods meet where they must."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.optimize import check_grad
from tests.conftest import tiny_labels

import crowdwise as cw
from crowdwise.aggregate import confusion_vector, dawid_skene, glad, mace, one_coin
from crowdwise.engines import Statistics, prepare
from crowdwise.engines.numpy_engine import LabelMatrix
from crowdwise.kernels import NO_GOLD, worker_answer_sums
from crowdwise.kernels.glad import truth_posterior
from crowdwise.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.labels import CrowdLabels


def nudged(probabilities: Any, generator: np.random.Generator) -> Any:
    moved = probabilities * np.exp(generator.normal(0, 0.05, probabilities.shape))
    return moved / moved.sum(axis=-1, keepdims=True)


def beats_its_neighbours(value: Callable[[Any], float], top: Any, move: Callable[[Any], Any]) -> None:
    best = value(top)
    assert np.isfinite(best)
    assert all(value(move(top)) < best + 1e-7 for _ in range(200))


def test_dawid_skene_m_step() -> None:
    labels, generator = tiny_labels(3, 0), np.random.default_rng(0)
    posterior = generator.dirichlet(np.ones(3), labels.n_tasks)
    pseudo = np.full((1, 3, 3), 0.3)
    found = prepare(labels).accumulate(posterior)
    top = dawid_skene.m_step(found, pseudo)

    def expected(parameters: tuple[Any, Any]) -> float:
        prior, confusion = parameters
        total = (posterior @ np.log(prior)).sum() + 0.3 * np.log(confusion).sum()
        for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
            total += posterior[task] @ np.log(confusion[worker, :, label])
        return float(total)

    start = np.exp(top.log_prior), np.exp(top.log_table)
    beats_its_neighbours(expected, start, lambda at: (nudged(at[0], generator), nudged(at[1], generator)))


@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_coin_m_steps(smoothing: float) -> None:
    labels, generator = tiny_labels(3, 1), np.random.default_rng(0)
    posterior = generator.dirichlet(np.ones(3), labels.n_tasks)
    answers = labels.labels_per_worker.astype(float)
    found = prepare(labels).accumulate(posterior)
    # The vote counts are the diagonal of the confusion counts.
    votes = type(found)(0.0, found.class_counts, np.einsum("wkk->wk", found.counts))
    coin = np.exp(one_coin.m_step(votes, answers, smoothing).log_right[:, 0])
    vector = np.exp(np.einsum("wkk->wk", confusion_vector.m_step(found, smoothing).log_table))

    def expected(accuracy: Any) -> float:
        accuracy = np.broadcast_to(accuracy.reshape(labels.n_workers, -1), vector.shape)
        total = 0.0
        for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
            for truth in range(3):
                chance = accuracy[worker, truth] if truth == label else (1 - accuracy[worker, truth]) / 2
                total += posterior[task, truth] * np.log(chance)
        return total

    def with_prior(accuracy: Any) -> float:
        return expected(accuracy) + smoothing * float(np.log(accuracy * (1 - accuracy)).sum())

    for top in (np.clip(coin, 1e-9, 1 - 1e-9), np.clip(vector, 1e-9, 1 - 1e-9)):
        beats_its_neighbours(
            with_prior, top, lambda at: np.clip(at + generator.normal(0, 0.02, at.shape), 1e-9, 1 - 1e-9)
        )


def test_mace_m_step_climbs_its_own_objective() -> None:
    labels = tiny_labels(3, 2)
    for inference in ("em", "vb"):
        values = cw.Mace(inference=inference, max_iter=40, tol=0.0).fit(labels).objective_
        assert (np.diff(values) > -1e-10).all()
        assert values[-1] > values[0]
    found = prepare(labels).e_step_votes(np.zeros(3), np.zeros((3, 3)))
    answers = worker_answer_sums(labels)
    start = mace.make_parameters(np.full(3, 0.5), np.full((3, 3), 1 / 3))
    competent, spam, _ = mace.expected_counts(found, start, answers)
    np.testing.assert_allclose(competent + spam, labels.labels_per_worker)


def test_glad_gradient() -> None:
    labels, generator = tiny_labels(3, 3), np.random.default_rng(0)
    right = generator.random(labels.n_labels)

    def parameters(flat: Any) -> glad.GladParameters:
        return glad.GladParameters(flat[: labels.n_workers], flat[labels.n_workers :])

    start = generator.normal(1, 1, labels.n_workers + labels.n_tasks)
    error = check_grad(
        lambda flat: glad.expected_objective(labels, right, parameters(flat))[0],
        lambda flat: glad.expected_objective(labels, right, parameters(flat))[1],
        start,
    )
    assert error < 1e-5


def test_glad_stays_finite_at_extremes() -> None:
    labels = tiny_labels(3, 4)
    value, posterior, right = truth_posterior(
        labels, np.array([900.0, -900.0, 0.0]), np.full(5, 50.0), np.log(np.full(3, 1 / 3)), NO_GOLD
    )
    assert np.isfinite(value)
    assert np.isfinite(posterior).all()
    assert np.isfinite(right).all()


# ---- identities between methods --------------------------------------------------------------------------


def test_errors_next_to_none_are_no_rounding() -> None:
    counts = np.array([[[3.0, 1e-20], [2e-18, 5.0]]])
    found = Statistics(0.0, counts.sum(axis=(0, 2)), counts)
    wrong = np.exp(confusion_vector.m_step(found, 0.0).log_table)[0, [0, 1], [1, 0]]
    np.testing.assert_allclose(wrong, [1e-20 / 3, 2e-18 / 5])


def test_two_classes_make_the_confusion_vector_dawid_skene() -> None:
    labels = tiny_labels(2, 5, n_tasks=30, n_workers=6)
    one, two = cw.ConfusionVector().fit(labels), cw.DawidSkene().fit(labels)
    np.testing.assert_allclose(one.posterior_, two.posterior_, atol=1e-10)
    np.testing.assert_allclose(one.log_likelihood_, two.log_likelihood_, atol=1e-9)


def test_dawid_skene_from_symmetric_rows_starts_as_one_coin(crowd: CrowdLabels) -> None:
    coin = cw.OneCoin(max_iter=1, tol=0.0).fit(crowd)
    uniform = np.full(3, 1 / 3)
    posterior = np.empty_like(coin.posterior_)
    found = prepare(crowd).e_step(np.log(coin.prior_), np.log(coin.confusion_), NO_GOLD, posterior)
    np.testing.assert_allclose(posterior, coin.posterior_, atol=1e-10)
    assert found.log_likelihood == pytest.approx(coin.log_likelihood_[0], abs=1e-8)
    assert not np.allclose(coin.prior_, uniform)


def test_equal_weights_are_the_majority_vote(crowd: CrowdLabels) -> None:
    equal = dict.fromkeys(crowd.workers.to_pylist(), 2.5)
    np.testing.assert_allclose(
        cw.WeightedMajorityVote(weights=equal).fit(crowd).posterior_,
        cw.MajorityVote().fit(crowd).posterior_,
        atol=1e-12,
    )


def test_zencrowd_with_balanced_classes_agrees_with_one_coin() -> None:
    labels = cw.simulate.simulate(
        "dawid-skene", n_tasks=3000, n_workers=10, n_classes=2, labels_per_task=5, skill=0.75, random_state=0
    ).labels
    zen, coin = cw.ZenCrowd().fit(labels), cw.OneCoin().fit(labels)
    assert (zen.predict() == coin.predict()).mean() > 0.98


def test_given_starts(crowd: CrowdLabels) -> None:
    fitted = cw.DawidSkene(tol=1e-10, max_iter=3000).fit(crowd)
    again = cw.DawidSkene(init=fitted.posterior_).fit(crowd)
    assert again.n_iter_ == 2
    np.testing.assert_allclose(again.posterior_, fitted.posterior_, atol=1e-3)
    again = cw.DawidSkene(init=fitted.confusion_).fit(crowd)
    assert again.objective_[-1] == pytest.approx(fitted.objective_[-1], abs=0.05)


def test_a_hard_start_is_one_step_from_the_winners_of_the_vote() -> None:
    labels = tiny_labels(3, 3, n_tasks=20, n_workers=6)
    winners = np.zeros((labels.n_tasks, 3))
    for task in range(labels.n_tasks):
        votes = [int(((labels.task == task) & (labels.label == k)).sum()) for k in range(3)]
        first = [k for k in range(3) if votes[k] == max(votes)]
        winners[task, first] = 1 / len(first)
    assert ((winners > 0).sum(axis=1) > 1).any(), "no votes tie"
    hard = cw.DawidSkene(init="majority", smoothing=0.1, max_iter=5, tol=0.0).fit(labels)
    given = cw.DawidSkene(init=winners, smoothing=0.1, max_iter=5, tol=0.0).fit(labels)
    np.testing.assert_allclose(hard.posterior_, given.posterior_, atol=1e-12)
    shares = cw.DawidSkene(init="vote-shares", smoothing=0.1, max_iter=5, tol=0.0).fit(labels)
    assert np.abs(hard.objective_[0] - shares.objective_[0]) > 0.1
    known = {labels.tasks.to_pylist()[0]: labels.classes.to_pylist()[int(winners[0].argmin())]}
    told = cw.DawidSkene(init="majority", smoothing=0.1).fit(labels, gold=known)
    assert told.posterior_[0].argmax() == winners[0].argmin()


def test_random_restarts_end_no_lower_than_their_worst(crowd: CrowdLabels) -> None:
    one = cw.DawidSkene(init="random", n_restarts=1, random_state=4).fit(crowd)
    many = cw.DawidSkene(init="random", n_restarts=6, random_state=4).fit(crowd)
    assert many.objective_[-1] >= one.objective_[-1]
    np.testing.assert_array_equal(
        many.posterior_, cw.DawidSkene(init="random", n_restarts=6, random_state=4).fit(crowd).posterior_
    )


def test_known_workers_are_a_prior(crowd: CrowdLabels) -> None:
    earlier = cw.DawidSkene(smoothing=0.1).fit(crowd)
    few = crowd.select(tasks=crowd.tasks.to_pylist()[:8])
    plain = cw.DawidSkene(smoothing=0.1).fit(few)
    informed = cw.DawidSkene(smoothing=0.1).fit(few, known_workers=earlier, known_weight=50)
    distance = [np.abs(model.confusion_ - earlier.confusion_).mean() for model in (plain, informed)]
    assert distance[1] < distance[0] / 3
    by_name = dict(zip(earlier.workers_.tolist(), earlier.confusion_, strict=True))
    same = cw.DawidSkene(smoothing=0.1).fit(few, known_workers=by_name, known_weight=50)
    np.testing.assert_array_equal(same.posterior_, informed.posterior_)


@pytest.mark.parametrize(("slug", "name"), [("dawid-skene", "e_step"), ("one-coin", "e_step_votes")])
def test_the_last_iteration_is_the_pass_that_finds_the_posterior(
    slug: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = simulate("dawid-skene", n_tasks=60, n_workers=8, n_classes=3, labels_per_task=4, random_state=0).labels
    passes = []
    run = getattr(LabelMatrix, name)
    monkeypatch.setattr(LabelMatrix, name, lambda self, *given: (passes.append(len(given)), run(self, *given))[1])
    model = cw.method(slug).load()(max_iter=5, tol=0.0).fit(labels)
    assert len(passes) == 5
    np.testing.assert_allclose(model.posterior_, model.predict_proba(labels), rtol=0, atol=1e-14)
    passes.clear()
    model = cw.method(slug).load()(max_iter=500, tol=1e-3).fit(labels)
    assert len(passes) == model.n_iter_ + 1 < 500
    np.testing.assert_allclose(model.posterior_, model.predict_proba(labels), rtol=0, atol=1e-14)


def test_the_posterior_is_that_of_the_climb_that_ended_highest() -> None:
    labels = simulate("dawid-skene", n_tasks=60, n_workers=8, n_classes=3, labels_per_task=4, random_state=0).labels
    found = set()
    for seed in range(6):
        model = cw.DawidSkene(init="random", n_restarts=3, max_iter=2, tol=0.0, random_state=seed).fit(labels)
        np.testing.assert_allclose(model.posterior_, model.predict_proba(labels), rtol=0, atol=1e-14)
        assert model.log_likelihood_.size == 2
        found.add(round(float(model.log_likelihood_[-1]), 6))
    assert len(found) > 1
