"""What an audit knows of each of its tests, and of the crowd that they are run on.

A test is a module of this room with an `AuditTest` called `TEST`. The audit, the list of tests on the page and in the
docs, titles, citations and the share of the level all follow from it.

Beside it stands the function that it runs, `find_…`, whose parameters are `labels`, who said what; `level`, the chance
of flagging anything where there is nothing to find; `random_state` (same seed, same answer); `reference`, the crowd's
model, if it is at hand; and others of its own.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from crowdwise.audit.leave_out_consensus import fit_reference
from crowdwise.dependence.groups import detect_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crowdwise.audit.finding_types import Screen
    from crowdwise.audit.leave_out_consensus import CrowdReference
    from crowdwise.dependence.groups import Dependence
    from crowdwise.labels.attributes import Attribute
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.truth import Truth

__all__ = [
    "AuditTest",
    "CrowdContext",
    "FindingKind",
    "audit_tests",
    "fill_arguments_from_crowd",
    "finding_kind",
    "select_tests",
]


@dataclass(frozen=True)
class FindingKind:
    """One kind of finding."""

    name: str  # as in the findings
    title: str  # above its findings
    # What is counted: so many workers, or tasks, classes, …
    one: str
    many: str
    means: str = ""  # in the docs: what was found
    assumes: str = ""  # in the docs: what the test assumes, or needs


@dataclass(frozen=True)
class AuditTest:
    """One test of the audit.

    Attributes
    ----------
    order
        Tests are run, and listed, in this order.
    kinds
        What it finds; the first is the name of the test.
    question
        What it answers.
    run
        What it says of a crowd, at a level.
    accuses
        Whether it flags workers, or groups of them: those that do share the level of the audit.
    needs
        What must be given besides the labels: any of these attributes of `CrowdContext`. Without them it is not run.
    citation
        Where it was published; "" where it is our own.
    nothing
        The result where nothing was found.
    """

    order: int
    kinds: tuple[FindingKind, ...]
    question: str
    run: Callable[[CrowdContext, float], Screen]
    accuses: bool = False
    needs: tuple[str, ...] = ()
    citation: str = ""
    nothing: str = "nothing found"

    @property
    def kind(self) -> str:
        """Its name, which is also that of its first kind of finding."""
        return self.kinds[0].name

    @property
    def title(self) -> str:
        """Above its findings."""
        return self.kinds[0].title


@dataclass(frozen=True, eq=False)
class CrowdContext:
    """Labels, what is known besides them, and what several tests need, made once.

    Attributes
    ----------
    level
        Chance that any worker is flagged where there is nothing to find.
    n_accusing
        Tests that share it.
    task_attributes, worker_attributes
        Those that make groups.
    time
        Of each label.
    """

    labels: CrowdLabels
    level: float
    n_accusing: int
    random_state: int = 0
    truth: Truth | None = None
    task_attributes: tuple[Attribute, ...] = ()
    worker_attributes: tuple[Attribute, ...] = ()
    time: Any = None
    trusted: Sequence[Any] | None = None
    screens: dict[str, Screen] = field(default_factory=dict)

    @property
    def level_per_accusing_test(self) -> float:
        """The level of each test that accuses."""
        return self.level / self.n_accusing

    @cached_property
    def reference(self) -> CrowdReference:
        """The crowd's model."""
        return fit_reference(self.labels)

    @cached_property
    def dependence(self) -> Dependence | None:
        """Which workers depend on each other given the truth."""
        return detect_groups(self.labels, self.level_per_accusing_test)

    def run(self, test: AuditTest) -> Screen:
        """What a test says, at its share of the level; it is run once, whoever asks first."""
        if test.kind not in self.screens:
            self.screens[test.kind] = test.run(self, self.level_per_accusing_test if test.accuses else self.level)
        return self.screens[test.kind]


def fill_arguments_from_crowd(find: Callable[..., Screen]) -> Callable[[CrowdContext, float], Screen]:
    """Run a function on what the crowd has under the names of its parameters, at a level."""
    names = [name for name in inspect.signature(find).parameters if name != "level"]
    return lambda crowd, level: find(level=level, **{name: getattr(crowd, name) for name in names})


@cache
def audit_tests() -> tuple[AuditTest, ...]:
    """Every test of this room, in order."""
    package = importlib.import_module("crowdwise.audit")
    modules = (
        importlib.import_module(f"crowdwise.audit.{each.name}") for each in pkgutil.iter_modules(package.__path__)
    )
    found = [module.TEST for module in modules if hasattr(module, "TEST")]
    return tuple(sorted(found, key=lambda test: test.order))


def select_tests(given: dict[str, Any]) -> list[AuditTest]:
    """The tests whose needs are met by what is given besides the labels, by name; empty or None is not given."""
    present = {name for name, value in given.items() if value is not None and (name == "time" or value)}
    return [test for test in audit_tests() if not test.needs or present.intersection(test.needs)]


def finding_kind(name: str) -> FindingKind:
    """A kind by its name in the findings; one that is not known is called by its name.

    >>> finding_kind("spammer").many, finding_kind("strange").title
    ('spammers', 'strange')
    """
    every = {kind.name: kind for test in audit_tests() for kind in test.kinds}
    return every.get(name, FindingKind(name, name, name, name))
