"""The errors a user can cause, each with what is wrong, where, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crowdwise.labels.unseen_characters import escape_letters

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "CrowdwiseError",
    "InputError",
    "InputWarning",
    "NumericLabelsError",
    "OtherKindError",
    "UnclearInputError",
    "UnknownNameError",
    "is_one_of",
    "listing",
    "quote",
]

SHOWN = 5
LONGEST_NAME = 60


class CrowdwiseError(Exception):
    """Base of every error that is the user's to mend; the command turns it into exit code 2."""


class InputError(CrowdwiseError, ValueError):
    """Data or a parameter that cannot be used as it is."""


class UnclearInputError(InputError):
    """Data that can be read in more than one way, where the wrong one would give wrong answers without a word.

    Attributes
    ----------
    choices
        Each way on: what it means, and the words to add to the command line for it.
    """

    def __init__(self, message: str, choices: Iterable[tuple[str, tuple[str, ...]]] = ()) -> None:
        super().__init__(message)
        self.choices = tuple(choices)


class UnknownNameError(InputError):
    """A name that stands for nothing here: of a method, a learner or a kind."""


class NumericLabelsError(UnclearInputError):
    """Labels that are numbers, and look like values."""


class OtherKindError(InputError):
    """Answers of a kind that is no class, where classes were asked for.

    Attributes
    ----------
    kind
        Name of the kind.
    opened
        The table, opened: standard input cannot be opened twice.
    """

    def __init__(self, message: str, kind: str, opened: Any) -> None:
        super().__init__(message)
        self.kind, self.opened = kind, opened


class InputWarning(UserWarning):
    """Data that were read as they are, although something about them is probably not meant."""


def is_one_of(given: object, allowed: Iterable[str]) -> bool:
    """Whether something is one of these words; what is no text is not, and is never compared."""
    return isinstance(given, str) and given in tuple(allowed)


def quote(name: object) -> str:
    r"""Show a name on one line, control characters escaped and long ones cut.

    >>> print(quote("two\nlines"))
    'two\nlines'
    """
    try:
        text = escape_letters(repr(name))
    except Exception:  # an integer of too many digits, or a class of the user's own
        text = f"<{type(name).__name__}>"
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 2] + "…" + text[-1]


def listing(names: Iterable[object]) -> str:
    """Show the first five names, then how many more there are.

    >>> listing(["a", "b"])
    "'a', 'b'"
    >>> listing(range(8))
    '0, 1, 2, 3, 4 and 3 more'
    """
    every = list(names)
    shown = ", ".join(quote(name) for name in every[:SHOWN])
    return shown if len(every) <= SHOWN else f"{shown} and {len(every) - SHOWN} more"
