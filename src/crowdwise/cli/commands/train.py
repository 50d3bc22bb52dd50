"""`crowdwise train`: a classifier learnt from features and labels that disagree."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from crowdwise.cli import console_tables, fitted_model_output, kind_training, output_files
from crowdwise.cli.fitted_model_output import FittedResult, note_names_escaped_in_csv, read_scoring_truth
from crowdwise.cli.label_files import LabelFiles, collect_warnings, read_files
from crowdwise.cli.options import ColumnOptions, Engine, Features, ImageSize, Json, build_option_arguments, make_option
from crowdwise.cli.standard_input import refuse_two_inputs
from crowdwise.cli.stop_signals import explain_stop
from crowdwise.cli.terminal_names import escape_unprintable, quote_command
from crowdwise.labels.errors import InputError, OtherKindError

if TYPE_CHECKING:
    from rich.console import Console

    from crowdwise.registry import LearnerEntry

__all__ = ["TrainOptions", "train"]

EPILOG = "Example:\n\n  crowdwise train --features X.npz --labels labels.csv --out results"
SETTINGS = ("network", "epochs", "batch_size", "learning_rate", "device", "checkpoint")  # parameters of every learner
training_option = partial(make_option, panel="Training")
NEEDS = {"confusion": "the workers' true confusion matrices", "sequences": "sequences as tasks"}


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """The features, the method and how it is trained."""

    features: Features
    method: Annotated[
        str | None,
        make_option("See `crowdwise methods --learn`; trace, or what suits the kind of answers, if left out.", "SLUG"),
    ] = None
    truth: Annotated[str | None, make_option("True labels (task, label) to score the result with.", "FILE")] = None
    image_size: ImageSize = None
    network: Annotated[
        str | None,
        training_option(
            "linear, mlp, cnn, cnn-pooled, resnet-18, resnet-50 or vgg-16; what suits the features, if left out.",
            "NAME",
        ),
    ] = None
    valid: Annotated[
        str | None,
        training_option(
            "Features of a validation set to choose the best epoch by, instead of labels held out.", "FILE|DIR"
        ),
    ] = None
    valid_truth: Annotated[str | None, training_option("Its true labels (task, label).", "FILE")] = None
    epochs: Annotated[
        int | None, training_option("Passes over the tasks; about 4,000 steps, if left out.", least=1)
    ] = None
    batch_size: Annotated[int | None, training_option("Tasks in a step; 64, if left out.", least=1)] = None
    learning_rate: Annotated[float | None, training_option("Adam's; 0.001, or the method's own, if left out.")] = None
    seed: Annotated[int | None, training_option("Same seed, same answer; 0, if left out.", least=0)] = None
    device: Annotated[str | None, training_option("auto, cpu, cuda or mps; auto, if left out.", "NAME")] = None
    checkpoint: Annotated[
        str | None,
        training_option(
            "Keep the last finished epoch here. If training is stopped, or ends, the same command goes on from it.",
            "DIR",
        ),
    ] = None
    engine: Engine = None

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters of training that were given."""
        given = {name: getattr(self, name) for name in SETTINGS} | {"random_state": self.seed}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def example_features_name(self) -> str:
        """A name for features of new tasks, of the kind that was given."""
        given = Path(self.features)
        if given.is_dir():
            return "new-images"
        suffixes = "".join(given.suffixes[-2:] if given.suffix == ".gz" else given.suffixes[-1:])
        return f"new{suffixes.partition(':')[0] or '.npz'}"

    def command(self, files: LabelFiles) -> list[str]:
        """Give the same on a command line; a truth is left out."""
        given = asdict(self) | {"truth": None, "features": None}
        labels = [word for file in files.files for word in ("--labels", file)]
        words = ["--features", self.features, *labels, *build_option_arguments(given), *files.build_column_arguments()]
        return ["crowdwise", "train", *words]


