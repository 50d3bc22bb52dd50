"""Every parameter of every method and simulated crowd at its limits: a sound result, or an `InputError`."""

from __future__ import annotations

import inspect
import itertools
import warnings
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.acquire import OnlineModel
from crowdwise.fitting.parameter_checks import LARGEST, SMALLEST, check_count, check_number
from crowdwise.kinds import simulate_values
from crowdwise.kinds.values import GaussianValues
from crowdwise.registry import method, methods
from crowdwise.simulate import CROWDS
from crowdwise.simulate import simulate as simulate_crowd

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE: list[Any] = [
    None, True, 0, 1, -1, 10**29, 0.0, -0.5, 1.0, 1e-300, 5e-324, 1e99, 1e308, float("nan"), float("inf"),
    "1", "x", b"1", np.float32(0.5), np.int8(2), np.array(2), np.array([1, 2]), [], {}, 1j, Fraction(1, 2),
    Decimal("0.5"), object(),
]  # fmt: skip
SHARED = {"engine", "max_iter", "tol", "random_state", "max_workers"}  # checked in one place for all methods
N_TASKS = 12


@pytest.fixture(scope="module")
def small() -> cw.CrowdLabels:
    return simulate_crowd(
        "dawid-skene", n_tasks=N_TASKS, n_workers=5, n_classes=2, labels_per_task=3, random_state=3
    ).labels


STRUCTURE = {
    "sequences": {"sequences": {name: (name // 4, name) for name in range(N_TASKS)}},
    "graph": {"graph": [(name, name + 1) for name in range(N_TASKS - 1)]},
}
OWN = [
    (each.slug, name)
    for each in methods()
    for name in each.load()._parameters()
    if name not in SHARED or each.slug == "dawid-skene"
]


@pytest.mark.parametrize(("slug", "name"), OWN)
def test_parameter_of_a_method(slug: str, name: str, small: cw.CrowdLabels) -> None:
    entry = method(slug)
    few = {"max_iter": 3} if entry.iterative else {}
    for value in HOSTILE:
        model = entry.load()(**{**STRUCTURE.get(entry.needs, {}), **few, name: value})
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", cw.NotConverged)
                posterior = model.fit(small).posterior_
        except cw.InputError:
            continue
        assert np.isfinite(posterior).all(), value
        assert np.allclose(posterior.sum(axis=1), 1), value


@pytest.mark.parametrize("slug", CROWDS)
def test_parameters_of_a_crowd(slug: str) -> None:
    for name in inspect.signature(CROWDS[slug]).parameters:
        for value in (*HOSTILE, [0.5, 0.5], [1e308, 1e308], [[1, 2], [3]]):
            try:
                made = CROWDS[slug](**{"n_tasks": 5, name: value})
            except cw.InputError:
                continue
            assert np.isfinite(made.confusion).all(), (name, value)


def test_numbers_are_kept_as_pythons_own() -> None:
    model = cw.ZenCrowd(reliability=1, max_iter=np.int8(100), tol=np.float32(0.5))
    assert [type(value) for value in (model.reliability, model.max_iter, model.tol)] == [float, int, float]
    model.set_params(tol=Fraction(1, 2))
    assert model.tol == 0.5
    assert type(model.tol) is float
    assert cw.DawidSkene(tol=True).tol is True  # refused when fitted, as it was given


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (1e308, "x is 1e+308; it must be a number, above 0 and at most 1e+90."),
        (5e-324, "x is 5e-324; it must be a number, above 0 (at least 1e-90)."),
        (float("nan"), "x is nan; it must be a number, above 0."),
        (0, "x is 0; it must be a number, above 0."),
    ],
)
def test_what_is_said_of_a_number(value: float, said: str) -> None:
    with pytest.raises(cw.InputError) as caught:
        check_number("x", value, low=0, above=True)
    assert str(caught.value) == said


def test_what_is_said_of_a_count() -> None:
    with pytest.raises(cw.InputError, match="1 or more and at most 2147483647"):
        check_count("n", 10**29)


def test_seeds_have_an_end(small: cw.CrowdLabels) -> None:
    """One of thousands of digits was taken by fit, and neither shown nor saved."""
    assert cw.EnhancedBcc(random_state=2**128 - 1, n_restarts=1).fit(small).random_state == 2**128 - 1
    with pytest.raises(cw.InputError, match=r"random_state is too large; it must be a whole number below 2\*\*128"):
        cw.EnhancedBcc(random_state=10**5000).fit(small)


def test_what_fits_learn_of_their_own_sort(small: cw.CrowdLabels) -> None:
    model = cw.MajorityVote().fit(small)
    assert model.workers(Fraction(9, 10)) == model.workers(0.9)
    for ask in (model.calibration, model.predict_sets):
        with pytest.raises(cw.InputError, match="needs gold, for which majority-vote has no use"):
            ask()


def test_what_fits_make_of_the_smallest_and_largest_parameters_is_loaded(small: cw.CrowdLabels, tmp_path: Path) -> None:
    values = simulate_values(n_tasks=8, n_workers=4, random_state=0).answers
    makers: list[tuple[type, str, Any]] = [
        (cw.BayesianWeightedAverage, "strength", small),
        (cw.EnhancedBcc, "wrong", small),
        (cw.BayesianClassifierCombination, "right", small),
        (cw.CommunityBcc, "community_prior", small),
        (GaussianValues, "strength", values),
    ]
    for kind, name, answers in makers:
        for value in (SMALLEST, LARGEST):
            kind(**{name: value}, max_iter=20).fit(answers).save(tmp_path / "model")
            cw.load(tmp_path / "model")
        for value in (SMALLEST / 10, LARGEST * 10):
            with pytest.raises(cw.InputError, match=f"{name} is .*; it must be a number"):
                kind(**{name: value}).fit(answers)
    for name in ("right", "wrong"):
        for value in (SMALLEST, LARGEST):
            online = OnlineModel(["a", "b"], family="mean-field", **{name: value})
            for task, worker in itertools.product(range(5), range(3)):
                online.add(task, worker, "ab"[(task + worker) % 2])
            online.save(tmp_path / "online")
            OnlineModel.load(tmp_path / "online")
        with pytest.raises(cw.InputError, match=f"{name} is 1e-91; it must be a number"):
            OnlineModel(["a", "b"], **{name: SMALLEST / 10})


@pytest.mark.parametrize("model", [cw.EnhancedBcc(n_subtypes=10**9), cw.CommunityBcc(n_communities=10**8)])
def test_tables_of_too_many_groups(model: Any) -> None:
    with pytest.raises(cw.InputError, match="1 or more and at most 1000"):
        model.fit(cw.CrowdLabels.from_dense([[0, 1], [1, 1], [0, 0]]))
