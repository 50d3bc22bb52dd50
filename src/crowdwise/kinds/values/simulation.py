"""A simulated crowd that answers with numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crowdwise.kinds.simulated_truth import given_truth
from crowdwise.kinds.values.answers import Values

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray

__all__ = ["SimulatedValues", "simulate_values"]


@dataclass(frozen=True)
class SimulatedValues:
    """Values, the truth and the workers that made them.

    Attributes
    ----------
    truth : table of task and value
    value : (N,)
        The same, as an array.
    error, scale, bias : (M,)
        A worker's answer to a task of value y is normal: mean scale × y + bias, standard deviation error.
    """

    answers: Values
    truth: pa.Table
    value: FloatArray
    error: FloatArray
    scale: FloatArray
    bias: FloatArray


def simulate_values(
    n_tasks: int = 100,
    n_workers: int = 20,
    *,
    answers_per_task: int = 5,
    error: tuple[float, float] = (5.0, 30.0),
    scale: float = 0.0,
    bias: float = 0.0,
    spread: float = 20.0,
    values: Any = None,
    random_state: int = 0,
) -> SimulatedValues:
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
    """
    generator = np.random.default_rng(random_state)
    value = generator.normal(50, spread, n_tasks)
    value = value if values is None else given_truth(values, n_tasks, "values")
    errors = generator.uniform(*error, n_workers)
    scales, biases = 1 + scale * generator.normal(size=n_workers), bias * generator.normal(size=n_workers)
    task = np.repeat(np.arange(n_tasks), answers_per_task)
    worker = np.concatenate([generator.permutation(n_workers)[:answers_per_task] for _ in range(n_tasks)])
    said = scales[worker] * value[task] + biases[worker] + errors[worker] * generator.normal(size=task.size)
    answers = Values.from_codes(task, worker, said, tasks=n_tasks, workers=n_workers)
    truth = pa.table({"task": np.arange(n_tasks), "value": value})
    return SimulatedValues(answers, truth, value, errors, scales, biases)
