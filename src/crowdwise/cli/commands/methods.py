"""`crowdwise methods`: every method, what it assumes and where it was published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli import console_tables, output
from crowdwise.cli.options import Json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from crowdwise.learner_registry import LearnerEntry
    from crowdwise.registry import Method

__all__ = ["methods"]


def methods(
    long: Annotated[bool, typer.Option("--long", help="Also say when each method fails.")] = False,
    learn: Annotated[bool, typer.Option("--learn", help="Only those of `train`, which learn a classifier.")] = False,
    json: Json = False,
) -> None:
    """List the methods: what each assumes, and its paper."""
    from dataclasses import asdict

    from crowdwise import registry
    from crowdwise.learner_registry import learners

    if json:
        output.print_json([asdict(entry) for entry in (learners() if learn else registry.methods())])
        return
    rooms: dict[str, Any] = {} if learn else {"From labels alone (crowdwise aggregate)": registry.methods()}
    rooms["From features and labels (crowdwise train)"] = learners()
    _print_page(rooms, long=long)


def _print_page(rooms: dict[str, Sequence[Method | LearnerEntry]], *, long: bool) -> None:
    console = console_tables.open_console()
    for title, entries in rooms.items():
        console_tables.print_heading(console, title)
        if long:
            _print_in_full(console, entries)
            continue
        rows = [[entry.slug, entry.summary, entry.paper] for entry in entries]
        console.print(
            console_tables.make_table(("method", "left"), ("assumes", "wrap"), ("paper", "wrap"), rows=rows, indent=0)
        )
    if not long:
        steps = [
            ("When each method fails:", "crowdwise methods --long"),
            ("Use one:", "crowdwise aggregate labels.csv --method majority-vote"),
            ("Learn a classifier:", "crowdwise train --features X.npz --labels labels.csv --method trace"),
        ]
        console_tables.print_next_steps(console, steps)


def _print_in_full(console: Console, entries: Sequence[Method | LearnerEntry]) -> None:
    for entry in entries:
        console_tables.print_heading(console, entry.slug)
        rows = [["assumes", entry.summary], ["fails with", entry.fails], ["paper", entry.paper]]
        console.print(console_tables.make_table(("", "left"), ("", "wrap"), rows=rows))
