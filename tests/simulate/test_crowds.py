"""What every crowd of the registry promises."""

from __future__ import annotations

import inspect
import tracemalloc

import numpy as np
import pytest

from crowdwise.labels.errors import InputError
from crowdwise.simulate import CROWDS, Simulation, simulate, simulate_crowd, simulate_workers

every_crowd = pytest.mark.parametrize("slug", CROWDS)


def counts_of(simulation: Simulation) -> np.ndarray:
    labels, confusion = simulation.labels, simulation.confusion
    counts = np.zeros(confusion.shape)
    np.add.at(counts, (labels.worker, simulation.truth[labels.task], labels.label), 1)
    return counts


@every_crowd
def test_shapes_and_distributions(slug: str) -> None:
    simulation = simulate(slug, random_state=3)
    labels = simulation.labels
    n_tasks, n_workers, n_classes = labels.n_tasks, labels.n_workers, labels.n_classes
    assert simulation.truth.shape == (n_tasks,)
    assert simulation.confusion.shape == (n_workers, n_classes, n_classes)
    assert (simulation.confusion >= 0).all()
    np.testing.assert_allclose(simulation.confusion.sum(axis=2), 1, atol=1e-12)
    np.testing.assert_allclose(simulation.prior.sum(), 1)
    assert simulation.kinds is None or len(simulation.kinds) == n_workers
    assert simulation.groups is None or simulation.groups.shape == (n_workers,)
    pairs = labels.task.astype(np.int64) * n_workers + labels.worker
    assert np.unique(pairs).size == len(labels)
    assert simulation.truth_table().num_rows == n_tasks
    assert "of the labels are right" in repr(simulation)


@every_crowd
def test_labels_follow_the_confusion_matrices(slug: str) -> None:
    # Every cell has its own z; |z| < 4.5 (1 in 150,000) over 1,010 cells at most: under 1 % false alarm.
    # Workers of a group share their luck, but each cell is still binomial.
    sizes = {"n_tasks": 3000} | ({"n_workers": 30, "labels_per_task": 3} if slug in ("one-coin", "two-coin") else {})
    simulation = simulate(slug, random_state=11, **sizes)
    counts, wanted = counts_of(simulation), simulation.confusion
    trials = counts.sum(axis=2, keepdims=True)
    error = np.abs(counts - trials * wanted)
    assert (error <= 4.5 * np.sqrt(trials * wanted * (1 - wanted)) + 1).all()
    assert (counts[wanted == 0] == 0).all()


@every_crowd
def test_same_seed_same_bits(slug: str) -> None:
    one, same, other = (
        simulate(slug, random_state=5),
        simulate(slug, random_state=np.random.default_rng(5)),
        simulate(slug, random_state=6),
    )
    for name in ("task", "worker", "label"):
        assert np.array_equal(getattr(one.labels, name), getattr(same.labels, name))
    assert np.array_equal(one.truth, same.truth)
    assert np.array_equal(one.confusion, same.confusion)
    assert not np.array_equal(one.truth, other.truth)


@every_crowd
def test_the_truth_of_real_tasks_can_be_used(slug: str) -> None:
    truth = np.arange(1000) % 2
    simulation = simulate(slug, truth=truth, random_state=1)
    assert np.array_equal(simulation.truth, truth)
    assert simulation.prior[:2].tolist() == [0.5, 0.5]


@every_crowd
def test_every_crowd_explains_itself(slug: str) -> None:
    crowd = CROWDS[slug]
    first = (crowd.__doc__ or "").splitlines()[0]
    assert first.endswith(".")
    assert len(first) < 110
    for parameter in inspect.signature(crowd).parameters.values():
        assert parameter.default is not inspect.Parameter.empty
        assert parameter.name in (crowd.__doc__ or "")


def test_prior_is_followed() -> None:
    prior = [0.7, 0.2, 0.1]
    simulation = simulate_crowd(
        n_tasks=20_000, n_workers=5, n_classes=3, labels_per_task=1, prior=prior, random_state=4
    )
    shares = np.bincount(simulation.truth, minlength=3) / 20_000
    assert (np.abs(shares - prior) < 4.5 * np.sqrt(np.array(prior) / 20_000)).all()


def test_skill_is_the_mean_of_the_diagonal() -> None:
    simulation = simulate_crowd(n_workers=2000, n_classes=5, skill=0.62, concentration=8, n_tasks=10, random_state=0)
    diagonal = np.einsum("wkk->wk", simulation.confusion)
    error = np.sqrt(0.62 * 0.38 / 9 / diagonal.size)  # a Beta(8 × .62, 8 × .38)
    assert abs(diagonal.mean() - 0.62) < 4 * error
    np.testing.assert_allclose(simulation.skill, diagonal.mean(axis=1))


def test_accuracy_and_truth_table() -> None:
    simulation = simulate_workers(np.eye(2)[None], n_tasks=4, truth=[0, 1, 1, 0], classes=("cat", "dog"))
    assert simulation.accuracy == 1
    assert simulation.truth_table().to_pydict() == {
        "task": [0, 1, 2, 3],
        "label": ["cat", "dog", "dog", "cat"],
    }


