"""Two stages: the targets of every kind of consensus, the loss, and what the parameters are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from tests.learn.crowds import N_CLASSES, crowded, logits_of, ragged, whole

import crowdwise as cw
from crowdwise.learn.batches import Crowd, NetworkOutput
from crowdwise.learn.two_stage import TargetObjective, TwoStage, fit_consensus
from crowdwise.registry import learner
from crowdwise.simulate import simulate

if TYPE_CHECKING:
    from pathlib import Path

HAND = cw.CrowdLabels.from_codes(
    [0, 0, 0, 1, 1, 2], [0, 1, 2, 0, 1, 2], [0, 0, 1, 1, 2, 2], tasks=3, workers=3, classes=3
)


def target_of(**parameters: object) -> np.ndarray:
    model = TwoStage(**parameters)
    return model._make_objective(Crowd(HAND), None, None).target.numpy()


def test_majority_vote_takes_the_winner_and_spreads_ties() -> None:
    np.testing.assert_allclose(target_of(aggregator="majority-vote"), [[1, 0, 0], [0, 0.5, 0.5], [0, 0, 1]])


def test_soft_votes_are_the_shares_of_the_labels() -> None:
    shares = target_of(aggregator="majority-vote", soft=True)
    np.testing.assert_allclose(shares, [[2 / 3, 1 / 3, 0], [0, 0.5, 0.5], [0, 0, 1]], atol=1e-6)


def test_any_aggregator_by_name_or_instance_gives_its_posterior() -> None:
    crowd = simulate("dawid-skene", n_tasks=60, n_workers=6, n_classes=3, labels_per_task=4, skill=0.7, random_state=2)
    posterior = cw.DawidSkene().fit(crowd.labels).predict_proba()
    unfitted = cw.DawidSkene()
    for aggregator in ("dawid-skene", unfitted):
        np.testing.assert_array_equal(fit_consensus(aggregator, crowd.labels), posterior)
    assert not hasattr(unfitted, "posterior_")  # a copy was fitted


def test_a_fitted_aggregator_is_used_as_it_is_by_the_names_of_workers_and_classes() -> None:
    old = cw.read_labels(
        {
            "task": [1, 1, 2, 2, 3, 3, 4, 4] * 2,
            "worker": ["ann", "bob"] * 4 + ["cy", "dee"] * 4,
            "label": list("yynnyynn") + list("ynnyynny"),
        }
    )
    model = cw.DawidSkene(smoothing=0.1).fit(old)
    new = cw.read_labels({"task": [0, 1], "worker": ["dee", "ann"], "label": ["n", "y"]}, classes=["n", "y"])
    found = fit_consensus(model, new)
    flipped = [model.classes_.tolist().index(name) for name in ("n", "y")]
    np.testing.assert_allclose(found, model.predict_proba(new)[:, flipped])
    assert found[1, 1] > 0.9  # ann said y, and is right


def test_an_aggregator_of_the_users_is_named_before_it_is_saved(tmp_path: Path) -> None:
    data = crowded(20)
    model = TwoStage(aggregator=cw.DawidSkene(smoothing=0.5), network="linear", epochs=1).fit(data.X, data.labels)
    with pytest.raises(cw.InputError, match=r"cannot hold the aggregator .*set_params\(aggregator='dawid-skene'\)"):
        model.save(tmp_path / "model")
    model.set_params(aggregator="dawid-skene").save(tmp_path / "model")
    again = cw.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(data.X), model.predict_proba(data.X))


def test_no_consensus_is_found_again_on_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = crowded(20)
    TwoStage(network="linear", epochs=1).fit(data.X, data.labels).save(tmp_path / "model")
    monkeypatch.setattr("crowdwise.learn.two_stage.fit_consensus", None)
    assert cw.load(tmp_path / "model").slug == "two-stage"


def test_a_fitted_aggregator_of_other_classes_is_refused() -> None:
    model = cw.MajorityVote().fit(ragged(4))
    with pytest.raises(cw.InputError, match=r"The aggregator was fitted to the classes .* and the labels have"):
        fit_consensus(model, HAND)


def test_loss_and_gradient_are_those_of_the_dense_formula() -> None:
    crowd = Crowd(ragged())
    target = torch.softmax(torch.randn(5, N_CLASSES, dtype=torch.float64), dim=1)
    logits = logits_of()
    loss = TargetObjective(crowd, target).loss(NetworkOutput(logits, logits), whole(crowd))
    dense = sum(
        -target[t, k] * torch.log(logits[t].exp()[k] / logits[t].exp().sum()) for t in range(5) for k in range(3)
    )
    assert loss.item() == pytest.approx(dense.item() / 5, abs=1e-12)
    torch.testing.assert_close(
        torch.autograd.grad(loss, logits)[0], (logits.softmax(dim=1) - target).detach() / 5, atol=1e-12, rtol=0
    )


@pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")
def test_the_held_out_tasks_have_no_part_in_the_consensus() -> None:
    """Their rows of the target are those of tasks without labels, no shares of three."""
    crowd = simulate("dawid-skene", n_tasks=60, n_workers=4, n_classes=2, labels_per_task=3, skill=0.9, random_state=2)
    X = np.random.default_rng(0).normal(size=(60, 2)) + 3 * crowd.truth[:, None]
    model = TwoStage(aggregator="majority-vote", soft=True, network="linear", epochs=2, held_out=0.5)
    votes = 3 * model.fit(X, crowd.labels).module_.target.numpy()
    assert (np.abs(votes - votes.round()) < 1e-4).all(axis=1).sum() == 30


@pytest.mark.parametrize(
    ("aggregator", "soft", "slug"),
    [
        ("majority-vote", False, "hard-labels"),
        (cw.MajorityVote(), True, "soft-labels"),
        ("dawid-skene", True, "two-stage"),
        (cw.OneCoin(), False, "two-stage"),
    ],
)
def test_what_the_parameters_are_called(aggregator: object, soft: bool, slug: str) -> None:
    assert TwoStage(aggregator=aggregator, soft=soft).slug == slug


@pytest.mark.parametrize("slug", ["hard-labels", "soft-labels", "two-stage"])
def test_a_registered_name_makes_the_learner_of_this_name(slug: str) -> None:
    made = learner(slug).make()
    assert isinstance(made, TwoStage)
    assert made.slug == slug


@pytest.mark.parametrize("soft", [False, True])
def test_learns_a_classifier(soft: bool) -> None:
    crowd = simulate("dawid-skene", n_tasks=300, n_workers=8, n_classes=3, labels_per_task=3, skill=0.7, random_state=4)
    X = np.random.default_rng(0).normal(size=(300, 3)) + 4 * np.eye(3)[crowd.truth]
    model = TwoStage(soft=soft, network="linear", epochs=30, learning_rate=0.02).fit(X, crowd.labels)
    assert model.score(X, crowd.truth) > 0.95
    assert model.confusion_.shape == (8, 3, 3)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"aggregator": "dawid"}, r"There is no method .* Did you mean 'dawid-skene'"),
        ({"aggregator": 3}, r"aggregator is .*; it must be the slug of a method"),
        ({"soft": "yes"}, r"soft is .*; it must be True or False"),
    ],
)
def test_refuses_bad_parameters(bad: dict[str, object], message: str) -> None:
    with pytest.raises(cw.InputError, match=message):
        TwoStage(**bad).fit(np.zeros((3, 1)), HAND)
