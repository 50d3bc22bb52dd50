"""Learn2Agree's tables (Wang et al. 2023): folds, votes as one rater, texts in numbers, and Δ."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import cohen_kappa_score

import crowdwise as cw
from crowdwise.labels.errors import InputError
from crowdwise.reproduction import run_table, table_files, verdicts
from crowdwise.reproduction.one_run import run_job
from crowdwise.reproduction.one_worker import OneWorker
from crowdwise.reproduction.problems import make_problem

pytest.importorskip("torch")

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "tables"
DIGITS = {"name": "digits", "folds": 2}
RATERS = {"name": "kappa-raters"}
on_real_data = pytest.mark.skipif(not os.environ.get("CROWDWISE_DATA"), reason="CROWDWISE_DATA is not set")


def test_two_seeds_share_out_the_digits() -> None:
    images, digit = load_digits(return_X_y=True)
    row = {each.tobytes(): number for number, each in enumerate(images / 16)}
    seen = []
    for seed in (0, 1):
        problem = make_problem(DIGITS, RATERS, seed)
        assert problem.test is not None
        assert problem.test_labels is not None
        scored = [row[each.tobytes()] for each in problem.test[0]]
        assert problem.test_labels.tasks.to_pylist() == scored  # tasks are numbered as the images are
        assert problem.labels.tasks.to_pylist() == [row[each.tobytes()] for each in problem.x]
        assert np.array_equal(problem.test[1], digit[scored] % 2)
        assert problem.labels.n_workers == problem.test_labels.n_workers == 3
        seen += scored
    assert sorted(seen) == list(range(len(images)))


def test_folds_need_features() -> None:
    with pytest.raises(InputError, match="no features to predict the tasks of a fold"):
        make_problem({"folds": 2}, RATERS, 0)


def test_votes_are_learnt_from_and_raters_are_scored_on() -> None:
    asked, voted = make_problem(DIGITS, RATERS, 3), make_problem(DIGITS, RATERS | {"voted": True}, 3)
    assert voted.labels.workers.to_pylist() == ["majority"]
    assert voted.labels.tasks.equals(asked.labels.tasks)
    assert np.array_equal(voted.labels.label, cw.MajorityVote().fit(asked.labels).predict())
    assert voted.test_labels is not None
    assert asked.test_labels is not None
    assert np.array_equal(voted.test_labels.label, asked.test_labels.label)


def test_ties_of_the_vote_are_broken_by_a_draw() -> None:
    crowd = {"name": "cifar-annotators"}
    data = {"name": "digits"}
    raters = make_problem(data, crowd | {"labels_per_task": 2}, 0).labels
    shares = cw.MajorityVote().fit(raters).posterior_
    tied = np.isclose(shares, shares.max(axis=1, keepdims=True))
    drawn = [make_problem(data, crowd | {"labels_per_task": 2, "voted": "drawn"}, 0).labels for _ in range(2)]
    assert np.array_equal(drawn[0].label, drawn[1].label)
    assert tied[np.arange(raters.n_tasks), drawn[0].label].all()
    several = tied.sum(axis=1) > 1
    first = drawn[0].label[several] == tied[several].argmax(axis=1)
    assert 0.4 < first.mean() < 0.6


def test_words_are_those_of_the_texts_that_are_learnt_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROWDWISE_DATA", str(tmp_path))
    (tmp_path / "notes").mkdir()
    said = "\n".join(f"t{number},w,{number % 2}" for number in range(6))
    (tmp_path / "notes" / "labels.csv").write_text(f"task,worker,label\n{said}\n")
    # In another order than the labels, and with a comma and a line break inside.
    texts = "\n".join(f't{number},"shared, word{number}\nagain"' for number in reversed(range(6)))
    (tmp_path / "notes" / "text.csv").write_text(f"task,text\n{texts}\n")
    for seed in range(6):
        problem = make_problem({"name": "notes", "folds": 6}, {}, seed)
        assert problem.test is not None
        # Of each text learnt from: its own word and two pairs with it; of all: "shared", "again".
        assert problem.x.shape == (5, 2 + 5 * 3)
        assert np.array_equal((problem.x > 0).sum(axis=0), [5 if many else 1 for many in (problem.x > 0).all(axis=0)])
        assert (problem.test[0] > 0).sum() == 2


def test_the_ratio_is_equation_10() -> None:
    table = table_files.read_table("learn2agree-table-3").quick_version()
    (job,) = table.jobs(["WKL, distributional, AR"])
    found = run_job(job, "cpu")["measures"]["agreement_ratio"]
    problem = make_problem(job["run"]["data"], job["run"]["crowd"], 0)
    parameters = {key: value for key, value in job["run"]["model"].items() if key not in ("kind", "slug")}
    model = cw.LearnToAgree(**job["run"]["training"], **parameters, random_state=0, device="cpu")
    model.fit(problem.x, problem.labels, tasks=problem.labels.tasks.to_pylist())
    assert problem.test is not None
    assert problem.test_labels is not None
    said = problem.test_labels.label.reshape(-1, 3).T
    guess = model.predict(problem.test[0])

    def agreed(one: object, other: object) -> float:
        return 1 / (1 + float(np.exp(-cohen_kappa_score(one, other))))

    with_model = np.mean([agreed(guess, rater) for rater in said])
    among_raters = np.mean([agreed(said[a], said[b]) for a, b in ((0, 1), (0, 2), (1, 2))])
    assert found == pytest.approx(with_model / among_raters, abs=1e-6)


def test_a_rater_is_scored_by_the_others() -> None:
    table = table_files.read_table("learn2agree-table-1").quick_version()
    (job,) = [each for each in table.jobs(["rater 2"]) if each["cell"]["setting"] == "digits"]
    found = run_job(job, "cpu")["measures"]["agreement_ratio"]
    labels = make_problem(job["run"]["data"], job["run"]["crowd"], 0).test_labels
    assert labels is not None
    first, own, third = labels.label.reshape(-1, 3).T

    def agreed(one: object, other: object) -> float:
        return 1 / (1 + float(np.exp(-cohen_kappa_score(one, other))))

    assert found == pytest.approx((agreed(own, first) + agreed(own, third)) / 2 / agreed(first, third), abs=1e-6)
    with pytest.raises(InputError, match="worker is 7; the labels are those of 3 workers"):
        OneWorker(7).split_labels(labels)


@pytest.mark.data
@on_real_data
def test_tweets_are_scored_by_six_raters() -> None:
    scored = []
    for seed in range(5, 10):
        problem = make_problem({"name": "lewidi_hsbrexit", "folds": 5}, {}, seed)
        assert problem.test_labels is not None
        assert problem.x.shape == (896, 1000)
        assert problem.test_labels.n_workers == problem.labels.n_workers == 6
        scored += problem.test_labels.tasks.to_pylist()
    assert len(set(scored)) == len(scored) == 1120


@pytest.mark.parametrize("number", [1, 2, 3])
def test_results_are_those_of_the_table_as_it_stands(number: int) -> None:
    table = table_files.read_table(f"learn2agree-table-{number}")
    jobs = table.jobs()
    rows = run_table.select_rows(jobs, run_table.read_rows(RESULTS / f"{table.name}.jsonl"))
    assert len(rows) == len(jobs)
    judged = verdicts.judge_claims(table, verdicts.compute_cells(table, rows))
    assert not [each.claim.says for each in judged if each.verdict != verdicts.HOLDS and not each.claim.note]
