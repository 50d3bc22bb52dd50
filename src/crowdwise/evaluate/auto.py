"""Auto: the right method without being told.

No method is best everywhere, and without a truth one cannot see which is best here. But one can hide some labels and
see which method foretells them. Auto does so for a shortlist of methods that make different assumptions. Those that the
hidden labels do not tell apart from the best stay; each gets the weight with which together they foretell best
(stacking), is fitted to all labels, and their posteriors are averaged.

How sure? All these methods take workers to err independently, and are too sure where they do not. Against that, a
part of the belief goes to the other extreme: that the workers of a task share what they know, so that many labels say
no more than one. The posterior is then the mean of what each label says alone (a linear opinion pool).

| step | here |
|---|---|
| labels hidden in turn, P = Σ_k q[t,k] A[w,k,l] | `held_out.foretold` |
| kept: behind the best by less than two standard errors | `competed` |
| weights: max Σ log Σ_m w[m] P[m] (Yao et al. 2018) | `stacking.stacking_weights` |
| posterior = (1 - s) Σ_m w[m] q[m] + s × pool | `Auto._fit`, `SHARED` |

Members are told beforehand what the votes say, so that few labels lead none of them astray: a prior for every
worker's matrix (her agreement with the votes, errors as the crowd's; `vote_prior`), and class shares (uniform, or
those of the labels). Cost: `FOLDS` fits of every member to at most 2 × `SAMPLE` labels, one fit of each that stays to
all labels.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.aggregate.dawid_skene import DawidSkene
from crowdwise.aggregate.ebcc import EnhancedBcc
from crowdwise.aggregate.mace import Mace
from crowdwise.aggregate.minimax_entropy import MinimaxEntropy
from crowdwise.evaluate.held_out import answers, drawn_table, error_over_tasks, foretold, parts, said
from crowdwise.evaluate.stacking import stacking_weights
from crowdwise.fitting.base import Aggregator, Fit
from crowdwise.fitting.edges import statistics_of
from crowdwise.fitting.em import NotConverged
from crowdwise.fitting.intervals import rows_like_the_crowd
from crowdwise.fitting.knowledge import GOLD, KNOWN_WORKERS, PRIOR, Knowledge
from crowdwise.fitting.parameters import check_count
from crowdwise.fitting.progress import counted_work
from crowdwise.fitting.variational import portraits
from crowdwise.kernels import blocks_of, mean_opinions, share_pass
from crowdwise.labels.tables import native_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Auto"]

SAMPLE = 50_000  # labels on which the members compete, where there are more
FOLDS, ENOUGH_FOLDS = 5, 2  # parts that are hidden in turn; so many of them where there are labels enough
MANY = 2_000_000  # labels above which EBCC has to do with fewer subtypes
TOLD_APART = 2.0  # standard errors behind the best from which a member is out
SHARED = 0.2  # belief that the workers of a task share what they know
OWN_DRAW = 8.0  # answers of the crowd that count towards a worker's agreement with the votes


@dataclass(frozen=True)
class Member:
    """A method on the shortlist.

    Attributes
    ----------
    name
        What the league table calls it.
    make
        The method, unfitted, given a seed and whether the labels are very many.
    shares
        Class shares that it is told: "learnt", "uniform", or "labels".
    votes
        How many answers for each class the vote prior of a worker counts as; 0 for none.
    most_cells, most_classes
        Labels × classes², and classes, up to which it is worth its cost.
    """

    name: str
    make: Callable[[int, bool], Aggregator]
    shares: str = "learnt"
    votes: float = 0.0
    most_cells: float = np.inf
    most_classes: float = np.inf


SHORTLIST = (
    Member("dawid-skene", lambda _seed, _many: DawidSkene(tol=1e-5), "uniform", 15.0),
    Member(
        "ebcc",
        lambda seed, many: EnhancedBcc(
            n_subtypes=2 if many else 3, subtype_prior=1.0, right=0.01, wrong=0.01, n_restarts=1, tol=1e-5, seed=seed
        ),
        "labels",
        20.0,
        most_classes=50,
    ),
    Member("mace", lambda _seed, _many: Mace(tol=1e-5)),
    Member(
        "minimax-entropy (γ = 1/4)",
        lambda _seed, _many: MinimaxEntropy(regularisation=1 / 4, max_iter=30, tol=1e-4),
        most_cells=4e5,
    ),
    Member(
        "minimax-entropy (γ = 1/64)",
        lambda _seed, _many: MinimaxEntropy(regularisation=1 / 64, max_iter=30, tol=1e-4),
        most_cells=4e5,
    ),
)


def vote_prior(labels: CrowdLabels, known: Knowledge, weight: float) -> FloatArray:
    """What the votes say of every worker, as `weight` answers for each class, (M, K, K) [worker, truth, label].

    Right as often as she agrees with the share of votes, drawn towards the crowd's agreement; wrong as the crowd is.
    A worker known from elsewhere is as known.
    """
    counts = share_pass(blocks_of(labels), labels.class_shares, known.gold).counts
    prior: FloatArray = weight * rows_like_the_crowd(counts, OWN_DRAW).transpose(0, 2, 1)
    if known.worker_counts is not None:
        met = known.worker_counts.any(axis=(1, 2))
        prior[met] = known.worker_counts[met]
    return prior


def class_shares(labels: CrowdLabels, shares: str) -> FloatArray | None:
    """Fixed class shares (K,), or None where they are learnt."""
    if shares == "learnt":
        return None
    if shares == "uniform":
        return np.full(labels.n_classes, 1 / labels.n_classes)
    lifted = labels.class_shares + 0.01 / labels.n_classes
    of_labels: FloatArray = lifted / lifted.sum()
    return of_labels


def fitted(member: Member, labels: CrowdLabels, known: Knowledge, seed: int, many: bool = False) -> Aggregator:
    """The member, told what it can use, fitted."""
    model = member.make(seed, many)
    told = Knowledge(
        known.gold,
        class_shares(labels, member.shares) if known.class_prior is None else known.class_prior,
        vote_prior(labels, known, member.votes) if member.votes else known.worker_counts,
    )
    model._remember(labels, model._fit(labels, told))
    return model


def may_enter(member: Member, labels: CrowdLabels, known: Knowledge) -> bool:
    """Whether a member can use all that is known, and is worth its cost."""
    given = {
        GOLD: known.gold.size > 0,
        PRIOR: known.class_prior is not None,
        KNOWN_WORKERS: known.worker_counts is not None,
    }
    uses = member.make(0, False).uses
    small = labels.n_classes <= member.most_classes and labels.n_labels * labels.n_classes**2 <= member.most_cells
    return small and all(name in uses for name, told in given.items() if told)


def competed(labels: CrowdLabels, known: Knowledge, seed: int) -> tuple[FloatArray, FloatArray]:
    """Weights of the members (members,), and their mean log-probability of hidden labels and its error (members, 2)."""
    places = [place for place, member in enumerate(SHORTLIST) if may_enter(member, labels, known)]
    weights, scores = np.zeros(len(SHORTLIST)), np.full((len(SHORTLIST), 2), np.nan)
    field, told = sampled(labels, known, seed)
    many = labels.n_labels > MANY
    if field.n_labels < 2:  # nothing can be hidden
        weights[places[0]] = 1.0
        return weights, scores
    cuts = list(parts(field, min(FOLDS, field.n_labels), seed))[: None if field is labels else ENOUGH_FOLDS]
    given = []
    with counted_work("auto", len(cuts) * len(places), "fits") as advance:
        for part in cuts:
            row = []
            for place in places:
                row.append(said(foretold(fitted(SHORTLIST[place], part.kept, told, seed, many), part), part))
                advance()
            given.append(np.stack(row, axis=1))
    probabilities, task = np.concatenate(given), np.concatenate([part.held.task for part in cuts])
    logs = np.log(probabilities)
    means = logs.mean(axis=0)
    scores[places] = np.stack([means, [error_over_tasks(task, column) for column in logs.T]], axis=1)
    gaps = logs[:, int(means.argmax()), None] - logs
    limits = [TOLD_APART * error_over_tasks(task, gap) for gap in gaps.T]
    stays = np.flatnonzero(gaps.mean(axis=0) <= limits)
    weights[np.array(places)[stays]] = stacking_weights(probabilities[:, stays])
    return weights, scores


def sampled(labels: CrowdLabels, known: Knowledge, seed: int) -> tuple[CrowdLabels, Knowledge]:
    """About `SAMPLE` labels at most: tasks drawn at random, with what is known of them."""
    if labels.n_labels <= 2 * SAMPLE:
        return labels, known
    order = np.random.default_rng(seed).permutation(labels.n_tasks)
    enough = int(np.searchsorted(np.cumsum(labels.labels_per_task[order]), SAMPLE)) + 1
    chosen = np.zeros(labels.n_tasks, np.bool_)
    chosen[order[:enough]] = True
    return labels.keep_tasks(chosen), replace(known, gold=known.gold[chosen] if known.gold.size else known.gold)


def with_pool(labels: CrowdLabels, posterior: FloatArray, prior: FloatArray, table: FloatArray) -> FloatArray:
    """The posterior, with a share of belief for the mean of what each label says alone.

    Parameters
    ----------
    table : (M, K, K) [worker, label, truth]
    """
    opinions = table * prior
    opinions /= np.maximum(opinions.sum(axis=2, keepdims=True), np.finfo(np.float64).tiny)
    believed: FloatArray = mean_opinions(labels, opinions, prior)
    believed *= SHARED
    believed += (1 - SHARED) * posterior
    return believed


class Auto(Aggregator):
    """Consensus by the methods that foretell hidden labels best, with a confidence that allows for shared errors.

    Parameters
    ----------
    seed : int
        For the labels that are hidden, the sample of tasks, and the members' starts.

    Attributes
    ----------
    posterior_ : (N, K)
        Probability of each class for each task.
    prior_ : (K,)
        Share of each class.
    confusion_ : (M, K, K)
        P(worker says l | truth is k) at [worker, k, l], under the consensus, drawn towards the crowd by a few answers.
    skill_ : (M,)
        Chance that a worker is right.
    weights_ : (members,)
        Weight of each member of the shortlist.

    Notes
    -----
    `league()` is the table by which it decided. With more than 100,000 labels, members compete on a sample of tasks,
    and those that stay are fitted to all. Fails where most workers share a mistake: no hidden label tells. Labels are
    hidden at random: renumbered tasks give nearly, not exactly, the same answer. New tasks are judged by Bayes' rule
    with `prior_` and `confusion_`, and the same share of the pool.

    References
    ----------
    Yao, Vehtari, Simpson and Gelman (2018), Bayesian Analysis 13, 917-1007, for the weights. Genest and Zidek (1986),
    Statistical Science 1, 114-135, for opinion pools.

    Examples
    --------
    >>> from crowdwise.simulate import simulate
    >>> crowd = simulate("dawid-skene", n_tasks=150, n_workers=12, n_classes=3, labels_per_task=5, seed=3)
    >>> model = Auto().fit(crowd.labels)
    >>> model.league().column_names
    ['method', 'weight', 'held_out', 'standard_error']
    """

    slug: ClassVar[str] = "auto"
    uses: ClassVar[frozenset[str]] = frozenset({GOLD, PRIOR, KNOWN_WORKERS})

    def __init__(self, *, seed: int = 0) -> None:
        self.seed = seed

    @property
    def weights_(self) -> FloatArray:
        """Weight of each member of the shortlist."""
        self._check_fitted()
        weights: FloatArray = self.extra_["weights"]
        return weights

    def league(self) -> Any:
        """Table of the members, best first: weight, mean log-probability of hidden labels and its standard error."""
        self._check_fitted()
        scores = self.extra_["scores"]
        order = [place for place in np.argsort(-scores[:, 0], kind="stable") if not np.isnan(scores[place, 0])]
        columns = {
            "method": [SHORTLIST[place].name for place in order],
            "weight": self.weights_[order],
            "held_out": scores[order, 0],
            "standard_error": scores[order, 1],
        }
        return native_table(columns, self.kind_)

    def _fit(self, labels: CrowdLabels, known: Knowledge) -> Fit:
        check_count("seed", self.seed, low=0)
        prior, posterior = np.zeros(labels.n_classes), np.zeros((labels.n_tasks, labels.n_classes))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            weights, scores = competed(labels, known, self.seed)
            self._members: list[tuple[float, Aggregator]] = []
            for place in np.flatnonzero(weights):
                model = fitted(SHORTLIST[place], labels, known, self.seed, labels.n_labels > MANY)
                if labels.n_labels <= 2 * SAMPLE:
                    self._members.append((float(weights[place]), model))
                posterior += weights[place] * model.posterior_
                prior += weights[place] * model.prior_
        prior = prior / prior.sum() if known.class_prior is None else known.class_prior
        blocks = blocks_of(labels)
        counts = statistics_of(blocks, posterior).counts
        if known.worker_counts is not None:
            counts += known.worker_counts.transpose(0, 2, 1)
        table = drawn_table(counts)
        posterior = with_pool(labels, posterior, prior, table)
        if known.gold.size:
            told = known.gold >= 0
            posterior[told] = np.eye(labels.n_classes)[known.gold[told]]
        skill, skill_beta = portraits(labels, blocks, known, statistics_of(blocks, posterior), posterior, prior)
        return Fit(
            posterior=posterior,
            prior=prior,
            confusion=table.transpose(0, 2, 1),
            skill=skill,
            skill_beta=skill_beta,
            extra={"weights": weights, "scores": scores},
        )

    def _foretell(self, labels: CrowdLabels, task: IntArray, worker: IntArray) -> FloatArray | None:
        """As the members do together, where they are at hand."""
        found = [weight * answers(member, labels, task, worker) for weight, member in getattr(self, "_members", [])]
        return np.sum(found, axis=0) if found else None

    def _posterior_of(self, labels: CrowdLabels) -> FloatArray:
        average = np.average(self.confusion_, axis=0, weights=self.labels_per_worker_)
        table = np.concatenate([self.confusion_, average[None]]).transpose(0, 2, 1)
        return with_pool(labels, super()._posterior_of(labels), self.prior_, table)
