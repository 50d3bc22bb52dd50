"""A simulated crowd that marks spans in texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from crowdwise.kinds.simulated_crowd import CrowdSizes, SimulatedCrowd, add_crowd_parameters
from crowdwise.kinds.simulator_parameters import Shares, check_numbers
from crowdwise.kinds.spans.answers import Spans

__all__ = ["SpanErrors", "simulate_spans"]


@dataclass(frozen=True, kw_only=True)
class SpanErrors:
    """How often workers err: the smallest and the largest rate, drawn evenly between. See `simulate_spans`."""

    miss_rate: Shares = (0.05, 0.5)
    boundary_rate: Shares = (0.02, 0.3)
    label_rate: Shares = (0.02, 0.2)
    false_positives: Shares = (0.0, 0.15)


@add_crowd_parameters(n_tasks=60, n_workers=12, answers_per_task=5)
def simulate_spans(sizes: CrowdSizes, /, *, spans: int = 4, n_classes: int = 2, **errors: Any) -> SimulatedCrowd[Spans]:
    """Texts with up to so many spans of one to four tokens, apart by five or more, and what workers mark of them.

    Parameters
    ----------
    errors
        Those of `SpanErrors`.

    Returns
    -------
    SimulatedCrowd
        truth : table of task, start, end and label
        miss_rate, boundary_rate, label_rate : (M,)
            Chance that a worker misses a span, moves an end of one that they mark, and names another label.
        false_positives : (M,)
            Chance of a span in each stretch between true ones.
    """
    generator, n_tasks, n_workers = sizes.generator, sizes.n_tasks, sizes.n_workers
    given = SpanErrors(**check_numbers(errors, SpanErrors.__annotations__))
    ranges = (given.miss_rate, given.boundary_rate, given.label_rate, given.false_positives)
    miss, boundary, other, false = (generator.uniform(*each, n_workers) for each in ranges)
    rows: list[tuple[int, int, float, float, int]] = []
    truth: dict[str, list[Any]] = {"task": [], "start": [], "end": [], "label": []}
    for task in range(n_tasks):
        number = int(generator.integers(0, spans + 1))
        length = generator.integers(1, 5, number)
        start = np.cumsum(generator.integers(5, 12, number)) + np.append(0, np.cumsum(length))[:number]
        label = generator.integers(n_classes, size=number)
        for first, size, kind in zip(start, length, label, strict=True):
            for name, value in {"task": task, "start": first, "end": first + size, "label": f"class {kind}"}.items():
                truth[name].append(value)
        if not number:
            for name, empty in {"task": task, "start": None, "end": None, "label": None}.items():
                truth[name].append(empty)
        for worker in generator.permutation(n_workers)[: sizes.answers_per_task]:
            said = len(rows)
            for first, size, kind in zip(start, length, label, strict=True):
                if generator.random() < false[worker]:
                    at = int(first) - 3
                    rows.append((task, int(worker), at, at + 1, int(generator.integers(n_classes))))
                if generator.random() >= miss[worker]:
                    low = int(first) - (generator.random() < boundary[worker])
                    high = int(first + size) + (generator.random() < boundary[worker])
                    wrong = generator.random() < label_rate_of(other[worker], n_classes)
                    named = (int(kind) + int(wrong) * int(generator.integers(1, max(n_classes, 2)))) % n_classes
                    rows.append((task, int(worker), low, high, named))
            if len(rows) == said:
                rows.append((task, int(worker), np.nan, np.nan, 0))
    tasks, workers, low_ends, high_ends, labels = (np.array(each) for each in zip(*rows, strict=True))
    names = [f"class {kind}" for kind in range(n_classes)]
    answers = Spans.from_codes(
        tasks, workers, np.column_stack([low_ends, high_ends]), tasks=n_tasks, workers=n_workers, label=labels,
        classes=names,
    )  # fmt: skip
    columns = {name: pa.array(values, pa.string() if name == "label" else pa.int64()) for name, values in truth.items()}
    return SimulatedCrowd(
        answers,
        pa.table(columns),
        drawn={"miss_rate": miss, "boundary_rate": boundary, "label_rate": other, "false_positives": false},
    )


def label_rate_of(rate: float, n_classes: int) -> float:
    """Chance of another label: none where there is one class."""
    return float(rate) if n_classes > 1 else 0.0
