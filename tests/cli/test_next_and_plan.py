"""The commands `next` and `plan`: what they print and write, and bad input."""

from __future__ import annotations

import csv
import json

import pytest

from crowdwise.cli import main
from crowdwise.simulate import simulate


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    crowd = simulate("dawid-skene", n_tasks=60, n_workers=8, n_classes=2, labels_per_task=3, skill=0.75, random_state=1)
    rows = ["task,worker,label"]
    for task, worker, label in zip(crowd.labels.task, crowd.labels.worker, crowd.labels.label, strict=True):
        rows.append(f"t{task},w{worker},{'ab'[label]}")
    (folder / "labels.csv").write_text("\n".join(rows) + "\n")
    truth = ["task,label", *(f"t{task},{'ab'[crowd.truth[task]]}" for task in range(30))]
    (folder / "gold.csv").write_text("\n".join(truth) + "\n")
    (folder / "costs.csv").write_text("worker,cost\nw0,5\nw1,0.5\n")
    return folder


def test_next_spends_the_budget(files, capsys, tmp_path):
    out = tmp_path / "questions.csv"
    words = ["next", str(files / "labels.csv"), "--budget", "12", "--cap", "4", "--costs", str(files / "costs.csv")]
    assert main([*words, "--gold", str(files / "gold.csv"), "--gold-share", "0.3", "--out", str(out)]) == 0
    assert "questions, which cost" in capsys.readouterr().out
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert 0 < sum(float(row["cost"]) for row in rows) <= 12
    assert len({(row["task"], row["worker"]) for row in rows}) == len(rows)
    price = {"w0": 5.0, "w1": 0.5}
    assert all(float(row["cost"]) == price.get(row["worker"], 1.0) for row in rows)
    assert main(["next", str(files / "labels.csv"), "--workers", "w3", "--capacity", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["worker"] for each in found] == ["w3", "w3"]


def test_next_chooses_task_and_worker_together(files, capsys):
    words = ["next", str(files / "labels.csv"), "--policy", "joint", "--budget", "6", "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found) == 6
    assert len({(each["task"], each["worker"]) for each in found}) == 6
    assert main([*words, "--worker-policy", "best"]) == 2
    assert "leave worker_policy out" in capsys.readouterr().err


def test_plan_shows_a_curve(files, capsys):
    assert main(["plan", str(files / "labels.csv"), "--gold", str(files / "gold.csv"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n_gold"] == 30
    assert len(found["labels"]) == len(found["accuracy"]) == len(found["low"])
    assert all(
        low <= mean <= high for low, mean, high in zip(found["low"], found["accuracy"], found["high"], strict=True)
    )
    assert main(["plan", str(files / "labels.csv"), "--target", "0.9", "--out", str(files / "curve.svg")]) == 0
    assert "labels in all" in (files / "curve.svg").read_text(encoding="utf-8")
    page = capsys.readouterr().out
    assert "forecast" in page
    assert "The model claims" in page
    assert "interval" not in page


@pytest.mark.filterwarnings("ignore:.*with an apostrophe")
def test_next_reads_costs_as_workers_are_written(capsys, tmp_path):
    (tmp_path / "labels.csv").write_text("task,worker,label\n" + "".join(f"t{i},=x,{'ab'[i % 2]}\n" for i in range(4)))
    with (tmp_path / "labels.csv").open("a") as file:
        file.write("t0,7,a\nt1,7,b\n")
    (tmp_path / "costs.csv").write_text("worker,cost\n'=x,3\n7,1e-90\n")
    words = ["next", str(tmp_path / "labels.csv"), "--costs", str(tmp_path / "costs.csv"), "--budget", "1e90", "--json"]
    assert main(words) == 0
    assert [(each["worker"], each["cost"]) for each in json.loads(capsys.readouterr().out)] == [("7", 1e-90)] * 2
    for cost in ("0", "-1", "nan", "inf", "much", "1_0", "1e400", ""):
        (tmp_path / "costs.csv").write_text(f"worker,cost\n'=x,{cost}\n")
        assert main(words) == 2
        assert "The cost of '=x' is" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["next", "--budget", "0"], "--budget is 0"),
        (["next", "--cap", "0"], "cap is 0"),
        (["next", "--workers", "nobody"], "no worker 'nobody'"),
        (["next", "--policy", "best"], "policy is 'best'"),
        (["next", "--costs", "gold.csv"], "columns worker and cost"),
        (["next", "--gold-share", "7", "--gold", "gold.csv"], "gold_share is 7"),
        (["plan", "--target", "1.5"], "target is 1.5"),
        (["plan", "--level", "0"], "level is 0"),
        (["plan", "--out", "curve.pdf"], "'curve.pdf' is no picture"),
    ],
)
def test_bad_input_is_one_sentence(files, capsys, monkeypatch, words, said):
    monkeypatch.chdir(files)
    assert main([words[0], "labels.csv", *words[1:]]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_options_that_would_be_left_aside(files, capsys):
    words = ["next", str(files / "labels.csv")]
    for more, said in (
        (["--gold-share", "0.3"], "--gold-share is about --gold"),
        (["--out", "-", "--json"], "both want"),
    ):
        assert main([*words, *more]) == 2
        assert said in capsys.readouterr().err
