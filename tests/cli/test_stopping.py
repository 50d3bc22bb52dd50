"""Commands that are stopped, and commands that write several things of which one fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from crowdwise.cli.stop_signals import Stopped
from crowdwise.saved import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

N = 60
# The command in a process of its own, which gets a signal just after it has saved its model in a draft.
PROGRAM = """
import os, signal, sys, time
from crowdwise import MajorityVote
from crowdwise.cli import main
save = MajorityVote.save
def stopped(*given):
    save(*given)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(9)
MajorityVote.save = stopped
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(autouse=True)
def heeded_signals() -> Iterator[None]:
    """Signals as a terminal leaves them: tests begun in the background, or by nohup, inherit that they are ignored."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def train(cw: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=N)
    np.savez(tmp_path / "X.npz", X=rng.normal(size=(N, 3)) + 2 * truth[:, None])
    answers = [f"{task},{worker},{truth[task] ^ (rng.random() < 0.2)}\n" for task in range(N) for worker in "abc"]
    (tmp_path / "l.csv").write_text("task,worker,label\n" + "".join(answers))
    words = ["train", "--features", tmp_path / "X.npz", "--labels", tmp_path / "l.csv", "--network", "linear"]

    return lambda *more: cw(*words, "--epochs", 4, *more)


# ---- signals ------------------------------------------------------------------------------------------------------


def test_a_signal_leaves_nothing_half_written(labels: Path, tmp_path: Path) -> None:
    words = ["aggregate", labels, "--method", "majority-vote", "--out", tmp_path / "out"]
    program = [sys.executable, "-c", PROGRAM, *map(str, words)]
    ran = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (143, "")
    assert ran.stderr == "crowdwise: Stopped by SIGTERM, before all was done.\n"
    assert [path.name for path in tmp_path.iterdir()] == ["labels.csv"]


DROPPED = """
import os, signal, sys, time
from crowdwise import MajorityVote
from crowdwise.cli import main
class Removed:
    def __del__(self):
        os.kill(os.getpid(), int(sys.argv[1]))
        time.sleep(0.01)
save = MajorityVote.save
def stopped(*given):
    save(*given)
    Removed()
    time.sleep(9)
MajorityVote.save = stopped
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_python_drops_is_heard_all_the_same(number: int, labels: Path, tmp_path: Path) -> None:
    words = [int(number), "aggregate", labels, "--method", "majority-vote", "--out", tmp_path / "out"]
    program = [sys.executable, "-c", DROPPED, *map(str, words)]
    ran = subprocess.run(program, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stdout) == (128 + number, "")
    assert "Traceback" not in ran.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["labels.csv"]


@pytest.mark.parametrize(("raised", "code"), [(Stopped("Stopped by SIGHUP.", 129), 129), (KeyboardInterrupt(), 130)])
def test_a_stop_that_an_import_hides(
    raised: BaseException, code: int, cw: Callable[..., Any], labels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hide(_: Any) -> None:
        raise ImportError("initialization failed") from raised

    monkeypatch.setattr("crowdwise.cli.output_files.print_csv", hide)
    ran = cw("aggregate", labels, "--out", "-")
    assert ran.code == code
    assert "bug" not in ran.err


def test_signals_are_as_they_were(cw: Callable[..., Any], labels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        seen = []
        monkeypatch.setattr(
            "crowdwise.cli.output_files.print_csv",
            lambda _: seen.extend((signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP))),
        )
        assert cw("aggregate", labels, "--out", "-").code == 0
        assert seen[0] != signal.SIG_DFL
        assert seen[1] == signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


# ---- training -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_training_that_was_stopped_goes_on(
    number: signal.Signals, code: int, train: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crowdwise.learn.checkpoints import Checkpoint

    run, write = tmp_path / "run", Checkpoint.write

    def stops(*given: Any) -> None:
        write(*given)
        os.kill(os.getpid(), number)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "write", stops)
        ran = train("--checkpoint", run, "--out", tmp_path / "out")
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.strip() == (
        f"crowdwise: Training was stopped after 1 of 4 epochs. The checkpoint in {str(run)!r} holds epoch 1: "
        "run the same again to go on."
    )
    assert not (tmp_path / "out").exists()
    assert [path.name for path in run.iterdir()] == ["checkpoint.safetensors"]
    assert train("--checkpoint", run, "--out", tmp_path / "out").code == 0
    assert train("--out", tmp_path / "whole").code == 0
    one, other = (load(tmp_path / place / "model") for place in ("out", "whole"))
    np.testing.assert_array_equal(one.posterior_, other.posterior_)
    if number == signal.SIGTERM:
        refused = train("--checkpoint", run, "--seed", 1)
        assert refused.code == 2
        assert "was written with another random_state. Give the same settings to go on, or another" in refused.err


