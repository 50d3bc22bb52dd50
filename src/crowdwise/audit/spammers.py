"""Spammers: workers whose labels say next to nothing, told from those who are merely weak or have done little.

A worker's labels are held against what the others say of the same tasks, q (`reference.others_say`), in a model of one
number: with chance s she gives the class, else she answers by a habit h that does not look at the task,

    P(label = l on task t) = (1 - s) h_l + s q_t(l).

s is her *skill*: 1 for who always gives the class, 0 for a spammer, be she random or always of one mind.

The null is that she is honest: s ≥ bound. She is flagged where that is rejected, i.e. where labels enough show that
whatever she knows is below the bound; too few labels flag nobody. The bound is the skill at which a label tells the
share `TOLD` of what it can, log2 K bits (of two equal classes, an accuracy of 2/3), or half the skill that the others
show on her own tasks if that is less: where the tasks are hard or the others are no better, so that q is poor,
everyone's s looks small, and she is judged by their measure. Who is honest but below the bound, sure enough, is
flagged: her labels say as little.

| quantity | here |
|---|---|
| s and h at their greatest likelihood, jointly concave, by EM | `kernels.habits` |
| p-value of s ≥ bound: signed root of the likelihood ratio | `too_weak` |
| skill as a slope, Σ_k cov(1[label = k], q_k) / Σ_k var(q_k); what s is on average in the model | `slopes` |
| skill of the others on a worker's tasks: a mean of slopes, weighed by skill on other tasks | `skill_beside` |
| do her labels depend on the others' at all: (n - 1) × Pillai's trace of labels against q, χ² | `dependence` |
| worse than chance: the slope against its exact mean and variance over all orders of her labels | `dependence` |

A worker whose slope is below 0 beyond chance does not spam: her labels carry information, upside down. She has a
finding of her own, "opposite". Who is independent by the slope but not by the whole table (she swaps classes, say) is
not flagged.

p-values are Holm's over the workers with labels enough to be flagged (which the others' labels decide, not hers), and
the two tests share the level.

Assumes that workers err independently given the class. A spammer who stands beside one other worker on each of her
tasks is not found: it could be either. A majority that is wrong together makes the honest look opposite.

Cost: that of `reference.others_say`, O(labels × K) for each step here, and workers × K³.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, xlogy
from scipy.stats import chi2

from crowdwise.audit.capacity import capacity
from crowdwise.audit.findings import Finding, Screen, holm
from crowdwise.audit.reference import one_hot, others_say
from crowdwise.fitting.parameters import check_count
from crowdwise.kernels import answer_sums, edge_outer, worker_sums
from crowdwise.kernels.habits import fit_habits
from crowdwise.labels.errors import InputError, quoted

if TYPE_CHECKING:
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["find_spammers"]

TOLD = 0.08  # share of log2 K bits that a label tells, from which on nobody is a spammer
SHARE = 0.5  # of the others' skill on the same tasks, from which on nobody is a spammer
FEWEST = 20  # labels of a worker who is tested
STEPS = 200  # of EM for one worker's skill
PRECISE = 1e-7  # change of a habit at which EM stops
ALWAYS = 0.98  # share of one class from which on a spammer "always says" it


@dataclass(frozen=True)
class Slopes:
    """What each label adds to its worker's slope: `above` (S,) over `spread` (S,); and the workers' sums and slope."""

    above: FloatArray
    spread: FloatArray
    slope: FloatArray


def too_weak(labels: CrowdLabels, beside: FloatArray, bound: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Each worker's skill (M,), and the p-value (M,) of the hypothesis that it is the bound or more."""
    skill, best = fit_habits(labels, beside, None, STEPS, PRECISE)
    answers = answer_sums(labels)
    # No skill at all: the habit is then her label shares, and EM, which nears 0 slowly, is spared the rest of the way.
    none = xlogy(answers, answers / np.maximum(answers.sum(axis=1, keepdims=True), 1)).sum(axis=1)
    skill, best = np.where(none >= best, 0.0, skill), np.maximum(none, best)
    _, at_bound = fit_habits(labels, beside, bound, STEPS, PRECISE)
    root = np.sqrt(2 * np.maximum(best - at_bound, 0.0))
    return skill, np.where(skill < bound, ndtr(-root), ndtr(root))


def skill_of_bits(bits: float, n_classes: int) -> float:
    """The skill at which a label tells so many bits, where classes and habits are equally shared.

    >>> [round(skill_of_bits(0.08 * np.log2(n_classes), n_classes), 2) for n_classes in (2, 4, 10)]
    [0.33, 0.29, 0.25]
    """

    def told(skill: float) -> float:
        rest = (1 - skill) / n_classes
        entropy = -xlogy(skill + rest, skill + rest) - (n_classes - 1) * xlogy(rest, rest)
        return float((np.log(n_classes) - entropy) / np.log(2))

    return float(brentq(lambda skill: told(skill) - bits, 0.0, 1.0))


