"""Tasks of two groups, what classifiers make of unfair workers, colluders among real workers, and machines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.reproduction.crowd_of_run import add_colluders
from crowdwise.reproduction.fairness_measures import parity_difference
from crowdwise.reproduction.machine_annotators import label_by_machines
from crowdwise.reproduction.measures import FittedModel, compute_measure
from crowdwise.reproduction.problems import make_problem
from crowdwise.reproduction.worker_removal import workers_to_remove

DATA = {"name": "two-groups", "train": 1500, "test": 500}
CROWD = {"n_workers": 12, "labels_per_task": 3, "skill": 0.8, "unfair": 0.5, "bias": 0.6, "gold": 400}


@pytest.mark.parametrize("assignment", ["random", "accurate", "fair"])
def test_three_labels_a_task_by_workers_of_known_rates(assignment: str) -> None:
    problem = make_problem(DATA, CROWD | {"assignment": assignment}, 1)
    assert (problem.labels.labels_per_task == 3).all()
    task, worker = problem.labels.task, problem.labels.worker
    assert problem.group is not None
    right = problem.labels.label == problem.truth[task]
    hurt = (problem.group[task] == 1) & (problem.truth[task] == 1)
    if assignment == "random":
        assert right[hurt & (worker < 6)].mean() == pytest.approx(0.8 * 0.4, abs=0.08)
        assert right[hurt & (worker >= 6)].mean() == pytest.approx(0.8, abs=0.08)
    if assignment == "fair":
        other = (problem.group[task] == 0) & (problem.truth[task] == 1)
        assert right[hurt].mean() == pytest.approx(right[other].mean(), abs=0.05)


def test_measures_of_fairness() -> None:
    def measured(**crowd: Any) -> dict[str, float]:
        problem = make_problem(DATA, CROWD | {"assignment": "random"} | crowd, 0)
        fitted = FittedModel(problem, cw.MajorityVote().fit(problem.labels))
        names = ("logistic_parity_gained", "logistic_accuracy_lost", "consensus_parity", "forest_parity_gained")
        return {name: compute_measure(name, fitted) for name in names}

    unfair, true = measured(), measured(true=True)
    assert true["logistic_parity_gained"] == true["forest_parity_gained"] == true["logistic_accuracy_lost"] == 0
    assert unfair["logistic_parity_gained"] > 0.05
    assert unfair["forest_parity_gained"] > 0.05
    assert unfair["consensus_parity"] > 0.1
    assert parity_difference(np.array([1, 1, 0, 0]), np.array([1, 1, 1, 0])) == pytest.approx(2 / 3)
    plain = make_problem({}, {"name": "one-coin", "n_tasks": 40, "n_workers": 30}, 0)
    with pytest.raises(cw.InputError, match="There are no groups of test tasks"):
        compute_measure("forest_parity_gained", FittedModel(plain, cw.MajorityVote().fit(plain.labels)))


def test_colluders_among_real_workers() -> None:
    crowd = cw.simulate.simulate("dawid-skene", n_tasks=400, n_workers=20, labels_per_task=8, random_state=0)
    labels, kinds = add_colluders(crowd.labels, crowd.truth, {"colluders": 0.25, "p_corr": 0.9}, 3)
    assert kinds is not None
    bad = np.array(kinds) == "colluder"
    assert bad.sum() == 5
    theirs = bad[labels.worker]
    assert (labels.label[~theirs] == crowd.labels.label[~theirs]).all()
    for task in range(20):
        assert len(set(labels.label[theirs & (labels.task == task)].tolist())) <= 1
    assert (labels.label == crowd.truth[labels.task])[theirs].mean() == pytest.approx(0.1, abs=0.06)
    assert add_colluders(crowd.labels, crowd.truth, {}, 3) == (crowd.labels, None)
    only, _ = add_colluders(crowd.labels, crowd.truth, {"colluders": 0.25, "p_corr": 0.9, "only": "honest"}, 3)
    assert only.n_labels == (~theirs).sum()


@pytest.mark.parametrize("removal", ["colluders", "trusted-colluders"])
def test_they_are_found(removal: str) -> None:
    crowd = cw.simulate.simulate("dawid-skene", n_tasks=800, n_workers=20, labels_per_task=12, random_state=1)
    labels, kinds = add_colluders(crowd.labels, crowd.truth, {"colluders": 0.25, "p_corr": 0.9}, 0)
    problem = make_problem({}, {"name": "one-coin", "n_tasks": 40, "n_workers": 30}, 0)
    problem = type(problem)(labels, crowd.truth, kinds=kinds)
    assert (workers_to_remove(removal, problem, 0) == (np.array(kinds) == "colluder")).all()


def test_machines_label_a_share_of_the_images_each() -> None:
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(4, 12))

    def images(number: int) -> tuple[Any, Any]:
        truth = generator.integers(4, size=number)
        return (centres[truth] + 1.2 * generator.normal(size=(number, 12))).reshape(number, 1, 3, 4), truth

    x, truth = images(1500)
    labels = label_by_machines(x, truth, images(700), {"n_workers": 6, "share": 0.2}, 4, 0)
    assert labels.n_workers == 6
    assert labels.labels_per_worker == pytest.approx(np.full(6, 300), abs=60)
    right = np.bincount(labels.worker, labels.label == truth[labels.task]) / labels.labels_per_worker
    assert (right > 0.1).all()
    assert (right < 0.9).all()
    with pytest.raises(cw.InputError, match="Too few machines have an accuracy in the range"):
        label_by_machines(x, 9 + truth, images(700), {"n_workers": 1, "share": 0.2}, 4, 0)
