"""Unseen characters in columns of names: found, taken away, written out and read back."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.labels.unseen_characters import LETTER, UNSEEN

__all__ = ["drop_unseen", "escape_unseen", "has_unusual_letters", "restore_unseen", "text_bytes"]

FIRST_SEEN, DELETE = 0x20, 0x7F  # ASCII between them is seen
CODE = r"u[0-9a-f]{4}|U000[0-9a-f]{5}"
ESCAPED = re.compile(rf"(\\+)({CODE})")
TO_ESCAPE = re.compile(rf"(\\*)({LETTER.pattern}|(?<=\\)(?:{CODE}))")


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
    r"""Texts with unseen characters written out as \u200b or \U000e0001; an Arrow array or column.

    Backslashes before such a character, or before what looks like one written out, are doubled: different texts stay
    different.

    >>> for text in escape_unseen(pa.array(["a\u202eb", r"a\u202eb", "plain"])).to_pylist():
    ...     print(text)
    a\u202eb
    a\\u202eb
    plain
    """
    mask = pc.fill_null(pc.match_substring_regex(names, rf"{UNSEEN}|\\({CODE})"), False)
    if not pc.any(mask).as_py():
        return names
    texts = [TO_ESCAPE.sub(_escape, text) for text in names.filter(mask).to_pylist()]
    place = pc.max_element_wise(pc.subtract(pc.cumulative_sum(mask.cast(pa.int64())), 1), 0)
    return pc.if_else(mask, pa.array(texts, names.type).take(place), names)


def restore_unseen(names: pa.Array) -> pa.Array:
    r"""Texts as they were before `escape_unseen`; those of a file of other make stay.

    A file is of other make if unseen characters are in it as they are, or a text would become blank or hold a NUL.

    >>> restore_unseen(pa.array([r"a\u200bb", r"a\\u200bb", r"c\x1b"])).to_pylist()
    ['a\u200bb', 'a\\u200bb', 'c\\x1b']
    """
    written = text_bytes(names)
    if (b"\\u" not in written and b"\\U" not in written) or pc.any(pc.match_substring_regex(names, UNSEEN)).as_py():
        return names
    texts = [ESCAPED.sub(_restore, text) for text in names.to_pylist()]
    if any("\0" in text or (text and not LETTER.sub("", text).strip()) for text in texts):
        return names
    return pa.array(texts, names.type)


def _escape(found: re.Match[str]) -> str:
    backslashes, letter = found.groups()
    if len(letter) > 1:  # a code that is in the text
        return backslashes * 2 + letter if _is_of_unseen(letter) else found.group()
    number = ord(letter)
    return backslashes * 2 + (f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}")


def _restore(found: re.Match[str]) -> str:
    backslashes, code = found.groups()
    if not _is_of_unseen(code):
        return found.group()
    return backslashes[: len(backslashes) // 2] + (chr(int(code[1:], 16)) if len(backslashes) % 2 else code)


def _is_of_unseen(code: str) -> bool:
    return LETTER.match(chr(int(code[1:], 16))) is not None