def slopes(labels: CrowdLabels, said: FloatArray) -> Slopes:
    """Slopes of the labels on what the others say (S, K)."""
    number = np.maximum(labels.labels_per_worker, 1)
    shares = answer_sums(labels) / number[:, None]
    mean = _means(labels, said)
    beside = said[np.arange(labels.n_labels), labels.label]
    above = beside - np.einsum("sk,sk->s", said, shares[labels.worker])
    spread = ((said - mean[labels.worker]) ** 2).sum(axis=1)
    total = worker_sums(labels, spread)
    slope = np.divide(worker_sums(labels, above), total, out=np.zeros_like(total), where=total > 0)
    return Slopes(above, spread, slope)


def skill_beside(labels: CrowdLabels, found: Slopes, seed: int) -> FloatArray:
    """Skill of the others on each worker's tasks (M,), not a number where nothing is known of it.

    A mean of slopes, weighed by skill so that spammers do not lower it; the weights are from the other half of the
    tasks, so that chance does not raise it.
    """
    half = (np.random.default_rng(seed).permutation(labels.n_tasks) % 2).astype(np.bool_)[labels.task]
    weight = np.zeros(labels.n_labels)
    for mine in (half, ~half):
        spread = worker_sums(labels, np.where(mine, 0.0, found.spread))
        above = worker_sums(labels, np.where(mine, 0.0, found.above))
        other = np.divide(above, spread, out=np.zeros_like(spread), where=spread > 0)
        weight[mine] = np.maximum(other, 0.0)[labels.worker[mine]]
    sums = []
    for values in (weight * found.above, weight * found.spread):
        of_task = np.bincount(labels.task, values, labels.n_tasks)
        sums.append(worker_sums(labels, of_task[labels.task] - values))
    above, spread = sums
    known = spread > 1e-12 * max(labels.n_labels, 1)
    return np.divide(above, spread, out=np.full_like(above, np.nan), where=known)


@dataclass(frozen=True)
class Dependence:
    """Of each worker (M,): Pillai's trace times n - 1, its degrees of freedom, and z of the slope under permutation."""

    trace: FloatArray
    freedom: FloatArray
    z: FloatArray

    @property
    def p_value(self) -> FloatArray:
        """Of the hypothesis that her labels do not depend on what the others say."""
        return np.asarray(np.where(self.freedom > 0, chi2.sf(self.trace, np.maximum(self.freedom, 1)), 1.0))


def dependence(labels: CrowdLabels, said: FloatArray, found: Slopes) -> Dependence:
    """How each worker's labels vary with what the others say, beyond all orders in which she might have given them."""
    number = np.maximum(labels.labels_per_worker, 1).astype(np.float64)
    shares = answer_sums(labels) / number[:, None]
    mean = _means(labels, said)
    squares, cross = (
        edge_outer(given, said, labels.worker, labels.n_workers) / number[:, None, None]
        - about[:, :, None] * mean[:, None]
        for given, about in ((said, mean), (one_hot(labels), shares))
    )
    size = np.linalg.eigvalsh(squares)
    rank = (size > 1e-9).sum(axis=1)
    inverse = np.linalg.pinv(squares, rcond=1e-9 / np.maximum(size[:, -1], 1e-9), hermitian=True)
    scaled = np.divide(cross, shares[:, :, None], out=np.zeros_like(cross), where=shares[:, :, None] > 0)
    trace = (number - 1) * np.einsum("mkj,mji,mki->m", cross, inverse, scaled)
    freedom = np.maximum((shares > 0).sum(axis=1) - 1, 0) * rank
    varies = np.einsum("mk,mkk->m", shares, squares) - np.einsum("mk,mkj,mj->m", shares, squares, shares)
    deviation = number * np.sqrt(np.maximum(varies, 0.0) / np.maximum(number - 1, 1))
    z = np.divide(worker_sums(labels, found.above), deviation, out=np.zeros_like(number), where=deviation > 1e-9)
    return Dependence(trace, freedom.astype(np.float64), z)


