"""What every method for spans shares: texts cut into segments, two tables, prediction for new texts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.fitting.skill_intervals import beta_interval
from crowdwise.kinds.boxes.truth import TrueMarks, align_true_marks
from crowdwise.kinds.item_scores import beta_share
from crowdwise.kinds.marks import ONE_CLASS
from crowdwise.kinds.model import Found, KindModel, check_level
from crowdwise.kinds.spans.answers import Spans
from crowdwise.kinds.spans.segments import (
    Segments,
    cut_texts,
    find_splits,
    make_labels,
    read_spans_of_tags,
    tag_names,
    tag_segments,
)
from crowdwise.kinds.spans.span_agreement import span_agreement
from crowdwise.labels.errors import InputError
from crowdwise.labels.table_output import native_table
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from crowdwise.kinds.agreement import Agreement
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["SpanModel", "TagFit"]


@dataclass(frozen=True)
class TagFit:
    """What a method found about the tags of segments: posterior (S, K), workers (M, …), its own arrays, its climb."""

    posterior: FloatArray
    prior: FloatArray
    confusion: FloatArray
    skill: FloatArray
    skill_beta: FloatArray
    own: dict[str, FloatArray]
    objective: FloatArray
    n_iter: int
    converged: bool


class SpanModel(KindModel[Spans]):
    """Base of the methods for spans.

    Attributes
    ----------
    posterior_ : (S, K)
        Probability of each tag (O, and one for each label) for every segment of the texts.
    segment_task_, segment_start_, segment_end_ : (S,)
        The segments: texts are cut where a span of any worker starts or ends.
    confusion_ : (M, K, K)
        P(worker says tag l | the tag is k) at [worker, k, l].
    skill_ : (M,)
        Chance that a worker gives a segment its tag.
    span_counts_ : (M, 3)
        Spans of the worker that the consensus has, of the worker, and of the consensus in the worker's texts.

    Examples
    --------
    >>> from crowdwise.kinds import read_spans
    >>> spans = read_spans({"task": [1, 1, 1, 2, 2, 2], "worker": ["ann", "bob", "cy"] * 2, "start": [0, 0, 2, 4, 4, 4],
    ...                     "end": [5, 5, 5, 9, 9, 9], "label": ["PER"] * 6})
    """

    kind: ClassVar[str] = "spans"
    uses = frozenset({"gold"})
    vocabularies: ClassVar[dict[str, str]] = {"tasks": "N", "workers": "M", "classes": "C"}
    example: ClassVar[str] = (
        ">>> {name}().fit(spans).consensus().select(['start', 'end']).to_pylist()\n"
        "[{{'start': 0, 'end': 5}}, {{'start': 4, 'end': 9}}]"
    )
    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("posterior", "S K", low=0, high=1 + 1e-6, sums_to_one=True),
        SavedArray("segment_task", "S", low=0, codes="N", integer=True),
        SavedArray("segment_start", "S", low=0, high=2**31, integer=True),
        SavedArray("segment_end", "S", low=0, high=2**31, integer=True),
        SavedArray("prior", "K", low=0, high=1 + 1e-6, sums_to_one=True),
        SavedArray("confusion", "M K K", low=0, high=1 + 1e-6, sums_to_one=True),
        SavedArray("skill", "M", low=0, high=1 + 1e-6),
        SavedArray("skill_beta", "M 2", low=SMALLEST),
        SavedArray("span_counts", "M 3", low=0),
        SavedArray("labels", "C"),
        SavedArray("splits", "S", low=0, high=1, integer=True),
        SavedArray("answers_per_task", "N", low=0, high=2**31, integer=True),
    )
    posterior_: FloatArray
    segment_task_: IntArray
    segment_start_: IntArray
    segment_end_: IntArray
    prior_: FloatArray
    confusion_: FloatArray
    skill_: FloatArray
    skill_beta_: FloatArray
    span_counts_: FloatArray
    labels_: FloatArray
    splits_: IntArray
    answers_per_task_: IntArray

    def consensus(self, level: float = 0.9) -> Any:
        """Table of task, span (1, 2, … along the text), start, end, label if there are any, and confidence.

        The confidence is the least probability of a tag along the span. A text without spans has no row.
        """
        self._check_fitted()
        check_level(level)
        return self._table_of_spans(self._names["tasks"], self._segments(), self.posterior_, self.splits_ > 0)

    def workers(self, level: float = 0.9) -> Any:
        """Table of worker, n_answers; precision and recall of their spans (exact) and skill, with intervals.

        Precision and recall are against the consensus, skill is the chance that a segment gets its tag.
        """
        self._check_fitted()
        reach = check_level(level)
        right, drawn, true = self.span_counts_.T
        columns: dict[str, Any] = {"worker": self._names["workers"], "n_answers": self.answers_per_worker_}
        for name, total in {"precision": drawn, "recall": true}.items():
            middle, low, high = beta_share(right, total - right, reach)
            columns |= {name: middle, f"{name}_low": low, f"{name}_high": high}
        low, high = beta_interval(self.skill_beta_, reach)
        columns |= {
            "skill": self.skill_,
            "skill_low": np.minimum(low, self.skill_),
            "skill_high": np.maximum(high, self.skill_),
        }
        return native_table(columns, self.table_kind_)

    # ---- what a method gives ------------------------------------------------------------------------------

    def _fit_tags(self, labels: CrowdLabels, segments: Segments, gold: dict[int, str] | None) -> TagFit:
        raise NotImplementedError

    def _predict_tags(self, labels: CrowdLabels, segments: Segments) -> FloatArray:
        """Posterior of tags by known workers; strangers are the last worker."""
        raise NotImplementedError

    # ---- the rest -----------------------------------------------------------------------------------------

    def _align_gold(self, gold: Any, answers: Spans) -> Any:
        known = align_true_marks(gold, answers.tasks, answers.classes, Spans)
        if (known.label < 0).any() and answers.labelled:
            raise InputError("The answers have labels and the known spans have none. Give them a column label.")
        return known

    def _fit(self, answers: Spans, gold: Any) -> Found:
        known: TrueMarks | None = gold
        task, place = answers.task[answers.answer], answers.place
        if known is not None:
            task, place = np.append(task, known.task), np.concatenate([place, known.place])
        segments = cut_texts(task, place, answers.n_tasks)
        labels = make_labels(segments, answers, answers.worker, answers.n_workers)
        splits = find_splits(segments, answers)
        told = None if known is None else _gold_tags(segments, known, tag_names(answers.classes))
        n_tags = len(tag_names(answers.classes))
        if segments.task.size:
            found = self._fit_tags(labels, segments, told)
        else:  # nobody marked anything
            rows = np.full((answers.n_workers, n_tags, n_tags), 1 / n_tags)
            even = np.full(answers.n_workers, 0.5)
            found = TagFit(
                np.empty((0, n_tags)), np.full(n_tags, 1 / n_tags), rows, even, np.ones((answers.n_workers, 2)),
                self._nothing(answers.n_workers, n_tags), np.empty(0), 1, True,
            )  # fmt: skip
        arrays: dict[str, Any] = {
            "posterior": found.posterior,
            "segment_task": segments.task,
            "segment_start": segments.start,
            "segment_end": segments.end,
            "prior": found.prior,
            "confusion": found.confusion,
            "skill": found.skill,
            "skill_beta": found.skill_beta,
            "span_counts": _count_spans(answers, segments, found.posterior, splits),
            "labels": np.arange(len(answers.classes), dtype=np.float64),
            "splits": splits.astype(np.int64),
            "answers_per_task": answers.answers_per_task.astype(np.int64),
        }
        return Found(arrays | found.own, found.objective, found.n_iter, found.converged)

    def _nothing(self, n_workers: int, n_tags: int) -> dict[str, FloatArray]:  # noqa: ARG002
        """Arrays of a method's own where there is nothing to learn from."""
        return {}

    def _segments(self) -> Segments:
        ptr = np.searchsorted(self.segment_task_, np.arange(len(self._names["tasks"]) + 1))
        return Segments(self.segment_task_, self.segment_start_, self.segment_end_, ptr)

    def _predict_table(self, answers: Spans) -> Any:
        read = self._with_model_classes(answers)
        segments = cut_texts(read.task[read.answer], read.place, read.n_tasks)
        if not segments.task.size:
            return self._table_of_spans(read.tasks, segments, np.empty((0, self.prior_.size)), np.zeros(0, np.bool_))
        labels = make_labels(segments, read, self._positions_of_workers(read), len(self._names["workers"]) + 1)
        posterior = self._predict_tags(labels, segments)
        return self._table_of_spans(read.tasks, segments, posterior, find_splits(segments, read))

    def _with_model_classes(self, answers: Spans) -> Spans:
        classes = self._names["classes"]
        if not answers.n_marks:
            return replace(answers, classes=classes)
        there = positions(answers.classes, classes)[answers.label]
        if (there < 0).any():
            raise InputError("Some labels are none that the model was fitted with. Fit it again with these answers.")
        return replace(answers, label=there.astype(np.int32), classes=classes)

    def _table_of_spans(self, tasks: pa.Array, segments: Segments, posterior: FloatArray, splits: BoolArray) -> Any:
        task, place, label, sure = read_spans_of_tags(segments, posterior, splits)
        first = np.r_[True, task[1:] != task[:-1]][: task.size]
        at = np.arange(task.size)
        number = at - np.maximum.accumulate(np.where(first, at, 0)) + 1
        columns: dict[str, Any] = {"task": tasks.take(pa.array(task)), "span": number}
        columns |= {"start": place[:, 0], "end": place[:, 1]}
        if self._names["classes"].to_pylist() != [ONE_CLASS]:
            columns["label"] = self._names["classes"].take(pa.array(label))
        return native_table(columns | {"confidence": sure}, self.table_kind_)

    def _log_density(self, answers: Spans) -> FloatArray:
        """Of the tags that an answer gives to the segments of the fit, one by one; texts not met count 0."""
        read, segments = self._with_model_classes(answers), self._segments()
        there = positions(read.tasks, self._names["tasks"])[read.task]
        worker = self._positions_of_workers(read)
        table = np.concatenate(
            [self.confusion_, np.average(self.confusion_, axis=0, weights=self.answers_per_worker_)[None]]
        )
        found = np.zeros(read.n_answers)
        for each in range(read.n_answers):
            if there[each] >= 0:
                marks = slice(int(read.mark_ptr[each]), int(read.mark_ptr[each + 1]))
                tags = tag_segments(segments, int(there[each]), read.place[marks], read.label[marks])
                rows = slice(int(segments.ptr[there[each]]), int(segments.ptr[there[each] + 1]))
                chance = (self.posterior_[rows] * table[worker[each]][:, tags].T).sum(axis=1)
                found[each] = np.log(np.maximum(chance, 1e-12)).sum()
        return found

    def _agreement(self, answers: Spans) -> Agreement:
        task, place, label, _ = read_spans_of_tags(self._segments(), self.posterior_, self.splits_ > 0)
        there = positions(answers.tasks, self._names["tasks"])
        consensus = task, place.astype(np.float64), label
        return span_agreement(
            self._with_model_classes(answers), there, self.answers_per_task_.astype(np.float64), consensus
        )

    def _check_restored(self) -> None:
        if self.prior_.size != len(self._names["classes"]) + 1:
            raise InputError("there must be a tag O, and one for each label")
        if not (self.segment_end_ > self.segment_start_).all() or (np.diff(self.segment_task_) < 0).any():
            raise InputError("segments must be sorted by task, and end after they start")
        if not (self.span_counts_[:, :1] <= self.span_counts_[:, 1:]).all():
            raise InputError("more spans are right than were drawn, or than there are")


