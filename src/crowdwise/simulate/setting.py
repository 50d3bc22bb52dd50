"""What every crowd is asked for: sizes, class shares or a truth, and a seed. Declared, documented and checked once."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from crowdwise.labels.old_names import accept_seed
from crowdwise.simulate.assignment import assign
from crowdwise.simulate.checks import as_generator, check_count, check_kind, check_sizes
from crowdwise.simulate.draws import draw_labels, draw_truth
from crowdwise.simulate.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from crowdwise.labels.types import FloatArray, IntArray
    from crowdwise.simulate.assignment import Assignment

__all__ = ["Setting", "add_setting_parameters"]

Own = ParamSpec("Own")

ANNOTATIONS = {"n_tasks": "int", "n_workers": "int", "n_classes": "int", "labels_per_task": "int | None"}
LEAST = {"n_workers": 1, "n_classes": 2}
ALWAYS = [
    Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
    for name, default, annotation in (("prior", None, "Any"), ("truth", None, "Any"), ("random_state", 0, "Seed"))
]


@dataclass(frozen=True)
class Setting:
    """The parameters that crowds share, with the generator that all draws of one crowd come from.

    A size is 0 where the crowd has no such parameter, because its workers or classes are given in another way.
    """

    rng: np.random.Generator
    prior: Any
    truth: Any
    n_tasks: int
    n_workers: int = 0
    n_classes: int = 0
    labels_per_task: Any = None  # a number, or None; checked where tasks are assigned

    def draw_truth(self, n_classes: int | None = None) -> tuple[IntArray, FloatArray]:
        """Draw the truth of each task; return it with the prior it comes from."""
        number = self.n_classes if n_classes is None else n_classes
        return draw_truth(self.n_tasks, number, self.rng, prior=self.prior, truth=self.truth)

    def assign(self, n_tasks: int) -> Assignment:
        """Draw who labels what."""
        return assign(n_tasks, self.n_workers, self.labels_per_task, self.rng)

    def simulate_independent(
        self, truth: IntArray, prior: FloatArray, confusion: FloatArray, **about: Any
    ) -> Simulation:
        """Draw who labels what, and labels that are independent given the truth; `about` is kept with them."""
        assignment = self.assign(truth.size)
        label = draw_labels(assignment, truth, confusion, self.rng)
        return Simulation.assemble(assignment, label, truth, confusion, prior, **about)


def add_setting_parameters(
    **sizes: int | None,
) -> Callable[[Callable[Concatenate[Setting, Own], Simulation]], Callable[..., Simulation]]:
    """Give a crowd the shared parameters: its own defaults of the sizes, and `prior`, `truth` and `random_state`.

    The function decorated takes a `Setting` in their place. Signature and docstring of the result name them all.

    >>> @add_setting_parameters(n_tasks=10, n_workers=2, n_classes=3)
    ... def perfect(setting: Setting, *, gain: float = 1.0) -> Simulation:
    ...     "Workers who are always right."
    >>> print(", ".join(inspect.signature(perfect).parameters))
    n_tasks, n_workers, n_classes, gain, prior, truth, random_state
    """
    shared = [
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=ANNOTATIONS[name])
        for name, default in sizes.items()
    ]

    def decorate(simulate: Callable[Concatenate[Setting, Own], Simulation]) -> Callable[..., Simulation]:
        own = list(inspect.signature(simulate).parameters.values())[1:]
        signature = inspect.Signature([*shared, *own, *ALWAYS], return_annotation="Simulation")

        @wraps(simulate)
        def simulate_with_setting(*positional: Any, **named: Any) -> Simulation:
            bound = signature.bind(*positional, **named)
            bound.apply_defaults()
            given = bound.arguments
            rng = as_generator(given.pop("random_state"))
            asked = {name: given.pop(name) for name in (*sizes, "prior", "truth")}
            for name in LEAST.keys() & sizes.keys():
                asked[name] = check_count(asked[name], name, LEAST[name])
            check_sizes(int(asked.get("n_workers", 1)), int(asked.get("n_classes", 1)))
            for parameter in own:
                several = "Sequence" in str(parameter.annotation)
                value = check_kind(given[parameter.name], parameter.name, parameter.default, several=several)
                given[parameter.name] = value
            return simulate(Setting(rng, **asked), **given)  # type: ignore[call-arg]

        names = ", ".join([*sizes, *(parameter.name for parameter in ALWAYS)])
        simulate_with_setting.__doc__ = _document_shared_parameters(inspect.cleandoc(simulate.__doc__ or ""), names)
        simulate_with_setting.__signature__ = signature  # type: ignore[attr-defined]
        return accept_seed(simulate_with_setting)

    return decorate


def _document_shared_parameters(text: str, names: str) -> str:
    """Put the shared parameters behind a crowd's own, which end its docstring."""
    heading = "" if "Parameters\n----------" in text else "\n\nParameters\n----------"
    return f"{text}{heading}\n{names}\n    As for `simulate_crowd`.\n"
