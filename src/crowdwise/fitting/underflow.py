"""Numbers too small to be told from 0: what NumPy makes of them, whatever the program around says of errors.

Exponentials of long sums underflow to 0 in nearly every fit, and mean 0. NumPy says nothing of that by default, but a
program may ask it to raise. Nothing else is changed: a division by 0 that is not foreseen is still told.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ignore_underflow"]

P = ParamSpec("P")
R = TypeVar("R")


def ignore_underflow(function: Callable[P, R]) -> Callable[P, R]:
    """The function, in which underflows are 0."""

    @functools.wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        with np.errstate(under="ignore"):
            return function(*args, **keywords)

    return call
