"""Masks against other programs and formulas written out: STAPLE, mean field, distances, polygons, run lengths."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import entr
from scipy.stats import norm

from crowdwise.kinds.masks import Masks, SignedDistance, Staple, StapleSpatial, simulate_masks
from crowdwise.kinds.masks.distance_maps import signed_distance
from crowdwise.kinds.masks.pixel_patterns import find_patterns, number_pixels
from crowdwise.kinds.masks.pixel_rates import Rates, infer_patterns, share_inside_tasks
from crowdwise.kinds.masks.polygons import fill_polygons
from crowdwise.kinds.masks.run_lengths import decode_run_lengths, encode_run_lengths, pack_counts, unpack_counts
from crowdwise.kinds.masks.signed_distance import DistanceFit, Hands, OutlineDistances
from crowdwise.kinds.masks.staple_spatial import field_bound, sweep


def one_image(seed: int = 0, size: int = 32) -> tuple[Masks, np.ndarray[Any, Any]]:
    """Five masks of one image, and the same as an array (5, height, width)."""
    answers = simulate_masks(1, 5, height=size, width=size, random_state=seed).answers
    return answers, np.array(answers.masks_of_task(0))


# ---- STAPLE -------------------------------------------------------------------------------------------------


def plain_staple(said: np.ndarray[Any, Any], rounds: int = 2000) -> tuple[Any, Any, Any]:
    """The paper's equations (14) to (19), pixel by pixel."""
    y = said.reshape(len(said), -1).astype(float)
    p, q, share = np.full(len(y), 0.99999), np.full(len(y), 0.99999), y.mean()
    for _ in range(rounds):
        a = np.prod(np.where(y == 1, p[:, None], 1 - p[:, None]), axis=0)
        b = np.prod(np.where(y == 1, 1 - q[:, None], q[:, None]), axis=0)
        w = share * a / (share * a + (1 - share) * b)
        p, q = (w * y).sum(axis=1) / w.sum(), ((1 - w) * (1 - y)).sum(axis=1) / (1 - w).sum()
    return w.reshape(said.shape[1:]), p, q


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_staple_is_the_papers_on_one_image(seed: int) -> None:
    answers, said = one_image(seed)
    w, p, q = plain_staple(said)
    model = Staple(smoothing=0.0, tol=0.0, max_iter=2000).fit(answers)
    np.testing.assert_allclose(model.sensitivity_, p[answers.worker.argsort()], atol=1e-8)
    np.testing.assert_allclose(model.specificity_, q[answers.worker.argsort()], atol=1e-8)
    np.testing.assert_allclose(next(model.soft_masks())[1], w, atol=1 / 65535)


@pytest.mark.parametrize("seed", [0, 3])
def test_staple_is_simple_itks(seed: int) -> None:
    itk = pytest.importorskip("SimpleITK")
    answers, said = one_image(seed, 64)
    tool = itk.STAPLEImageFilter()
    tool.SetForegroundValue(1)
    tool.SetMaximumIterations(2000)
    soft = itk.GetArrayFromImage(tool.Execute([itk.GetImageFromArray(each.astype(np.uint8)) for each in said]))
    model = Staple(smoothing=0.0, tol=0.0, max_iter=2000).fit(answers)
    np.testing.assert_allclose(model.sensitivity_[answers.worker], tool.GetSensitivity(), atol=1e-4)
    np.testing.assert_allclose(model.specificity_[answers.worker], tool.GetSpecificity(), atol=1e-4)
    np.testing.assert_allclose(next(model.soft_masks())[1], soft, atol=1e-4)


def test_the_objective_of_staple_is_the_probability_of_the_masks() -> None:
    generator = np.random.default_rng(0)
    said = generator.random((6, 2, 3)) < 0.5
    answers = Masks.from_codes([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 3], list(said), tasks=2, workers=4)
    rates = Rates(generator.uniform(0.6, 0.9, 4), generator.uniform(0.6, 0.9, 4))
    share = share_inside_tasks(answers)
    likelihood, _ = infer_patterns(find_patterns(answers, answers.worker), rates, share)
    total = 0.0
    for task in (0, 1):
        chance = 0.0
        for true in product((0, 1), repeat=6):  # every image there can be
            one = np.prod([share[task] if each else 1 - share[task] for each in true])
            for row in range(3 * task, 3 * task + 3):
                p, q = rates.sensitivity[answers.worker[row]], rates.specificity[answers.worker[row]]
                for pixel, inside in zip(true, said[row].ravel(), strict=True):
                    one *= (p if inside else 1 - p) if pixel else (1 - q if inside else q)
            chance += one
        total += np.log(chance)
    assert likelihood == pytest.approx(total, abs=1e-10)


