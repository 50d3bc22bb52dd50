"""Known texts of tasks, lined up with those of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kinds.known_truth import open_truth, place_truths, refuse_contradictions
from crowdwise.kinds.texts.answers import check_texts
from crowdwise.kinds.texts.words import compared_words

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["align_true_texts"]


def align_true_texts(source: Any, tasks: pa.Array) -> list[str | None]:
    """Known texts of tasks (N), None where unknown; truths of other tasks are left aside.

    Parameters
    ----------
    source
        A mapping from task to text, or a path or table with a column for the task and one for the text.
    """
    table = open_truth(source, "text", "Known texts need a column task and a column text.")
    texts = table.read_texts("text")
    check_texts(texts, table.names["text"], table.place)
    there, names = place_truths(table, tasks)
    found: list[str | None] = [None] * len(tasks)
    again = np.zeros(len(texts), np.bool_)
    for row, (place, text) in enumerate(zip(there.tolist(), texts.to_pylist(), strict=True)):
        if place >= 0:
            known = found[place]
            again[row] = known is not None and compared_words(known) != compared_words(text)
            found[place] = text
    refuse_contradictions(again, names, "text")
    return found
