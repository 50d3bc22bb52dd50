"""Methods that optimise something else than a confusion model's likelihood: values by plain formulas."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from scipy.special import softmax
from tests.conftest import tiny_labels
from tests.oracles.test_enumeration import by_confusion, enumerated

import crowdwise as cw
from crowdwise.aggregate import crh, spammer_em
from crowdwise.labels import InputError

SIZES = pytest.mark.parametrize(("n_classes", "seed"), [(2, 0), (2, 1), (3, 2), (4, 4)])


# ---- minimax entropy ----------------------------------------------------------------------------------------


def share(effects: Any, truth: int, label: int) -> float:
    raised = np.exp(effects[truth])
    return float(raised[label] / raised.sum())


@SIZES
@pytest.mark.parametrize("ordinal", [False, True], ids=["free", "ordinal"])
def test_minimax_entropy(n_classes: int, seed: int, ordinal: bool) -> None:
    labels = tiny_labels(n_classes, seed, repeats=seed % 2 == 1)
    model = cw.MinimaxEntropy(regularisation=0.1, ordinal=ordinal, max_iter=3, tol=0.0).fit(labels)

    def chance(task: int, worker: int, truth: int, label: int) -> float:
        return share(model.task_effects_[task] + model.worker_effects_[worker], truth, label)

    value, posterior = enumerated(labels, np.full(n_classes, 1 / n_classes), chance)
    np.testing.assert_allclose(model.posterior_, posterior, atol=1e-10)
    assert model.log_likelihood_[-1] == pytest.approx(value, abs=1e-10)
    alpha = 0.1 * n_classes**2
    beta = alpha * (labels.n_labels / labels.n_workers) / (labels.n_labels / labels.n_tasks)
    cost = alpha / 2 * squares(model.worker_effects_, ordinal) + beta / 2 * squares(model.task_effects_, ordinal)
    assert model.objective_[-1] == pytest.approx(value - cost, abs=1e-8)


def squares(effects: Any, ordinal: bool) -> float:
    """Squared parameters: of the tables, or of the smallest four per threshold that make such tables."""
    if not ordinal:
        return float((effects**2).sum())
    n_classes = effects.shape[1]
    design = np.zeros((n_classes, n_classes, n_classes - 1, 2, 2))
    for k, label in np.ndindex(n_classes, n_classes):
        for s in range(1, n_classes):
            design[k, label, s - 1, int(k >= s), int(label >= s)] = 1
    matrix = design.reshape(n_classes**2, -1)
    total = 0.0
    for table in effects:
        parameters = np.linalg.lstsq(matrix, table.ravel(), rcond=None)[0]
        np.testing.assert_allclose(matrix @ parameters, table.ravel(), atol=1e-9)
        total += float(parameters @ parameters)
    return total


def test_effects_of_a_row_sum_to_zero() -> None:
    """A constant added to a row changes no probability and costs something, so there is none."""
    labels = cw.simulate.simulate(
        "dawid-skene", n_tasks=60, n_workers=6, n_classes=3, labels_per_task=4, random_state=2
    ).labels
    model = cw.MinimaxEntropy(regularisation=0.05).fit(labels)
    assert np.abs(model.worker_effects_.sum(axis=2)).max() < 1e-9
    assert np.abs(model.task_effects_.sum(axis=2)).max() < 1e-9
    assert np.abs(model.worker_effects_).max() > 0.5


def test_regularisation_by_held_out_labels() -> None:
    labels = cw.simulate.simulate(
        "dawid-skene", n_tasks=200, n_workers=10, n_classes=4, labels_per_task=5, random_state=5
    ).labels
    model = cw.MinimaxEntropy().fit(labels)
    assert model.regularisation_ in (1.0, 1 / 4, 1 / 16, 1 / 64, 1 / 256)
    again = cw.MinimaxEntropy(regularisation=model.regularisation_).fit(labels)
    np.testing.assert_array_equal(model.posterior_, again.posterior_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"regularisation": 0}, "regularisation is 0; it must be a number, 1e-100 or more"),
        ({"regularisation": "much"}, "regularisation is 'much'; it must be one of 'auto'"),
        ({"ordinal": 1}, "ordinal is 1; it must be True or False"),
    ],
)
def test_bad_parameters_of_minimax_entropy(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        cw.MinimaxEntropy(**parameters).fit(tiny_labels(2, 0))


# ---- spammer EM -----------------------------------------------------------------------------------------------


@SIZES
def test_spammer_em(n_classes: int, seed: int) -> None:
    labels = tiny_labels(n_classes, seed, n_workers=4, repeats=seed % 2 == 1)
    model = cw.SpammerEm(max_iter=3, tol=0.0).fit(labels)
    value, posterior = enumerated(labels, model.prior_, by_confusion(model))
    np.testing.assert_allclose(model.posterior_, posterior, atol=1e-10)
    assert model.log_likelihood_[-1] == pytest.approx(value, abs=1e-10)
    density = 0.0
    for worker, precision in enumerate(model.extra_["precision"]):
        habit = (
            np.bincount(labels.label[labels.worker == worker], minlength=n_classes) / (labels.worker == worker).sum()
        )
        for row in model.confusion_[worker]:
            distance = float(((row - habit) ** 2).sum())
            if np.isinf(precision):
                assert distance < 1e-20
            else:
                density -= precision * distance / 2
    assert model.objective_[-1] == pytest.approx(value + density, abs=1e-8)


@pytest.mark.parametrize("precision", [0.0, 0.3, 5.0, 400.0])
def test_rows_between_answers_and_habit(precision: float) -> None:
    generator = np.random.default_rng(0)
    counts = generator.gamma(1.0, 4.0, (2, 4, 4)) * (generator.random((2, 4, 4)) < 0.8)
    counts[1, 2] = 0
    habits = generator.dirichlet(np.ones(4), 2)
    found = spammer_em.maximise_rows(counts, habits, np.full(2, precision))
    for worker, truth in np.ndindex(2, 4):
        answers, habit = counts[worker, truth], habits[worker]

        def cost(logits: Any, answers: Any = answers, habit: Any = habit) -> float:
            row = softmax(logits)
            return float(-answers @ np.log(row) + precision / 2 * ((row - habit) ** 2).sum())

        if answers.sum() == 0:
            np.testing.assert_allclose(found[worker, truth], habit, atol=1e-9)
            continue
        best = minimize(cost, np.log(habit), method="BFGS", options={"gtol": 1e-8})
        row = found[worker, truth]
        seen = answers > 0
        value = -answers[seen] @ np.log(row[seen]) + precision / 2 * ((row - habit) ** 2).sum()
        assert value <= best.fun + 1e-6
        np.testing.assert_allclose(row, softmax(best.x), atol=1e-3)


def test_spammer_score_is_that_of_the_paper() -> None:
    matrices = np.random.default_rng(1).dirichlet(np.ones(3), (5, 3))
    for matrix, found in zip(matrices, spammer_em.spammer_scores(matrices), strict=True):
        pairs = [((matrix[a] - matrix[b]) ** 2).sum() for a in range(3) for b in range(a)]
        assert found == pytest.approx(sum(pairs) / 6)
    two = np.array([[[0.8, 0.2], [0.4, 0.6]]])
    assert spammer_em.spammer_scores(two)[0] == pytest.approx((0.8 + 0.6 - 1) ** 2)
    assert spammer_em.spammer_scores(np.eye(4)[None])[0] == pytest.approx(1)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_spammers_are_pruned_and_others_are_not(n_classes: int) -> None:
    spams = np.arange(40) < 15
    habit = np.random.default_rng(3).dirichlet(np.full(n_classes, 2.0), 40)
    good = 0.75 * np.eye(n_classes) + 0.25 / n_classes
    matrices = np.where(spams[:, None, None], habit[:, None, :], good)
    crowd = cw.simulate.simulate_workers(matrices, 400, 10, random_state=0)
    model = cw.SpammerEm().fit(crowd.labels)
    assert model.pruned_[~spams].sum() == 0
    assert model.pruned_[spams].mean() > 0.7  # her own labels sway the posterior a little: some stay, far down
    assert model.spammer_[spams].max() < 0.05 < model.spammer_[~spams].min()


def test_where_labels_cannot_tell_nobody_is_pruned() -> None:
    generator = np.random.default_rng(0)
    task, worker = np.repeat(np.arange(90), 2), generator.integers(0, 30, 180)
    labels = cw.CrowdLabels.from_codes(
        task, worker, generator.integers(0, 6, 180), tasks=90, workers=30, classes=6, on_duplicate="all"
    )
    model = cw.SpammerEm(max_iter=30, tol=0.0).fit(labels)
    assert labels.labels_per_worker @ model.pruned_ <= 90


# ---- CRH ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_crh(seed: int) -> None:
    """The value of the problem at the end; neither other truths nor other weights lower it; it never rose."""
    labels = tiny_labels(3, seed, n_tasks=6, n_workers=4)
    model = cw.Crh().fit(labels)
    answers = np.bincount(labels.worker, minlength=4) + 1.0

    def disagreement(truths: Any, weights: Any) -> float:
        total = sum(0.5 * weight for weight in weights)
        for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
            total += weights[worker] * (truths[task] != label)
        return float(total)

    assert (answers / answers.mean()) @ np.exp(-model.weights_) == pytest.approx(1, abs=1e-12)
    found = model.predict()
    value = disagreement(found, model.weights_)
    assert -model.objective_[-1] == pytest.approx(value, abs=1e-10)
    assert (np.diff(model.objective_) >= -1e-12).all()
    assert value <= min(disagreement(y, model.weights_) for y in itertools.product(range(3), repeat=6)) + 1e-12
    generator = np.random.default_rng(seed)
    for _ in range(200):
        other = np.exp(-model.weights_) * generator.uniform(0.8, 1.2, 4)
        other = -np.log(other / ((answers / answers.mean()) @ other))
        if (other >= 0).all():
            assert disagreement(found, other) >= value - 1e-12


def test_weights_of_crh_are_those_of_the_paper_where_all_answer_alike() -> None:
    loss = np.array([1.0, 2.0, 5.0])
    np.testing.assert_allclose(crh.optimal_weights(loss, np.ones(3)), -np.log(loss / 8))
    one = crh.optimal_weights(np.array([1.0, 1.0, 0.9]), np.array([1.5, 1.45, 0.05]))
    assert one[2] == 0
    assert np.array([1.5, 1.45, 0.05]) @ np.exp(-one) == pytest.approx(1)


def test_bad_parameters_of_crh() -> None:
    with pytest.raises(InputError, match="smoothing is 0; it must be a number, above 0"):
        cw.Crh(smoothing=0).fit(tiny_labels(2, 0))


# ---- max-margin majority vote -----------------------------------------------------------------------------------


def lacking(votes: Any, truth: int, margin: float) -> float:
    return max(margin + vote - votes[truth] for other, vote in enumerate(votes) if other != truth)


@pytest.mark.parametrize(("n_classes", "seed"), [(2, 0), (3, 2), (3, 3), (4, 5)])
def test_m3v(n_classes: int, seed: int) -> None:
    """The cost at the end, in the words of the paper; it never rose; the vote is the truth that costs least."""
    labels = tiny_labels(n_classes, seed, n_tasks=8, n_workers=4, repeats=seed == 3)
    model = cw.MaxMarginMajorityVote(inference="m3v", cost=0.1, margin=1.5, variance=2.0).fit(labels)
    votes = np.zeros((8, n_classes))
    for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
        votes[task, label] += model.weights_[worker]
    costs = np.array([[max(0.0, lacking(row, k, 1.5)) for k in range(n_classes)] for row in votes])
    value = 0.5 / 2.0 * sum(weight**2 for weight in model.weights_) + 2 * 0.1 * costs.min(axis=1).sum()
    assert -model.objective_[-1] == pytest.approx(value, abs=1e-8)
    assert (np.diff(model.objective_) >= -1e-12).all()
    named = np.bincount(labels.label, minlength=n_classes) > 0
    chance = np.exp(-2 * 0.1 * costs) * named
    np.testing.assert_allclose(model.posterior_, chance / chance.sum(axis=1, keepdims=True), atol=1e-12)


def test_weights_of_m3v_solve_the_problem_for_two_classes() -> None:
    labels = cw.simulate.simulate(
        "one-coin", n_tasks=60, n_workers=5, n_classes=2, labels_per_task=4, random_state=1
    ).labels
    model = cw.MaxMarginMajorityVote(inference="m3v", cost=0.02, max_iter=500).fit(labels)
    truths = model.predict()

    def cost(weights: Any) -> float:
        votes = np.zeros((60, 2))
        np.add.at(votes, (labels.task, labels.label), weights[labels.worker])
        lack = 3.0 - (votes[np.arange(60), truths] - votes[np.arange(60), 1 - truths])
        return float(0.5 * weights @ weights + 0.04 * np.maximum(lack, 0).sum())

    best = minimize(cost, model.weights_, method="Nelder-Mead", options={"maxiter": 5000, "fatol": 1e-9})
    assert cost(model.weights_) <= best.fun + 1e-2


def test_crowd_svm_samples_the_posterior() -> None:
    """Truths of three tasks, with confusion matrices summed out in closed form and weights by quadrature."""
    task, worker, label = [0, 0, 1, 1, 2], [0, 1, 0, 1, 0], [0, 0, 1, 0, 1]
    labels = cw.CrowdLabels.from_codes(task, worker, label, tasks=3, workers=2, classes=2)
    cost, margin, variance = 0.4, 1.0, 1.5
    grid = np.linspace(-6, 6, 121)
    first, second = np.meshgrid(grid, grid, indexing="ij")
    density = np.exp(-(first**2 + second**2) / (2 * variance))
    exact = np.zeros((3, 2))
    for truths in itertools.product(range(2), repeat=3):
        counts = np.zeros((2, 2, 2))
        votes = np.zeros((3, 2, *first.shape))
        for t, w, given in zip(task, worker, label, strict=True):
            counts[w, truths[t], given] += 1
            votes[t, given] += (first, second)[w]
        rows = np.prod([rising(row) for matrix in counts for row in matrix])
        lack = sum(np.maximum(margin + votes[t, 1 - y] - votes[t, y], 0) for t, y in enumerate(truths))
        # Of the two halves that are mirror images, the one where votes count for what they say.
        chance = float(rows * (density * np.exp(-2 * cost * lack) * (3 * first + 2 * second > 0)).sum())
        for t, y in enumerate(truths):
            exact[t, y] += chance
    exact /= exact.sum(axis=1, keepdims=True)
    model = cw.MaxMarginMajorityVote(cost=cost, margin=margin, variance=variance, max_iter=6_000).fit(labels)
    np.testing.assert_allclose(model.posterior_, exact, atol=0.03)


def rising(counts: Any) -> float:
    """Probability of answers in a given order under a flat Dirichlet prior."""
    value, seen = 1.0, np.ones(counts.size)
    for place, number in enumerate(counts):
        for _ in range(int(number)):
            value *= seen[place] / seen.sum()
            seen[place] += 1
    return value


@pytest.mark.parametrize("name", ["margin", "cost", "variance", "smoothing"])
def test_bad_parameters_of_max_margin(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} is 0; it must be a number, above 0"):
        cw.MaxMarginMajorityVote(**{name: 0}).fit(tiny_labels(2, 0))
    with pytest.raises(InputError, match="inference is 'vb'; it must be one of 'gibbs', 'm3v'"):
        cw.MaxMarginMajorityVote(inference="vb").fit(tiny_labels(2, 0))


# ---- learning from crowds, binary ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_lfc_binary(seed: int) -> None:
    labels = tiny_labels(2, seed, repeats=seed == 1)
    model = cw.LfcBinary(right=1.5, wrong=0.5, max_iter=3, tol=0.0).fit(labels)

    def chance(_task: int, worker: int, truth: int, label: int) -> float:
        right = model.sensitivity_[worker, 1] if truth == 1 else model.specificity_[worker, 1]
        return float(right if truth == label else 1 - right)

    value, posterior = enumerated(labels, model.prior_, chance)
    np.testing.assert_allclose(model.posterior_, posterior, atol=1e-10)
    assert model.log_likelihood_[-1] == pytest.approx(value, abs=1e-10)
    rates = np.concatenate([model.sensitivity_[:, 1], model.specificity_[:, 1]])
    assert model.objective_[-1] == pytest.approx(value + stats.beta.logpdf(rates, 2.5, 1.5).sum(), abs=1e-10)
    np.testing.assert_array_equal(model.sensitivity_[:, 0], model.specificity_[:, 1])


def test_lfc_binary_one_against_the_rest() -> None:
    """Each class against the rest is its own two-class fit; the probabilities are brought to sum to 1."""
    labels = cw.simulate.simulate(
        "dawid-skene", n_tasks=80, n_workers=8, n_classes=3, labels_per_task=4, random_state=4
    ).labels
    model = cw.LfcBinary().fit(labels)
    chance, objective = np.empty((80, 3)), 0.0
    for k in range(3):
        is_class = (labels.label == k).astype(int)
        pair = cw.CrowdLabels.from_codes(labels.task, labels.worker, is_class, tasks=80, workers=8, classes=2)
        alone = cw.LfcBinary().fit(pair)
        chance[:, k] = alone.posterior_[:, 1]
        objective += alone.objective_[-1]
        np.testing.assert_allclose(model.sensitivity_[:, k], alone.sensitivity_[:, 1], atol=1e-12)
    np.testing.assert_allclose(model.posterior_, chance / chance.sum(axis=1, keepdims=True), atol=1e-12)
    assert model.objective_[-1] == pytest.approx(objective, abs=1e-9)


def test_lfc_binary_without_priors_is_dawid_skene() -> None:
    labels = cw.simulate.simulate(
        "one-coin", n_tasks=60, n_workers=6, n_classes=2, labels_per_task=4, random_state=1
    ).labels
    plain = cw.DawidSkene().fit(labels)
    np.testing.assert_allclose(cw.LfcBinary(right=0).fit(labels).posterior_, plain.posterior_, atol=1e-12)
    with pytest.raises(InputError, match="right is -1; it must be a number, 0 or more"):
        cw.LfcBinary(right=-1).fit(labels)
