"""Moment methods with full confusion matrices: no error on exact moments, objectives by plain loops, shared parts."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from tests.conftest import tiny_labels

import crowdwise as cw
from crowdwise.aggregate import cnmf, coupled_cpd, multi_spa, spectral, sym_nmf
from crowdwise.engines import prepare
from crowdwise.fitting import moment_method_steps
from crowdwise.fitting.prior_knowledge import PriorKnowledge
from crowdwise.kernels import NO_GOLD, PairCounts, pair_counts
from crowdwise.labels import CrowdLabels, InputError
from crowdwise.registry import method

MOMENT_METHODS = ["multi-spa", "cnmf", "spectral", "sym-nmf", "coupled-cpd"]


def crowd_of_experts(n_classes: int, n_workers: int, seed: int) -> tuple[Any, Any]:
    """Prior, and matrices [worker, truth, label] of which the first 2K name a class each only when it is true."""
    generator = np.random.default_rng(seed)
    prior = generator.dirichlet(np.full(n_classes, 5.0))
    confusion = generator.dirichlet(np.ones(n_classes), (n_workers, n_classes)) + 2 * np.eye(n_classes)
    for expert in range(2 * n_classes):
        named = expert % n_classes
        confusion[expert, :, named] *= np.arange(n_classes) == named
    return prior, confusion / confusion.sum(axis=2, keepdims=True)


def exact_pairs(prior: Any, confusion: Any, left_out: Any = ()) -> PairCounts:
    kept = [pair for pair in combinations(range(len(confusion)), 2) if pair not in left_out]
    counts = [confusion[one].T @ np.diag(prior) @ confusion[two] for one, two in kept]
    first, second = np.array(kept).T
    return PairCounts(first, second, np.array(counts))


def blurred(confusion: Any, seed: int = 0) -> Any:
    """A reference that is like the truth, as the confusions against the majority vote are."""
    n_classes = confusion.shape[1]
    noise = np.random.default_rng(seed).dirichlet(np.ones(n_classes), (len(confusion), n_classes))
    return 0.6 * confusion + 0.4 * noise


@pytest.mark.parametrize(("n_classes", "n_workers"), [(2, 5), (3, 7), (5, 12)])
def test_multi_spa_has_no_error_on_exact_moments(n_classes: int, n_workers: int) -> None:
    prior, confusion = crowd_of_experts(n_classes, n_workers, seed=n_classes)
    pairs = exact_pairs(prior, confusion, left_out=[(0, n_workers - 1)])
    found, whose = multi_spa.matrices_from_corners(pairs, blurred(confusion), draw=0.0)
    assert whose.all()
    np.testing.assert_allclose(found, confusion, atol=1e-9)
    np.testing.assert_allclose(moment_method_steps.estimate_prior_from_pairs(pairs, confusion), prior, atol=1e-9)


@pytest.mark.parametrize(("n_classes", "n_workers"), [(2, 5), (3, 7), (4, 9)])
def test_cnmf_finds_the_truth_from_exact_moments(n_classes: int, n_workers: int) -> None:
    """Error at the updates' own tolerance, from a start 0.2 and more away; one pair never met."""
    prior, confusion = crowd_of_experts(n_classes, n_workers, seed=n_classes)
    pairs = exact_pairs(prior, confusion, left_out=[(0, n_workers - 1)])
    first = cnmf.Factors(np.full(n_classes, 1 / n_classes), blurred(confusion))
    assert np.abs(first.confusion - confusion).max() > 0.2
    found = cnmf.update_factors(pairs, first, fixed=False, max_iter=5000, tol=0.0, name="cnmf").parameters
    np.testing.assert_allclose(found.confusion, confusion, atol=1e-6)
    np.testing.assert_allclose(found.prior, prior, atol=1e-6)


