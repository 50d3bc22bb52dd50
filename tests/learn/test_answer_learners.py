"""Statements that every learner of answers that are no classes must keep, on the same small crowds."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
import torch
from sklearn.base import clone
from tests.learn.answer_crowds import SETTINGS, Featured, featured
from torch import nn
from typer.testing import CliRunner

import crowdwise as cw
from crowdwise.cli.app import app
from crowdwise.kinds import kind as find_kind
from crowdwise.labels.errors import InputError
from crowdwise.learn.answer_batches import AnswerRows
from crowdwise.learn.checkpoints import Checkpoint
from crowdwise.learn.features import make_features
from crowdwise.learn.networks import build_network

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.registry import LearnerEntry

LEARNERS = [entry for entry in cw.learners(None) if entry.kind != "labels"]
EVERY = pytest.mark.parametrize("entry", LEARNERS, ids=lambda entry: entry.slug)


def made(entry: LearnerEntry, **parameters: Any) -> Any:
    return entry.make(**SETTINGS | parameters)


@functools.cache
def fitted(slug: str) -> tuple[Any, Featured]:
    """A learner after three epochs, for tests that only look at it."""
    entry = cw.learner(slug)
    data = featured(entry.kind)
    return made(entry).fit(data.X, data.answers), data


def width(entry: LearnerEntry) -> int:
    """How many numbers the network gives for an item."""
    return int(made(entry)._count_outputs(featured(entry.kind).answers))


def small_net(n_outputs: int) -> nn.Module:
    """With dropout, so that chance has a part in training."""
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, n_outputs))


def test_every_kind_has_one_default() -> None:
    for kind in {entry.kind for entry in cw.learners(None)}:
        assert sum(entry.is_default for entry in cw.learners(kind)) == 1
    with pytest.raises(InputError, match="There are no learners of the kind 'songs'"):
        cw.learners("songs")


@EVERY
def test_learns_what_is_easy(entry: LearnerEntry) -> None:
    data = featured(entry.kind, 100)
    model = made(entry, epochs=25).fit(data.X, data.answers)
    least = {"ordinal": -0.35, "similarity": 0.7}.get(entry.kind, 0.9)
    assert model.score(data.X, data.truth) > least
    assert np.isfinite(list(find_kind(entry.kind).score(model, truth_table(entry.kind, data)).values())).all()


def truth_table(kind: str, data: Featured) -> Any:
    about, said = {"values": ("task", "value"), "ordinal": ("task", "grade"), "comparisons": ("item", "score"),
                   "similarity": ("task", "cluster")}[kind]  # fmt: skip
    return pa.table({about: np.arange(len(data.X)), said: data.truth})


@EVERY
def test_tables_and_history(entry: LearnerEntry) -> None:
    model, data = fitted(entry.slug)
    consensus, workers = model.consensus(), model.workers()
    assert consensus.num_rows == len(data.X)
    assert sorted(workers["worker"].to_pylist()) == sorted(data.answers.workers.to_pylist())
    for table in (consensus, workers, model.history_):
        for column in table.columns:
            if pa.types.is_floating(column.type):
                assert np.isfinite(column.to_numpy()).all()
    assert model.history_.column_names == ["epoch", "loss", "learning_rate", "held_out", "seconds"]
    assert len(model.history_) == model.n_epochs_ == 3
    assert 1 <= model.best_epoch_ <= 3
    density = model.log_density(data.answers)
    assert density.shape == (data.answers.n_answers,)
    assert np.isfinite(density).all()


@EVERY
def test_rows_may_come_in_any_order(entry: LearnerEntry) -> None:
    model, data = fitted(entry.slug)
    table = data.answers.to_table()
    order = np.random.default_rng(0).permutation(table.num_rows)
    other = made(entry).fit(data.X, find_kind(entry.kind).read(table.take(pa.array(order))))
    np.testing.assert_allclose(outputs(other, data.X), outputs(model, data.X), atol=1e-5)


def outputs(model: Any, X: Any) -> Any:
    """What the network says about its mean: of scores nothing tells the mean, and rounding moves it."""
    found = model._run_network(make_features(X)).logits.numpy()
    return found - found.mean()


@EVERY
def test_saved_and_loaded(entry: LearnerEntry, tmp_path: Path) -> None:
    model, data = fitted(entry.slug)
    model.save(tmp_path / "model")
    again = cw.load(tmp_path / "model")
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.predict(data.X), model.predict(data.X))
    for name in ("consensus", "workers"):
        assert getattr(again, name)().equals(getattr(model, name)())
    assert again.history_.equals(model.history_)
    declared = {f"{each.name}_" for each in model._saved_arrays()}
    assert {name for name in declared if not hasattr(again, name)} == set()
    weights = tmp_path / "model" / "network.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    with pytest.raises(InputError, match="is damaged"):
        cw.load(tmp_path / "model")


@EVERY
def test_a_network_of_the_users_own(entry: LearnerEntry, tmp_path: Path) -> None:
    data = featured(entry.kind)
    network = small_net(width(entry))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    state = torch.get_rng_state()
    model = made(entry, network=network).fit(data.X, data.answers)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    again = clone(model).fit(data.X, data.answers)
    np.testing.assert_array_equal(outputs(again, data.X), outputs(model, data.X))
    model.save(tmp_path / "own")
    with pytest.raises(InputError, match="with a network of your own"):
        cw.load(tmp_path / "own")
    loaded = cw.load(tmp_path / "own", network=small_net(width(entry)))
    np.testing.assert_array_equal(loaded.predict(data.X), model.predict(data.X))
    with pytest.raises(InputError, match=rf"must return logits of shape \(2, {width(entry)}\)"):
        made(entry, network=small_net(4)).fit(data.X, data.answers)


@EVERY
def test_resumed_is_as_if_never_stopped(entry: LearnerEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = featured(entry.kind, 40)
    settings = {"network": small_net(width(entry)), "epochs": 4}
    whole = made(entry, **settings).fit(data.X, data.answers)
    written, write = [], Checkpoint.write

    def stops(self: Checkpoint, *given: Any) -> None:
        write(self, *given)
        written.append(given)
        if len(written) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "write", stops)
    model = made(entry, checkpoint=tmp_path / "run", **settings)
    with pytest.raises(KeyboardInterrupt, match=r"holds epoch 2: run the same again to go on"):
        model.fit(data.X, data.answers)
    model.fit(data.X, data.answers)
    assert len(written) == 4
    np.testing.assert_array_equal(outputs(model, data.X), outputs(whole, data.X))
    assert model.workers().equals(whole.workers())
    some = np.arange(data.answers.n_answers) > 0
    with pytest.raises(InputError, match="another answers"):
        model.fit(data.X, data.answers.keep(some))


@EVERY
def test_precisions(entry: LearnerEntry) -> None:
    model, data = fitted(entry.slug)
    double = made(entry, precision="64-true").fit(data.X, data.answers)
    np.testing.assert_allclose(outputs(double, data.X), outputs(model, data.X), atol=2e-3)
    brief = made(entry, precision="bf16-mixed", epochs=1).fit(data.X, data.answers)
    assert np.isfinite(outputs(brief, data.X)).all()


@EVERY
def test_gradients_by_finite_differences(entry: LearnerEntry) -> None:
    data = featured(entry.kind, 12)
    learner = made(entry)
    features = make_features(data.X)
    answers = learner._align(data.answers, features, None)
    rows = AnswerRows.from_answers(answers, learner._say(answers))
    objective = learner._make_objective(answers, rows).double()
    objective.crowd, objective.n_epochs = rows, 3
    torch.manual_seed(0)
    classifier = build_network("linear", features, width(entry)).double()
    objective.begin_epoch(1, lambda: classifier(torch.as_tensor(data.X)).detach())
    batch = next(rows.batches(features.to(torch.device("cpu"), torch.float64), torch.arange(30), 30))
    assert len(batch.x) == len(batch.item.unique()) <= 12
    assert torch.equal(batch.item[batch.slot], rows.item[:30])
    parameters = [*classifier.parameters(), *objective.parameters()]
    with torch.no_grad():
        for each in parameters:
            each.add_(0.3 * torch.randn(each.shape, dtype=torch.float64))

    def loss(*_: Any) -> Any:
        return objective.loss(classifier.logits_and_representation(batch.x), batch)

    assert torch.autograd.gradcheck(loss, parameters, atol=1e-6)
    nothing = next(rows.batches(features, torch.arange(1), 1))
    seen = classifier.float().logits_and_representation(nothing.x)
    assert math.isfinite(float(objective.float().loss(seen, nothing).detach()))


@EVERY
def test_rows_without_answers_and_batches_of_one(entry: LearnerEntry) -> None:
    data = featured(entry.kind, 30)
    more = np.vstack([data.X, data.X])
    model = made(entry, epochs=1, batch_size=1).fit(more, data.answers)
    assert model.consensus().num_rows == 60
    assert len(model.predict(more)) == 60


@EVERY
def test_bad_input(entry: LearnerEntry) -> None:
    model, data = fitted(entry.slug)
    with pytest.raises(InputError, match="not fitted yet"):
        made(entry).predict(data.X)
    with pytest.raises(InputError, match="There are no answers"):
        made(entry).fit(data.X, data.answers.keep(np.zeros(data.answers.n_answers, bool)))
    with pytest.raises(InputError, match="is no row of the features"):
        made(entry).fit(data.X[:10], data.answers)
    names = [f"n{row}" for row in range(len(data.X))]
    with pytest.raises(InputError, match=r"have answers but no features.*keep only the answers"):
        made(entry).fit(data.X, data.answers, tasks=names)
    with pytest.raises(InputError, match=r"trained on features of shape \(3,\), not \(2,\)"):
        model.predict(data.X[:, :2])
    with pytest.raises(InputError, match="true answers for 60 rows"):
        model.score(data.X, data.truth[:5])
    for parameters, message in (
        ({"epochs": 0}, "epochs is 0"),
        ({"held_out": 0.9}, "held_out"),
        ({"clip": 0.0}, "clip"),
    ):
        with pytest.raises(InputError, match=message):
            made(entry, **parameters).fit(data.X, data.answers)
    bad = np.where(np.arange(len(data.X))[:, None] == 3, np.nan, data.X)
    with pytest.raises(InputError, match="row 3 hold a missing or infinite value"):
        made(entry).fit(bad, data.answers)


@EVERY
def test_features_with_names(entry: LearnerEntry) -> None:
    model, data = fitted(entry.slug)
    vocabulary = "items" if hasattr(data.answers, "items") else "tasks"
    names = pa.array([f"n{row}" for row in range(len(data.X))])
    other = made(entry).fit(data.X, replace(data.answers, **{vocabulary: names}), tasks=names)
    np.testing.assert_array_equal(outputs(other, data.X), outputs(model, data.X))


@pytest.mark.parametrize("kind", sorted({entry.kind for entry in LEARNERS}))
def test_the_command(kind: str, tmp_path: Path) -> None:
    data = featured(kind)
    np.savez(tmp_path / "X.npz", X=data.X)
    pacsv.write_csv(data.answers.to_table(), tmp_path / "answers.csv")
    pacsv.write_csv(truth_table(kind, data), tmp_path / "truth.csv")

    def run(*words: Any, code: int = 0) -> str:
        ran = CliRunner().invoke(app, [str(word) for word in words])
        assert ran.exit_code == code, ran.output
        return ran.output if code == 0 else str(ran.exception)

    words = ("train", "--features", tmp_path / "X.npz", "--labels", tmp_path / "answers.csv", "--epochs", 2)
    page = run(*words, "--truth", tmp_path / "truth.csv", "--out", tmp_path / "out")
    assert "A network for" in page
    assert "Against the truth" in page
    assert {each.name for each in (tmp_path / "out").iterdir()} == {
        "consensus.csv", "workers.csv", "history.csv", "model",
    }  # fmt: skip
    predictions = run("predict", tmp_path / "out" / "model", "--features", tmp_path / "X.npz", "--out", tmp_path / "p")
    assert not predictions.strip()
    assert pacsv.read_csv(tmp_path / "p").num_rows == 60
    assert f'"kind": "{kind}"' in run(*words, "--kind", kind, "--json")
    assert "learns from labels" in run(*words, "--method", "trace", code=1)
    assert "take no --valid" in run(*words, "--valid", tmp_path / "X.npz", "--valid-truth", tmp_path / "p", code=1)
    assert cw.learners(kind)[0].slug in run("methods", "--learn", "--kind", kind)
