"""numba's `njit` with a cache on disk that damage, a full disk and several processes at once do no harm.

numba's own cache raises whatever goes wrong with its files (a cut pickle, no space left, no right to read) in the
middle of a fit, and runs machine code whose bytes have changed. Here a file that cannot be used is compiled anew and
replaced, and where nothing can be written, loops are compiled in every process, with a note.

Each compiled version of a loop is a file of its own, named after its types and begun with a digest of what follows and
of all that it depends on; there is no index that two processes could write at once.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["check_compiler", "njit"]

Function = TypeVar("Function", bound="Callable[..., Any]")
DIGEST = hashlib.sha256().digest_size


def njit(*, cache: bool = False, **options: Any) -> Callable[[Function], Function]:
    """As numba's; with `cache`, compiled code is kept on disk where that is possible."""

    def compile_when_called(function: Function) -> Function:
        compiled: Any = numba.njit(**options)(function)
        if cache:
            try:
                compiled._cache = _Cache(function)
            except Exception as error:  # no place to write: the function keeps numba's cache of nothing
                _warn_not_kept(str(error))
        made: Function = compiled
        return made

    return compile_when_called


class _Cache(FunctionCache):
    """Compiled versions of one function on disk; trouble with the files is never an error."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        found = self._impl
        self._cache_file = _Files(self._cache_path, found.filename_base, found.locator.get_source_stamp())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whatever a damaged file leads to: it is compiled anew and replaced
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as error:  # the code is compiled, and can run
            _warn_not_kept(f"{self._cache_path}: {getattr(error, 'strerror', None) or error}")


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
