"""Which task, and whom to ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.acquire.task_policies import score_tasks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from crowdwise.fitting.online_model import OnlineModel

__all__ = ["Question", "choose_task", "next_questions"]


@dataclass(frozen=True)
class Question:
    """A task for a worker.

    Attributes
    ----------
    task, worker
        Names.
    worth
        What the policy expects of the answer.
    cost
        Of the answer.
    gold
        Whether the truth is known, so that the answer grades the worker.
    """

    task: Any
    worker: Any
    worth: float
    cost: float = 1.0
    gold: bool = False


def choose_task(
    model: OnlineModel,
    worker: Any,
    *,
    policy: str = "information-gain",
    tasks: Iterable[Any] | None = None,
    cap: int | None = None,
    gold_share: float = 0.0,
    rng: np.random.Generator | None = None,
) -> Question | None:
    """The task of most worth for one worker, among those that they have not answered; None if there is none.

    Parameters
    ----------
    tasks
        Names of the open tasks; all by default.
    cap
        Most labels of a task.
    gold_share
        Share of questions that are tasks with a known truth.
    rng
        Draws among equals and gold; a fixed one by default.
    """
    rng = rng if rng is not None else np.random.default_rng(0)
    place = model.workers.place.get(str(worker))
    n_tasks = len(model.tasks)
    free = np.zeros(n_tasks, np.bool_)
    free[slice(None) if tasks is None else [model.tasks.find(name) for name in tasks]] = True
    if place is not None:
        free[model.answered_by(place)] = False
    known = model.gold >= 0
    gold = bool(gold_share) and bool((free & known).any()) and rng.random() < gold_share
    if not gold and cap is not None:
        free &= model.labels_per_task < cap
    free &= known if gold else ~known
    at = np.flatnonzero(free)
    if not at.size:
        return None
    confusion = model.confusion(worker) if place is not None else model.confusion_of_new_worker
    worth = score_tasks("uniform" if gold else policy, model.posteriors[at], model.labels_per_task[at], confusion)
    best = np.flatnonzero(worth >= worth.max() - 1e-12)
    chosen = int(best[rng.integers(best.size)])
    return Question(model.tasks.every[at[chosen]], worker, float(worth[chosen]), 1.0, gold)


def next_questions(
    model: OnlineModel,
    n: int = 20,
    *,
    policy: str = "information-gain",
    worker_policy: str = "epsilon-greedy",
    costs: Mapping[Any, float] | float = 1.0,
    workers: Iterable[Any] | None = None,
    capacity: Mapping[Any, int] | int | None = None,
    tasks: Iterable[Any] | None = None,
    cap: int | None = None,
    gold_share: float = 0.0,
    budget: float | None = None,
    random_state: int = 0,
) -> list[Question]:
    """A batch of questions, no pair twice."""
    del worker_policy, costs, capacity, budget
    rng = np.random.default_rng(random_state)
    found: list[Question] = []
    for worker in list(workers) if workers is not None else model.workers.every:
        if len(found) < n:
            question = choose_task(model, worker, policy=policy, tasks=tasks, cap=cap, gold_share=gold_share, rng=rng)
            if question is not None:
                found.append(question)
    return found
