"""Short rows of a table as a few vectors, in the compiler's own instructions: what the written-out loops share.

A loop over K values that the compiler knows nothing of costs more to set up than to run when K is small. Loops over
rows are therefore written out once for each K up to `WIDEST`, and K decides once for many rows which of them runs; a
version of its own for each K, compiled when it is met, would take a second each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "DOUBLE",
    "INDEX",
    "WIDEST",
    "WORD",
    "emit_for_each_width",
    "emit_loop",
    "emit_prefetch",
    "fold_vectors",
    "load_vectors",
    "spread",
    "store_vectors",
    "vector_parts",
]

WIDEST = 16  # classes up to which rows are written out; beyond, the plain loop is as good
BYTES = 8  # of a number, to which rows are aligned
INDEX, WORD, DOUBLE = ir.IntType(64), ir.IntType(32), ir.DoubleType()


def vector_parts(width: int, longest: int = 4) -> list[tuple[int, int]]:
    """First place and length of the vectors that make up a row: the longest, its half, and so on to 1."""
    parts, first, length = [], 0, longest
    while length:
        while width - first >= length:
            parts.append((first, length))
            first += length
        length //= 2
    return parts


def _find_vector(builder: Any, row: Any, part: tuple[int, int]) -> Any:
    first, length = part
    kind = ir.VectorType(DOUBLE, length) if length > 1 else DOUBLE
    return builder.bitcast(builder.gep(row, [INDEX(first)]), ir.PointerType(kind))


def load_vectors(builder: Any, row: Any, parts: list[tuple[int, int]]) -> list[Any]:
    """The values of a row, given the place of its first cell."""
    return [builder.load(_find_vector(builder, row, part), align=BYTES) for part in parts]


def store_vectors(builder: Any, row: Any, parts: list[tuple[int, int]], values: list[Any]) -> None:
    """Write values where they belong in a row."""
    for part, value in zip(parts, values, strict=True):
        builder.store(value, _find_vector(builder, row, part), align=BYTES)


def fold_vectors(builder: Any, vectors: list[Any], combine: Callable[[Any, Any], Any]) -> Any:
    """All values of a row combined into one number: vectors of one length with each other, then their halves."""
    waiting = sorted(vectors, key=_length_of, reverse=True)
    while len(waiting) > 1 or _length_of(waiting[0]) > 1:
        first = waiting.pop(0)
        if waiting and _length_of(waiting[0]) == _length_of(first):
            waiting.insert(0, combine(first, waiting.pop(0)))
        else:
            waiting.insert(0, combine(*_cut_in_half(builder, first)))
            waiting.sort(key=_length_of, reverse=True)
    return waiting[0]


def _length_of(value: Any) -> int:
    return value.type.count if isinstance(value.type, ir.VectorType) else 1


def _cut_in_half(builder: Any, vector: Any) -> tuple[Any, Any]:
    half = _length_of(vector) // 2
    if half == 1:
        return builder.extract_element(vector, WORD(0)), builder.extract_element(vector, WORD(1))
    nothing = ir.Constant(vector.type, ir.Undefined)
    places = ir.VectorType(WORD, half)
    low, high = (ir.Constant(places, list(range(first, first + half))) for first in (0, half))
    return builder.shuffle_vector(vector, nothing, low), builder.shuffle_vector(vector, nothing, high)


def spread(builder: Any, number: Any, like: Any) -> Any:
    """A number in every place of a vector as long as another."""
    length = _length_of(like)
    if length == 1:
        return number
    nothing = ir.Constant(like.type, ir.Undefined)
    first = builder.insert_element(nothing, number, WORD(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(WORD, length), [0] * length))


def emit_prefetch(builder: Any, row: Any, width: int) -> None:
    """Ask for the ends of a row; what lies between is on the same lines of the cache, or the hardware follows."""
    byte = ir.PointerType(ir.IntType(8))
    kind = ir.FunctionType(ir.VoidType(), [byte, WORD, WORD, WORD])
    hint = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
    for_reading_in_every_level = [ir.Constant(WORD, value) for value in (0, 3, 1)]
    for place in sorted({0, width - 1}):
        cell = builder.gep(row, [INDEX(place)])
        builder.call(hint, [builder.bitcast(cell, byte), *for_reading_in_every_level])


def emit_loop(
    builder: Any, start: Any, end: Any, values: list[Any], emit_body: Callable[[Any, list[Any]], list[Any]]
) -> list[Any]:
    """A loop from `start` to before `end` that carries values; `emit_body(place, values)` gives the next ones."""
    before = builder.block
    head, body, after = (builder.function.append_basic_block(name) for name in ("head", "body", "after"))
    builder.branch(head)
    builder.position_at_end(head)
    place = builder.phi(INDEX)
    place.add_incoming(start, before)
    carried = [builder.phi(value.type) for value in values]
    for each, value in zip(carried, values, strict=True):
        each.add_incoming(value, before)
    builder.cbranch(builder.icmp_signed("<", place, end), body, after)
    builder.position_at_end(body)
    for each, value in zip(carried, emit_body(place, carried), strict=True):
        each.add_incoming(value, builder.block)
    place.add_incoming(builder.add(place, INDEX(1)), builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return carried


def emit_for_each_width(builder: Any, width: Any, emit: Callable[[int], None]) -> Any:
    """Code for every width up to `WIDEST`, of which the width met runs one; whether there was one for it."""
    done = builder.function.append_basic_block("done")
    choice = builder.switch(width, done)
    for each in range(1, WIDEST + 1):
        block = builder.function.append_basic_block(f"width_{each}")
        choice.add_case(INDEX(each), block)
        builder.position_at_end(block)
        emit(each)
        builder.branch(done)
    builder.position_at_end(done)
    return builder.icmp_unsigned("<=", width, INDEX(WIDEST))
