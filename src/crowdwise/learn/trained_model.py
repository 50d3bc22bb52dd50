"""What every model with a trained network shares: the parameters of training, the plan made of them, the checks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.estimator_parameters import Estimator
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.table_output import native_table
from crowdwise.learn.torch_settings import device_name, find_device, find_precision, use_default_torch_settings
from crowdwise.learn.training_checks import check_training_parameters
from crowdwise.learn.training_loop import train
from crowdwise.learn.training_state import TrainingPlan

if TYPE_CHECKING:
    import numpy.typing as npt

    from crowdwise.fitting.method_facts import Family, Variant
    from crowdwise.labels.types import TableKind
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier
    from crowdwise.learn.training_state import TrainingJob, TrainingState

__all__ = ["FEWEST_HELD_OUT", "TrainedModel", "one_fit_at_a_time"]

FEWEST_HELD_OUT = 5  # answers: fewer cannot tell one epoch from another
FASTEST = 0.05  # Adam moves a logit by about the rate at each step: faster, a few batches would swap classes
one_fit_at_a_time = RLock()  # fits in other threads would draw from the same, one random state of torch
SHARED = tuple(name for name in TrainingPlan.__dataclass_fields__ if name not in ("name", "own"))


@estimator
class TrainedModel(Estimator):
    """Base of all models with a network that the training loop trains, whatever the answers are.

    Parameters
    ----------
    network
        None for what suits the features (an MLP for rows, a CNN for images); "linear", "mlp", "cnn", "cnn-pooled",
        "resnet-9", "resnet-18", "resnet-50", "vgg-16"; or a torch module that returns logits, of which a copy is
        trained.
    epochs
        Passes over the tasks, at least 1; None for about 4,000 steps, between 10 and 200 epochs.
    batch_size
        Tasks in a step, at least 1.
    learning_rate, worker_learning_rate
        Adam's, for the network and for the workers' parameters, above 0. None: ten times the network's, as Kim et al.
        2022 have it, but above 0.05 only if the network's is; matrices that lag behind leave the network to fit the
        workers' mistakes. Just the network's where what is learnt is no matrix of each worker (the method says so).
    weight_decay
        Adam's L2 penalty on the network, at least 0.
    schedule
        "constant", "cosine" (to zero), "step" (a tenth at each quarter of the epochs), "drop" (a tenth in the last
        quarter), "one-cycle" (up for three tenths of the epochs, then down to zero) or "plateau" (a tenth after each
        ten epochs that were no better by what the epoch is chosen by or, where nothing is held out, by the loss).
    clip
        Largest norm of a gradient, above 0; None for no clipping.
    held_out
        Share of the tasks whose labels choose the best epoch instead of being learnt from, in [0, 0.5]. With 0, or with
        very few labels, the last epoch is taken. Not used when `fit` is given a validation set.
    keep_epoch
        "best", or "last", whatever labels held out or a validation set say: what a network ends as that learns the
        workers' mistakes by heart.
    patience
        Stop after so many epochs without improvement, at least 1; None never stops early.
    precision
        Fabric's: "32-true", "64-true", "16-mixed", "bf16-mixed"; "auto" is the last on a GPU of Nvidia's that has it,
        and the first elsewhere. In half precision is the network alone, never what is made of labels.
    device, devices
        "auto", "cpu", "cuda" or "mps", and how many: above 1, training is spread by DDP, `batch_size` tasks on each
        at a time. That starts processes, so a script needs `if __name__ == "__main__":` around its own work.
    checkpoint
        Folder that keeps the last finished epoch. A fit with the same settings goes on from what it finds there.
    random_state
        Same number, same answer.
    augment
        How images are changed at random whenever they are met in training: "flip" (mirrored or not), "flip-shift" (and
        moved by up to an eighth), "flip-rotate" (and turned by up to 45°); None for as they are.

    Attributes
    ----------
    best_epoch_ : int
        The epoch whose weights were kept, from 1.
    shape_ : tuple
        Shape of a task's features.
    columns_ : tuple
        Their names, where they came with some: features with other names are then refused.
    device_ : str
        What it was trained on: "cpu", or the name of the GPU.
    """

    slug: ClassVar[str]
    family: ClassVar[Family]
    path_parameters: ClassVar[dict[str, tuple[str, ...]]] = {"checkpoint": ()}
    models_workers: ClassVar[bool] = True
    alternates: ClassVar[bool] = False
    is_default: ClassVar[bool] = False  # what the command takes where no method is named
    variants: ClassVar[tuple[Variant, ...]] = ()
    held_out_measure: ClassVar[str] = "mean log-probability; 0 is perfect"  # what `held_out` of the history is
    # Rate of the workers' parameters over the network's: appendix D of Kim et al. 2022.
    workers_faster: ClassVar[float] = 10.0

    network: Any = None
    epochs: int | None = None
    batch_size: int = 64
    learning_rate: float = 1e-3
    worker_learning_rate: float | None = None
    weight_decay: float = 0.0
    schedule: str = "constant"
    clip: float | None = None
    held_out: float = 0.1
    keep_epoch: str = "best"
    patience: int | None = None
    precision: str = "32-true"
    device: str = "auto"
    devices: int = 1
    checkpoint: str | Path | None = None
    random_state: int = 0
    augment: str | None = None

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder (JSON, Parquet, npz and safetensors; no pickle).

        `crowdwise.load` reads it, on any machine and device; where the network is a module of yours, it wants one like
        it: `crowdwise.load(folder, network=module)`.
        """
        with use_default_torch_settings():
            self._write(folder)

    def _write(self, folder: str | Path) -> None:
        """Save the model, if it is fitted."""
        raise NotImplementedError

    @classmethod
    def default_worker_rate(cls, learning_rate: float) -> float:
        """Rate of the workers' parameters where `worker_learning_rate` is None.

        Parameters
        ----------
        learning_rate
            That of the network.
        """
        return max(min(cls.workers_faster * learning_rate, FASTEST), learning_rate)

    def _check(self) -> None:
        """Refuse parameters of the method's own."""

    @property
    def _n_outputs(self) -> int:
        """How many numbers the network gives for a task."""
        raise NotImplementedError

    # ---- training ---------------------------------------------------------------------------------------

    def _train_network(self, job: TrainingJob, own: dict[str, str]) -> TrainingState:
        """Train what the job holds; a checkpoint must agree with `own` beside the parameters."""
        if not any(each.requires_grad for each in (*job.classifier.parameters(), *job.objective.parameters())):
            raise InputError("The network has no parameters to learn, or all of them are frozen (requires_grad).")
        own = self._own_parameters() | own
        if self.checkpoint is not None:
            own = own | {"features": job.features.digest()}
        return train(job, replace(self._plan(), own=own))

    def _keep_network(
        self, features: Features, classifier: Classifier, state: TrainingState, table_kind: TableKind
    ) -> None:
        """Keep the trained network and what is said of its training."""
        self.network_ = classifier.to("cpu", torch.float32).eval()
        self.shape_, self.columns_ = features.shape, features.columns
        self.device_ = device_name(self.device)
        self.best_epoch_, self.n_epochs_ = state.best_epoch, state.epoch
        history = {name: np.array([row[name] for row in state.history]) for name in state.history[0]}
        history["epoch"] = history["epoch"].astype(np.int64)
        self.history_ = native_table(history, table_kind)

    def _refuse_overflow(self, *found: npt.ArrayLike) -> None:
        """Refuse what weights that are finite, and far too large, make of features and labels."""
        if not all(np.isfinite(np.asarray(each)).all() for each in found):
            raise InputError(
                f"{self.slug}: training ended with weights so large that what follows from them is no number. Use a "
                f"smaller learning_rate (it is {self.learning_rate:g}), or clip=1."
            )

    def _own_parameters(self) -> dict[str, str]:
        """The parameters that are the method's own, as a checkpoint knows them."""
        given = self.get_params(deep=False)
        return {name: repr(value) for name, value in given.items() if name not in SHARED}

    def _cuda_devices(self) -> list[int]:
        """CUDA devices whose random state is to be as it was after fitting."""
        return [torch.cuda.current_device()] if find_device(self.device).type == "cuda" else []

    def _plan(self) -> TrainingPlan:
        shared = {name: getattr(self, name) for name in SHARED if name != "checkpoint"}
        if self.worker_learning_rate is None:
            shared["worker_learning_rate"] = self.default_worker_rate(self.learning_rate)
        shared["precision"] = find_precision(self.precision, self.device)
        checkpoint = None if self.checkpoint is None else Path(self.checkpoint)
        shared = {name: value.item() if isinstance(value, np.generic) else value for name, value in shared.items()}
        return TrainingPlan(**shared, checkpoint=checkpoint, name=self.slug)

    def _check_parameters(self) -> None:
        check_training_parameters(self)
        self._check()

    def _check_shape(self, features: Features) -> None:
        if features.shape != self.shape_:
            raise InputError(f"The model was trained on features of shape {self.shape_}, not {features.shape}.")
        if self.columns_ and features.columns and features.columns != self.columns_:
            at = next(i for i, (own, new) in enumerate(zip(self.columns_, features.columns, strict=True)) if own != new)
            raise InputError(
                f"Column {at + 1} of the features is {quote(features.columns[at])}; in training it was "
                f"{quote(self.columns_[at])}. Give the same columns in the same order."
            )
