"""The M-step that confusion models share: rows of matrices from expected answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kernels.block_layout import split_rows, transpose_truth_and_label
from crowdwise.kernels.threads import map_lanes
from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    import numpy.typing as npt

    from crowdwise.labels.types import FloatArray

__all__ = ["NO_GOLD", "compiled_log_rows", "draw_gammas", "log_rows"]

NO_GOLD = np.empty(0, np.int32)
"""What to pass for `gold` when no truth is known."""


def log_rows(counts: FloatArray, pseudo: FloatArray) -> FloatArray:
    """Log of the rows of confusion matrices from counts and pseudo-counts, both [worker, truth, label].

    A row with neither (a class that a worker never met) becomes uniform: the labels say nothing of it.
    `pseudo` may have one worker for all. Counts of a compiled pass are read where they lie, and the rows lie as these.
    """
    return _log_rows(counts, pseudo) if choose_engine(counts.size, 1) == "numpy" else compiled_log_rows(counts, pseudo)


def compiled_log_rows(counts: FloatArray, pseudo: FloatArray) -> FloatArray:
    """The same in compiled loops, for small tables as well: those of compiled passes, which are loaded anyway."""
    from crowdwise.kernels.compiled import em_passes

    by_label, pseudo_by_label = transpose_truth_and_label(counts), transpose_truth_and_label(pseudo)
    out = np.empty_like(by_label)

    def fill(first: int, last: int) -> None:
        em_passes.share_rows(first, last, by_label, pseudo_by_label, out)
        with np.errstate(divide="ignore"):
            np.log(out[first:last], out=out[first:last])  # NumPy's takes several at once, a compiled loop's does not

    map_lanes(fill, split_rows(counts.shape[0], counts.size))
    return out.transpose(0, 2, 1)


def _log_rows(counts: FloatArray, pseudo: FloatArray) -> FloatArray:
    mass = counts + pseudo
    total = mass.sum(axis=2, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs: FloatArray = np.where(total > 0, np.log(mass / total), -np.log(counts.shape[2]))
    return logs


def draw_gammas(shape: npt.NDArray[Any], generator: np.random.Generator) -> FloatArray:
    """Gamma variates with these shapes [worker, truth, label], truth after truth within a label: so seeds stay true."""
    drawn: FloatArray = generator.standard_gamma(shape.transpose(0, 2, 1))
    return drawn.transpose(0, 2, 1)
