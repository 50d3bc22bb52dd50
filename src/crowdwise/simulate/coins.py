"""One- and two-coin workers on regular graphs (Cao et al. 2023, seed 004), with extreme spammers.

Section 4.1 of 004: 1,000 tasks and 750 workers on a random (3, 4)-regular bipartite graph, two classes.
Equation 3 draws (right, wrong) of a worker from Dir(α₁, α₂): one coin for both classes, or one for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.labels.errors import InputError, quoted
from crowdwise.labels.old_names import accept_seed
from crowdwise.simulate.assignment import Assignment, everyone, joined, regular
from crowdwise.simulate.checks import as_generator, checked_count
from crowdwise.simulate.draws import draw_labels, draw_truth
from crowdwise.simulate.simulation import Simulation
from crowdwise.simulate.workers import dirichlet_rows, pseudo_counts, symmetric, unrelated

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray
    from crowdwise.simulate.checks import Seed

__all__ = ["one_coin", "two_coin"]


@accept_seed
def one_coin(
    n_tasks: int = 1000,
    n_workers: int = 750,
    n_classes: int = 2,
    labels_per_task: int = 3,
    *,
    alpha: tuple[float, float] = (2.0, 1.0),
    n_spammers: int = 0,
    prior: Any = None,
    truth: Any = None,
    random_state: Seed = 0,
) -> Simulation:
    """Workers of one Beta-distributed accuracy each, on a regular graph, with extreme spammers (004).

    Equation 3 and section 4.1 of 004. With more than two classes errors are spread equally.

    Parameters
    ----------
    n_workers
        Workers of the graph; each gets `n_tasks * labels_per_task / n_workers` tasks, which must be whole.
    labels_per_task
        The graph's l (the paper's 3, so that r is 4).
    alpha
        (α₁, α₂): a worker's accuracy is Beta(α₁, α₂), its mean α₁ / (α₁ + α₂).
    n_spammers
        Workers added who label *all* tasks uniformly at random.
    n_tasks, n_classes, prior, truth, random_state
        As for `simulate_crowd`.
    """
    rng = as_generator(random_state)
    n_workers, n_classes = checked_count(n_workers, "n_workers"), checked_count(n_classes, "n_classes", 2)
    right, wrong = _pair(alpha)
    confusion = symmetric(rng.beta(right, wrong, n_workers), n_classes)
    return _on_graph(
        n_tasks,
        confusion,
        labels_per_task=labels_per_task,
        n_spammers=n_spammers,
        prior=prior,
        truth=truth,
        rng=rng,
    )


@accept_seed
def two_coin(
    n_tasks: int = 1000,
    n_workers: int = 750,
    n_classes: int = 2,
    labels_per_task: int = 3,
    *,
    alpha: Any = (2.0, 1.0),
    n_spammers: int = 0,
    prior: Any = None,
    truth: Any = None,
    random_state: Seed = 0,
) -> Simulation:
    """Workers of one Dirichlet-distributed row for each true class, on a regular graph (004).

    Section 2.1 of 004: rows are independent. With more than two classes a pair (α₁, α₂) gives α₂ to the
    wrong classes in equal parts, so that every diagonal entry is Beta(α₁, α₂); a K×K matrix of pseudo-counts
    is the general Dirichlet prior of the paper.

    Parameters
    ----------
    n_workers
        Workers of the graph; each gets `n_tasks * labels_per_task / n_workers` tasks, which must be whole.
    labels_per_task
        The graph's l (the paper's 3, so that r is 4).
    alpha
        (α₁, α₂), or pseudo-counts (n_classes, n_classes) with rows for the truth.
    n_spammers
        Workers added who label *all* tasks uniformly at random.
    n_tasks, n_classes, prior, truth, random_state
        As for `simulate_crowd`.
    """
    rng = as_generator(random_state)
    n_workers, n_classes = checked_count(n_workers, "n_workers"), checked_count(n_classes, "n_classes", 2)
    counts = np.asarray(alpha, np.float64)
    if counts.ndim != 2:
        counts = pseudo_counts(*_pair(alpha), n_classes)
    if counts.shape != (n_classes, n_classes):
        raise InputError(
            f"alpha is a matrix of {counts.shape} pseudo-counts, but there are {n_classes} classes: "
            f"it must be {n_classes}×{n_classes}."
        )
    confusion = dirichlet_rows(counts, n_workers, rng)
    return _on_graph(
        n_tasks,
        confusion,
        labels_per_task=labels_per_task,
        n_spammers=n_spammers,
        prior=prior,
        truth=truth,
        rng=rng,
    )


def _pair(alpha: Any) -> tuple[float, float]:
    try:
        right, wrong = (float(value) for value in alpha)
    except (TypeError, ValueError):
        right, wrong = np.nan, np.nan
    if not (0 < right < np.inf and 0 < wrong < np.inf):
        raise InputError(f"alpha is {quoted(alpha)}; it must be two positive numbers (α₁ for right, α₂ for wrong).")
    return right, wrong


def _on_graph(
    n_tasks: int,
    confusion: FloatArray,
    *,
    labels_per_task: int,
    n_spammers: int,
    prior: Any,
    truth: Any,
    rng: np.random.Generator,
) -> Simulation:
    n_workers, n_classes = confusion.shape[:2]
    n_spammers = checked_count(n_spammers, "n_spammers", 0)
    codes, shares = draw_truth(n_tasks, n_classes, rng, prior=prior, truth=truth)
    assignment = regular(codes.size, n_workers, labels_per_task, rng)
    if n_spammers:
        extra = everyone(codes.size, n_spammers)
        assignment = joined(assignment, Assignment(extra.task, extra.worker + np.int32(n_workers)))
        confusion = np.concatenate([confusion, unrelated(np.full((n_spammers, n_classes), 1 / n_classes))])
    label = draw_labels(assignment, codes, confusion, rng)
    kinds = ("worker",) * n_workers + ("spammer",) * n_spammers
    return Simulation.assembled(assignment, label, codes, confusion, shares, kinds=kinds)
