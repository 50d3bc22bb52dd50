"""Permutation with a maximum over everything that is tested, and the bootstrap.

Units (tasks, or workers) carry a table of values and belong to groups. For group z and column c,

    T[z, c] = Σ_u (1[u in z] − f_s(u)) v[u, c] / √(Σ_u (1[u in z] − f_s(u))² ṽ[u, c]²)

with f_s the share of z in the unit's stratum s and ṽ centred in its stratum: a studentised difference of means between
the group and the rest, in which strata do not mix. Groups are dealt anew within strata; the chance, over deals, that
the *largest* |T| of all groups, columns and tables reaches an observed one is its p-value (Westfall & Young 1993,
single-step maxT), so that flagging all p-values up to α flags anything innocent with chance at most α. The test is
exact where groups are exchangeable within strata; studentising keeps it about right where groups differ in spread only
(Chung & Romano 2013).

Cost: O(draws × units × columns), as matrix products in single precision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["DRAWS", "Contrast", "bootstrap_interval", "enough", "groups_to_test", "max_statistic", "strongest"]

DRAWS = 999
BOOTSTRAPS = 400
BLOCK = 2**24  # entries of dealt groups held at one time


class Contrast(NamedTuple):
    """Groups of units against a table of values.

    Attributes
    ----------
    values : (U, C)
    code : (U,)
        Group of each unit; -1 for a unit that belongs to none and is left aside.
    stratum : (U,)
    tested : (Z,)
        Groups that are held against the rest.
    usable : (Z, C)
        What is tested.
    """

    values: FloatArray
    code: IntArray
    stratum: IntArray
    tested: IntArray
    usable: BoolArray


def max_statistic(
    contrasts: Sequence[Contrast], *, seed: int, draws: int = DRAWS
) -> list[tuple[FloatArray, FloatArray]]:
    """T and p-value (Z, C) of each contrast, corrected for all of them together; not a number where not usable."""
    observed = []
    largest = np.zeros(draws)
    for number, contrast in enumerate(contrasts):
        prepared = _prepared(contrast)
        t = _studentised(prepared, prepared.code[None], contrast.tested)[0]
        observed.append(np.where(contrast.usable, t, np.nan))
        if not contrast.usable.any():
            continue
        rng = np.random.default_rng([seed, number])
        block = max(1, BLOCK // max(prepared.code.size, 1))
        for start in range(0, draws, block):
            count = min(block, draws - start)
            dealt = _dealt(prepared, count, rng)
            t = np.abs(_studentised(prepared, dealt, contrast.tested))
            t[:, ~contrast.usable] = 0
            largest[start : start + count] = np.maximum(largest[start : start + count], t.max(axis=(1, 2), initial=0))
    ranked = np.sort(largest)
    found = []
    for t in observed:
        # A hair less, so that a tie with the observed grouping counts as reaching it whatever the rounding.
        reached = draws - np.searchsorted(ranked, np.abs(t) * (1 - 1e-5), side="left")
        found.append((t, np.where(np.isnan(t), np.nan, (1 + reached) / (draws + 1))))
    return found


class _Prepared(NamedTuple):
    """Units of a contrast that belong to a group, sorted by stratum."""

    code: IntArray
    bounds: IntArray
    centred: np.ndarray[tuple[int, int], np.dtype[np.float32]]
    square: np.ndarray[tuple[int, int], np.dtype[np.float32]]


def _prepared(contrast: Contrast) -> _Prepared:
    used = np.flatnonzero(contrast.code >= 0)
    order = used[np.argsort(contrast.stratum[used], kind="stable")]
    names, first = np.unique(contrast.stratum[order], return_index=True)
    bounds = np.append(first, order.size)
    stratum = np.repeat(np.arange(names.size), np.diff(bounds))
    values = contrast.values[order]
    scale = np.sqrt((values**2).mean(axis=0)) if order.size else np.ones(values.shape[1])
    values = values / np.where(scale > 0, scale, 1)
    if order.size:
        means = np.add.reduceat(values, first, axis=0) / np.diff(bounds)[:, None]
        values = values - means[stratum]
    return _Prepared(contrast.code[order], bounds, values.astype(np.float32), (values**2).astype(np.float32))


def _dealt(prepared: _Prepared, count: int, rng: np.random.Generator) -> IntArray:
    dealt = np.empty((count, prepared.code.size), np.int8)
    for start, stop in zip(prepared.bounds[:-1], prepared.bounds[1:], strict=True):
        rows = np.repeat(prepared.code[None, start:stop].astype(np.int8), count, axis=0)
        dealt[:, start:stop] = rng.permuted(rows, axis=1)
    return dealt


def _studentised(prepared: _Prepared, codes: IntArray, tested: IntArray) -> FloatArray:
    """T of each deal (deals, Z, C)."""
    found = np.zeros((codes.shape[0], tested.size, prepared.centred.shape[1]))
    sizes = np.diff(prepared.bounds)
    for place, group in enumerate(tested):
        inside = (codes == group).astype(np.float32)
        # The share of the group in each stratum, which deals do not change.
        held = np.add.reduceat(prepared.code == group, prepared.bounds[:-1]) if sizes.size else np.zeros(0)
        share = np.repeat((held / sizes).astype(np.float32), sizes)[:, None]
        above = inside @ prepared.centred
        spread = inside @ ((1 - 2 * share) * prepared.square) + (share**2 * prepared.square).sum(axis=0)
        # A spread that is rounding error is none.
        floor = 1e-6 * (share * (1 - share) * prepared.square).sum(axis=0) + 1e-20
        found[:, place] = np.where(spread > floor, above / np.sqrt(np.maximum(spread, floor)), 0)
    return found


def bootstrap_interval(
    statistic: Callable[[FloatArray], FloatArray], n_units: int, *, seed: int, draws: int = BOOTSTRAPS
) -> tuple[float, float]:
    """95 % interval of a statistic by the Bayesian bootstrap (Rubin 1981): exponential weights of the units.

    Parameters
    ----------
    statistic
        From weights (draws, n_units) to values (draws,).
    """
    rng = np.random.default_rng(seed)
    block = max(1, BLOCK // max(n_units, 1))
    values = [
        statistic(rng.standard_exponential((min(block, draws - start), n_units))) for start in range(0, draws, block)
    ]
    low, high = np.quantile(np.concatenate(values), [0.025, 0.975])
    return float(low), float(high)


def groups_to_test(code: IntArray, n_groups: int) -> IntArray:
    """Groups to hold against the rest: all that occur, and of two the first, whose contrast is the other's mirror."""
    present = np.flatnonzero(np.bincount(code[code >= 0], minlength=n_groups))
    return present[: 0 if present.size < 2 else 1 if present.size == 2 else None]


def enough(code: IntArray, counts: FloatArray, tested: IntArray, fewest: float) -> BoolArray:
    """Whether a group and the rest both have `fewest` counts of each column: (Z, C)."""
    total = counts[code >= 0].sum(axis=0)
    inside = np.array([counts[code == group].sum(axis=0) for group in tested]).reshape(tested.size, counts.shape[1])
    return np.asarray((inside >= fewest) & (total - inside >= fewest))


def strongest(t: FloatArray, p: FloatArray, level: float) -> tuple[int, int] | None:
    """Place (group, column) of the largest |T| whose p-value is at most `level`; None where there is none."""
    flagged = p <= level
    if not flagged.any():
        return None
    group, column = np.unravel_index(np.argmax(np.where(flagged, np.abs(t), -1.0)), t.shape)
    return int(group), int(column)
