"""Agreement and the ratios against plain loops and scikit-learn, on sparse and awkward crowds."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.metrics import cohen_kappa_score

from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError
from crowdwise.metrics import (
    agreement_ratio,
    cohen_kappa,
    discrepancy_ratio,
    fleiss_kappa,
    held_out_log_likelihood,
    krippendorff_alpha,
    model_kappas,
    observed_agreement,
    pairwise_kappas,
)


@st.composite
def crowds(draw, *, repeats: bool = True) -> CrowdLabels:
    """Sparse crowds: tasks without labels, workers without labels, unused classes, repeated answers."""
    n, m, k = draw(st.integers(1, 12)), draw(st.integers(1, 5)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = draw(st.integers(0, 40))
    task, worker = rng.integers(0, n, size), rng.integers(0, m, size)
    label = rng.integers(0, draw(st.integers(1, k)), size)
    return CrowdLabels.from_codes(
        task, worker, label, tasks=n, workers=m, classes=k, on_duplicate="all" if repeats else "last"
    )


def rows_of(labels: CrowdLabels) -> list[list[int]]:
    return [labels.label[a:b].tolist() for a, b in zip(labels.task_ptr, labels.task_ptr[1:], strict=False)]


def test_cohen_kappa_agrees_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        first = rng.integers(0, 5, 60)
        second = np.where(rng.random(60) < 0.5, first, rng.integers(0, 5, 60))
        for weights in (None, "linear", "quadratic"):
            expected = cohen_kappa_score(first, second, labels=np.arange(5), weights=weights)
            assert cohen_kappa(first, second, weights=weights) == pytest.approx(expected, abs=1e-12)


def test_cohen_kappa_leaves_out_missing_answers_and_knows_when_it_is_undefined() -> None:
    assert cohen_kappa([0, 0, 1, 1, None, 1], [0, 0, 1, 0, 1, -1]) == cohen_kappa([0, 0, 1, 1], [0, 0, 1, 0])
    assert math.isnan(cohen_kappa([0, 0], [0, 0]))
    assert math.isnan(cohen_kappa([0, -1], [-1, 0]))
    assert cohen_kappa([0, 1], [1, 0]) == -1


@given(crowds(), st.sampled_from([None, "linear", "quadratic"]))
@settings(max_examples=80, deadline=None)
def test_pairwise_kappas_are_cohens_of_each_pair(labels, weights) -> None:
    found = pairwise_kappas(labels, weights=weights)
    expected = {}
    for one, two in combinations(range(labels.n_workers), 2):
        pairs = [
            (labels.label[e], labels.label[f])
            for e in np.flatnonzero(labels.worker == one)
            for f in np.flatnonzero(labels.worker == two)
            if labels.task[e] == labels.task[f]
        ]
        if pairs:
            expected[one, two] = (len(pairs), cohen_kappa(*np.array(pairs).T, weights=weights))
    assert list(zip(found.first.tolist(), found.second.tolist(), strict=True)) == list(expected)
    assert found.n_common.tolist() == [n for n, _ in expected.values()]
    np.testing.assert_allclose(found.kappa, [kappa for _, kappa in expected.values()], atol=1e-12)
    enough = pairwise_kappas(labels, weights=weights, min_common=2)
    assert enough.n_common.tolist() == [n for n, _ in expected.values() if n >= 2]


@given(crowds())
@settings(max_examples=80, deadline=None)
def test_fleiss_and_observed_agreement_by_plain_loops(labels) -> None:
    tasks = [row for row in rows_of(labels) if row]
    shares = [np.mean([a == b for a, b in combinations(row, 2)]) for row in tasks if len(row) > 1]
    observed = np.mean(shares) if shares else math.nan
    assert observed_agreement(labels) == pytest.approx(observed, nan_ok=True)
    p = [np.mean([row.count(k) / len(row) for row in tasks]) if tasks else 0 for k in range(labels.n_classes)]
    chance = float(np.square(p).sum())
    kappa = (observed - chance) / (1 - chance) if chance < 1 - 1e-12 else math.nan
    assert fleiss_kappa(labels) == pytest.approx(kappa, nan_ok=True, abs=1e-12)
    assert fleiss_kappa(labels.vote_counts()) == pytest.approx(kappa, nan_ok=True, abs=1e-12)


@pytest.mark.parametrize("n", [3, 49, 103])
def test_one_class_only_is_undefined_and_not_rounded_to_perfect(n) -> None:
    assert math.isnan(fleiss_kappa([[n, 0], [n, 0]]))
    assert math.isnan(krippendorff_alpha([[n, 0], [n, 0]]))
    zeros = np.zeros(n, int)
    labels = CrowdLabels.from_codes(zeros, np.arange(n), zeros, tasks=1, workers=n, classes=2)
    for discrepancy in ("mismatch", "absolute", "squared"):
        assert math.isnan(discrepancy_ratio([0], labels, discrepancy=discrepancy, values=[0.1, 0.7]))
        assert discrepancy_ratio([1], labels, discrepancy=discrepancy, values=[0.1, 0.7]) == math.inf


@given(crowds(), st.sampled_from(["nominal", "ordinal", "interval", "ratio"]))
@settings(max_examples=80, deadline=None)
def test_krippendorff_by_pairs_of_answers(labels, level) -> None:
    tasks = [row for row in rows_of(labels) if len(row) > 1]
    answers = [label for row in tasks for label in row]

    def distance(c: int, k: int) -> float:
        if level == "nominal":
            return float(c != k)
        if level == "ordinal":
            low, high = min(c, k), max(c, k)
            between = sum(answers.count(g) for g in range(low, high + 1))
            return (between - (answers.count(c) + answers.count(k)) / 2) ** 2
        return float((c - k) ** 2 if level == "interval" else ((c - k) / (c + k)) ** 2 if c + k else 0)

    within = sum(2 * distance(a, b) / (len(row) - 1) for row in tasks for a, b in combinations(row, 2))
    across = sum(2 * distance(a, b) for a, b in combinations(answers, 2))
    expected = 1 - within * (len(answers) - 1) / across if across else math.nan
    assert krippendorff_alpha(labels, level=level) == pytest.approx(expected, nan_ok=True, abs=1e-9)


@given(crowds(), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_bounds_and_permutations(labels, random) -> None:
    order = np.array(random.sample(range(labels.n_tasks), labels.n_tasks))
    who = np.array(random.sample(range(labels.n_workers), labels.n_workers))
    what = np.array(random.sample(range(labels.n_classes), labels.n_classes))
    shuffled = CrowdLabels.from_codes(
        order[labels.task], who[labels.worker], what[labels.label],
        tasks=labels.n_tasks, workers=labels.n_workers, classes=labels.n_classes, on_duplicate="all",
    )  # fmt: skip
    for score in (observed_agreement, fleiss_kappa, krippendorff_alpha):
        value = score(labels)
        assert math.isnan(value) or value <= 1 + 1e-12
        assert score(shuffled) == pytest.approx(value, nan_ok=True, abs=1e-12)
    kappas = pairwise_kappas(labels).kappa
    np.testing.assert_allclose(np.sort(kappas), np.sort(pairwise_kappas(shuffled).kappa), atol=1e-12)
    assert np.nanmax(kappas, initial=0) <= 1 + 1e-12
    assert np.nanmin(kappas, initial=0) >= -1 - 1e-12


def test_values_of_classes() -> None:
    edges = ([0, 0, 1, 1, 2, 2], [0, 1] * 3, [0, 1, 1, 1, 2, 0])
    names = {"tasks": 3, "workers": 2}
    numbers = CrowdLabels.from_codes(*edges, **names, classes=["10", "2.5", "4"])
    words = CrowdLabels.from_codes(*edges, **names, classes=["low", "mid", "high"])
    given_values = krippendorff_alpha(words, level="interval", values=[10, 2.5, 4])
    assert krippendorff_alpha(numbers, level="interval") == pytest.approx(given_values)
    # Numbers are ranked by value, words by their order.
    by_value = krippendorff_alpha(words, level="ordinal", values=[3, 1, 2])
    assert krippendorff_alpha(numbers, level="ordinal") == pytest.approx(by_value)
    assert krippendorff_alpha(words, level="ordinal") == pytest.approx(
        krippendorff_alpha(words, level="ordinal", values=[-1, 0, 7])
    )
    assert krippendorff_alpha(words, level="ordinal") != pytest.approx(by_value)


@given(crowds(repeats=False), st.integers(0, 2**32 - 1), st.sampled_from([1, 2]))
@settings(max_examples=60, deadline=None)
def test_agreement_ratio_is_a_ratio_of_means(labels, seed, min_common) -> None:
    rng = np.random.default_rng(seed)
    predicted = rng.integers(-1, labels.n_classes, labels.n_tasks)
    kappas = []
    for worker in range(labels.n_workers):
        mine = labels.worker == worker
        model, said = predicted[labels.task[mine]], labels.label[mine]
        few = (model >= 0).sum() < min_common
        kappas.append(math.nan if few else cohen_kappa(model, said))
    found = model_kappas(predicted, labels, min_common=min_common)
    np.testing.assert_allclose(found, kappas, atol=1e-12)
    pairs = pairwise_kappas(labels, min_common=min_common).kappa
    above, below = np.array(kappas), pairs
    above, below = expit(above[~np.isnan(above)]), expit(below[~np.isnan(below)])
    expected = above.mean() / below.mean() if above.size and below.size else math.nan
    ratio = agreement_ratio(predicted, labels, min_common=min_common)
    assert ratio == pytest.approx(expected, nan_ok=True)


@given(crowds(), st.integers(0, 2**32 - 1), st.sampled_from(["mismatch", "absolute", "squared"]))
@settings(max_examples=80, deadline=None)
def test_discrepancy_ratio_by_plain_loops(labels, seed, discrepancy) -> None:
    rng = np.random.default_rng(seed)
    predicted = rng.integers(-1, labels.n_classes, labels.n_tasks)
    values = rng.normal(0, 3, labels.n_classes)

    def gap(a: int, b: int) -> float:
        if discrepancy == "mismatch":
            return float(a != b)
        return float(abs(values[a] - values[b]) ** (2 if discrepancy == "squared" else 1))

    tasks = [(p, row) for p, row in zip(predicted, rows_of(labels), strict=True) if p >= 0 and len(row) > 1]
    found = discrepancy_ratio(predicted, labels, discrepancy=discrepancy, values=values)
    if not tasks:
        assert math.isnan(found)
        return
    model = np.mean([np.mean([gap(p, label) for label in row]) for p, row in tasks])
    among = np.mean([np.mean([gap(a, b) for a, b in combinations(row, 2)]) for _, row in tasks])
    expected = model / among if among else math.inf if model else math.nan
    assert found == pytest.approx(expected, nan_ok=True, rel=1e-9)


@given(crowds(), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_held_out_log_likelihood_by_plain_loops(labels, seed) -> None:
    if not labels.n_labels:
        return
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.ones(labels.n_classes), labels.n_tasks)
    confusion = rng.dirichlet(np.ones(labels.n_classes), (labels.n_workers, labels.n_classes))
    expected = np.mean(
        [
            math.log(sum(q[t, k] * confusion[w, k, label] for k in range(labels.n_classes)))
            for t, w, label in zip(labels.task, labels.worker, labels.label, strict=True)
        ]
    )
    assert held_out_log_likelihood(q, confusion, labels) == pytest.approx(expected, rel=1e-12)


def test_held_out_log_likelihood_edge_cases(monkeypatch) -> None:
    labels = CrowdLabels.from_codes([0, 1, 1], [0, 0, 1], [0, 1, 0], tasks=3, workers=3, classes=2)
    q = np.array([[1.0, 0.0], [0.3, 0.7], [np.nan, np.nan]])  # task 2 and worker 2 are not asked about
    confusion = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.6, 0.4], [0.5, 0.5]], [[np.nan] * 2] * 2])
    value = held_out_log_likelihood(q, confusion, labels)
    assert value == pytest.approx(np.log([0.9, 0.3 * 0.1 + 0.7 * 0.8, 0.3 * 0.6 + 0.7 * 0.5]).mean())
    monkeypatch.setattr("crowdwise.metrics.model_scores_without_truth.BLOCK", 2)
    assert held_out_log_likelihood(q, confusion, labels) == pytest.approx(value, rel=1e-15)
    certain = np.array([np.eye(2)] * 3)
    surprised = np.array([[0.0, 1.0], [0.5, 0.5], [0.5, 0.5]])
    assert held_out_log_likelihood(surprised, certain, labels) == -math.inf
    assert held_out_log_likelihood(surprised, certain, labels, floor=0.5) == pytest.approx(math.log(0.5))


PAIR = CrowdLabels.from_codes([0, 0, 1], [0, 1, 0], [0, 1, 1], tasks=2, workers=2, classes=["no", "yes"])
Q, A = np.full((2, 2), 0.5), np.full((2, 2, 2), 0.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cohen_kappa([0], [0, 1]), "first has 1 answers and second has 2"),
        (lambda: cohen_kappa([0, 1], [0, 1], weights="cubic"), "weights is 'cubic'"),
        (lambda: cohen_kappa([0, 1], [0, 1], weights=[[0, 1]]), "square matrix"),
        (lambda: cohen_kappa([0, 2], [0, 1], weights=[[0, 1], [1, 0]]), "for 2 classes; the labels have 3"),
        (lambda: cohen_kappa([0, 1], [0, 1], weights=np.eye(2)), "weights of disagreement"),
        (lambda: pairwise_kappas(PAIR, min_common=0), "min_common is 0"),
        (lambda: fleiss_kappa([1, 2]), "Give CrowdLabels, or a table of vote counts"),
        (lambda: fleiss_kappa([[1, 2], [-1, 3], [0.5, 1]]), "rows 1, 2 hold others"),
        (lambda: krippendorff_alpha(PAIR, level="cardinal"), "level is 'cardinal'"),
        (lambda: krippendorff_alpha(PAIR, level="interval"), r"'no', 'yes'\) are not numbers.*`values`"),
        (lambda: krippendorff_alpha([[1, 2]], level="ratio"), "level='ratio' needs a number for each class"),
        (lambda: krippendorff_alpha(PAIR, level="interval", values=[1]), "each of the 2 classes"),
        (lambda: krippendorff_alpha(PAIR, level="ratio", values=[-1, 1]), "from zero up.*level='interval'"),
        (lambda: krippendorff_alpha(PAIR, level="ordinal", values=[1, 1]), "two of them have the same value"),
        (lambda: agreement_ratio([0], PAIR), "predicted has 1 entries and the labels 2 tasks"),
        (lambda: agreement_ratio([0, 2], PAIR), r"\(there are 2\): rows 1"),
        (lambda: discrepancy_ratio([0, 1], PAIR, discrepancy="cosine"), "discrepancy is 'cosine'"),
        (lambda: discrepancy_ratio([0, 1], PAIR, discrepancy="absolute"), "'absolute' needs a number"),
        (lambda: held_out_log_likelihood(Q[:1], A, PAIR), r"q has shape \(1, 2\).*\(2, 2\)"),
        (lambda: held_out_log_likelihood(Q, A[:1], PAIR), r"confusion has shape \(1, 2, 2\)"),
        (lambda: held_out_log_likelihood(Q * 2, A, PAIR), "q must hold probabilities"),
        (lambda: held_out_log_likelihood(Q, A * 2, PAIR), "confusion must hold probabilities"),
        (lambda: held_out_log_likelihood(Q, A, PAIR, floor=-1), "floor is -1"),
        (lambda: held_out_log_likelihood(Q, A, PAIR.keep(np.zeros(3, bool))), "No label is held out"),
    ],
)
def test_errors_say_what_and_where(call, message) -> None:
    with pytest.raises(InputError, match=message):
        call()
