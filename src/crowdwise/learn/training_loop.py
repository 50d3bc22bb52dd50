"""The one training loop, on Lightning Fabric: devices, precision, schedules, clipping, selection, resuming."""

from __future__ import annotations

import json
import logging
import math
import os
import tempfile
import time
import warnings
from dataclasses import asdict, replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file
from torch import distributed, nn
from torch.multiprocessing.spawn import ProcessRaisedException
from torch.nn.parallel import DistributedDataParallel

from crowdwise.fitting.progress_bar import show_progress
from crowdwise.labels.errors import InputError
from crowdwise.learn.augmentation import augment_images
from crowdwise.learn.batches import NetworkOutput
from crowdwise.learn.checkpoints import Checkpoint
from crowdwise.learn.lazy_adam import LazyAdam
from crowdwise.learn.predictions import predict_log_probabilities
from crowdwise.learn.tensor_files import save_tensors
from crowdwise.learn.torch_settings import find_device
from crowdwise.learn.training_state import TrainingState, ValidationSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lightning.fabric import Fabric
    from torch import Tensor

    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier
    from crowdwise.learn.objective import TrainingObjective
    from crowdwise.learn.training_state import TrainingJob, TrainingPlan

__all__ = ["Diverged", "train"]

# Hints for those who write loops; whoever fits a model can do nothing with them.
logging.getLogger("lightning.fabric.utilities.rank_zero").setLevel(logging.WARNING)
BRIEF = "bf16-mixed"
FEW = 8  # processes that any CPU may be asked for
_NEW_NAME = "forward_sync_buffers"  # torch 2.13 renamed it
_SYNC = _NEW_NAME if _NEW_NAME in signature(DistributedDataParallel).parameters else "broadcast_buffers"


class Diverged(UserWarning):
    """The loss was no longer a finite number, and training ended early."""


class _Pair(nn.Module):
    """The network and the objective as one module, so that Fabric and DDP see every parameter."""

    def __init__(self, classifier: Classifier, objective: TrainingObjective) -> None:
        super().__init__()
        self.classifier, self.objective = classifier, objective
        self.tally: Tensor | None = None
        self.mixed = False
        self.augment: str | None = None

    def forward(self, batch: Any) -> Tensor:
        x = batch.x if self.augment is None else augment_images(batch.x, self.augment)
        seen = self.classifier.logits_and_representation(x)
        if not self.mixed:
            return self._loss(seen, batch)
        with torch.autocast(batch.x.device.type, enabled=False):  # as the classifier does, which is not asked here
            return self._loss(NetworkOutput(seen.logits.float(), seen.features.float()), batch)

    def _loss(self, seen: NetworkOutput, batch: Any) -> Tensor:
        if self.tally is not None:
            self.tally += self.objective.count_batch(seen, batch, self.tally.dtype)
        return self.objective.loss(seen, batch)


def train(job: TrainingJob, plan: TrainingPlan) -> TrainingState:
    """Minimise the objective; leaves the chosen epoch's weights in the classifier and the objective."""
    job.objective.n_epochs = plan.n_epochs(len(job.tasks))
    if plan.devices > 1:
        from lightning.fabric.strategies.ddp import DDPStrategy

        _check_devices(plan)
        # What an E-step leaves in buffers is the same everywhere; sending it around at every step would be waste.
        spread: dict[str, Any] = {_SYNC: False, "find_unused_parameters": True}
        strategy = DDPStrategy(start_method="spawn", **spread)
        with tempfile.TemporaryDirectory() as folder:
            errand = _SubprocessTraining(job, plan, Path(folder))
            try:
                _fabric(plan, strategy).launch(errand)
            except ProcessRaisedException as error:
                _, ours, message = str(error).strip().rpartition("InputError: ")
                raise InputError(message) if ours else error from error
            return errand.result()
    return _run(_fabric(plan), job, plan)


def _check_devices(plan: TrainingPlan) -> None:
    """Refuse more devices than there are, and on the CPU more processes than it has room for."""
    kind = find_device(plan.device).type
    most = torch.cuda.device_count() if kind == "cuda" else 1 if kind == "mps" else max(os.cpu_count() or 1, FEW)
    if plan.devices > most:
        raise InputError(f"devices is {plan.devices}; with device={plan.device!r} there may be {most} here.")