@dataclass(frozen=True, kw_only=True)
class TrainResult(FittedResult):
    """What `train` found."""

    files: LabelFiles
    options: TrainOptions

    @property
    def network_name(self) -> str:
        """Name of the network."""
        return _network_name(self.model)

    @property
    def best_scores(self) -> dict[str, float]:
        """What was measured in the epoch that was kept, of held_out and accuracy."""
        history, at = self.model.history_, self.model.best_epoch_ - 1
        return {name: history[name][at].as_py() for name in ("held_out", "accuracy") if name in history.column_names}

    def to_json_dict(self) -> dict[str, Any]:
        """Give what `--json` prints."""
        best = self.best_scores
        return {
            "method": self.model.slug,
            "network": self.network_name,
            **self.size_facts(),
            "n_epochs": int(self.model.n_epochs_),
            "best_epoch": int(self.model.best_epoch_),
            "held_out": best.get("held_out"),
            "valid_accuracy": best.get("accuracy"),
            "seconds": round(self.seconds, 6),
            "notes": self.notes,
            **self.scores,
        }


def train(
    *,
    labels: Annotated[
        list[str],
        typer.Option(
            metavar="FILE", help="Crowd labels, as for aggregate; - for standard input. Give it again for each file."
        ),
    ],
    options: TrainOptions,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write consensus.csv, workers.csv, history.csv and model/.")
    ] = None,
    json: Json = False,
    columns: ColumnOptions,
) -> None:
    """Learn a classifier from features and labels that disagree."""
    from crowdwise.labels.engine_choice import use_engine

    refuse_two_inputs([options.features, *labels, options.truth, options.valid, options.valid_truth])
    if (options.valid is None) != (options.valid_truth is None):
        raise typer.BadParameter("--valid and --valid-truth belong together; give both or neither")
    given = [options.features, *labels, options.truth, options.valid, options.valid_truth]
    results = ("consensus.csv", "workers.csv", "history.csv")
    place = None if out is None else output_files.check_results(out, results, given)
    if options.checkpoint is not None:
        output_files.check_folder(options.checkpoint, "--checkpoint")
    files = LabelFiles(labels, columns)
    result: TrainResult | kind_training.KindTrainResult
    with use_engine(options.engine):
        try:
            try:
                result = _fit_learner(files, options)
            except OtherKindError as other:
                result = kind_training.train_answers(other.kind, other.opened, files, options)
        except (KeyboardInterrupt, SystemExit) as stopped:
            raise explain_stop(stopped, _say_how_to_go_on(stopped, options)) from stopped
    if place is not None:
        output_files.write_results(result, place, history=result.model.history_)
    if json:
        output_files.print_json(result.to_json_dict())
        fitted_model_output.print_notes_to_stderr(result.notes)
    elif isinstance(result, TrainResult):
        _print_page(result, place)
    else:
        command, new = options.command(files), options.example_features_name
        kind_training.print_training_page(result, _network_name(result.model), command, new, place)


# ---- fit --------------------------------------------------------------------------------------------------


def _fit_learner(files: LabelFiles, options: TrainOptions) -> TrainResult:
    """Train the method, and score it where the truth is given."""
    from crowdwise.audit.consensus_scores import score_posterior
    from crowdwise.registry import learner

    # Says how to install torch, where it is not.
    entry = kind_training.find_learner("labels", None) if options.method is None else learner(options.method)
    if entry.kind != "labels":  # the method tells what the answers are
        raise OtherKindError(f"{entry.slug} learns from {entry.kind}.", entry.kind, files.files)
    model = _make_learner(entry, options)
    from crowdwise.learn.alignment import align_to_rows
    from crowdwise.learn.diagnosis import diagnose_fit
    from crowdwise.learn.feature_files import read_features
    from crowdwise.learn.identifiability import NotIdentifiable

    labels = read_files(files)
    features = read_features(options.features, image_size=options.image_size)
    answers = align_to_rows(labels, features)
    valid = _read_validation(options)
    codes, notes = (None, []) if options.truth is None else read_scoring_truth(options.truth, answers, files)
    if options.method not in (None, entry.slug):
        notes.append(f"The learner {options.method} is called {entry.slug} now. Use --method {entry.slug}.")
    started = time.perf_counter()
    _, warned = collect_warnings(NotIdentifiable, lambda: model.fit(features, answers, valid=valid))
    seconds = time.perf_counter() - started
    consensus, workers = model.consensus(), model.workers()
    notes += [*warned, *diagnose_fit(model, features, answers, as_options=True)]
    notes += note_names_escaped_in_csv(consensus, workers)
    scores = {} if codes is None else score_posterior(consensus, model.posterior_, answers.classes, codes)
    found = {"labels": answers, "model": model, "consensus": consensus, "workers": workers}
    return TrainResult(files=files, options=options, seconds=seconds, scores=scores, notes=notes, **found)