def test_divergence_of_cnmf_is_the_plain_formula() -> None:
    labels = tiny_labels(3, 5, n_tasks=60, n_workers=5)
    pairs = pair_counts(labels)
    generator = np.random.default_rng(1)
    factors = cnmf.Factors(generator.dirichlet(np.ones(3)), generator.dirichlet(np.ones(3), (5, 3)))
    expected = 0.0
    for one, two, joint in zip(pairs.first, pairs.second, pairs.counts, strict=True):
        model = factors.confusion[one].T @ np.diag(factors.prior) @ factors.confusion[two]
        for seen, law in zip((joint / joint.sum()).ravel(), model.ravel(), strict=True):
            expected += joint.sum() * seen * np.log(seen / law) if seen else 0.0
    assert cnmf.kl_divergence(pairs, factors) == pytest.approx(expected, rel=1e-12)
    ended = cnmf.update_factors(pairs, factors, fixed=True, max_iter=1, tol=0.0, name="cnmf")
    assert ended.objective[0] == pytest.approx(-expected, rel=1e-12)


def test_objectives_of_the_papers_count_pairs_and_triplets_alike() -> None:
    """Each pair's divergence, and each triplet's error, once, however many tasks they share."""
    labels = tiny_labels(2, 6, n_tasks=400, n_workers=4)
    labels = labels.keep((labels.worker != 3) | (labels.task < 250))  # the last worker shares fewer
    known = PriorKnowledge()
    start = moment_method_steps.starting_counts(labels, prepare(labels), known)
    core = moment_method_steps.gather_core_answers(labels, known, start, 500)
    assert core is not None
    assert core.workers.size == 4
    first, divergences = cnmf.starting_factors(core, None), []
    for pair in range(core.pairs.first.size):
        seen = core.pairs.counts[pair] / core.pairs.counts[pair].sum()
        one, two = first.confusion[core.pairs.first[pair]], first.confusion[core.pairs.second[pair]]
        divergences.append(float((seen * np.log(seen / (one.T @ np.diag(first.prior) @ two))).sum()))
    assert np.ptp(core.pairs.n_shared_tasks) > 20
    equal = cw.CoupledNmf(weighting="equal", max_iter=1, tol=0.0).fit(labels)
    assert equal.objective_[0] == pytest.approx(-np.sum(divergences), rel=1e-9)
    weighted = cw.CoupledNmf(max_iter=1, tol=0.0).fit(labels)
    assert weighted.objective_[0] == pytest.approx(-(core.pairs.n_shared_tasks @ divergences), rel=1e-9)

    chosen = coupled_cpd.count_triplets(labels, core, 20)
    assert chosen is not None
    triples, reference = chosen[0], core.reference
    assert np.ptp(triples.weight) > 0.01
    prior = moment_method_steps.estimate_prior_from_pairs(core.pairs, reference)
    errors = [
        np.square(share - np.einsum("k,ka,kb,kc->abc", prior, *reference[workers])).sum()
        for workers, share in zip(triples.workers, triples.share, strict=True)
    ]
    alike = cw.CoupledCpd(weighting="equal", max_iter=1, tol=0.0).fit(labels)
    assert alike.objective_[0] == pytest.approx(-np.mean(errors), rel=1e-9)
    by_tasks = cw.CoupledCpd(max_iter=1, tol=0.0).fit(labels)
    assert by_tasks.objective_[0] == pytest.approx(-np.average(errors, weights=triples.weight), rel=1e-9)


def test_cnmf_keeps_a_given_prior_and_finds_matrices_that_fit_it() -> None:
    """Two classes: pairs leave the prior open, and a given one decides."""
    confusion = np.array([[[0.8, 0.2], [0.3, 0.7]]] * 3 + [[[0.9, 0.1], [0.2, 0.8]]] * 3)
    labels = cw.simulate.simulate_workers(confusion, 20_000, prior=[0.3, 0.7], random_state=0).labels
    model = cw.CoupledNmf(tol=0.0, max_iter=300).fit(labels, class_prior=[0.3, 0.7])
    np.testing.assert_allclose(model.confusion_, confusion, atol=0.03)


def three_views(n_classes: int) -> tuple[Any, Any, spectral.CrossMoments]:
    """Prior, matrices [view, truth, label] with no experts among them, and their exact cross-moments by plain loops."""
    generator = np.random.default_rng(n_classes)
    prior = generator.dirichlet(np.full(n_classes, 5.0))
    rows = generator.dirichlet(np.ones(n_classes), (3, n_classes)) + 1.5 * np.eye(n_classes)
    views = rows / rows.sum(axis=2, keepdims=True)
    second = {(one, two): np.zeros((n_classes, n_classes)) for one, two in combinations(range(3), 2)}
    third = np.zeros((n_classes,) * 3)
    for share, a, b, c in zip(prior, *views, strict=True):
        for one, two in second:
            second[one, two] += share * np.outer((a, b, c)[one], (a, b, c)[two])
        third += share * a[:, None, None] * b[:, None] * c
    return prior, views, spectral.CrossMoments(second[0, 1], second[0, 2], second[1, 2], third)


