"""Spammers: workers whose labels say next to nothing, told from those who are merely weak or have done little.

A worker's labels are held against what the others say of the same tasks, q (`posterior_from_others`), in a model of one
number: with chance s the worker gives the class, else answers by a habit h that does not look at the task,

    P(label = l on task t) = (1 - s) h_l + s q_t(l).

s is the worker's *attention*, the share of answers that follow the task: 1 for who always gives the class, 0 for a
spammer, be it at random or always the same. It is not the chance of a right answer, which a habit has too.

A spammer is one whose s is below a bound: the s at which a label tells the share `TOLD` of what it can, log2 K bits (of
two equal classes, an accuracy of 2/3), or half the attention that the others show on the same tasks if that is less:
where the tasks are hard or the others are no better, so that q is poor, everyone's s looks small, and a worker is
judged by that measure.

| step | here |
|---|---|
| attention of the others on a worker's tasks | `attention.attention_of_others` |
| likelihood of r = s / that, on a grid, with the best habit for each | `kernels.habits` |
| how r is spread over this crowd (nonparametric empirical Bayes) | `attention.fit_attention_mixture` |
| chance that a worker is *not* a spammer, P(r ≥ bound given the labels) | `worker_attention_posterior` |
| whom to flag: the mean of that chance over all who are flagged is at most the level | `cumulative_mean_chances` |

So the crowd itself says how unusual a spammer is in it: among workers who all do well, one who does badly needs more
labels to be sure of, and in an honest crowd there is nobody below the bound to be found. Whoever is flagged is so by
their own labels (at least `OWN` times as likely below the bound as above), never by what others do alone.

Whose slope is below 0 beyond chance does not spam: such labels carry information, upside down, and have a finding of
their own, "opposite" (Holm over workers). Who is independent by the slope but not by the whole table (swaps classes,
say) is not flagged. The two tests share the level.

Nothing here is random: same labels, same answer, whatever the seed.

Assumes that workers err independently given the class. A spammer who stands beside one other worker on each of their
tasks is found only if that worker is known by other tasks. A majority that is wrong together makes the honest look
opposite.

B. Efron, R. Tibshirani, J. Storey and V. Tusher (2001), "Empirical Bayes analysis of a microarray experiment", JASA 96,
for the rule; V. Raykar and S. Yu (2012), "Eliminating spammers and ranking annotators for crowdsourced labeling tasks",
JMLR 13, for what a spammer is.

Cost: that of `leave_out_consensus.posterior_from_others`, O(labels × K) for each step here, and workers × K³.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, xlogy

from crowdwise.audit.attention import (
    attention_of_others,
    attention_slopes,
    fit_attention_mixture,
    mean_posterior_of_others,
    measure_label_dependence,
)
from crowdwise.audit.audit_tests import AuditTest, FindingKind
from crowdwise.audit.colluders import TEST as COLLUDERS
from crowdwise.audit.finding_types import Finding, Screen, holm_correction
from crowdwise.audit.leave_out_consensus import posterior_from_others
from crowdwise.audit.pruning import prune
from crowdwise.fitting.parameter_checks import check_random_state
from crowdwise.kernels import worker_answer_sums, worker_sums
from crowdwise.kernels.habit_mixture import profile_likelihood
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from crowdwise.audit.audit_tests import CrowdContext
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["TEST", "find_spammers"]

KIND, OPPOSITE = "spammer", "opposite"

TOLD = 0.08  # share of log2 K bits that a label tells, from which on nobody is a spammer
SHARE = 0.5  # of the others' attention on the same tasks, from which on nobody is a spammer
FEWEST = 20  # labels of a worker who is tested
FEWEST_IN_MIXTURE = 2  # labels of a worker who tells anything of how attention is spread over the crowd
LEAST_USUAL = 0.02  # attention of the others, below which they tell nothing
GRID = np.concatenate([np.arange(0, 1.01, 0.05), [1.15, 1.3, 1.5]])  # attention relative to the others'
PSEUDO_WORKERS = 0.2, 1.8  # below `SHARE` and above it, that every crowd's mixture starts from
SPREAD = 0.3  # standard deviation about 1 of the relative attention of the pseudo-workers above `SHARE`
OWN = 1.0  # times as likely below the bound as above that a worker's own labels must be
DOUBT = 0.5  # chance of being no spammer, with which nobody is flagged
SWAPS = 0.01  # p-value of other dependence on the task by which a worker is no spammer
SURE = 0.05  # chance of a mistake up to which a finding needs no "it seems"
ADVICE = "Leave these labels out (prune), and give this worker no more to do before you know why."
UNSURE_ADVICE = "Look at some of these answers before you act: this may be a weak but honest worker."
ALWAYS = 0.98  # share of one class from which on a spammer "always says" it


def bits_to_attention(bits: float, n_classes: int) -> float:
    """The attention at which a label tells so many bits, where classes and habits are equally shared.

    >>> [round(bits_to_attention(0.08 * np.log2(n_classes), n_classes), 2) for n_classes in (2, 4, 10)]
    [0.33, 0.29, 0.25]
    """

    def label_information_bits(share: float) -> float:
        rest = (1 - share) / n_classes
        entropy = -xlogy(share + rest, share + rest) - (n_classes - 1) * xlogy(rest, rest)
        return float((np.log(n_classes) - entropy) / np.log(2))

    return float(brentq(lambda share: label_information_bits(share) - bits, 0.0, 1.0))


def spread_pseudo_workers() -> FloatArray:
    """Pseudo-workers at each point of `GRID`: spammers evenly below `SHARE`, the others around the usual attention.

    Few honest workers have half of what is usual. Pseudo-workers spread evenly up to there would say that many do, and
    hide guessers of few labels, whose attention seems to be of that size by chance.

    >>> spread_pseudo_workers().sum().round(6), spread_pseudo_workers().argmax() == np.searchsorted(GRID, 1.0)
    (np.float64(2.0), np.True_)
    """
    low = GRID < SHARE
    usual = np.where(low, 0.0, np.exp(-((GRID - 1) ** 2) / (2 * SPREAD**2)))
    spread: FloatArray = PSEUDO_WORKERS[0] * low / low.sum() + PSEUDO_WORKERS[1] * usual / usual.sum()
    return spread


class WorkerJudgements(NamedTuple):
    """What is said of each worker (M,)."""

    honest: FloatArray  # chance that their attention is the bound or more
    factor: FloatArray  # how much likelier their own labels are below the bound than above (Bayes factor)
    attention: FloatArray  # mean of the posterior


def worker_attention_posterior(
    labels: CrowdLabels, beside: FloatArray, usual: FloatArray, bound: FloatArray
) -> WorkerJudgements:
    """Posterior of each worker's attention, with the spread of attention over this crowd for a prior.

    Parameters
    ----------
    beside : (S,)
        What the others say of the class that each label names.
    usual, bound : (M,)
    """
    grid = np.minimum(GRID * usual[:, None], 1.0)
    likely = profile_likelihood(labels, beside, grid)
    below = grid < bound[:, None]
    known = (labels.labels_per_worker >= FEWEST_IN_MIXTURE) & (usual >= LEAST_USUAL)
    share = fit_attention_mixture(likely[known], spread_pseudo_workers())
    joint = share * np.exp(likely - likely.max(axis=1, keepdims=True))
    low_mass, high_mass = (joint * below).sum(axis=1), (joint * ~below).sum(axis=1)
    prior = (share * below).sum(axis=1)
    odds = low_mass * (1 - prior) / np.maximum(high_mass * prior, 1e-300)
    total = joint.sum(axis=1)
    return WorkerJudgements(high_mass / total, odds, (joint * grid).sum(axis=1) / total)


def cumulative_mean_chances(chances: FloatArray) -> FloatArray:
    """Mean chance of being honest over a worker and all who are less likely to be, (M,).

    Flagging all at most α expects a share of at most α of those flagged to be honest; not a number stays so.

    >>> cumulative_mean_chances(np.array([0.03, 0.01, np.nan, 0.5])).round(3).tolist()
    [0.02, 0.01, nan, 0.18]
    """
    found = np.full(chances.shape, np.nan)
    known = np.flatnonzero(~np.isnan(chances))
    order = known[np.argsort(chances[known], kind="stable")]
    found[order] = np.cumsum(chances[order]) / np.arange(1, order.size + 1)
    return found


def find_spammers(
    labels: CrowdLabels, *, level: float = 0.05, random_state: int = 0, opposite_level: float | None = None
) -> Screen:
    """Flag workers whose labels carry next to no information, and those who say the opposite.

    Parameters
    ----------
    level
        Of those flagged as spammers, the share who are expected to be none.
    random_state
        Not used: nothing here is random.
    opposite_level
        Chance of flagging anyone as opposite in a crowd without such workers; a third of `level` if not given.

    Returns
    -------
    Screen
        `score` is 1 less the worker's share of the attention that others show on the same tasks; `p_value` is the
        chance of being no spammer, averaged with those of all who are more surely one.

    Examples
    --------
    >>> from crowdwise.simulate.adversaries import spammers
    >>> crowd = spammers(n_tasks=500, n_workers=8, n_classes=3, share=0.25, random_state=0)
    >>> [finding.names for finding in find_spammers(crowd.labels).findings]
    [(6,), (7,)]
    """
    if not 0 < level < 1:
        raise InputError(f"level is {level}; it must lie between 0 and 1, both excluded.")
    check_random_state(random_state)
    if labels.n_classes < 2:
        return Screen(KIND, skipped="There is one class only.")
    said, told = posterior_from_others(labels)
    kept = labels.keep(told)
    said = said[told]
    number = kept.labels_per_worker
    enough = number >= FEWEST
    if not enough.any():
        return Screen(KIND, skipped=f"No worker has {FEWEST} labels on tasks that others have labelled too.")
    found = attention_slopes(kept, said)
    usual, _ = attention_of_others(kept, found)
    tested = enough & (usual >= LEAST_USUAL)
    if not tested.any():
        return Screen(KIND, skipped="The workers agree too little with each other to be sure of one.")
    used = max(int((kept.class_shares > 0).sum()), 2)
    bound = np.minimum(SHARE * usual, bits_to_attention(TOLD * np.log2(used), used))
    judged = worker_attention_posterior(kept, said[np.arange(kept.n_labels), kept.label], usual, bound)
    spam = cumulative_mean_chances(np.where(tested, judged.honest, np.nan))
    depends = measure_label_dependence(kept, said, found)
    opposite = holm_correction(np.where(enough, ndtr(depends.z), np.nan))
    swaps = depends.p_value(_pillai_trace_at_bound(kept, said, bound)) < SWAPS
    worse = enough & (opposite <= (level / 3 if opposite_level is None else opposite_level))
    sure = (spam <= level) & (judged.honest <= DOUBT) & (judged.factor >= OWN)
    flagged = tested & sure & ~swaps & ~worse
    score = np.where(tested, 1 - np.clip(judged.attention / np.maximum(usual, LEAST_USUAL), 0.0, 1.0), np.nan)
    names = labels.workers.to_pylist()
    findings = [
        Finding(
            kind=KIND,
            about="worker",
            names=(names[w],),
            score=float(score[w]),
            verdict=_describe_verdict(kept, int(w)) + ("" if judged.honest[w] <= SURE else ", it seems"),
            evidence=(
                f"{number[w]:,} labels on tasks that others labelled too: about {judged.attention[w]:.0%} of them "
                f"follow the task, where {usual[w]:.0%} of the others' labels on the same tasks do; the rest follow a "
                f"habit. The chance that this is a mistake is {_format_small_chance(judged.honest[w])}."
            ),
            p_value=float(spam[w]),
            how=(
                f"posterior chance that {bound[w]:.0%} or more of the labels follow the task, given how workers "
                f"differ in this crowd (empirical Bayes), averaged over all who are flagged more surely; "
                f"{int(tested.sum()):,} workers tested"
            ),
            advice=ADVICE if judged.honest[w] <= SURE else UNSURE_ADVICE,
        )
        for w in np.flatnonzero(flagged)
    ]
    findings += [
        Finding(
            kind=OPPOSITE,
            about="worker",
            names=(names[w],),
            score=float(np.clip(-found.slope[w], 0.0, 1.0)),
            verdict="says the opposite",
            evidence=(
                f"{number[w]:,} labels on tasks that others labelled too: agrees with the others less often than "
                "someone who gives the same answers in any order would."
            ),
            p_value=float(opposite[w]),
            how=(
                f"slope of the labels on the others' {found.slope[w]:.2f}, z = {depends.z[w]:.1f} by its mean and "
                f"variance over all orders of the labels, Holm over {int(enough.sum()):,} workers"
            ),
            advice="Ask whether the classes were mixed up. A method with confusion matrices (dawid-skene) can use "
            "these labels as they are; a vote cannot.",
        )
        for w in np.flatnonzero(worse)
    ]
    return Screen(KIND, tuple(findings), score, spam)


def _format_small_chance(chance: float) -> str:
    """A small chance in words."""
    return f"{chance:.1%}" if chance >= 0.001 else "below 0.1 %"


def _pillai_trace_at_bound(labels: CrowdLabels, said: FloatArray, bound: FloatArray) -> FloatArray:
    """What a worker at the bound adds to Pillai's trace (M,)."""
    mean = mean_posterior_of_others(labels, said)
    variance = np.stack(
        [worker_sums(labels, (said[:, k] - mean[labels.worker, k]) ** 2) for k in range(labels.n_classes)], 1
    )
    return np.asarray(bound**2 * np.divide(variance, mean, out=np.zeros_like(mean), where=mean > 0).sum(axis=1))


