"""Ask the processor for a row of a table before it is needed.

The workers' tables of a large crowd do not fit the cache, and the rows that a block of labels reads lie scattered:
without the hint, a pass waits for memory (`benchmarks/kernels.py` shows by how much).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray

__all__ = ["AHEAD", "LINE", "prefetch", "prefetch_row"]

LINE = 8  # numbers of a line of the cache
AHEAD = 12  # labels between asking for a row and using it: about the latency of memory in labels

READ, KEEP, DATA = 0, 3, 1  # llvm.prefetch: for reading, in every level of the cache, data rather than code


@intrinsic
def prefetch(_typing: Any, table: Any, _row: Any, _column: Any) -> Any:
    """Fetch the line of the cache with one number of a table."""
    if not (isinstance(table, types.Array) and table.layout == "C" and table.ndim == 2):
        raise TypingError("prefetch needs a C-ordered table")

    def emit_prefetch_instruction(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        array = context.make_array(table)(context, builder, arguments[0])
        width = builder.extract_value(array.shape, 1)
        cell = builder.add(builder.mul(arguments[1], width), arguments[2])
        byte = ir.PointerType(ir.IntType(8))
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        address = builder.bitcast(builder.gep(array.data, [cell]), byte)
        builder.call(hint, [address, *(ir.Constant(word, value) for value in (READ, KEEP, DATA))])
        return context.get_dummy_value()

    return types.void(table, types.intp, types.intp), emit_prefetch_instruction


@njit(inline="always")
def prefetch_row(table: FloatArray, row: int) -> None:
    """Fetch the ends of a row; what lies between is on the same lines, or the hardware follows."""
    prefetch(table, row, 0)  # type: ignore[call-arg]
    prefetch(table, row, table.shape[1] - 1)
