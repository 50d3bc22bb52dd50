"""A real set of labels played as a stream: policies buy its labels, and are compared by accuracy against labels bought.

A label can be bought if the set has it: a policy chooses for every task, among those who labelled it and were not asked
yet, one worker by the worker policy, then the tasks of most worth with that worker, a batch at a time. The first labels
are bought at random, the same for all policies of a seed. The model never sees the truth, which scores alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.acquire.task_policies import make_task_policy
from crowdwise.acquire.worker_policies import WorkersSoFar, make_worker_policy
from crowdwise.fitting.online_model import OnlineModel
from crowdwise.fitting.parameter_checks import check_choice, check_count, check_inner_share, check_random_state
from crowdwise.labels.errors import InputError
from crowdwise.labels.read import read_labels
from crowdwise.labels.truth import read_truth, truth_codes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["RANDOM", "Replay", "make_empty_model", "read_replay", "replay"]

RANDOM = "random"  # labels bought in random order
GROWTH = 1.1  # the model is refitted often, so that curves show policies and not when a refit came
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
        needed: dict[str, int | None] = {}
        for name, curve in zip(self.policies, self.mean, strict=True):
            there = np.flatnonzero(curve >= accuracy)
            needed[name] = int(self.labels[there[0]]) if there.size else None
        return needed


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
        "random", or a task policy and a worker policy: "uncertainty/epsilon-greedy".
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
    pairs = [_parse(policy) for policy in policies]
    size, first = max(int(batch * given.n_labels), 1), max(int(start * given.n_labels), 1)
    grid = np.unique(np.append(np.arange(first, given.n_labels, size), given.n_labels))
    accuracy = np.empty((len(pairs), seeds, grid.size))
    for seed in range(seeds):
        order = np.random.default_rng((random_state, seed)).permutation(given.n_labels)
        for p, pair in enumerate(pairs):
            rng = np.random.default_rng((random_state, seed, p))
            accuracy[p, seed] = _run(given, code, order, grid, pair, family, rng)
    return Replay(tuple(policies), grid, accuracy)


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


def _parse(policy: str) -> tuple[str, str] | None:
    if policy == RANDOM:
        return None
    task, slash, worker = policy.partition("/") if isinstance(policy, str) else ("", "", "")
    if not slash:
        check_choice("policy", policy, (RANDOM, "TASK POLICY/WORKER POLICY"))
    make_task_policy(task)
    make_worker_policy(worker)
    return task, worker


def make_empty_model(labels: CrowdLabels, **settings: Any) -> OnlineModel:
    """A model that has the names of the labels, so that positions are theirs, and none of the labels."""
    model = OnlineModel(labels.classes.to_pylist(), **settings)
    for names, add in ((labels.tasks, model.add_task), (labels.workers, model.add_worker)):
        for name in names.to_pylist():
            add(name)
    return model


def _run(
    labels: CrowdLabels,
    code: IntArray,
    order: IntArray,
    grid: IntArray,
    pair: tuple[str, str] | None,
    family: str,
    rng: np.random.Generator,
) -> FloatArray:
    """Accuracy (G,) of one policy in one order of the first labels."""
    model = make_empty_model(labels, family=family, growth=GROWTH)
    free = np.ones(labels.n_labels, np.bool_)
    scored = code >= 0
    found = np.empty(grid.size)
    bought = 0
    for g, end in enumerate(grid):
        while bought < end:
            edges = (
                order[bought:end] if pair is None or bought == 0 else _buy(model, labels, free, pair, end - bought, rng)
            )
            model.add_codes(labels.task[edges].astype(np.int64), labels.worker[edges], labels.label[edges])
            free[edges] = False
            bought += len(edges)
        found[g] = np.mean(model.posteriors.argmax(axis=1)[scored] == code[scored])
    return found


def _buy(
    model: OnlineModel, labels: CrowdLabels, free: Any, pair: tuple[str, str], number: int, rng: np.random.Generator
) -> IntArray:
    """Labels to buy: one a task at most, of the tasks of most worth, by the worker whom the policy prefers."""
    task_policy, worker_policy = make_task_policy(pair[0]), make_worker_policy(pair[1])
    so_far = WorkersSoFar(
        model.skill_counts, model.labels_per_worker, np.ones(labels.n_workers), model.n_labels, labels.n_classes
    )
    at = np.flatnonzero(free)
    at = at[rng.permutation(at.size)]  # ties are broken at random
    liked = worker_policy.score(so_far, rng)[labels.worker[at]]
    by_task = np.lexsort((liked, labels.task[at]))
    last = np.append(labels.task[at][by_task][1:] != labels.task[at][by_task][:-1], True)
    edges = at[by_task[last]]  # the preferred worker of each task
    edges = edges[rng.permutation(edges.size)]
    tasks, confusions = labels.task[edges], model.confusions
    posterior, n_labels = model.posteriors_at(tasks), model.labels_per_task[tasks]
    worth = np.empty(edges.size)
    for worker in np.unique(labels.worker[edges]):
        mine = labels.worker[edges] == worker
        worth[mine] = task_policy.score(posterior[mine], n_labels[mine], confusions[worker])
    chosen: IntArray = edges[np.argsort(-worth, kind="stable")[:number]]
    return chosen
