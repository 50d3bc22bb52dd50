"""How near a consensus of texts is to a truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kinds.texts.distances import gleu, word_error_rate
from crowdwise.kinds.texts.truth import align_true_texts
from crowdwise.kinds.texts.words import compared_words

if TYPE_CHECKING:
    from crowdwise.kinds.texts.model import TextModel

__all__ = ["gleu", "score_texts", "word_error_rate"]


def score_texts(model: TextModel, truth: Any) -> dict[str, float]:
    """GLEU, share of exact matches and word error rate of a fitted model, over tasks of known truth.

    Case, blanks, unseen characters and normal forms do not count. GLEU is the mean over tasks; the word error rate is
    that of all tasks together: edits over words of the truth. A task without a consensus counts as an empty text.

    Parameters
    ----------
    truth
        A mapping from task to text, or a path or table with a column for the task and one for the text.
    """
    true = align_true_texts(truth, model._names["tasks"])
    both = [(found or "", text) for found, text in zip(model._texts(), true, strict=True) if text is not None]
    words = np.array([len(compared_words(text)) for _, text in both])
    errors = np.array([word_error_rate(found, text) for found, text in both])
    return {
        "n_truths": len(both),
        "gleu": float(np.mean([gleu(found, text) for found, text in both])),
        "exact_match": float(np.mean([compared_words(found) == compared_words(text) for found, text in both])),
        "word_error_rate": float((errors * words).sum() / words.sum()),
    }
