"""How near a consensus of sets is to a truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kinds.multi_label.truth import align_true_sets

if TYPE_CHECKING:
    from crowdwise.kinds.multi_label.model import SetModel
    from crowdwise.labels.types import BoolArray

__all__ = ["compare_sets", "score_sets"]


def compare_sets(found: BoolArray, true: BoolArray) -> dict[str, float]:
    """F1 over all classes together (micro) and averaged over classes (macro), exact sets, and the Hamming loss.

    Classes that are neither in a set nor in a true one say nothing, and are left out of the average. Sets that are all
    empty, and rightly so, have an F1 of 1.

    >>> compare_sets(np.array([[True, False]]), np.array([[True, True]]))["f1_micro"]
    0.6666666666666666
    """
    both, either = found & true, found.sum(axis=0) + true.sum(axis=0)
    used = either > 0
    return {
        "f1_micro": float(2 * both.sum() / either.sum()) if used.any() else 1.0,
        "f1_macro": float((2 * both.sum(axis=0)[used] / either[used]).mean()) if used.any() else 1.0,
        "subset_accuracy": float((found == true).all(axis=1).mean()),
        "hamming_loss": float((found != true).mean()),
    }


def score_sets(model: SetModel, truth: Any) -> dict[str, float]:
    """F1 (micro and macro), share of exact sets and Hamming loss of a fitted model, over tasks of known truth.

    A true class that no answer names counts as missed.

    Parameters
    ----------
    truth
        A mapping from task to set, or a path or table with a column task and a column labels.
    """
    true, names = align_true_sets(truth, model._names["tasks"], model._names["classes"], more=True)
    known = ~np.isnan(true[:, 0])
    found = np.zeros((int(known.sum()), len(names)), np.bool_)
    found[:, : model.posterior_.shape[1]] = model.decide()[known]
    return {"n_truths": int(known.sum()), **compare_sets(found, true[known] > 0.5)}
