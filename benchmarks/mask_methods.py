"""Methods for masks on simulated crowds: the Dice coefficient with the truth, and held-out masks, without it.

    python benchmarks/mask_methods.py --seeds 5

Crowds are of two makes. In the first, a worker's outline is the true one, shifted and with smooth noise, with holes
and islands (`simulate_masks`). In the second, workers click a few corners of a shape that they have moved and scaled:
no method assumes that. `staple-alone` is STAPLE as published, which fits each image by itself.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np

from crowdwise.fitting.em import StillImproving
from crowdwise.kinds.held_out import held_out_folds, score_held_out
from crowdwise.kinds.kind_registry import kind
from crowdwise.kinds.masks import Masks, simulate_masks
from crowdwise.kinds.masks.metrics import dice_coefficient
from crowdwise.kinds.masks.polygons import fill_polygons
from crowdwise.kinds.masks.simulation import draw_blobs
from crowdwise.kinds.masks.staple import Staple

SIZE = 96
WORKERS = 10
PLAIN: dict[str, Any] = {"jitter": (1.0, 4.0), "bias": 2.0, "slips": (0.0, 3.0), "spammers": 0.1, "smoothness": 6.0}
SORTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no spammers": {"spammers": 0.0},
    "30 % spammers": {"spammers": 0.3},
    "three answers a task": {"answers_per_task": 3},
    "no bias": {"bias": 0.0},
    "large bias": {"bias": 4.0},
    "many holes and islands": {"slips": (3.0, 12.0)},
    "noise alone": {"bias": 0.0, "spammers": 0.0, "slips": (0.0, 0.0)},
    "ragged outlines": {"smoothness": 2.0},
    "corners": {"corners": 0.1},
    "corners, 30 % spammers": {"corners": 0.3},
}


def click_corners(seed: int, n_tasks: int, spammers: float) -> tuple[Masks, list[Any]]:
    """Workers who click 8 to 30 corners of a shape, moved and scaled."""
    generator = np.random.default_rng(seed)
    scale, corners = 1 + 0.08 * generator.normal(size=WORKERS), generator.integers(8, 30, WORKERS)
    noise, spam = generator.uniform(0.5, 3.0, WORKERS), generator.random(WORKERS) < spammers
    truth, said, who = [], [], []
    for _ in range(n_tasks):
        middle, radius = generator.uniform(0.3, 0.7, 2) * SIZE, generator.uniform(0.1, 0.25) * SIZE
        wave, phase = 0.2 * generator.normal(size=4) / np.arange(1, 5), generator.uniform(0, 6.28, 4)

        def outline(
            angle: Any, middle: Any = middle, radius: Any = radius, wave: Any = wave, phase: Any = phase
        ) -> Any:
            far = radius * (
                1 + sum(w * np.cos((k + 2) * angle + p) for k, (w, p) in enumerate(zip(wave, phase, strict=True)))
            )
            return middle, far[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])

        centre, points = outline(np.linspace(0, 2 * np.pi, 400, endpoint=False))
        truth.append(fill_polygons([centre + points], SIZE, SIZE))
        for worker in generator.permutation(WORKERS)[:5]:
            who.append(worker)
            if spam[worker]:
                said.append(draw_blobs(generator, SIZE, SIZE))
                continue
            centre, points = outline(np.sort(generator.uniform(0, 2 * np.pi, corners[worker])))
            points = scale[worker] * points + noise[worker] * generator.normal(size=points.shape)
            said.append(fill_polygons([centre + 0.3 * noise[worker] * generator.normal(size=2) + points], SIZE, SIZE))
    task = np.repeat(np.arange(n_tasks), 5)
    return Masks.from_codes(task, np.array(who), said, tasks=n_tasks, workers=WORKERS), truth


def make_crowd(sort: str, seed: int, n_tasks: int) -> tuple[Masks, list[Any]]:
    chosen = dict(SORTS[sort])
    if "corners" in chosen:
        return click_corners(seed, n_tasks, chosen["corners"])
    made = simulate_masks(n_tasks, WORKERS, height=SIZE, width=SIZE, random_state=seed, **(PLAIN | chosen))
    return made.answers, made.region


def fit_alone(answers: Masks) -> list[Any]:
    """Soft masks by STAPLE, every image by itself."""
    found = []
    for task in range(answers.n_tasks):
        one = answers.keep(answers.task == task)
        found.append(Staple(smoothing=0.0).fit(one)._soft(task))
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--held-out", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore", StillImproving)
    methods = {each.slug: each.load() for each in kind("masks").methods()}
    names = [*methods, "staple-alone"]
    print(f"{'':24}" + "".join(f"{name:>19}" for name in names))
    every = []
    for sort in SORTS:
        rows = []
        for seed in range(given.seeds):
            answers, truth = make_crowd(sort, seed, given.tasks)
            softs = {name: [soft for _, soft in cls().fit(answers).soft_masks()] for name, cls in methods.items()}
            softs["staple-alone"] = fit_alone(answers)
            row = [
                np.mean([dice_coefficient(soft > 0.5, true) for soft, true in zip(softs[name], truth, strict=True)])
                for name in names
            ]
            if given.held_out:
                folds = held_out_folds(answers)
                row += [score_held_out(cls(), answers, folds).mean() for cls in methods.values()]
            rows.append(row)
        means = np.mean(rows, axis=0)
        every.append(means)
        print(f"{sort:24}" + "".join(f"{each:19.4f}" for each in means), flush=True)
    print(f"{'mean':24}" + "".join(f"{each:19.4f}" for each in np.mean(every, axis=0)))


if __name__ == "__main__":
    main()
