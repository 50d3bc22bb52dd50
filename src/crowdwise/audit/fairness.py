"""Whether the consensus treats groups of tasks alike.

| measure | of the consensus ŷ, the truth y and a group Z of tasks | needs |
|---|---|---|
| demographic parity | P(ŷ = c given Z) − P(ŷ = c given not Z) | labels |
| equal opportunity (Hardt, Price & Srebro 2016) | P(ŷ = c given y = c, Z) − P(ŷ = c given y = c, not Z) | a truth |

Ibrahim et al. 2025, "Bias and fairness in crowdsourcing", names both; a difference of 0 is fair. Demographic parity is
also missed where the groups truly differ, which is for a person to judge. Equal opportunity is about the consensus'
errors, which the crowd itself cannot know: without a truth it is not given, and with the truth of a trusted subset the
answer is about tasks like those. ŷ is the most probable class of a Dawid–Skene fit that has not seen the truth.

The attribute is dealt anew over tasks, for equal opportunity within each true class, and the largest difference of all
groups, classes and both measures gives the p-values (`resampling.max_statistic_test`). Assumes that tasks are
independent of each other. Fails for groups with fewer than `ENOUGH` tasks, which are not tested.

Cost: O(draws × tasks × K).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.audit.audit_tests import AuditTest, FindingKind, fill_arguments_from_crowd
from crowdwise.audit.finding_types import Finding, Screen
from crowdwise.audit.leave_out_consensus import fit_reference
from crowdwise.audit.resampling import (
    DRAWS,
    GroupContrast,
    UnitValues,
    bootstrap_interval,
    find_strongest,
    groups_to_test,
    has_enough_counts,
    max_statistic_test,
)
from crowdwise.labels.attributes import read_attributes, usable_attributes
from crowdwise.labels.errors import quote

if TYPE_CHECKING:
    from crowdwise.audit.leave_out_consensus import CrowdReference
    from crowdwise.labels.attributes import Attribute
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["TEST", "find_disparity"]

KIND = "disparity"

ENOUGH = 10  # tasks (of a true class) that a group and the rest must have
PARITY, OPPORTUNITY = "demographic parity", "equal opportunity"


def find_disparity(
    labels: CrowdLabels,
    *,
    task_attributes: Any,
    truth: Any = None,
    level: float = 0.05,
    random_state: int = 0,
    reference: CrowdReference | None = None,
) -> Screen:
    """Groups of tasks to which the consensus gives a class more often or, with a truth, its true class less often.

    Parameters
    ----------
    task_attributes
        As for `read_attributes`: a mapping from task to value, or a table with a column for each attribute.
    truth
        Known truths of some tasks, as for `read_truth`, for equal opportunity.
    level
        Chance that anything is flagged where the consensus has nothing to do with the attributes.

    Returns
    -------
    Screen
        For each attribute and measure at most one finding, about the group that differs most; its score is the size of
        the difference.
    """
    attributes = usable_attributes(read_attributes(task_attributes, labels.tasks, "task"))
    if not attributes:
        return Screen(KIND, skipped="No attribute makes groups of tasks: there is nothing to compare.")
    if labels.n_classes < 2 or labels.n_labels == 0:
        return Screen(KIND, skipped="Disparity needs labels of two classes.")
    reference = fit_reference(labels, truth, reference)
    eye = np.eye(labels.n_classes)
    decided = eye[reference.posterior.argmax(axis=1)]
    known = reference.truth >= 0
    true = eye[reference.truth] * known[:, None]
    everywhere, every = np.ones(decided.shape), np.arange(labels.n_tasks)
    asked: list[tuple[str, Attribute, FloatArray]] = []
    contrasts: list[GroupContrast] = []
    for attribute in attributes:
        code = np.where(labels.labels_per_task > 0, attribute.code, -1)
        tested = groups_to_test(code, len(attribute.values))
        usable = has_enough_counts(code, everywhere, tested, ENOUGH)
        asked.append((PARITY, attribute, everywhere))
        table = UnitValues(every, decided - decided[code >= 0].mean(axis=0) if (code >= 0).any() else decided)
        contrasts.append(GroupContrast([table], code, np.zeros_like(code), tested, usable))
        if known.any():
            code = np.where(known, code, -1)
            asked.append((OPPORTUNITY, attribute, true))
            usable = has_enough_counts(code, true, tested, ENOUGH)
            held = code >= 0
            rate = (decided * true)[held].sum(axis=0) / np.maximum(true[held].sum(axis=0), 1)
            table = UnitValues(every, (decided - rate) * true)
            contrasts.append(GroupContrast([table], code, reference.truth.astype(np.int64), tested, usable))
    findings = []
    for (measure, attribute, among), contrast, (t, p) in zip(
        asked, contrasts, max_statistic_test(contrasts, random_state=random_state), strict=True
    ):
        place = find_strongest(t, p, level)
        if place is not None:
            group = int(contrast.tested[place[0]])
            findings.append(
                _make_finding(
                    labels,
                    measure,
                    attribute,
                    (among, decided),
                    contrast,
                    group,
                    place[1],
                    float(p[place]),
                    random_state,
                )
            )
    return Screen(KIND, tuple(sorted(findings, key=lambda finding: (finding.p_value, -finding.score))))


def weighted_shares(weights: FloatArray, among: FloatArray, hits: FloatArray) -> FloatArray:
    """Share of hits among the tasks that count, for each row of weights.

    >>> weighted_shares(np.ones((1, 4)), np.array([1.0, 1, 0, 1]), np.array([1.0, 0, 0, 0])).round(2).tolist()
    [0.33]
    """
    found: FloatArray = (weights @ hits) / np.maximum(weights @ among, 1e-12)
    return found


def _make_finding(
    labels: CrowdLabels,
    measure: str,
    attribute: Attribute,
    counted: tuple[FloatArray, FloatArray],
    contrast: GroupContrast,
    group: int,
    c: int,
    p_value: float,
    random_state: int,
) -> Finding:
    among, hits = (part[:, c] for part in counted)
    sides = (contrast.code == group, (contrast.code >= 0) & (contrast.code != group))

    def shares_in_and_outside_group(weights: FloatArray) -> list[FloatArray]:
        return [weighted_shares(weights, among * side, among * hits * side) for side in sides]

    def difference(weights: FloatArray) -> FloatArray:
        inside, outside = shares_in_and_outside_group(weights)
        return inside - outside

    inside, outside = (float(share[0]) for share in shares_in_and_outside_group(np.ones((1, labels.n_tasks))))
    low, high = bootstrap_interval(difference, labels.n_tasks, random_state=random_state)
    name, where = quote(labels.classes[c].as_py()), f"tasks with {attribute.name} = {quote(attribute.values[group])}"
    more = "more" if inside > outside else "less"
    if measure == PARITY:
        verdict = f"The consensus calls {where} {name} {more} often than others."
        advice = (
            "Ask whether the groups truly differ so; if not, or if it is not known, check some tasks of each by hand."
        )
        of = "of the tasks"
    else:
        verdict = f"Of {where} that truly are {name}, the consensus finds {more} than of others."
        advice = "Collect more labels, or better workers, for the group that is worse served."
        of = f"of those that truly are {name}"
    return Finding(
        kind=KIND,
        about="attribute",
        names=(f"{attribute.name} = {attribute.values[group]}",),
        score=min(1.0, abs(inside - outside)),
        verdict=verdict,
        evidence=f"{measure}: {inside:.0%} {of} there, {outside:.0%} elsewhere: {inside - outside:+.2f} "
        f"(95 % interval {low:+.2f} to {high:+.2f}).",
        p_value=p_value,
        how=f"permutation of the attribute over tasks, {DRAWS} draws, largest of all; bootstrap of tasks",
        advice=advice,
    )


TEST = AuditTest(
    order=50,
    kinds=(
        FindingKind(
            KIND,
            "Disparity",
            "disparity",
            "disparities",
            means="the consensus gives a class to one group of tasks more often, or misses it more often",
            assumes="attributes of tasks",
        ),
    ),
    question="Does the consensus treat groups of tasks differently?",
    run=fill_arguments_from_crowd(find_disparity),
    accuses=True,
    needs=("task_attributes",),
    citation="Hardt, Price & Srebro 2016, NeurIPS (equal opportunity)",
)
