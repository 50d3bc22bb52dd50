"""How well a method predicts labels that it has not seen: the score that needs no truth.

A label of worker w on task t has probability Σ_k q[t, k] A[w, k, l]: q is the posterior of the task from the labels
that were kept, A the worker's matrix. For all methods alike, A counts the worker's kept answers under q and is drawn
towards the crowd's by a few answers: methods without matrices can be compared, and an answer never seen before is not
impossible. A worker who lost all labels answers as the crowd does; a task that lost all has the method's own prior.
A method that tells more states apart than the classes (EBCC's subtypes) is taken at its word: k runs over its states;
and so is one in which the task itself tilts the answers (minimax entropy).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from crowdwise.engines import prepare
from crowdwise.fitting.base import Aggregator, check_enough_labels
from crowdwise.fitting.content_order import order_by_content
from crowdwise.fitting.estimator_parameters import clone
from crowdwise.fitting.parameter_checks import check_count, check_random_state
from crowdwise.fitting.underflow import ignore_underflow
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.old_names import accept_seed
from crowdwise.labels.read import read_labels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = [
    "HeldOutFold",
    "Predictor",
    "given_answer_probabilities",
    "held_out_log_probability",
    "predict_answers",
    "predict_held_out",
    "shrink_answer_table",
    "split_into_folds",
    "standard_error_over_tasks",
]

DRAW = 5.0  # answers of the crowd that count as a worker's own, for each state of the truth
UNSEEN = 0.5  # of an answer that nobody in the crowd gave
BLOCK_CELLS = 1 << 18  # of workers' tables that are gathered at a time: what the second-level cache holds


class Predictor(Protocol):
    """What held-out prediction asks of a fitted model; every aggregator has it."""

    def _predict_answers(self, labels: CrowdLabels, task: IntArray, worker: IntArray) -> FloatArray | None: ...

    def _state_posterior(self, labels: CrowdLabels) -> FloatArray: ...


class HeldOutFold:
    """One fold: the labels kept, which of all are hidden, and those."""

    def __init__(self, labels: CrowdLabels, hidden: BoolArray) -> None:
        self.hidden = hidden
        self.kept, self.held = labels.keep(~hidden), labels.keep(hidden)


@accept_seed
@ignore_underflow
def held_out_log_probability(method: Aggregator, labels: Any, *, folds: int = 5, random_state: int = 0) -> FloatArray:
    """Log-probability that a method gives each label when the label is hidden from it.

    Parameters
    ----------
    method
        An aggregator; copies of it are fitted, once for each fold.
    labels
        As for `fit`.
    folds
        Parts into which the labels are cut at random; each is predicted from the others.
    random_state
        For the cut.

    Returns
    -------
    (n_labels,)
        In the order of `CrowdLabels`. The mean is the method's score: higher is better.

    Examples
    --------
    >>> from crowdwise.aggregate.dawid_skene import DawidSkene
    >>> from crowdwise.simulate import simulate
    >>> crowd = simulate("dawid-skene", n_tasks=200, n_workers=10, n_classes=3, labels_per_task=5, random_state=0)
    >>> held_out_log_probability(DawidSkene(smoothing=0.1), crowd.labels).mean().round(1)
    np.float64(-0.9)
    """
    if not isinstance(method, Aggregator):
        raise InputError(
            f"method is {quote(method)}; give an aggregator, such as crowdwise.method('dawid-skene').load()()."
        )
    known = read_labels(labels)
    check_enough_labels(known)
    found = np.empty(known.n_labels)
    for part in split_into_folds(known, folds, random_state):
        found[part.hidden] = given_answer_probabilities(predict_held_out(clone(method).fit(part.kept), part), part)
    return np.log(found)


def split_into_folds(labels: CrowdLabels, folds: int, random_state: int) -> Iterator[HeldOutFold]:
    """The labels cut at random into as many parts, each of which is hidden in turn."""
    check_random_state(random_state)
    if labels.n_labels < 2:
        raise InputError("There is 1 label: none can be hidden and predicted from others. Give more labels.")
    check_count("folds", folds, low=2)
    if folds > labels.n_labels:
        raise InputError(f"folds is {folds}; it must be from 2 to the number of labels, {labels.n_labels:,}.")
    number = np.empty(labels.n_labels, np.int64)
    number[order_by_content(labels).sort_edges(labels)] = (
        np.random.default_rng(random_state).permutation(labels.n_labels) % folds
    )
    for fold in range(folds):
        yield HeldOutFold(labels, number == fold)


def predict_held_out(model: Predictor, part: HeldOutFold) -> FloatArray:
    """Probability of every answer (hidden labels, K) to what was hidden, by a model of the labels that were kept."""
    return predict_answers(model, part.kept, part.held.task, part.held.worker)


def predict_answers(model: Predictor, labels: CrowdLabels, task: IntArray, worker: IntArray) -> FloatArray:
    """Probability of every answer (n, K) of workers to tasks, by a model of `labels`."""
    own = model._predict_answers(labels, task, worker)
    if own is not None:
        return own
    states = model._state_posterior(labels)
    table = estimate_answer_table(labels, states)
    found = np.empty((task.size, labels.n_classes))
    block = max(1, BLOCK_CELLS // table[0].size)
    for first in range(0, task.size, block):
        some = slice(first, first + block)
        found[some] = np.einsum("es,esl->el", states[task[some]], table[worker[some]])
    return found


def given_answer_probabilities(probabilities: FloatArray, part: HeldOutFold) -> FloatArray:
    """The probability of the answer that was given, (hidden labels,)."""
    given = probabilities[np.arange(part.held.n_labels), part.held.label]
    return np.maximum(given, np.finfo(np.float64).tiny)


def estimate_answer_table(labels: CrowdLabels, states: FloatArray) -> FloatArray:
    """P(label | state) of each worker, [worker, state, label], drawn towards the crowd."""
    return shrink_answer_table(prepare(labels, states.shape[1]).accumulate(states).counts)


def shrink_answer_table(counts: FloatArray) -> FloatArray:
    """Shares of each worker's answers [worker, state, label], drawn towards the crowd's by a few answers."""
    crowd = counts.sum(axis=0) + UNSEEN
    crowd /= crowd.sum(axis=1, keepdims=True)
    table: FloatArray = (counts + DRAW * crowd) / (counts.sum(axis=2, keepdims=True) + DRAW)
    return table


def standard_error_over_tasks(task: IntArray, values: FloatArray) -> float:
    """Standard error of the mean of a value per label (n,), where labels of one task go together."""
    sums = np.bincount(task, values - values.mean())
    return float(np.sqrt((sums**2).sum()) / values.size)
