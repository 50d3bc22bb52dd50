"""The other commands, the safe names, and what main does when all else fails."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from crowdwise import __version__
from crowdwise.cli.commands.demo import METHODS
from crowdwise.cli.terminal_names import display_name, escape_unprintable, quote_command
from crowdwise.labels.errors import InputError
from crowdwise.registry import learners, methods
from crowdwise.saved import load
from crowdwise.simulate import CROWDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_version_and_help(cw: Callable[..., Any]) -> None:
    assert cw("--version").out == f"crowdwise {__version__}\n"
    for words in ([], ["--help"], ["-h"]):
        ran = cw(*words)
        assert ran.code == 0
        for command in ("aggregate", "train", "predict", "audit", "report", "methods", "describe", "simulate", "demo"):
            assert command in ran.out
        assert len(ran.out.splitlines()) <= 44
        assert max(map(len, ran.out.splitlines())) <= 80


@pytest.mark.parametrize(
    "command", ["aggregate", "train", "predict", "audit", "report", "methods", "describe", "simulate", "demo"]
)
def test_help_of_each_command(command: str, cw: Callable[..., Any]) -> None:
    ran = cw(command, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert f"crowdwise {command}" in ran.out


def test_methods(cw: Callable[..., Any]) -> None:
    page, long, listed = cw("methods"), cw("methods", "--long"), cw("methods", "--json").json
    assert [entry["slug"] for entry in listed] == [method.slug for method in methods()]
    assert {"summary", "paper", "fails"} <= set(listed[0])
    learning = cw("methods", "--learn", "--json").json
    assert [entry["slug"] for entry in learning] == [entry.slug for entry in learners()]
    assert learners()[-1].slug in cw("methods", "--learn").out
    assert methods()[-1].slug not in cw("methods", "--learn").out
    learn, learn_long = cw("methods", "--learn"), cw("methods", "--learn", "--long")
    for entries, short, full in ((methods(), page, long), (learners(), learn, learn_long)):
        for entry in entries:
            assert entry.slug in short.out
            assert " ".join(entry.fails.split()) in " ".join(full.out.split())
        assert max(map(len, (short.out + full.out).splitlines())) <= 80
    assert "crowdwise methods --learn" in page.out


def test_describe(cw: Callable[..., Any], labels: Path) -> None:
    page, facts = cw("describe", labels), cw("describe", labels, "--json").json
    assert page.out.startswith("12 labels by 3 workers on 4 tasks, 2 classes")
    assert f"crowdwise aggregate {labels}\n" in page.out
    assert (facts["n_labels"], facts["class_shares"]) == (12, {"cat": 0.5, "dog": 0.5})


def test_describe_counts_repeated_answers(cw: Callable[..., Any]) -> None:
    ran = cw("describe", "-", stdin=b"task,worker,label\n1,a,x\n1,a,y\n2,b,x\n")
    assert "1 answer given again" in ran.out
    assert "crowdwise aggregate - --on-duplicate all" in ran.out


def test_crowds_are_listed(cw: Callable[..., Any]) -> None:
    assert cw("simulate").out == cw("simulate", "--list").out
    for slug in CROWDS:
        assert f"\n{slug}\n" in "\n" + cw("simulate").out


@pytest.mark.parametrize("slug", CROWDS)
def test_simulate_every_crowd(slug: str, cw: Callable[..., Any], tmp_path: Path) -> None:
    ran = cw("simulate", slug, "--tasks", 500, "--seed", 3, "--truth-out", tmp_path / "truth.csv")
    assert (ran.code, ran.err) == (0, "")
    table = list(csv.DictReader(io.StringIO(ran.out)))
    assert list(table[0]) == ["task", "worker", "label"]
    truth = list(csv.DictReader(io.StringIO((tmp_path / "truth.csv").read_text())))
    assert len({row["task"] for row in truth}) == 500
    assert {row["task"] for row in table} <= {row["task"] for row in truth}


def test_simulate_to_files(cw: Callable[..., Any], tmp_path: Path) -> None:
    labels, truth = tmp_path / "my labels.csv", tmp_path / "truth.csv"
    sizes = ["--tasks", 50, "--workers", 8, "--classes", 3, "--labels-per-task", 4]
    ran = cw("simulate", "dawid-skene", *sizes, "--out", labels, "--truth-out", truth)
    assert ran.out.startswith("dawid-skene: 200 labels by 8 workers on 50 tasks, 3 classes; ")
    assert f"crowdwise aggregate '{labels}' --truth {truth}" in ran.out
    same, other = (cw("simulate", "dawid-skene", *sizes, "--seed", seed).out for seed in (0, 1))
    assert labels.read_text() == same != other
    assert cw("aggregate", labels, "--truth", truth, "--json").json["accuracy"] > 0.6


def test_demo(cw: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = cw("demo")
    assert (ran.code, ran.err) == (0, "")
    for part in ("Consensus on 45 tasks", "Worker portraits", "the best", "the worst", "says 4", "What next"):
        assert part in ran.out
    assert "crowdwise-demo/consensus.csv" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80
    model = load("crowdwise-demo/model")
    assert model.prior_.round(2).tolist() == [0.4, 0.42, 0.11, 0.07]
    lines = [line.split() for line in ran.out.partition("nobody labelled")[2].splitlines()]
    shares = {words[0]: float(words[1].rstrip("%")) for words in lines if words and words[0] in METHODS}
    assert shares["trace"] > 90
    assert shares["hard-labels"] < 75
    picture = ET.parse("crowdwise-demo/confusions.svg").getroot()  # noqa: S314
    drawn = [part for part in picture.iter() if part.get("class") == "frame"]
    assert len(drawn) == 2 * 5 + 1  # two matrices for each worker, and the legend
    assert "crowdwise-demo/confusions.svg" in ran.out
    page = (tmp_path / "crowdwise-demo" / "campaign.html").read_text(encoding="utf-8")
    assert "Animals, by simulated workers" in page
    assert "<script" not in page
    assert "97% sure" in ran.out


def test_demo_without_torch(cw: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(self: Any) -> None:
        raise InputError("Learning a classifier needs torch, which is not installed: pip install 'crowdwise[learn]'.")

    monkeypatch.setattr("crowdwise.registry.LearnerEntry.load", missing)
    monkeypatch.setattr("crowdwise.campaign.installed_packages.NEEDED", ("json", "no_such_package"))
    ran = cw("demo", "--out", tmp_path / "demo")
    assert ran.code == 0
    assert "A campaign needs no_such_package, not installed: pip install 'crowdwise[campaign]'" in ran.err
    assert "was left out" in ran.out
    assert "pip install 'crowdwise[learn]'" in " ".join(ran.out.split())
    assert {file.name for file in (tmp_path / "demo").iterdir()} == {
        *("consensus.csv", "workers.csv", "model"),
        "report.html",
    }


def test_colours_only_on_request(cw: Callable[..., Any], labels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[" not in cw("aggregate", labels).out
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[" in cw("aggregate", labels).out


# ---- names --------------------------------------------------------------------------------------------------


def test_visible_and_shown() -> None:
    assert escape_unprintable("a\tb\x9b\u200bc\ud800") == r"a\tb\x9b\u200bc\ud800"
    assert escape_unprintable("naïve 漢字 שלום ❤️") == "naïve 漢字 שלום ❤️"
    assert escape_unprintable("a\u3164\u2800\u034f") == r"a\u3164\u2800\u034f"  # printable, says Python
    assert display_name("漢字漢字", 5).cell_len <= 5
    assert display_name(" ann").plain == "' ann'"
    assert display_name("").plain == "''"
    assert display_name(7).plain == "7"
    assert display_name("[bold]x").spans == []
    assert quote_command("crowdwise", "my file\x1b") == r"crowdwise 'my file\x1b'"


# ---- when all else fails --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (KeyboardInterrupt(), 130, ""),
        (MemoryError(), 2, "not enough memory"),
        (OSError(28, "No space left on device"), 2, "No space left on device"),
        (OSError(5, "Input/output error", "a file"), 2, "a file: Input/output error"),
        (ZeroDivisionError("oh\nno"), 1, "a bug in crowdwise"),
    ],
)
def test_failures(
    error: BaseException,
    code: int,
    says: str,
    cw: Callable[..., Any],
    labels: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from crowdwise.cli.commands import aggregate

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(aggregate, "fit_and_score", fail)
    ran = cw("aggregate", labels)
    assert (ran.code, ran.out) == (code, "")
    assert says in ran.err
    assert "Traceback" not in ran.err
    assert ran.err.count("\n") == (1 if says else 0)
    monkeypatch.setenv("CROWDWISE_DEBUG", "1")
    assert cw("aggregate", labels).code == code
