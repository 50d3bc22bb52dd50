"""What models of sequences share: the steps from one truth to the next, and the rules that tags keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.labels.bio_tags import allowed_followers

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.sequences import Sequences
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["allowed_transitions", "expected_transitions"]


def allowed_transitions(labels: CrowdLabels, sequences: Sequences, bio: bool) -> BoolArray:
    """Which class may follow which (K + 1, K) [before, after], the last row for the beginning of a sequence.

    All, unless the classes are BIO tags whose rule is to be kept and some tasks do follow one another.
    """
    kept = bio and sequences.ptr.size <= labels.n_tasks
    rule = allowed_followers(labels.classes.to_pylist()) if kept else None
    return np.ones((labels.n_classes + 1, labels.n_classes), bool) if rule is None else rule


def expected_transitions(sequences: Sequences, posterior: FloatArray) -> FloatArray:
    """Expected steps (K + 1, K) if the truths of neighbours were independent given the labels: where EM starts."""
    inner = np.flatnonzero(~sequences.first)
    between = posterior[sequences.order[inner - 1]].T @ posterior[sequences.order[inner]]
    first = posterior[sequences.order[sequences.ptr[:-1]]].sum(axis=0)
    return np.vstack([between, first])
