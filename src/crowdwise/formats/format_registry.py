"""Every format that is read, found by walking this room: a file with a `FORMAT` is one."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from crowdwise.formats.export_files import ExportFiles
    from crowdwise.formats.export_format import Format
    from crowdwise.labels.columns import Columns, Named

__all__ = ["find_answers", "find_format", "formats", "recognise"]


@cache
def formats() -> tuple[Format, ...]:
    """Every format, by name."""
    modules = [
        importlib.import_module(f"crowdwise.formats.{module.name}")
        for module in pkgutil.iter_modules([str(Path(__file__).parent)])
    ]
    found: list[Format] = [module.FORMAT for module in modules if hasattr(module, "FORMAT")]
    return tuple(sorted(found, key=lambda each: each.name))


def find_format(slug: str) -> Format:
    """The format of this name.

    >>> find_format("label-studio").name
    'Label Studio'
    """
    found = {each.slug: each for each in formats()}
    if not isinstance(slug, str) or slug not in found:
        close = difflib.get_close_matches(str(slug).casefold().replace(" ", "-"), found, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise InputError(f"There is no format {quote(slug)}.{hint} There are: {', '.join(found)}.")
    return found[slug]


def recognise(files: ExportFiles) -> Format | None:
    """The format of these files; None if they are no tool's export."""
    return next((each for each in formats() if each.recognises(files)), None)


def find_answers(source: Columns, named: Named) -> tuple[Columns, Named] | None:
    """The answers in a table in memory that is a tool's export, and their columns; None if it is none."""
    answers = (each.find_answers(source, named) for each in formats() if each.find_answers is not None)
    return next((each for each in answers if each is not None), None)
