"""Compiled code on disk: whatever happens to the files, a loop runs and gives the same."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from crowdwise.labels import loop_compiler

if TYPE_CHECKING:
    from pathlib import Path

LOOP = """
from crowdwise.labels.loop_compiler import njit

@njit(cache=True, nogil=True)
def double(number):
    return 2 * number
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module with one loop, compiled and kept beside it."""
    monkeypatch.setattr(loop_compiler.numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # of a file written anew in the same second
    path = tmp_path / "one_loop.py"
    path.write_text(LOOP)
    assert load(path).double(21) == 42
    return path


def load(path: Path) -> Any:
    """The module as a new process has it: nothing compiled yet."""
    spec = importlib.util.spec_from_file_location("one_loop", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def kept_file(module: Path) -> Path:
    (found,) = module.parent.glob("__pycache__/*.nbc")
    return found


def was_read(double: Any) -> bool:
    return sum(double.stats.cache_hits.values()) == 1


def test_kept_code_is_read(module: Path) -> None:
    again = load(module)
    assert again.double(21) == 42
    assert was_read(again.double)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:100])


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1  # within the machine code, which would run
    file.write_bytes(content)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def turn_into_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize("damage", [cut, flip_a_bit, empty, turn_into_pipe])
def test_damaged_file_is_replaced(damage: Any, module: Path) -> None:
    damage(kept_file(module))
    again = load(module)
    assert again.double(21) == 42
    assert not was_read(again.double)
    third = load(module)
    assert third.double(21) == 42
    assert was_read(third.double)


def test_other_source_at_the_same_line_is_compiled(module: Path) -> None:
    module.write_text(LOOP.replace("2 *", "3 *"))
    assert load(module).double(21) == 63
    assert kept_file(module)  # in the place of the other


def test_what_cannot_be_written_is_noted_once(module: Path) -> None:
    kept = kept_file(module)
    kept.unlink()
    kept.mkdir()
    loop_compiler._warn_not_kept.cache_clear()
    with pytest.warns(RuntimeWarning, match=r"Compiled loops cannot be kept \(.*: Is a directory\).*NUMBA_CACHE_DIR"):
        assert load(module).double(21) == 42
    assert load(module).double(21) == 42  # warnings are errors here


def test_no_place_for_compiled_code(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_compiler.FunctionCache._impl_class, "_locator_classes", [])
    loop_compiler._warn_not_kept.cache_clear()
    with pytest.warns(RuntimeWarning, match="no locator available"):
        assert load(module).double(21) == 42


def can_be_locked(path: str) -> bool:
    """Whether no process holds the lock of a file."""
    fcntl = pytest.importorskip("fcntl")
    with open(path, "rb") as file:  # noqa: PTH123
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_turn_ends_where_compiling_fails(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    double = load(module).double
    turn = double._cache._turn
    with pytest.raises(Exception, match="Cannot determine Numba type"):
        double({})
    assert turn.file is None
    assert can_be_locked(turn.path)

    def stop(*_: object) -> None:
        assert not can_be_locked(turn.path)
        raise KeyboardInterrupt

    monkeypatch.setattr(double._compiler, "compile", stop)
    with pytest.raises(KeyboardInterrupt):
        double(2.5)
    assert can_be_locked(turn.path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_turn_is_not_that_of_a_child(module: Path) -> None:
    """A child that lives on must not keep the lock; nor may it end its parent's turn."""
    turn = load(module).double._cache._turn
    assert turn.wait()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        forgotten = turn.file is None
        turn.end()
        os.read(reader, 1)  # until the parent closes its end
        os._exit(0 if forgotten else 1)
    os.close(reader)
    assert not can_be_locked(turn.path)
    turn.end()
    free = can_be_locked(turn.path)
    os.close(writer)
    assert os.waitpid(child, 0)[1] == 0
    assert free


FIT = """
import numpy as np, crowdwise as cw
made = cw.simulate.simulate("dawid-skene", n_tasks=20_000, n_workers=20, n_classes=3, labels_per_task=5, random_state=0)
for method in (cw.MajorityVote(), cw.OneCoin(), cw.Glad(max_iter=2)):
    assert np.isfinite(method.fit(made.labels).posterior_).all()
cw.DawidSkene(engine="numba").fit(made.labels)
"""


def test_numba_that_does_not_fit(tmp_path: Path) -> None:
    """Large data run in NumPy, with a note; compiled loops that were asked for are refused."""
    broken = tmp_path / "numba" / "__init__.py"
    broken.parent.mkdir()
    broken.write_text("raise ImportError('Numba needs NumPy 2.3 or less.')")
    places = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    ran = subprocess.run(
        [sys.executable, "-c", FIT],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stderr.count("Loops cannot be compiled here (ImportError: Numba needs NumPy 2.3 or less.)") == 1
    refused = ran.stderr.splitlines()[-1]
    assert "InputError: The engine 'numba' cannot run here (ImportError: Numba needs NumPy 2.3 or less.)." in refused


@pytest.mark.parametrize(("variable", "value"), [("NUMBA_DISABLE_JIT", "1"), ("NUMBA_NUM_THREADS", "0")])
def test_a_variable_that_stops_numba_is_named(variable: str, value: str) -> None:
    environment = os.environ | {variable: value}
    ran = subprocess.run([sys.executable, "-c", FIT], env=environment, capture_output=True, text=True, check=False)
    assert ran.stderr.count(f"Loops cannot be compiled here ({variable} is '{value}')") == 1
    advice = f"({variable} is '{value}'). Use the engine 'numpy', or unset {variable}."
    assert ran.stderr.splitlines()[-1].endswith(f"The engine 'numba' cannot run here {advice}")


COMPILE_TOGETHER = """
import sys
sys.path.insert(0, sys.argv[1])
import one_loop
print("ready", flush=True)
sys.stdin.readline()
assert one_loop.double(21) == 42
print(sum(one_loop.double.stats.cache_hits.values()))
"""


def test_processes_that_start_together_compile_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    (tmp_path / "one_loop.py").write_text(LOOP)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen([sys.executable, "-c", COMPILE_TOGETHER, str(tmp_path)], **pipes) for _ in range(2)]
    assert [each.stdout.readline() for each in both] == ["ready\n"] * 2
    for each in both:
        each.stdin.write("\n")
        each.stdin.flush()
    assert sorted(each.communicate()[0] for each in both) == ["0\n", "1\n"]


def test_a_process_that_never_ends_is_not_waited_for(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_compiler, "LONGEST_WAIT", 0.05)
    kept_file(module).unlink()
    again = load(module)
    other = loop_compiler._Turn(again.double._cache._turn.path)
    assert other.wait()
    assert again.double(21) == 42
    assert not was_read(again.double)
    other.end()
    assert kept_file(module).exists()