def _network_name(model: Any) -> str:
    from crowdwise.learn.networks import default_network

    return str(model.network or default_network(model.shape_))


def _make_learner(entry: LearnerEntry, options: TrainOptions) -> Any:
    if entry.needs:
        raise InputError(
            f"{entry.slug} needs {NEEDS[entry.needs]}, which a command cannot give it. Use "
            f"crowdwise.{entry.class_name} in Python, or another method (crowdwise methods)."
        )
    model = entry.make(**options.settings)
    model._check_parameters()
    return model


def _read_validation(options: TrainOptions) -> Any:
    """Features and true classes to choose the epoch by, where they are given."""
    from crowdwise.labels.truth import read_truth
    from crowdwise.learn.alignment import truth_of_rows
    from crowdwise.learn.feature_files import read_features

    if options.valid is None:
        return None
    held = read_features(options.valid, image_size=options.image_size)
    return held, truth_of_rows(read_truth(options.valid_truth), held)


def _say_how_to_go_on(stopped: BaseException, options: TrainOptions) -> str:
    if options.checkpoint is None:
        return "Training was stopped, and nothing is kept. With --checkpoint DIR, the same command can go on later."
    return str(stopped) or "Training was stopped. There is no checkpoint yet."


# ---- page -------------------------------------------------------------------------------------------------


def _print_page(result: TrainResult, place: Path | None) -> None:
    """Show what was trained, how good it is, the workers, and what to do next."""
    console = console_tables.open_console()
    labels, model = result.labels, result.model
    console.print(
        Text(
            f"A classifier of {labels.n_classes:,} classes, from the features of {labels.n_tasks:,} tasks and "
            f"{labels.n_labels:,} labels by {labels.n_workers:,} workers.\n"
            f"By {model.slug} with the network {result.network_name}, in {result.seconds:.2g} s."
        )
    )
    _print_training(console, result)
    fitted_model_output.print_scores(console, result.scores, "Labels and features together, against")
    fitted_model_output.print_classes(console, result)
    fitted_model_output.print_workers(console, result)
    fitted_model_output.print_notes_section(console, result.notes)
    if place is not None:
        fitted_model_output.print_written_files(console, place, history="loss and scores of every epoch")
    console_tables.print_next_steps(console, _next_steps(result, place))


def _print_training(console: Console, result: TrainResult) -> None:
    model, best = result.model, result.best_scores
    console_tables.print_heading(console, "Training")
    rows = [["epoch kept", f"{model.best_epoch_:,} of {model.n_epochs_:,}", ""]]
    if "held_out" in best:
        rows.append(["labels held out", f"{best['held_out']:.4f}", model.held_out_measure])
    if "accuracy" in best:
        rows.append(["validation set", f"{best['accuracy']:.1%}", "right, from the features alone"])
    console.print(console_tables.make_table(("", "left"), ("", "right"), ("", "left"), rows=rows))


def _next_steps(result: TrainResult, place: Path | None) -> list[tuple[str, str]]:
    words = result.options.command(result.files)
    steps = [("Keep the model:", quote_command(*words, "--out", "results"))]
    if place is not None:
        new = result.options.example_features_name
        ask = ["crowdwise", "predict", str(place / "model"), "--features", new, "--out", "predictions.csv"]
        steps = [
            ("Classify tasks that nobody has labelled:", quote_command(*ask)),
            ("Use the model in Python:", f"import crowdwise; crowdwise.load({str(place / 'model')!r})"),
        ]
    if not result.scores:
        steps.append(("Score it, if you know the truth of some tasks:", quote_command(*words, "--truth", "truth.csv")))
    return [(reason, escape_unprintable(command)) for reason, command in steps]
