"""Rows of one table added to rows of another, for each label: most of the time of an EM pass.

A loop over K values that the compiler knows nothing of costs more to set up than to run when K is small. Here the loop
over labels is written out once for each K up to `WIDEST`, a row as a few vectors, and K decides once for a block which
of them runs; a version of its own for each K, compiled when it is met, would take a second each time. The sums are
those of the plain loop, to the bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from crowdwise.kernels.compiled.prefetch import AHEAD, LINE, prefetch_row
from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["add_from_slots", "add_to_slots"]

WIDEST = 16  # classes up to which rows are written out; beyond, the plain loop is as good
INDEX, WORD, DOUBLE = ir.IntType(64), ir.IntType(32), ir.DoubleType()


def vector_parts(width: int) -> list[tuple[int, int]]:
    """First place and length of the vectors that make up a row: lengths 4, 2 and 1.

    Not 8: a sum that is read back at once, as that of a worker with several labels in a block, comes faster in halves.
    """
    parts, first = [], 0
    for length in (4, 2, 1):
        while width - first >= length:
            parts.append((first, length))
            first += length
    return parts


def _emit_prefetch(builder: Any, cell: Any) -> None:
    byte = ir.PointerType(ir.IntType(8))
    kind = ir.FunctionType(ir.VoidType(), [byte, WORD, WORD, WORD])
    hint = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
    for_reading_in_every_level = (ir.Constant(WORD, value) for value in (0, 3, 1))
    builder.call(hint, [builder.bitcast(cell, byte), *for_reading_in_every_level])


def _emit_loop(builder: Any, width: int, start: Any, end: Any, reads: Any, writes: Any, ahead_of: int) -> None:
    """Emit a loop over edges, writes[target[edge]] += reads[source[edge]], for rows of `width` numbers.

    `reads` and `writes` are pairs of a table's first cell and a function that gives the row of an edge; `ahead_of` says
    which of the two is asked for ahead.
    """
    function, before = builder.function, builder.block
    head, body, after = (function.append_basic_block(f"{name}_{width}") for name in ("head", "body", "after"))
    last, step = builder.sub(end, INDEX(1)), INDEX(AHEAD)
    builder.branch(head)
    builder.position_at_end(head)
    edge = builder.phi(INDEX)
    edge.add_incoming(start, before)
    builder.cbranch(builder.icmp_signed("<", edge, end), body, after)
    builder.position_at_end(body)

    def find_row(table: Any, at: Any) -> Any:
        cells, row_of = table
        return builder.gep(cells, [builder.mul(row_of(builder, at), INDEX(width))])

    wanted = builder.add(edge, step)
    wanted = builder.select(builder.icmp_signed("<", wanted, last), wanted, last)
    awaited = find_row((reads, writes)[ahead_of], wanted)
    for place in {0, width - 1}:
        _emit_prefetch(builder, builder.gep(awaited, [INDEX(place)]))
    source, target = find_row(reads, edge), find_row(writes, edge)
    sums = []
    for first, length in vector_parts(width):
        vector = ir.PointerType(ir.VectorType(DOUBLE, length)) if length > 1 else ir.PointerType(DOUBLE)
        there = builder.bitcast(builder.gep(target, [INDEX(first)]), vector)
        given = builder.bitcast(builder.gep(source, [INDEX(first)]), vector)
        sums.append((builder.fadd(builder.load(there, align=LINE), builder.load(given, align=LINE)), there))
    for value, there in sums:
        builder.store(value, there, align=LINE)
    edge.add_incoming(builder.add(edge, INDEX(1)), builder.block)
    builder.branch(head)
    builder.position_at_end(after)


def _written_out(ahead_of: int) -> Any:
    """An intrinsic that adds the rows of a block's labels where K is at most `WIDEST`, and says whether it did."""

    @intrinsic
    def add_short_rows(_typing: Any, edges: Any, values: Any, source: Any, sums: Any, target: Any) -> Any:
        def emit_loops(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            pair, *given = arguments
            arrays = [
                context.make_array(kind)(context, builder, array)
                for kind, array in zip((values, source, sums, target), given, strict=True)
            ]
            start, end = (builder.extract_value(pair, place) for place in (0, 1))

            def rows_of(kind: Any, array: Any) -> Any:
                def load_index(inner: Any, edge: Any) -> Any:
                    index = inner.load(inner.gep(array.data, [edge]))
                    if index.type.width == INDEX.width:
                        return index
                    return inner.sext(index, INDEX) if kind.dtype.signed else inner.zext(index, INDEX)

                return load_index

            reads, writes = (arrays[0].data, rows_of(source, arrays[1])), (arrays[2].data, rows_of(target, arrays[3]))
            done, other = (builder.function.append_basic_block(name) for name in ("done", "other"))
            choice = builder.switch(builder.extract_value(arrays[0].shape, 1), other)
            for width in range(1, WIDEST + 1):
                block = builder.function.append_basic_block(f"width_{width}")
                choice.add_case(INDEX(width), block)
                builder.position_at_end(block)
                _emit_loop(builder, width, start, end, reads, writes, ahead_of)
                builder.branch(done)
            builder.position_at_end(other)
            builder.branch(done)
            builder.position_at_end(done)
            return builder.icmp_unsigned("<=", builder.extract_value(arrays[0].shape, 1), INDEX(WIDEST))

        return types.boolean(edges, values, source, sums, target), emit_loops

    return add_short_rows


_add_to_slots, _add_from_slots = _written_out(1), _written_out(0)


@njit(cache=True, nogil=True, error_model="numpy")
def add_to_slots(
    edges: tuple[int, int], values: FloatArray, source: IntArray, sums: FloatArray, target: IntArray
) -> None:
    """Add for each edge from the first to before the second its row of the values to its row of the sums.

    The rows of the values lie in the order of the edges or near it, those of the sums anywhere.
    """
    if not _add_to_slots(edges, values, source, sums, target):
        _add_long_rows(edges, values, source, sums, target)


@njit(cache=True, nogil=True, error_model="numpy")
def add_from_slots(
    edges: tuple[int, int], values: FloatArray, source: IntArray, sums: FloatArray, target: IntArray
) -> None:
    """The same where the rows of the sums are in order, and those of the values anywhere."""
    if not _add_from_slots(edges, values, source, sums, target):
        _add_long_rows(edges, values, source, sums, target)


@njit(cache=True, nogil=True, error_model="numpy")
def _add_long_rows(
    edges: tuple[int, int], values: FloatArray, source: IntArray, sums: FloatArray, target: IntArray
) -> None:
    start, end = edges
    for edge in range(start, end):
        ahead = min(edge + AHEAD, end - 1)
        prefetch_row(values, source[ahead])
        prefetch_row(sums, target[ahead])
        i, j = source[edge], target[edge]
        for k in range(values.shape[1]):
            sums[j, k] += values[i, k]
