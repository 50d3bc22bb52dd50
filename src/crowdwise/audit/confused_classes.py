"""Classes that the crowd mixes up: wrong classes to which workers lean together.

With A[w, k, l] the rate at which worker w says l where k is true (`reference.rates`, which allows for an uncertain
truth), the crowd leans from k to l by

    x_kl = Σ_w n_wk (A[w, k, l] − u_kl Σ_{j ≠ k} A[w, k, j]) / Σ_w n_wk,

with n_wk how often they met k. u_kl is the share of wrong answers that l may have without a confusion: 1 / (K − 1), if
they spread evenly, or more for a common class, as workers who do not know guess by the shares p of the classes among
all labels, and as tasks of common classes are taken for rare ones where the truth itself is in doubt:

    u_kl = max(1 / (K − 1), (1 − λ) / (K − 1) + λ p_l / Σ_{j ≠ k} p_j),

with λ = 1 where l is more common than k. Elsewhere λ is how far wrong answers follow the shares where *other* classes
than k are true, by least squares, and a standard error more (`share_following_class_shares`).

In a crowd that shares no confusion, which wrong class a worker leans to is their own matter: for each worker and class
the wrong classes are dealt anew, and the largest lean of all pairs gives the p-values. Interval: bootstrap of workers.

Fails with two classes, where there is but one wrong class to lean to (skipped). Does not see a confusion of a rare
class with one that is much more common, unless workers choose it more often than its share.

Cost: O(labels × K² + draws × workers × K²).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.audit.audit_tests import AuditTest, FindingKind, fill_arguments_from_crowd
from crowdwise.audit.finding_types import Finding, Screen
from crowdwise.audit.leave_out_consensus import fit_reference, one_hot, solve_rates
from crowdwise.audit.parametric_bootstrap import TOGETHER, affordable_draws, max_statistic_p_values
from crowdwise.audit.resampling import bootstrap_interval
from crowdwise.kernels import outer_sums
from crowdwise.labels.errors import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.audit.leave_out_consensus import CrowdReference
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["TEST", "find_confused_classes"]

KIND = "confused classes"

FEWEST_WORKERS = 5  # who must have met a class, for a confusion that the crowd shares
FEWEST_MET = 5  # tasks of a class that a worker must have met to count among those who share a confusion
RARE = 0.05  # share of a class's labels under which a shared confusion needs no measures


def find_confused_classes(
    labels: CrowdLabels, *, level: float = 0.05, random_state: int = 0, reference: CrowdReference | None = None
) -> Screen:
    """Classes that the crowd mixes up: wrong classes to which workers lean together.

    The `level` is the chance that any pair of classes is flagged in a crowd whose members each err in their own
    way. Other parameters: see `audit_tests`.
    """
    if int((labels.class_shares > 0).sum()) < 3:
        return Screen(KIND, skipped="With two classes there is but one wrong class to lean to.")
    if labels.labels_per_task.max(initial=0) < 2:
        return Screen(KIND, skipped="No task has two labels.")
    if (labels.labels_per_worker > 0).sum() < FEWEST_WORKERS:
        return Screen(KIND, skipped=f"A confusion that is shared needs {FEWEST_WORKERS} workers.")
    q = fit_reference(labels, fitted=reference).posterior_without_worker(labels)
    gram = outer_sums(q, q, labels.worker, labels.n_workers)
    cross = outer_sums(q, one_hot(labels), labels.worker, labels.n_workers)
    part = solve_rates(gram.sum(axis=0), cross)  # what each worker adds to the crowd's mean matrix
    met = np.einsum("wkk->wk", gram)
    usable = np.flatnonzero(((met >= FEWEST_MET).sum(axis=0) >= FEWEST_WORKERS) & (labels.class_shares > 0))
    if not usable.size:
        return Screen(KIND, skipped="No class was met often enough by enough workers.")
    said = np.flatnonzero(labels.class_shares)  # nobody leans to a class that nobody says
    wrong = np.array([[j for j in said if j != k] for k in usable])
    errors = part[:, usable[:, None], wrong]  # (M, usable, said - 1)
    total = np.maximum(errors.sum(axis=(0, 2)), 0)  # wrong answers where each class is true
    errors = errors - errors.mean(axis=2, keepdims=True)
    spread = np.sqrt((errors**2).sum(axis=(0, 2)) / (said.size - 2))  # (usable,)
    spread = np.where(spread > 1e-12, spread, np.inf)
    lean = errors.sum(axis=0)
    shares = labels.class_shares
    beyond_even = shares[wrong] / shares[wrong].sum(axis=1, keepdims=True) - 1 / wrong.shape[1]
    often = met.sum(axis=0)[usable]
    followed = share_following_class_shares(beyond_even, lean * often[:, None], total * often)
    allowed = np.where(shares[wrong] > shares[usable, None], 1.0, followed[:, None])
    t = (lean - total[:, None] * allowed * np.maximum(beyond_even, 0)) / spread[:, None]
    rng = np.random.default_rng(random_state)
    draws = affordable_draws(errors.size)

    def permute_wrong_classes() -> Iterator[tuple[slice, FloatArray]]:
        for first in range(0, draws, TOGETHER):
            some = slice(first, min(first + TOGETHER, draws))
            yield (
                some,
                np.array([rng.permuted(errors, axis=2).sum(axis=0) / spread[:, None] for _ in range(draws)[some]]),
            )

    p_value = max_statistic_p_values(t, permute_wrong_classes(), draws, level)
    findings = []
    for row, place in zip(*np.nonzero((p_value <= level) & (t > 0)), strict=True):
        k, label = int(usable[row]), int(wrong[row, place])
        findings.append(
            _make_finding(
                labels, gram, cross, met[:, k] >= FEWEST_MET, (k, label), float(p_value[row, place]), random_state
            )
        )
    return Screen(KIND, tuple(sorted(findings, key=lambda finding: -finding.score)))


def share_following_class_shares(beyond_even: FloatArray, lean: FloatArray, total: FloatArray) -> FloatArray:
    """How far wrong answers follow the class shares, 0 to 1, where classes other than each are true (R,).

    Parameters
    ----------
    beyond_even : (R, C)
        What a wrong class would have beyond an even share of the errors if all followed the class shares.
    lean : (R, C)
        Wrong answers beyond an even share.
    total : (R,)
        Wrong answers in all where the class is true.
    """
    known = (beyond_even**2).sum(axis=1) * total
    cross = (beyond_even * lean).sum(axis=1)
    known, cross = known.sum() - known, cross.sum() - cross
    slope = np.where(known > 1e-9, cross / np.maximum(known, 1e-9), 1.0)
    # Of a wrong answer's indicator the variance is at most 1/4.
    found: FloatArray = np.clip(slope + 0.5 / np.sqrt(np.maximum(known, 1e-9)), 0, 1)
    return found


def _make_finding(
    labels: CrowdLabels,
    gram: FloatArray,
    cross: FloatArray,
    met: BoolArray,
    cell: tuple[int, int],
    p_value: float,
    random_state: int,
) -> Finding:
    k, label = cell
    n_others = int((labels.class_shares > 0).sum()) - 1

    def confusion_rate(weights: FloatArray) -> FloatArray:
        found: FloatArray = solve_rates(np.tensordot(weights, gram, 1), np.tensordot(weights, cross, 1))[:, k, label]
        return found

    crowd = float(np.clip(confusion_rate(np.ones((1, labels.n_workers)))[0], 0, 1))
    low, high = bootstrap_interval(confusion_rate, labels.n_workers, random_state=random_state)
    own = solve_rates(gram[met], cross[met])
    share = int((own[:, k, label] > (1 - own[:, k, k]) / n_others).sum())
    true, said = (quote(labels.classes[place].as_py()) for place in cell)
    leaning = ""
    if 2 * gram[met, k, k].sum() >= gram[:, k, k].sum():  # else those who met the class a few times have shown it
        leaning = f", and {share} of the {int(met.sum())} workers who met {FEWEST_MET} such tasks lean that way"
    return Finding(
        kind=KIND,
        about="class",
        names=(labels.classes[k].as_py(), labels.classes[label].as_py()),
        score=crowd,
        verdict=f"The crowd takes {true} for {said}.",
        evidence=f"{crowd:.0%} of the labels of tasks that are {true} say {said} (95 % interval {low:.0%} to "
        f"{high:.0%}){leaning}.",
        p_value=p_value,
        how="permutation of the wrong classes of each worker, largest of all pairs; bootstrap of workers",
        advice="Say in the instructions how to tell the two apart, with examples; or merge them."
        if crowd >= RARE
        else "More than chance, but rare: let it be, unless these errors are costly.",
    )


TEST = AuditTest(
    order=100,
    kinds=(
        FindingKind(
            KIND,
            "Classes mixed up",
            "pair of classes mixed up",
            "pairs of classes mixed up",
            means="workers lean to the same wrong class together, more than its share of the labels explains",
            assumes="three classes",
        ),
    ),
    question="Which classes do many mix up?",
    run=fill_arguments_from_crowd(find_confused_classes),
)
