"""Answers that were collected outside of a tool, as `write_answers` of a format takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crowdwise.formats.consensus_answers import ConsensusAnswer

__all__ = ["CollectedTask", "GivenAnswer", "restore_numbers"]

LARGEST = 2**63 - 1


class GivenAnswer(NamedTuple):
    """An answer of a worker (a class, a number, a list of classes), when it was given (Unix time), and in what time."""

    worker: str
    answer: Any
    time: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class CollectedTask:
    """A task with its answers.

    Attributes
    ----------
    name
        A whole number where the tool numbers its tasks.
    shows
        What it shows, by field: text, image, left, right.
    gold
        The known answer, if there is one.
    consensus
        What the answers come to, where the tool's file has a place for it beside them.
    """

    name: str | int
    shows: Mapping[str, str]
    answers: Sequence[GivenAnswer]
    gold: Any = None
    consensus: ConsensusAnswer | None = None


def restore_numbers(names: Sequence[str]) -> list[str | int]:
    """Names of tasks as whole numbers, if every one is such a number written plainly: those that a tool gave.

    >>> restore_numbers(["7", "12"])
    [7, 12]
    >>> restore_numbers(["7", "012"])
    ['7', '012']
    """
    plain = all(name.isascii() and name.removeprefix("-").isdigit() and len(name) < 20 for name in names)
    numbers: list[str | int] = [int(name) for name in names] if plain else []
    if not plain or list(map(str, numbers)) != list(names) or any(abs(int(name)) > LARGEST for name in names):
        return list(names)
    return numbers
