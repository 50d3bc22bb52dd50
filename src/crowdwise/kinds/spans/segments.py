"""Texts cut into segments, and spans as tags of them.

A text is cut wherever a span of any worker starts or ends. Each worker then gives every segment, from the first to the
last of the text, a tag: the label of the span that it is in, or O. So spans of characters and of tokens are alike, and
a stretch that all workers treat alike is one piece of evidence. Segments of one label that follow one another are one
span, unless more workers end a span between them than have both in one. (With tags that also mark the first segment,
EM lets the first one slip to what a few workers add before a span: on simulated crowds ends are then wrong.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kinds.marks import ONE_CLASS
from crowdwise.labels.bio_tags import OUTSIDE
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.sequences import Sequences

if TYPE_CHECKING:
    import pyarrow as pa

    from crowdwise.kinds.spans.answers import Spans
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["Segments", "cut_texts", "find_splits", "make_labels", "read_spans_of_tags", "tag_names", "tag_segments"]


@dataclass(frozen=True)
class Segments:
    """Segments (S) of all texts, sorted by task and place.

    Attributes
    ----------
    task, start, end : (S,)
    ptr : (N + 1,)
        Task t's segments are `ptr[t]:ptr[t + 1]`.
    """

    task: IntArray
    start: IntArray
    end: IntArray
    ptr: IntArray

    def as_sequences(self) -> Sequences:
        """Every text as a sequence of its segments; a text without any is none."""
        filled = np.unique(self.ptr)
        return Sequences(np.arange(self.task.size, dtype=np.int64), filled.astype(np.int64))


def tag_names(classes: pa.Array) -> list[str]:
    """Tags by position: O, and I of each class."""
    names = classes.to_pylist()
    return [OUTSIDE, *(["I"] if names == [ONE_CLASS] else [f"I-{name}" for name in names])]


def cut_texts(task: IntArray, place: FloatArray, n_tasks: int) -> Segments:
    """Cut every text where spans (n, 2) of it start or end."""
    cuts = np.unique(np.column_stack([np.repeat(task, 2), place.astype(np.int64).ravel()]), axis=0).reshape(-1, 2)
    joined = cuts[1:, 0] == cuts[:-1, 0]
    owner, start, end = cuts[:-1, 0][joined], cuts[:-1, 1][joined], cuts[1:, 1][joined]
    return Segments(owner, start, end, np.searchsorted(owner, np.arange(n_tasks + 1)))


def tag_segments(segments: Segments, task: int, place: FloatArray, label: IntArray) -> IntArray:
    """Tags (positions among `tag_names`) of a text's segments, by spans (n, 2) that hold all of them."""
    rows = slice(int(segments.ptr[task]), int(segments.ptr[task + 1]))
    start, end = segments.start[rows], segments.end[rows]
    tags: IntArray = np.zeros(start.size, np.int64)
    for (first, last), kind in zip(place, label, strict=True):
        inside = np.flatnonzero((start >= first) & (end <= last))
        tags[inside] = kind + 1
    return tags


def find_splits(segments: Segments, spans: Spans) -> BoolArray:
    """Whether a span ends before each segment (S,), where the one before has the same label: by vote."""
    votes = np.zeros(segments.task.size)
    for answer in range(spans.n_answers):
        rows = slice(int(segments.ptr[spans.task[answer]]), int(segments.ptr[spans.task[answer] + 1]))
        marks = slice(int(spans.mark_ptr[answer]), int(spans.mark_ptr[answer + 1]))
        start = segments.start[rows]
        ends = set(spans.place[marks, 1].tolist())
        for first, last in spans.place[marks]:
            votes[rows][(start > first) & (start < last)] -= 1
            if first in ends:
                votes[rows][start == first] += 1
    found: BoolArray = votes > 0
    return found


def make_labels(segments: Segments, spans: Spans, worker: IntArray, n_workers: int) -> CrowdLabels:
    """The tag that each answer gives to every segment of its text, as labels of segments."""
    task, who, tag = [], [], []
    for answer in range(spans.n_answers):
        text = int(spans.task[answer])
        marks = slice(int(spans.mark_ptr[answer]), int(spans.mark_ptr[answer + 1]))
        tags = tag_segments(segments, text, spans.place[marks], spans.label[marks])
        task.append(np.arange(segments.ptr[text], segments.ptr[text + 1]))
        who.append(np.full(tags.size, worker[answer]))
        tag.append(tags)
    empty = np.empty(0, np.int64)
    return CrowdLabels.from_codes(
        np.concatenate([*task, empty]),
        np.concatenate([*who, empty]),
        np.concatenate([*tag, empty]),
        tasks=int(segments.task.size),
        workers=n_workers,
        classes=tag_names(spans.classes),
        on_duplicate="all",
    )


def read_spans_of_tags(
    segments: Segments, posterior: FloatArray, splits: BoolArray
) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """Spans of the likeliest tags: task, start and end (n, 2), label (n,), and the least probability of their tags.

    `splits` (S,) tells where one span ends and another of the same label begins.
    """
    tags = posterior.argmax(axis=1) if posterior.size else np.empty(0, np.int64)
    sure = posterior.max(axis=1) if posterior.size else np.empty(0)
    kind = tags - 1
    inside = tags > 0
    before = np.r_[False, (segments.task[1:] == segments.task[:-1]) & (tags[1:] == tags[:-1])][: tags.size]
    begins = inside & ~(before & ~splits)
    ends = inside & np.r_[begins[1:] | ~inside[1:], True][: tags.size]
    first, last = np.flatnonzero(begins), np.flatnonzero(ends)
    least: FloatArray = np.minimum.reduceat(np.where(inside, sure, 1.0), first) if first.size else np.empty(0)
    place = np.column_stack([segments.start[first], segments.end[last]]) if first.size else np.empty((0, 2), np.int64)
    return segments.task[first], place, kind[first], least
