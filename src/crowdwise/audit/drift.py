"""Drift: workers who get worse, or better, while they work.

Where labels come with a time, a worker's labels are a sequence. For each of them,

    z_e = q_e[label] − Σ_l (Σ_k q_e[k] A[w, k, l]) q_e[l]

is how much they agree with the consensus q of everyone else (`reference`), less what their own matrix A leads one to
expect on that task. Tasks may get harder meanwhile, in ways that q does not show; then the others err on them too, and
the mean z of the others on the same task is taken off. With the difference d centred and divided by its deviation over
the worker's n labels, in order of time,

    D = max_j |Σ_{i ≤ j} d_i| / √n

(the CUSUM statistic of Page 1954, at the j where their time moves on). Their order is dealt anew, and the share of
deals that reach D is the p-value, exact where under "no drift" labels are exchangeable in time. Deals stop once ten
have reached D (Besag & Clifford 1991), so that only workers who may be flagged cost many. Holm's correction over
workers. Beside one who drifts, the steady seem to drift the other way: the surest is believed first, and the next must
be flagged once more with those before them left out of the others' mean.

Assumes that tasks get neither harder nor easier for one worker alone. Fails, in that nobody is flagged, where most
workers drift the same way on the same tasks, and where tasks have two labels only: whose a disagreement is cannot be
told.
Workers with fewer than `FEWEST` timed labels are not tested. Changes back and forth are found late or not at all.

The time of the labels is not kept by `CrowdLabels`, whose rows are sorted by task. `read_timed_labels` reads a column
of times in their order; `label_times` lines up times that come otherwise, by the names of task and worker.

Cost: O(labels × K²), and about 20 passes over a worker's labels; thousands for those who are flagged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.audit.audit_tests import AuditTest, FindingKind, fill_arguments_from_crowd
from crowdwise.audit.finding_types import Finding, Screen, holm_correction
from crowdwise.audit.leave_out_consensus import fit_reference
from crowdwise.labels.arrow_columns import as_column
from crowdwise.labels.engine_choice import choose_engine
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.times import find_impossible_times
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from crowdwise.audit.leave_out_consensus import CrowdReference
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["TEST", "find_drift", "label_times"]

KIND = "drift"

FEWEST = 20  # timed labels of a worker who is tested
REACHED = 10  # deals that reach D, after which no more are made
FEWEST_DEALS = 999
MOST_WORK = 3 * 10**8  # deals × labels of one worker
DEAL_COST = 64  # labels of other loops that one label here costs: dealt tens of times, or thousands
BLOCK = 64  # deals made at once in NumPy: first so many, as most workers need few, then as many as there are
MOST_HELD = 2**18  # labels that are dealt at once


def label_times(labels: CrowdLabels, task: Any, worker: Any, time: Any) -> Any:
    """Times in the order of `labels`, from columns of task names, worker names and times, one entry for each answer.

    Parameters
    ----------
    task, worker
        Names, as they were given to `read_labels`.
    time
        Numbers or dates; NaN, NaT for unknown.

    Returns
    -------
    array (n_labels,)
        NaN or NaT where a label has no time.

    Examples
    --------
    >>> from crowdwise.labels import read_labels
    >>> labels = read_labels({"task": ["b", "a", "b"], "worker": [1, 1, 2], "label": ["x", "y", "y"]})
    >>> label_times(labels, ["a", "b", "b"], [1, 2, 1], [10.0, 20.0, 30.0]).tolist()
    [30.0, 20.0, 10.0]
    """
    when = _as_array(time)
    who, what = (as_column(names, role) for names, role in ((worker, "worker"), (task, "task")))
    if not len(who) == len(what) == when.size:
        sizes = f"{len(what)}, {len(who)} and {when.size}"
        raise InputError(f"task, worker and time must have the same length; they have {sizes}.")
    rows = [
        positions(column.combine_chunks(), names).astype(np.int64)
        for column, names in ((what, labels.tasks), (who, labels.workers))
    ]
    known = (rows[0] >= 0) & (rows[1] >= 0)
    pair = (rows[0] * labels.n_workers + rows[1])[known]
    order = np.argsort(pair, kind="stable")
    pair, when = pair[order], when[known][order]
    wanted = labels.task.astype(np.int64) * labels.n_workers + labels.worker
    repeated = np.flatnonzero(np.diff(pair) == 0)
    if repeated.size:
        names = [labels.tasks[int(pair[i] // labels.n_workers)].as_py() for i in repeated[:6]]
        shown = listing(dict.fromkeys(names))
        raise InputError(f"Task {shown} has two times by the same worker. Give each answer one time.")
    found = np.full(labels.n_labels, "NaT" if when.dtype.kind == "M" else np.nan, when.dtype)
    place = np.minimum(np.searchsorted(pair, wanted), max(pair.size - 1, 0))
    hit = pair[place] == wanted if pair.size else np.zeros(labels.n_labels, np.bool_)
    found[hit] = when[place[hit]]
    return found


def find_drift(
    labels: CrowdLabels,
    time: Any,
    *,
    truth: Any = None,
    level: float = 0.05,
    random_state: int = 0,
    reference: CrowdReference | None = None,
) -> Screen:
    """Workers whose agreement with everyone else changes while they work: in which direction, and when.

    Parameters
    ----------
    time : array (n_labels,)
        Time of each label, in the order of `labels` (see `label_times`): numbers or dates; NaN, NaT for unknown.
    truth
        Known truths, as for `read_truth`, used in place of the consensus where given.
    level
        Chance that anyone is flagged in a crowd in which nobody drifts.
    """
    when = check_times(time, labels)
    if labels.n_workers < 2 or labels.n_classes < 2 or labels.n_labels == 0:
        return Screen(KIND, skipped="Drift needs two workers and two classes: agreement with others is what changes.")
    timed = ~np.isnat(when) if when.dtype.kind == "M" else ~np.isnan(when)
    counts = np.bincount(labels.worker[timed], minlength=labels.n_workers)
    if (counts >= FEWEST).sum() == 0:
        return Screen(KIND, skipped=f"No worker has {FEWEST} labels with a time.")
    reference = fit_reference(labels, truth, reference)
    agreement, beyond = _excess_agreement(labels, reference)
    steady = np.ones(labels.n_workers, np.bool_)
    d = _subtract_others(labels, reference, beyond, steady)
    n_tested = int((counts >= FEWEST).sum())
    score, p_value = np.full((2, labels.n_workers), np.nan)
    changes: dict[int, tuple[float, float, Any]] = {}
    edge, ptr = labels.by_worker

    def compute_drift_p_value(worker: int, d: FloatArray) -> float:
        mine = edge[ptr[worker] : ptr[worker + 1]]
        mine = mine[timed[mine]]
        mine = mine[np.argsort(when[mine], kind="stable")]
        moves = np.append(when[mine][1:] != when[mine][:-1], False)
        z = d[mine] - d[mine].mean()
        spread = float(z.std())
        if spread <= 1e-12 or not moves.any():
            return np.nan
        deals = min(max(FEWEST_DEALS, int(2 * n_tested / level)), max(FEWEST_DEALS, MOST_WORK // mine.size))
        rng = np.random.default_rng([random_state, worker])
        found, last = _permutation_test(z / (spread * np.sqrt(mine.size)), moves, rng, deals)
        before, after = (float(agreement[part].mean()) for part in np.split(mine, [last + 1]))
        score[worker] = min(1.0, abs(after - before))
        changes[worker] = before, after, when[mine[last + 1]]
        return found

    for worker in np.flatnonzero(counts >= FEWEST):
        p_value[worker] = compute_drift_p_value(int(worker), d)
    corrected = holm_correction(p_value)
    findings: list[Finding] = []
    yardstick = "The others' consensus" if truth is None else "The truth, and where it is not known the consensus,"
    for worker in np.lexsort((-score, corrected))[: int((corrected <= level).sum())]:
        if findings:  # Beside one who drifts, the steady seem to drift the other way: they are left out.
            again = compute_drift_p_value(int(worker), _subtract_others(labels, reference, beyond, steady)) * (
                n_tested - len(findings)
            )
            corrected[worker] = max(corrected[worker], np.fmin(again, 1.0))  # 1 where nobody is left to compare with
        if corrected[worker] <= level:
            steady[worker] = False
            findings.append(_make_finding(labels, int(worker), changes[int(worker)], float(score[worker]),
                                     float(corrected[worker]), yardstick))  # fmt: skip
    return Screen(KIND, tuple(findings), score, corrected)


def _excess_agreement(labels: CrowdLabels, reference: CrowdReference) -> tuple[FloatArray, FloatArray]:
    """Probability of each label by everyone else; and what it is beyond expectation."""
    q = reference.posterior_without_worker(labels)
    agreement = q[np.arange(labels.n_labels), labels.label]
    expected = np.zeros(labels.n_labels)
    for k in range(labels.n_classes):
        expected += q[:, k] * np.einsum("el,el->e", reference.confusion[labels.worker, k], q)
    return agreement, agreement - expected


def _subtract_others(
    labels: CrowdLabels, reference: CrowdReference, beyond: FloatArray, heard: BoolArray
) -> FloatArray:
    """What each label is beyond expectation, less the mean of those who are heard, without the worker."""
    counts = heard[labels.worker].astype(np.float64)
    others, rest = (
        np.bincount(labels.task, values, labels.n_tasks)[labels.task]
        - np.bincount(reference.pair, values)[reference.pair]
        for values in (counts, counts * beyond)
    )
    return np.where(others > 0, beyond - rest / np.maximum(others, 1), 0.0)


def _permutation_test(z: FloatArray, moves: BoolArray, rng: np.random.Generator, deals: int) -> tuple[float, int]:
    """p-value of D, and the last label before the change."""
    path = np.where(moves, np.abs(np.cumsum(z)), -1.0)
    last = int(path.argmax())
    reached, made = _count_permutations(z, moves, float(path[last]) * (1 - 1e-9), rng, deals)
    return (reached / made if reached == REACHED else (reached + 1) / (made + 1)), last


def _count_permutations(
    z: FloatArray, moves: BoolArray, observed: float, rng: np.random.Generator, most: int
) -> tuple[int, int]:
    """Shuffle z again and again: how many shuffles reach the observed statistic, of how many."""
    if choose_engine(z.size * DEAL_COST, 1) == "numba":
        from crowdwise.kernels.compiled.permutations import count_permutations

        found: tuple[int, int] = count_permutations(z, moves, observed, rng, most, REACHED)
        return found
    return _count_permutations_at_once(z, moves, observed, rng, most)


def _count_permutations_at_once(
    z: FloatArray, moves: BoolArray, observed: float, rng: np.random.Generator, most: int
) -> tuple[int, int]:
    """The same for all deals of a block: by the numbers, and with the sums, of deals made one by one."""
    n, reached, made = z.size, 0, 0
    left = n - np.arange(n - 1)
    while made < most:
        count = min(max(BLOCK, made), most - made, max(1, MOST_HELD // n))
        others = np.arange(n - 1) + (rng.random((count, n - 1)) * left).astype(np.int64)
        flat = np.ascontiguousarray(others.T) * count + np.arange(count)
        dealt = np.repeat(z, count)
        total, hit = np.zeros(count), np.zeros(count, np.bool_)
        for place, other in enumerate(flat):
            mine = dealt[other]
            here = dealt[place * count : (place + 1) * count]
            dealt[other] = here
            here[:] = mine
            total += mine
            if moves[place]:
                hit |= np.abs(total) >= observed
        hits = np.flatnonzero(hit)
        if reached + hits.size >= REACHED:
            return REACHED, made + int(hits[REACHED - reached - 1]) + 1
        reached += hits.size
        made += count
    return reached, most


def _as_array(time: Any) -> Any:
    """Times as an array, whole numbers as floating point; what is masked is unknown."""
    try:
        when = np.asarray(time)
    except ValueError as error:
        raise InputError("time must be one number or date for each label, not rows.") from error
    if when.dtype.kind in "iub":
        when = when.astype(np.float64)
    if np.ma.is_masked(time):
        unknown = np.array("NaT" if when.dtype.kind == "M" else np.nan, when.dtype)
        when = np.where(np.ma.getmaskarray(time), unknown, when)
    return when


def check_times(time: Any, labels: CrowdLabels) -> Any:
    """The times as an array, one for each label, or an error."""
    when = _as_array(time)
    if when.shape != (labels.n_labels,) or when.dtype.kind not in "fM":
        raise InputError(
            f"time has shape {when.shape} and type {when.dtype}; it must be one number or date for each of the "
            f"{labels.n_labels} labels, in their order. Line it up with label_times(labels, task, worker, time)."
        )
    wrong, allowed = find_impossible_times(when)
    if wrong.size:
        raise InputError(
            f"time holds {when[wrong[0]]} at row {wrong[0]}; {allowed}. Give NaN or NaT where the time is not known."
        )
    return when


def _format_time(when: Any) -> str:
    """A time as one reads it: a date to the minute, a number as it was written.

    >>> _format_time(np.datetime64("2026-05-31T13:45:10.5")), _format_time(np.float64(1780235110))
    ('2026-05-31 13:45', '1780235110')
    """
    if isinstance(when, np.datetime64):
        return str(np.datetime_as_string(when, unit="m")).replace("T", " ")
    return f"{when:.15g}"


def _make_finding(
    labels: CrowdLabels, worker: int, change: tuple[float, float, Any], score: float, p_value: float, yardstick: str
) -> Finding:
    before, after, when = change
    name = labels.workers[worker].as_py()
    worse = after < before
    return Finding(
        kind=KIND,
        about="worker",
        names=(name,),
        score=score,
        verdict=f"Worker {quote(name)} got {'worse' if worse else 'better'} from about {_format_time(when)} on.",
        evidence=f"{yardstick} agrees with {before:.0%} of the labels before, with {after:.0%} after.",
        p_value=p_value,
        how=f"permutation of the order of their labels, at least {FEWEST_DEALS} draws, Holm's correction over workers",
        advice="Look at labels from before and after; ask what changed (tiredness, new instructions, another person)."
        + (" Have the later ones done again." if worse else " Have the earlier ones done again."),
    )


TEST = AuditTest(
    order=60,
    kinds=(
        FindingKind(
            KIND,
            "Drift",
            "who changed on the way",
            "who changed on the way",
            means="a worker's agreement with the others changes on the way",
            assumes="a time for each label",
        ),
    ),
    question="Does anyone get better or worse on the way?",
    run=fill_arguments_from_crowd(find_drift),
    accuses=True,
    needs=("time",),
)