@pytest.mark.parametrize("n_classes", [2, 3, 5, 8])
def test_spectral_has_no_error_on_exact_moments(n_classes: int) -> None:
    prior, views, exact = three_views(n_classes)
    found = spectral.estimate_third_view(exact)
    assert found is not None
    matrix = found[1].T
    order = moment_method_steps.find_common_row_order(matrix[None], views[2][None])
    np.testing.assert_allclose(matrix[order], views[2], atol=1e-9)
    np.testing.assert_allclose(found[0][order], prior, atol=1e-9)
    worker = np.random.default_rng(9).dirichlet(np.ones(n_classes), n_classes)
    beside = np.stack([7.0 * view.T @ np.diag(prior) @ worker for view in views])[:, None]
    for group in range(3):
        matrices = spectral.estimate_worker_matrices(beside, np.array([group]), prior, views)
        assert matrices is not None
        np.testing.assert_allclose(matrices[0], worker, atol=1e-9)


def test_singular_moments_are_refused() -> None:
    _, _, exact = three_views(3)
    flat = np.ones((3, 3)) / 9
    assert spectral.estimate_third_view(exact._replace(ab=flat)) is None
    assert spectral.estimate_third_view(spectral.CrossMoments(flat, flat, flat, np.ones((3, 3, 3)) / 27)) is None


def test_moments_of_views_equal_plain_loops() -> None:
    labels = cw.simulate.simulate(
        "dawid-skene", n_tasks=150, n_workers=7, n_classes=2, labels_per_task=4, random_state=4
    ).labels
    group = spectral.deal_into_three_groups(np.array([3, 1, 0, 2, 6, 5, 4]))
    assert group.tolist() == [2, 1, 2, 0, 0, 0, 1]
    views = spectral.group_views(labels, group, np.arange(2))
    answers: dict[tuple[int, int], list[int]] = {}
    for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
        answers.setdefault((int(group[worker]), int(task)), []).append(int(label))
    ab, abc = [], []
    for task in range(150):
        said = [answers.get((one, task)) for one in range(3)]
        means = [None if one is None else np.bincount(one, minlength=2) / len(one) for one in said]
        if means[0] is not None and means[1] is not None:
            ab.append(np.outer(means[0], means[1]))
            if means[2] is not None:
                abc.append(np.einsum("a,b,c->abc", *means))
    found = spectral.cross_moments(*views)
    assert found is not None
    assert 0 < len(abc) < len(ab) < 150
    np.testing.assert_allclose(found.ab, np.mean(ab, axis=0), atol=1e-12)
    np.testing.assert_allclose(found.abc, np.mean(abc, axis=0), atol=1e-12)


@pytest.mark.parametrize(("n_classes", "n_workers"), [(2, 5), (3, 7), (4, 9)])
def test_sym_nmf_finds_the_truth_from_exact_moments(n_classes: int, n_workers: int) -> None:
    """Two blocks are missing besides the diagonal ones; the error is that of the rotation."""
    prior, confusion = crowd_of_experts(n_classes, n_workers, seed=n_classes)
    pairs = exact_pairs(prior, confusion, left_out=[(0, n_workers - 1), (1, 2)])
    reference = blurred(confusion)
    seen = sym_nmf.collect_observed_blocks(pairs, n_workers)
    ended = sym_nmf.fit_factor(
        seen,
        reference.transpose(0, 2, 1) * np.sqrt(prior[::-1]),
        hold=0.0,
        max_iter=500,
        tol=0.0,
        name="sym-nmf",
    )
    whole = ended.parameters.reshape(-1, n_classes)
    stacked = confusion.transpose(0, 2, 1).reshape(-1, n_classes)
    np.testing.assert_allclose(whole @ whole.T, stacked * prior @ stacked.T, atol=1e-9)
    found_prior, found = sym_nmf.confusion_from_factor(pairs, ended.parameters, reference)
    np.testing.assert_allclose(found, confusion, atol=1e-6)
    np.testing.assert_allclose(found_prior, prior, atol=1e-6)