def _describe_verdict(labels: CrowdLabels, worker: int) -> str:
    answers = worker_answer_sums(labels)[worker]
    most = int(answers.argmax())
    if answers[most] < ALWAYS * answers.sum():
        return "labels carry next to no information"
    return f"always says {quote(labels.classes[most].as_py())}"


def _run_without_colluders(crowd: CrowdContext, level: float) -> Screen:
    """Removes colluders first: otherwise honest workers disagree with the block and look opposite.

    Of those flagged as spammers the audit's level is the share expected to be none: that is no chance of flagging
    anyone in an honest crowd, which is far smaller (`benchmarks/false_alarms.py`).
    """
    labels, blocks = crowd.labels, crowd.run(COLLUDERS).findings
    left = int((labels.labels_per_worker > 0).sum()) > sum(len(block.names) for block in blocks)
    rest = prune(labels, blocks)[0] if left else labels
    return find_spammers(rest, level=crowd.level, random_state=crowd.random_state, opposite_level=level)


TEST = AuditTest(
    order=20,
    kinds=(
        FindingKind(
            KIND,
            "Spammers",
            "spammer",
            "spammers",
            means="labels carry next to no information about what others see in the same tasks: always "
            "one answer, or guesses",
            assumes="20 labels beside others'",
        ),
        FindingKind(
            OPPOSITE,
            "Workers who say the opposite",
            "who says the opposite",
            "who say the opposite",
            means="agrees with the others less than by guessing: classes may have been mixed up",
            assumes="the majority is right",
        ),
    ),
    question="Whose labels carry no information, or say the opposite?",
    run=_run_without_colluders,
    accuses=True,
)
