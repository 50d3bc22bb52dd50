"""The graph of agreement: workers who agree with each other beyond what their skill explains, joined by lines.

What two workers agree beyond the truth, κ, is that of `crowdwise.dependence.groups`. Two of one group, which was tested
as a group, are joined where their κ stands out from the crowd's background by the margin of that test; any other two
only where so much agreement would come by chance, over all pairs together, less than once in twenty crowds.

The layout needs no seed. Workers who are joined, directly or through others, and members of one group, are an island;
an island starts as a circle, its lines pull and all its workers push (Fruchterman & Reingold 1991), and islands are set
down row by row, the largest first. Workers without a line stand in rows below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import ndtri

from crowdwise.dependence.excess_agreement import MARGIN, agreement_z_scores

if TYPE_CHECKING:
    from crowdwise.dependence.groups import Dependence
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["MOST_GROUPS", "AgreementGraph", "agreement_graph", "busiest_workers"]

MOST_NODES = 80  # workers that are drawn
MOST_GROUPS = 20  # of them, the largest
MOST_LINES = 3  # of each worker, the strongest
CHANCE = 0.05  # of any line between workers of no common group in a crowd without dependence
STEPS = 200  # of the layout of an island
MOST_ALONE = 40  # workers without a line, for comparison
# The rest in units of the distance of two workers.
WIDE = 1.7  # width of the picture over its height, about
LEAST_WIDTH = 16.0
GAP = 1.8  # between islands
NEAR = 0.8  # between workers without a line


@dataclass(frozen=True, eq=False)
class AgreementGraph:
    """Workers, the lines between them, and where they are drawn.

    Attributes
    ----------
    workers : (n,)
        Positions of the workers among all.
    group : (n,)
        -1 for no group.
    first, second : (lines,)
        Ends of each line, as positions in `workers`.
    strength : (lines,)
        Agreement beyond what skill and the background explain, from 0 to 1.
    place : (n, 2)
        Across from 0, and up to 0.
    """

    workers: IntArray
    group: IntArray
    first: IntArray
    second: IntArray
    strength: FloatArray
    place: FloatArray

    @property
    def mark_joined_workers(self) -> BoolArray:
        """Which workers have a line or a group (n,)."""
        found: BoolArray = self.group >= 0
        found[self.first] = found[self.second] = True
        return found


def agreement_graph(dependence: Dependence, groups: IntArray, n_labels: IntArray) -> AgreementGraph | None:
    """The busiest of each group, those joined to others, and then the busiest of the rest; None if nobody is joined.

    Parameters
    ----------
    groups : (M,)
        Groups to show, -1 for none.
    n_labels : (M,)
        By which the busiest are told.
    """
    mine = groups[dependence.tested]
    strength = _line_strengths(dependence, mine)
    chosen = _choose_workers(strength, mine, n_labels[dependence.tested])
    strength, mine = strength[np.ix_(chosen, chosen)], mine[chosen]
    kept = _keep_strongest_lines(strength)
    first, second = np.nonzero(np.triu(kept | kept.T, 1))
    if not first.size and mine.max(initial=-1) < 0:
        return None
    place = _lay_out_graph(mine, first, second, strength[first, second])
    return AgreementGraph(dependence.tested[chosen], mine, first, second, strength[first, second], place)


def busiest_workers(workers: IntArray, n_labels: IntArray, most: int) -> IntArray:
    """Of the workers those with the most labels, in that order."""
    return workers[np.argsort(-n_labels[workers], kind="stable")][:most]


def _line_strengths(dependence: Dependence, mine: IntArray) -> FloatArray:
    """Strength of the line between every two tested workers (m, m), 0 where there is none."""
    beyond = np.nan_to_num((dependence.excess - dependence.background) / max(1 - dependence.background, 1e-9))
    sums = np.stack([dependence.shared, dependence.same, dependence.expected])
    n_pairs = max(mine.size * (mine.size - 1) / 2, 1)
    sure = agreement_z_scores(sums, dependence.background) > ndtri(1 - CHANCE / n_pairs)
    together = (mine[:, None] == mine) & (mine[:, None] >= 0) & (dependence.excess > dependence.background + MARGIN)
    lines: FloatArray = np.where(sure | together, np.clip(beyond, 0, 1), 0.0)
    np.fill_diagonal(lines, 0.0)
    return lines


def _keep_strongest_lines(strength: FloatArray) -> BoolArray:
    """The strongest lines of each worker; of lines as strong, as copies have them, those to the next in order."""
    number = np.arange(len(strength))
    onwards = (number - number[:, None]) % max(number.size, 1)
    order = np.lexsort((onwards, -strength), axis=1)[:, :MOST_LINES]
    kept = np.zeros(strength.shape, np.bool_)
    np.put_along_axis(kept, order, True, axis=1)
    return kept & (strength > 0)


def _choose_workers(strength: FloatArray, mine: IntArray, n_labels: IntArray) -> IntArray:
    """Whom to draw, in order: the groups' busiest, a share of the room for each; the joined; and the busiest."""
    numbers, sizes = np.unique(mine[mine >= 0], return_counts=True)
    numbers = np.sort(numbers[np.argsort(-sizes, kind="stable")][:MOST_GROUPS])
    share = max(2, MOST_NODES // max(numbers.size, 1))
    parts = [busiest_workers(np.flatnonzero(mine == number), n_labels, share) for number in numbers]
    alone = np.flatnonzero(mine < 0)
    joined = strength[alone].max(axis=1, initial=0) > 0
    parts += [
        busiest_workers(alone[joined], n_labels, MOST_NODES),
        busiest_workers(alone[~joined], n_labels, MOST_ALONE),
    ]
    return np.concatenate(parts)[:MOST_NODES]


# ---- layout -----------------------------------------------------------------------------------------------


def _lay_out_graph(mine: IntArray, first: IntArray, second: IntArray, strength: FloatArray) -> FloatArray:
    """Places (n, 2) of all, two neighbours about one unit apart."""
    islands = _connected_parts(mine, first, second)
    shapes = [_lay_out_part(rows, first, second, strength) for rows in islands]
    sides = [shape.max(axis=0) + GAP for shape in shapes]
    area = sum(float(side.prod()) for side in sides)
    width = max(LEAST_WIDTH, np.sqrt(WIDE * area), *(float(side[0]) for side in sides))
    place = np.zeros((mine.size, 2))
    lonely = np.ones(mine.size, np.bool_)
    across = down = row = 0.0
    for rows, shape, side in zip(islands, shapes, sides, strict=True):
        if across + side[0] > width + 1e-9:
            across, down, row = 0.0, down + row, 0.0
        place[rows] = shape - np.array([-across, down + float(side[1]) - GAP])
        across, row = across + float(side[0]), max(row, float(side[1]))
        lonely[rows] = False
    number, a_row = np.arange(int(lonely.sum())), int((width - GAP) / NEAR) + 1
    place[lonely] = np.column_stack([number % a_row * NEAR, -down - row - number // a_row * NEAR])
    return place


def _connected_parts(mine: IntArray, first: IntArray, second: IntArray) -> list[IntArray]:
    """Workers who hang together by lines or groups, the largest island first; those alone are in none."""
    leader = np.arange(mine.size)
    for number in np.unique(mine[mine >= 0]):
        leader[mine == number] = np.flatnonzero(mine == number)[0]
    ends = np.concatenate([first, np.arange(mine.size)]), np.concatenate([second, leader])
    graph = coo_array((np.ones(ends[0].size), ends), (mine.size, mine.size))
    part = connected_components(graph, directed=False)[1]
    found = [np.flatnonzero(part == number) for number in range(int(part.max(initial=-1)) + 1)]
    return sorted((rows for rows in found if rows.size > 1), key=lambda rows: -rows.size)


def _lay_out_part(rows: IntArray, first: IntArray, second: IntArray, strength: FloatArray) -> FloatArray:
    """An island by itself (n, 2), from 0 on, about one unit of area a worker."""
    n = rows.size
    row_of = dict(zip(rows.tolist(), range(n), strict=True))
    pull = np.zeros((n, n))
    for one, other, much in zip(first.tolist(), second.tolist(), strength.tolist(), strict=True):
        if one in row_of:
            pull[row_of[one], row_of[other]] = pull[row_of[other], row_of[one]] = 0.3 + 0.7 * much
    angle = 2 * np.pi * np.arange(n) / n
    place = np.column_stack([np.cos(angle), np.sin(angle)]) * np.sqrt(n) / 2
    for step in range(STEPS):
        apart = place[:, None] - place
        distance = np.maximum(np.sqrt((apart**2).sum(axis=-1)), 1e-6)
        push = 1 / distance**2 - pull * distance - 0.02
        np.fill_diagonal(push, 0.0)
        move = (push[:, :, None] * apart).sum(axis=1)
        length = np.maximum(np.sqrt((move**2).sum(axis=1, keepdims=True)), 1e-9)
        place += move / length * np.minimum(length, 0.3 * (1 - step / STEPS))
    place -= place.mean(axis=0)
    place @= np.linalg.eigh(place.T @ place)[1][:, ::-1]  # lying down
    apart = np.sqrt(((place[:, None] - place) ** 2).sum(axis=-1))
    np.fill_diagonal(apart, np.inf)
    place /= max(float(np.median(apart.min(axis=1))), 1e-6)
    shape: FloatArray = place - place.min(axis=0)
    return shape
