"""Colluders: a block of workers who agree with each other far more than their skill explains.

Honest workers agree because both know the class. With σ the chance that two agree and c = σ - Σ_k P(k) P'(k) what is
beyond their habits, the matrix of honest workers is low rank off its diagonal; workers who settle answers among
themselves agree beyond that, with each other only:

    Σ = low rank + diagonal,   except for the block of the colluders.

P. Traganitis and G. Giannakis (2021), "Detecting adversaries in crowdsourcing", ICDM; as told in Ibrahim et al. 2025,
"Annotator agreement matrix". The block is told from the honest by a trusted worker, or because at least half are
honest.

| step | here |
|---|---|
| agreement beyond habits of every two workers, over the tasks they share | `covariance_spammers.label_covariances` |
| skills s with c ≈ s s' for at least half of each worker's partners | `estimate_robust_skills` |
| pairs that agree beyond s s' + `MARGIN`: exact binomial tail, Bonferroni over all pairs | `pair_p_values` |
| blocks: connected pairs, three workers or more | `find_colluders` |
| σ = u · u' with u = vec(D^½ A), A the members' matrices against the outsiders' consensus | `unexplained_agreement` |

A block is flagged if its members agree beyond `MARGIN` of σ = u · u' too: workers who merely share a confusion of
classes agree beyond one skill each, but not beyond their matrices. Those who copy each other but know something agree
as well; where they are known to depend on each other (`groups`), they are flagged only if most others say something
else more often than not where they are of one mind (`share_against_others`).

Assumes that honest workers err independently given the class and how hard the task is: if skill on hard tasks falls by
a common factor, c is still s s' up to that factor, and the margin is for the rest. Sees no block of fewer than three
workers or fewer than `FEWEST` shared tasks. If colluders are the majority and nobody is trusted, the honest are the
block that stands out. Of two classes, colluders who are nearly always wrong agree little beyond that, and may be found
as workers who say the opposite instead (`find_spammers`).

Cost: O(pairs of labels that share a task × K), and workers² log workers a step, of the `MOST_WORKERS` busiest.

Departures. The slides give the model, not the algorithm. Rank one of c, fitted by medians, proposes a block: c instead
of σ, so that two who always say the same class do not seem to collude. The full rank K² of σ then judges it, with u
from the outsiders' consensus instead of from σ itself, of which K² dimensions are hard to tell by agreement alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import betainc

from crowdwise.audit.audit_tests import AuditTest, FindingKind
from crowdwise.audit.covariance_spammers import label_covariances
from crowdwise.audit.finding_types import Finding, Screen
from crowdwise.audit.leave_out_consensus import smoothed_consensus
from crowdwise.fitting.parameter_checks import check_random_state
from crowdwise.kernels import pair_agreements, worker_answer_sums
from crowdwise.labels.errors import InputError, listing, quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["TEST", "find_colluders"]

KIND = "colluders"

MARGIN = 0.15  # of agreement, that skills may leave unexplained
FEWEST = 20  # tasks that two share, to be compared
SMALLEST = 3  # workers of a block
HONEST = 0.25  # of the crowd, at least, that are honest where a trusted worker says who
MOST_WORKERS = 500
AGAINST = 0.5  # of the tasks a block is of one mind on, that it stands against the others, to be called colluding
STEPS = 100  # of the medians


def weighted_medians(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Of each row (M,): where the weights of the smaller values come to half; 0 without weights."""
    order = values.argsort(axis=1, kind="stable")
    summed = np.take_along_axis(weights, order, axis=1).cumsum(axis=1)
    at = (summed >= summed[:, -1:] / 2).argmax(axis=1)
    found = np.take_along_axis(values, order, axis=1)[np.arange(values.shape[0]), at]
    return np.where(summed[:, -1] > 0, found, 0.0)


