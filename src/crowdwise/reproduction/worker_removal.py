"""Workers who are left out before a method sees the labels: what `remove` of a table's method may say.

A method then learns from the labels of the others alone; names and tasks stay. The truth is not asked, but for the one
worker whom "trusted-colluders" is told of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.audit.colluders import find_colluders
from crowdwise.audit.covariance_spammers import find_covariance_spammers
from crowdwise.audit.spammers import find_spammers
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.audit.finding_types import Screen
    from crowdwise.labels.types import BoolArray
    from crowdwise.reproduction.problems import Problem

__all__ = ["REMOVALS", "workers_to_remove"]


def _spammers_by_covariance(problem: Problem, seed: int) -> BoolArray:
    """Algorithm 1 of Ibrahim et al. 2025, for spammers."""
    return find_covariance_spammers(problem.labels, random_state=seed)


def _spammers_by_eigenvectors(problem: Problem, seed: int) -> BoolArray:
    """The same, as it is printed: scalar covariances, eigenvectors, two clusters."""
    return find_covariance_spammers(problem.labels, recovery="eigenvectors", random_state=seed)


def _spammers_by_audit(problem: Problem, seed: int) -> BoolArray:
    """Spammers whom the audit is sure of."""
    return _mark_flagged_workers(problem, find_spammers(problem.labels, random_state=seed))


def _colluders_by_majority(problem: Problem, seed: int) -> BoolArray:
    """The same paper's "Alg. 1 – H": at least half of the workers are taken to be honest."""
    return _mark_flagged_workers(problem, find_colluders(problem.labels, random_state=seed))


def _colluders_by_trust(problem: Problem, seed: int) -> BoolArray:
    """The same paper's "Alg. 1 – TA": one honest worker is known, here the one with most labels."""
    kinds = problem.kinds
    if kinds is None or "honest" not in kinds:
        raise InputError("Nobody knows who is honest in this crowd: there is no worker to trust.")
    honest = np.array([kind == "honest" for kind in kinds])
    busiest = int(np.argmax(np.where(honest, problem.labels.labels_per_worker, -1)))  # the first, where all label all
    trusted = problem.labels.workers[busiest].as_py()
    return _mark_flagged_workers(problem, find_colluders(problem.labels, random_state=seed, trusted=[trusted]))


def _mark_flagged_workers(problem: Problem, screen: Screen) -> BoolArray:
    names = {name for finding in screen.findings if finding.kind == screen.kind for name in finding.names}
    return np.array([name in names for name in problem.labels.workers.to_pylist()], np.bool_)


REMOVALS: dict[str, Callable[[Problem, int], BoolArray]] = {
    "covariance-spammers": _spammers_by_covariance,
    "eigenvector-spammers": _spammers_by_eigenvectors,
    "spammers": _spammers_by_audit,
    "colluders": _colluders_by_majority,
    "trusted-colluders": _colluders_by_trust,
}


def workers_to_remove(name: str, problem: Problem, seed: int) -> BoolArray:
    """Whether each worker (M,) is left out, by the search of this name."""
    found = REMOVALS[name](problem, seed)
    if found[problem.labels.worker].all():
        raise InputError(f"{quote(name)} removes all workers who have labels: nothing is left to learn from.")
    return found
