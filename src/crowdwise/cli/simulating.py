"""`crowdwise simulate`: the crowds there are, and what is shown of one."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.text import Text

from crowdwise.cli import console_tables
from crowdwise.cli.escaping import shell
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.simulate import Simulation

__all__ = ["crowds_page", "list_crowds", "simulate_crowd", "simulated_page"]

PARAMETERS = {
    "tasks": "n_tasks",
    "workers": "n_workers",
    "classes": "n_classes",
    "labels-per-task": "labels_per_task",
    "seed": "seed",
}


def list_crowds() -> list[tuple[str, str, list[str]]]:
    """Each crowd's slug, what it is, and the options that it takes."""
    from crowdwise.simulate import CROWDS

    return [(slug, _first_line(crowd), _options(crowd)) for slug, crowd in CROWDS.items()]


def simulate_crowd(slug: str, options: dict[str, int]) -> Simulation:
    """Simulate a crowd, refusing options that it does not take."""
    from crowdwise.simulate import CROWDS, simulate

    if slug in CROWDS:
        taken = _options(CROWDS[slug])
        for option in options:
            if option not in taken:
                raise InputError(
                    f"The crowd {quote(slug)} takes no --{option}. It takes {', '.join(f'--{name}' for name in taken)}."
                )
    return simulate(slug, **{PARAMETERS[name]: value for name, value in options.items()})


def _options(crowd: Any) -> list[str]:
    known = inspect.signature(crowd).parameters
    return [option for option, parameter in PARAMETERS.items() if parameter in known]


def _first_line(crowd: Any) -> str:
    """Say what a crowd is, without the paper that it is from."""
    summary = (inspect.getdoc(crowd) or "").partition("\n")[0].rstrip(".")
    return re.sub(r"\s*\([A-Z]\w+ et al\. \d{4}[^)]*\)$", "", summary)


def crowds_page(crowds: Sequence[tuple[str, str, list[str]]]) -> None:
    """Every crowd that can be simulated, and the options it takes."""
    console = console_tables.page()
    for slug, summary, options in crowds:
        console.print(Text(slug, style="bold"))
        console.print(Padding(Text(summary), (0, 0, 0, 2)))
        console.print(Padding(Text(" ".join(f"--{option}" for option in options), style="dim"), (0, 0, 0, 2)))
    console_tables.heading(console, "What next")
    console_tables.commands(
        console,
        [("Make one:", f"crowdwise simulate {crowds[0][0]} --out labels.csv --truth-out truth.csv")],
    )


def simulated_page(simulation: Simulation, crowd: str, out: str, truth_out: str | None) -> None:
    """Say what was simulated, and what to do with it."""
    console = console_tables.page(stderr=truth_out == "-")
    labels = simulation.labels
    console.print(
        Text(
            f"{crowd}: {labels.n_labels:,} labels by {labels.n_workers:,} workers on {labels.n_tasks:,} "
            f"tasks, {labels.n_classes:,} classes; {simulation.accuracy:.1%} of the labels are right."
        )
    )
    known = [] if truth_out in (None, "-") else ["--truth", str(truth_out)]
    console_tables.heading(console, "What next")
    console_tables.commands(console, [("See who is found out:", shell("crowdwise", "aggregate", out, *known))])
