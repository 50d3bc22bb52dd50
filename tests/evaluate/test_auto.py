"""Auto: which methods it takes, and how sure it is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.conftest import tiny_labels

import crowdwise as cw
from crowdwise.engines import prepare
from crowdwise.evaluate import auto_members, held_out, hierarchical_dawid_skene, likelihood_tempering
from crowdwise.fitting.prior_knowledge import PriorKnowledge
from crowdwise.fitting.skill_intervals import shrink_rows_to_crowd
from crowdwise.labels import CrowdLabels
from crowdwise.simulate import simulate

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("compiled")
FEWER = {"cifar10h": 60}  # tasks: 51 labels of each take longer than three other sets
FOURTEEN = (
    "bluebird", "dog", "web", "rte", "temp", "sp", "zencrowd_us", "adult2", "fact_eval", "ducks", "labelme", "music",
    "imagenet15n", "cifar10h",
)  # fmt: skip


def test_the_prior_of_workers_by_plain_loops() -> None:
    labels = tiny_labels(3, 6, n_tasks=10, n_workers=4)
    votes = labels.vote_counts() / np.maximum(labels.labels_per_task, 1)[:, None]
    agrees, total, errors = np.zeros(4), np.zeros(4), np.zeros((3, 3))
    for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
        agrees[worker] += votes[task, label]
        total[worker] += 1
        errors[:, label] += votes[task]
    crowd = (agrees.sum() + 0.5) / (total.sum() + 1)
    errors += 0.5
    np.fill_diagonal(errors, 0)
    errors /= errors.sum(axis=1, keepdims=True)
    counts = prepare(labels).count_against_vote_shares(labels.class_shares).counts
    found = hierarchical_dawid_skene.prior_pseudo_answers(counts, PriorKnowledge(), 6.0)
    for worker in range(4):
        accuracy = (agrees[worker] + 8 * crowd) / (total[worker] + 8)
        expected = 6 * ((1 - accuracy) * errors + accuracy * np.eye(3))
        np.testing.assert_allclose(found[worker], expected, atol=1e-12)
    known = np.zeros((4, 3, 3))
    known[2] = 9.0
    told = hierarchical_dawid_skene.prior_pseudo_answers(counts, PriorKnowledge(worker_counts=known), 6.0)
    np.testing.assert_allclose(told[2], known[2] + 0.01 * found[2])
    np.testing.assert_array_equal(told[1], found[1])


def test_who_stays_is_not_told_apart_from_the_best(crowd: CrowdLabels, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaps and their errors over tasks, from each member's hidden labels on its own."""
    weights, scores = auto_members.weigh_members(crowd, PriorKnowledge(), 0)
    assert weights.sum() == pytest.approx(1)
    logs = np.empty((crowd.n_labels, len(auto_members.SHORTLIST)))
    for part in held_out.split_into_folds(crowd, auto_members.FOLDS, 0):
        for place, member in enumerate(auto_members.SHORTLIST):
            model = member.fit(part.kept, PriorKnowledge(), 0, False)
            logs[part.hidden, place] = np.log(
                held_out.given_answer_probabilities(held_out.predict_held_out(model, part), part)
            )
    np.testing.assert_allclose(scores[:, 0], logs.mean(axis=0), atol=1e-12)
    gaps = logs[:, [logs.mean(axis=0).argmax()]] - logs
    for place, gap in enumerate(gaps.T):
        by_task = [gap[crowd.task == task].sum() - gap.mean() * (crowd.task == task).sum() for task in range(150)]
        told_apart = gap.sum() > auto_members.TOLD_APART * np.sqrt(np.sum(np.square(by_task)))
        assert not (told_apart and weights[place] > 0), auto_members.SHORTLIST[place].name
    monkeypatch.setattr(auto_members, "TOLD_APART", 0.0)
    alone, _ = auto_members.weigh_members(crowd, PriorKnowledge(), 0)
    assert (alone > 0).sum() == 1
    assert alone.argmax() == scores[:, 0].argmax()


