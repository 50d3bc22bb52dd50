"""The command that runs the papers' tables, and its options; `app` takes it in."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from crowdwise.cli import output
from crowdwise.cli.options import Json  # noqa: TC001 - typer reads it at run time

__all__ = ["bench"]

FAILED = 2


class Device(StrEnum):
    """Where networks are trained."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


def bench(
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE", help="Its name, or a file of TOML of your own; leave out to list them.", show_default=False
        ),
    ] = None,
    *,
    methods: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Some of its methods, by name or slug; all, if left out.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Runs of each cell; as the table says, if left out.")] = None,
    device: Annotated[Device, typer.Option(help="Where networks are trained.")] = Device.auto,
    processes: Annotated[int, typer.Option(min=1, help="Runs at the same time.")] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="Its small version, in minutes: shows that all of it runs, no more.")
    ] = False,
    out: Annotated[str, typer.Option(metavar="DIR", help="Where runs, page and pictures go.")] = "crowdwise-bench",
    json: Json = False,
) -> None:
    """Run a paper's table again, and set its numbers beside those published."""
    from crowdwise.cli import bench as work
    from crowdwise.cli import bench_pages as pages
    from crowdwise.cli.first_run import say_if_compiling

    if table is None:
        found = work.listing()
        if json:
            output.print_json(found)
        else:
            pages.tables_page(found)
        return
    asked = work.Asked(table, methods, seeds, device.value, processes, quick, output.checked_place(out))
    say_if_compiling()
    try:
        report, files = work.benched(asked, pages.say_begun if sys.stderr.isatty() else lambda _all, _left: None)
    except KeyboardInterrupt:
        pages.say_stopped(asked, out)
        raise
    if json:
        output.print_json(work.facts(asked, report, files))
    else:
        pages.bench_page(asked, report, files)
    if report.failed:
        raise typer.Exit(FAILED)
