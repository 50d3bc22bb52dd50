"""The Bayesian methods against plain loops: the value of every evidence bound, and what a bound must not exceed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import digamma, gammaln, logsumexp
from tests.conftest import tiny_labels

import crowdwise as cw
from crowdwise.aggregate import cbcc, ebcc
from crowdwise.engines import load_engine, use_engine
from crowdwise.kernels import expected_logs
from crowdwise.kernels.block_layout import lay_out_blocks
from crowdwise.kernels.compiled.dirichlet import log_gamma_and_digamma

if TYPE_CHECKING:
    from crowdwise.labels import CrowdLabels

SIZES = pytest.mark.parametrize(("n_classes", "seed"), [(2, 0), (2, 1), (3, 2), (3, 3), (4, 4)])


# ---- plain formulas ------------------------------------------------------------------------------------------


def mean_log(shape: Any, cell: int) -> float:
    return float(digamma(shape[cell]) - digamma(sum(shape)))


def mean_log_by_quadrature(shape: Any, cell: int) -> float:
    """Of one cell of a Dirichlet: its marginal is a Beta."""
    law = stats.beta(shape[cell], sum(shape) - shape[cell])
    return float(integrate.quad(lambda x: np.log(x) * law.pdf(x), 0, 1, limit=500, epsabs=1e-12)[0])


def relative_entropy(shape: Any, prior: Any, mean: Any = mean_log) -> float:
    """KL of two Dirichlets as cross-entropy less entropy, which is SciPy's."""
    cross = gammaln(sum(prior)) - sum(gammaln(value) for value in prior)
    cross += sum((value - 1) * mean(shape, cell) for cell, value in enumerate(prior))
    return -float(stats.dirichlet.entropy(np.asarray(shape))) - float(cross)


def log_multinomial(counts: Any, prior: Any) -> float:
    """Log-probability of a sequence of draws with these counts, the shares integrated out of a Dirichlet."""
    total = gammaln(sum(prior)) - gammaln(sum(prior) + sum(counts))
    return float(total + sum(gammaln(b + n) - gammaln(b) for b, n in zip(prior, counts, strict=True)))


def log_evidence(labels: CrowdLabels, rows: Any, shares: Any) -> tuple[float, Any]:
    """Exact log-probability of the labels and posterior of the truths: truths enumerated, parameters integrated."""
    logs, truths = [], list(itertools.product(range(labels.n_classes), repeat=labels.n_tasks))
    for truth in truths:
        value = log_multinomial(np.bincount(truth, minlength=labels.n_classes), shares)
        counts = np.zeros((labels.n_workers, labels.n_classes, labels.n_classes))
        for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
            counts[worker, truth[task], label] += 1
        value += sum(log_multinomial(counts[w, k], rows[k]) for w in range(labels.n_workers) for k in range(len(rows)))
        logs.append(value)
    weights = np.exp(logs - logsumexp(logs))
    posterior = np.zeros((labels.n_tasks, labels.n_classes))
    for truth, weight in zip(truths, weights, strict=True):
        for task, true_class in enumerate(truth):
            posterior[task, true_class] += weight
    return float(logsumexp(logs)), posterior


def plain_bound(labels: CrowdLabels, q: Any, shares: Any, rows: Any, priors: Any, mean: Any = mean_log) -> float:
    """E[log p] - E[log q] with one Dirichlet for the shares and one for each worker and class, [worker, truth, label].

    `priors` are pseudo-counts of the shares and of each worker's rows.
    """
    value = 0.0
    for task, true_class in np.ndindex(*q.shape):
        if q[task, true_class] > 0:
            value += q[task, true_class] * (mean(shares, true_class) - np.log(q[task, true_class]))
    for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
        for true_class in range(q.shape[1]):
            value += q[task, true_class] * mean(rows[worker, true_class], label)
    value -= relative_entropy(shares, priors[0], mean)
    for worker, true_class in np.ndindex(*rows.shape[:2]):
        value -= relative_entropy(rows[worker, true_class], priors[1][worker, true_class], mean)
    return value


