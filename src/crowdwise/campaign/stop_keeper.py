"""Stops tasks as the project's rule says, and lets the least sure tasks be asked first.

It looks every few seconds, in a thread of its own: a fit of the consensus never keeps an answer waiting.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from crowdwise.campaign.manager_actions import ManagerActions
from crowdwise.campaign.stop_promise import find_promised
from crowdwise.campaign.writer import StoreUnavailableError

if TYPE_CHECKING:
    from crowdwise.campaign.live_consensus import Snapshot
    from crowdwise.campaign.service import Service

__all__ = ["StopKeeper", "find_stopped", "rank_tasks"]

log = logging.getLogger("crowdwise.campaign")
PAUSE = 0.5  # seconds between two looks
LEVELS = 20  # of confidence, by which tasks are ranked


def find_stopped(service: Service, snapshot: Snapshot) -> tuple[list[int], str]:
    """Open tasks that need no more answers, and the sentence that says by which rule."""
    rule, campaign = service.project.stop, service.campaign
    reason = f"confidence of {rule.target:g} reached"
    promised: set[str] | None = None
    if rule.rule == "promise":
        promised, reason = find_promised(service)
    found = []
    for name, each in snapshot.tasks.items():
        number = campaign.task_numbers[name]
        if number not in campaign.queue.taken or campaign.tasks[number].has_gold or each.n_answers < rule.at_least:
            continue
        if name in promised if promised is not None else (each.confidence or 0.0) >= rule.target:
            found.append(number)
    return found, reason


def rank_tasks(service: Service, snapshot: Snapshot) -> dict[int, int]:
    """Tasks with too few answers to be stopped first, fewest before; then by confidence, the least sure first."""
    least = service.project.stop.at_least
    ranks = {}
    for number, taken in list(service.campaign.queue.taken.items()):
        found = snapshot.tasks.get(service.campaign.tasks[number].name)
        sure = 0.0 if found is None or found.confidence is None else found.confidence
        ranks[number] = taken if taken < least else least + int(sure * LEVELS)
    return ranks


class StopKeeper:
    """The thread."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.note = ""  # what the rule promises, or why it cannot
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="campaign-stop-rule", daemon=True)

    def start(self) -> None:
        """Begin, if the project has a rule beyond the cap."""
        if self.service.project.stop.rule != "cap":
            self._thread.start()

    def stop(self) -> None:
        """End."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def _loop(self) -> None:
        seen = -1
        while not self._ended.wait(PAUSE):
            try:
                snapshot = self.service.consensus.snapshot()
                if snapshot.changed != seen:
                    self.look(snapshot)
                seen = snapshot.changed
            except StoreUnavailableError:
                log.warning("no task could be stopped")
            except Exception as error:  # a fit of strange answers must not end the thread
                log.warning("the stop rule failed", extra={"error": type(error).__name__})

    def look(self, snapshot: Snapshot) -> int:
        """Stop what may be stopped, and rank the rest; returns how many were stopped."""
        found, self.note = find_stopped(self.service, snapshot)
        ranks = rank_tasks(self.service, snapshot)
        campaign, actions = self.service.campaign, ManagerActions(self.service.campaign, "rule")

        def work(given: object) -> None:
            for task in found:
                actions.change_task(given, task, "finished", self.note)  # type: ignore[arg-type]
            campaign.queue.set_ranks(ranks)

        campaign.writer.run_blocking(work)
        return len(found)
