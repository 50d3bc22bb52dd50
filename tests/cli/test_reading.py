"""What every command does with input that could be misread: it asks, or says what it did."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COMMANDS = ("aggregate", "compare", "audit", "report")


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    """94 numbers or so on 600 tasks: more tasks for each than a rule by counts alone would ask about."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(600), 3)
    value = np.clip(rng.normal(50, 18, 600)[task] + rng.normal(0, 12, task.size), 0, 100).astype(int)
    rows = [f"{t},w{n % 3},{v}" for n, (t, v) in enumerate(zip(task, value, strict=True))]
    file = tmp_path / "my ratings.csv"
    file.write_text("\n".join(["task,worker,label", *rows]) + "\n")
    return file


@pytest.mark.parametrize("command", ["aggregate", "compare", "audit"])
def test_values_are_read_as_values(command: str, ratings: Path, cw: Callable[..., Any]) -> None:
    few = ["--methods", "mean,median"] if command == "compare" else ["--method", "mean"]
    ran = cw(command, ratings, "--json", *few)
    assert (ran.code, ran.json["kind"]) == (0, "values")
    assert "Read as values; --kind labels for classes." in ran.err
    assert "distinct numbers among 1,800 labels: these look like values, not classes" in ran.err


def test_values_may_be_taken_for_classes(ratings: Path, cw: Callable[..., Any]) -> None:
    ran = cw("aggregate", ratings, "--kind", "labels", "--method", "majority-vote", "--json")
    assert (ran.code, ran.err) == (0, "")
    page = cw("aggregate", ratings, "--kind", "labels", "--method", "majority-vote")
    assert "--kind labels" in page.out  # the next commands read the same way


def test_values_are_aggregated_as_values(ratings: Path, cw: Callable[..., Any]) -> None:
    said = cw("aggregate", ratings, "--json")
    assert (said.code, said.json["kind"]) == (0, "values")
    assert "Read as values; --kind labels for classes." in said.err
    asked_for = cw("aggregate", ratings, "--json", "--kind", "values")
    assert (asked_for.code, asked_for.err) == (0, "")
    assert asked_for.json["n_iter"] == said.json["n_iter"]


def test_describe_says_that_they_look_like_values(ratings: Path, cw: Callable[..., Any]) -> None:
    ran = cw("describe", ratings, "--json")
    assert ran.code == 0
    assert any("look like values, not classes" in each for each in ran.json["warnings"])