def test_hard_tasks_are_seen() -> None:
    """Tasks of unlike difficulty: a method with an effect for each task predicts better, and gets the weight."""
    generator = np.random.default_rng(1)
    truth, chance = generator.integers(0, 2, 200), generator.choice([0.95, 0.3], 200, p=[0.7, 0.3])
    task, worker = np.repeat(np.arange(200), 25), np.tile(np.arange(25), 200)
    right = generator.random(5000) < chance[task]
    labels = CrowdLabels.from_codes(
        task, worker, np.where(right, truth[task], 1 - truth[task]), tasks=200, workers=25, classes=2
    )
    model = cw.Auto().fit(labels)
    members = {row["method"]: row["weight"] for row in model.league().to_pylist()}
    assert members["hierarchical dawid-skene"] < 0.1
    assert members["ebcc"] + members["minimax-entropy (γ = 1/64)"] + members["minimax-entropy (γ = 1/4)"] > 0.9


def test_hierarchical_dawid_skene_by_plain_loops() -> None:
    """One EM step after another with dense arrays: the prior is estimated anew in each."""
    labels = tiny_labels(3, 1, n_tasks=12, n_workers=5)
    found = hierarchical_dawid_skene.HierarchicalDawidSkene(4.0).fit_with_knowledge(labels, PriorKnowledge())
    shares = np.sqrt(labels.class_shares + 0.01 / 3)
    shares /= shares.sum()
    counts_of_tasks = labels.labels_per_task[:, None]
    q = np.where(counts_of_tasks > 0, labels.vote_counts() / np.maximum(counts_of_tasks, 1), labels.class_shares)
    for _ in range(400):
        counts = np.zeros((5, 3, 3))
        for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
            counts[worker, :, label] += q[task]
        total = counts + 4.0 * shrink_rows_to_crowd(counts, 8.0)
        rows = total / total.sum(axis=2, keepdims=True)
        logs = np.tile(np.log(shares), (12, 1))
        for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
            logs[task] += np.log(rows[worker, :, label])
        q = np.exp(logs - logs.max(axis=1, keepdims=True))
        q /= q.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.posterior_, q, atol=1e-3)


def test_tempering_is_the_power_of_a_likelihood() -> None:
    """Prior times likelihood to the power (n + 1)^-γ, by hand; no label, no change from the prior."""
    prior, likelihood = np.array([0.7, 0.3]), np.array([[0.9, 0.2], [0.01, 0.5]])
    posterior = prior * likelihood / (prior * likelihood).sum(axis=1, keepdims=True)
    n_labels = np.array([3, 8])
    expected = prior * likelihood ** ((n_labels + 1.0) ** -0.5)[:, None]
    expected = 0.998 * expected / expected.sum(axis=1, keepdims=True) + 0.002 * prior
    found = likelihood_tempering.temper_posterior(posterior, n_labels, exponent=0.5, class_prior=prior)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    unchanged = likelihood_tempering.temper_posterior(posterior, n_labels, exponent=0.0)
    np.testing.assert_allclose(unchanged, 0.998 * posterior + 0.001, atol=1e-12)
    assert (likelihood_tempering.temper_posterior(posterior, n_labels).argmax(axis=1) == posterior.argmax(axis=1)).all()


def test_less_sure_than_its_members_but_not_timid() -> None:
    """Shared errors are allowed for; many workers who agree are believed all the same."""
    crowd = simulate("one-coin", n_tasks=200, n_workers=20, n_classes=2, labels_per_task=9, random_state=2)
    model, plain = cw.Auto().fit(crowd.labels), cw.DawidSkene().fit(crowd.labels)
    assert model.posterior_.max(axis=1).mean() < plain.posterior_.max(axis=1).mean()
    assert (model.posterior_.argmax(axis=1) == crowd.truth).mean() > 0.96
    spammed = simulate("spammers", n_tasks=1000, random_state=0)
    model = cw.Auto().fit(spammed.labels)
    assert cw.metrics.expected_calibration_error(spammed.truth, model.posterior_) < 0.03
    assert (model.posterior_.max(axis=1) >= 0.9).mean() > 0.9


def test_expected_wrong_answers() -> None:
    """The count is the sum of doubts; independent workers lie at the low end, a misled crowd inside."""
    crowd = simulate("one-coin", n_tasks=400, n_workers=20, n_classes=3, labels_per_task=7, random_state=5)
    misled = np.zeros(400, np.bool_)
    misled[::10] = True
    for truth in (crowd.truth, np.where(misled, (crowd.truth + 1) % 3, crowd.truth)):
        model = cw.Auto().fit(crowd.labels)
        wrong = int((model.posterior_.argmax(axis=1) != truth).sum())
        expected = model.expected_wrong()
        assert expected.count == pytest.approx((1 - model.posterior_.max(axis=1)).sum())
        assert expected.low <= wrong <= expected.high
        assert expected.high < 200
        assert "labels alone" in expected.basis
    wide, narrow = model.expected_wrong(0.99), model.expected_wrong(0.5)
    assert wide.low <= narrow.low <= narrow.high <= wide.high
    with pytest.raises(cw.InputError, match="level is 0"):
        model.expected_wrong(0)


