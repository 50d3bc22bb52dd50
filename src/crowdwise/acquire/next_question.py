"""Which task, and whom to ask: a worker by a worker policy, then a task for them by a task policy, and what forbids it.

Never the same pair twice; at most `cap` labels of a task, and at most `capacity` questions of a worker, those on their
way included; gold questions mixed in. In a batch the worth of a task is divided by one more than the questions that are
on their way to it, so that not all go to one task. The policy "joint" chooses task and worker together
(`joint_questions`), and for one worker who is there the task of most worth by the same measure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.acquire.joint_questions import Limits, choose_pairs
from crowdwise.acquire.pair_worth import JOINT, PairWorth
from crowdwise.acquire.task_policies import TASK_POLICIES, make_task_policy
from crowdwise.acquire.worker_policies import WorkersSoFar, make_worker_policy
from crowdwise.fitting.online_model import OnlineModel, check_online_model
from crowdwise.fitting.parameter_checks import (
    as_numbers,
    check_choice,
    check_count,
    check_number,
    check_random_state,
)
from crowdwise.fitting.underflow import ignore_underflow
from crowdwise.labels.errors import InputError, listing, quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crowdwise.acquire.task_policies import TaskPolicy
    from crowdwise.acquire.worker_policies import WorkerPolicy
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["Question", "as_online_model", "choose_task", "next_questions"]

TIE = 1e-12
UNLIMITED = np.iinfo(np.int64).max


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


def as_online_model(labels: Any, gold: Any = None) -> OnlineModel:
    """An online model as it is; of labels, or a path or table, one that has taken them in and been refitted."""
    if isinstance(labels, OnlineModel):
        return labels
    model = OnlineModel(growth=0).partial_fit(labels, gold)
    model.refit(max_iter=200, tol=1e-6)
    return model


@ignore_underflow
def choose_task(
    model: OnlineModel,
    worker: Any,
    *,
    policy: str | TaskPolicy = "information-gain",
    tasks: Iterable[Any] | None = None,
    cap: int | None = None,
    pending: Mapping[Any, int] | None = None,
    gold_share: float = 0.0,
    rng: np.random.Generator | None = None,
) -> Question | None:
    """The task of most worth for one worker, among those that they have not answered; None if there is none.

    One pass over the open tasks: a millisecond for ten thousand.

    Parameters
    ----------
    worker
        Someone new starts as any new worker.
    tasks
        Names of the open tasks; all by default.
    cap
        Most labels of a task.
    pending
        Questions on their way to tasks, by name: they count towards the cap.
    gold_share
        Share of questions that are tasks with a known truth.
    rng
        Draws among equals, and gold; a fixed one by default.

    Examples
    --------
    >>> model = OnlineModel(["cat", "dog"])
    >>> for worker, label in (("ann", "cat"), ("bob", "cat"), ("cy", "dog")):
    ...     model.add("sure", worker, "cat")
    ...     model.add("disputed", worker, label)
    >>> choose_task(model, "dan").task
    'disputed'
    """
    check_online_model("model", model)
    _check_limits(cap, gold_share)
    if pending is not None and not isinstance(pending, Mapping):
        raise InputError(f"pending is {quote(pending)}; it must be a mapping from tasks to numbers of questions.")
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise InputError(f"rng is {quote(rng)}; it must be a numpy.random.Generator, such as default_rng(0).")
    model.workers.check(worker)
    with model.lock:
        allowed = _find_allowed(tasks, model)
        waiting = np.zeros(len(model.tasks), np.int64)
        for name, number in (pending or {}).items():
            check_count(f"pending of {quote(name)}", number, low=0)
        waiting[model.tasks.find_all(pending or {}, "pending")] = list((pending or {}).values())
        rng = rng if rng is not None else np.random.default_rng(0)
        place = model.workers.get(worker)
        scorer = _make_scorer(policy, model)
        found = _choose(model, place, scorer, allowed, waiting, cap or UNLIMITED, gold_share, rng)
    if found is None:
        return None
    task, worth, gold = found
    return Question(model.tasks.every[task], worker, worth, 1.0, gold)


def _make_scorer(policy: str | TaskPolicy, model: OnlineModel) -> TaskPolicy | PairWorth:
    """A task policy by its name, "joint" among them, or one of the user's own."""
    if isinstance(policy, str):
        check_choice("policy", policy, (*TASK_POLICIES, JOINT))
        if policy == JOINT:
            _refuse_no_classes(model)
            return PairWorth(model)
    return make_task_policy(policy)


