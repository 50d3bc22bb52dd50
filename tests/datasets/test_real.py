"""The real data are what the catalogue says they are."""

from __future__ import annotations

import os

import numpy as np
import pytest

from crowdwise.datasets import available, load, names
from crowdwise.datasets.catalogue import CATALOGUE

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(
        not os.environ.get("CROWDWISE_DATA"),
        reason="CROWDWISE_DATA is not set: point it at the folder with NAME/labels.csv and NAME/truth.csv",
    ),
]

on_disk = pytest.mark.parametrize("name", [name for name in names() if name != "anaesthetists"])


@on_disk
def test_sizes(name: str) -> None:
    dataset, entry = load(name), CATALOGUE[name]
    labels = dataset.labels
    sizes = (labels.n_tasks, labels.n_workers, labels.n_classes, labels.n_labels)
    assert sizes == (entry.n_tasks, entry.n_workers, entry.n_classes, entry.n_labels)
    assert (dataset.truth_codes >= 0).sum() == entry.n_truth
    assert (dataset.truth is None) == (entry.n_truth == 0)


@on_disk
def test_majority_vote(name: str) -> None:
    # Expectation over random ties, exactly; the catalogue has a mean of 20 draws, so leave it .01.
    dataset, entry = load(name), CATALOGUE[name]
    if entry.majority_vote is None:
        assert dataset.majority_vote is None
        return
    votes = dataset.labels.vote_counts()
    known = dataset.truth_codes >= 0
    top = votes == votes.max(axis=1, keepdims=True)
    right = top[known, dataset.truth_codes[known]] / top[known].sum(axis=1)
    assert float(np.mean(right)) == pytest.approx(entry.majority_vote, abs=0.01)


def test_available_lists_them() -> None:
    assert set(names()) <= set(available())
