"""Batches: tasks and the slice of their labels. Nothing of size tasks × workers, nor batch × workers × classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from torch import Tensor

    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.learn.features import Features

__all__ = ["Batch", "Crowd", "NetworkOutput", "TrainingData", "batches"]


class NetworkOutput(NamedTuple):
    """What the network says of a batch: logits (B, K), and what its last layer saw (B, D)."""

    logits: Tensor
    features: Tensor


class Batch:
    """Some tasks, their features and their labels.

    Attributes
    ----------
    x : (B, ...)
    task : (B,)
        Positions of the tasks among all.
    owner, worker, label : (E,)
        Each label: the position of its task in the batch, who gave it, and its class.
    edge : (E,)
        Positions of the labels among all.
    """

    # A plain class, not a tuple or dataclass: Fabric would look into those for tensors at every step.
    __slots__ = ("edge", "label", "owner", "task", "worker", "x")

    def __init__(self, x: Tensor, task: Tensor, owner: Tensor, worker: Tensor, label: Tensor, edge: Tensor) -> None:
        self.x, self.task, self.owner, self.worker, self.label, self.edge = x, task, owner, worker, label, edge

    def __len__(self) -> int:
        return len(self.task)


class TrainingData:
    """Answers as tensors on the device, from which the training loop takes batches of whatever an epoch goes through.

    `Crowd` are labels, gone through task by task; `answer_batches.AnswerRows` are answers of any other kind, gone
    through answer by answer.
    """

    n_workers: int

    @property
    def device(self) -> torch.device:
        """Where the answers are."""
        raise NotImplementedError

    def to(self, device: torch.device) -> Self:
        """The same on another device."""
        moved = object.__new__(type(self))
        moved.__dict__ = {
            name: value.to(device) if isinstance(value, torch.Tensor) else value
            for name, value in self.__dict__.items()
        }
        return moved

    def batches(self, features: Features, order: Tensor, size: int | list[int]) -> Iterator[Any]:
        """What `order` counts, `size` at a time, or as many as each entry of it says; a batch has `x` and a length."""
        raise NotImplementedError


class Crowd(TrainingData):
    """Labels as tensors on the device, sorted by task: task t's are `ptr[t]:ptr[t + 1]`. `labels` has their names.

    `with_labels` (m,) are the workers who gave some: the others must not move what is learnt of these.
    """

    def __init__(self, labels: CrowdLabels, device: torch.device | str = "cpu") -> None:
        self.labels = labels
        self.n_tasks, self.n_workers, self.n_classes = labels.n_tasks, labels.n_workers, labels.n_classes
        self.n_labels = labels.n_labels
        self.task, self.worker, self.label, self.ptr = (
            torch.as_tensor(column.astype("int64"), device=device)
            for column in (labels.task, labels.worker, labels.label, labels.task_ptr)
        )
        self.with_labels = torch.unique(self.worker)

    def select_workers_with_labels(self, values: Tensor) -> Tensor:
        """Values (m, …) of the workers who have labels, from those of all (M, …)."""
        return values if len(self.with_labels) == self.n_workers else values.index_select(0, self.with_labels)

    @property
    def device(self) -> torch.device:
        """Where the labels are."""
        return self.task.device

    def batches(self, features: Features, order: Tensor, size: int | list[int]) -> Iterator[Batch]:
        """The tasks `order` with their labels."""
        return batches(features, self, order, size)

    def task_vote_shares(self) -> Tensor:
        """Share of a task's labels that each class has (N, K); even where there are none (Tanno et al. 2019)."""
        counts = torch.zeros(self.n_tasks, self.n_classes, device=self.task.device)
        counts.index_put_((self.task, self.label), torch.ones((), device=self.task.device), accumulate=True)
        total = counts.sum(dim=1, keepdim=True)
        return torch.where(total > 0, counts / total.clamp(min=1), 1 / self.n_classes)


def batches(features: Features, crowd: Crowd, order: Tensor, size: int | list[int]) -> Iterator[Batch]:
    """The tasks `order` with their labels, `size` at a time, or as many as each entry of it says.

    The labels of the whole pass are put into the order of the tasks at once, so that a batch is a slice of them.
    """
    if not len(order):
        return
    parts = torch.split(order, size)
    counts = crowd.ptr[order + 1] - crowd.ptr[order]
    ends = counts.cumsum(0)
    lasts = torch.tensor([len(part) for part in parts]).cumsum(0) - 1
    cuts = [0, *ends[lasts.to(ends.device)].tolist()]
    # Told how many labels there are, torch need not ask the device once more.
    edge = torch.repeat_interleave(crowd.ptr[order] - (ends - counts), counts, output_size=cuts[-1])
    edge += torch.arange(len(edge), device=edge.device)
    place = torch.cat([torch.arange(len(part), device=order.device) for part in parts])
    owner = torch.repeat_interleave(place, counts, output_size=cuts[-1])
    worker, label = crowd.worker[edge], crowd.label[edge]
    for number, (tasks, x) in enumerate(zip(parts, features.batches(order, size), strict=True)):
        labels = slice(cuts[number], cuts[number + 1])
        yield Batch(x, tasks, owner[labels], worker[labels], label[labels], edge[labels])
