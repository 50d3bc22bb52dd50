"""Sets of classes: the mixture against enumeration of all types and sets, cells of tables, bad input."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import expit
from scipy.stats import norm

from crowdwise.kinds import read_label_sets, simulate_label_sets
from crowdwise.kinds.multi_label import LabelMixture, LabelSets, OneVsRest, SetVotes, compare_sets, score_sets
from crowdwise.kinds.multi_label.set_mixture import (
    SetParameters,
    infer,
    log_prior,
    predict_answers,
    step,
    update_rates,
    weigh_answers,
)
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


def tiny() -> tuple[LabelSets, SetParameters]:
    """Three classes, two types, three workers, four tasks (one without answers), and some parameters."""
    generator = np.random.default_rng(4)
    task, worker = np.array([0, 0, 0, 1, 1, 3]), np.array([0, 1, 2, 0, 2, 1])
    answers = LabelSets.from_codes(task, worker, generator.random((6, 3)) < 0.5, tasks=4, workers=3, classes=3)
    at = SetParameters(
        np.array([0.3, 0.7]),
        generator.uniform(0.1, 0.9, (2, 3)),
        generator.normal(size=(3, 2)),
        generator.normal(1, 1, (2, 3)),
    )
    return answers, at


def chance_of(said: Any, true: Any, worker: int, at: SetParameters) -> float:
    """P(a set that a worker names | the true set), class by class."""
    named = expit(at.ability[worker, 0] + at.ease[0])
    left = expit(at.ability[worker, 1] + at.ease[1])
    return float(np.where(true, np.where(said, named, 1 - named), np.where(said, 1 - left, left)).prod())


def enumerate_sets(answers: LabelSets, at: SetParameters, task: int) -> dict[tuple[int, tuple[bool, ...]], float]:
    """P(type, set, answers of the task) for every type and every set."""
    rows = np.flatnonzero(answers.task == task)
    found = {}
    for kind, true in itertools.product(range(2), itertools.product([False, True], repeat=3)):
        held = np.array(true)
        chance = at.share[kind] * np.where(held, at.profile[kind], 1 - at.profile[kind]).prod()
        for row in rows:
            chance *= chance_of(answers.member[row], held, answers.worker[row], at)
        found[kind, true] = float(chance)
    return found


def test_posterior_and_likelihood_by_enumeration() -> None:
    answers, at = tiny()
    gold = np.full((4, 3), np.nan)
    gold[1] = [1, 0, 1]
    for known in (None, gold):
        found = infer(*weigh_answers(answers, answers.worker, at), at, known)
        total = 0.0
        for task in range(4):
            table = enumerate_sets(answers, at, task)
            if known is not None and task == 1:
                table = {key: chance for key, chance in table.items() if key[1] == (True, False, True)}
            norming = sum(table.values())
            total += np.log(norming)
            member = sum(np.array(true) * chance for (_, true), chance in table.items()) / norming
            np.testing.assert_allclose(found.member[task], member, atol=1e-10)
            kinds = [sum(chance for (kind, _), chance in table.items() if kind == each) for each in range(2)]
            np.testing.assert_allclose(found.kind[task], np.array(kinds) / norming, atol=1e-10)
            decided = tuple((member > 0.5).tolist())
            exact = sum(chance for (_, true), chance in table.items() if true == decided) / norming
            assert found.exact[task] == pytest.approx(exact, abs=1e-10)
        assert found.log_likelihood == pytest.approx(total, abs=1e-10)


def test_held_out_answers_by_enumeration() -> None:
    answers, at = tiny()
    evidence, _ = weigh_answers(answers, answers.worker, at)
    said = np.array([True, False, True])
    found = predict_answers(said[None].repeat(4, axis=0), np.full(4, 1), evidence, at)
    for task in range(4):
        table = enumerate_sets(answers, at, task)
        chance = sum(p * chance_of(said, np.array(true), 1, at) for (_, true), p in table.items()) / sum(table.values())
        assert found[task] == pytest.approx(np.log(chance), abs=1e-10)


def test_prior_is_what_it_says() -> None:
    _, at = tiny()
    about = np.array([0.2, 0.5, 0.4])

    def density(each: SetParameters) -> float:
        types = np.log(each.share).sum()
        types += (2 * about * np.log(each.profile) + 2 * (1 - about) * np.log(1 - each.profile)).sum()
        return float(types + norm.logpdf(each.ability).sum() + norm.logpdf(each.ease, 1.5, 1).sum())

    other = at._replace(ability=at.ability * 0.5, ease=at.ease + 0.3, profile=np.full((2, 3), 0.4))
    assert log_prior(at, about) - log_prior(other, about) == pytest.approx(density(at) - density(other))


def test_rates_rise_to_where_the_slope_is_0() -> None:
    generator = np.random.default_rng(0)
    total = generator.uniform(0, 20, (5, 4))
    right = total * generator.random((5, 4))
    ability, ease = np.zeros(5), np.zeros(4)
    values = []
    for _ in range(200):
        at = ability[:, None] + ease
        value = (right * np.log(expit(at)) + (total - right) * np.log(expit(-at))).sum()
        values.append(value - 0.5 * (ability**2).sum() - 0.5 * ((ease - 1.5) ** 2).sum())
        ability, ease = update_rates(right, total, ability, ease)
    assert (np.diff(values) >= -1e-9).all()
    slope = right - total * expit(ability[:, None] + ease)
    np.testing.assert_allclose(slope.sum(axis=1), ability, atol=1e-5)
    np.testing.assert_allclose(slope.sum(axis=0), ease - 1.5, atol=1e-5)


def test_steps_climb_the_objective_with_gold_too() -> None:
    crowd = simulate_label_sets(n_tasks=30, random_state=1)
    gold = np.full(crowd.member.shape, np.nan)
    gold[:5] = crowd.member[:5]
    model = LabelMixture(n_types=3).fit(crowd.answers, dict(enumerate(write(crowd.member[:5]))))
    assert (np.diff(model.objective_) >= -1e-9 * np.abs(model.objective_[1:])).all()
    assert (model.decide()[:5] == crowd.member[:5]).all()
    about = (crowd.answers.member.sum(axis=0) + 1.0) / (crowd.answers.n_answers + 2.0)
    at = SetParameters(model.type_share_, model.type_profile_, model.ability_, model.ease_)
    assert step(crowd.answers, at, about, gold)[0] == pytest.approx(model.objective_[-1])


def write(member: Any) -> list[list[int]]:
    return [np.flatnonzero(row).tolist() for row in member]


def test_methods_in_simulated_crowds() -> None:
    crowd = simulate_label_sets(n_tasks=150, n_classes=12, n_types=3, n_workers=15, random_state=2)
    votes, rest, mixture = (
        score_sets(each().fit(crowd.answers), crowd.truth) for each in (SetVotes, OneVsRest, LabelMixture)
    )
    assert mixture["f1_micro"] > rest["f1_micro"] > votes["f1_micro"]
    assert mixture["subset_accuracy"] > rest["subset_accuracy"] > votes["subset_accuracy"]
    model = LabelMixture().fit(crowd.answers)
    assert model.type_share_.size in (2, 4)
    assert model.league()["chosen"].to_pylist().count(True) == 1
    alone = simulate_label_sets(n_types=1, random_state=1)
    assert LabelMixture().fit(alone.answers).type_share_.size == 1


def test_intervals_hold_the_rates_of_workers() -> None:
    held: dict[str, list[Any]] = {"sensitivity": [], "specificity": []}
    for seed in range(6):
        crowd = simulate_label_sets(n_tasks=100, n_workers=15, random_state=seed)
        table = OneVsRest().fit(crowd.answers).workers(level=0.9)
        inside, worker = crowd.member[crowd.answers.task], crowd.answers.worker
        for name, mask, rates in (
            ("sensitivity", inside, crowd.sensitivity),
            ("specificity", ~inside, crowd.specificity),
        ):
            true = np.bincount(worker, (mask * rates[worker]).sum(axis=1)) / np.bincount(worker, mask.sum(axis=1))
            held[name].append((table[f"{name}_low"].to_numpy() <= true) & (true <= table[f"{name}_high"].to_numpy()))
    for each in held.values():
        assert 0.82 <= np.concatenate(each).mean() <= 0.97


def test_prediction_for_new_tasks_by_known_workers() -> None:
    crowd = simulate_label_sets(n_tasks=150, random_state=3)
    seen = crowd.answers.task < 100
    for method in (SetVotes, OneVsRest, LabelMixture):
        model = method().fit(crowd.answers.keep(seen))
        new = crowd.answers.keep(~seen).to_table()
        found = read_label_sets(
            model.predict(pa.concat_tables([new, pa.table({"task": [149], "worker": [99], "labels": [""]})]))
            .select(["task", "labels"])
            .append_column("worker", pa.array(["model"] * len(set(new["task"].to_pylist())))),
            classes=range(8),
        )
        true = crowd.member[np.array(found.tasks.to_pylist())][found.task]
        assert compare_sets(found.member, true)["f1_micro"] > 0.6
    with pytest.raises(InputError, match="knows no class 'strange'"):
        model.predict({"task": [1], "worker": [1], "labels": ["strange"]})


# ---- cells of tables --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [
        ["b|a", "", "a|c"],
        ["b; a", None, "a;c;a"],
        ['["b", "a"]', "[]", '["a", "c"]'],
        pa.array([["b", "a"], [], ["a", "c"]]),
    ],
)
def test_sets_are_read_from_cells_of_all_kinds(labels: Any) -> None:
    sets = read_label_sets({"task": [1, 1, 2], "worker": ["x", "y", "x"], "labels": labels})
    assert sets.classes.to_pylist() == ["a", "b", "c"]
    assert sets.member.tolist() == [[True, True, False], [False, False, False], [True, False, True]]
    assert sets.to_table()["labels"].to_pylist() == ["a|b", "", "a|c"]


def test_rows_of_single_classes_are_joined(tmp_path: Path) -> None:
    file = tmp_path / "long.csv"
    file.write_text("task,worker,label\n1,x,b\n2,x,c\n1,x,a\n1,y,\n2,y,c\n")
    sets = read_label_sets(file)
    assert sets.n_answers == 4
    assert sets.to_table().to_pylist()[0] == {"task": 1, "worker": "x", "labels": "a|b"}
    assert sets.member.sum(axis=1).tolist() == [2, 0, 1, 1]
    last = read_label_sets(file, on_duplicate="last").to_table().to_pylist()
    assert {"task": 1, "worker": "x", "labels": "a"} in last
    with pytest.raises(InputError, match="Some answers repeat an earlier one"):
        read_label_sets({"task": [1, 1], "worker": ["x", "x"], "labels": ["a|b", "c"]})


def test_names_that_hold_signs_are_written_as_lists() -> None:
    sets = read_label_sets({"task": [1, 2], "worker": ["x", "x"], "labels": ['["a|b", "=c"]', '["<i>"]']})
    table = sets.to_table()
    assert table["labels"].to_pylist() == ['["=c", "a|b"]', '["<i>"]']
    assert read_label_sets(table).to_table().equals(table)
    assert OneVsRest().fit(sets).consensus().column_names[-1] == "probability_a|b"


@pytest.mark.parametrize(
    ("labels", "classes", "message"),
    [
        (["", ""], None, "names no class"),
        (["[a", "b"], None, "begins like a JSON list and is none"),
        (['[["a"]]', "b"], None, "lists within lists"),
        (["a|z", "b"], ["a", "b"], "'z', which is none of the classes"),
        (["|".join(map(str, range(1001))), ""], None, "1,001 classes"),
    ],
)
def test_cells_that_are_no_sets(labels: Any, classes: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_label_sets({"task": [1, 2], "worker": ["x", "y"], "labels": labels}, classes=classes)


def test_truths_and_metrics() -> None:
    found, true = np.array([[1, 0, 0], [1, 1, 0]], bool), np.array([[1, 0, 0], [0, 1, 0]], bool)
    scores = compare_sets(found, true)
    assert scores["f1_micro"] == pytest.approx(2 * 2 / 5)
    assert scores["f1_macro"] == pytest.approx((2 / 3 + 1) / 2)
    assert scores["subset_accuracy"] == 0.5
    assert scores["hamming_loss"] == pytest.approx(1 / 6)
    model = OneVsRest().fit({"task": [1, 1, 2], "worker": ["x", "y", "x"], "labels": ["a|b", "a|b", "b"]})
    assert score_sets(model, {1: ["a", "b"], 2: "b"})["subset_accuracy"] == 1
    assert score_sets(model, {1: {"a", "b", "new"}})["f1_micro"] == pytest.approx(0.8)
    assert score_sets(model, {"task": [1, 1], "labels": ["a", "b"]})["subset_accuracy"] == 1
    assert score_sets(model, {2: []})["subset_accuracy"] == 0
    with pytest.raises(InputError, match="contradicts itself about task 1"):
        score_sets(model, {"task": [1, 1], "labels": ["a|b", "b"]})
    with pytest.raises(InputError, match="none of the classes"):
        OneVsRest().fit({"task": [1, 2], "worker": ["x", "x"], "labels": ["a|b", "b"]}, gold={1: ["new"]})
    with pytest.raises(InputError, match="no use for gold"):
        SetVotes().fit({"task": [1], "worker": ["x"], "labels": ["a"]}, gold={1: ["a"]})


def test_small_crowds() -> None:
    for method in (SetVotes, OneVsRest, LabelMixture):
        one = method().fit({"task": [1], "worker": ["x"], "labels": ["a"]})
        assert one.consensus()["labels"].to_pylist() == ["a"]
        assert "No task has two answers" in one.caveat()
        empty = method().fit(read_label_sets({"task": [1, 1], "worker": ["x", "y"], "labels": ["", ""]}, classes=["a"]))
        assert empty.consensus()["labels"].to_pylist() == [""]
        assert np.isfinite(empty.workers()["sensitivity"].to_numpy()).all()
