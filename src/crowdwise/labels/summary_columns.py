"""Columns that are no workers by their names, beside columns that are: known answers, counts and summaries.

Taken for a worker, `majority` would agree with the consensus wherever it is right or wrong, and `n_votes` would give
labels that are counts.
"""

from __future__ import annotations

import warnings
from itertools import product
from typing import TYPE_CHECKING, Any

from crowdwise.labels.columns import TRUTHS, simplify_name
from crowdwise.labels.errors import InputWarning, listing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["drop_summaries", "find_summaries", "warn_of_summaries"]

INITIALS = 2  # letters of a name that may be a worker's initials, such as "y" and "gt"
COUNTED = ("vote", "label", "answer", "annotation", "annotator", "worker", "rater", "rating", "response", "judgment")
ANSWER = ("label", "vote", "answer", "class")
RULES = ("majority", "consensus", "final", "adjudicated", "aggregated")
# Whole names without case and separators. No name of a person is among them (max, min, grace, …).
SUMMARIES = frozenset(
    [
        *RULES,
        *("total", "totals", "sum", "count", "counts", "mean", "average", "median", "mode", "std", "stdev", "variance"),
        *("entropy", "confidence", "agreement", "disagreement", "unanimous", "difficulty", "split", "fold"),
        *(f"{number}{each}s" for number, each in product(("", "n", "num", "no", "numberof", "noof", "total"), COUNTED)),
        *map("".join, product(COUNTED, ("count", "counts"))),
        *map("".join, product(RULES, ANSWER)),
    ]
)


def find_summaries(names: Iterable[str]) -> list[str]:
    """The names of known answers and summaries; none of them where no other name is left.

    >>> find_summaries(["ann", "bob", "N_Votes", "Ground truth", "goldie"])
    ['N_Votes', 'Ground truth']
    >>> find_summaries(["gold", "majority", "final"])
    []
    """
    every = list(names)
    found = [name for name in every if _is_truth(name) or simplify_name(name) in SUMMARIES]
    return found if len(found) < len(every) else []


def _is_truth(name: str) -> bool:
    key = simplify_name(name)
    return key in TRUTHS and len(key) > INITIALS


def warn_of_summaries(found: list[str], origin: str) -> None:
    """Say which columns were left out, and how to give known answers."""
    if not found:
        return
    truths = [name for name in found if _is_truth(name)]
    remedy = (
        f" Give known answers ({listing(truths)}) as a table with the columns task and label: as truth or gold in "
        "Python, with --truth or --gold on the command line."
    )
    warnings.warn(
        f"{origin}: {listing(found)} left out, no {'worker' if len(found) == 1 else 'workers'} by name. If one is a "
        f"worker, rename it.{remedy if truths else ''}",
        InputWarning,
        stacklevel=3,
    )


def drop_summaries(nested: Mapping[Any, Mapping[Any, Any]]) -> Mapping[Any, Mapping[Any, Any]]:
    """{task: {worker: label}} without known answers and summaries, of which a warning says so."""
    found = find_summaries(dict.fromkeys(str(name) for answers in nested.values() for name in answers))
    if not found:
        return nested
    warn_of_summaries(found, "the mapping")
    return {
        task: {name: said for name, said in answers.items() if str(name) not in found}
        for task, answers in nested.items()
    }