def test_train_asks_too(ratings: Path, cw: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    np.savez(tmp_path / "x.npz", X=np.zeros((600, 2), np.float32))
    ran = cw("train", "--features", tmp_path / "x.npz", "--labels", ratings)
    assert ran.code == 2
    assert "look like values" in ran.err


NESTED = {"a": {"ann": "x", "bob": "y", "cy": "y"}, "b": {"ann": "y", "bob": "y"}}


def test_the_levels_of_nested_json_are_asked_about(cw: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "l.json"
    file.write_text(json.dumps(NESTED))
    ran = cw("aggregate", file, "--json")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[1:] == [
        "  The outer names are tasks:",
        f"    crowdwise aggregate {file} --json --outer tasks",
        "  The outer names are workers:",
        f"    crowdwise aggregate {file} --json --outer workers",
    ]
    assert cw("aggregate", file, "--json", "--outer", "tasks").json["n_tasks"] == 2
    assert cw("aggregate", file, "--json", "--outer", "workers").json["n_tasks"] == 3
    assert "Try 'crowdwise aggregate --help'" in cw("aggregate", file, "--outer", "items").err


def test_workers_outside_are_noted(cw: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "l.json"
    file.write_text(json.dumps({"gpt-4o": {"1": "x", "2": "y"}, "claude-3": {"1": "x", "2": "x"}}))
    ran = cw("aggregate", file, "--json")
    assert ran.json["n_workers"] == 2
    assert "taken for 2 workers" in ran.err
    (warning, *_) = cw("describe", file, "--json").json["warnings"]
    assert "taken for 2 workers" in warning


TWINS = "task,worker,label\nt1,Ann,x\nt1,ann,y\nt2,Ann,x\nt2,bob,x\nt3,bob,y\nt3,ann,y\n"


@pytest.mark.parametrize("command", [*COMMANDS[:3], "describe"])
def test_twins_are_noted_once(command: str, cw: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "l.csv"
    file.write_text(TWINS)
    ran = cw(command, file)
    assert ran.code == 0
    assert "'Ann' and 'ann'. They are kept apart." in " ".join((ran.err + ran.out).split())
    assert (ran.err + ran.out).count("'Ann' and") == 1


def test_ignored_answers_are_noted(cw: Callable[..., Any], tmp_path: Path) -> None:
    rows = [
        {"text": f"{n}", "label": "SPAM", "answer": said, "_task_hash": n, "_session_id": f"d-{who}"}
        for n in range(4)
        for who, said in (("ann", "accept"), ("bob", "reject"), ("cy", "ignore" if n else "accept"))
    ]
    file = tmp_path / "l.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    ran = cw("aggregate", file, "--json")
    assert (ran.json["n_labels"], ran.json["n_classes"]) == (9, 2)
    assert "3 skipped answers not counted" in ran.err
    assert any("3 skipped answers" in each for each in cw("describe", file, "--json").json["warnings"])


@pytest.fixture
def days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for day in (1, 2):
        rows = [f"t{day}{n},{who},{'xy'[(n + (who == 'cy')) % 2]}" for n in range(6) for who in ("ann", "bob", "cy")]
        (tmp_path / f"day{day}.csv").write_text("\n".join(["task,worker,label", *rows]) + "\n")
    return tmp_path


@pytest.mark.parametrize("files", [("day1.csv", "day2.csv"), ("day*.csv",)])
@pytest.mark.parametrize("command", ["aggregate", "audit", "describe"])
def test_several_files_are_read_as_one(
    command: str,
    files: tuple[str, ...],
    days: Path,
    cw: Callable[..., Any],
) -> None:
    ran = cw(command, *files, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert (ran.json["n_labels"], ran.json["n_tasks"]) == (36, 12)


@pytest.mark.usefixtures("days")
def test_the_next_command_names_all_files(cw: Callable[..., Any]) -> None:
    assert "crowdwise aggregate day1.csv day2.csv" in cw("describe", "day1.csv", "day2.csv").out
    assert "crowdwise aggregate 'day*.csv'" in cw("describe", "day*.csv").out
    assert "crowdwise report day1.csv day2.csv" in cw("audit", "day1.csv", "day2.csv").out
    assert cw("compare", "day1.csv", "day2.csv", "--methods", "majority-vote,dawid-skene").code == 0


def test_an_answer_given_in_two_files_is_an_error(days: Path, cw: Callable[..., Any]) -> None:
    (days / "day3.csv").write_text("task,worker,label\nt11,ann,x\n")
    ran = cw("aggregate", "day1.csv", "day3.csv")
    assert ran.code == 2
    assert "worker 'ann' on task 't11' (day3.csv, line 2)" in ran.err
    assert cw("aggregate", "day1.csv", "day3.csv", "--on-duplicate", "last", "--json").json["n_labels"] == 18


@pytest.mark.usefixtures("days")
@pytest.mark.parametrize("files", [("day1.csv", "-"), ("-", "day1.csv")])
def test_standard_input_may_be_one_of_the_files(files: tuple[str, str], cw: Callable[..., Any]) -> None:
    ran = cw("aggregate", *files, "--json", stdin=b"task,worker,label\nnew,ann,x\n")
    assert ran.json["n_tasks"] == 7
    assert cw("aggregate", "-", "-").code == 2
    assert "only one of LABELS" in cw("aggregate", "-", "day1.csv", "--truth", "-").err


@pytest.mark.usefixtures("days")
def test_a_file_that_is_read_is_not_written_over(cw: Callable[..., Any]) -> None:
    ran = cw("audit", "day1.csv", "day2.csv", "--prune-to", "day2.csv")
    assert ran.code == 2
    assert "is a file that is read" in ran.err


@pytest.mark.usefixtures("no_size")
def test_an_attribute_of_many_values_is_noted(cw: Callable[..., Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 60)
    rows = [f"{t},w{w},{truth[t] if rng.random() < 0.8 else 1 - truth[t]}" for t in range(60) for w in range(59)]
    (tmp_path / "l.csv").write_text("\n".join(["task,worker,label", *rows]) + "\n")
    people = [f"w{w},{20 + w},{'fm'[w % 2]}" for w in range(59)]
    (tmp_path / "people.csv").write_text("\n".join(["worker,age,sex", *people]) + "\n")
    words = [tmp_path / "l.csv", "--worker-attributes", tmp_path / "people.csv", "--method", "dawid-skene"]
    ran = cw("audit", *words, "--json")
    assert ran.code == 0
    assert "59 different numbers" in ran.json["skipped"]["worker attribute 'age'"]
    assert "bias" not in ran.json["skipped"]
    page = cw("audit", *words)
    assert "worker attribute 'age': It has 59 different numbers" in page.out
    assert "into a few bands" in " ".join(page.out.split())


def test_known_workers_of_a_model_with_fewer_classes(cw: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(TWINS.replace("Ann", "zoe"))
    (tmp_path / "b.csv").write_text(TWINS.replace("Ann", "zoe").replace("t3,ann,y", "t3,ann,z"))
    assert cw("aggregate", tmp_path / "a.csv", "--method", "dawid-skene", "--out", tmp_path / "out").code == 0
    known = ("--known-workers", tmp_path / "out" / "model")
    ran = cw("aggregate", tmp_path / "b.csv", "--method", "dawid-skene", *known, "--json")
    assert (ran.code, ran.json["n_classes"]) == (0, 3)


def test_columns_of_truth_gold_and_attributes(cw: Callable[..., Any], tmp_path: Path) -> None:
    rows = [
        (f"t{n}", who, "ab"[(n + (who == "cy" and n % 3 == 0)) % 2]) for n in range(12) for who in ("ann", "bob", "cy")
    ]
    labels, truth, about = tmp_path / "l.csv", tmp_path / "t.csv", tmp_path / "a.csv"
    labels.write_text("thing,person,said\n" + "".join(f"{','.join(row)}\n" for row in rows))
    truth.write_text("thing,task,right,source\n" + "".join(f"t{n},{n % 2},{'ab'[n % 2]},{n}\n" for n in range(12)))
    about.write_text("thing,topic\n" + "".join(f"t{n},{'xy'[n % 2]}\n" for n in range(12)))
    named = ("--task-column", "thing", "--worker-column", "person", "--label-column", "said")
    right = ("--truth-label-column", "right")
    ran = cw("aggregate", labels, *named, *right, "--truth", truth, "--method", "dawid-skene", "--json")
    assert (ran.code, ran.json["accuracy"]) == (0, 1.0)
    assert cw("aggregate", labels, *named, *right, "--gold", truth, "--method", "dawid-skene").code == 0
    ran = cw("audit", labels, *named, *right, "--truth", truth, "--task-attributes", about)
    assert ran.code == 0
    ran = cw("aggregate", labels, *named, "--truth-label-column", "write", "--truth", truth)
    assert (ran.code, "t.csv has no column 'write' (--truth-label-column)" in " ".join(ran.err.split())) == (2, True)


@pytest.mark.parametrize("table", ["labels", "comparisons", "values"])
@pytest.mark.parametrize("command", ["describe", "aggregate", "audit"])
def test_a_note_on_a_file_is_said_once(table: str, command: str, cw: Callable[..., Any], tmp_path: Path) -> None:
    header, rows = {
        "labels": ("task,worker,label", [f"t{n % 9},w{n // 9},{'xy'[n % 2]}" for n in range(27)]),
        "comparisons": ("worker,left,right,label", ["w1,a,b,left", "w2,a,b,right", "w2,b,c,left"]),
        "values": ("task,worker,label", [f"t{n % 40},w{n // 40},{n / 7:.3f}" for n in range(120)]),
    }[table]
    file = tmp_path / "put together.csv"
    file.write_text("\n".join([header, *rows[:2], header, *rows[2:]]) + "\n")
    ran = cw(command, file)
    assert ran.code == 0
    assert (ran.out + ran.err).count("the header again, which is left") == 1


@pytest.mark.parametrize(
    ("table", "header"),
    [
        ("task,worker,x_min,y_min,x_max,y_max\na,w1,,,,\na,w2,,,,\n", '"task","object","x_min",'),
        ("task,worker,x,y\na,w1,,\na,w2,,\n", '"task","object","x","y",'),
        ("task,worker,start,end,label\na,w1,,,\na,w2,,,\n", '"task","span","start","end",'),
    ],
)
def test_a_consensus_without_rows_has_its_header(
    table: str, header: str, cw: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "nothing marked.csv"
    file.write_text(table)
    assert cw("aggregate", file, "--out", tmp_path / "results").code == 0
    ran = cw("aggregate", file, "--out", "-")
    assert ran.out == (tmp_path / "results" / "consensus.csv").read_text()
    assert ran.out.startswith(header)
