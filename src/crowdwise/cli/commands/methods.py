"""`crowdwise methods`: every method, what it assumes and where it was published."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli import console_tables, fitted_model_output, output_files
from crowdwise.cli.options import Json, LabelKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from crowdwise.kinds.kind_registry import KindMethod
    from crowdwise.registry import LearnerEntry, Method

__all__ = ["methods"]


def methods(
    long: Annotated[bool, typer.Option("--long", help="Also say when each method fails.")] = False,
    learn: Annotated[
        bool,
        typer.Option("--learn", help="Those of `train`, which learn a classifier (imports torch)."),
    ] = False,
    kind: Annotated[
        LabelKind | None, typer.Option(help="Those for answers of another kind: values, comparisons and more.")
    ] = None,
    json: Json = False,
) -> None:
    """List the methods: what each assumes, and its paper."""
    from dataclasses import asdict

    from crowdwise import registry

    if kind is not None and kind is not LabelKind.labels and not learn:
        _list_methods_of_kind(kind.value, long=long, json=json)
        return

    # Learners are listed on request alone: their classes come with torch, which takes seconds to import.
    entries: Sequence[Any] = registry.methods()
    if learn:
        entries = registry.learners(kind.value if kind is not None else "labels")
    if sys.flags.optimize > 1:
        note = "What methods assume, and their papers, are in docstrings, which Python leaves out with -OO."
        fitted_model_output.print_notes_to_stderr([note])
    if json:
        output_files.print_json([asdict(entry) for entry in entries])
        return
    _print_page(entries, learn=learn, long=long, kind=None if kind is None else kind.value)


def _list_methods_of_kind(name: str, *, long: bool, json: bool) -> None:
    from crowdwise.kinds.kind_registry import kind

    found = kind(name)
    entries = found.methods()
    if json:
        facts = ("slug", "summary", "fails", "complexity", "paper")
        output_files.print_json([{fact: getattr(entry, fact) for fact in facts} for entry in entries])
        return
    console = console_tables.open_console()
    console_tables.print_heading(console, f"For {found.name}, {found.words} (crowdwise aggregate --kind {found.name})")
    if long:
        _print_in_full(console, entries)
        return
    _print_table(console, entries)


def _print_page(
    entries: Sequence[Method] | Sequence[LearnerEntry], *, learn: bool, long: bool, kind: str | None
) -> None:
    """The methods that take labels alone, or those that learn: what each assumes and where it was published."""
    console = console_tables.open_console()
    room = (
        f"From features and {kind or 'labels'} (crowdwise train)"
        if learn
        else "From labels alone (crowdwise aggregate)"
    )
    console_tables.print_heading(console, room)
    if long:
        _print_in_full(console, entries)
        return
    _print_table(console, entries)
    command = f"crowdwise methods --learn{f' --kind {kind}' if kind else ''}" if learn else "crowdwise methods"
    steps = [("When each method fails:", f"{command} --long")]
    if learn:
        name = next(entry.slug for entry in entries if getattr(entry, "is_default", False))
        steps.append(("Use one:", f"crowdwise train --features X.npz --labels labels.csv --method {name}"))
    else:
        steps.append(("Use one:", "crowdwise aggregate labels.csv --method majority-vote"))
        steps.append(("Methods that learn a classifier from features and labels:", "crowdwise methods --learn"))
        steps.append(("Methods for numbers, or for comparisons:", "crowdwise methods --kind values"))
    console_tables.print_next_steps(console, steps)


def _print_table(console: Console, entries: Sequence[Method | LearnerEntry | KindMethod]) -> None:
    rows = [[entry.slug, entry.summary, entry.paper] for entry in entries]
    columns = ("method", "left"), ("assumes", "wrap"), ("paper", "wrap")
    console.print(console_tables.make_table(*columns, rows=rows, indent=0))


def _print_in_full(console: Console, entries: Sequence[Method | LearnerEntry | KindMethod]) -> None:
    for entry in entries:
        console_tables.print_heading(console, entry.slug)
        rows = [["assumes", entry.summary], ["fails with", entry.fails], ["paper", entry.paper]]
        console.print(console_tables.make_table(("", "left"), ("", "wrap"), rows=rows))
