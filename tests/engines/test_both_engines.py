"""NumPy against the compiled loops: sums agree to rounding, whole numbers and random draws to the bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.conftest import tiny_labels

from crowdwise.audit import drift, resampling
from crowdwise.audit.hard_tasks import _sum_labeller_rows
from crowdwise.kernels import (
    NO_GOLD,
    Triples,
    pair_agreements,
    pair_counts,
    pair_e_step,
    triple_counts,
    triple_error,
    triple_sweep,
)
from crowdwise.kernels.glad import ability_gradient, truth_posterior
from crowdwise.kernels.habit_mixture import profile_likelihood
from crowdwise.kernels.loglinear import improve_tables, table_posterior
from crowdwise.kernels.max_margin_votes import Margins, gibbs_update_weights, sum_votes_and_logs
from crowdwise.kernels.simulated_scores import AnswerModel, simulate_scores
from crowdwise.labels import CrowdLabels
from crowdwise.labels.describe import _count_agreeing_pairs, find_connected_parts
from crowdwise.labels.engine_choice import use_engine
from crowdwise.labels.sorting import (
    codes_by_first_appearance,
    find_repeated_edges,
    group_by,
    group_offsets,
    sort_by_task,
)
from crowdwise.labels.string_encoder import Interner
from crowdwise.metrics.agreement import pairwise_kappas
from crowdwise.simulate import assignment
from crowdwise.simulate.draws import cumulate_rows, draw_from_rows

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = pytest.mark.parametrize("n_classes", [2, 3, 5])


def by_both(function: Callable[[], Any]) -> tuple[Any, Any]:
    """What a function finds on NumPy, and by compiled loops."""
    with use_engine("numpy"):
        plain = function()
    with use_engine("numba"):
        return plain, function()


def same(function: Callable[[], Any], *, exact: bool = False, tolerance: float = 1e-12) -> None:
    """Check that both engines find the same arrays, of the same types."""
    plain, compiled = by_both(function)
    each = zip(plain, compiled, strict=True) if isinstance(plain, tuple) else [(plain, compiled)]
    for one, other in ((np.asarray(first), np.asarray(second)) for first, second in each):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        if exact:
            np.testing.assert_array_equal(one, other)
        else:
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def crowd(n_classes: int, seed: int = 0) -> CrowdLabels:
    """A crowd with repeated answers, and a task and a worker without any."""
    rng = np.random.default_rng(seed)
    return CrowdLabels.from_codes(
        rng.integers(0, 59, 500), rng.integers(0, 11, 500), rng.integers(0, n_classes, 500),
        tasks=60, workers=12, classes=n_classes, on_duplicate="all",
    )  # fmt: skip


def gold_of(n_classes: int) -> Any:
    rng = np.random.default_rng(5)
    return np.where(rng.random(60) < 0.3, rng.integers(0, n_classes, 60), -1).astype(np.int32)


# ---- labels ------------------------------------------------------------------------------------------------


def test_sorting() -> None:
    rng = np.random.default_rng(0)
    task, worker = rng.integers(0, 30, 400).astype(np.int32), rng.integers(0, 8, 400).astype(np.int32)
    label = rng.integers(0, 3, 400).astype(np.int8)
    offsets = group_offsets(task, 31)
    same(lambda: group_offsets(task, 31), exact=True)
    same(lambda: group_by(task, offsets), exact=True)
    same(lambda: sort_by_task(task, worker, label, 31), exact=True)
    ordered = sort_by_task(task, worker, label, 31)
    same(lambda: find_repeated_edges(offsets, ordered[1], 8), exact=True)
    for kind in (np.int32, np.int64):
        values = (task - 7).astype(kind)
        same(lambda values=values: codes_by_first_appearance(values, -7, 30), exact=True)


def test_nothing_to_sort() -> None:
    none = np.empty(0, np.int32)
    same(lambda: group_offsets(none, 3), exact=True)
    same(lambda: find_repeated_edges(np.zeros(4, np.int64), none, 5), exact=True)
    same(lambda: codes_by_first_appearance(none, 0, 1), exact=True)
    same(lambda: find_connected_parts(np.zeros(1, np.int64), none, 4), exact=True)


def test_description() -> None:
    labels = crowd(3)
    same(lambda: _count_agreeing_pairs(labels), exact=True)
    rng = np.random.default_rng(1)
    for n_tasks in (5, 40, 300):
        chain = rng.permutation(200).astype(np.int32)
        task_ptr = np.append(np.arange(0, 2 * n_tasks, 2), [2 * n_tasks, 2 * n_tasks])  # the last task has none
        worker = chain[np.stack([np.arange(n_tasks), np.arange(1, n_tasks + 1)], axis=1).ravel() % 200]
        same(lambda ptr=task_ptr, worker=worker: find_connected_parts(ptr, worker, 200), exact=True)


def test_texts_keep_their_numbers_when_the_table_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are numbered by a dict, and those that follow, past the size, by the compiled table."""
    monkeypatch.setattr("crowdwise.labels.engine_choice.SMALL", 150)
    monkeypatch.delenv("CROWDWISE_ENGINE", raising=False)
    texts = [f"näme {number % 37}" for number in range(300)]
    interner = Interner()
    for start, kind in ((0, pa.string()), (100, pa.large_string()), (200, pa.string_view())):
        interner.add(pa.array(texts[start : start + 100], pa.string()).cast(kind))
    assert interner.table is not None
    assert interner.count == 37
    codes, names = interner.finish()
    assert names.type == pa.string()
    assert names.to_pylist() == texts[:37]
    assert names.take(pa.array(codes)).to_pylist() == texts


