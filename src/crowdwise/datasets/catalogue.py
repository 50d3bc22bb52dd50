"""What is known about each data set: sizes to check a copy against, how to read it, published numbers.

The facts are in catalogue.toml. Only labels that are classes: ratings and comparisons are in `OTHER_KINDS`, so that
nobody loads them as if they were. Majority-vote accuracies are means over random ties, measured on the copy the sizes
belong to.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crowdwise.labels.types import Duplicates

__all__ = ["CATALOGUE", "OTHER_KINDS", "Entry"]


@dataclass(frozen=True)
class Entry:
    """One data set."""

    description: str
    citation: str
    # Sizes; `n_truth` counts labelled tasks whose truth is known.
    n_tasks: int
    n_workers: int
    n_classes: int
    n_labels: int
    n_truth: int = 0
    # How a second answer of one worker to one task is read: "all" where the data have some.
    on_duplicate: Duplicates = "error"
    majority_vote: float | None = None  # accuracy of the majority vote over tasks with truth, or None
    # Accuracies that others report, source → method → value.
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def _read_catalogue() -> tuple[dict[str, Entry], dict[str, str]]:
    """Read the data sets, and what those are whose labels are no classes."""
    given = tomllib.loads(files("crowdwise.datasets").joinpath("catalogue.toml").read_text("utf-8"))
    sources = given["sources"]
    entries = {}
    for name, facts in given["sets"].items():
        published = {sources[key]: numbers for key, numbers in facts.pop("published", {}).items()}
        entries[name] = Entry(**facts, published=published)
    return entries, given["other_kinds"]


CATALOGUE, OTHER_KINDS = _read_catalogue()
