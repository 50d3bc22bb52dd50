"""The tables of Cao et al. 2019: their crowds are those of appendix B, on training and on test tasks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from crowdwise.datasets.pictures import Pictures
from crowdwise.labels.errors import InputError
from crowdwise.reproduction import problems, run_table, table_files, verdicts
from crowdwise.reproduction.one_run import run_job
from crowdwise.simulate.tanno_annotators import CIFAR10

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.reproduction.problems import Problem

SENIORS = {"H": 5, "L": 10}
JUNIORS = {"4.1 (H)": 0, "4.2 (H)": 5, "4.3 (H)": 5, "4.1 (L)": 0, "4.2 (L)": 15, "4.3 (L)": 2}  # B.1, B.2, B.3
COPIED = {"4.3 (H)": [0, 0, 2, 2, 2], "4.3 (L)": [0, 2]}  # B.3: A is 0, C is 2
# What an expert of (H) says of an image, in words of appendix B.1; all else has probability 0.
SAYS = {
    ("A", "cat"): {"cat": 1.0},
    ("A", "dog"): {"cat": 1.0},
    ("A", "ship"): {"frog": 1.0},
    ("B", "dog"): {"cat": 0.5, "dog": 0.5},
    ("B", "truck"): {"automobile": 0.5, "truck": 0.5},
    ("C", "dog"): {"dog": 1.0},
    ("C", "horse"): {"horse": 1.0},
    ("C", "bird"): {"airplane": 0.5, "bird": 0.5},
    ("C", "frog"): {"frog": 0.5, "ship": 0.5},
    ("D", "dog"): {"cat": 1.0},
    ("D", "horse"): {"deer": 1.0},
    ("D", "bird"): {"bird": 1.0},
    ("D", "ship"): {"ship": 1.0},
    ("E", "deer"): {"deer": 0.6, "horse": 0.4},
    ("E", "truck"): {"automobile": 0.4, "truck": 0.6},
}


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise in place of CIFAR-10."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(256, size=(900, 3, 32, 32), dtype=np.uint8), np.arange(900) % 10
    noise = Pictures(x[:600], y[:600], x[600:], y[600:], CIFAR10)
    monkeypatch.setattr(problems, "load_pictures", lambda _: noise)


def problem_in(table: str, setting: str) -> Problem:
    job = next(job for job in table_files.read_table(table).jobs(seeds=1) if job["cell"]["setting"] == setting)
    return problems.make_problem(job["run"]["data"], job["run"]["crowd"], 3, label_test=True)


def dense(labels: Any) -> Any:
    """Labels, tasks × workers."""
    said = np.full((labels.n_tasks, labels.n_workers), -1)
    said[labels.task, labels.worker] = labels.label
    return said


@pytest.mark.parametrize("setting", JUNIORS)
@pytest.mark.parametrize("table", ["maxmig-table-3", "maxmig-cats-dogs"])
def test_juniors_say_the_first_class_or_copy_and_do_so_on_the_test_tasks(
    table: str, setting: str, pictures: None
) -> None:
    problem = problem_in(table, setting)
    seniors = SENIORS[setting[-2]]
    assert problem.test_labels is not None
    assert problem.test is not None
    assert problem.test_labels.n_tasks == len(problem.test[1])
    for labels in (problem.labels, problem.test_labels):
        said = dense(labels)
        assert said.shape[1] == seniors + JUNIORS[setting]
        assert (said >= 0).all()
        if setting.startswith("4.2"):
            assert {labels.classes.to_pylist()[code] for code in np.unique(said[:, seniors:])} == {
                "airplane" if table == "maxmig-table-3" else "cat"
            }
        if setting in COPIED:
            np.testing.assert_array_equal(said[:, seniors:], said[:, COPIED[setting]])
        # Seniors err on their own: no two of them say the same of every task.
        assert len(np.unique(said[:, :seniors], axis=1).T) == seniors


@pytest.mark.parametrize("level", SENIORS)
def test_all_cases_have_the_same_labels_of_the_same_seniors(level: str, pictures: None) -> None:
    said = [
        dense(problem_in("maxmig-table-3", f"{case} ({level})").labels)[:, : SENIORS[level]]
        for case in ("4.1", "4.2", "4.3")
    ]
    np.testing.assert_array_equal(said[0], said[1])
    np.testing.assert_array_equal(said[0], said[2])


@pytest.mark.parametrize("setting", ["4.1 (H)", "4.2 (H)", "4.3 (H)"])
def test_experts_of_cifar_10_mix_up_the_pairs_of_the_appendix(setting: str, pictures: None) -> None:
    problem = problem_in("maxmig-table-3", setting)
    assert problem.confusion is not None
    assert problem.test_labels is not None
    assert problem.test is not None
    said, truth = dense(problem.test_labels), problem.test[1]
    for (expert, true), shares in SAYS.items():
        at = "ABCDE".index(expert)
        row = np.array([shares.get(name, 0.0) for name in CIFAR10])
        np.testing.assert_allclose(problem.confusion[at, CIFAR10.index(true)], row)
        heard = np.unique(said[truth == CIFAR10.index(true), at])
        np.testing.assert_array_equal(heard, np.flatnonzero(row))


def test_experts_of_low_expertise_are_right_a_fifth_of_the_time(pictures: None) -> None:
    problem = problem_in("maxmig-table-3", "4.3 (L)")
    assert problem.confusion is not None
    np.testing.assert_allclose(problem.confusion[:, 4, 4], 0.2)
    np.testing.assert_allclose(problem.confusion[:, 4, :4], 0.8 / 9)


def test_experts_know_cats_and_dogs_as_the_appendix_says(pictures: None) -> None:
    high, low = (problem_in("maxmig-cats-dogs", f"4.1 ({level})") for level in "HL")
    assert high.confusion is not None
    assert low.confusion is not None
    assert high.labels.classes.to_pylist() == ["cat", "dog"]
    # Appendix B.1 gives dogs first: A 0.6/0.8, B 0.6/0.6, C 0.9/0.6, D 0.7/0.7, E 0.6/0.7.
    np.testing.assert_allclose(high.confusion[:, 0, 0], [0.8, 0.6, 0.6, 0.7, 0.7])
    np.testing.assert_allclose(high.confusion[:, 1, 1], [0.6, 0.6, 0.9, 0.7, 0.6])
    np.testing.assert_allclose(low.confusion[:, [0, 1], [0, 1]], 0.55)
    assert high.test is not None
    # The classes are those of the pictures, dogs 1: every tenth is a cat, every tenth a dog.
    np.testing.assert_array_equal(high.test[1], np.tile([0, 1], 30))


def test_the_authors_program_has_five_juniors(pictures: None) -> None:
    said = dense(problem_in("maxmig-table-3", "4.2 (L), 5 juniors").labels)
    assert said.shape[1] == 15
    assert (said[:, 10:] == 0).all()


def test_each_head_has_its_best_epoch_on_the_test_images(pictures: None) -> None:
    table = table_files.read_table("maxmig-cats-dogs").quick_version()
    (job,) = [each for each in table.jobs(["AggNet"]) if each["cell"]["setting"] == "4.1 (H)"]
    asked = job["run"] | {"training": job["run"]["training"] | {"epochs": 4, "learning_rate": 1e-3}}
    found = run_job(job | {"run": asked}, "cpu")["measures"]
    problem = problems.make_problem(asked["data"], asked["crowd"], asked["seed"], label_test=True)
    assert problem.valid is problem.test
    assert problem.labels.n_tasks == asked["data"]["train"]
    assert found["best_forecast"] >= max(found["last_forecast"], found["forecast"] - 1e-6)
    assert found["accuracy"] >= found["last"]


def test_images_are_scaled_and_the_truth_may_be_learnt_from(pictures: None) -> None:
    data = {"name": "cifar10", "only": ["cat", "dog"], "train": 20, "test": 4, "sizes": [16, 64]}
    crowd = {"name": "independent-mistakes", "data": "dogs-vs-cats", "true": True}
    problem = problems.make_problem(data, crowd, 0)
    assert problem.x.shape == (20, 3, 64, 64)
    assert problem.x.dtype == np.uint8
    assert problem.test is not None
    assert problem.test[0].shape == (4, 3, 64, 64)
    np.testing.assert_array_equal(problem.labels.label, problem.truth)
    even = np.zeros((1, 1, 4, 4), np.uint8)
    even[..., ::2] = 200  # columns of 200 and 0: half as many pixels are all near their mean
    small = problems.scale_images(even, 2)
    assert small.shape == (1, 1, 2, 2)
    assert np.abs(small.astype(int) - 100).max() <= 30


@pytest.mark.skipif("CROWDWISE_DATA" in os.environ, reason="run on the pictures themselves by test_papers.py")
@pytest.mark.parametrize("name", ["maxmig-table-3", "maxmig-cats-dogs", "maxmig-cats-dogs-causes"])
def test_quick_versions_run(name: str, pictures: None, tmp_path: Path) -> None:
    ran(name, tmp_path)


def ran(name: str, folder: Path) -> None:
    table = table_files.read_table(name).quick_version()
    rows = run_table.run_table(table, table.jobs(), folder / "runs.jsonl", device="cpu")
    assert len(rows) == len(table.jobs())
    for cell in verdicts.compute_cells(table, rows):
        assert 0 <= cell.mean <= 100, cell
        assert cell.verdict != "not run"
    assert all(
        one.verdict != "not run"
        for one in verdicts.judge_claims(table, verdicts.compute_cells(table, rows))
        if one.figures
    )


TWO = """
title = ""
paper = ""
place = ""
about = ""
[measures]
accuracy = { title = "accuracy" }
forecast = { title = "forecast" }
[[settings]]
name = "one"
[[settings]]
name = "two"
[[methods]]
name = "m"
aggregator = "majority-vote"
"""


def judgement(claim: str, numbers: dict[str, tuple[float, float]]) -> str:
    """Of a claim, where each setting has an accuracy and a forecast."""
    table = table_files.parse_table(f'{TWO}[[claims]]\nsays = ""\n{claim}', "two")
    rows = [
        {"setting": name, "x": None, "method": "m", "measures": {"accuracy": d, "forecast": dc}}
        for name, (d, dc) in numbers.items()
    ]
    return verdicts.judge_claims(table, verdicts.compute_cells(table, rows))[0].verdict


def test_alike_holds_up_to_the_difference_that_it_names() -> None:
    claim = 'measure = "accuracy"\nalike = { m = 2 }'
    assert judgement(claim, {"one": (5, 0), "two": (7, 9)}) == "holds"
    assert judgement(claim, {"one": (7.5, 0), "two": (5, 0)}) == "does not hold"
    assert judgement(claim, {"one": (5, 0)}) == "not run"


def test_beats_compares_two_measures_in_every_setting() -> None:
    claim = 'measure = "forecast"\nbeats = { m = "accuracy" }'
    assert judgement(claim, {"one": (5, 6), "two": (7, 8)}) == "holds"
    assert judgement(claim, {"one": (5, 6), "two": (8, 8)}) == "does not hold"
    with pytest.raises(InputError, match="no measure 'speed'"):
        judgement('measure = "forecast"\nbeats = { m = "speed" }', {})
