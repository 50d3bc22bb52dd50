"""The one training loop, on Lightning Fabric: devices, precision, schedules, clipping, selection, resuming."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from lightning.fabric import Fabric
from torch import nn

from crowdwise.fitting.progress import progress
from crowdwise.learn.batches import batches
from crowdwise.learn.losses import SMALLEST
from crowdwise.learn.worker_models import soft_counts_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torch import Tensor

    from crowdwise.learn.batches import Batch, Crowd
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier
    from crowdwise.learn.objective import Objective

__all__ = ["Job", "Plan", "State", "forecasts", "train"]

FORWARD = 1024  # tasks at a time where no gradient is needed
STEPS_BY_DEFAULT = 4000
FEWEST_EPOCHS, MOST_EPOCHS = 10, 200


@dataclass(frozen=True)
class Plan:
    """How to train: the parameters that all learners share."""

    epochs: int | None
    batch_size: int
    learning_rate: float
    worker_learning_rate: float | None
    weight_decay: float
    schedule: str
    clip: float | None
    precision: str
    device: str
    devices: int
    patience: int | None
    seed: int
    checkpoint: Path | None = None
    name: str = ""

    def n_epochs(self, n_tasks: int) -> int:
        """Epochs asked for, or as many as make about `STEPS_BY_DEFAULT` steps."""
        if self.epochs is not None:
            return self.epochs
        steps = -(-n_tasks // self.batch_size)
        return min(max(STEPS_BY_DEFAULT // steps, FEWEST_EPOCHS), MOST_EPOCHS)

    def rate_at(self, epoch: int, n_epochs: int) -> float:
        """Share of the first learning rate that is used in an epoch; "step" divides by ten at each quarter (000)."""
        if self.schedule == "cosine":
            return 0.5 * (1 + float(torch.cos(torch.tensor(torch.pi * epoch / n_epochs))))
        if self.schedule == "step":
            return float(0.1 ** (4 * epoch // n_epochs))
        return 1.0


@dataclass
class Job:
    """What to train on: the classifier and the objective, features, labels, and what to choose the epoch by."""

    classifier: Classifier
    objective: Objective
    features: Features
    crowd: Crowd
    tasks: Tensor  # positions of the training tasks
    held_crowd: Crowd | None = None  # labels of tasks held out
    held_tasks: Tensor | None = None
    valid: tuple[Features, Tensor] | None = None  # features and true classes


@dataclass
class State:
    """Where training stands at the end of an epoch."""

    epoch: int = 0
    best_epoch: int = -1
    best_score: float = -float("inf")
    best: dict[str, Tensor] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)


class _Pair(nn.Module):
    """The network and the objective as one module, so that Fabric and DDP see every parameter."""

    def __init__(self, classifier: Classifier, objective: Objective) -> None:
        super().__init__()
        self.classifier, self.objective = classifier, objective
        self.tally: Tensor | None = None

    def forward(self, batch: Batch) -> Tensor:
        seen = self.classifier.see(batch.x)
        if self.tally is not None:
            f = self.objective.log_f(seen).detach().exp()
            rows = f[batch.owner].to(self.tally.dtype)
            self.tally += soft_counts_rows(rows, batch.worker, batch.label, len(self.tally))
        return self.objective.loss(seen, batch)


def train(job: Job, plan: Plan) -> State:
    """Minimise the objective; leaves the chosen epoch's weights in the classifier and the objective."""
    if plan.devices > 1:
        fabric = _fabric(plan, strategy="ddp_spawn")
        weights, state = fabric.launch(_run_and_return, job, plan)  # type: ignore[arg-type]
        pair = _Pair(job.classifier, job.objective)
        pair.load_state_dict(weights)
        return state  # type: ignore[no-any-return]
    return _run(_fabric(plan), job, plan)


def _fabric(plan: Plan, strategy: str = "auto") -> Fabric:
    precision: Any = plan.precision
    accelerator = {"cuda": "gpu"}.get(plan.device, plan.device)
    return Fabric(accelerator=accelerator, devices=plan.devices, precision=precision, strategy=strategy)


def _run_and_return(fabric: Fabric, job: Job, plan: Plan) -> tuple[dict[str, Tensor], State]:
    state = _run(fabric, job, plan)
    weights = _Pair(job.classifier, job.objective).state_dict()
    state.best = {}
    return {name: value.cpu() for name, value in weights.items()}, state


