"""What the two registries share: the facts about any method, its class by a string, and finding it by its slug."""

from __future__ import annotations

import difflib
import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Entry", "found"]


@dataclass(frozen=True)
class Entry:
    """A method and what is to be said of any.

    Attributes
    ----------
    slug
        Its name on the command line.
    path
        Module and class, imported when first used.
    summary
        What it assumes, in one line.
    paper
        Where it was published.
    fails
        When not to use it.
    """

    slug: str
    path: str
    summary: str
    paper: str
    fails: str

    @property
    def class_name(self) -> str:
        """Name of the class."""
        return self.path.rpartition(":")[2]

    def load(self) -> type[Any]:
        """Import the class."""
        module, _, name = self.path.rpartition(":")
        imported: type[Any] = getattr(importlib.import_module(module), name)
        return imported


E = TypeVar("E", bound=Entry)


def found(slug: object, entries: Mapping[str, E], what: str, hint: str = "") -> E:
    """The entry of this name; an error that says what there is, and the nearest name or the `hint`, otherwise."""
    if isinstance(slug, str) and slug in entries:
        return entries[slug]
    close = difflib.get_close_matches(str(slug), entries, n=1)
    nearest = f" Did you mean {close[0]!r}?" if close else ""
    raise InputError(f"There is no {what} {quote(slug)}.{hint or nearest} There are: {', '.join(entries)}.")
