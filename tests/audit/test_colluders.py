"""Colluders: blocks that agree beyond what they know."""

from __future__ import annotations

import os

import numpy as np
import pytest

from crowdwise.audit.colluders import (
    estimate_robust_skills,
    find_colluders,
    pair_p_values,
    share_against_others,
    unexplained_agreement,
    weighted_medians,
)
from crowdwise.datasets import load
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError
from crowdwise.simulate.adversaries import colluders
from crowdwise.simulate.dawid_skene import simulate_crowd
from crowdwise.simulate.dependence import dependent_groups
from crowdwise.simulate.known_workers import simulate_workers
from crowdwise.simulate.workers import constant_confusion, symmetric_confusion

pytestmark = pytest.mark.usefixtures("compiled")


def f1(crowd, **options):
    return f1_of(find_colluders(crowd.labels, **options), crowd)


def f1_of(screen, crowd):
    guilty = {n for n, kind in enumerate(crowd.kinds) if kind == "colluder"}
    named = {name for finding in screen.findings for name in finding.names}
    return 2 * len(guilty & named) / (len(guilty) + len(named))


def agreement(labels):
    """Of everyone with everyone, where all label everything."""
    dense = np.empty((labels.n_tasks, labels.n_workers))
    dense[labels.task, labels.worker] = labels.label
    return (dense[:, :, None] == dense[:, None, :]).mean(axis=0)


def test_weighted_medians_by_hand():
    values = np.array([[3.0, 1.0, 2.0], [5.0, 4.0, 9.0], [7.0, 7.0, 7.0]])
    weights = np.array([[1.0, 1.0, 1.0], [1.0, 5.0, 1.0], [0.0, 0.0, 0.0]])
    assert weighted_medians(values, weights).tolist() == [2.0, 4.0, 0.0]


def test_skills_are_not_moved_by_a_block_of_two_in_five():
    rng = np.random.default_rng(0)
    true = rng.uniform(0.3, 0.8, 50)
    values = np.outer(true, true)
    values[:20, :20] = 0.9
    weights = 100.0 * (1 - np.eye(50))
    assert np.abs(estimate_robust_skills(values, weights) - true).max() < 0.01


def test_pair_p_value_is_the_binomial_tail():
    """30 tasks, 27 agreements; habits explain .5, skills .16, the margin .15: P(Bin(30, .81) ≥ 27)."""
    values = np.array([[0, 0.4], [0.4, 0]])
    found = pair_p_values(values, np.full((2, 2), 30.0), np.full((2, 2), 27.0), np.array([0.4, 0.4]))
    tail = sum(
        np.prod([(30 - i) / (i + 1) for i in range(k)]) * 0.81**k * 0.19 ** (30 - k) for k in range(27, 31)
    )  # fmt: skip
    assert found[0, 1] == pytest.approx(tail)
    assert np.isnan(found[0, 0])


def test_a_shared_confusion_is_explained_by_matrices():
    """Ten of thirty take class 2 for 1: they agree beyond one skill each, as they do with nobody's settlement."""
    mixed_up = np.array([[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.05, 0.9, 0.05]])
    matrices = np.concatenate([symmetric_confusion(np.full(20, 0.8), 3), np.tile(mixed_up, (10, 1, 1))])
    labels = simulate_workers(matrices, 2000, None, random_state=0).labels
    assert find_colluders(labels).findings == ()
    block = np.arange(30) >= 20
    assert (
        np.abs(unexplained_agreement(labels, block, agreement(labels), np.full((30, 30), 2000.0))[block]).max() < 0.05
    )
    settled = colluders(n_tasks=2000, n_workers=30, share=1 / 3, random_state=0).labels
    found = unexplained_agreement(settled, block, agreement(settled), np.full((30, 30), 2000.0))
    # All agree; right with .1 and wrong with .45 twice, two would agree on .1² + 2 × .45² = .415 of tasks.
    assert found[block] == pytest.approx(1 - 0.415, abs=0.03)
    assert (found[~block] == 0).all()


@pytest.mark.parametrize("share", [0.1, 0.25, 0.4])
def test_simulated_colluders_are_found(share):
    assert np.mean([f1(colluders(n_tasks=1500, share=share, random_state=seed)) for seed in range(2)]) >= 0.9


def test_colluders_who_attack_few_tasks_or_share_few_are_found_too():
    assert f1(colluders(p_corr=0.3, share=0.2, random_state=0)) >= 0.9
    assert f1(colluders(labels_per_task=10, share=0.3, random_state=0)) >= 0.9


def test_those_who_depend_on_each_other_collude_only_against_the_others():
    settled = colluders(n_tasks=1000, n_workers=30, share=0.2, random_state=0).labels
    group = np.where(np.arange(30) >= 24, 0, -1)
    assert len(find_colluders(settled, groups=group).findings) == 1
    copies = dependent_groups(n_tasks=1500, n_workers=40, n_classes=3, random_state=0)
    blocks = find_colluders(copies.labels).findings
    assert blocks
    assert find_colluders(copies.labels, groups=np.asarray(copies.groups)).findings == ()
    elsewhere = np.roll(np.asarray(copies.groups), 4)  # no block lies within one of these
    assert find_colluders(copies.labels, groups=elsewhere).findings == blocks


