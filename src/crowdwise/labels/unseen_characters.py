"""Characters that are in a text and not seen: controls, marks that turn the reading order, and what has no width.

Two names that differ in them look alike, and a mark of direction shows letters in an order in which they do not stand.
They are made visible wherever names are written for people. `unseen_in_columns` does the same with columns.
"""

from __future__ import annotations

import re

__all__ = ["LETTER", "UNSEEN", "escape_character", "escape_letters"]

# Tabs and line breaks are seen, and so is what the last two variation selectors do to an emoji.
RANGES = (
    (0x00, 0x08), (0x0B, 0x0C), (0x0E, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C),
    (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F),
    (0x2800, 0x2800), (0x3164, 0x3164), (0xFE00, 0xFE0D), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB),
    (0xE0000, 0xE0FFF),
)  # fmt: skip
LETTER = re.compile("[" + "".join(f"{re.escape(chr(low))}-{re.escape(chr(high))}" for low, high in RANGES) + "]")
UNSEEN = "[" + "".join(rf"\x{{{low:x}}}-\x{{{high:x}}}" for low, high in RANGES) + "]"  # the same for RE2, Arrow's own


def escape_letters(text: str) -> str:
    r"""A text on one line: unseen characters, breaks, and blanks of other kinds than the common one written out.

    >>> print(escape_letters("a\u200b\nb"))
    a\u200b\nb
    """
    if text.isprintable() and not LETTER.search(text):
        return text
    seen = (letter.isprintable() and not LETTER.match(letter) for letter in text)
    return "".join(letter if shown else escape_character(letter) for letter, shown in zip(text, seen, strict=True))


def escape_character(letter: str) -> str:
    r"""One character as \x1b, \u200b or \U000e0001."""
    return letter.encode("unicode_escape").decode()
