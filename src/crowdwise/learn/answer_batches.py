"""Answers of any kind as tensors, and batches of them: each item's features are gathered once.

An answer is about one item (a task) or several (the two of a pair). Nothing has the size of tasks × workers, nor of
items × items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from crowdwise.learn.batches import TrainingData

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from torch import Tensor

    from crowdwise.kinds.answers import Answers
    from crowdwise.labels.types import IntArray
    from crowdwise.learn.features import Features

__all__ = ["AnswerBatch", "AnswerRows", "item_columns"]


class AnswerBatch:
    """Some answers, and the features of the items that they are about.

    Attributes
    ----------
    x : (U, ...)
        Features of the items, each of which is there once.
    item : (U,)
        Positions of these items among the rows of the features.
    slot : (B, S)
        For each answer, the positions in the batch of the S items that it is about: `output[batch.slot]` is (B, S, …).
    worker : (B,)
    said : (B, ...)
        What was said, as the learner gives it to `AnswerRows`.
    row : (B,)
        Positions of the answers among all.
    """

    # A plain class, not a tuple or dataclass: Fabric would look into those for tensors at every step.
    __slots__ = ("item", "row", "said", "slot", "worker", "x")

    def __init__(self, x: Tensor, item: Tensor, slot: Tensor, worker: Tensor, said: Tensor, row: Tensor) -> None:
        self.x, self.item, self.slot, self.worker, self.said, self.row = x, item, slot, worker, said, row

    def __len__(self) -> int:
        return len(self.row)


class AnswerRows(TrainingData):
    """Answers as tensors on the device; an epoch goes through them answer by answer.

    Parameters
    ----------
    item : (n, S)
        Rows of the features that each answer is about.
    worker : (n,)
    said : (n, ...)
        Numbers (in single precision) or positions of classes (int64).
    n_items, n_workers
        Rows of the features, and workers.
    """

    def __init__(self, item: Tensor, worker: Tensor, said: Tensor, n_items: int, n_workers: int) -> None:
        self.item, self.worker, self.said = item, worker, said
        self.n_items, self.n_workers = n_items, n_workers

    @classmethod
    def from_answers(cls, answers: Answers, said: Tensor) -> Self:
        """Rows of answers whose items are rows of the features."""
        columns = item_columns(answers)
        item = np.stack([getattr(answers, name) for name in columns], axis=1).astype(np.int64)
        names = getattr(answers, answers.coded[columns[0]])
        worker = torch.as_tensor(answers.worker.astype(np.int64))
        return cls(torch.as_tensor(item), worker, said, len(names), answers.n_workers)

    @property
    def n_answers(self) -> int:
        """Number of answers."""
        return len(self.worker)

    @property
    def device(self) -> torch.device:
        """Where the answers are."""
        return self.worker.device

    def take(self, rows: IntArray) -> Self:
        """Some of the answers; items and workers keep their positions."""
        at = torch.as_tensor(rows.astype(np.int64), device=self.device)
        return type(self)(self.item[at], self.worker[at], self.said[at], self.n_items, self.n_workers)

    def batches(self, features: Features, order: Tensor, size: int | list[int]) -> Iterator[AnswerBatch]:
        """The answers `order` with the features of their items."""
        if not len(order):
            return
        parts = torch.split(order, size)
        found = [torch.unique(self.item[part], return_inverse=True) for part in parts]
        # Batch normalisation cannot learn from a single item, which several answers may be about.
        found = [(each.repeat(2) if len(each) == 1 < len(slot) else each, slot) for each, slot in found]
        sizes = [len(items) for items, _ in found]
        every = features.batches(torch.cat([items for items, _ in found]), sizes)
        for part, (items, slot), x in zip(parts, found, every, strict=True):
            yield AnswerBatch(x, items, slot, self.worker[part], self.said[part], part)


def item_columns(answers: Answers) -> list[str]:
    """Columns of the answers that hold positions of what they are about: "task", or "left" and "right"."""
    return [name for name in answers.coded if name != "worker"]
