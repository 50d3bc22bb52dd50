"""The `crowdwise` command, made of every file of `commands/`. What is heavy is imported when a command runs."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Annotated

import typer

import crowdwise
from crowdwise.cli import commands
from crowdwise.cli.options import expand_option_groups

__all__ = ["app"]

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
EXAMPLES = "\n\n".join(
    (
        "Examples:",
        "  crowdwise demo",
        "  crowdwise aggregate labels.csv --truth truth.csv --out results",
        "  crowdwise report labels.csv --out report.html",
    )
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"crowdwise {crowdwise.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog=EXAMPLES)
def root_command(
    context: typer.Context,
    _wanted: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Consensus, worker portraits and classifiers from labels that disagree."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _add_commands() -> None:
    """A file `commands/NAME.py` is the command NAME: its function of that name, and its EPILOG if it has one."""
    for file in iter_modules(commands.__path__):
        module = import_module(f"{commands.__name__}.{file.name}")
        command = expand_option_groups(getattr(module, file.name))
        app.command(file.name, epilog=getattr(module, "EPILOG", None))(command)


_add_commands()
