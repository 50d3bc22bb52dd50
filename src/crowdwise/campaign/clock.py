"""The time of a campaign, which never runs backwards.

A lease ends at a time that is written down. Were that time read from a clock that is set back, leases would last for
as long as it was set back; set forward, all would end at once. So the time of day is read once, at the start, from the
database's machine (two servers of one PostgreSQL then agree), and never below the latest time that was written; from
then on only what the monotonic clock has counted is added.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CampaignClock"]


class CampaignClock:
    """Seconds since 1970 that only grow.

    Parameters
    ----------
    begin
        The time of day now.
    latest
        The latest time that was written; the clock does not begin below it.
    """

    def __init__(self, begin: float, latest: float = 0.0, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._offset = max(begin, latest) - monotonic()

    def now(self) -> float:
        """The time."""
        return self._offset + self._monotonic()
