"""Pairs of task and worker: support by the others, skills and worth against brute force; what the policy buys."""

from __future__ import annotations

import numpy as np

from crowdwise.acquire import OnlineModel, replay
from crowdwise.acquire.pair_worth import SKILLS, TEMPER, estimate_matrices, estimate_skills, score_pairs
from crowdwise.acquire.replay_stream import buy_labels
from crowdwise.simulate import simulate

CROWD = simulate("dawid-skene", n_tasks=40, n_workers=6, n_classes=3, labels_per_task=3, skill=0.7, random_state=5)


def test_support_leaves_the_own_label_out() -> None:
    model = OnlineModel(growth=0).partial_fit(CROWD.labels)
    model.refit(tol=1e-13)
    worker, label, support = model.support_of_labels()
    tables, labels = model.confusions, model.to_labels()
    for edge in range(0, labels.n_labels, 7):
        q = model.prior.copy()
        for other in np.flatnonzero(labels.task == labels.task[edge]):
            if other != edge:
                q *= tables[labels.worker[other], :, labels.label[other]]
        at = np.flatnonzero((worker == labels.worker[edge]) & (label == labels.label[edge]))
        assert np.abs(support[at] - q[labels.label[edge]] / q.sum()).min() < 1e-8


def test_answers_that_nobody_else_gave_say_nothing_of_a_skill() -> None:
    model = OnlineModel(["x", "y"], growth=0)
    for task in range(20):
        model.add(task, "alone", "x" if task % 2 else "y")
        for worker in ("ann", "bob", "cy"):
            model.add(100 + task, worker, "x" if task % 2 else "y")
    model.refit()
    alone, ann = (estimate_skills(model) @ SKILLS)[[model.workers.find("alone"), model.workers.find("ann")]]
    worker, _, support = model.support_of_labels()
    assert np.allclose(support[worker == model.workers.find("alone")], 0.5, atol=0.01)
    assert alone < ann - 0.05


def test_worth_of_a_pair_is_what_all_answers_give_on_average() -> None:
    model = OnlineModel(growth=0).partial_fit(CROWD.labels)
    task, worker = np.array([0, 5, 9]), np.array([1, 0, 4])
    found = score_pairs(model, task, worker)
    for pair, (t, w) in enumerate(zip(task, worker, strict=True)):
        q = model.posteriors[t] ** TEMPER
        joint = (q / q.sum())[:, None] * estimate_matrices(model)[w]
        apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
        assert np.isclose(found[pair], (joint * np.log(joint / apart)).sum())


def test_pairs_are_bought_of_good_workers_and_beat_random_buying() -> None:
    crowd = simulate("spammers", n_tasks=300, n_workers=20, n_classes=3, labels_per_task=8, share=0.5, random_state=1)
    bought = buy_labels(crowd.labels, "joint", 0.4, batch=0.05)
    assert bought.n_labels == round(0.4 * crowd.labels.n_labels)
    assert bought.labels_per_task.min() >= 1
    honest = np.array([kind != "spammer" for kind in crowd.kinds])
    assert honest[bought.worker].mean() > honest[crowd.labels.worker].mean() + 0.15
    found = replay(crowd.labels, dict(enumerate(crowd.truth.tolist())), ("random", "joint"), seeds=1, batch=0.1)
    assert found.mean[1].mean() > found.mean[0].mean() + 0.02
    assert found.mean[0, -1] == found.mean[1, -1]  # all labels, one fit
