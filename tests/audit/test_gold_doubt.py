"""Wrong given answers told from tasks that mislead everyone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.special import logsumexp

from crowdwise.audit.gold_doubt import LURED, STEPS, classify_gold, estimate_log_confusions, misleading_task_likelihoods
from crowdwise.audit.mislabels import find_mislabels
from crowdwise.labels import CrowdLabels

if TYPE_CHECKING:
    from crowdwise.audit.finding_types import Finding


def crowd(seed: int, *, misleading: float = 0.0, wrong: int = 0, pull: float = 0.8) -> tuple[CrowdLabels, np.ndarray]:
    """Hundred tasks of three classes, twenty workers on each; the answers given, of which the first may be wrong."""
    rng = np.random.default_rng(seed)
    truth, skill = rng.integers(0, 3, 100), rng.uniform(0.6, 0.95, 20)
    shape = (100, 20)
    said = np.where(rng.random(shape) < skill, truth[:, None], (truth[:, None] + rng.integers(1, 3, shape)) % 3)
    lure = (truth + rng.integers(1, 3, 100)) % 3
    misled = np.flatnonzero(rng.random(100) < misleading)
    misled = misled[misled >= wrong]
    said[misled] = np.where(rng.random((misled.size, 20)) < pull, lure[misled, None], said[misled])
    given = truth.copy()
    given[:wrong] = (given[:wrong] + rng.integers(1, 3, wrong)) % 3
    return CrowdLabels.from_dense(said), given


def test_likelihoods_of_misleading_tasks_by_sums() -> None:
    labels, given = crowd(0)
    labels = labels.keep(labels.task < 6)
    given = np.where(np.arange(100) < 5, given, -1)
    log_prior, table = estimate_log_confusions(labels, np.eye(3)[np.maximum(given, 0)] * (given >= 0)[:, None])
    found, plain = misleading_task_likelihoods(labels, given, log_prior, table)
    assert found.shape == (5, STEPS.size)
    for task in range(5):
        g, edges = given[task], np.flatnonzero(labels.task == task)
        own = np.exp(table[labels.worker[edges], g, labels.label[edges]])
        assert plain[task] == pytest.approx(np.log(own).sum())
        for column, h in enumerate(STEPS):
            lures = [k for k in np.unique(labels.label[edges]) if k != g]
            weights = np.exp(log_prior[lures]) / (1 - np.exp(log_prior[g]))
            lured = [np.log((1 - h) * own + h * (labels.label[edges] == k)).sum() for k in lures]
            hard = np.log((1 - h) * own + h * labels.class_shares[labels.label[edges]]).sum()
            parts = [*(np.log(LURED * weights) + lured), np.log(1 - LURED) + hard]
            assert found[task, column] == pytest.approx(logsumexp(parts), abs=1e-6)


def found_in(seed: int, *, misleading: float = 0.0, wrong: int = 0) -> tuple[Finding, ...]:
    labels, answers = crowd(seed, misleading=misleading, wrong=wrong)
    return find_mislabels(labels, truth=dict(enumerate(answers.tolist()))).findings


def test_wrong_answers_are_found() -> None:
    found, false = 0, 0
    for seed in range(10):
        names = {f.names[0] for f in found_in(seed, wrong=5) if f.kind == "mislabel"}
        found += len(names & set(range(5)))
        false += len(names - set(range(5)))
    assert found >= 38  # of 50
    assert false == 0


def test_right_answers_to_misleading_tasks_are_questions() -> None:
    called_wrong, asked = 0, 0
    for seed in range(8):
        findings = found_in(seed, misleading=0.1)
        called_wrong += any(f.kind == "mislabel" for f in findings)
        asked += sum(f.kind == "disputed answer" for f in findings)
        assert all("look at it" in f.verdict for f in findings if f.kind == "disputed answer")
    assert called_wrong <= 2
    assert asked >= 40  # of about 80 tasks


def test_probabilities() -> None:
    labels, answers = crowd(1, wrong=5)
    kinds = classify_gold(labels, np.where(np.arange(100) < 80, answers, -1))
    assert np.isnan(kinds.wrong[80:]).all()
    assert ((kinds.wrong[:80] >= 0) & (kinds.wrong[:80] + kinds.misleading[:80] <= 1 + 1e-9)).all()
    assert kinds.wrong[5:80].max() < 0.5 < np.median(kinds.wrong[:5])
