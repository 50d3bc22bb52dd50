"""Which code runs a loop over labels: NumPy, or loops that numba compiles.

The first compiled loop of a process costs a second to load, and on a fresh machine ten to compile. Small data are
therefore left to NumPy, and numba is not even imported. The data alone decide, so that the same labels give the same
bits whatever ran before. Only where numba cannot run at all, NumPy takes its place.
"""

from __future__ import annotations

import functools
import os
import pkgutil
import warnings
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.labels.errors import InputError, is_one_of, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ENGINES", "check_engine_name", "choose_engine", "choose_pass_engine", "use_engine"]

# The modules NAME_engine of the room of engines, which lies above this one: seen here, imported where they run.
_FOUND = pkgutil.iter_modules([str(Path(__file__).parent.parent / "engines")])
ENGINES = ("auto", *(each.name.removesuffix("_engine") for each in _FOUND if each.name.endswith("_engine")))
# Labels × classes up to which NumPy runs. A fit of Dawid and Skene ends sooner than compiled loops are loaded at three
# times as many (0.24 against 0.85 s of 150,000 labels, 5 classes, warm cache); methods that take many short steps fall
# behind from about here on, and those that hold a table for every label sooner, which they say themselves.
SMALL = 2**18
# Labels × classes from which a GPU runs the passes: below, the processor is done before PyTorch and Triton are loaded.
LARGE = 10**9
LOOPS = ("auto", "numba", "numpy")  # engines that run every loop over labels; the others run passes alone
_asked: ContextVar[Any] = ContextVar("engine", default=None)


def check_engine_name(name: Any) -> Any:
    """The name of an engine, or an engine itself, or an error that lists them."""
    if isinstance(name, type) and hasattr(name, "lay_out"):
        raise InputError(f"{name.__name__} is the class of an engine. Give an engine: {name.__name__}().")
    if not hasattr(name, "lay_out") and not is_one_of(name, ENGINES):
        raise InputError(f"There is no engine {quote(name)}. There are: {', '.join(ENGINES)}.")
    return name


def choose_engine(n_labels: int, n_classes: int) -> str:
    """`numpy` or `numba`: the one asked for by `use_engine` or CROWDWISE_ENGINE, else by the size of the data."""
    asked = _engine_asked_for()
    if asked not in LOOPS:
        asked = "auto"
    if asked == "numpy" or (asked == "auto" and n_labels * n_classes <= SMALL):
        return "numpy"
    fault = find_compiler_fault()
    if fault and asked == "numba":
        variable = _find_disabling_variable()
        advice = f"unset {variable}" if variable else "install numba anew: pip install --force-reinstall numba"
        raise InputError(f"The engine 'numba' cannot run here ({fault}). Use the engine 'numpy', or {advice}.")
    return "numpy" if fault else "numba"


def choose_pass_engine(n_labels: int, n_classes: int) -> Any:
    """The engine of passes over labels, by name or itself: the one asked for, a GPU where it pays, else as loops."""
    asked = _engine_asked_for()
    if asked == "cuda" or (asked == "auto" and n_labels * n_classes >= LARGE and has_gpu_driver()):
        fault = find_gpu_fault()
        if not fault:
            return "cuda"
        if asked == "cuda":
            message = f"The engine 'cuda' cannot run here ({fault}): the processor runs instead."
            warnings.warn(message, RuntimeWarning, stacklevel=3)
        return choose_engine(n_labels, n_classes)
    return choose_engine(n_labels, n_classes) if asked in LOOPS else asked


def _engine_asked_for() -> Any:
    return _asked.get() or check_engine_name(os.environ.get("CROWDWISE_ENGINE") or "auto")


def has_gpu_driver() -> bool:
    """Whether NVIDIA's driver is there, which is seen without importing anything."""
    return any(Path(name).exists() for name in ("/dev/nvidiactl", "/dev/dxg"))


@functools.cache
def find_gpu_fault() -> str:
    """Say why passes cannot run on a GPU here; "" where they can."""
    try:
        devices = import_module("crowdwise.engines.cuda_engine").find_devices()
    except Exception as error:  # a library that is missing or does not fit fails in many ways
        return " ".join(f"{type(error).__name__}: {error}".split())
    return "" if devices else "PyTorch sees no GPU"


@functools.cache
def find_compiler_fault() -> str:
    """Say why loops cannot be compiled here, with a warning the first time; "" where they can."""
    try:
        import_module("crowdwise.labels.loop_compiler").check_compiler()
    except Exception as error:  # a library that is missing or does not fit fails in many ways
        variable = _find_disabling_variable()
        said = f"{variable} is {quote(os.environ[variable])}" if variable else f"{type(error).__name__}: {error}"
        fault = " ".join(said.split())
        warnings.warn(
            f"Loops cannot be compiled here ({fault}): large data run in NumPy, which is slower.",
            RuntimeWarning,
            stacklevel=2,
        )
        return fault
    return ""


def _find_disabling_variable() -> str:
    """A variable of the environment by which numba compiles nothing or does not start; "" where there is none."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0").strip() not in ("", "0"):
        return "NUMBA_DISABLE_JIT"
    threads = os.environ.get("NUMBA_NUM_THREADS", "1").strip()
    return "NUMBA_NUM_THREADS" if threads.lstrip("+-").isdecimal() and int(threads) < 1 else ""


@contextmanager
def use_engine(name: Any) -> Iterator[None]:
    """Run what follows on this engine, by name or itself (`engines.Stream(…)`); None changes nothing."""
    token = _asked.set(_asked.get() if name is None else check_engine_name(name))
    try:
        yield
    finally:
        _asked.reset(token)
