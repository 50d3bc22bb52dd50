"""Unseen characters in columns of names: found, taken away, written out and read back."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.labels.unseen_characters import LETTER, UNSEEN, escape_character

__all__ = ["drop_unseen", "escape_unseen", "has_unusual_letters", "restore_unseen", "text_bytes"]

FIRST_SEEN, DELETE = 0x20, 0x7F  # ASCII between them is seen
ESCAPED = re.compile(r"\\(?:u[0-9a-f]{4}|U000[0-9a-f]{5})")


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
    texts = [LETTER.sub(lambda found: escape_character(found.group()), text) for text in names.filter(mask).to_pylist()]
    place = pc.max_element_wise(pc.subtract(pc.cumulative_sum(mask.cast(pa.int64())), 1), 0)
    return pc.if_else(mask, pa.array(texts, names.type).take(place), names)


def restore_unseen(names: pa.Array) -> pa.Array:
    r"""Texts in which `escape_unseen` wrote `\u200b` and the like, as they were; those of a file of other make stay.

    Controls stay written out: `\x10` may as well be the beginning of a file name on Windows.

    >>> restore_unseen(pa.array([r"a\u200bb", r"c\x1b"])).to_pylist()
    ['a\u200bb', 'c\\x1b']
    """
    written = text_bytes(names)
    if (b"\\u" not in written and b"\\U" not in written) or pc.any(pc.match_substring_regex(names, UNSEEN)).as_py():
        return names
    return pa.array([ESCAPED.sub(_restore, text) for text in names.to_pylist()], names.type)


def _restore(found: re.Match[str]) -> str:
    letter = chr(int(found.group()[2:], 16))
    return letter if LETTER.match(letter) else found.group()
