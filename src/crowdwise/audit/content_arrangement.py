"""A crowd in an order of content, in which the tests of an audit draw, and what they found as the labels have it.

Tests deal workers, tasks and labels one after another. If these came by the rows of a file, the same labels in another
order would get other draws, and so other p-values. In the order of `fitting.content_order` they do not; tasks that
their answers do not tell apart follow their names, as their attributes and times may differ. Tasks and workers without
labels are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.audit.drift import check_times
from crowdwise.fitting.content_order import order_by_content
from crowdwise.fitting.prior_knowledge import PriorKnowledge
from crowdwise.labels.truth import truth_codes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.audit.finding_types import Screen
    from crowdwise.dependence.groups import Dependence
    from crowdwise.fitting.content_order import ContentOrder
    from crowdwise.labels.attributes import Attribute
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.truth import Truth
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["ContentArrangement"]


@dataclass(frozen=True, eq=False)
class ContentArrangement:
    """The labels given, and the same in an order of content, under their own names."""

    given: CrowdLabels
    order: ContentOrder
    labels: CrowdLabels

    @classmethod
    def of(cls, labels: CrowdLabels, truth: Truth | None) -> ContentArrangement:
        """Arrange labels; tasks are told apart by their truth as well, and have a place if they have nothing else."""
        known = PriorKnowledge() if truth is None else PriorKnowledge(gold=truth_codes(truth, labels))
        order = order_by_content(labels, known)
        by_name = np.empty(labels.n_tasks, np.int64)
        by_name[pc.sort_indices(labels.tasks).to_numpy()] = np.arange(labels.n_tasks)
        order = replace(order, tasks=order.tasks[np.lexsort((by_name[order.tasks], order.alike_tasks))])
        numbered = order.arrange(labels)
        named = replace(
            numbered,
            tasks=labels.tasks.take(pa.array(order.tasks)),
            workers=labels.workers.take(pa.array(order.workers)),
            classes=labels.classes.take(pa.array(order.classes)),
        )
        return cls(labels, order, named.with_kind(labels.kind))

    def arrange_times(self, time: Any) -> Any:
        """Times of the labels, in this order."""
        return None if time is None else check_times(time, self.given)[self.order.sort_edges(self.given)]

    def arrange_attributes(
        self, of_tasks: tuple[Attribute, ...], of_workers: tuple[Attribute, ...]
    ) -> tuple[tuple[Attribute, ...], tuple[Attribute, ...]]:
        """Attributes of tasks and of workers, in this order."""

        def arrange(attributes: tuple[Attribute, ...], places: IntArray) -> tuple[Attribute, ...]:
            return tuple(replace(each, code=each.code[places]) for each in attributes)

        return arrange(of_tasks, self.order.tasks), arrange(of_workers, self.order.workers)

    def keep_workers(self, names: Sequence[Any] | None) -> list[Any]:
        """Those of the workers named who have labels."""
        there = set(self.labels.workers.to_pylist())
        return [name for name in names or () if name in there]

    def restore_screen(self, screen: Screen) -> Screen:
        """What a test says of all workers, as the given labels have them: not a number for those without labels."""
        return replace(screen, score=self._restore(screen.score), p_value=self._restore(screen.p_value))

    def restore_dependence(self, found: Dependence | None) -> Dependence | None:
        """Who depends on whom, as the given labels have the workers."""
        return None if found is None else found.restore_order(self.order.workers, self.given.n_workers)

    def _restore(self, found: FloatArray) -> FloatArray:
        return self.order.restore_workers(found, np.full(self.given.n_workers, np.nan)) if found.size else found
