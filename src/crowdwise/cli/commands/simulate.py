"""`crowdwise simulate`: the labels of a crowd whose truth is known."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from crowdwise.cli import console_tables, output_files
from crowdwise.cli.options import build_option_arguments
from crowdwise.cli.terminal_names import quote_command
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from crowdwise.simulate import Simulation

__all__ = ["simulate"]

EPILOG = "Example:\n\n  crowdwise simulate colluders --tasks 500 --out labels.csv --truth-out truth.csv"
PARAMETERS = {
    "tasks": "n_tasks",
    "workers": "n_workers",
    "classes": "n_classes",
    "labels-per-task": "labels_per_task",
    "seed": "random_state",
}


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
    if crowd is None and (out != "-" or truth_out is not None):
        raise typer.BadParameter("which crowd is to be written? Name one; crowdwise simulate lists them")
    if crowd is None or show:
        _print_crowds()
        return
    if out == "-" and truth_out == "-":
        raise typer.BadParameter("labels and truth cannot both go to standard output; give one a file")
    if truth_out is not None and out != "-" and Path(truth_out).resolve() == Path(out).resolve():
        raise typer.BadParameter("--out and --truth-out name the same file; give each its own")
    for option, file in (("--out", out), ("--truth-out", truth_out)):
        if file is not None:
            output_files.check_file(file, option, [])
    given = dict(zip(PARAMETERS, (tasks, workers, classes, labels_per_task, seed), strict=True))
    simulation = _simulate_crowd(crowd, {name: value for name, value in given.items() if value is not None})
    truth = {} if truth_out is None else {truth_out: simulation.truth_table()}
    output_files.output_csvs({out: simulation.labels.to_table(), **truth})
    if out != "-":
        _print_page(simulation, crowd, out, truth_out)


def _simulate_crowd(slug: str, options: dict[str, int]) -> Simulation:
    """Simulate a crowd, refusing options that it does not take."""
    from crowdwise.simulate import CROWDS
    from crowdwise.simulate import simulate as simulate_named

    if slug in CROWDS:
        allowed = _crowd_options(CROWDS[slug])
        for option in options:
            if option not in allowed:
                raise InputError(
                    f"The crowd {quote(slug)} takes no --{option}. It takes "
                    f"{', '.join(f'--{name}' for name in allowed)}."
                )
    return simulate_named(slug, **{PARAMETERS[name]: value for name, value in options.items()})


def _crowd_options(crowd: Any) -> list[str]:
    known = inspect.signature(crowd).parameters
    return [option for option, parameter in PARAMETERS.items() if parameter in known]


def _crowd_summary(crowd: Any) -> str:
    """Say what a crowd is, without the paper that it is from."""
    summary = (inspect.getdoc(crowd) or "").partition("\n")[0].rstrip(".")
    return re.sub(r"\s*\(([A-Z]\w+ et al\. \d{4})[^)]*\)$", "", summary)


# ---- page -------------------------------------------------------------------------------------------------


def _print_crowds() -> None:
    """Every crowd that can be simulated, and the options it takes."""
    from crowdwise.simulate import CROWDS

    console = console_tables.open_console()
    for slug, crowd in CROWDS.items():
        options = " ".join(f"--{option}" for option in _crowd_options(crowd))
        console.print(Text(slug, style="bold"))
        console.print(Padding(Text(_crowd_summary(crowd)), (0, 0, 0, 2)))
        console.print(Padding(Text(options, style="dim"), (0, 0, 0, 2)))
    command = f"crowdwise simulate {next(iter(CROWDS))} --out labels.csv --truth-out truth.csv"
    console_tables.print_next_steps(console, [("Make one:", command)])


def _print_page(simulation: Simulation, crowd: str, out: str, truth_out: str | None) -> None:
    """Say what was simulated, and what to do with it."""
    console = console_tables.open_console(stderr=truth_out == "-")
    labels = simulation.labels
    console.print(
        Text(
            f"{crowd}: {labels.n_labels:,} labels by {labels.n_workers:,} workers on {labels.n_tasks:,} "
            f"tasks, {labels.n_classes:,} classes; {simulation.accuracy:.1%} of the labels are right."
        )
    )
    known = build_option_arguments({"truth": None if truth_out == "-" else truth_out})
    command = quote_command("crowdwise", "aggregate", out, *known)
    console_tables.print_next_steps(console, [("See who is found out:", command)])
