"""Standard input, which one file of a command may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["refuse_two_inputs"]


def refuse_two_inputs(files: Sequence[str | None], said: str = "the files") -> None:
    """Refuse to read two files from standard input; `said` names those that might be."""
    if files.count("-") > 1:
        raise typer.BadParameter(f"only one of {said} can be standard input (-)")
