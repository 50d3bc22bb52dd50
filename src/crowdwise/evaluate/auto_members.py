"""The members of `auto`: its shortlist of methods, their weights by hidden labels, and the average of their fits."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.aggregate.ebcc import EnhancedBcc
from crowdwise.aggregate.mean_field import MeanField
from crowdwise.aggregate.minimax_entropy import MinimaxEntropy
from crowdwise.engines import prepare
from crowdwise.evaluate.held_out import (
    given_answer_probabilities,
    predict_held_out,
    split_into_folds,
    standard_error_over_tasks,
)
from crowdwise.evaluate.hierarchical_dawid_skene import HierarchicalDawidSkene, class_shares, prior_pseudo_answers
from crowdwise.evaluate.likelihood_tempering import (
    temper_posterior,
)
from crowdwise.evaluate.stacking import stacking_weights
from crowdwise.fitting.content_order import order_by_content
from crowdwise.fitting.em import StillImproving
from crowdwise.fitting.prior_knowledge import KNOWN_WORKERS, PRIOR, PriorKnowledge
from crowdwise.fitting.progress_bar import show_progress_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.fitting.base import Aggregator
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray

    Model = HierarchicalDawidSkene | Aggregator

__all__ = ["MANY", "SHORTLIST", "FittedCombination", "combine_members", "weigh_members"]

SAMPLE = 50_000  # labels on which the members compete, where there are more
FOLDS, ENOUGH_FOLDS = 5, 2  # parts that are hidden in turn; so many of them where there are labels enough
MANY = 2_000_000  # labels above which EBCC has to do with fewer subtypes
EQUAL = 100.0  # hidden labels that count for equal weights of those that stay
TOLD_APART = 2.0  # standard errors behind the best from which a member is out
ROWS, COIN = 15.0, 500.0  # strengths of the prior of a worker's rows: a matrix each; as good as one accuracy each
VOTES = 20.0  # answers for each class that EBCC's prior of a worker counts as
SPARSE = 100.0  # cells of all matrices for each label, above which these cost much and say nothing; real crowds have 2


@dataclass(frozen=True)
class ShortlistMember:
    """A method on the shortlist."""

    name: str  # what the league table calls it
    # Fit it to labels, given what is known, a seed, and whether the labels are very many.
    fit: Callable[[CrowdLabels, PriorKnowledge, int, bool], Model]
    uses: frozenset[str] = frozenset({PRIOR, KNOWN_WORKERS})  # what it can be told
    # Labels × classes², and classes, up to which it is worth its cost.
    most_cells: float = np.inf
    most_classes: float = np.inf
    fewest_labels: int = 0  # from which on it has something to learn its many parameters from
    learns_matrices: bool = True


def fit_ebcc(labels: CrowdLabels, known: PriorKnowledge, seed: int, many: bool) -> Aggregator:
    """EBCC with the shares of the labels, and what the votes say of every worker as a prior."""
    counts = prepare(labels).count_against_vote_shares(labels.class_shares, known.gold).counts
    told = PriorKnowledge(
        known.gold,
        class_shares(labels, 1.0) if known.class_prior is None else known.class_prior,
        prior_pseudo_answers(counts, known, VOTES),
    )
    model = EnhancedBcc(
        n_subtypes=2 if many else 3,
        subtype_prior=1.0,
        right=0.01,
        wrong=0.01,
        n_restarts=1,
        tol=1e-5,
        random_state=seed,
    )
    model._fit_labelled(labels, told)
    return model


def fit_mean_field(labels: CrowdLabels, known: PriorKnowledge, _seed: int, _many: bool) -> Aggregator:
    """Mean field, which learns the class shares: for classes that are far rarer than their labels."""
    model = MeanField(tol=1e-5)
    model._fit_labelled(labels, known)
    return model


def make_minimax_fit(regularisation: float) -> Callable[[CrowdLabels, PriorKnowledge, int, bool], Aggregator]:
    """Minimax entropy of this regularisation, to be fitted."""

    def fit(labels: CrowdLabels, known: PriorKnowledge, _seed: int, _many: bool) -> Aggregator:
        model = MinimaxEntropy(regularisation=regularisation, max_iter=30, tol=1e-4)
        model._fit_labelled(labels, known)
        return model

    return fit


SHORTLIST = (
    ShortlistMember(
        "hierarchical dawid-skene",
        lambda labels, known, *_: HierarchicalDawidSkene(ROWS).fit_with_knowledge(labels, known),
    ),
    ShortlistMember(
        "hierarchical one-coin",
        lambda labels, known, *_: HierarchicalDawidSkene(COIN).fit_with_knowledge(labels, known),
        learns_matrices=False,
    ),
    ShortlistMember("mean-field", fit_mean_field),
    ShortlistMember("ebcc", fit_ebcc, most_classes=50),
    *(
        ShortlistMember(
            f"minimax-entropy (γ = 1/{part})",
            make_minimax_fit(1 / part),
            uses=MinimaxEntropy.uses,
            most_cells=8e5,
            fewest_labels=300,
        )
        for part in (4, 64)
    ),
)


def is_eligible(member: ShortlistMember, labels: CrowdLabels, known: PriorKnowledge) -> bool:
    """Whether a member can use all that is known, and is worth its cost."""
    given = {PRIOR: known.class_prior is not None, KNOWN_WORKERS: known.worker_counts is not None}
    fits = labels.n_classes <= member.most_classes and labels.n_labels * labels.n_classes**2 <= member.most_cells
    sparse = labels.n_workers * labels.n_classes**2 > SPARSE * labels.n_labels
    return (
        fits
        and not (sparse and member.learns_matrices)
        and labels.n_labels >= member.fewest_labels
        and all(name in member.uses for name, told in given.items() if told)
    )


def weigh_members(labels: CrowdLabels, known: PriorKnowledge, seed: int) -> tuple[FloatArray, FloatArray]:
    """Weights of the members (members,), and their mean log-probability of hidden labels and its error (members, 2)."""
    places = [place for place, member in enumerate(SHORTLIST) if is_eligible(member, labels, known)]
    weights, scores = np.zeros(len(SHORTLIST)), np.full((len(SHORTLIST), 2), np.nan)
    field = sample_tasks(labels, seed)
    many = labels.n_labels > MANY
    if field.n_labels < 2:  # nothing can be hidden
        weights[places[0]] = 1.0
        return weights, scores
    enough = 1 if len(places) == 1 else FOLDS if field is labels else ENOUGH_FOLDS
    cuts = list(split_into_folds(field, min(FOLDS, field.n_labels), seed))[:enough]
    given = []
    with show_progress_of("auto", len(cuts) * len(places), "fits") as advance:
        for part in cuts:
            row = []
            for place in places:
                row.append(
                    given_answer_probabilities(
                        predict_held_out(SHORTLIST[place].fit(part.kept, known, seed, many), part), part
                    )
                )
                advance()
            given.append(np.stack(row, axis=1))
    probabilities, task = np.concatenate(given), np.concatenate([part.held.task for part in cuts])
    logs = np.log(probabilities)
    means = logs.mean(axis=0)
    scores[places] = np.stack([means, [standard_error_over_tasks(task, column) for column in logs.T]], axis=1)
    gaps = logs[:, int(means.argmax()), None] - logs
    limits = [TOLD_APART * standard_error_over_tasks(task, gap) for gap in gaps.T]
    stays = np.flatnonzero(gaps.mean(axis=0) <= limits)
    trust = task.size / (task.size + EQUAL)
    weights[np.array(places)[stays]] = trust * stacking_weights(probabilities[:, stays]) + (1 - trust) / stays.size
    return weights, scores


def sample_tasks(labels: CrowdLabels, seed: int) -> CrowdLabels:
    """About `SAMPLE` labels at most: tasks drawn at random."""
    if labels.n_labels <= 2 * SAMPLE:
        return labels
    order = np.random.default_rng(seed).permutation(order_by_content(labels).tasks)
    enough = int(np.searchsorted(np.cumsum(labels.labels_per_task[order]), SAMPLE)) + 1
    chosen = np.zeros(labels.n_tasks, np.bool_)
    chosen[order[:enough]] = True
    return labels.keep_tasks(chosen)


@dataclass(frozen=True)
class FittedCombination:
    """The members that stay, fitted to all labels.

    Attributes
    ----------
    posterior, independent : (N, K)
        Average of their posteriors, tempered, and as they are.
    prior : (K,)
    weights, scores : (members,), (members, 2)
        As `weigh_members` gives them.
    models
        Weight and fit of each member that stays; none where labels are many.
    """

    posterior: FloatArray
    independent: FloatArray
    prior: FloatArray
    weights: FloatArray
    scores: FloatArray
    models: list[tuple[float, Model]]


def combine_members(labels: CrowdLabels, known: PriorKnowledge, seed: int) -> FittedCombination:
    """Weigh the members, fit those that stay to all labels, and average."""
    shape = (labels.n_tasks, labels.n_classes)
    posterior, independent, prior = np.zeros(shape), np.zeros(shape), np.zeros(labels.n_classes)
    models: list[tuple[float, Model]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StillImproving)
        weights, scores = weigh_members(labels, known, seed)
        for place in np.flatnonzero(weights):
            model = SHORTLIST[place].fit(labels, known, seed, labels.n_labels > MANY)
            if labels.n_labels <= 2 * SAMPLE:
                models.append((float(weights[place]), model))
            independent += weights[place] * model.posterior_
            prior += weights[place] * model.prior_
            posterior += weights[place] * temper_posterior(
                model.posterior_, labels.labels_per_task, class_prior=known.class_prior
            )
    prior = prior / prior.sum() if known.class_prior is None else known.class_prior
    return FittedCombination(posterior, independent, prior, weights, scores, models)
