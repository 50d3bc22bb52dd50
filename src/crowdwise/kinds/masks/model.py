"""What every method for masks shares: soft masks, two tables, files, and how probable an answer is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.kinds.masks.answers import Masks
from crowdwise.kinds.masks.frame import MOST_PIXELS
from crowdwise.kinds.masks.image_files import encode_png
from crowdwise.kinds.masks.mask_agreement import mask_agreement
from crowdwise.kinds.masks.metrics import expected_dice, soft_dice
from crowdwise.kinds.masks.soft_levels import round_levels, unpack_levels
from crowdwise.kinds.masks.truth import align_true_masks
from crowdwise.kinds.masks.worker_rates import Shares, add_reference_error, share_interval, share_of_workers
from crowdwise.kinds.model import KindModel, check_level
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.table_output import native_table
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from crowdwise.kinds.agreement import Agreement
    from crowdwise.kinds.model import Found
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["MaskModel", "name_files", "put_gold"]

FOLDER = "consensus_masks"  # of images, beside the tables
LEAST = 1e-6  # probability that a pixel of an answer has at least


class MaskModel(KindModel[Masks]):
    """Base of the methods for masks.

    Attributes
    ----------
    levels_ : integers
        A number from 0 to 1 for every pixel of every task, 16 bits each; `soft_masks` tells what they mean.
    height_, width_ : (N,)
        Size of each task's image.
    area_ : (N,)
        Expected number of pixels inside.
    confidence_ : (N,)
        Expected Dice coefficient of the consensus with the truth.
    share_inside_ : (1,)
        Share of pixels inside, over all answers.
    sensitivity_, specificity_ : (M,)
        Share of the pixels inside of the region that a worker puts inside, and of those outside that they leave out.
    sensitivity_error_, specificity_error_, freedom_ : (M,)
        Standard errors of the log-odds of both, and their degrees of freedom.
    dice_ : (M,)
        Mean Dice coefficient of a worker's masks with the soft masks of the consensus.

    Examples
    --------
    >>> from crowdwise.kinds import simulate_masks
    >>> masks = simulate_masks(4, 6, height=32, width=32, random_state=0).answers
    """

    kind: ClassVar[str] = "masks"
    example: ClassVar[str] = (
        ">>> {name}().fit(masks).consensus().column_names\n['task', 'file', 'area', 'confidence', 'n_answers']"
    )
    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("height", "N", low=1, high=MOST_PIXELS, integer=True),
        SavedArray("width", "N", low=1, high=MOST_PIXELS, integer=True),
        SavedArray("answers_per_task", "N", low=0, high=2**31, integer=True),
        SavedArray("levels", "L", low=-(2.0**63), high=2.0**63, integer=True),
        SavedArray("area", "N", low=0),
        SavedArray("confidence", "N", low=0, high=1),
        SavedArray("share_inside", "1", low=0, high=1),
        SavedArray("sensitivity", "M", low=0, high=1),
        SavedArray("specificity", "M", low=0, high=1),
        SavedArray("sensitivity_error", "M", low=0),
        SavedArray("specificity_error", "M", low=0),
        SavedArray("freedom", "M", low=SMALLEST),
        SavedArray("dice", "M", low=0, high=1),
    )
    height_: IntArray
    width_: IntArray
    answers_per_task_: IntArray
    levels_: IntArray
    area_: FloatArray
    confidence_: FloatArray
    share_inside_: FloatArray
    sensitivity_: FloatArray
    specificity_: FloatArray
    sensitivity_error_: FloatArray
    specificity_error_: FloatArray
    freedom_: FloatArray
    dice_: FloatArray

    def consensus(self, level: float = 0.9) -> Any:
        """Table of task, file (of its soft mask, where files are written), area, confidence and n_answers.

        The area is the expected number of pixels inside; the confidence is the expected Dice coefficient of the
        consensus (the pixels that are inside with a probability above ½) with the truth. Soft masks have no intervals:
        `level` is not used.
        """
        self._check_fitted()
        check_level(level)
        return self._table_of_masks(self._names["tasks"], self.area_, self.confidence_, self.answers_per_task_)

    def workers(self, level: float = 0.9) -> Any:
        """Table of worker, n_answers, sensitivity and specificity with intervals, Dice, and what the method adds."""
        self._check_fitted()
        columns: dict[str, Any] = {"worker": self._names["workers"], "n_answers": self.answers_per_worker_}
        for name in ("sensitivity", "specificity"):
            share, error = getattr(self, f"{name}_"), getattr(self, f"{name}_error_")
            low, high = share_interval(Shares(share, error, self.freedom_), check_level(level))
            columns |= {name: share, f"{name}_low": low, f"{name}_high": high}
        return native_table(columns | {"dice": self.dice_} | self._worker_columns(level), self.table_kind_)

    def soft_masks(self, answers: Any = None) -> Iterator[tuple[Any, FloatArray]]:
        """Each task's name, and the probability (height, width) that a pixel is inside; of new tasks if given."""
        self._check_fitted()
        if answers is not None:
            read = self._read(answers)
            yield from zip(read.tasks.to_pylist(), self._infer_soft(read), strict=True)
            return
        for place, name in enumerate(self._names["tasks"].to_pylist()):
            yield name, self._soft(place)

    def write_files(self, folder: Path) -> None:
        """Write the soft masks as PNG of 16 bits, 65535 for what is surely inside, named as in the consensus."""
        self._check_fitted()
        (folder / FOLDER).mkdir()
        for name, (_, soft) in zip(name_files(self._names["tasks"]), self.soft_masks(), strict=True):
            (folder / name).write_bytes(encode_png(round_levels(soft)))

    def caveat(self) -> str:
        """What the answers cannot tell, as a sentence; empty where they can tell."""
        self._check_fitted()
        if (self.answers_per_task_ > 1).any():
            return ""
        return "No task has two masks: nothing here tells how well workers draw. Rates and confidences are a guess."

    # ---- what a method may give ---------------------------------------------------------------------------

    def _infer_soft(self, answers: Masks) -> Iterator[FloatArray]:
        """Soft masks (height, width) of new tasks from what is known of the workers."""
        raise NotImplementedError

    def _levels_to_soft(self, task: int, levels: FloatArray) -> FloatArray:  # noqa: ARG002
        """Probability of each pixel of a task from its levels."""
        return levels

    def _references(self, task: int) -> list[FloatArray]:
        """What workers are judged by: the soft mask, and where it is known, one that is an error smaller and larger."""
        return [self._soft(task)]

    def _chance_inside(self, task: int, levels: FloatArray, worker: int) -> FloatArray:  # noqa: ARG002
        """Probability that the worker (M for a stranger) puts each pixel inside; here shares of votes, smoothed."""
        number = int(self.answers_per_task_[task])
        return np.asarray((number * levels + self.share_inside_[0]) / (number + 1))

    def _chance_unseen(self, worker: int) -> float:  # noqa: ARG002
        """The same for any pixel of a task that the fit has not seen."""
        return float(self.share_inside_[0])

    def _worker_columns(self, level: float) -> dict[str, Any]:  # noqa: ARG002
        """Columns of the table of workers that only this method has."""
        return {}

    # ---- the rest -----------------------------------------------------------------------------------------

    def _align_gold(self, gold: Any, answers: Masks) -> Any:
        return align_true_masks(gold, answers.tasks, answers.height, answers.width)

    def _levels(self, task: int) -> FloatArray:
        sizes = np.concatenate([[0], np.cumsum(self.height_ * self.width_)])
        return unpack_levels(self.levels_, int(sizes[task]), int(sizes[task + 1]))

    def _soft(self, task: int) -> FloatArray:
        shape = int(self.height_[task]), int(self.width_[task])
        return self._levels_to_soft(task, self._levels(task)).reshape(shape)

    def _remember(self, answers: Masks, found: Found) -> None:
        self.height_, self.width_ = answers.height.astype(np.int64), answers.width.astype(np.int64)
        super()._remember(answers, found)
        self._judge(answers)

    def _judge(self, answers: Masks) -> None:
        """Areas and confidences of the tasks, and rates of the workers against the soft masks."""
        rows: list[list[tuple[float, float]]] = []  # for each answer and reference: pixels of both, of the reference
        area, confidence, said = np.zeros(answers.n_tasks), np.zeros(answers.n_tasks), np.zeros(answers.n_answers)
        for task in range(answers.n_tasks):
            soft, references = self._soft(task), self._references(task)
            area[task], confidence[task] = soft.sum(), expected_dice(soft)
            sizes = [float(each.sum()) for each in references]
            for row in range(answers.task_ptr[task], answers.task_ptr[task + 1]):
                mask = answers.mask(row)
                said[row] = mask.sum()
                rows.append([(float(each[mask].sum()), size) for each, size in zip(references, sizes, strict=True)])
        both, true = np.moveaxis(np.array(rows), 2, 0)
        pixels = (self.height_ * self.width_)[answers.task].astype(np.float64)
        inside, outside = [], []
        for hits, size in zip(both.T, true.T, strict=True):
            inside.append(share_of_workers(answers.worker, hits, size, answers.n_workers))
            left = pixels - size - said + hits
            outside.append(share_of_workers(answers.worker, left, pixels - size, answers.n_workers))
        self.area_, self.confidence_ = area, confidence
        self.share_inside_ = np.array([(said.sum() + 1) / (pixels.sum() + 2)])
        self.sensitivity_, self.sensitivity_error_, self.freedom_ = add_reference_error(inside)
        self.specificity_, self.specificity_error_, _ = add_reference_error(outside)
        number = np.maximum(answers.answers_per_worker, 1)
        dice = soft_dice(both[:, 0], said, true[:, 0])
        self.dice_ = np.bincount(answers.worker, dice, answers.n_workers) / number

    def _check_restored(self) -> None:
        pixels = int((self.height_ * self.width_).sum())
        if not pixels <= 4 * self.levels_.size < pixels + 4:
            raise InputError(f"levels has {self.levels_.size} entries; the {pixels:,} pixels need {-(-pixels // 4)}")

    def _predict_table(self, answers: Masks) -> Any:
        found = [(soft.sum(), expected_dice(soft)) for soft in self._infer_soft(answers)]
        area, confidence = np.array(found).reshape(-1, 2).T
        return self._table_of_masks(answers.tasks, area, confidence, answers.answers_per_task)

    def _table_of_masks(self, tasks: pa.Array, area: FloatArray, confidence: FloatArray, counts: IntArray) -> Any:
        columns = {"task": tasks, "file": name_files(tasks), "area": area, "confidence": confidence}
        return native_table(columns | {"n_answers": counts}, self.table_kind_)

    def _agreement(self, answers: Masks) -> Agreement:
        return mask_agreement(self, answers)

    def _log_density(self, answers: Masks) -> FloatArray:
        worker = self._positions_of_workers(answers)
        there = positions(answers.tasks, self._names["tasks"])
        found = np.empty(answers.n_answers)
        for task, place in enumerate(there.tolist()):
            rows = range(answers.task_ptr[task], answers.task_ptr[task + 1])
            if not rows:
                continue
            size = int(answers.height[task]), int(answers.width[task])
            if place >= 0 and size != (self.height_[place], self.width_[place]):
                raise InputError(
                    f"Task {quote(answers.tasks[task].as_py())} has {size[1]} × {size[0]} pixels, and had "
                    f"{self.width_[place]} × {self.height_[place]} in the fit. Bring the masks to that size."
                )
            levels = self._levels(place) if place >= 0 else np.zeros(0)
            for row in rows:
                who = int(worker[row])
                chance = self._chance_inside(place, levels, who) if place >= 0 else np.array(self._chance_unseen(who))
                chance = np.clip(chance, LEAST, 1 - LEAST)
                said = answers.mask(row).ravel()
                found[row] = np.log(np.where(said, chance, 1 - chance)).sum()
        return found


def name_files(tasks: pa.Array) -> list[str]:
    """A name for the image of each task: its own where that is plain and unlike all others, else with its position."""
    plain = [re.sub(r"[^A-Za-z0-9_-]+", "_", str(name))[:60] for name in tasks.to_pylist()]
    seen: dict[str, int] = {}
    for each in plain:
        seen[each.casefold()] = seen.get(each.casefold(), 0) + 1
    return [
        f"{FOLDER}/{short}.png"
        if short == str(name) and seen[short.casefold()] == 1
        else f"{FOLDER}/{short}~{place}.png"
        for place, (short, name) in enumerate(zip(plain, tasks.to_pylist(), strict=True))
    ]


def put_gold(fields: Iterable[FloatArray], gold: dict[int, BoolArray] | None) -> Iterator[FloatArray]:
    """Soft masks task by task, those of known truth replaced by it."""
    for task, field in enumerate(fields):
        yield field if gold is None or task not in gold else gold[task].astype(np.float64)
