"""A crowd of workers whose confusion matrices are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crowdwise.labels.old_names import accept_seed
from crowdwise.simulate.assignment import assign
from crowdwise.simulate.checks import as_generator, check_confusion
from crowdwise.simulate.draws import draw_labels, draw_truth
from crowdwise.simulate.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.simulate.checks import Seed

__all__ = ["simulate_workers"]


@accept_seed
def simulate_workers(
    confusion: Any,
    n_tasks: int = 1000,
    labels_per_task: int | None = None,
    *,
    classes: Sequence[str] | None = None,
    workers: Sequence[str] | None = None,
    kinds: tuple[str, ...] | None = None,
    prior: Any = None,
    truth: Any = None,
    random_state: Seed = 0,
) -> Simulation:
    """Independent workers with the confusion matrices given.

    Parameters
    ----------
    confusion
        Array (n_workers, n_classes, n_classes), `[worker, truth, label]`; rows sum to one.
    labels_per_task
        Different workers drawn at random for each task; None for all of them.
    classes, workers, kinds
        Names of the classes and the workers, and what each worker is; numbers and None by default.
    n_tasks, prior, truth, random_state
        As for `simulate_crowd`.

    Examples
    --------
    >>> expert, guesser = [[1, 0], [0, 1]], [[0.5, 0.5], [0.5, 0.5]]
    >>> simulate_workers([expert, guesser], n_tasks=100).skill.tolist()
    [1.0, 0.5]
    """
    rng = as_generator(random_state)
    matrices = check_confusion(confusion)
    codes, shares = draw_truth(n_tasks, matrices.shape[1], rng, prior=prior, truth=truth)
    assignment = assign(codes.size, matrices.shape[0], labels_per_task, rng)
    label = draw_labels(assignment, codes, matrices, rng)
    return Simulation.assemble(
        assignment, label, codes, matrices, shares, classes=classes, workers=workers, kinds=kinds
    )
