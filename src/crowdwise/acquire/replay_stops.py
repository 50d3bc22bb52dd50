"""A real set of labels played as a stream with a stop rule: what it says, what it cost, and what was right.

Some tasks, drawn at random, are gold: their truth is told to the rule, not to the model, and they get all their labels
first, so that the rule can be calibrated early. The others come in rounds, one label for each open task, in random
order; with `StopEstimate(skilled_first=True)` that of the worker of highest estimated skill. A share of the tasks that
could be stopped is labelled on, as a check. The rule is calibrated after each round; a task is open again when the rule
no longer stops it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.acquire.pair_worth import SKILLS, estimate_skills
from crowdwise.acquire.replay_stream import make_empty_model, read_replay
from crowdwise.acquire.stop_estimate import StopEstimate
from crowdwise.acquire.stopping import StopRule
from crowdwise.fitting.parameter_checks import check_number, check_random_state
from crowdwise.fitting.underflow import ignore_underflow
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import IntArray

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
    words
        What the rule says: a promise, an estimate, or why it stops nothing.
    """

    promised: bool
    accuracy: float
    share_of_labels: float
    share_of_tasks: float
    words: str


@ignore_underflow
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
        Share of the tasks with a known truth that is told, and share of the others that is labelled on.
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
    is_check = ~is_gold & (rng.random(given.n_tasks) < checks)
    shuffled = rng.permutation(given.n_labels)
    gold_labels = is_gold[given.task[shuffled]]
    model.add_codes(*_take(given, shuffled[gold_labels]))
    left = shuffled[~gold_labels]
    while True:
        needs = ~rule.find_stopped(model) | is_check
        can_be_asked = left[needs[given.task[left]]]
        if not can_be_asked.size:
            break
        if isinstance(rule, StopEstimate) and rule.skilled_first:
            skill = (estimate_skills(model) @ SKILLS)[given.worker[can_be_asked]]
            can_be_asked = can_be_asked[np.argsort(-skill, kind="stable")]
        edges = can_be_asked[np.unique(given.task[can_be_asked], return_index=True)[1]]
        model.add_codes(*_take(given, edges))
        left = left[~np.isin(left, edges)]
        rule.calibrate(model, gold_answers, [names[task] for task in np.flatnonzero(is_check)])
    stopped = rule.find_stopped(model)
    scored = stopped & (code >= 0)
    right = model.posteriors.argmax(axis=1)[scored] == code[scored]
    return StopReplay(
        isinstance(rule, StopRule) and rule.can_promise,
        float(right.mean()) if right.size else float("nan"),
        float(1 - left.size / given.n_labels),
        float(stopped[~is_gold].sum() / max((~is_gold).sum(), 1)),
        rule.describe(),
    )


def _take(labels: CrowdLabels, edges: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Task, worker and class of some of the labels."""
    task, worker, label = (column[edges].astype(np.int64) for column in (labels.task, labels.worker, labels.label))
    return task, worker, label