def _refuse_no_classes(model: OnlineModel) -> None:
    if not len(model.classes):
        raise InputError("The model has no classes yet. Declare them, as in OnlineModel(classes), or add labels.")


def _find_allowed(tasks: Iterable[Any] | None, model: OnlineModel) -> BoolArray:
    """Which tasks (N,) are among the open ones."""
    allowed = np.full(len(model.tasks), tasks is None)
    if tasks is not None:
        allowed[model.tasks.find_all(tasks, "tasks")] = True
    return allowed


def _choose(
    model: OnlineModel,
    place: int | None,
    policy: TaskPolicy | PairWorth,
    allowed: BoolArray,
    waiting: IntArray,
    cap: int,
    gold_share: float,
    rng: np.random.Generator,
    asked: Iterable[int] = (),
) -> tuple[int, float, bool] | None:
    """Position of a task, its worth and whether it is gold; `asked` are tasks on their way to this worker."""
    _refuse_no_classes(model)
    free = allowed.copy()
    if place is not None:
        free[model.answered_by(place)] = False
    free[list(asked)] = False
    known = model.gold >= 0
    if gold_share and rng.random() < gold_share and (free & known).any():
        at = np.flatnonzero(free & known)
        return int(rng.choice(at)), 0.0, True
    number = model.labels_per_task + waiting
    at = np.flatnonzero(free & ~known & (number < cap))
    if not at.size:
        return None
    if isinstance(policy, PairWorth):
        worth = policy.score(model.posteriors_at(at), place)
    else:
        confusion = model.confusion_of_new_worker if place is None else model.confusion(model.workers.every[place])
        worth = _as_scores("policy", policy.score(model.posteriors_at(at), number[at], confusion), at.size)
    positive = worth > 0
    worth = np.where(positive, worth / (1 + waiting[at]), worth)
    best = np.flatnonzero(worth >= worth.max() - TIE)
    chosen = best[rng.integers(best.size)]
    return int(at[chosen]), float(worth[chosen]), False


