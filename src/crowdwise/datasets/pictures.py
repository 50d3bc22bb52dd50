"""Images with true classes that papers simulate crowds on: MNIST and CIFAR-10, from files on disk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.datasets.folders import VARIABLE, folders
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy.typing as npt

__all__ = ["Pictures", "load_pictures", "picture_sets"]

ATLAS = (50, 32, 100, 32, 3)  # rows of tiles, their height, tiles in a row, their width, channels
CIFAR10_FILES = {"train": 10, "test": 2}  # atlases of 5,000 images each


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images (n, channels, height, width), bytes, and their classes as positions in `classes`."""

    x_train: npt.NDArray[np.uint8]
    y_train: npt.NDArray[np.int64]
    x_test: npt.NDArray[np.uint8]
    y_test: npt.NDArray[np.int64]
    classes: tuple[str, ...]

    def keep_only(self, names: Sequence[str]) -> Pictures:
        """The images of some classes, numbered as the names are given."""
        strange = [name for name in names if name not in self.classes]
        if strange:
            raise InputError(f"There is no class {quote(strange[0])}; there are {', '.join(self.classes)}.")
        code = np.full(len(self.classes), -1)
        code[[self.classes.index(name) for name in names]] = np.arange(len(names))
        found: dict[str, Any] = {}
        for part in ("train", "test"):
            new = code[getattr(self, f"y_{part}")]
            found[f"x_{part}"], found[f"y_{part}"] = getattr(self, f"x_{part}")[new >= 0], new[new >= 0]
        return replace(self, **found, classes=tuple(names))


def picture_sets() -> list[str]:
    """Names of the sets that `load_pictures` knows."""
    return list(_READERS)


@cache
def load_pictures(name: str) -> Pictures:
    """Images by name: "mnist" (mnist.npz) or "cifar10" (JPEG atlases and labels.npz), in CROWDWISE_DATA/NAME.

    An atlas of CIFAR-10 is a picture of 50 rows of 100 images each; train_00.jpg to train_09.jpg and test_00.jpg,
    test_01.jpg hold them in the usual order.
    """
    if name not in _READERS:
        raise InputError(f"There are no images {quote(name)}; there are {', '.join(_READERS)}.")
    for folder in folders():
        if (folder / name).is_dir():
            try:
                return _READERS[name](folder / name)
            except (OSError, KeyError, ValueError) as error:
                raise InputError(f"The images in {quote(str(folder / name))} cannot be read: {error}.") from error
    searched = ", ".join(str(folder) for folder in folders())
    raise InputError(
        f"The images {quote(name)} are not on this machine. Put them into a folder {name} of the folder that the "
        f"environment variable {VARIABLE} names. Searched: {searched}."
    )


def _mnist(folder: Path) -> Pictures:
    with np.load(folder / "mnist.npz", allow_pickle=False) as file:
        parts = {key: file[key] for key in ("x_train", "y_train", "x_test", "y_test")}
    images = {key: parts[key][:, None] for key in ("x_train", "x_test")}
    classes = {key: parts[key].astype(np.int64) for key in ("y_train", "y_test")}
    return Pictures(**images, **classes, classes=tuple("0123456789"))


def _cifar10(folder: Path) -> Pictures:
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise InputError("Reading images needs Pillow: pip install 'crowdwise[learn]'.") from error
    found: dict[str, Any] = {}
    with np.load(folder / "labels.npz", allow_pickle=False) as file:
        names = tuple(str(each) for each in file["classes"])
        for part, number in CIFAR10_FILES.items():
            atlases = []
            for at in range(number):
                with Image.open(folder / f"{part}_{at:02}.jpg") as picture:
                    tiles = np.asarray(picture.convert("RGB")).reshape(ATLAS)
                atlases.append(tiles.transpose(0, 2, 4, 1, 3).reshape(-1, 3, 32, 32))
            found[f"x_{part}"] = np.concatenate(atlases)
            found[f"y_{part}"] = file[f"y_{part}"].astype(np.int64).ravel()
    return Pictures(**found, classes=names)


_READERS: dict[str, Callable[[Path], Pictures]] = {"mnist": _mnist, "cifar10": _cifar10}
