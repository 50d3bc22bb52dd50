"""Learn2Agree: the formulas of the paper, by hand and written out worker by worker; agreement; many classes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import crowdwise as cw
from crowdwise.labels.errors import InputError
from crowdwise.learn.batches import Batch, Crowd, NetworkOutput
from crowdwise.learn.learn2agree import (
    AgreementObjective,
    DistributionalAgreement,
    LinearAgreement,
    agreement_cost,
    focal_cost,
    focal_gammas,
    kappa_cost,
    log_odds,
    mark_positive_labels,
    mean_over_workers,
    positive_label_shares,
    regularise_log_odds,
)
from crowdwise.metrics import agreement_ratio, cohen_kappa

QUIET = "ignore::crowdwise.learn.identifiability.NotIdentifiable"
LOSSES = ("balanced-ce", "ce", "weighted-kappa")
RAGGED = [[0, 1, 1], [1, -1, 0], [-1, -1, -1], [0, 0, -1], [-1, 1, -1], [1, 1, 1], [0, 1, 0]]
THREE = [[0, 2, 1], [1, -1, 0], [-1, -1, -1], [2, 2, -1], [-1, 1, -1], [1, 1, 2]]


def crowd_of(said) -> Crowd:
    return Crowd(cw.CrowdLabels.from_dense(np.array(said)))


def whole(crowd: Crowd) -> Batch:
    """All tasks of a crowd as one batch."""
    nothing = torch.zeros(crowd.n_tasks, 1)
    return Batch(nothing, torch.arange(crowd.n_tasks), crowd.task, crowd.worker, crowd.label, torch.arange(0))


def objective_of(crowd: Crowd, stream: str, loss: str, agreement_loss: str = "ar", width: int = 3):
    torch.manual_seed(1)
    n_streams = 1 if crowd.n_classes == 2 else crowd.n_classes
    made = [
        DistributionalAgreement(width, 4) if stream == "distributional" else LinearAgreement(width)
        for _ in range(n_streams)
    ]
    return AgreementObjective(crowd, [] if stream == "none" else made, 3.0, agreement_loss, loss).double()


def seen_of(crowd: Crowd, width: int = 3) -> NetworkOutput:
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(crowd.n_tasks, crowd.n_classes, generator=generator, dtype=torch.float64)
    features = torch.randn(crowd.n_tasks, width, generator=generator, dtype=torch.float64)
    return NetworkOutput(logits.requires_grad_(), features.requires_grad_())


# ---- numbers worked by hand -----------------------------------------------------------------------------------------


def test_ar_loss_by_hand() -> None:
    # α = 0.25: 0.15 too much costs 0.25 · 0.15, 0.05 too little 0.75 · 0.05. Unanimous tasks cost nothing, as printed.
    def cost(predicted: float, agreement: float) -> float:
        return float(agreement_cost(torch.tensor([[predicted]]), torch.tensor([[agreement]]), "ar"))

    assert cost(0.40, 0.25) == pytest.approx(0.0375)
    assert cost(0.20, 0.25) == pytest.approx(0.0375)
    assert cost(0.90, 0.75) == pytest.approx(0.1125)
    assert cost(0.60, 0.75) == pytest.approx(0.0375)
    assert cost(0.30, 0.0) == 0
    assert cost(0.30, 1.0) == 0


def test_pinball_loss_by_hand() -> None:
    # α = 0.25: 0.15 too much costs 0.75 · 0.15, 0.05 too little 0.25 · 0.05. Unanimous tasks cost what is missing.
    def cost(predicted: float, agreement: float) -> float:
        return float(agreement_cost(torch.tensor([[predicted]]), torch.tensor([[agreement]]), "pinball"))

    assert cost(0.40, 0.25) == pytest.approx(0.1125)
    assert cost(0.20, 0.25) == pytest.approx(0.0125)
    assert cost(0.30, 0.0) == pytest.approx(0.3)
    assert cost(0.30, 1.0) == pytest.approx(0.7)
    guesses = np.linspace(0, 1, 101)
    assert guesses[np.argmin([cost(guess, 0.25) for guess in guesses])] == pytest.approx(0.25)


def test_weights_of_workers_are_those_of_equation_9() -> None:
    crowd = crowd_of(RAGGED)
    said = mark_positive_labels(crowd.label, 2).double()
    weights = torch.tensor([2.0, 1.0, 5.0], dtype=torch.float64)
    found, labelled = positive_label_shares(said, weights[crowd.worker], crowd.task, crowd.n_tasks)
    for task, row in enumerate(RAGGED):
        there = [w for w, label in enumerate(row) if label >= 0]
        assert bool(labelled[task]) == bool(there)
        if there:
            expected = sum(weights[w] * row[w] for w in there) / sum(weights[w] for w in there)
            assert float(found[task, 0]) == pytest.approx(float(expected))
    # Heavier workers move the stream, and weights that are all alike do nothing.
    costs = []
    for weight in (torch.ones(3), torch.full((3,), 4.0), torch.tensor([1.0, 1.0, 9.0])):
        objective = objective_of(crowd, "linear", "ce", "rmse")
        objective.weights.copy_(weight)
        costs.append(objective.loss(seen_of(crowd), whole(crowd)).item())
    assert costs[0] == pytest.approx(costs[1])
    assert costs[0] != pytest.approx(costs[2])


@pytest.mark.parametrize("weights", [[1.0, 2.0], [1.0, 0.0, 1.0], [1.0, np.nan, 1.0], [[1.0, 1.0, 1.0]]])
def test_bad_weights_of_workers_are_refused(weights: object) -> None:
    labels = cw.CrowdLabels.from_dense(np.array([[0, 1, 1], [1, 0, 0], [1, 1, 0]]))
    with pytest.raises(InputError, match="it must be 3 numbers above 0"):
        cw.LearnToAgree(worker_weights=weights, device="cpu").fit(np.eye(3), labels)


def test_rmse_by_hand() -> None:
    found = agreement_cost(torch.tensor([[0.5], [0.9]]), torch.tensor([[0.2], [0.5]]), "rmse")
    assert float(found) == pytest.approx(np.sqrt((0.09 + 0.16) / 2))
    exact = torch.tensor([[0.5]], requires_grad=True)
    agreement_cost(exact, torch.tensor([[0.5]]), "rmse").backward()
    assert exact.grad is not None
    assert torch.isfinite(exact.grad).all()


def test_gamma_by_hand() -> None:
    # Ann says 1 three times in four: β = 3/4, γ = (1 − 27/64) / (1 − 3/4) = 37/16. Bob is balanced. Cy says 0 alone,
    # and counts as if 1 had been said once: β = 2/3, γ = (1 − 8/27) / (1/3) = 19/9. Dee says one thing once.
    said = [[1, 0, 0, -1], [1, 1, 0, -1], [1, -1, 0, -1], [0, -1, -1, 1]]
    assert focal_gammas(crowd_of(said))[:, 0].tolist() == pytest.approx([37 / 16, 1, 19 / 9, 1])


def test_focal_loss_by_hand() -> None:
    # p = 0.8: a label 1 costs 0.2^γ · −log 0.8, a label 0 costs 0.8^γ · −log 0.2.
    odds = torch.full((2, 1), np.log(4.0), dtype=torch.float64)
    cost = focal_cost(odds, torch.tensor([[True], [False]]), torch.full((2, 1), 2.0, dtype=torch.float64))
    np.testing.assert_allclose(cost[:, 0], [0.04 * -np.log(0.8), 0.64 * -np.log(0.2)])
    plain = focal_cost(odds, torch.tensor([[True], [False]]), None)
    np.testing.assert_allclose(plain[:, 0], [-np.log(0.8), -np.log(0.2)])


def test_every_worker_weighs_the_same() -> None:
    # Worker 0 has three labels of cost 1, 2, 6; worker 2 has one of cost 5; worker 1 has none in the batch.
    cost = torch.tensor([[1.0], [2.0], [6.0], [5.0]])
    assert float(mean_over_workers(cost, torch.tensor([0, 0, 0, 2]), 3)) == pytest.approx((3 + 5) / 2)


def test_kappa_loss_by_hand() -> None:
    # p = 0.9, 0.6, 0.2 and labels 1, 0, 0: observed 0.1 + 0.6 + 0.2 = 0.9; expected (1 · 1.3 + 2 · 1.7) / 3 = 4.7 / 3.
    p = torch.tensor([[0.9], [0.6], [0.2]], dtype=torch.float64)
    said = torch.tensor([[True], [False], [False]])
    kappa = 1 - 0.9 / (4.7 / 3)
    wanted = 1 / (1 + np.exp(-np.log(1 - kappa)))
    found = kappa_cost(p.logit(), said, torch.zeros(3, dtype=torch.long), 2)
    assert float(found) == pytest.approx(wanted, abs=1e-9)


def test_kappa_of_a_sure_classifier_is_cohens() -> None:
    rng = np.random.default_rng(0)
    guess, said = rng.integers(2, size=40), rng.integers(2, size=(2, 40))
    odds = torch.tensor(np.where(guess, 60.0, -60.0)).repeat(2)[:, None]
    worker = torch.arange(2).repeat_interleave(40)
    found = kappa_cost(odds, torch.tensor(said.ravel() == 1)[:, None], worker, 2)
    each = [1 - cohen_kappa(guess, row) for row in said]
    assert float(found) == pytest.approx(np.mean([one / (1 + one) for one in each]), abs=1e-9)


def test_a_worker_of_one_class_teaches_kappa_nothing() -> None:
    odds = torch.tensor([[0.3], [-2.0]], dtype=torch.float64, requires_grad=True)
    cost = kappa_cost(odds, torch.tensor([[True], [True]]), torch.zeros(2, dtype=torch.long), 1)
    cost.backward()
    assert cost.item() == pytest.approx(0.5)  # κ is 0
    assert odds.grad is not None
    np.testing.assert_allclose(odds.grad, 0, atol=1e-9)


# ---- equation 4, and the binary tasks -------------------------------------------------------------------------------


def test_regularisation_is_equation_4_and_has_its_properties() -> None:
    p = torch.linspace(0.01, 0.99, 50, dtype=torch.float64)[:, None]
    y = torch.linspace(0, 1, 21, dtype=torch.float64)
    up, down = p * torch.exp(3 * (y - 0.5)), (1 - p) * torch.exp(3 * (0.5 - y))
    found = regularise_log_odds(p.logit(), y, 3.0).sigmoid()
    np.testing.assert_allclose(found, up / (up + down), rtol=1e-12)
    np.testing.assert_allclose(found[:, 10], p[:, 0])  # chance level leaves p as it was
    assert (found.diff(dim=1) > 0).all()
    stronger = regularise_log_odds(p.logit(), y, 5.0).sigmoid()
    assert (stronger[:, 11:] > found[:, 11:]).all()
    assert (stronger[:, :10] < found[:, :10]).all()


def test_log_odds_of_one_class_against_the_rest() -> None:
    logits = torch.randn(20, 7, dtype=torch.float64, requires_grad=True)
    p = logits.softmax(dim=1)
    np.testing.assert_allclose(log_odds(logits).detach(), (p / (1 - p)).log().detach(), rtol=1e-9)
    assert torch.autograd.gradcheck(log_odds, logits)
    sure = torch.tensor([[200.0, 0.0, 0.0]], requires_grad=True)  # p is 1 in any precision; its odds are not infinite
    odds = log_odds(sure)
    np.testing.assert_allclose(odds.detach(), [[200 - np.log(2), -200, -200]], rtol=1e-6)
    odds.sum().backward()
    assert sure.grad is not None
    assert torch.isfinite(sure.grad).all()


def test_agreement_divides_by_those_who_labelled() -> None:
    crowd = crowd_of(RAGGED)
    agreement, labelled = positive_label_shares(
        mark_positive_labels(crowd.label, 2).double(), torch.ones(crowd.n_labels).double(), crowd.task, crowd.n_tasks
    )
    np.testing.assert_allclose(agreement[:, 0], [2 / 3, 1 / 2, 0, 0, 1, 1, 1 / 3])
    assert labelled.tolist() == [True, True, False, True, True, True, True]


# ---- the whole loss, task by task and worker by worker -------------------------------------------------------------


def written_out(objective: AgreementObjective, seen: NetworkOutput, said) -> torch.Tensor:
    """The paper's formulas with loops over tasks, workers and binary tasks."""
    said = np.array(said)
    n_tasks, n_workers = said.shape
    n_classes = seen.logits.shape[1]
    p_hat = seen.logits.softmax(dim=1)
    classes = [1] if n_classes == 2 else list(range(n_classes))
    total = torch.zeros((), dtype=torch.float64)
    for number, k in enumerate(classes):
        y_hat, y = objective.streams[number](seen.features) if objective.streams else (None, torch.tensor(0.5))
        up, down = p_hat[:, k] * torch.exp(3 * (y - 0.5)), (1 - p_hat[:, k]) * torch.exp(3 * (0.5 - y))
        p = up / (up + down)
        costs = []
        for j in range(n_workers):
            mine = [i for i in range(n_tasks) if said[i, j] >= 0]
            g = torch.tensor([float(said[i, j] == k) for i in mine], dtype=torch.float64)
            if objective.classifier_loss == "weighted-kappa":
                table = torch.stack([(g * p[mine]).mean(), (g * (1 - p[mine])).mean(), ((1 - g) * p[mine]).mean()])
                observed = table[1] + table[2]
                expected = g.mean() * (1 - p[mine].mean()) + (1 - g.mean()) * p[mine].mean()
                costs.append(torch.sigmoid(torch.log(observed / expected)))
                continue
            gamma = 0.0
            if objective.classifier_loss == "balanced-ce":
                n, most = len(mine), max(int(g.sum()), len(mine) - int(g.sum()))
                beta = (n - 1) / n
                gamma = (1 - beta**most) / (1 - beta ** max(n - most, 1))
            entropy = -(g * p[mine].log() + (1 - g) * (1 - p[mine]).log())
            costs.append(((g - p[mine]).abs() ** gamma * entropy).mean())
        total = total + torch.stack(costs).mean()
        if y_hat is not None:
            gaps = []
            for i in range(n_tasks):
                given = said[i][said[i] >= 0]
                if given.size:
                    gaps.append((y_hat[i], float(np.mean(given == k))))
            if objective.agreement_loss == "ar":
                parts = [torch.maximum(a * (y - a), (a - 1) * (y - a)) for y, a in gaps]
                total = total + torch.stack(parts).mean()
            else:
                total = total + torch.stack([(y - a) ** 2 for y, a in gaps]).mean().sqrt()
    return total / len(classes)


