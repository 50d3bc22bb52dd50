"""One of the answers for each task: the one nearest the others, or that of the best worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.kinds.texts.model import Chosen, TextModel
from crowdwise.kinds.texts.nearness import answer_nearness

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.kinds.texts.model import TextCrowd
    from crowdwise.kinds.texts.text_pairs import TextPairs
    from crowdwise.labels.types import FloatArray

__all__ = ["BestWorker", "Medoid", "WeightedMedoid", "choose_answers"]


@estimator
class WeightedMedoid(TextModel):
    """The answer that is most like those of others, where answers of workers near the truth weigh more.

    How alike answers are is a product of how near the truth two workers are (one factor, `nearness.py`). From it follow
    the workers' weights, and for each answer an estimate of its own similarity to the truth; the highest is taken.

    Facts
    -----
    Assumes: wrong answers of different workers have nothing in common but chance
    Fails with: workers who copy from each other or from the same machine; tasks with one answer
    Cost: O(pairs of answers to the same task)
    Paper: Tenzer et al. 2022, with similarities in place of covariances
    """

    slug = "weighted-medoid"

    distance: str | Callable[[str, str], float] = "gleu"

    def _choose(self, crowd: TextCrowd) -> Chosen:
        return choose_answers(crowd.pairs, answer_nearness(*crowd))


@estimator
class Medoid(TextModel):
    """The answer with the smallest mean distance to those of other workers.

    Facts
    -----
    Assumes: workers are alike, and most answers are near the truth
    Fails with: workers who are often wrong in the same way
    Cost: O(pairs of answers to the same task)
    Paper: folklore; smallest average distance in Braylan & Lease 2020, The Web Conference
    """

    slug = "medoid"
    uses = frozenset()

    distance: str | Callable[[str, str], float] = "gleu"

    def _choose(self, crowd: TextCrowd) -> Chosen:
        pairs = crowd.pairs
        counts = pairs.sum_over_pairs(np.ones(pairs.one.size))
        far = pairs.sum_over_pairs(pairs.distance)
        return choose_answers(pairs, np.where(counts > 0, -far / np.maximum(counts, 1), -np.inf))


@estimator
class BestWorker(TextModel):
    """The answer of the worker who is nearest the truth on average, of those who answered the task.

    Facts
    -----
    Assumes: some workers are much better than others, at all tasks
    Fails with: workers who are alike: what a task's answers say about each other is not used
    Cost: O(pairs of answers to the same task)
    Paper: best available user in Braylan & Lease 2020, The Web Conference
    """

    slug = "best-worker"

    distance: str | Callable[[str, str], float] = "gleu"

    def _choose(self, crowd: TextCrowd) -> Chosen:
        return choose_answers(crowd.pairs, crowd.q[crowd.pairs.worker])


def choose_answers(pairs: TextPairs, score: FloatArray) -> Chosen:
    """The answer of each task with the highest score, and its worker."""
    best = pairs.highest(score)
    author = np.where(best >= 0, np.append(pairs.worker, -1)[best], -1)
    return Chosen([pairs.texts[row] if row >= 0 else None for row in best.tolist()], author)
