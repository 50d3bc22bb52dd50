"""The soft-max of many short rows: highest value, exponentials, shares; the rows stay in the first-level cache.

What is done row by row is written out for each K up to `WIDEST`, as vectors (`vector_rows`); exponentials take all
cells of the rows in one long loop, which the compiler vectorises.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from crowdwise.kernels.compiled.exponential import exp_of_cells
from crowdwise.kernels.compiled.vector_rows import (
    DOUBLE,
    INDEX,
    emit_for_each_width,
    emit_loop,
    fold_vectors,
    load_vectors,
    spread,
    store_vectors,
    vector_parts,
)
from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["softmax_block"]

ROWS = 64  # at a time: 8 KiB of 16 classes


@intrinsic
def _subtract_highest_of_short(_typing: Any, work: Any, highest: Any) -> Any:
    """Subtract from each row its highest value, which is kept; rows of -inf alone stay. Whether K is at most `WIDEST`.

    | argument | shape |
    |---|---|
    | work | (rows, K) |
    | highest | (rows,) or more |
    """

    def emit_loops(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        rows, kept = (
            context.make_array(kind)(context, builder, array)
            for kind, array in zip((work, highest), arguments, strict=True)
        )

        def choose_larger(one: Any, other: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", one, other), one, other)

        def emit_width(width: int) -> None:
            parts = vector_parts(width)

            def subtract(place: Any, _values: list[Any]) -> list[Any]:
                row = builder.gep(rows.data, [builder.mul(place, INDEX(width))])
                values = load_vectors(builder, row, parts)
                top = fold_vectors(builder, values, choose_larger)
                builder.store(top, builder.gep(kept.data, [place]))
                nothing = builder.fcmp_ordered("==", top, ir.Constant(DOUBLE, -math.inf))
                top = builder.select(nothing, ir.Constant(DOUBLE, 0.0), top)
                less = [builder.fsub(value, spread(builder, top, value)) for value in values]
                store_vectors(builder, row, parts, less)
                return []

            emit_loop(builder, INDEX(0), builder.extract_value(rows.shape, 0), [], subtract)

        return emit_for_each_width(builder, builder.extract_value(rows.shape, 1), emit_width)

    return types.boolean(work, highest), emit_loops


@intrinsic
def _share_short(_typing: Any, work: Any, mass: Any, column_sums: Any) -> Any:
    """Divide each row by its sum, which is kept, and add it to the sums of the columns. Whether K is at most `WIDEST`.

    | argument | shape |
    |---|---|
    | work | (rows, K) |
    | mass | (rows,) or more |
    | column_sums | (K,) |
    """

    def emit_loops(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        rows, kept, columns = (
            context.make_array(kind)(context, builder, array)
            for kind, array in zip((work, mass, column_sums), arguments, strict=True)
        )

        def emit_width(width: int) -> None:
            parts = vector_parts(width)

            def share(place: Any, so_far: list[Any]) -> list[Any]:
                row = builder.gep(rows.data, [builder.mul(place, INDEX(width))])
                values = load_vectors(builder, row, parts)
                total = fold_vectors(builder, values, builder.fadd)
                builder.store(total, builder.gep(kept.data, [place]))
                scale = builder.fdiv(ir.Constant(DOUBLE, 1.0), total)
                shares = [builder.fmul(value, spread(builder, scale, value)) for value in values]
                store_vectors(builder, row, parts, shares)
                return [builder.fadd(before, new) for before, new in zip(so_far, shares, strict=True)]

            sums = load_vectors(builder, columns.data, parts)
            sums = emit_loop(builder, INDEX(0), builder.extract_value(rows.shape, 0), sums, share)
            store_vectors(builder, columns.data, parts, sums)

        return emit_for_each_width(builder, builder.extract_value(rows.shape, 1), emit_width)

    return types.boolean(work, mass, column_sums), emit_loops


@njit(cache=True, nogil=True, error_model="numpy")
def _subtract_highest(work: FloatArray, highest: FloatArray) -> None:
    if _subtract_highest_of_short(work, highest):  # type: ignore[call-arg]
        return
    for t in range(work.shape[0]):
        top = work[t, 0]
        for k in range(1, work.shape[1]):
            top = max(top, work[t, k])
        highest[t] = top
        if top > -np.inf:
            for k in range(work.shape[1]):
                work[t, k] -= top


@njit(cache=True, nogil=True, error_model="numpy")
def _share(work: FloatArray, mass: FloatArray, column_sums: FloatArray) -> None:
    if _share_short(work, mass, column_sums):  # type: ignore[call-arg]
        return
    for t in range(work.shape[0]):
        total = 0.0
        for k in range(work.shape[1]):
            total += work[t, k]
        mass[t] = total
        scale = 1.0 / total
        for k in range(work.shape[1]):
            work[t, k] *= scale
            column_sums[k] += work[t, k]


@njit(cache=True, nogil=True, error_model="numpy")
def softmax_block(
    work: FloatArray, first_task: int, log_prior: FloatArray, kinds: int, gold: IntArray, class_counts: FloatArray
) -> float:
    """Soft-max each task's row in place; returns the block's log-likelihood.

    Each class has `kinds` states, which lie together; gold names the class.
    """
    log_likelihood = 0.0
    highest, mass = np.empty(ROWS), np.empty(ROWS)
    for begin in range(0, work.shape[0], ROWS):
        rows = work[begin : begin + ROWS]
        if gold.size > 0:
            for t in range(rows.shape[0]):
                known = gold[first_task + begin + t]
                if known >= 0:
                    for state in range(rows.shape[1]):
                        if state // kinds != known:
                            rows[t, state] = -np.inf
        _subtract_highest(rows, highest)
        of_rows = 0.0  # summed by themselves: the sum of a block is then rounded fewer times
        for t in range(rows.shape[0]):
            of_rows += highest[t]
            if highest[t] == -np.inf:  # labels that no class allows: they teach nothing, the truth or the prior stands
                known = gold[first_task + begin + t] if gold.size > 0 else -1
                for state in range(rows.shape[1]):  # not one assignment, which takes seconds to compile
                    if known < 0:
                        rows[t, state] = log_prior[state]
                    elif state // kinds == known:
                        rows[t, state] = 0.0
        cells = rows.reshape(-1)
        for cell in range(cells.size):
            cells[cell] = exp_of_cells(cells[cell])
        _share(rows, mass, class_counts)
        product = 1.0  # of up to 16 sums between 1 and K: one logarithm for all
        for t in range(rows.shape[0]):
            product *= mass[t]
            if t & 15 == 15:
                of_rows += math.log(product)
                product = 1.0
        log_likelihood += of_rows + math.log(product)
    return log_likelihood