def test_objective_of_sym_nmf_is_the_plain_formula_and_a_sweep_is_at_its_least() -> None:
    pairs = pair_counts(tiny_labels(3, 6, n_tasks=60, n_workers=5))
    generator = np.random.default_rng(2)
    first, factor = generator.random((2, 5, 3, 3))

    def plain(factor: Any) -> float:
        error = 0.01 * ((factor - first) ** 2).sum()
        for one, two, joint in zip(pairs.first, pairs.second, pairs.counts, strict=True):
            left = joint / joint.sum() - factor[one] @ factor[two].T
            error += joint.sum() / pairs.counts.sum() * (left**2).sum()
        return float(error)

    seen = sym_nmf.collect_observed_blocks(pairs, 5)
    ended = sym_nmf.fit_factor(seen, first, hold=0.01, max_iter=3, tol=0.0, name="sym-nmf")
    assert ended.objective[-1] == pytest.approx(-plain(ended.parameters), rel=1e-12)
    assert sym_nmf.squared_error(seen, first) == pytest.approx(plain(first), rel=1e-12)
    swept = sym_nmf.sweep_factors(seen, factor, first, 0.01)
    for _ in range(20):
        other = swept.copy()
        other[4] += generator.normal(0, 1e-3, (3, 3))  # the last worker of a sweep: her factor fits all the others
        assert plain(other) > plain(swept)


@pytest.mark.parametrize(("n_classes", "n_workers"), [(2, 5), (3, 7), (4, 9)])
def test_coupled_cpd_finds_the_truth_from_exact_moments(n_classes: int, n_workers: int) -> None:
    """Without class experts, and with a third of the triplets; the error is that of 300 rounds."""
    generator = np.random.default_rng(n_classes)
    prior = generator.dirichlet(np.full(n_classes, 5.0))
    rows = generator.dirichlet(np.ones(n_classes), (n_workers, n_classes)) + 1.5 * np.eye(n_classes)
    confusion = rows / rows.sum(axis=2, keepdims=True)
    workers = np.array(list(combinations(range(n_workers), 3)))[::3].copy()
    assert np.unique(workers).size == n_workers
    share = np.array([np.einsum("k,ka,kb,kc->abc", prior, *confusion[triple]) for triple in workers])
    triples = coupled_cpd.Triples(workers, share, np.full(len(workers), 1 / len(workers)))
    first = coupled_cpd.Factors(np.full(n_classes, 1 / n_classes), blurred(confusion))
    found = coupled_cpd.fit_triplets(triples, first, fixed=False, max_iter=600, tol=0.0, name="cpd").parameters
    np.testing.assert_allclose(found.confusion, confusion, atol=1e-6)
    np.testing.assert_allclose(found.prior, prior, atol=1e-6)


def test_triplets_that_share_most_are_chosen() -> None:
    labels = cw.simulate.simulate(
        "dawid-skene", n_tasks=60, n_workers=6, n_classes=2, labels_per_task=3, random_state=7
    ).labels
    tasks = [set(labels.task[labels.worker == worker].tolist()) for worker in range(6)]
    expected = set()
    for worker in range(6):
        mine = [triple for triple in combinations(range(6), 3) if worker in triple]
        least = {triple: min(len(tasks[a] & tasks[b]) for a, b in combinations(triple, 2)) for triple in mine}
        threshold = sorted(least.values(), reverse=True)[2]
        expected |= {triple for triple in mine if least[triple] > threshold}
    chosen = {tuple(triple) for triple in coupled_cpd.choose_triplets(pair_counts(labels), 6, 3).tolist()}
    assert expected <= chosen
    assert all(sum(worker in triple for triple in chosen) >= 3 for worker in range(6))
    assert len(chosen) <= 18


def test_pairs_that_share_enough_may_make_triplets_that_do_not() -> None:
    """Each worker has 250 answers beside one other but few beside two: cnmf searches, coupled-cpd takes the vote."""
    labels = cw.simulate.simulate(
        "dawid-skene", n_tasks=500, n_workers=40, n_classes=4, labels_per_task=5, random_state=1
    ).labels
    assert cw.CoupledNmf().fit(labels).n_iter_ > 1
    model = cw.CoupledCpd().fit(labels)
    assert model.n_iter_ == 1
    votes = labels.vote_counts()
    np.testing.assert_allclose(model.confusion_, m_step(labels, votes / votes.sum(axis=1, keepdims=True)), atol=1e-5)


