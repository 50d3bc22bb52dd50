"""Names on the terminal: hostile until made visible, one line each, and cut to fit."""

from __future__ import annotations

import shlex

from rich.text import Text

__all__ = ["shell", "shown", "visible"]

WIDTH = 24
MOST_MARKS = 4  # characters a cell may hold on average: names of stacked accents are cut by this


def visible(text: object) -> str:
    r"""Escape what does not print: control characters, line breaks, marks that turn the reading order.

    >>> print(visible("a\x1b[31mb\u202ec"))
    a\x1b[31mb\u202ec
    """
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in str(text))


def shown(name: object, width: int = WIDTH) -> Text:
    """Make a name inert text of at most `width` cells, in quotes if blanks at its ends would go unseen.

    >>> shown("[red]ann ").plain
    "'[red]ann '"
    >>> shown("a long name that goes on", 10).plain
    'a long na…'
    """
    plain = visible(name)
    if plain != plain.strip() or not plain:
        plain = f"'{plain}'"
    if len(plain) > MOST_MARKS * width:
        plain = plain[: MOST_MARKS * width] + "…"
    text = Text(plain, no_wrap=True, overflow="ellipsis")
    text.truncate(width, overflow="ellipsis")
    return text


def shell(*words: str) -> str:
    """Write a command to copy, its words quoted for the shell where they need it."""
    return visible(shlex.join(words))
