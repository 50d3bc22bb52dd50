"""The rank-one methods against plain loops, exact moments and dense linear algebra; no code shared with the package."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.conftest import tiny_labels

import crowdwise as cw
from crowdwise.aggregate import dalvi, ghosh_svd, kos, m_msr, pgd, sml
from crowdwise.fitting import rank_one
from crowdwise.fitting.one_vs_rest import confusion_from_rates
from crowdwise.fitting.rank_one import PairValues
from crowdwise.kernels import pair_counts
from crowdwise.simulate import simulate_workers
from crowdwise.simulate.workers import symmetric_confusion

if TYPE_CHECKING:
    from crowdwise.labels import CrowdLabels

SLUGS = ("kos", "ghosh-svd", "dalvi", "sml", "pgd", "m-msr")
METHODS = pytest.mark.parametrize("slug", SLUGS)
SIZES = pytest.mark.parametrize(("n_classes", "seed"), [(2, 0), (2, 1), (3, 2), (3, 3), (4, 4)])


def fitted(slug: str, labels: Any, **known: Any) -> Any:
    return cw.method(slug).load()().fit(labels, **known)


def coded(label: int, kind: int, n_classes: int) -> float:
    return 1.0 if label == kind else -1 / (n_classes - 1)


def exact_pairs(value: Any, edges: Any = None, weight: float = 7.0) -> PairValues:
    """All pairs, or some, of a matrix that is known."""
    size = len(value)
    chosen = list(itertools.combinations(range(size), 2)) if edges is None else edges
    first, second = np.array(chosen).T
    return PairValues(first, second, np.array([value[i][j] for i, j in chosen]), np.full(len(chosen), weight), size)


# ---- moments ------------------------------------------------------------------------------------------------


@SIZES
def test_agreement_is_the_mean_product_of_coded_answers(n_classes: int, seed: int) -> None:
    labels = tiny_labels(n_classes, seed, n_tasks=9, n_workers=5, repeats=seed % 2 == 1)
    edges = list(zip(labels.task.tolist(), labels.worker.tolist(), labels.label.tolist(), strict=True))
    pairs = rank_one.pairwise_agreement(labels)
    found = {(i, j): (v, w) for i, j, v, w in zip(pairs.first, pairs.second, pairs.value, pairs.weight, strict=True)}
    for one, other in itertools.combinations(range(5), 2):
        same = [a == b for t, w, a in edges for s, v, b in edges if t == s and w == one and v == other]
        if not same:
            assert (one, other) not in found
            continue
        mean = np.mean([1 if equal else -1 / (n_classes - 1) for equal in same])
        assert found[one, other] == pytest.approx((mean, len(same)), abs=1e-12)


def test_the_squared_loss_and_its_value_at_each_step(crowd: CrowdLabels) -> None:
    pairs = rank_one.pairwise_agreement(crowd)
    model = cw.RankOneCompletion().fit(crowd)
    skill = (crowd.n_classes * model.skill_ - 1) / (crowd.n_classes - 1)
    value = 0.0
    for i, j, c, n in zip(pairs.first, pairs.second, pairs.value, pairs.weight, strict=True):
        value += 0.5 * n * (c - skill[i] * skill[j]) ** 2
    assert model.objective_[-1] == pytest.approx(-value, abs=1e-10)
    start = rank_one.equal_starting_skills(pairs)
    value = sum(
        0.5 * n * (c - start[0] ** 2) ** 2 for c, n in zip(pairs.value.tolist(), pairs.weight.tolist(), strict=True)
    )
    assert model.objective_[0] == pytest.approx(-value, abs=1e-10)


def test_the_descent_ends_where_the_gradient_is_zero(crowd: CrowdLabels) -> None:
    pairs = rank_one.pairwise_agreement(crowd)
    ended = pgd.fit_rank_one(pairs, low=-0.5, max_iter=1000, tol=1e-15, name="pgd").parameters
    assert np.abs(ended).max() < 1
    gradient = np.zeros(crowd.n_workers)
    for i, j, c, n in zip(pairs.first, pairs.second, pairs.value, pairs.weight, strict=True):
        gradient[i] -= n * (c - ended[i] * ended[j]) * ended[j]
        gradient[j] -= n * (c - ended[i] * ended[j]) * ended[i]
    assert np.abs(gradient).max() < 1e-4 * pairs.weight.sum() / crowd.n_workers


# ---- exact moments give exact skills ------------------------------------------------------------------------

SKILL = np.array([0.9, 0.7, 0.5, 0.3, -0.2, 0.6, 0.8])
RING = [(i, (i + step) % 7) for i in range(7) for step in (1, 2)]  # everybody meets four others; not bipartite


@pytest.mark.parametrize("edges", [None, RING], ids=["all pairs", "some pairs"])
def test_gradient_descent_is_exact_on_exact_agreements(edges: Any) -> None:
    pairs = exact_pairs(np.outer(SKILL, SKILL), edges)
    ended = pgd.fit_rank_one(pairs, low=-1.0, max_iter=5000, tol=0.0, name="pgd")
    np.testing.assert_allclose(ended.parameters, SKILL, atol=1e-7)
    assert ended.objective[-1] == pytest.approx(0, abs=1e-12)


def test_the_eigenvector_of_ratios_is_exact_where_all_met() -> None:
    found, _, converged = dalvi.eigenvector_ratio_skills(exact_pairs(np.outer(SKILL, SKILL)), max_iter=5000, tol=1e-13)
    assert converged
    np.testing.assert_allclose(found, SKILL, atol=1e-9)


def test_the_leading_factor_is_the_eigenvector_of_dense_algebra() -> None:
    generator = np.random.default_rng(0)
    matrix = generator.normal(0, 0.1, (7, 7)) + np.outer(SKILL, SKILL)
    matrix = (matrix + matrix.T) / 2
    pairs = exact_pairs(matrix)
    diagonal = generator.random(7)
    dense = matrix - np.diag(np.diag(matrix)) + np.diag(diagonal)
    values, vectors = np.linalg.eigh(dense)
    found, _, _ = dalvi.scaled_leading_eigenvector(
        pairs.matrix(pairs.value), lambda _: diagonal, np.ones(7), np.zeros(7, int), max_iter=5000, tol=1e-14
    )
    wanted = np.sqrt(values[-1]) * vectors[:, -1]
    np.testing.assert_allclose(found, wanted * np.sign(wanted @ found), atol=1e-9)


@pytest.mark.parametrize("corrupted", [0, 1, 2])
def test_trimmed_means_are_exact_on_exact_agreements(corrupted: int) -> None:
    pairs = exact_pairs(np.outer(SKILL, SKILL))
    size, _, converged = m_msr.estimate_skill_sizes(pairs, corrupted=corrupted, floor=1e-9, max_iter=2000, tol=1e-12)
    assert converged
    np.testing.assert_allclose(size * m_msr.estimate_skill_signs(pairs), SKILL, atol=1e-9)


def test_trimmed_means_bear_a_corrupt_worker_and_gradient_descent_does_not() -> None:
    """Eleven workers, one of whom agrees with some more than anyone could and with others not at all."""
    skill = np.linspace(0.4, 0.9, 11)
    matrix = np.outer(skill, skill)
    matrix[10, :10] = matrix[:10, 10] = np.where(np.arange(10) % 2 == 0, 1.0, -0.9)
    pairs = exact_pairs(matrix)
    size, _, _ = m_msr.estimate_skill_sizes(pairs, corrupted=1, floor=1e-9, max_iter=3000, tol=1e-13)
    np.testing.assert_allclose(size[:10], skill[:10], atol=1e-6)
    plain = pgd.fit_rank_one(pairs, low=-1.0, max_iter=3000, tol=0.0, name="pgd").parameters
    assert np.abs(plain[:10] - skill[:10]).max() > 0.01


def test_trimming_in_plain_words() -> None:
    generator = np.random.default_rng(1)
    row = generator.integers(0, 6, 60)
    ratio, own, trim = generator.random(60), generator.random(7), np.array([0, 1, 2, 3, 1, 20, 2])
    found = m_msr.trimmed_means(row, ratio, own, trim)
    for worker in range(7):
        kept = sorted(ratio[row == worker])
        below, above = [r for r in kept if r < own[worker]], [r for r in kept if r > own[worker]]
        kept = below[min(trim[worker], len(below)) :] + above[: len(above) - min(trim[worker], len(above))]
        assert found[worker] == pytest.approx(np.mean(kept) if kept else own[worker], abs=1e-12)


def test_corrupt_partners_follow_the_paper() -> None:
    assert m_msr.max_corrupt_partners(np.array([0, 8, 12])) == 3
    assert m_msr.max_corrupt_partners(np.array([0, 1])) == 0
    assert m_msr.max_corrupt_partners(np.array([0, 0])) == 0


@pytest.mark.parametrize("balance", [-0.6, 0.0, 0.4])
def test_rates_and_imbalance_are_exact_on_exact_moments(balance: float) -> None:
    sensitivity, specificity = np.array([0.9, 0.7, 0.4, 0.8]), np.array([0.6, 0.95, 0.5, 0.85])
    chance = np.array([(1 + balance) / 2, (1 - balance) / 2])
    says = np.stack([2 * sensitivity - 1, 1 - 2 * specificity])  # mean answer, given the truth
    mean = chance @ says
    second = np.einsum("k,ki,kj->ij", chance, says - mean, says - mean)
    third = np.einsum("k,ki,kj,kl->ijl", chance, says - mean, says - mean, says - mean)
    descent = rank_one.ProjectedGradientDescent(exact_pairs(second), low=-1.0, high=1.0)
    vector, _, _ = descent.run(np.full(4, 0.5), max_iter=20_000, tol=1e-15)
    np.testing.assert_allclose(
        np.outer(vector, vector)[~np.eye(4, dtype=bool)], second[~np.eye(4, dtype=bool)], atol=1e-9
    )
    alpha = third[0, 1, 3] / (vector[0] * vector[1] * vector[3])
    assert sml.class_imbalance(alpha) == pytest.approx(balance, abs=1e-7)
    found = sml.sensitivity_and_specificity(mean, vector, sml.class_imbalance(alpha))
    np.testing.assert_allclose(found, (sensitivity, specificity), atol=1e-7)


def test_covariances_and_third_moment_in_plain_loops() -> None:
    labels = tiny_labels(3, 5, n_tasks=12, n_workers=5)
    answers: Any = {
        (t, w): 1 if a == 1 else -1 for t, w, a in zip(labels.task, labels.worker, labels.label, strict=True)
    }
    mean = np.array([np.mean([f for (_, v), f in answers.items() if v == w]) for w in range(5)])
    pairs = sml.answer_covariances(pair_counts(labels), (mean + 1) / 2, 1)
    for i, j, value, weight in zip(pairs.first, pairs.second, pairs.value, pairs.weight, strict=True):
        products = [
            (answers[t, i] - mean[i]) * (answers[t, j] - mean[j])
            for t in range(12)
            if (t, i) in answers and (t, j) in answers
        ]
        assert (value, weight) == pytest.approx((np.mean(products), len(products)), abs=1e-12)
    vector = np.array([0.5, -0.3, 0.8, 0.2, 0.6])
    seen = told = 0.0
    for t in range(12):
        for trio in itertools.combinations([w for w in range(5) if (t, w) in answers], 3):
            seen += float(np.prod([(answers[t, w] - mean[w]) * vector[w] for w in trio]))
            told += float(np.prod([vector[w] ** 2 for w in trio]))
    merged = rank_one.merge_answers(labels)
    centred = 2 * merged.share(labels, 1) - 1 - mean[merged.worker]
    assert sml.third_moment(merged.task, merged.worker, centred, vector) == pytest.approx(seen / told, abs=1e-10)


def test_confusions_of_two_classes_are_the_rates() -> None:
    sensitivity = np.array([[0.8, 0.7], [0.4, 0.9]])
    found = confusion_from_rates(sensitivity, np.array([[0.3, 0.2], [0.1, 0.6]]))
    wanted = [[[0.8, 0.2], [0.3, 0.7]], [[0.4, 0.6], [0.1, 0.9]]]
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    three = confusion_from_rates(np.full((1, 3), 0.7), np.array([[0.1, 0.2, 0.3]]))
    np.testing.assert_allclose(three[0, 0], [0.7, 0.12, 0.18], atol=1e-12)


# ---- messages and singular vectors ----------------------------------------------------------------------------


@SIZES
@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_messages_in_plain_loops(n_classes: int, seed: int, rounds: int) -> None:
    """Up to one factor for each connected part and round, here the whole crowd."""
    labels = tiny_labels(n_classes, seed, n_tasks=7, n_workers=5, repeats=seed % 2 == 1)
    answer: Any = {}
    for t, w, a in zip(labels.task.tolist(), labels.worker.tolist(), labels.label.tolist(), strict=True):
        answer[t, w] = answer.get((t, w), 0.0) + coded(a, 0, n_classes)
    y = dict.fromkeys(answer, 1.0)
    x: Any = {}
    for _ in range(rounds):
        x = {(t, w): sum(answer[s, v] * y[s, v] for s, v in answer if s == t and v != w) for t, w in answer}
        y = {(t, w): sum(answer[s, v] * x[s, v] for s, v in answer if v == w and s != t) for t, w in answer}
        scale = np.sqrt(np.mean([value**2 for value in y.values()]))
        y = {edge: value / scale for edge, value in y.items()}
    merged = rank_one.merge_answers(labels)
    cells = list(zip(merged.task.tolist(), merged.worker.tolist(), strict=True))
    found_x, found_y = kos.pass_messages(
        merged.task, merged.worker, merged.sum_coded_answers(labels, 0), np.zeros(len(cells), int), rounds=rounds
    )
    np.testing.assert_allclose(found_y, [y[cell] for cell in cells], atol=1e-10)
    np.testing.assert_allclose(found_x, [x[cell] for cell in cells], atol=1e-10)


def test_the_decision_of_messages_is_their_sign(crowd: CrowdLabels) -> None:
    """Two classes: the more probable one is the sign of Σ A y, most workers being reliable."""
    two = simulate_workers(symmetric_confusion(np.linspace(0.55, 0.9, 12), 2), 120, 5, random_state=2).labels
    merged = rank_one.merge_answers(two)
    answer = merged.sum_coded_answers(two, 0)
    x, y = kos.pass_messages(merged.task, merged.worker, answer, np.zeros(answer.size, int), rounds=10)
    heard = np.bincount(merged.worker, answer * x)
    score = np.bincount(merged.task, answer * y) * np.sign(np.sign(heard).sum())
    model = cw.Kos().fit(two)
    np.testing.assert_array_equal(model.posterior_.argmax(axis=1), np.where(score > 0, 0, 1))


def test_weights_are_the_singular_vector_of_dense_algebra() -> None:
    labels = simulate_workers(symmetric_confusion(np.linspace(0.55, 0.9, 9), 2), 60, 5, random_state=3).labels
    dense = np.zeros((60, 9))
    for t, w, a in zip(labels.task, labels.worker, labels.label, strict=True):
        dense[t, w] = coded(a, 0, 2)
    left, size, right = np.linalg.svd(dense)
    merged = rank_one.merge_answers(labels)
    cells = merged.task, merged.worker, merged.sum_coded_answers(labels, 0)
    weight, _, converged = ghosh_svd.leading_singular_vector(*cells, np.zeros(9, int), max_iter=5000, tol=1e-12)
    assert converged
    wanted = right[0] * 3 * np.sign(right[0].sum())  # mean square 1 over nine workers
    np.testing.assert_allclose(weight, wanted, atol=1e-8)
    own = np.diag(dense.T @ dense)
    heard = ghosh_svd.agreement_with_others(*cells, weight)
    np.testing.assert_allclose(heard, (size[0] ** 2 - own) * wanted, atol=1e-6)
    model = cw.GhoshSvd().fit(labels)
    score = left[:, 0] * np.sign(right[0].sum())
    np.testing.assert_array_equal(model.posterior_.argmax(axis=1), np.where(score > 0, 0, 1))


@pytest.mark.parametrize("slug", ["kos", "ghosh-svd"])
def test_skills_follow_from_what_the_others_say(slug: str) -> None:
    """At the scale where Σ N s[i] s[j] is Σ N C[i,j] over the pairs."""
    labels = simulate_workers(symmetric_confusion(np.linspace(0.5, 0.85, 12), 3), 400, 6, random_state=3).labels
    pairs = rank_one.pairwise_agreement(labels)
    skill = (3 * fitted(slug, labels).skill_ - 1) / 2
    explained = (pairs.weight * skill[pairs.first] * skill[pairs.second]).sum()
    assert explained == pytest.approx((pairs.weight * pairs.value).sum(), rel=1e-9)


# ---- posteriors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slug", ["dalvi", "sml", "pgd", "m-msr"])
@SIZES
def test_the_posterior_is_bayes_rule(slug: str, n_classes: int, seed: int) -> None:
    labels = tiny_labels(n_classes, seed, n_tasks=8, n_workers=4, repeats=seed % 2 == 1)
    model = fitted(slug, labels)
    wanted = np.tile(model.prior_, (labels.n_tasks, 1))
    for t, w, a in zip(labels.task, labels.worker, labels.label, strict=True):
        wanted[t] *= model.confusion_[w, :, a]
    np.testing.assert_allclose(model.posterior_, wanted / wanted.sum(axis=1, keepdims=True), atol=1e-10)


@METHODS
def test_a_start_for_dawid_skene(slug: str, crowd: CrowdLabels) -> None:
    found = fitted(slug, crowd)
    assert (found.confusion_ > 1e-7).all()
    model = cw.DawidSkene(init=slug).fit(crowd)
    first = cw.DawidSkene(init=slug, max_iter=1, tol=0.0).fit(crowd)
    np.testing.assert_allclose(first.confusion_, found.confusion_, atol=1e-9)
    assert model.objective_[-1] > first.objective_[-1]
    assert (model.predict() == cw.DawidSkene().fit(crowd).predict()).mean() > 0.9


@METHODS
def test_a_class_prior_enters_bayes_rule(slug: str, crowd: CrowdLabels) -> None:
    plain, told = fitted(slug, crowd), fitted(slug, crowd, class_prior=[0.98, 0.01, 0.01])
    assert (told.posterior_[:, 0] >= plain.posterior_[:, 0] - 1e-12).mean() > 0.9
    assert told.posterior_[:, 0].mean() > plain.posterior_[:, 0].mean()


# ---- where there is little to go by ---------------------------------------------------------------------------


@METHODS
def test_without_pairs_it_is_the_majority_vote(slug: str) -> None:
    """Two workers who never meet, each answering every task of her own three times."""
    task = np.repeat(np.arange(10), 3)
    worker = (task >= 5).astype(int)
    label = np.random.default_rng(3).integers(0, 3, task.size)
    labels = cw.CrowdLabels.from_codes(task, worker, label, tasks=10, workers=2, classes=3, on_duplicate="all")
    model, vote = fitted(slug, labels), cw.MajorityVote().fit(labels)
    np.testing.assert_array_equal(model.predict(), vote.predict())


@METHODS
def test_two_crowds_that_never_meet_are_both_understood(slug: str) -> None:
    halves = [simulate_workers(symmetric_confusion(np.full(8, 0.85), 2), 150, 5, random_state=seed) for seed in (1, 2)]
    first, second = (half.labels for half in halves)
    labels = cw.CrowdLabels.from_codes(
        np.concatenate([first.task, second.task + 150]),
        np.concatenate([first.worker, second.worker + 8]),
        np.concatenate([first.label, second.label]),
        tasks=300,
        workers=16,
        classes=2,
    )
    truth = np.concatenate([half.truth for half in halves])
    model = fitted(slug, labels)
    right = model.posterior_.argmax(axis=1) == truth
    assert right[:150].mean() > 0.93
    assert right[150:].mean() > 0.93
    assert np.abs(model.skill_ - 0.85).max() < 0.2


@METHODS
def test_a_worker_without_pairs_has_the_crowds_accuracy(slug: str) -> None:
    crowd = simulate_workers(symmetric_confusion(np.linspace(0.6, 0.9, 8), 2), 200, 5, random_state=5).labels
    labels = cw.CrowdLabels.from_codes(
        np.append(crowd.task, np.arange(200, 240)),
        np.append(crowd.worker, np.full(40, 8)),
        np.append(crowd.label, np.arange(40) % 2),
        tasks=240,
        workers=9,
        classes=2,
    )
    model = fitted(slug, labels)
    mean = np.average(model.skill_[:8], weights=crowd.labels_per_worker)
    assert model.skill_[8] == pytest.approx(mean, abs=0.03)
    np.testing.assert_array_equal(model.posterior_[200:].argmax(axis=1), np.arange(40) % 2)


@METHODS
def test_most_workers_are_taken_to_be_better_than_chance(slug: str) -> None:
    """Seven who know, three who invert."""
    simulation = simulate_workers(symmetric_confusion(np.array([0.85] * 7 + [0.15] * 3), 2), 300, 6, random_state=6)
    model = fitted(slug, simulation.labels)
    assert (model.skill_[:7] > 0.7).all()
    assert (model.skill_[7:] < 0.3).all()
    assert (model.posterior_.argmax(axis=1) == simulation.truth).mean() > 0.93


@METHODS
@pytest.mark.usefixtures("few_sweeps")
def test_scraps_of_labels_are_finite_whatever_their_order(slug: str) -> None:
    """Repeats, tasks and workers without labels, parts that never meet, answers that agree less than chance."""
    for seed in range(25):
        generator = np.random.default_rng(seed)
        n_tasks, n_workers, n_classes, size = (
            int(generator.integers(*span)) for span in ((1, 12), (1, 8), (2, 5), (1, 40))
        )
        task, worker = generator.integers(0, n_tasks, size), generator.integers(0, n_workers, size)
        label = generator.integers(0, n_classes, size) if seed % 3 else (task + (worker == 0)) % n_classes
        turn, order = generator.permutation(n_tasks), generator.permutation(size)
        sizes: Any = {"tasks": n_tasks, "workers": n_workers, "classes": n_classes, "on_duplicate": "all"}
        model = fitted(slug, cw.CrowdLabels.from_codes(task, worker, label, **sizes))
        other = fitted(slug, cw.CrowdLabels.from_codes(turn[task][order], worker[order], label[order], **sizes))
        assert np.isfinite(model.skill_beta_).all()
        assert (model.skill_beta_ > 0).all()
        np.testing.assert_allclose(model.posterior_.sum(axis=1), 1, atol=1e-12)
        np.testing.assert_allclose(other.posterior_[turn], model.posterior_, atol=1e-7)


def test_signs_go_by_heads_then_by_the_sum() -> None:
    part = np.array([0, 0, 0, 1, 1, 2])
    vector = np.array([-0.1, -0.1, 0.9, 0.5, -0.6, 0.0])
    np.testing.assert_array_equal(rank_one.majority_signs(vector, part), [-1, -1, -1, -1, -1, 1])


# ---- parameters -----------------------------------------------------------------------------------------------


@METHODS
@pytest.mark.parametrize("name", ["max_iter", "tol"])
def test_bad_parameters_are_named(slug: str, name: str, crowd: CrowdLabels) -> None:
    make = cw.method(slug).load()
    if name not in make().get_params():
        pytest.skip(f"{slug} has no {name}")
    with pytest.raises(cw.InputError, match=name):
        make(**{name: -1}).fit(crowd)


def test_a_bad_number_of_corrupt_workers_is_named(crowd: CrowdLabels) -> None:
    with pytest.raises(cw.InputError, match="corrupted"):
        cw.MMsr(corrupted=-1).fit(crowd)
    assert cw.MMsr(corrupted=2).fit(crowd).converged_ in (True, False)