def _gold_tags(segments: Segments, known: TrueMarks, names: list[str]) -> dict[int, str]:
    found: dict[int, str] = {}
    for task in np.flatnonzero(known.known):
        rows = known.task == task
        tags = tag_segments(segments, int(task), known.place[rows], np.maximum(known.label[rows], 0))
        found |= {int(segments.ptr[task]) + place: names[tag] for place, tag in enumerate(tags)}
    return found


def _count_spans(spans: Spans, segments: Segments, posterior: FloatArray, splits: BoolArray) -> FloatArray:
    """Spans of each worker that the consensus has too, of the worker, and of the consensus in their texts (M, 3)."""
    task, place, label, _ = read_spans_of_tags(segments, posterior, splits)
    keys = {(int(t), *map(int, p), int(k)) for t, p, k in zip(task, place, label, strict=True)}
    counts: FloatArray = np.zeros((spans.n_workers, 3))
    who = spans.worker[spans.answer]
    said = zip(spans.task[spans.answer], spans.place, spans.label, strict=True)
    right = np.array([(int(t), *map(int, p), int(k)) in keys for t, p, k in said], np.float64)
    counts[:, 0] = np.bincount(who, right, spans.n_workers)
    counts[:, 1] = np.bincount(who, minlength=spans.n_workers)
    of_task = np.bincount(task, minlength=spans.n_tasks)
    counts[:, 2] = np.bincount(spans.worker, of_task[spans.task], spans.n_workers)
    return counts
