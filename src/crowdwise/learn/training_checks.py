"""Checking the parameters that all learners have, once, before training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from crowdwise.fitting.parameter_checks import check_choice, check_count, check_number, check_optional_count
from crowdwise.labels.errors import InputError, quote
from crowdwise.learn.augmentation import AUGMENTATIONS
from crowdwise.learn.torch_settings import find_device

if TYPE_CHECKING:
    from crowdwise.learn.trained_model import TrainedModel

__all__ = ["check_training_parameters"]

LARGEST = 1e38  # of a parameter: beyond this, 32 bits hold no number
SCHEDULES = ("constant", "cosine", "step", "drop", "one-cycle", "plateau")
KEPT = ("best", "last")
PRECISIONS = ("auto", "32-true", "64-true", "16-mixed", "bf16-mixed")  # no "bf16-true": it loses Adam's small steps
DEVICES = ("auto", "cpu", "cuda", "mps")


def check_training_parameters(learner: TrainedModel) -> None:
    """Refuse parameters that are out of range, of another type, or ask for a device that is not there."""
    check_optional_count("epochs", learner.epochs)
    check_count("batch_size", learner.batch_size, high=2**31 - 1)
    check_number("learning_rate", learner.learning_rate, low=0, above=True)
    if learner.worker_learning_rate is not None:
        check_number("worker_learning_rate", learner.worker_learning_rate, low=0, above=True)
    check_number("weight_decay", learner.weight_decay, low=0)
    check_choice("schedule", learner.schedule, SCHEDULES)
    if learner.augment is not None:
        check_choice("augment", learner.augment, AUGMENTATIONS)
    check_choice("keep_epoch", learner.keep_epoch, KEPT)
    if learner.clip is not None:
        check_number("clip", learner.clip, low=0, above=True)
    check_number("held_out", learner.held_out, low=0, high=0.5)
    if learner.patience is not None:
        check_count("patience", learner.patience)
    check_choice("precision", learner.precision, PRECISIONS)
    check_choice("device", learner.device, DEVICES)
    if learner.device not in ("auto", find_device(learner.device).type):
        raise InputError(f"device is {learner.device!r}, but torch finds no such device here. Use device='auto'.")
    check_count("devices", learner.devices, high=2**31 - 1)
    check_count("random_state", learner.random_state, low=0, high=2**63 - 1)
    for name, value in learner.get_params(deep=False).items():
        if isinstance(value, float) and abs(value) > LARGEST:
            raise InputError(f"{name} is {value:g}; learners compute with 32 bits: it must be at most {LARGEST:g}.")
    path = learner.checkpoint
    if path is not None and not (isinstance(path, str | Path) and str(path) not in ("", ".") and "\0" not in str(path)):
        raise InputError(f"checkpoint is {quote(path)}; it must be the name of a folder.")
