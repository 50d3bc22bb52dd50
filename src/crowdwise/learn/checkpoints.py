"""Checkpoints: everything that training needs to go on as if it had never stopped. One file of safetensors, no pickle.

The facts that are no tensors are JSON in its metadata. One file is replaced in one step, on every file system: a
process that is killed leaves the last checkpoint or the new one.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import safe_open

from crowdwise.labels.atomic_output import replace_file
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.old_names import rename_parameters
from crowdwise.learn.tensor_files import save_tensors

if TYPE_CHECKING:
    from torch import Tensor, nn

    from crowdwise.learn.training_state import TrainingPlan, TrainingState

__all__ = ["Checkpoint"]

ADAM = {"step", "exp_avg", "exp_avg_sq"}
NEEDED = {"epoch", "loss"}  # in every row of the history
LARGEST = 1e18  # of a weight: the square of one much larger is no number of 32 bits
FILE, FACTS = "checkpoint.safetensors", "facts"


class Checkpoint:
    """The last finished epoch, in a folder of its own; another run with the same settings goes on from it."""

    def __init__(self, folder: Path, plan: TrainingPlan) -> None:
        self.folder = Path(folder)
        self.epoch = 0  # what is in the folder; 0 for nothing yet
        # Where and how long are for the user to change between runs; what changes the numbers is not.
        free = ("checkpoint", "name", "own", "device", "devices", "epochs", "patience")
        self.plan = {name: value for name, value in asdict(plan).items() if name not in free}
        self.plan |= {"learner": plan.name} | plan.own

    def write(self, pair: nn.Module, optimiser: Any, state: TrainingState) -> None:
        """Replace the last checkpoint; it is there whole or not at all."""
        tensors = {f"model/{name}": value for name, value in pair.state_dict().items()}
        tensors |= {f"best/{name}": value for name, value in state.best.items()}
        for number, entry in optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser/{number}/{name}": torch.as_tensor(value) for name, value in entry.items()}
        facts = {
            "plan": self.plan,
            "epoch": state.epoch,
            "best_epoch": state.best_epoch,
            "best_score": state.best_score,
            "history": state.history,
        }
        before, now = state.history[0].keys(), state.history[-1].keys()
        if now != before:
            raise InputError(
                f"The checkpoint in {quote(str(self.folder))} has a history of {listing(before)}, where training "
                f"measures {listing(now)}. Delete it to start anew."
            )
        with replace_file(self.folder / FILE) as draft:
            save_tensors(tensors, draft, {FACTS: json.dumps(facts)})
        self.epoch = state.epoch

    def resume(self, pair: nn.Module, optimiser: Any, state: TrainingState, device: torch.device) -> TrainingState:
        """Go on from the checkpoint in the folder, if there is one; refuse one of other settings."""
        try:
            if not (self.folder / FILE).is_file():
                return state
            facts, tensors = _read(self.folder / FILE)
            self._check_plan(rename_parameters(facts["plan"], "the plan", warn=False))
            _check(facts, tensors, pair)
            pair.load_state_dict(_part(tensors, "model/"))
            entries: dict[int, dict[str, Tensor]] = {}
            for name, value in _part(tensors, "optimiser/").items():
                number, _, key = name.partition("/")
                entries.setdefault(int(number), {})[key] = value
            optimiser.load_state_dict({**optimiser.state_dict(), "state": entries})
            _match_memory_layout(optimiser)
            self.epoch = state.epoch = int(facts["epoch"])
            state.best_epoch = int(facts["best_epoch"])
            state.best_score, state.history = float(facts["best_score"]), list(facts["history"])
            state.best = {name: value.to(device) for name, value in _part(tensors, "best/").items()}
        except InputError:
            raise
        except Exception as error:  # whatever a damaged file can raise
            raise InputError(
                f"The checkpoint in {quote(str(self.folder))} cannot be used: {quote(str(error))}. It may belong to "
                "other data or another network; give another folder, or remove it."
            ) from error
        return state

    def _check_plan(self, plan: dict[str, Any]) -> None:
        if plan != json.loads(json.dumps(self.plan)):
            differ = [name for name, value in self.plan.items() if plan.get(name) != value]
            raise InputError(
                f"The checkpoint in {quote(str(self.folder))} was written with another {', '.join(differ)}. "
                "Give the same settings to go on, or another folder to start anew."
            )


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The facts and the tensors, from one look at the file."""
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
        if FACTS not in metadata:
            raise ValueError(f"{FILE} does not say which epoch it holds")
        facts: dict[str, Any] = json.loads(metadata[FACTS])
        return facts, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)


def _check(facts: dict[str, Any], tensors: dict[str, Tensor], pair: nn.Module) -> None:
    """Refuse what no epoch could have left, before anything is changed."""
    epoch, best, history = facts["epoch"], facts["best_epoch"], facts["history"]
    if not 1 <= best <= epoch == len(history):
        raise ValueError(f"epoch {epoch}, the best {best}, {len(history)} in the history")
    if any(row.keys() != history[0].keys() or not np.isfinite(list(row.values())).all() for row in history):
        raise ValueError("the history is no table of numbers")
    if [row.get("epoch") for row in history] != list(range(1, epoch + 1)):
        raise ValueError("the history has other epochs")
    if not history[0].keys() >= NEEDED or not facts["best_score"] < math.inf:
        raise ValueError("the history has no loss, or the best score is no number")
    own = {name: (value.shape, value.is_floating_point()) for name, value in pair.state_dict().items()}
    trained = {name for name, _ in pair.named_parameters()}
    for part in ("model/", "best/"):
        saved = _part(tensors, part)
        if {name: (value.shape, value.is_floating_point()) for name, value in saved.items()} != own:
            raise ValueError(f"{part} holds weights of other names, shapes or types")
        for name, value in saved.items():
            usable = value.abs() <= LARGEST if value.is_floating_point() else value == value  # noqa: PLR0124
            if name not in trained:
                usable |= value.isinf()  # a buffer may hold logarithms of 0
            if not usable.all():
                raise ValueError(f"{part} holds weights that are no numbers, or beyond {LARGEST:g}")


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _match_memory_layout(optimiser: Any) -> None:
    """Lay Adam's means out in memory as their parameters are, which its fused step takes for granted."""
    for parameter, entry in optimiser.state.items():
        if set(entry) != ADAM:
            raise ValueError(f"Adam's state is {sorted(entry)}, not {sorted(ADAM)}")
        for name, value in entry.items():
            if not value.isfinite().all() or (name != "exp_avg" and (value < 0).any()):
                raise ValueError(f"Adam's {name} holds values that it cannot have")
            # One for all, or one for each row where steps are lazy.
            if name == "step" and value.numel() != 1 and value.shape != parameter.shape[:1]:
                raise ValueError(f"Adam's step has shape {tuple(value.shape)}")
            if name != "step" and value.shape != parameter.shape:
                raise ValueError(f"{name} has shape {tuple(value.shape)}, its parameter {tuple(parameter.shape)}")
            if name != "step":
                entry[name] = torch.empty_like(parameter, dtype=value.dtype, device=value.device).copy_(value)
