"""Where a row came from, said in an error: a file and its line, or a row of a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crowdwise.labels.errors import SHOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from crowdwise.labels.types import IntArray

__all__ = ["JoinedPlace", "Place", "SelectedPlace", "format_count"]


@dataclass(frozen=True)
class Place:
    """Names the rows of one input.

    Attributes
    ----------
    origin
        What was read: a file name, "standard input" or "the table".
    unit
        "line" of a text file (from 1), "row" of a table (from 0).
    number
        The line or row number of the n-th record.
    """

    origin: str = "the table"
    unit: str = "row"
    number: Callable[[int], int] = int

    def __call__(self, row: int) -> str:
        """Name one row.

        >>> Place("labels.csv", "line", lambda row: row + 2)(5)
        'labels.csv, line 7'
        """
        return f"{self.origin}, {self.unit} {self.number(row)}"

    def name_rows(self, rows: Iterable[int]) -> str:
        """Name the first five rows, and how many more there are.

        >>> Place().name_rows([3, 4])
        'the table, rows 3, 4'
        """
        every = list(rows)
        if len(every) == 1:
            return self(every[0])
        shown = ", ".join(str(self.number(row)) for row in every[:SHOWN])
        more = f" and {len(every) - SHOWN:,} more" if len(every) > SHOWN else ""
        return f"{self.origin}, {self.unit}s {shown}{more}"


class _Rows(Place):
    """Names rows one by one: they may come from several files."""

    def name_rows(self, rows: Iterable[int]) -> str:
        """Name the first five rows, and how many more there are."""
        every = list(rows)
        more = f" and {len(every) - SHOWN:,} more" if len(every) > SHOWN else ""
        return "; ".join(self(row) for row in every[:SHOWN]) + more


@dataclass(frozen=True)
class SelectedPlace(_Rows):
    """Names some rows of an input by where they stand in it."""

    whole: Place = field(default_factory=Place)
    rows: Sequence[int] | IntArray = ()

    @classmethod
    def select_rows(cls, whole: Place, rows: Sequence[int] | IntArray) -> SelectedPlace:
        """Name the given rows, in this order."""
        return cls(whole.origin, whole.unit, whole=whole, rows=rows)

    def __call__(self, row: int) -> str:
        """Name one row."""
        return self.whole(int(self.rows[row]))


@dataclass(frozen=True)
class JoinedPlace(_Rows):
    """Names rows of several inputs, one after the other; `sizes` are filled in as they are read."""

    parts: Sequence[Place] = ()
    sizes: list[int] = field(default_factory=list)

    def __call__(self, row: int) -> str:
        """Name one row by its file.

        >>> JoinedPlace(parts=(Place("day1.csv"), Place("day2.csv")), sizes=[3, 2])(4)
        'day2.csv, row 1'
        """
        for part, size in zip(self.parts, self.sizes, strict=True):
            if row < size:
                return part(row)
            row -= size
        raise IndexError(row)


def format_count(number: int, noun: str, plural: str | None = None) -> str:
    """Put a number before its noun.

    >>> format_count(1, "label"), format_count(2, "class", "classes")
    ('1 label', '2 classes')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
