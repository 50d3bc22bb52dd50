"""A real set of labels played as a stream with a stop rule: what it says, what it cost, and what was right.

Some tasks, drawn at random, are gold: their truth is told to the rule, not to the model. Labels come in rounds, in
random order, and the rule is calibrated after each round; a task is open again when the rule no longer stops it.

| | `StopRule` | `StopEstimate` |
|---|---|---|
| gold tasks | get all their labels first, so that the rule can be calibrated early | are asked and stopped as others |
| a round | one label for each open task | the same, and from 20 labels on a tenth of those that a task has |
| open tasks | not stopped, or checks: a share that is labelled on | neither stopped nor given up |
| answer of a task | the model's consensus | that of the rule's fit |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.acquire.replay_stream import make_empty_model, read_replay
from crowdwise.acquire.stop_estimate import StopEstimate
from crowdwise.acquire.stopping import StopRule
from crowdwise.fitting.parameter_checks import check_number, check_random_state
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from crowdwise.fitting.online_model import OnlineModel
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, IntArray

__all__ = ["StopReplay", "replay_stopping"]


@dataclass(frozen=True)
class StopReplay:
    """What a stop rule did on one stream.

    Attributes
    ----------
    promised
        Whether the rule promised anything at the end; a `StopEstimate` never does.
    accuracy
        Share of the stopped tasks that are right; not a number where none was stopped.
    share_of_labels, share_of_tasks
        Labels bought, gold and checks included, of all that there are; tasks stopped, of those that are not gold.
    share_given_up
        Tasks given up, of those that are not gold. They do not count as stopped.
    words
        What the rule says: a promise, an estimate, or why it stops nothing.
    """

    promised: bool
    accuracy: float
    share_of_labels: float
    share_of_tasks: float
    share_given_up: float
    words: str


def replay_stopping(
    labels: Any,
    truth: Any,
    rule: StopRule | StopEstimate | None = None,
    *,
    gold: float = 0.05,
    checks: float = 0.05,
    family: str = "dawid-skene",
    random_state: int = 0,
) -> StopReplay:
    """Play labels as a stream with a stop rule.

    Parameters
    ----------
    labels, truth
        As for `replay`.
    rule
        `StopRule()` by default; it is calibrated here.
    gold, checks
        Share of the tasks with a known truth that is told, and share of the others that a `StopRule` labels on.
    """
    check_number("gold", gold, low=0, high=1)
    check_number("checks", checks, low=0, high=1)
    check_random_state(random_state)
    given, code = read_replay(labels, truth)
    rule = StopRule() if rule is None else rule
    if not isinstance(rule, StopRule | StopEstimate):
        raise InputError(f"rule is {quote(rule)}; it must be a StopRule or a StopEstimate.")
    rng = np.random.default_rng(random_state)
    model = make_empty_model(given, family=family)
    known = np.flatnonzero(code >= 0)
    told = rng.choice(known, round(gold * known.size), replace=False)
    names = given.tasks.to_pylist()
    classes = given.classes.to_pylist()
    gold_answers = {names[task]: classes[code[task]] for task in told}
    is_gold = np.isin(np.arange(given.n_tasks), told)
    if isinstance(rule, StopEstimate):
        left = _play_estimate(rule, model, given, gold_answers, rng)
        given_up = rule.find_given_up(model, given.labels_per_task)
        answer = rule.posteriors(model).argmax(axis=1)
    else:
        is_check = ~is_gold & (rng.random(given.n_tasks) < checks)
        left = _play_promise(rule, model, given, gold_answers, is_gold, is_check, rng)
        given_up = np.zeros(given.n_tasks, np.bool_)
        answer = model.posteriors.argmax(axis=1)
    stopped = rule.find_stopped(model)
    scored = stopped & (code >= 0) & ~is_gold
    right = answer[scored] == code[scored]
    return StopReplay(
        isinstance(rule, StopRule) and rule.can_promise,
        float(right.mean()) if right.size else float("nan"),
        float(1 - left / given.n_labels),
        float(stopped[~is_gold].sum() / max((~is_gold).sum(), 1)),
        float(given_up[~is_gold].sum() / max((~is_gold).sum(), 1)),
        rule.describe(),
    )


def _play_promise(
    rule: StopRule,
    model: OnlineModel,
    labels: CrowdLabels,
    gold: dict[Any, Any],
    is_gold: BoolArray,
    is_check: BoolArray,
    rng: np.random.Generator,
) -> int:
    """Labels that were not bought."""
    names = labels.tasks.to_pylist()
    shuffled = rng.permutation(labels.n_labels)
    gold_labels = is_gold[labels.task[shuffled]]
    model.add_codes(*_take(labels, shuffled[gold_labels]))
    left = shuffled[~gold_labels]
    while True:
        left, edges = _draw_round(labels, left, ~rule.find_stopped(model) | is_check, np.ones(len(names), np.int64))
        if not edges.size:
            return left.size
        model.add_codes(*_take(labels, edges))
        rule.calibrate(model, gold, [names[task] for task in np.flatnonzero(is_check)])


def _play_estimate(
    rule: StopEstimate, model: OnlineModel, labels: CrowdLabels, gold: dict[Any, Any], rng: np.random.Generator
) -> int:
    """Labels that were not bought."""
    left = rng.permutation(labels.n_labels)
    while True:
        done = rule.find_stopped(model) | rule.find_given_up(model, labels.labels_per_task)
        left, edges = _draw_round(labels, left, ~done, np.maximum(model.labels_per_task // 10, 1))
        if not edges.size:
            return left.size
        model.add_codes(*_take(labels, edges))
        rule.calibrate(model, gold)


def _draw_round(labels: CrowdLabels, left: IntArray, asked: BoolArray, number: IntArray) -> tuple[IntArray, IntArray]:
    """What is left after a round, and the labels bought: of each task that is asked the first `number` (N,)."""
    can_be = left[asked[labels.task[left]]]
    can_be = can_be[np.argsort(labels.task[can_be], kind="stable")]
    task = labels.task[can_be]
    edges = can_be[np.arange(task.size) - np.searchsorted(task, task) < number[task]]
    return left[~np.isin(left, edges)], edges


def _take(labels: CrowdLabels, edges: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Task, worker and class of some of the labels."""
    task, worker, label = (column[edges].astype(np.int64) for column in (labels.task, labels.worker, labels.label))
    return task, worker, label
