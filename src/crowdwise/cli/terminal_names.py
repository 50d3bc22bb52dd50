"""Names on the terminal: hostile until made visible, one line each, and cut to fit."""

from __future__ import annotations

import shlex

from rich.text import Text

from crowdwise.report.display_names import escape_unprintable

__all__ = ["display_name", "escape_unprintable", "quote_command"]

WIDTH = 24
MOST_MARKS = 4  # characters a cell may hold on average: names of stacked accents are cut by this


def display_name(name: object, width: int = WIDTH) -> Text:
    """Make a name inert text of at most `width` cells, in quotes if blanks at its ends would go unseen.

    >>> display_name("[red]ann ").plain
    "'[red]ann '"
    >>> display_name("a long name that goes on", 10).plain
    'a long na…'
    """
    plain = escape_unprintable(name)
    if plain != plain.strip() or not plain:
        plain = f"'{plain}'"
    if len(plain) > MOST_MARKS * width:
        plain = plain[: MOST_MARKS * width] + "…"
    text = Text(plain, no_wrap=True, overflow="ellipsis")
    text.truncate(width, overflow="ellipsis")
    return text


def quote_command(*words: str) -> str:
    """Write a command to copy, its words quoted for the shell where they need it."""
    return escape_unprintable(shlex.join(words))
