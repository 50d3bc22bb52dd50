"""`crowdwise predict`: classes of tasks by a trained model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from crowdwise.cli import console_tables, fitted_model_output, output_files
from crowdwise.cli.fitted_model_output import note_names_escaped_in_csv, read_scoring_truth
from crowdwise.cli.kind_training import predict_rows
from crowdwise.cli.label_files import LabelFiles, read_files
from crowdwise.cli.options import (
    ColumnOptions,
    Duplicates,
    Features,
    ImageSize,
    Json,
    LabelColumn,
    LabelKind,
    OnDuplicate,
    Outer,
    TaskColumn,
    WorkerColumn,
)
from crowdwise.cli.standard_input import refuse_two_inputs
from crowdwise.cli.terminal_names import escape_unprintable
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.source_location import format_count

if TYPE_CHECKING:
    import pyarrow as pa

    from crowdwise.labels import CrowdLabels
    from crowdwise.labels.types import FloatArray
    from crowdwise.learn.base import Learner

__all__ = ["predict"]

EPILOG = "Example:\n\n  crowdwise predict results/model --features new.npz --out predictions.csv"
SURE, UNSURE = 0.9, 0.6


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """What `predict` found: a row for each task with label, confidence and the probability of every class."""

    model: Learner
    table: pa.Table
    shares: FloatArray
    scores: dict[str, Any]
    notes: list[str]

    def to_json_dict(self) -> dict[str, Any]:
        """Give what `--json` prints."""
        classes = [str(name) for name in self.model.classes_.tolist()]
        rows = self.table.select(["task", "label", "confidence"]).to_pylist()
        chances = [dict(zip(classes, row, strict=True)) for row in self.shares.tolist()]
        return {
            "method": self.model.slug,
            "n_tasks": len(rows),
            **self.scores,
            "predictions": [row | {"probabilities": chance} for row, chance in zip(rows, chances, strict=True)],
        }


def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A folder that `crowdwise train` wrote as model/.")],
    *,
    features: Features,
    labels: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Crowd labels of these tasks, to be taken into account.")
    ] = None,
    truth: Annotated[
        str | None, typer.Option(metavar="FILE", help="True labels (task, label) to score the predictions with.")
    ] = None,
    out: Annotated[
        str, typer.Option(metavar="FILE", help="Where the predictions go, as CSV; - for standard output.")
    ] = "-",
    json: Json = False,
    image_size: ImageSize = None,
    task_column: TaskColumn = None,
    worker_column: WorkerColumn = None,
    label_column: LabelColumn = None,
    on_duplicate: Duplicates = OnDuplicate.error,
    outer: Outer = None,
) -> None:
    """Classify tasks with a trained model, from features alone or with labels."""
    refuse_two_inputs([features, *(labels or ()), truth])
    output_files.check_file(out, "--out", (model, features, *(labels or ()), truth))
    columns = ColumnOptions(
        task_column=task_column,
        worker_column=worker_column,
        label_column=label_column,
        on_duplicate=on_duplicate,
        kind=LabelKind.labels,  # the model knows the classes: what its labels are is settled
        outer=outer,
    )
    files = LabelFiles(labels, columns) if labels else None
    loaded = _load_learner(model)
    if hasattr(loaded, "n_outputs_"):  # of answers that are no classes
        table = predict_rows(loaded, features, image_size, {"--labels": labels, "--truth": truth})
        if json:
            output_files.print_json({"method": loaded.slug, "predictions": table.to_pylist()})
        if not json or out != "-":
            output_files.output_csv(table, out)
        return
    result = _predict_tasks(loaded, features, files, truth, image_size)
    if not json or out != "-":
        output_files.output_csv(result.table, out)
    if json:
        output_files.print_json(result.to_json_dict())
    if json or out == "-":
        fitted_model_output.print_notes_to_stderr([*([] if json else _format_scores_as_notes(result)), *result.notes])
    else:
        _print_page(result, "features" if files is None else "features and labels", out)


def _load_learner(folder: str) -> Learner:
    from crowdwise.saved import load

    model: Any = load(folder)
    if not hasattr(model, "network_"):
        kind = getattr(model, "kind", None)  # of answers; models of labels have none
        what, call = ("labels", "predict_proba(labels)") if kind is None else (f"answers ({kind})", "predict(answers)")
        raise InputError(
            f"The model in {quote(folder)} is of {what} alone ({model.slug}). Give one that `crowdwise train` "
            f"wrote, or use {call} in Python."
        )
    learner: Learner = model
    return learner


def _predict_tasks(
    model: Learner, source: str, files: LabelFiles | None, truth: str | None, image_size: int | None
) -> Predictions:
    """Classes of tasks from their features and, if there are some, labels."""
    import numpy as np
    import pyarrow as pa

    from crowdwise.audit.consensus_scores import score_posterior
    from crowdwise.learn.alignment import align_to_rows
    from crowdwise.learn.feature_files import read_features

    notes = []
    square = len(model.shape_) == 3 and model.shape_[1] == model.shape_[2]
    if image_size is None and square and Path(source).is_dir():
        image_size = model.shape_[2]  # no other would do
        notes.append(f"Images are taken at {image_size} × {image_size} pixels, as in training.")
    features = read_features(source, image_size=image_size)
    names = features.names[0] if features.names else pa.array(np.arange(len(features)))
    answers = None
    if files is not None:
        answers = align_to_rows(read_files(files), features)
        names = answers.tasks
        notes += _note_unknown_workers(model, answers)
    shares = model.predict_proba(features, answers)
    chosen = model._decide(shares)
    table = pa.table(
        {
            "task": names,
            "label": model._names.classes.take(pa.array(chosen)),
            "confidence": shares[np.arange(chosen.size), chosen],
            **{f"p_{name}": shares[:, k] for k, name in enumerate(model.classes_.tolist())},  # defused when written
        }
    )
    scores: dict[str, Any] = {}
    if truth is not None:
        codes, more = read_scoring_truth(truth, _make_empty_labels(names, model._names.classes))
        notes += more
        scores = score_posterior(table, shares, model._names.classes, codes)
    notes += note_names_escaped_in_csv(table)
    return Predictions(model=model, table=table, shares=shares, scores=scores, notes=notes)


def _note_unknown_workers(model: Learner, answers: CrowdLabels) -> list[str]:
    from crowdwise.labels.vocabulary import positions

    new = int((positions(answers.workers, model._names.workers) < 0).sum())
    return (
        [f"{format_count(new, 'worker')} the model has not met: each counts as the average of its crowd."]
        if new
        else []
    )


def _make_empty_labels(tasks: pa.Array, classes: pa.Array) -> CrowdLabels:
    """Tasks and classes without a label, to line a truth up with."""
    import numpy as np

    from crowdwise.labels import CrowdLabels

    nothing = np.empty(0, np.int64)
    return CrowdLabels.from_codes(nothing, nothing, nothing, tasks=tasks, workers=0, classes=classes)


# ---- page -------------------------------------------------------------------------------------------------


def _format_scores_as_notes(result: Predictions) -> list[str]:
    """The scores in one line, for where the predictions themselves take standard output."""
    scores = result.scores
    if not scores:
        return []
    sentence = (
        f"against the truth of {scores['n_truth']:,} tasks: accuracy {scores['accuracy']:.1%}, log loss "
        f"{scores['log_loss']:.3f}. --out FILE shows more."
    )
    return [sentence]


def _print_page(result: Predictions, given: str, out: str) -> None:
    """Say what was predicted and where it went."""
    console = console_tables.open_console()
    confidence = result.table["confidence"].to_numpy()
    sure, unsure = int((confidence >= SURE).sum()), int((confidence < UNSURE).sum())
    console.print(
        Text(
            f"{len(confidence):,} tasks classified by {result.model.slug} from {given}: {sure:,} are 90% sure or more, "
            f"{unsure:,} less than 60%, by the model's own confidence{'' if result.scores else ', unchecked'}."
        )
    )
    fitted_model_output.print_scores(console, result.scores)
    console_tables.print_heading(console, "Classes")
    names = result.model.classes_.tolist()
    columns = {"of these tasks": result.shares.mean(axis=0), "in training": result.model.prior_}
    console.print(console_tables.class_shares_table(console, names, columns))
    fitted_model_output.print_notes_section(console, result.notes)
    console_tables.print_heading(console, "Written")
    what = "label, confidence and the probability of every class"
    console.print(Text(f"  {escape_unprintable(out)}  {what}"), soft_wrap=True)
