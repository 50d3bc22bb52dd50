"""Max-MIG: the gain against loops and enumerated tables, its start, the forecaster, and crowds that copy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import crowdwise as cw
from crowdwise.labels.errors import InputError
from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
from crowdwise.learn.max_mig import (
    MigObjective,
    aggregate_labels,
    information_gain,
    match_outputs_to_classes,
    negative_pair_penalty,
    positive_pair_reward,
    start_weights,
)
from crowdwise.simulate.experts import copied_coin

DIVERGENCES = ("kl", "pearson", "js")
ignore_identifiability = pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")

# Table 1 of Cao et al. 2019, as it is printed.
GENERATORS = {
    "kl": lambda t: t * np.log(t),
    "pearson": lambda t: (t - 1) ** 2,
    "js": lambda t: -(t + 1) * np.log((t + 1) / 2) + t * np.log(t),
}
DERIVATIVES = {"kl": lambda k: 1 + np.log(k), "pearson": lambda k: 2 * (k - 1), "js": lambda k: np.log(2 * k / (1 + k))}
DUALS = {"kl": lambda k: k, "pearson": lambda k: k**2 - 1, "js": lambda k: -np.log(2 / (1 + k))}

PRIOR = np.array([0.6, 0.4])
GIVEN_TRUTH = np.array([[0.5, 0.3, 0.15, 0.05], [0.1, 0.1, 0.3, 0.5]])  # P(x | truth), four kinds of x
CONFUSION = np.array([[[0.8, 0.2], [0.3, 0.7]], [[0.9, 0.1], [0.4, 0.6]]])
PATTERNS = np.array(list(itertools.product(range(2), repeat=2)))  # labels of the two workers


def joint_table():
    """P(x, labels), summed over the truth."""
    said = np.prod([CONFUSION[w][:, PATTERNS[:, w]] for w in range(2)], axis=0)
    return np.einsum("k,kx,ks->xs", PRIOR, GIVEN_TRUTH, said)


def aggregator_of_patterns(log_p, weights):
    size = len(PATTERNS)
    owner = torch.arange(size).repeat_interleave(2)
    return aggregate_labels(
        log_p, weights, owner, torch.arange(2).repeat(size), torch.as_tensor(PATTERNS.ravel()), size
    )


def expected_gain(log_f, log_g, log_p, joint, divergence):
    """Equation (1) with expectations for means: f (X, K) for every x, g (S, K) for every pattern of labels."""
    log_k = (log_f[:, None] + log_g[None] - log_p).logsumexp(dim=2)
    together, apart = torch.as_tensor(joint), torch.as_tensor(np.outer(joint.sum(axis=1), joint.sum(axis=0)))
    return (together * positive_pair_reward(log_k, divergence)).sum() - (
        apart * negative_pair_penalty(log_k.exp(), divergence)
    ).sum()


def mutual_information(joint, divergence):
    apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    return float((apart * GENERATORS[divergence](joint / apart)).sum())


def whole(labels, dtype=torch.float64):
    crowd = Crowd(labels)
    n_tasks = crowd.n_tasks
    return Batch(
        torch.zeros(n_tasks, 1, dtype=dtype),
        torch.arange(n_tasks),
        crowd.task,
        crowd.worker,
        crowd.label,
        torch.arange(crowd.n_labels),
    )


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("k", [0.01, 0.5, 1.0, 3.0])
def test_rewards_and_punishments_are_those_of_table_1(divergence, k):
    value = torch.tensor(k, dtype=torch.float64)
    assert positive_pair_reward(value.log(), divergence).item() == pytest.approx(DERIVATIVES[divergence](k), abs=1e-12)
    assert negative_pair_penalty(value, divergence).item() == pytest.approx(DUALS[divergence](k), abs=1e-12)


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("n_classes", [2, 7])
def test_loss_and_gradients_are_those_of_the_paper_s_double_sum(divergence, n_classes):
    sparse = cw.simulate.simulate_crowd(12, 5, n_classes, 2, random_state=1).labels
    objective = MigObjective(
        Crowd(sparse), torch.full((n_classes,), 1 / n_classes), "learnt", divergence, 1.0, "sum"
    ).double()
    with torch.no_grad():
        objective.prior_logits += torch.linspace(-1, 1, n_classes)
    logits = torch.randn(12, n_classes, dtype=torch.float64, requires_grad=True)
    leaves = (logits, objective.weights, objective.prior_logits)
    loss = objective.loss(NetworkOutput(logits, logits), whole(sparse))
    found = torch.autograd.grad(loss, leaves)

    said = np.full((12, 5), -1)
    said[sparse.task, sparse.worker] = sparse.label
    p = objective.prior_logits.softmax(dim=0)
    f = logits.softmax(dim=1)
    g = []
    for t in range(12):
        sums = p.log()
        for w in range(5):
            if said[t, w] >= 0:
                sums = sums + objective.weights[w] @ torch.eye(n_classes, dtype=torch.float64)[said[t, w]]
        g.append(sums.softmax(dim=0))
    gain = torch.zeros((), dtype=torch.float64)
    for i in range(12):
        for j in range(12):
            k = sum(f[i, c] * g[j][c] / p[c] for c in range(n_classes))
            if i == j:
                gain = (
                    gain + {"kl": 1 + k.log(), "pearson": 2 * (k - 1), "js": (2 * k / (1 + k)).log()}[divergence] / 12
                )
            else:
                gain = gain - {"kl": k, "pearson": k**2 - 1, "js": -(2 / (1 + k)).log()}[divergence] / (12 * 11)
    expected = torch.autograd.grad(-gain, leaves)
    assert loss.item() == pytest.approx(-gain.item(), abs=1e-9)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_bayes_posteriors_attain_the_mutual_information_and_nothing_exceeds_it(divergence):
    joint = joint_table()
    log_p = torch.as_tensor(PRIOR).log()
    posterior = (PRIOR[:, None] * GIVEN_TRUTH / joint.sum(axis=1)).T
    log_g = aggregator_of_patterns(log_p, torch.as_tensor(CONFUSION).log())  # W = log C: proposition D.3
    largest = mutual_information(joint, divergence)
    found = expected_gain(torch.as_tensor(posterior).log(), log_g, log_p, joint, divergence)
    assert found.item() == pytest.approx(largest, abs=1e-12)
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        log_f = torch.randn(4, 2, generator=generator, dtype=torch.float64).log_softmax(dim=1)
        log_p = torch.randn(2, generator=generator, dtype=torch.float64).log_softmax(dim=0)
        log_g = aggregator_of_patterns(log_p, torch.randn(2, 2, 2, generator=generator, dtype=torch.float64))
        assert expected_gain(log_f, log_g, log_p, joint, divergence) < largest


def crowd_with_juniors():
    """P(truth, labels) of two seniors who err on their own, one who follows the first, a copy, and a lazy junior."""
    follows = np.array([[0.9, 0.1], [0.3, 0.7]])  # P(label of the third | label of the first)
    patterns, chances = [], []
    for a, b, third in itertools.product(range(2), repeat=3):
        patterns.append([a, b, third, b, 0])
        chances.append(PRIOR * CONFUSION[0][:, a] * CONFUSION[1][:, b] * follows[a, third])
    return torch.tensor(patterns), np.array(chances).T


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_seniors_weights_log_c_and_juniors_0_are_the_maximum_of_theorem_3_4(divergence):
    patterns, chances = crowd_with_juniors()
    joint = np.einsum("kx,ks->xs", GIVEN_TRUTH, chances)
    log_p = torch.as_tensor(PRIOR).log()
    n_patterns, n_workers = patterns.shape
    owner = torch.arange(n_patterns).repeat_interleave(n_workers)
    worker = torch.arange(n_workers).repeat(n_patterns)

    def aggregate(weights):
        return aggregate_labels(log_p, weights, owner, worker, patterns.ravel(), n_patterns)

    best = torch.zeros(n_workers, 2, 2, dtype=torch.float64)
    best[:2] = torch.as_tensor(CONFUSION).log()
    log_g = aggregate(best)
    np.testing.assert_allclose(log_g.exp(), (chances / chances.sum(axis=0)).T)  # g* = P(truth | all labels)
    log_f = torch.as_tensor((PRIOR[:, None] * GIVEN_TRUTH / joint.sum(axis=1)).T).log()
    largest = mutual_information(joint, divergence)
    assert expected_gain(log_f, log_g, log_p, joint, divergence).item() == pytest.approx(largest, abs=1e-12)
    # ζ* = P(truth | x, all labels), for every x and every pattern.
    forecast = (log_f[:, None] + log_g[None] - log_p).softmax(dim=2)
    together = np.einsum("kx,ks->xsk", GIVEN_TRUTH, chances)
    np.testing.assert_allclose(forecast, together / together.sum(axis=2, keepdims=True))
    # Who gives the copies the weights of an independent worker is below it: equation (2) counts them so.
    counted = np.einsum("ks,swl->wkl", chances, np.eye(2)[patterns]) / PRIOR[:, None]
    naive = torch.as_tensor(counted).clamp(min=1e-9).log()
    assert expected_gain(log_f, aggregate(naive), log_p, joint, divergence) < largest - 1e-4
    generator = torch.Generator().manual_seed(3)
    for _ in range(50):
        weights = best + 0.3 * torch.randn(n_workers, 2, 2, generator=generator, dtype=torch.float64)
        assert expected_gain(log_f, aggregate(weights), log_p, joint, divergence) < largest + 1e-12


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_climbing_the_gain_ends_at_the_mutual_information(divergence):
    joint = joint_table()
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(4, 2, generator=generator, dtype=torch.float64).requires_grad_()
    weights = torch.randn(2, 2, 2, generator=generator, dtype=torch.float64).requires_grad_()
    prior = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS((logits, weights, prior), max_iter=500, line_search_fn="strong_wolfe")

    def cost():
        optimiser.zero_grad()
        log_p = prior.log_softmax(dim=0)
        log_g = aggregator_of_patterns(log_p, weights)
        loss = -expected_gain(logits.log_softmax(dim=1), log_g, log_p, joint, divergence)
        loss.backward()
        return loss

    optimiser.step(cost)
    assert -cost().item() == pytest.approx(mutual_information(joint, divergence), abs=1e-6)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_views_that_know_nothing_of_each_other_gain_nothing(divergence):
    joint = joint_table()
    apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    generator = torch.Generator().manual_seed(2)
    log_p = torch.as_tensor(PRIOR).log()
    for _ in range(50):
        log_f = torch.randn(4, 2, generator=generator, dtype=torch.float64).log_softmax(dim=1)
        log_g = torch.randn(4, 2, generator=generator, dtype=torch.float64).log_softmax(dim=1)
        assert expected_gain(log_f, log_g, log_p, apart, divergence) < 0
        constant = log_p.expand(4, -1)
        assert expected_gain(log_f, constant, log_p, apart, divergence).item() == pytest.approx(0, abs=1e-12)
        assert information_gain(log_f, constant, log_p, divergence).item() == pytest.approx(0, abs=1e-12)


def test_weights_start_at_equation_2():
    labels = cw.CrowdLabels.from_dense(np.array([[0, 0, 1], [1, 1, -1], [0, -1, -1]]), missing=-1)
    found = start_weights(Crowd(labels), 1e-9, "sum").exp()
    # Q = (2/3, 1/3), (0, 1), (1, 0); the first worker labelled all three tasks, the third the first alone.
    np.testing.assert_allclose(found[0], [[1, 0], [1 / 4, 3 / 4]], atol=1e-6)
    np.testing.assert_allclose(found[2], [[0, 1], [0, 1]], atol=1e-6)
    # Two labels a task: the mean opinion is half the sum.
    np.testing.assert_allclose(start_weights(Crowd(labels), 1.0, "mean"), start_weights(Crowd(labels), 1.0, "sum") / 2)


def test_a_worker_without_labels_starts_like_the_crowd():
    labels = cw.CrowdLabels.from_codes([0, 1], [0, 0], [0, 1], tasks=2, workers=2, classes=2)
    start = start_weights(Crowd(labels), 1.0, "sum").exp()
    assert torch.isfinite(start.log()).all()
    np.testing.assert_allclose(start.sum(dim=2), 1, atol=1e-6)
    assert start[1, 0, 0] > start[1, 0, 1]


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_batch_of_one_task_or_without_labels_costs_a_finite_number(divergence, dtype):
    labels = cw.CrowdLabels.from_dense(np.array([[0, 1], [1, 1]]))
    objective = MigObjective(Crowd(labels), torch.tensor([0.5, 0.5]), "learnt", divergence, 1.0, "mean").to(dtype)
    nobody = torch.zeros(0, dtype=torch.int64)
    logits = torch.randn(3, 2, dtype=dtype, requires_grad=True)
    none = Batch(torch.zeros(3, 1), torch.arange(3), nobody, nobody, nobody, nobody)
    one = Batch(torch.zeros(1, 1), torch.arange(1), *(torch.zeros(1, dtype=torch.int64),) * 4)
    assert objective.loss(NetworkOutput(logits, logits), none).item() == pytest.approx(0, abs=1e-6)
    loss = objective.loss(NetworkOutput(logits[:1], logits[:1]), one)
    loss.backward()
    assert loss.item() == 0
    assert torch.isfinite(objective.weights.grad).all()


def test_extreme_weights_and_logits_stay_finite():
    labels = cw.CrowdLabels.from_dense(np.array([[0, 1], [1, 1], [0, 0]]))
    for divergence in DIVERGENCES:
        objective = MigObjective(Crowd(labels), torch.tensor([0.5, 0.5]), "uniform", divergence, 1.0, "sum")
        with torch.no_grad():
            objective.weights *= 1000
        logits = torch.tensor([[-500.0, 500.0], [500.0, -500.0], [500.0, -500.0]], requires_grad=True)
        loss = objective.loss(NetworkOutput(logits, logits), whole(labels, torch.float32))
        loss.backward()
        assert torch.isfinite(loss)
        assert torch.isfinite(objective.weights.grad).all()
        assert torch.isfinite(logits.grad).all()


def test_the_forecaster_is_f_times_g_over_p_and_a_stranger_has_the_mean_weights():
    labels = cw.CrowdLabels.from_dense(np.array([[0, 1], [1, 1]]))
    prior = torch.tensor([0.7, 0.3])
    objective = MigObjective(Crowd(labels), prior, "given", "kl", 1.0, "sum")
    f = torch.tensor([[0.2, 0.8], [0.9, 0.1]])
    owner, worker, label = torch.tensor([0, 0, 1]), torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1])
    w = objective.weights.detach()
    table = torch.full((3, 2, 2), 0.5)
    found = objective.log_posterior(f.log(), owner, worker, label, table).exp().detach()
    g = torch.softmax(w[0, :, 0] + w[1, :, 1] + prior.log(), dim=0)
    stranger = torch.softmax((w[0] + w[1])[:, 1] / 2 + prior.log(), dim=0)
    for row, aggregate in enumerate((g, stranger)):
        expected = f[row] * aggregate / prior
        torch.testing.assert_close(found[row], expected / expected.sum())


def separated(truth, seed, noise=0.3):
    return truth[:, None] + np.random.default_rng(seed).normal(0, noise, (truth.size, 1))


@ignore_identifiability
@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("prior", ["uniform", "learnt", [0.7, 0.3]])
def test_it_learns_from_a_plain_crowd(divergence, prior):
    crowd = cw.simulate.simulate_crowd(300, 5, 2, 3, skill=0.8, prior=[0.7, 0.3], random_state=0)
    X = separated(crowd.truth, 0)
    model = cw.MaxMig(network="linear", divergence=divergence, prior=prior, epochs=15, learning_rate=0.03)
    model.fit(X, crowd.labels)
    assert model.score(X, crowd.truth) > 0.9
    assert (model.posterior_.argmax(axis=1) == crowd.truth).mean() > 0.9
    learnt = model.module_.prior_logits.softmax(dim=0).detach().numpy()
    expected = {"uniform": [0.5, 0.5], "learnt": None}.get(prior, prior) if isinstance(prior, str) else prior
    if expected is not None:
        np.testing.assert_allclose(learnt, expected, atol=1e-6)


@ignore_identifiability
@pytest.mark.parametrize("seed", [0, 4])
def test_a_hundred_copies_of_a_coin_do_not_outvote_one_who_knows(seed):
    """Example E.2 of Cao et al. 2019; with seed 4 the network starts wrong; the weights name the classes."""
    crowd = copied_coin(500, 101, random_state=seed)
    X = separated(crowd.truth, seed, 0.2)
    plan = {"network": "linear", "epochs": 40, "learning_rate": 1e-3, "random_state": seed}
    model = cw.MaxMig(**plan, start="mean").fit(X, crowd.labels)
    assert model.score(X, crowd.truth) > 0.95
    assert (model.posterior_.argmax(axis=1) == crowd.truth).mean() > 0.95


@ignore_identifiability
def test_the_likelihood_of_independent_workers_prefers_the_coin():
    """Theorem E.3 of Cao et al. 2019: what the posterior of an MLE names is the coin."""
    crowd = copied_coin(500, 101, random_state=0)
    X = separated(crowd.truth, 0, 0.2)
    model = cw.GeneralizedEm(network="linear", epochs=40).fit(X, crowd.labels)
    assert (model.posterior_.argmax(axis=1) == crowd.truth).mean() < 0.6


def test_classes_are_named_by_what_is_said():
    weights = torch.zeros(2, 3, 3)
    weights[0] = 2.0 * torch.eye(3)[[1, 2, 0]]  # who counts: label 1 speaks for output 0, label 2 for 1, label 0 for 2
    weights[1] = torch.eye(3)
    weights[1, :, 2] += 50  # a constant in a column says nothing
    counts = torch.full((2, 3), 10.0)
    assert match_outputs_to_classes(weights, counts).tolist() == [2, 0, 1]
    assert match_outputs_to_classes(weights.flip(1), torch.tensor([[0.0, 0, 0], [5, 5, 5]])).tolist() == [2, 1, 0]


@ignore_identifiability
def test_the_best_epoch_is_chosen_by_the_gain_on_tasks_held_out():
    crowd = cw.simulate.simulate_crowd(120, 5, 2, 3, skill=0.8, random_state=0)
    model = cw.MaxMig(network="linear", epochs=5, held_out=0.3).fit(separated(crowd.truth, 0), crowd.labels)
    gains = np.asarray(model.history_["held_out"])
    assert model.best_epoch_ == gains.argmax() + 1
    objective = model.module_
    f = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    few = cw.CrowdLabels.from_codes([0, 1, 1], [0, 1, 2], [0, 1, 1], tasks=3, workers=5, classes=2)
    held = Crowd(few)
    log_p = objective.log_prior()
    log_g = aggregate_labels(log_p, objective.weights[:, objective.order], held.task, held.worker, held.label, 3)
    torch.testing.assert_close(objective.held_out(f.log(), held), information_gain(f.log(), log_g, log_p, "kl"))
    assert objective.held_out(f[:1].log(), held) is None


@ignore_identifiability
def test_workers_unknown_to_the_model_may_speak():
    crowd = cw.simulate.simulate_crowd(200, 4, 3, 3, skill=0.9, random_state=0)
    X = np.eye(3)[crowd.truth] + np.random.default_rng(0).normal(0, 0.3, (200, 3))
    model = cw.MaxMig(network="linear", epochs=10, learning_rate=0.03).fit(X, crowd.labels)
    blank = np.zeros((3, 3))
    alone = model.predict_proba(blank)
    heard = model.predict_proba(blank, {"task": [0, 1, 2], "worker": ["new"] * 3, "label": [0, 1, 2]})
    assert (np.diag(heard) > np.diag(alone)).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"divergence": "tvd"}, "divergence is 'tvd'; it must be one of 'kl', 'pearson', 'js'"),
        ({"smoothing": 0}, "smoothing is 0; it must be a number, above 0"),
        ({"start": "zero"}, "start is 'zero'; it must be one of 'sum', 'mean'"),
        ({"batch_size": 1}, "batch_size is 1; it must be a whole number, 2 or more"),
        ({"prior": "known"}, "prior is 'known'; it must be one of 'uniform', 'learnt'"),
        ({"prior": [0.5, 0.3, 0.2]}, "2 probabilities above 0"),
        ({"prior": [1.0, 0.0]}, "2 probabilities above 0"),
        ({"prior": [0.9, 0.9]}, "prior must hold probabilities that sum to 1"),
    ],
)
def test_bad_parameters_say_what_is_wrong(parameters, message):
    labels = cw.CrowdLabels.from_dense(np.array([[0, 1], [1, 1], [0, 0]]))
    with pytest.raises(InputError, match=message):
        cw.MaxMig(**parameters).fit(np.zeros((3, 1)), labels)
