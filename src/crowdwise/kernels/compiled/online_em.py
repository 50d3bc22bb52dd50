"""EM one label at a time; see `kernels.online_em`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from crowdwise.kernels.online_em import count_label
from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.kernels.online_em import OnlineArrays, OnlineRule
    from crowdwise.labels.types import FloatArray

__all__ = ["add_labels", "revisit_tasks"]

LEAST = 1e-300
EXPONENT = -0.6
SPREAD = 2654435761
SERIES_FROM = 6.0  # from which the asymptotic series of digamma is exact to 1e-12
DAWID_SKENE, ONE_COIN, CONFUSION_VECTOR, MEAN_FIELD = 0, 1, 2, 3  # positions in `kernels.online_em.FAMILIES`


@njit(cache=True, nogil=True, error_model="numpy")
def digamma(x: float) -> float:
    """Derivative of log Γ at x > 0: recurrence to where the asymptotic series holds."""
    below = 0.0
    while x < SERIES_FROM + 4:
        below -= 1 / x
        x += 1
    y = 1 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132 - y * 691 / 32760)))))
    return below + math.log(x) - 0.5 / x - series


@njit(cache=True, nogil=True, error_model="numpy")
def set_table(counts: FloatArray, rule: OnlineRule, table: FloatArray) -> None:
    """Logarithms of one worker's P(label | truth), [label, truth]."""
    n_classes = counts.shape[0]
    if rule.family == ONE_COIN or rule.family == CONFUSION_VECTOR:  # noqa: PLR1714 - numba has no sets of numbers
        all_right, all_total = 0.0, 0.0
        if rule.family == ONE_COIN:
            for k in range(n_classes):
                all_right += counts[k, k] + rule.pseudo[k, k]
                for label in range(n_classes):
                    all_total += counts[label, k] + rule.pseudo[label, k]
        for k in range(n_classes):
            right, total = all_right, all_total
            if rule.family == CONFUSION_VECTOR:
                right, total = counts[k, k] + rule.pseudo[k, k], 0.0
                for label in range(n_classes):
                    total += counts[label, k] + rule.pseudo[label, k]
            accuracy = right / total if total > 0 else 1 / n_classes
            wrong = math.log(max((1 - accuracy) / max(n_classes - 1, 1), LEAST))
            for label in range(n_classes):
                table[label, k] = wrong
            table[k, k] = math.log(max(accuracy, LEAST))
        return
    for k in range(n_classes):
        total = 0.0
        for label in range(n_classes):
            total += counts[label, k] + rule.pseudo[label, k]
        if rule.family == MEAN_FIELD:
            base = digamma(total)
            for label in range(n_classes):
                table[label, k] = digamma(counts[label, k] + rule.pseudo[label, k]) - base
        else:
            for label in range(n_classes):
                share = (counts[label, k] + rule.pseudo[label, k]) / total if total > 0 else 1 / n_classes
                table[label, k] = math.log(max(share, LEAST))


@njit(cache=True, nogil=True, error_model="numpy")
def set_log_prior(state: OnlineArrays, rule: OnlineRule) -> None:
    """Logarithms of the class shares from class counts."""
    total = 0.0
    for k in range(state.log_prior.size):
        total += state.class_counts[k] + rule.share_pseudo
    if rule.family == MEAN_FIELD:
        base = digamma(total)
        for k in range(state.log_prior.size):
            state.log_prior[k] = digamma(state.class_counts[k] + rule.share_pseudo) - base
    elif total > 0:
        for k in range(state.log_prior.size):
            state.log_prior[k] = math.log(max((state.class_counts[k] + rule.share_pseudo) / total, LEAST))


