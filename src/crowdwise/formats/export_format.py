"""What is known of a labelling tool's export."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.labels.columns import Columns, Named

__all__ = ["Format"]


@dataclass(frozen=True)
class Format:
    """The export of a tool.

    Attributes
    ----------
    name
        The tool's, as its makers write it.
    find_answers
        Takes any table, and the columns of task, worker and label that the user named; gives the rows that are answers
        and their columns, or None if the table is no such export. An export of a kind that is not read yet is refused
        in words.
    """

    name: str
    find_answers: Callable[[Columns, Named], tuple[Columns, Named] | None]
