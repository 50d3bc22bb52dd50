"""Facts about methods: what the docstring of a class says, the families there are, and the variants of one class.

What is said in words stands in the docstring of the class, in a section of its own (of a variant, "Facts of SLUG"):

    Facts
    -----
    Assumes: what it takes to be so
    Fails with: when not to use it
    Cost: of an iteration, mostly (methods of labels alone)
    Paper: where it was published

The other facts are class attributes of `fitting.base.Aggregator` and `learn.base.Learner`, which describe them.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from crowdwise.fitting.estimator_decorator import entries_of

__all__ = ["FAMILIES", "LEARNER_FAMILIES", "Family", "Variant", "read_facts"]

LINES = {"summary": "Assumes", "fails": "Fails with", "paper": "Paper", "complexity": "Cost"}


class Family(NamedTuple):
    """A family of methods, and what its methods have in common."""

    name: str
    words: str


COMBINATION = Family("By itself", "Chooses and combines the others.")
VOTES = Family(
    "Votes", "Count votes, weighted or not. Fast, steady with few labels, blind to confusion between classes."
)
EM = Family(
    "EM",
    "A model of how workers answer, fitted by expectation and maximisation. From one number a worker to a matrix.",
)
BAYESIAN = Family(
    "Bayesian",
    "The same models with priors and posteriors in place of estimates: steadier where a worker gave few labels.",
)
MOMENTS = Family(
    "Moments",
    "From how pairs or triples of workers agree, without local optima to get lost in; they need workers who share "
    "many tasks.",
)
DIFFICULTY = Family("Difficulty of tasks", "Tasks differ as well as workers. GLAD, under EM, is the plain one.")
STRUCTURE = Family("Structure", "Tasks that hang together: words of a sentence, nodes of a graph.")
FAMILIES = (COMBINATION, VOTES, EM, BAYESIAN, MOMENTS, DIFFICULTY, STRUCTURE)

TARGETS = Family(
    "Targets made from the labels",
    "No model of single workers: labels, or a consensus of them, are what the classifier is trained on. What the "
    "others must beat.",
)
MATRICES = Family(
    "A matrix for each worker, by gradient descent",
    "The classifier's output goes through each worker's matrix to their label; both are learnt at once, and the "
    "methods differ in what keeps them apart.",
)
ALTERNATION = Family(
    "The classifier and the workers in turn",
    "The truth of each task is estimated from the classifier and the labels, the classifier is trained on the "
    "estimate, and again: EM, or with priors on the workers.",
)
INSTANCES = Family("Mistakes that depend on the task", "What a worker takes for what is not the same for every task.")
HEADS = Family(
    "Heads, information and agreement",
    "A network for each worker, or none at all: what classifier and crowd have in common.",
)
OTHER_KINDS = Family(
    "Answers that are no classes",
    "A network whose output goes through a small model of each worker: numbers, grades, comparisons.",
)
LEARNER_FAMILIES = (TARGETS, MATRICES, ALTERNATION, INSTANCES, HEADS, OTHER_KINDS)


@dataclass(frozen=True)
class Variant:
    """One of several methods that a class makes, each by parameters of its own.

    What is said of it in words is the section "Facts of SLUG" of the class's docstring.

    Attributes
    ----------
    slug, alternates
        As those of the class, in whose place they stand.
    parameters
        Parameters of the class that make it this method.
    former_slug
        What it was called before; still accepted, with a warning.
    """

    slug: str
    parameters: dict[str, Any] = field(default_factory=dict)
    alternates: bool = False
    former_slug: str = ""


def read_facts(cls: type[Any], names: tuple[str, ...], section: str = "Facts") -> dict[str, Any]:
    """These of "summary", "fails", "paper" and "complexity", from the class's docstring; empty under python -OO."""
    if sys.flags.optimize > 1:
        return dict.fromkeys(names, "")
    lines = (" ".join(entry.split()) for entry in entries_of(inspect.getdoc(cls) or "", section))
    said = {head: words for head, _, words in (line.partition(": ") for line in lines)}
    missing = [LINES[name] for name in names if not said.get(LINES[name])]
    if missing:
        wanted = ", ".join(f'"{head}: …"' for head in missing)
        raise TypeError(f"The docstring of {cls.__name__} lacks, in a section {section}: {wanted}.")
    return {name: said[LINES[name]] for name in names}
