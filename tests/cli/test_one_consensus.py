"""One consensus everywhere: the same numbers from `aggregate`, `audit`, `report` and Python."""

from __future__ import annotations

import csv
import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import crowdwise
from crowdwise.audit.audit import Audit
from crowdwise.audit.finding_types import Finding, Screen
from crowdwise.cli.commands.audit import AuditPage
from crowdwise.cli.label_files import LabelFiles
from crowdwise.cli.options import AuditOptions
from crowdwise.report.task_items import read_items
from crowdwise.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Labels, gold of the first 30 tasks and truth of all, of a crowd with spammers and hard tasks."""
    crowd = simulate("spammers", n_tasks=120, n_workers=9, n_classes=3, labels_per_task=5, share=0.3, random_state=4)
    table = crowd.labels.to_table()
    labels = [f"task-{task},w{worker},{'abc'[label]}" for task, worker, label in zip(*table.to_pydict().values())]  # noqa: B905
    truth = [f"task-{task},{'abc'[label]}" for task, label in enumerate(crowd.truth)]
    made = {name: tmp_path / f"{name}.csv" for name in ("labels", "gold", "truth", "items")}
    made["labels"].write_text("\n".join(["task,worker,label", *labels]))
    made["gold"].write_text("\n".join(["task,label", *truth[:30]]))
    made["truth"].write_text("\n".join(["task,label", *truth]))
    made["items"].write_text("\n".join(["task,text", *(f"task-{task},item number {task}" for task in range(120))]))
    return made


def data_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.mark.usefixtures("no_size")
@pytest.mark.parametrize(
    ("asked", "known"),
    [([], False), (["--seed", "5"], True), (["--method", "ebcc", "--seed", "2"], False)],
    ids=["auto", "auto with gold", "another method"],
)
def test_four_ways_one_consensus(
    asked: list[str], known: bool, cw: Callable[..., Any], files: dict[str, Path], tmp_path: Path
) -> None:
    words = [files["labels"], *asked, *(["--gold", files["gold"]] if known else [])]
    printed = cw("aggregate", *words, "--out", tmp_path / "results").out
    told = cw("audit", *words, "--json").json
    audit = cw("audit", *words).out
    assert cw("report", *words, "--out", tmp_path / "page.html").code == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")

    method = asked[1] if "--method" in asked else "auto"
    seed = int(asked[-1]) if asked else 0
    gold = str(files["gold"]) if known else None
    python = crowdwise.audit_crowd(str(files["labels"]), method=method, gold=gold, random_state=seed).model
    consensus = {row["task"]: row for row in python.consensus().to_pylist()}
    workers = {row["worker"]: row for row in python.workers().to_pylist()}

    # aggregate's files and the audit's JSON: to the last digit
    with (tmp_path / "results" / "consensus.csv").open(encoding="utf-8") as stream:
        written = list(csv.DictReader(stream))
    with (tmp_path / "results" / "workers.csv").open(encoding="utf-8") as stream:
        skills = list(csv.DictReader(stream))
    for rows in (written, told["consensus"]):
        assert len(rows) == 120
        for row in rows:
            wanted = consensus[row["task"]]
            assert (row["label"], float(row["confidence"])) == (wanted["label"], wanted["confidence"])
    for rows in (skills, told["workers"]):
        assert len(rows) == 9
        for row in rows:
            for name in ("skill", "skill_low", "skill_high"):
                assert float(row[name]) == workers[row["worker"]][name]

    # the page: to six digits
    data = data_of(page)["tables"]
    assert len(data["tasks"]) > 20
    for task, label, confidence, *_ in data["tasks"]:
        assert (label, confidence) == (consensus[task]["label"], round(consensus[task]["confidence"], 6))
    assert len(data["workers"]) == 9
    for worker, _, *numbers in (row[:5] for row in data["workers"]):
        assert numbers == [round(workers[worker][name], 6) for name in ("skill", "skill_low", "skill_high")]

    # the terminal: as many digits as it shows
    for worker, row in workers.items():
        line = next(line for line in printed.splitlines() if re.match(rf"\s+{worker}\s", line))
        assert f"{row['skill']:.2f}   {row['skill_low']:.2f} to {row['skill_high']:.2f}" in line
    for line in re.findall(r"^  (task-\d+ .*)$", printed, re.MULTILINE):
        task, label, sure = line.split()[:3]
        assert (label, sure) == (consensus[task]["label"], f"{consensus[task]['confidence']:.1%}")
    claim = told["says"][0]["text"]
    sure = sum(row["confidence"] >= 0.9 for row in consensus.values())
    assert f"at least 90% sure of {sure} of 120 tasks" in claim
    for text in (printed, audit, re.sub(r"&#39;", "'", page)):
        assert claim in " ".join(text.split())
    basis = "Rests on: the labels and 30 gold answers" if known else "Rests on: the labels alone"
    assert all(basis in " ".join(text.split()) for text in (printed, audit, page))


@pytest.mark.usefixtures("no_size")
def test_truth_scores_and_gold_teaches(cw: Callable[..., Any], files: dict[str, Path]) -> None:
    plain = cw("audit", files["labels"], "--json").json
    scored = cw("audit", files["labels"], "--truth", files["truth"], "--json").json
    assert scored["consensus"] == plain["consensus"]
    assert "Measured on 120 tasks" in scored["says"][-1]["text"]
    assert scored["says"][-1]["basis"] == "the truth given"
    alone = cw("aggregate", files["labels"], "--truth", files["truth"], "--json").json
    for name in ("n_truth", "accuracy", "ece"):
        assert scored[name] == pytest.approx(alone[name], abs=1e-12)
    both = cw("audit", files["labels"], "--truth", files["truth"], "--gold", files["gold"], "--json").json
    assert "Measured on 90 tasks" in both["says"][-1]["text"]
    assert all(row["confidence"] == 1.0 for row in both["consensus"] if int(row["task"][5:]) < 30)


def test_items_stand_beside_tasks_on_the_terminal(cw: Callable[..., Any], files: dict[str, Path]) -> None:
    ran = cw("aggregate", files["labels"], "--method", "dawid-skene", "--items", files["items"])
    assert (ran.code, ran.err) == (0, "")
    for task in re.findall(r"^  task-(\d+) ", ran.out, re.MULTILINE):
        assert re.search(rf"task-{task} +item number {task} ", ran.out)
    assert f"--items {files['items']}" in ran.out


def test_items_stand_beside_tasks_that_are_doubted(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    labels = crowdwise.read_labels(str(files["labels"]))
    finding = Finding("mislabel", "task", ("task-7", "task-9"), 0.9, "Two are wrong.", "So.", 0.01, "draws", "Look.")
    model = crowdwise.MajorityVote().fit(labels)
    audit = Audit(labels, model, (Screen("mislabel", (finding,)),), np.full(9, -1), 0.05)
    items = read_items(str(files["items"]), labels.tasks)
    AuditPage(audit, LabelFiles(str(files["labels"])), AuditOptions(), None, items).print_page(None, None)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    at = lines.index("Two are wrong.")
    assert lines[at - 1 : at + 4] == [
        "Probably wrong labels",
        "Two are wrong.",
        "item number 7",
        "item number 9",
        "Look.",
    ]


@pytest.mark.parametrize("command", ["audit", "report", "aggregate"])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "dawid-skeen"], "Did you mean 'dawid-skene'?"),
        (["--method", "kos", "--gold", "{gold}"], "kos"),
        (["--gold", "gone.csv"], "gone.csv"),
        (["--items", "gone.csv"], "gone.csv"),
        (["--items", "{gold}"], "items need one column 'task' and a column 'text'"),
        (["--items", "-", "--gold", "-"], "standard input"),
    ],
)
def test_one_clear_error(
    command: str, words: list[str], message: str, cw: Callable[..., Any], files: dict[str, Path], tmp_path: Path
) -> None:
    out = ["--out", tmp_path / "out"] if command != "audit" else []
    ran = cw(command, files["labels"], *(word.format(**files) for word in words), *out)
    assert ran.code == 2
    assert message in ran.err
    assert len(ran.err.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()
