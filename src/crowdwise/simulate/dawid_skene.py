"""The general-purpose crowd: Dawid and Skene's model with Dirichlet rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crowdwise.labels.old_names import accept_seed
from crowdwise.simulate.checks import as_generator, check_count
from crowdwise.simulate.known_workers import simulate_workers
from crowdwise.simulate.workers import draw_skilled_confusion

if TYPE_CHECKING:
    from crowdwise.simulate.checks import Seed
    from crowdwise.simulate.simulation import Simulation

__all__ = ["simulate_crowd"]


@accept_seed
def simulate_crowd(
    n_tasks: int = 1000,
    n_workers: int = 50,
    n_classes: int = 4,
    labels_per_task: int | None = 5,
    *,
    skill: float = 0.7,
    concentration: float = 10.0,
    prior: Any = None,
    truth: Any = None,
    random_state: Seed = 0,
) -> Simulation:
    """Independent workers with confusion matrices of a wanted mean skill (Dawid and Skene's model).

    Time and memory are linear in the labels: ten million take a few seconds.

    Parameters
    ----------
    n_tasks, n_workers, n_classes
        Sizes.
    labels_per_task
        Different workers drawn at random for each task; None for all of them.
    skill
        Mean of the confusion matrices' diagonals, in (0, 1).
    concentration
        Size of a row's Dirichlet pseudo-counts: the larger, the more alike the workers.
    prior
        Class shares; equal ones by default.
    truth
        True classes of real tasks as positions, in place of `n_tasks` and `prior`.
    random_state
        A whole number or a numpy Generator. Same seed, same bits.

    Examples
    --------
    >>> simulate_crowd(n_tasks=200, n_workers=10, n_classes=3, random_state=1).labels
    CrowdLabels: 1,000 labels by 10 workers on 200 tasks, 3 classes (0, 1, 2)
    """
    rng = as_generator(random_state)
    n_workers = check_count(n_workers, "n_workers")
    n_classes = check_count(n_classes, "n_classes", 2)
    confusion = draw_skilled_confusion(n_workers, n_classes, rng, skill=skill, concentration=concentration)
    return simulate_workers(confusion, n_tasks, labels_per_task, prior=prior, truth=truth, random_state=rng)
