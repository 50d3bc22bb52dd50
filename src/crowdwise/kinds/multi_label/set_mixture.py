r"""Sets of classes from a few types of tasks, and workers who name and leave out classes: the steps of the EM.

The generative story. Task n is of type l with probability ρ_l. Its set holds class k with probability π_lk, each class
by itself: classes that go together are likely in the same types. Worker m names a class that is in the set with
probability α_mk and leaves out one that is not with probability β_mk, where

    logit α_mk = a_m + c_k,        logit β_mk = b_m + e_k :

a worker's ability is shared by all classes, and how easy a class is by all workers. a, b ~ N(0, 1); c, e ~ N(1.5, 1);
ρ ~ Dirichlet(2); π_lk ~ Beta, 2 tasks' worth about the share of answers that name k. One type is one-vs-rest
Dawid–Skene with a shared worker model.

| step | function |
|---|---|
| λ_nk = Σ_m log P(answer \| k in the set) - log P(answer \| not), P₀ = P(answers \| empty set) | `weigh_answers` |
| P(answers, l) = ρ_l Π_k (π_lk e^λ_nk + 1 - π_lk) P₀, and P(k in the set \| l, answers) | `infer` |
| ρ, π: means of what is expected | `update_types` |
| a, c and b, e: steps up a quadratic bound of the logistic likelihood (Jaakkola & Jordan 2000) | `update_rates` |
| log likelihood + log priors, which no step lets fall | `infer`, `log_prior` |

Cost: O(answers × K + tasks × K × types) an iteration. Nothing is as large as tasks × workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit, log_expit, logsumexp

from crowdwise.kinds.multi_label.model import SetPosterior, sum_by_task, sum_by_worker
from crowdwise.kinds.multi_label.votes import share_votes

if TYPE_CHECKING:
    from crowdwise.kinds.multi_label.answers import LabelSets
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["Inferred", "SetParameters", "infer", "log_prior", "predict_answers", "start", "step", "weigh_answers"]

ABILITY_SD, EASE_MEAN, EASE_SD = 1.0, 1.5, 1.0
FEW = 2.0  # tasks that the prior of a type's shares counts as
SWEEPS = 3  # of the bound, in each iteration


class SetParameters(NamedTuple):
    """Shares ρ (L,) and sets π (L, K) of types; abilities a, b of workers (M, 2); ease c, e of classes (2, K)."""

    share: FloatArray
    profile: FloatArray
    ability: FloatArray
    ease: FloatArray

    def scores(self) -> tuple[FloatArray, FloatArray]:
        """Log-odds of α and of β (M + 1, K); the last are those of a stranger, of ability 0."""
        ability = np.concatenate([self.ability, np.zeros((1, 2))])
        return ability[:, :1] + self.ease[0], ability[:, 1:] + self.ease[1]


class Inferred(NamedTuple):
    """Types (N, L) and classes (N, K) of tasks by their probability, exact sets (N,), and the log-likelihood."""

    kind: FloatArray
    member: FloatArray
    exact: FloatArray
    log_likelihood: float
    in_type: FloatArray  # (L, K): expected number of tasks of a type that have a class


def weigh_answers(answers: LabelSets, worker: IntArray, at: SetParameters) -> tuple[FloatArray, FloatArray]:
    """Evidence λ (N, K) for each class of each task, and the log-probability of the answers to an empty set (N,)."""
    named, left = at.scores()
    said = answers.member
    outside = log_expit(np.where(said, -left[worker], left[worker]))
    inside = log_expit(np.where(said, named[worker], -named[worker]))
    return sum_by_task(answers, inside - outside), sum_by_task(answers, outside).sum(axis=1)


def infer(evidence: FloatArray, empty: FloatArray, at: SetParameters, gold: FloatArray | None = None) -> Inferred:
    """Types and sets of tasks, given the evidence; `gold` (N, K) holds 0 and 1 where a set is known, NaN elsewhere."""
    n_tasks, n_types = len(evidence), at.share.size
    scores, chosen = np.empty((n_tasks, n_types)), []
    for kind in range(n_types):
        inside = np.log(at.profile[kind]) + evidence
        outside = np.broadcast_to(np.log1p(-at.profile[kind]), evidence.shape)
        if gold is not None:
            inside, outside = np.where(gold == 0, -np.inf, inside), np.where(gold == 1, -np.inf, outside)
        total = np.logaddexp(inside, outside)
        scores[:, kind] = np.log(at.share[kind]) + empty + total.sum(axis=1)
        chosen.append(np.exp(inside - total))
    norm = logsumexp(scores, axis=1)
    kinds = np.exp(scores - norm[:, None])
    member = np.clip(sum(kinds[:, [kind]] * each for kind, each in enumerate(chosen)), 0.0, 1.0)
    decided = member > 0.5
    exact = sum(kinds[:, kind] * np.where(decided, each, 1 - each).prod(axis=1) for kind, each in enumerate(chosen))
    in_type = np.array([(kinds[:, [kind]] * each).sum(axis=0) for kind, each in enumerate(chosen)])
    return Inferred(kinds, member, np.clip(exact, 0.0, 1.0), float(norm.sum()), in_type)


def log_prior(at: SetParameters, about: FloatArray) -> float:
    """Logarithm of the prior density of the parameters, up to a constant; `about` (K,) are the shares of classes."""
    types = np.log(at.share).sum() + FEW * (about * np.log(at.profile) + (1 - about) * np.log1p(-at.profile)).sum()
    workers = -0.5 * (at.ability**2).sum() / ABILITY_SD**2
    return float(types + workers - 0.5 * ((at.ease - EASE_MEAN) ** 2).sum() / EASE_SD**2)


def update_types(found: Inferred, about: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The most probable ρ and π, given what is expected of types and sets."""
    number = found.kind.sum(axis=0)
    share = (number + 1) / (number.sum() + number.size)
    profile = (found.in_type + FEW * about) / (number[:, None] + FEW)
    return share, np.clip(profile, 1e-9, 1 - 1e-9)