@pytest.mark.parametrize("said", [RAGGED, THREE], ids=["two classes", "three classes"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("stream", "agreement_loss"),
    [("distributional", "ar"), ("distributional", "rmse"), ("linear", "ar"), ("linear", "rmse"), ("none", "ar")],
)
def test_loss_and_gradient_are_the_papers(said, loss: str, stream: str, agreement_loss: str) -> None:
    crowd = crowd_of(said)
    objective, seen = objective_of(crowd, stream, loss, agreement_loss), seen_of(crowd)
    objective.gamma = focal_gammas(crowd).double()
    found, wanted = objective.loss(seen, whole(crowd)), written_out(objective, seen, said)
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-7)
    inputs = [seen.logits, *objective.parameters()]
    ours = torch.autograd.grad(found, inputs, retain_graph=True)
    theirs = torch.autograd.grad(wanted, inputs)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-6)
    assert any(grad.abs().max() > 1e-3 for grad in ours)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("stream", ["distributional", "linear", "none"])
@pytest.mark.parametrize("n_classes", [2, 7])
@pytest.mark.parametrize("kept", [[], [0], [0, 1, 2]])
def test_finite_for_any_batch(loss: str, stream: str, n_classes: int, kept: list[int]) -> None:
    labels = cw.CrowdLabels.from_codes([0, 0, 1], [0, 1, 0], [1, 1, 0], tasks=2, workers=3, classes=n_classes)
    crowd = Crowd(labels)
    objective, seen = objective_of(crowd, stream, loss, "rmse").float(), seen_of(crowd)
    logits = (40 * seen.logits).float().detach().requires_grad_()
    edges = torch.tensor(kept, dtype=torch.long)
    batch = Batch(logits, torch.arange(2), crowd.task[edges], crowd.worker[edges], crowd.label[edges], edges)
    cost = objective.loss(NetworkOutput(logits, seen.features.float()), batch)
    assert cost.shape == ()
    assert torch.isfinite(cost)
    (grad,) = torch.autograd.grad(cost, logits, allow_unused=True)
    assert grad is None or torch.isfinite(grad).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_log_f_is_the_regularised_probability(n_classes: int) -> None:
    crowd = crowd_of(RAGGED if n_classes == 2 else THREE)
    objective, seen = objective_of(crowd, "distributional", "ce"), seen_of(crowd)
    odds, _ = objective.regularised_odds(seen)
    f, p = objective.log_f(seen).exp(), odds.sigmoid()
    if n_classes == 2:
        torch.testing.assert_close(f[:, 1], p[:, 0])
    else:
        torch.testing.assert_close(f, p / p.sum(dim=1, keepdim=True))
    torch.testing.assert_close(f.sum(dim=1), torch.ones(len(f), dtype=f.dtype))
    plain = objective_of(crowd, "none", "ce")
    if n_classes == 2:
        torch.testing.assert_close(plain.log_f(seen).exp(), seen.logits.softmax(dim=1))


