"""The project file: every mistake is one clear sentence; and what is checked before a campaign is served."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.campaign.campaigns import HEAD, make_campaign, write_project

from crowdwise.campaign.annotator_pages import _make_scale
from crowdwise.campaign.project import Question, read_project
from crowdwise.campaign.task_files import read_tasks
from crowdwise.cli import main
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

VALUES = 'title = "x"\n[question]\ntext = "How old?"\nkind = "values"\nlow = 0\nhigh = 10\n'
PAIRS = 'title = "x"\n[question]\ntext = "Which?"\nkind = "comparison"\nties = true\n'


@pytest.mark.parametrize(
    ("head", "more", "words"),
    [
        (HEAD.replace("title", "titel"), "", "has no title at its top"),
        (HEAD.replace('"cat", ', ""), "", "needs classes"),
        (HEAD.replace('"dog"', '"cat"'), "", "without repeats ('cat')"),
        (HEAD + 'kind = "colours"\n', "", "one of classes, comparison, values, multi-label"),
        (HEAD, "[answers]\nper_task = 0\n", "per_task of [answers] is 0. It must be a number from 1 to 1000"),
        (HEAD, "[answers]\nper_task = 2.5\n", "a whole number"),
        (HEAD, "[answers]\nper_taks = 2\n", "[answers] has 'per_taks', which is not known there"),
        (HEAD, "[answer]\nper_task = 2\n", "the top of the file has 'answer'"),
        (HEAD, '[stop]\nrule = "soon"\n', "one of cap, confidence, promise"),
        (HEAD, '[stop]\nrule = "promise"\n', "the stop rule promise learns from gold"),
        (HEAD, '[stop]\nrule = "estimate"\n', "the stop rule estimate learns from gold"),
        (HEAD, '[gold]\nfile = "g.csv"\n[stop]\nrule = "estimate"\ntarget = 1\n', "target of [stop] is 1"),
        (HEAD, "[stop]\ndelta = 0\n", "delta of [stop] is 0. It must be a number from 0.001 to 0.5"),
        (HEAD, "[stop]\nchecks = 0.9\n", "checks of [stop] is 0.9"),
        (HEAD, '[answers]\npolicy = "best"\n', "policy of [answers] is 'best'. It must be one of uniform, round-robin"),
        (VALUES, '[answers]\npolicy = "joint"\n', "of kind values use one of round-robin, uniform"),
        (HEAD, '[workers]\nlinks = "none"\n', "one of personal, open"),
        (HEAD, '[workers]\ncompletion_url = "javascript:alert(1)"\n', "begins with https://"),
        (HEAD, '[server]\nwebhooks = ["ftp://x"]\n', "no web address"),
        (VALUES.replace("high = 10", "high = -1"), "", "must be below high"),
        (VALUES, '[stop]\nrule = "confidence"\n', "for questions of kind classes"),
        (VALUES + 'classes = ["a", "b"]\n', "", "has no classes"),
        (HEAD, 'file = "x"\n', "is no TOML file"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, head: str, more: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_project(write_project(tmp_path, head=head, more=more))
    assert words in str(caught.value)
    assert "project.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("head", "tasks", "words"),
    [
        (HEAD, "task,text\na,x\na,y\n", "is there already"),
        (HEAD, "task,text\na,\n", "shows nothing"),
        (HEAD, "name,text\na,x\n", "none of which is called task"),
        (HEAD, "task,size\na,3\n", "it needs one of text, image"),
        (HEAD, "task,text,gold\na,x,fish\n", "nor"),
        (PAIRS, "task,left\na,x\n", "no left or no right"),
        (PAIRS, "task,left,right\na,x, x\n", "compares 'x' with itself"),
        (HEAD, "task,text\na, \n", "shows nothing"),
        (HEAD, "task,Text,text\na,x,y\n", "two columns for text"),
        (HEAD, "task,task,text\na,x,y\n", "two columns for task"),
        (HEAD, "\n", "is empty. It needs a column task"),
        (HEAD, "task,image\na,../../etc/passwd\n", "lies outside"),
        (HEAD, "task,image\na,missing.png\n", "is no file"),
    ],
)
def test_tasks_that_cannot_be_asked(tmp_path: Path, head: str, tasks: str, words: str) -> None:
    if words == "nor":
        tasks, words = "task,text\na,x\n", "no class of this project"
        (tmp_path / "gold.csv").write_text("task,label\na,fish\n")
        more = '[gold]\nfile = "gold.csv"\n'
    else:
        more = ""
    with pytest.raises(InputError, match=words):
        make_campaign(tmp_path, head=head, tasks=tasks, more=more)


@pytest.mark.parametrize(
    ("question", "given", "stored"),
    [
        (Question("classes", "?", ("a", "b")), "b", "b"),
        (Question("multi-label", "?", ("a", "b")), ["b", "a"], ["a", "b"]),
        (Question("multi-label", "?", ("a", "b")), [], []),
        (Question("values", "?", low=0, high=5, step=0.5), "2.5", 2.5),
        (Question("comparison", "?", ("left", "right")), "left", "left"),
    ],
)
def test_answers_as_they_are_stored(question: Question, given: Any, stored: Any) -> None:
    assert question.check_answer(given) == stored
    for wrong in (None, True, 7, "tie", {"a": 1}, ["c"], "nan", float("nan"), float("inf"), 10**400):
        with pytest.raises(InputError):
            question.check_answer(wrong)


def test_gold_and_exports_are_read(tmp_path: Path) -> None:
    (tmp_path / "gold.csv").write_text("task,label\nt1,dog\n")
    project = read_project(write_project(tmp_path, 2, more='[gold]\nfile = "gold.csv"\n'))
    assert [(task.name, task.gold) for task in read_tasks(project)] == [("t0", None), ("t1", "dog")]


def test_the_check_says_what_it_saw(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.delenv("CROWDWISE_DATABASE", raising=False)
    assert main(["serve", str(write_project(tmp_path)), "--check"]) == 0
    said = capsys.readouterr().out
    assert "10 tasks, 0 of them gold" in said
    assert said.endswith("All is well.\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["project.toml", "tasks.csv"]
    assert main(["serve", str(tmp_path / "nowhere.toml")]) == 2
    monkeypatch.setenv("CROWDWISE_DATABASE", "postgresql://nobody:secret@127.0.0.1:1/none")
    assert main(["serve", str(tmp_path / "project.toml"), "--check"]) == 2
    said = capsys.readouterr().err
    assert "cannot be used: connection failed" in said
    assert "secret" not in said


def test_scales_are_shown_to_the_last_digit() -> None:
    for low, high, step, words in (
        (1_000_000, 1_000_002, 1, ["1000000", "1000001", "1000002"]),
        (0, 0.3, 0.1, ["0", "0.1", "0.2", "0.3"]),
        (100_000.5, 100_001.5, 0.5, ["100000.5", "100001", "100001.5"]),
    ):
        project = SimpleNamespace(question=Question("values", "?", (), low, high, step))
        assert _make_scale(SimpleNamespace(project=project)) == words
