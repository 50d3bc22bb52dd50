"""The annotators of Tanno et al. 2019: pairwise-flippers, hammer-spammers, and four on CIFAR-10.

Readings, where the paper leaves a choice:

- "ε ~ Normal(0, 0.01)" (appendix B, figure 8) is taken as a *standard deviation* of .01: the text calls the
  noise small, and a variance of .01 would put skills of the lowest groups (p = .1) below zero.
- "always correct with probability p or otherwise chooses labels uniformly at random" (section 3.1) is taken
  word for word: uniform over all K classes, so the diagonal is p + (1-p)/K. The caption of figure 8 has the
  diagonal itself drawn around p; `uniform_over="others"` gives that.
- Figure 2 shows the four CIFAR-10 matrices without numbers. The values here are ours: they follow the
  description and make exactly 45 % of the labels right on average when classes are equally common.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from crowdwise.labels.errors import InputError, quote
from crowdwise.simulate.checks import check_share
from crowdwise.simulate.setting import Setting, add_setting_parameters
from crowdwise.simulate.workers import draw_flipper_confusion, hammer_confusion, symmetric_confusion

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray
    from crowdwise.simulate.simulation import Simulation

__all__ = ["CIFAR10", "cifar_annotators", "cifar_confusion", "hammer_spammers", "pairwise_flippers"]

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SIMILAR = (("airplane", "ship"), ("automobile", "truck"), ("bird", "frog"), ("cat", "dog"), ("deer", "horse"))

# Chances of the four annotators; .55 + .60 + .50 + .15 = 4 × .45.
HAMMER = 0.5  # right with .5 + .5/10
MIXER = 0.6  # the rest goes to the similar class
NEIGHBOUR = 0.5  # the rest is halved between the class before and the class after, in a circle
ADVERSARY = 0.15  # the rest goes to the class half the list away, never a similar or neighbouring one


@add_setting_parameters(n_tasks=1000, n_workers=5, n_classes=10, labels_per_task=None)
def pairwise_flippers(setting: Setting, *, skill: float = 0.3, noise: float = 0.01) -> Simulation:
    """Workers who flip each class to one wrong class of their own (Tanno et al. 2019, MNIST).

    Section 3.1 and appendix B of Tanno et al. 2019: right with probability `skill` + ε, ε ~ Normal(0, `noise`) for each
    worker; the target of each class is uniform over the other classes. Labels are dense where `labels_per_task` is
    None; the paper's sparse case is 1.

    Parameters
    ----------
    skill
        Mean skill p of the group, from 0 to 1.
    noise
        Standard deviation of the workers' skills around it; skills are cut to [0, 1].
    """
    confusion = draw_flipper_confusion(_draw_skills(setting, skill, noise), setting.n_classes, setting.rng)
    return setting.simulate_independent(*setting.draw_truth(), confusion)


@add_setting_parameters(n_tasks=1000, n_workers=5, n_classes=10, labels_per_task=None)
def hammer_spammers(
    setting: Setting, *, skill: float = 0.3, noise: float = 0.01, uniform_over: Literal["all", "others"] = "all"
) -> Simulation:
    """Workers who are right with probability p and otherwise guess uniformly (Tanno et al. 2019, MNIST).

    Section 3.1 and appendix B of Tanno et al. 2019, with ε ~ Normal(0, `noise`) added to each worker's p, which is cut
    to [0, 1].

    Parameters
    ----------
    skill, noise
        Mean p of the group and standard deviation around it, as for `pairwise_flippers`.
    uniform_over
        A guess falls on "all" classes (section 3.1: right with p + (1-p)/K in all), or on the "others"
        only (caption of figure 8: right with p).
    """
    if uniform_over not in ("all", "others"):
        raise InputError(f"uniform_over is {quote(uniform_over)}; it must be 'all' or 'others'.")
    population = hammer_confusion if uniform_over == "all" else symmetric_confusion
    confusion = population(_draw_skills(setting, skill, noise), setting.n_classes)
    return setting.simulate_independent(*setting.draw_truth(), confusion)


def cifar_confusion() -> FloatArray:
    """Confusion matrices of the four CIFAR-10 annotators of figure 2 (values ours, see the module)."""
    n_classes = len(CIFAR10)
    classes = np.arange(n_classes)
    partner = classes.copy()
    for one, other in SIMILAR:
        first, second = CIFAR10.index(one), CIFAR10.index(other)
        partner[[first, second]] = second, first
    matrices = np.zeros((4, n_classes, n_classes))
    matrices[0] = hammer_confusion([HAMMER], n_classes)[0]
    matrices[1:, classes, classes] = np.array([MIXER, NEIGHBOUR, ADVERSARY])[:, None]
    matrices[1, classes, partner] = 1 - MIXER
    matrices[2, classes, (classes + 1) % n_classes] = (1 - NEIGHBOUR) / 2
    matrices[2, classes, (classes - 1) % n_classes] = (1 - NEIGHBOUR) / 2
    matrices[3, classes, (classes + n_classes // 2) % n_classes] = 1 - ADVERSARY
    return matrices


@add_setting_parameters(n_tasks=1000, labels_per_task=None)
def cifar_annotators(setting: Setting) -> Simulation:
    """Four annotators of CIFAR-10, 45 % of labels right: guesser, mixer, neighbour, adversary (Tanno et al. 2019).

    Section 3.1 of Tanno et al. 2019: (i) a hammer-spammer, (ii) one who mixes up similar categories (cats and dogs,
    automobiles and trucks), (iii) one who confuses neighbouring classes, (iv) an adversary with a wrong
    association of class names to categories. Labels are dense where `labels_per_task` is None; the paper's sparse
    case is 1.
    """
    kinds = ("hammer-spammer", "similar-classes", "neighbouring-classes", "adversary")
    four = replace(setting, n_workers=len(kinds))
    truth, prior = setting.draw_truth(len(CIFAR10))
    return four.simulate_independent(truth, prior, cifar_confusion(), classes=CIFAR10, workers=kinds, kinds=kinds)


def _draw_skills(setting: Setting, skill: float, noise: float) -> FloatArray:
    mean = check_share(skill, "skill")
    if not 0 <= noise < np.inf:
        raise InputError(f"noise is {quote(noise)}; it must be a standard deviation, 0 or more.")
    return np.clip(mean + noise * setting.rng.standard_normal(setting.n_workers), 0, 1)
