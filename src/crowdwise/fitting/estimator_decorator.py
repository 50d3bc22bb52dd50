"""How the parameters of a model become its constructor and its documentation.

A model is a dataclass whose fields are its parameters, given by keyword. What many models have in common (`max_iter`,
`posterior_`, …) is described once, in the docstring of their base class, and added to the docstring of each; so is the
data of examples.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

from crowdwise.labels.old_names import RENAMED, rename_parameters

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["entries_of", "estimator"]

SECTION = r"(?<=^{name}\n{line}\n).*?(?=\n\n|\Z)"
ENTRY = re.compile(r"^(\S.*)((?:\n[ ]+.*)*)", re.MULTILINE)

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, eq_default=False)
def estimator(cls: type[T]) -> type[T]:
    """Make a class a dataclass of parameters by keyword; add what its bases describe to its docstring."""
    made: Any = dataclass(kw_only=True, eq=False, repr=False)(cls)
    _accept_old_names(made)
    _share_documentation(made)
    return cls


def _accept_old_names(cls: Any) -> None:
    names = {each.name for each in fields(cls)}
    if not names & set(RENAMED.values()):
        return
    plain = cls.__init__

    @functools.wraps(plain)
    def init_with_renamed_parameters(self: Any, **parameters: Any) -> None:
        plain(self, **rename_parameters(parameters, cls.__name__))

    cls.__init__ = init_with_renamed_parameters


def _share_documentation(cls: Any) -> None:
    """Add to the sections Parameters and Attributes what the bases say there of this class's own."""
    if sys.flags.optimize > 1 or "slug" not in vars(cls):  # no docstrings; a base, whose docstring is for its heirs
        return
    text = inspect.cleandoc(cls.__doc__)
    parameters = {each.name for each in fields(cls)}
    for section in ("Parameters", "Attributes"):
        said = {name for entry in entries_of(text, section) for name in _entry_names(entry)}
        more = []
        for base in cls.__mro__[1:]:
            for entry in entries_of(inspect.cleandoc(vars(base).get("__doc__") or ""), section):
                names = set(_entry_names(entry))
                if not names & said and (section == "Attributes" or names & parameters):
                    more.append(entry)
                    said |= names
        text = _extend_section(text, section, more)
    if not _section_pattern("Examples").search(text):
        text = f"{text}\n\nExamples\n--------\n{cls.example.format(name=cls.__name__)}"
    cls.__doc__ = _with_example_data(text, cls.__mro__[1:])


def _with_example_data(text: str, bases: tuple[type, ...]) -> str:
    """The docstring whose examples, where they import nothing, begin with the data that the nearest base shows."""
    own = _section_pattern("Examples").search(text)
    if own is None or "import " in own[0]:
        return text
    for base in bases:
        data = _section_pattern("Examples").search(inspect.cleandoc(vars(base).get("__doc__") or ""))
        if data:
            return f"{text[: own.start()]}{data[0]}\n{text[own.start() :]}"
    return text


def _section_pattern(section: str) -> re.Pattern[str]:
    return re.compile(SECTION.format(name=section, line="-" * len(section)), re.MULTILINE | re.DOTALL)


def entries_of(text: str, section: str) -> Iterator[str]:
    """What a docstring describes in a section: a line of names, and the indented lines below it."""
    found = _section_pattern(section).search(text)
    return (entry[0] for entry in ENTRY.finditer(found[0] if found else ""))


def _entry_names(entry: str) -> list[str]:
    return entry.partition("\n")[0].partition(" : ")[0].split(", ")


def _extend_section(text: str, section: str, entries: list[str]) -> str:
    """The docstring with these entries at the end of a section, which is made where there is none."""
    if not entries:
        return text
    pattern = _section_pattern(section)
    if pattern.search(text):
        return pattern.sub(lambda found: "\n".join([found[0], *entries]), text, count=1)
    made = "\n".join([section, "-" * len(section), *entries])
    # The order of numpydoc: Parameters, Attributes, and then the rest.
    later = re.search(
        r"^(?:Attributes\n-{10}|Notes\n-{5}|References\n-{10}|Examples\n-{8})$"
        if section == "Parameters"
        else r"^(?:Notes\n-{5}|References\n-{10}|Examples\n-{8})$",
        text,
        re.MULTILINE,
    )
    place = later.start() if later else len(text)
    return "\n\n".join(part for part in (text[:place].rstrip(), made, text[place:]) if part)
