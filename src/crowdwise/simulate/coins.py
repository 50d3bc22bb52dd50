"""One- and two-coin workers on regular graphs (Kim et al. 2022), with extreme spammers.

Section 4.1 of Kim et al. 2022: 1,000 tasks and 750 workers on a random (3, 4)-regular bipartite graph, two classes.
Equation 3 draws (right, wrong) of a worker from Dir(α₁, α₂): one coin for both classes, or one for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.fitting.parameter_checks import as_numbers
from crowdwise.labels.errors import InputError, quote
from crowdwise.simulate.assignment import Assignment, assign_everyone, assign_regular, join_assignments
from crowdwise.simulate.checks import check_count
from crowdwise.simulate.draws import draw_labels
from crowdwise.simulate.setting import Setting, add_setting_parameters
from crowdwise.simulate.simulation import Simulation
from crowdwise.simulate.workers import draw_dirichlet_rows, pseudo_counts, symmetric_confusion, unrelated_confusion

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray

__all__ = ["one_coin", "two_coin"]


@add_setting_parameters(n_tasks=1000, n_workers=750, n_classes=2, labels_per_task=3)
def one_coin(setting: Setting, *, alpha: tuple[float, float] = (2.0, 1.0), n_spammers: int = 0) -> Simulation:
    """Workers of one Beta-distributed accuracy each, on a regular graph, with extreme spammers (Kim et al. 2022).

    Equation 3 and section 4.1 of Kim et al. 2022. With more than two classes errors are spread equally. The graph has
    `labels_per_task` (the paper's l) workers on each task, and `n_tasks * labels_per_task / n_workers` (its r) tasks
    for each of the `n_workers`, which must be whole.

    Parameters
    ----------
    alpha
        (α₁, α₂): a worker's accuracy is Beta(α₁, α₂), its mean α₁ / (α₁ + α₂).
    n_spammers
        Workers added who label *all* tasks uniformly at random.
    """
    right, wrong = _check_alpha(alpha)
    confusion = symmetric_confusion(setting.rng.beta(right, wrong, setting.n_workers), setting.n_classes)
    return _simulate_on_graph(setting, confusion, n_spammers)


@add_setting_parameters(n_tasks=1000, n_workers=750, n_classes=2, labels_per_task=3)
def two_coin(setting: Setting, *, alpha: Any = (2.0, 1.0), n_spammers: int = 0) -> Simulation:
    """Workers of one Dirichlet-distributed row for each true class, on a regular graph (Kim et al. 2022).

    Section 2.1 of Kim et al. 2022: rows are independent. With more than two classes a pair (α₁, α₂) gives α₂ to the
    wrong classes in equal parts, so that every diagonal entry is Beta(α₁, α₂); a K×K matrix of pseudo-counts
    is the general Dirichlet prior of the paper. The graph is that of `one_coin`.

    Parameters
    ----------
    alpha
        (α₁, α₂), or pseudo-counts (n_classes, n_classes) with rows for the truth.
    n_spammers
        Workers added who label *all* tasks uniformly at random.
    """
    n_classes = setting.n_classes
    counts = as_numbers(alpha, "alpha")
    if counts.ndim != 2:
        counts = pseudo_counts(*_check_alpha(alpha), n_classes)
    if counts.shape != (n_classes, n_classes):
        raise InputError(
            f"alpha is a matrix of {counts.shape} pseudo-counts, but there are {n_classes} classes: "
            f"it must be {n_classes}×{n_classes}."
        )
    return _simulate_on_graph(setting, draw_dirichlet_rows(counts, setting.n_workers, setting.rng), n_spammers)


def _check_alpha(alpha: Any) -> tuple[float, float]:
    try:
        right, wrong = (float(value) for value in alpha)
    except (TypeError, ValueError):
        right, wrong = np.nan, np.nan
    if not (0 < right < np.inf and 0 < wrong < np.inf):
        raise InputError(f"alpha is {quote(alpha)}; it must be two positive numbers (α₁ for right, α₂ for wrong).")
    return right, wrong


def _simulate_on_graph(setting: Setting, confusion: FloatArray, n_spammers: int) -> Simulation:
    n_workers, n_classes = confusion.shape[:2]
    n_spammers = check_count(n_spammers, "n_spammers", 0)
    codes, shares = setting.draw_truth()
    assignment = assign_regular(codes.size, n_workers, setting.labels_per_task, setting.rng)
    if n_spammers:
        extra = assign_everyone(codes.size, n_spammers)
        assignment = join_assignments(assignment, Assignment(extra.task, extra.worker + np.int32(n_workers)))
        confusion = np.concatenate([confusion, unrelated_confusion(np.full((n_spammers, n_classes), 1 / n_classes))])
    label = draw_labels(assignment, codes, confusion, setting.rng)
    kinds = ("worker",) * n_workers + ("spammer",) * n_spammers
    return Simulation.assemble(assignment, label, codes, confusion, shares, kinds=kinds)
