"""The commands and their options. What is heavy is imported when a command runs: --help is quick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

import crowdwise
from crowdwise.cli.audit_app import audit, report
from crowdwise.cli.bench_app import bench
from crowdwise.cli.first_run import say_if_compiling
from crowdwise.cli.learning_app import predict, train
from crowdwise.cli.options import (
    Classes,
    Duplicates,
    Gold,
    Items,
    Json,
    Kind,
    LabelColumn,
    Labels,
    MethodSlug,
    OnDuplicate,
    Outer,
    TaskColumn,
    WorkerColumn,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["app"]

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"crowdwise {crowdwise.__version__}")
        raise typer.Exit


EXAMPLES = "\n\n".join(
    (
        "Examples:",
        "  crowdwise demo",
        "  crowdwise aggregate labels.csv --truth truth.csv --out results",
        "  crowdwise train --features X.npz --labels labels.csv --out results",
        "  crowdwise report labels.csv --out report.html",
    )
)


@app.callback(invoke_without_command=True, epilog=EXAMPLES)
def crowd(
    context: typer.Context,
    _wanted: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Consensus, worker portraits and classifiers from labels that disagree."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(epilog="Example:\n\n  crowdwise aggregate labels.csv --method one-coin --out results")
def aggregate(
    labels: Labels,
    *,
    method: MethodSlug = "auto",
    truth: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="True labels (task, label) to score the consensus with."),
    ] = None,
    gold: Gold = None,
    class_prior: Annotated[
        str | None,
        typer.Option(metavar="A=.7,B=.3", help="Known shares of the classes, which are then not learnt."),
    ] = None,
    known_workers: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="A saved model that knows some of the workers already."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Write consensus.csv, workers.csv and model/; - prints consensus.csv."),
    ] = None,
    items: Items = None,
    json: Json = False,
    seed: Annotated[int | None, typer.Option(min=0, help="For methods that draw at random.")] = None,
    max_iter: Annotated[int | None, typer.Option(min=1, help="Most iterations of the fit.")] = None,
    sequences: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Which tasks follow one another (task, sequence, position); or names: 12_3 is place 3 of 12.",
        ),
    ] = None,
    graph: Annotated[
        str | None, typer.Option(metavar="FILE", help="Pairs of tasks that are joined, in two columns.")
    ] = None,
    task_column: TaskColumn = None,
    worker_column: WorkerColumn = None,
    label_column: LabelColumn = None,
    classes: Classes = None,
    on_duplicate: Duplicates = OnDuplicate.error,
    kind: Kind = None,
    outer: Outer = None,
) -> None:
    """Find the consensus and portray the workers."""
    from crowdwise.cli import output, pages, work

    if out == "-" and json:
        raise typer.BadParameter("--out - and --json both want standard output; choose one")
    if [*labels, truth, gold, sequences, graph, items].count("-") > 1:
        raise typer.BadParameter("only one of LABELS and the files of options can be standard input (-)")
    place = None if out in (None, "-") else output.checked_place(str(out))
    columns = (task_column, worker_column, label_column)
    reading = work.Reading(labels, *columns, classes, on_duplicate.value, kind=kind, outer=outer)
    request = work.Request(
        reading, method, truth, gold, seed, max_iter, sequences, graph, class_prior, known_workers, items
    )
    say_if_compiling()
    read = work.read(reading)
    shows = work.read_shown_items(items, read)
    result = work.aggregated(request, read)
    if place is not None:
        output.write(result, place)
    if json:
        output.print_json(result.facts())
    if out == "-":
        output.print_csv(result.consensus)
    if json or out == "-":
        pages.say_notes(result.notes)
    else:
        pages.aggregate_page(result, place, shows)


@app.command(epilog="Example:\n\n  crowdwise compare labels.csv --methods majority-vote,dawid-skene,auto")
def compare(
    labels: Labels,
    *,
    truth: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="True labels (task, label) to score the methods with as well."),
    ] = None,
    methods: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="The methods; all that apply, if left out.")
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Parts of the labels, each hidden in turn.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="For cutting the labels into parts.")] = 0,
    json: Json = False,
    task_column: TaskColumn = None,
    worker_column: WorkerColumn = None,
    label_column: LabelColumn = None,
    classes: Classes = None,
    on_duplicate: Duplicates = OnDuplicate.error,
    kind: Kind = None,
    outer: Outer = None,
) -> None:
    """Compare methods by how well they predict labels hidden from them, and say how far that ranks them."""
    from crowdwise.cli import comparing, output, work

    if [*labels, truth].count("-") > 1:
        raise typer.BadParameter("only one of LABELS and --truth can be standard input (-)")
    columns = (task_column, worker_column, label_column)
    reading = work.Reading(labels, *columns, classes, on_duplicate.value, kind=kind, outer=outer)
    say_if_compiling()
    result = comparing.compare_methods(work.read(reading), methods, truth, folds, seed)
    if json:
        output.print_json(comparing.comparison_facts(result))
    else:
        comparing.compare_page(result, reading)


app.command(epilog="Example:\n\n  crowdwise train --features X.npz --labels labels.csv --out results")(train)
app.command(epilog="Example:\n\n  crowdwise predict results/model --features new.npz --out predictions.csv")(predict)
app.command(epilog="Example:\n\n  crowdwise audit labels.csv --prune-to pruned.csv")(audit)
app.command(epilog="Example:\n\n  crowdwise report labels.csv --truth truth.csv --out report.html")(report)
app.command(epilog="Example:\n\n  crowdwise bench tanno-table-1 --quick --out bench")(bench)


@app.command()
def methods(
    long: Annotated[bool, typer.Option("--long", help="Also say when each method fails.")] = False,
    learn: Annotated[
        bool,
        typer.Option("--learn", help="Those of `train`, which learn a classifier (imports torch)."),
    ] = False,
    json: Json = False,
) -> None:
    """List the methods: what each assumes, and its paper."""
    from dataclasses import asdict

    from crowdwise import registry
    from crowdwise.cli import output, pages

    # Learners are listed on request alone: their classes come with torch, which takes seconds to import.
    entries: Sequence[Any] = registry.learners() if learn else registry.methods()
    if json:
        output.print_json([asdict(entry) for entry in entries])
        return
    pages.methods_page(entries, learn=learn, long=long)


@app.command()
def describe(
    labels: Labels,
    *,
    json: Json = False,
    task_column: TaskColumn = None,
    worker_column: WorkerColumn = None,
    label_column: LabelColumn = None,
    classes: Classes = None,
    on_duplicate: Duplicates = OnDuplicate.all,
    kind: Kind = None,
    outer: Outer = None,
) -> None:
    """Say what labels look like before any model, and what seems wrong."""
    from crowdwise.cli import output, pages, work

    columns = (task_column, worker_column, label_column)
    reading = work.Reading(labels, *columns, classes, on_duplicate.value, kind=kind, outer=outer)
    description = work.describe_files(reading)
    if json:
        output.print_json(description.to_dict())
    else:
        pages.describe_page(description, reading)


@app.command(epilog="Example:\n\n  crowdwise simulate colluders --tasks 500 --out labels.csv --truth-out truth.csv")
def simulate(
    crowd: Annotated[
        str | None, typer.Argument(metavar="CROWD", help="Leave out to list the crowds.", show_default=False)
    ] = None,
    *,
    tasks: Annotated[int | None, typer.Option(min=1, help="Number of tasks.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Number of workers.")] = None,
    classes: Annotated[int | None, typer.Option(min=2, help="Number of classes.")] = None,
    labels_per_task: Annotated[int | None, typer.Option(min=1, help="Answers to each task.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same crowd.")] = 0,
    out: Annotated[str, typer.Option(metavar="FILE", help="Where the labels go; - for standard output.")] = "-",
    truth_out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Where the truth goes; - for standard output.")
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="List the crowds.")] = False,
) -> None:
    """Make the labels of a crowd whose truth is known, as CSV."""
    from crowdwise.cli import output, simulating

    if crowd is None or show:
        simulating.crowds_page(simulating.list_crowds())
        return
    if out == "-" and truth_out == "-":
        raise typer.BadParameter("labels and truth cannot both go to standard output; give one a file")
    options = {
        "tasks": tasks,
        "workers": workers,
        "classes": classes,
        "labels-per-task": labels_per_task,
        "seed": seed,
    }
    if truth_out is not None and truth_out == out:
        raise typer.BadParameter("--out and --truth-out name the same file; give each its own")
    simulation = simulating.simulate_crowd(crowd, {name: value for name, value in options.items() if value is not None})
    if truth_out is not None:
        output.put_csv(simulation.truth_table(), truth_out)
    output.put_csv(simulation.labels.to_table(), out)
    if out != "-":
        simulating.simulated_page(simulation, crowd, out, truth_out)


@app.command()
def demo(
    out: Annotated[str, typer.Option(metavar="DIR", help="Where the results go.")] = "crowdwise-demo",
) -> None:
    """See the main job done on real labels that come with the package, and a classifier learnt from bad ones."""
    from crowdwise.audit.audit import audit_crowd
    from crowdwise.cli import audit_pages, digits, output, pages, picture, work
    from crowdwise.datasets import load
    from crowdwise.labels.errors import InputError
    from crowdwise.registry import learner

    place = output.checked_place(out)
    say_if_compiling()
    result = work.aggregated(work.Request(work.Reading("anaesthetists"), "dawid-skene"), load("anaesthetists").labels)
    output.write(result, place)
    pages.demo_page(result)
    missing = ""
    try:
        learner("trace").load()
    except InputError as error:  # torch is not installed
        missing = str(error)
    else:
        learnt = digits.learnt_digits()
        output.write_text(picture.drawn_digits(learnt), place / pages.PICTURE)
        pages.digits_page(learnt)
    pages.demo_end(place, missing)
    try:
        audit_pages.check_report()
    except InputError as error:  # altair is not installed
        pages.say_notes([str(error)])
    else:
        found = audit_crowd(result.labels, method=result.model.slug)  # the page shows the consensus told above
        audit_pages.put_page(found, str(place / "report.html"), title="The anaesthetists of 1979")
