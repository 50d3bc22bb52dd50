"""What a person sees of `train` and `predict`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from crowdwise.cli import console_tables, pages
from crowdwise.cli.escaping import shell, visible

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.cli.learning import Asking, Predicted, Trained

__all__ = ["predict_page", "scores_as_notes", "train_page"]


def train_page(result: Trained, place: Path | None) -> None:
    """Show what was trained, how good it is, the workers, and what to do next."""
    console = console_tables.page()
    labels, model = result.labels, result.model
    console.print(
        Text(
            f"A classifier of {labels.n_classes:,} classes, from the features of {labels.n_tasks:,} tasks and "
            f"{labels.n_labels:,} labels by {labels.n_workers:,} workers.\n"
            f"By {model.slug} with the network {result.network}, in {result.seconds:.2g} s."
        )
    )
    console_tables.heading(console, "Training")
    rows = [["epoch kept", f"{model.best_epoch_:,} of {model.n_epochs_:,}", ""]]
    if "held_out" in result.kept:
        rows.append(["labels held out", f"{result.kept['held_out']:.4f}", model.held_out_measure])
    if "accuracy" in result.kept:
        rows.append(["validation set", f"{result.kept['accuracy']:.1%}", "right, from the features alone"])
    console.print(console_tables.table(("", "left"), ("", "right"), ("", "left"), rows=rows))
    if result.scores:
        console_tables.heading(
            console, f"Labels and features together, against the truth of {result.scores['n_truth']:,} tasks"
        )
        console.print(console_tables.score_table(result.scores))
    pages.classes_part(console, result)
    pages.workers_part(console, result)
    if result.notes:
        console_tables.heading(console, "Please note")
        console_tables.notes(console, result.notes)
    if place is not None:
        pages.written_part(console, place, history="loss and scores of every epoch")
    console_tables.heading(console, "What next")
    words = result.request.words()
    steps = [("Keep the model:", shell(*words, "--out", "results"))]
    if place is not None:
        new = result.request.like_features
        ask = ["crowdwise", "predict", str(place / "model"), "--features", new, "--out", "predictions.csv"]
        steps = [
            ("Classify tasks that nobody has labelled:", shell(*ask)),
            ("Use the model in Python:", f"import crowdwise; crowdwise.load({str(place / 'model')!r})"),
        ]
    if not result.scores:
        steps.append(("Score it, if you know the truth of some tasks:", shell(*words, "--truth", "truth.csv")))
    console_tables.commands(console, [(reason, visible(command)) for reason, command in steps])


def scores_as_notes(result: Predicted) -> list[str]:
    """The scores in one line, for where the predictions themselves take standard output."""
    scores = result.scores
    if not scores:
        return []
    sentence = (
        f"against the truth of {scores['n_truth']:,} tasks: accuracy {scores['accuracy']:.1%}, log loss "
        f"{scores['log_loss']:.3f}. --out FILE shows more."
    )
    return [sentence]


def predict_page(result: Predicted, asking: Asking, out: str) -> None:
    """Say what was predicted and where it went."""
    console = console_tables.page()
    confidence = result.table["confidence"].to_numpy()
    sure, unsure = int((confidence >= 0.9).sum()), int((confidence < 0.6).sum())
    given = "features" if asking.reading is None else "features and labels"
    console.print(
        Text(
            f"{len(confidence):,} tasks classified by {result.model.slug} from {given}: {sure:,} are 90% sure or more, "
            f"{unsure:,} less than 60%, by the model's own confidence{'' if result.scores else ', unchecked'}."
        )
    )
    if result.scores:
        console_tables.heading(console, f"Against the truth of {result.scores['n_truth']:,} tasks")
        console.print(console_tables.score_table(result.scores))
    console_tables.heading(console, "Classes")
    names = result.model.classes_.tolist()
    columns = {"of these tasks": result.shares.mean(axis=0), "in training": result.model.prior_}
    console.print(console_tables.class_table(console, names, columns))
    if result.notes:
        console_tables.heading(console, "Please note")
        console_tables.notes(console, result.notes)
    console_tables.heading(console, "Written")
    console.print(Text(f"  {visible(out)}  label, confidence and the probability of every class"), soft_wrap=True)
