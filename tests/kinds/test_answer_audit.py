"""The audit of answers that are no classes: whom it names, and whom it leaves alone."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from crowdwise.audit.answer_audit import agreement_with_others, audit_answers
from crowdwise.audit.identical_answers import find_equal_pairs
from crowdwise.kinds import kind, kinds, simulate_comparisons, simulate_grades, simulate_values
from crowdwise.kinds.agreement import another_question, number_agreement, signed_agreement
from crowdwise.kinds.values import Mean
from crowdwise.labels.errors import InputError, InputWarning

if TYPE_CHECKING:
    from crowdwise.kinds.kind_registry import Kind
    from crowdwise.kinds.values.answers import Values


def values_of(random_state: int = 0, **options: float) -> Values:
    options = {"n_tasks": 120, "n_workers": 12, "answers_per_task": 6, "error": (5.0, 10.0)} | options
    return simulate_values(**options, random_state=random_state).answers  # type: ignore[arg-type]


def named(answers: Values, found: str) -> set[object]:
    told = audit_answers(answers, method="mean").findings
    return {name for finding in told if finding.kind == found for name in finding.names}


def change(answers: Values, worker: int, values: object) -> Values:
    value = answers.value.copy()
    value[answers.worker == worker, 0] = values
    return replace(answers, value=value)


def test_an_honest_crowd_is_left_alone() -> None:
    assert audit_answers(values_of(), method="mean").findings == ()
    assert audit_answers(simulate_grades(n_tasks=80, n_workers=10, random_state=4).answers).findings == ()


@pytest.mark.parametrize("said", ["anything", "one number"])
def test_who_does_not_look_is_unreliable(said: str) -> None:
    answers = values_of()
    number = int((answers.worker == 3).sum())
    given = np.random.default_rng(0).uniform(0, 100, number) if said == "anything" else np.full(number, 50.0)
    assert named(change(answers, 3, given), "unreliable") == {3}


def test_who_turns_the_scale_round_says_the_opposite() -> None:
    answers = values_of()
    assert named(change(answers, 5, 100 - answers.value[answers.worker == 5, 0]), "opposite") == {5}


def test_who_is_too_high_leans_and_is_not_unreliable() -> None:
    answers = change(values_of(), 2, values_of().value[values_of().worker == 2, 0] + 30)
    assert named(answers, "leaning") == {2}
    assert named(answers, "unreliable") == set()


def test_sides_of_comparisons() -> None:
    crowd = simulate_comparisons(20, 10, answers_per_worker=80, random_state=2)
    always_left = crowd.answers.outcome.copy()
    always_left[crowd.answers.worker == 4] = 1
    told = audit_answers(replace(crowd.answers, outcome=always_left)).findings
    assert {(each.kind, *each.names) for each in told} >= {("leaning", 4), ("unreliable", 4)}
    assert {name for each in told for name in each.names} == {4}
    assert "prefers the left" in {each.verdict for each in told}


def test_copies_of_values_are_found_and_careful_workers_are_not() -> None:
    answers = values_of(error=(1.0, 2.0))
    assert named(answers, "copies") == set()
    rounded = replace(answers, value=answers.value.round())  # careful workers often meet
    assert named(rounded, "copies") == set()
    by_task = dict(zip(answers.task[answers.worker == 0].tolist(), answers.value[answers.worker == 0, 0], strict=True))
    copied = answers.value.copy()
    for row in np.flatnonzero(answers.worker == 1):
        copied[row, 0] = by_task.get(int(answers.task[row]), copied[row, 0])
    assert named(replace(answers, value=copied), "copies") == {0, 1}


def test_equal_pairs_by_hand() -> None:
    # Two workers give the same unusual answers to five questions, a third other ones.
    worker = np.repeat([0, 1, 2], 5)
    question = np.tile(np.arange(5), 3)
    said = np.r_[np.arange(5), np.arange(5), 5 + np.arange(5)] + 100
    share = 2 / 15
    assert find_equal_pairs(worker, question, said, 0.05) == []  # each answer is 13 % of all: not unusual
    many = np.r_[said, 1000 + np.arange(300)]
    workers, questions = np.r_[worker, np.full(300, 3)], np.r_[question, 100 + np.arange(300)]
    (pair,) = find_equal_pairs(workers, questions, many, 0.05)
    assert (pair.first, pair.second, pair.equal, pair.shared) == (0, 1, 5, 5)
    assert pair.expected == pytest.approx(5 * 2 / 315)
    assert pair.expected < 5 * share
    mean = pair.expected
    tail = 1 - sum(np.exp(-mean) * mean**k / np.prod(np.arange(1, k + 1)) for k in range(5))
    assert pair.p_value == pytest.approx(6 * tail, rel=1e-3, abs=1e-12)  # six pairs of workers


def test_agreement_of_numbers_is_a_correlation() -> None:
    generator = np.random.default_rng(0)
    worker, consensus = np.repeat([0, 1], 50), generator.normal(10, 3, 100)
    said = 2 * consensus + 7 + generator.normal(0, 4, 100)
    found = number_agreement(worker, np.arange(100), said, consensus, 2, 0.25)
    for who in (0, 1):
        rows = worker == who
        assert (found.said[rows] * found.expected[rows]).mean() == pytest.approx(
            np.corrcoef(said[rows], consensus[rows])[0, 1] * consensus[rows].std() / consensus.std()
        )
    np.testing.assert_allclose(found.lean, (said - consensus) / consensus.std())


def test_one_side_is_no_agreement() -> None:
    expected = np.linspace(-0.9, 0.9, 30)
    found = signed_agreement(np.zeros(30, np.int64), np.arange(30), np.ones(30), expected, 1)
    np.testing.assert_allclose(found.said, 0, atol=1e-12)
    np.testing.assert_allclose(found.lean, 1, atol=1e-12)


def test_a_worker_is_judged_by_others_alone() -> None:
    answers = values_of(n_tasks=30, n_workers=6, answers_per_task=3)
    judged = agreement_with_others(Mean(), answers)
    assert judged is not None
    rows = judged.worker == 2
    # Whatever the worker says, what is expected of them stays the same.
    again = agreement_with_others(Mean(), change(answers, 2, np.zeros(int(rows.sum()))))
    assert again is not None
    np.testing.assert_allclose(again.expected[again.worker == 2], judged.expected[rows])


def test_too_little_to_judge() -> None:
    alone = kind("values").read({"task": [1, 2], "worker": ["a", "a"], "value": [1.5, 2]})
    found = audit_answers(alone)
    assert found.findings == ()
    assert "two workers" in found.skipped["reliability"]
    assert found.verdicts == ["nothing found"]
    with pytest.raises(InputError, match="level"):
        audit_answers(alone, level=2.0)


def test_those_named_can_be_left_out() -> None:
    answers = values_of()
    turned = change(answers, 5, 100 - answers.value[answers.worker == 5, 0])
    kept, out = audit_answers(turned, method="mean").prune()
    assert out == [5]
    assert set(np.unique(kept.worker)) == set(range(12)) - {5}


def test_another_question_is_one_of_the_worker_and_alike() -> None:
    worker = np.array([0, 0, 0, 1, 1, 2, 2, 0])
    question = np.array([4, 4, 7, 4, 5, 9, 9, 8])
    assert another_question(worker, question).tolist() == [7, 7, 8, 5, 4, -1, -1, 4]
    alike = np.array([0, 0, 1, 0, 0, 0, 0, 0])
    assert another_question(worker, question, alike).tolist() == [8, 8, -1, 5, 4, -1, -1, 4]
    assert another_question(worker[:0], question[:0]).tolist() == []


def deal_anew(answers: Any, worker: int, generator: np.random.Generator) -> Any:
    """The same answers, those of a worker given to other questions of the worker's."""
    rows = np.flatnonzero(answers.worker == worker)
    order = np.arange(answers.n_answers)
    if answers.kind == "rankings":
        rank = answers.rank.copy()
        rank[rows] = generator.permutation(rank[rows])
        return replace(answers, rank=rank)._sorted("all")
    order[rows] = generator.permutation(rows)
    if hasattr(answers, "left"):
        return replace(answers, left=answers.left[order], right=answers.right[order])
    return replace(answers, task=answers.task[order])._sorted("all")


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)
def test_every_kind_tells_who_looks_from_who_does_not(kind: Kind) -> None:
    answers = kind.simulate(random_state=7).answers
    plain = kind.methods()[-1].load()()
    worker = int(np.argmax(answers.answers_per_worker))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        dealt = deal_anew(answers, worker, np.random.default_rng(0))
        before, after = (agreement_with_others(plain, each) for each in (answers, dealt))
    assert before is not None
    assert after is not None
    means = []
    for found in (before, after):
        rows = (found.worker == worker) & np.isfinite(found.said) & np.isfinite(found.expected)
        assert rows.any()
        means.append(float((found.said[rows] * found.expected[rows]).mean()))
    everyone = before.said * before.expected
    assert np.nanmean(everyone) > 3 * np.nanstd(everyone) / np.sqrt(np.isfinite(everyone).sum())
    assert means[1] < means[0]
