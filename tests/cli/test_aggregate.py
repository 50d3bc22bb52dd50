"""`crowdwise aggregate`: the page, the JSON, the files."""

from __future__ import annotations

import csv
import gzip
import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crowdwise.labels.unseen_characters import LETTER
from crowdwise.registry import methods
from crowdwise.saved import load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FACTS = ["method", "n_tasks", "n_workers", "n_classes", "n_labels", "n_iter", "converged", "seconds"]
SCORES = ["n_truth", "accuracy", "log_loss", "brier", "ece"]


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_json_is_one_object_with_the_promised_keys(cw: Callable[..., Any], labels: Path, truth: Path) -> None:
    ran = cw("aggregate", labels, "--json")
    assert list(ran.json) in ([*FACTS, "league"], [*FACTS, "league", "expected_wrong"])
    assert ran.json["method"] == "auto"
    assert set(ran.json["league"][0]) == {"method", "weight", "held_out", "standard_error"}

    ran = cw("aggregate", labels, "--json", "--method", "dawid-skene")
    assert (ran.code, ran.err) == (0, "")
    assert list(ran.json) == FACTS
    assert ran.json["method"] == "dawid-skene"
    assert [ran.json[f"n_{what}"] for what in ("tasks", "workers", "classes", "labels")] == [4, 3, 2, 12]
    assert ran.json["converged"] is True

    ran = cw("aggregate", labels, "--json", "--truth", truth, "--method", "dawid-skene")
    assert list(ran.json) == FACTS + SCORES
    assert ran.json["n_truth"] == 4
    assert ran.json["accuracy"] == 1.0
    assert 0 <= ran.json["log_loss"] < 0.1


@pytest.mark.usefixtures("few_sweeps")
@pytest.mark.parametrize("slug", [method.slug for method in methods()])
def test_every_method(slug: str, cw: Callable[..., Any], labels: Path, truth: Path, tmp_path: Path) -> None:
    ran = cw("aggregate", labels, "--method", slug, "--truth", truth, "--json", "--out", tmp_path / "results")
    assert ran.code == 0, ran.err
    assert ran.json["method"] == slug
    assert ran.json["accuracy"] == 1.0
    assert load(tmp_path / "results" / "model").predict().tolist() == ["cat", "dog", "cat", "dog"]
    assert cw("aggregate", labels, "--method", slug).code == 0


def test_files(cw: Callable[..., Any], labels: Path, tmp_path: Path) -> None:
    results = tmp_path / "some" / "results"
    ran = cw("aggregate", labels, "--out", results)
    assert ran.code == 0
    assert sorted(entry.name for entry in results.iterdir()) == ["consensus.csv", "model", "workers.csv"]
    assert str(results / "consensus.csv") in ran.out
    consensus = rows((results / "consensus.csv").read_text())
    assert [(row["task"], row["label"]) for row in consensus] == [
        ("t1", "cat"), ("t2", "dog"), ("t3", "cat"), ("t4", "dog"),
    ]  # fmt: skip
    assert list(consensus[0])[:5] == ["task", "label", "confidence", "n_labels", "entropy"]
    workers = rows((results / "workers.csv").read_text())
    assert [row["worker"] for row in workers] == ["ann", "bob", "cy"]
    assert {"n_labels", "skill", "skill_low", "skill_high"} <= set(workers[0])
    assert load(results / "model").predict().tolist() == ["cat", "dog", "cat", "dog"]