def find_spammers(labels: CrowdLabels, *, level: float = 0.05, seed: int = 0) -> Screen:
    """Flag workers whose labels carry next to no information, and those who say the opposite.

    Parameters
    ----------
    level
        Chance of flagging anyone honest (skill at the bound or above) over the whole crowd.
    seed
        For how workers and tasks are dealt into folds.

    Returns
    -------
    Screen
        `score` is 1 less the worker's share of the skill that others show on her tasks; `p_value` is Holm's, of the
        hypothesis that she is no spammer.

    Examples
    --------
    >>> from crowdwise.simulate.adversaries import spammers
    >>> crowd = spammers(n_tasks=500, n_workers=8, n_classes=3, share=0.25, seed=0)
    >>> [finding.names for finding in find_spammers(crowd.labels).findings]
    [(6,), (7,)]
    """
    if not 0 < level < 1:
        raise InputError(f"level is {level}; it must lie between 0 and 1, both excluded.")
    check_count("seed", seed, low=0)
    kind = "spammer"
    if labels.n_classes < 2:
        return Screen(kind, skipped="There is one class only.")
    said, told = others_say(labels, seed)
    kept = labels.keep(told)
    said = said[told]
    number = kept.labels_per_worker
    if not (number >= FEWEST).any():
        return Screen(kind, skipped=f"No worker has {FEWEST} labels on tasks that others have labelled too.")
    found = slopes(kept, said)
    typical = skill_beside(kept, found, seed)
    used = max(int((kept.class_shares > 0).sum()), 2)
    most = skill_of_bits(TOLD * np.log2(used), used)
    bound = np.clip(SHARE * np.where(np.isnan(typical), 0.0, typical), 0.0, most)
    mean = _means(kept, said)
    variance = np.stack([worker_sums(kept, (said[:, k] - mean[kept.worker, k]) ** 2) for k in range(kept.n_classes)], 1)
    # What a worker at the bound adds to Pillai's trace; and what one without skill can show against the bound.
    strength = bound**2 * np.divide(variance, mean, out=np.zeros_like(mean), where=mean > 0).sum(axis=1)
    tested = (number >= FEWEST) & (strength >= float(ndtri(level / 2)) ** 2)
    if not tested.any():
        return Screen(
            kind, skipped="The workers have too few labels, or the others agree too little, to be sure of one."
        )
    skill, p_value = too_weak(kept, said[np.arange(kept.n_labels), kept.label], bound)
    depends = dependence(kept, said, found)
    enough = number >= FEWEST
    spam = np.minimum(2 * holm(np.where(tested, p_value, np.nan)), 1.0)
    opposite = np.minimum(2 * holm(np.where(enough, ndtr(depends.z), np.nan)), 1.0)
    silent = depends.trace - depends.freedom <= strength
    score = np.where(tested, 1 - np.clip(skill / np.where(tested, typical, 1.0), 0.0, 1.0), np.nan)

    worse = enough & (opposite <= level)
    flagged = tested & (spam <= level) & silent & ~worse
    tells = _bits(kept, skill, flagged)
    names = labels.workers.to_pylist()
    findings = [
        Finding(
            kind=kind,
            about="worker",
            names=(names[w],),
            score=float(score[w]),
            verdict=_verdict(kept, int(w)),
            evidence=(
                f"{number[w]:,} labels beside others'; skill {skill[w]:.2f} (0: none, 1: always right), where others "
                f"show {typical[w]:.2f} on the same tasks; a label tells {tells[w]:.3f} bits. Had "
                f"she never looked, her labels would follow the others' as closely with a chance of "
                f"{depends.p_value[w]:.2g}."
            ),
            p_value=float(spam[w]),
            how=f"likelihood ratio against a skill of {bound[w]:.2f} or more, Holm over {int(tested.sum())} workers",
            advice="Leave these labels out (prune), and give these workers no more to do before you know why.",
        )
        for w in np.flatnonzero(flagged)
    ]
    findings += [
        Finding(
            kind="opposite",
            about="worker",
            names=(names[w],),
            score=float(np.clip(-found.slope[w], 0.0, 1.0)),
            verdict="says the opposite",
            evidence=(
                f"{number[w]:,} labels beside others'; skill {found.slope[w]:.2f}, below 0: agrees with the others "
                f"less than by guessing (z = {depends.z[w]:.1f})."
            ),
            p_value=float(opposite[w]),
            how=f"mean and variance over all orders of the labels, Holm over {int(enough.sum())} workers",
            advice="Ask whether the classes were mixed up. A method with confusion matrices (dawid-skene) can use "
            "these labels as they are; a vote cannot.",
        )
        for w in np.flatnonzero(worse)
    ]
    return Screen(kind, tuple(findings), score, spam)


def _verdict(labels: CrowdLabels, worker: int) -> str:
    answers = answer_sums(labels)[worker]
    most = int(answers.argmax())
    if answers[most] < ALWAYS * answers.sum():
        return "labels carry next to no information"
    return f"always says {quoted(labels.classes[most].as_py())}"


def _means(labels: CrowdLabels, said: FloatArray) -> FloatArray:
    """Mean of what the others say over each worker's labels (M, K)."""
    number = np.maximum(labels.labels_per_worker, 1)
    return np.stack([worker_sums(labels, column) / number for column in said.T], axis=1)


def _bits(labels: CrowdLabels, skill: FloatArray, wanted: BoolArray) -> FloatArray:
    """Capacity (M,) of the channel that skill and label shares make, of the workers wanted; 0 for the others."""
    found = np.zeros(labels.n_workers)
    chosen = np.flatnonzero(wanted)
    if chosen.size:
        shares = answer_sums(labels)[chosen] / np.maximum(labels.labels_per_worker[chosen], 1)[:, None]
        s = skill[chosen, None, None]
        found[chosen] = capacity((1 - s) * shares[:, None, :] + s * np.eye(labels.n_classes))
    return found