@njit(cache=True, nogil=True, error_model="numpy")
def update_posterior(state: OnlineArrays, rule: OnlineRule, task: int, newly: bool, change: FloatArray) -> None:
    """Set q of a task from its score; `change` is what it has changed by."""
    n_classes = state.log_prior.size
    for k in range(n_classes):
        change[k] = 0.0 if newly else -state.posterior[task, k]
    gold = state.gold[task]
    if gold >= 0:
        for k in range(n_classes):
            state.posterior[task, k] = 1.0 if k == gold else 0.0
    else:
        top = -math.inf
        for k in range(n_classes):
            top = max(top, state.score[task, k] + state.log_prior[k])
        total = 0.0
        for k in range(n_classes):
            state.posterior[task, k] = math.exp(state.score[task, k] + state.log_prior[k] - top)
            total += state.posterior[task, k]
        for k in range(n_classes):
            state.posterior[task, k] /= total
    for k in range(n_classes):
        change[k] += state.posterior[task, k]
        state.class_counts[k] += change[k]
    set_log_prior(state, rule)


@njit(inline="always")  # where it is called: the constants given to it would each have a version compiled
def revisit_task(
    state: OnlineArrays, rule: OnlineRule, task: int, window: int, newly: bool, fresh: int, change: FloatArray
) -> float:
    """E-step of one task with the tables of now, then the counts of those who labelled it."""
    n_classes = state.log_prior.size
    for k in range(n_classes):
        state.score[task, k] = 0.0
    edge = state.last_edge[task]
    while edge >= 0:
        worker, label = state.edge_worker[edge], state.edge_label[edge]
        for k in range(n_classes):
            state.score[task, k] += state.log_table[worker, label, k]
        edge = state.edge_before[edge]
    update_posterior(state, rule, task, newly, change)
    edge, visited = state.last_edge[task], 0
    while edge >= 0 and (window == 0 or visited < window):
        worker, label = state.edge_worker[edge], state.edge_label[edge]
        for k in range(n_classes):
            more = state.posterior[task, k] if edge == fresh else change[k]
            state.counts[worker, label, k] = max(state.counts[worker, label, k] + more, 0.0)
        set_table(state.counts[worker], rule, state.log_table[worker])
        edge = state.edge_before[edge]
        visited += 1
    moved = 0.0
    for k in range(n_classes):
        moved = max(moved, abs(change[k]))
    return moved


count = njit(nogil=True, error_model="numpy")(count_label)


@njit(cache=True, nogil=True, error_model="numpy")
def add_labels(state: OnlineArrays, rule: OnlineRule, first: int, last: int) -> None:
    """Take labels in, one after the other."""
    change = state.log_prior.copy()
    n_classes = state.log_prior.size
    for edge in range(first, last):
        task, worker, label = state.edge_task[edge], state.edge_worker[edge], state.edge_label[edge]
        newly = count(state, edge)
        if rule.exact:
            revisit_task(state, rule, task, rule.window, newly, edge, change)
            for again in range(edge * rule.revisits, (edge + 1) * rule.revisits):
                earlier = state.edge_task[again * SPREAD % (edge + 1)]
                revisit_task(state, rule, earlier, rule.window, False, -1, change)
            continue
        for k in range(n_classes):
            state.score[task, k] += state.log_table[worker, label, k]
        update_posterior(state, rule, task, newly, change)
        number = state.n_answers[worker]
        step = (edge + 1.0) ** EXPONENT
        state.weight[worker] = (1 - step) * state.weight[worker] + step
        share = step / state.weight[worker]
        kept = (1 - share) * number / max(number - 1, 1)
        for other in range(n_classes):
            for k in range(n_classes):
                state.counts[worker, other, k] *= kept
        for k in range(n_classes):
            state.counts[worker, label, k] += share * number * state.posterior[task, k]
        set_table(state.counts[worker], rule, state.log_table[worker])


@njit(cache=True, nogil=True, error_model="numpy")
def revisit_tasks(state: OnlineArrays, rule: OnlineRule, n_tasks: int) -> float:
    """One pass over tasks in exact mode: the greatest change of a posterior."""
    change = state.log_prior.copy()
    moved = 0.0
    for task in range(n_tasks):
        if state.n_labels[task] > 0:
            moved = max(moved, revisit_task(state, rule, task, 0, False, -1, change))
    return moved
