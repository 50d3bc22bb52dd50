"""Joint answers of pairs of workers, against plain loops."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from tests.conftest import tiny_labels

from crowdwise.kernels import pairs


@pytest.mark.parametrize("chunk", [1 << 22, 3])
@pytest.mark.parametrize("repeats", [False, True])
def test_pair_counts_equal_plain_loops(repeats: bool, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "CHUNK", chunk)
    labels = tiny_labels(3, 1, n_tasks=30, n_workers=6, repeats=repeats)
    expected: dict[tuple[int, int], np.ndarray] = {}
    edges = list(zip(labels.task.tolist(), labels.worker.tolist(), labels.label.tolist(), strict=True))
    for (task, one, said), (other_task, two, also_said) in combinations(edges, 2):
        if task == other_task and one != two:
            a, b = sorted([(one, said), (two, also_said)])
            expected.setdefault((a[0], b[0]), np.zeros((3, 3)))[a[1], b[1]] += 1
    found = pairs.pair_counts(labels)
    assert list(zip(found.first.tolist(), found.second.tolist(), strict=True)) == sorted(expected)
    for pair, counts in zip(zip(found.first.tolist(), found.second.tolist(), strict=True), found.counts, strict=True):
        np.testing.assert_array_equal(counts, expected[pair])
    np.testing.assert_array_equal(found.shared, found.counts.sum(axis=(1, 2)))


def test_no_pairs() -> None:
    labels = tiny_labels(2, 0, n_tasks=4, n_workers=1)
    assert pairs.pair_counts(labels).counts.shape == (0, 2, 2)
