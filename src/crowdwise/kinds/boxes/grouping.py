"""Which marks are of one thing: a start by nearness, and moves that never lower the likelihood.

A move takes all marks of one answer out of their things and puts them back where the likelihood is highest: each into a
thing of its own or into one of the others', one to one (`linear_sum_assignment`). What a mark adds to a thing does not
depend on where the answer's other marks go, so that the best assignment is the best of all ways to put them back.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linear_sum_assignment

from crowdwise.kinds.boxes.object_likelihood import (
    LOG_SHARES,
    Crowd,
    Drawn,
    Grouping,
    MarkTerms,
    log_places,
    mark_terms,
    missed_by_all,
    sum_terms,
    thing_terms,
)

if TYPE_CHECKING:
    from crowdwise.kinds.boxes.geometry import Geometry
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["link_marks", "regroup", "start_grouping"]


def start_grouping(drawn: Drawn, together: float) -> Grouping:
    """Marks of different answers grouped by average linkage of their nearness, task by task."""
    thing = np.zeros(drawn.task.size, np.int64)
    ends = np.searchsorted(drawn.task, np.arange(drawn.sizes[0] + 1))
    fresh = 0
    for begin, end in itertools.pairwise(ends.tolist()):
        if begin < end:
            near = drawn.geometry.nearness(drawn.place[begin:end], drawn.place[begin:end])
            found = link_marks(near, drawn.answer[begin:end], together)
            thing[begin:end] = found + fresh
            fresh += int(found.max()) + 1
    return Grouping(thing, np.zeros(thing.size, np.int64), np.zeros(drawn.place.shape, np.int64))


def link_marks(nearness: FloatArray, answer: IntArray, together: float) -> IntArray:
    """Groups (n,) of the marks of a task: the two nearest are joined while they are at least so near, on average.

    Groups that hold marks of one answer are never joined.
    """
    near = np.where(answer[:, None] == answer[None], -np.inf, nearness)
    group = np.arange(answer.size)
    size = np.ones(answer.size)
    while True:
        one, other = np.unravel_index(int(near.argmax()), near.shape)
        if not near[one, other] >= together:
            break
        joined = (size[one] * near[one] + size[other] * near[other]) / (size[one] + size[other])
        near[one], near[:, one] = joined, joined
        near[other], near[:, other], near[one, one] = -np.inf, -np.inf, -np.inf
        group[group == group[other]] = group[one]
        size[one] += size[other]
    found: IntArray = np.unique(group, return_inverse=True)[1]
    return found


@dataclass
class _Task:
    """The marks of one task while they are moved."""

    terms: MarkTerms  # as they are now
    ways: list[list[MarkTerms]]  # [careless mark][careless coordinate]
    missed: tuple[FloatArray, FloatArray]
    crowd: Crowd
    geometry: Geometry

    def best_ways(self, plain: FloatArray, weighed: list[list[FloatArray]]) -> tuple[FloatArray, IntArray, IntArray]:
        """Likelihood (…,) of things with a mark added, in the best of the ways that it may be careless in."""
        found = []
        for state in (0, 1):
            each = np.stack([log_places(plain, weighed[state][level]) for level in (0, 1)])
            found.append((each.max(axis=0).sum(axis=-1) + LOG_SHARES[state], each.argmax(axis=0)))
        careless = (found[1][0] > found[0][0]).astype(np.int64)
        value = np.where(careless == 1, found[1][0], found[0][0])
        level = np.where(careless[..., None] == 1, found[1][1], found[0][1])
        return thing_terms(plain, value, self.missed, self.crowd, self.geometry).total, careless, level

    def values(self, sums: MarkTerms) -> FloatArray:
        """Likelihood of things as they are."""
        places = log_places(sums.plain, sums.weighed).sum(axis=-1)
        return thing_terms(sums.plain, places, self.missed, self.crowd, self.geometry).total


def regroup(drawn: Drawn, crowd: Crowd, grouping: Grouping, tasks: BoolArray) -> tuple[Grouping, BoolArray]:
    """One move of every answer of these tasks, one after the other; and the tasks (N,) in which marks were moved."""
    thing = grouping.thing.copy()
    careless, level = grouping.careless.copy(), grouping.careless_coordinate.copy()
    moved = np.zeros(drawn.sizes[0], np.bool_)
    missed = missed_by_all(drawn, crowd)
    ends = np.searchsorted(drawn.task, np.arange(drawn.sizes[0] + 1))
    fresh = int(thing.max(initial=-1)) + 1
    for task in np.flatnonzero(tasks & (np.diff(ends) > 0)):
        rows = slice(int(ends[task]), int(ends[task + 1]))
        part = _slice(drawn, rows)
        state = _lay_out(part, crowd, careless[rows], level[rows], (missed[0][task], missed[1][task]))
        own = thing[rows].copy()
        fresh = _move_answers(part, state, own, careless[rows], level[rows], fresh)
        moved[task] = bool((_canonical(own) != _canonical(thing[rows])).any())
        thing[rows] = own
    return Grouping(np.unique(thing, return_inverse=True)[1], careless, level), moved


def _move_answers(part: Drawn, state: _Task, thing: IntArray, careless: IntArray, level: IntArray, fresh: int) -> int:
    """Move each answer of a task in turn, in place; returns the next free number of a thing."""
    alone, alone_careless, alone_level = _alone(state)
    told = part.sizes[1]
    for answer in np.unique(part.answer):
        rows = np.flatnonzero(part.answer == answer)
        if part.worker[rows[0]] == told:
            continue
        rest = np.flatnonzero(part.answer != answer)
        others, inverse = np.unique(thing[rest], return_inverse=True)
        sums = sum_terms(MarkTerms(state.terms.plain[rest], state.terms.weighed[rest]), inverse, others.size)
        choice = np.arange(others.size, others.size + rows.size)
        if others.size:
            # The share of careless marks is counted by `best_ways`, not in the constant of the mark that is added.
            bare = state.ways[0][0].plain[rows]
            bare[:, 3] -= LOG_SHARES[0]
            plain = sums.plain[None] + bare[:, None]
            weighed = [[sums.weighed[None] + way.weighed[rows][:, None] for way in ways] for ways in state.ways]
            value, more_careless, more_level = state.best_ways(plain, weighed)
            gain = value - state.values(sums)[None] - alone[rows][:, None]
            choice = linear_sum_assignment(np.concatenate([gain, np.zeros((rows.size, rows.size))], axis=1), True)[1]
        for place, row in enumerate(rows):
            if choice[place] < others.size:
                thing[row] = others[choice[place]]
                careless[row], level[row] = more_careless[place, choice[place]], more_level[place, choice[place]]
            else:
                thing[row], fresh = fresh, fresh + 1
                careless[row], level[row] = alone_careless[row], alone_level[row]
            state.terms.plain[row] = state.ways[careless[row]][0].plain[row]
            for coordinate, is_careless in enumerate(level[row]):
                chosen = state.ways[careless[row]][is_careless].weighed
                state.terms.weighed[row, coordinate] = chosen[row, coordinate]
    return fresh


def _alone(state: _Task) -> tuple[FloatArray, IntArray, IntArray]:
    plain = state.ways[0][0].plain.copy()
    plain[:, 3] -= LOG_SHARES[0]
    return state.best_ways(plain, [[way.weighed for way in ways] for ways in state.ways])


def _lay_out(
    part: Drawn, crowd: Crowd, careless: IntArray, level: IntArray, missed: tuple[FloatArray, FloatArray]
) -> _Task:
    ways = [
        [
            mark_terms(part, crowd, np.full_like(careless, mark), np.full_like(level, coordinate))
            for coordinate in (0, 1)
        ]
        for mark in (0, 1)
    ]
    return _Task(mark_terms(part, crowd, careless, level), ways, missed, crowd, part.geometry)


def _slice(drawn: Drawn, rows: slice) -> Drawn:
    return replace(
        drawn,
        task=drawn.task[rows],
        worker=drawn.worker[rows],
        answer=drawn.answer[rows],
        label=drawn.label[rows],
        place=drawn.place[rows],
        log_size=drawn.log_size[rows],
    )


def _canonical(thing: IntArray) -> IntArray:
    """Things numbered by their first marks, so that groupings can be compared."""
    _, first, inverse = np.unique(thing, return_index=True, return_inverse=True)
    found: IntArray = first[inverse]
    return found