def test_corners_of_a_cloud_are_found_and_flat_clouds_refused() -> None:
    generator = np.random.default_rng(0)
    vertices = np.array([[0.8, 0.1, 0.2], [0.1, 0.7, 0.2], [0.1, 0.2, 0.6]])
    inside = vertices @ generator.dirichlet(np.ones(3), 40).T
    cloud = np.concatenate([inside[:, :20], vertices, inside[:, 20:]], axis=1)
    chosen = multi_spa.find_corners(cloud, 3)
    assert chosen is not None
    assert sorted(chosen.tolist()) == [20, 21, 22]
    assert multi_spa.find_corners(vertices[:, [0, 0, 1, 1]], 3) is None


def test_columns_of_joint_answers() -> None:
    joint = np.array([[[3.0, 1.0], [0.0, 4.0]], [[2.0, 0.0], [2.0, 0.0]]])
    np.testing.assert_allclose(multi_spa.stack_joint_answers(joint, 0.0), [[1.0, 0.2, 0.5], [0.0, 0.8, 0.5]])
    own = np.array([6.0, 6.0]) / 12
    np.testing.assert_allclose(multi_spa.stack_joint_answers(joint, 5.0)[:, 0], (np.array([3.0, 0.0]) + 5 * own) / 8)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_rows_are_matched_with_the_reference(n_classes: int) -> None:
    """The permutation of the largest total score, by going through all of them."""
    generator = np.random.default_rng(n_classes)
    found = generator.dirichlet(np.ones(n_classes), (4, n_classes))
    reference = generator.dirichlet(np.ones(n_classes), (4, n_classes))
    orders = [list(order) for order in permutations(range(n_classes))]
    best = max(orders, key=lambda order: (found[:, order] * reference).sum())
    assert moment_method_steps.find_common_row_order(found, reference).tolist() == best
    for mine, hers, matched in zip(
        found, reference, moment_method_steps.align_rows_of_each(found, reference), strict=True
    ):
        order = max(orders, key=lambda order: (mine[order] * hers).sum())
        np.testing.assert_array_equal(matched, mine[order])


def test_prior_of_pairs_is_the_least_squares_fit() -> None:
    """Against least squares over all cells of all pairs, on pairs that no prior explains."""
    generator = np.random.default_rng(3)
    confusion = generator.dirichlet(np.ones(3), (5, 3))
    pairs = exact_pairs(np.array([0.2, 0.3, 0.5]), confusion)
    noisy = PairCounts(pairs.first, pairs.second, pairs.counts + generator.random(pairs.counts.shape) / 50)
    rows, targets = [], []
    for a, b, joint in zip(noisy.first, noisy.second, noisy.counts, strict=True):
        for one in range(3):
            for two in range(3):
                weight = np.sqrt(joint.sum())
                rows.append(weight * confusion[a][:, one] * confusion[b][:, two])
                targets.append(weight * joint[one, two] / joint.sum())
    best = np.linalg.lstsq(np.array(rows), np.array(targets), rcond=None)[0]
    assert (best > 0).all()
    np.testing.assert_allclose(
        moment_method_steps.estimate_prior_from_pairs(noisy, confusion), best / best.sum(), atol=1e-10
    )


def test_the_core_is_those_who_answer_beside_others() -> None:
    labels = cw.simulate.simulate(
        "dawid-skene", n_tasks=200, n_workers=9, n_classes=3, labels_per_task=4, random_state=5
    ).labels
    beside = [
        sum(int((labels.task == task).sum()) - 1 for task in labels.task[labels.worker == worker])
        for worker in range(9)
    ]
    order, counted = moment_method_steps.rank_workers_by_shared_answers(labels, NO_GOLD)
    np.testing.assert_array_equal(counted, beside)
    assert np.array(beside)[order].tolist() == sorted(beside, reverse=True)