# ---- kernels -----------------------------------------------------------------------------------------------


@SIZES
def test_pairs(n_classes: int) -> None:
    labels = crowd(n_classes)
    same(lambda: pair_agreements(labels), exact=True)
    found = pair_counts(labels)
    same(lambda: (pair_counts(labels).first, pair_counts(labels).second, pair_counts(labels).counts), exact=True)
    rng = np.random.default_rng(0)
    prior, table = rng.dirichlet(np.ones(n_classes)), rng.dirichlet(np.ones(n_classes), (12, n_classes))
    same(lambda: pair_e_step(found, prior, table))


@SIZES
def test_kappas(n_classes: int) -> None:
    labels = crowd(n_classes)
    same(lambda: tuple(pairwise_kappas(labels)))
    same(lambda: tuple(pairwise_kappas(labels, weights="quadratic", min_common=15)))


@SIZES
@pytest.mark.parametrize("together", [2**20, 40])
def test_triples(n_classes: int, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crowdwise.kernels.triples.TOGETHER", together)
    labels = crowd(n_classes)
    rng = np.random.default_rng(0)
    triples = np.array([rng.permutation(12)[:3] for _ in range(30)])
    same(lambda: triple_counts(labels, triples), exact=True)
    share = rng.dirichlet(np.ones(n_classes**3), 30).reshape(30, *3 * [n_classes])
    share[share < 0.01] = 0
    weight, prior = rng.dirichlet(np.ones(30)), rng.dirichlet(np.ones(n_classes))
    table = rng.dirichlet(np.ones(n_classes), (12, n_classes))
    given = Triples(triples, share, weight)
    same(lambda: triple_error(given, prior, table))
    for fixed in (False, True):
        same(lambda fixed=fixed: triple_sweep(given, prior, table, n_steps=5, fixed=fixed))


@SIZES
@pytest.mark.parametrize("ordinal", [False, True], ids=["free", "ordinal"])
@pytest.mark.parametrize("of_workers", [False, True], ids=["tasks", "workers"])
def test_tables_climb_alike(n_classes: int, ordinal: bool, of_workers: bool) -> None:
    labels = crowd(n_classes)
    rng = np.random.default_rng(0)
    posterior = rng.dirichlet(np.full(n_classes, 0.05), 60)  # with entries that are negligible
    others = rng.normal(0, 2, (60 if of_workers else 12, n_classes, n_classes))
    start = np.zeros((12 if of_workers else 60, n_classes, n_classes))
    options = {"of_workers": of_workers, "ordinal": ordinal}
    same(lambda: improve_tables(labels, posterior, start, others, 0.3, **options), tolerance=1e-10)
    far = start + 3 * rng.normal(size=(1, n_classes, n_classes)) * (not ordinal)  # a first step that overshoots
    same(lambda: improve_tables(labels, posterior, far, others, 0.01, **options), tolerance=1e-10)


@SIZES
@pytest.mark.parametrize("with_gold", [False, True], ids=["no gold", "gold"])
def test_posteriors(n_classes: int, with_gold: bool) -> None:
    labels = crowd(n_classes)
    rng = np.random.default_rng(0)
    log_prior = np.log(rng.dirichlet(np.ones(n_classes)))
    gold = gold_of(n_classes) if with_gold else NO_GOLD
    task, worker = (rng.normal(0, 2, (number, n_classes, n_classes)) for number in (60, 12))
    same(lambda: table_posterior(labels, task, worker, log_prior, gold))
    ability, ease = rng.normal(1, 2, 12), np.exp(rng.normal(0, 1, 60))
    same(lambda: truth_posterior(labels, ability, ease, log_prior, gold))
    right = rng.random(500)
    same(lambda: ability_gradient(labels, right, ability, ease), tolerance=1e-11)


@SIZES
def test_margins(n_classes: int) -> None:
    labels = crowd(n_classes)
    rng = np.random.default_rng(0)
    weights, table = rng.normal(size=12), rng.normal(size=(12, n_classes, n_classes))
    same(lambda: sum_votes_and_logs(labels, weights, table), exact=True)  # a sampler goes on from them
    truths = rng.integers(0, n_classes, 60)
    rivals, bend, lack = (truths + 1) % n_classes, rng.gamma(1.0, size=60), rng.normal(size=60)
    noise = rng.normal(size=12)

    def renewed() -> tuple[Any, Any]:
        short = lack.copy()
        return gibbs_update_weights(labels, weights, noise, Margins(truths, rivals, short, bend, 0.3, 1.7)), short

    same(renewed, tolerance=1e-11)


@SIZES
def test_simulated_scores(n_classes: int) -> None:
    labels = crowd(n_classes)
    rng = np.random.default_rng(0)
    cumulative = cumulate_rows(rng.dirichlet(np.ones(n_classes), (12, n_classes)))
    log_prior, table = rng.normal(size=n_classes), rng.normal(size=(12, n_classes, n_classes))
    tasks = slice(3, 60)
    n_drawn = int(labels.task_ptr[60] - labels.task_ptr[3])
    truth, uniform = rng.integers(0, n_classes, (7, 57)), rng.random((7, n_drawn))
    same(lambda: simulate_scores(labels, tasks, truth, uniform, AnswerModel(cumulative, log_prior, table)))


@SIZES
def test_habits(n_classes: int) -> None:
    labels = crowd(n_classes)
    rng = np.random.default_rng(0)
    beside = rng.beta(0.5, 0.5, 500)
    grid = np.append(np.sort(rng.uniform(0.0, 0.95, (12, 7)), axis=1), np.ones((12, 2)), axis=1)
    same(lambda: profile_likelihood(labels, beside, grid), tolerance=1e-10)


# ---- audit and simulation ----------------------------------------------------------------------------------


def test_rows_of_labellers() -> None:
    labels = crowd(3)
    rows = np.random.default_rng(0).dirichlet(np.ones(3), 12)
    same(lambda: _sum_labeller_rows(labels, rows))


def test_deals_use_the_same_random_numbers() -> None:
    code, bounds = np.random.default_rng(0).integers(0, 4, 90), np.array([0, 1, 40, 40, 90])
    prepared = resampling._PreparedContrast(code, bounds, [])
    generators = []

    def dealt() -> Any:
        generators.append(np.random.default_rng(3))
        return resampling._permute_groups(prepared, 25, generators[-1])

    same(dealt, exact=True)
    assert generators[0].random() == generators[1].random()
    z = np.random.default_rng(1).normal(size=60)
    moves = np.append(np.random.default_rng(2).random(59) < 0.7, False)
    z -= z.mean()
    for share in (0.5, 1.0, 1.5):
        observed = float(np.abs(np.cumsum(z)).max()) * share
        same(
            lambda observed=observed: drift._count_permutations(z, moves, observed, np.random.default_rng(4), 200),
            exact=True,
        )


@pytest.mark.parametrize("per_task", [1, 3, 12])
def test_simulated_crowds(per_task: int) -> None:
    same(lambda: tuple(assignment.assign_at_random(50, 12, per_task, np.random.default_rng(0))), exact=True)
    same(lambda: tuple(assignment.assign_regular(48, 12, per_task, np.random.default_rng(1))), exact=True)
    rng = np.random.default_rng(0)
    confusion = rng.dirichlet(np.ones(4), (12, 4))
    row, given = rng.integers(0, 12, 300), rng.integers(0, 4, 300)
    same(lambda: draw_from_rows(row, given, confusion, np.random.default_rng(2)), exact=True)


def test_reading_is_the_same() -> None:
    same(lambda: (tiny_labels(3, 1).task, tiny_labels(3, 1).worker, tiny_labels(3, 1).label), exact=True)
