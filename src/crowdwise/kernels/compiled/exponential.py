"""An exponential that the compiler can vectorise; a call of libm's cannot be.

Cephes' rational approximation on [-ln2/2, ln2/2], scaled by a power of two put together from its bits.
Within 2 units in the last place of `numpy.exp` for arguments up to 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from crowdwise.labels.loop_compiler import njit

__all__ = ["exp_of_nonpositive"]

LOG2_E = 1.4426950408889634
LN2_HIGH = 6.93145751953125e-1
LN2_LOW = 1.42860682030941723212e-6
UNDERFLOW = -708.0


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
