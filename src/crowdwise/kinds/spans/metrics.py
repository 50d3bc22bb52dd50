"""How near a consensus of spans is to a truth: exact and overlap F1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kinds.boxes.metrics import match_marks
from crowdwise.kinds.boxes.truth import align_true_marks
from crowdwise.kinds.spans.answers import Spans
from crowdwise.kinds.spans.segments import read_spans_of_tags

if TYPE_CHECKING:
    from crowdwise.kinds.spans.model import SpanModel

__all__ = ["score_spans"]


def score_spans(model: SpanModel, truth: Any) -> dict[str, float]:
    """Precision, recall and F1 over all spans of texts of known truth: exact, and where matched spans overlap.

    A span is right if it has the label and, for the exact scores, both ends of a true one; for the others it must be
    matched with a true one of its label that it shares a position with, one to one.

    Parameters
    ----------
    truth
        A path or table with the columns task, start, end and label, or a mapping from task to (start, end). A text
        without spans has a row without start and end.
    """
    true = align_true_marks(truth, model._names["tasks"], model._names["classes"], Spans)
    task, place, label, _ = read_spans_of_tags(model._segments(), model.posterior_, model.splits_ > 0)
    n_found, n_true, exact, overlap = 0, 0, 0, 0
    for each in np.flatnonzero(true.known):
        ours, theirs = np.flatnonzero(task == each), np.flatnonzero(true.task == each)
        one, other = place[ours][:, None], true.place[theirs][None]
        same = (label[ours][:, None] == true.label[theirs][None]) | (true.label[theirs][None] < 0)
        shared = np.minimum(one[..., 1], other[..., 1]) - np.maximum(one[..., 0], other[..., 0])
        exact += int(((one == other).all(axis=-1) & same).any(axis=1).sum())
        overlap += match_marks(np.where(same, np.minimum(shared, 1), 0).astype(np.float64), 1.0)[0].size
        n_found, n_true = n_found + ours.size, n_true + theirs.size
    found: dict[str, float] = {"n_truths": int(true.known.sum())}
    for start, right in {"": exact, "overlap_": overlap}.items():
        found[f"{start}precision"] = right / n_found if n_found else 0.0
        found[f"{start}recall"] = right / n_true if n_true else 0.0
        found[f"{start}f1"] = 2 * right / (n_found + n_true) if n_found + n_true else 1.0
    return found
