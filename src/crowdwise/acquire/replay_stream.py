"""A real set of labels played as a stream: policies buy its labels, and are compared by accuracy against labels bought.

A label can be bought if the set has it. A pair of policies chooses for every task, among those who labelled it and were
not asked yet, one worker by the worker policy, then the tasks of most worth with that worker, a batch at a time, one
label a task at most. "joint" takes the pairs of most worth (`pair_worth`), tasks without a label before all others. The
first labels are bought at random, the same for all policies of a seed. After each batch the model is fitted to all
labels bought, from the shares of votes, in the same way for all policies: it judges what to buy next, and its consensus
is what is scored. The model never sees the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.acquire.pair_worth import JOINT, score_pairs
from crowdwise.acquire.task_policies import make_task_policy
from crowdwise.acquire.worker_policies import WorkersSoFar, make_worker_policy
from crowdwise.fitting.online_model import OnlineModel
from crowdwise.fitting.parameter_checks import (
    check_choice,
    check_count,
    check_inner_share,
    check_number,
    check_random_state,
)
from crowdwise.fitting.underflow import ignore_underflow
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.read import read_labels
from crowdwise.labels.truth import read_truth, truth_codes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["RANDOM", "Replay", "buy_labels", "make_empty_model", "read_replay", "replay"]

RANDOM = "random"  # labels bought in random order
PASSES, NEAR = 60, 1e-3  # of a fit
BAND = (5.0, 95.0)  # per cent of the seeds


@dataclass(frozen=True, eq=False)
class Replay:
    """Accuracy of each policy against labels bought.

    Attributes
    ----------
    policies : names, (P,)
    labels : (G,)
        Numbers of labels bought.
    accuracy : (P, seeds, G)
        Of the consensus, on the tasks whose truth is known.
    """

    policies: tuple[str, ...]
    labels: IntArray
    accuracy: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Mean over seeds (P, G)."""
        found: FloatArray = self.accuracy.mean(axis=1)
        return found

    @property
    def band(self) -> FloatArray:
        """From the 5th to the 95th percentile of the seeds (2, P, G)."""
        found: FloatArray = np.percentile(self.accuracy, BAND, axis=1)
        return found

    def labels_needed(self, accuracy: float) -> dict[str, int | None]:
        """Labels from which on the mean of each policy first reaches an accuracy; None where it never does."""
        check_number("accuracy", accuracy, low=0)
        needed: dict[str, int | None] = {}
        for name, curve in zip(self.policies, self.mean, strict=True):
            there = np.flatnonzero(curve >= accuracy)
            needed[name] = int(self.labels[there[0]]) if there.size else None
        return needed


@ignore_underflow
def replay(
    labels: Any,
    truth: Any,
    policies: Sequence[str] = (RANDOM, "uncertainty/epsilon-greedy"),
    *,
    seeds: int = 10,
    batch: float = 0.02,
    start: float = 0.05,
    family: str = "dawid-skene",
    random_state: int = 0,
) -> Replay:
    """Play labels as a stream, bought by each policy.

    Parameters
    ----------
    labels, truth
        As for `fit` and `score`; the truth may be of some tasks.
    policies
        "random", "joint", or a task policy and a worker policy: "uncertainty/epsilon-greedy".
    seeds
        Runs of each policy.
    batch, start
        Shares of the labels: bought at a time, and bought at random first.
    family
        Of the online model.
    """
    given, code = read_replay(labels, truth)
    check_count("seeds", seeds)
    check_inner_share("batch", batch)
    check_inner_share("start", start)
    check_random_state(random_state)
    if isinstance(policies, str) or not isinstance(policies, Sequence):
        raise InputError(f"policies is {quote(policies)}; give a list of names.")
    if not policies:
        raise InputError("policies is empty; name one policy or more.")
    for policy in policies:
        check_policy(policy)
    size, first = max(int(batch * given.n_labels), 1), max(int(start * given.n_labels), 1)
    grid = np.unique(np.append(np.arange(first, given.n_labels, size), given.n_labels))
    accuracy = np.empty((len(policies), seeds, grid.size))
    scored = code >= 0
    for seed in range(seeds):
        order = np.random.default_rng((random_state, seed)).permutation(given.n_labels)
        for p, policy in enumerate(policies):
            rng = np.random.default_rng((random_state, seed, p))
            for g, (model, _) in enumerate(_buy_in_batches(given, order, grid, policy, family, rng)):
                accuracy[p, seed, g] = np.mean(model.posteriors.argmax(axis=1)[scored] == code[scored])
    return Replay(tuple(policies), grid, accuracy)


def buy_labels(
    labels: CrowdLabels, policy: str, share: float, *, batch: float = 0.02, start: float = 0.05, random_state: int = 0
) -> CrowdLabels:
    """The labels that a policy buys until it has a share of all, with Dawid and Skene's model."""
    check_policy(policy)
    check_number("share", share, low=0, high=1, above=True)
    size, first = max(int(batch * labels.n_labels), 1), max(int(start * labels.n_labels), 1)
    last = max(round(share * labels.n_labels), 1)
    grid = np.append(np.arange(first, last, size) if policy != RANDOM else [], last).astype(np.int64)
    rng = np.random.default_rng(random_state)
    *_, (_, bought) = _buy_in_batches(labels, rng.permutation(labels.n_labels), grid, policy, "dawid-skene", rng)
    return labels.keep(bought)