def test_workers_outside_the_core_get_an_m_step() -> None:
    """Three of eight workers are estimated; the matrices of the rest are expected answers with one of the crowd's."""
    labels = cw.simulate.simulate(
        "dawid-skene", n_tasks=300, n_workers=8, n_classes=3, labels_per_task=5, random_state=2
    ).labels
    model = cw.MultiSpa(max_workers=3).fit(labels)
    core = moment_method_steps.rank_workers_by_shared_answers(labels, NO_GOLD)[0][:3]
    others = np.setdiff1d(np.arange(8), core)
    votes = labels.vote_counts()
    shares = votes / votes.sum(axis=1, keepdims=True)
    confusion = m_step(labels, shares)
    confusion[core] = model.confusion_[core]
    expected = m_step(labels, posterior_of(labels, model.prior_, confusion))
    np.testing.assert_allclose(model.confusion_[others], expected[others], atol=1e-5)
    assert np.abs(model.confusion_[core] - expected[core]).max() > 0.01
    np.testing.assert_allclose(model.posterior_, posterior_of(labels, model.prior_, model.confusion_), atol=1e-10)


def m_step(labels: CrowdLabels, posterior: Any) -> Any:
    """Expected answers [worker, truth, label] by a plain loop, one answer of the crowd added to every row."""
    counts = np.zeros((labels.n_workers, labels.n_classes, labels.n_classes))
    for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
        counts[worker, :, label] += posterior[task]
    crowd = counts.sum(axis=0)
    crowd /= crowd.sum(axis=1, keepdims=True)
    return (counts + crowd) / (counts.sum(axis=2, keepdims=True) + 1)


def posterior_of(labels: CrowdLabels, prior: Any, confusion: Any) -> Any:
    rows = np.tile(prior, (labels.n_tasks, 1))
    for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
        rows[task] *= confusion[worker, :, label]
    return rows / rows.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("slug", MOMENT_METHODS)
def test_without_shared_tasks_the_answer_is_one_m_step_from_the_vote(slug: str) -> None:
    labels = tiny_labels(3, 4, n_tasks=12, n_workers=2)
    model = method(slug).load()(**({"max_iter": 1, "tol": 0.0} if slug == "spectral" else {})).fit(labels)
    votes = labels.vote_counts() + 0.0
    votes[votes.sum(axis=1) == 0] = labels.class_shares
    confusion = m_step(labels, votes / votes.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(model.confusion_, confusion, atol=1e-5)


@pytest.mark.parametrize("slug", MOMENT_METHODS)
def test_nothing_is_impossible(slug: str) -> None:
    """Unanimous answers, and a worker who always says the same: every probability stays away from 0."""
    task = np.repeat(np.arange(60), 5)
    label = (task % 3) * (np.tile(np.arange(5), 60) > 0)
    labels = CrowdLabels.from_codes(task, np.tile(np.arange(5), 60), label, tasks=60, workers=5, classes=3)
    model = method(slug).load()().fit(labels)
    np.testing.assert_array_equal(model.predict(), np.arange(60) % 3)
    if slug != "spectral":
        assert model.confusion_.min() > 9e-7
        assert model.prior_.min() > 9e-7


@pytest.mark.parametrize("slug", MOMENT_METHODS)
def test_dawid_skene_starts_from_the_estimate(slug: str, crowd: CrowdLabels) -> None:
    found = method(slug).load()().fit(crowd)
    started = cw.DawidSkene(init=slug, max_iter=1, tol=0.0).fit(crowd)
    np.testing.assert_allclose(started.confusion_, found.confusion_, atol=1e-12)
    np.testing.assert_allclose(started.prior_, found.prior_, atol=1e-12)
    ended = cw.DawidSkene(init=slug).fit(crowd)
    assert ended.log_likelihood_[-1] >= started.log_likelihood_[-1]


@pytest.mark.parametrize("slug", MOMENT_METHODS)
def test_bad_parameters_are_named(slug: str, crowd: CrowdLabels) -> None:
    if slug != "spectral":
        with pytest.raises(InputError, match="max_workers is 2; it must be a whole number, 3 or more"):
            method(slug).load()(max_workers=2).fit(crowd)
    if method(slug).iterative:
        with pytest.raises(InputError, match="max_iter"):
            method(slug).load()(max_iter=0).fit(crowd)
        with pytest.raises(InputError, match="tol"):
            method(slug).load()(tol=-1.0).fit(crowd)
    if slug == "coupled-cpd":
        with pytest.raises(InputError, match="triplets is 0; it must be a whole number, 1 or more"):
            method(slug).load()(triplets=0).fit(crowd)
