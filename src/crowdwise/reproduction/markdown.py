"""Markdown in which names stay names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["escape_markdown", "markdown_table"]

SPECIAL = re.compile(r"([\\`*_\[\]#|$~])")


def escape_markdown(text: object) -> str:
    r"""A text on one line, none of which is read as Markdown or HTML.

    >>> print(escape_markdown("a|b *c* <script>"))
    a\|b \*c\* &lt;script&gt;
    """
    line = " ".join(str(text).split())
    return SPECIAL.sub(r"\\\1", line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; its cells are Markdown already."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
