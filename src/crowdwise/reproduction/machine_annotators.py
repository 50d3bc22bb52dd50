"""Workers that are machines: classifiers trained on a few images, each of which labels a tenth of the others.

Ibrahim et al. 2025, "Empirical results" of the coupled cross-entropy methods: "around 57,000 training samples; any
annotator only labels 10 %", the annotators "randomly sampled from a pool of machine classifiers whose accuracy ranges
from 15 % to 85 %". Their errors depend on the image, as no confusion matrix says.

Which classifiers are in the pool is not told there. Here: decision trees, nearest neighbours and naive Bayes, each of
a few images drawn at random, so many that their accuracies spread over the range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from crowdwise.labels.types import IntArray

__all__ = ["MACHINES", "label_by_machines"]

MACHINES = "machines"  # name of the crowd
RANGE = (0.15, 0.85)  # of the accuracies in the pool
FEWEST, MOST = 15, 600  # images that a machine learns from
TRIED = 20  # machines for each that is wanted


def label_by_machines(
    x: Any, truth: IntArray, own: tuple[Any, IntArray], crowd: dict[str, Any], n_classes: int, seed: int
) -> CrowdLabels:
    """The labels of a share of the images x by each machine of a pool.

    Parameters
    ----------
    x, truth
        Images of the crowd's tasks, and their classes, which only measure the machines.
    own
        Other images with their classes, which machines learn from.
    crowd
        `n_workers`, machines drawn from the pool; `share` of the images that each labels.
    """
    rng = np.random.default_rng(seed)
    rows, learnt = x.reshape(len(x), -1), own[0].reshape(len(own[0]), -1)
    judged = rng.permutation(len(rows))[:500]
    machines: list[Any] = []
    for _ in range(TRIED * crowd["n_workers"]):
        machine = _draw_machine(learnt, own[1], rng)
        if RANGE[0] <= float((machine.predict(rows[judged]) == truth[judged]).mean()) <= RANGE[1]:
            machines.append(machine)
        if len(machines) == crowd["n_workers"]:
            break
    else:
        raise InputError("Too few machines have an accuracy in the range: give more images to learn from.")
    edges = []
    for number, machine in enumerate(machines):
        task = np.flatnonzero(rng.random(len(rows)) < crowd["share"])
        edges.append((task, np.full(task.size, number), machine.predict(rows[task])))
    task, worker, label = (np.concatenate(part) for part in zip(*edges, strict=True))
    return CrowdLabels.from_codes(task, worker, label, tasks=len(rows), workers=len(machines), classes=n_classes)


def _draw_machine(rows: Any, classes: IntArray, rng: np.random.Generator) -> Any:
    """A classifier of a kind and of a number of images drawn at random."""
    size = min(int(np.exp(rng.uniform(np.log(FEWEST), np.log(MOST)))), len(rows))
    chosen = rng.permutation(len(rows))[:size]
    made = (
        DecisionTreeClassifier(max_depth=int(rng.integers(2, 9)), random_state=0),
        KNeighborsClassifier(1),
        GaussianNB(var_smoothing=0.1),
    )[int(rng.integers(3))]
    return made.fit(rows[chosen], classes[chosen])
