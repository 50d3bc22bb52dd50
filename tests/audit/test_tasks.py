"""Hard tasks, mislabels and confused classes: found where planted, by hand, and none in honest crowds."""

from __future__ import annotations

import os

import numpy as np
import pytest
from tests.audit.crowds import Crowd, honest, relabelled, varied

import crowdwise as cw
from crowdwise.audit.confused_classes import find_confused_classes, share_following_class_shares
from crowdwise.audit.hard_tasks import (
    disagreement_share,
    excess_disagreement,
    expected_disagreement_share,
    find_hard_tasks,
)
from crowdwise.audit.leave_out_consensus import fit_reference
from crowdwise.audit.mislabels import find_mislabels, given_or_majority_labels, label_doubts
from crowdwise.labels import CrowdLabels, read_labels

pytestmark = pytest.mark.usefixtures("compiled")


def guessed(crowd: Crowd, tasks: np.ndarray, rng: np.random.Generator) -> CrowdLabels:
    labels = crowd.labels
    label = np.where(tasks[labels.task], rng.integers(0, labels.n_classes, labels.n_labels), labels.label)
    return CrowdLabels.from_codes(
        labels.task, labels.worker, label, tasks=labels.tasks, workers=labels.workers, classes=labels.classes
    )


def test_expected_disagreement_by_brute_force() -> None:
    labels = honest(12, 6, 3, 4, np.random.default_rng(0)).labels
    reference = fit_reference(labels)
    expected = expected_disagreement_share(labels, reference)
    prior = np.exp(reference.log_prior)
    for t in range(12):
        who = labels.worker[labels.task_ptr[t] : labels.task_ptr[t + 1]]
        differ = [
            sum(prior[k] * (1 - reference.confusion[a, k] @ reference.confusion[b, k]) for k in range(3))
            for a in who
            for b in who
            if a != b
        ]
        assert expected[t] == pytest.approx(np.mean(differ))
    np.testing.assert_allclose(excess_disagreement(labels), disagreement_share(labels, labels.label) - expected)


def test_hard_tasks_are_found() -> None:
    found, wrong, first = 0, 0, 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        crowd = honest(300, 40, 3, 25, rng, skill=0.9)
        hard = np.arange(300) < 10
        screen = find_hard_tasks(guessed(crowd, hard, rng), random_state=seed)
        names = {f.names[0] for f in screen.findings}
        found += len(names & set(range(10)))
        wrong += len(names - set(range(10)))
        assert all(0 <= f.score <= 1 for f in screen.findings)
        ranked = np.argsort(-excess_disagreement(guessed(crowd, hard, rng)))
        first += len(set(ranked[:10]) & set(range(10)))
    assert first >= 46  # of 50
    assert found >= 44
    assert wrong <= 1


def test_wrong_gold_labels_are_found() -> None:
    found, wrong, ranked = 0, 0, 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        crowd = honest(800, 25, 3, 6, rng, skill=0.85)
        gold = crowd.truth.copy()
        gold[:20] = (gold[:20] + rng.integers(1, 3, 20)) % 3
        truth = dict(enumerate(gold.tolist()))
        screen = find_mislabels(crowd.labels, truth=truth, random_state=seed)
        names = {f.names[0] for f in screen.findings if f.kind == "mislabel"}
        found += len(names & set(range(20)))
        wrong += len({f.names[0] for f in screen.findings} - set(range(20)))
        ranked += len(set(np.argsort(-label_doubts(crowd.labels, truth))[:20]) & set(range(20)))
    assert found >= 60  # of 120, with six labels a task
    assert wrong <= 1
    assert ranked >= 100  # of 120


def test_a_majority_that_outvotes_an_expert() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 600)
    right = rng.random((600, 7)) < np.array([0.99, 0.98, 0.97, 0.6, 0.6, 0.6, 0.6])
    said = np.where(right, truth[:, None], 1 - truth[:, None])
    labels = CrowdLabels.from_dense(said)
    screen = find_mislabels(labels)
    assert screen.findings
    majority = given_or_majority_labels(labels)
    assert all(majority[f.names[0]] != truth[f.names[0]] for f in screen.findings)
    assert "its majority's label" in screen.findings[0].verdict


