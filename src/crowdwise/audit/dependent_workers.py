"""Workers who err together: groups whose members agree more than the truth and their skills explain.

For every two workers, the tasks on which they agree are compared with the number expected if only the truth joined
them, as the rest of the crowd tells it; groups that stand out are found, tested on tasks other than those they were
chosen by, and reported. `crowdwise.dependence.groups` has the method, with its equations and citations (Jaffe et al.
2016; Traganitis and Giannakis 2022).

What it assumes: workers outside a group are independent of it given the truth; no group outweighs the rest of the
crowd; the truth model (Dawid–Skene) holds well enough. What it allows for: hard tasks. Dependence that all workers
share, as difficulty makes it, is the crowd's background and flags nobody; a group must stand out from it by κ = 0.1,
and with more than two classes its members must also give the *same* wrong answers more than independent workers would.

When it fails: two camps of like size, where either may be right, are left alone rather than accused; so are workers who
share fewer than twenty tasks with others. With fewer than five such workers the test does not apply. The copy of a
worker who is nearly always right looks like a second such worker, and is not found.

Cost: seconds for a million labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.audit.audit_tests import AuditTest, FindingKind
from crowdwise.audit.finding_types import Finding, Screen
from crowdwise.dependence.excess_agreement import excess_agreement_kappa
from crowdwise.dependence.groups import FEWEST, LEAST_WORKERS, detect_groups
from crowdwise.fitting.parameter_checks import check_number, check_random_state

if TYPE_CHECKING:
    from crowdwise.dependence.groups import Dependence
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["TEST", "find_dependence", "screen_from_dependence"]

KIND = "dependent workers"
HOW = (
    "each worker's partners chosen by half of the tasks and tested on the other half (Hoeffding's bound, × tests); and "
    "for every two, a likelihood ratio of copying on all tasks (e-value, × pairs)"
)
COPIES = 0.98  # share of the shared tasks with the same answer, from which on workers "give the same answers"
ADVICE = (
    "Ask whether they work together, share an account or a tool, or run the same model. Until then count the group as "
    "one voice (group-dawid-skene), or keep one of them a task."
)


def find_dependence(labels: CrowdLabels, *, level: float = 0.05, random_state: int = 0) -> Screen:
    """Flag groups of workers who depend on each other given the truth.

    The score of a worker is κ of their agreement with their group, 1 for copies; 0 for workers who are in none.

    Parameters
    ----------
    level
        Chance of flagging anyone in a crowd of independent workers.
    random_state
        Not used: the tasks are dealt into halves in the same way for every seed.
    """
    check_number("level", level, low=0, high=1, above=True)
    check_random_state(random_state)
    return screen_from_dependence(labels, detect_groups(labels, level))


def screen_from_dependence(labels: CrowdLabels, dependence: Dependence | None) -> Screen:
    """What the groups found say of everyone; their `groups` are the labelling (M,)."""
    if dependence is None:
        return Screen(
            KIND,
            skipped=f"Dependence needs at least {LEAST_WORKERS} workers with {FEWEST} or more answers to tasks that "
            "others answered too: with fewer it cannot be told from difficulty.",
        )
    score = np.full(labels.n_workers, np.nan)
    score[dependence.tested] = 0.0
    findings = []
    for number in range(int(dependence.groups.max(initial=-1)) + 1):
        members = np.flatnonzero(dependence.groups == number)
        rows = np.searchsorted(dependence.tested, members)
        score[members] = np.clip(_kappa_with_rest_of_group(dependence, rows), 0, 1)
        findings.append(_make_finding(labels, dependence, members, rows))
    findings.sort(key=lambda finding: (finding.p_value, -finding.score))
    return Screen(KIND, tuple(findings), score, dependence.p_value)


def _kappa_with_rest_of_group(dependence: Dependence, rows: IntArray) -> FloatArray:
    """κ of each of a group with all others of it."""
    block = np.ix_(rows, rows)
    found: FloatArray = excess_agreement_kappa(
        *(table[block].sum(axis=1) for table in (dependence.shared, dependence.same, dependence.expected))
    )
    return np.nan_to_num(found)


def _make_finding(labels: CrowdLabels, dependence: Dependence, members: IntArray, rows: IntArray) -> Finding:
    upper = np.triu_indices(rows.size, 1)

    def sum_over_pairs(table: FloatArray) -> float:
        return float(table[np.ix_(rows, rows)][upper].sum())

    shared, same, expected = (
        sum_over_pairs(dependence.shared),
        sum_over_pairs(dependence.same),
        sum_over_pairs(dependence.expected),
    )
    strength = float(np.clip((same - expected) / max(shared - expected, 1e-9), 0, 1))
    wrong, alike = sum_over_pairs(dependence.wrong), sum_over_pairs(dependence.same_wrong)
    usual_wrong, usual_alike = sum_over_pairs(dependence.expected_wrong), sum_over_pairs(dependence.expected_same_wrong)
    who = "They" if members.size == 2 else "Two of them"
    evidence = (
        f"{who} give the same answer to {same / shared:.0%} of the tasks they share; independent workers as good "
        f"as they are would to {expected / shared:.0%}."
    )
    if labels.n_classes > 2 and wrong >= 1:
        evidence += (
            f" They agree on {alike / wrong:.0%} of the tasks that the rest of the crowd says both got wrong; "
            f"independent workers would on {usual_alike / max(usual_wrong, 1e-9):.0%}."
        )
    elif wrong >= 1:
        evidence += (
            f" Both are wrong, says the rest of the crowd, on {wrong / shared:.0%}; independent workers would be on "
            f"{usual_wrong / shared:.0%}."
        )
    names = tuple(sorted(labels.workers[int(member)].as_py() for member in members))
    return Finding(
        KIND,
        "workers",
        names,
        strength,
        f"{len(names)} workers {'give the same answers' if same >= COPIES * shared else 'err together'}",
        evidence,
        float(np.nanmin(dependence.p_value[members])),
        HOW,
        ADVICE,
    )


TEST = AuditTest(
    order=10,
    kinds=(
        FindingKind(
            KIND,
            "Dependent workers",
            "dependent worker",
            "dependent workers",
            means="a group answers as one: copies, a shared account, the same model",
            assumes="five workers who share tasks; not of someone who is nearly always right",
        ),
    ),
    question="Who agrees more than skill explains?",
    run=lambda crowd, _: screen_from_dependence(crowd.labels, crowd.dependence),
    accuses=True,
    citation="Jaffe et al. 2016, AISTATS; Traganitis & Giannakis 2022",
)
