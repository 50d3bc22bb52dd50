"""A network that puts items into clusters: its loss against a dense formula, workers, digits from 1 % of pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from tests.learn.answer_crowds import featured

import crowdwise as cw
from crowdwise.fitting.part_digests import add_digests
from crowdwise.kinds import simulate_similarities
from crowdwise.kinds.similarity import adjusted_rand
from crowdwise.labels.errors import InputError
from crowdwise.learn.answer_batches import AnswerRows
from crowdwise.learn.batches import NetworkOutput
from crowdwise.learn.similarity_network import RIGHT, WRONG, SimilarityObjective, join_answers

if TYPE_CHECKING:
    from pathlib import Path


def test_the_loss_is_the_dense_formula() -> None:
    """Over all pairs of items and all workers, with a mask where nobody was asked: value and gradient."""
    torch.manual_seed(0)
    crowd = simulate_similarities(7, 3, share=0.8, answers_per_pair=2, random_state=1)
    said = torch.as_tensor(np.array(crowd.answers.same))
    rows = AnswerRows.from_answers(crowd.answers, said)
    objective = SimilarityObjective(rows).double()
    with torch.no_grad():
        for each in objective.parameters():
            each.add_(0.5 * torch.randn(each.shape))
    logits = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    features = cw.learn.features.make_features(np.zeros((7, 2)))
    batch = next(rows.batches(features, torch.arange(rows.n_answers), rows.n_answers))
    value = objective.loss(NetworkOutput(logits[batch.item], logits[batch.item]), batch)
    own = torch.autograd.grad(value, [logits, *objective.parameters()])

    f = logits.softmax(dim=1)
    same = (f @ f.T).unsqueeze(2)
    a, b = objective.same.sigmoid(), objective.different.sigmoid()
    chance = same * a + (1 - same) * b  # (items, items, workers)
    mask, says = torch.zeros(7, 7, 3, dtype=torch.bool), torch.zeros(7, 7, 3, dtype=torch.bool)
    where = tuple(torch.as_tensor(each.astype(np.int64)) for each in
                  (crowd.answers.left, crowd.answers.right, crowd.answers.worker))  # fmt: skip
    mask[where], says[where] = True, said
    likelihood = torch.where(says, chance, 1 - chance).log()[mask].mean()
    prior = (RIGHT * (a.log() + (1 - b).log()) + WRONG * ((1 - a).log() + b.log())).sum()
    expected = -likelihood - prior / rows.n_answers
    assert value.item() == pytest.approx(expected.item(), abs=1e-12)
    for one, other in zip(own, torch.autograd.grad(expected, [logits, *objective.parameters()]), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-6)


def test_digits_from_one_pair_in_a_hundred() -> None:
    """Labels alone cannot tell ten clusters of this many items apart from so few pairs."""
    X, digit = load_digits(return_X_y=True)
    crowd = simulate_similarities(cluster=digit, n_workers=30, share=0.01, random_state=0)
    learner = cw.SimilarityNetwork(n_clusters=15, epochs=10, batch_size=128, learning_rate=3e-3, device="cpu")
    model = learner.fit(X / 16, crowd.answers)
    assert model.score(X / 16, digit) > 0.9
    assert adjusted_rand(model.cluster_, digit) > 0.9
    workers = model.workers()
    inside = [
        (workers[f"{name}_low"].to_numpy() <= true) & (true <= workers[f"{name}_high"].to_numpy())
        for name, true in (("sensitivity", crowd.sensitivity), ("specificity", crowd.specificity))
    ]
    assert 0.8 <= np.mean(inside) <= 1.0


def test_adversaries_and_predictions() -> None:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(150, 3))
    crowd = simulate_similarities(cluster=X.argmax(axis=1), share=0.3, adversaries=0.3, random_state=2)
    learner = cw.SimilarityNetwork(n_clusters=3, network="linear", epochs=30, learning_rate=0.03, device="cpu")
    model = learner.fit(X, crowd.answers)
    workers = model.workers()
    wrong = workers["sensitivity"].to_numpy() + workers["specificity"].to_numpy() < 1
    assert (wrong == (crowd.sensitivity < 0.5)).all()
    new = generator.normal(size=(80, 3))
    assert model.score(new, new.argmax(axis=1)) > 0.8
    chances = model.predict_proba(new)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert (chances.argmax(axis=1) == model.predict(new)).all()
    same = model.predict_same(new, [0, 1], [1, 1])
    np.testing.assert_allclose(same, [chances[0] @ chances[1], chances[1] @ chances[1]])
    with pytest.raises(InputError, match="must be rows of the features, 0 to 79"):
        model.predict_same(new, [0], [80])
    # Known workers' answers about new items make their clusters surer.
    more = simulate_similarities(cluster=new.argmax(axis=1), n_workers=10, share=0.5, random_state=3)
    alone, together = model.predict(new), model.predict(new, more.answers)
    assert adjusted_rand(together, new.argmax(axis=1)) >= adjusted_rand(alone, new.argmax(axis=1)) - 0.05
    with pytest.raises(InputError, match="n_clusters is 0"):
        cw.SimilarityNetwork(n_clusters=0).fit(X, crowd.answers)


def test_what_features_and_answers_say_together_is_exact_for_one_pair() -> None:
    data = featured("similarity", 2)
    from crowdwise.kinds.similarity.pair_evidence import Rates, lay_out_evidence

    evidence = lay_out_evidence(data.answers)
    rates = Rates(np.full(8, 0.8), np.full(8, 0.3))
    shares = np.array([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]])
    belief, together = join_answers(evidence, rates, shares)
    said = data.answers.same[0]
    ratio = 0.8 / 0.3 if said else 0.2 / 0.7
    joint = np.outer(*shares) * np.where(np.eye(3) == 1, ratio, 1.0)
    joint /= joint.sum()
    np.testing.assert_allclose(belief, [joint.sum(axis=1), joint.sum(axis=0)], atol=1e-9)
    assert together[0] == pytest.approx(np.trace(joint), abs=1e-9)


def test_a_saved_network_names_the_cluster_of_every_output(tmp_path: Path) -> None:
    answers = simulate_similarities(12, 3, share=0.5, random_state=0).answers
    model = cw.SimilarityNetwork(n_clusters=3, epochs=1).fit(np.random.default_rng(0).normal(size=(12, 2)), answers)
    model.save(tmp_path / "model")
    arrays = dict(np.load(tmp_path / "model" / "arrays.npz"))
    for wrong in (arrays["output_cluster"][:0], np.zeros(3, np.int64)):
        np.savez(tmp_path / "model" / "arrays.npz", **(arrays | {"output_cluster": wrong}))
        add_digests(tmp_path / "model")
        with pytest.raises(InputError, match="damaged"):
            cw.load(tmp_path / "model")
