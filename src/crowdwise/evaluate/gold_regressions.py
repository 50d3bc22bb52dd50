"""The regressions that gold calibration averages: what they are made of, how they are fitted, what they say.

See `gold_calibration` for the table of members and for how they are averaged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdwise.evaluate.penalised_logistic import fit_logistic, leave_one_out_scores, softmax

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["MEMBERS", "MemberCoefficients", "average_members", "fit_members", "max_gold_tasks", "member_names"]

FLOOR = 1e-3  # share of every posterior that is spread over all classes before its logarithm is taken
HALF_VOTE = 0.5  # votes spread over all classes before the logarithm of their shares is taken
SHARE_DRAW = 2.0  # answers at the class shares of the gold that count for each label of a single worker
MOST_WORKERS = 60  # workers, those with most gold answers, that get a coefficient of agreement
MOST_SINGLE = 20  # workers that are a member of their own
MOST_CELLS = 500  # coefficients in the tables of workers
LARGEST = 1e100  # values of numeric classes beyond this would overflow
MOST_BIASED = 20  # classes, those most common in the gold, that get a bias
MOST_WORK = 3e8  # gold tasks × classes × coefficients²: what a Newton step costs, which bounds tables and gold tasks
FEWEST, FEWEST_TABLE = 3, 10  # gold answers of a worker for a coefficient of agreement, and for a table


class RegressionMember(NamedTuple):
    """A logistic regression: standard deviations of its priors, 0 where it has no such coefficients."""

    name: str
    prior_weight: float
    temperature: float
    votes: float = 0.0
    bias: float = 0.0
    agreement: float = 0.0
    table: float = 0.0
    slope: float = 0.0


MEMBERS = (
    RegressionMember("temperature, narrow", 0.12, 0.25),
    RegressionMember("temperature, wide", 0.12, 1.0),
    RegressionMember("class bias, narrow", 0.12, 0.25, bias=0.5),
    RegressionMember("class bias, wide", 0.12, 0.25, bias=1.5),
    RegressionMember("votes", 0.12, 0.5, votes=0.5, bias=1.0),
    RegressionMember("agreement", 0.1, 0.5, votes=0.5, bias=1.0, agreement=0.3),
    RegressionMember("worker tables, narrow", 0.1, 0.5, votes=0.5, bias=1.0, agreement=0.3, table=0.15),
    RegressionMember("worker tables, wide", 0.1, 0.5, votes=0.5, bias=1.0, agreement=0.3, table=0.4),
    RegressionMember("ordered classes", 0.1, 0.5, votes=0.5, bias=1.0, agreement=0.3, slope=0.3),
)


class MemberCoefficients(NamedTuple):
    """Parameters of all members after "unchanged", which has none.

    Attributes
    ----------
    member : (members,)
        Place in `MEMBERS`; for a single worker `len(MEMBERS)` and more.
    scales : (members, 2)
        Coefficients of the log posterior and of the log shares of votes.
    bias : (members, K)
    workers : (S,)
        Positions of the workers that have coefficients.
    agreement : (members, S)
    table_member, table_worker : (T,)
        Which member a table belongs to (0 is the first after "unchanged"), and which entry of `workers` it is about.
    table : (T, K, K) [label, truth]
    """

    member: IntArray
    scales: FloatArray
    bias: FloatArray
    workers: IntArray
    agreement: FloatArray
    table_member: IntArray
    table_worker: IntArray
    table: FloatArray


# ---- features ---------------------------------------------------------------------------------------------


def _log_features(labels: CrowdLabels, posterior: FloatArray) -> FloatArray:
    """Logarithms of the posterior and of the vote shares, centred over the classes, (N, K, 2)."""
    votes = labels.vote_counts() + HALF_VOTE / labels.n_classes
    raised = (1 - FLOOR) * posterior + FLOOR / labels.n_classes
    logs = np.log(np.stack([raised, votes / votes.sum(axis=1, keepdims=True)], axis=2))
    centred: FloatArray = logs - logs.mean(axis=1, keepdims=True)
    return centred


def _standardise_numeric_classes(labels: CrowdLabels) -> FloatArray | None:
    """Standardised values of three or more classes that are numbers, (K,); None where they are not."""
    try:
        values = np.array([float(name) for name in labels.classes.to_pylist()])
    except (TypeError, ValueError):
        return None
    if values.size < 3 or not (np.abs(values) < LARGEST).all() or np.unique(values).size < values.size:
        return None
    standardised: FloatArray = (values - values.mean()) / values.std()
    return standardised


def _worker_positions(labels: CrowdLabels, workers: IntArray) -> IntArray:
    """Place in `workers` of the worker of each edge, -1 where they are not among them."""
    place = np.full(max(labels.n_workers, int(workers.max(initial=-1)) + 1), -1)
    place[workers] = np.arange(workers.size)
    found: IntArray = place[labels.worker]
    return found


def max_gold_tasks(n_classes: int) -> int:
    """Gold tasks that coefficients can be fitted to in a time that is worth it."""
    return int(MOST_WORK / (n_classes * (2 + min(n_classes, MOST_BIASED) + MOST_WORKERS) ** 2))


# ---- fitting ----------------------------------------------------------------------------------------------


def fit_members(labels: CrowdLabels, posterior: FloatArray, truth: IntArray) -> tuple[MemberCoefficients, FloatArray]:
    """Coefficients of all members, and their leave-one-out predictions of the gold tasks, (members, n, K).

    `labels`, `posterior` and `truth` are those of the gold tasks alone.
    """
    n, n_classes = posterior.shape
    answers = np.bincount(labels.worker, minlength=labels.n_workers)
    order = np.argsort(-answers, kind="stable")
    workers = order[:MOST_WORKERS][answers[order[:MOST_WORKERS]] >= FEWEST]
    biased = np.sort(np.argsort(-np.bincount(truth, minlength=n_classes), kind="stable")[:MOST_BIASED])
    afforded = int((MOST_WORK / max(n * n_classes, 1)) ** 0.5) - 2 - biased.size - workers.size
    n_tables = min(int((answers[workers] >= FEWEST_TABLE).sum()), max(min(MOST_CELLS, afforded), 0) // n_classes**2)
    place = _worker_positions(labels, workers)
    values = _standardise_numeric_classes(labels)
    n_slopes = 0 if values is None else int((answers[workers] >= FEWEST_TABLE).sum())
    products = np.zeros((n_classes, n_classes)) if values is None else np.outer(values, values)
    sizes = [1, 1, biased.size, workers.size, n_tables * n_classes**2, n_slopes]
    design = _design_matrix(labels, posterior, biased, place, sizes, products)
    parts = np.repeat(np.arange(6), sizes)
    numbers: list[int] = []
    scales, bias, agreement = [], [], []
    tables: list[tuple[int, int, FloatArray]] = []
    held_out = [posterior]
    for number, member in enumerate(MEMBERS):
        if (
            (member.agreement and not workers.size)
            or (member.table and not n_tables)
            or (member.slope and not n_slopes)
        ):
            continue
        spread = np.array(member[2:])[parts]
        used = spread > 0
        part = np.ascontiguousarray(design[:, :, used])
        mean = (parts[used] == 0).astype(np.float64)
        fit = fit_logistic(part, truth, mean, spread[used] ** -2.0)
        held_out.append(softmax(leave_one_out_scores(part, truth, fit)))
        found = np.zeros(parts.size)
        found[used] = fit.coefficients
        scales.append(found[:2])
        bias.append(np.zeros(n_classes))
        bias[-1][biased] = found[parts == 2]
        agreement.append(found[parts == 3])
        if member.table:
            cells = found[parts == 4].reshape(n_tables, n_classes, n_classes)
            tables += [(len(numbers), worker, cells[worker]) for worker in range(n_tables)]
        if member.slope:
            tables += [(len(numbers), worker, slope * products) for worker, slope in enumerate(found[parts == 5])]
        numbers.append(number)
    shares = (np.bincount(truth, minlength=n_classes) + 1.0) / (n + n_classes)
    for at in np.flatnonzero(answers[workers] >= max(n / 2, FEWEST_TABLE))[:MOST_SINGLE]:
        table, without = _fit_single_worker(labels, truth, place == at, shares)
        tables.append((len(numbers), int(at), np.log(table / shares)))
        numbers.append(len(MEMBERS))
        held_out.append(without)
        scales.append(np.zeros(2))
        bias.append(np.log(shares))
        agreement.append(np.zeros(workers.size))
    coefficients = MemberCoefficients(
        np.array(numbers),
        np.array(scales),
        np.array(bias),
        workers,
        np.array(agreement).reshape(len(numbers), workers.size),
        np.array([member for member, _, _ in tables], np.int64),
        np.array([worker for _, worker, _ in tables], np.int64),
        np.array([table for _, _, table in tables]).reshape(-1, n_classes, n_classes),
    )
    return coefficients, np.array(held_out)


def _design_matrix(
    labels: CrowdLabels,
    posterior: FloatArray,
    biased: IntArray,
    place: IntArray,
    sizes: list[int],
    products: FloatArray,
) -> FloatArray:
    """Features of the gold tasks, (n, K, Σ sizes), in the order of `RegressionMember`."""
    n, n_classes = posterior.shape
    n_workers, n_tables, n_slopes = sizes[3], sizes[4] // n_classes**2, sizes[5]
    by_class = np.broadcast_to(np.eye(n_classes)[:, biased], (n, n_classes, biased.size))
    agreement = np.zeros((n, n_classes, n_workers))
    met = place >= 0
    np.add.at(agreement, (labels.task[met], labels.label[met], place[met]), 1.0)
    table = np.zeros((n, n_classes, n_tables, n_classes, n_classes))
    met = (place >= 0) & (place < n_tables)
    for k in range(n_classes):
        np.add.at(table, (labels.task[met], k, place[met], labels.label[met], k), 1.0)
    slopes = np.zeros((n, n_slopes, n_classes))
    met = (place >= 0) & (place < n_slopes)
    np.add.at(slopes, (labels.task[met], place[met]), products[labels.label[met]])
    parts = [_log_features(labels, posterior), by_class, agreement, table.reshape(n, n_classes, sizes[4])]
    return np.concatenate([*parts, np.moveaxis(slopes, 1, 2)], axis=2)


def _fit_single_worker(
    labels: CrowdLabels, truth: IntArray, own: BoolArray, shares: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """P(truth | label) of one worker, (K, K) [label, truth]; and of each gold task (n, K) without that task."""
    n, n_classes = truth.size, shares.size
    said = np.full(n, -1)
    said[labels.task[own]] = labels.label[own]
    spoke = said >= 0
    counts = np.zeros((n_classes, n_classes))
    np.add.at(counts, (said[spoke], truth[spoke]), 1.0)
    without = counts[said]
    without[np.arange(n), truth] -= 1
    without[~spoke] = 0.0
    counts, without = counts + SHARE_DRAW * shares, without + SHARE_DRAW * shares
    return counts / counts.sum(axis=1, keepdims=True), without / without.sum(axis=1, keepdims=True)


def member_names(coefficients: MemberCoefficients) -> tuple[str, ...]:
    """Names of all members; a single worker is named by their position among the workers."""
    own = dict(zip(coefficients.table_member.tolist(), coefficients.table_worker.tolist(), strict=True))
    return (
        "unchanged",
        *(
            MEMBERS[number].name if number < len(MEMBERS) else f"worker {coefficients.workers[own[member]]}"
            for member, number in enumerate(coefficients.member.tolist())
        ),
    )


def average_members(
    labels: CrowdLabels, posterior: FloatArray, weights: FloatArray, coefficients: MemberCoefficients
) -> FloatArray:
    """Mean of what the members say of every task (N, K)."""
    features = _log_features(labels, posterior)
    place = _worker_positions(labels, coefficients.workers)
    averaged: FloatArray = weights[0] * posterior
    for member in np.flatnonzero(weights[1:] > 0):
        scores = features @ coefficients.scales[member] + coefficients.bias[member]
        agreement = coefficients.agreement[member]
        if agreement.any():
            met = place >= 0
            np.add.at(scores, (labels.task[met], labels.label[met]), agreement[place[met]])
        for table in np.flatnonzero(coefficients.table_member == member):
            own = np.flatnonzero(place == coefficients.table_worker[table])
            np.add.at(scores, labels.task[own], coefficients.table[table][labels.label[own]])
        averaged += weights[1 + member] * softmax(scores)
    return averaged
