"""Old names of parameters, which functions and models take for one more version, with a warning."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["RENAMED", "accept_seed", "rename_parameters"]

RENAMED = {"seed": "random_state"}
P = ParamSpec("P")
R = TypeVar("R")


def rename_parameters(given: Mapping[str, Any], owner: str, *, warn: bool = True) -> dict[str, Any]:
    """Parameters of a function or model under their present names; an old name is taken, with a warning."""
    for old in RENAMED.keys() & given.keys():
        if RENAMED[old] in given:
            raise TypeError(f"{owner} got both {RENAMED[old]} and {old}, which is its old name.")
        if warn:
            now = f"is now called {RENAMED[old]}; the old name will go with the next version."
            warnings.warn(f"The parameter {old} of {owner} {now}", DeprecationWarning, stacklevel=3)
    return {RENAMED.get(name, name): value for name, value in given.items()}


def accept_seed(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function that takes `random_state` take `seed` as well, with a warning."""

    @functools.wraps(function)
    def call_with_present_names(*args: P.args, **kwargs: P.kwargs) -> R:
        renamed: Any = rename_parameters(kwargs, function.__name__)
        return function(*args, **renamed)

    return call_with_present_names
