"""Auto: which methods it takes, and how sure it is."""

from __future__ import annotations

import os

import numpy as np
import pytest
from tests.conftest import tiny_labels

import crowdwise as cw
from crowdwise.evaluate import auto, held_out
from crowdwise.fitting.knowledge import Knowledge
from crowdwise.labels import CrowdLabels
from crowdwise.simulate import simulate

FOURTEEN = (
    "bluebird", "dog", "web", "rte", "temp", "sp", "zencrowd_us", "adult2", "fact_eval", "ducks", "labelme", "music",
    "imagenet15n", "cifar10h",
)  # fmt: skip


def test_the_vote_prior_by_plain_loops() -> None:
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
    found = auto.vote_prior(labels, Knowledge(), 6.0)
    for worker in range(4):
        accuracy = (agrees[worker] + 8 * crowd) / (total[worker] + 8)
        expected = 6 * ((1 - accuracy) * errors + accuracy * np.eye(3))
        np.testing.assert_allclose(found[worker], expected, atol=1e-12)
    known = np.zeros((4, 3, 3))
    known[2] = 9.0
    told = auto.vote_prior(labels, Knowledge(worker_counts=known), 6.0)
    np.testing.assert_array_equal(told[2], known[2])
    np.testing.assert_array_equal(told[1], found[1])


def test_who_stays_is_not_told_apart_from_the_best(crowd: CrowdLabels, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaps and their errors over tasks, from each member's hidden labels on its own."""
    weights, scores = auto.competed(crowd, Knowledge(), 0)
    assert weights.sum() == pytest.approx(1)
    logs = np.empty((crowd.n_labels, len(auto.SHORTLIST)))
    for part in held_out.parts(crowd, auto.FOLDS, 0):
        for place, member in enumerate(auto.SHORTLIST):
            model = auto.fitted(member, part.kept, Knowledge(), 0)
            logs[part.hidden, place] = np.log(held_out.said(held_out.foretold(model, part), part))
    np.testing.assert_allclose(scores[:, 0], logs.mean(axis=0), atol=1e-12)
    gaps = logs[:, [logs.mean(axis=0).argmax()]] - logs
    for place, gap in enumerate(gaps.T):
        by_task = [gap[crowd.task == task].sum() - gap.mean() * (crowd.task == task).sum() for task in range(150)]
        told_apart = gap.sum() > auto.TOLD_APART * np.sqrt(np.sum(np.square(by_task)))
        assert not (told_apart and weights[place] > 0), auto.SHORTLIST[place].name
    monkeypatch.setattr(auto, "TOLD_APART", 0.0)
    alone, _ = auto.competed(crowd, Knowledge(), 0)
    assert (alone > 0).sum() == 1
    assert alone.argmax() == scores[:, 0].argmax()


def test_hard_tasks_are_seen() -> None:
    """Tasks of unlike difficulty: a method with an effect for each task foretells better, and gets the weight."""
    generator = np.random.default_rng(1)
    truth, chance = generator.integers(0, 2, 200), generator.choice([0.95, 0.3], 200, p=[0.7, 0.3])
    task, worker = np.repeat(np.arange(200), 25), np.tile(np.arange(25), 200)
    right = generator.random(5000) < chance[task]
    labels = CrowdLabels.from_codes(
        task, worker, np.where(right, truth[task], 1 - truth[task]), tasks=200, workers=25, classes=2
    )
    model = cw.Auto().fit(labels)
    members = {row["method"]: row["weight"] for row in model.league().to_pylist()}
    assert members["dawid-skene"] < 0.1
    assert members["ebcc"] + members["minimax-entropy (γ = 1/64)"] + members["minimax-entropy (γ = 1/4)"] > 0.9


def test_less_sure_than_its_members() -> None:
    """A share of the belief is for workers who share what they know."""
    crowd = simulate("one-coin", n_tasks=200, n_workers=20, n_classes=2, labels_per_task=9, seed=2)
    model, plain = cw.Auto().fit(crowd.labels), cw.DawidSkene().fit(crowd.labels)
    assert model.posterior_.max(axis=1).mean() < plain.posterior_.max(axis=1).mean()
    assert model.posterior_.max() <= 1 - auto.SHARED * 0.05
    assert (model.posterior_.argmax(axis=1) == crowd.truth).mean() > 0.97


def test_the_league_is_saved(crowd: CrowdLabels, tmp_path: os.PathLike[str]) -> None:
    model = cw.Auto(seed=3).fit(crowd)
    model.save(os.fspath(tmp_path) + "/model")
    assert cw.load(os.fspath(tmp_path) + "/model").league().equals(model.league())


def test_members_compete_on_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "SAMPLE", 300)
    crowd = simulate("dawid-skene", n_tasks=400, n_workers=12, n_classes=3, labels_per_task=5, seed=0)
    gold = dict(zip(crowd.labels.tasks.to_pylist()[:50], crowd.truth[:50].tolist(), strict=True))
    codes = cw.truth_codes(gold, crowd.labels)
    field, told = auto.sampled(crowd.labels, Knowledge(gold=codes), 0)
    assert 300 <= field.n_labels < 310
    assert told.gold.size == field.n_tasks
    names = field.tasks.to_pylist()
    assert all(gold[names[at]] == told.gold[at] for at in np.flatnonzero(told.gold >= 0))
    model = cw.Auto().fit(crowd.labels, gold=gold)
    assert (model.posterior_.argmax(axis=1) == crowd.truth).mean() > 0.85


def test_one_label_is_not_hidden() -> None:
    model = cw.Auto().fit(cw.read_labels({"task": [1], "worker": [1], "label": ["x"]}, classes=["x", "y"]))
    assert model.predict().tolist() == ["x"]
    assert model.league().num_rows == 0


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("CROWDWISE_DATA"), reason="CROWDWISE_DATA is not set")
def test_on_average_right_and_honest_on_real_data() -> None:
    """Mean accuracy over fourteen public sets, and half the calibration error of Dawid–Skene."""
    accuracy, error, plain = [], [], []
    for name in FOURTEEN:
        data = cw.datasets.load(name)
        model, other = cw.Auto().fit(data.labels), cw.DawidSkene().fit(data.labels)
        accuracy.append(cw.metrics.accuracy(data.truth_codes, model._decide(model.posterior_)))
        error.append(cw.metrics.expected_calibration_error(data.truth_codes, model.posterior_))
        plain.append(cw.metrics.expected_calibration_error(data.truth_codes, other.posterior_))
    assert np.mean(accuracy) > 0.855
    assert np.mean(error) < np.mean(plain) / 2