def test_hundreds_of_labels_make_it_sure() -> None:
    """Tempered or not, 300 workers who are right four times in five leave no doubt."""
    generator = np.random.default_rng(0)
    task, worker = np.repeat(np.arange(20), 300), np.tile(np.arange(300), 20)
    label = np.where(generator.random(6000) < 0.8, task % 3, generator.integers(0, 3, 6000))
    model = cw.Auto().fit(CrowdLabels.from_codes(task, worker, label, tasks=20, workers=300, classes=3))
    assert model.posterior_.max(axis=1).min() > 0.998
    assert model.expected_wrong().count < 0.05


def test_expected_wrong_with_few_gold_answers() -> None:
    """Gold that turns a crowd around: the interval holds the count, and says that it rests on gold as well."""
    crowd = simulate("one-coin", n_tasks=120, n_workers=8, n_classes=2, labels_per_task=5, random_state=0)
    for n in (3, 15, 19):
        model = cw.Auto().fit(crowd.labels, gold={task: int(1 - crowd.truth[task]) for task in range(n)})
        found = model.expected_wrong()
        assert found.low <= found.count <= found.high
        assert f"the labels and {n} gold answers" in found.basis


def test_gold_without_labels_says_nothing_of_trust() -> None:
    crowd = simulate("one-coin", n_tasks=120, n_workers=8, n_classes=3, labels_per_task=5, random_state=0)
    some = crowd.labels.keep(crowd.labels.task >= 30)
    gold = {task: int(crowd.truth[task]) for task in range(60)}
    model = cw.Auto().fit(some, gold=gold)
    assert "From 30 gold answers" in model.expected_wrong().basis
    np.testing.assert_array_equal(model.posterior_[:60].argmax(axis=1), crowd.truth[:60])


def test_class_prior_and_known_workers_hold_for_new_tasks() -> None:
    crowd = simulate("one-coin", n_tasks=160, n_workers=8, n_classes=2, labels_per_task=3, random_state=0)
    told = cw.Auto().fit(crowd.labels, class_prior={0: 0.95, 1: 0.05})
    again = told.predict_proba(crowd.labels)
    assert np.abs(again.mean(axis=0) - told.posterior_.mean(axis=0)).max() < 0.05
    known = cw.Auto().fit(crowd.labels, known_workers={worker: np.eye(2) for worker in range(8)})
    assert np.isfinite(known.posterior_).all()


def test_rare_classes_are_not_lost() -> None:
    """One class in twenty: uniform class shares would turn half of the rest into it."""
    generator = np.random.default_rng(4)
    truth = (generator.random(600) < 0.05).astype(int)
    task, worker = np.repeat(np.arange(600), 3), np.tile(np.arange(30), 60)
    right = generator.random(1800) < 0.8
    labels = CrowdLabels.from_codes(
        task, worker, np.where(right, truth[task], 1 - truth[task]), tasks=600, workers=30, classes=2
    )
    model = cw.Auto().fit(labels)
    vote = cw.MajorityVote().fit(labels)
    assert (model.posterior_.argmax(axis=1) == truth).mean() >= (vote.posterior_.argmax(axis=1) == truth).mean()
    assert model.prior_[1] < 0.3


def test_the_league_is_saved(crowd: CrowdLabels, tmp_path: os.PathLike[str]) -> None:
    model = cw.Auto(random_state=3).fit(crowd)
    model.save(os.fspath(tmp_path) + "/model")
    loaded = cw.load(os.fspath(tmp_path) + "/model")
    assert loaded.league().equals(model.league())
    assert loaded.expected_wrong() == model.expected_wrong()


def test_members_compete_on_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_members, "SAMPLE", 300)
    crowd = simulate("dawid-skene", n_tasks=400, n_workers=12, n_classes=3, labels_per_task=5, random_state=0)
    assert 300 <= auto_members.sample_tasks(crowd.labels, 0).n_labels < 310
    model = cw.Auto().fit(crowd.labels)
    assert (model.posterior_.argmax(axis=1) == crowd.truth).mean() > 0.85


