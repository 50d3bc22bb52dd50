"""Answers of any kind cut in two at random: those to fit, and those held out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdwise.labels.integer_codes import draw_held_out
from crowdwise.labels.old_names import accept_seed

if TYPE_CHECKING:
    from typing import Self

    from crowdwise.labels.types import BoolArray

__all__ = ["HeldOutSplit"]


class HeldOutSplit:
    """Whatever has a length and `keep`."""

    __slots__ = ()

    def __len__(self) -> int:
        raise NotImplementedError

    def keep(self, edges: BoolArray, /) -> Self:
        """Keep the answers where this is true, with all names kept."""
        raise NotImplementedError

    @accept_seed
    def split(self, held_out: float = 0.2, *, random_state: int = 0) -> tuple[Self, Self]:
        """Answers to fit and answers held out, at random: each part keeps all names.

        Parameters
        ----------
        held_out
            Share of the answers to hold out, in (0, 1).
        random_state
            Same number, same split.
        """
        out = draw_held_out(len(self), held_out, random_state)
        return self.keep(~out), self.keep(out)
