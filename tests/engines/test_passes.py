"""Every engine says what the NumPy engine says, whatever the shape, the gold and the number of threads."""

from __future__ import annotations

import gc
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from crowdwise import engines
from crowdwise.engines import Statistics, load_engine, prepare, use_engine
from crowdwise.kernels import NO_GOLD, log_rows, use_threads
from crowdwise.kernels.block_layout import (
    BLOCK_CELLS,
    FEWEST_CELLS,
    LANE_LABELS,
    MOST_LANES,
    MOST_TASKS,
    count_block_tasks,
    lay_out_blocks,
)
from crowdwise.labels import CrowdLabels, InputError

if TYPE_CHECKING:
    from crowdwise.engines import Prepared

TOLERANCE = {"rtol": 1e-10, "atol": 1e-10}


def random_labels(
    n_tasks: int, n_workers: int, n_classes: int, n_labels: int, seed: int, *, used_tasks: float = 0.7
) -> CrowdLabels:
    """Answers at random, repeats included; part of the tasks, the last worker and the last class stay without any."""
    generator = np.random.default_rng(seed)
    labels = CrowdLabels.from_codes(
        generator.integers(0, max(int(n_tasks * used_tasks), 1), n_labels) * (n_tasks > 0),
        generator.integers(0, max(n_workers - 1, 1), n_labels),
        generator.integers(0, max(n_classes - 1, 1), n_labels),
        tasks=n_tasks,
        workers=n_workers,
        classes=n_classes,
        on_duplicate="all",
    )
    assert labels.n_labels == n_labels
    return labels


def on(name: str, labels: CrowdLabels, n_states: int | None = None) -> Prepared:
    """The labels on one engine, laid out anew."""
    engine = load_engine(name)
    return engine.make_passes(engine.lay_out(labels, n_states))


def random_parameters(labels: CrowdLabels, seed: int) -> tuple[Any, Any, Any]:
    """A class prior, tables [worker, truth, label] and bonuses [worker, label], as logarithms."""
    generator = np.random.default_rng(seed)
    size = labels.n_classes
    prior = np.log(generator.dirichlet(np.ones(size)))
    rows = generator.dirichlet(np.full(size, 0.5), (labels.n_workers, size))
    table = np.log(np.maximum(rows, 1e-200))
    return prior, table, generator.normal(0, 3, (labels.n_workers, size))


def random_gold(labels: CrowdLabels, seed: int, share: float = 0.3) -> Any:
    generator = np.random.default_rng(seed)
    truth = generator.integers(0, labels.n_classes, labels.n_tasks)
    return np.where(generator.random(labels.n_tasks) < share, truth, -1).astype(np.int32)


def assert_same(found: Statistics, expected: Statistics) -> None:
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-11, abs=1e-10)
    np.testing.assert_allclose(found.class_counts, expected.class_counts, **TOLERANCE)
    np.testing.assert_allclose(found.counts, expected.counts, **TOLERANCE)


def assert_passes_agree(labels: CrowdLabels, seed: int, gold: Any = NO_GOLD) -> None:
    fast, plain = on("numba", labels), on("numpy", labels)
    prior, table, bonus = random_parameters(labels, seed)
    for name, parameters in (("e_step", table), ("e_step_votes", bonus)):
        posterior = np.empty((labels.n_tasks, labels.n_classes))
        expected = getattr(plain, name)(prior, parameters, gold, posterior)
        assert_same(getattr(plain, name)(prior, parameters, gold), expected)
        stored = np.full((labels.n_tasks, labels.n_classes), np.nan)
        assert_same(getattr(fast, name)(prior, parameters, gold, stored), expected)
        assert_same(getattr(fast, name)(prior, parameters, gold), expected)
        np.testing.assert_allclose(stored, posterior, **TOLERANCE)
    values = np.random.default_rng(seed).normal(size=(labels.n_tasks, labels.n_classes))
    assert_same(fast.accumulate(values), plain.accumulate(values))
    assert_same(
        fast.count_against_vote_shares(labels.class_shares, gold),
        plain.count_against_vote_shares(labels.class_shares, gold),
    )
    for found, expected_sums in zip(
        fast.posterior_variance(posterior), plain.posterior_variance(posterior), strict=True
    ):
        np.testing.assert_allclose(found, expected_sums, **TOLERANCE)


