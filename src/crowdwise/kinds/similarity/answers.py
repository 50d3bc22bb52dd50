"""`Similarities`: answers that say whether two items are the same."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crowdwise.kinds.answer_table import open_table
from crowdwise.kinds.answers import PairAnswers, warn_of_groups
from crowdwise.kinds.reader_decorator import reader_of
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError, listing, quote

if TYPE_CHECKING:
    from typing import Unpack

    from crowdwise.kinds.answer_table import AnswerTable, PairOptions
    from crowdwise.labels.types import BoolArray

__all__ = ["Similarities", "read_same", "read_similarities"]

NEEDS = "Answers about similarity need the columns worker, left, right and same (same or different, yes or no, 1 or 0)."
# Compared without case, blanks, dashes and underscores.
SAME = (
    "same",
    "s",
    "yes",
    "y",
    "true",
    "t",
    "1",
    "1.0",
    "match",
    "matches",
    "similar",
    "equal",
    "duplicate",
    "mustlink",
)
DIFFERENT = (
    "different", "d", "no", "n", "false", "f", "0", "0.0", "nomatch", "notsame", "dissimilar", "distinct", "unequal",
    "nonmatch", "notduplicate", "cannotlink",
)  # fmt: skip
MEANING = dict.fromkeys(SAME, 1) | dict.fromkeys(DIFFERENT, 0)
SAID = ("different", "same")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Similarities(PairAnswers, kind="similarity", verb="asked about", said=("same",)):
    """Whether workers found two items the same: one row for each answer. Immutable.

    Make one with `read_similarities` or `Similarities.from_codes`. Which item stands left does not matter.

    Attributes
    ----------
    same : (n_answers,)
        Whether the worker said that the two items are the same.

    Examples
    --------
    >>> read_similarities({"worker": ["ann", "bob"], "left": ["a", "b"], "right": ["b", "c"], "same": ["yes", "no"]})
    Similarities: 2 answers of 3 items by 2 workers
    """

    same: BoolArray

    @classmethod
    def _code_said(cls, said: Any) -> dict[str, Any]:
        if not np.isin(said, (0, 1)).all():
            raise InputError("same must be 1 (the same) or 0 (different) in every answer.")
        return {"same": said.astype(np.bool_)}

    def to_labels(self) -> CrowdLabels:
        """Every pair as a task, whose classes are different and same."""
        return CrowdLabels.from_codes(
            self.graph.pair, self.worker, self.same.astype(np.int64), tasks=self.graph.n_pairs, workers=self.workers,
            classes=SAID, on_duplicate="first",
        )  # fmt: skip

    def _said_columns(self) -> dict[str, Any]:
        return {"same": pa.array(SAID).take(pa.array(self.same.astype(np.int64)))}


@reader_of(Similarities)
def read_similarities(source: Any, *, same: str | None = None, **options: Unpack[PairOptions]) -> Similarities:
    """Read answers about similarity from a file or a table with a row for each answer.

    Parameters
    ----------
    worker, left, right, same
        Column names, where they are not the usual ones. What was said is "same" or "different" (also yes and no, true
        and false, 1 and 0, match and no match).
    on_duplicate
        What to do with a second answer of one worker about one pair: "error", keep the "first" or the "last", or keep
        "all".

    Warns
    -----
    InputWarning
        If the items fall into groups between which no pair was asked about.
    """
    given = {"worker": options.get("worker"), "left": options.get("left"), "right": options.get("right"), "same": same}
    table = open_table(source, NEEDS, given)
    left, right, items = table.encode_together("left", "right")
    made = Similarities(**table.encode_workers(), left=left, right=right, items=items, same=read_same(table))
    made = made._checked(options.get("on_duplicate", "error"), table.place)
    warn_of_groups(
        made.graph.group_sizes,
        "between which no pair was asked about",
        "items of different groups are never in one cluster. Ask about pairs between the groups where they may be the "
        "same.",
    )
    return made


def read_same(table: AnswerTable) -> BoolArray:
    """What was said in each row (n,): whether the items are the same."""
    said = table.encode("same")
    words = [re.sub(r"[\s_\-]+", "", str(name)).casefold() for name in said.names.to_pylist()]
    meaning = np.array([MEANING.get(word, -1) for word in words], np.int8)[said.codes]
    strange = np.flatnonzero(meaning < 0)
    if strange.size:
        names = [said.names[int(code)].as_py() for code in np.unique(said.codes[strange])]
        raise InputError(
            f"Column {quote(table.names['same'])} holds {listing(names)} ({table.place.name_rows(strange.tolist())}), "
            "which is neither same nor different. Say same or different (yes or no, 1 or 0)."
        )
    found: BoolArray = meaning.astype(np.bool_)
    return found