def test_training_without_a_checkpoint_says_how_to_have_one(
    train: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("crowdwise.learn.training_loop._epoch_scores", stops)
    ran = train()
    assert ran.code == 130
    assert ran.err.strip().endswith("nothing is kept. With --checkpoint DIR, the same command can go on later.")


def test_a_checkpoint_where_none_can_be(train: Callable[..., Any], tmp_path: Path) -> None:
    for place, message in ((tmp_path / "l.csv", "exists and is not a folder"), ("", "--checkpoint is empty")):
        ran = train("--checkpoint", place)
        assert (ran.code, ran.out) == (2, "")
        assert message in ran.err


# ---- several outputs ----------------------------------------------------------------------------------------------


def test_simulate_writes_both_files_or_none(cw: Callable[..., Any], tmp_path: Path) -> None:
    truth = tmp_path / "truth.csv"
    truth.write_text("before")
    (tmp_path / "link").symlink_to(truth)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("")
    for out, message in (
        (tmp_path, "is a folder"),
        (tmp_path / "file" / "labels.csv", "exists and is not a folder"),
        (tmp_path / "pipe", "not a plain file"),
        (tmp_path / "link", "name the same file"),
        ("", "--out is empty"),
    ):
        ran = cw("simulate", "spammers", "--tasks", 9, "--truth-out", truth, "--out", out)
        assert (ran.code, ran.out) == (2, "")
        assert message in ran.err
    assert truth.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link", "pipe", "truth.csv"]


def test_a_full_disk_changes_neither_file(
    cw: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crowdwise.labels import table_output

    written, write = [], table_output.pacsv.write_csv

    def fills_up(table: Any, path: Any) -> None:
        written.append(path)
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        write(table, path)

    monkeypatch.setattr(table_output.pacsv, "write_csv", fills_up)
    ran = cw("simulate", "spammers", "--tasks", 9, "--truth-out", tmp_path / "t.csv", "--out", tmp_path / "l.csv")
    assert (ran.code, list(tmp_path.iterdir())) == (2, [])
    assert f"Writing '{tmp_path}/t.csv" in ran.err
    assert "No space left on device. Nothing was changed" in ran.err


def test_report_writes_page_and_charts_or_neither(
    cw: Callable[..., Any], labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    charts = tmp_path / "charts"
    monkeypatch.setattr("crowdwise.report.page.make_report", lambda *_, **__: "\ud800")  # cannot be written as UTF-8
    ran = cw("report", labels, "--out", tmp_path / "page.html", "--charts", charts)
    assert ran.code != 0
    assert not charts.exists()
    assert not (tmp_path / "page.html").exists()


def test_predictions_are_written_before_any_json_is_printed(
    cw: Callable[..., Any], train: Callable[..., Any], tmp_path: Path
) -> None:
    assert train("--out", tmp_path / "out").code == 0
    words = ["predict", tmp_path / "out" / "model", "--features", tmp_path / "X.npz", "--json", "--out"]
    for out, message in ((tmp_path, "is a folder"), (tmp_path / "X.npz", "is a file that is read")):
        ran = cw(*words, out)
        assert (ran.code, ran.out) == (2, "")
        assert message in ran.err
