"""What every method for boxes and points shares: two tables, prediction for new tasks, how probable an answer is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from scipy.special import expit, ndtri

from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.kinds.boxes.geometry import LEAST_EXTENT
from crowdwise.kinds.boxes.mark_agreement import mark_agreement
from crowdwise.kinds.boxes.object_em import Things, add_stranger, log_odds_variance, worker_counts
from crowdwise.kinds.boxes.object_likelihood import LEVELS, Crowd, Drawn, Grouping, visibility_shares
from crowdwise.kinds.boxes.point_process import log_density_of_answers
from crowdwise.kinds.boxes.truth import TrueMarks, align_true_marks, lay_out
from crowdwise.kinds.boxes.worker_errors import estimate_errors, shared_variance
from crowdwise.kinds.marks import ONE_CLASS, Marks
from crowdwise.kinds.model import Found, KindModel, check_level
from crowdwise.labels.errors import InputError
from crowdwise.labels.table_output import native_table
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from crowdwise.kinds.agreement import Agreement
    from crowdwise.kinds.boxes.geometry import Geometry
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["ObjectModel"]

# Of the logarithm of a standard deviation: careless coordinates tell less, and errors are not quite as the model has
# them. Set by simulated crowds of the default sort, in which intervals of 90 % then hold 89 %.
EFFICIENCY, MODEL_ERROR = 0.6, 0.2
LEAST_FREEDOM = 1.0  # of a worker's error; a prior gives more to everyone
MOST_LOGARITHM = 600.0  # of sizes and areas: e to it is a number
RATES = ("objects", "distractors", "spread", "draw_mean", "false_draw_mean", "usual_variance", "label_accuracy")


class ObjectModel(KindModel[Marks]):
    """Base of the methods for boxes and points.

    Attributes
    ----------
    object_task_ : (B,)
        Task of every place that somebody marked, as a position.
    place_, place_variance_ : (B, D)
        Where it is, in the answers' own units.
    confidence_ : (B,)
        How sure it is that there is an object; `consensus` lists those that are sure enough.
    object_answers_ : (B,)
        Answers that marked it.
    object_label_ : (B, K)
        Probability of each label.
    draw_, false_draw_ : (M,)
        Log-odds that a worker draws an object of common visibility, and what is taken for one.
    precision_ : (M,)
        1 / variance of a worker's coordinates, in shares of an object's size, as the fit uses it.
    error_variance_ : (M,)
        That variance, estimated once more with the things known, and `freedom_` (M,) its degrees of freedom.
    """

    vocabularies: ClassVar[dict[str, str]] = {"tasks": "N", "workers": "M", "classes": "K"}
    marks: ClassVar[type[Marks]]
    geometry: ClassVar[type[Geometry]]
    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("object_task", "B", low=0, codes="N", integer=True),
        SavedArray("place", "B D"),
        SavedArray("place_variance", "B D", low=0),
        SavedArray("size", "B D", low=SMALLEST),
        SavedArray("confidence", "B", low=0, high=1),
        SavedArray("levels", "B 9", low=0, high=1 + 1e-6, sums_to_one=True),
        SavedArray("object_label", "B K", low=0, high=1 + 1e-6, sums_to_one=True),
        SavedArray("object_answers", "B", low=0, high=2**31, integer=True),
        SavedArray("answers_per_task", "N", low=0, high=2**31, integer=True),
        SavedArray("unseen", "N 9", low=0),
        SavedArray("unseen_distractors", "N", low=0),
        SavedArray("draw", "M"),
        SavedArray("draw_variance", "M", low=0),
        SavedArray("false_draw", "M"),
        SavedArray("false_draw_variance", "M", low=0),
        SavedArray("precision", "M", low=SMALLEST),
        SavedArray("error_variance", "M", low=SMALLEST),
        SavedArray("freedom", "M", low=LEAST_FREEDOM),
        SavedArray("rates", "7"),
        SavedArray("label_share", "K", low=0, high=1 + 1e-6, sums_to_one=True),
        SavedArray("frame", "G"),
    )
    object_task_: IntArray
    place_: FloatArray
    place_variance_: FloatArray
    size_: FloatArray
    confidence_: FloatArray
    levels_: FloatArray
    object_label_: FloatArray
    object_answers_: IntArray
    answers_per_task_: IntArray
    unseen_: FloatArray
    unseen_distractors_: FloatArray
    draw_: FloatArray
    draw_variance_: FloatArray
    false_draw_: FloatArray
    false_draw_variance_: FloatArray
    precision_: FloatArray
    error_variance_: FloatArray
    freedom_: FloatArray
    rates_: FloatArray
    label_share_: FloatArray
    frame_: FloatArray

    def consensus(self, level: float = 0.9) -> Any:
        """Table of task, object (1, 2, … from left to right), coordinates, label if there are any, and confidence.

        A task without objects has no row. `n_answers` counts the answers that marked the object.
        """
        self._check_fitted()
        check_level(level)
        things = self._things()
        return self._table_of_objects(
            self._names["tasks"], things, self.place_, self.object_answers_, self._kept(things.confidence)
        )

    def workers(self, level: float = 0.9) -> Any:
        """Table of worker, n_answers, and with their intervals: miss_rate, false_positives (a task) and error.

        The error is the standard deviation of a coordinate: of boxes in shares of an object's size, of points in the
        answers' own units.
        """
        self._check_fitted()
        reach = float(ndtri((1 + check_level(level)) / 2))
        columns: dict[str, Any] = {"worker": self._names["workers"], "n_answers": self.answers_per_worker_}
        shares = visibility_shares(self._crowd().spread)
        for end, side in {"": 0, "_low": -1, "_high": 1}.items():
            odds = self.draw_ - side * reach * np.sqrt(self.draw_variance_)
            columns[f"miss_rate{end}"] = 1 - expit(odds[:, None] + LEVELS) @ shares
        for end, side in {"": 0, "_low": -1, "_high": 1}.items():
            odds = self.false_draw_ + side * reach * np.sqrt(self.false_draw_variance_)
            columns[f"false_positives{end}"] = self._crowd().distractors * expit(odds)
        error = np.sqrt(self.error_variance_) * self._error_unit()
        columns["error"] = error
        spread = np.sqrt(1 / (2 * EFFICIENCY * self.freedom_) + MODEL_ERROR**2)
        columns |= {"error_low": error * np.exp(-reach * spread), "error_high": error * np.exp(reach * spread)}
        return native_table(columns, self.table_kind_)

    def caveat(self) -> str:
        """What the answers cannot tell, as a sentence; empty where they can tell."""
        self._check_fitted()
        if (self.object_answers_ > 1).any() or not self.object_answers_.size:
            return ""
        return (
            "No two workers marked the same place: nothing here tells objects from mistakes. Confidences are a guess."
        )

    # ---- what a method gives ------------------------------------------------------------------------------

    def _kept(self, confidence: FloatArray) -> Any:
        """Which places are objects, by their confidence."""
        return confidence >= 0.5

    def _group(self, drawn: Drawn, crowd: Crowd) -> tuple[Grouping, Things]:
        """Things among marks of known workers."""
        raise NotImplementedError

    # ---- the rest -----------------------------------------------------------------------------------------

    def _align_gold(self, gold: Any, answers: Marks) -> Any:
        return align_true_marks(gold, answers.tasks, answers.classes, self.marks)

    def _lay_out(self, answers: Marks, gold: TrueMarks | None) -> Drawn:
        """Marks in the units of their own geometry."""
        place = answers.place if gold is None else np.concatenate([answers.place, gold.place])
        edge = np.column_stack([answers.task, answers.worker])[answers.answer]
        if gold is not None:
            edge = np.concatenate([edge, np.column_stack([gold.task, np.full(gold.task.size, answers.n_workers)])])
        if not len(place):
            place, edge = np.arange(len(self.marks.coordinates), dtype=np.float64)[None], np.zeros((1, 2), np.int64)
        geometry = self.geometry.measure(place, edge)
        return lay_out(answers, answers.worker, answers.n_workers, geometry, gold)

    def _found(self, drawn: Drawn, crowd: Crowd, grouping: Grouping, things: Things) -> dict[str, FloatArray]:
        """Arrays of a fit."""
        geometry = drawn.geometry
        _, total, _, false_total = worker_counts(drawn, things, grouping)
        own = (drawn.worker < drawn.sizes[1]).astype(np.float64)
        shared = [shared_variance(drawn, crowd, grouping, name) for name in ("draw", "false_draw")]
        variance, freedom = estimate_errors(drawn, things, grouping, crowd.precision)
        return {
            "object_task": things.task,
            "place": geometry.from_units(things.place),
            "place_variance": things.variance * geometry.unit**2,
            "size": things.size * geometry.unit,
            "confidence": np.clip(things.confidence, 0, 1),
            "levels": things.levels,
            "object_label": things.label,
            "object_answers": np.bincount(grouping.thing, own, grouping.n_things).astype(np.int64),
            "unseen": things.unseen,
            "unseen_distractors": things.unseen_distractors,
            "draw": crowd.draw,
            "draw_variance": log_odds_variance(crowd.draw, total, LEVELS) + shared[0],
            "false_draw": crowd.false_draw,
            "false_draw_variance": log_odds_variance(crowd.false_draw, false_total, np.zeros(1)) + shared[1],
            "precision": crowd.precision,
            "error_variance": variance,
            "freedom": freedom,
            "rates": np.array([getattr(crowd, name) for name in RATES]),
            "label_share": crowd.label_share,
            "frame": geometry.numbers,
        }

    def _crowd(self) -> Crowd:
        rates = dict(zip(RATES, self.rates_.tolist(), strict=True))
        return Crowd(self.draw_, self.false_draw_, self.precision_, **rates, label_share=self.label_share_)

    def _things(self) -> Things:
        """What was found about the places of the fit, in units."""
        geometry = self.geometry(self.frame_)
        return Things(
            task=self.object_task_,
            confidence=self.confidence_,
            levels=self.levels_,
            place=geometry.to_units(self.place_),
            variance=self.place_variance_ / geometry.unit**2,
            size=self.size_ / geometry.unit,
            label=self.object_label_,
            unseen=self.unseen_,
            unseen_distractors=self.unseen_distractors_,
        )

    def _with_model_classes(self, answers: Marks) -> Marks:
        """The same marks, with labels as positions in the model's classes; one that it has not seen is refused."""
        if self._names["classes"].to_pylist() == [ONE_CLASS] or not answers.n_marks:
            return replace(answers, label=np.zeros(answers.n_marks, np.int32), classes=self._names["classes"])
        there = positions(answers.classes, self._names["classes"])[answers.label]
        if (there < 0).any():
            raise InputError("Some labels are none that the model was fitted with. Fit it again with these answers.")
        return replace(answers, label=there.astype(np.int32), classes=self._names["classes"])

    def _predict_table(self, answers: Marks) -> Any:
        read = self._with_model_classes(answers)
        geometry, crowd = self.geometry(self.frame_), add_stranger(self._crowd())
        drawn = lay_out(read, self._positions_of_workers(read), crowd.draw.size, geometry)
        grouping, things = self._group(drawn, crowd)
        counts = np.bincount(grouping.thing, minlength=grouping.n_things)
        place = geometry.from_units(things.place)
        return self._table_of_objects(read.tasks, things, place, counts, self._kept(things.confidence))

    def _table_of_objects(self, tasks: pa.Array, things: Things, place: FloatArray, counts: IntArray, kept: Any) -> Any:
        order = np.lexsort((*place.T[::-1], things.task))
        order = order[kept[order]]
        task = things.task[order]
        first = np.r_[True, task[1:] != task[:-1]][: task.size]
        at = np.arange(task.size)
        number = at - np.maximum.accumulate(np.where(first, at, 0)) + 1
        columns: dict[str, Any] = {"task": tasks.take(pa.array(task)), "object": number}
        columns |= dict(zip(self.marks.coordinates, place[order].T, strict=True))
        if self._names["classes"].to_pylist() != [ONE_CLASS]:
            columns["label"] = self._names["classes"].take(pa.array(things.label[order].argmax(axis=1)))
        columns |= {"confidence": things.confidence[order], "n_answers": counts[order]}
        return native_table(columns, self.table_kind_)

    def _error_unit(self) -> float:
        """What an error of a share of an object's size is shown as."""
        return 1.0

    def _agreement(self, answers: Marks) -> Agreement:
        return mark_agreement(self, answers)

    def _log_density(self, answers: Marks) -> FloatArray:
        read = self._with_model_classes(answers)
        task = positions(read.tasks, self._names["tasks"])[read.task]
        geometry, crowd = self.geometry(self.frame_), add_stranger(self._crowd())
        return log_density_of_answers(
            replace(read, place=geometry.to_units(read.place)), task, self._positions_of_workers(read), self._things(),
            crowd, geometry,
        )  # fmt: skip

    def _check_restored(self) -> None:
        n_coordinates = len(self.marks.coordinates)
        if self.place_.shape[1:] != (n_coordinates,) or self.frame_.size != self.geometry.n_numbers:
            raise InputError(f"the places have {self.place_.shape[1]} coordinates; {self.kind} have {n_coordinates}")
        if self.frame_[3:].size and not (np.abs(self.frame_[3:]) < MOST_LOGARITHM).all():
            raise InputError("frame holds logarithms that no fit could have found")
        if not (self.rates_[[0, 1, 2, 5]] > 0).all() or not 0 < self.rates_[6] < 1 or self.frame_[2] < LEAST_EXTENT:
            raise InputError("rates or frame hold what no fit could have found")


def combine_found(arrays: dict[str, FloatArray], climbed: Any = None) -> Found:
    """A fit's arrays, and how its iterations went, if it had any."""
    if climbed is None:
        return Found(arrays)
    return Found(arrays, climbed.objective, climbed.n_iter, climbed.converged)
