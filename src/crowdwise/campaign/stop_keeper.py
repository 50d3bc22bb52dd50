"""Stops tasks as the project's rule says, and puts the others into the order of the project's policy.

It looks every few seconds, in a thread of its own, so that a fit never keeps an answer waiting; and the longer a look
took, the longer it waits for the next.
"""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from crowdwise.campaign.live_consensus import LONGEST, SHARE
from crowdwise.campaign.manager_actions import ManagerActions
from crowdwise.campaign.project import PLAIN_POLICIES
from crowdwise.campaign.stop_by_gold import find_stopped_by_gold
from crowdwise.campaign.task_order import choose_for_workers, rank_tasks
from crowdwise.campaign.writer import StoreUnavailableError

if TYPE_CHECKING:
    from crowdwise.campaign.live_consensus import Snapshot
    from crowdwise.campaign.project import Project
    from crowdwise.campaign.service import Service
    from crowdwise.campaign.writer import Work

__all__ = ["StopKeeper", "describe_rule", "find_stopped"]

log = logging.getLogger("crowdwise.campaign")
PAUSE = 0.5  # seconds between two looks
AT_ONCE = 20  # tasks that are stopped in one transaction: answers wait for it


def find_stopped(service: Service, snapshot: Snapshot) -> tuple[list[int], str]:
    """Open tasks that need no more answers, and the sentence that says by which rule."""
    rule, campaign = service.project.stop, service.campaign
    if rule.rule == "cap":
        return [], ""
    reason = f"confidence of {rule.target:g} reached"
    by_gold: set[str] | None = None
    if rule.rule != "confidence":
        by_gold, reason = find_stopped_by_gold(service)
    found = []
    for name, each in snapshot.tasks.items():
        number = campaign.task_numbers[name]
        if number not in campaign.queue.taken or campaign.tasks[number].has_gold or each.n_answers < rule.at_least:
            continue
        if name in by_gold if by_gold is not None else (each.confidence or 0.0) >= rule.target:
            found.append(number)
    return found, reason


def describe_rule(project: Project, said: str) -> str:
    """What the project's rule says of the tasks that it stops; `said` is the last sentence of a rule that uses gold."""
    stop = project.stop
    if stop.rule == "cap":
        return f"A task is asked until it has {project.per_task} answers."
    if stop.rule == "confidence":
        return (
            f"Tasks are stopped when the consensus is sure of them by {stop.target:.0%}, after {stop.at_least} "
            "answers. This promises nothing: a model is surer than it should be."
        )
    return f"{said or 'No task is stopped: nobody has looked yet'}."


class StopKeeper:
    """The thread."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.note = ""  # why tasks are stopped; of a rule that uses gold, what it says, or why it stops none
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="campaign-stop-rule", daemon=True)

    def start(self) -> None:
        """Begin, if the project has a rule beyond the cap, or a policy that needs the consensus."""
        project = self.service.project
        if project.stop.rule != "cap" or project.policy not in PLAIN_POLICIES:
            self._thread.start()

    def stop(self) -> None:
        """End."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def describe(self) -> str:
        """What the rule says of the tasks that it stops."""
        return describe_rule(self.service.project, self.note)

    def _loop(self) -> None:
        seen, due, is_first = -1, 0.0, True
        while not self._ended.wait(PAUSE):
            if time.monotonic() < due:
                continue
            try:
                snapshot = self.service.consensus.snapshot()
                if snapshot.changed != seen:
                    began = time.thread_time()
                    self.look(snapshot)
                    cost = 0.0 if is_first else time.thread_time() - began  # the first imports and compiles
                    due, is_first = time.monotonic() + min(SHARE * cost, LONGEST), False
                seen = snapshot.changed
            except StoreUnavailableError:
                log.warning("no task could be stopped")
            except Exception as error:  # a fit of strange answers must not end the thread
                log.warning("the stop rule failed", extra={"error": type(error).__name__})

    def look(self, snapshot: Snapshot) -> int:
        """Stop what may be stopped, and rank the rest; returns how many were stopped."""
        found, self.note = find_stopped(self.service, snapshot)
        ranks, choices = rank_tasks(self.service, snapshot), choose_for_workers(self.service, snapshot)
        campaign, actions = self.service.campaign, ManagerActions(self.service.campaign, "rule")

        def stop(given: Work, tasks: list[int]) -> None:
            for task in tasks:
                actions.change_task(given, task, "finished", self.note)

        def order(_: Work) -> None:
            if ranks is not None:
                campaign.queue.set_ranks(ranks)
                campaign.queue.set_choices(choices, after=self.service.project.stop.at_least)

        for first in range(0, len(found), AT_ONCE):
            campaign.writer.run_blocking(partial(stop, tasks=found[first : first + AT_ONCE]))
        campaign.writer.run_blocking(order)
        return len(found)
