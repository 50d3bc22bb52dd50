"""Items that answer a prompt: the same text below two prompts is two items.

Their names are the prompt and the item with a character between that stands in no text, so that a model keeps both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from crowdwise.kinds.answer_table import AnswerTable
    from crowdwise.labels.types import IntArray

__all__ = ["join_names", "read_items", "split_names"]

BETWEEN = "\x1f"  # ASCII's own separator of units


def read_items(table: AnswerTable, left: str, right: str) -> tuple[IntArray, IntArray, pa.Array]:
    """Positions of the left and right items, and the items' names."""
    first, second, names = table.encode_together(left, right)
    if "prompt" not in table:
        return first, second, names
    prompts = table.encode("prompt")
    for role, texts in (("prompt", prompts.names), (left, names)):
        text = texts.cast(pa.string())
        if pc.any(pc.match_substring(text, BETWEEN)).as_py():
            raise InputError(f"Column {quote(table.names[role])} holds the character U+001F. Remove it.")
    keys = np.concatenate([prompts.codes.astype(np.int64) * len(names) + codes for codes in (first, second)])
    found, at, codes = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(at, kind="stable")  # as they come in the table
    place = np.empty(found.size, np.int32)
    place[order] = np.arange(found.size, dtype=np.int32)
    prompt, item = np.divmod(found[order], len(names))
    joined = join_names(prompts.names.take(pa.array(prompt)), names.take(pa.array(item)))
    both = place[codes]
    return both[: first.size], both[first.size :], joined


def join_names(prompts: pa.Array, items: pa.Array) -> pa.Array:
    """Names of items below prompts."""
    return pc.binary_join_element_wise(prompts.cast(pa.string()), items.cast(pa.string()), BETWEEN)


def split_names(names: pa.Array) -> tuple[pa.Array | None, pa.Array]:
    """Prompts and items of names; None for the prompts where items have none."""
    if not pa.types.is_string(names.type) or not pc.any(pc.match_substring(names, BETWEEN)).as_py():
        return None, names
    parts = pc.split_pattern(names, BETWEEN)
    return pc.list_element(parts, 0), pc.list_element(parts, 1)
