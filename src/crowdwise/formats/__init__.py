"""Exports of labelling tools: one file for each, with a `FORMAT` that says how it is recognised and read.

`read_labels` asks every format in turn; adding one is adding a file here, and its test.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

from crowdwise.formats.export_format import Format

if TYPE_CHECKING:
    from crowdwise.labels.columns import Columns, Named

__all__ = ["Format", "find_answers", "formats"]


@cache
def formats() -> tuple[Format, ...]:
    """Every format, by name."""
    names = [module.name for module in pkgutil.iter_modules(__path__) if module.name != "export_format"]
    found: list[Format] = [importlib.import_module(f"{__name__}.{name}").FORMAT for name in names]
    return tuple(sorted(found, key=lambda each: each.name))


def find_answers(source: Columns, named: Named) -> tuple[Columns, Named] | None:
    """The answers in a tool's export and their columns, by the first format that recognises it; None if none does."""
    answers = (each.find_answers(source, named) for each in formats())
    return next((each for each in answers if each is not None), None)
