"""Identifiability of labels alone: yes where it holds, no where it plainly does not, and no false no."""

from __future__ import annotations

import numpy as np
import pytest
from tests.audit.crowds import honest, varied

from crowdwise.audit.identifiability import (
    AGREEING,
    ANCHORED,
    APART,
    DOMINANT,
    LINKED,
    SCATTERED,
    VIEWS,
    check_agreement,
    check_conditions,
    find_unidentifiable,
)
from crowdwise.labels import CrowdLabels
from crowdwise.simulate import simulate_workers

pytestmark = pytest.mark.usefixtures("compiled")


def answers(labels: CrowdLabels) -> dict[str, bool | None]:
    return {answer.question: answer.holds for answer in check_conditions(labels)}


def test_a_good_crowd() -> None:
    labels = honest(1000, 20, 3, 5, np.random.default_rng(0)).labels
    assert answers(labels) == dict.fromkeys([AGREEING, LINKED, VIEWS, DOMINANT, APART, ANCHORED, SCATTERED], True)
    assert not find_unidentifiable(labels).findings


def guessers(n_tasks: int, seed: int) -> CrowdLabels:
    rng = np.random.default_rng(seed)
    habits = rng.dirichlet(np.ones(3), 12)
    return simulate_workers(np.repeat(habits[:, None], 3, axis=1), n_tasks, 4, random_state=seed).labels


def test_a_crowd_of_guessers_is_called_so() -> None:
    (found,) = (each for each in find_unidentifiable(guessers(3000, 0)).findings if each.names == (AGREEING,))
    assert found.verdict.startswith("No: ")
    assert "guesses" in found.evidence
    assert found.score > 0.5
    assert sum(answers(guessers(300, seed))[AGREEING] is True for seed in range(40)) <= 5
    weak = (honest(40, 8, 3, 3, np.random.default_rng(seed), skill=0.7).labels for seed in range(20))
    assert all(check_agreement(labels, 0.05).holds is not False for labels in weak)


def test_who_labels_once_shows_no_habit() -> None:
    once = CrowdLabels.from_codes(
        np.repeat(np.arange(300), 5), np.arange(1500), np.repeat(np.arange(300) % 2, 5),
        tasks=300, workers=1500, classes=2,
    )  # fmt: skip
    assert check_agreement(once, 0.05).holds is None
    few = (honest(4, 5, 2, 5, np.random.default_rng(seed)).labels for seed in range(20))
    assert all(check_agreement(labels, 0.05).holds is None for labels in few)


def test_agreement_beyond_habits_by_hand() -> None:
    # Two workers, habits of 1/2 each, four tasks: two pairs of four agree, and as many would by habit.
    labels = CrowdLabels.from_codes(
        np.repeat(np.arange(4), 2), np.tile([0, 1], 4), np.array([0, 0, 0, 1, 1, 1, 1, 0]),
        tasks=4, workers=2, classes=2,
    )  # fmt: skip
    found = check_agreement(labels, 0.05)
    assert found.words == "The labels do not show it."  # of so few tasks
    more = CrowdLabels.from_codes(
        np.repeat(np.arange(40), 2), np.tile([0, 1], 40), np.repeat(np.arange(40) % 2, 2),
        tasks=40, workers=2, classes=2,
    )  # fmt: skip
    assert check_agreement(more, 0.05).words == "Yes: 100% of the pairs agree, 50% would by habit alone."


def test_two_crowds_that_never_met() -> None:
    parts = [honest(200, 10, 2, 4, np.random.default_rng(seed)).labels for seed in (0, 1)]
    named = [
        CrowdLabels.from_codes(
            part.task, part.worker, part.label,
            tasks=[f"{n}-{t}" for t in range(200)], workers=[f"{n}-{w}" for w in range(10)], classes=2,
        )
        for n, part in enumerate(parts)
    ]  # fmt: skip
    labels = CrowdLabels.concat(named)
    assert answers(labels)[LINKED] is False
    (found,) = find_unidentifiable(labels).findings
    assert found.verdict == "No: the crowd falls into 2 parts without a task in common (workers: 10, 10)."
    assert found.score == 0.5
    bridge = CrowdLabels.from_arrays(task=["0-0"], worker=["1-9"], label=[0])
    assert answers(CrowdLabels.concat([labels, bridge]))[LINKED] is True


def test_few_workers() -> None:
    two = honest(300, 2, 2, 2, np.random.default_rng(0)).labels
    assert answers(two)[VIEWS] is False
    one = honest(50, 1, 2, 1, np.random.default_rng(0)).labels
    found = answers(one)
    assert (found[LINKED], found[VIEWS]) == (False, False)


def test_few_labels_show_little() -> None:
    sparse = honest(100, 60, 4, 2, np.random.default_rng(0), skill=0.5).labels
    assert answers(sparse)[VIEWS] is None


def test_a_crowd_that_cannot_tell_two_classes() -> None:
    # Truly 1 or 2: everyone says 1 or 2, as a coin falls.
    blind = np.array([[0.9, 0.05, 0.05], [0.05, 0.475, 0.475], [0.05, 0.475, 0.475]])
    for per_task, n_workers in ((5, 12), (30, 40)):
        labels = simulate_workers(np.tile(blind, (n_workers, 1, 1)), 1000, per_task, random_state=0).labels
        found = answers(labels)
        assert found[LINKED] is True
        assert found[DOMINANT] is not True
        assert found[VIEWS] is not True


@pytest.mark.parametrize("seed", range(3))
def test_a_label_said_more_of_another_class(seed: int) -> None:
    # Everyone says 0 more often when 1 is true than when 0 is: its column is largest in row 1.
    matrix = np.array([[0.45, 0.05, 0.5], [0.55, 0.45, 0.0], [0.0, 0.05, 0.95]])
    labels = simulate_workers(np.tile(matrix, (40, 1, 1)), 1000, 30, prior=[0.2, 0.4, 0.4], random_state=seed).labels
    assert answers(labels)[DOMINANT] is False
    found = [f for f in find_unidentifiable(labels).findings if f.names == (DOMINANT,)]
    assert "no more often when it is true than when something else is" in found[0].verdict
    assert 0 <= found[0].score <= 1


def test_workers_who_know_little_are_not_scattered() -> None:
    matrix = 0.2 + 0.4 * np.eye(3)
    labels = simulate_workers(np.tile(matrix, (20, 1, 1)), 1000, 8, random_state=0).labels
    (found,) = (each for each in check_conditions(labels) if each.question == SCATTERED)
    assert found.holds is None
    assert "where a crowd with an expert of each class has at most 1.12" in found.words
    assert not [each for each in find_unidentifiable(labels).findings if each.names == (SCATTERED,)]


def test_no_false_no() -> None:
    false = {DOMINANT: 0, APART: 0, ANCHORED: 0}
    for seed in range(40):
        found = answers(varied(seed).labels)
        for question in false:
            false[question] += found[question] is False
    # 5 % of 40 is 2; six or more have a chance of 1.4 %. Some of these crowds are hardly better than chance, and their
    # consensus does lose a class.
    assert false[DOMINANT] <= 5
    assert false[APART] <= 5
    assert false[ANCHORED] <= 5


def test_what_cannot_be_asked() -> None:
    labels = honest(20, 3, 2, 2, np.random.default_rng(0)).labels
    assert find_unidentifiable(labels.keep(np.zeros(labels.n_labels, bool))).skipped
    assert find_unidentifiable(labels.keep(labels.label == 0)).skipped
