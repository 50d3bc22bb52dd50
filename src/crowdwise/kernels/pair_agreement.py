"""How often two workers agree, and how often they would if they were independent given the truth.

For two workers of a task, the truth is what the other groups say: P(k | others) ∝ prior[k] Π_u A[u, k, label], over the
labels that represent groups other than those of the two. Given the truth the two are independent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["MOST_TOTAL", "IndependenceModel", "copy_log_ratios", "pair_sums", "partner_sums"]


MOST_TOTAL = 1 / 0.9  # of chances relative to the likeliest class, for the others to be sure of it
CHUNK = 1 << 20  # pairs × K² that NumPy holds at a time


class IndependenceModel(NamedTuple):
    """Labels, and the model in which workers of different groups are independent given the truth.

    Attributes
    ----------
    task_ptr : (N + 1,)
        Edges of each task.
    worker, label : (S,)
        Of each edge.
    representative : (S,)
        The edge of the same task that represents this worker's group; their own where alone.
    log_prior : (K,)
    log_table : (M, K, K) [worker, label, truth]
        Finite.
    """

    task_ptr: IntArray
    worker: IntArray
    label: IntArray
    representative: IntArray
    log_prior: FloatArray
    log_table: FloatArray


def pair_sums(model: IndependenceModel, tasks: IntArray, place: IntArray, size: int) -> FloatArray:
    """Sums over the tasks that every two of `size` workers share, (7, size, size), symmetric.

    Shared tasks; those with the same answer, seen and expected; those on which both answer otherwise than the others
    are sure of, seen and expected; and of these those with the same answer, seen and expected.

    Parameters
    ----------
    tasks
        Positions of the tasks to go through.
    place : (M,)
        Row of each worker in the sums; -1 for one who is left out.
    """
    out = np.zeros((7, size, size))
    if _use_compiled(model):
        from crowdwise.kernels.compiled import pair_agreement

        pair_agreement.add_pair_sums(model, np.exp(model.log_table), tasks, place, out)
    else:
        for pairs in _pairs_of_tasks(model, tasks, place, ordered=False):
            _add_pair_sums(pairs, out)
    both: FloatArray = out + out.transpose(0, 2, 1)
    return both


def partner_sums(model: IndependenceModel, tasks: IntArray, place: IntArray, partners: BoolArray) -> FloatArray:
    """Sums over the tasks that a worker shares with any of their partners, (3, size).

    Tasks; in each, the share of their partners there who give the same answer, seen and expected.

    Parameters
    ----------
    partners : (size, size)
        Whether the column is a partner of the row.
    """
    out = np.zeros((3, partners.shape[0]))
    if _use_compiled(model):
        from crowdwise.kernels.compiled import pair_agreement

        pair_agreement.add_partner_sums(model, np.exp(model.log_table), tasks, place, partners, out)
    else:
        for pairs in _pairs_of_tasks(model, tasks, place, ordered=True):
            _add_partner_sums(pairs, partners, out)
    return out


def copy_log_ratios(
    model: IndependenceModel, tasks: IntArray, place: IntArray, size: int, copied: FloatArray, usual: float
) -> FloatArray:
    """Log-likelihood ratio (C, size, size) that the column copies the row, rather than only shares the truth with it.

    On a task where the row says l, the column says the same with chance p if only the truth joins the two; if the
    column copies a share c of answers, with c + (1 - c) p. The ratio is that of c to the share `usual`. A worker's
    second answer to a task is no further evidence, and is left out.

    Parameters
    ----------
    copied : (C,)
        Shares c, above `usual` and below 1.
    usual
        Share of answers that any two workers have in common beyond the truth.
    """
    out = np.zeros((copied.size, size, size))
    if _use_compiled(model):
        from crowdwise.kernels.compiled import pair_agreement

        pair_agreement.add_copy_ratios(model, np.exp(model.log_table), tasks, place, copied, usual, out)
    else:
        again = _mark_repeated_answers(model)
        for pairs in _pairs_of_tasks(model, tasks, place, ordered=True):
            _add_copy_ratios(pairs, again, copied, usual, out)
    return out


def _use_compiled(model: IndependenceModel) -> bool:
    return choose_engine(model.worker.size, model.log_prior.size) == "numba"


class _Pairs(NamedTuple):
    """Pairs of edges of the same task, with the rows of their workers, in the order of the compiled loops."""

    model: IndependenceModel
    table: FloatArray
    all_labels: FloatArray  # (N, K): log-probability of each class with all that the representatives say
    one: IntArray
    two: IntArray
    first: IntArray
    second: IntArray
    task: IntArray

    def keep(self, kept: BoolArray) -> _Pairs:
        return self._replace(**{name: getattr(self, name)[kept] for name in ("one", "two", "first", "second", "task")})

    def agree(self) -> BoolArray:
        same: BoolArray = self.model.label[self.one] == self.model.label[self.two]
        return same

    def class_chances_by_others(self) -> FloatArray:
        """Chance of each class by the other groups (P, K), relative to the likeliest."""
        model = self.model
        ends = model.representative[self.one], model.representative[self.two]
        said = [model.log_table[model.worker[end], model.label[end]] for end in ends]
        said[1][ends[0] == ends[1]] = 0.0
        chance = self.all_labels[self.task] - said[0] - said[1]
        relative: FloatArray = np.exp(chance - chance.max(axis=1, keepdims=True))
        return relative

    def joint_answer_chances(self, others: FloatArray) -> FloatArray:
        """Chance (P, K), relative as `class_chances_by_others` is, that both give each answer."""
        one, two = (self.table[self.model.worker[end]] for end in (self.one, self.two))
        both: FloatArray = np.einsum("pk,pak,pak->pa", others, one, two)
        return both


def _pairs_of_tasks(model: IndependenceModel, tasks: IntArray, place: IntArray, *, ordered: bool) -> Iterator[_Pairs]:
    """Pairs of edges whose workers have a place, in chunks of whole tasks; both orders, and an edge with itself."""
    n_classes = model.log_prior.size
    per_task = np.diff(model.task_ptr)
    speaks = np.flatnonzero(model.representative == np.arange(model.worker.size))
    all_labels = np.tile(model.log_prior, (per_task.size, 1))
    task_of = np.repeat(np.arange(per_task.size), per_task)
    np.add.at(all_labels, task_of[speaks], model.log_table[model.worker[speaks], model.label[speaks]])
    table = np.exp(model.log_table)
    cost = np.cumsum(per_task[tasks].astype(np.int64) ** 2 * n_classes**2)
    for chunk in np.split(tasks, np.flatnonzero(np.diff(cost // CHUNK)) + 1):
        n = per_task[chunk]
        position = np.repeat(np.arange(chunk.size), n)
        edge = np.repeat(model.task_ptr[chunk] - np.cumsum(n) + n, n) + np.arange(position.size)
        kept = place[model.worker[edge]] >= 0
        edge, position = edge[kept], position[kept]
        count = np.bincount(position, minlength=chunk.size)
        start = np.cumsum(count) - count
        begins = start[position] if ordered else np.arange(edge.size) + 1
        length = (start + count)[position] - begins
        one = np.repeat(np.arange(edge.size), length)
        two = np.arange(one.size) - np.repeat(np.cumsum(length) - length, length) + begins[one]
        ends = edge[one], edge[two]
        first, second = (place[model.worker[end]] for end in ends)
        yield _Pairs(model, table, all_labels, *ends, first, second, chunk[position[one]])


def _add_pair_sums(pairs: _Pairs, out: FloatArray) -> None:
    pairs = pairs.keep(pairs.first != pairs.second)
    model = pairs.model
    others = pairs.class_chances_by_others()
    total, best = others.sum(axis=1), others.argmax(axis=1)
    joint = pairs.joint_answer_chances(others)
    agree, same = pairs.agree(), joint.sum(axis=1) / total
    joint[np.arange(best.size), best] = 0.0
    wrong = joint.sum(axis=1) / total
    one, two = (1 - pairs.table[model.worker[end], best] for end in (pairs.one, pairs.two))
    off = (others * one * two).sum(axis=1) / total
    sure = total < MOST_TOTAL
    ones, twos = model.label[pairs.one] != best, model.label[pairs.two] != best
    values = (np.ones(best.size), agree, same, sure & ones & twos, sure * off, sure & agree & ones, sure * wrong)
    cell = pairs.first * out.shape[1] + pairs.second
    for number, value in enumerate(values):
        out[number] += np.bincount(cell, value, out[number].size).reshape(out[number].shape)


def _add_partner_sums(pairs: _Pairs, partners: BoolArray, out: FloatArray) -> None:
    pairs = pairs.keep(partners[pairs.first, pairs.second])
    others = pairs.class_chances_by_others()
    expected = pairs.joint_answer_chances(others).sum(axis=1) / others.sum(axis=1)
    edge, start, met = np.unique(pairs.one, return_index=True, return_counts=True)
    position = np.repeat(np.arange(edge.size), met)
    first = pairs.first[start]
    out[0] += np.bincount(first, minlength=out.shape[1])
    for number, value in ((1, pairs.agree()), (2, expected)):
        share = np.bincount(position, value, edge.size) / met
        out[number] += np.bincount(first, share, out.shape[1])


def _add_copy_ratios(pairs: _Pairs, again: BoolArray, copied: FloatArray, usual: float, out: FloatArray) -> None:
    pairs = pairs.keep((pairs.first != pairs.second) & ~again[pairs.one] & ~again[pairs.two])
    agree, n_cells = pairs.agree(), out.shape[1] * out.shape[2]
    cell = pairs.first * out.shape[1] + pairs.second
    differ = np.bincount(cell[~agree], minlength=n_cells).reshape(out.shape[1:])
    out += np.log((1 - copied) / (1 - usual))[:, None, None] * differ
    alike = pairs.keep(agree)
    model = alike.model
    one, two = (alike.table[model.worker[end], model.label[end]] for end in (alike.one, alike.two))
    says = alike.class_chances_by_others() * one
    same = (says * two).sum(axis=1) / np.maximum(says.sum(axis=1), 1e-300)
    for number, share in enumerate(copied):
        gain = np.log((share + (1 - share) * same) / (usual + (1 - usual) * same))
        out[number] += np.bincount(cell[agree], gain, n_cells).reshape(out.shape[1:])


def _mark_repeated_answers(model: IndependenceModel) -> BoolArray:
    """Whether each edge is a second answer of its worker to its task."""
    task = np.repeat(np.arange(model.task_ptr.size - 1), np.diff(model.task_ptr))
    key = task * np.int64(model.log_table.shape[0]) + model.worker
    again = np.ones(key.size, np.bool_)
    again[np.unique(key, return_index=True)[1]] = False
    return again
