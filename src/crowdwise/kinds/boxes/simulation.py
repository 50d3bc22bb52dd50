"""A simulated crowd that draws boxes, or marks points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from scipy.special import expit, logit

from crowdwise.kinds.boxes.answers import Boxes
from crowdwise.kinds.boxes.geometry import intersection_over_union
from crowdwise.kinds.boxes.object_likelihood import LEVELS, visibility_shares

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.kinds.marks import Marks
    from crowdwise.labels.types import FloatArray

__all__ = ["SimulatedObjects", "simulate_boxes", "simulate_objects"]

FRAME = 1000.0


@dataclass(frozen=True)
class SimulatedObjects:
    """Marks, the true ones, and the workers that made them.

    Attributes
    ----------
    truth : table of task and the coordinates of a true mark
    miss_rate : (M,)
        Share of the objects that a worker misses, over all visibilities.
    false_positives : (M,)
        Marks of what is no object, a task.
    error : (M,)
        Standard deviation of a coordinate: of boxes in shares of the size, of points in their units.
    """

    answers: Any
    truth: pa.Table
    miss_rate: FloatArray
    false_positives: FloatArray
    error: FloatArray


def simulate_boxes(
    n_tasks: int = 30,
    n_workers: int = 12,
    *,
    answers_per_task: int = 6,
    objects: float = 4.0,
    distractors: float = 4.0,
    miss_rate: tuple[float, float] = (0.1, 0.5),
    false_positives: tuple[float, float] = (0.1, 1.0),
    error: tuple[float, float] = (0.03, 0.12),
    spread: float = 1.0,
    careless: float = 0.1,
    n_classes: int = 1,
    random_state: int = 0,
) -> SimulatedObjects:
    """Boxes in a frame of 1000 × 1000, and what workers draw of them.

    Parameters
    ----------
    objects, distractors
        Mean number in a task of objects, and of places that are taken for one now and then.
    miss_rate, false_positives, error
        Smallest and largest of a worker; drawn evenly between.
    spread
        Standard deviation of the objects' visibilities, in log-odds.
    careless
        Share of the boxes and of the coordinates whose errors are three times as large.
    n_classes
        Number of labels; 1 for boxes without labels.
    """
    generator = np.random.default_rng(random_state)

    def place(n: int) -> FloatArray:
        made: FloatArray = np.empty((0, 4))
        while len(made) < n:
            sides = np.exp(generator.normal(np.log(FRAME / 8), 0.5, (1, 2)))
            corner = generator.uniform(0, FRAME, (1, 2)) - sides / 2
            box = np.concatenate([corner, corner + sides], axis=1)
            if not (intersection_over_union(box, made) > 0.2).any():
                made = np.concatenate([made, box])
        return made

    def size(places: FloatArray) -> FloatArray:
        sides = places[:, 2:] - places[:, :2]
        mixed = np.sqrt(sides * np.sqrt(sides.prod(axis=1, keepdims=True)))
        found: FloatArray = np.concatenate([mixed, mixed], axis=1)
        return found

    ranges = {"miss_rate": miss_rate, "false_positives": false_positives, "error": error}
    return simulate_objects(
        Boxes, generator, place, size, (n_tasks, n_workers, answers_per_task, n_classes), (objects, distractors),
        ranges, spread, careless,
    )  # fmt: skip


def simulate_objects(
    marks: type[Marks],
    generator: np.random.Generator,
    place: Callable[[int], FloatArray],
    size: Callable[[FloatArray], FloatArray],
    sizes: tuple[int, int, int, int],
    rates: tuple[float, float],
    ranges: dict[str, tuple[float, float]],
    spread: float,
    careless: float,
) -> SimulatedObjects:
    """Objects and distractors at the places that `place` draws, with errors in units of `size`."""
    n_tasks, n_workers, answers_per_task, n_classes = sizes
    drawn = {name: generator.uniform(*each, n_workers) for name, each in ranges.items()}
    draw = np.array([_log_odds_of(1 - rate, spread) for rate in drawn["miss_rate"]])
    rows: list[tuple[int, int, FloatArray, int]] = []
    truth: dict[str, list[Any]] = {"task": [], **{name: [] for name in marks.coordinates}}
    true_label: list[Any] = []
    for task in range(n_tasks):
        n_objects, n_distractors = generator.poisson(rates)
        where = place(n_objects + n_distractors)
        label = generator.integers(n_classes, size=len(where))
        visibility = generator.normal(0, spread, n_objects)
        for each in where[:n_objects] if n_objects else [[None] * len(marks.coordinates)]:
            truth["task"].append(task)
            for name, value in zip(marks.coordinates, each, strict=True):
                truth[name].append(value)
        true_label += label[:n_objects].tolist() if n_objects else [None]
        for worker in generator.permutation(n_workers)[:answers_per_task]:
            chance = np.append(
                expit(draw[worker] + visibility),
                np.full(n_distractors, min(drawn["false_positives"][worker] / max(rates[1], 1e-9), 1.0)),
            )
            seen = np.flatnonzero(generator.random(len(where)) < chance)
            said = _mark(generator, where[seen], size(where[seen]), drawn["error"][worker], careless)
            wrong = generator.random(seen.size) < 0.1
            named = np.where(wrong, generator.integers(n_classes, size=seen.size), label[seen])
            rows += [(task, int(worker), one, int(kind)) for one, kind in zip(said, named, strict=True)]
            if not seen.size:
                rows.append((task, int(worker), np.full(len(marks.coordinates), np.nan), 0))
    tasks, workers, places, labels = (np.array(each) for each in zip(*rows, strict=True))
    several: dict[str, Any] = {"label": labels, "classes": [f"class {k}" for k in range(n_classes)]}
    answers = marks.from_codes(
        tasks, workers, places, tasks=n_tasks, workers=n_workers, **(several if n_classes > 1 else {})
    )
    known = pa.table({name: pa.array(values) for name, values in truth.items()})
    if n_classes > 1:
        names = pa.array([None if k is None else f"class {k}" for k in true_label])
        known = known.append_column("label", names)
    return SimulatedObjects(answers, known, drawn["miss_rate"], drawn["false_positives"], drawn["error"])


def _log_odds_of(share: float, spread: float) -> float:
    """Log-odds at visibility 0 of a worker who draws this share of all objects."""
    odds = float(logit(share))
    shares = visibility_shares(max(spread, 0.05))
    for _ in range(100):
        chance = expit(odds + LEVELS)
        odds += (share - float(shares @ chance)) / float(shares @ (chance * (1 - chance)))
    return odds


def _mark(
    generator: np.random.Generator, place: FloatArray, size: FloatArray, error: float, careless: float
) -> FloatArray:
    """Places with errors; one that would turn a box inside out is drawn again."""
    said: FloatArray = np.empty_like(place)
    todo = np.arange(len(place))
    while todo.size:
        shape = place[todo].shape
        more = (generator.random((todo.size, 1)) < careless).astype(float) + (generator.random(shape) < careless)
        said[todo] = place[todo] + size[todo] * error * 3.0**more * generator.normal(size=shape)
        if shape[1] < 4:
            break
        todo = todo[~(said[todo, 2:] > said[todo, :2]).all(axis=1)]
    return said
