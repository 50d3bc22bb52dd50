"""Which code runs a loop over labels: NumPy, or loops that numba compiles.

The first compiled loop of a process costs a second to load, and on a fresh machine ten to compile. Small data are
therefore left to NumPy, and numba is not even imported. The data alone decide, so that the same labels give the same
bits whatever ran before.
"""

from __future__ import annotations

import os
import pkgutil
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ENGINES", "check_engine_name", "choose_engine", "use_engine"]

# The modules NAME_engine of the room of engines, which lies above this one: seen here, imported where they run.
_FOUND = pkgutil.iter_modules([str(Path(__file__).parent.parent / "engines")])
ENGINES = ("auto", *(each.name.removesuffix("_engine") for each in _FOUND if each.name.endswith("_engine")))
# Labels × classes up to which NumPy runs. A fit of Dawid and Skene ends sooner than compiled loops are loaded at three
# times as many (0.24 against 0.85 s of 150,000 labels, 5 classes, warm cache); methods that take many short steps fall
# behind from about here on, and those that hold a table for every label sooner, which they say themselves.
SMALL = 2**18
_asked: ContextVar[str | None] = ContextVar("engine", default=None)


def check_engine_name(name: str) -> str:
    """The name of an engine, or an error that lists them."""
    if name not in ENGINES:
        raise InputError(f"There is no engine {name!r}. There are: {', '.join(ENGINES)}.")
    return name


def choose_engine(n_labels: int, n_classes: int) -> str:
    """`numpy` or `numba`: the one asked for by `use_engine` or CROWDWISE_ENGINE, else by the size of the data."""
    asked = _asked.get() or check_engine_name(os.environ.get("CROWDWISE_ENGINE") or "auto")
    if asked != "auto":
        return asked
    return "numpy" if n_labels * n_classes <= SMALL else "numba"


@contextmanager
def use_engine(name: str | None) -> Iterator[None]:
    """Run what follows on this engine; None changes nothing."""
    token = _asked.set(_asked.get() if name is None else check_engine_name(name))
    try:
        yield
    finally:
        _asked.reset(token)
