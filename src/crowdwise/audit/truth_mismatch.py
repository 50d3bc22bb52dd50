"""A truth that is not about these labels: codes shifted by one, rows out of order, another set's file.

Such a truth agrees with the majority no more than by chance. With g_k and v_k the shares of class k among the given
truths and among the majorities of the same n tasks, chance is c = Σ_k g_k v_k, and a crowd that knows anything, held
against its own truth, agrees on more than half of the way from there to always: a ≥ (1 + c) / 2 less what chance makes
of n tasks. The p-value is the exact binomial tail P(X ≤ agreed | n, (1 + c) / 2), and only agreement of at most c is
flagged.

Assumes a crowd that is right more often than not. Fails where the crowd itself knows nothing: the words leave open
which of the two is at fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.audit.audit_tests import AuditTest, FindingKind, fill_arguments_from_crowd
from crowdwise.audit.finding_types import Finding, Screen
from crowdwise.audit.mislabels import given_or_majority_labels

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels

__all__ = ["TEST", "find_strange_truth"]

KIND = "strange truth"

FEWEST = 10  # truths


def find_strange_truth(labels: CrowdLabels, *, truth: Any, level: float = 0.05, random_state: int = 0) -> Screen:  # noqa: ARG001
    """Whether the truth given has anything to do with the labels.

    Parameters
    ----------
    labels
        Who said what.
    truth
        True labels of some tasks, as for `read_truth`.
    level
        Chance of flagging the right truth of a crowd that agrees with it on half of the way from chance to always.
    random_state
        Not used: nothing here is random.
    """
    given, majority = given_or_majority_labels(labels, truth), given_or_majority_labels(labels)
    known = given >= 0
    n = int(known.sum())
    if n < FEWEST:
        return Screen(KIND, skipped=f"Fewer than {FEWEST} tasks have a truth.")
    size = labels.n_classes
    shares = (np.bincount(each[known], minlength=size) / n for each in (given, majority))
    chance = float(np.prod(list(shares), axis=0).sum())
    agreed = int((given == majority)[known].sum())
    from scipy.stats import binom  # takes most of a second to import

    p_value = float(binom.cdf(agreed, n, (1 + chance) / 2))
    if agreed > chance * n or p_value > level:
        return Screen(KIND)
    finding = Finding(
        kind=KIND,
        about="crowd",
        names=("Is the truth about these labels?",),
        score=1 - agreed / n,
        verdict=f"No: most workers say what it says on {agreed / n:.0%} of the tasks.",
        evidence=f"Of {n:,} tasks with a truth, the majority agrees with it on {agreed:,}; a truth dealt out at random "
        f"would agree on {chance * n:,.0f}.",
        p_value=p_value,
        how="exact binomial tail, against a crowd that agrees half of the way from chance to always",
        advice="See whether truth and labels call tasks and classes by the same names: codes may be shifted (0, 1 "
        "against 1, 2), or rows out of order. If they do, the crowd knows nothing of this task, or was misled.",
    )
    return Screen(KIND, (finding,))


TEST = AuditTest(
    order=70,
    kinds=(
        FindingKind(
            KIND,
            "The truth that was given",
            "truth that does not fit the labels",
            "truths that do not fit the labels",
            means="the truth given agrees with the majority no more than by chance: other codes, other rows",
            assumes="ten truths",
        ),
    ),
    question="Is the truth about these labels at all?",
    run=fill_arguments_from_crowd(find_strange_truth),
    needs=("truth",),
)
