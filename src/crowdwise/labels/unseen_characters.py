"""Characters that are in a text and not seen: controls, marks that turn the reading order, and what has no width.

Two names that differ in them look alike, and a mark of direction shows letters in an order in which they do not stand.
They are made visible wherever names are written for people.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "UNSEEN",
    "drop_unseen",
    "escape_letters",
    "escape_unseen",
    "has_unusual_letters",
    "restore_unseen",
    "text_bytes",
]

# Tabs and line breaks are seen, and so is what the last two variation selectors do to an emoji.
_RANGES = (
    (0x00, 0x08), (0x0B, 0x0C), (0x0E, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C),
    (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F),
    (0x2800, 0x2800), (0x3164, 0x3164), (0xFE00, 0xFE0D), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB),
    (0xE0000, 0xE0FFF),
)  # fmt: skip
FIRST_SEEN, DELETE = 0x20, 0x7F  # ASCII between them is seen
# For RE2, which Arrow uses, and for Python, which does not know \x{…}.
UNSEEN = "[" + "".join(rf"\x{{{low:x}}}-\x{{{high:x}}}" for low, high in _RANGES) + "]"
_PYTHON = re.compile("[" + "".join(f"{re.escape(chr(low))}-{re.escape(chr(high))}" for low, high in _RANGES) + "]")
_ESCAPED = re.compile(r"\\(?:u[0-9a-f]{4}|U000[0-9a-f]{5})")


def text_bytes(names: pa.Array) -> bytes:
    """All texts in one, and maybe what lies around them: to look for something in, much faster than text by text."""
    data = names.buffers()[2]
    found: bytes = b"" if data is None else data.to_pybytes()
    return found


def has_unusual_letters(names: pa.Array) -> bool:
    """Whether any text has a control or a letter beyond ASCII."""
    letters = np.frombuffer(text_bytes(names), np.uint8)
    return bool(letters.size) and bool(letters.min() < FIRST_SEEN or letters.max() >= DELETE)


def drop_unseen(names: pa.Array) -> pa.Array:
    """Texts without their unseen characters."""
    return pc.replace_substring_regex(names, UNSEEN, "")


def escape_unseen(names: Any) -> Any:
    r"""Texts with unseen characters written out; an Arrow array or column.

    >>> escape_unseen(pa.array(["a\u202eb", "plain"])).to_pylist()
    ['a\\u202eb', 'plain']
    """
    mask = pc.fill_null(pc.match_substring_regex(names, UNSEEN), False)
    if not pc.any(mask).as_py():
        return names
    texts = [_PYTHON.sub(lambda found: _escape(found.group()), text) for text in names.filter(mask).to_pylist()]
    place = pc.max_element_wise(pc.subtract(pc.cumulative_sum(mask.cast(pa.int64())), 1), 0)
    return pc.if_else(mask, pa.array(texts, names.type).take(place), names)


def restore_unseen(names: pa.Array) -> pa.Array:
    r"""Texts in which `escape_unseen` wrote `\u200b` and the like, as they were; those of a file of other make stay.

    Controls stay written out: `\x10` may as well be the beginning of a file name on Windows.
    """
    written = text_bytes(names)
    if (b"\\u" not in written and b"\\U" not in written) or pc.any(pc.match_substring_regex(names, UNSEEN)).as_py():
        return names
    return pa.array([_ESCAPED.sub(_restore, text) for text in names.to_pylist()], names.type)


def _restore(found: re.Match[str]) -> str:
    letter = chr(int(found.group()[2:], 16))
    return letter if _PYTHON.match(letter) else found.group()


def escape_letters(text: str) -> str:
    r"""A text on one line: unseen characters, breaks, and blanks of other kinds than the common one written out.

    >>> print(escape_letters("a\u200b\nb"))
    a\u200b\nb
    """
    if text.isprintable() and not _PYTHON.search(text):
        return text
    return "".join(letter if letter.isprintable() and not _PYTHON.match(letter) else _escape(letter) for letter in text)


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode()
