"""`Comparisons`: answers that say which of two items is better."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crowdwise.kinds.answer_table import open_columns, open_table
from crowdwise.kinds.answers import PairAnswers, warn_of_groups
from crowdwise.kinds.comparisons.outcome_words import OUTCOMES, read_outcomes
from crowdwise.kinds.comparisons.prompts import read_items, split_names
from crowdwise.kinds.reader_decorator import reader_of
from crowdwise.labels.columns import candidates
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError, InputWarning

if TYPE_CHECKING:
    from typing import Unpack

    from crowdwise.kinds.answer_table import PairOptions
    from crowdwise.labels.types import IntArray

__all__ = ["Comparisons", "read_comparisons"]

NEEDS = (
    "Comparisons need the columns worker, left, right and label (left, right or tie, or the name of the better item), "
    "or worker, winner and loser."
)

TASK = "task"  # a column called so says about what the items were compared
TEXTS = ("chosen", "rejected", "response_a", "response_b")  # columns whose items answer a prompt


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Comparisons(PairAnswers, kind="comparisons", noun="comparison", said=("outcome",)):
    """Which of two items workers found better: one row for each answer. Immutable.

    Make one with `read_comparisons` or `Comparisons.from_codes`, from outcomes and whether they are `sided`.

    Attributes
    ----------
    outcome : (n_answers,)
        1 where the left item was found better, -1 for the right one, 0 for a tie.
    sided
        Whether left and right are the sides where the worker saw the items; False for a table of winners and losers,
        whose winners stand left.

    Examples
    --------
    >>> read_comparisons({"worker": ["ann", "bob"], "left": ["a", "b"], "right": ["b", "c"], "label": ["left", "tie"]})
    Comparisons: 2 comparisons of 3 items by 2 workers
    """

    outcome: IntArray
    sided: bool = True

    @property
    def sides_matter(self) -> bool:
        """Whether an answer about the same two items on exchanged sides is another one: where the sides are known."""
        return self.sided

    @classmethod
    def _code_said(cls, said: Any, *, sided: bool = True) -> dict[str, Any]:
        if not np.isin(said, (-1, 0, 1)).all():
            raise InputError("outcome must be 1 (left is better), -1 (right is better) or 0 (tie) in every answer.")
        return {"outcome": said.astype(np.int8), "sided": bool(sided)}

    @property
    def has_ties(self) -> bool:
        """Whether an answer is a tie."""
        return bool((self.outcome == 0).any())

    def to_labels(self) -> CrowdLabels:
        """Every pair as a task, whose classes say which of its items is better, the first or the second by position."""
        better = np.where(self.left < self.right, self.outcome, -self.outcome)
        return CrowdLabels.from_codes(
            self.graph.pair, self.worker, 1 - better.astype(np.int64), tasks=self.graph.n_pairs,
            workers=self.workers, classes=["first", "tie", "second"], on_duplicate="first",
        )  # fmt: skip

    def _said_columns(self) -> dict[str, Any]:
        return {"label": pa.array(OUTCOMES).take(pa.array(1 - self.outcome.astype(np.int64)))}

    def to_table(self) -> Any:
        """Give the comparisons as a table of the kind that came in, with the columns by which they are read."""
        from crowdwise.labels.table_output import native_table

        plain = not self.sided and bool((self.outcome == 1).all())  # winners and losers
        names = {"winner": self.left, "loser": self.right} if plain else {"left": self.left, "right": self.right}
        columns: dict[str, Any] = {"worker": self.workers.take(pa.array(self.worker))}
        prompt, items = split_names(self.items)
        if prompt is not None:
            columns["prompt"] = prompt.take(pa.array(self.left))
        columns |= {name: items.take(pa.array(codes)) for name, codes in names.items()}
        return native_table(columns | ({} if plain else self._said_columns()), self.table_kind)


@reader_of(Comparisons)
def read_comparisons(
    source: Any,
    *,
    outcome: str | None = None,
    winner: str | None = None,
    loser: str | None = None,
    prompt: str | None = None,
    **options: Unpack[PairOptions],
) -> Comparisons:
    """Read comparisons from a file or a table with a row for each answer.

    Parameters
    ----------
    worker, left, right, outcome
        Column names, where they are not the usual ones; the outcome is usually called label. It is "left", "right" or
        "tie" (also a, b, model_a, first, draw and the like), or the name of the better item.
    winner, loser
        Columns of a table that has these in place of left, right and label (also chosen and rejected). Nothing is
        then known of the sides on which workers saw the items.
    prompt
        A column with what the two items answer: items of different prompts are then different items, even where their
        texts are the same. Found by itself where the items are in columns chosen and rejected, or response_a and
        response_b; others (models, say) may be the same items below many prompts.
    on_duplicate
        What to do with a second answer of one worker about one pair (with known sides: on the same sides; with a column
        task: in the same task): "error", keep the "first" or the "last", or keep "all".

    Warns
    -----
    InputWarning
        If the items fall into groups that were never compared with one another.
    """
    columns = open_columns(source, NEEDS)
    worker, left, right = options.get("worker"), options.get("left"), options.get("right")
    given = {"worker": worker, "left": left, "right": right, "outcome": outcome}
    named = any(name is not None for name in (left, right, outcome))
    sided = named or all(candidates(role, columns.names) for role in ("left", "right"))
    sided = winner is None and loser is None and (sided or not candidates("winner", columns.names))
    if not sided:
        given = {"worker": worker, "winner": winner, "loser": loser}
    first, second = ("left", "right") if sided else ("winner", "loser")
    usual = next(iter(candidates(first, columns.names)), "")
    named_first = usual if given[first] is None else given[first]
    texts = prompt is not None or str(named_first).casefold() in TEXTS
    asked: dict[str, str | None] = {"task": TASK} if TASK in columns.names else {}
    table = open_table(columns, NEEDS, given, asked | ({"prompt": prompt} if texts else {}))
    left_codes, right_codes, items = read_items(table, first, second)
    said = read_outcomes(table, first, second) if sided else np.ones(left_codes.size, np.int8)
    if sided and said.size > 1 and (np.abs(said.sum()) == said.size):
        side = "left" if said[0] > 0 else "right"
        warnings.warn(
            f"Every answer is {side}: the sides are taken for winner and loser, and no bias to a side is looked for.",
            InputWarning,
            stacklevel=3,
        )
        sided = False
        left_codes, right_codes = (left_codes, right_codes) if said[0] > 0 else (right_codes, left_codes)
        said = np.ones(left_codes.size, np.int8)
    shown = {"left": left_codes, "right": right_codes, "items": items}
    made = Comparisons(**table.encode_workers(), **shown, outcome=said, sided=sided)
    task = table.encode("task").codes if asked else None
    made = made._checked(options.get("on_duplicate", "error"), table.place, task=task)
    if "prompt" not in table:
        warn_of_groups(
            made.graph.group_sizes,
            "that were never compared with one another",
            "scores and ranks of different groups cannot be compared. Ask for comparisons between the groups.",
        )
    return made
