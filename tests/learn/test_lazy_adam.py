"""Lazy Adam: torch's Adam with each row a parameter of its own, and sparse steps of trace regularisation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import crowdwise as cw
from crowdwise.learn import trace
from crowdwise.learn.batches import Crowd, NetworkOutput
from crowdwise.learn.features import make_features
from crowdwise.learn.lazy_adam import LazyAdam, take_rows
from crowdwise.learn.trace import TraceObjective
from crowdwise.simulate import simulate

if TYPE_CHECKING:
    from pathlib import Path

ROWS, SHAPE = 7, (3, 2)


def curved(values: torch.Tensor, at: int) -> torch.Tensor:
    """A loss whose gradients differ from step to step and with the values."""
    return ((values - at * 0.1) ** 2 * (1 + at % 3)).sum() + values.sin().sum()


def run_steps(picks: list[list[int]], dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    """A table after lazy steps, and after steps of torch's Adam with a parameter for each row."""
    start = torch.randn(ROWS, *SHAPE, generator=torch.Generator().manual_seed(0), dtype=dtype)
    table = torch.nn.Parameter(start.clone())
    rows = [torch.nn.Parameter(row.clone()) for row in start]
    lazy, plain = LazyAdam([table], lr=0.05), torch.optim.Adam(rows, lr=0.05)
    for at, picked in enumerate(picks):
        table.grad = None
        curved(take_rows(table, torch.tensor(picked)), at).backward()
        assert table.grad is not None
        assert table.grad.is_sparse
        lazy.step()
        plain.zero_grad()
        sum((curved(rows[row], at) for row in picked), torch.zeros((), dtype=dtype)).backward()
        plain.step()  # passes over rows without a gradient
    return table.detach(), torch.stack([row.detach() for row in rows])


def test_lazy_adam_is_adam_with_a_parameter_for_each_row() -> None:
    rng = np.random.default_rng(0)
    picks = [sorted(rng.choice(ROWS - 1, size=rng.integers(1, 5), replace=False).tolist()) for _ in range(40)]
    lazy, each = run_steps(picks)
    torch.testing.assert_close(lazy, each, rtol=1e-12, atol=1e-14)


def test_where_every_step_names_every_row_it_is_dense_adam() -> None:
    lazy, _ = run_steps([list(range(ROWS))] * 25)
    start = torch.randn(ROWS, *SHAPE, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    dense = torch.nn.Parameter(start)
    optimiser = torch.optim.Adam([dense], lr=0.05)
    for at in range(25):
        optimiser.zero_grad()
        curved(dense, at).backward()
        optimiser.step()
    torch.testing.assert_close(lazy, dense.detach(), rtol=1e-12, atol=1e-14)


def test_steps_go_on_from_saved_ones_whether_they_were_lazy_or_dense() -> None:
    table = torch.nn.Parameter(torch.ones(ROWS, *SHAPE))
    first, second = LazyAdam([table], lr=0.1), LazyAdam([table], lr=0.1)
    for _ in range(3):
        table.grad = None
        take_rows(table, torch.tensor([1, 4])).sum().backward()
        first.step()
    assert first.state[table]["step"].tolist() == [0, 3, 0, 0, 3, 0, 0]
    second.load_state_dict(first.state_dict())
    table.grad = torch.ones_like(table)
    second.step()
    assert float(second.state[table]["step"]) == 4
    third = LazyAdam([table], lr=0.1)
    third.load_state_dict(second.state_dict())
    table.grad = None
    take_rows(table, torch.tensor([2])).sum().backward()
    third.step()
    assert third.state[table]["step"].tolist() == [4, 4, 5, 4, 4, 4, 4]


def objective(dtype: torch.dtype = torch.float64, **settings: Any) -> tuple[TraceObjective, torch.Tensor, Any]:
    crowd = simulate("one-coin", n_tasks=40, n_workers=20, labels_per_task=2, n_classes=3, random_state=0)
    made = TraceObjective(Crowd(crowd.labels), 0.3, **{"log": False} | settings).to(dtype)
    made.workers.rho.data += torch.randn(made.workers.rho.shape, generator=torch.Generator().manual_seed(1))
    logits = torch.randn(40, 3, generator=torch.Generator().manual_seed(2), dtype=dtype)
    return made, logits, make_features(np.zeros((40, 1), np.float32))


@pytest.mark.parametrize("log", [False, True])
def test_the_mean_over_batches_is_the_loss_over_all_workers(log: bool) -> None:
    """The penalty of a batch's workers is an unbiased estimate: over an epoch's batches, value and gradient agree."""
    made, logits, features = objective(log=log)
    every = torch.arange(40)
    rho = made.workers.rho

    def epoch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
        rho.grad = None
        parts = list(made.crowd.batches(features, every, size))
        losses = [made.loss(NetworkOutput(logits[part.task], logits[part.task]), part) for part in parts]
        mean = torch.stack(losses).mean()
        mean.backward()
        assert rho.grad is not None
        return mean.detach(), rho.grad.to_dense()

    assert len(made.crowd.worker.unique()) == made.crowd.n_workers
    value, gradient = epoch(40)
    made.allow_lazy_steps(40, 40)
    assert made.weight is None  # a batch of all tasks has more labels than the crowd has workers
    made.allow_lazy_steps(40, 4)  # 8 labels, 20 workers
    assert made.weight is not None
    lazy_value, lazy_gradient = epoch(4)
    torch.testing.assert_close(lazy_value, value, rtol=1e-12, atol=0)
    torch.testing.assert_close(lazy_gradient, gradient, rtol=1e-10, atol=1e-15)


@pytest.mark.filterwarnings("ignore::crowdwise.learn.identifiability.NotIdentifiable")
def test_a_large_crowd_learns_as_with_dense_steps_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    crowd = simulate("one-coin", n_tasks=600, n_workers=300, labels_per_task=3, n_classes=3, random_state=0)
    X = rng.normal(size=(600, 5)).astype(np.float32)
    X[np.arange(600), crowd.truth] += 6
    plan: dict[str, Any] = {"network": "linear", "batch_size": 32, "device": "cpu", "learning_rate": 0.02}
    whole = cw.TraceRegularized(**plan, epochs=6).fit(X, crowd.labels)
    cw.TraceRegularized(**plan, epochs=3, checkpoint=tmp_path / "run").fit(X, crowd.labels)
    resumed = cw.TraceRegularized(**plan, epochs=6, checkpoint=tmp_path / "run").fit(X, crowd.labels)
    assert whole.history_["loss"].to_pylist() == resumed.history_["loss"].to_pylist()
    monkeypatch.setattr(trace, "LARGE_CROWD", float("inf"))
    dense = cw.TraceRegularized(**plan, epochs=6).fit(X, crowd.labels)
    assert whole.history_["loss"].to_pylist() != dense.history_["loss"].to_pylist()
    assert whole.score(X, crowd.truth) == pytest.approx(dense.score(X, crowd.truth), abs=0.02)
