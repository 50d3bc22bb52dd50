"""Agreement of pairs of workers beyond what is expected: its background, its test, and clusters that stand out.

Everywhere `sums` (7, m, m) are those of `kernels.pair_agreement.pair_sums`; `dependence.groups` says what they are for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = [
    "MARGIN",
    "agreement_z_scores",
    "background_kappa",
    "cluster_agreeing_workers",
    "excess_agreement_kappa",
    "find_members_sharing_errors",
    "hoeffding_p_values",
    "select_partners",
]

MARGIN = 0.1  # κ by which a group must stand out from the background
SHRINK = 10.0  # tasks without excess that κ of two clusters starts from when they are clustered
CHOICE = 2.0  # standard errors above background by which a partner is chosen


def excess_agreement_kappa(shared: FloatArray, same: FloatArray, expected: FloatArray) -> FloatArray:
    """Agreement beyond what is expected, as a share of the most that it could be."""
    room = shared - expected
    out = np.full(np.shape(shared), np.nan)
    np.divide(same - expected, room, out=out, where=room > 1e-9)
    return out


def background_kappa(sums: FloatArray) -> float:
    """The crowd's background κ: the median of its pairs, at least 0; each pair counts by its shared tasks."""
    upper = np.triu_indices(sums.shape[1], 1)
    shared, same, expected = (table[upper] for table in sums[:3])
    values = excess_agreement_kappa(shared, same, expected)
    known = np.flatnonzero(~np.isnan(values))
    if not known.size:
        return 0.0
    order = known[np.argsort(values[known], kind="stable")]
    weight = np.cumsum(shared[order])
    return max(0.0, float(values[order[np.searchsorted(weight, weight[-1] / 2)]]))


def null_agreement(shared: FloatArray, expected: FloatArray, background: float) -> FloatArray:
    """Agreement to be expected with the background's κ and the margin; at most all."""
    least = min(background + MARGIN, 0.99)
    higher: FloatArray = expected + least * (shared - expected)
    return higher


def agreement_z_scores(sums: FloatArray, background: float) -> FloatArray:
    """Standard errors by which every two agree beyond what background and margin allow; -inf without two tasks."""
    shared, same, expected = sums[:3]
    null = null_agreement(shared, expected, background)
    spread = np.sqrt(np.maximum(null * (shared - null), 1e-12) / np.maximum(shared, 1))
    z: FloatArray = np.where(shared > 1, (same - null) / np.maximum(spread, 0.5), -np.inf)
    np.fill_diagonal(z, -np.inf)
    return z


def select_partners(sums: FloatArray, background: float) -> BoolArray:
    """Whom (columns) each worker (rows) agrees with beyond what background and margin allow; or else the nearest."""
    z = agreement_z_scores(sums, background)
    partners: BoolArray = z > CHOICE
    nearest = z.argmax(axis=1)
    lonely = ~partners.any(axis=1) & np.isfinite(z.max(axis=1))
    partners[lonely, nearest[lonely]] = True
    return partners


def hoeffding_p_values(sums: FloatArray, background: float) -> FloatArray:
    """Hoeffding's bound on the chance of so much agreement with one's partners: (m,), not a number without tasks."""
    shared, seen, expected = sums
    n = np.maximum(shared, 1)
    a, e = np.clip(seen / n, 0, 1), np.clip(null_agreement(shared, expected, background) / n, 1e-12, 1 - 1e-12)
    with np.errstate(divide="ignore", invalid="ignore"):
        divergence = np.where(a > 0, a * np.log(a / e), 0) + np.where(a < 1, (1 - a) * np.log((1 - a) / (1 - e)), 0)
    p_value = np.where(a > e, np.exp(-n * divergence), 1.0)
    return np.where(shared > 0, p_value, np.nan)


def cluster_agreeing_workers(
    sums: FloatArray, members: IntArray, background: float, margin: float = MARGIN, fewest: int = 1
) -> list[IntArray]:
    """Clusters of the members (rows of the sums): the two that agree most are joined as long as they stand out.

    Two clusters agree by κ of all their pairs together, with a few tasks added that show no excess. Never fewer than
    `fewest`, those of one worker counted; those of several are returned.
    """
    shared, same, expected = (table[np.ix_(members, members)] for table in sums[:3])
    gain, room = same - expected - background * (shared - expected), shared - expected
    value = gain / (room + SHRINK)
    np.fill_diagonal(value, -np.inf)
    parts = {number: np.array([row]) for number, row in enumerate(members)}
    while len(parts) > fewest:
        one, two = divmod(int(value.argmax()), members.size)
        if value[one, two] < margin:
            break
        for table in (gain, room):
            table[one] += table[two]
            table[:, one] = table[one]
        value[one] = gain[one] / (room[one] + SHRINK)
        value[one, [place for place in range(members.size) if place == one or place not in parts]] = -np.inf
        value[:, one] = value[one]
        value[two], value[:, two] = -np.inf, -np.inf
        parts[one] = np.concatenate([parts[one], parts.pop(two)])
    return [np.sort(part) for part in parts.values() if part.size > 1]


def find_members_sharing_errors(sums: FloatArray, rows: IntArray) -> BoolArray:
    """Whether each of a cluster gives the same wrong answers as the rest of it, more than independent workers do.

    This is what difficulty cannot feign: on hard tasks many are wrong, but not in the same way.
    """
    off, off_expected, alike, alike_expected = (table[np.ix_(rows, rows)].sum(axis=1) for table in sums[3:])
    seen, expected = alike / np.maximum(off, 1), alike_expected / np.maximum(off_expected, 1e-12)
    more: BoolArray = seen > expected + MARGIN
    return more
