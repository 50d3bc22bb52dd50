"""The joint model of families: against enumeration, and error correlations against NumPy's."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from crowdwise.dependence.family_model import (
    MOST_CLASSES,
    FamilyParameters,
    arrange_edges,
    draw_truths,
    error_correlation,
    initialise_family_parameters,
    limit_classes,
    run_family_em,
)
from crowdwise.dependence.family_search import renumber_families, search_families
from crowdwise.kernels.family_model import expected_family_counts, sample_hidden
from crowdwise.labels import CrowdLabels
from crowdwise.simulate import simulate

FAMILY = np.array([0, -1, 0, 1, 1])


def small() -> tuple[CrowdLabels, FamilyParameters]:
    rng = np.random.default_rng(0)
    said = rng.integers(0, 3, (6, 5))
    parameters = FamilyParameters(
        rng.dirichlet(np.ones(3)),
        rng.dirichlet(np.ones(3), (5, 3)),
        np.where(FAMILY >= 0, rng.uniform(0.2, 0.8, 5), 0.0),
        rng.dirichlet(np.ones(4), (2, 3)),
    )
    return CrowdLabels.from_dense(said), parameters


def enumerated(labels: CrowdLabels, parameters: FamilyParameters) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Log-likelihood, posterior of the truth, and expected counts of opinions and of followed labels, by sums."""
    prior, own, follow, opinions = parameters
    value, classes = 0.0, np.zeros((labels.n_tasks, 3))
    counts, followed = np.zeros_like(opinions), np.zeros(5)
    for task in range(labels.n_tasks):
        edges = range(labels.task_ptr[task], labels.task_ptr[task + 1])
        joint = {}
        for k, *z in product(range(3), range(4), range(4)):
            chance = prior[k] * opinions[0, k, z[0]] * opinions[1, k, z[1]]
            after = {}
            for e in edges:
                who, said = int(labels.worker[e]), int(labels.label[e])
                opinion = z[FAMILY[who]] if FAMILY[who] >= 0 else None
                by_family = 0.0 if opinion is None else follow[who] * (1 / 3 if opinion == 3 else opinion == said)
                both = by_family + (1 - follow[who]) * own[who, k, said]
                after[who] = by_family / both
                chance *= both
            joint[k, z[0], z[1]] = chance, after
        total = sum(chance for chance, _ in joint.values())
        value += np.log(total)
        for (k, first, second), (chance, after) in joint.items():
            classes[task, k] += chance / total
            counts[0, k, first] += chance / total
            counts[1, k, second] += chance / total
            for who, share in after.items():
                followed[who] += share * chance / total
    return value, classes, counts, followed


def test_the_pass_agrees_with_enumeration() -> None:
    labels, parameters = small()
    edges = arrange_edges(labels, FAMILY, np.full(6, -1))
    value, counts = expected_family_counts(edges, parameters)
    wanted, classes, opinions, followed = enumerated(labels, parameters)
    assert value == pytest.approx(wanted, abs=1e-10)
    np.testing.assert_allclose(counts.classes, classes.sum(axis=0), atol=1e-10)
    np.testing.assert_allclose(counts.latent, opinions, atol=1e-10)
    np.testing.assert_allclose(counts.followed[:, 1], followed, atol=1e-10)
    np.testing.assert_allclose(counts.followed.sum(axis=1), 6, atol=1e-10)


def test_draws_have_the_posterior_of_the_enumeration() -> None:
    labels, parameters = small()
    _, classes, opinions, followed = enumerated(labels, parameters)
    edges, rng = arrange_edges(labels, FAMILY, np.full(6, -1)), np.random.default_rng(1)
    drawn = [sample_hidden(edges, parameters, rng) for _ in range(4000)]
    seen = np.mean([np.eye(3)[truth] for truth, _ in drawn], axis=0)
    assert np.abs(seen - classes).max() < 0.04  # five standard errors of a half
    assert np.abs(np.mean([counts.latent for _, counts in drawn], axis=0) - opinions).max() < 0.1
    assert np.abs(np.mean([counts.followed[:, 1] for _, counts in drawn], axis=0) - followed).max() < 0.1


def test_known_truths_are_kept() -> None:
    labels, parameters = small()
    edges = arrange_edges(labels, FAMILY, np.array([2, -1, 1, -1, -1, 0]))
    for seed in range(5):
        assert draw_truths(edges, parameters, np.random.default_rng(seed))[[0, 2, 5]].tolist() == [2, 1, 0]
    _, counts = expected_family_counts(edges, parameters)
    assert (counts.classes > 0.999).all()


def test_em_climbs() -> None:
    crowd = simulate("families", n_tasks=200, n_workers=8, sizes=(4,), random_state=0)
    edges = arrange_edges(crowd.labels, crowd.groups, np.full(200, -1))
    begun = initialise_family_parameters(edges, 3)
    assert run_family_em(edges, begun, 30)[0] > run_family_em(edges, begun, 3)[0] > run_family_em(edges, begun, 1)[0]


def test_error_correlation_is_the_mean_of_numpys() -> None:
    crowd = simulate("families", n_tasks=150, n_workers=6, sizes=(3, 2), random_state=2)
    wrong = (crowd.labels.label != crowd.truth[crowd.labels.task]).reshape(150, 6)
    matrix = np.corrcoef(wrong.T.astype(float))
    edges = arrange_edges(crowd.labels, crowd.groups, np.full(150, -1))
    found = error_correlation(edges, crowd.truth, np.ones(150))
    assert found == pytest.approx((matrix.sum() - 6) / 30)
    some = np.arange(150) < 60
    fewer = np.corrcoef(wrong[some].T.astype(float))
    assert error_correlation(edges, crowd.truth, 2.0 * some) == pytest.approx((fewer.sum() - 6) / 30)


def test_many_classes_keep_who_agrees_with_whom() -> None:
    rng = np.random.default_rng(3)
    said = rng.integers(0, 40, (50, 4))
    said[:, 1] = said[:, 0]
    labels = CrowdLabels.from_dense(said, kind="labels")
    truth = np.where(np.arange(50) < 20, said[:, 2], -1)
    codes = np.searchsorted(labels.classes.to_pylist(), truth)
    narrow, told = limit_classes(labels, np.where(truth >= 0, codes, -1), rng)
    new = narrow.label.reshape(50, 4)
    assert narrow.n_classes == MOST_CLASSES
    np.testing.assert_array_equal(new[:, :, None] == new[:, None, :], said[:, :, None] == said[:, None, :])
    np.testing.assert_array_equal(told[:20], new[:20, 2])
    assert (told[20:] == -1).all()


def test_families_are_found() -> None:
    crowd = simulate("families", n_tasks=400, n_workers=14, sizes=(5, 4, 3), correlation=0.5, random_state=1)
    best = search_families(crowd.labels, np.full(400, -1), np.random.default_rng(0), most=3, within=4.0)
    assert renumber_families(crowd.groups).tolist() == best[0].family.tolist()
    assert all(best[0].score - 4 <= each.score <= best[0].score for each in best)