def test_predicted_agreement_is_the_mean_of_the_distribution() -> None:
    stream = DistributionalAgreement(3, 4).double()
    x = torch.randn(5, 3, dtype=torch.float64)
    share = stream.distribution(x).softmax(dim=1)
    predicted, indicator = stream(x)
    torch.testing.assert_close(predicted, share @ torch.tensor([0, 0.25, 0.5, 0.75, 1], dtype=torch.float64))
    assert ((indicator > 0) & (indicator < 1)).all()


# ---- learning -------------------------------------------------------------------------------------------------------


def raters(n: int = 300, n_classes: int = 2, seed: int = 0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=n)
    X = rng.normal(size=(n, n_classes)) + 3 * np.eye(n_classes)[truth]
    wrong = (truth[:, None] + rng.integers(1, n_classes, size=(n, 3))) % n_classes
    said = np.where(rng.random((n, 3)) < [0.95, 0.85, 0.8], truth[:, None], wrong)
    said[rng.random((n, 3)) < 0.2] = -1
    return X, truth, cw.CrowdLabels.from_dense(said)


@pytest.mark.filterwarnings(QUIET)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("stream", ["distributional", "linear"])
def test_it_agrees_more_than_the_workers_do(loss: str, stream: str) -> None:
    X, truth, labels = raters()
    model = cw.LearnToAgree(
        network="linear", stream=stream, classifier_loss=loss, learning_rate=0.02, epochs=20, held_out=0
    ).fit(X, labels)
    assert agreement_ratio(model.predict(X), labels) > 1
    assert model.score(X, truth) > 0.93


