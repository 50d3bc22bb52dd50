"""Raters of a wanted agreement with a reference (Wang et al. 2023), who make three for MURA's X-rays.

>>> from crowdwise.metrics import cohen_kappa
>>> crowd = kappa_raters(200_000, random_state=0)
>>> by_rater = crowd.labels.label.reshape(-1, 3).T
>>> [round(cohen_kappa(crowd.truth, labels), 2) for labels in by_rater]
[0.8, 0.75, 0.7]
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.labels.errors import InputError, quote
from crowdwise.simulate.setting import Setting, add_setting_parameters
from crowdwise.simulate.workers import unrelated_confusion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.labels.types import FloatArray
    from crowdwise.simulate.simulation import Simulation

__all__ = ["kappa_confusion", "kappa_raters"]


def kappa_confusion(kappas: FloatArray, shares: FloatArray) -> FloatArray:
    """Raters who give the reference with probability κ and otherwise draw from its class shares.

    The rater's shares are then the reference's, chance agrees with Σ p², and Cohen's κ of the two is κ. Of two classes,
    the second with share π, they flip it with probability (1 − κ)(1 − π), and the first with (1 − κ)π.

    >>> kappa_confusion(np.array([0.75]), np.array([0.8, 0.2]))[0].round(2).tolist()
    [[0.95, 0.05], [0.2, 0.8]]
    """
    weight = kappas[:, None, None]
    return weight * np.eye(shares.size) + (1 - weight) * unrelated_confusion(np.tile(shares, (kappas.size, 1)))


@add_setting_parameters(n_tasks=1000, n_classes=2)
def kappa_raters(setting: Setting, *, kappas: Sequence[float] = (0.8, 0.75, 0.7)) -> Simulation:
    """Raters who label everything, each of a given Cohen's κ to a reference (Wang et al. 2023, MURA).

    The reference is `truth`: where there is no objective one, a rater like the others. Wang et al. 2023 do not say how
    their raters err; these have the reference's class shares: one way is left with the κ wanted (`kappa_confusion`).

    Parameters
    ----------
    kappas
        Of each rater to the reference, from 0 (guesses) to 1 (repeats it), in expectation.
    """
    wanted = np.atleast_1d(np.asarray(kappas))
    if (
        wanted.ndim != 1
        or not wanted.size
        or wanted.dtype.kind not in "iuf"
        or not ((wanted >= 0) & (wanted <= 1)).all()
    ):
        raise InputError(f"kappas is {quote(kappas)}; it must hold a number from 0 to 1 for each rater.")
    codes, shares = setting.draw_truth()
    raters = replace(setting, n_workers=wanted.size)
    confusion = kappa_confusion(wanted.astype(np.float64), shares)
    return raters.simulate_independent(codes, shares, confusion, kinds=("rater",) * wanted.size)
