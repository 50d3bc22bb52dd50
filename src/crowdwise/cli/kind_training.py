"""`crowdwise train` and `crowdwise predict` for answers that are no classes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

from crowdwise.cli import console_tables, fitted_model_output, kind_output
from crowdwise.cli.answer_files import read_answers
from crowdwise.cli.kind_output import KindResult
from crowdwise.cli.terminal_names import escape_unprintable, quote_command
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from crowdwise.cli.commands.train import TrainOptions
    from crowdwise.cli.label_files import LabelFiles
    from crowdwise.registry import LearnerEntry

__all__ = ["KindTrainResult", "find_learner", "predict_rows", "print_training_page", "train_answers"]


@dataclass(frozen=True, kw_only=True)
class KindTrainResult(KindResult):
    """What `train` found, where answers are no classes."""

    def to_json_dict(self) -> dict[str, Any]:
        """Give what `--json` prints."""
        facts = super().to_json_dict()
        epochs = {"n_epochs": int(self.model.n_epochs_), "best_epoch": int(self.model.best_epoch_)}
        kept = {name: value for name, value in facts.items() if name not in ("n_iter", "converged")}
        return kept | epochs | {"held_out": _held_out(self.model), "notes": self.notes}


def find_learner(name: str, slug: str | None) -> LearnerEntry:
    """The learner of this slug, which must be one of the kind; without a slug, the usual one of the kind."""
    from crowdwise.registry import learner, learners

    every = learners(name)  # says how to install torch, where it is not
    if slug is None:
        return next(entry for entry in every if entry.is_default)
    entry = learner(slug)
    if entry.kind != name:
        there = ", ".join(each.slug for each in every)
        raise InputError(f"{slug} learns from {entry.kind}, and these are {name}. For {name} there are: {there}.")
    return entry


def train_answers(name: str, source: Any, files: LabelFiles, options: TrainOptions) -> KindTrainResult:
    """Train a network on features and answers of a kind, and score it where the truth is given."""
    from crowdwise.kinds.kind_registry import kind as find

    entry, kind = find_learner(name, options.method), find(name)
    if options.valid is not None:
        raise InputError(f"{name} take no --valid: answers held out choose the epoch. Leave it out.")
    model = entry.make(**options.settings)
    model._check_parameters()
    from crowdwise.learn.diagnosis import diagnose_history
    from crowdwise.learn.feature_files import read_features

    answers, notes = read_answers(kind, source, files)
    features = read_features(options.features, image_size=options.image_size)
    started = time.perf_counter()
    model.fit(features, answers)
    seconds = time.perf_counter() - started
    doubts = diagnose_history(model, as_options=True)
    return KindTrainResult.of(kind, answers, model, seconds, options.truth, notes, doubts)


def print_training_page(
    result: KindTrainResult, network: str, command: list[str], new: str, place: Path | None
) -> None:
    """Show what was trained, how good it is, the first tasks and workers, and what to do next."""
    console, model = console_tables.open_console(), result.model
    console.print(
        Text(f"A network for {result.answers.noun}s, from features and {str(result.answers).partition(': ')[2]}.")
    )
    console.print(Text(f"By {model.slug} with the network {network}, in {result.seconds:.2g} s."))
    console_tables.print_heading(console, "Training")
    rows = [["epoch kept", f"{model.best_epoch_:,} of {model.n_epochs_:,}", ""]]
    held = _held_out(model)
    if held is not None:
        rows.append(["answers held out", f"{held:.4f}", model.held_out_measure])
    console.print(console_tables.make_table(("", "left"), ("", "right"), ("", "left"), rows=rows))
    kind_output.print_fit(console, result)
    if place is not None:
        fitted_model_output.print_written_files(console, place, history="loss and scores of every epoch")
    steps = [("Keep the model:", quote_command(*command, "--out", "results"))]
    if place is not None:
        ask = ["crowdwise", "predict", str(place / "model"), "--features", new, "--out", "predictions.csv"]
        steps = [
            ("Predict what nobody has answered:", quote_command(*ask)),
            ("Use the model in Python:", f"import crowdwise; crowdwise.load({str(place / 'model')!r})"),
        ]
    console_tables.print_next_steps(console, [(why, escape_unprintable(what)) for why, what in steps])


def predict_rows(model: Any, source: str, image_size: int | None, refused: dict[str, Any]) -> pa.Table:
    """Predictions of a network for answers that are no classes: a table with a row for each row of the features."""
    import numpy as np
    import pyarrow as pa

    from crowdwise.learn.feature_files import read_features

    given = next((option for option, value in refused.items() if value), None)
    if given is not None:
        raise InputError(
            f"The model learnt from {model.kind}; predictions are made from features alone. Leave {given} out, or use "
            f"crowdwise.load and {quote('predict')} in Python."
        )
    features = read_features(source, image_size=image_size)
    names = features.names[0] if features.names else pa.array(np.arange(len(features)))
    found = np.asarray(model.predict(features))
    about = "item" if "items" in model.vocabularies else "task"
    if found.ndim == 1:
        return pa.table({about: names, model.predicts: found})
    return pa.table({about: names, **dict(zip(model.coordinates, found.T, strict=True))})


def _held_out(model: Any) -> float | None:
    """Score of the answers held out, in the epoch that was kept."""
    history = model.history_
    return float(history["held_out"][model.best_epoch_ - 1].as_py()) if "held_out" in history.column_names else None
