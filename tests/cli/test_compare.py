"""`crowdwise compare`, and what a user may know besides the labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

THREE = ("--methods", "majority-vote,dawid-skene, mace", "--folds", "3")


@pytest.fixture
def many(cw: Callable[..., Any], tmp_path: Path) -> Path:
    file = tmp_path / "many.csv"
    cw("simulate", "one-coin", "--tasks", 100, "--workers", 10, "--labels-per-task", 5, "--out", file,
       "--truth-out", tmp_path / "many-truth.csv")  # fmt: skip
    return file


def test_page(cw: Callable[..., Any], many: Path) -> None:
    ran = cw("compare", many, *THREE)
    assert (ran.code, ran.err) == (0, "")
    for part in ("majority-vote", "dawid-skene", "mace", "score", "behind", "rank", "How to read it", "What next"):
        assert part in ran.out
    said = " ".join(ran.out.split())
    assert "Best by held-out labels: " in said
    assert "how well labels are predicted, which is not how often the consensus is right" in said
    assert "Use the best" not in said
    assert f"crowdwise aggregate {many} --method " in ran.out
    assert f"crowdwise compare {many} --truth truth.csv" in ran.out
    assert "accuracy" not in ran.out
    with_truth = cw("compare", many, *THREE, "--truth", many.with_name("many-truth.csv"))
    said = " ".join(with_truth.out.split())
    assert "against the truth of 100 tasks" in said
    assert "Best by the truth of 100 tasks: " in said
    assert "90% interval" in said
    assert "--truth truth.csv" not in said
    for page in (ran, with_truth):
        prose = [line for line in page.out.splitlines() if not line.startswith("    crowdwise")]
        assert max(map(len, prose)) <= 80
        assert "…" not in page.out, "a column was cut"


def test_json(cw: Callable[..., Any], many: Path) -> None:
    ran = cw("compare", many, *THREE, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json["best"] == ran.json["methods"][0]["method"]
    assert ran.json["n_truth"] == 0
    assert [row["accuracy"] for row in ran.json["methods"]] == [None] * 3
    scored = cw("compare", many, *THREE, "--json", "--truth", many.with_name("many-truth.csv"))
    for row in scored.json["methods"]:
        assert 0.5 < row["accuracy_low"] <= row["accuracy"] <= row["accuracy_high"] <= 1
        assert 1 <= row["rank_low"] <= row["rank_high"] <= 3
        assert 1 <= row["truth_rank_low"] <= row["truth_rank_high"] <= 3
    assert (ran.json["best_by_truth"], ran.json["misled"], ran.json["methods"][0]["truth_rank_low"]) == (None,) * 3
    assert scored.json["best_by_truth"] not in scored.json["tied_by_truth"]
    assert scored.json["misled"] is False
    assert set(ran.json["independence"]) == {"pairs", "tasks"}
    assert (ran.json["cautions"], ran.json["tied"]) == ([], scored.json["tied"])
    assert ran.json["recommended"] in {"auto", ran.json["best"]}
    assert ran.json["conclusions"][0].startswith("Best by held-out labels: ")


def test_families_are_noted(cw: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "families.csv"
    cw("simulate", "groups", "--tasks", 300, "--workers", 20, "--labels-per-task", 6, "--out", file)
    ran = cw("compare", file, "--methods", "majority-vote,dawid-skene", "--folds", 2)
    said = " ".join(ran.out.split())
    assert "! Workers do not err independently: some pairs agree" in said
    assert f"crowdwise aggregate {file} --method auto" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--methods", "dawid-skeen"], "Did you mean 'dawid-skene'?"),
        (["--methods", ","], "methods is empty"),
        (["--methods", "mace", "--folds", "1000000"], "folds is 1000000"),
        (["--truth", "gone.csv"], "gone.csv"),
        (["--truth", "-"], "standard input"),
    ],
)
def test_bad_input(words: list[str], message: str, cw: Callable[..., Any], labels: Path) -> None:
    ran = cw("compare", "-" if "-" in words else labels, *words)
    assert ran.code == 2
    assert message in ran.err
    assert ran.out == ""


def test_class_prior(cw: Callable[..., Any], labels: Path, tmp_path: Path) -> None:
    ran = cw(
        "aggregate", labels, "--method", "dawid-skene", "--class-prior", "dog=.25, cat=.75", "--out", tmp_path / "o"
    )
    assert ran.code == 0
    from crowdwise.saved import load

    assert load(tmp_path / "o" / "model").prior_.tolist() == [0.75, 0.25]


def test_known_workers(cw: Callable[..., Any], labels: Path, tmp_path: Path) -> None:
    assert cw("aggregate", labels, "--method", "dawid-skene", "--out", tmp_path / "first").code == 0
    ran = cw("aggregate", labels, "--known-workers", tmp_path / "first" / "model", "--json")
    assert (ran.code, ran.err) == (0, "")
    members = {"hierarchical dawid-skene", "hierarchical one-coin", "mean-field", "ebcc"}  # who can use known workers
    assert {row["method"] for row in ran.json["league"]} == members


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--class-prior", "cow=1"], "'cow=1' names no class; give NAME=SHARE for 'cat', 'dog'"),
        (["--class-prior", "cat=x,dog=.5"], "'x' is no number"),
        (["--class-prior", "cat=.5,dog=.1"], "shares that sum to 1"),
        (["--class-prior", ""], "holds an empty name"),
        (["--known-workers", "gone"], "holds no saved model"),
        (["--method", "majority-vote", "--class-prior", "cat=.5,dog=.5"], "no use for a class prior"),
    ],
)
def test_bad_knowledge(words: list[str], message: str, cw: Callable[..., Any], labels: Path) -> None:
    ran = cw("aggregate", labels, *words)
    assert ran.code == 2
    assert message in ran.err
    assert ran.out == ""


def test_truths_that_were_told_do_not_score(cw: Callable[..., Any], labels: Path, truth: Path, tmp_path: Path) -> None:
    gold = tmp_path / "gold.csv"
    gold.write_text("task,label\nt1,cat\n")
    ran = cw("aggregate", labels, "--truth", truth, "--gold", gold, "--json")
    assert ran.json["n_truth"] == 3
    assert "1 truth left out of the scores: told by --gold" in ran.err
    ran = cw("aggregate", labels, "--truth", truth, "--gold", truth)
    assert ran.code == 2
    assert "none is left to score with" in ran.err


def test_known_workers_that_nobody_knows(cw: Callable[..., Any], labels: Path, tmp_path: Path) -> None:
    assert cw("aggregate", labels, "--method", "dawid-skene", "--out", tmp_path / "first").code == 0
    other = tmp_path / "other.csv"
    other.write_text(labels.read_text().replace("ann", "zoe").replace("bob", "yan").replace("cy", "xi"))
    ran = cw("aggregate", other, "--known-workers", tmp_path / "first" / "model")
    assert ran.code == 2
    assert "None of the known workers ('ann', 'bob', 'cy', …) is among those of the labels" in ran.err


def test_a_method_for_sequences_without_any(cw: Callable[..., Any], labels: Path) -> None:
    ran = cw("aggregate", labels, "--method", "bsc", "--json")
    assert "bsc is made for tasks that belong together" in ran.err
    assert "--sequences" in ran.err
