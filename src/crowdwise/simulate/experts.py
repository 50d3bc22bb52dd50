"""Seniors and juniors of Cao et al. 2019: cases 4.1–4.3 with the expertise of appendix B.

Every expert labels every task. For one data set, level, seed and number of tasks the three cases have the
same truth and the same labels of the same seniors, as section 4 asks; only the juniors differ.

The class that lazy juniors choose comes first in `classes`: "cat", "airplane", "benign" (case B.2).
Of a hard pair that an expert "labels the same class", the class is the one named first in appendix B.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from crowdwise.labels.errors import InputError, quote
from crowdwise.simulate.assignment import assign_everyone
from crowdwise.simulate.checks import check_count
from crowdwise.simulate.draws import draw_labels
from crowdwise.simulate.setting import Setting, add_setting_parameters
from crowdwise.simulate.simulation import Simulation
from crowdwise.simulate.tanno_annotators import CIFAR10
from crowdwise.simulate.workers import (
    class_wise_confusion,
    constant_confusion,
    symmetric_confusion,
    unrelated_confusion,
)

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["copied_coin", "correlated_mistakes", "independent_mistakes", "naive_majority", "senior_confusion"]

Data: TypeAlias = Literal["dogs-vs-cats", "cifar10", "luna16"]
Level: TypeAlias = Literal["high", "low"]

CLASSES = {"dogs-vs-cats": ("cat", "dog"), "cifar10": CIFAR10, "luna16": ("benign", "malignant")}
SENIOR_NAMES = "ABCDEFGHIJ"

# Appendix B.1, situation (H): skill on the first and the second class above, experts A to E.
# (The paper writes dogs/cats: A 0.6/0.8, B 0.6/0.6, C 0.9/0.6, D 0.7/0.7, E 0.6/0.7.)
DOGS_VS_CATS = ((0.8, 0.6), (0.6, 0.6), (0.6, 0.9), (0.7, 0.7), (0.7, 0.6))
LUNA16 = ((0.6, 0.9), (0.7, 0.7), (0.9, 0.6), (0.6, 0.7), (0.7, 0.6))
HARD_PAIRS = (
    ("cat", "dog"),
    ("deer", "horse"),
    ("airplane", "bird"),
    ("automobile", "truck"),
    ("frog", "ship"),
)
MAMMALS = 2  # the first two pairs are the mammals' that C knows; D knows the other three

# Situation (L): ten seniors of one skill.
LOW = {"dogs-vs-cats": 0.55, "cifar10": 0.2, "luna16": 0.6}

LAZY = {"high": 5, "low": 15}  # case B.2: juniors who say the first class
COPIES = {"high": (0, 0, 2, 2, 2), "low": (0, 2)}  # case B.3: the senior (A is 0, C is 2) each junior copies


@add_setting_parameters(n_tasks=1000)
def independent_mistakes(setting: Setting, *, data: Data = "cifar10", level: Level = "high") -> Simulation:
    """Senior experts who make independent mistakes (Cao et al. 2019, case 4.1).

    Case B.1 of Cao et al. 2019: five seniors of (H) high or ten of (L) low expertise.

    Parameters
    ----------
    data
        Whose experts: "dogs-vs-cats", "cifar10" or "luna16".
    level
        "high" (H) or "low" (L) expertise.
    """
    return _simulate_experts(setting, data, level)


@add_setting_parameters(n_tasks=1000)
def naive_majority(
    setting: Setting, *, data: Data = "cifar10", level: Level = "high", n_juniors: int | None = None
) -> Simulation:
    """Senior experts, and juniors who give everything the first class (Cao et al. 2019, case 4.2).

    Case B.2 of Cao et al. 2019: 5 seniors and 5 juniors (H), or 10 seniors and 15 juniors (L).

    Parameters
    ----------
    data, level
        As for `independent_mistakes`.
    n_juniors
        How many juniors, at least 0; None for those of case B.2. The authors' program has 5 on CIFAR-10 (L).
    """
    lazy = None if n_juniors is None else check_count(n_juniors, "n_juniors", 0)
    return _simulate_experts(setting, data, level, "lazy", lazy)


@add_setting_parameters(n_tasks=1000)
def correlated_mistakes(setting: Setting, *, data: Data = "cifar10", level: Level = "high") -> Simulation:
    """Senior experts, and juniors who copy one of them (Cao et al. 2019, case 4.3).

    Case B.3 of Cao et al. 2019: two juniors copy A and three copy C (H), or one copies A and one C (L). `groups`
    holds the senior whose labels each worker gives: its own number, if it is one.

    Parameters
    ----------
    data, level
        As for `independent_mistakes`.
    """
    return _simulate_experts(setting, data, level, "copies")


@add_setting_parameters(n_tasks=1000)
def copied_coin(setting: Setting, n_workers: int = 101) -> Simulation:
    """One expert who knows, one who tosses a coin, and all others copy the coin (Cao et al. 2019, example E.2).

    Two classes; the likelihood of independent workers prefers the coin to the truth (theorem E.3).

    Parameters
    ----------
    n_workers
        101 in the paper; at least 2.
    """
    n_workers = check_count(n_workers, "n_workers", 2)
    codes, shares = setting.draw_truth(2)
    originals = np.concatenate([np.eye(2)[None], unrelated_confusion(np.full((1, 2), 0.5))])
    copies = np.minimum(np.arange(n_workers), 1)
    label = _draw_all_labels(codes, originals, setting.rng)[:, copies].ravel()
    kinds = ("expert", "coin", *("copy",) * (n_workers - 2))
    assignment = assign_everyone(codes.size, n_workers)
    return Simulation.assemble(assignment, label, codes, originals[copies], shares, kinds=kinds, groups=copies)


def senior_confusion(data: str, level: str) -> FloatArray:
    """Confusion matrices of the seniors of appendix B.1: five (H) or ten (L)."""
    if data not in CLASSES or level not in ("high", "low"):
        raise InputError(
            f"data is {quote(data)} and level is {quote(level)}; data must be one of "
            f"{', '.join(map(repr, CLASSES))} and level 'high' or 'low'."
        )
    if level == "low":
        return symmetric_confusion(np.full(10, LOW[data]), len(CLASSES[data]))
    if data == "dogs-vs-cats":
        return class_wise_confusion(DOGS_VS_CATS)
    if data == "luna16":
        return class_wise_confusion(LUNA16)
    return _cifar_seniors()


def _cifar_seniors() -> FloatArray:
    """Return A to E; a block is P(label | truth) within a hard pair, and no other classes are mixed up."""
    same = ((1.0, 0.0), (1.0, 0.0))
    random = ((0.5, 0.5), (0.5, 0.5))
    known = ((1.0, 0.0), (0.0, 1.0))
    better = ((0.6, 0.4), (0.4, 0.6))
    matrices = np.zeros((5, len(CIFAR10), len(CIFAR10)))
    for number, pair in enumerate(HARD_PAIRS):
        mammals = number < MAMMALS
        blocks = (same, random, known if mammals else random, same if mammals else known, better)
        at = [CIFAR10.index(name) for name in pair]
        matrices[np.ix_(range(5), at, at)] = blocks
    return matrices


def _simulate_experts(
    setting: Setting, data: str, level: str, juniors: str = "none", lazy: int | None = None
) -> Simulation:
    seniors = senior_confusion(data, level)
    classes = CLASSES[data]
    codes, shares = setting.draw_truth(len(classes))
    said = _draw_all_labels(codes, seniors, setting.rng)
    n_seniors = len(seniors)
    copies = np.array([*range(n_seniors), *(COPIES[level] if juniors == "copies" else ())])
    n_lazy = 0 if juniors != "lazy" else LAZY[level] if lazy is None else lazy
    n_juniors = copies.size - n_seniors + n_lazy
    label = np.pad(said[:, copies], ((0, 0), (0, n_lazy)))  # the lazy say class 0
    return Simulation.assemble(
        assign_everyone(codes.size, n_seniors + n_juniors),
        label.ravel(),
        codes,
        np.concatenate([seniors[copies], constant_confusion(n_lazy, len(classes))]),
        shares,
        classes=classes,
        workers=(*SENIOR_NAMES[:n_seniors], *(f"junior-{number + 1}" for number in range(n_juniors))),
        kinds=("senior",) * n_seniors + ("junior",) * n_juniors,
        groups=copies if juniors == "copies" else None,
    )


def _draw_all_labels(truth: IntArray, confusion: FloatArray, rng: np.random.Generator) -> IntArray:
    """Labels of workers who label everything, tasks × workers."""
    label = draw_labels(assign_everyone(truth.size, len(confusion)), truth, confusion, rng)
    return label.reshape(truth.size, len(confusion))