@pytest.mark.filterwarnings(QUIET)
def test_three_classes() -> None:
    X, truth, labels = raters(n_classes=3)
    model = cw.LearnToAgree(network="linear", learning_rate=0.02, epochs=30, held_out=0).fit(X, labels)
    assert model.score(X, truth) > 0.85
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


@pytest.mark.filterwarnings(QUIET)
def test_the_prediction_is_regularised() -> None:
    X, _, labels = raters()
    model = cw.LearnToAgree(network="linear", learning_rate=0.02, epochs=5, held_out=0).fit(X, labels)
    with torch.no_grad():
        seen = model.network_.logits_and_representation(torch.tensor(X, dtype=torch.float32))
        _, indicator = model.module_.streams[0](seen.features)
        wanted = (seen.logits[:, 1] - seen.logits[:, 0] + 6 * (indicator - 0.5)).sigmoid()
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], wanted, rtol=1e-5)
    assert np.abs(wanted.numpy() - seen.logits.softmax(dim=1)[:, 1].numpy()).max() > 0.05


@pytest.mark.filterwarnings(QUIET)
def test_a_mirrored_start_is_not_the_best_epoch() -> None:
    # The start happens to call most things by the other name. Matrices counted afterwards would not mind.
    X, _, labels = raters()
    network = torch.nn.Linear(2, 2)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[-1.0, 1.0], [1.0, -1.0]]))
    model = cw.LearnToAgree(network=network, stream="none", learning_rate=0.003, epochs=40).fit(X, labels)
    history = np.array(model.history_["held_out"])
    assert history[-1] > history[0]
    assert model.best_epoch_ > 30


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"stream": "both"}, "stream is 'both'; it must be one of 'distributional', 'linear', 'none'"),
        ({"agreement_loss": "mse"}, "agreement_loss is 'mse'; it must be one of 'ar', 'pinball', 'rmse'"),
        ({"classifier_loss": "focal"}, "classifier_loss is 'focal'"),
        ({"strength": -1}, "strength is -1; it must be a number, 0 or more"),
        ({"bins": 0}, "bins is 0; it must be a whole number, 1 or more"),
    ],
)
def test_bad_parameters(parameters: dict[str, object], message: str) -> None:
    X, _, labels = raters(20)
    with pytest.raises(cw.InputError, match=message):
        cw.LearnToAgree(**parameters).fit(X, labels)
