from __future__ import annotations

import numpy as np
import pytest

from crowdwise.datasets import load


def test_the_table_of_1979() -> None:
    labels = load("anaesthetists").labels
    assert (labels.n_tasks, labels.n_workers, labels.n_classes, labels.n_labels) == (45, 5, 4, 315)
    assert labels.labels_per_task.tolist() == [7] * 45
    assert labels.labels_per_worker.tolist() == [135, 45, 45, 45, 45]
    second = slice(labels.task_ptr[1], labels.task_ptr[2])
    assert labels.worker[second].tolist() == [0, 0, 0, 1, 2, 3, 4]
    assert (labels.label[second] + 1).tolist() == [3, 3, 3, 4, 3, 3, 4]


def test_class_shares_by_em_are_those_of_the_paper() -> None:
    # Plain maximum likelihood, started from the shares of the votes, as in the paper.
    labels = load("anaesthetists").labels
    votes = np.zeros((45, 5, 4))
    np.add.at(votes, (labels.task, labels.worker, labels.label), 1)
    q = votes.sum(axis=1) / 7
    for _ in range(500):
        prior = q.mean(axis=0)
        counts = np.einsum("tk,twl->wkl", q, votes)
        confusion = counts / counts.sum(axis=2, keepdims=True)
        with np.errstate(divide="ignore"):
            log_q = np.log(prior) + np.einsum("twl,wkl->tk", votes, np.maximum(np.log(confusion), -1e3))
        q = np.exp(log_q - log_q.max(axis=1, keepdims=True))
        q /= q.sum(axis=1, keepdims=True)
    published = load("anaesthetists").published["Dawid & Skene 1979, class shares by EM"]
    assert prior.round(2).tolist() == list(published.values()) == [0.40, 0.42, 0.11, 0.07]


def test_there_is_no_truth() -> None:
    dataset = load("anaesthetists")
    assert dataset.truth is None
    assert (dataset.truth_codes == -1).all()
    with pytest.raises(ValueError, match="read-only"):
        dataset.truth_codes[0] = 1
