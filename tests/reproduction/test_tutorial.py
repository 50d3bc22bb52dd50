"""The tutorial's tables (Ibrahim et al. 2025): who is left in a crowd, what the oracle knows, how ties go."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.datasets import load
from crowdwise.labels.errors import InputError
from crowdwise.reproduction import run_table, table_files, verdicts
from crowdwise.reproduction.one_run import run_job
from crowdwise.reproduction.problems import make_problem

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "tables"
LABELS_ONLY = (
    "tutorial-real-labels",
    "tutorial-spammers",
    "tutorial-colluders",
    "tutorial-colluders-real",
    "tutorial-groups",
    "tutorial-cnmf",
    "tutorial-fairness",
    "tutorial-imagenet15n",
    "tutorial-active",
)
on_real_data = pytest.mark.skipif(not os.environ.get("CROWDWISE_DATA"), reason="CROWDWISE_DATA is not set")

CROWD = {"name": "spammers", "n_tasks": 80, "n_workers": 6, "n_classes": 3, "share": 0.5, "skill": 0.6}


def asked(aggregator: str, crowd: dict[str, Any], *measures: str, **parameters: Any) -> dict[str, Any]:
    """A run of its own, of no table."""
    model = {"kind": "aggregator", "slug": aggregator} | parameters
    wanted = {"data": {}, "crowd": crowd, "training": {}, "model": model, "seed": 4}
    return {"cell": {}, "digest": "", "run": wanted | {"measures": list(measures), "keep": []}}


def test_the_oracle_is_bayes_rule_with_the_true_matrices() -> None:
    simulated = make_problem({}, CROWD, 4).crowd
    assert simulated is not None
    log_p = np.tile(np.log(simulated.prior), (80, 1))
    for task, worker, label in zip(simulated.labels.task, simulated.labels.worker, simulated.labels.label, strict=True):
        log_p[task] += np.log(simulated.confusion[worker, :, label])
    right = float(np.mean(log_p.argmax(axis=1) == simulated.truth))
    assert run_job(asked("oracle", CROWD, "consensus"))["measures"]["consensus"] == pytest.approx(right, abs=1e-6)
    assert right > run_job(asked("majority-vote", CROWD, "consensus"))["measures"]["consensus"]


def test_the_oracle_needs_a_simulated_crowd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "labels.csv").write_text("task,worker,label\n1,a,x\n1,b,y\n")
    monkeypatch.setenv("CROWDWISE_DATA", str(tmp_path))
    job = asked("oracle", {}, "consensus")
    job["run"]["data"] = {"name": "own"}
    with pytest.raises(InputError, match="the crowd is not simulated"):
        run_job(job)


def test_honest_only_leaves_the_same_honest_labels() -> None:
    whole, honest = make_problem({}, CROWD, 4), make_problem({}, CROWD | {"only": "honest"}, 4)
    theirs = whole.labels.worker < 3
    assert np.array_equal(honest.labels.label, whole.labels.label[theirs])
    assert np.array_equal(honest.labels.worker, whole.labels.worker[theirs])
    assert np.array_equal(honest.truth, whole.truth)
    assert honest.confusion is not None
    assert whole.confusion is not None
    assert np.array_equal(honest.confusion, whole.confusion[:3])
    with pytest.raises(InputError, match="no workers of the kind 'colluder'; it has 'honest'"):
        make_problem({}, CROWD | {"only": "colluder"}, 4)


def test_ties_go_at_random_or_to_the_first_class() -> None:
    crowd = {"name": "dawid-skene", "n_tasks": 200, "n_workers": 8, "n_classes": 4, "labels_per_task": 2}
    problem = make_problem({}, crowd, 4)
    votes = problem.labels.vote_counts()
    assert (votes.max(axis=1) == 1).sum() > 30  # two labels, two classes: ties
    found = run_job(asked("majority-vote", crowd, "consensus", "first_of_ties"))["measures"]
    first = float(np.mean(votes.argmax(axis=1) == problem.truth))
    drawn = cw.MajorityVote(random_state=4).fit(problem.labels).predict()
    assert found["first_of_ties"] == pytest.approx(first, abs=1e-6)
    assert found["consensus"] == pytest.approx(float(np.mean(drawn == problem.truth)), abs=1e-6)
    assert found["first_of_ties"] != found["consensus"]


@pytest.mark.parametrize("name", LABELS_ONLY)
def test_results_are_those_of_the_table_as_it_stands(name: str) -> None:
    table = table_files.read_table(name)
    jobs = table.jobs()
    rows = run_table.select_rows(jobs, run_table.read_rows(RESULTS / f"{name}.jsonl"))
    assert len(rows) == len(jobs)
    judged = verdicts.judge_claims(table, verdicts.compute_cells(table, rows))
    open_claims = [each.claim.says for each in judged if each.verdict != verdicts.HOLDS and not each.claim.note]
    assert not open_claims


@pytest.mark.data
@on_real_data
def test_votes_of_the_tutorial_are_reproduced() -> None:
    table = table_files.read_table("tutorial-real-labels")
    rows = [run_job(job) for job in table.jobs(["MV"], seeds=1)]
    cells = [cell for cell in verdicts.compute_cells(table, rows) if cell.method == "MV" and cell.published is not None]
    assert [cell.verdict for cell in cells] == ["reproduced"] * 3
    kept = {row["digest"]: row["measures"] for row in run_table.read_rows(RESULTS / "tutorial-real-labels.jsonl")}
    assert all(kept[row["digest"]] == row["measures"] for row in rows)


@pytest.mark.data
@on_real_data
def test_a_learner_of_labelme_is_scored_on_its_test_images() -> None:
    table = table_files.read_table("tutorial-labelme").quick_version()
    (job,) = table.jobs(["DS, then a classifier"])
    found = run_job(job, "cpu")["measures"]
    problem = make_problem(job["run"]["data"], {}, 0)
    model = cw.learner("two-stage").make(epochs=2, device="cpu", random_state=0)
    model.fit(problem.x, problem.labels, tasks=problem.labels.tasks.to_pylist())
    assert problem.test is not None
    names = np.array(problem.labels.classes.to_pylist())
    assert found["accuracy"] == pytest.approx(model.score(problem.test[0], names[problem.test[1]]), abs=1e-6)
    truth = dict(zip(load("labelme").labels.tasks.to_pylist(), load("labelme").truth_codes, strict=True))
    said = dict(zip(problem.labels.tasks.to_pylist(), model.posterior_.argmax(axis=1), strict=True))
    right = np.mean([truth[task] == label for task, label in said.items()])
    assert found["consensus"] == pytest.approx(float(right), abs=1e-6)
