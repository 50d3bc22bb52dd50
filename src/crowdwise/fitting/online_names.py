"""Names that come one by one, and their positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crowdwise.labels.errors import InputError, listing, quote

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Names"]


class Names:
    """Names in the order in which they came; 1 and "1" are the same name."""

    def __init__(self, what: str, names: Iterable[Any] = ()) -> None:
        self.what, self.every = what, list(names)
        self.place = {str(name): position for position, name in enumerate(self.every)}
        if len(self.place) < len(self.every):
            raise InputError(f"The {what} names repeat. Name each {what} once.")

    def __len__(self) -> int:
        return len(self.every)

    def __contains__(self, name: object) -> bool:
        return str(name) in self.place

    def find(self, name: Any) -> int:
        """Position of a name; one that is not there is an error."""
        found = self.place.get(str(name))
        if found is None:
            raise InputError(f"There is no {self.what} {quote(name)}. There are: {listing(self.every)}.")
        return found

    def add(self, name: Any) -> int:
        """Position of a name, which is new if it was not there."""
        found = self.place.get(str(name))
        if found is None:
            if name is None or isinstance(name, float) or not str(name).strip():
                raise InputError(f"A {self.what} is called {quote(name)}; give every {self.what} a name.")
            found = self.place[str(name)] = len(self.every)
            self.every.append(name)
        return found