# ---- kernels -------------------------------------------------------------------------------------------------


def test_log_gamma_and_digamma() -> None:
    x = np.concatenate([np.geomspace(1e-9, 1e9, 500), np.linspace(0.1, 30, 500), [1.0, 2.0, 1.4616321449683623]])
    found = np.array([log_gamma_and_digamma(value) for value in x])
    np.testing.assert_allclose(found[:, 0], gammaln(x), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(found[:, 1], digamma(x), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("engine", ["numpy", "numba"])
@pytest.mark.parametrize("kinds", [1, 2])
@pytest.mark.parametrize("n_priors", [1, 6])
def test_expected_logs(n_priors: int, kinds: int, engine: str) -> None:
    generator = np.random.default_rng(0)
    shape = generator.gamma(1, 2, (6, 5 * kinds, 3)) + 0.01
    prior = generator.gamma(1, 2, (n_priors, 5, 3)) + 0.01
    with use_engine(engine):
        logs, losses = expected_logs(shape, prior)
    np.testing.assert_allclose(logs, digamma(shape) - digamma(shape.sum(axis=2, keepdims=True)), atol=1e-12)
    expected = [
        sum(relative_entropy(shape[worker, n], prior[worker % n_priors, n // kinds]) for n in range(5 * kinds))
        for worker in range(6)
    ]
    np.testing.assert_allclose(losses, expected, atol=1e-10)


def test_more_states_than_classes() -> None:
    """The passes where each of 3 classes has 2 kinds, and few lanes where tables are large."""
    labels = tiny_labels(3, 0, n_tasks=50, n_workers=6)
    generator = np.random.default_rng(0)
    log_prior, table = np.log(generator.dirichlet(np.ones(6))), generator.normal(0, 2, (6, 6, 3))
    posterior, slow = np.empty((2, 50, 6))
    gold = np.where(np.arange(50) % 4 == 0, np.arange(50) % 3, -1).astype(np.int32)
    fast, plain = (
        engine.make_passes(engine.lay_out(labels, 6)) for engine in (load_engine("numba"), load_engine("numpy"))
    )
    found = fast.e_step(log_prior, table, gold, posterior)
    expected = plain.e_step(log_prior, table, gold, slow)
    np.testing.assert_allclose(posterior, slow, atol=1e-12)
    known = posterior[::4].reshape(-1, 3, 2)
    np.testing.assert_allclose(known.sum(axis=2), np.eye(3)[gold[::4]], atol=1e-12)
    assert 0.01 < known.max(axis=(1, 2)).min() < 0.99, "gold names the class, not the kind"
    np.testing.assert_allclose(found.counts, expected.counts, atol=1e-12)
    np.testing.assert_allclose(found.class_counts, expected.class_counts, atol=1e-12)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, abs=1e-10)
    np.testing.assert_allclose(fast.accumulate(slow).counts, expected.counts, atol=1e-12)
    many = tiny_labels(2, 0, n_tasks=50_000)
    assert lay_out_blocks(many, 2).n_lanes > lay_out_blocks(many, 10**6).n_lanes == 1


# ---- mean-field ----------------------------------------------------------------------------------------------


@SIZES
@pytest.mark.parametrize("max_iter", [1, 4])
def test_bound_of_mean_field(n_classes: int, seed: int, max_iter: int) -> None:
    labels = tiny_labels(n_classes, seed, repeats=seed % 2 == 1)
    prior = np.random.default_rng(seed).uniform(0.3, 3, (n_classes, n_classes))
    model = cw.MeanField(confusion_prior=prior, share_prior=0.7, max_iter=max_iter, tol=0.0).fit(labels)
    shares, rows = model.extra_["class_counts"], model.confusion_counts_
    priors = np.full(n_classes, 0.7), np.tile(prior, (labels.n_workers, 1, 1))
    mean = mean_log_by_quadrature if n_classes == 2 and max_iter == 4 else mean_log
    expected = plain_bound(labels, model.posterior_, shares, rows, priors, mean)
    assert model.objective_[-1] == pytest.approx(expected, abs=1e-8)
    assert model.objective_[-1] < log_evidence(labels, prior, np.full(n_classes, 0.7))[0]
    np.testing.assert_allclose(model.prior_, shares / shares.sum(), atol=1e-12)
    np.testing.assert_allclose(model.confusion_, rows / rows.sum(axis=2, keepdims=True), atol=1e-12)


def test_updates_of_mean_field_are_fixed_at_the_end() -> None:
    """Equations 27 and 29 in plain loops leave the converged answer where it is."""
    labels = tiny_labels(3, 6, n_tasks=12, n_workers=5)
    model = cw.MeanField(max_iter=2000, tol=1e-15).fit(labels)
    prior = np.full((3, 3), 0.5) + 1.5 * np.eye(3)
    rows = np.tile(prior, (5, 1, 1))
    for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
        rows[worker, :, label] += model.posterior_[task]
    np.testing.assert_allclose(model.confusion_counts_, rows, atol=1e-4)
    shares = 1 + model.posterior_.sum(axis=0)
    for task in range(12):
        logs = np.array([mean_log(shares, k) for k in range(3)])
        for edge in np.flatnonzero(labels.task == task):
            logs += [mean_log(rows[labels.worker[edge], k], labels.label[edge]) for k in range(3)]
        np.testing.assert_allclose(model.posterior_[task], np.exp(logs - logsumexp(logs)), atol=1e-4)


def test_mean_field_from_truths_of_which_nothing_is_known() -> None:
    """Kim et al.'s program in plain loops: all classes equally probable, then (29) and (27) in turn."""
    labels = tiny_labels(3, 6, n_tasks=12, n_workers=5)
    prior = np.full((3, 3), 0.5) + 1.5 * np.eye(3)
    q = np.full((12, 3), 1 / 3)
    for _ in range(200):
        rows = np.tile(prior, (5, 1, 1))
        for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
            rows[worker, :, label] += q[task]
        logs = np.zeros((12, 3))
        for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
            logs[task] += [mean_log(rows[worker, k], label) for k in range(3)]
        q = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    model = cw.MeanField(start="even", max_iter=2000, tol=1e-15).fit(labels, class_prior=np.full(3, 1 / 3))
    np.testing.assert_allclose(model.posterior_, q, atol=1e-4)
    first = cw.MeanField(start="even", max_iter=1, tol=0.0).fit(labels).objective_[0]
    assert first != cw.MeanField(max_iter=1, tol=0.0).fit(labels).objective_[0]


def test_what_mean_field_is_told() -> None:
    """Gold pins the truth, known workers add to the prior, a class prior is not learnt: all seen in the bound."""
    labels = tiny_labels(2, 8)
    matrix, gold = np.array([[0.9, 0.1], [0.3, 0.7]]), {0: int(labels.vote_counts()[0].argmin())}
    model = cw.MeanField(max_iter=3, tol=0.0).fit(
        labels, gold=gold, class_prior=[0.3, 0.7], known_workers={1: matrix}, known_weight=5
    )
    priors = np.tile(np.array([[2.0, 1.0], [1.0, 2.0]]), (labels.n_workers, 1, 1))
    priors[1] += 5 * matrix
    q, rows = model.posterior_, model.confusion_counts_
    value = 0.0
    for task, true_class in np.ndindex(*q.shape):
        if q[task, true_class] > 0:
            value += q[task, true_class] * (np.log([0.3, 0.7][true_class]) - np.log(q[task, true_class]))
    for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
        value += sum(q[task, k] * mean_log(rows[worker, k], label) for k in range(2))
    value -= sum(relative_entropy(rows[w, k], priors[w, k]) for w, k in np.ndindex(*rows.shape[:2]))
    assert model.objective_[-1] == pytest.approx(value, abs=1e-8)
    assert q[0, gold[0]] == 1


@pytest.mark.parametrize("wrong", [[[1, 1]], [[1, 0], [1, 1]], "x", [[1, np.nan], [1, 1]]])
def test_bad_priors_are_named(wrong: Any) -> None:
    labels = tiny_labels(2, 0)
    with pytest.raises(cw.InputError, match="confusion_prior"):
        cw.MeanField(confusion_prior=wrong).fit(labels)
    with pytest.raises(cw.InputError, match="share_prior is 0"):
        cw.MeanField(share_prior=0).fit(labels)
    with pytest.raises(cw.InputError, match="start is 'x'; it must be one of 'votes'"):
        cw.MeanField(start="x").fit(labels)
    with pytest.raises(cw.InputError, match="with coin_prior the climb starts from this prior"):
        cw.MeanField(coin_prior=(2, 1), start="even").fit(labels)


# ---- ebcc ----------------------------------------------------------------------------------------------------


@SIZES
@pytest.mark.parametrize("max_iter", [1, 5])
def test_bound_of_ebcc(n_classes: int, seed: int, max_iter: int) -> None:
    """E[log p] - E[log q] in plain loops over tasks, classes, subtypes and labels."""
    labels = tiny_labels(n_classes, seed, repeats=seed % 2 == 1)
    kinds = 3
    model = cw.EnhancedBcc(
        n_subtypes=kinds,
        subtype_prior=0.6,
        share_prior=0.7,
        right=2.5,
        wrong=0.8,
        n_restarts=1,
        max_iter=max_iter,
        tol=0.0,
    ).fit(labels)
    within = model.extra_["subtype_counts"]
    in_use = within.shape[1]
    rows = model.extra_["rows"].reshape(labels.n_workers, n_classes, in_use, n_classes)
    shares = 0.7 + (within - 0.2).sum(axis=1)
    full = [np.concatenate([row, np.full(kinds - in_use, 0.2)]) for row in within]
    logs = np.zeros((labels.n_tasks, n_classes, in_use))
    for _, k, m in np.ndindex(*logs.shape):
        logs[_, k, m] = mean_log(shares, k) + mean_log(full[k], m)
    for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
        for k, m in np.ndindex(n_classes, in_use):
            logs[task, k, m] += mean_log(rows[worker, k, m], label)
    q = np.exp(logs - logsumexp(logs, axis=(1, 2), keepdims=True))
    np.testing.assert_allclose(model.posterior_, q.sum(axis=2), atol=1e-10)
    value = float((q * logs).sum() - (q * np.log(np.maximum(q, 1e-300))).sum())
    value -= relative_entropy(shares, np.full(n_classes, 0.7))
    value -= sum(relative_entropy(row, np.full(kinds, 0.2)) for row in full)
    for worker, k, m in np.ndindex(*rows.shape[:3]):
        value -= relative_entropy(rows[worker, k, m], np.where(np.arange(n_classes) == k, 2.5, 0.8))
    assert model.objective_[-1] == pytest.approx(value, abs=1e-8)


def test_ebcc_with_one_subtype_is_mean_field() -> None:
    labels = tiny_labels(3, 12, n_tasks=30, n_workers=6)
    prior = np.full((3, 3), 1.0) + 3 * np.eye(3)
    one = cw.EnhancedBcc(n_subtypes=1, share_prior=1.0, n_restarts=1, max_iter=20, tol=0.0).fit(labels)
    other = cw.MeanField(confusion_prior=prior, max_iter=20, tol=0.0).fit(labels)
    np.testing.assert_allclose(one.posterior_, other.posterior_, atol=1e-10)
    np.testing.assert_allclose(one.confusion_, other.confusion_, atol=1e-10)
    np.testing.assert_allclose(one.objective_, other.objective_, atol=1e-8)


def test_empty_subtypes_are_left_out_at_no_cost() -> None:
    """The same climb with every subtype kept: same bound, same posterior."""
    labels = cw.simulate.simulate(
        "dawid-skene", n_tasks=80, n_workers=10, n_classes=2, labels_per_task=5, random_state=1
    ).labels
    model = cw.EnhancedBcc(n_subtypes=6, n_restarts=1, tol=0.0, max_iter=40).fit(labels)
    assert model.subtype_shares_.shape[1] < 6, "nothing was left out: the test says nothing"
    kept = _without_leaving_out(labels)
    np.testing.assert_allclose(model.objective_, kept.objective_, atol=1e-8)
    np.testing.assert_allclose(model.posterior_, kept.posterior_, atol=1e-9)


def _without_leaving_out(labels: CrowdLabels) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ebcc, "EMPTY", -1.0)
        return cw.EnhancedBcc(n_subtypes=6, n_restarts=1, tol=0.0, max_iter=40).fit(labels)


def test_gold_in_ebcc_names_the_class_and_leaves_the_subtype_open() -> None:
    labels = tiny_labels(2, 3, n_tasks=20, n_workers=5)
    gold = {task: int(labels.vote_counts()[task].argmin()) for task in (0, 1, 2)}
    model = cw.EnhancedBcc(n_subtypes=3, n_restarts=1).fit(labels, gold=gold)
    for task, truth in gold.items():
        assert model.posterior_[task, truth] == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    "wrong",
    [{"n_subtypes": 0}, {"subtype_prior": 0}, {"share_prior": "x"}, {"share_prior": 0}, {"right": 0}, {"wrong": -1}],
)
def test_bad_parameters_of_ebcc_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(cw.InputError, match=f"^{next(iter(wrong))} is "):
        cw.EnhancedBcc(**wrong).fit(tiny_labels(2, 0))


# ---- bwa -----------------------------------------------------------------------------------------------------


def test_objective_of_bwa() -> None:
    """Each worker's precision integrated out by quadrature; the scores are those that the last precisions give."""
    labels = tiny_labels(3, 1, repeats=True)
    strength, shrinkage = 6.0, 0.8
    before = cw.BayesianWeightedAverage(strength=strength, shrinkage=shrinkage, max_iter=2, tol=0.0).fit(labels)
    model = cw.BayesianWeightedAverage(strength=strength, shrinkage=shrinkage, max_iter=3, tol=0.0).fit(labels)
    met = sorted({(int(t), int(w)) for t, w in zip(labels.task, labels.worker, strict=True)})
    said = {pair: set() for pair in met}
    for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
        said[int(task), int(worker)].add(int(label))
    value = 0.0
    for k in range(3):
        shares = [np.mean([k in said[pair] for pair in met if pair[0] == task]) for task in range(labels.n_tasks)]
        variance = (sum(shares[task] * (1 - shares[task]) for task, _ in met) + 0.25) / (len(met) + 1)
        scale = strength * variance * 4 * (1 - 1 / 3)
        z = []
        for task in range(labels.n_tasks):
            mine = [pair for pair in met if pair[0] == task]
            weights = [before.precision_[worker, k] for _, worker in mine]
            voted = sum(weight for weight, pair in zip(weights, mine, strict=True) if k in said[pair])
            z.append((shrinkage * before.extra_["mean"][k] + voted) / (shrinkage + sum(weights)))
        value += stats.norm.logpdf(z, np.mean(z), shrinkage**-0.5).sum()
        for worker in range(labels.n_workers):
            errors = np.array([z[task] - (k in said[task, worker]) for task, w in met if w == worker])
            law = stats.gamma(strength / 2, scale=2 / scale)

            def density(v: float, errors: Any = errors, law: Any = law) -> float:
                return float(np.exp(stats.norm.logpdf(errors, 0, v**-0.5).sum() + law.logpdf(v)))

            value += np.log(integrate.quad(density, 0, np.inf, limit=500, epsabs=0, epsrel=1e-11)[0])
            expected = (strength + errors.size) / (scale + (errors**2).sum())
            assert model.precision_[worker, k] == pytest.approx(expected, rel=1e-10)
    assert model.objective_[-1] == pytest.approx(value, abs=1e-8)


def test_bwa_with_worthless_differences_is_majority_vote() -> None:
    """A prior that no answer moves makes all precisions equal, and no drawing towards the mean leaves the shares."""
    labels = tiny_labels(3, 2, n_tasks=12, n_workers=5)
    model = cw.BayesianWeightedAverage(strength=1e12, shrinkage=1e-12).fit(labels)
    np.testing.assert_allclose(model.posterior_, cw.MajorityVote().fit(labels).posterior_, atol=1e-9)


@pytest.mark.parametrize("wrong", [{"strength": 0}, {"shrinkage": 0}, {"max_iter": 0}])
def test_bad_parameters_of_bwa_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(cw.InputError, match=f"^{next(iter(wrong))} is 0"):
        cw.BayesianWeightedAverage(**wrong).fit(tiny_labels(2, 0))


# ---- bcc -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_classes", "seed"), [(2, 0), (3, 2)])
def test_gibbs_against_every_truth(n_classes: int, seed: int) -> None:
    """4,000 sweeps against the exact posterior, truths enumerated and matrices and shares integrated out."""
    labels = tiny_labels(n_classes, seed)
    model = cw.BayesianClassifierCombination(inference="gibbs", n_sweeps=4000, right=3.0, wrong=0.8).fit(labels)
    rows = np.full((n_classes, n_classes), 0.8) + 2.2 * np.eye(n_classes)
    _, posterior = log_evidence(labels, rows, np.ones(n_classes))
    np.testing.assert_allclose(model.posterior_, posterior, atol=0.04)


def test_mean_field_inference_of_bcc_is_mean_field() -> None:
    labels = tiny_labels(3, 5, n_tasks=20, n_workers=5)
    model = cw.BayesianClassifierCombination().fit(labels)
    other = cw.MeanField(confusion_prior=np.full((3, 3), 1.0) + 3 * np.eye(3)).fit(labels)
    np.testing.assert_array_equal(model.posterior_, other.posterior_)
    np.testing.assert_array_equal(model.objective_, other.objective_)


def test_gibbs_keeps_what_it_is_told() -> None:
    labels = tiny_labels(2, 8)
    gold = {0: int(labels.vote_counts()[0].argmin())}
    known = {1: np.array([[0.1, 0.9], [0.9, 0.1]])}
    model = cw.BayesianClassifierCombination(inference="gibbs", n_sweeps=50, burn_in=10)
    model.fit(labels, gold=gold, class_prior=[0.3, 0.7], known_workers=known, known_weight=1e5)
    assert model.posterior_[0, gold[0]] == pytest.approx(1, abs=1e-12)
    np.testing.assert_array_equal(model.prior_, [0.3, 0.7])
    np.testing.assert_allclose(model.confusion_[1], known[1], atol=0.01)
    assert model.n_iter_ == 60
    np.testing.assert_allclose(model.predict_proba(labels).sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize(
    "wrong", [{"inference": "x"}, {"right": 0}, {"wrong": 0}, {"share_prior": 0}, {"n_sweeps": 1}, {"burn_in": -1}]
)
def test_bad_parameters_of_bcc_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(cw.InputError, match=f"^{next(iter(wrong))} is "):
        cw.BayesianClassifierCombination(**wrong).fit(tiny_labels(2, 0))


# ---- cbcc ----------------------------------------------------------------------------------------------------


@SIZES
@pytest.mark.parametrize("max_iter", [1, 4])
def test_bound_of_cbcc(n_classes: int, seed: int, max_iter: int) -> None:
    """Workers' communities enumerated one by one; their rows given the community by the Dirichlet-multinomial law."""
    labels = tiny_labels(n_classes, seed, repeats=seed % 2 == 1)
    model = cw.CommunityBcc(
        n_communities=3, right=2.5, wrong=0.8, share_prior=0.7, community_prior=0.6, max_iter=max_iter, tol=0.0
    ).fit(labels)
    prior = np.full((n_classes, n_classes), 0.8) + 1.7 * np.eye(n_classes)
    counts, alpha = model.extra_["counts"], model.extra_["alpha"]
    sizes, q, classes = model.extra_["sizes"], model.posterior_, range(n_classes)
    shares = np.full(n_classes, 0.7)
    if max_iter == 1:
        shares += cw.MajorityVote().fit(labels).posterior_.sum(axis=0)
    else:
        earlier = cw.CommunityBcc(
            n_communities=3, right=2.5, wrong=0.8, share_prior=0.7, community_prior=0.6, max_iter=max_iter - 1, tol=0.0
        ).fit(labels)
        shares += earlier.posterior_.sum(axis=0)
    logs = np.zeros((labels.n_workers, 3))
    for worker, c in np.ndindex(*logs.shape):
        logs[worker, c] = mean_log(sizes, c) + sum(log_multinomial(counts[worker, k], alpha[c, k]) for k in classes)
    chance = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    np.testing.assert_allclose(model.community_, chance, atol=1e-10)
    value = -relative_entropy(shares, np.full(n_classes, 0.7)) - relative_entropy(sizes, np.full(3, 0.6))
    for task, true_class in np.ndindex(*q.shape):
        value += q[task, true_class] * (mean_log(shares, true_class) - np.log(q[task, true_class]))
    for c in range(3):
        value += stats.gamma.logpdf(alpha[c], 2, scale=prior / 2).sum()
        for worker in range(labels.n_workers):
            after = counts[worker] + alpha[c]
            value -= chance[worker, c] * (np.log(chance[worker, c]) - mean_log(sizes, c))
            value -= chance[worker, c] * sum(relative_entropy(after[k], alpha[c, k]) for k in classes)
        for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
            for k in classes:
                value += q[task, k] * chance[worker, c] * mean_log(counts[worker, k] + alpha[c, k], label)
    assert model.objective_[-1] == pytest.approx(value, abs=1e-8)


def test_communities_step_rises() -> None:
    """Also with expected answers below one, where Minka's own bound does not hold."""
    generator = np.random.default_rng(0)
    counts = generator.gamma(0.3, 1, (30, 3, 3))
    chance = generator.dirichlet(np.ones(2), 30)
    prior = np.full((3, 3), 1.0) + 3 * np.eye(3)
    alpha = generator.gamma(2, 1, (2, 3, 3)) + 0.1

    def value(alpha: Any) -> float:
        total = stats.gamma.logpdf(alpha, 2, scale=prior / 2).sum()
        for worker, c, k in np.ndindex(30, 2, 3):
            total += chance[worker, c] * log_multinomial(counts[worker, k], alpha[c, k])
        return float(total)

    answers, stretch = cbcc.ExpectedAnswers(counts), np.ones(2)
    marginals = cbcc.log_marginals(answers, alpha)
    for _ in range(20):
        risen, reached, stretch = cbcc.update_community_alpha(answers, chance, marginals, alpha, prior, stretch)
        assert value(risen) >= value(alpha) - 1e-9
        np.testing.assert_allclose(reached, cbcc.log_marginals(answers, risen), atol=1e-12)
        alpha, marginals = risen, reached
    assert stretch.max() > 1


@pytest.mark.parametrize("wrong", [{"n_communities": 0}, {"right": 0}, {"wrong": 0}, {"community_prior": 0}])
def test_bad_parameters_of_cbcc_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(cw.InputError, match=f"^{next(iter(wrong))} is "):
        cw.CommunityBcc(**wrong).fit(tiny_labels(2, 0))
