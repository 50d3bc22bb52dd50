"""`Simulation`: labels together with everything that made them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crowdwise.labels.crowd_labels import CrowdLabels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from crowdwise.labels.types import FloatArray, IntArray
    from crowdwise.simulate.assignment import Assignment

__all__ = ["Simulation"]


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """A simulated crowd: its labels, the truth, and the parameters that made them.

    Attributes
    ----------
    labels : CrowdLabels
        What the workers said.
    truth : int32 array (n_tasks,)
        The true class of each task, as a position in `labels.classes`.
    confusion : array (n_workers, n_classes, n_classes)
        `confusion[w, k, l] = P(worker w says l | truth is k)`. Where workers depend on each other this is
        each worker's own marginal.
    prior : array (n_classes,)
        The class shares that the truth was drawn from; the shares it has, where the truth was given.
    kinds : tuple of str (n_workers,), or None
        What each worker is ("honest", "spammer", …), where the crowd has kinds.
    groups : int array (n_workers,), or None
        Workers with the same number depend on each other given the truth, where any do; -1 for a worker
        who depends on nobody.
    extras : mapping of arrays
        What else the crowd was made with; named in the docstring of the function that made it.
    """

    labels: CrowdLabels
    truth: IntArray
    confusion: FloatArray
    prior: FloatArray
    kinds: tuple[str, ...] | None = None
    groups: IntArray | None = None
    extras: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def assemble(
        cls,
        assignment: Assignment,
        label: IntArray,
        truth: IntArray,
        confusion: FloatArray,
        prior: FloatArray,
        *,
        classes: Sequence[str] | None = None,
        workers: Sequence[str] | None = None,
        kinds: tuple[str, ...] | None = None,
        groups: IntArray | None = None,
        extras: Mapping[str, npt.NDArray[Any]] | None = None,
    ) -> Simulation:
        """Put the parts together; tasks, and workers and classes without names, are numbered."""
        n_workers, n_classes = confusion.shape[:2]
        labels = CrowdLabels.from_codes(
            assignment.task,
            assignment.worker,
            label,
            tasks=truth.size,
            workers=n_workers if workers is None else workers,
            classes=n_classes if classes is None else classes,
            on_duplicate="all",  # no assignment holds a pair twice: do not look for one
        )
        return cls(labels, truth, confusion, prior, kinds, groups, extras or {})

    def __repr__(self) -> str:
        return f"Simulation: {self.labels!r}, {self.accuracy:.1%} of the labels are right"

    @property
    def accuracy(self) -> float:
        """Share of the labels that are right."""
        if not len(self.labels):
            return float("nan")
        return float(np.mean(self.truth[self.labels.task] == self.labels.label))

    @property
    def skill(self) -> FloatArray:
        """Each worker's probability of being right on a task drawn from the prior."""
        skill: FloatArray = np.einsum("k,wkk->w", self.prior, self.confusion)
        return skill

    def truth_table(self) -> pa.Table:
        """Return the truth as a table (task, label), with the names that the labels have."""
        names = self.labels.classes.take(pa.array(self.truth, pa.int32()))
        return pa.table({"task": self.labels.tasks, "label": names})
