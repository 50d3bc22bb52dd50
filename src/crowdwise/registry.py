"""Every method and every learner, as their classes describe themselves.

There is no list of methods here. A class that its room exports (in `aggregate/__init__.pyi`, `learn/__init__.pyi`) and
that is an `Aggregator` or a `Learner` is a method; the facts about it stand on the class. The command, the docs, the
contract tests and the benchmarks are made from what this module reads there.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from crowdwise.labels.errors import InputError, UnknownNameError, quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from crowdwise.fitting.method_facts import Family

__all__ = ["LearnerEntry", "Method", "learner", "learners", "method", "methods"]

EXTRA = ("torch", "lightning", "safetensors")  # what learners need: pip install 'crowdwise[learn]'
KNOWLEDGE = ("gold", "class_prior", "known_workers")


@dataclass(frozen=True)
class Entry:
    """A method and what is said of any, read from its class; `fitting.method_facts` tells what is said in words.

    Attributes
    ----------
    path
        Module and class, imported when first used.
    family
        Name of its family.
    """

    slug: str
    path: str
    summary: str
    paper: str
    fails: str
    family: str
    needs: str

    @property
    def class_name(self) -> str:
        """Name of the class."""
        return self.path.rpartition(":")[2]

    def load(self) -> type[Any]:
        """Import the class."""
        module, _, name = self.path.rpartition(":")
        imported: type[Any] = getattr(importlib.import_module(module), name)
        return imported


@dataclass(frozen=True)
class Method(Entry):
    """A method that takes labels alone; the facts are described in `Aggregator`.

    Attributes
    ----------
    iterative
        Whether it has `max_iter`, and `tol` where it can tell that it has converged.
    """

    label_kind: str
    complexity: str
    iterative: bool
    climbs: bool
    uses: tuple[str, ...]
    random: bool
    plug_in: bool


@dataclass(frozen=True)
class LearnerEntry(Entry):
    """A learner; the facts are described in `Learner`.

    Attributes
    ----------
    parameters
        Parameters of the class that make it this method.
    former_slug
        What it was called before; "" for most.
    kind
        The kind of answers that it learns from.
    is_default
        Whether it is the one of its kind that the command takes where none is named.
    """

    models_workers: bool
    alternates: bool
    kind: str = "labels"
    is_default: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)
    former_slug: str = ""

    def make(self, **parameters: Any) -> Any:
        """An unfitted learner with these parameters besides its own."""
        return self.load()(**self.parameters | parameters)


@functools.cache
def methods() -> tuple[Method, ...]:
    """All methods that make a consensus of labels alone, by family."""
    from crowdwise.fitting.base import Aggregator
    from crowdwise.fitting.method_facts import FAMILIES

    return _sort_by_family(
        [_make_method_entry(each) for each in _exported_classes(Aggregator, "aggregate", "evaluate")], FAMILIES
    )


def learners(kind: str | None = "labels") -> tuple[LearnerEntry, ...]:
    """All methods that learn a network from features and answers of this kind, by family; their classes need torch.

    Those of labels learn classifiers. None gives the learners of every kind.
    """
    found = tuple(entry for entry in _every_learner() if kind in (None, entry.kind))
    if not found:
        there = ", ".join(dict.fromkeys(entry.kind for entry in _every_learner()))
        raise InputError(f"There are no learners of the kind {quote(kind)}. There are some of: {there}.")
    return found


@functools.cache
def _every_learner() -> tuple[LearnerEntry, ...]:
    from crowdwise.fitting.method_facts import LEARNER_FAMILIES

    try:
        base = importlib.import_module("crowdwise.learn.trained_model").TrainedModel
        _check_installed("lightning")  # which is imported only when training begins
        found = [
            entry
            for each in _exported_classes(base, "learn")
            if "slug" in vars(each)
            for entry in _make_learner_entries(each)
        ]
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in EXTRA:
            raise
        raise InputError(
            f"Learning a classifier needs {error.name}, which is not installed: pip install 'crowdwise[learn]'."
        ) from error
    return _sort_by_family(found, LEARNER_FAMILIES)


def _check_installed(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise ModuleNotFoundError(name=package)


def method(slug: str) -> Method:
    """The method of this name.

    >>> method("dawid-skene").class_name
    'DawidSkene'
    """
    hint = " A method that needs features is a learner: crowdwise.learner, or `crowdwise train`."
    return _find_entry(slug, {entry.slug: entry for entry in methods()}, "method", hint)


def learner(slug: str) -> LearnerEntry:
    """The learner of this name; one that was called so before, with a warning.

    >>> learner("trace").class_name
    'TraceRegularized'
    """
    former = {entry.former_slug: entry for entry in _every_learner() if entry.former_slug}
    if isinstance(slug, str) and slug in former:
        now = former[slug].slug
        words = f"The learner {slug} is called {now} now: {slug} is the method that takes labels alone."
        warnings.warn(words, DeprecationWarning, stacklevel=2)
        slug = now
    return _find_entry(slug, {entry.slug: entry for entry in _every_learner()}, "learner")


E = TypeVar("E", bound=Entry)


def _exported_classes(base: type[Any], *rooms: str) -> Iterator[Any]:
    """The classes of a kind that rooms export. Rooms are found by name: they lie above this module."""
    for room in rooms:
        package = importlib.import_module(f"crowdwise.{room}")
        for name in package.__all__:
            each = getattr(package, name)
            if isinstance(each, type) and issubclass(each, base) and each is not base:
                yield each


def _shared_entry_fields(cls: Any) -> dict[str, Any]:
    return {"path": f"{cls.__module__}:{cls.__name__}", "family": cls.family.name, "needs": cls.needs}


def _make_method_entry(cls: Any) -> Method:
    from crowdwise.fitting.method_facts import read_facts

    said = read_facts(cls, ("summary", "paper", "fails", "complexity"))
    own = {name: getattr(cls, name) for name in ("slug", "label_kind", "climbs", "random", "plug_in")}
    uses = tuple(name for name in KNOWLEDGE if name in cls.uses)
    return Method(
        **_shared_entry_fields(cls), **said, **own, uses=uses, iterative="max_iter" in cls.__dataclass_fields__
    )


def _make_learner_entries(cls: Any) -> Iterator[LearnerEntry]:
    from crowdwise.fitting.method_facts import read_facts

    labels = importlib.import_module("crowdwise.learn.base").Learner
    # A learner of classes may have a parameter of this name.
    kind = "labels" if issubclass(cls, labels) else cls.kind
    shared = _shared_entry_fields(cls) | {"models_workers": cls.models_workers, "kind": kind}
    shared |= {"is_default": cls.is_default}
    names = ("summary", "paper", "fails")
    if not cls.variants:
        yield LearnerEntry(**shared, **read_facts(cls, names), slug=cls.slug, alternates=cls.alternates)
    for variant in cls.variants:
        yield LearnerEntry(**shared, **read_facts(cls, names, f"Facts of {variant.slug}"), **vars(variant))


def _sort_by_family(entries: list[E], families: Sequence[Family]) -> tuple[E, ...]:
    """By family, and in a family by slug."""
    names = [family.name for family in families]
    return tuple(sorted(entries, key=lambda entry: (names.index(entry.family), entry.slug)))


def _find_entry(slug: object, entries: Mapping[str, E], what: str, hint: str = "") -> E:
    """The entry of this name; an error that says what there is, the nearest name and the `hint`, otherwise."""
    if isinstance(slug, str) and slug in entries:
        return entries[slug]
    close = difflib.get_close_matches(str(slug), entries, n=1)
    nearest = f" Did you mean {close[0]!r}?" if close else ""
    raise UnknownNameError(f"There is no {what} {quote(slug)}.{nearest} There are: {', '.join(entries)}.{hint}")
