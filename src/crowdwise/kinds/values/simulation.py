"""A simulated crowd that answers with numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from crowdwise.kinds.simulated_crowd import CrowdSizes, SimulatedCrowd, add_crowd_parameters
from crowdwise.kinds.values.answers import Values

if TYPE_CHECKING:
    from crowdwise.kinds.simulator_parameters import Range

__all__ = ["simulate_values"]


@add_crowd_parameters("values", n_tasks=100, n_workers=20, answers_per_task=5)
def simulate_values(
    sizes: CrowdSizes, *, error: Range = (5.0, 30.0), scale: float = 0.0, bias: float = 0.0, spread: float = 20.0
) -> SimulatedCrowd[Values]:
    """Values of tasks drawn from a normal distribution about 50, and what workers say of them.

    Parameters
    ----------
    error
        Smallest and largest standard deviation of a worker's answers; drawn evenly between.
    scale, bias
        Standard deviations of the workers' scales (about 1) and biases (about 0).
    spread
        Standard deviation of the true values.
    values
        True values of the tasks (N,), where they are not to be drawn.

    Returns
    -------
    SimulatedCrowd
        truth : table of task and value
        value : (N,)
            The same, as an array.
        error, scale, bias : (M,)
            A worker's answer to a task of value y is normal: mean scale × y + bias, standard deviation error.
    """
    generator, n_tasks, n_workers = sizes.generator, sizes.n_tasks, sizes.n_workers
    value = sizes.truth_or(generator.normal(50, spread, n_tasks))
    errors = generator.uniform(*error, n_workers)
    scales, biases = 1 + scale * generator.normal(size=n_workers), bias * generator.normal(size=n_workers)
    task, worker = sizes.assign()
    said = scales[worker] * value[task] + biases[worker] + errors[worker] * generator.normal(size=task.size)
    answers = Values.from_codes(task, worker, said, tasks=n_tasks, workers=n_workers)
    truth = pa.table({"task": np.arange(n_tasks), "value": value})
    return SimulatedCrowd(answers, truth, drawn={"value": value, "error": errors, "scale": scales, "bias": biases})
