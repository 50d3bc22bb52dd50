"""What tables call the outcome of a comparison: a side, a tie, or the name of the better item."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.labels.errors import InputError, listing, quote

if TYPE_CHECKING:
    from crowdwise.kinds.answer_table import AnswerTable
    from crowdwise.labels.types import IntArray

__all__ = ["OUTCOMES", "read_outcomes"]

OUTCOMES = ("left", "tie", "right")
# Compared without case, blanks, dots, dashes, underscores and brackets.
WORDS = {
    1: ("left", "l", "a", "modela", "itema", "optiona", "responsea", "first"),
    -1: ("right", "r", "b", "modelb", "itemb", "optionb", "responseb", "second"),
    0: ("tie", "tied", "draw", "equal", "same", "both", "neither", "bothgood", "bothbad", "tiebothbad", "nopreference"),
}
MEANING = {word: outcome for outcome, words in WORDS.items() for word in words}


def read_outcomes(table: AnswerTable, left: str, right: str) -> IntArray:
    """Outcome of each answer (n,): 1 for left, -1 for right, 0 for a tie.

    Where every outcome that is no tie is the name of one of the answer's two items, it means that item; "a" and "b" may
    be both.
    """
    said = table.encode("outcome")
    words = [re.sub(r"[\s._:()\-]+", "", str(name)).casefold() for name in said.names.to_pylist()]
    ties = np.array([MEANING.get(word) == 0 for word in words])[said.codes]
    texts = (pc.utf8_trim_whitespace(table.columns[role].cast(pa.string())) for role in ("outcome", left, right))
    outcome, first, second = (each.combine_chunks() for each in texts)
    is_left, is_right = (np.asarray(pc.equal(outcome, item).to_numpy(zero_copy_only=False)) for item in (first, second))
    if (ties | is_left | is_right).all():
        named: IntArray = np.where(is_left, 1, np.where(is_right, -1, 0)).astype(np.int8)
        return named
    meaning = np.array([MEANING.get(word, 9) for word in words], np.int8)[said.codes]
    strange = np.flatnonzero(meaning == 9)
    if strange.size:
        names = [said.names[int(code)].as_py() for code in np.unique(said.codes[strange])]
        raise InputError(
            f"Column {quote(table.names['outcome'])} holds {listing(names)} "
            f"({table.place.name_rows(strange.tolist())}), which is no outcome of a comparison. "
            "Say left, right or tie, or the name of the better of the two items."
        )
    return meaning
