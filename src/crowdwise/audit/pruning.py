"""The labels without the workers whom the audit has flagged, and a list of who was left out and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.audit.dependent_workers import KIND as DEPENDENT
from crowdwise.audit.finding_types import Finding
from crowdwise.labels.errors import InputError, listing
from crowdwise.labels.table_output import native_table
from crowdwise.metrics.checks import check_labels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crowdwise.labels.crowd_labels import CrowdLabels

__all__ = ["prune"]


def prune(labels: CrowdLabels, findings: Iterable[Finding]) -> tuple[CrowdLabels, Any]:
    """Leave out all labels of the workers whom findings name; of a group that answers as one, one voice stays.

    That is the one of the dependent workers who has labelled most, unless named for something else. Findings
    about tasks, classes or the crowd name no workers and change nothing. All names stay in the vocabularies, so that
    results before and after have the same rows; tasks that lose all their labels stay without.

    Returns
    -------
    labels
        What is left.
    table
        Who was left out (worker, n_labels, why), in the order of `labels.workers`, as the kind of table that came in.
    """
    check_labels(labels)
    findings = list(findings) if np.iterable(findings) else [findings]
    if strange := [each for each in findings if not isinstance(each, Finding)]:
        raise InputError(f"findings are {listing(strange)}; give a list of findings, as `audit(labels).findings` is.")
    named = [finding for finding in findings if finding.about in ("worker", "workers")]
    names = labels.workers.to_pylist()
    times = dict(zip(names, labels.labels_per_worker.tolist(), strict=True))
    if unknown := list(dict.fromkeys(name for finding in named for name in finding.names if name not in times)):
        raise InputError(
            f"The findings name workers who are not in these labels: {listing(unknown)}. Give the findings of an audit "
            "of the same labels."
        )
    why: dict[Any, list[str]] = {}
    for finding in named:
        voice = max(finding.names, key=times.__getitem__) if finding.kind == DEPENDENT else None
        for name in finding.names:
            if name != voice:
                why.setdefault(name, []).append(f"{finding.kind}: {finding.verdict}")
    flagged = np.fromiter((name in why for name in names), np.bool_, len(names))
    edges = flagged[labels.worker]
    if labels.n_labels and edges.all():
        raise InputError(
            f"The findings flag all {int(flagged.sum()):,} workers who have labels: nothing would be left. Look at the "
            "findings one by one, and prune by those you believe."
        )
    out = np.flatnonzero(flagged)
    table = native_table(
        {
            "worker": labels.workers.take(out),
            "n_labels": labels.labels_per_worker[out],
            "why": ["; ".join(why[names[w]]) for w in out],
        },
        labels.kind,
    )
    return labels.keep(~edges), table
