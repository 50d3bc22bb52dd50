"""Names of workers, tasks and classes as pages and charts show them: one line, nothing unseen, and not endless."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from crowdwise.labels.unseen_characters import escape_letters

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["display_name", "distinct_names", "escape_unprintable", "limit_width"]

LAST_SHORT = "\uffff"  # letters behind it take two units of UTF-16
LONGEST = 120  # letters that are kept of a name; a page may hold ten thousand of them


def escape_unprintable(text: object) -> str:
    r"""Escape what does not print: control characters, line breaks, marks that turn the reading order.

    >>> print(escape_unprintable("a\x1b[31mb\u202ec"))
    a\x1b[31mb\u202ec
    """
    return escape_letters(str(text))


def display_name(name: object, most: int = LONGEST) -> str:
    r"""A name with what does not print made visible (breaks, controls, marks that turn the reading order), and cut.

    Letters of scripts that are written from the right stay as they are: the page keeps them to themselves.

    >>> print(display_name("a\nb\u202ec"), display_name("abcdef", 4))
    a\nb\u202ec abc…
    """
    raw = str(name)
    text = escape_unprintable(raw[: most + 1])
    if len(text) > most or len(raw) > most:
        text = text[: most - 1] + "…"
    return text if text.strip() == text and text else f"‘{text}’"


def distinct_names(names: Sequence[Any], most: int = LONGEST) -> list[str]:
    """Names shown so that no two are alike: those that would be, once cut, are told apart by their position.

    >>> distinct_names(["ann", "long name 1", "long name 2"], 8)
    ['ann', 'long na… (2)', 'long na… (3)']
    """
    texts = [display_name(name, most) for name in names]
    times = Counter(texts)
    return [text if times[text] == 1 else f"{text} ({place})" for place, text in enumerate(texts, start=1)]


def limit_width(names: Sequence[str], most: int) -> int:
    """The width at which Vega cuts these names; 0 (never) where it might cut a letter in two, and fail to draw it.

    >>> limit_width(["ann", "bob"], 110), limit_width(["ann", "\U0001f600"], 110)
    (110, 0)
    """
    return 0 if any(letter > LAST_SHORT for name in names for letter in name) else most
