"""The scoring network: probabilities and gradients by the formulas of comparisons, variances, adversaries, sides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit
from sklearn.datasets import load_digits
from tests.learn.answer_crowds import featured

import crowdwise as cw
from crowdwise.kinds import simulate_comparisons
from crowdwise.kinds.comparisons.likelihood import answer_probabilities
from crowdwise.labels.errors import InputError
from crowdwise.learn.answer_batches import AnswerRows
from crowdwise.learn.batches import NetworkOutput
from crowdwise.learn.output_uncertainty import last_layer_variances
from crowdwise.learn.scoring_network import ScoringObjective

LINEAR: dict[str, Any] = {"network": "linear", "learning_rate": 0.03, "device": "cpu"}


@pytest.mark.parametrize("reliability", ["slope", "quality", "none"])
@pytest.mark.parametrize("ties", [True, False])
def test_log_density_is_the_formula(reliability: str, ties: bool) -> None:
    answers = simulate_comparisons(8, 5, answers_per_worker=12, ties=0.5 if ties else 0.0, random_state=1).answers
    rows = AnswerRows.from_answers(answers, torch.as_tensor(answers.outcome.astype(np.int64)))
    objective = ScoringObjective(rows, reliability, sided=True, ties=ties).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in objective.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator).double())
    score = torch.randn(8, 1, generator=generator).double()
    batch = next(rows.batches(cw.learn.features.make_features(np.zeros((8, 2))), torch.arange(rows.n_answers), 1000))
    found = objective.log_density(NetworkOutput(score[batch.item], score[batch.item]), batch).detach().numpy()

    def values(name: str, otherwise: float) -> Any:
        parameter = getattr(objective, name)
        return np.full(5, otherwise) if parameter is None else parameter.detach().numpy()

    s, w = score[:, 0].numpy(), answers.worker
    x = values("slope", 1.0)[w] * (s[answers.left] - s[answers.right]) + values("bias", 0.0)[w]
    tie = -np.inf if objective.tie is None else float(objective.tie.detach())
    shares = np.stack(answer_probabilities(x, expit(values("quality", np.inf))[w], tie))
    np.testing.assert_allclose(found, np.log(shares[1 - answers.outcome.astype(int), np.arange(w.size)]), atol=1e-12)


def test_variances_are_those_of_a_dense_inverse() -> None:
    rng = np.random.default_rng(0)
    model = cw.ScoringNetwork(**LINEAR, epochs=2).fit(*_given(featured("comparisons", 20)))
    last = rng.normal(size=(20, 3))
    pair, information = rng.integers(20, size=(50, 2)), rng.uniform(0.1, 0.3, 50)
    seen = NetworkOutput(torch.zeros(20, 1), torch.as_tensor(last))
    pairs = np.array([[0, 1], [4, 7]])
    item, asked = last_layer_variances(
        model.network_, seen, pair, information, centre=np.arange(20), pairs=pairs
    )  # fmt: skip
    apart = last[pair[:, 0]] - last[pair[:, 1]]
    weight = model.network_.network[1].weight.detach().numpy()[0].astype(float)
    gathered, precision = apart.T @ (information[:, None] * apart), 1.0
    for _ in range(20):
        told = np.trace(np.linalg.solve(gathered + precision * np.eye(3), gathered))
        precision = told / (weight @ weight)
    inverse = np.linalg.inv(gathered + precision * np.eye(3))
    centred, between = last - last.mean(axis=0), last[pairs[:, 0]] - last[pairs[:, 1]]
    np.testing.assert_allclose(item, np.einsum("nd,de,ne->n", centred, inverse, centred), rtol=1e-8)
    np.testing.assert_allclose(asked, np.einsum("nd,de,ne->n", between, inverse, between), rtol=1e-8)


def _given(data: Any) -> tuple[Any, Any]:
    return data.X, data.answers


def test_intervals_of_scores_and_workers_cover() -> None:
    """Of 90 % intervals, 80 to 98 % hold the scores of items, and the slopes and biases of workers."""
    scores: list[float] = []
    slopes: list[float] = []
    biases: list[float] = []
    for seed in range(4):
        X = np.random.default_rng(seed).normal(size=(40, 3))
        crowd = simulate_comparisons(
            40, 10, answers_per_worker=60, slope=0.0, bias=0.0, ties=0.0, scores=X @ [1.0, -0.7, 0.5], random_state=seed
        )
        model = cw.ScoringNetwork(**LINEAR, reliability="none", epochs=15, keep_epoch="last", random_state=seed)
        table = model.fit(X, crowd.answers).consensus()
        true = (crowd.score - crowd.score.mean())[table["item"].to_numpy()]
        scores.append(((table["low"].to_numpy() <= true) & (true <= table["high"].to_numpy())).mean())
        own = cw.ScoringNetwork(**LINEAR, epochs=15, keep_epoch="last", random_state=seed).fit(X, crowd.answers)
        # Slopes are told apart up to a factor of all of them.
        reach, mean = 1.645 * np.sqrt(own.worker_slope_variance_), own.worker_slope_.mean()
        slopes.append((np.abs(own.worker_slope_ - mean) <= reach).mean())
        workers = own.workers()
        low, high = (workers[f"position_bias_{end}"].to_numpy() for end in ("low", "high"))
        biases.append(((low <= 0) & (high >= 0)).mean())
    assert 0.8 <= np.mean(scores) <= 0.98
    assert 0.8 <= np.mean(slopes) <= 1.0
    assert 0.8 <= np.mean(biases) <= 1.0


def test_sides_and_adversaries_are_found() -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    crowd = simulate_comparisons(
        60, 10, answers_per_worker=100, adversaries=0.3, bias=1.0, ties=0.3, scores=X @ [2.0, -1.0, 1.0], random_state=0
    )
    for reliability, seed in (("slope", 0), ("quality", 0), ("slope", 1)):
        model = cw.ScoringNetwork(**LINEAR, epochs=20, reliability=reliability, random_state=seed)
        model.fit(X, crowd.answers)
        name = model.workers_.astype(int)
        workers = model.workers()
        assert ((workers["reliability"].to_numpy() < 0.5) == (crowd.slope[name] < 0)).all()
        bias = crowd.bias[name] * np.sign(crowd.slope[name]) if reliability == "quality" else crowd.bias[name]
        assert np.corrcoef(model.worker_bias_, bias)[0, 1] > 0.85
        assert 0.1 < model.tie_[0] < 0.6
        assert model.score(X, crowd.score) > 0.93
    assert set(model.preferences().column_names) == {"chosen", "rejected", "weight", "flip_rate", "n_answers"}
    chance = model.predict_pairs(X, [0, 1], [1, 0])
    np.testing.assert_allclose(chance.sum(), 1)
    with pytest.raises(InputError, match="must be rows of the features, 0 to 59"):
        model.predict_pairs(X, [0], [60])
    with pytest.raises(InputError, match="by their features alone"):
        model.predict(X, crowd.answers)
    with pytest.raises(InputError, match="reliability is 'luck'"):
        cw.ScoringNetwork(reliability="luck").fit(X, crowd.answers)


def test_items_that_were_never_compared_share_a_scale() -> None:
    """Two halves without a comparison between them: the network scores both, so that there are no groups."""
    X = np.random.default_rng(1).normal(size=(40, 2))
    crowd = simulate_comparisons(40, 6, answers_per_worker=200, scores=X @ [2.0, 1.0], random_state=0)
    answers = crowd.answers.keep((crowd.answers.left < 20) == (crowd.answers.right < 20))
    model = cw.ScoringNetwork(**LINEAR, epochs=10).fit(X, answers)
    assert "group" not in model.consensus().column_names
    assert model.score(X, crowd.score) > 0.9


def test_a_reward_model_with_three_in_ten_adversaries() -> None:
    """Digits as items, their number as the reward: pairs of new items, with and without the workers' reliability."""
    X, digit = load_digits(return_X_y=True)
    gains: list[float] = []
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = order[:700], order[700:]
        crowd = simulate_comparisons(
            700, 40, answers_per_worker=60, adversaries=0.3, ties=0.0, scores=0.5 * (digit[train] - 4.5),
            random_state=seed,
        )  # fmt: skip
        found = [
            cw.ScoringNetwork(reliability=reliability, epochs=12, device="cpu", random_state=seed)
            .fit(X[train], crowd.answers)
            .score(X[test], digit[test])
            for reliability in ("slope", "none")
        ]
        gains.append(found[0] - found[1])
    assert np.mean(gains) >= 0.03