def test_gold_teaches_how_far_to_trust(tmp_path: os.PathLike[str]) -> None:
    """A crowd that is misled on a quarter of the tasks: with gold, the confidence and the count of errors are right."""
    crowd = simulate("one-coin", n_tasks=600, n_workers=15, n_classes=3, labels_per_task=7, random_state=1)
    truth = np.where(np.arange(600) % 4 == 0, (crowd.truth + 1) % 3, crowd.truth)
    chosen = np.random.default_rng(0).permutation(600)[:100]
    gold = {int(task): int(truth[task]) for task in chosen}
    plain, told = cw.Auto().fit(crowd.labels), cw.Auto().fit(crowd.labels, gold=gold)
    rest = np.setdiff1d(np.arange(600), chosen)
    before, after = (
        cw.metrics.expected_calibration_error(truth[rest], model.posterior_[rest]) for model in (plain, told)
    )
    assert after < 0.75 * before
    np.testing.assert_array_equal(told.posterior_.argmax(axis=1)[chosen], truth[chosen])
    wrong = int((told.posterior_.argmax(axis=1) != truth)[rest].sum())
    expected = told.expected_wrong()
    assert expected.low <= wrong <= expected.high
    assert "100 gold answers" in expected.basis
    told.save(os.fspath(tmp_path) + "/model")
    loaded = cw.load(os.fspath(tmp_path) + "/model")
    new = {"task": ["x"] * 3, "worker": [0, 1, 2], "label": [0, 0, 0]}
    np.testing.assert_allclose(loaded.predict_proba(new), told.predict_proba(new))
    assert told.predict_proba(new).max() < plain.predict_proba(new).max() + 0.02
    assert loaded.expected_wrong() == expected


def test_matrices_that_labels_cannot_fill_take_no_part() -> None:
    few = simulate("dawid-skene", n_tasks=200, n_workers=12, n_classes=120, labels_per_task=4, random_state=1)
    assert cw.Auto().fit(few.labels).league()["method"].to_pylist() == ["hierarchical one-coin"]
    usual = simulate("dawid-skene", n_tasks=200, n_workers=12, n_classes=6, labels_per_task=4, random_state=1)
    assert len(cw.Auto().fit(usual.labels).league()) > 3


def test_one_label_is_not_hidden() -> None:
    model = cw.Auto().fit(cw.read_labels({"task": [1], "worker": [1], "label": ["x"]}, classes=["x", "y"]))
    assert model.predict().tolist() == ["x"]
    assert model.league().num_rows == 0


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("CROWDWISE_DATA"), reason="CROWDWISE_DATA is not set")
def test_on_average_right_and_honest_on_real_data() -> None:
    """Over fourteen public sets: right, calibrated, never far below the vote, and the interval holds."""
    rows = []
    for name in FOURTEEN:
        data = cw.datasets.load(name)
        kept = np.arange(data.labels.n_tasks) < FEWER.get(name, data.labels.n_tasks)
        labels, truth = data.labels.keep_tasks(kept), data.truth_codes[kept]
        model, vote = cw.Auto().fit(labels), cw.MajorityVote().fit(labels)
        accuracy = cw.metrics.accuracy(truth, model._decide(model.posterior_))
        assert accuracy > cw.metrics.accuracy(truth, vote._decide(vote.posterior_)) - 0.02, name
        error = cw.metrics.expected_calibration_error(truth, model.posterior_)
        expected, rate = model.expected_wrong(), (1 - accuracy) * truth.size
        rows.append((accuracy, error, expected.low <= rate <= expected.high))
    accuracy, error, held = np.mean(rows, axis=0)
    assert accuracy > 0.85
    assert error < 0.07
    assert held >= 0.85


def test_a_crowd_that_cannot_be_wrong_is_saved_and_loaded(tmp_path: Path) -> None:
    """Rounding made the count of wrong answers a little less than 0."""
    labels = simulate("dawid-skene", n_tasks=40, n_workers=6, n_classes=3, random_state=0).labels
    model = cw.Auto().fit(labels, class_prior=[1.0, 0.0, 0.0])
    assert (model.extra_["wrong"] >= 0).all()
    model.save(tmp_path / "model")
    assert cw.load(tmp_path / "model").expected_wrong() == model.expected_wrong()


def test_wrong_answers_are_not_counted_below_none() -> None:
    over = np.array([[1 + 4e-16, 0.0]])
    assert (likelihood_tempering.wrong_count_moments(over, over) >= 0).all()
