"""Workers who are left out before a method sees the labels: what `remove` of a table's method may say.

A method then learns from the labels of the others alone; names and tasks stay. The truth is not asked, but for the one
worker whom "trusted-colluders" is told of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.audit.colluders import find_colluders
from crowdwise.audit.covariance import covariance_spammers
from crowdwise.audit.spammers import find_spammers
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.audit.findings import Screen
    from crowdwise.evaluate.tables.problems import Problem
    from crowdwise.labels.types import BoolArray

__all__ = ["REMOVALS", "removed_workers"]


def _by_covariance(problem: Problem, seed: int) -> BoolArray:
    """Ibrahim et al.'s (2025) algorithm 1 for spammers."""
    return covariance_spammers(problem.labels, seed=seed)


def _by_test(problem: Problem, seed: int) -> BoolArray:
    """Spammers whom the audit is sure of."""
    return _flagged(problem, find_spammers(problem.labels, seed=seed))


def _colluders(problem: Problem, seed: int) -> BoolArray:
    """Ibrahim et al.'s "Alg. 1 – H": at least half of the workers are taken to be honest."""
    return _flagged(problem, find_colluders(problem.labels, seed=seed))


def _colluders_by_trust(problem: Problem, seed: int) -> BoolArray:
    """Ibrahim et al.'s "Alg. 1 – TA": one honest worker is known, here the first of them."""
    if problem.crowd is None or problem.crowd.kinds is None or "honest" not in problem.crowd.kinds:
        raise InputError("Nobody knows who is honest in this crowd: there is no worker to trust.")
    trusted = problem.labels.workers[problem.crowd.kinds.index("honest")].as_py()
    return _flagged(problem, find_colluders(problem.labels, seed=seed, trusted=[trusted]))


def _flagged(problem: Problem, screen: Screen) -> BoolArray:
    names = {name for finding in screen.findings if finding.kind == screen.kind for name in finding.names}
    return np.array([name in names for name in problem.labels.workers.to_pylist()], np.bool_)


REMOVALS: dict[str, Callable[[Problem, int], BoolArray]] = {
    "covariance-spammers": _by_covariance,
    "spammers": _by_test,
    "colluders": _colluders,
    "trusted-colluders": _colluders_by_trust,
}


def removed_workers(name: str, problem: Problem, seed: int) -> BoolArray:
    """Whether each worker (M,) is left out, by the search of this name."""
    found = REMOVALS[name](problem, seed)
    if found[problem.labels.worker].all():
        raise InputError(f"{quote(name)} removes all workers who have labels: nothing is left to learn from.")
    return found
