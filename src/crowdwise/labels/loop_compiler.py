"""numba's `njit` with a cache on disk that damage, a full disk and several processes at once do no harm.

numba's own cache raises whatever goes wrong with its files (a cut pickle, no space left, no right to read) in the
middle of a fit, and runs machine code whose bytes have changed. Here a file that cannot be used is compiled anew and
replaced, and where nothing can be written, loops are compiled in every process, with a note.

Each compiled version of a loop is a file of its own, named after its types and begun with a digest of what follows and
of all that it depends on; there is no index that two processes could write at once. Processes that start together take
turns: one compiles a loop, the others wait and read what it has kept.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import time
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler_lock import global_compiler_lock

try:
    import fcntl
except ImportError:  # Windows: every process compiles for itself
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["check_compiler", "njit"]

Function = TypeVar("Function", bound="Callable[..., Any]")
DIGEST = hashlib.sha256().digest_size
LONGEST_WAIT, PAUSE = 60.0, 0.01  # seconds for another process to compile a loop, which takes it ten at most


def njit(*, cache: bool = False, **options: Any) -> Callable[[Function], Function]:
    """As numba's; with `cache`, compiled code is kept on disk where that is possible."""

    def compile_when_called(function: Function) -> Function:
        # Without the entry for callers in C, of which there are none: a twentieth of the time to compile.
        compiled: Any = numba.njit(**options | {"no_cfunc_wrapper": True})(function)
        if cache:
            try:
                compiled._cache = _Cache(function)
            except Exception as error:  # no place to write: the function keeps numba's cache of nothing
                _warn_not_kept(str(error))
            else:
                compiled.compile = compiled._cache.end_turn_after(compiled.compile)
        made: Function = compiled
        return made

    return compile_when_called


class _Cache(FunctionCache):
    """Compiled versions of one function on disk; trouble with the files is never an error."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        found = self._impl
        self._cache_file = _Files(self._cache_path, found.filename_base, found.locator.get_source_stamp())
        self._turn = _Turn(os.path.join(self._cache_path, f"{found.filename_base}.lock"))  # noqa: PTH118

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = self._read(sig, target_context)
        if found is None and self._turn.wait():
            found = self._read(sig, target_context)  # another process may have kept it meanwhile
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as error:  # the code is compiled, and can run
            _warn_not_kept(f"{self._cache_path}: {getattr(error, 'strerror', None) or error}")

    def end_turn_after(self, compile_version: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The same, and let others have their turn, however it ends: kept, read, refused by numba or interrupted."""

        def compile_in_turn(sig: Any) -> Any:
            with global_compiler_lock:  # the turn is the process's: its threads share it one after the other
                is_nested = self._turn.file is not None
                try:
                    return compile_version(sig)
                finally:
                    if not is_nested:
                        self._turn.end()

        return compile_in_turn

    def _read(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whatever a damaged file leads to: it is compiled anew and replaced
            return None


class _Turn:
    """One process at a time compiles a function: it holds the lock of a file, which ends with the process.

    A process that is forked meanwhile has no part in it: it forgets its copy, which would keep the lock while it lives.

    Where the file cannot be locked, or another process takes too long, this one goes on without. Loops call only loops
    above them, so that no two processes wait for each other.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.file: int | None = None

    def wait(self) -> bool:
        """Wait until no other process compiles the function; whether the turn was taken."""
        if fcntl is None or self.file is not None:  # held already by a version of the function that needs another
            return False
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)  # noqa: PTH103, PTH120
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW, 0o600)
        except OSError:
            return False
        deadline = time.monotonic() + LONGEST_WAIT
        try:
            while time.monotonic() < deadline:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    time.sleep(PAUSE)
                except OSError:  # a file system without locks
                    break
                else:
                    self.file = file
                    _held.add(self)
                    break
        finally:
            if self.file is None:
                os.close(file)
        return self.file is not None

    def end(self) -> None:
        """Let others have their turn."""
        if self.file is not None:
            fcntl.flock(self.file, fcntl.LOCK_UN)  # also for a process forked meanwhile
            self.forget()

    def forget(self) -> None:
        """Close this process's file; a lock that another process has through its own copy stays."""
        if self.file is not None:
            os.close(self.file)
            self.file = None
            _held.discard(self)


_held: set[_Turn] = set()


def _forget_turns_of_parent() -> None:
    for each in list(_held):
        each.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_turns_of_parent)


class _Files(IndexDataCacheFile):
    """One file for each key."""

    def load(self, key: Any) -> Any:
        path, stamp = self._place(key)
        if not os.path.isfile(path):  # noqa: PTH113 - a pipe of this name would be waited for
            return None
        with open(path, "rb") as file:  # noqa: PTH123
            content = file.read()
        if content[:DIGEST] != _digest(stamp, content[DIGEST:]):
            return None
        return pickle.loads(content[DIGEST:])  # noqa: S301 - in the place of code, and trusted as code is

    def save(self, key: Any, data: Any) -> None:
        path, stamp = self._place(key)
        content: bytes = self._dump(data)
        with self._open_for_write(path) as file:
            file.write(_digest(stamp, content) + content)

    def _place(self, key: Any) -> tuple[str, bytes]:
        """The file of a key, and all that its content depends on.

        Types are the key of a file; another version of the source is written in its place.
        """
        signature, machine, source = key
        types = repr((signature, [_describe_fields(each) for each in signature], machine))
        stamp = repr((self._version, self._source_stamp, types, source)).encode()
        name = hashlib.sha256(types.encode()).hexdigest()[:16]
        return os.path.join(self._cache_path, self._index_name.replace(".nbi", f".{name}.nbc")), stamp  # noqa: PTH118


def _describe_fields(kind: Any) -> Any:
    """The fields of a NamedTuple, which its numba type does not name: their order is in the compiled code."""
    fields = getattr(getattr(kind, "instance_class", None), "_fields", ())
    return fields, [_describe_fields(each) for each in getattr(kind, "types", ())]


def _digest(stamp: bytes, content: bytes) -> bytes:
    return hashlib.sha256(hashlib.sha256(stamp).digest() + content).digest()


@functools.cache
def _warn_not_kept(reason: str) -> None:
    warnings.warn(
        f"Compiled loops cannot be kept ({reason}), and are compiled again in every process. Set NUMBA_CACHE_DIR to a "
        "folder with space that you may write to.",
        RuntimeWarning,
        stacklevel=2,
    )


@njit(cache=True, nogil=True)
def _add_one(number: int) -> int:
    return number + 1


def check_compiler() -> None:
    """Compile a loop and run it; raise what numba raises where it cannot."""
    if getattr(numba.config, "DISABLE_JIT", False):
        raise RuntimeError("NUMBA_DISABLE_JIT is set")
    if _add_one(1) != 2:
        raise RuntimeError("compiled code gives wrong results")
