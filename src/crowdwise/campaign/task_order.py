"""Which open task is worth most to ask next, by a policy of `crowdwise.acquire`; worked out apart from requests.

| policy | order for all workers | for one worker |
|---|---|---|
| round-robin, uniform | the queue's own: fewest answers first; any | |
| uncertainty, margin | by the posterior of the task | |
| information-gain, error-reduction, joint | by what someone new would tell | by what this worker would tell |

The server cannot choose the worker: it chooses the task for whoever asks. Tasks that have fewer than `at_least` answers
come before all others, fewest first: of those the consensus knows too little. Orders are made of the last fit of the
live consensus, for workers who asked lately; a request only looks its worker up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.acquire.pair_worth import JOINT, PairWorth
from crowdwise.acquire.task_policies import make_task_policy
from crowdwise.campaign.project import PLAIN_POLICIES

if TYPE_CHECKING:
    from crowdwise.acquire import OnlineModel
    from crowdwise.campaign.live_consensus import Snapshot
    from crowdwise.campaign.service import Service
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["choose_for_workers", "rank_tasks"]

OF_A_WORKER = ("information-gain", "error-reduction", JOINT)
LEVELS = 20  # of worth, by which tasks are ranked
CHOSEN = 20  # tasks that are chosen for one worker, until the next order


class TaskWorth:
    """Worth of tasks by a policy, with the model of one moment."""

    def __init__(self, policy: str, model: OnlineModel) -> None:
        self.model = model
        self._pairs = PairWorth(model) if policy == JOINT else None
        self._policy = make_task_policy(policy) if policy != JOINT else None

    def score(self, at: IntArray, worker: str | None) -> FloatArray:
        """Worth of the tasks at these positions, asked of a worker; None, or one without answers, is someone new."""
        model = self.model
        place = None if worker is None else model.workers.get(worker)
        posterior = model.posteriors_at(at)
        if self._pairs is not None:
            return self._pairs.score(posterior, place)
        assert self._policy is not None  # noqa: S101 (one of the two)
        matrix = model.confusion_of_new_worker if place is None else model.confusion(worker)
        return self._policy.score(posterior, model.labels_per_task[at], matrix)


def rank_tasks(service: Service, snapshot: Snapshot) -> dict[int, int] | None:
    """Rank of each open task, the lowest asked first; None where the queue has an order of its own."""
    if service.project.policy in PLAIN_POLICIES:
        return None
    least, taken = service.project.stop.at_least, dict(service.campaign.queue.taken)
    ranks = {number: min(n, least) for number, n in taken.items()}
    numbers, at = _find_rankable(service, snapshot, taken)
    if snapshot.model is not None and numbers.size:
        worth = np.maximum(TaskWorth(service.project.policy, snapshot.model).score(at, None), 0)
        level = ((1 - worth / max(worth.max(), 1e-300)) * LEVELS).astype(np.int64)
        ranks |= {number: least + n for number, n in zip(numbers.tolist(), level.tolist(), strict=True)}
    return ranks


def choose_for_workers(service: Service, snapshot: Snapshot) -> dict[int, list[int]]:
    """The tasks of most worth for each worker who asked lately, best first."""
    campaign, policy = service.campaign, service.project.policy
    if policy not in OF_A_WORKER or snapshot.model is None:
        return {}
    numbers, at = _find_rankable(service, snapshot, dict(campaign.queue.taken))
    if not numbers.size:
        return {}
    scorer, found = TaskWorth(policy, snapshot.model), {}
    for worker in list(campaign.queue.recent):
        known = campaign.workers.get(worker)
        if known is None or known.name not in snapshot.model.workers:
            continue
        seen = np.fromiter(campaign.queue.seen.get(worker, set()).copy(), np.int64)
        free = np.flatnonzero(~np.isin(numbers, seen))
        worth = scorer.score(at[free], known.name)
        best = np.argpartition(-worth, CHOSEN)[:CHOSEN] if free.size > CHOSEN else np.arange(free.size)
        best = best[np.argsort(-worth[best], kind="stable")]
        found[worker] = numbers[free[best]].tolist()
    return found


def _find_rankable(service: Service, snapshot: Snapshot, taken: dict[int, int]) -> tuple[IntArray, IntArray]:
    """Numbers of open tasks that have answers enough and room for more, and their positions in the model."""
    campaign, project, model = service.campaign, service.project, snapshot.model
    pairs = [
        (number, place)
        for number, n in taken.items()
        if project.stop.at_least <= n < project.per_task
        and not campaign.tasks[number].has_gold
        and model is not None
        and (place := model.tasks.get(campaign.tasks[number].name)) is not None
    ]
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]