@pytest.mark.parametrize("kinds", [1, 3])
def test_the_specification_says_what_bayes_rule_says(kinds: int) -> None:
    """Task by task and label by label, in plain loops; a class may have several kinds."""
    labels = random_labels(30, 5, 3, 100, 1)
    gold = random_gold(labels, 1)
    generator = np.random.default_rng(1)
    prior = generator.dirichlet(np.ones(3 * kinds))
    rows = generator.dirichlet(np.ones(3), (5, 3 * kinds))
    value, counts, expected = 0.0, np.zeros(rows.shape), np.empty((30, 3 * kinds))
    for task in range(30):
        edges = range(labels.task_ptr[task], labels.task_ptr[task + 1])
        weight = prior.copy()
        for edge in edges:
            weight *= rows[labels.worker[edge], :, labels.label[edge]]
        if gold[task] >= 0:
            weight[np.arange(3 * kinds) // kinds != gold[task]] = 0
        value += np.log(weight.sum())
        expected[task] = weight / weight.sum()
        for edge in edges:
            counts[labels.worker[edge], :, labels.label[edge]] += expected[task]
    for name in ("numpy", "numba"):
        posterior = np.empty((30, 3 * kinds))
        found = on(name, labels, 3 * kinds).e_step(np.log(prior), np.log(rows), gold, posterior)
        assert_same(found, Statistics(float(value), expected.sum(axis=0), counts))
        np.testing.assert_allclose(posterior, expected, **TOLERANCE)


@pytest.mark.parametrize("name", ["numpy", "numba"])
def test_statistics_of_parts_add_up(name: str) -> None:
    labels = random_labels(60, 9, 4, 400, 2)
    prior, table, bonus = random_parameters(labels, 2)
    gold = random_gold(labels, 2)
    part = np.arange(60) % 3
    parts = [(labels.keep_tasks(part == one), part == one) for one in range(3)]

    def whole_and_sum(run: Any) -> None:
        first, *others = [run(on(name, some), mine) for some, mine in parts]
        assert_same(sum(others, start=first), run(on(name, labels), np.ones(60, bool)))

    whole_and_sum(lambda prepared, mine: prepared.e_step(prior, table, gold[mine]))
    whole_and_sum(lambda prepared, mine: prepared.e_step_votes(prior, bonus, gold[mine]))
    whole_and_sum(lambda prepared, mine: prepared.count_against_vote_shares(labels.class_shares, gold[mine]))
    values = np.random.default_rng(0).random((60, 4))
    whole_and_sum(lambda prepared, mine: prepared.accumulate(values[mine]))


@pytest.mark.parametrize("name", ["numpy", "numba"])
def test_any_memory_order_of_tables_will_do(name: str) -> None:
    labels = random_labels(60, 9, 4, 400, 3)
    prior, table, _ = random_parameters(labels, 3)
    expected = on(name, labels).e_step(prior, table)
    for other in (np.asfortranarray(table), table[::-1].copy()[::-1], expected.counts * 0 + table):
        np.testing.assert_array_equal(on(name, labels).e_step(prior, other).counts, expected.counts)


def test_tables_go_in_and_out_of_the_compiled_passes_without_a_copy() -> None:
    labels = random_labels(60, 9, 4, 400, 3)
    counts = on("numba", labels).count_against_vote_shares(labels.class_shares).counts
    with use_engine("numba"):
        rows = log_rows(counts, np.ones((1, 4, 4)))
    for table in (counts, rows):
        assert np.shares_memory(np.ascontiguousarray(table.transpose(0, 2, 1)), table)


@pytest.mark.parametrize("with_gold", [False, True], ids=["no gold", "gold"])
@pytest.mark.parametrize("n_classes", [*range(1, 18), 127, 200])
def test_any_number_of_classes(n_classes: int, with_gold: bool) -> None:
    labels = random_labels(60, 9, n_classes, 400, n_classes)
    assert labels.label.dtype == (np.int16 if n_classes > 128 else np.int8)
    assert (labels.labels_per_task == 0).any()
    assert labels.labels_per_worker[-1] == 0
    assert_passes_agree(labels, n_classes, random_gold(labels, n_classes) if with_gold else NO_GOLD)


@settings(max_examples=60, deadline=None)
@given(
    n_tasks=st.integers(1, 40),
    n_workers=st.integers(1, 12),
    n_classes=st.integers(1, 17),
    n_labels=st.integers(0, 200),
    share=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_shape(n_tasks: int, n_workers: int, n_classes: int, n_labels: int, share: float, seed: int) -> None:
    labels = random_labels(n_tasks, n_workers, n_classes, n_labels, seed, used_tasks=1.0)
    assert_passes_agree(labels, seed, random_gold(labels, seed, share) if share else NO_GOLD)


def test_no_tasks_no_workers_no_labels() -> None:
    empty = CrowdLabels.from_codes([], [], [], tasks=0, workers=0, classes=3)
    for name in ("numpy", "numba"):
        found = on(name, empty).e_step(np.log(np.full(3, 1 / 3)), np.zeros((0, 3, 3)))
        assert (found.log_likelihood, found.class_counts.tolist(), found.counts.shape) == (0.0, [0, 0, 0], (0, 3, 3))


# ---- zero probabilities ----------------------------------------------------------------------------------


def test_zero_probabilities_rule_classes_out() -> None:
    """Tables with -inf where every task keeps a class: no NaN, and the reference agrees."""
    labels = random_labels(50, 6, 4, 300, 3)
    prior, table, _ = random_parameters(labels, 3)
    table[:, :2][np.random.default_rng(0).random((6, 2, 4)) < 0.5] = -np.inf
    posterior = np.empty((50, 4))
    found = on("numba", labels).e_step(prior, table, NO_GOLD, posterior)
    slow = np.empty((labels.n_tasks, labels.n_classes))
    expected = on("numpy", labels).e_step(prior, table, NO_GOLD, slow)
    assert_same(found, expected)
    np.testing.assert_allclose(posterior, slow, **TOLERANCE)
    assert (posterior == 0).any()
    assert np.isfinite(found.log_likelihood)


def test_a_class_of_prior_zero_stays_out() -> None:
    labels = random_labels(50, 6, 3, 300, 4)
    _, table, bonus = random_parameters(labels, 4)
    prior = np.array([np.log(0.25), np.log(0.75), -np.inf])
    for name, parameters in (("e_step", table), ("e_step_votes", bonus)):
        fast, slow = (getattr(on(engine, labels), name)(prior, parameters) for engine in ("numba", "numpy"))
        assert_same(fast, slow)
        assert fast.class_counts[2] == slow.class_counts[2] == 0


@pytest.mark.parametrize("n_tasks", [2, 16, 33])
def test_labels_that_no_class_allows_leave_the_prior(n_tasks: int) -> None:
    """Two workers who never err contradict each other on task 1."""
    task = np.concatenate([np.repeat(np.arange(n_tasks), 2)])
    label = np.zeros(2 * n_tasks, int)
    label[3] = 1
    labels = CrowdLabels.from_codes(task, np.tile([0, 1], n_tasks), label, tasks=n_tasks, workers=2, classes=2)
    with np.errstate(divide="ignore"):
        table = np.log(np.stack([np.eye(2), np.eye(2)]))
    prior = np.log([0.3, 0.7])
    posterior = np.empty((n_tasks, 2))
    found = on("numba", labels).e_step(prior, table, NO_GOLD, posterior)
    np.testing.assert_allclose(posterior[1], [0.3, 0.7], atol=1e-15)
    np.testing.assert_array_equal(np.delete(posterior, 1, axis=0), np.tile([1.0, 0.0], (n_tasks - 1, 1)))
    assert found.log_likelihood == -np.inf
    slow = np.empty((labels.n_tasks, labels.n_classes))
    expected = on("numpy", labels).e_step(prior, table, NO_GOLD, slow)
    np.testing.assert_allclose(posterior, slow, **TOLERANCE)
    np.testing.assert_allclose(found.counts, expected.counts, **TOLERANCE)
    assert expected.log_likelihood == -np.inf


def test_gold_stands_even_where_the_labels_do_not_allow_it() -> None:
    labels = CrowdLabels.from_codes([0, 1], [0, 0], [0, 0], tasks=2, workers=1, classes=2)
    with np.errstate(divide="ignore"):
        table = np.log(np.eye(2)[None])
    gold = np.array([1, -1], np.int32)
    posterior = np.empty((2, 2))
    found = on("numba", labels).e_step(np.log([0.5, 0.5]), table, gold, posterior)
    assert posterior.tolist() == [[0, 1], [1, 0]]
    assert found.log_likelihood == -np.inf
    slow = np.empty((labels.n_tasks, labels.n_classes))
    on("numpy", labels).e_step(np.log([0.5, 0.5]), table, gold, slow)
    assert slow.tolist() == posterior.tolist()


def test_far_apart_logits_do_not_overflow() -> None:
    labels = random_labels(20, 4, 3, 5000, 5)
    _, table, _ = random_parameters(labels, 5)
    table *= 50  # sums of logarithms around -1e5
    found = on("numba", labels).e_step(np.log(np.full(3, 1 / 3)), table)
    slow = np.empty((labels.n_tasks, labels.n_classes))
    expected = on("numpy", labels).e_step(np.log(np.full(3, 1 / 3)), table, NO_GOLD, slow)
    assert np.isfinite(found.log_likelihood)
    assert_same(found, expected)


# ---- sizes and lanes -------------------------------------------------------------------------------------


def test_more_tasks_than_sixteen_bits_in_a_block_and_out_of_it() -> None:
    """Few labels on many tasks make one lane and the largest blocks: places run to 65,535 and must not wrap."""
    n_tasks = 4 * MOST_TASKS + 9_000
    labels = random_labels(n_tasks, 2_500, 2, LANE_LABELS, 6, used_tasks=1.0)
    blocks = lay_out_blocks(labels)
    assert (blocks.size, blocks.n_lanes, blocks.slot.dtype) == (MOST_TASKS, 1, np.uint16)
    assert blocks.slot.max() > 2**15
    assert_passes_agree(labels, 6, random_gold(labels, 6))


def test_blocks_grow_with_the_rows_of_the_table() -> None:
    sizes = [count_block_tasks(10**8, 2 * 10**7, n_rows, 10, 16) for n_rows in (100, 20_000, 60_000, 10**6)]
    assert sizes == [FEWEST_CELLS // 10, 8_000, 24_000, BLOCK_CELLS // 10]
    assert count_block_tasks(0, 7, 10, 3, 1) == 2
    assert count_block_tasks(100, 10**7, 10, 2**20, 1) == 1, "states that are more than a block's cells"
    assert lay_out_blocks(random_labels(3_000, 20, 3, 5 * LANE_LABELS, 1), one_lane=True).n_lanes == 1


def test_past_65_535_tasks_in_several_lanes() -> None:
    labels = random_labels(70_001, 50, 2, 90_000, 7)
    assert lay_out_blocks(labels).n_lanes == 4
    assert_passes_agree(labels, 7, random_gold(labels, 7))


def test_past_65_535_workers() -> None:
    labels = random_labels(5_000, 2**16 + 300, 2, 100_000, 8)
    assert labels.worker.max() > 2**16
    assert_passes_agree(labels, 8)


@pytest.mark.parametrize("n_labels", [LANE_LABELS - 1, 2 * LANE_LABELS, 5 * LANE_LABELS + 1, 20 * LANE_LABELS])
def test_lanes_are_cut_by_the_labels(n_labels: int) -> None:
    labels = random_labels(3_000, 20, 3, n_labels, n_labels)
    blocks = lay_out_blocks(labels)
    assert blocks.n_lanes == min(max(n_labels // LANE_LABELS, 1), MOST_LANES)
    assert blocks.lanes[0] == 0
    assert blocks.lanes[-1] == blocks.n_blocks
    assert (np.diff(blocks.lanes) >= 0).all()
    assert_passes_agree(labels, 9)


def test_a_task_that_has_nearly_all_labels() -> None:
    """Lanes may be left without work."""
    generator = np.random.default_rng(0)
    task = np.where(generator.random(90_000) < 0.99, 1, generator.integers(0, 50, 90_000))
    labels = CrowdLabels.from_codes(
        task, generator.integers(0, 9, task.size), generator.integers(0, 3, task.size),
        tasks=50, workers=9, classes=3, on_duplicate="all",
    )  # fmt: skip
    assert lay_out_blocks(labels).n_lanes == 4
    assert_passes_agree(labels, 10)


def test_layout_holds_every_edge_once_by_block_worker_and_label() -> None:
    labels = random_labels(5_000, 40, 5, 90_000, 11)
    blocks = lay_out_blocks(labels)
    block = np.repeat(np.arange(blocks.n_blocks), np.diff(blocks.ptr))
    task, worker = block * blocks.size + blocks.slot, blocks.row // 5
    np.testing.assert_array_equal(blocks.row % 5, blocks.label)
    assert (np.diff(block * 200 + blocks.row.astype(np.int64)) >= 0).all(), "by worker and label inside a block"
    place = np.lexsort((labels.label, labels.worker, labels.task // blocks.size))
    np.testing.assert_array_equal(task, labels.task[place])
    np.testing.assert_array_equal(worker, labels.worker[place])
    np.testing.assert_array_equal(blocks.label, labels.label[place])


@pytest.mark.parametrize("n_classes", [2, 5])
def test_same_bits_at_any_number_of_threads(n_classes: int) -> None:
    labels = random_labels(20_000, 300, n_classes, 130_000, 12)
    prior, table, bonus = random_parameters(labels, 12)
    gold = random_gold(labels, 12)
    results = []
    for threads in (1, 2, 5):
        with use_threads(threads):
            blocks, prepared = lay_out_blocks(labels), on("numba", labels)
            posterior = np.empty((labels.n_tasks, n_classes))
            one = prepared.e_step(prior, table, gold, posterior)
            two = prepared.e_step_votes(prior, bonus, gold)
            counts = prepared.accumulate(posterior).counts
            with use_engine("numba"):
                rows = log_rows(one.counts, np.full((1, n_classes, n_classes), 0.1))
        results.append([
            blocks.row, posterior, one.counts, one.class_counts, np.array(one.log_likelihood),
            two.counts, two.class_counts, np.array(two.log_likelihood), counts, rows,
        ])  # fmt: skip
    assert blocks.n_lanes > 3
    for other in results[1:]:
        for first, second in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(first, second)


def test_a_pass_leaves_its_inputs_and_earlier_results_alone() -> None:
    labels = random_labels(300, 8, 3, 45_000, 13)
    prepared = on("numba", labels)
    prior, table, bonus = random_parameters(labels, 13)
    before = prior.copy(), table.copy(), bonus.copy()
    first = prepared.e_step(prior, table)
    kept = first.counts.copy()
    prepared.e_step(prior, table * 2)
    prepared.e_step_votes(prior, bonus)
    prepared.accumulate(np.ones((300, 3)))
    np.testing.assert_array_equal(first.counts, kept)
    for given_, kept_ in zip((prior, table, bonus), before, strict=True):
        np.testing.assert_array_equal(given_, kept_)


@pytest.mark.parametrize(("n_tasks", "n_labels"), [(60, 400), (9_000, 90_000)])
@pytest.mark.parametrize("n_classes", [1, 2, 5, 200])
def test_posterior_variance(n_classes: int, n_tasks: int, n_labels: int) -> None:
    """Undecidedness q(1-q) over all labels of a worker, and over those that name the class."""
    labels = random_labels(n_tasks, 9, n_classes, n_labels, 14)
    posterior = np.random.default_rng(0).dirichlet(np.ones(n_classes), n_tasks)
    undecided = posterior * (1 - posterior)
    every, named = np.zeros((9, n_classes)), np.zeros((9, n_classes))
    np.add.at(every, labels.worker, undecided[labels.task])
    np.add.at(named, (labels.worker, labels.label), undecided[labels.task, labels.label])
    results = []
    for threads in (1, 3):
        with use_threads(threads):
            results.append(on("numba", labels).posterior_variance(posterior))
    plain = on("numpy", labels).posterior_variance(posterior)
    for found, again, said, expected in zip(*results, plain, (every, named), strict=True):
        np.testing.assert_allclose(found, expected, **TOLERANCE)
        np.testing.assert_allclose(said, expected, **TOLERANCE)
        np.testing.assert_array_equal(found, again)


@pytest.mark.parametrize("gold", [False, True])
@pytest.mark.parametrize(("n_classes", "n_tasks", "n_labels"), [(2, 60, 400), (5, 9_000, 90_000), (200, 60, 400)])
def test_accumulate_votes(n_classes: int, n_tasks: int, n_labels: int, gold: bool) -> None:
    labels = random_labels(n_tasks, 9, n_classes, n_labels, 15)
    known = np.random.default_rng(1).integers(-1, n_classes, n_tasks).astype(np.int32) if gold else NO_GOLD
    expected = on("numpy", labels).count_against_vote_shares(labels.class_shares, known)
    results = []
    for threads in (1, 3):
        with use_threads(threads):
            results.append(on("numba", labels).count_against_vote_shares(labels.class_shares, known))
    np.testing.assert_allclose(results[0].counts, expected.counts, **TOLERANCE)
    np.testing.assert_allclose(results[0].class_counts, expected.class_counts, **TOLERANCE)
    np.testing.assert_array_equal(results[0].counts, results[1].counts)


# ---- rows ------------------------------------------------------------------------------------------------


def plain_log_rows(counts: Any, pseudo: Any) -> Any:
    mass = counts + pseudo
    total = mass.sum(axis=2, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 0, np.log(mass / total), -np.log(counts.shape[1]))


@pytest.mark.parametrize("pseudo_workers", [1, 30])
@pytest.mark.parametrize("n_classes", [1, 2, 3, 17, 200])
def test_log_rows(n_classes: int, pseudo_workers: int) -> None:
    generator = np.random.default_rng(n_classes)
    counts = generator.gamma(0.5, 1, (30, n_classes, n_classes))
    counts[generator.random(counts.shape) < 0.4] = 0
    counts[3] = 0
    for pseudo in (
        np.zeros((pseudo_workers, n_classes, n_classes)),
        generator.gamma(1, 1, (pseudo_workers, n_classes, n_classes)),
    ):
        for name in ("numpy", "numba"):
            with use_engine(name):
                rows = log_rows(counts, pseudo)
            np.testing.assert_allclose(rows, plain_log_rows(counts, pseudo), rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(logsumexp(rows, axis=2), 0, atol=1e-12)


def test_a_row_of_nothing_is_uniform() -> None:
    for name in ("numpy", "numba"):
        with use_engine(name):
            rows = log_rows(np.zeros((1, 4, 4)), np.zeros((1, 4, 4)))
        np.testing.assert_array_equal(rows, np.full((1, 4, 4), -np.log(4)))


# ---- preparing -------------------------------------------------------------------------------------------


def test_labels_are_laid_out_once() -> None:
    labels = random_labels(60, 9, 4, 400, 16)
    with use_engine("numpy"):
        first = prepare(labels)
        assert prepare(labels) is first
        assert prepare(labels.keep(np.ones(400, bool))) is not first
    with use_engine("numba"):
        blocks = prepare(labels).blocks  # type: ignore[attr-defined]
        assert prepare(labels).blocks is blocks  # type: ignore[attr-defined]
        assert prepare(labels, 12).blocks is not blocks  # type: ignore[attr-defined]


def test_layouts_die_with_their_labels_and_are_not_pickled() -> None:
    labels = random_labels(60, 9, 4, 400, 17)
    plain = len(pickle.dumps(labels))
    before = len(engines._layouts)
    with use_engine("numba"):
        prepare(labels)
    assert len(engines._layouts) == before + 1
    assert len(pickle.dumps(labels)) == plain
    del labels
    gc.collect()
    assert len(engines._layouts) <= before


def test_an_engine_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match=r"no engine 'abacus'.*numba, numpy"), use_engine("abacus"):
        pass
