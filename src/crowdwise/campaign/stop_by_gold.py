"""Stop rules that learn from gold (`crowdwise.acquire`): one promises, the other estimates, and both say what.

| rule | what it says of stopped tasks |
|---|---|
| promise | at least `target` are right, with probability 1 - `delta`; or that it cannot promise |
| estimate | `target` are right by a calibrated estimate, which may be wrong; or that nothing can be stopped |

A share `checks` of the tasks is never stopped, but asked to the end: they tell the rule how often later answers
overturn a stop. Which tasks these are depends on their numbers alone, so that it stays the same after a restart.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from crowdwise.acquire import StopEstimate, StopRule
from crowdwise.campaign.answer_tables import answer_columns
from crowdwise.campaign.live_consensus import fit_online, read_known

if TYPE_CHECKING:
    from crowdwise.campaign.project import Project
    from crowdwise.campaign.service import Service

__all__ = ["find_stopped_by_gold", "is_check"]


def find_stopped_by_gold(service: Service) -> tuple[set[str], str]:
    """Tasks that the rule stops, and what it says of them, or why it stops none."""
    project, numbers = service.project, service.campaign.task_numbers
    table = service.campaign.counted_answers()
    labels = answer_columns(table, project.question).select(["task", "worker", "label"])
    if not labels.num_rows:
        return set(), "No task is stopped: there are no answers yet"
    model = fit_online(labels, project.question.classes, None)  # told the gold, it would vouch for too much
    checks = [name for name in model.tasks.every if is_check(numbers[str(name)], project.stop.checks)]
    rule = make_rule(project).calibrate(model, read_known(table) or {}, checks)
    stopped = rule.find_stopped(model) if rule.can_stop else [False] * len(model.tasks)
    names = {str(name) for name, done in zip(model.tasks.every, stopped, strict=True) if done}
    return names - {str(name) for name in checks}, rule.describe().rstrip(".")


def make_rule(project: Project) -> StopRule | StopEstimate:
    """The rule of a project, not calibrated."""
    stop = project.stop
    if stop.rule == "promise":
        return StopRule(stop.target, stop.delta, min_labels=stop.at_least)
    return StopEstimate(stop.target, min_labels=stop.at_least)


def is_check(number: int, share: float) -> bool:
    """Whether the task of this number is asked to the end, as a share of all tasks is."""
    drawn = hashlib.blake2b(f"check {number}".encode(), digest_size=4).digest()
    return int.from_bytes(drawn, "big") < share * 2**32