def _fabric(plan: TrainingPlan, strategy: Any = "auto") -> Fabric:
    from lightning.fabric import Fabric  # takes as long to import as torch, and whoever only predicts needs none of it

    precision: Any = "32-true" if plan.precision == BRIEF else plan.precision  # the classifier sees to that itself
    accelerator = {"cuda": "gpu"}.get(plan.device, plan.device)
    return Fabric(accelerator=accelerator, devices=plan.devices, precision=precision, strategy=strategy)


class _SubprocessTraining:
    """Training in a process of its own. A plain class: Fabric would take a dataclass apart on the way."""

    def __init__(self, job: TrainingJob, plan: TrainingPlan, folder: Path) -> None:
        self.job, self.plan, self.folder = job, plan, folder

    def __call__(self, fabric: Fabric) -> None:
        """Train, and leave the result in the folder: a pipe between processes would be too narrow for it."""
        pair = _Pair(self.job.classifier, self.job.objective)
        for tensor in (*pair.parameters(), *pair.buffers()):
            tensor.data = tensor.data.clone()  # as sent, all processes share one
        state = _run(fabric, self.job, self.plan)
        if fabric.is_global_zero:
            save_tensors(pair.state_dict(), self.folder / "weights.safetensors")
            (self.folder / "state.json").write_text(json.dumps(asdict(replace(state, best={}))), encoding="utf-8")
        # A process that ends while its threads still wait for others is aborted.
        distributed.barrier()
        distributed.destroy_process_group()

    def result(self) -> TrainingState:
        """What was left there, the weights in the classifier and the objective."""
        weights = load_file(self.folder / "weights.safetensors")
        _Pair(self.job.classifier, self.job.objective).load_state_dict(weights)
        return TrainingState(**json.loads((self.folder / "state.json").read_text(encoding="utf-8")))


def _run(fabric: Fabric, job: TrainingJob, plan: TrainingPlan) -> TrainingState:
    dtype = torch.float64 if plan.precision == "64-true" else torch.float32
    features = job.features.to(fabric.device, dtype)
    job = _move_job(job, fabric.device, dtype)
    crowd, tasks, n_epochs = job.crowd, job.tasks, job.objective.n_epochs
    pair = _pair_modules(job, plan, fabric.device, dtype)
    if (
        fabric.world_size == 1 and plan.clip is None and not pair.mixed
    ):  # what sums or scales gradients wants them dense
        pair.objective.allow_lazy_steps(len(tasks), plan.batch_size)
    steps = _GradientSteps(fabric, pair, _optimiser(pair, plan, fabric.device), plan)
    state = TrainingState()
    checkpoint = Checkpoint(plan.checkpoint, plan) if plan.checkpoint is not None else None
    if checkpoint is not None:
        state = checkpoint.resume(pair, steps.optimiser, state, fabric.device)

    def predict_all_tasks() -> Tensor:
        return predict_log_probabilities(
            pair.classifier, pair.objective, features, torch.arange(len(features), device=fabric.device)
        )

    try:
        with show_progress(plan.name, n_epochs, "epochs", "loss") as advance:
            for epoch in range(state.epoch, n_epochs):
                if plan.patience is not None and epoch - max(state.best_epoch, 0) >= plan.patience:
                    break
                started = time.perf_counter()
                # Chance depends on the seed, the epoch and the device alone: a resumed run meets the same.
                _seed_torch(((plan.random_state * 1_000_003 + epoch) * 1_009 + fabric.global_rank + 1) % 2**63)
                pair.objective.begin_epoch(epoch, predict_all_tasks)
                steps.scale_learning_rates(plan.rate_at(epoch, n_epochs, _scores_of_epochs(state)))
                if pair.tally is not None:
                    pair.tally.zero_()
                pair.train()
                order = _device_share(tasks[_permutation(len(tasks), plan.random_state, epoch, fabric.device)], fabric)
                order, size = pair.objective.arrange_batches(order, plan.batch_size)
                loss = steps.take_steps(crowd.batches(features, order, size))
                _combine_device_counts(pair, fabric)
                row = {"epoch": epoch + 1.0, "loss": loss, "learning_rate": steps.rate}
                row |= _share_scores(_epoch_scores(pair, job, features), fabric)
                row["seconds"] = time.perf_counter() - started
                score = row.get("accuracy", row.get("held_out", float(epoch)))
                if not (math.isfinite(loss) and math.isfinite(score) and _is_finite(pair)):
                    _say_diverged(state, plan)
                    break
                state.history.append(row)
                state.epoch = epoch + 1
                if score > state.best_score or plan.keep_epoch == "last":
                    state.best_score, state.best_epoch = score, epoch + 1
                    state.best = {name: value.detach().clone() for name, value in pair.state_dict().items()}
                advance(loss)
                if checkpoint is not None and fabric.is_global_zero:
                    checkpoint.write(pair, steps.optimiser, state)
    except (KeyboardInterrupt, SystemExit) as stopped:  # Ctrl-C, or a signal that the caller makes an exit of
        if checkpoint is not None:
            stopped.args = (_say_where_stopped(checkpoint, state.epoch, n_epochs),)
        raise
    pair.load_state_dict(state.best)
    pair.eval()
    pair.classifier.brief = False  # predictions are in single precision
    return state


