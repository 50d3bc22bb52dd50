"""Everything that can be wrong with input or usage: one message, exit code 2, nothing left behind."""

from __future__ import annotations

import gzip
import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEADER = "task,worker,label\n"
GOOD = HEADER + "t1,ann,cat\nt1,bob,dog\nt2,ann,dog\nt2,bob,dog\n"
MATCHING_TRUTH = "task,label\nt1,cat\n"

# What the labels file holds, and what the message must say.
FILES: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "is empty"),
    "only blank lines": ("\n\n \n", "is empty"),
    "only a byte order mark": (b"\xef\xbb\xbf", "is empty"),
    "header only": (HEADER, "no rows"),
    "no header": ("1,2,3\n1,3,3\n", "looks like data"),
    "missing column": ("task,label\nt1,cat\n", "no worker column"),
    "two columns may be the worker": ("task,annotator,rater,label\nt1,a,b,cat\n", "more than one column"),
    "one column": ("task worker label\nt1 ann cat\n", "single column"),
    "empty label": (HEADER + "t1,ann,cat\nt1,bob,\n", "line 3"),
    "empty task": (HEADER + "t1,ann,cat\n,bob,cat\n", "line 3"),
    "empty worker": (HEADER + "t1,,cat\nt1,bob,dog\n", "line 2"),
    "row too short": (HEADER + "t1,ann,cat\nt1,bob\n", "line 3"),
    "row too long": (HEADER + "t1,ann,cat\nt1,bob,dog,more\n", "line 3"),
    "unclosed quote": (HEADER + 't1,ann,cat\nt1,"bob,dog\nt2,ann,dog\n', "quot"),
    "not gzip": (b"\x1f\x8b" + b"rubbish" * 9, "gzip"),
    "truncated gzip": (gzip.compress(GOOD.encode() * 500)[:-30], "gzip"),
    "bad UTF-8": (b"task,worker,label\nt1,ann,caf\xe9\n", "UTF-8"),
    "UTF-16": (GOOD.encode("utf-16"), "UTF-16"),
    "binary": (bytes(range(256)) * 4, "NUL byte"),
    "zip archive": (b"PK\x03\x04" + bytes(60), "zip archive"),
    "SQLite": (b"SQLite format 3\0" + bytes(60), "SQLite"),
    "one class": (HEADER + "t1,ann,cat\nt2,bob,cat\n", "class"),
    "same answer twice": (HEADER + "t1,ann,cat\nt1,ann,dog\n", "--on-duplicate"),
    "header name twice": ("task,worker,label,label\nt1,ann,cat,dog\n", "more than one column named"),
    "names that differ in blanks": (HEADER + "t1,ann,cat\nt1,ann ,dog\nt2,ann,dog\n", "blank"),
    "broken JSON line": ('{"task": 1, "worker": 2, "label": 3}\n{"task": 1, "wor\n', "line 2"),
    "nested JSON column": (
        '{"task": 1, "worker": 2, "label": {"a": 1}}\n{"task": 2, "worker": 2, "label": {"a": 2}}\n',
        "label",
    ),
    "JSON without answers": ("{}", "no columns"),
    "cut-off Parquet": (b"PAR1" + bytes(40), "damaged or cut short"),
    "cut-off Arrow": (b"ARROW1\0\0" + bytes(10), "damaged or cut short"),
}

# Options after `aggregate LABELS`, and what the message must say. {tmp} is the test's own folder.
OPTIONS: dict[str, tuple[list[str], str]] = {
    "method that needs features": (
        ["--method", "trace"],
        "A method that needs features is a learner: crowdwise.learner, or `crowdwise train`",
    ),
    "unknown method": (["--method", "dawid-skeen"], "Did you mean 'dawid-skene'?"),
    "unknown option": (["--speed", "9"], "--speed"),
    "bad --on-duplicate": (["--on-duplicate", "some"], "--on-duplicate"),
    "--max-iter 0": (["--max-iter", "0"], "--max-iter"),
    "--max-iter of words": (["--max-iter", "many"], "--max-iter"),
    "--max-iter for majority vote": (["--method", "majority-vote", "--max-iter", "5"], "takes no --max-iter"),
    "negative seed": (["--seed", "-1"], "--seed"),
    "column that is not there": (["--worker-column", "rater"], "no column 'rater'"),
    "one column twice": (["--worker-column", "task"], "three different columns"),
    "unknown class": (["--classes", "cat,cow"], "'dog'"),
    "class twice": (["--classes", "cat,dog,cat"], "'cat'"),
    "empty class": (["--classes", "cat,,dog"], "empty name"),
    "one class only": (["--classes", "cat"], "class"),
    "--out is a file": (["--out", "{tmp}/labels.csv"], "not a folder"),
    "--out below a file": (["--out", "{tmp}/labels.csv/deep/results"], "not a folder"),
    "--out in /proc": (["--out", "/proc/results"], "/proc"),
    "--out empty": (["--out", ""], "--out"),
    "--out - and --json": (["--out", "-", "--json"], "standard output"),
    "no truth file": (["--truth", "{tmp}/none.csv"], "no file"),
    "truth and labels both from stdin": (["--truth", "-", "--gold", "-"], "standard input"),
    "gold for a method without": (["--method", "majority-vote", "--gold", "{tmp}/truth.csv"], "gold"),
}

