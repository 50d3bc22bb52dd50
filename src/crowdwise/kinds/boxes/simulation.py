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
from crowdwise.kinds.simulated_crowd import CrowdSizes, SimulatedCrowd, add_crowd_parameters
from crowdwise.kinds.simulator_parameters import Range, Share, Shares, check_numbers
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.kinds.marks import Marks
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["Scene", "make_scene", "place_apart", "simulate_boxes", "simulate_objects"]

FRAME = 1000.0
MOST_DRAWS = 1_000  # in a row, of a place that clashes with none


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What there is to mark in a task, and how well workers mark it: for `simulate_boxes` and `simulate_points`.

    Attributes
    ----------
    error, miss_rate, false_positives
        Smallest and largest of a worker; drawn evenly between.
    objects, distractors
        Mean number in a task of objects, and of places that are taken for one now and then.
    spread
        Standard deviation of the objects' visibilities, in log-odds.
    careless
        Share of the marks and of the coordinates whose errors are three times as large.
    n_classes
        Number of labels; 1 for marks without labels.
    """

    error: Range
    miss_rate: Shares = (0.1, 0.5)
    false_positives: Range = (0.1, 1.0)
    objects: float = 4.0
    distractors: float = 4.0
    spread: float = 1.0
    careless: Share = 0.1
    n_classes: int = 1


@add_crowd_parameters(n_tasks=30, n_workers=12, answers_per_task=6)
def simulate_boxes(sizes: CrowdSizes, /, *, error: Range = (0.03, 0.12), **scene: Any) -> SimulatedCrowd[Any]:
    """Boxes in a frame of 1000 × 1000, and what workers draw of them; the other parameters are those of a `Scene`."""
    generator = sizes.generator

    def draw() -> FloatArray:
        sides = np.exp(generator.normal(np.log(FRAME / 8), 0.5, (1, 2)))
        corner = generator.uniform(0, FRAME, (1, 2)) - sides / 2
        box: FloatArray = np.concatenate([corner, corner + sides], axis=1)
        return box

    def place(n: int) -> FloatArray:
        return place_apart(n, 4, draw, lambda box, made: intersection_over_union(box, made) > 0.2)

    def size(places: FloatArray) -> FloatArray:
        sides = places[:, 2:] - places[:, :2]
        mixed = np.sqrt(sides * np.sqrt(sides.prod(axis=1, keepdims=True)))
        found: FloatArray = np.concatenate([mixed, mixed], axis=1)
        return found

    return simulate_objects(Boxes, sizes, make_scene(error=error, **scene), place, size)


def make_scene(**given: Any) -> Scene:
    """A scene of numbers that are checked."""
    return Scene(**check_numbers(given, Scene.__annotations__))


def place_apart(
    n: int, width: int, draw: Callable[[], FloatArray], clash: Callable[[FloatArray, FloatArray], BoolArray]
) -> FloatArray:
    """So many places (n, width), drawn one by one; those that clash with an earlier one are drawn again."""
    made: FloatArray = np.empty((0, width))
    in_vain = 0
    while len(made) < n and in_vain < MOST_DRAWS:
        place = draw()
        apart = not clash(place, made).any()
        made, in_vain = (np.concatenate([made, place]), 0) if apart else (made, in_vain + 1)
    if len(made) < n:
        raise InputError(f"There is no room for {n:,} objects and distractors in a task. Ask for fewer.")
    return made


def simulate_objects(
    marks: type[Marks],
    sizes: CrowdSizes,
    scene: Scene,
    place: Callable[[int], FloatArray],
    size: Callable[[FloatArray], FloatArray],
) -> SimulatedCrowd[Any]:
    """Objects and distractors at the places that `place` draws, with errors in units of `size`.

    Returns
    -------
    SimulatedCrowd
        truth : table of task and the coordinates of a true mark
        miss_rate : (M,)
            Share of the objects that a worker misses, over all visibilities.
        false_positives : (M,)
            Marks of what is no object, a task.
        error : (M,)
            Standard deviation of a coordinate: of boxes in shares of the size, of points in their units.
    """
    generator, n_tasks, n_workers = sizes.generator, sizes.n_tasks, sizes.n_workers
    rates, spread, n_classes = (scene.objects, scene.distractors), scene.spread, scene.n_classes
    ranges = (scene.miss_rate, scene.false_positives, scene.error)
    miss_rate, false_positives, error = (generator.uniform(*each, n_workers) for each in ranges)
    draw = np.array([_log_odds_of(1 - rate, spread) for rate in miss_rate])
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
        for worker in generator.permutation(n_workers)[: sizes.answers_per_task]:
            chance = np.append(
                expit(draw[worker] + visibility),
                np.full(n_distractors, min(false_positives[worker] / max(rates[1], 1e-9), 1.0)),
            )
            seen = np.flatnonzero(generator.random(len(where)) < chance)
            said = _mark(generator, where[seen], size(where[seen]), error[worker], scene.careless)
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
    return SimulatedCrowd(
        answers, known, drawn={"miss_rate": miss_rate, "false_positives": false_positives, "error": error}
    )


def _log_odds_of(share: float, spread: float) -> float:
    """Log-odds at visibility 0 of a worker who draws this share of all objects."""
    odds = float(logit(share))
    if not np.isfinite(odds):  # all of them, or none
        return odds
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
