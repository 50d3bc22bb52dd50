"""What `train` and `predict` do between options and pages: call the learning room."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crowdwise.cli import work
from crowdwise.cli.escaping import visible
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.source_location import format_count

if TYPE_CHECKING:
    from crowdwise.labels import CrowdLabels
    from crowdwise.labels.types import FloatArray
    from crowdwise.learn.base import Learner

__all__ = ["Asking", "Predicted", "Trained", "Training", "predicted", "trained"]

FLATTERY = 0.1  # share of labels by which skills and classifier may differ before a note is due
NEEDS = {"confusion": "the workers' true confusion matrices", "sequences": "sequences as tasks"}


@dataclass(frozen=True)
class Training:
    """What the user asked `train` for; `settings` are the parameters of training that were given."""

    reading: work.Reading
    features: str
    method: str
    image_size: int | None = None
    valid: str | None = None
    valid_truth: str | None = None
    truth: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def like_features(self) -> str:
        """A name for features of new tasks, of the kind that was given."""
        given = Path(self.features)
        if given.is_dir():
            return "new-images"
        suffixes = "".join(given.suffixes[-2:] if given.suffix == ".gz" else given.suffixes[-1:])
        return f"new{suffixes.partition(':')[0] or '.npz'}"

    def words(self) -> list[str]:
        """Give the same on a command line."""
        files, columns = self.reading.files, self.reading.words()[len(self.reading.files) :]
        options = {
            "--features": self.features,
            "--method": self.method,
            "--image-size": self.image_size,
            "--valid": self.valid,
            "--valid-truth": self.valid_truth,
            **{f"--{name.replace('_', '-')}": value for name, value in self.settings.items()},
        }
        given = [[option, str(value)] for option, value in options.items() if value is not None]
        given[1:1] = [["--labels", file] for file in files]
        return ["crowdwise", "train", *(word for pair in given for word in pair), *columns]


@dataclass(frozen=True, kw_only=True)
class Trained(work.Fitted):
    """What `train` found."""

    request: Training

    @property
    def network(self) -> str:
        """Name of the network."""
        from crowdwise.learn.networks import default_network

        return str(self.model.network or default_network(self.model.shape_))

    @property
    def kept(self) -> dict[str, float]:
        """What was measured in the epoch that was kept, of held_out and accuracy."""
        history, at = self.model.history_, self.model.best_epoch_ - 1
        return {name: history[name][at].as_py() for name in ("held_out", "accuracy") if name in history.column_names}

    def facts(self) -> dict[str, Any]:
        """Give what `--json` prints."""
        kept = self.kept
        return {
            "method": self.model.slug,
            "network": self.network,
            "n_tasks": self.labels.n_tasks,
            "n_workers": self.labels.n_workers,
            "n_classes": self.labels.n_classes,
            "n_labels": self.labels.n_labels,
            "n_epochs": int(self.model.n_epochs_),
            "best_epoch": int(self.model.best_epoch_),
            "held_out": kept.get("held_out"),
            "valid_accuracy": kept.get("accuracy"),
            "seconds": round(self.seconds, 6),
            "notes": self.notes,
            **self.scores,
        }


@dataclass(frozen=True)
class Asking:
    """What the user asked `predict` for."""

    model: str
    features: str
    reading: work.Reading | None = None
    image_size: int | None = None
    truth: str | None = None


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """What `predict` found: a row for each task with label, confidence and the probability of every class."""

    model: Learner
    table: pa.Table
    tasks: pa.Array
    shares: FloatArray
    scores: dict[str, Any]
    notes: list[str]

    def facts(self) -> dict[str, Any]:
        """Give what `--json` prints."""
        classes = [str(name) for name in self.model.classes_.to_pylist()]
        rows = self.table.select(["task", "label", "confidence"]).to_pylist()
        chances = [dict(zip(classes, row, strict=True)) for row in self.shares.tolist()]
        return {
            "method": self.model.slug,
            "n_tasks": len(rows),
            **self.scores,
            "predictions": [row | {"probabilities": chance} for row, chance in zip(rows, chances, strict=True)],
        }


# ---- train ------------------------------------------------------------------------------------------------


def trained(request: Training) -> Trained:
    """Train the method, and score it where the truth is given."""
    from crowdwise.learner_registry import learner

    entry = learner(request.method)
    if entry.needs:
        raise InputError(
            f"{entry.slug} needs {NEEDS[entry.needs]}, which a command cannot give it. Use "
            f"crowdwise.{entry.class_name} in Python, or another method (crowdwise methods)."
        )
    model = entry.make(**request.settings)  # says how to install torch, where it is not
    model._check_parameters()

    from crowdwise.learn.alignment import align_to_rows, truth_of_rows
    from crowdwise.learn.reading import read_features

    labels = work.read(request.reading)
    features = read_features(request.features, image_size=request.image_size)
    answers = align_to_rows(labels, features)
    valid = None
    if request.valid is not None:
        from crowdwise.labels.truth import read_truth

        held = read_features(request.valid, image_size=request.image_size)
        valid = (held, truth_of_rows(read_truth(request.valid_truth), held))
    codes, notes = (None, []) if request.truth is None else work.known_truth(request.truth, answers)
    started = time.perf_counter()
    said = _fit_hearing(model, features, answers, valid)
    seconds = time.perf_counter() - started
    consensus, workers = model.consensus(), model.workers()
    notes += [*said, *_doubts(model), *_flattery(model, features, answers), *work.defused_names(consensus, workers)]
    return Trained(
        request=request,
        labels=answers,
        model=model,
        consensus=consensus,
        workers=workers,
        seconds=seconds,
        scores={} if codes is None else work.scores_of(consensus, model.posterior_, answers.classes, codes),
        notes=notes,
    )


def _fit_hearing(model: Learner, features: Any, answers: CrowdLabels, valid: Any) -> list[str]:
    """Fit, and give as sentences what the method warns of."""
    from crowdwise.learn.identifiability import NotIdentifiable

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", NotIdentifiable)
        model.fit(features, answers, valid=valid)
    ours = [warning for warning in heard if issubclass(warning.category, NotIdentifiable)]
    for other in heard:
        if other not in ours:
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    return [str(warning.message) for warning in ours]


def _doubts(model: Learner) -> list[str]:
    """What the history says against the result."""
    if not all(math.isfinite(loss) for loss in model.history_["loss"].to_pylist()):
        return ["The loss ended in no number. Give a smaller --learning-rate."]
    if model.best_epoch_ == model.n_epochs_ and {"held_out", "accuracy"} & set(model.history_.column_names):
        return [f"The last of {model.n_epochs_:,} epochs was the best. Give more with --epochs."]
    return []


def _flattery(model: Learner, features: Any, answers: CrowdLabels) -> list[str]:
    """Whether the skills promise more right labels than the classifier finds.

    Matrices that few steps have moved still look like their start, near the identity.
    """
    guess = model.predict_proba(features).argmax(axis=1)
    agrees = float((guess[answers.task] == answers.label).mean())
    promised = float(np.average(model.skill_, weights=answers.labels_per_worker))
    if promised - agrees < FLATTERY:
        return []
    note = (
        f"By the workers' skills {promised:.0%} of the labels are right, but the classifier agrees with {agrees:.0%}. "
        "Either it is often wrong or the skills, and with them the confidence, are too high. Compare --method em."
    )
    return [note]


# ---- predict ----------------------------------------------------------------------------------------------


def predicted(asking: Asking) -> Predicted:
    """Classes of tasks from their features and, if there are some, labels."""
    from crowdwise.saved import load

    model = load(asking.model)
    if not hasattr(model, "network_"):
        raise InputError(
            f"The model in {quote(asking.model)} is of labels alone ({model.slug}). Give one that `crowdwise train` "
            "wrote, or use predict_proba(labels) in Python."
        )
    from crowdwise.learn.alignment import align_to_rows
    from crowdwise.learn.reading import read_features

    image_size, notes = asking.image_size, []
    square = len(model.shape_) == 3 and model.shape_[1] == model.shape_[2]
    if image_size is None and square and Path(asking.features).is_dir():
        image_size = model.shape_[2]  # no other would do
        notes.append(f"Images are taken at {image_size} × {image_size} pixels, as in training.")
    features = read_features(asking.features, image_size=image_size)
    names = features.names[0] if features.names else pa.array(np.arange(len(features)))
    answers = None
    if asking.reading is not None:
        answers = align_to_rows(work.read(asking.reading), features)
        names = answers.tasks
        notes += _strangers(model, answers)
    shares = model.predict_proba(features, answers)
    chosen = model._decide(shares)
    table = pa.table(
        {
            "task": names,
            "label": model.classes_.take(pa.array(chosen)),
            "confidence": shares[np.arange(chosen.size), chosen],
            **{f"p_{visible(name)}": shares[:, k] for k, name in enumerate(model.classes_.to_pylist())},
        }
    )
    scores: dict[str, Any] = {}
    if asking.truth is not None:
        codes, more = work.known_truth(asking.truth, _nobody(names, model.classes_))
        notes += more
        scores = work.scores_of(table, shares, model.classes_, codes)
    notes += work.defused_names(table)
    return Predicted(model=model, table=table, tasks=names, shares=shares, scores=scores, notes=notes)


def _strangers(model: Learner, answers: CrowdLabels) -> list[str]:
    from crowdwise.labels.vocabulary import positions

    new = int((positions(answers.workers, model.workers_) < 0).sum())
    return (
        [f"{format_count(new, 'worker')} the model has not met: each counts as the average of its crowd."]
        if new
        else []
    )


def _nobody(tasks: pa.Array, classes: pa.Array) -> CrowdLabels:
    """Tasks and classes without a label, to line a truth up with."""
    from crowdwise.labels import CrowdLabels

    nothing = np.empty(0, np.int64)
    return CrowdLabels.from_codes(nothing, nothing, nothing, tasks=tasks, workers=0, classes=classes)