def test_the_words_of_a_mislabel() -> None:
    table = {"task": np.repeat(np.arange(60), 5), "worker": list("abcde") * 60}
    names = np.where(np.arange(60) % 2, "dog", "=cat\n")
    labels = read_labels(table | {"label": np.repeat(names, 5)})
    truth = dict(enumerate(names.tolist())) | {7: "=cat\n"}
    (found,) = find_mislabels(labels, truth=truth).findings
    assert found.verdict == "Task 7 is probably 'dog', not '=cat\\n', its given label."
    assert found.kind == "mislabel"
    assert 0.75 < found.score < 0.99  # one task alone may also mislead everybody
    assert "5 of its 5 labels say 'dog'" in found.evidence
    assert "%" not in found.evidence + found.verdict
    assert np.nanargmax(label_doubts(labels, truth)) == 7
    some = label_doubts(labels, {7: "=cat\n"})
    assert np.isnan(some).sum() == 59


def test_ties_of_the_majority_go_to_the_more_common_class() -> None:
    labels = read_labels({"task": [1, 1, 2], "worker": ["a", "b", "a"], "label": ["x", "y", "y"]})
    assert given_or_majority_labels(labels).tolist() == [1, 1]


def mixed_up(seed: int) -> Crowd:
    """Of the labels of tasks of class 0, a fifth becomes 3."""
    rng = np.random.default_rng(seed)
    crowd = honest(800, 20, 4, 5, rng, skill=0.8)
    at = (crowd.truth[crowd.labels.task] == 0) & (rng.random(crowd.labels.n_labels) < 0.2)
    return relabelled(crowd, at, 3)


def test_confused_classes_are_found_and_sized() -> None:
    covered = 0
    for seed in range(10):
        screen = find_confused_classes(mixed_up(seed).labels, random_state=seed)
        assert screen.findings[0].names == (0, 3)
        assert len(screen.findings) <= 2
        low, high = _interval(screen.findings[0].evidence)
        covered += low <= 0.2 + 0.8 * 0.2 / 3 <= high
        assert screen.findings[0].p_value <= 0.05
    assert covered >= 8


def _interval(text: str) -> tuple[float, float]:
    low, high = text.split("interval ")[1].split(")", maxsplit=1)[0].replace("%", "").split(" to ")
    return float(low) / 100 - 0.005, float(high) / 100 + 0.005


@pytest.mark.parametrize("find", [find_hard_tasks, find_mislabels, find_confused_classes])
def test_no_alarm_in_honest_crowds(find: object) -> None:
    alarms = 0
    for seed in range(15):
        crowd = varied(seed)
        if find is find_hard_tasks:
            findings = find_hard_tasks(crowd.labels).findings
        elif find is find_mislabels:  # a right majority is not doubted
            majority = given_or_majority_labels(crowd.labels)
            findings = tuple(
                f for f in find_mislabels(crowd.labels).findings if majority[f.names[0]] == crowd.truth[f.names[0]]
            )
        else:
            findings = find_confused_classes(crowd.labels).findings
        alarms += bool(findings)
    assert alarms <= 3  # 5 % of 15 is 0.75; four or more have a chance under 1 %


def test_what_cannot_be_tested() -> None:
    pairs = honest(30, 4, 2, 2, np.random.default_rng(0)).labels
    assert "No task has 3 labels" in find_hard_tasks(pairs).skipped
    assert np.isnan(excess_disagreement(pairs)).all()
    assert "two classes" in find_confused_classes(pairs).skipped
    few = honest(30, 4, 3, 2, np.random.default_rng(0)).labels
    assert "needs 5 workers" in find_confused_classes(few).skipped
    rare = honest(6, 8, 3, 2, np.random.default_rng(0)).labels
    assert "often enough" in find_confused_classes(rare).skipped
    nobody = few.keep(np.zeros(few.n_labels, bool))
    assert find_mislabels(nobody).skipped
    assert find_hard_tasks(nobody).skipped
    assert find_hard_tasks(few.keep(np.arange(few.n_labels) < 1)).skipped


