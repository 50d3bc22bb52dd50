"""Groups of workers who depend on each other (Ibrahim et al. 2025, "DS model for dependent classifiers").

For each task, group j has a hidden opinion z ~ Ξ⁽ʲ⁾[truth], and its workers label z instead of the truth:
worker m draws from Ã_m[z]. Given z the workers are independent, given the truth the groups are.
The slides write columns for the condition; here, as everywhere, rows: A_m = Ξ⁽ʲ⁾ Ã_m.
"""

from __future__ import annotations

import numpy as np

from crowdwise.labels.errors import InputError
from crowdwise.simulate.checks import check_count
from crowdwise.simulate.draws import draw_from_rows
from crowdwise.simulate.setting import Setting, add_setting_parameters
from crowdwise.simulate.simulation import Simulation
from crowdwise.simulate.workers import draw_skilled_confusion

__all__ = ["dependent_groups"]


@add_setting_parameters(n_tasks=5000, n_workers=40, n_classes=3, labels_per_task=None)
def dependent_groups(
    setting: Setting, *, n_groups: int = 5, group_skill: float = 0.7, skill: float = 0.85, concentration: float = 20.0
) -> Simulation:
    """Workers in groups that share a hidden opinion on each task (Ibrahim et al. 2025).

    The slides give the sizes only; both skills are ours. `confusion` holds each worker's marginal Ξ Ã,
    `extras` the parts: "group_confusion" Ξ (J, K, K), "worker_confusion" Ã (M, K, K) and "opinion" z (N, J).

    Parameters
    ----------
    n_groups
        J; workers are dealt to groups in blocks whose sizes differ by at most one.
    group_skill
        Mean diagonal of Ξ: how often a group's opinion is the truth.
    skill
        Mean diagonal of Ã: how often a worker gives the group's opinion.
    concentration
        Size of the Dirichlet pseudo-counts of the rows of both.
    """
    rng, n_workers, n_classes = setting.rng, setting.n_workers, setting.n_classes
    n_groups = check_count(n_groups, "n_groups")
    if n_groups > n_workers:
        raise InputError(f"n_groups is {n_groups}, but {n_workers} workers make at most {n_workers} groups.")
    codes, shares = setting.draw_truth()
    hidden = draw_skilled_confusion(n_groups, n_classes, rng, skill=group_skill, concentration=concentration)
    own = draw_skilled_confusion(n_workers, n_classes, rng, skill=skill, concentration=concentration)
    groups = np.arange(n_workers) * n_groups // n_workers

    everywhere = np.tile(np.arange(n_groups), codes.size)
    opinion = draw_from_rows(everywhere, np.repeat(codes, n_groups), hidden, rng).reshape(codes.size, n_groups)
    assignment = setting.assign(codes.size)
    given = opinion[assignment.task, groups[assignment.worker]]
    label = draw_from_rows(assignment.worker, given, own, rng)
    extras = {"group_confusion": hidden, "worker_confusion": own, "opinion": opinion}
    return Simulation.assemble(assignment, label, codes, hidden[groups] @ own, shares, groups=groups, extras=extras)
