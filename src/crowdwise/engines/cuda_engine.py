"""The passes on NVIDIA GPUs: labels and tables stay on the device, and so does the M-step of confusion models.

A pass reads the labels twice, never through atomic additions, so that two runs give the same bits. By task: the rows of
the table for each label's *cell* (worker and label) are gathered and turned into the task's posterior. By cell: the
posteriors of the cell's tasks are gathered and summed. All is float64: the results are those of the processor, but for
the order of sums.

Cost of a label in a pass: two rows of 8 bytes a state, and two indices of 4 bytes. Memory: 8 bytes a label, 8 a task
and state, 16 a worker, state and class.

Several devices each hold a range of the tasks. Their sums are added in the order of the devices.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from crowdwise.engines import triton_passes as passes
from crowdwise.engines.device_layout import DeviceLabels, lay_out_part
from crowdwise.engines.protocol import Statistics
from crowdwise.kernels.confusion_rows import NO_GOLD
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["ENGINE", "CudaPasses", "DeviceStatistics", "DeviceTable", "find_devices"]

TILE = 1024  # values that a program holds at once; benchmarks/cuda_scale.py tries others
ROUNDS = 16  # times that a program takes tasks: there are sums for each program
OPTIONS = {"num_warps": 2, "enable_fp_fusion": True}


class DeviceTable:
    """log P(label | truth) of every worker as an M-step leaves it, on a device; NumPy sees (M, S, K)."""

    def __init__(self, rows: torch.Tensor, shape: tuple[int, int, int]) -> None:
        self.rows, self.shape = rows, shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        return _download_rows(self.rows, self.shape).astype(dtype or np.float64)

    def sum(self) -> float:
        """Sum of all logarithms."""
        n_workers, n_states, n_classes = self.shape
        return float(self.rows.view(n_workers, n_classes, -1)[:, :, :n_states].sum(dtype=torch.float64))


class DeviceStatistics(Statistics):
    """Statistics whose counts stay on the device until somebody reads them.

    Attributes
    ----------
    rows : (M × K, stride), or (M × K, 1) from a pass of votes
        Expected answers by worker and label, a column for each state of the truth.
    """

    rows: torch.Tensor
    n_workers: int
    of_votes: bool

    def __init__(
        self, log_likelihood: float, class_counts: FloatArray, rows: torch.Tensor, n_workers: int, *, of_votes: bool
    ) -> None:
        self.__dict__.update(log_likelihood=log_likelihood, class_counts=class_counts, rows=rows, n_workers=n_workers)
        self.__dict__["of_votes"] = of_votes  # so, for the base is frozen

    @cached_property
    def counts(self) -> FloatArray:
        """Expected answers (M, S, K) [worker, truth, label], or (M, K) [worker, label] from a pass of votes."""
        if self.of_votes:
            votes: FloatArray = self.rows.view(self.n_workers, -1).cpu().numpy()
            return votes
        return _download_rows(self.rows, self._shape)

    def sum_over_labels(self) -> FloatArray:
        """Expected right answers of each worker (M,), from a pass of votes."""
        correct: FloatArray = self.rows.view(self.n_workers, -1).sum(dim=1).cpu().numpy()
        return correct

    def log_rows(self, pseudo: FloatArray) -> Any:
        """Log of the rows of confusion matrices from counts and pseudo-counts, on the device."""
        n_workers, n_states, n_classes = self._shape
        mass = self.rows.view(n_workers, n_classes, -1)[:, :, :n_states]
        if pseudo.any():
            mass = mass + torch.tensor(pseudo, device=mass.device).transpose(1, 2)
        total = mass.sum(dim=1, keepdim=True)
        rows = torch.zeros_like(self.rows)
        logs = rows.view(n_workers, n_classes, -1)[:, :, :n_states]
        logs.copy_(torch.where(total > 0, torch.log(mass / total), -float(np.log(n_classes))))
        return DeviceTable(rows, self._shape)

    @property
    def _shape(self) -> tuple[int, int, int]:
        return self.n_workers, self.class_counts.size, self.rows.shape[0] // self.n_workers


class CudaPasses:
    """Passes over labels on one or several devices."""

    def __init__(self, parts: Sequence[DeviceLabels]) -> None:
        self.parts = parts
        self.n_tasks = sum(part.n_tasks for part in parts)
        self.n_workers, self.n_classes = parts[0].n_workers, parts[0].n_classes
        self._posteriors: dict[tuple[int, int], torch.Tensor] = {}

    def e_step(
        self, log_prior: FloatArray, log_table: Any, gold: IntArray = NO_GOLD, out: FloatArray | None = None
    ) -> Statistics:
        """E-step and counts of a model with a confusion matrix per worker."""
        n_states = log_prior.size
        table = log_table.rows if isinstance(log_table, DeviceTable) else _table_rows(log_table)

        def weigh(part: DeviceLabels, settings: dict[str, Any], *sums: torch.Tensor) -> None:
            prior, rows, known = _on(part, log_prior), table.to(part.device), _gold_of(part, gold)
            arguments = (part.task_ptr, part.cell, rows, prior, known, *sums, part.n_tasks)
            grid = (count_programs(part.n_tasks, settings),)
            per_class = n_states // self.n_classes
            passes.weigh_confusions[grid](*arguments, n_states, per_class, HAS_GOLD=gold.size > 0, **settings)

        return self._run(weigh, n_states, out, self._sum_rows, rows=True)

    def e_step_votes(
        self, log_prior: FloatArray, bonus: FloatArray, gold: IntArray = NO_GOLD, out: FloatArray | None = None
    ) -> Statistics:
        """E-step and counts of a model whose label l speaks for class l alone."""
        by_worker = bonus.strides[1] == 0  # one value for all of a worker's labels
        values = bonus[:, 0] if by_worker else np.ascontiguousarray(bonus).reshape(-1)

        def weigh(part: DeviceLabels, settings: dict[str, Any], *sums: torch.Tensor) -> None:
            prior, known = _on(part, log_prior), _gold_of(part, gold)
            arguments = (part.task_ptr, part.cell, _on(part, values), prior, known, *sums, part.n_tasks)
            settings = settings | {"BY_WORKER": by_worker}
            grid = (count_programs(part.n_tasks, settings),)
            passes.weigh_votes[grid](*arguments, self.n_classes, HAS_GOLD=gold.size > 0, **settings)

        return self._run(weigh, self.n_classes, out, self._sum_named)

    def accumulate(self, values: FloatArray) -> Statistics:
        """Σ of the values over each worker's tasks, by the label given."""

        def copy(part: DeviceLabels, _: dict[str, Any], posterior: torch.Tensor, *sums: torch.Tensor) -> None:
            own = values[part.first_task : part.first_task + part.n_tasks]
            posterior[:, : values.shape[1]].copy_(torch.tensor(own))
            posterior[:, values.shape[1] :].zero_()
            for each in sums:
                each.zero_()

        found = self._run(copy, values.shape[1], None, self._sum_rows)
        return DeviceStatistics(0.0, values.sum(axis=0), found.rows, self.n_workers, of_votes=False)

    def count_against_vote_shares(self, otherwise: FloatArray, gold: IntArray = NO_GOLD) -> Statistics:
        """The same where the posterior is the share of votes."""

        def share(part: DeviceLabels, settings: dict[str, Any], *sums: torch.Tensor) -> None:
            arguments = (part.task_ptr, part.cell, _on(part, otherwise), _gold_of(part, gold), *sums, part.n_tasks)
            grid = (count_programs(part.n_tasks, settings),)
            passes.share_votes[grid](*arguments, self.n_classes, HAS_GOLD=gold.size > 0, **settings)

        return self._run(share, self.n_classes, None, self._sum_rows)

    def posterior_variance(self, posterior: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Σ q(1-q), by class over all labels, and of the class named over the labels that name it."""
        counts = self.accumulate(posterior * (1 - posterior)).counts
        return counts.sum(axis=2), np.ascontiguousarray(np.einsum("wkk->wk", counts))

    def _run(
        self, weigh: Callable[..., None], n_states: int, out: FloatArray | None, sum_cells: Any, *, rows: bool = False
    ) -> DeviceStatistics:
        """Make each part's posterior, then the sums over its cells; and add the parts."""
        states, stride = _padded(n_states), _stride(n_states)
        class_counts, log_likelihood, by_part = np.zeros(n_states), 0.0, []
        with _explain_memory(self.n_tasks):
            launched = []
            for number, part in enumerate(self.parts):
                with _using(part.device):
                    settings = _task_settings(states, stride, rows=rows)
                    n_programs = count_programs(part.n_tasks, settings)
                    posterior = self._posterior(number, stride)
                    sums = _doubles(part, n_programs, states), _doubles(part, n_programs)
                    if part.n_tasks:
                        weigh(part, settings, posterior, *sums)
                    launched.append((part, posterior, sums))
                    by_part.append(sum_cells(part, posterior, states, stride))
            for part, posterior, sums in launched:
                class_counts += sums[0].sum(dim=0)[:n_states].cpu().numpy()
                log_likelihood += float(sums[1].sum())
                if out is not None:
                    own = out[part.first_task : part.first_task + part.n_tasks]
                    own[:] = posterior[:, :n_states].cpu().numpy()
            total = by_part[0]
            for other in by_part[1:]:
                total += other.to(total.device)
        of_votes = sum_cells == self._sum_named
        return DeviceStatistics(log_likelihood, class_counts, total, self.n_workers, of_votes=of_votes)

    def _posterior(self, number: int, stride: int) -> torch.Tensor:
        """Memory of a part's posterior, the same at every pass."""
        if (number, stride) not in self._posteriors:
            part = self.parts[number]
            self._posteriors[number, stride] = torch.empty(
                (part.n_tasks, stride), dtype=torch.float64, device=part.device
            )
        return self._posteriors[number, stride]

    @staticmethod
    def _sum_rows(part: DeviceLabels, posterior: torch.Tensor, states: int, stride: int) -> torch.Tensor:
        lists, n_lists = part.lists, part.lists.start.numel() - 1
        sums = _doubles(part, n_lists, stride)
        settings = _cell_settings(states, stride, part.cell.numel() / max(n_lists, 1))
        grid = (count_programs(n_lists, settings),)
        passes.sum_rows[grid](lists.start, part.task_by_cell, posterior, sums, n_lists, INDIRECT=True, **settings)
        return sums if lists.of_cell is None else _sum_pieces(lists.of_cell, sums, states)

    @staticmethod
    def _sum_named(part: DeviceLabels, posterior: torch.Tensor, _: int, stride: int) -> torch.Tensor:
        lists, n_lists = part.lists, part.lists.start.numel() - 1
        sums = _doubles(part, n_lists, 1)
        settings = {"STRIDE": stride, "LISTS": 64} | OPTIONS
        grid = (count_programs(n_lists, settings),)
        passes.sum_named[grid](lists.start, part.task_by_cell, lists.column, posterior, sums, n_lists, **settings)
        return sums if lists.of_cell is None else _sum_pieces(lists.of_cell, sums, 1)


class CudaEngine:
    """Triton's loops on every GPU of this machine."""

    def lay_out(self, labels: CrowdLabels, n_states: int | None) -> list[DeviceLabels]:  # noqa: ARG002
        """The labels on the devices, a range of the tasks each."""
        devices = find_devices()
        shares = np.linspace(0, labels.n_labels, len(devices) + 1)[1:-1]
        ends = [0, *np.searchsorted(labels.task_ptr, shares).tolist(), labels.n_tasks]
        parts = []
        with _explain_memory(labels.n_tasks):
            for device, first, last in zip(devices, ends[:-1], ends[1:], strict=True):
                edges = slice(int(labels.task_ptr[first]), int(labels.task_ptr[last]))
                task_ptr = labels.task_ptr[first : last + 1] - labels.task_ptr[first]
                with _using(device):
                    parts.append(
                        lay_out_part(
                            torch.tensor(task_ptr, device=device),
                            torch.tensor(labels.worker[edges], device=device),
                            torch.tensor(labels.label[edges], device=device),
                            labels.n_workers,
                            labels.n_classes,
                            first_task=first,
                        )
                    )
        return parts

    def make_passes(self, layout: list[DeviceLabels]) -> CudaPasses:
        """Passes over the labels where they lie."""
        return CudaPasses(layout)


ENGINE = CudaEngine()


def find_devices() -> list[torch.device]:
    """Every GPU that PyTorch sees."""
    return [torch.device("cuda", number) for number in range(torch.cuda.device_count())]


def _sum_pieces(of_cell: torch.Tensor, pieces: torch.Tensor, states: int) -> torch.Tensor:
    n_cells, stride = of_cell.numel() - 1, pieces.shape[1]
    sums = torch.empty((n_cells, stride), dtype=torch.float64, device=pieces.device)
    settings = _cell_settings(states, stride, 1.0)
    grid = (count_programs(n_cells, settings),)
    passes.sum_rows[grid](of_cell, of_cell, pieces, sums, n_cells, INDIRECT=False, **settings)
    return sums


def _task_settings(states: int, stride: int, *, rows: bool) -> dict[str, Any]:
    """How many tasks a program takes at a time, and how many labels of each at once."""
    settings = {"STATES": states, "STRIDE": stride, "ROUNDS": ROUNDS} | OPTIONS
    if rows:
        return settings | {"LISTS": max(TILE // (8 * states), 1), "AT_ONCE": 8}
    return settings | {"LISTS": max(TILE // 2 // states, 1), "num_warps": 1}


def _cell_settings(states: int, stride: int, mean_length: float) -> dict[str, Any]:
    """How many lists of a cell's tasks a program takes, and how many tasks of each at once."""
    at_once = min(8, _padded(max(round(mean_length), 1)))
    lists = max(2 * TILE // (states * at_once), 1)
    return {"STATES": states, "STRIDE": stride, "LISTS": lists, "AT_ONCE": at_once} | OPTIONS


def count_programs(n_lists: int, settings: dict[str, Any]) -> int:
    """Programs that take all lists."""
    taken: int = settings["LISTS"] * settings.get("ROUNDS", 1)
    return -(-n_lists // taken)


def _padded(number: int) -> int:
    """The power of two at or above a number."""
    return int(1 << (number - 1).bit_length())


def _stride(n_states: int) -> int:
    """Values from one row to the next: a row starts at a multiple of 64 bytes, or fits in them."""
    return _padded(n_states) if n_states <= 8 else -(-n_states // 8) * 8


def _doubles(part: DeviceLabels, *shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.float64, device=part.device)


def _on(part: DeviceLabels, values: FloatArray) -> torch.Tensor:
    return torch.tensor(values, device=part.device)


def _gold_of(part: DeviceLabels, gold: IntArray) -> torch.Tensor:
    own = gold[part.first_task : part.first_task + part.n_tasks].astype(np.int32)
    return torch.tensor(own if own.size else np.zeros(1, np.int32), device=part.device)


def _table_rows(log_table: FloatArray) -> torch.Tensor:
    """Log-probabilities (M, S, K) [worker, truth, label] as rows of each worker and label."""
    n_workers, n_states, n_classes = log_table.shape
    rows = torch.zeros((n_workers * n_classes, _stride(n_states)), dtype=torch.float64)
    by_label = np.ascontiguousarray(log_table.transpose(0, 2, 1)).reshape(-1, n_states)
    rows[:, :n_states].copy_(torch.tensor(by_label))
    return rows


def _download_rows(rows: torch.Tensor, shape: tuple[int, int, int]) -> FloatArray:
    n_workers, n_states, n_classes = shape
    host: FloatArray = rows.view(n_workers, n_classes, -1)[:, :, :n_states].to(torch.float64).cpu().numpy()
    return host.transpose(0, 2, 1)


def _using(device: torch.device) -> Any:
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@contextmanager
def _explain_memory(n_tasks: int) -> Iterator[None]:
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        free, total = (each / 2**30 for each in torch.cuda.mem_get_info())
        raise InputError(
            f"The GPU has too little memory for these labels of {n_tasks:,} tasks ({free:.1f} of {total:.1f} GiB are "
            "free). Use the engine 'numba', or 'stream' where they do not fit in memory either."
        ) from error