def test_same_seed_same_answer() -> None:
    labels = mixed_up(0).labels
    assert find_confused_classes(labels).findings == find_confused_classes(labels).findings
    assert find_mislabels(labels, random_state=3).findings == find_mislabels(labels, random_state=3).findings


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("CROWDWISE_DATA"), reason="CROWDWISE_DATA is not set")
def test_breeds_of_dogs_that_look_alike() -> None:
    # Four breeds: Norfolk and Norwich terriers, Irish wolfhounds and Scottish deerhounds, which come in pairs.
    dog = cw.datasets.load("dog")
    found = {f.names for f in find_confused_classes(dog.labels).findings}
    assert found == {(1, 2), (2, 1), (3, 4), (4, 3)}


def unequal(seed: int, lured: float = 0.0) -> CrowdLabels:
    """Classes of shares .8, .15 and .05, guesses by these shares, few who do most; some of class 0 taken for 2."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(3, 500, p=[0.8, 0.15, 0.05])
    skill, volume = rng.uniform(0.4, 0.95, 25), rng.dirichlet(np.full(25, 0.5)) + 1e-9
    worker = np.argsort(-np.log(volume) - rng.gumbel(size=(500, 25)), axis=1)[:, :5].ravel()
    task = np.repeat(np.arange(500), 5)
    guess = rng.choice(3, task.size, p=[0.8, 0.15, 0.05])
    label = np.where(rng.random(task.size) < skill[worker], truth[task], guess)
    label[(truth[task] == 0) & (rng.random(task.size) < lured)] = 2
    return CrowdLabels.from_codes(task, worker, label, tasks=500, workers=25, classes=3)


def test_guesses_by_the_class_shares_are_no_confusion() -> None:
    assert sum(bool(find_confused_classes(unequal(seed)).findings) for seed in range(20)) <= 3
    found = [find_confused_classes(unequal(seed, 0.2)).findings for seed in range(10)]
    assert sum((0, 2) in [finding.names for finding in each] for each in found) >= 8


def test_how_far_wrong_answers_follow_the_shares() -> None:
    shares = np.array([0.6, 0.3, 0.1])
    wrong = np.array([[1, 2], [0, 2], [0, 1]])
    beyond = shares[wrong] / shares[wrong].sum(axis=1, keepdims=True) - 0.5
    total = np.array([1e6, 1e6, 1e6])
    np.testing.assert_allclose(
        share_following_class_shares(beyond, 0.3 * beyond * total[:, None], total), 0.3, atol=0.01
    )
    # Where k is true is not asked about k itself.
    lean = np.array([[5e5, -5e5], [0, 0], [0, 0]])
    assert share_following_class_shares(beyond, lean, total)[0] < 0.01


def test_classes_that_nobody_says_make_no_confusion() -> None:
    """Errors never go to a class that was declared and not used; that is no leaning to the others."""
    crowd = cw.simulate.simulate("one-coin", n_tasks=120, n_workers=8, n_classes=3, random_state=0)
    wider = CrowdLabels.from_codes(
        crowd.labels.task, crowd.labels.worker, crowd.labels.label, tasks=120, workers=8, classes=9
    )
    narrow, wide = (find_confused_classes(labels) for labels in (crowd.labels, wider))
    assert narrow.findings == wide.findings == ()
    two = CrowdLabels.from_codes([0, 0], [0, 1], [0, 1], tasks=1, workers=2, classes=9)
    assert "two classes" in find_confused_classes(two).skipped


def test_a_task_on_which_workers_differ_less_than_expected_is_not_called_hard() -> None:
    """Where a block colludes, tasks may be strange to the model without being disputed."""
    crowd = cw.simulate.simulate("colluders", n_tasks=800, n_workers=20, share=0.3, random_state=0)
    assert all(finding.score > 0 for finding in find_hard_tasks(crowd.labels).findings)
