"""Rows added label by label: every width that is written out, and those beyond, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from crowdwise.kernels.compiled.row_sums import LARGE_TABLE, add_from_slots, add_to_slots
from crowdwise.kernels.compiled.vector_rows import WIDEST, vector_parts


@pytest.mark.parametrize("width", [*range(1, WIDEST + 1), WIDEST + 1, 40])
def test_rows_are_added_as_numpy_adds_them(width: int) -> None:
    rng = np.random.default_rng(width)
    table, space = rng.normal(size=(31, width)), rng.normal(size=(17, width))
    row, slot = np.sort(rng.integers(31, size=90)).astype(np.int32), rng.integers(17, size=90).astype(np.uint16)
    edges = 5, 83  # labels before and after belong to other blocks
    for add, values, source, sums, target in (
        (add_to_slots, table, row, space, slot),
        (add_from_slots, space, slot, table, row),
    ):
        expected, found = sums.copy(), sums.copy()
        np.add.at(expected, target[slice(*edges)], values[source[slice(*edges)]])
        add(edges, values, source, found, target)
        np.testing.assert_array_equal(found, expected)


def test_no_label_adds_nothing() -> None:
    sums = np.ones((2, 3))
    add_to_slots((4, 4), np.ones((5, 3)), np.zeros(9, np.int32), sums, np.zeros(9, np.uint16))
    np.testing.assert_array_equal(sums, 1.0)


def test_places_of_65_535_are_not_negative() -> None:
    values = np.zeros((2**16, 2))
    values[-1] = 1.0, 2.0
    sums = np.zeros((1, 2))
    add_from_slots((0, 1), values, np.array([2**16 - 1], np.uint16), sums, np.zeros(1, np.int32))
    np.testing.assert_array_equal(sums, [[1.0, 2.0]])


@pytest.mark.parametrize("width", range(1, WIDEST + 1))
def test_vectors_cover_a_row_once(width: int) -> None:
    for longest in (4, 8):
        cells = [first + place for first, length in vector_parts(width, longest) for place in range(length)]
        assert cells == list(range(width))


def test_rows_of_a_large_table_are_added_as_those_of_a_small_one() -> None:
    """Its rows are asked for ahead, the last ones of a block too."""
    width, rng = 3, np.random.default_rng(0)
    table, space = rng.normal(size=(LARGE_TABLE // width + 10, width)), rng.normal(size=(50, width))
    row = np.sort(rng.integers(len(table), size=200)).astype(np.int32)
    slot = rng.integers(50, size=200).astype(np.uint16)
    for add, values, source, sums, target in (
        (add_to_slots, table, row, space, slot),
        (add_from_slots, space, slot, table, row),
    ):
        expected, found = sums.copy(), sums.copy()
        np.add.at(expected, target, values[source])
        add((0, 200), values, source, found, target)
        np.testing.assert_array_equal(found, expected)
