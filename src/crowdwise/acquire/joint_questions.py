"""A batch of questions whose tasks and workers are chosen together: the pairs of most worth for their cost, best first.

| step | what is done |
|---|---|
| worth of a pair | `pair_worth`, divided by the cost and by one more than the questions on their way to the task |
| candidates | of each worker the n + 1 tasks of most worth: n questions change the worth of n tasks at most |
| best pair | tasks without a label or question first; of a heap, where a worth that has fallen since is put back |

A worth never rises while a batch is chosen, so a pair that is on top with its worth of now is the best.
Cost: O(M N K²) for the worths and O(M n log(M n)) for the batch; memory O(M n), one worker's tasks at a time.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.acquire.pair_worth import PairWorth

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.fitting.online_model import OnlineModel
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["Limits", "choose_pairs"]

TIE = 1e-12


class Limits(NamedTuple):
    """What forbids a question.

    Attributes
    ----------
    workers, price, room : (W,)
        Positions of those who are available, what an answer of each costs, and most questions of each.
    allowed : (N,)
        Tasks that may be asked.
    cap
        Most labels of a task.
    budget
        Most that the questions may cost together.
    gold_share
        Share of questions whose truth is known.
    """

    workers: IntArray
    price: FloatArray
    room: IntArray
    allowed: BoolArray
    cap: int
    budget: float
    gold_share: float


def choose_pairs(
    model: OnlineModel, n: int, limits: Limits, rng: np.random.Generator
) -> Iterator[tuple[int, int, float, bool]]:
    """Task and place among `limits.workers` of each question, its worth for its cost, and whether it is gold."""
    price, room, left = limits.price, limits.room.copy(), limits.budget
    known, number = model.gold >= 0, model.labels_per_task.copy()
    waiting = np.zeros(number.size, np.int64)
    gold_left = _list_gold(model, limits, known, rng) if limits.gold_share else {}
    task, place, worth = _find_candidates(model, n, limits, limits.allowed & ~known & (number < limits.cap), rng)
    heap = [
        (bool(number[t]), -w, i) for i, (t, w) in enumerate(zip(task.tolist(), worth.tolist(), strict=True))
    ]  # pairs are in random order: equals are drawn by lot
    heapq.heapify(heap)
    for _ in range(n):
        able = (room > 0) & (price <= left + TIE)
        asked = [at for at, tasks in gold_left.items() if tasks and able[at]]
        if asked and rng.random() < limits.gold_share:
            at = asked[rng.integers(len(asked))]
            chosen = gold_left[at].pop(), at, 0.0, True
        else:
            pair = _pop_best(heap, task, place, worth, able, number + waiting, waiting, limits.cap)
            if pair is None:
                return
            at = int(place[pair])
            chosen = int(task[pair]), at, float(worth[pair] / (1 + waiting[task[pair]])), False
            waiting[task[pair]] += 1
        room[at] -= 1
        left -= float(price[at])
        yield chosen


def _find_candidates(
    model: OnlineModel, n: int, limits: Limits, free: BoolArray, rng: np.random.Generator
) -> tuple[IntArray, IntArray, FloatArray]:
    """Task, place of the worker, and worth for its cost, (P,) each, of each worker's best pairs, in random order."""
    scorer, at = PairWorth(model), np.flatnonzero(free)
    posterior, unlabelled = model.posteriors_at(at), model.labels_per_task[at] == 0
    found = []
    for place, worker in enumerate(limits.workers.tolist()):
        if limits.room[place] <= 0 or limits.price[place] > limits.budget + TIE:
            continue
        mine = np.flatnonzero(~np.isin(at, model.answered_by(worker)))
        mine = rng.permutation(mine)
        worth = scorer.score(posterior[mine], worker)
        best = np.lexsort((-worth, ~unlabelled[mine]))[: n + 1]
        found.append((at[mine[best]], np.full(best.size, place), worth[best] / limits.price[place]))
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    task, places, worths = (np.concatenate(column) for column in zip(*found, strict=True))
    mixed = rng.permutation(task.size)
    return task[mixed], places[mixed], worths[mixed]


def _pop_best(
    heap: list[tuple[bool, float, int]],
    task: IntArray,
    place: IntArray,
    worth: FloatArray,
    able: BoolArray,
    number: IntArray,
    waiting: IntArray,
    cap: int,
) -> int | None:
    """The pair of most worth that is allowed; those that are not, and never will be again, are dropped."""
    while heap:
        has_label, minus, pair = heapq.heappop(heap)
        at = task[pair]
        if not able[place[pair]] or number[at] >= cap:
            continue
        now = (bool(number[at]), float(-worth[pair] / (1 + waiting[at])), pair)
        if now == (has_label, minus, pair):
            return pair
        heapq.heappush(heap, now)
    return None


def _list_gold(model: OnlineModel, limits: Limits, known: BoolArray, rng: np.random.Generator) -> dict[int, list[int]]:
    """Gold tasks that each worker, by place, can still be asked, in random order."""
    gold = np.flatnonzero(known & limits.allowed)
    return {
        place: rng.permutation(np.setdiff1d(gold, model.answered_by(worker))).tolist()
        for place, worker in enumerate(limits.workers.tolist())
    }
