"""Places, names and settings that a command is run with: refused in words, or no harm done."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from crowdwise import cli

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("cat=.9,dog=.1,cat=.9", "names 'cat' twice"),
        ("cat=.5,cat=.5", "names 'cat' twice"),
        ("cat=1e308,dog=1e308", "'cat=1e308' is no share"),
        ("cat=nan,dog=.1", "'cat=nan' is no share"),
        ("cat=-1,dog=2", "'cat=-1' is no share"),
    ],
)
def test_class_prior(given: str, said: str, cw: Callable[..., Any], labels: Path) -> None:
    ran = cw("aggregate", labels, "--method", "dawid-skene", "--class-prior", given)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_results_do_not_replace_what_is_read(cw: Callable[..., Any], labels: Path) -> None:
    """Also where the file has another name: a link, or another way to the same folder."""
    place = labels.parent / "results"
    place.mkdir()
    os.link(labels, place / "workers.csv")
    ran = cw("aggregate", labels, "--method", "majority-vote", "--out", place)
    assert ran.code == 2
    assert "is a file that is read, and would be lost" in ran.err
    assert labels.read_text() == (place / "workers.csv").read_text()


def test_labels_and_truth_of_a_simulation_in_one_file(cw: Callable[..., Any], tmp_path: Path) -> None:
    ran = cw("simulate", "spammers", "--out", tmp_path / "a.csv", "--truth-out", tmp_path / "." / "b" / ".." / "a.csv")
    assert ran.code == 2
    assert "name the same file" in ran.err
    assert not list(tmp_path.iterdir())


def test_simulation_that_cannot_be_written(cw: Callable[..., Any], tmp_path: Path) -> None:
    """Both files, or none."""
    (tmp_path / "truth.csv").write_text("before")
    for bad in (tmp_path, "/dev/full"):
        ran = cw("simulate", "spammers", "--tasks", 5, "--out", bad, "--truth-out", tmp_path / "truth.csv")
        assert ran.code == 2
        assert [each.name for each in tmp_path.iterdir()] == ["truth.csv"]
        assert (tmp_path / "truth.csv").read_text() == "before"


def test_name_that_is_no_text(cw: Callable[..., Any]) -> None:
    ran = cw("aggregate", os.fsdecode(b"caf\xe9.csv"))
    assert ran.code == 2
    assert r"caf\udce9.csv' on the command line is no text. It is not UTF-8: rename the file" in ran.err
    assert cw("compare", "x.csv", "--seed", "\ud800").code == 2  # no system gives such a word, but a caller may
    hidden = "Zo\u00eb.csv".encode().decode("ascii", "surrogateescape")  # as Python reads it in the locale C
    assert "set PYTHONUTF8=1" in cw("aggregate", hidden).err


@pytest.mark.parametrize("columns", ["0", "1", "-5", "x"])
def test_width_of_no_terminal(
    columns: str, cw: Callable[..., Any], labels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    ran = cw("aggregate", labels, "--method", "majority-vote")
    assert ran.code == 0
    assert ran.out.startswith("Consensus on 4 tasks from")


def test_warning_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(**_given: Any) -> int:
        warnings.warn("Compiled loops cannot be kept.", RuntimeWarning, stacklevel=1)
        return 0

    monkeypatch.setattr("crowdwise.cli.app.app", warn)
    assert cli.main(["methods"]) == 2  # warnings are errors here
    assert "Compiled loops cannot be kept. (A warning, which -W error" in capsys.readouterr().err
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert cli.main(["methods"]) == 0
    assert capsys.readouterr().err == "crowdwise: Compiled loops cannot be kept.\n"


def test_without_docstrings() -> None:
    """Python -OO drops them: what is read from them is left out, with a note; altair cannot do without."""
    program = """if True:
        from crowdwise.cli import main
        print(main(["methods"]))
        try:
            import crowdwise.report.charts
        except ValueError as error:
            print(error)
        """
    ran = subprocess.run([sys.executable, "-OO", "-c", program], capture_output=True, text=True, check=True)
    assert "are in docstrings, which Python leaves out with -OO" in ran.stderr
    code, refused = ran.stdout.splitlines()[-2:]
    assert (code, "run Python without -OO" in refused) == ("0", True)


@pytest.mark.parametrize(
    "words",
    [
        ("report", "days/*.csv", "--out", "days/a.csv"),
        ("audit", "days/*.csv", "--prune-to", "days/a.csv"),
        ("aggregate", "days/consensus*.csv", "--out", "days"),
        ("train", "--labels", "days/workers.csv", "--features", "x.npz", "--out", "days"),
        ("train", "--labels", "days/a.csv", "--features", "days/history.csv:x", "--out", "days"),
        ("predict", "model", "--features", "x.npz", "--out", "model/model.json"),
    ],
)
def test_no_input_is_replaced(cw: Callable[..., Any], tmp_path: Path, monkeypatch: Any, words: tuple[str, ...]) -> None:
    """Also where it is one of the files of a pattern, a part of a model, or an array of a file."""
    monkeypatch.chdir(tmp_path)
    for folder in ("days", "model"):
        (tmp_path / folder).mkdir()
    for name in ("days/a.csv", "days/consensus.csv", "days/workers.csv", "days/history.csv", "model/model.json"):
        (tmp_path / name).write_text("task,worker,label\nt,a,x\nt,b,y\n")
    ran = cw(*words)
    assert ran.code == 2
    assert "is a file that is read, and would be lost" in ran.err


def test_a_file_that_begins_like_an_archive_and_ends(cw: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "z.csv").write_bytes(b"PK\x03\x04")
    assert cw("describe", tmp_path / "z.csv").code == 2


def test_standard_output_is_not_replaced(cw: Callable[..., Any], labels: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("kept\n")
    words = [sys.executable, "-m", "crowdwise", "simulate", "spammers", "--tasks", "3", "--out", "/dev/stdout"]
    with log.open("a") as stream:
        ran = subprocess.run(words, stdout=stream, stderr=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, log.read_text()) == (2, "kept\n")
    assert "Use - for standard output" in ran.stderr


def test_a_page_and_charts_of_one_name(cw: Callable[..., Any], labels: Path, tmp_path: Path) -> None:
    ran = cw("report", labels, "--out", tmp_path / "r", "--charts", tmp_path / "." / "r")
    assert (ran.code, ran.out) == (2, "")
    assert "--out and --charts have the same name" in ran.err
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    "error",
    [RuntimeError("can't start new thread"), ImportError("lib.so: failed to map segment from shared object")],
    ids=["thread", "library"],
)
def test_no_room_for_a_thread_or_a_library(
    error: Exception, cw: Callable[..., Any], labels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("threading.Thread.start", refuse)
    ran = cw("aggregate", labels)
    assert ran.code == 2
    assert "not enough memory" in ran.err


def test_standard_input_that_cannot_be_read(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as stream:
        ran = subprocess.run(
            [sys.executable, "-m", "crowdwise", "describe", "-"],
            stdin=stream, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert ran.returncode == 2
    assert "Standard input cannot be read" in ran.stderr


def test_a_folder_is_no_standard_output(cw: Callable[..., Any], labels: Path, tmp_path: Path) -> None:
    ran = cw("report", labels, "--out", tmp_path / "r.html", "--charts", "-")
    assert (ran.code, ran.out) == (2, "")
    assert "--charts is -, but several files are written" in ran.err


def _run(words: list[str], folder: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", " ".join(words)], cwd=folder, capture_output=True, text=True, check=False, **more
    )


@pytest.mark.skipif(os.name != "posix", reason="a limit of the shell")
def test_a_full_disk_behind_an_unbuffered_standard_output(tmp_path: Path) -> None:
    """With python -u the system writes what fits, and Python says nothing of the rest."""
    command = [sys.executable, "-u", "-m", "crowdwise", "simulate", "spammers", "--tasks", "200", "--out", "-"]
    ran = _run(["ulimit -f 1;", *command, "> out.csv"], tmp_path)
    assert ran.returncode == 2
    assert "Writing the output failed: File too large" in ran.stderr


@pytest.mark.skipif(os.name != "posix", reason="a shell that closes")
def test_a_closed_standard_output_loses_no_result(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "crowdwise", "simulate", "spammers", "--tasks", "5", "--out"]
    ran = _run([*command, "-", ">&-"], tmp_path)
    assert ran.returncode == 2
    assert "Standard output is closed" in ran.stderr
    assert _run([*command, "l.csv", ">&-"], tmp_path).returncode == 0
    page = [sys.executable, "-c", "'from crowdwise.cli import output_files as o, main; import sys; main([]);",
            "o.print_text(str())'"]  # fmt: skip
    assert "Standard output is closed" in _run([*page, ">&-"], tmp_path).stderr


@pytest.mark.skipif(os.name != "posix", reason="a folder that is in use can be removed")
def test_a_working_folder_that_is_gone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "crowdwise", "simulate", "spammers", "--out", "l.csv"]
    ran = _run(["mkdir gone; cd gone; rmdir ../gone;", *command], tmp_path)
    assert ran.returncode == 2
    assert "The working folder is gone" in ran.stderr


def test_warnings_of_others_are_their_first_line(capsys: pytest.CaptureFixture[str]) -> None:
    cli._print_warning(UserWarning("A setting is bad.\nTraceback (most recent call last):\n  File"))
    assert capsys.readouterr().err == "crowdwise: A setting is bad.\n"
