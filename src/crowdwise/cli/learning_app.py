"""The commands that learn a classifier, and their options; `app` takes them in."""

from __future__ import annotations

from typing import Annotated

import typer

from crowdwise.cli.options import (
    Classes,
    Duplicates,
    Json,
    Kind,
    LabelColumn,
    OnDuplicate,
    Outer,
    TaskColumn,
    WorkerColumn,
)

__all__ = ["predict", "train"]

Features = Annotated[
    str,
    typer.Option(
        metavar="FILE|DIR",
        help="Numbers of each task: .npz (FILE.npz:KEY for one array of several), .npy, a table with a column task, or "
        "a folder of images.",
    ),
]
ImageSize = Annotated[int | None, typer.Option(min=1, metavar="N", help="Bring images to N × N pixels.")]
TRAINING = "Training"


def train(
    *,
    features: Features,
    labels: Annotated[
        list[str],
        typer.Option(
            metavar="FILE", help="Crowd labels, as for aggregate; - for standard input. Give it again for each file."
        ),
    ],
    method: Annotated[str, typer.Option(metavar="SLUG", help="See `crowdwise methods --learn`.")] = "trace",
    truth: Annotated[
        str | None, typer.Option(metavar="FILE", help="True labels (task, label) to score the result with.")
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write consensus.csv, workers.csv, history.csv and model/.")
    ] = None,
    json: Json = False,
    image_size: ImageSize = None,
    network: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="linear, mlp, cnn, cnn-pooled, resnet-18, resnet-50 or vgg-16; what suits the features, if left out.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    valid: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|DIR",
            help="Features of a validation set to choose the best epoch by, instead of labels held out.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    valid_truth: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Its true labels (task, label).", rich_help_panel=TRAINING),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, help="Passes over the tasks; about 4,000 steps, if left out.", rich_help_panel=TRAINING),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Tasks in a step; 64, if left out.", rich_help_panel=TRAINING)
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Adam's; 0.001, or the method's own, if left out.", rich_help_panel=TRAINING)
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Same seed, same answer; 0, if left out.", rich_help_panel=TRAINING)
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="auto, cpu, cuda or mps; auto, if left out.", rich_help_panel=TRAINING),
    ] = None,
    task_column: TaskColumn = None,
    worker_column: WorkerColumn = None,
    label_column: LabelColumn = None,
    classes: Classes = None,
    on_duplicate: Duplicates = OnDuplicate.error,
    kind: Kind = None,
    outer: Outer = None,
) -> None:
    """Learn a classifier from features and labels that disagree."""
    from crowdwise.cli import learning, learning_pages, output, pages, work

    if [features, *labels, truth, valid, valid_truth].count("-") > 1:
        raise typer.BadParameter("only one of the files can be standard input (-)")
    if (valid is None) != (valid_truth is None):
        raise typer.BadParameter("--valid and --valid-truth belong together; give both or neither")
    place = None if out is None else output.checked_place(out)
    settings = {
        "network": network,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "random_state": seed,
        "device": device,
    }
    columns = (task_column, worker_column, label_column)
    request = learning.Training(
        work.Reading(labels, *columns, classes, on_duplicate.value, kind=kind, outer=outer),
        features,
        method,
        image_size,
        valid,
        valid_truth,
        truth,
        {name: value for name, value in settings.items() if value is not None},
    )
    result = learning.trained(request)
    if place is not None:
        output.write(result, place, history=result.model.history_)
    if json:
        output.print_json(result.facts())
        pages.say_notes(result.notes)
    else:
        learning_pages.train_page(result, place)


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
    from crowdwise.cli import learning, learning_pages, output, pages, work

    if [features, *(labels or ()), truth].count("-") > 1:
        raise typer.BadParameter("only one of the files can be standard input (-)")
    reading = None
    if labels:
        columns = (task_column, worker_column, label_column)
        # The model knows the classes: what its labels are is settled.
        reading = work.Reading(labels, *columns, None, on_duplicate.value, kind="labels", outer=outer)
    asking = learning.Asking(model, features, reading, image_size, truth)
    result = learning.predicted(asking)
    if json:
        output.print_json(result.facts())
    if not json or out != "-":
        output.put_csv(result.table, out)
    if json or out == "-":
        pages.say_notes([*([] if json else learning_pages.scores_as_notes(result)), *result.notes])
    else:
        learning_pages.predict_page(result, asking, out)
