"""The stop rule that promises: stopped tasks are right as often as asked, as gold shows (`crowdwise.acquire`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdwise.acquire import StopRule
from crowdwise.campaign.answer_tables import answer_columns, counted_answers
from crowdwise.campaign.live_consensus import fit_online, read_known

if TYPE_CHECKING:
    from crowdwise.campaign.service import Service

__all__ = ["find_promised"]


def find_promised(service: Service) -> tuple[set[str], str]:
    """Tasks that the rule stops, and what it promises of them, or why it cannot."""
    project = service.project
    table = counted_answers(service.campaign.store)
    labels = answer_columns(table, project.question).select(["task", "worker", "label"])
    if not labels.num_rows:
        return set(), "there are no answers yet"
    model = fit_online(labels, project.question.classes, None)  # told the gold, it would vouch for too much
    rule = StopRule(target=project.stop.target).calibrate(model, read_known(table) or {})
    stopped = rule.stopped(model) if rule.can_promise else [False] * len(model.tasks)
    names = {str(name) for name, done in zip(model.tasks.every, stopped, strict=True) if done}
    return names, rule.promise().rstrip(".") or "it cannot promise yet"
