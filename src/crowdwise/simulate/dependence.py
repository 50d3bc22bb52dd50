"""Groups of workers who depend on each other (seed 002, "DS model for dependent classifiers").

For each task, group j has a hidden opinion z ~ Ξ⁽ʲ⁾[truth], and its workers label z instead of the truth:
worker m draws from Ã_m[z]. Given z the workers are independent, given the truth the groups are.
The slides write columns for the condition; here, as everywhere, rows: A_m = Ξ⁽ʲ⁾ Ã_m.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.labels.errors import InputError
from crowdwise.labels.old_names import accept_seed
from crowdwise.simulate.assignment import assign
from crowdwise.simulate.checks import as_generator, checked_count
from crowdwise.simulate.draws import draw_from_rows, draw_truth
from crowdwise.simulate.simulation import Simulation
from crowdwise.simulate.workers import skilled

if TYPE_CHECKING:
    from crowdwise.simulate.checks import Seed

__all__ = ["dependent_groups"]


@accept_seed
def dependent_groups(
    n_tasks: int = 5000,
    n_workers: int = 40,
    n_classes: int = 3,
    labels_per_task: int | None = None,
    *,
    n_groups: int = 5,
    group_skill: float = 0.7,
    skill: float = 0.85,
    concentration: float = 20.0,
    prior: Any = None,
    truth: Any = None,
    random_state: Seed = 0,
) -> Simulation:
    """Workers in groups that share a hidden opinion on each task (002).

    The slides give the sizes only; both skills are ours. `confusion` holds each worker's marginal Ξ Ã,
    `extras` the parts: "group_confusion" Ξ (J, K, K), "worker_confusion" Ã (M, K, K) and "opinion" z (N, J).

    Parameters
    ----------
    labels_per_task
        None for everyone.
    n_groups
        J; workers are dealt to groups in blocks whose sizes differ by at most one.
    group_skill
        Mean diagonal of Ξ: how often a group's opinion is the truth.
    skill
        Mean diagonal of Ã: how often a worker gives the group's opinion.
    concentration
        Size of the Dirichlet pseudo-counts of the rows of both.
    n_tasks, n_workers, n_classes, prior, truth, random_state
        As for `simulate_crowd`.
    """
    rng = as_generator(random_state)
    n_workers, n_groups = checked_count(n_workers, "n_workers"), checked_count(n_groups, "n_groups")
    if n_groups > n_workers:
        raise InputError(f"n_groups is {n_groups}, but {n_workers} workers make at most {n_workers} groups.")
    codes, shares = draw_truth(n_tasks, n_classes, rng, prior=prior, truth=truth)
    hidden = skilled(n_groups, n_classes, rng, skill=group_skill, concentration=concentration)
    own = skilled(n_workers, n_classes, rng, skill=skill, concentration=concentration)
    groups = np.arange(n_workers) * n_groups // n_workers

    everywhere = np.tile(np.arange(n_groups), codes.size)
    opinion = draw_from_rows(everywhere, np.repeat(codes, n_groups), hidden, rng).reshape(codes.size, n_groups)
    assignment = assign(codes.size, n_workers, labels_per_task, rng)
    given = opinion[assignment.task, groups[assignment.worker]]
    label = draw_from_rows(assignment.worker, given, own, rng)
    return Simulation.assembled(
        assignment,
        label,
        codes,
        hidden[groups] @ own,
        shares,
        groups=groups,
        extras={"group_confusion": hidden, "worker_confusion": own, "opinion": opinion},
    )
