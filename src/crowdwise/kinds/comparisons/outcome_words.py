"""What tables call the outcome of a comparison: a side, a tie, or the name of the better item."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.labels.errors import InputError, InputWarning, listing, quote

if TYPE_CHECKING:
    from crowdwise.kinds.answer_table import AnswerTable
    from crowdwise.labels.types import IntArray

__all__ = ["MEANING", "OUTCOMES", "UNKNOWN", "read_outcomes", "warn_of_two_readings"]

OUTCOMES = ("left", "tie", "right")
# Compared without case, blanks, dots, dashes, underscores and brackets.
WORDS = {
    1: ("left", "l", "a", "modela", "itema", "optiona", "responsea", "first"),
    -1: ("right", "r", "b", "modelb", "itemb", "optionb", "responseb", "second"),
    0: ("tie", "tied", "draw", "equal", "same", "both", "neither", "bothgood", "bothbad", "tiebothbad", "nopreference"),
}
UNKNOWN = 9
MEANING = {word: outcome for outcome, words in WORDS.items() for word in words}


def read_outcomes(table: AnswerTable, left: str, right: str) -> IntArray:
    """Outcome of each answer (n,): 1 for left, -1 for right, 0 for a tie.

    Where every outcome that is no tie is the name of one of the answer's two items, it means that item; "a" and "b" may
    be both, which is warned of where it makes a difference.
    """
    said = table.encode("outcome")
    words = [re.sub(r"[\s._:()\-]+", "", str(name)).casefold() for name in said.names.to_pylist()]
    ties = np.array([MEANING.get(word) == 0 for word in words])[said.codes]
    texts = (pc.utf8_trim_whitespace(table.columns[role].cast(pa.string())) for role in ("outcome", left, right))
    outcome, first, second = (each.combine_chunks() for each in texts)
    is_left, is_right = (np.asarray(pc.equal(outcome, item).to_numpy(zero_copy_only=False)) for item in (first, second))
    meaning = np.array([MEANING.get(word, UNKNOWN) for word in words], np.int8)[said.codes]
    if (ties | is_left | is_right).all():
        named: IntArray = np.where(is_left, 1, np.where(is_right, -1, 0)).astype(np.int8)
        if (meaning != UNKNOWN).all():
            warn_of_two_readings(np.flatnonzero(named * meaning == -1), outcome, table)
        return named
    strange = np.flatnonzero(meaning == UNKNOWN)
    if strange.size:
        names = [said.names[int(code)].as_py() for code in np.unique(said.codes[strange])]
        raise InputError(
            f"Column {quote(table.names['outcome'])} holds {listing(names)} "
            f"({table.place.name_rows(strange.tolist())}), which is no outcome of a comparison. "
            "Say left, right or tie, or the name of the better of the two items."
        )
    return meaning


def warn_of_two_readings(rows: IntArray, outcome: pa.Array, table: AnswerTable) -> None:
    """Say so where an outcome names one item, and is the word for the side of the other."""
    if rows.size:
        shown = listing(pc.unique(outcome.take(pa.array(rows))).to_pylist())
        warnings.warn(
            f"{table.place.name_rows(rows.tolist())}: {shown} in column {quote(table.names['outcome'])} is the name of "
            "an item, and a word for the side of the other one. It is read as the better item's name. If sides are "
            "meant, rename the items.",
            InputWarning,
            stacklevel=4,
        )
