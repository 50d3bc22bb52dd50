"""Joint answers of pairs of workers, against plain loops."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from tests.conftest import tiny_labels

from crowdwise.kernels import pairs
from crowdwise.labels import CrowdLabels


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
    np.testing.assert_array_equal(found.n_shared_tasks, found.counts.sum(axis=(1, 2)))
    first, second, same, shared = pairs.pair_agreements(labels)
    np.testing.assert_array_equal([first, second], [found.first, found.second])
    np.testing.assert_array_equal(same, np.einsum("pkk->p", found.counts))
    np.testing.assert_array_equal(shared, found.n_shared_tasks)


def test_no_pairs() -> None:
    labels = tiny_labels(2, 0, n_tasks=4, n_workers=1)
    assert pairs.pair_counts(labels).counts.shape == (0, 2, 2)


def test_pair_pass_equals_plain_loops() -> None:
    found = pairs.pair_counts(tiny_labels(3, 2, n_tasks=30, n_workers=5))
    generator = np.random.default_rng(0)
    prior = generator.dirichlet(np.ones(3))
    table = generator.dirichlet(np.ones(3), (5, 3))
    total, class_counts, counts = 0.0, np.zeros(3), np.zeros((5, 3, 3))
    for one, two, joint in zip(found.first, found.second, found.counts, strict=True):
        model = np.einsum("k,ka,kb->abk", prior, table[one], table[two])
        total += (joint * np.log(model.sum(axis=2))).sum()
        expected = joint[:, :, None] * model / model.sum(axis=2, keepdims=True)
        class_counts += expected.sum(axis=(0, 1))
        counts[one] += expected.sum(axis=1).T
        counts[two] += expected.sum(axis=0).T
    log_likelihood, found_classes, found_counts = pairs.pair_e_step(found, prior, table)
    assert log_likelihood == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(found_classes, class_counts, rtol=1e-12)
    np.testing.assert_allclose(found_counts, counts, rtol=1e-12)


def test_a_task_that_all_the_crowd_answered_makes_no_pairs() -> None:
    """As many pairs as its labels squared, of one shared task each: 20,000 labels would be 200 million."""
    crowd = pairs.MOST_LABELS + 1
    labels = CrowdLabels.from_codes(
        [0] * crowd + [1, 1], [*range(crowd), 0, 7], [0] * (crowd + 1) + [1], tasks=2, workers=crowd, classes=2
    )
    found = pairs.pair_counts(labels)
    assert (found.first.tolist(), found.second.tolist()) == ([0], [7])
    np.testing.assert_array_equal(found.counts, [[[0, 1], [0, 0]]])
