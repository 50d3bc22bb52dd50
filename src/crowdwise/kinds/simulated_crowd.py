"""What simulators of all kinds share: the sizes of a crowd and its seed, who answers what, and what comes out."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

import numpy as np

from crowdwise.fitting.parameter_checks import as_numbers, check_count, check_random_state
from crowdwise.kinds.simulator_parameters import check_numbers
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["CrowdSizes", "SimulatedCrowd", "add_crowd_parameters"]

Answered = TypeVar("Answered")
Made = TypeVar("Made")
Own = ParamSpec("Own")


@dataclass(frozen=True)
class SimulatedCrowd(Generic[Answered]):
    """Answers, the truth and the workers that made them.

    Attributes
    ----------
    answers
        As a reader of the kind gives them.
    truth
        A table, as the scorer of the kind reads it.
    drawn
        Parameters that were drawn, by their names, under which they are attributes too: see each simulator.
    """

    answers: Answered
    truth: pa.Table
    drawn: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        drawn = vars(self).get("drawn", {})
        if name not in drawn:
            raise AttributeError(f"A crowd of this kind has no {name}. There are: {', '.join(drawn)}.")
        return drawn[name]


@dataclass(frozen=True, kw_only=True)
class CrowdSizes:
    """Sizes of a crowd, 0 where it has no such size; the generator that all its draws come from; a truth if given."""

    generator: np.random.Generator
    n_workers: int
    n_tasks: int = 0
    n_items: int = 0
    answers_per_task: int = 0
    answers_per_worker: int = 0
    lists_per_worker: int = 0
    truth: FloatArray | None = None

    def truth_or(self, drawn: FloatArray) -> FloatArray:
        """The truth that the user gave, or else the one that was drawn."""
        return drawn if self.truth is None else self.truth

    def assign(self) -> tuple[IntArray, IntArray]:
        """Task and worker of each answer: for each task, different workers drawn at random."""
        number = min(self.answers_per_task, self.n_workers)
        drawn = [self.generator.permutation(self.n_workers)[:number] for _ in range(self.n_tasks)]
        return np.repeat(np.arange(self.n_tasks), number), np.concatenate(drawn)

    def choose(self, share: float) -> IntArray:
        """So large a share of the workers, at random."""
        chosen: IntArray = self.generator.permutation(self.n_workers)[: round(share * self.n_workers)]
        return chosen


def add_crowd_parameters(
    truth: str | None = None, /, **sizes: int
) -> Callable[[Callable[Concatenate[CrowdSizes, Own], Made]], Callable[..., Made]]:
    """Give a simulator the parameters of `CrowdSizes` with these defaults, the first two by position, and a seed.

    The function decorated takes a `CrowdSizes` in their place. `truth` names a parameter for a truth that is not to be
    drawn: a number for each of what the first size counts.

    >>> @add_crowd_parameters(n_tasks=10, n_workers=2, answers_per_task=1)
    ... def guess(sizes: CrowdSizes, *, last: int = 6) -> int:
    ...     return int(sizes.generator.integers(last))
    >>> print(", ".join(inspect.signature(guess).parameters))
    n_tasks, n_workers, answers_per_task, last, random_state
    """
    kinds = [Parameter.POSITIONAL_OR_KEYWORD] * 2 + [Parameter.KEYWORD_ONLY] * len(sizes)
    shared = [
        Parameter(name, kind, default=default, annotation="int")
        for kind, (name, default) in zip(kinds, (sizes | {"random_state": 0}).items(), strict=False)
    ]

    known = [] if truth is None else [Parameter(truth, Parameter.KEYWORD_ONLY, default=None, annotation="Any")]

    def decorate(simulate: Callable[Concatenate[CrowdSizes, Own], Made]) -> Callable[..., Made]:
        own = inspect.signature(simulate)
        parameters = [*shared[:-1], *list(own.parameters.values())[1:], *known, shared[-1]]
        signature = own.replace(parameters=sorted(parameters, key=lambda each: each.kind))

        @wraps(simulate)
        def simulate_with_sizes(*positional: Any, **named: Any) -> Made:
            bound = signature.bind(*positional, **named)
            bound.apply_defaults()
            asked = {name: bound.arguments.pop(name) for name in sizes}
            for name, size in asked.items():
                check_count(name, size)
            check_random_state(bound.arguments["random_state"])
            generator = np.random.default_rng(bound.arguments.pop("random_state"))
            given = None if truth is None else bound.arguments.pop(truth)
            values = None if given is None else _check_truth(given, next(iter(asked.values())), str(truth))
            crowd = CrowdSizes(generator=generator, truth=values, **asked)
            said = {name: each.annotation for name, each in own.parameters.items()}
            return simulate(crowd, **check_numbers(bound.kwargs, said))  # type: ignore[call-arg]

        simulate_with_sizes.__signature__ = signature  # type: ignore[attr-defined]
        return simulate_with_sizes

    return decorate


def _check_truth(truth: Any, size: int, name: str) -> FloatArray:
    """The truth (size,) as numbers, refusing another number of them and what is not finite."""
    values = as_numbers(truth, name)
    if values.shape != (size,) or not np.isfinite(values).all():
        raise InputError(f"{name} has shape {values.shape}; it must be {size:,} finite numbers.")
    return values