def update_rates(
    right: FloatArray, total: FloatArray, ability: FloatArray, ease: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Abilities (M,) and ease (K,) with a higher Σ right log σ(x) + (total - right) log σ(-x) + log prior, x their sum.

    The bound log σ(x) ≥ a quadratic that touches it at the present x makes each move a weighted mean.
    """
    for _ in range(SWEEPS):
        for workers in (True, False):
            at = ability[:, None] + ease
            share = expit(at)
            near = np.abs(at) <= 1e-6
            curve = np.where(near, 0.25, (share - 0.5) / np.where(near, 1.0, at))  # tanh(x/2) / 2x
            slope, bend = right - total * share, total * curve
            axis = 1 if workers else 0
            if workers:
                ability = ability + (slope.sum(axis) - ability / ABILITY_SD**2) / (bend.sum(axis) + 1 / ABILITY_SD**2)
            else:
                pull = slope.sum(axis) - (ease - EASE_MEAN) / EASE_SD**2
                ease = ease + pull / (bend.sum(axis) + 1 / EASE_SD**2)
    return ability, ease


def step(
    answers: LabelSets, at: SetParameters, about: FloatArray, gold: FloatArray | None
) -> tuple[float, float, SetParameters]:
    """One EM step: objective and log-likelihood at the parameters, and the next ones."""
    found = infer(*weigh_answers(answers, answers.worker, at), at, gold)
    objective = found.log_likelihood + log_prior(at, about)
    inside, said = found.member[answers.task], answers.member
    totals = [sum_by_worker(answers.worker, each, answers.n_workers) for each in (inside, 1 - inside)]
    rights = [sum_by_worker(answers.worker, each, answers.n_workers) for each in (inside * said, (1 - inside) * ~said)]
    moved = [
        update_rates(right, total, at.ability[:, side], at.ease[side])
        for side, (right, total) in enumerate(zip(rights, totals, strict=True))
    ]
    ability, ease = np.column_stack([each[0] for each in moved]), np.stack([each[1] for each in moved])
    return objective, found.log_likelihood, SetParameters(*update_types(found, about), ability, ease)


def start(answers: LabelSets, n_types: int, about: FloatArray) -> SetParameters:
    """Types from votes: tasks whose votes are far apart, each with the tasks near it (k-means from farthest points)."""
    votes = share_votes(answers, about)
    centres = votes.mean(axis=0)[None]
    for _ in range(1, n_types):
        away = np.round(_squares(votes, centres).min(axis=1), 9)
        rows = np.flatnonzero(away == away.max())
        first = rows[np.lexsort(votes[rows].T[::-1])[0]]  # whatever the order of rows
        centres = np.concatenate([centres, votes[first][None]])
    nearest = np.zeros(len(votes), np.int64)
    for _ in range(10):
        nearest = _squares(votes, centres).argmin(axis=1)
        for kind in range(n_types):
            if (nearest == kind).any():
                centres[kind] = votes[nearest == kind].mean(axis=0)
    number = np.bincount(nearest, minlength=n_types).astype(np.float64)
    sums = np.array([votes[nearest == kind].sum(axis=0) for kind in range(n_types)])
    profile = np.clip((sums + FEW * about) / (number[:, None] + FEW), 0.01, 0.99)
    share = (number + 1) / (number.sum() + n_types)
    return SetParameters(share, profile, np.zeros((answers.n_workers, 2)), np.full((2, answers.n_classes), EASE_MEAN))


def _squares(votes: FloatArray, centres: FloatArray) -> FloatArray:
    """Squared distance of each row of votes from each centre (N, L)."""
    return np.column_stack([((votes - centre) ** 2).sum(axis=1) for centre in centres])


def predict_answers(member: BoolArray, worker: IntArray, evidence: FloatArray, at: SetParameters) -> FloatArray:
    """Log-probability of new answers (n,) by workers at these positions, given the evidence on their tasks (n, K)."""
    found = infer(evidence, np.zeros(len(evidence)), at)
    named, left = (score[worker] for score in at.scores())
    right = np.where(member, log_expit(named), log_expit(-named))
    wrong = np.where(member, log_expit(-left), log_expit(left))
    by_type = []
    for kind in range(at.share.size):
        inside, outside = np.log(at.profile[kind]) + evidence, np.log1p(-at.profile[kind])
        total = np.logaddexp(inside, outside)
        by_type.append(np.logaddexp(inside - total + right, outside - total + wrong).sum(axis=1))
    with np.errstate(divide="ignore"):
        chances: FloatArray = logsumexp(np.log(found.kind) + np.column_stack(by_type), axis=1)
    return chances


def as_posterior(found: Inferred) -> SetPosterior:
    """What tables show of it."""
    return SetPosterior(found.member, found.exact)
