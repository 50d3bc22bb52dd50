"""Group-aware Dawid–Skene: workers of a group share a hidden opinion, and only the opinions depend on the truth.

The generative story. The truth of task t is drawn from the class prior. Every group j of workers who answer t has a
hidden opinion z on it, drawn from row Ξ[j, truth], independently of the other groups given the truth. Each worker w of
the group says l with probability Ã[w, z, l], independently given z. A worker in no group answers by the truth itself,
as in Dawid–Skene. Rows have Dirichlet priors with pseudo-counts (none for maximum likelihood). EM, exactly.

The tutorial's "DS model for dependent classifiers" (P. A. Traganitis and G. B. Giannakis 2022; A. Jaffe et al. 2016).

| in the model | here |
|---|---|
| P(a group's labels on a task given z) = Π_w Ã[w, z, label] | `fitting.structured_em.label_evidence` on opinions |
| P(a group's labels given the truth) = Σ_z Ξ[truth, z] Π_w Ã[w, z, label] | `evidence_from_groups` |
| q(truth) ∝ prior Π_groups Σ_z … Π_alone A | `e_step` |
| q(z) = Σ_truth q(truth) P(z given truth and labels), and the counts of Ξ | `opinion_posterior` |
| rows of Ξ and Ã from expected counts | `m_step` |

Instead of one EM over all hidden answers, the tutorial's slide "hierarchical label fusion" has two stages: every group
decides on its opinion by itself, by Dawid–Skene or by vote, and Dawid–Skene fuses the opinions as if each group were a
worker.

| in stages | here |
|---|---|
| Ã of a group, and the shares of its opinions, from its own labels | `dependence.group_fusion.fit_each_group` |
| a group's opinion on a task: the most probable; none where it is split | `dependence.group_fusion.decide_opinions` |
| Ξ, and A of those who are alone, by Dawid–Skene over the opinions | `dependence.group_fusion.opinion_labels` |

Departures: the groups are given, or found as `dependence.groups` says. Opinions start as the shares of the group's
votes, and the truth as the mean of the opinions, so that z has the names of the classes. In stages, a worker who is in
no group speaks beside the groups, not as a group of one, which decides the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from crowdwise.aggregate import dawid_skene
from crowdwise.dependence.group_fusion import decide_opinions, fit_each_group, opinion_labels
from crowdwise.dependence.group_labels import resolve_groups, split_by_group
from crowdwise.engines import prepare
from crowdwise.fitting.categorical_em import ConfusionParameters, make_fit, safe_log
from crowdwise.fitting.crowd_model import FittedArray
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.family_bases import GroupAggregator, SmoothingAggregator
from crowdwise.fitting.parameter_checks import check_choice
from crowdwise.fitting.prior_knowledge import PriorKnowledge
from crowdwise.fitting.saved_arrays import SavedArray
from crowdwise.fitting.structured_em import label_evidence
from crowdwise.kernels import NO_GOLD, log_rows, vote_shares
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from crowdwise.dependence.group_labels import GroupedLabels
    from crowdwise.engines import Prepared
    from crowdwise.fitting.base import Fit
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["GroupDawidSkene"]

JOINT, BY_DAWID_SKENE, BY_VOTE = "joint", "dawid-skene", "majority-vote"


@dataclass(frozen=True)
class GroupParameters(ConfusionParameters):
    """Confusion parameters, whose table is log Ã [worker, opinion, label], and Ξ (J, K, K) [group, truth, opinion].

    For a worker who is alone the opinion is the truth.
    """

    groups: FloatArray


@dataclass(frozen=True)
class PreparedGroups:
    """Opinions, and their labels, prepared: of workers who are alone by task, of groups by opinion."""

    opinions: GroupedLabels
    alone: Prepared
    joint: Prepared

    @classmethod
    def of(cls, labels: CrowdLabels, groups: IntArray) -> PreparedGroups:
        """The labels of workers in groups (M,)."""
        opinions = split_by_group(labels, groups)
        return cls(opinions, prepare(opinions.alone), prepare(opinions.joint))


def evidence_from_groups(laid: PreparedGroups, groups: FloatArray, evidence: FloatArray) -> FloatArray:
    """Chance of each opinion's labels given the truth (P, K), from their chance given the opinion (P, K)."""
    told = np.empty_like(evidence)
    for group, (start, end) in enumerate(zip(laid.opinions.ptr[:-1], laid.opinions.ptr[1:], strict=True)):
        told[start:end] = evidence[start:end] @ groups[group].T
    return told


