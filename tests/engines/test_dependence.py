"""Passes over pairs of labels and over families: NumPy and compiled loops give the same sums and the same draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from crowdwise.dependence.family_model import arrange_edges, initialise_family_parameters
from crowdwise.dependence.groups import draw_representatives
from crowdwise.kernels import family_model, pair_agreement
from crowdwise.kernels.family_model import FamilyParameters, expected_family_counts, sample_hidden
from crowdwise.kernels.pair_agreement import IndependenceModel, copy_log_ratios, pair_sums, partner_sums
from crowdwise.labels import CrowdLabels
from crowdwise.labels.engine_choice import use_engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.labels.types import IntArray


def crowd(n_classes: int, seed: int, n_tasks: int = 60, n_workers: int = 12) -> CrowdLabels:
    """Labels with repeated answers, tasks without any, and a worker who gave none."""
    rng = np.random.default_rng(seed)
    n = 6 * n_tasks
    task, worker = rng.integers(0, n_tasks - 2, n), rng.integers(0, n_workers - 1, n)
    label = np.where(rng.random(n) < 0.6, task % n_classes, rng.integers(0, n_classes, n))
    return CrowdLabels.from_codes(
        task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes, on_duplicate="all"
    )


def on_both(run: Callable[[], Any]) -> tuple[Any, Any]:
    found = []
    for engine in ("numpy", "numba"):
        with use_engine(engine):
            found.append(run())
    return found[0], found[1]


def grouped(n_workers: int, n_groups: int, seed: int) -> IntArray:
    return np.random.default_rng(seed).integers(-1, n_groups, n_workers)


@pytest.mark.parametrize(("n_classes", "seed"), [(2, 0), (3, 1), (7, 2)])
def test_sums_over_pairs(n_classes: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_agreement, "CHUNK", 2_000)  # several chunks, some of a single task
    labels, rng = crowd(n_classes, seed), np.random.default_rng(seed)
    drawn = rng.dirichlet(np.full(n_classes, 0.5), (12, n_classes))
    table = np.ascontiguousarray(drawn.transpose(0, 2, 1) + 1e-9)
    model = IndependenceModel(
        labels.task_ptr,
        labels.worker,
        labels.label,
        draw_representatives(labels, grouped(12, 3, seed), rng),
        np.log(rng.dirichlet(np.ones(n_classes))),
        np.log(table),
    )
    place = np.array([0, 1, -1, 2, 3, 4, -1, 5, 6, 7, 8, 9])
    tasks = np.sort(rng.permutation(60)[:50])
    partners = rng.random((10, 10)) < 0.4
    for run in (
        lambda: pair_sums(model, tasks, place, 10),
        lambda: partner_sums(model, tasks, place, partners),
        lambda: copy_log_ratios(model, tasks, place, 10, np.array([0.8, 0.999]), 0.2),
    ):
        one, two = on_both(run)
        assert np.abs(two).sum() > 0
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_groups", [0, 1, 3])
@pytest.mark.parametrize(("n_classes", "seed"), [(2, 0), (3, 1), (6, 2)])
def test_passes_over_families(n_classes: int, seed: int, n_groups: int) -> None:
    labels, rng = crowd(n_classes, seed), np.random.default_rng(seed)
    gold = np.where(rng.random(60) < 0.2, np.arange(60) % n_classes, -1)
    edges = arrange_edges(labels, grouped(12, n_groups, seed), gold)
    start = initialise_family_parameters(edges, n_classes)
    parameters = FamilyParameters(start.prior, start.own, start.follow * rng.random(12), start.latent)
    (value, counts), (wanted, compiled) = on_both(lambda: expected_family_counts(edges, parameters))
    assert value == pytest.approx(wanted, rel=1e-12)
    for one, two in zip(counts, compiled, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)
    for draw in range(20):
        (truth, counts), (wanted, compiled) = on_both(
            lambda draw=draw: sample_hidden(edges, parameters, np.random.default_rng(draw))
        )
        np.testing.assert_array_equal(truth, wanted)
        for one, two in zip(counts, compiled, strict=True):
            np.testing.assert_array_equal(one, two)


def test_a_family_of_very_many_workers_does_not_underflow() -> None:
    n = 1500
    labels = CrowdLabels.from_codes(np.zeros(n, int), np.arange(n), np.arange(n) % 3, tasks=1, workers=n, classes=3)
    edges = arrange_edges(labels, np.zeros(n, int), np.array([-1]))
    parameters = initialise_family_parameters(edges, 3)
    (value, counts), (wanted, compiled) = on_both(lambda: expected_family_counts(edges, parameters))
    assert value == pytest.approx(wanted, rel=1e-12)
    np.testing.assert_allclose(counts.latent, compiled.latent, rtol=1e-9, atol=1e-12)


def test_negligible_classes_are_left_out_of_expected_counts() -> None:
    labels = CrowdLabels.from_codes(np.zeros(40, int), np.arange(40), np.zeros(40, int), tasks=1, workers=40, classes=2)
    edges = arrange_edges(labels, np.full(40, -1), np.array([-1]))
    own = np.tile(np.array([[0.9, 0.1], [0.1, 0.9]]), (40, 1, 1))
    parameters = FamilyParameters(np.array([0.5, 0.5]), own, np.zeros(40), np.empty((0, 2, 3)))
    (_, counts), (_, compiled) = on_both(lambda: expected_family_counts(edges, parameters))
    assert counts.classes[1] == compiled.classes[1] == 0.0
    assert family_model.NEGLIGIBLE > 0.1**40
