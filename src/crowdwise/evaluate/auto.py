"""Auto: the right method without being told.

No method is best everywhere, and without a truth one cannot see which is best here. But one can hide some labels and
see which method foretells them. Auto does so for a shortlist of methods that make different assumptions, gives each
the weight with which together they foretell best (stacking), fits those that matter to all labels, and averages their
posteriors. Then it asks how far workers err together: many labels that err together are worth few, and the confidence
is drawn towards the share of votes by as much.

| step | here |
|---|---|
| labels hidden in turn, Σ_k q[t,k] A[w,k,l] | `held_out.foretold` |
| weights: max Σ log Σ_m w[m] p[m] (Yao et al. 2018) | `stacking.stacking_weights` |
| ρ, the correlation of errors on one task | `metrics.error_correlation` |
| n labels weigh as n / (1 + (n - 1) ρ) | `stacking.believed` |

The members get what the votes say beforehand, so that few labels lead none of them astray: a prior for every worker's
matrix (her agreement with the votes, errors as the crowd's; `vote_prior`), and fixed class shares (uniform, or those of
the labels). Cost: `FOLDS` fits of each member to at most `SAMPLE` labels, then one fit of those that matter to all.
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
from crowdwise.evaluate.held_out import error_over_tasks, foretold, parts, said
from crowdwise.evaluate.stacking import believed, stacking_weights
from crowdwise.fitting.base import Aggregator, Fit
from crowdwise.fitting.edges import statistics_of
from crowdwise.fitting.em import NotConverged
from crowdwise.fitting.knowledge import GOLD, KNOWN_WORKERS, PRIOR, Knowledge
from crowdwise.fitting.parameters import check_count
from crowdwise.fitting.progress import counted_work
from crowdwise.fitting.variational import portraits
from crowdwise.kernels import NO_GOLD, blocks_of, share_pass, vote_shares
from crowdwise.labels.tables import native_table
from crowdwise.metrics.dependence import error_correlation

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["Auto"]

SAMPLE = 60_000  # labels on which the members compete, where there are more
FOLDS = 5
FOLDS_OF_SAMPLE = 2  # where there are labels enough
MATTERS = 0.05  # weight from which a member is fitted to all labels
OWN_DRAW = 8.0  # answers of the crowd that count towards a worker's agreement with the votes


@dataclass(frozen=True)
class Member:
    """A method on the shortlist.

    Attributes
    ----------
    name
        What the league table calls it.
    make
        The method, unfitted.
    shares
        Class shares that it is told: "learnt", "uniform", or "labels".
    votes
        How many answers for each class the vote prior of a worker counts as; 0 for none.
    largest
        Most labels for which its cost is worth it.
    """

    name: str
    make: Callable[[], Aggregator]
    shares: str = "learnt"
    votes: float = 0.0
    largest: float = np.inf


SHORTLIST = (
    Member("dawid-skene", lambda: DawidSkene(tol=1e-5), "uniform", 15.0),
    Member(
        "ebcc",
        lambda: EnhancedBcc(n_subtypes=3, subtype_prior=1.0, right=0.01, wrong=0.01, n_restarts=2, tol=1e-5),
        "labels",
        20.0,
    ),
    Member("mace", lambda: Mace(tol=1e-5)),
    Member("minimax-entropy", MinimaxEntropy, largest=3e5),
)


def vote_prior(labels: CrowdLabels, known: Knowledge, answers: float) -> FloatArray:
    """What the votes say of every worker, as so many answers for each class, (M, K, K) [worker, truth, label].

    Right as often as she agrees with the share of votes, drawn towards the crowd's agreement; wrong as the crowd is.
    """
    counts = share_pass(blocks_of(labels), labels.class_shares, known.gold).counts.transpose(0, 2, 1)
    diagonal = np.arange(labels.n_classes)
    agrees, total = np.einsum("wkk->w", counts), counts.sum(axis=(1, 2))
    crowd = (agrees.sum() + 0.5) / (total.sum() + 1)
    accuracy = (agrees + OWN_DRAW * crowd) / (total + OWN_DRAW)
    errors = counts.sum(axis=0) + 0.5
    errors[diagonal, diagonal] = 0
    errors /= errors.sum(axis=1, keepdims=True)
    rows = (1 - accuracy)[:, None, None] * errors
    rows[:, diagonal, diagonal] = accuracy[:, None]
    prior: FloatArray = answers * rows
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
    shares_of_labels: FloatArray = lifted / lifted.sum()
    return shares_of_labels


def fitted(member: Member, labels: CrowdLabels, known: Knowledge) -> Aggregator:
    """The member, told what it can use, fitted."""
    model = member.make()
    told = Knowledge(
        known.gold,
        class_shares(labels, member.shares) if known.class_prior is None else known.class_prior,
        vote_prior(labels, known, member.votes) if member.votes else known.worker_counts,
    )
    model._remember(labels, model._fit(labels, told))
    return model


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
        P(worker says l | truth is k) at [worker, k, l], averaged over the members.
    skill_ : (M,)
        Chance that a worker is right.
    weights_ : (members,)
        Weight of each member of the shortlist.
    error_correlation_ : float
        How far workers err together on a task: 0 where they do not, 1 where they are as one.

    Notes
    -----
    `league()` is the table by which it decided. With more than 60,000 labels, members compete on a sample of tasks, and
    those that matter are fitted to all. Fails where most workers share a mistake: no hidden label tells. Labels are
    hidden at random: renumbered tasks give nearly, not exactly, the same answer. New tasks are judged by Bayes' rule
    with `prior_` and `confusion_`.

    References
    ----------
    Yao, Vehtari, Simpson and Gelman (2018), Bayesian Analysis 13, 917-1007, for the weights.

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

    @property
    def error_correlation_(self) -> float:
        """How far workers err together on a task."""
        self._check_fitted()
        return float(self.extra_["error_correlation"])

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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            weights, scores = self._competed(labels, known)
            prior, confusion = np.zeros(labels.n_classes), np.zeros((labels.n_workers, *(labels.n_classes,) * 2))
            posterior = np.zeros((labels.n_tasks, labels.n_classes))
            for place in np.flatnonzero(weights):
                model = fitted(SHORTLIST[place], labels, known)
                posterior += weights[place] * model.posterior_
                prior += weights[place] * model.prior_
                confusion += weights[place] * model.confusion_
        correlation = error_correlation(labels, posterior)
        correlation = 0.0 if np.isnan(correlation) else max(correlation, 0.0)
        posterior = believed(posterior, vote_shares(labels, known.gold), labels.labels_per_task, correlation)
        if known.gold.size:
            posterior[known.gold >= 0] = np.eye(labels.n_classes)[known.gold[known.gold >= 0]]
        prior = prior / prior.sum() if known.class_prior is None else known.class_prior
        blocks = blocks_of(labels)
        found = statistics_of(blocks, posterior)
        skill, skill_beta = portraits(labels, blocks, known, found, posterior, prior)
        return Fit(
            posterior=posterior,
            prior=prior,
            confusion=confusion,
            skill=skill,
            skill_beta=skill_beta,
            extra={"weights": weights, "scores": scores, "error_correlation": np.array(correlation)},
        )

    def _competed(self, labels: CrowdLabels, known: Knowledge) -> tuple[FloatArray, FloatArray]:
        """Weights of the members (members,), and their mean log-probability of hidden labels and its error."""
        field, told = _sampled(labels, known, self.seed)
        folds = min(FOLDS if field is labels else FOLDS_OF_SAMPLE, field.n_labels)
        places = [place for place, member in enumerate(SHORTLIST) if self._may_enter(member, labels, known)]
        weights, scores = np.zeros(len(SHORTLIST)), np.full((len(SHORTLIST), 2), np.nan)
        if folds < 2:
            weights[places[0]] = 1.0
            return weights, scores
        given = np.empty((field.n_labels, len(places)))
        with counted_work(self.slug, folds * len(places), "fits") as advance:
            for part in parts(field, folds, self.seed):
                for column, place in enumerate(places):
                    model = fitted(SHORTLIST[place], part.kept, told)
                    given[part.hidden, column] = said(foretold(model, part), part)
                    advance()
        logs = np.log(given)
        scores[places] = np.stack([logs.mean(axis=0), [error_over_tasks(field, column) for column in logs.T]], axis=1)
        weights[places] = stacking_weights(given)
        weights[weights < MATTERS] = 0
        return weights / weights.sum(), scores

    @staticmethod
    def _may_enter(member: Member, labels: CrowdLabels, known: Knowledge) -> bool:
        """Whether a member can use all that is known, and is worth its cost."""
        uses = member.make().uses
        told = {
            GOLD: known.gold.size > 0,
            PRIOR: known.class_prior is not None,
            KNOWN_WORKERS: known.worker_counts is not None,
        }
        return labels.n_labels <= member.largest and all(name in uses for name, given in told.items() if given)

    def _posterior_of(self, labels: CrowdLabels) -> FloatArray:
        independent = super()._posterior_of(labels)
        return believed(independent, vote_shares(labels, NO_GOLD), labels.labels_per_task, self.error_correlation_)


def _sampled(labels: CrowdLabels, known: Knowledge, seed: int) -> tuple[CrowdLabels, Knowledge]:
    """At most about `SAMPLE` labels: tasks drawn at random, with what is known of them."""
    if labels.n_labels <= SAMPLE:
        return labels, known
    order = np.random.default_rng(seed).permutation(labels.n_tasks)
    enough = int(np.searchsorted(np.cumsum(labels.labels_per_task[order]), SAMPLE)) + 1
    chosen = np.zeros(labels.n_tasks, np.bool_)
    chosen[order[:enough]] = True
    field = labels.keep_tasks(chosen)
    return field, replace(known, gold=known.gold[chosen] if known.gold.size else known.gold)