def opinion_posterior(
    laid: PreparedGroups, groups: FloatArray, evidence: FloatArray, told: FloatArray, posterior: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Posterior of the opinions (P, K), and expected counts of truth and opinion (J, K, K) of each group."""
    believed, counts = np.empty_like(evidence), np.empty_like(groups)
    share = np.zeros_like(told)
    np.divide(posterior[laid.opinions.task], told, out=share, where=told > 0)
    for group, (start, end) in enumerate(zip(laid.opinions.ptr[:-1], laid.opinions.ptr[1:], strict=True)):
        here = slice(start, end)
        believed[here] = evidence[here] * (share[here] @ groups[group])
        counts[group] = groups[group] * (share[here].T @ evidence[here])
    return believed, counts


def e_step(
    laid: PreparedGroups, parameters: GroupParameters, gold: IntArray, decided: FloatArray | None = None
) -> tuple[float, FloatArray, FloatArray, FloatArray]:
    """Log-likelihood; posterior of the truths (N, K) and of the opinions (P, K); expected counts of Ξ (J, K, K).

    `decided` (P, K) has 1 at each group's opinion, and 1 everywhere where it has none; without it, the labels of the
    members speak for themselves.
    """
    value, alone = label_evidence(laid.alone, parameters.log_table, gold)
    more, evidence = (
        (0.0, decided) if decided is not None else label_evidence(laid.joint, parameters.log_table, NO_GOLD)
    )
    told = evidence_from_groups(laid, parameters.groups, evidence)
    logs = safe_log(alone) + parameters.log_prior
    np.add.at(logs, laid.opinions.task, safe_log(told))
    if gold.size:
        known = np.flatnonzero(gold >= 0)
        logs[known] = np.where(np.arange(logs.shape[1]) == gold[known, None], logs[known], -np.inf)
    most = logs.max(axis=1, keepdims=True)
    posterior = np.exp(logs - most)
    total = posterior.sum(axis=1, keepdims=True)
    posterior /= total
    value += more + float((most + np.log(total)).sum())
    return value, posterior, *opinion_posterior(laid, parameters.groups, evidence, told, posterior)


def m_step(
    laid: PreparedGroups, posterior: FloatArray, believed: FloatArray, counts: FloatArray, pseudo: FloatArray
) -> GroupParameters:
    """Rows of highest posterior given expected counts; a row that nothing speaks of is uniform."""
    with np.errstate(divide="ignore"):
        log_prior = np.log(posterior.mean(axis=0))
    table = log_rows(laid.alone.accumulate(posterior).counts + laid.joint.accumulate(believed).counts, pseudo)
    return GroupParameters(log_prior, table, np.exp(log_rows(counts, pseudo)))


def start_from_votes(laid: PreparedGroups, labels: CrowdLabels, gold: IntArray, pseudo: FloatArray) -> GroupParameters:
    """Opinions are the shares of their group's votes, the truth the mean of opinions and of votes of those alone."""
    opinions = laid.opinions
    believed = vote_shares(opinions.joint, NO_GOLD)
    votes = opinions.alone.vote_counts().astype(np.float64)
    np.add.at(votes, opinions.task, believed)
    silent = votes.sum(axis=1) == 0
    votes[silent] = labels.class_shares
    posterior = votes / votes.sum(axis=1, keepdims=True)
    if gold.size:
        told = np.flatnonzero(gold >= 0)
        posterior[told] = np.eye(labels.n_classes)[gold[told]]
    counts = np.stack(
        [
            posterior[opinions.task[first:last]].T @ believed[first:last]
            for first, last in zip(opinions.ptr[:-1], opinions.ptr[1:], strict=True)
        ]
        or [np.empty((0, 0))]
    ).reshape(-1, labels.n_classes, labels.n_classes)
    return m_step(laid, posterior, believed, counts, pseudo)


def log_density(parameters: GroupParameters, pseudo: FloatArray) -> float:
    """Log-density of all rows, those of workers and those of groups."""
    value = dawid_skene.log_density(parameters, pseudo)
    if parameters.groups.size and pseudo.any():
        rows = ConfusionParameters(parameters.log_prior, safe_log(parameters.groups))
        value += dawid_skene.log_density(rows, pseudo)
    return value


@estimator
class GroupDawidSkene(GroupAggregator, SmoothingAggregator):
    """Consensus with a confusion matrix for every worker and one for every group of workers who err together, by EM.

    Facts
    -----
    Assumes: workers of a group share a hidden opinion on each task; group and worker have a confusion matrix each
    Fails with: one group outweighs the rest of the crowd; few tasks, where groups cannot be found
    Cost: O(labels × K + groups of a task × K²) an iteration, and finding groups
    Paper: Traganitis & Giannakis 2022; Jaffe et al. 2016, AISTATS

    Parameters
    ----------
    fusion : "joint", "dawid-skene", "majority-vote"
        One EM over truths and opinions; or two stages: the opinion of each group by Dawid–Skene or by the vote of its
        members, then Dawid–Skene over the opinions.
    smoothing : float, 0 or more
        Pseudo-count of every cell of every matrix; 0 is maximum likelihood.

    Attributes
    ----------
    confusion_ : (M, K, K)
        P(worker says l | truth is k) at [worker, k, l]; of workers in groups, Ξ Ã.
    group_confusion_ : (J, K, K)
        Ξ: P(the group's opinion is z | truth is k) at [group, k, z].
    opinion_confusion_ : (M, K, K)
        Ã: P(worker says l | opinion is z) at [worker, z, l]; of workers in no group, the opinion is the truth.
    skill_ : (M,)
        Chance that a worker is right, as for Dawid–Skene.
    log_likelihood_, objective_ : (n_iter_,)
        Of the labels, at each iteration; in two stages, of the opinions.

    Notes
    -----
    Without groups this is Dawid–Skene. Two stages lose what a group is unsure of, and cannot mend a group whose members
    are at odds; docs/choosing.md has both on real crowds. The opinion of a group that outweighs the rest of the crowd
    is taken for the truth. Groups are found only where workers share twenty tasks or more. A worker unknown at
    prediction counts as the average of the crowd, in no group.

    Examples
    --------
    >>> from crowdwise.labels import read_labels
    >>> labels = read_labels({
    ...     "task": [1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3],
    ...     "worker": ["ann", "ann's copy", "ann's other copy", "bob", "cy"] * 3,
    ...     "label": ["x", "x", "x", "y", "y", "y", "y", "y", "y", "y", "x", "x", "x", "x", "x"],
    ... })
    >>> copies = {"ann": 1, "ann's copy": 1, "ann's other copy": 1}
    >>> GroupDawidSkene(groups=copies).fit(labels).predict().tolist()
    ['y', 'y', 'x']
    """

    slug = "group-dawid-skene"
    saved = (
        SavedArray("worker_columns/group", "M", low=-1, codes="J"),
        SavedArray("extra/log_table", "M K K", low=-np.inf, logarithms=True),
        SavedArray("extra/opinion_shares", "J K", low=0, sums_to_one=True, together="stages"),
    )

    fusion: str = JOINT

    group_confusion_ = FittedArray(
        SavedArray("extra/groups", "J K K", low=0, sums_to_one=True), "Ξ (J, K, K) [group, truth, opinion]."
    )

    @property
    def opinion_confusion_(self) -> FloatArray:
        """Ã (M, K, K) [worker, opinion, label]."""
        self._check_fitted()
        rows: FloatArray = np.exp(self.extra_["log_table"])
        return rows

    def _check(self) -> None:
        super()._check()
        check_choice("fusion", self.fusion, (JOINT, BY_DAWID_SKENE, BY_VOTE))

    def _check_restored(self) -> None:
        super()._check_restored()
        if (self.fusion == JOINT) == ("opinion_shares" in self.extra_):
            raise InputError("extra/opinion_shares must be there where groups decide by themselves, and only there")

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        groups = resolve_groups(self.groups, labels, self.random_state)
        laid = PreparedGroups.of(labels, groups)
        fit = self._fit_joint if self.fusion == JOINT else self._fit_stages
        return fit(labels, known, groups, laid)

    def _fit_joint(self, labels: CrowdLabels, known: PriorKnowledge, groups: IntArray, laid: PreparedGroups) -> Fit:
        pseudo = np.full((1, labels.n_classes, labels.n_classes), float(self.smoothing))

        def use_known_prior(parameters: GroupParameters) -> GroupParameters:
            return parameters if known.log_prior is None else replace(parameters, log_prior=known.log_prior)

        def step(parameters: GroupParameters) -> tuple[float, float, GroupParameters]:
            value, posterior, believed, counts = e_step(laid, parameters, known.gold)
            following = use_known_prior(m_step(laid, posterior, believed, counts, pseudo))
            return value + log_density(parameters, pseudo), value, following

        first = use_known_prior(start_from_votes(laid, labels, known.gold, pseudo))
        ended = self._climb(first, step, labels)
        _, posterior, *_ = e_step(laid, ended.parameters, known.gold)
        return self._make_group_fit(labels, posterior, groups, ended.parameters).attach_climb_history(ended)

    def _fit_stages(self, labels: CrowdLabels, known: PriorKnowledge, groups: IntArray, laid: PreparedGroups) -> Fit:
        fuse = dawid_skene.DawidSkene(smoothing=self.smoothing, max_iter=self.max_iter, tol=self.tol)

        def fit_confusions(own: CrowdLabels, told: PriorKnowledge) -> tuple[Fit, FloatArray]:
            fit = fuse._fit(own, told)
            return fit, cast("FloatArray", fit.confusion)

        def fit_group(own: CrowdLabels) -> tuple[FloatArray, FloatArray]:
            fit, confusion = fit_confusions(own, PriorKnowledge())
            return confusion, fit.prior

        table, shares = fit_each_group(laid.opinions, groups, None if self.fusion == BY_VOTE else fit_group)
        decided = self._decide_opinions(laid, table, shares)
        fused = opinion_labels(laid.opinions, decided)
        if not fused.n_labels:
            raise InputError(
                "Every group is split on every task, and nobody is in no group: there is no opinion to fuse. Use "
                "fusion='joint', or give other groups."
            )
        told = fused.labels_per_task > 0  # on other tasks all groups are split, and nobody is alone
        top, confusion = fit_confusions(
            fused.keep_tasks(told), replace(known, gold=known.gold[told] if known.gold.size else known.gold)
        )
        lone, together = np.split(confusion, [labels.n_workers])
        with np.errstate(divide="ignore"):
            table = np.where((groups >= 0)[:, None, None], table, np.log(lone))
            parameters = GroupParameters(np.log(top.prior), table, together)
        _, posterior, *_ = e_step(laid, parameters, known.gold, decided)
        fit = self._make_group_fit(labels, posterior, groups, parameters, opinion_shares=shares)
        return fit.attach_climb_history(top)

    def _decide_opinions(self, laid: PreparedGroups, table: FloatArray, shares: FloatArray) -> FloatArray:
        """Opinions (P, K) of groups that decide by themselves, given log Ã and the shares of each group's opinions."""
        if self.fusion == BY_VOTE:
            return decide_opinions(laid.opinions.joint.vote_counts())
        _, evidence = label_evidence(laid.joint, table, NO_GOLD)
        chance = evidence * np.repeat(shares, np.diff(laid.opinions.ptr), axis=0)
        return decide_opinions(chance / chance.sum(axis=1, keepdims=True))

    def _make_group_fit(
        self, labels: CrowdLabels, posterior: FloatArray, groups: IntArray, found: GroupParameters, **more: FloatArray
    ) -> Fit:
        """What the parameters say of tasks and workers; `more` is saved with them."""
        confusion = np.exp(found.log_table)
        together = groups >= 0
        confusion[together] = found.groups[groups[together]] @ confusion[together]
        return replace(
            make_fit(labels, posterior, confusion),
            prior=np.exp(found.log_prior),
            worker_columns={"group": groups.astype(np.float64)},
            extra={"groups": found.groups, "log_table": found.log_table} | more,
        )

    def _predict_posterior(self, labels: CrowdLabels) -> FloatArray:
        table = np.concatenate([self.extra_["log_table"], self._log_confusion_table()[-1:]])
        with np.errstate(divide="ignore"):
            parameters = GroupParameters(np.log(self.prior_), table, self.group_confusion_)
        laid = PreparedGroups.of(labels, np.append(self.group_, -1))
        decided = None
        if self.fusion != JOINT:
            decided = self._decide_opinions(laid, table, self.extra_["opinion_shares"])
        return e_step(laid, parameters, NO_GOLD, decided)[1]