def read_replay(labels: Any, truth: Any) -> tuple[CrowdLabels, IntArray]:
    """Labels, the first of each worker on each task, and the true class of each task, -1 where it is not known."""
    given = read_labels(labels)
    pair = given.task.astype(np.int64) * given.n_workers + given.worker
    first = np.zeros(given.n_labels, np.bool_)
    first[np.unique(pair, return_index=True)[1]] = True
    given = given.keep(first)
    code = truth_codes(read_truth(truth), given)
    if not (code >= 0).any():
        raise InputError("No task of the labels has a known truth to score by.")
    return given, code


def check_policy(policy: str) -> None:
    """Refuse what is no policy of a replay."""
    if policy in (RANDOM, JOINT):
        return
    task, slash, worker = policy.partition("/") if isinstance(policy, str) else ("", "", "")
    if not slash:
        check_choice("policy", policy, (RANDOM, JOINT, "TASK POLICY/WORKER POLICY"))
    make_task_policy(task)
    make_worker_policy(worker)


def make_empty_model(labels: CrowdLabels, **settings: Any) -> OnlineModel:
    """A model that has the names of the labels, so that positions are theirs, and none of the labels."""
    model = OnlineModel(labels.classes.to_pylist(), **settings)
    for names, add in ((labels.tasks, model.add_task), (labels.workers, model.add_worker)):
        for name in names.to_pylist():
            add(name)
    return model


def _buy_in_batches(
    labels: CrowdLabels, order: IntArray, grid: IntArray, policy: str, family: str, rng: np.random.Generator
) -> Iterator[tuple[OnlineModel, BoolArray]]:
    """The model and which labels (E,) are bought, each time that there are as many as the grid says."""
    model = make_empty_model(labels, family=family, growth=0, revisits=0)
    bought = np.zeros(labels.n_labels, np.bool_)
    number = 0
    for end in grid.tolist():
        while number < end:
            if policy == RANDOM or number == 0:
                edges = order[number:end]
            elif policy == JOINT:
                edges = _buy_pairs(model, labels, bought, end - number, rng)
            else:
                edges = _buy(model, labels, bought, policy, end - number, rng)
            model.add_codes(labels.task[edges].astype(np.int64), labels.worker[edges], labels.label[edges])
            model.refit(max_iter=PASSES, tol=NEAR)
            bought[edges] = True
            number += len(edges)
        yield model, bought


def _buy(
    model: OnlineModel, labels: CrowdLabels, bought: BoolArray, policy: str, number: int, rng: np.random.Generator
) -> IntArray:
    """Labels to buy: one a task at most, of the tasks of most worth, by the worker whom the policy prefers."""
    task_name, _, worker_name = policy.partition("/")
    task_policy, worker_policy = make_task_policy(task_name), make_worker_policy(worker_name)
    so_far = WorkersSoFar(
        model.skill_counts, model.labels_per_worker, np.ones(labels.n_workers), model.n_labels, labels.n_classes
    )
    at = rng.permutation(np.flatnonzero(~bought))  # ties are broken at random
    liked = worker_policy.score(so_far, rng)[labels.worker[at]]
    edges = rng.permutation(_keep_best_of_task(labels, at, liked))
    tasks, confusions = labels.task[edges], model.confusions
    posterior, n_labels = model.posteriors_at(tasks), model.labels_per_task[tasks]
    worth = np.empty(edges.size)
    for worker in np.unique(labels.worker[edges]):
        mine = labels.worker[edges] == worker
        worth[mine] = task_policy.score(posterior[mine], n_labels[mine], confusions[worker])
    chosen: IntArray = edges[np.argsort(-worth, kind="stable")[:number]]
    return chosen


def _buy_pairs(
    model: OnlineModel, labels: CrowdLabels, bought: BoolArray, number: int, rng: np.random.Generator
) -> IntArray:
    """Labels to buy: one a task at most, of the pairs of most worth; any of a task without a label first."""
    at = rng.permutation(np.flatnonzero(~bought))
    worth = score_pairs(model, labels.task[at].astype(np.int64), labels.worker[at].astype(np.int64))
    worth[model.labels_per_task[labels.task[at]] == 0] = np.inf
    order = at[np.argsort(-worth, kind="stable")]
    first = np.sort(np.unique(labels.task[order], return_index=True)[1])
    chosen: IntArray = order[first[:number]]
    return chosen


def _keep_best_of_task(labels: CrowdLabels, edges: IntArray, score: FloatArray) -> IntArray:
    """Of each task the label of the highest score, the last of equals."""
    by_task = np.lexsort((score, labels.task[edges]))
    task = labels.task[edges][by_task]
    best: IntArray = edges[by_task[np.append(task[1:] != task[:-1], True)]]
    return best