def _say_where_stopped(checkpoint: Checkpoint, epoch: int, n_epochs: int) -> str:
    stopped = f"Training was stopped after {epoch} of {n_epochs} epochs."
    if checkpoint.epoch == 0:
        return f"{stopped} There is no checkpoint yet."
    held = f"The checkpoint in {str(checkpoint.folder)!r} holds epoch {checkpoint.epoch}"
    return f"{stopped} {held}: run the same again to go on."


class _GradientSteps:
    """Gradient descent, through Fabric where it is needed: in small steps its wrappers are felt."""

    def __init__(self, fabric: Fabric, pair: _Pair, optimiser: torch.optim.Optimizer, plan: TrainingPlan) -> None:
        self.fabric, self.clip, self.device = fabric, plan.clip, fabric.device
        self.optimiser: Any = optimiser
        self.model: Any = pair
        self.parameters = list(pair.parameters())
        self.plain = fabric.world_size == 1 and not pair.mixed
        if not self.plain:
            self.model, self.optimiser = fabric.setup(pair, optimiser)

    def scale_learning_rates(self, share: float) -> None:
        """Use this share of the first learning rates."""
        for group in self.optimiser.param_groups:
            group["lr"] = group["first_rate"] * share

    @property
    def rate(self) -> float:
        """The network's learning rate, as it is now."""
        return float(self.optimiser.param_groups[0]["lr"])

    def take_steps(self, stream: Iterator[Any]) -> float:
        """Take a step for each batch; gives the mean loss."""
        total, count = torch.zeros((), device=self.device), 0
        for batch in stream:
            for parameter in self.parameters:
                parameter.grad = None  # as zero_grad does, in a fraction of its time
            loss = self.model(batch)
            if self.plain:
                loss.backward()
            else:
                self.fabric.backward(loss)
            if self.clip is not None and self.plain:
                nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
            elif self.clip is not None:
                self.fabric.clip_gradients(self.model, self.optimiser, max_norm=self.clip, error_if_nonfinite=False)
            self.optimiser.step()
            total.add_(loss.detach(), alpha=len(batch))
            count += len(batch)
        mean = total / max(count, 1)
        if self.fabric.world_size > 1:  # every device has seen as many tasks
            distributed.all_reduce(mean)
        return float(mean) / self.fabric.world_size


def _pair_modules(job: TrainingJob, plan: TrainingPlan, device: torch.device, dtype: torch.dtype) -> _Pair:
    """Network and objective on the device; where the method has no matrices to score labels by, they are counted."""
    job.objective.crowd = job.crowd
    pair = _Pair(job.classifier, job.objective).to(device, dtype)
    pair.mixed = plan.precision == "16-mixed"
    pair.classifier.brief = plan.precision == BRIEF
    pair.augment = plan.augment
    shape = pair.objective.tally_shape() if job.held_crowd or (job.valid and job.valid.crowd) else None
    if shape is not None:
        pair.tally = torch.zeros(shape, dtype=torch.float32, device=device)
    return pair


