"""A simulated crowd that answers with sets of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from scipy.special import expit, logit

from crowdwise.kinds.multi_label.answers import LabelSets
from crowdwise.kinds.multi_label.set_cells import write_sets
from crowdwise.kinds.simulated_crowd import CrowdSizes, SimulatedCrowd, add_crowd_parameters

if TYPE_CHECKING:
    from crowdwise.kinds.simulator_parameters import Shares

__all__ = ["simulate_label_sets"]


@add_crowd_parameters(n_tasks=100, n_workers=15, answers_per_task=4)
def simulate_label_sets(
    sizes: CrowdSizes,
    *,
    n_classes: int = 8,
    n_types: int = 3,
    sensitivity: Shares = (0.4, 0.95),
    specificity: Shares = (0.75, 0.99),
    ease: float = 0.5,
) -> SimulatedCrowd[LabelSets]:
    """Tasks of a few types, each with classes that go together, and what workers say of them.

    Parameters
    ----------
    n_types
        Types of tasks: in each, about a third of the classes are in a set with probability 0.8, others with 0.05.
    sensitivity, specificity
        Smallest and largest of a worker; drawn evenly between.
    ease
        Standard deviation, in log-odds, by which classes are easier or harder for all workers.

    Returns
    -------
    SimulatedCrowd
        truth : table of task and labels
        member : (N, K)
            The same, as truth values.
        sensitivity, specificity : (M, K)
            Chance that a worker names a class that is in the set, and leaves out one that is not.
    """
    generator, n_tasks, n_workers = sizes.generator, sizes.n_tasks, sizes.n_workers
    common = np.zeros((n_types, n_classes), np.bool_)
    for row in common:
        row[generator.permutation(n_classes)[: max(n_classes // 3, 1)]] = True
    kind = generator.integers(n_types, size=n_tasks)
    member = generator.random((n_tasks, n_classes)) < np.where(common, 0.8, 0.05)[kind]
    rates = [
        expit(logit(generator.uniform(*ends, (n_workers, 1))) + ease * generator.normal(size=n_classes))
        for ends in (sensitivity, specificity)
    ]
    task, worker = sizes.assign()
    chance = np.where(member[task], rates[0][worker], 1 - rates[1][worker])
    said = generator.random(chance.shape) < chance
    answers = LabelSets.from_codes(task, worker, said, tasks=n_tasks, workers=n_workers, classes=n_classes)
    truth = pa.table({"task": np.arange(n_tasks), "labels": write_sets(member, answers.classes)})
    return SimulatedCrowd(answers, truth, drawn={"member": member, "sensitivity": rates[0], "specificity": rates[1]})
