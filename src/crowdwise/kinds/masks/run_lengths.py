"""Run lengths of masks as COCO writes them: counts of pixels outside, inside, outside, …, down the columns.

Counts are a list of numbers, or the text into which pycocotools packs them: from the fourth on the difference to the
count before the last, five bits a character, the lowest first, 32 in a character where more follow, 48 added to each.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kinds.masks.frame import check_frame
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.labels.types import BoolArray, IntArray

__all__ = ["count_runs", "decode_run_lengths", "encode_run_lengths", "pack_counts", "unpack_counts"]

MOST_BITS = 60  # of a count: a longer one overflows, and no frame is so large


def unpack_counts(text: str) -> IntArray:
    """Counts of a packed text.

    >>> unpack_counts("254").tolist()
    [2, 5, 4]
    """
    counts: list[int] = []
    number = shift = 0
    for letter in text:
        code = ord(letter) - 48
        if not 0 <= code < 64 or shift > MOST_BITS:
            raise InputError(f"counts hold {quote(letter)}, which packed run lengths do not have there")
        number |= (code & 31) << shift
        shift += 5
        if not code & 32:
            if code & 16:
                number -= 1 << shift
            counts.append(number + (counts[-2] if len(counts) > 2 else 0))
            number = shift = 0
    if shift:
        raise InputError("counts end within a number")
    return np.array(counts, np.int64)


def pack_counts(counts: Sequence[int]) -> str:
    """The counts as packed text."""
    letters: list[str] = []
    for place, count in enumerate(counts):
        number, more = int(count) - (int(counts[place - 2]) if place > 2 else 0), True
        while more:
            code, number = number & 31, number >> 5
            more = number != (-1 if code & 16 else 0)
            letters.append(chr(48 + code + 32 * more))
    return "".join(letters)


def encode_run_lengths(mask: BoolArray) -> str:
    """A mask (height, width) as JSON: its size and its packed counts.

    >>> encode_run_lengths(np.array([[False, True], [False, True]]))
    '{"size":[2,2],"counts":"22"}'
    """
    counts = count_runs(mask.ravel(order="F"))
    return json.dumps({"size": list(mask.shape), "counts": pack_counts(counts)}, separators=(",", ":"))


def count_runs(pixels: BoolArray) -> list[int]:
    """Counts of pixels outside, inside, outside, …; the first is 0 where the first pixel is inside.

    >>> count_runs(np.array([True, True, False]))
    [0, 2, 1]
    """
    ends = np.flatnonzero(pixels[1:] != pixels[:-1]) + 1
    counts: list[int] = np.diff(np.concatenate([[0], ends, [pixels.size]])).tolist()
    return [0, *counts] if pixels[0] else counts


def decode_run_lengths(given: Any, size: tuple[int, int] | None = None) -> BoolArray:
    """A mask (height, width) from run lengths.

    Parameters
    ----------
    given
        `{"size": [height, width], "counts": …}`, as a mapping or as JSON; or the counts alone.
    size
        Height and width where `given` does not say them.
    """
    if isinstance(given, bytes):
        given = given.decode("ascii", "replace")
    if isinstance(given, str) and given.lstrip().startswith(("{", "[")):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise InputError(f"it is no JSON ({quote(str(error))})") from error
    if isinstance(given, dict):
        if "counts" not in given or "size" not in given:
            raise InputError("it lacks size or counts")
        given, size = given["counts"], given["size"]
    if size is None:
        raise InputError('there is no size. Give {"size": [height, width], "counts": …}, or columns width and height')
    height, width = check_frame(size)
    counts = _as_counts(given)
    if (counts < 0).any():
        raise InputError(f"the counts hold {counts.min()}; a run is of no pixels or more")
    if not counts.size or (counts > height * width).any() or counts.sum() != height * width:
        raise InputError(f"the counts do not add up to the {height} × {width} pixels of its size")
    inside = np.repeat(np.arange(counts.size) % 2 == 1, counts)
    return inside.reshape(width, height).T


def _as_counts(given: Any) -> IntArray:
    if isinstance(given, bytes):
        given = given.decode("ascii", "replace")
    if isinstance(given, str):
        words = given.replace(",", " ").split()
        if len(words) < 2:
            return unpack_counts(given.strip())
        given = words
    try:
        counts = np.array([int(each) for each in given], np.int64)
        cut = isinstance(given, dict) or any(isinstance(each, float) and each != int(each) for each in given)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError("its counts are no whole numbers") from error
    if cut:
        raise InputError("its counts are no whole numbers")
    return counts
