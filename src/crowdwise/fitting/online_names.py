"""Names that come one by one, and their positions."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.unseen_characters import LETTER
from crowdwise.labels.vocabulary import as_vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crowdwise.labels.types import IntArray

__all__ = ["Names"]

NO_TEXT = re.compile("[\0\ud800-\udfff]")  # cut by other programs, or no character
LARGEST = 2**63 - 1  # of the whole numbers that a vocabulary keeps as such


class Names:
    """Names in the order in which they came, whole numbers or text; 1 and "1" are the same name."""

    def __init__(self, what: str, names: Iterable[Any] = ()) -> None:
        if isinstance(names, str) or not np.iterable(names):
            raise InputError(f"The {what} names are {quote(names)}; give a list of names.")
        self.what = what
        self.every = [self.check(name) for name in names]
        self.place = {str(name): position for position, name in enumerate(self.every)}
        if len(self.place) < len(self.every):
            raise InputError(f"The {what} names repeat. Name each {what} once.")

    def __len__(self) -> int:
        return len(self.every)

    def __contains__(self, name: object) -> bool:
        return self.get(name) is not None

    def check(self, name: Any) -> Any:
        """The name as `CrowdLabels` would have it; one that they refuse, and `load` with them, is an error."""
        if type(name) is str:
            if not NO_TEXT.search(name) and LETTER.sub("", name).strip():  # so nearly all are, and Arrow takes its time
                return name
        elif type(name) is int and abs(name) <= LARGEST:
            return name
        return as_vocabulary([name], self.what)[0].as_py()

    def get(self, name: Any) -> int | None:
        """Position of a name, or None."""
        if type(name) is not str:
            try:
                name = str(self.check(name))
            except InputError:
                return None
        return self.place.get(name)

    def find(self, name: Any) -> int:
        """Position of a name; one that is not there is an error."""
        found = self.get(name)
        if found is None:
            known = f"There are: {listing(self.every)}" if self.every else "There is none yet"
            raise InputError(f"There is no {self.what} {quote(name)}. {known}.")
        return found

    def find_all(self, names: Iterable[Any], what: str) -> IntArray:
        """Positions of names, each given once; `what` names the parameter in an error."""
        if isinstance(names, str) or not np.iterable(names):
            raise InputError(f"{what} is {quote(names)}; give a list of {self.what} names.")
        found = [self.find(name) for name in names]
        if len(set(found)) < len(found):
            twice = [self.every[at] for at, number in Counter(found).items() if number > 1]
            raise InputError(f"{what} names {listing(twice)} more than once. Name each {self.what} once.")
        return np.array(found, np.int64)

    def foresee(self, names: Iterable[Any]) -> tuple[IntArray, list[Any]]:
        """Positions that different names have, or will have once they are added in this order, and all names then."""
        every, found = list(self.every), []
        for name in names:
            at = self.get(name)
            found.append(len(every) if at is None else at)
            if at is None:
                every.append(name)
        return np.array(found, np.int64), every

    def refuse_twins(self, names: Iterable[Any]) -> None:
        """Refuse new names that differ only in case or blanks from one that is there and not among those given."""
        every = list(names)
        if all(name in self for name in every):
            return
        given = set(map(str, every))
        have = {str(name).strip().casefold(): name for name in self.every if str(name) not in given}
        for name in every:
            twin = None if name in self else have.get(str(name).strip().casefold())
            if twin is not None:
                raise InputError(
                    f"{self.what} {quote(name)} differs only in case or blanks from {quote(twin)}. Write them the same "
                    f"way, or declare both with add_{self.what}."
                )

    def add(self, name: Any) -> int:
        """Position of a name, which is new if it was not there."""
        found = self.get(name)
        if found is None:
            name = self.check(name)
            found = self.place[str(name)] = len(self.every)
            self.every.append(name)
        return found