def test_memory_is_a_matter_of_labels() -> None:
    simulate_crowd()  # compiled
    tracemalloc.start()
    simulation = simulate_crowd(n_tasks=400_000, n_workers=4000, n_classes=10, labels_per_task=5, random_state=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(simulation.labels) == 2_000_000
    assert peak < 40 * len(simulation.labels)  # a table of tasks × workers would take 800 bytes a label


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"slug": "colluder"}, "There is no crowd 'colluder'. Did you mean 'colluders'"),
        ({"slug": "dawid-skene", "n_groups": 3}, "has no parameter 'n_groups'; it has n_tasks, n_workers"),
        ({"slug": "dawid-skene", "n_tasks": 0}, "n_tasks is 0; it must be a whole number, at least 1"),
        ({"slug": "dawid-skene", "n_workers": 2.5}, "n_workers is 2.5"),
        ({"slug": "dawid-skene", "n_classes": 1}, "n_classes is 1"),
        ({"slug": "dawid-skene", "skill": 1.2}, "skill is 1.2; it must be a number from 0 to 1"),
        ({"slug": "dawid-skene", "skill": 1.0}, "both excluded"),
        ({"slug": "dawid-skene", "concentration": 0}, "must be positive"),
        ({"slug": "dawid-skene", "random_state": -1}, "random_state is -1"),
        ({"slug": "dawid-skene", "random_state": "x"}, "random_state is 'x'"),
        ({"slug": "dawid-skene", "prior": [0.5, 0.5]}, "prior must hold 4 shares"),
        (
            {"slug": "dawid-skene", "truth": [0, 9]},
            "truth must hold positions from 0 to 3; it reaches from 0 to 9",
        ),
        ({"slug": "dawid-skene", "truth": [0.5]}, "truth must be one whole number a task"),
        ({"slug": "hammer-spammers", "uniform_over": "some"}, "uniform_over is 'some'"),
        ({"slug": "pairwise-flippers", "noise": -1}, "noise is -1"),
        ({"slug": "spammers", "share": "x"}, "share is 'x'"),
        ({"slug": "groups", "n_groups": 50}, "n_groups is 50, but 40 workers"),
        ({"slug": "one-coin", "alpha": 2}, "alpha is 2; it must be two positive numbers"),
        (
            {"slug": "one-coin", "n_workers": 700},
            "no regular assignment of 1000 tasks × 3 labels to 700 workers",
        ),
        ({"slug": "two-coin", "alpha": np.ones((3, 3))}, "it must be 2×2"),
        ({"slug": "two-coin", "alpha": [[1, 0], [1, 1]]}, "K×K matrix of positive numbers"),
        ({"slug": "kappa-raters", "kappas": (0.8, 1.2)}, "it must hold a number from 0 to 1 for each rater"),
        ({"slug": "kappa-raters", "kappas": ()}, "it must hold a number from 0 to 1 for each rater"),
        ({"slug": "naive-majority", "data": "mnist"}, "data is 'mnist'"),
    ],
)
def test_bad_parameters_are_named(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        simulate(**parameters)  # type: ignore[arg-type]


def test_matrices_that_are_none_are_named() -> None:
    with pytest.raises(InputError, match=r"shape \(workers, K, K\)"):
        simulate_workers(np.eye(2))
    with pytest.raises(InputError, match="Row 1 of worker 0's confusion matrix is no distribution"):
        simulate_workers([[[1, 0], [0.5, 0.4]]])


@pytest.mark.parametrize("sharing", ["draw", "factor"])
def test_families_err_together_as_their_correlations_say(sharing: str) -> None:
    crowd = simulate(
        "families",
        n_tasks=20_000,
        n_workers=8,
        sizes=(3, 3),
        correlation=0.4,
        common=0.1,
        sharing=sharing,
        random_state=1,
    )
    wrong = (crowd.labels.label != crowd.truth[crowd.labels.task]).reshape(20_000, 8)
    true = crowd.extras["error_correlation"]
    np.testing.assert_allclose(np.corrcoef(wrong.T.astype(float)), true, atol=0.035)  # five standard errors
    assert crowd.groups is not None
    assert crowd.groups.tolist() == [0, 0, 0, 1, 1, 1, -1, -1]
    assert true[0, 1] > true[0, 3] > 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"sizes": (9,)}, "sizes add up to 9"),
        ({"sizes": (3,), "sharing": "luck"}, "draw, factor"),
        ({"sizes": (3,), "correlation": 0.7, "common": 0.2}, "square roots"),
        ({"sizes": (3,), "correlation": -0.1}, "negative"),
    ],
)
def test_families_that_cannot_be(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        simulate("families", n_tasks=10, n_workers=6, **wrong)


@every_crowd
def test_seed_is_still_taken_with_a_warning(slug: str) -> None:
    with pytest.warns(DeprecationWarning, match="seed of simulate is now called random_state"):
        old = simulate(slug, seed=5)
    new = simulate(slug, random_state=5)
    np.testing.assert_array_equal(old.labels.label, new.labels.label)
