"""Labels as the CUDA engine's loops read them: by task, and by *cell*, which is a worker and a label."""

from __future__ import annotations

from dataclasses import dataclass

import torch

__all__ = ["DeviceLabels", "Lists", "lay_out_part"]

LONGEST = 2048  # members of a list beyond which it is cut in pieces, which other programs sum


@dataclass(frozen=True)
class Lists:
    """Ranges `start[i]` to `start[i + 1]` of the tasks in the order of cells, cut where they are long.

    Attributes
    ----------
    column
        The label that the cell of each list names.
    of_cell
        Ranges of the lists of each cell; None where each has one.
    """

    start: torch.Tensor
    column: torch.Tensor
    of_cell: torch.Tensor | None


@dataclass(frozen=True)
class DeviceLabels:
    """Labels of a range of the tasks on one device, in the order of tasks and in the order of cells.

    A cell is a worker and a label: worker × K + label.
    """

    first_task: int
    n_tasks: int
    n_workers: int
    n_classes: int
    task_ptr: torch.Tensor
    cell: torch.Tensor
    task_by_cell: torch.Tensor
    lists: Lists

    @property
    def device(self) -> torch.device:
        """Where they lie."""
        return self.cell.device


def lay_out_part(
    task_ptr: torch.Tensor,
    worker: torch.Tensor,
    label: torch.Tensor,
    n_workers: int,
    n_classes: int,
    first_task: int = 0,
) -> DeviceLabels:
    """Labels, sorted by task on one device, as the passes read them."""
    device, n_tasks, n_cells = worker.device, task_ptr.numel() - 1, n_workers * n_classes
    number = torch.int32 if max(n_cells, worker.numel()) < 2**31 else torch.int64
    cell = worker.to(number) * n_classes + label
    task_ptr = task_ptr.to(number)
    cells, order = torch.sort(cell, stable=True)
    start = torch.searchsorted(cells, torch.arange(n_cells + 1, dtype=number, device=device), out_int32=False)
    del cells
    tasks = torch.arange(n_tasks, dtype=torch.int32, device=device)
    task_by_cell = torch.repeat_interleave(tasks, (task_ptr[1:] - task_ptr[:-1]).to(torch.int64))[order]
    lists = cut_lists(start, n_classes, number)
    return DeviceLabels(first_task, n_tasks, n_workers, n_classes, task_ptr, cell, task_by_cell, lists)


def cut_lists(start: torch.Tensor, n_classes: int, number: torch.dtype) -> Lists:
    """A list for each cell, several where it has more than `LONGEST` members."""
    length = start[1:] - start[:-1]
    column = (torch.arange(length.numel(), device=start.device) % n_classes).to(torch.int32)
    if int(length.max()) <= LONGEST:
        return Lists(start.to(number), column, None)
    n_pieces = torch.clamp((length + LONGEST - 1) // LONGEST, min=1)
    of_cell = torch.cat([torch.zeros(1, dtype=torch.int64, device=start.device), torch.cumsum(n_pieces, 0)])
    rank = torch.arange(int(of_cell[-1]), device=start.device) - torch.repeat_interleave(of_cell[:-1], n_pieces)
    cut = torch.repeat_interleave(start[:-1], n_pieces) + rank * LONGEST
    return Lists(torch.cat([cut, start[-1:]]).to(number), torch.repeat_interleave(column, n_pieces), of_cell.to(number))