@pytest.mark.parametrize("n_workers", [3, 40])
def test_patterns_are_the_pixels(n_workers: int) -> None:
    masks = list(np.random.default_rng(1).random((n_workers, 5, 7)) < 0.3)
    number, bits = number_pixels(masks, 35)
    np.testing.assert_array_equal(bits[number].T.reshape(n_workers, 5, 7), masks)
    assert len(np.unique(bits, axis=0)) == len(bits)


# ---- the spatial prior --------------------------------------------------------------------------------------


def test_the_bound_of_the_field_is_that_of_mean_field() -> None:
    """Expected log-density over all images of 2 × 3 pixels whose pixels are independent, and the entropy."""
    generator = np.random.default_rng(2)
    field, inside, outside = generator.random((2, 3)), generator.normal(size=(2, 3)), generator.normal(size=(2, 3))
    expected = 0.0
    for image in product((0, 1), repeat=6):
        z = np.array(image).reshape(2, 3)
        chance = np.where(z == 1, field, 1 - field).prod()
        same = (z[1:] == z[:-1]).sum() + (z[:, 1:] == z[:, :-1]).sum()
        expected += chance * (np.where(z == 1, inside, outside).sum() + 1.5 * same)
    expected += float((entr(field) + entr(1 - field)).sum())
    assert field_bound(field, inside, outside, 1.5) == pytest.approx(expected, abs=1e-10)
    # A sweep moves one pixel after the other to where the bound is highest: at the end no pixel can gain.
    for _ in range(500):
        before, field = field_bound(field, inside, outside, 1.5), sweep(field, inside - outside, 1.5)
        assert field_bound(field, inside, outside, 1.5) >= before - 1e-12
    best = field_bound(field, inside, outside, 1.5)
    for place in np.ndindex(2, 3):
        for change in (-1e-3, 1e-3):
            other = field.copy()
            other[place] = np.clip(other[place] + change, 1e-9, 1 - 1e-9)
            assert field_bound(other, inside, outside, 1.5) <= best + 1e-9


def test_without_coupling_it_is_staple() -> None:
    answers = simulate_masks(4, 6, random_state=4).answers
    plain, field = Staple(tol=1e-9).fit(answers), StapleSpatial(coupling=0.0, tol=1e-9).fit(answers)
    np.testing.assert_allclose(field.sensitivity_, plain.sensitivity_, atol=1e-3)
    for (_, one), (_, other) in zip(plain.soft_masks(), field.soft_masks(), strict=True):
        assert ((one > 0.5) == (other > 0.5)).mean() > 0.995


# ---- signed distances ---------------------------------------------------------------------------------------


def test_signed_distances_are_those_to_the_nearest_pixel_of_the_other_side() -> None:
    mask = np.random.default_rng(3).random((7, 9)) < 0.4
    found = signed_distance(mask)
    places = np.argwhere(np.ones_like(mask))
    for place in places:
        there = places[mask[tuple(places.T)] != mask[tuple(place)]]
        nearest = np.sqrt(((there - place) ** 2).sum(axis=1)).min() - 0.5
        assert abs(found[tuple(place)]) == pytest.approx(nearest, abs=1e-12)
        assert (found[tuple(place)] > 0) == mask[tuple(place)]
    assert (signed_distance(np.zeros((2, 3), bool)) < -3).all()
    assert (signed_distance(np.ones((2, 3), bool)) > 3).all()


