"""Exports of labelling tools on the command line: no flags, plain questions, nothing lost without a word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "exports"
FIVE = ["label-studio.json", "prodigy.jsonl", "doccano.zip", "argilla.json", "sagemaker"]


@pytest.mark.parametrize("name", [*FIVE, "mechanical-turk.csv", "toloka.tsv", "zooniverse.csv"])
def test_the_consensus_of_an_export(name: str, cw: Any, tmp_path: Path) -> None:
    ran = cw("aggregate", str(EXAMPLES / name), "--method", "dawid-skene", "--out", str(tmp_path / "r"))
    assert (ran.code, "Consensus on" in ran.out) == (0, True)
    assert (tmp_path / "r" / "consensus.csv").exists()


def test_describe_shows_what_is_no_answer(cw: Any) -> None:
    ran = cw("describe", str(EXAMPLES / "label-studio.json"))
    said = " ".join(ran.out.split())
    assert ran.code == 0
    assert "An export of Label Studio: label-studio.json." in said
    assert "2 skipped answers, 1 draft, 2 gold answers, 6 predictions of models not counted as labels" in said
    assert "34 labels by 4 workers on 12 tasks" in said
    facts = json.loads(cw("describe", str(EXAMPLES / "label-studio.json"), "--json").out)["export"]
    assert {name: facts[name] for name in ("format", "question", "n_skipped", "n_gold", "n_anchored")} == {
        "format": "label-studio", "question": "sentiment", "n_skipped": 2, "n_gold": 2, "n_anchored": 3,
    }  # fmt: skip


def test_several_questions(cw: Any) -> None:
    path = str(EXAMPLES / "label-studio-questions.json")
    ran = cw("describe", path)
    assert ran.code == 0
    assert "--question stars" in ran.out
    ran = cw("aggregate", path)
    said = " ".join(ran.err.split())
    assert ran.code == 2
    assert "holds answers to 4 questions: 'sentiment' (labels, 34 answers)" in said
    assert "--question topics" in said
    assert cw("aggregate", path, "--question", "sentiment").code == 0
    ran = cw("aggregate", path, "--question", "stars", "--json")
    assert (ran.code, json.loads(ran.out)["kind"]) == (0, "ordinal")
    assert "2 skipped answers, 1 draft" in ran.err


def test_gold_of_an_export_is_used(cw: Any) -> None:
    ran = cw("aggregate", str(EXAMPLES / "label-studio.json"), "--method", "dawid-skene")
    assert "2 gold" in " ".join(ran.out.split())


def test_what_tasks_show_is_shown(cw: Any) -> None:
    ran = cw("aggregate", str(EXAMPLES / "label-studio.json"), "--method", "majority-vote")
    assert "Maria wrote review" in ran.out


def test_standard_input(cw: Any) -> None:
    text = (EXAMPLES / "label-studio.json").read_text()
    assert cw("aggregate", "-", "--json", stdin=text.encode()).code == 0


def test_formats(cw: Any) -> None:
    ran = cw("formats")
    assert ran.code == 0
    assert all(name in ran.out for name in ("label-studio", "prodigy", "toloka"))
    found = {each["slug"]: each for each in json.loads(cw("formats", "--json").out)}
    assert "labels" in found["argilla"]["kinds"]


def test_a_format_and_a_plain_table_are_told_apart(cw: Any, labels: Path) -> None:
    assert cw("aggregate", str(labels), "--write-back", "x.json").code == 2
    assert "this is a plain table" in cw("aggregate", str(labels), "--write-back", "x.json").err
    ran = cw("describe", str(labels), "--format", "label-studio")
    assert (ran.code, "labels.csv is no export of Label Studio" in " ".join(ran.err.split())) == (2, True)
    assert cw("describe", str(labels), "--format", "nothing").code == 2