def estimate_robust_skills(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Skills s (M,) with values ≈ s s' off the diagonal, each the median of what their partners tell of it.

    So that colluders do not move it as long as they are fewer than half of anyone's partners: partners, not labels, for
    pairs count alike from `FEWEST` shared tasks on.
    """
    weights = np.minimum(weights, FEWEST)
    skill = weighted_medians(values, weights)
    above = skill[skill > 0]
    if not above.size:
        return np.zeros_like(skill)
    skill = np.clip(skill / np.sqrt(np.median(above)), -1, 1)
    for _ in range(STEPS):
        safe = np.where(np.abs(skill) < 1e-3, 1e-3, skill)
        step = np.clip(weighted_medians(values / safe, weights), -1, 1) - skill
        skill = skill + step / 2
        if np.abs(step).max() < 1e-4:
            break
    return np.asarray(skill)


def pair_p_values(values: FloatArray, shared: FloatArray, agreeing: FloatArray, skill: FloatArray) -> FloatArray:
    """Chance (M, M) that two of such skills agree as often as they do; not a number where they share too few tasks."""
    pairs = np.triu(shared >= FEWEST, 1)
    first, second = np.nonzero(pairs)
    n, same = shared[first, second], agreeing[first, second]
    habits = same / n - values[first, second]
    explained = np.clip(habits + np.maximum(skill[first] * skill[second], 0) + MARGIN, 0, 1)
    p_values = np.full(values.shape, np.nan)
    # A binomial's chance of `same` or more, as scipy.stats would say it, which takes most of a second to import.
    p_values[first, second] = np.where(same > 0, betainc(np.maximum(same, 1), n - same + 1, explained), 1.0)
    p_values[second, first] = p_values[first, second]
    return p_values


def unexplained_agreement(
    labels: CrowdLabels, block: BoolArray, agreement: FloatArray, shared: FloatArray
) -> FloatArray:
    """Mean agreement (M,) of each member with the rest of the block beyond u_m · u_m'; 0 for outsiders.

    The members' confusion matrices are counted against what the outsiders say.
    """
    theirs = block[labels.worker]
    posterior = smoothed_consensus(labels.keep(~theirs))
    members = labels.keep(theirs)
    said = posterior[members.task]
    counts = np.stack([worker_answer_sums(members, column) for column in said.T], axis=1)[block]
    prior = said.mean(axis=0)
    confusion = counts / np.maximum(counts.sum(axis=2, keepdims=True), 1e-300)
    rows = (np.sqrt(prior)[:, None] * confusion).reshape(confusion.shape[0], -1)
    weights = shared[np.ix_(block, block)] * (1 - np.eye(rows.shape[0]))
    excess = (weights * (agreement[np.ix_(block, block)] - rows @ rows.T)).sum(axis=1)
    found = np.zeros(labels.n_workers)
    found[block] = excess / np.maximum(weights.sum(axis=1), 1)
    return found


def share_against_others(labels: CrowdLabels, block: BoolArray) -> float:
    """Share of the tasks on which a block is of one mind, and another class has more of the others' votes."""
    theirs = block[labels.worker]
    outsiders, members = labels.keep(~theirs), labels.keep(theirs)
    votes = members.vote_counts()
    settled = (votes.max(axis=1) >= 2) & (votes.max(axis=1) == votes.sum(axis=1)) & (outsiders.labels_per_task > 0)
    others = outsiders.vote_counts()
    against = others[np.arange(labels.n_tasks), votes.argmax(axis=1)] < others.max(axis=1)
    return float(against[settled].mean()) if settled.any() else 0.0


def find_colluders(
    labels: CrowdLabels,
    *,
    level: float = 0.05,
    random_state: int = 0,
    trusted: Sequence[Any] | None = None,
    groups: IntArray | None = None,
) -> Screen:
    """Flag blocks of workers who agree with each other beyond what their skill explains.

    Parameters
    ----------
    level
        Chance of flagging anyone in a crowd without colluders.
    random_state
        Not used: nothing here is random.
    trusted
        Workers who are known to be honest. Without them, at least half of the crowd is taken to be.
    groups : (M,)
        Who is known to depend on whom, -1 for those who depend on nobody. A block within a group is flagged only if it
        stands against the others.

    Returns
    -------
    Screen
        One finding for each block. `score` is a member's mean agreement with the block beyond what is explained, 0 for
        the others; `p_value` that of the block's least suspicious member, corrected for all pairs.

    Examples
    --------
    >>> from crowdwise.simulate.adversaries import colluders
    >>> crowd = colluders(n_tasks=300, n_workers=12, share=0.25, random_state=0)
    >>> [finding.names for finding in find_colluders(crowd.labels).findings]
    [(9, 10, 11)]
    """
    if not 0 < level < 1:
        raise InputError(f"level is {level}; it must lie between 0 and 1, both excluded.")
    check_random_state(random_state)
    busiest = np.sort(np.argsort(-labels.labels_per_worker, kind="stable")[:MOST_WORKERS])
    honest = mark_trusted(labels, trusted)[busiest]
    names = labels.workers.take(busiest).to_pylist()
    part = labels if labels.n_workers <= MOST_WORKERS else labels.select(workers=names)
    values, shared = label_covariances(part)
    compared = (shared >= FEWEST).any(axis=1)
    if int(compared.sum()) <= SMALLEST:
        return Screen(KIND, skipped=f"Fewer than {SMALLEST + 1} workers share {FEWEST} tasks with another.")
    skill = estimate_robust_skills(values, shared)
    agreeing = _count_agreements(part)
    p_values = pair_p_values(values, shared, agreeing, skill)
    n_pairs = int(np.isfinite(p_values).sum()) // 2
    p_values = np.minimum(p_values * n_pairs, 1.0)
    _, block_of = connected_components(
        coo_array(np.nan_to_num(p_values, nan=1.0) <= level).astype(np.int8), directed=False
    )

    score, p_value = np.where(compared, 0.0, np.nan), np.where(compared, 1.0, np.nan)
    findings = []
    undecided = False
    for number in np.flatnonzero(np.bincount(block_of) >= SMALLEST):
        block = apart = block_of == number
        if honest[block].any():
            # Too few to be all that is honest: the trusted worker may be whom the others copy.
            if int(block.sum()) < HONEST * int(compared.sum()):
                continue
            block = compared & ~block
        elif 2 * int(block.sum()) >= int(compared.sum()) and not honest.any():
            undecided = True
            continue
        excess = unexplained_agreement(part, block, agreeing / np.maximum(shared, 1), shared)
        block &= (excess > MARGIN) & ~(score > 0)
        if int(block.sum()) < SMALLEST:
            continue
        inside = p_values[np.ix_(apart, apart)]
        least = float(np.nanmin(inside, axis=1).max())  # of those who stand apart, on this side or the other
        against = share_against_others(part, block)
        if against < AGAINST and _in_same_group(groups, busiest[block]):
            continue
        score[block], p_value[block] = np.clip(excess[block], 0, 1), least
        findings.append(_make_finding(part, block, values, float(excess[block].mean()), least, n_pairs, against))
    if undecided and not findings:
        return Screen(
            KIND,
            skipped="Half of the workers or more agree beyond their skill: which half is honest? Name one you trust.",
        )
    return Screen(
        KIND,
        tuple(findings),
        _expand_to_all_workers(score, busiest, labels),
        _expand_to_all_workers(p_value, busiest, labels),
    )


def _in_same_group(groups: IntArray | None, members: IntArray) -> bool:
    """Whether all members belong to the same group."""
    return groups is not None and bool(groups[members[0]] >= 0) and bool((groups[members] == groups[members[0]]).all())


def _make_finding(
    labels: CrowdLabels,
    block: BoolArray,
    values: FloatArray,
    excess: float,
    p_value: float,
    n_pairs: int,
    against: float,
) -> Finding:
    names = sorted(name for name, member in zip(labels.workers.to_pylist(), block, strict=True) if member)
    within = values[np.ix_(block, block)]
    without = values[np.ix_(block, ~block)]
    return Finding(
        kind=KIND,
        about="workers",
        names=tuple(names),
        score=float(np.clip(excess, 0, 1)),
        verdict="agree with each other beyond what they know",
        evidence=(
            f"{len(names)} workers ({listing(names)}) agree with each other on "
            f"{within.sum() / max(len(names) * (len(names) - 1), 1):.0%} of tasks beyond what habit explains, and with "
            f"others on {max(without.mean(), 0):.0%}; what they know leaves {excess:.0%} unexplained. Where they all "
            f"give one answer, most others give another on {against:.0%} of tasks."
        ),
        p_value=p_value,
        how=f"exact binomial tail of each pair's agreement, Bonferroni over {n_pairs:,} pairs",
        advice="Count their labels as one opinion at most: leave them out (prune), and look at the tasks where they "
        "stand against the others.",
    )


def mark_trusted(labels: CrowdLabels, trusted: Sequence[Any] | None) -> BoolArray:
    """Whether each worker is trusted (M,)."""
    names = labels.workers.to_pylist()
    if isinstance(trusted, str | bytes) or not np.iterable(() if trusted is None else trusted):
        raise InputError(f"trusted is {quote(trusted)}; it must be a list of workers.")
    wanted = [] if trusted is None else list(trusted)
    if any(isinstance(name, np.ndarray | np.void) for name in wanted):
        raise InputError("trusted must be a list of workers, not a table.")
    if unknown := [name for name in wanted if name not in names]:
        raise InputError(f"trusted names workers who are not in these labels: {listing(unknown)}.")
    return np.fromiter((name in wanted for name in names), np.bool_, len(names))


def _count_agreements(labels: CrowdLabels) -> FloatArray:
    """Shared tasks on which every two workers agree (M, M)."""
    first, second, same, _ = pair_agreements(labels)
    found = np.zeros((labels.n_workers, labels.n_workers))
    found[first, second] = same
    found[second, first] = same
    return found


def _expand_to_all_workers(values: FloatArray, busiest: IntArray, labels: CrowdLabels) -> FloatArray:
    """Values of the busiest as values of all workers, not a number for the others."""
    every = np.full(labels.n_workers, np.nan)
    every[busiest] = values
    return every


TEST = AuditTest(
    order=30,
    kinds=(
        FindingKind(
            KIND,
            "Colluding workers",
            "colluder",
            "colluders",
            means="a block agrees with each other far beyond what their skill explains; those who merely "
            "copy are dependent workers",
            assumes="half of the crowd is honest, or `trusted`",
        ),
    ),
    question="Does a block of workers agree on the same wrong answers?",
    run=lambda crowd, level: find_colluders(
        crowd.labels,
        level=level,
        random_state=crowd.random_state,
        trusted=crowd.trusted,
        groups=None if crowd.dependence is None else crowd.dependence.groups,
    ),
    accuses=True,
    citation="Traganitis & Giannakis 2021, ICDM (Detecting adversaries in crowdsourcing)",
)