def test_files_of_others_survive(cw: Callable[..., Any], labels: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    (results / "model").mkdir(parents=True)
    (results / "notes.txt").write_text("mine")
    (results / "consensus.csv").write_text("old")
    assert cw("aggregate", labels, "--out", results).code == 0
    assert (results / "notes.txt").read_text() == "mine"
    assert (results / "consensus.csv").read_text() != "old"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["labels.csv", "results"]


def test_standard_input_and_output(cw: Callable[..., Any], labels: Path) -> None:
    ran = cw("aggregate", "-", "--out", "-", stdin=labels.read_bytes())
    assert (ran.code, ran.err) == (0, "")
    assert [row["label"] for row in rows(ran.out)] == ["cat", "dog", "cat", "dog"]
    zipped = cw("aggregate", "-", "--out", "-", stdin=gzip.compress(labels.read_bytes()))
    assert zipped.out == ran.out


def test_reading_options(cw: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "odd.tsv"
    file.write_text("what\twho\tsays\n1\ta\t3\n1\tb\t3\n2\ta\t1\n2\tb\t1\n2\tb\t3\n")
    options = ["--task-column", "what", "--worker-column", "who", "--label-column", "says"]
    ran = cw("aggregate", file, *options, "--classes", "3, 2,1", "--on-duplicate", "all", "--json")
    assert (ran.json["n_classes"], ran.json["n_labels"]) == (3, 5)
    assert cw("aggregate", file, *options, "--on-duplicate", "first", "--json").json["n_labels"] == 4
    page = cw("aggregate", file, *options, "--on-duplicate", "last").out
    assert "--task-column what --worker-column who --label-column says --on-duplicate last" in page


def test_classes_with_commas(cw: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text('task,worker,label\n1,a,"x,y"\n1,b,z\n2,a,z\n')
    assert cw("aggregate", file, "--classes", '"x,y",z,w', "--json").json["n_classes"] == 3


def test_other_formats(cw: Callable[..., Any], tmp_path: Path) -> None:
    table = pa.table({"item": [2**60, 2**60, 7], "annotator": ["a", "b", "a"], "answer": ["x", "x", "y"]})
    pq.write_table(table, tmp_path / "labels.parquet")
    (tmp_path / "labels.jsonl").write_text(
        "".join(f'{{"item": {2**60}, "annotator": "{who}", "answer": "{what}"}}\n' for who, what in ("ax", "by"))
    )
    for name in ("labels.parquet", "labels.jsonl"):
        ran = cw("aggregate", tmp_path / name, "--out", "-", "--method", "majority-vote")
        assert rows(ran.out)[0]["task"] in (str(2**60), "7")


def test_page(cw: Callable[..., Any], labels: Path, truth: Path) -> None:
    ran = cw("aggregate", labels, "--truth", truth)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Consensus on 4 tasks from 12 labels by 3 workers")
    for part in ("Against the truth of 4 tasks", "4 of 4 tasks right", "Classes", "Workers, best first", "What next"):
        assert part in ran.out
    assert f"crowdwise aggregate {labels} --method auto --out results" in ran.out
    assert "Combined from, by how well they predict hidden labels" in ran.out
    assert "\x1b" not in ran.out
    prose = [line for line in ran.out.splitlines() if not line.startswith("    crowdwise")]
    assert max(map(len, prose)) <= 80


def test_page_of_many_workers(cw: Callable[..., Any], tmp_path: Path) -> None:
    simulated = cw("simulate", "spammers", "--tasks", 300, "--workers", 40, "--labels-per-task", 6)
    ran = cw("aggregate", "-", stdin=simulated.out.encode())
    assert "The 10 best of 40 workers" in ran.out
    assert "The 10 worst" in ran.out
    best, worst = (ran.out.split(title)[1].split("\n\n")[0].splitlines()[2:] for title in ("10 best", "10 worst"))
    assert (len(best), len(worst)) == (10, 10)
    assert min(float(line.split()[2]) for line in best) > max(float(line.split()[2]) for line in worst)
    disputed = ran.out.split("The most disputed tasks, least sure first\n")[1].split("\n\n")[0].splitlines()[1:]
    assert 1 <= len(disputed) <= 8


def test_not_converged_is_a_note(cw: Callable[..., Any], labels: Path) -> None:
    page = cw("aggregate", labels, "--method", "dawid-skene", "--max-iter", 2)
    assert page.code == 0
    assert "while still improving" in page.out
    assert "--max-iter 20" in page.out
    ran = cw("aggregate", labels, "--method", "dawid-skene", "--max-iter", 2, "--json")
    assert ran.json["converged"] is False
    assert ran.err.startswith("crowdwise: note: The fit stopped after 2 iterations")


def test_truth_that_fits_in_part(cw: Callable[..., Any], labels: Path, tmp_path: Path) -> None:
    file = tmp_path / "truth.csv"
    file.write_text("task,label\nt1,cat\nt2,cow\nt9,dog\nt8,cow\n")
    ran = cw("aggregate", labels, "--truth", file, "--json")
    assert ran.json["n_truth"] == 1
    assert "2 truths left out of the scores: no label for the task" in ran.err
    assert "1 truth left out of the scores: of a class that nobody said, 'cow'" in ran.err
    ran = cw("aggregate", labels, "--truth", file, "--classes", "cat,dog,cow", "--json")
    assert ran.json["n_truth"] == 2
    assert ran.json["accuracy"] == 0.5


def test_gold_is_learnt_from(cw: Callable[..., Any], labels: Path, tmp_path: Path) -> None:
    gold = tmp_path / "gold.csv"
    gold.write_text("task,label\nt1,dog\n")
    ran = cw("aggregate", labels, "--gold", gold, "--out", "-")
    assert rows(ran.out)[0]["label"] == "dog"


def test_gold_may_name_a_new_class(cw: Callable[..., Any], labels: Path, tmp_path: Path) -> None:
    gold, truth = tmp_path / "gold.csv", tmp_path / "truth.csv"
    gold.write_text("task,label\nt1,cow\nt2,dog\n")
    truth.write_text("task,label\nt3,cow\n")
    ran = cw("aggregate", labels, "--gold", gold, "--truth", truth, "--out", "-")
    assert rows(ran.out)[0]["label"] == "cow"
    assert "No worker said 'cow', which --gold names" in ran.err
    gold.write_text("task,label\nt1,cow\n")
    ran = cw("aggregate", labels, "--gold", gold)
    assert ran.code == 2
    assert "No class of the known truths ('cow') is a class of the labels" in ran.err


HOSTILE = {
    "formula": "=cmd|' /C calc'!A0",
    "at": "@SUM(1)",
    "escape": "\x1b[31mred\x1b[0m",
    "markup": "[red]ann[/red]",
    "unclosed markup": "[/]",
    "link": "[link=file:///etc]x",
    "emoji code": ":skull:",
    "right to left": "\u202egnp.exe",
    "eight-bit control": "a\x9b31mb",
    "line break": "two\nlines",
    "long": "long" * 500,
    "stacked accents": "e" + "\u0301" * 400,
    "wide": "漢字" * 40,
    "backspaces": "good\b\b\b\bevil",
    "isolate": "\u2066evil\u2069",
    "no width": "a\u200bb\u200d\u2060\ufeff",
    "filler": "a\u3164b",
    "formula behind a blank": "\u00a0=1+1",
    "formula behind a line break": "\n=1+1",
    "formula behind no width": "\u200b=1+1",
    "full-width formula": "\uff1d1+1",
}


@pytest.mark.usefixtures("few_sweeps")
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_names_are_inert(kind: str, cw: Callable[..., Any], tmp_path: Path) -> None:
    name = HOSTILE[kind]
    table = [
        (f"{task}{name}", worker, label)
        for task in ("", "x")
        for worker, label in ((name, f"{name}1"), ("bob", f"{name}1"), ("cy", f"{name}2"))
    ]
    file = tmp_path / "labels.parquet"
    columns = ("task", "worker", "label")
    pq.write_table(pa.table(dict(zip(columns, map(list, zip(*table, strict=True)), strict=True))), file)
    for words in (["aggregate", file, "--method", "majority-vote"], ["describe", file]):
        ran = cw(*words)
        assert ran.code == 0, ran.err
        assert all(letter.isprintable() or letter == "\n" for letter in ran.out)
        assert not LETTER.search(ran.out)
        assert max(map(len, ran.out.splitlines())) <= 80 + 5 * len("\u0301" * 80)
        if "[" in name:
            assert name[:6].replace("\x1b", "\\x1b")[:6] in ran.out
    ran = cw("aggregate", file, "--method", "majority-vote", "--out", tmp_path / "results")
    raw = (tmp_path / "results" / "workers.csv").read_text()
    assert not LETTER.search(raw)
    for row in rows(raw):
        assert row["worker"].strip()[0] not in "=@\uff1d"
    assert load(tmp_path / "results" / "model").workers_.tolist()[0] in (name, "bob", "cy")
    if "formula" in kind or kind in ("at", "escape", "backspaces", "isolate", "no width", "filler", "right to left"):
        assert "Defused in CSV: " in ran.out
