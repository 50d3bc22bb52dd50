"""The audit of a crowd: every test, at levels that together keep what is promised, and what they found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from crowdwise.audit.findings import Finding, Screen
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import IntArray

__all__ = ["FINE", "Audit"]

FINE = "nothing found"


@dataclass(frozen=True, eq=False)
class Audit:
    """Everything that was found in a crowd.

    Attributes
    ----------
    labels
        What was audited.
    model
        The fitted aggregator whose consensus, workers and matrices are shown.
    screens
        What each test says, the ones that do not apply included.
    group : (M,)
        Workers with the same number depend on each other; -1 for those who depend on nobody.
    level
        Chance that anyone is flagged in a crowd where there is nothing to find.
    """

    labels: CrowdLabels
    model: Any
    screens: tuple[Screen, ...]
    group: IntArray
    level: float

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All of them, the surest first."""
        every = [finding for screen in self.screens for finding in screen.findings]
        return tuple(sorted(every, key=lambda finding: (finding.p_value, -finding.score)))

    @property
    def verdicts(self) -> list[str]:
        """The kind of each worker's worst finding, by position in the labels' workers."""
        worst = np.full(self.labels.n_workers, -1.0)
        found = [FINE] * self.labels.n_workers
        place = {name: number for number, name in enumerate(self.labels.workers.to_pylist())}
        for finding in self.findings:
            if finding.about not in ("worker", "workers"):
                continue
            for name in finding.names:
                if finding.score > worst[place[name]]:
                    worst[place[name]], found[place[name]] = finding.score, finding.kind
        return found
