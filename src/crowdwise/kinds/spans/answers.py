"""`Spans`: answers that are sets of stretches of a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.kinds.marks import Marks, open_marks, read_marks
from crowdwise.kinds.reader_decorator import reader_of
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    from crowdwise.kinds.marks import MarkOptions
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["Spans", "read_spans"]

ENDS = ("start", "end")
NEEDS = (
    "Spans need the columns task, worker, start and end (the first position after the span), with a row for each span, "
    "and label where there are several kinds of them; a row without start and end says that the worker marked nothing."
)
LARGEST_POSITION = 2**31


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Spans(Marks, kind="spans", noun="span", coordinates=ENDS):
    """Spans that workers marked in tasks: one row for each answer, with any number of spans. Immutable.

    Make one with `read_spans` or `Spans.from_codes`. Positions are characters or tokens, counted from 0; the end is the
    first position after the span. The spans of one answer do not overlap.

    Attributes
    ----------
    place : (n_marks, 2)
        start and end.

    Examples
    --------
    >>> read_spans({"task": ["a", "a"], "worker": ["ann", "bob"], "start": [0, 0], "end": [5, 9],
    ...             "label": ["PER", "PER"]})
    Spans: 2 spans in 2 answers by 2 workers on 1 task
    """

    whole_numbers: ClassVar[bool] = True

    @classmethod
    def _check_places(cls, place: FloatArray, marked: BoolArray, show: Callable[[IntArray], str]) -> None:
        super()._check_places(place, marked, show)
        whole = np.where(np.isnan(place), 0, np.floor(place)) == np.where(np.isnan(place), 0, place)
        wrong = np.flatnonzero(marked & ~(whole.all(axis=1) & (place >= 0).all(axis=1)))
        if wrong.size:
            raise InputError(
                f"Some spans have a start or an end that is no position ({show(wrong)}). Give whole numbers from 0 on."
            )
        wrong = np.flatnonzero(marked & (place >= LARGEST_POSITION).any(axis=1))
        if wrong.size:
            raise InputError(
                f"Some spans have a start or an end at or beyond {LARGEST_POSITION:,}, which no position may be "
                f"({show(wrong)}). Count positions from the beginning of each text."
            )
        wrong = np.flatnonzero(marked & ~(place[:, 1] > place[:, 0]))
        if wrong.size:
            raise InputError(
                f"Some spans are empty or end before they start ({show(wrong)}): end is the first position after the "
                "span, above start. Mend or remove those rows."
            )

    def refuse_overlaps(self) -> Spans:
        """The same, unless spans of one answer overlap: of these no tags can be made."""
        order = np.lexsort((self.place[:, 0], self.answer))
        answer, place = self.answer[order], self.place[order]
        wrong = np.flatnonzero((answer[1:] == answer[:-1]) & (place[1:, 0] < place[:-1, 1]))
        if wrong.size:
            rows = answer[wrong[:5]]
            shown = "; ".join(
                f"worker {quote(self.workers[int(self.worker[row])].as_py())} on task "
                f"{quote(self.tasks[int(self.task[row])].as_py())}"
                for row in dict.fromkeys(rows.tolist())
            )
            raise InputError(
                f"Some spans of one answer overlap ({wrong.size:,} in all): {shown}. Keep the outer or the inner ones, "
                "or aggregate kinds of spans that overlap one by one."
            )
        return self


@reader_of(Spans)
def read_spans(source: Any, **options: Unpack[MarkOptions]) -> Spans:
    """Read spans from a file or a table with a row for each span.

    A row whose start and end are empty says that the worker saw the task and marked nothing.

    Parameters
    ----------
    coordinates
        Names of the columns of start and end, where they are not the usual ones. Positions count characters or tokens
        from 0, and the end is the first position after the span.
    task, worker, label, on_duplicate
        As for `read_boxes`; of the same span twice in one answer "all" keeps both, which then overlap and are refused.
    """
    table, _, place = open_marks(source, NEEDS, (ENDS,), options)
    return read_marks(Spans, table, place, options).refuse_overlaps()
