"""The training engine: batches, choice of the epoch, schedules, faults, precision and several devices."""

from __future__ import annotations

import traceback
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lightning.fabric import Fabric
from tests.learn.crowds import crowded
from torch import nn
from torch.multiprocessing.spawn import ProcessRaisedException
from torch.utils.data import Dataset

import crowdwise as cw
from crowdwise.labels import CrowdLabels, InputError
from crowdwise.learn import training_loop
from crowdwise.learn.batches import Crowd, batches
from crowdwise.learn.checkpoints import Checkpoint
from crowdwise.learn.features import HeldFeatures
from crowdwise.learn.lazy_adam import LazyAdam
from crowdwise.learn.training_loop import Diverged
from crowdwise.learn.training_state import TrainingPlan

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")
QUICK: dict[str, Any] = {"network": "linear", "epochs": 4, "batch_size": 16, "learning_rate": 0.05, "device": "cpu"}


def plan(**changes: Any) -> TrainingPlan:
    given = cw.TraceRegularized(**changes)
    return given._plan()


# ---- batches ------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_batches_are_what_a_plain_loop_gives(data: st.DataObject) -> None:
    n_tasks, n_workers, n_classes = (data.draw(st.integers(1, most)) for most in (8, 4, 3))
    cells = [(task, worker) for task in range(n_tasks) for worker in range(n_workers)]
    chosen = sorted(data.draw(st.sets(st.sampled_from(cells))))
    said = [data.draw(st.integers(0, n_classes - 1)) for _ in chosen]
    task, worker = (np.array([cell[i] for cell in chosen], dtype=int) for i in (0, 1))
    names = {"tasks": n_tasks, "workers": n_workers, "classes": n_classes}
    crowd = Crowd(CrowdLabels.from_codes(task, worker, np.array(said, dtype=int), **names))
    order = data.draw(st.permutations(range(n_tasks)))[: data.draw(st.integers(1, n_tasks))]
    size = data.draw(st.integers(1, 9))
    x = torch.arange(n_tasks, dtype=torch.float32)[:, None]
    found = list(batches(HeldFeatures(x), crowd, torch.tensor(order), size))
    assert len(found) == -(-len(order) // size)
    for number, batch in enumerate(found):
        tasks = order[number * size : (number + 1) * size]
        assert batch.task.tolist() == tasks == batch.x[:, 0].int().tolist()
        assert len(batch) == len(tasks)
        expected = [
            (place, by, label, edge)
            for place, number_of_task in enumerate(tasks)
            for edge, ((of, by), label) in enumerate(zip(chosen, said, strict=True))
            if of == number_of_task
        ]
        got = zip(*(getattr(batch, name).tolist() for name in ("owner", "worker", "label", "edge")), strict=True)
        assert list(got) == expected


def test_votes_are_shares_and_even_without_labels() -> None:
    labels = CrowdLabels.from_codes([0, 0, 0, 2], [0, 1, 2, 0], [1, 1, 0, 2], tasks=3, workers=3, classes=3)
    np.testing.assert_allclose(Crowd(labels).task_vote_shares(), [[1 / 3, 2 / 3, 0], [1 / 3] * 3, [0, 0, 1]], atol=1e-7)


# ---- which epoch --------------------------------------------------------------------------------------------------


def test_the_last_epoch_is_kept_when_nothing_is_held_out() -> None:
    data = crowded(48, skill=0.8)
    model = cw.TraceRegularized(**QUICK, held_out=0.0).fit(data.X, data.labels)
    assert model.best_epoch_ == 4
    assert "held_out" not in model.history_.column_names


def test_the_best_epoch_is_that_of_the_labels_held_out() -> None:
    data = crowded(60, skill=0.7, apart=2.0)
    model = cw.TraceRegularized(**QUICK | {"epochs": 30, "learning_rate": 0.3}, held_out=0.3).fit(data.X, data.labels)
    scores = model.history_["held_out"].to_pylist()
    assert model.best_epoch_ == 1 + int(np.argmax(scores)) < 30
    # The weights kept are that epoch's: training just so long ends with the same network.
    short = cw.TraceRegularized(**QUICK | {"epochs": model.best_epoch_, "learning_rate": 0.3}, held_out=0.3)
    short.fit(data.X, data.labels)
    np.testing.assert_array_equal(short.predict_proba(data.X), model.predict_proba(data.X))


def test_the_best_epoch_is_that_of_a_validation_set() -> None:
    data, other = crowded(48, skill=0.8, apart=1.0), crowded(48, apart=1.0, seed=9)
    model = cw.TraceRegularized(**QUICK | {"epochs": 10}).fit(data.X, data.labels, valid=(other.X, other.truth))
    scores = model.history_["accuracy"].to_pylist()
    assert model.best_epoch_ == 1 + int(np.argmax(scores))
    assert model.score(other.X, other.truth) == pytest.approx(max(scores))
    assert "held_out" not in model.history_.column_names


@pytest.mark.parametrize("learner", [cw.TraceRegularized, cw.GeneralizedEm, cw.MaxMig])
def test_labels_of_a_validation_set_forecast(learner: Any) -> None:
    data, other = crowded(48, skill=0.8, apart=1.0), crowded(48, skill=0.8, apart=1.0, seed=9)
    valid = (other.X, other.truth, other.labels)
    model = learner(**QUICK | {"epochs": 6}).fit(data.X, data.labels, valid=valid)
    forecasts = np.asarray(model.history_["forecast"])
    assert forecasts.shape == (6,)
    right = model.predict(other.X, other.labels) == np.asarray(other.truth)
    # Matrices that lag behind are those of the epoch here, and brought to their place there.
    assert forecasts[model.best_epoch_ - 1] == pytest.approx(right.mean(), abs=0.1)
    with pytest.raises(InputError, match="may have crowd labels as a third"):
        learner(**QUICK).fit(data.X, data.labels, valid=(*valid, 1))


def test_true_labels_of_a_validation_set_must_be_classes() -> None:
    data = crowded(12)
    with pytest.raises(InputError, match="classes that no worker used: 7"):
        cw.TraceRegularized(**QUICK).fit(data.X, data.labels, valid=(data.X, [7] * 12))


def test_patience_ends_training_and_a_resumed_run_stays_ended(tmp_path: Path) -> None:
    data = crowded(60, skill=0.7, apart=2.0)
    patient = QUICK | {"epochs": 60, "learning_rate": 0.3, "patience": 3, "checkpoint": tmp_path / "run"}
    model = cw.TraceRegularized(**patient, held_out=0.3).fit(data.X, data.labels)
    assert model.n_epochs_ == model.best_epoch_ + 3 < 60
    again = cw.TraceRegularized(**patient, held_out=0.3).fit(data.X, data.labels)
    assert again.n_epochs_ == model.n_epochs_
    np.testing.assert_array_equal(again.posterior_, model.posterior_)


def test_labels_held_out_are_not_learnt_from() -> None:
    data = crowded(60, skill=0.9)
    model = cw.TraceRegularized(held_out=0.25)
    kept, out = model._split(data.labels, np.arange(60), False)
    assert len(out) == 15
    assert sorted([*kept, *out]) == list(range(60))
    changed = np.where(np.isin(data.labels.task, out), 0, data.labels.label)
    names = {"tasks": 60, "workers": 4, "classes": 3}
    other = CrowdLabels.from_codes(data.labels.task, data.labels.worker, changed, **names)
    first, second = (
        cw.TraceRegularized(**QUICK, held_out=0.25).fit(data.X, labels).history_["loss"].to_pylist()
        for labels in (data.labels, other)
    )
    assert first == second


def test_the_last_epoch_may_be_kept_beside_a_validation_set() -> None:
    """It ends where training without any choice of the epoch ends, and the accuracies are still told."""
    data = crowded(40, skill=0.6)
    wrong = np.array(["0"] * 40)  # any classifier that learns gets worse on these
    patient = QUICK | {"epochs": 12}
    last = cw.TraceRegularized(**patient, keep_epoch="last").fit(data.X, data.labels, valid=(data.X, wrong))
    best = cw.TraceRegularized(**patient).fit(data.X, data.labels, valid=(data.X, wrong))
    plain = cw.TraceRegularized(**patient, held_out=0.0).fit(data.X, data.labels)
    assert (last.best_epoch_, last.n_epochs_) == (12, 12)
    assert best.best_epoch_ < 12
    np.testing.assert_array_equal(last.predict_proba(data.X), plain.predict_proba(data.X))
    assert last.history_["accuracy"].to_pylist() == best.history_["accuracy"].to_pylist()
    assert not any("was the best" in sentence for sentence in last.diagnose(data.X, data.labels))


# ---- schedules and steps ------------------------------------------------------------------------------------------


def test_schedules() -> None:
    assert [plan(schedule="constant").rate_at(epoch, 4) for epoch in range(4)] == [1, 1, 1, 1]
    steps = [plan(schedule="step").rate_at(epoch, 8) for epoch in range(8)]
    np.testing.assert_allclose(steps, [1, 1, 0.1, 0.1, 0.01, 0.01, 0.001, 0.001])
    assert [plan(schedule="drop").rate_at(epoch, 8) for epoch in range(8)] == [1, 1, 1, 1, 1, 1, 0.1, 0.1]
    cosine = [plan(schedule="cosine").rate_at(epoch, 4) for epoch in range(4)]
    np.testing.assert_allclose(cosine, [1, (1 + np.sqrt(0.5)) / 2, 0.5, (1 - np.sqrt(0.5)) / 2], atol=1e-6)
    cycle = [plan(schedule="one-cycle").rate_at(epoch, 10) for epoch in range(10)]
    np.testing.assert_allclose(cycle[:3], np.array([0.5, 1.5, 2.5]) / 3)
    np.testing.assert_allclose(cycle[3:], (1 + np.cos(np.pi * (np.arange(7) + 0.5) / 7)) / 2)


def test_a_plateau_is_ten_epochs_that_were_no_better() -> None:
    flat = plan(schedule="plateau")
    assert flat.rate_at(0, 50, []) == 1
    rising = [float(epoch) for epoch in range(12)]
    assert flat.rate_at(12, 50, rising) == 1
    assert flat.rate_at(21, 50, [*rising, *[11.0] * 9]) == 1
    assert flat.rate_at(22, 50, [*rising, *[11.0] * 10]) == pytest.approx(0.1)
    assert flat.rate_at(31, 50, [*rising, *[3.0] * 19]) == pytest.approx(0.1)
    assert flat.rate_at(32, 50, [*rising, *[3.0] * 20]) == pytest.approx(0.01)
    data = crowded(24)
    # What is not held out is not better than before either: the loss of a rate of next to nothing.
    still = QUICK | {"epochs": 13, "learning_rate": 1e-30, "held_out": 0.2}
    rates = cw.TraceRegularized(**still, schedule="plateau").fit(data.X, data.labels).history_["learning_rate"]
    np.testing.assert_allclose(rates.to_pylist(), [1e-30] * 11 + [1e-31] * 2)


def test_the_schedule_is_used() -> None:
    data = crowded(24)
    model = cw.TraceRegularized(**QUICK, schedule="step").fit(data.X, data.labels)
    np.testing.assert_allclose(model.history_["learning_rate"].to_pylist(), [0.05, 0.005, 0.0005, 0.00005])


def test_epochs_by_default() -> None:
    assert plan(batch_size=64).n_epochs(1000) == 200  # few steps an epoch: at most 200
    assert plan(batch_size=64).n_epochs(64 * 100) == 40
    assert plan(batch_size=64).n_epochs(10**6) == 10
    assert plan(epochs=3).n_epochs(10**6) == 3


def test_gradients_are_clipped(monkeypatch: pytest.MonkeyPatch) -> None:
    norms: list[float] = []

    class Watched(LazyAdam):
        def step(self, closure: Any = None) -> None:
            every = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
            norms.append(float(torch.stack([grad.norm() for grad in every]).norm()))
            super().step(closure)

    monkeypatch.setattr(training_loop, "LazyAdam", Watched)
    data = crowded(24)
    for precision in ("32-true", "bf16-mixed"):
        for clip, most in ((None, np.inf), (0.01, 0.0101)):
            norms.clear()
            cw.TraceRegularized(**QUICK | {"epochs": 1}, clip=clip, precision=precision).fit(data.X, data.labels)
            assert max(norms) < most
            assert clip is not None or max(norms) > 0.1


def test_workers_have_a_rate_of_their_own() -> None:
    data = crowded(24)
    still = cw.TraceRegularized(**QUICK, worker_learning_rate=1e-12).fit(data.X, data.labels)
    start = cw.TraceRegularized(**QUICK)._make_objective(Crowd(data.labels), None, None).confusion()  # type: ignore[arg-type]
    learnt = still.module_.confusion()
    np.testing.assert_allclose(learnt.detach(), start.detach(), atol=1e-5)  # type: ignore[union-attr]


# ---- faults -------------------------------------------------------------------------------------------------------


def test_a_fit_that_diverges_at_once_says_so() -> None:
    data = crowded(48)
    with pytest.raises(InputError, match=r"Training diverged.*smaller learning_rate \(it is 1e\+38\)"):
        cw.TraceRegularized(**QUICK | {"learning_rate": 1e38}).fit(data.X, data.labels)


class _Breaks(nn.Module):
    """Gives numbers for so many training steps, then none."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.linear, self.left = nn.Linear(5, 3), steps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return self.linear(x)  # type: ignore[no-any-return]
        self.left -= 1
        return self.linear(x) * (1.0 if self.left >= 0 else float("nan"))  # type: ignore[no-any-return]


@pytest.mark.parametrize("held_out", [0.0, 0.3])
def test_a_fit_that_diverges_later_keeps_what_was_good(held_out: float) -> None:
    data = crowded(32)
    steps = -(-round(32 * (1 - held_out)) // 16)
    model = cw.TraceRegularized(**QUICK | {"network": _Breaks(2 * steps), "epochs": 9}, held_out=held_out)
    with pytest.warns(Diverged, match=r"diverged in epoch 3.*weights of epoch 2 are kept"):
        model.fit(data.X, data.labels)
    assert model.n_epochs_ == 2
    assert np.isfinite(model.posterior_).all()


def test_an_interrupt_without_a_checkpoint_is_just_that(monkeypatch: pytest.MonkeyPatch) -> None:
    def stops(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(training_loop, "_epoch_scores", stops)
    data = crowded(24)
    with pytest.raises(KeyboardInterrupt) as stopped:
        cw.TraceRegularized(**QUICK).fit(data.X, data.labels)
    assert not stopped.value.args


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    data, other = crowded(32), crowded(32, skill=0.8, seed=4)
    cw.TraceRegularized(**QUICK, checkpoint=tmp_path / "run").fit(data.X, data.labels)
    for changes, labels, what in (
        ({"random_state": 1}, data.labels, "another random_state"),
        ({"strength": 0.5}, data.labels, "another strength"),
        ({}, other.labels, "another labels"),
    ):
        with pytest.raises(InputError, match=what):
            cw.TraceRegularized(**QUICK | changes, checkpoint=tmp_path / "run").fit(data.X, labels)
    longer = cw.TraceRegularized(**QUICK | {"epochs": 6}, checkpoint=tmp_path / "run").fit(data.X, data.labels)
    assert longer.n_epochs_ == 6


def test_a_broken_checkpoint_is_refused(tmp_path: Path) -> None:
    data = crowded(24)
    cw.TraceRegularized(**QUICK, checkpoint=tmp_path / "run").fit(data.X, data.labels)
    (tmp_path / "run" / "checkpoint.safetensors").write_bytes(b"\x00broken")
    with pytest.raises(InputError, match=r"cannot be used.*give another folder, or remove it"):
        cw.TraceRegularized(**QUICK, checkpoint=tmp_path / "run").fit(data.X, data.labels)


def test_a_checkpoint_holds_no_pickle(tmp_path: Path) -> None:
    data = crowded(24)
    cw.TraceRegularized(**QUICK, checkpoint=tmp_path / "run").fit(data.X, data.labels)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["checkpoint.safetensors"]


def test_a_network_that_does_not_fit_says_so() -> None:
    data = crowded(24)
    with pytest.raises(InputError, match=r"cannot take features of shape \(5,\)"):
        cw.TraceRegularized(**QUICK | {"network": nn.Linear(4, 3)}).fit(data.X, data.labels)
    with pytest.raises(InputError, match=r"gives \(2, 4\) for 2 tasks; it must return logits of shape \(2, 3\)"):
        cw.TraceRegularized(**QUICK | {"network": nn.Linear(5, 4)}).fit(data.X, data.labels)


def test_a_plan_has_every_shared_parameter() -> None:
    shared = {field.name for field in fields(TrainingPlan)} - {"name", "own"}
    assert shared <= set(cw.TraceRegularized().get_params())


# ---- where and how ------------------------------------------------------------------------------------------------


def test_the_default_device_of_torch_does_not_matter() -> None:
    data = crowded(24)
    expected = cw.TraceRegularized(**QUICK).fit(data.X, data.labels).posterior_
    with torch.device("meta"):  # where nothing can be computed
        model = cw.TraceRegularized(**QUICK).fit(data.X, data.labels)
        model.predict_proba(data.X, data.labels)
    np.testing.assert_array_equal(model.posterior_, expected)


class _Rows(Dataset[Any]):
    def __init__(self, X: Any) -> None:
        self.X = X

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, index: int) -> Any:
        return self.X[index], "what else a Dataset may hold"


def test_a_dataset_is_streamed_to_the_same_answer() -> None:
    data = crowded(40)
    X = data.X.astype(np.float32)
    held, streamed = (cw.TraceRegularized(**QUICK).fit(given, data.labels) for given in (X, _Rows(X)))
    np.testing.assert_allclose(streamed.posterior_, held.posterior_, atol=1e-5)


def test_half_precision_learns_as_well() -> None:
    data = crowded(60, skill=0.9)
    model = cw.TraceRegularized(**QUICK | {"epochs": 20}, precision="bf16-mixed").fit(data.X, data.labels)
    assert model.score(data.X, data.truth) == 1.0
    assert next(model.network_.parameters()).dtype == torch.float32


@pytest.mark.slow
def test_two_devices_are_one_with_twice_the_batch(tmp_path: Path) -> None:
    data = crowded(71, skill=0.9)  # 64 to learn from: no task is left over on either side
    settings = QUICK | {"precision": "64-true"}
    one = cw.TraceRegularized(**settings | {"batch_size": 32}).fit(data.X, data.labels)
    two = cw.TraceRegularized(**settings, devices=2, checkpoint=tmp_path / "run").fit(data.X, data.labels)
    np.testing.assert_allclose(two.posterior_, one.posterior_, atol=1e-6)
    np.testing.assert_allclose(two.confusion_, one.confusion_, atol=1e-6)
    for name in ("loss", "held_out"):
        np.testing.assert_allclose(two.history_[name].to_pylist(), one.history_[name].to_pylist(), rtol=1e-6)
    assert Checkpoint(tmp_path / "run", two._plan()).folder.exists()


def test_what_goes_wrong_in_another_process_is_said_as_in_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Launcher(Fabric):
        """Runs the errand here, and raises what torch makes of an error in another process."""

        def launch(self, function: Any) -> None:
            try:
                function(self)
            except InputError:
                message = f"\n\n-- Process 1 terminated with the following error:\n{traceback.format_exc()}"
                raise ProcessRaisedException(message, 1, 1234) from None

    data = crowded(40)
    settings = QUICK | {"checkpoint": tmp_path / "run"}
    cw.TraceRegularized(**settings).fit(data.X, data.labels)
    monkeypatch.setattr("crowdwise.learn.training_loop._fabric", lambda *_: Launcher(accelerator="cpu", devices=1))
    with pytest.raises(InputError, match=r"^The checkpoint in .* another random_state"):
        cw.TraceRegularized(**settings | {"random_state": 1}, devices=2).fit(data.X, data.labels)
