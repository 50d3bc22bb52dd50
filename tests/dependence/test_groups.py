"""Workers who err together: sums by brute force, groups found in simulated crowds, honest crowds left alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import adjusted_rand_score
from tests.conftest import tiny_labels

import crowdwise as cw
from crowdwise.audit.dependent_workers import find_dependence, screen_from_dependence
from crowdwise.dependence import excess_agreement as excess
from crowdwise.dependence.effective_size import effective_size
from crowdwise.dependence.groups import cluster_workers, draw_representatives, find_groups
from crowdwise.kernels.pair_agreement import IndependenceModel, copy_log_ratios, pair_sums, partner_sums
from crowdwise.labels import CrowdLabels
from crowdwise.simulate import simulate

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

pytestmark = pytest.mark.usefixtures("compiled")

NEEDS_DATA = [
    pytest.mark.data,
    pytest.mark.skipif(not os.environ.get("CROWDWISE_DATA"), reason="CROWDWISE_DATA is not set"),
]


def with_copies(n_workers: int, n_copies: int, *, seed: int = 0, n_tasks: int = 600, own: float = 0.0) -> CrowdLabels:
    """Everyone on everything; the first few repeat the first worker, but for a share of answers of their own."""
    generator = np.random.default_rng(seed)
    labels = simulate(
        "dawid-skene",
        n_tasks=n_tasks,
        n_workers=n_workers,
        n_classes=3,
        labels_per_task=None,
        skill=0.7,
        random_state=seed,
    ).labels
    answers = labels.label.reshape(n_tasks, n_workers).copy()
    for copy in range(1, n_copies):
        answers[:, copy] = np.where(generator.random(n_tasks) < own, answers[:, copy], answers[:, 0])
    return CrowdLabels.from_dense(answers)


def honest(seed: int) -> CrowdLabels:
    """Independent workers of any skill, some of them doing most, on tasks that may be hard for all or for novices."""
    generator = np.random.default_rng(seed)
    n_tasks, n_workers = int(generator.integers(60, 600)), int(generator.integers(5, 25))
    n_classes = int(generator.integers(2, 6))
    per_task = min(n_workers, int(generator.choice([3, 5, n_workers])))
    truth = generator.choice(n_classes, n_tasks, p=generator.dirichlet(np.full(n_classes, 5.0)))
    busy = np.log(generator.dirichlet(np.full(n_workers, 1.0)) + 1e-6) + generator.gumbel(size=(n_tasks, n_workers))
    worker = np.argsort(-busy, axis=1)[:, :per_task].ravel()
    task = np.repeat(np.arange(n_tasks), per_task)
    skill = generator.uniform(1 / n_classes + 0.1, 0.95, n_workers)[worker]
    hard = np.where(generator.random(n_tasks) < 0.3, 0.8, 0.0)[task]
    if seed % 3 == 0:
        hard *= (generator.random(n_workers) < 0.6)[worker]
    right = generator.random(task.size) < skill * (1 - hard) + hard / n_classes
    other = (truth[task] + generator.integers(1, n_classes, task.size)) % n_classes
    label = np.where(right, truth[task], other)
    return CrowdLabels.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes)


def as_partition(groups: IntArray) -> IntArray:
    """Each worker who is alone in a group of her own."""
    parts = groups.copy()
    alone = np.flatnonzero(groups < 0)
    parts[alone] = groups.max(initial=-1) + 1 + np.arange(alone.size)
    return parts


# ---- oracles ------------------------------------------------------------------------------------------------


def model_of(labels: CrowdLabels, groups: IntArray, seed: int) -> IndependenceModel:
    generator = np.random.default_rng(seed)
    n_classes = labels.n_classes
    table = generator.dirichlet(np.full(n_classes, 0.3), (labels.n_workers, n_classes)).transpose(0, 2, 1)
    prior = generator.dirichlet(np.ones(n_classes))
    representative = draw_representatives(labels, groups, generator)
    return IndependenceModel(
        labels.task_ptr, labels.worker, labels.label, representative, np.log(prior), np.ascontiguousarray(np.log(table))
    )


def joint_of(labels: CrowdLabels, model: IndependenceModel, one: int, two: int) -> FloatArray:
    """P(answers of both | other companies' model), K × K, and what the others think (K,) in its last row."""
    prior, table = np.exp(model.log_prior), np.exp(model.log_table)
    believed = prior.copy()
    for edge in range(labels.task_ptr[labels.task[one]], labels.task_ptr[labels.task[one] + 1]):
        if model.representative[edge] == edge and edge not in (model.representative[one], model.representative[two]):
            believed *= table[labels.worker[edge], labels.label[edge]]
    believed /= believed.sum()
    joint = np.einsum("k,ak,bk->ab", believed, table[labels.worker[one]], table[labels.worker[two]])
    return np.vstack([joint, believed])


@pytest.mark.parametrize(("n_classes", "seed"), [(2, 0), (3, 1), (4, 2)])
def test_sums_equal_those_made_pair_by_pair(n_classes: int, seed: int) -> None:
    labels = tiny_labels(n_classes, seed, n_tasks=30, n_workers=5)
    groups = np.array([0, 0, -1, 0, -1])
    model = model_of(labels, groups, seed)
    partners = np.random.default_rng(seed).random((5, 5)) < 0.5
    np.fill_diagonal(partners, False)
    sums, by_worker = np.zeros((7, 5, 5)), np.zeros((3, 5))
    for one in range(labels.n_labels):
        met = []
        for two in range(labels.task_ptr[labels.task[one]], labels.task_ptr[labels.task[one] + 1]):
            if one == two:
                continue
            *joint, believed = joint_of(labels, model, one, two)
            same, sure = float(np.trace(np.array(joint))), int(believed.argmax())
            a, b = labels.label[one], labels.label[two]
            cell = labels.worker[one], labels.worker[two]
            sums[(slice(0, 3), *cell)] += 1, a == b, same
            if believed[sure] > 0.9:
                off = np.delete(np.delete(np.array(joint), sure, 0), sure, 1)
                differ = sure not in (a, b)
                sums[(slice(3, 7), *cell)] += differ, off.sum(), differ and a == b, np.trace(off)
            if partners[cell]:
                met.append((a == b, same))
        if met:
            by_worker[:, labels.worker[one]] += 1, *np.mean(met, axis=0)
    everything, place = np.arange(labels.n_tasks), np.arange(5)
    assert sums[3].sum() > 0
    np.testing.assert_allclose(pair_sums(model, everything, place, 5), sums, atol=1e-10)
    np.testing.assert_allclose(partner_sums(model, everything, place, partners), by_worker, atol=1e-10)


def test_workers_left_out_have_a_say_but_no_row() -> None:
    labels = tiny_labels(3, 5, n_tasks=40, n_workers=5)
    model = model_of(labels, np.full(5, -1), 0)
    every = pair_sums(model, np.arange(40), np.arange(5), 5)
    some = pair_sums(model, np.arange(40), np.array([0, -1, 1, 2, -1]), 3)
    np.testing.assert_allclose(some, every[:, [0, 2, 3]][:, :, [0, 2, 3]])


def test_one_label_represents_each_group_on_each_task() -> None:
    labels = simulate("dawid-skene", n_tasks=50, n_workers=6, labels_per_task=4, random_state=0).labels
    groups = np.array([0, 0, 0, 1, 1, -1])
    representative = draw_representatives(labels, groups, np.random.default_rng(0))
    np.testing.assert_array_equal(labels.task[representative], labels.task)
    group = as_partition(groups)
    np.testing.assert_array_equal(group[labels.worker[representative]], group[labels.worker])
    np.testing.assert_array_equal(representative[representative], representative)
    pairs = set(zip(labels.task.tolist(), group[labels.worker].tolist(), strict=True))
    assert np.unique(representative).size == len(pairs)


def test_the_bound_lies_above_the_exact_tail() -> None:
    n, seen, rate = np.full(9, 50.0), np.arange(30.0, 48.0, 2.0), 0.5
    bound = excess.hoeffding_p_values(np.stack([n, seen, n * rate]), background=0.05)
    null = rate + (0.05 + excess.MARGIN) * (1 - rate)
    exact = stats.binom.sf(seen - 1, 50, null)
    assert (bound >= exact).all()
    assert (bound[-3:] < 1e-3).all()
    everything = excess.hoeffding_p_values(np.array([[20.0], [20.0], [10.0]]), background=0.0)
    np.testing.assert_allclose(everything, 0.55**20)


def test_clusters_by_hand() -> None:
    shared, expected = np.full((4, 4), 100.0), np.full((4, 4), 50.0)
    same = np.full((4, 4), 50.0)
    same[[0, 1, 2, 3], [1, 0, 3, 2]] = 90.0, 90.0, 80.0, 80.0
    sums = np.stack([shared, same, expected])
    assert [part.tolist() for part in excess.cluster_agreeing_workers(sums, np.arange(4), 0.0)] == [[0, 1], [2, 3]]
    assert [part.tolist() for part in excess.cluster_agreeing_workers(sums, np.arange(4), 0.5)] == [[0, 1]]
    assert excess.cluster_agreeing_workers(sums, np.array([0, 2]), 0.0) == []


# ---- power ------------------------------------------------------------------------------------------------


def test_the_groups_of_the_tutorial_are_found() -> None:
    """N = 5,000, M = 40, K = 3, J = 5: the bar is an adjusted Rand index of .9."""
    crowd = simulate("groups", random_state=0)
    assert crowd.groups is not None
    found = find_groups(crowd.labels, level=0.05, random_state=0)
    assert found is not None
    assert adjusted_rand_score(crowd.groups, as_partition(found.groups)) >= 0.9
    screen = screen_from_dependence(crowd.labels, found)
    assert len(screen.findings) == 5
    for finding in screen.findings:
        members = crowd.groups[list(finding.names)]
        assert (members == members[0]).mean() > 0.9
        assert finding.p_value < 1e-6
        assert 0.2 < finding.score <= 1


@pytest.mark.parametrize("seed", [2, 3])
def test_groups_that_share_few_tasks_are_found_too(seed: int) -> None:
    crowd = simulate("groups", labels_per_task=10, random_state=seed)
    assert crowd.groups is not None
    found = find_groups(crowd.labels, level=0.05, random_state=0)
    assert found is not None
    assert adjusted_rand_score(crowd.groups, as_partition(found.groups)) >= 0.9


@pytest.mark.parametrize(("n_workers", "n_copies"), [(6, 2), (8, 3), (14, 8), (20, 8), (20, 2)])
@pytest.mark.parametrize("own", [0.0, 0.3])
def test_copies_are_found_and_nobody_else(n_workers: int, n_copies: int, own: float) -> None:
    screen = find_dependence(with_copies(n_workers, n_copies, own=own, n_tasks=1000))
    assert [sorted(finding.names) for finding in screen.findings] == [list(range(n_copies))]
    assert (screen.score[:n_copies] > (0.4 if own else 0.99)).all()
    assert (screen.score[n_copies:] == 0).all()
    assert screen.findings[0].p_value <= 0.05


def test_a_given_number_of_groups() -> None:
    crowd = simulate("groups", n_tasks=1000, random_state=4)
    assert crowd.groups is not None
    groups = cluster_workers(crowd.labels, 5, random_state=0)
    assert adjusted_rand_score(crowd.groups, as_partition(groups)) >= 0.9
    assert cluster_workers(crowd.labels, 40, random_state=0).max() == -1


# ---- the innocent ------------------------------------------------------------------------------------------------


def test_honest_crowds_are_left_alone() -> None:
    """At level .05 and 40 crowds, more than 5 would have a chance of 1 in 70 if the level were just kept."""
    flagged = [seed for seed in range(40) if find_dependence(honest(seed)).findings]
    assert len(flagged) <= 2, flagged


def test_the_level_is_what_decides() -> None:
    labels = with_copies(12, 2, own=0.5, n_tasks=400, seed=7)
    found = find_dependence(labels, level=0.05)
    assert found.findings
    assert 1e-9 < found.findings[0].p_value < 0.05
    assert not find_dependence(labels, level=1e-9).findings


# ---- copies -------------------------------------------------------------------------------------------------


def planted_copy(n_shared: int, seed: int, skill: float = 0.65) -> CrowdLabels:
    """Forty workers, five a task; worker 40 repeats what worker 0 said on some tasks."""
    labels = simulate("dawid-skene", n_tasks=1000, n_workers=40, n_classes=4, skill=skill, random_state=seed).labels
    copied = np.flatnonzero(labels.worker == 0)[:n_shared]
    task, worker, label = (
        np.concatenate([codes, more])
        for codes, more in (
            (labels.task, labels.task[copied]),
            (labels.worker, np.full(copied.size, 40)),
            (labels.label, labels.label[copied]),
        )
    )
    return CrowdLabels.from_codes(task, worker, label, tasks=1000, workers=41, classes=4)


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_of_fifty_answers_is_found_with_its_source(seed: int) -> None:
    found = find_dependence(planted_copy(50, seed), level=0.05 / 3)
    assert [finding.names for finding in found.findings] == [(0, 40)]
    assert "give the same answers" in found.findings[0].verdict


def test_the_likelihood_ratio_of_copies_against_its_formula() -> None:
    labels = tiny_labels(3, 0, n_tasks=25, n_workers=4)
    model = model_of(labels, np.full(4, -1), 0)
    copied, usual = np.array([0.5, 0.9]), 0.2
    found = copy_log_ratios(model, np.arange(25), np.arange(4), 4, copied, usual)
    expected = np.zeros((2, 4, 4))
    for one in range(labels.n_labels):
        for two in range(labels.task_ptr[labels.task[one]], labels.task_ptr[labels.task[one] + 1]):
            if one == two:
                continue
            joint = joint_of(labels, model, one, two)[:-1]
            answer = labels.label[one]
            chance = joint[answer, answer] / joint[answer].sum()
            same = labels.label[two] == answer
            ratio = (copied + (1 - copied) * chance) / (usual + (1 - usual) * chance)
            cell = expected[:, labels.worker[one], labels.worker[two]]
            cell += np.log(ratio if same else (1 - copied) / (1 - usual))
    assert found == pytest.approx(expected)


def test_answers_that_are_repeated_are_no_further_evidence_of_copying() -> None:
    labels = planted_copy(50, 0)
    twice = CrowdLabels.from_codes(
        *(np.tile(codes, 2) for codes in (labels.task, labels.worker, labels.label)),
        tasks=1000, workers=41, classes=4, on_duplicate="all",
    )  # fmt: skip
    found = []
    for each in (labels, twice):
        table = np.log(np.tile(0.6 * np.eye(4) + 0.1, (41, 1, 1)))
        # Each worker speaks once for every task, with the first of their edges.
        key = each.task.astype(np.int64) * 41 + each.worker
        _, first, place = np.unique(key, return_index=True, return_inverse=True)
        representative = first[place]
        model = IndependenceModel(
            each.task_ptr, each.worker, each.label, representative, np.log(np.full(4, 0.25)), table
        )
        found.append(copy_log_ratios(model, np.arange(1000), np.arange(41), 41, np.array([0.9]), 0.1))
    assert found[0] == pytest.approx(found[1])


def test_the_mean_ratio_of_independent_workers_is_at_most_one() -> None:
    """An e-value: with the true model, and nothing but the truth to join two workers."""
    generator = np.random.default_rng(0)
    table = np.array([[0.8, 0.3], [0.2, 0.7]])  # [label, truth]
    log_table = np.log(np.tile(table, (4, 1, 1)))
    ratios = []
    for _ in range(400):
        truth = generator.integers(0, 2, 15)
        answers = (generator.random((15, 4)) < table[1, truth][:, None]).astype(int)
        labels = CrowdLabels.from_dense(answers, classes=[0, 1])
        model = IndependenceModel(
            labels.task_ptr, labels.worker, labels.label, np.arange(60), np.log([0.5, 0.5]), log_table
        )
        ratios.append(np.exp(copy_log_ratios(model, np.arange(15), np.arange(4), 4, np.array([0.5]), 0.1)[0, 0, 1]))
    assert np.mean(ratios) < 1.1


def test_experts_who_are_nearly_always_right_are_no_copies() -> None:
    flagged = 0
    for seed in range(15):
        labels = simulate(
            "dawid-skene", n_tasks=200, n_workers=15, n_classes=3, labels_per_task=None, skill=0.97, random_state=seed
        ).labels
        flagged += bool(find_dependence(labels).findings)
    assert flagged <= 1


def copies_among_few_labels(seed: int) -> CrowdLabels:
    """Forty workers, 1.5 labels a task; workers 40 to 42 repeat all of worker 0's answers, and outvote others."""
    rng = np.random.default_rng(seed)
    task = np.concatenate([np.arange(1400), rng.choice(1400, 700, replace=False)])
    worker = np.concatenate([np.arange(1400) % 40, rng.integers(0, 40, 700)])
    truth = rng.integers(0, 8, 1400)
    label = np.where(rng.random(task.size) < 0.65, truth[task], rng.integers(0, 8, task.size))
    edges = np.unique(np.stack([task, worker]), axis=1, return_index=True)[1]
    task, worker, label = task[edges], worker[edges], label[edges]
    mine = np.flatnonzero(worker == 0)
    task, label = (np.concatenate([codes, *[codes[mine]] * 3]) for codes in (task, label))
    worker = np.concatenate([worker, *(np.full(mine.size, copy) for copy in (40, 41, 42))])
    return CrowdLabels.from_codes(task, worker, label, tasks=1400, workers=43, classes=8)


@pytest.mark.parametrize("seed", range(3))
def test_copies_are_found_where_they_outvote_the_others(seed: int) -> None:
    found = find_dependence(copies_among_few_labels(seed), level=0.01)
    assert [finding.names for finding in found.findings] == [(0, 40, 41, 42)]


def experts_in_batches(seed: int) -> CrowdLabels:
    """Twelve batches of fifty tasks, each done by two workers of its own; half of all are nearly always right."""
    rng = np.random.default_rng(seed)
    skill = np.where(rng.random(24) < 0.5, rng.uniform(0.94, 0.99, 24), rng.uniform(0.45, 0.7, 24))
    task = np.repeat(np.arange(600), 2)
    worker = rng.permutation(24)[2 * (task // 50) + np.arange(task.size) % 2]
    truth = rng.integers(0, 2, 600)
    label = np.where(rng.random(task.size) < skill[worker], truth[task], rng.integers(0, 2, task.size))
    return CrowdLabels.from_codes(task, worker, label, tasks=600, workers=24, classes=2)


def test_experts_who_did_the_same_batch_are_no_copies() -> None:
    assert sum(bool(find_dependence(experts_in_batches(seed), level=0.01).findings) for seed in range(12)) <= 1


# ---- edges ------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_answer() -> None:
    labels = with_copies(12, 3, own=0.5)
    one, two = find_dependence(labels, random_state=3), find_dependence(labels, random_state=3)
    assert one.findings == two.findings
    np.testing.assert_array_equal(one.p_value, two.p_value)


def test_hostile_names_go_through() -> None:
    names = ["<script>alert(1)</script>", "{worker}", "%s", "a\nb", "-", "'; DROP TABLE", "é", "0"]
    answers = with_copies(8, 3)
    labels = CrowdLabels.from_codes(
        answers.task, answers.worker, answers.label, tasks=answers.n_tasks, workers=names, classes=["{}", "%d", "<b>"]
    )
    (finding,) = find_dependence(labels).findings
    assert finding.names == tuple(sorted(names[:3]))
    assert "{" not in finding.evidence


def test_the_words_hold_the_numbers() -> None:
    labels = with_copies(20, 5, own=0.3, n_tasks=1000)
    (finding,) = find_dependence(labels).findings
    answers = labels.label.reshape(1000, 20)[:, :5]
    pairs = [(answers[:, one] == answers[:, two]).mean() for one in range(5) for two in range(one)]
    assert f"same answer to {np.mean(pairs):.0%} of the tasks" in finding.evidence
    assert "both got wrong" in finding.evidence
    assert finding.verdict == "5 workers err together"
    assert "group-dawid-skene" in finding.advice


@pytest.mark.parametrize(
    "labels",
    [
        CrowdLabels.from_codes([], [], [], tasks=3, workers=3, classes=2),
        CrowdLabels.from_codes([0, 0], [0, 1], [0, 0], tasks=1, workers=2, classes=1),
        CrowdLabels.from_codes(np.arange(200), np.arange(200) % 8, np.arange(200) % 2, tasks=200, workers=8, classes=2),
        with_copies(4, 2),
        with_copies(10, 2, n_tasks=10),
    ],
    ids=["empty", "one class", "one label a task", "four workers", "ten tasks"],
)
def test_where_it_cannot_apply_it_says_so(labels: CrowdLabels) -> None:
    screen = find_dependence(labels)
    assert "at least 5 workers" in screen.skipped
    assert not screen.findings


@pytest.mark.parametrize("label", [np.zeros(500, int), np.arange(500) // 5 % 3])
def test_crowds_that_never_disagree(label: IntArray) -> None:
    task, worker = np.repeat(np.arange(100), 5), np.tile(np.arange(5), 100)
    labels = CrowdLabels.from_codes(task, worker, label, tasks=100, workers=5, classes=3)
    screen = find_dependence(labels)
    assert not screen.findings
    assert not screen.skipped


def test_repeated_answers_do_not_make_a_pair() -> None:
    answers = with_copies(8, 1, n_tasks=100)
    twice = CrowdLabels.from_codes(
        np.repeat(answers.task, 2), np.repeat(answers.worker, 2), np.repeat(answers.label, 2),
        tasks=100, workers=8, classes=3, on_duplicate="all",
    )  # fmt: skip
    screen = find_dependence(twice)
    assert not screen.skipped


@pytest.mark.parametrize("level", [0, -1, 2, "x", float("nan")])
def test_levels_that_are_none(level: Any) -> None:
    with pytest.raises(cw.InputError, match="level is"):
        find_dependence(with_copies(6, 2), level=level)


# ---- real crowds ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [pytest.param(name, marks=NEEDS_DATA) for name in ("bluebird", "rte", "dog")])
def test_real_crowds_without_known_groups(name: str) -> None:
    screen = find_dependence(cw.datasets.load(name).labels)
    assert not screen.skipped
    assert not screen.findings


@pytest.mark.parametrize(
    ("labels", "given", "message"),
    [
        (5, {}, "not something labels can be read from"),
        (tiny_labels(2, 0), {"level": "x"}, "level is 'x'"),
        (tiny_labels(2, 0), {"random_state": -1}, "random_state is -1"),
    ],
)
def test_strange_arguments_are_refused(labels: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(cw.InputError, match=message):
        find_groups(labels, **({"level": 0.05, "random_state": 0} | given))
    with pytest.raises(cw.InputError, match=message):
        effective_size(labels, **given)