def test_ties_of_the_others_are_not_against_a_block_whatever_the_classes_are_called():
    said = np.tile([0, 0, 0, 0, 1], (30, 1))
    block = np.array([True, True, True, False, False])
    assert share_against_others(CrowdLabels.from_dense(said), block) == 0
    assert share_against_others(CrowdLabels.from_dense(1 - said), block) == 0
    assert share_against_others(CrowdLabels.from_dense(np.tile([0, 0, 0, 1, 1], (30, 1))), block) == 1


def test_a_trusted_worker_tells_which_half_is_honest():
    many = colluders(n_tasks=1500, share=0.6, random_state=0)
    assert f1(many) == 0
    screen = find_colluders(many.labels, trusted=[0])
    assert f1_of(screen, many) >= 0.9
    assert all(finding.p_value <= 0.05 for finding in screen.findings)
    halves = colluders(share=0.5, random_state=0)
    assert "Name one you trust" in find_colluders(halves.labels).skipped
    assert f1(halves, trusted=[3]) >= 0.9


def test_the_finding_says_who_and_that_they_stand_against_the_others():
    crowd = colluders(share=0.2, random_state=0)
    screen = find_colluders(crowd.labels)
    (finding,) = screen.findings
    assert finding.names == tuple(range(48, 60))
    assert finding.about == "workers"
    assert "most others give another on 9" in finding.evidence  # 90 % of tasks are attacked
    assert finding.p_value <= 0.05
    assert (screen.score[48:] > 0.3).all()
    assert (screen.score[:48] == 0).all()
    assert (screen.p_value[:48] == 1).all()


def test_honest_crowds_raise_no_alarm():
    """Difficulty makes everyone err on the same tasks; two always say the same; skill and volumes differ."""
    alarms = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n_tasks, n_workers, n_classes = (
            int(np.exp(rng.uniform(3, 7))),
            int(rng.integers(4, 40)),
            int(rng.integers(2, 6)),
        )
        truth = rng.integers(0, n_classes, n_tasks)
        skill = rng.uniform(0.1, 0.95, n_workers)
        hard = rng.random(n_tasks) < 0.4
        taken_for = (truth + 1) % n_classes
        knows = rng.random((n_tasks, n_workers)) < skill * np.where(hard, 0.2, 1)[:, None]
        lured = hard[:, None] & (rng.random((n_tasks, n_workers)) < 0.3)
        guess = np.where(lured, taken_for[:, None], rng.integers(0, n_classes, (n_tasks, n_workers)))
        label = np.where(knows, truth[:, None], guess)
        seen = rng.random((n_tasks, n_workers)) < rng.choice([0.2, 0.6, 1.0])
        labels = CrowdLabels.from_dense(np.where(seen, label, -1), classes=range(n_classes))
        alarms += bool(find_colluders(labels).findings)
    assert alarms <= 1


def test_two_who_always_say_the_same_do_not_collude():
    matrices = np.concatenate([symmetric_confusion(np.full(12, 0.8), 3), constant_confusion(4, 3)])
    assert find_colluders(simulate_workers(matrices, 500, None, random_state=0).labels).findings == ()


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("CROWDWISE_DATA"), reason="CROWDWISE_DATA is not set")
@pytest.mark.parametrize("name", ["bluebird", "rte", "dog"])
def test_colluders_planted_in_a_real_crowd(name):
    """Six more, on half of the tasks, who settle random answers: found, and nobody else; without them nobody."""
    labels = load(name).labels
    assert find_colluders(labels).findings == ()
    rng = np.random.default_rng(0)
    n_new = 6
    answer = rng.integers(0, labels.n_classes, labels.n_tasks)
    task = np.tile(np.arange(labels.n_tasks), n_new)
    worker = np.repeat(np.arange(n_new), labels.n_tasks) + labels.n_workers
    seen = rng.random(task.size) < 0.5
    planted = CrowdLabels.from_codes(
        np.concatenate([labels.task, task[seen]]), np.concatenate([labels.worker, worker[seen]]),
        np.concatenate([labels.label, answer[task[seen]]]),
        tasks=labels.n_tasks, workers=labels.n_workers + n_new, classes=labels.n_classes,
    )  # fmt: skip
    (finding,) = find_colluders(planted).findings
    assert finding.names == tuple(range(labels.n_workers, labels.n_workers + n_new))


def test_hostile_names_degenerate_input_and_errors():
    crowd = colluders(n_tasks=300, n_workers=12, share=0.25, random_state=0)
    names = [f"=cmd\n<b>{n}" for n in range(12)]
    hostile = CrowdLabels.from_codes(
        crowd.labels.task, crowd.labels.worker, crowd.labels.label, tasks=300, workers=names, classes=3
    )
    (finding,) = find_colluders(hostile).findings
    assert finding.names == tuple(sorted(names[9:]))
    assert "\n" not in finding.evidence
    assert find_colluders(simulate_crowd(15, 6, 3, 3).labels).skipped.startswith("Fewer than 4 workers")
    unanimous = CrowdLabels.from_dense(np.zeros((40, 6), int), classes=[0, 1])
    assert find_colluders(unanimous).findings == ()
    with pytest.raises(InputError, match="not in these labels: 'nobody'"):
        find_colluders(crowd.labels, trusted=["nobody"])
    with pytest.raises(InputError, match="level is 2"):
        find_colluders(crowd.labels, level=2)


def test_of_a_large_crowd_the_busiest_are_compared():
    crowd = simulate_crowd(4000, 700, 3, 30, random_state=0)
    screen = find_colluders(crowd.labels)
    assert screen.findings == ()
    assert np.isnan(screen.score).sum() >= 200
    assert screen.score.shape == (700,)