def _run(fabric: Fabric, job: Job, plan: Plan) -> State:
    dtype = torch.float64 if plan.precision == "64-true" else torch.float32
    features = job.features.to(fabric.device, dtype)
    crowd = job.crowd.to(fabric.device)
    tasks = job.tasks.to(fabric.device)
    job.objective.crowd = crowd
    pair = _Pair(job.classifier, job.objective).to(fabric.device, dtype)
    n_epochs = job.objective.n_epochs = plan.n_epochs(len(tasks))
    optimiser = _optimiser(pair, plan, fabric.device)
    model, optimiser = fabric.setup(pair, optimiser)
    if pair.objective.confusion() is None and job.held_crowd is not None:
        shape = (crowd.n_workers, crowd.n_classes, crowd.n_classes)
        pair.tally = torch.zeros(shape, dtype=torch.float32, device=fabric.device)
    state = State()
    checkpoint = None
    if plan.checkpoint is not None:
        from crowdwise.learn.checkpoints import Checkpoint

        checkpoint = Checkpoint(plan.checkpoint, plan)
        state = checkpoint.resumed(pair, optimiser, state, fabric.device)

    def forecast() -> Tensor:
        return forecasts(pair.classifier, pair.objective, features, torch.arange(len(features), device=fabric.device))

    with progress(plan.name, n_epochs) as advance:
        for epoch in range(state.epoch, n_epochs):
            started = time.perf_counter()
            pair.objective.begin_epoch(epoch, forecast)
            for group in optimiser.param_groups:
                group["lr"] = group["first_rate"] * plan.rate_at(epoch, n_epochs)
            if pair.tally is not None:
                pair.tally.zero_()
            model.train()
            order = _share(tasks[_permutation(len(tasks), plan.seed, epoch, fabric.device)], fabric)
            loss = _pass(fabric, model, optimiser, batches(features, crowd, order, plan.batch_size), plan.clip)
            row = {"epoch": epoch + 1.0, "loss": loss, "learning_rate": optimiser.param_groups[0]["lr"]}
            row |= _scores(pair, job, features)
            row["seconds"] = time.perf_counter() - started
            state.history.append(row)
            state.epoch = epoch + 1
            score = row.get("accuracy", row.get("held_out", float(epoch)))
            # A loss that is not a number makes every later epoch worthless; what came before may stand.
            if score > state.best_score and loss == loss:  # noqa: PLR0124
                state.best_score, state.best_epoch = score, epoch + 1
                state.best = {name: value.detach().clone() for name, value in pair.state_dict().items()}
            advance(loss)
            if checkpoint is not None and fabric.is_global_zero:
                checkpoint.write(pair, optimiser, state, fabric.device)
            if plan.patience is not None and epoch + 1 - state.best_epoch >= plan.patience:
                break
    if state.best:
        pair.load_state_dict(state.best)
    pair.eval()
    return state


def forecasts(classifier: Classifier, objective: Objective, features: Features, order: Tensor) -> Tensor:
    """The classifier's log-probabilities of the tasks `order` (n, K), without dropout or gradient."""
    was_training = classifier.training
    classifier.eval()
    with torch.no_grad():
        parts = [objective.log_f(classifier.see(x)) for x in features.batches(order, FORWARD)]
    classifier.train(was_training)
    return torch.cat(parts)


def _pass(fabric: Fabric, model: Any, optimiser: Any, stream: Iterator[Batch], clip: float | None) -> float:
    total, count = torch.zeros((), device=fabric.device), 0
    for batch in stream:
        optimiser.zero_grad()
        loss = model(batch)
        fabric.backward(loss)
        if clip is not None:
            fabric.clip_gradients(model, optimiser, max_norm=clip, error_if_nonfinite=False)
        optimiser.step()
        total += loss.detach().float() * len(batch)
        count += len(batch)
    return float(total) / max(count, 1)


def _scores(pair: _Pair, job: Job, features: Features) -> dict[str, float]:
    """Mean log-probability of the labels held out, and accuracy on a validation set, where there are such."""
    scores: dict[str, float] = {}
    device = job.objective.device
    if job.held_crowd is not None and job.held_tasks is not None:
        crowd = job.held_crowd.to(device)
        f = forecasts(pair.classifier, pair.objective, features, job.held_tasks.to(device)).exp()
        with torch.no_grad():
            confusion = pair.objective.confusion()
            if confusion is None and pair.tally is not None:
                mean = pair.tally.sum(dim=0) + 1 / crowd.n_classes
                rows = pair.tally + mean / mean.sum(dim=1, keepdim=True)
                confusion = rows / rows.sum(dim=2, keepdim=True)
            assert confusion is not None  # noqa: S101 (the tally is kept where a method has no matrices)
            said = confusion.to(f.dtype)[crowd.worker, :, crowd.label]
            chance = (f[crowd.task] * said).sum(dim=1).clamp(min=SMALLEST)
            scores["held_out"] = float(chance.log().mean())
    if job.valid is not None:
        valid, truth = job.valid[0].to(device, features.dtype), job.valid[1].to(device)
        guess = forecasts(pair.classifier, pair.objective, valid, torch.arange(len(valid), device=device)).argmax(dim=1)
        scores["accuracy"] = float((guess == truth).float().mean())
    return scores


def _optimiser(pair: _Pair, plan: Plan, device: torch.device) -> torch.optim.Optimizer:
    worker_rate = plan.learning_rate if plan.worker_learning_rate is None else plan.worker_learning_rate
    groups = [
        {"params": list(pair.classifier.parameters()), "lr": plan.learning_rate, "weight_decay": plan.weight_decay},
        {"params": list(pair.objective.parameters()), "lr": worker_rate, "weight_decay": 0.0},
    ]
    groups = [group | {"first_rate": group["lr"]} for group in groups if group["params"]]
    return torch.optim.Adam(groups, fused=device.type in ("cpu", "cuda"))


def _permutation(number: int, seed: int, epoch: int, device: torch.device) -> Tensor:
    """The order of an epoch: from the seed and the epoch alone, so that a resumed run meets the same one."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    return torch.randperm(number, generator=generator).to(device)


def _share(order: Tensor, fabric: Fabric) -> Tensor:
    """One device's part of the tasks, of the same size on every device."""
    if fabric.world_size == 1:
        return order
    return order[fabric.global_rank : len(order) - len(order) % fabric.world_size : fabric.world_size]