@ignore_underflow
def next_questions(
    labels: Any,
    n: int = 20,
    *,
    policy: str | TaskPolicy = "information-gain",
    worker_policy: str | WorkerPolicy | None = None,
    costs: Mapping[Any, float] | float = 1.0,
    workers: Iterable[Any] | None = None,
    capacity: Mapping[Any, int] | int | None = None,
    tasks: Iterable[Any] | None = None,
    cap: int | None = None,
    gold_share: float = 0.0,
    budget: float | None = None,
    random_state: int = 0,
) -> list[Question]:
    """A batch of questions: fewer than n where workers, tasks or the budget run out.

    Parameters
    ----------
    labels
        An `OnlineModel`, or labels as `read_labels` takes them.
    n
        Most questions.
    policy, worker_policy
        Names (`TASK_POLICIES`, `WORKER_POLICIES`), or objects with a method `score`. Workers are chosen by
        "epsilon-greedy" by default. The policy "joint" chooses task and worker together, and takes no `worker_policy`.
    costs
        What an answer of each worker costs, above 0: one number, or a mapping; workers not in it cost 1.
    workers
        Who is available; all by default.
    capacity
        Most questions of each worker: one number, or a mapping.
    tasks, cap, gold_share
        As for `choose_task`.
    budget
        Most that the questions may cost together.
    random_state
        Same number, same questions; among equals those that are drawn depend on the order of the rows.

    Examples
    --------
    >>> from crowdwise.labels import CrowdLabels
    >>> labels = CrowdLabels.from_dense([["x", "x", None], ["x", "y", None], ["y", "y", None], ["x", "x", "x"]])
    >>> [(each.task, each.worker) for each in next_questions(labels, 2, workers=[2])]
    [(1, 2), (0, 2)]
    """
    check_count("n", n)
    _check_limits(cap, gold_share)
    check_random_state(random_state)
    if budget is not None:
        check_number("budget", budget, low=0, above=True)
    model = as_online_model(labels)
    rng = np.random.default_rng(random_state)
    joint = isinstance(policy, str) and policy == JOINT
    if joint and worker_policy is not None:
        raise InputError(f"The policy {JOINT!r} chooses the worker too: leave worker_policy out.")
    chooser = make_worker_policy("epsilon-greedy" if worker_policy is None else worker_policy)
    with model.lock:
        who = np.arange(len(model.workers)) if workers is None else model.workers.find_all(workers, "workers")
        if not who.size:
            raise InputError("There is no worker to ask. Name those who are available.")
        price = read_costs(costs, model)[who]
        room = _read_capacity(capacity, model)[who]
        allowed = _find_allowed(tasks, model)
        left = math.inf if budget is None else float(budget)
        scorer = _make_scorer(policy, model)
        if joint:
            limits = Limits(who, price, room, allowed, cap or UNLIMITED, left, gold_share)
            return [
                Question(model.tasks.every[task], model.workers.every[who[at]], worth, float(price[at]), gold)
                for task, at, worth, gold in choose_pairs(model, n, limits, rng)
            ]
        waiting = np.zeros(len(model.tasks), np.int64)
        asked: dict[int, list[int]] = {}
        found: list[Question] = []
        counts, answers = model.skill_counts[who], model.labels_per_worker[who]
        while len(found) < n:
            able = np.flatnonzero((room > 0) & (price <= left + TIE))
            if not able.size:
                break
            so_far = WorkersSoFar(
                counts[able], answers[able], price[able], model.n_labels + len(found), len(model.classes)
            )
            score = _as_scores("worker_policy", chooser.score(so_far, rng), able.size)
            best = np.flatnonzero(score >= score.max() - TIE)
            at = int(able[best[rng.integers(best.size)]])
            place = int(who[at])
            chosen = _choose(
                model, place, scorer, allowed, waiting, cap or UNLIMITED, gold_share, rng, asked.get(place, ())
            )
            if chosen is None:
                room[at] = 0  # nothing is left to ask them
                continue
            task, worth, gold = chosen
            found.append(
                Question(
                    model.tasks.every[task],
                    model.workers.every[place],
                    worth / float(price[at]),
                    float(price[at]),
                    gold,
                )
            )
            waiting[task] += 1
            asked.setdefault(place, []).append(task)
            room[at] -= 1
            left -= float(price[at])
        return found


def read_costs(costs: Mapping[Any, float] | float, model: OnlineModel) -> FloatArray:
    """Cost of an answer of each worker (M,)."""
    found = np.ones(len(model.workers))
    if not isinstance(costs, Mapping):
        check_number("costs", costs, low=0, above=True)
        return found * float(costs)
    _refuse_strangers("costs", costs, model)
    for name, cost in costs.items():
        check_number(f"the cost of {quote(name)}", cost, low=0, above=True)
        found[model.workers.find(name)] = float(cost)
    return found


def _read_capacity(capacity: Mapping[Any, int] | int | None, model: OnlineModel) -> IntArray:
    found = np.full(len(model.workers), UNLIMITED)
    if capacity is None:
        return found
    if not isinstance(capacity, Mapping):
        check_count("capacity", capacity)
        found[:] = int(capacity)
        return found
    _refuse_strangers("capacity", capacity, model)
    for name, most in capacity.items():
        check_count(f"the capacity of {quote(name)}", most, low=0)
        found[model.workers.find(name)] = int(most)
    return found


def _refuse_strangers(what: str, given: Mapping[Any, Any], model: OnlineModel) -> None:
    strangers = [name for name in given if name not in model.workers]
    if strangers:
        raise InputError(f"{what} names workers who have no labels: {listing(strangers)}.")
    model.workers.find_all(given, what)  # each once


def _as_scores(parameter: str, scores: Any, size: int) -> FloatArray:
    """What a policy gave for each of so many, as numbers."""
    found = as_numbers(scores, f"The score of {parameter}")
    if found.shape != (size,) or np.isnan(found).any():
        raise InputError(
            f"The score of {parameter} has shape {found.shape}, {int(np.isnan(found).sum())} of it not a number; it "
            f"must be {size} numbers."
        )
    return found


def _check_limits(cap: int | None, gold_share: float) -> None:
    if cap is not None:
        check_count("cap", cap)
    check_number("gold_share", gold_share, low=0, high=1)
