"""Tables of votes: judges, repeats, unparseable votes, comparisons, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.cli import main
from crowdwise.judges import read_panel
from crowdwise.labels.errors import InputError, InputWarning

pytestmark = pytest.mark.usefixtures("no_size")
VOTES = {"item": ["a", "a", "b", "b"], "judge": ["m", "n", "m", "n"], "vote": ["yes", "no", "no", "no"]}
PEOPLE = {"item": ["a", "a", "b"], "worker": ["x", "y", "x"], "label": ["yes", "yes", "no"]}


def test_a_judge_is_model_prompt_and_temperature() -> None:
    table = {
        "task": [1, 1, 1, 1, 2],
        "model": ["m"] * 5,
        "prompt": ["short", "long", "short", "short", "short"],
        "temperature": [0.0, 0.0, 1.0, 1.0, 0.0],
        "vote": ["yes", "no", "no", "no", "yes"],
    }
    panel = read_panel(table)
    assert sorted(panel.judges) == ["m · long · T=0", "m · short · T=0", "m · short · T=1"]
    assert panel.n_answers.sum() == 5
    assert panel.votes.n_labels == 4  # the repeat is none


def test_a_prompt_that_belongs_to_the_task_names_no_judge() -> None:
    panel = read_panel(VOTES | {"prompt": ["why?", "why?", "how?", "how?"]})
    assert panel.judges == ["m", "n"]


def test_repeats_are_one_vote() -> None:
    votes = ["yes", "no", "no", "yes", "yes", "no"]
    panel = read_panel({"task": [1, 1, 1, 2, 2, 3], "judge": ["m"] * 6, "vote": votes})
    assert [panel.classes[code] for code in panel.to_matrix()[:, 0]] == ["no", "yes", "no"]
    assert panel.n_repeated.tolist() == [2]
    # Of three pairs of repeats about the first task one agrees, of one pair about the second one.
    assert panel.consistency.tolist() == [2 / 4]


def test_many_repeats() -> None:
    n = 100_000
    rng = np.random.default_rng(0)
    vote = np.where(rng.random(n) < 0.8, "yes", "no")
    found = cw.judges.evaluate_panel({"task": np.arange(n) % 20, "judge": np.repeat("m", n), "vote": vote})
    assert found.panel.votes.n_labels == 20
    assert found.judges[0].consistency == pytest.approx(0.68, abs=0.01)
    assert any("repeats count as one vote" in sentence for sentence in found.sentences())


@pytest.mark.parametrize("nothing", ["", None, "nan", float("nan"), "NULL"])
def test_unparseable_votes_are_counted(nothing: Any) -> None:
    panel = read_panel(VOTES | {"vote": [nothing, "no", "no", "no"]}, PEOPLE)
    assert panel.unparseable.tolist() == [1, 0]
    assert panel.to_matrix()[0].tolist() == [-1, panel.classes.index("no")]
    assert "1 of 4 votes hold no class and are counted as unparseable; most often those of 'm' (50.0%)." in panel.notes


def test_classes_that_are_given_make_others_unparseable() -> None:
    panel = read_panel(VOTES | {"vote": ["Yes!", "no", "no", "no"]}, PEOPLE, classes=["yes", "no"])
    assert panel.unparseable.tolist() == [1, 0]
    assert panel.classes == ["yes", "no"]


def test_numbers_are_the_same_however_written() -> None:
    panel = read_panel(VOTES | {"vote": [1.0, 2.0, 10.0, 2.0]}, PEOPLE | {"label": ["1", "1", "10"]})
    assert panel.classes == ["1", "2", "10"]
    assert panel.find_reference().tolist() == [0, 2]


def test_comparisons_in_both_orders() -> None:
    rows = {
        "task": [1, 1, 2, 2, 3],
        "judge": ["m"] * 5,
        "model_a": ["x", "y", "x", "y", "y"],
        "model_b": ["y", "x", "y", "x", "x"],
        "winner": ["model_a", "model_b", "model_a", "model_a", "tie"],
    }
    panel = read_panel(rows)
    assert panel.classes == ["first", "tie", "second"]
    assert panel.to_matrix()[:, 0].tolist() == [0, 1, 1]  # x twice; the left side twice, so neither; a tie
    assert panel.tasks[0] == "x / y on 1"


def test_contestants_that_are_called_as_sides_are() -> None:
    pairs = {"task": [1, 2, 3], "judge": ["m"] * 3, "left": ["b", "a", "a"], "right": ["a", "b", "c"]}
    with pytest.warns(InputWarning, match=r"row 0: 'a' in column 'winner' is the name of an item, and a word"):
        names = read_panel(pairs | {"winner": ["a", "b", "a"]}).columns
    assert names.outcome is not None
    assert names.outcome.tolist() == [-1, -1, 1]
    sides = read_panel(pairs | {"winner": ["a", "b", "b"]}).columns  # b is no contestant of the third row
    assert sides.outcome is not None
    assert sides.outcome.tolist() == [1, -1, -1]


def test_versions() -> None:
    n = 40
    table = {
        "task": np.tile(np.arange(n), 2),
        "judge": ["m"] * (2 * n),
        "version": np.repeat(["1", "2"], n),
        "vote": ["yes"] * n + ["yes"] * 30 + ["no"] * 10,
    }
    people = {"task": np.arange(n), "worker": ["x"] * n, "label": ["yes"] * n}
    drift = cw.judges.evaluate_panel(table, people).drift[0]
    assert (drift.earlier, drift.later, drift.n_tasks, drift.changed) == ("m · v1", "m · v2", n, 0.25)
    assert drift.difference.value == pytest.approx(-0.25)
    assert drift.difference.high < 0


@pytest.mark.parametrize(
    ("votes", "people", "message"),
    [
        (VOTES, PEOPLE | {"item": ["q", "r", "s"]}, "People labelled other tasks .* no name matches"),
        (VOTES | {"vote": [None] * 4}, None, "No vote holds a class"),
        (VOTES | {"vote": [None] * 4}, PEOPLE, "No vote holds any of the classes 'no', 'yes'; the votes hold none"),
        ({"judge": ["m"], "left": ["p"], "right": ["q"], "winner": ["?"]}, None, "No vote says which is better"),
        (VOTES | {"vote": ["yes"] * 4}, None, "Every vote and label is 'yes'.*--classes"),
        (VOTES | {"vote": [["yes"]] * 4}, None, "in place of plain values"),
        (VOTES, PEOPLE | {"label": [None] * 3}, "No answer of a person holds a class"),
        ({"item": ["a"], "vote": ["yes"]}, None, "no column for the judge"),
        ({"judge": ["a"], "vote": ["yes"]}, None, "no column for the task"),
        ({"item": ["a"], "judge": ["m"]}, None, "no column for the vote"),
        ({"item": [], "judge": [], "vote": []}, None, "no rows"),
        (VOTES | {"item": [None, "a", "b", "b"]}, None, "item"),
        (VOTES, PEOPLE | {"weight": [1, 0, 1]}, "not above 0"),
        (VOTES, {"item": ["a"], "worker": ["x"], "left": ["p"], "right": ["q"], "winner": ["p"]}, "comparisons"),
        ({"judge": ["m"], "left": ["p"], "right": ["p"], "winner": ["p"]}, None, "two different contestants"),
        (
            {"task": list(range(50)), "judge": ["m"] * 50, "vote": [f"reason {each}" for each in range(50)]},
            None,
            "50 distinct values, which are texts: give the class",
        ),
        (VOTES | {"system": ["s", "t", "s", "s"]}, PEOPLE, "Task 'a' has answers about two systems"),
        (
            {"judge": ["m"], "left": ["p"], "right": ["q"], "winner": ["p"], "left_length": [-3], "right_length": [2]},
            None,
            "lengths below 0",
        ),
    ],
)
def test_what_is_refused(votes: Any, people: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        cw.judges.evaluate_panel(votes, people)


def test_costs() -> None:
    found = cw.judges.evaluate_panel(VOTES, PEOPLE, costs={"judge": ["m"], "cost": [0.5]})
    assert found.judges[0].cost == 0.5
    assert np.isnan(found.judges[1].cost)
    for costs, message in (({"q": 1}, "of other judges"), ({"m": -1}, "from 0 up"), ({"m": "dear"}, "from 0 up")):
        with pytest.raises(InputError, match=message):
            cw.judges.evaluate_panel(VOTES, PEOPLE, costs=costs)


def test_one_person_and_a_judge_without_a_class() -> None:
    n = 60
    truth = np.arange(n) % 3
    votes = {
        "task": np.tile(np.arange(n), 2),
        "judge": np.repeat(["good", "blind"], n),
        "vote": [f"c{each}" for each in truth] + [f"c{min(each, 1)}" for each in truth],
    }
    people = {"task": np.arange(n), "worker": ["x"] * n, "label": [f"c{each}" for each in truth]}
    found = cw.judges.evaluate_panel(votes, people)
    assert found.judges[1].missing == ("c2",)
    said = " ".join(found.sentences())
    assert "blind never says 'c2', which people do." in said
    assert "One person alone cannot be compared with other people." in said
    assert found.humans is not None
    assert np.isnan(found.humans.ceiling.value)


def test_ties_only() -> None:
    n = 40
    rows = {"task": [*range(n)] * 2, "judge": ["m"] * (2 * n), "left": ["p"] * n + ["q"] * n,
            "right": ["q"] * n + ["p"] * n, "winner": ["tie"] * (2 * n)}  # fmt: skip
    people = {name: each[:n] for name, each in rows.items() if name != "judge"} | {"worker": ["x"] * n}
    found = cw.judges.evaluate_panel(rows, people)
    assert found.consensus.accuracy.value == 1
    assert "m called every comparison a tie: it has no biases, and is of no use." in found.sentences()
    assert found.differences[0].verdict == "undecided"


def test_people_who_always_tie_have_no_answer() -> None:
    votes = {"task": [*range(30)], "judge": ["m"] * 30, "vote": ["yes", "no"] * 15}
    people = {"task": [*range(30)] * 2, "worker": ["x"] * 30 + ["y"] * 30, "label": ["yes"] * 30 + ["no"] * 30}
    found = cw.judges.evaluate_panel(votes, people)
    assert np.isnan(found.consensus.accuracy.value)
    assert found.judges[0].replaces is not None
    assert "On no task with a vote do people have one answer" in " ".join(found.sentences())


def test_scores_of_many_values_are_rounded_to_grades() -> None:
    from crowdwise.judges.score_grades import choose_step

    rng = np.random.default_rng(0)
    truth = rng.uniform(0, 100, 300)
    task = np.repeat(np.arange(300), 3)
    vote = np.clip(truth[task] + rng.normal(0, 5, 900), 0, 100)
    votes = {"task": task, "judge": np.tile(["a", "b", "c"], 300), "vote": [*vote[:-1], 1e6]}
    people = {"task": np.arange(300), "worker": ["ann"] * 300, "label": truth}
    panel = read_panel(votes, people)
    assert panel.classes == [str(10 * grade) for grade in range(11)]
    assert panel.notes[0].startswith("The votes are scores of")
    assert "rounded to multiples of 10; 1 beyond 0 to 100 count as the nearest of these" in panel.notes[0]
    shown = truth[[int(name) for name in panel.tasks]]
    assert panel.find_reference().tolist() == np.round(shown / 10).astype(int).tolist()
    # Rounded means stay where they were.
    assert (panel.count_human_labels() @ np.arange(0, 101, 10)).mean() == pytest.approx(truth.mean(), abs=0.6)
    for low, high in ((0.0, 1.0), (-3.0, 4.0), (0.001, 0.0042), (1e6, 1e6 + 30)):
        step = choose_step(low, high)
        assert 5 <= round(high / step) - round(low / step) + 1 <= 11


def test_names_of_judges_and_classes_that_hardly_differ_are_noted() -> None:
    with pytest.warns(InputWarning, match=r"Judges whose names differ only in .*'m' and 'M'.*Classes whose .*'1\.0'"):
        read_panel({"task": [1, 1], "judge": ["m", "M"], "vote": ["1", "1.0"]})


def test_what_contradicts_itself_is_refused() -> None:
    with pytest.raises(InputError, match="give task 'a' several weights"):
        read_panel(VOTES, PEOPLE | {"weight": [1.0, 2.0, 1.0]})
    with pytest.raises(InputError, match="weights that are not above 0"):
        read_panel(VOTES, PEOPLE | {"weight": [5e-324] * 3})
    with pytest.raises(InputError, match="The costs of 'm' differ from row to row"):
        cw.judges.evaluate_panel(VOTES, PEOPLE, costs={"judge": ["m", "m"], "cost": [1.0, 2.0]})


def test_nothing_is_written_where_something_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("votes.csv").write_text("task,judge,vote\na,m,yes\na,n,no\nb,m,no\nb,n,no\n")
    Path("people.csv").write_text("task,worker,label\na,x,yes\nb,x,no\n")
    for more in (
        ["--charts", "charts", "--out", "page.html", "--next-to", "next.csv"],  # nothing is left to label
        ["--charts", "charts", "--out", "page.html", "--items", "none.csv"],
        ["--out", "one", "--next-to", "one"],
        ["--out", "one", "--charts", "one"],
    ):
        assert main(["judges", "votes.csv", "--human", "people.csv", *more]) == 2
        assert sorted(path.name for path in tmp_path.iterdir()) == ["people.csv", "votes.csv"]


def test_votes_that_hold_none_of_the_classes() -> None:
    with pytest.raises(
        InputError, match=r"No vote holds any of the classes 'a', 'b'; the votes hold 'no', 'yes'.*--classes"
    ):
        read_panel(VOTES, classes=["a", "b"])


@pytest.mark.parametrize("other", ["same", "symbolic link", "hard link"])
def test_the_votes_are_no_labels_of_people_as_well(other: str, tmp_path: Path) -> None:
    votes, people = tmp_path / "votes.csv", tmp_path / ("votes.csv" if other == "same" else "people.csv")
    votes.write_text("task,judge,vote\na,m,yes\na,n,no\nb,m,no\nb,n,no\n")
    if other == "symbolic link":
        people.symlink_to(votes)
    elif other == "hard link":
        people.hardlink_to(votes)
    with pytest.raises(InputError, match=rf"{people.name}' is given more than once"):
        read_panel(votes, people)
    assert main(["judges", str(votes), "--human", str(people)]) == 2


@pytest.mark.parametrize("classes", [5, True, "yes,no", ["yes"], ["yes", None], [["yes"], ["no"]]])
def test_classes_that_are_no_list_of_names(classes: Any) -> None:
    with pytest.raises(InputError, match="class"):
        read_panel(VOTES, PEOPLE, classes=classes)


def test_columns_whose_names_are_no_text() -> None:
    with pytest.raises(InputError, match="column"):
        read_panel({1: ["a"], 2: ["b"]})


def test_what_is_odd_in_the_tables_beside_the_votes_is_noted() -> None:
    with pytest.warns(InputWarning, match="The costs name 'zz', who gave no vote"):
        cw.judges.evaluate_panel(VOTES, PEOPLE, costs={"m": 1.0, "zz": 2.0})
    again = {name: [*values, *values[:1]] for name, values in PEOPLE.items()}
    assert "People answered 1 of their tasks more than once" in " ".join(read_panel(VOTES, again).notes)
