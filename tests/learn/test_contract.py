"""Statements that every registered learner must keep, on the same small crowds."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from tests.learn.crowds import Crowded, crowded
from torch import nn

import crowdwise as cw
from crowdwise.labels import CrowdLabels, InputError
from crowdwise.learn.batches import Batch, Crowd
from crowdwise.learn.checkpoints import Checkpoint
from crowdwise.learn.features import make_features
from crowdwise.learn.networks import build_network
from crowdwise.registry import learners

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.registry import LearnerEntry

pytestmark = pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")


EVERY = pytest.mark.parametrize("entry", learners(), ids=lambda entry: entry.slug)


def made(entry: LearnerEntry, data: Crowded, **parameters: Any) -> Any:
    """The learner, given what it cannot do without, and settings for little data."""
    settings: dict[str, Any] = {"network": "linear", "epochs": 3, "batch_size": 16, "learning_rate": 0.05}
    settings["device"] = "cpu"
    if entry.needs == "confusion":
        settings["confusion"] = 0.9 * data.confusion + 0.1 / data.confusion.shape[1]
    if entry.needs == "sequences":
        settings["sequences"] = {row: (row // 4, row % 4) for row in range(len(data.X))}
    return entry.make(**settings | parameters)


@functools.cache
def fitted(entry_slug: str, n_classes: int = 3) -> tuple[Any, Crowded]:
    """A learner after three epochs on labels of which a few are wrong, for tests that only look at it."""
    data = crowded(48, n_classes, skill=0.85, seed=1)
    return made(cw.learner(entry_slug), data).fit(data.X, data.labels), data


def small_net(n_features: int, n_classes: int) -> nn.Module:
    """With dropout, so that chance has a part in training."""
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(n_features, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, n_classes))


def assert_rows(shares: Any, shape: tuple[int, ...]) -> None:
    assert shares.shape == shape
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=-1), 1, atol=1e-6)


@EVERY
def test_learns_what_is_easy_by_heart(entry: LearnerEntry) -> None:
    data = crowded()
    model = made(entry, data, epochs=30, learning_rate=0.1).fit(data.X, data.labels)
    assert model.score(data.X, data.truth) == 1.0
    assert (model.posterior_.argmax(axis=1) == data.truth).all()


@EVERY
@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_shapes_and_sums(entry: LearnerEntry, n_classes: int) -> None:
    model, data = fitted(entry.slug, n_classes)
    n_workers = data.labels.n_workers
    assert_rows(model.posterior_, (48, n_classes))
    assert_rows(model.predict_proba(data.X), (48, n_classes))
    assert_rows(model.predict_proba(data.X, data.labels), (48, n_classes))
    assert_rows(model.confusion_, (n_workers, n_classes, n_classes))
    assert_rows(model.prior_, (n_classes,))
    assert model.skill_.shape == (n_workers,)
    assert ((model.skill_ >= 0) & (model.skill_ <= 1)).all()
    assert len(model.history_) == model.n_epochs_ == 3
    assert 1 <= model.best_epoch_ <= 3
    assert model.network_(torch.zeros(2, 5)).shape == (2, n_classes)


@EVERY
def test_batches_of_one(entry: LearnerEntry) -> None:
    data = crowded(13)
    size = 2 if entry.slug == "max-mig" else 1  # which compares tasks, and refuses 1; its last batch is one task
    model = made(entry, data, batch_size=size, epochs=1).fit(data.X, data.labels)
    assert_rows(model.posterior_, (13, 3))


@EVERY
def test_one_label_a_task(entry: LearnerEntry) -> None:
    data = crowded(40, per_task=1, skill=0.9)
    model = made(entry, data).fit(data.X, data.labels)
    assert_rows(model.posterior_, (40, 3))


@EVERY
@pytest.mark.parametrize("kind", ["whole", "single task", "no labels"])
def test_loss_and_gradient_are_finite(entry: LearnerEntry, kind: str) -> None:
    data = crowded(16, skill=0.9)
    features, crowd = make_features(data.X), Crowd(data.labels)
    torch.manual_seed(0)
    classifier = build_network("linear", features, 3)
    objective = made(entry, data)._make_objective(crowd, classifier, features)
    objective.n_epochs = 3
    seen = classifier.logits_and_representation(torch.as_tensor(data.X).float())
    objective.begin_epoch(0, lambda: objective.log_f(seen).detach())
    n_tasks = {"whole": 16, "single task": 1, "no labels": 4}[kind]
    task = torch.arange(n_tasks)
    edge = torch.arange(0 if kind == "no labels" else int(crowd.ptr[n_tasks]))
    batch = Batch(
        torch.as_tensor(data.X[:n_tasks]).float(),
        task,
        crowd.task[edge],
        crowd.worker[edge],
        crowd.label[edge],
        edge,
    )
    loss = objective.loss(classifier.logits_and_representation(batch.x), batch)
    assert loss.shape == ()
    assert loss.isfinite()
    if loss.requires_grad:
        loss.backward()
    for parameter in (*classifier.parameters(), *objective.parameters()):
        assert parameter.grad is None or parameter.grad.isfinite().all()


@EVERY
def test_resumed_is_as_if_never_stopped(entry: LearnerEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = crowded(40, skill=0.9)
    settings = {"network": small_net(5, 3), "epochs": 4}
    whole = made(entry, data, **settings).fit(data.X, data.labels)
    written, write = [], Checkpoint.write

    def stops(self: Checkpoint, *given: Any) -> None:
        write(self, *given)
        written.append(given)
        if len(written) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "write", stops)
    model = made(entry, data, checkpoint=tmp_path / "run", **settings)
    with pytest.raises(KeyboardInterrupt, match=r"holds epoch 2: run the same again to go on"):
        model.fit(data.X, data.labels)
    model.fit(data.X, data.labels)
    assert len(written) == 4
    np.testing.assert_array_equal(model.posterior_, whole.posterior_)
    np.testing.assert_array_equal(model.confusion_, whole.confusion_)
    np.testing.assert_array_equal(model.predict_proba(data.X), whole.predict_proba(data.X))


@EVERY
def test_same_seed_same_answer_and_nothing_of_the_users_changes(entry: LearnerEntry) -> None:
    data = crowded(40, skill=0.9)
    network = small_net(5, 3)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    model = made(entry, data, network=network)
    parameters = model.get_params()
    state = torch.get_rng_state()
    first = model.fit(data.X, data.labels).posterior_
    assert torch.equal(torch.get_rng_state(), state)
    for name, value in model.get_params().items():
        assert value is parameters[name]
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name])
    copy = clone(model)
    assert not hasattr(copy, "posterior_")
    np.testing.assert_array_equal(copy.fit(data.X, data.labels).posterior_, first)
    other = clone(model).set_params(random_state=1).fit(data.X, data.labels)
    assert (other.posterior_ != first).any()


@EVERY
def test_saved_and_loaded(entry: LearnerEntry, tmp_path: Path) -> None:
    model, data = fitted(entry.slug)
    model.save(tmp_path / "model")
    again = cw.load(tmp_path / "model")
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.predict_proba(data.X), model.predict_proba(data.X))
    np.testing.assert_array_equal(again.predict_proba(data.X, data.labels), model.predict_proba(data.X, data.labels))
    assert again.consensus() == model.consensus()
    assert again.workers() == model.workers()


@EVERY
def test_single_precision_is_close_to_double(entry: LearnerEntry) -> None:
    model, data = fitted(entry.slug)
    double = made(entry, data, precision="64-true").fit(data.X, data.labels)
    np.testing.assert_allclose(double.predict_proba(data.X), model.predict_proba(data.X), atol=2e-3)
    np.testing.assert_allclose(double.confusion_, model.confusion_, atol=2e-3)


@EVERY
def test_mixed_precision_runs(entry: LearnerEntry) -> None:
    data = crowded(40, skill=0.9)
    model = made(entry, data, precision="bf16-mixed", epochs=1).fit(data.X, data.labels)
    assert_rows(model.posterior_, (40, 3))


@EVERY
def test_a_stranger_among_the_workers(entry: LearnerEntry) -> None:
    model, data = fitted(entry.slug)
    labels = CrowdLabels.from_arrays([0, 0, 5], ["nobody knows", 1, 2], [2, 0, 1], classes=[0, 1, 2])
    assert_rows(model.predict_proba(data.X, labels), (48, 3))


@EVERY
def test_labels_move_the_second_head(entry: LearnerEntry) -> None:
    model, data = fitted(entry.slug)
    unsure = data.X[:1] * 0 + data.X.mean(axis=0)
    chance = [
        model.predict_proba(unsure, CrowdLabels.from_arrays([0] * 4, [0, 1, 2, 3], [k] * 4, classes=[0, 1, 2]))[0, k]
        for k in range(3)
    ]
    assert (np.array(chance) > model.predict_proba(unsure)[0]).all()


@EVERY
def test_rows_without_labels(entry: LearnerEntry) -> None:
    data = crowded(40, skill=0.95)
    labelled = data.labels.keep(data.labels.task % 4 != 3)
    model = made(entry, data).fit(data.X, labelled)
    assert_rows(model.posterior_, (40, 3))
    assert (model.labels_per_task_[3::4] == 0).all()
    assert model.consensus().num_rows == 40


@EVERY
def test_tables(entry: LearnerEntry) -> None:
    model, data = fitted(entry.slug)
    consensus, workers = model.consensus(), model.workers()
    assert consensus.column_names[:5] == ["task", "label", "confidence", "n_labels", "entropy"]
    assert consensus["n_labels"].to_pylist() == data.labels.labels_per_task.tolist()
    assert workers.column_names[:5] == ["worker", "n_labels", "skill", "skill_low", "skill_high"]
    assert workers.num_rows == data.labels.n_workers
    assert model.history_.column_names[:3] == ["epoch", "loss", "learning_rate"]
    assert set(model.predict(data.X)) <= {0, 1, 2}


REFUSED = [
    ({"epochs": 0}, "epochs is 0"),
    ({"batch_size": 0}, "batch_size is 0"),
    ({"learning_rate": 0.0}, "learning_rate is 0"),
    ({"worker_learning_rate": -1.0}, "worker_learning_rate is -1"),
    ({"weight_decay": -1.0}, "weight_decay is -1"),
    ({"schedule": "daily"}, "schedule is 'daily'"),
    ({"keep_epoch": "first"}, "keep_epoch is 'first'"),
    ({"clip": 0.0}, "clip is 0"),
    ({"held_out": 0.9}, "held_out"),
    ({"patience": 0}, "patience is 0"),
    ({"precision": "bf16-true"}, "precision is 'bf16-true'"),
    ({"device": "abacus"}, "device is 'abacus'"),
    ({"devices": 0}, "devices is 0"),
    ({"random_state": -1}, "random_state is -1"),
    ({"network": "perceptron"}, "network is 'perceptron'; it must be one of linear, mlp"),
]


@EVERY
def test_training_parameters_are_refused(entry: LearnerEntry) -> None:
    data = crowded(12)
    for parameters, message in REFUSED:
        with pytest.raises(InputError, match=message):
            made(entry, data, **parameters).fit(data.X, data.labels)
    with pytest.raises(InputError, match="not fitted yet"):
        made(entry, data).predict_proba(data.X)


@EVERY
def test_the_order_of_workers_decides_nothing(entry: LearnerEntry) -> None:
    """They are numbered as the rows come."""
    one, data = fitted(entry.slug)
    labels, last = data.labels, data.labels.n_workers - 1
    turned = CrowdLabels.from_codes(
        labels.task, last - labels.worker, labels.label,
        tasks=len(data.X), workers=labels.workers[::-1], classes=labels.n_classes,
    )  # fmt: skip
    two = made(entry, replace(data, confusion=data.confusion[::-1])).fit(data.X, turned)
    np.testing.assert_allclose(one.predict_proba(data.X), two.predict_proba(data.X), atol=1e-5)
    np.testing.assert_allclose(one.confusion_, two.confusion_[::-1], atol=1e-5)


@EVERY
def test_workers_without_labels_have_no_part(entry: LearnerEntry, tmp_path: Path) -> None:
    """They change nothing before or after the others; where they label new tasks, they count as a worker not met."""
    _, data = fitted(entry.slug)
    labels, before, after = data.labels, 3, 20
    everyone = [f"worker {number}" for number in range(before + labels.n_workers + after)]
    there = slice(before, before + labels.n_workers)
    rest = [np.repeat(data.confusion[:1], number, axis=0) for number in (before, after)]

    def fit(first: int, workers: list[str], confusion: Any) -> Any:
        codes = labels.task, labels.worker + first, labels.label
        named = CrowdLabels.from_codes(*codes, tasks=len(data.X), workers=workers, classes=labels.n_classes)
        return made(entry, replace(data, confusion=confusion)).fit(data.X, named)

    one = fit(0, everyone[there], data.confusion)
    two = fit(before, everyone, np.concatenate([rest[0], data.confusion, rest[1]]))
    np.testing.assert_allclose(one.predict_proba(data.X), two.predict_proba(data.X), atol=1e-6)
    np.testing.assert_allclose(one.posterior_, two.posterior_, atol=2e-6)
    np.testing.assert_allclose(one.confusion_, two.confusion_[there], atol=2e-6)
    if entry.needs == "confusion":  # it knows them all
        return
    by_new, by_idle = (
        CrowdLabels.from_codes([0, 1, 2], [0] * 3, [0, 1, 2], tasks=3, workers=[name], classes=labels.n_classes)
        for name in ("new", everyone[0])
    )
    two.save(tmp_path / "model")
    for model in (two, cw.load(tmp_path / "model")):
        said = model.predict_proba(data.X[:3], by_idle)
        np.testing.assert_allclose(said, one.predict_proba(data.X[:3], by_new), atol=2e-6)
