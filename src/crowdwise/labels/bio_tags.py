"""Classes that are BIO tags: O, and B-x and I-x for each type x of span (or plain B and I)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crowdwise.labels.types import BoolArray

__all__ = ["OUTSIDE", "allowed_followers", "parse_tag"]

OUTSIDE = "O"
TAG = re.compile(r"([BI])(?:-(.+))?")


def parse_tag(tag: Any) -> tuple[str, str] | None:
    """Letter and type of a tag, None if it is not one.

    >>> parse_tag("B-PER"), parse_tag("I"), parse_tag("O"), parse_tag("noun")
    (('B', 'PER'), ('I', ''), ('O', ''), None)
    """
    if tag == OUTSIDE:
        return OUTSIDE, ""
    match = TAG.fullmatch(tag) if isinstance(tag, str) else None
    return None if match is None else (match[1], match[2] or "")


def allowed_followers(classes: Iterable[Any]) -> BoolArray | None:
    """Which class may follow which, (K + 1, K) [before, after]; the last row is for the beginning of a sequence.

    I-x follows only B-x and I-x. None if the classes are not BIO tags: all must be, O and some B and I among them.

    >>> allowed_followers(["B", "I", "O"]).tolist()[2:]
    [[True, False, True], [True, False, True]]
    """
    tags = [parse_tag(name) for name in classes]
    known = [tag for tag in tags if tag is not None]
    if len(known) < len(tags) or {letter for letter, _ in known} != {"B", "I", OUTSIDE}:
        return None
    before: list[tuple[str, str]] = [*known, (OUTSIDE, "")]
    return np.array(
        [[letter != "I" or (old != OUTSIDE and kind == old_kind) for letter, kind in known] for old, old_kind in before]
    )
