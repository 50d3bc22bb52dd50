"""What is said of each kind of answers, once: its name, the columns it is known by, how it is read, its methods.

A kind is a folder here, and an entry in `kind_table`. The command, the documentation and the contract tests are made
from it. Labels (classes) are the kind that the rest of the package is about, and have none.
"""

from __future__ import annotations

import functools
import importlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crowdwise.labels.columns import ROLES
from crowdwise.labels.errors import InputError, UnknownNameError, is_one_of, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crowdwise.formats import Export
    from crowdwise.kinds.answers import Answers
    from crowdwise.kinds.model import KindModel

__all__ = ["Kind", "KindMethod", "find_kind", "find_kind_of_export", "kind", "kinds"]


@dataclass(frozen=True)
class KindMethod:
    """A method for answers of a kind, as its class describes it."""

    slug: str
    load: Callable[[], type[KindModel[Any]]]
    summary: str
    fails: str
    complexity: str
    paper: str

    @property
    def class_name(self) -> str:
        """Name of the class."""
        return self.load().__name__


@dataclass(frozen=True)
class Kind:
    """A kind of answers.

    Attributes
    ----------
    name
        As on the command line: "values".
    words
        What answers of this kind are, in a few words.
    columns
        Sets of columns, any of which tells the kind; names are compared without case, blanks, dots, dashes and
        underscores.
    roles
        Columns that a user can name when reading, the first ones needed.
    default
        Slug of the method that is used where none is named.
    reader, scorer, simulator
        Module and function of `read`, `score` and `simulate`, imported when first used.
    shown
        Columns of the consensus that a terminal shows, and of the workers.
    labelled
        Whether answers may have a column label besides: task, worker and label are then no labels of tasks.
    """

    name: str
    words: str
    columns: tuple[tuple[str, ...], ...]
    roles: tuple[str, ...]
    default: str
    reader: str
    scorer: str
    simulator: str
    shown: tuple[tuple[str, ...], tuple[str, ...]]
    labelled: bool = False

    @property
    def read(self) -> Callable[..., Answers]:
        """Reads answers: `read(source, **roles, on_duplicate=…)`."""
        return _import(self.reader)

    @property
    def score(self) -> Callable[[Any, Any], dict[str, float]]:
        """Compares a model's consensus with a truth, which may be a path or a table: named numbers."""
        return _import(self.scorer)

    @property
    def simulate(self) -> Callable[..., Any]:
        """A crowd of known workers: an object with `answers` and `truth`, as `score` takes it."""
        return _import(self.simulator)

    def recognises(self, names: Iterable[str]) -> bool:
        """Whether a table with these columns holds answers of this kind."""
        there = {re.sub(r"[\s._:\-]+", "", str(name)).casefold() for name in names}
        return any({column.replace("_", "") for column in columns} <= there for columns in self.columns)

    def methods(self) -> tuple[KindMethod, ...]:
        """Every method of this kind, the default first, the others by slug."""
        return _methods_of(self.name)

    def method(self, slug: str | None = None) -> KindMethod:
        """The method of this name; by default the one that is used where none is named."""
        found = {each.slug: each for each in self.methods()}
        wanted = self.default if slug is None else slug
        if not is_one_of(wanted, found):
            there = ", ".join(found)
            raise UnknownNameError(f"There is no method {quote(wanted)} for {self.name}. There are: {there}.")
        return found[wanted]


def _import(path: str) -> Callable[..., Any]:
    module, _, name = path.rpartition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


@functools.cache
def kinds() -> tuple[Kind, ...]:
    """Every kind of answers but labels, by name."""
    from crowdwise.kinds.kind_table import KINDS

    return KINDS


def kind(name: str) -> Kind:
    """The kind of this name.

    >>> kind("values").default
    'gaussian'
    """
    found = {each.name: each for each in kinds()}
    if not is_one_of(name, found):
        raise UnknownNameError(f"There is no kind {quote(name)}. There are: labels, {', '.join(found)}.")
    return found[name]


def find_kind(names: Iterable[str]) -> Kind | None:
    """The kind that the columns of a table tell; None where they do not, as those of labels.

    >>> find_kind(["worker", "task", "x_min", "y_min"]) is None
    True
    """
    every = list(names)
    labels = set(ROLES) <= set(every)
    fitting = [each for each in kinds() if each.recognises(every) and (each.labelled or not labels)]
    # Of two, that which asks for more columns: "left, right, same" are also "left, right".
    return max(fitting, key=lambda each: max(map(len, each.columns)), default=None)


def find_kind_of_export(export: Export) -> Kind | None:
    """The kind of the chosen question of a tool's export; None for labels. One that there is not yet is refused."""
    asked = export.chosen_question()
    if asked.kind == "labels":
        return None
    if asked.kind not in {each.name for each in kinds()}:
        raise InputError(
            f"{export.origin} holds {asked.kind}, which cannot be aggregated yet: {asked}. Once they can, this will do "
            f"it: crowdwise aggregate {export.origin} --question {quote(asked.name)}"
        )
    return kind(asked.kind)


@functools.cache
def _methods_of(name: str) -> tuple[KindMethod, ...]:
    from crowdwise.fitting.method_facts import read_facts
    from crowdwise.kinds.model import KindModel

    package = importlib.import_module(f"crowdwise.kinds.{name.replace('-', '_')}")
    default = kind(name).default
    found = []
    for exported in package.__all__:
        each = getattr(package, exported)
        if isinstance(each, type) and issubclass(each, KindModel) and "slug" in vars(each):
            said = read_facts(each, ("summary", "paper", "fails", "complexity"))
            found.append(KindMethod(each.slug, functools.partial(getattr, package, exported), **said))
    return tuple(sorted(found, key=lambda each: (each.slug != default, each.slug)))
