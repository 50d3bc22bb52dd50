"""Rows of one table added to rows of another, for each label: most of the time of an EM pass.

The loop over labels is written out once for each K up to `WIDEST`, a row as a few vectors (`vector_rows`). The sums are
those of the plain loop, to the bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import types
from numba.extending import intrinsic

from crowdwise.kernels.compiled.prefetch import AHEAD, prefetch_row
from crowdwise.kernels.compiled.vector_rows import (
    INDEX,
    emit_for_each_width,
    emit_loop,
    emit_prefetch,
    load_vectors,
    store_vectors,
    vector_parts,
)
from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["add_from_slots", "add_to_slots"]

LARGE_TABLE = 2**19  # cells of a table that no second-level cache holds: 4 MiB
FAR_AHEAD = 24  # labels between asking for a row of such a table and using it, where the rows come in order


def _written_out(ahead_of: int, longest: int) -> Any:
    """An intrinsic that adds the rows of a block's labels where K is at most `WIDEST`, and says whether it did.

    `ahead_of` says of which rows the order is not that of the labels, those read (0) or those written (1): they are
    always asked for ahead. The others lie in order or near it, and are asked for where their table is large.
    """

    @intrinsic
    def add_short_rows(_typing: Any, edges: Any, values: Any, source: Any, sums: Any, target: Any) -> Any:
        def emit_loops(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            pair, *given = arguments
            kinds = (values, source, sums, target)
            arrays = [
                context.make_array(kind)(context, builder, array) for kind, array in zip(kinds, given, strict=True)
            ]
            start, end = (builder.extract_value(pair, place) for place in (0, 1))
            last = builder.sub(end, INDEX(1))
            tables = (arrays[0], arrays[1].data, source), (arrays[2], arrays[3].data, target)

            def find_row(table: tuple[Any, Any, Any], edge: Any, width: int) -> Any:
                array, indices, kind = table
                index = builder.load(builder.gep(indices, [edge]))
                if index.type.width < INDEX.width:
                    index = builder.sext(index, INDEX) if kind.dtype.signed else builder.zext(index, INDEX)
                return builder.gep(array.data, [builder.mul(index, INDEX(width))])

            def find_later_row(table: tuple[Any, Any, Any], edge: Any, ahead: int, width: int) -> Any:
                later = builder.add(edge, INDEX(ahead))
                return find_row(table, builder.select(builder.icmp_signed("<", later, last), later, last), width)

            def emit_width(width: int) -> None:
                parts = vector_parts(width, longest)
                in_order = tables[1 - ahead_of]
                n_cells = builder.mul(builder.extract_value(in_order[0].shape, 0), INDEX(width))
                large = builder.icmp_signed(">", n_cells, INDEX(LARGE_TABLE))

                def add_row(edge: Any, _values: list[Any]) -> list[Any]:
                    emit_prefetch(builder, find_later_row(tables[ahead_of], edge, AHEAD, width), width)
                    with builder.if_then(large):
                        emit_prefetch(builder, find_later_row(in_order, edge, FAR_AHEAD, width), width)
                    read, written = (find_row(table, edge, width) for table in tables)
                    pairs = zip(load_vectors(builder, written, parts), load_vectors(builder, read, parts), strict=True)
                    store_vectors(builder, written, parts, [builder.fadd(there, new) for there, new in pairs])
                    return []

                emit_loop(builder, start, end, [], add_row)

            return emit_for_each_width(builder, builder.extract_value(arrays[0].shape, 1), emit_width)

        return types.boolean(edges, values, source, sums, target), emit_loops

    return add_short_rows


# Rows that are written in order are read back at once where a worker has several labels in a block: this comes faster
# in halves. Rows that are written anywhere are not.
_add_to_slots, _add_from_slots = _written_out(1, longest=8), _written_out(0, longest=4)


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


@njit(inline="always")  # where it is called, and not compiled by itself as well
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
