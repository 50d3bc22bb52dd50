"""What an iteration of a climb leaves behind, so that a fit that was stopped goes on from there with the same bits.

Only fits of labels on the disk keep it, beside the labels: their iterations take minutes. A fit that ends removes it.
Writing takes a tenth of the time at most: of quick iterations some are passed over, and the last one is written when an
error stops the fit. The name of the folder is made of the method, its parameters and all that the fit was told besides
the labels; a fit that differs in any of them starts anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import time
import zipfile
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from crowdwise.labels.atomic_output import replace_file
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels

__all__ = ["Checkpoint", "keep_checkpoints", "open_checkpoint"]

P = TypeVar("P")
SHARE = 0.1  # of the time of a fit that writing may take
_kept: ContextVar[_FitCheckpoints | None] = ContextVar("checkpoints", default=None)


@contextlib.contextmanager
def keep_checkpoints(labels: CrowdLabels, model: Any, known: PriorKnowledge) -> Iterator[None]:
    """Keep the climbs of a fit where the labels are on the disk, until the fit ends."""
    if labels.in_memory:
        yield
        return
    folder: Path = labels.folder / f"checkpoint-{_identify(model, known)}"  # type: ignore[attr-defined]
    folder.mkdir(exist_ok=True)
    kept = _FitCheckpoints(folder)
    token = _kept.set(kept)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError, InputError):  # what stopped the fit is the error to show
            if kept.current is not None:
                kept.current.write()
        raise
    finally:
        _kept.reset(token)
    shutil.rmtree(folder, ignore_errors=True)


def open_checkpoint() -> Checkpoint | None:
    """The checkpoint of the climb that begins now; None where none are kept."""
    kept = _kept.get()
    return None if kept is None else kept.begin_climb()


class Checkpoint:
    """The last finished iteration of one climb, in one file that is replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._unwritten: tuple[Any, list[float], list[float]] | None = None
        self._next_write = 0.0  # on the monotonic clock

    def save(self, parameters: Any, values: list[float], likelihoods: list[float]) -> None:
        """Keep the parameters of the next iteration and the values so far, on the disk if it is time for that."""
        self._unwritten = parameters, [*values], [*likelihoods]
        if time.monotonic() >= self._next_write:
            self.write()

    def write(self) -> None:
        """Write what was kept last, unless it is written."""
        if self._unwritten is None:
            return
        began = time.monotonic()
        parameters, values, likelihoods = self._unwritten
        arrays: dict[str, Any] = {"values": np.array(values), "likelihoods": np.array(likelihoods)}
        for name, leaf in _leaves(parameters, "p").items():
            # In the order of memory: sums over an array with other strides would differ in their last bits.
            axes = np.argsort([-abs(each) for each in leaf.strides], kind="stable")
            arrays[name], arrays[f"{name}-axes"] = np.ascontiguousarray(leaf.transpose(axes)), np.argsort(axes)
        with replace_file(self.path) as draft, draft.open("wb") as file:
            np.savez(file, **arrays)
        self._unwritten, ended = None, time.monotonic()
        self._next_write = ended + (ended - began) * (1 / SHARE - 1)

    def load(self, start: P) -> tuple[P, list[float], list[float]] | None:
        """Parameters of the next iteration, in the form of the start, and the values so far; None without any."""
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as held:
                arrays = {
                    name: held[name].transpose(held[f"{name}-axes"]) for name in _leaves(start, "p") if name in held
                }
                restored = _restore(start, "p", arrays)
                return restored, held["values"].tolist(), held["likelihoods"].tolist()
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise InputError(
                f"The checkpoint {str(self.path)!r} cannot be read: {error}. Delete it to start the fit anew."
            ) from error


class _FitCheckpoints:
    """The checkpoint of the climb that a fit is at, and how many climbs it has begun."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.begun = folder, 0
        self.current: Checkpoint | None = None

    def begin_climb(self) -> Checkpoint:
        self.begun += 1
        self.current = Checkpoint(self.folder / f"climb-{self.begun}.npz")
        return self.current


def _leaves(value: Any, name: str) -> dict[str, Any]:
    """The arrays of parameters, by their place: in dataclasses and tuples of arrays and numbers."""
    if value is None:
        return {}
    if isinstance(value, np.ndarray | float | int):
        return {name: np.asarray(value)}
    return {key: leaf for at, each in _members(value) for key, leaf in _leaves(each, f"{name}.{at}").items()}


def _members(value: Any) -> list[tuple[str, Any]]:
    if is_dataclass(value):
        return [(each.name, getattr(value, each.name)) for each in fields(value)]
    if isinstance(value, tuple):
        return [(str(at), each) for at, each in enumerate(value)]
    raise TypeError(f"parameters of type {type(value).__name__} cannot be kept")


def _restore(form: Any, name: str, arrays: dict[str, Any]) -> Any:
    if form is None:
        return None
    if isinstance(form, np.ndarray | float | int):
        found = arrays[name]
        if found.shape != np.shape(form):
            raise ValueError(f"{name} has shape {found.shape}, not {np.shape(form)}")
        return found if isinstance(form, np.ndarray) else type(form)(found)
    parts = {at: _restore(each, f"{name}.{at}", arrays) for at, each in _members(form)}
    make: Any = type(form)
    if is_dataclass(form):
        return make(**parts)
    return make(*parts.values()) if hasattr(form, "_fields") else tuple(parts.values())


def _identify(model: Any, known: PriorKnowledge) -> str:
    """A digest of the method, its parameters (all but the engine and the number of iterations) and what it was told."""
    digest = hashlib.sha256(model.slug.encode())
    told = {name: getattr(known, name) for name in known.__dataclass_fields__}
    given = {name: value for name, value in model.get_params(deep=False).items() if name not in ("engine", "max_iter")}
    for name, value in sorted({**told, **given}.items()):
        content = np.ascontiguousarray(value).tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
        digest.update(name.encode() + b"\0" + content)
    return digest.hexdigest()[:12]
