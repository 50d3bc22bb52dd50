"""Permutation with a maximum over everything that is tested, and the bootstrap.

Units (tasks, or workers) carry a table of values and belong to groups. For group z and column c,

    T[z, c] = Σ_u (1[u in z] − f_s(u)) v[u, c] / √(Σ_u (1[u in z] − f_s(u))² v[u, c]²)

with f_s the share of z in the unit's stratum s: a studentised difference between the group and the rest, in which
strata do not mix; values should be centred about. Groups are dealt anew within strata; the chance, over deals, that the
*largest* |T| of all groups, columns and tables reaches an observed one is its p-value (Westfall & Young 1993,
single-step maxT), so that flagging all p-values up to α flags anything innocent with chance at most α. The test is
exact where groups are exchangeable within strata; studentising keeps it about right where groups differ in spread only
(Chung & Romano 2013).

Cost: O(draws × entries of the tables), as matrix products in single precision. Of more than `MANY` units, units of one
group and stratum are put together at random in bundles of equal size, which are exchangeable where the units are, and
bundles are dealt; what is left over (less than a bundle of each kind) is left aside.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = [
    "DRAWS",
    "GroupContrast",
    "UnitValues",
    "bayesian_bootstrap",
    "bootstrap_interval",
    "find_strongest",
    "groups_to_test",
    "has_enough_counts",
    "max_statistic_test",
]

DRAWS = 999
BOOTSTRAPS = 400
BLOCK = 2**23  # entries of dealt groups held at one time
MANY = 20_000  # units that are dealt one by one


class UnitValues(NamedTuple):
    """Values (R, C) of the units `rows` (R,), which ascend; those of other units are zero."""

    rows: IntArray
    values: FloatArray


class GroupContrast(NamedTuple):
    """Groups of units against tables of values, whose columns stand side by side.

    Attributes
    ----------
    tables
    code : (U,)
        Group of each unit; -1 for a unit that belongs to none and is left aside.
    stratum : (U,)
    tested : (Z,)
        Groups that are held against the rest.
    usable : (Z, C)
        What is tested.
    """

    tables: Sequence[UnitValues]
    code: IntArray
    stratum: IntArray
    tested: IntArray
    usable: BoolArray


def max_statistic_test(
    contrasts: Sequence[GroupContrast], *, random_state: int, draws: int = DRAWS
) -> list[tuple[FloatArray, FloatArray]]:
    """T and p-value (Z, C) of each contrast, corrected for all of them together; not a number where not usable."""
    observed = []
    largest = np.zeros(draws)
    for number, contrast in enumerate(contrasts):
        if not contrast.usable.any():
            observed.append(np.full(contrast.usable.shape, np.nan))
            continue
        rng = np.random.default_rng([random_state, number])
        prepared = _prepare_contrast(contrast, rng)
        t = _studentise(prepared, prepared.code[None], contrast.tested)[0]
        observed.append(np.where(contrast.usable, t, np.nan))
        block = max(1, BLOCK // prepared.code.size)
        for start in range(0, draws, block):
            count = min(block, draws - start)
            t = np.abs(_studentise(prepared, _permute_groups(prepared, count, rng), contrast.tested))
            t[:, ~contrast.usable] = 0
            largest[start : start + count] = np.maximum(largest[start : start + count], t.max(axis=(1, 2)))
    ranked = np.sort(largest)
    found = []
    for t in observed:
        # A hair less, so that a tie with the observed grouping counts as reaching it whatever the rounding.
        reached = draws - np.searchsorted(ranked, np.abs(t) * (1 - 1e-5), side="left")
        found.append((t, np.where(np.isnan(t), np.nan, (1 + reached) / (draws + 1))))
    return found


class _PreparedContrast(NamedTuple):
    """Units of a contrast that belong to a group, sorted by stratum."""

    code: IntArray
    bounds: IntArray
    tables: list[tuple[IntArray, npt.NDArray[np.float32]]]


def _prepare_contrast(contrast: GroupContrast, rng: np.random.Generator) -> _PreparedContrast:
    """Sort the units, or bundles of them, by stratum and scale the columns."""
    unit, first = _bundle_units(contrast, rng)
    order = np.argsort(contrast.stratum[first], kind="stable")
    place = np.append(np.argsort(order), -1)[unit]  # of each unit's bundle; -1 of a unit left aside
    bounds = np.append(np.unique(contrast.stratum[first[order]], return_index=True)[1], order.size)
    tables = []
    for rows, given in contrast.tables:
        kept = place[rows] >= 0
        names, where = np.unique(place[rows[kept]], return_inverse=True)
        values = np.empty((names.size, given.shape[1]))
        for column in range(given.shape[1]):
            values[:, column] = np.bincount(where, given[kept, column], names.size)
        scale = np.sqrt((values**2).mean(axis=0)) if len(values) else np.ones(values.shape[1])
        tables.append((names, (values / np.where(scale > 0, scale, 1)).astype(np.float32)))
    return _PreparedContrast(contrast.code[first[order]], bounds, tables)


def _bundle_units(contrast: GroupContrast, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Bundle of each unit, -1 for none, and the first unit of each bundle."""
    used = np.flatnonzero(contrast.code >= 0)
    many = -(-used.size // MANY)
    used = rng.permutation(used) if many > 1 else used
    used = used[np.lexsort((contrast.code[used], contrast.stratum[used]))]
    kind = np.append(True, np.diff(contrast.code[used]).astype(bool) | np.diff(contrast.stratum[used]).astype(bool))
    start = np.flatnonzero(kind)
    size = np.diff(np.append(start, used.size))
    rank = np.arange(used.size) - np.repeat(start, size)
    whole = rank < np.repeat(size - size % many, size)
    used, rank = used[whole], rank[whole]
    unit = np.full(contrast.code.size, -1, np.int64)
    unit[used] = np.cumsum(rank % many == 0) - 1
    return unit, used[rank % many == 0]


def _permute_groups(prepared: _PreparedContrast, count: int, rng: np.random.Generator) -> IntArray:
    dealt = np.repeat(prepared.code[None].astype(np.int8), count, axis=0)
    if choose_engine(dealt.size, 1) == "numba":
        from crowdwise.kernels.compiled.permutations import shuffle_within_bounds

        shuffle_within_bounds(dealt, prepared.bounds, rng)
        return dealt
    return _shuffle_within_bounds(dealt, prepared.bounds, rng)


def _shuffle_within_bounds(rows: IntArray, bounds: IntArray, rng: np.random.Generator) -> IntArray:
    """Shuffle each row within the bounds (Fisher and Yates): all rows at once, by the numbers that one by one draw."""
    start = np.repeat(bounds[:-1], np.maximum(np.diff(bounds) - 1, 0))
    last = np.concatenate([np.arange(end - 1, begin, -1) for begin, end in itertools.pairwise(bounds)])
    others = start + (rng.random((len(rows), last.size)) * (last - start + 1)).astype(np.int64)
    columns, everyone = np.ascontiguousarray(rows.T), np.arange(len(rows))
    for place, other in zip(last, np.ascontiguousarray(others.T), strict=True):
        mine = columns[place].copy()
        columns[place] = columns[other, everyone]
        columns[other, everyone] = mine
    return np.ascontiguousarray(columns.T)


def _studentise(prepared: _PreparedContrast, codes: IntArray, tested: IntArray) -> FloatArray:
    """T of each deal (deals, Z, C)."""
    sizes = np.diff(prepared.bounds)
    found = []
    for group in tested:
        inside = (codes == group).astype(np.float32)
        # The share of the group in each stratum, which deals do not change.
        held = np.add.reduceat(prepared.code == group, prepared.bounds[:-1])
        share = np.repeat((held / sizes).astype(np.float32), sizes)[:, None]
        columns = []
        for rows, values in prepared.tables:
            member, f, square = inside if rows.size == share.size else inside[:, rows], share[rows], values**2
            above = member @ values - (f * values).sum(axis=0)
            mean = (f * (1 - f) * square).sum(axis=0)
            spread = member @ ((1 - 2 * f) * square) + (f**2 * square).sum(axis=0)
            floor = 1e-6 * mean + 1e-20  # a spread that is rounding error is none
            columns.append(np.where(spread > floor, above / np.sqrt(np.maximum(spread, floor)), 0))
        found.append(np.concatenate(columns, axis=1))
    return np.stack(found, axis=1).astype(np.float64)


def bayesian_bootstrap(
    statistic: Callable[[FloatArray], FloatArray], n_units: int, *, random_state: int, draws: int = BOOTSTRAPS
) -> FloatArray:
    """Values of a statistic under the Bayesian bootstrap (Rubin 1981): exponential weights of the units.

    Parameters
    ----------
    statistic
        From weights (draws, n_units) to values (draws, …).
    """
    rng = np.random.default_rng(random_state)
    block = max(1, BLOCK // max(n_units, 1))
    values = [
        statistic(rng.standard_exponential((min(block, draws - start), n_units))) for start in range(0, draws, block)
    ]
    return np.concatenate(values)


def bootstrap_interval(
    statistic: Callable[[FloatArray], FloatArray], n_units: int, *, random_state: int, draws: int = BOOTSTRAPS
) -> tuple[float, float]:
    """95 % interval of a statistic, from weights (draws, n_units) to values (draws,), by `bayesian_bootstrap`."""
    low, high = np.quantile(
        bayesian_bootstrap(statistic, n_units, random_state=random_state, draws=draws), [0.025, 0.975]
    )
    return float(low), float(high)


def groups_to_test(code: IntArray, n_groups: int) -> IntArray:
    """Groups to hold against the rest: all that occur, and of two the first, whose contrast is the other's mirror."""
    present = np.flatnonzero(np.bincount(code[code >= 0], minlength=n_groups))
    return present[: 0 if present.size < 2 else 1 if present.size == 2 else None]


def has_enough_counts(code: IntArray, counts: FloatArray, tested: IntArray, fewest: float) -> BoolArray:
    """Whether a group and the rest both have `fewest` counts of each column: (Z, C)."""
    total = counts[code >= 0].sum(axis=0)
    inside = np.array([counts[code == group].sum(axis=0) for group in tested]).reshape(tested.size, counts.shape[1])
    return np.asarray((inside >= fewest) & (total - inside >= fewest))


def find_strongest(t: FloatArray, p: FloatArray, level: float) -> tuple[int, int] | None:
    """Place (group, column) of the largest |T| whose p-value is at most `level`; None where there is none."""
    flagged = p <= level
    if not flagged.any():
        return None
    group, column = np.unravel_index(np.argmax(np.where(flagged, np.abs(t), -1.0)), t.shape)
    return int(group), int(column)
