"""Exponentials that the compiler can vectorise; a call of libm's cannot be.

Both are an approximation on [-ln2/2, ln2/2], scaled by a power of two put together from its bits, and within 2 units in
the last place of `numpy.exp` for arguments up to 0. `exp_of_nonpositive` is Cephes' rational one. `exp_of_cells` is a
polynomial without a division, a fifth faster in a long loop over cells; what optimisers are given stays with the other,
so that they take the same steps as ever.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from crowdwise.labels.loop_compiler import njit

__all__ = ["exp_of_cells", "exp_of_nonpositive"]

LOG2_E = 1.4426950408889634
LN2_HIGH = 6.93145751953125e-1
LN2_LOW = 1.42860682030941723212e-6
UNDERFLOW = -708.0
ROUNDING = 6755399441055744.0  # 1.5 × 2⁵²: added, it leaves a whole number in the lowest bits
# (exp(r) - 1 - r) / r² on [-ln2/2, ln2/2] at the ten nodes of Chebyshev's polynomial.
C0, C1, C2, C3, C4, C5, C6, C7, C8, C9 = (
    0.5000000000000001, 0.16666666666666669, 0.041666666666624164, 0.008333333333330065, 0.0013888888917196736,
    0.00019841269863040559, 2.480152132234228e-05, 2.7557268480289716e-06, 2.7620075892548164e-07, 2.51003758422237e-08,
)  # fmt: skip


@intrinsic
def _bits_to_double(_typing: Any, _bits: Any) -> Any:
    def emit_bitcast(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), emit_bitcast


@njit(inline="always")
def exp_of_nonpositive(x: float) -> float:
    """exp(x) for x <= 0; exactly 0 below -708."""
    clipped = max(x, UNDERFLOW)
    power = np.floor(clipped * LOG2_E + 0.5)
    rest = clipped - power * LN2_HIGH - power * LN2_LOW
    square = rest * rest
    p = rest * ((1.26177193074810590878e-4 * square + 3.02994407707441961300e-2) * square + 1.0)
    q = (
        (3.00198505138664455042e-6 * square + 2.52448340349684104192e-3) * square + 2.27265548208155028766e-1
    ) * square + 2.0
    value: float = (1.0 + 2.0 * p / (q - p)) * _bits_to_double((np.int64(power) + 1023) << 52)  # type: ignore[call-arg]
    return value if x >= UNDERFLOW else 0.0


@intrinsic
def _double_to_bits(_typing: Any, _number: Any) -> Any:
    def emit_bitcast(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), emit_bitcast


@intrinsic
def _multiply_add(_typing: Any, _a: Any, _b: Any, _c: Any) -> Any:
    """A × b + c, in one instruction where the processor has it."""

    def emit_multiply_add(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        number = ir.DoubleType()
        kind = ir.FunctionType(number, [number] * 3)
        return builder.call(builder.module.declare_intrinsic("llvm.fmuladd", [number], kind), arguments)

    return types.float64(types.float64, types.float64, types.float64), emit_multiply_add


multiply_add: Any = _multiply_add  # numba adds the first argument of an intrinsic
bits_to_double: Any = _bits_to_double
double_to_bits: Any = _double_to_bits


@njit(inline="always")
def exp_of_cells(x: float) -> float:
    """exp(x) for x <= 0; exactly 0 below -708."""
    clipped = max(x, UNDERFLOW)
    shifted = multiply_add(clipped, LOG2_E, ROUNDING)
    power = shifted - ROUNDING
    rest = multiply_add(power, -LN2_LOW, multiply_add(power, -LN2_HIGH, clipped))
    value = multiply_add(C9, rest, C8)
    value = multiply_add(value, rest, C7)
    value = multiply_add(value, rest, C6)
    value = multiply_add(value, rest, C5)
    value = multiply_add(value, rest, C4)
    value = multiply_add(value, rest, C3)
    value = multiply_add(value, rest, C2)
    value = multiply_add(value, rest, C1)
    value = multiply_add(value, rest, C0)
    value = 1.0 + multiply_add(value * rest, rest, rest)
    scaled: float = bits_to_double(double_to_bits(value) + (double_to_bits(shifted) << 52))
    return scaled if x >= UNDERFLOW else 0.0
