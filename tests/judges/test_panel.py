"""The panel: what it says, how sure, what it is worth, and what a smaller one would do."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.dependence.effective_size import kish_effective_size
from crowdwise.evaluate.gold_calibration import calibrate_from_gold
from crowdwise.judges.error_correlation import correlate_errors, measure_error_correlation
from crowdwise.judges.next_tasks import choose_next_tasks, count_labels_needed
from crowdwise.judges.panel_model import fit_panel, fit_votes_to_people
from crowdwise.judges.vote_table import read_panel
from crowdwise.labels.errors import InputError
from crowdwise.simulate import simulate

pytestmark = pytest.mark.usefixtures("compiled")


def simulate_panel(
    n_tasks: int = 400, n_labelled: int = 150, **options: Any
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    crowd = simulate(
        "families", n_tasks=n_tasks, n_workers=5, n_classes=3, **({"sizes": (3,), "random_state": 1} | options)
    )
    labels, rng = crowd.labels, np.random.default_rng(0)
    votes = {
        "task": labels.task,
        "judge": [f"judge {each}" for each in labels.worker],
        "vote": [f"c{each}" for each in labels.label],
    }
    task = np.repeat(rng.choice(n_tasks, n_labelled, replace=False), 3)
    said = np.where(rng.random(task.size) < 0.85, crowd.truth[task], rng.integers(3, size=task.size))
    people = {"task": task, "worker": np.tile(["x", "y", "z"], n_labelled), "label": [f"c{each}" for each in said]}
    return crowd, votes, people


@pytest.fixture(scope="module")
def found() -> Any:
    _, votes, people = simulate_panel(240, 120)
    return cw.judges.evaluate_panel(votes, people, costs={f"judge {each}": 1.0 + each for each in range(5)})


def test_all_questions_are_answered(found: Any) -> None:
    panel = found.consensus
    assert panel.accuracy.low <= panel.accuracy.value <= panel.accuracy.high
    assert panel.lower_bound <= panel.accuracy.value
    best = max(judge.accuracy.value for judge in found.judges)
    assert found.judges[panel.best_judge].accuracy.value == best
    assert panel.posterior.sum(axis=1) == pytest.approx(1)
    assert [len(each.judges) for each in found.smaller] == [5, 4, 3, 2, 1]
    assert found.cheapest.as_good
    assert found.cheapest.cost <= sum(judge.cost for judge in found.judges)
    assert found.humans.ceiling.value > 0.7
    assert [score.what for score in found.scores] == ["c0", "c1", "c2"]
    assert sum(score.estimate.value for score in found.scores) == pytest.approx(1, abs=0.05)
    assert found.next_tasks.task.size == 40
    assert found.labels_needed(0.05) > found.labels_needed(0.1)


def test_facts_are_plain_json(found: Any) -> None:
    facts = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert facts["panel"]["lower_bound"] == pytest.approx(found.consensus.lower_bound)
    assert len(facts["next_tasks"]) == 40
    assert facts["sentences"] == str(found).split("\n")
    labelled = {str(name) for name in np.array(found.panel.tasks)[found.panel.find_reference() >= 0]}
    assert not labelled & {row["task"] for row in facts["next_tasks"]}


@pytest.mark.usefixtures("no_size")
def test_the_same_seed_gives_the_same(found: Any) -> None:
    _, votes, people = simulate_panel(240, 120)
    order = np.random.default_rng(3).permutation(len(votes["task"]))
    shuffled = {name: np.asarray(column)[order] for name, column in votes.items()}
    again = cw.judges.evaluate_panel(shuffled, people)
    assert again.consensus.accuracy.value == pytest.approx(found.consensus.accuracy.value)
    assert {judge.name: judge.accuracy for judge in again.judges} == {
        judge.name: judge.accuracy for judge in found.judges
    }


def test_the_order_of_rows_decides_nothing() -> None:
    rng = np.random.default_rng(3)
    votes = {"task": np.repeat(np.arange(60), 3), "judge": np.tile(["a", "b", "c"], 60)}
    truth = rng.integers(2, size=60)
    votes["vote"] = np.array(["no", "yes"])[truth[votes["task"]] ^ (rng.random(180) < 0.2)]
    people = {"task": np.arange(40), "worker": ["ann"] * 40, "label": np.array(["no", "yes"])[truth[:40]]}
    one, *others = (
        cw.judges.evaluate_panel(
            {name: column[order] for name, column in votes.items()},
            {name: np.asarray(column)[order[order < 40]] for name, column in people.items()},
        ).to_dict()
        for order in (np.arange(180), np.arange(180)[::-1], rng.permutation(180))
    )
    for other in others:
        assert other["panel"]["calibration_error"] == pytest.approx(one["panel"]["calibration_error"], abs=1e-12)
        for mine, theirs in zip(one["smaller_panels"], other["smaller_panels"], strict=True):
            assert sorted(mine["judges"]) == sorted(theirs["judges"])
            assert mine["accuracy"] == pytest.approx(theirs["accuracy"], abs=1e-12)


def test_labelled_tasks_are_predicted_without_their_answer() -> None:
    # Judges that guess: a posterior that saw the answers would be right on them.
    rng = np.random.default_rng(0)
    votes = {
        "task": np.repeat(np.arange(200), 3),
        "judge": np.tile(list("abc"), 200),
        "vote": rng.integers(2, size=600),
    }
    people = {"task": np.arange(200), "worker": ["x"] * 200, "label": rng.integers(2, size=200)}
    panel = read_panel(votes, people)
    posterior, _ = fit_votes_to_people(panel.votes, panel.find_reference())
    assert (posterior.argmax(axis=1) == panel.find_reference()).mean() < 0.6
    assert posterior.max(axis=1).mean() < 0.65


def test_without_people() -> None:
    _, votes, _ = simulate_panel(200)
    found = cw.judges.evaluate_panel(votes)
    assert np.isnan(found.consensus.accuracy.value)
    assert not found.passes(0.1)
    assert found.errors.size.size > 0
    assert any("No labels of people were given" in sentence for sentence in found.sentences())


def test_effective_votes() -> None:
    crowd, votes, _ = simulate_panel(1_500, 10, sizes=(5,), correlation=0.4, accuracy=(0.75, 0.75), random_state=2)
    people = {"task": np.arange(1_500), "worker": ["x"] * 1_500, "label": [f"c{each}" for each in crowd.truth]}
    panel = read_panel(votes, people)
    errors = correlate_errors(panel.to_matrix(), panel.find_reference())
    mean = errors[np.triu_indices(5, 1)].mean()
    true = crowd.extras["error_correlation"][np.triu_indices(5, 1)].mean()
    assert kish_effective_size(5, mean) == pytest.approx(kish_effective_size(5, true), rel=0.15)
    size = measure_error_correlation(read_panel(votes, {name: each[:300] for name, each in people.items()})).size
    assert size.size == pytest.approx(kish_effective_size(5, true), rel=0.15)


@pytest.mark.usefixtures("no_size")
def test_systems_are_compared() -> None:
    crowd, votes, people = simulate_panel(300, 200)
    better = np.where(crowd.truth == 0, 0.8, 0.3) > np.random.default_rng(1).random(300)
    system = np.where(better, "new", "old")
    found = cw.judges.evaluate_panel(votes | {"system": system[votes["task"]]}, people)
    gaps = {(gap.first, gap.second, gap.what): gap for gap in found.differences}
    names = next(iter(gaps))[:2]
    gap = gaps[(*names, "c0")]
    assert gap.verdict == ("first" if gap.first == "new" else "second")
    assert {score.system for score in found.scores} == {"", "new", "old"}


def test_next_tasks_prefer_doubt_and_keep_weights() -> None:
    posterior = np.stack([np.linspace(0.5, 1, 500), np.linspace(0.5, 0, 500)], axis=1)
    chosen = choose_next_tasks(posterior, 100, labelled=np.arange(0, 500, 2))
    assert chosen.weight.sum() == pytest.approx(250)
    assert (chosen.task % 2 == 1).all()
    assert np.bincount(chosen.stratum)[-1] > np.bincount(chosen.stratum)[0]
    assert choose_next_tasks(posterior, 10_000).task.size == 500
    with pytest.raises(InputError, match="nothing left to choose"):
        choose_next_tasks(posterior, 5, labelled=np.arange(500))
    with pytest.raises(InputError, match="above 0"):
        count_labels_needed(0.3, 0.0)


@pytest.mark.data
def test_a_real_panel_is_as_good_as_its_best_judge() -> None:
    """One panel of `benchmarks/judges.py accuracy`, with fewer draws."""
    folder = Path(os.environ["CROWDWISE_DATA"]) / "judges_lesion"
    panel = read_panel(folder / "judges.csv", folder / "humans.csv")
    reference, votes = panel.find_reference(), panel.to_matrix()
    scored, gaps = np.flatnonzero(reference >= 0), []
    _, alone = fit_votes_to_people(panel.votes, np.full(reference.size, -1))
    for seed in range(4):
        drawn = np.random.default_rng(seed).choice(scored, 100, replace=False)
        told = np.full(reference.size, -1)
        told[drawn] = reference[drawn]
        rest = np.setdiff1d(scored, drawn)
        decided = calibrate_from_gold(panel.votes, alone, told).posterior.argmax(axis=1)
        best = int(np.argmax((votes[drawn] == reference[drawn][:, None]).mean(axis=0)))
        gaps.append((decided[rest] == reference[rest]).mean() - (votes[rest, best] == reference[rest]).mean())
    assert np.mean(gaps) > -0.01


def test_reliability_of_judges_with_few_patterns_of_votes() -> None:
    """One judge who is right in 70 %: the panel is about 70 % sure of all, and as often right, in every bin."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=400)
    vote = np.where(rng.random(400) < 0.7, truth, 1 - truth)
    panel = read_panel(
        {"task": np.arange(400), "judge": ["m"] * 400, "vote": vote},
        {"task": np.arange(400), "worker": ["x"] * 400, "label": truth},
    )
    found = fit_panel(panel)
    assert found.calibration_error < 0.05


def test_people_of_one_label_have_no_alpha() -> None:
    tasks = [f"t{each}" for each in range(12)]
    votes = {"task": tasks * 2, "judge": ["a"] * 12 + ["b"] * 12, "vote": ["yes", "no"] * 12}
    people = {"task": tasks * 2, "worker": ["x"] * 12 + ["y"] * 12, "label": ["yes"] * 24}
    said = str(cw.judges.evaluate_panel(votes, people))
    assert "alpha has no value, as they gave one label only" in said
    assert "nan" not in said


def test_a_notebook_shows_the_judges_and_the_sentences_with_inert_names() -> None:
    _, votes, people = simulate_panel()
    votes["judge"] = [name.replace("judge 0", "<script>\u202e") for name in votes["judge"]]
    found = cw.judges.evaluate_panel(votes, people)
    html = found._repr_html_()
    assert "<script" not in html
    assert "\u202e" not in html
    assert "<td>&lt;script&gt;\\u202e</td>" in html
    assert html.count("<tr>") == 1 + len(found.judges)
    assert html.count("<li>") == len(found.sentences())
