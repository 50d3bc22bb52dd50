"""Old names of parameters, which public functions take for one more version."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["accept_seed"]

P = ParamSpec("P")
R = TypeVar("R")


def accept_seed(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function that takes `random_state` take `seed` as well, with a warning."""

    @functools.wraps(function)
    def accepting(*args: P.args, **kwargs: P.kwargs) -> R:
        if "seed" in kwargs:
            if "random_state" in kwargs:
                raise TypeError(f"{function.__name__} got both random_state and seed, which is its old name.")
            warnings.warn(
                f"The parameter seed of {function.__name__} is now called random_state; the old name will go with the "
                "next version.",
                DeprecationWarning,
                stacklevel=2,
            )
            kwargs["random_state"] = kwargs.pop("seed")
        return function(*args, **kwargs)

    return accepting