def _move_job(job: TrainingJob, device: torch.device, dtype: torch.dtype) -> TrainingJob:
    """The job with its labels, and what the epoch is chosen by, on the device."""
    return replace(
        job,
        crowd=job.crowd.to(device),
        tasks=job.tasks.to(device),
        held_crowd=None if job.held_crowd is None else job.held_crowd.to(device),
        held_tasks=None if job.held_tasks is None else job.held_tasks.to(device),
        valid=None if job.valid is None else _move_validation_set(job.valid, device, dtype),
    )


def _move_validation_set(valid: ValidationSet, device: torch.device, dtype: torch.dtype) -> ValidationSet:
    crowd = None if valid.crowd is None else valid.crowd.to(device)
    return ValidationSet(valid.features.to(device, dtype), valid.truth.to(device), crowd)


def _combine_device_counts(pair: _Pair, fabric: Fabric) -> None:
    """After an epoch on several devices: counts of all of them, and one's running means of batches."""
    if fabric.world_size == 1:
        return
    if pair.tally is not None:
        distributed.all_reduce(pair.tally)
    for buffer in pair.buffers():
        sent = buffer.contiguous()
        distributed.broadcast(sent, src=0)
        buffer.copy_(sent)


def _share_scores(scores: dict[str, float], fabric: Fabric) -> dict[str, float]:
    """The first device's scores on every device, so that rounding cannot make them choose or stop differently."""
    if fabric.world_size == 1:
        return scores
    agreed: dict[str, float] = fabric.broadcast(scores)
    return agreed


def _is_finite(pair: _Pair) -> bool:
    # One answer for all parameters: a GPU that others use as well is slow to give each.
    return bool(torch.stack([parameter.isfinite().all() for parameter in pair.parameters()]).all())


def _say_diverged(state: TrainingState, plan: TrainingPlan) -> None:
    """Training cannot recover from a loss or weights that are not finite; what came before may stand."""
    remedy = f"Use a smaller learning_rate (it is {plan.learning_rate:g}), or clip=1."
    if not state.best:
        raise InputError(f"Training diverged: the loss of the first epoch is not a finite number. {remedy}")
    warnings.warn(
        f"{plan.name}: training diverged in epoch {state.epoch + 1}, where the loss was not a finite number; the "
        f"weights of epoch {state.best_epoch} are kept. {remedy}",
        Diverged,
        stacklevel=2,
    )


def _epoch_scores(pair: _Pair, job: TrainingJob, features: Features) -> dict[str, float]:
    """What the epoch is chosen by, and what else is measured after it."""
    return pair.objective.score_epoch(pair.classifier, features, job, pair.tally)


def _scores_of_epochs(state: TrainingState) -> list[float]:
    """What the epochs so far are compared by; where nothing is held out, the loss."""
    return [row.get("accuracy", row.get("held_out", -row["loss"])) for row in state.history]


def _optimiser(pair: _Pair, plan: TrainingPlan, device: torch.device) -> torch.optim.Optimizer:
    groups = [
        {"params": list(pair.classifier.parameters()), "lr": plan.learning_rate, "weight_decay": plan.weight_decay},
        {"params": list(pair.objective.parameters()), "lr": plan.worker_learning_rate, "weight_decay": 0.0},
    ]
    groups = [group | {"first_rate": group["lr"]} for group in groups if group["params"]]
    # A fused step unscales gradients itself, which Fabric's clipping in half precision does not allow.
    return LazyAdam(groups, fused=device.type in ("cpu", "cuda") and plan.precision != "16-mixed")


def _seed_torch(seed: int) -> None:
    """As `torch.manual_seed`, which without a GPU keeps seeds for one, each with its stack: half a millisecond."""
    if torch.accelerator.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def _permutation(number: int, seed: int, epoch: int, device: torch.device) -> Tensor:
    """The order of an epoch: from the seed and the epoch alone, so that a resumed run meets the same one."""
    generator = torch.Generator("cpu").manual_seed((seed * 1_000_003 + epoch) % 2**63)
    return torch.randperm(number, generator=generator, device="cpu").to(device)


def _device_share(order: Tensor, fabric: Fabric) -> Tensor:
    """One device's part of the tasks, of the same size on every device."""
    if fabric.world_size == 1:
        return order
    return order[fabric.global_rank : len(order) - len(order) % fabric.world_size : fabric.world_size]
