"""The crowd of a run: simulated, or a real one to which something is done."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crowdwise.acquire.replay_stream import buy_labels
from crowdwise.aggregate.majority_vote import MajorityVote
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.metrics.identifiability_conditions import find_non_dominant
from crowdwise.simulate.crowds import simulate

if TYPE_CHECKING:
    from crowdwise.labels.types import IntArray
    from crowdwise.simulate.simulation import Simulation

__all__ = ["TEST_SEED", "alter_crowd", "draw_crowd", "majority_labels", "majority_labels_drawn", "true_labels"]

TEST_SEED = 1_000_000  # added to a run's seed for what the crowd says of the test tasks
SPAMMER_SEED = 2_000_000  # the same for what is done to a real crowd
COLLUDER_SEED = 3_000_000
TIE_SEED = 4_000_000
DRAWS = 100  # of a crowd, until it is diagonally dominant
OURS = ("name", "dominant", "only", "voted", "true")  # what is said of a crowd besides the parameters of its simulation


def draw_crowd(crowd: dict[str, Any], seed: int, truth: Any) -> Simulation:
    """A crowd; with `dominant`, drawn anew until its mean matrix is diagonally dominant, if that can be had."""
    parameters = {key: value for key, value in crowd.items() if key not in OURS}
    if truth is not None:
        parameters["truth"] = truth
    if "name" not in crowd:
        raise InputError("The crowd has no name: there is nothing to simulate.")
    first = simulate(crowd["name"], **parameters, random_state=seed)
    if "only" in crowd:
        return _keep_kind(first, crowd["only"])
    if not crowd.get("dominant"):
        return first
    drawn = first
    for draw in range(1, DRAWS):
        if not find_non_dominant(drawn.confusion.mean(axis=0)):
            return drawn
        drawn = simulate(crowd["name"], **parameters, random_state=seed * DRAWS + draw + TEST_SEED)
    return first


def _keep_kind(drawn: Simulation, kind: str) -> Simulation:
    """A crowd without the workers of other kinds."""
    kept = np.array([each == kind for each in drawn.kinds or ()], np.bool_)
    if not kept.any():
        raise InputError(f"The crowd has no workers of the kind {quote(kind)}; it has {listing(drawn.kinds or ())}.")
    labels = drawn.labels.select(workers=drawn.labels.workers.filter(pa.array(kept)).to_pylist())
    return replace(drawn, labels=labels, confusion=drawn.confusion[kept], kinds=(kind,) * int(kept.sum()), groups=None)


def alter_crowd(labels: CrowdLabels, crowd: dict[str, Any], seed: int) -> CrowdLabels:
    """A real crowd of which each worker answers fewer tasks, and extreme spammers answer all; or one of its workers.

    With `bought`, a share of the labels, bought by the `policy`.
    """
    if "bought" in crowd:
        return buy_labels(labels, crowd["policy"], crowd["bought"], start=crowd["start"], random_state=seed)
    if "busiest" in crowd:
        order = np.argsort(-labels.labels_per_worker, kind="stable")
        return labels.keep(labels.worker == order[crowd["busiest"] - 1])
    rng = np.random.default_rng(seed + SPAMMER_SEED)
    if "tasks_per_worker" in crowd:
        order = rng.permutation(labels.n_labels)
        order = order[np.argsort(labels.worker[order], kind="stable")]
        first = np.cumsum(labels.labels_per_worker) - labels.labels_per_worker
        rank = np.empty(labels.n_labels, np.int64)
        rank[order] = np.arange(labels.n_labels) - first[labels.worker[order]]
        labels = labels.keep(rank < crowd["tasks_per_worker"])
    number = crowd.get("n_spammers", 0)
    if not number:
        return labels
    n_tasks = labels.n_tasks
    return CrowdLabels.from_codes(
        np.concatenate([labels.task, np.tile(np.arange(n_tasks), number)]),
        np.concatenate([labels.worker, np.repeat(labels.n_workers + np.arange(number), n_tasks)]),
        np.concatenate([labels.label, rng.integers(labels.n_classes, size=number * n_tasks)]),
        tasks=labels.tasks,
        workers=[*map(str, labels.workers.to_pylist()), *(f"spammer {at}" for at in range(number))],
        classes=labels.classes,
        on_duplicate="all",
    )


def add_colluders(
    labels: CrowdLabels, truth: IntArray, crowd: dict[str, Any], seed: int
) -> tuple[CrowdLabels, tuple[str, ...] | None]:
    """A real crowd of which some workers collude, as `simulate.adversaries.colluders` do; and the kind of each worker.

    `colluders` is their share, `p_corr` the chance that they agree on the same wrong answer to a task; otherwise they
    give the truth, where it is known. With `only`, the labels of the others are dropped. None where there is no share.
    """
    if "colluders" not in crowd:
        return labels, None
    rng = np.random.default_rng(seed + COLLUDER_SEED)
    bad = np.zeros(labels.n_workers, np.bool_)
    active = np.flatnonzero(labels.labels_per_worker)
    bad[rng.permutation(active)[: round(crowd["colluders"] * active.size)]] = True
    known = np.where(truth >= 0, truth, rng.integers(labels.n_classes, size=truth.size))
    wrong = (known + rng.integers(1, labels.n_classes, truth.size)) % labels.n_classes
    answer = np.where(rng.random(truth.size) < crowd["p_corr"], wrong, known)
    altered = CrowdLabels.from_codes(
        labels.task,
        labels.worker,
        np.where(bad[labels.worker], answer[labels.task], labels.label),
        tasks=labels.tasks,
        workers=labels.workers,
        classes=labels.classes,
        on_duplicate="all",
    )
    kinds = tuple(np.where(bad, "colluder", "honest").tolist())
    if "only" in crowd:
        altered = altered.keep((bad == (crowd["only"] == "colluder"))[altered.worker])
    return altered, kinds


def majority_labels(labels: CrowdLabels) -> CrowdLabels:
    """The winners of the votes, as one rater's labels."""
    return _labels_of_one_rater(labels, MajorityVote().fit(labels).predict())


def majority_labels_drawn(labels: CrowdLabels, seed: int) -> CrowdLabels:
    """The same, where each tie is broken by a draw."""
    shares = MajorityVote().fit(labels).posterior_
    tied = np.isclose(shares, shares.max(axis=1, keepdims=True))
    lots = np.random.default_rng(seed + TIE_SEED).random(shares.shape)
    winner = np.where(tied, lots, -1).argmax(axis=1)
    return _labels_of_one_rater(labels, labels.classes.take(pa.array(winner)).to_pylist())


def _labels_of_one_rater(labels: CrowdLabels, label: Any) -> CrowdLabels:
    return CrowdLabels.from_arrays(
        labels.tasks.to_pylist(), ["majority"] * labels.n_tasks, label, classes=labels.classes.to_pylist()
    )


def true_labels(labels: CrowdLabels, truth: IntArray) -> CrowdLabels:
    """The truth (N,), as one rater's labels."""
    known = np.flatnonzero(truth >= 0)
    return CrowdLabels.from_codes(
        known, np.zeros_like(known), truth[known], tasks=labels.tasks, workers=["truth"], classes=labels.classes
    )