TRUTHS: dict[str, tuple[str, str]] = {
    "empty": ("", "is empty"),
    "header only": ("task,label\n", "no rows"),
    "missing column": ("task,size\nt1,3\n", "label"),
    "other tasks": ("task,label\nx1,cat\nx2,dog\n", "no name matches"),
    "other classes": ("task,label\nt1,Katze\nt2,Hund\n", "'Katze'"),
    "contradiction": ("task,label\nt1,cat\nt1,dog\n", "contradicts itself"),
    "missing value": ("task,label\nt1,cat\nt2,\n", "line 3"),
}


def refused(ran: Any, says: str) -> None:
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("crowdwise: ")
    assert ran.err.count("\n") == 1
    assert says.casefold() in ran.err.casefold()


def left_alone(folder: Path, before: set[Path]) -> None:
    assert set(folder.rglob("*")) == before


@pytest.mark.parametrize("kind", FILES)
def test_labels_that_cannot_be_used(kind: str, cw: Callable[..., Any], tmp_path: Path) -> None:
    content, says = FILES[kind]
    file = tmp_path / "labels.csv"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    before = set(tmp_path.rglob("*"))
    refused(cw("aggregate", file, "--out", tmp_path / "results"), says)
    left_alone(tmp_path, before)


@pytest.mark.parametrize("kind", OPTIONS)
def test_options_that_cannot_be_used(kind: str, cw: Callable[..., Any], tmp_path: Path) -> None:
    options, says = OPTIONS[kind]
    (tmp_path / "labels.csv").write_text(GOOD)
    (tmp_path / "truth.csv").write_text(MATCHING_TRUTH)
    before = set(tmp_path.rglob("*"))
    words = [option.format(tmp=tmp_path) for option in options]
    if "--out" not in words:
        words += ["--out", str(tmp_path / "results")]
    refused(cw("aggregate", tmp_path / "labels.csv", *words), says)
    left_alone(tmp_path, before)


@pytest.mark.parametrize("option", ["--truth", "--gold"])
@pytest.mark.parametrize("kind", TRUTHS)
def test_truth_that_cannot_be_used(
    kind: str, option: str, cw: Callable[..., Any], tmp_path: Path, labels: Path
) -> None:
    content, says = TRUTHS[kind]
    file = tmp_path / "known.csv"
    file.write_text(content)
    before = set(tmp_path.rglob("*"))
    refused(cw("aggregate", labels, option, file, "--out", tmp_path / "results"), says)
    left_alone(tmp_path, before)


@pytest.mark.parametrize("command", ["aggregate", "describe"])
def test_no_such_place(command: str, cw: Callable[..., Any], tmp_path: Path, labels: Path) -> None:
    refused(cw(command, tmp_path), "is a folder; give a file in it")
    refused(cw(command, tmp_path / "label.csv"), "Did you mean 'labels.csv'?")
    refused(cw(command, "-"), "standard input is empty")
    refused(cw(command), "Missing argument")
    refused(cw(command, "a\0b"), "cannot be opened")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_no_permission(cw: Callable[..., Any], tmp_path: Path, labels: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    refused(cw("aggregate", labels, "--out", closed / "results"), "may not write")
    labels.chmod(0)
    refused(cw("aggregate", labels), "may not be read")


def test_no_permission_to_write(
    cw: Callable[..., Any], tmp_path: Path, labels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # what anyone but root is told
    refused(cw("aggregate", labels, "--out", tmp_path / "results"), "you may not write")


def test_parquet_cut_short(cw: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "labels.parquet"
    pq.write_table(pa.table({"task": [1, 1], "worker": [1, 2], "label": ["a", "b"]}), file)
    file.write_bytes(file.read_bytes()[:-12])
    refused(cw("aggregate", file), "damaged or cut short")


def test_missing_values_in_parquet(cw: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "labels.parquet"
    pq.write_table(pa.table({"task": [1, 1, 2], "worker": [1, 2, 1], "label": ["a", None, "b"]}), file)
    refused(cw("aggregate", file), "row 1")


def test_disk_full(cw: Callable[..., Any], labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last file of the result does not fit: the earlier ones are gone too, and what was there is whole."""
    import errno

    from crowdwise.fitting import saving

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    results = tmp_path / "results"
    results.mkdir()
    (results / "consensus.csv").write_text("mine\n")
    before = set(tmp_path.rglob("*"))
    monkeypatch.setattr(saving.np, "savez", full)
    refused(cw("aggregate", labels, "--out", results), f"Writing '{results}/model' failed: No space left on device")
    left_alone(tmp_path, before)
    assert (results / "consensus.csv").read_text() == "mine\n"


def test_usage(cw: Callable[..., Any], tmp_path: Path) -> None:
    refused(cw("agregate"), "Did you mean 'aggregate'?")
    refused(cw("simulate", "spamers"), "Did you mean 'spammers'?")
    refused(cw("simulate", "spammers", "--tasks", "0"), "--tasks")
    refused(cw("simulate", "cifar-annotators", "--workers", "3"), "takes no --workers")
    refused(cw("simulate", "spammers", "--labels-per-task", "2000"), "labels_per_task")
    refused(cw("simulate", "spammers", "--out", tmp_path), "is a folder")
    refused(cw("simulate", "spammers", "--truth-out", "-"), "standard output")
    refused(cw("demo", "--out", "/proc/demo"), "/proc")
    assert list(tmp_path.iterdir()) == []


def test_message_is_one_inert_line(cw: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "bad\x1b[31m\nname.csv"
    file.write_text(HEADER + "t1,ann,cat\nt1,bob,\n")
    ran = cw("aggregate", file)
    refused(ran, "line 3")
    assert "\x1b" not in ran.err
