"""Which tasks are open, in the order in which they are to be asked: a hint that is held in memory.

The database decides whether a task may be given out; this queue only says which to try first, so that it may be wrong
(another server took the place) without harm. Tasks lie in ranks, and the lowest rank is asked first. By default a rank
is the number of places taken, so that the task with the fewest answers comes first; a policy may set others, and choose
some tasks for single workers. Within a rank chance decides, so that any two workers come to share tasks: without that
nobody could be compared with anybody.
"""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["TaskQueue"]

BEHIND = 1_000  # more than any rank
PROPOSED = 4  # tasks of a rank that are tried before the next rank
RECENT = 200  # workers who asked last, for whom tasks are chosen


class Level:
    """Tasks of one rank, from which some can be drawn at random in constant time."""

    def __init__(self) -> None:
        self.tasks: list[int] = []
        self._place: dict[int, int] = {}

    def add(self, task: int) -> None:
        """Add a task, unless it is there."""
        if task not in self._place:
            self._place[task] = len(self.tasks)
            self.tasks.append(task)

    def remove(self, task: int) -> None:
        """Remove a task, if it is there; the last one takes its place."""
        place = self._place.pop(task, None)
        if place is not None:
            last = self.tasks.pop()
            if last != task:
                self.tasks[place] = last
                self._place[last] = place

    def draw(self, barred: set[int], dice: random.Random, most: int) -> list[int]:
        """Up to `most` tasks that are not barred; all are looked at only where nearly all are barred."""
        size = len(self.tasks)
        found: dict[int, None] = {}
        for _ in range(4 * most):
            if len(found) == most or not size:
                return list(found)
            task = self.tasks[int(dice.random() * size)]
            if task not in barred:
                found[task] = None
        return list(found) or [task for task in self.tasks if task not in barred][:most]


class TaskQueue:
    """The open tasks.

    Parameters
    ----------
    cap
        Answers that a task has at most.
    gold_share
        Share of the questions that are gold, as long as the worker has some left.
    fewest_first
        Whether tasks with the fewest places taken come first, where no ranks are set; otherwise any.
    """

    def __init__(
        self, cap: int, gold_share: float = 0.0, *, fewest_first: bool = True, random_state: int | None = None
    ) -> None:
        self.cap, self.gold_share, self.fewest_first = cap, gold_share, fewest_first
        self.taken: dict[int, int] = {}  # places that are leased or answered, of open tasks
        self.seen: defaultdict[int, set[int]] = defaultdict(set)  # tasks that a worker has had
        self.answered: defaultdict[int, int] = defaultdict(int)  # answers that a worker has given
        self.recent: dict[int, None] = {}  # workers who asked lately, the last one last
        self._choices: dict[int, list[tuple[int, int]]] = {}
        self._choices_after = 0
        self._gold: set[int] = set()
        self._ranks: dict[int, tuple[int, int]] | None = None
        self._levels: defaultdict[int, Level] = defaultdict(Level)
        self._gold_level = Level()
        self._place: dict[int, int] = {}
        self._dice = random.Random(random_state)  # noqa: S311 (mixes gold in; no secret)

    def note_gold(self, task: int) -> None:
        """The answer to a task is known: while it is open, it is mixed in as gold."""
        self._gold.add(task)

    def add(self, task: int, taken: int = 0) -> None:
        """Add an open task with some places taken, or set how many are."""
        self.taken[task] = taken
        self._move(task)

    def change(self, task: int, by: int) -> None:
        """A place was taken (1) or given back (-1); nothing for a task that is closed."""
        if task in self.taken:
            self.taken[task] = max(self.taken[task] + by, 0)
            self._move(task)

    def mark_full(self, task: int) -> None:
        """The database has no place of this task left."""
        if task in self.taken:
            self.taken[task] = self.cap
            self._move(task)

    def close(self, task: int) -> None:
        """Ask a task no more."""
        self._remove(task)
        self.taken.pop(task, None)

    def set_ranks(self, ranks: Mapping[int, int] | None) -> None:
        """Ask tasks of lower rank first; without ranks those with fewest places taken.

        A place that is taken since puts a task behind all others, once: until ranks are set anew nobody knows what the
        next answer is worth.
        """
        self._ranks = None if ranks is None else {task: (rank, self.taken.get(task, 0)) for task, rank in ranks.items()}
        for task in self.taken:
            self._move(task)

    def set_choices(self, choices: Mapping[int, Iterable[int]], *, after: int = 0) -> None:
        """Tasks for single workers, the first to be asked first; they come after all tasks of a rank below `after`.

        A task that has a place taken since is left out: until choices are made anew nobody knows what it is worth.
        """
        self._choices = {
            worker: [(task, self.taken[task]) for task in tasks if task in self.taken]
            for worker, tasks in choices.items()
        }
        self._choices_after = after

    def _find_choices(self, worker: int, barred: set[int]) -> list[int]:
        chosen = self._choices.get(worker, ())
        return [task for task, taken in chosen if task not in barred and self.taken.get(task) == taken < self.cap]

    def _note_recent(self, worker: int) -> None:
        self.recent.pop(worker, None)
        self.recent[worker] = None
        if len(self.recent) > RECENT:
            del self.recent[next(iter(self.recent))]

    def _remove(self, task: int) -> None:
        if task in self._gold:
            self._gold_level.remove(task)
        elif (level := self._place.pop(task, None)) is not None:
            self._levels[level].remove(task)

    def _move(self, task: int) -> None:
        if task in self._gold:
            if self.taken[task] < self.cap:
                self._gold_level.add(task)
            else:
                self._gold_level.remove(task)
            return
        level = None if self.taken[task] >= self.cap else self._rank(task)
        if level == self._place.get(task):
            return
        self._remove(task)
        if level is not None:
            self._place[task] = level
            self._levels[level].add(task)

    def _rank(self, task: int) -> int:
        if self._ranks is None or task not in self._ranks:
            return self.taken[task] if self.fewest_first else 0
        rank, taken = self._ranks[task]
        return rank + BEHIND * max(self.taken[task] - taken, 0)

    def candidates(self, worker: int, skip: Iterable[int] = ()) -> Iterator[int]:
        """Tasks that the worker has not had and that may have a place left, the first to be asked first."""
        seen = self.seen[worker]
        barred = seen.union(skip) if skip else seen
        if self._gold_level.tasks and self._dice.random() < self.gold_share:
            yield from self._gold_level.draw(barred, self._dice, PROPOSED if self.gold_share == 1 else 1)
        self._note_recent(worker)
        chosen: list[int] | None = None
        for level in sorted(self._levels):
            if chosen is None and level >= self._choices_after:
                chosen = self._find_choices(worker, barred)
                yield from chosen[:PROPOSED]
            yield from self._levels[level].draw(barred, self._dice, PROPOSED)

    @property
    def n_open(self) -> int:
        """Tasks with a place left, gold not counted."""
        return sum(len(level.tasks) for level in self._levels.values())