def test_the_objective_of_signed_distances_is_the_integral_over_the_truth() -> None:
    generator = np.random.default_rng(4)
    outlines = [
        OutlineDistances(np.array([0, 1, 2]), generator.normal(size=(3, 4)), None),
        OutlineDistances(np.array([1, 2]), generator.normal(size=(2, 5)), generator.normal(size=5)),
    ]
    hands = Hands(generator.normal(size=3), generator.uniform(0.5, 2, 3), 1.3)
    _, likelihood, _ = DistanceFit(outlines, 3).step(hands)
    grid = np.linspace(-30, 30, 60001)
    total = 0.0
    for worker, distance, true in outlines:
        sds, logs = np.sqrt(hands.variance[worker]), []
        for place, pixel in enumerate(distance.T):
            middle = (grid if true is None else true[place : place + 1])[:, None] + hands.bias[worker]
            chance = norm.pdf(pixel, middle, sds).prod(axis=1)
            logs.append(np.log(chance.sum() * (grid[1] - grid[0]) if true is None else chance[0]))
        total += 5 * float(np.mean(logs))  # an outline counts as five observations
    assert likelihood == pytest.approx(total, abs=1e-8)


def test_workers_end_where_the_objective_is_highest() -> None:
    """At the end, no small change of a bias or a variance raises the objective."""
    generator = np.random.default_rng(5)
    true = generator.normal(size=(6, 30))
    outlines = [
        OutlineDistances(
            np.arange(4), each + np.array([[0], [1.0], [-1], [0.5]]) + generator.normal(size=(4, 30)), None
        )
        for each in true
    ]
    fit, hands, before = DistanceFit(outlines, 4), Hands(np.zeros(4), np.ones(4), 1.0), -np.inf
    for _ in range(1200):
        value, _, following = fit.step(hands)
        assert value >= before - 1e-9
        before, hands = value, following
    for place in range(4):
        for change in (-1e-3, 1e-3):
            bias, variance = hands.bias.copy(), hands.variance.copy()
            bias[place] += change
            assert fit.step(hands._replace(bias=bias))[0] <= before + 1e-7
            variance[place] *= 1 + change
            assert fit.step(hands._replace(variance=variance))[0] <= before + 1e-7


def test_known_workers_give_new_tasks_the_same_masks() -> None:
    answers = simulate_masks(6, 6, random_state=6).answers
    for method in (SignedDistance, Staple):
        model = method().fit(answers)
        for (_, first), (_, again) in zip(model.soft_masks(), model.soft_masks(answers), strict=True):
            np.testing.assert_allclose(again, first, atol=2e-4)


# ---- files and outlines -------------------------------------------------------------------------------------


def test_polygons_hold_the_pixels_whose_centres_they_hold() -> None:
    generator = np.random.default_rng(7)
    for _ in range(20):
        points = generator.uniform(-5, 25, (generator.integers(3, 12), 2))
        points[0] = 10.0  # some of it is in the frame
        inside = fill_polygons([points], 17, 20)
        for row, column in product(range(17), range(20)):
            x, y, crossings = column + 0.5, row + 0.5, 0
            for (x1, y1), (x2, y2) in zip(points, np.roll(points, -1, axis=0), strict=True):
                if (y1 <= y) != (y2 <= y):
                    crossings += x1 + (y - y1) / (y2 - y1) * (x2 - x1) <= x
            assert inside[row, column] == (crossings % 2 == 1)


def test_run_lengths_are_cocos() -> None:
    # Written out by hand: counts of a 3 × 3 image, down the columns.
    mask = np.array([[0, 1, 0], [0, 1, 1], [1, 0, 1]], bool)
    assert (decode_run_lengths({"size": [3, 3], "counts": [2, 3, 2, 2]}) == mask).all()
    assert pack_counts([2, 3, 2, 2]) == "232O"  # the fourth is 2 - 3 = -1: 31 and 48
    assert unpack_counts(pack_counts([0, 100000, 3, 70])).tolist() == [0, 100000, 3, 70]
    generator = np.random.default_rng(8)
    for _ in range(20):
        mask = generator.random(generator.integers(1, 40, 2)) < generator.random()
        assert (decode_run_lengths(encode_run_lengths(mask)) == mask).all()


def test_run_lengths_are_pycocotools() -> None:
    tool = pytest.importorskip("pycocotools.mask")
    mask = np.random.default_rng(9).random((40, 30)) < 0.3
    packed = tool.encode(np.asfortranarray(mask.astype(np.uint8)))
    assert (decode_run_lengths(packed) == mask).all()
    assert packed["counts"].decode() in encode_run_lengths(mask).replace("\\\\", "\\")
