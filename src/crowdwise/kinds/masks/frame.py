"""Height and width of a mask, checked before anything of that size is made."""

from __future__ import annotations

from typing import Any

from crowdwise.labels.errors import InputError, quote

__all__ = ["MOST_PIXELS", "check_frame"]

MOST_PIXELS = 2**26  # of one mask: 8,192 × 8,192; a file of a few bytes may say that it has more


def check_frame(size: Any) -> tuple[int, int]:
    """Height and width as two whole numbers, refused if they are none or too large.

    >>> check_frame([3, 4.0])
    (3, 4)
    """
    try:
        height, width = (float(each) for each in size)
    except (TypeError, ValueError) as error:
        raise InputError(f"its size is {quote(size)}; give height and width") from error
    if not (height >= 1 and width >= 1 and height.is_integer() and width.is_integer()):
        raise InputError(f"its height is {height:g} and its width {width:g}; both must be whole numbers from 1")
    if height * width > MOST_PIXELS:
        raise InputError(f"it has {height:,.0f} × {width:,.0f} pixels, more than {MOST_PIXELS:,}. Make it smaller")
    return int(height), int(width)
