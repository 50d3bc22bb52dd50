"""Features of a data set's tasks, from files on disk, row by row as its labels name the tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from crowdwise.datasets.folders import find_file, folders
from crowdwise.datasets.pictures import load_pictures
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.datasets.loading import Dataset
    from crowdwise.labels.types import IntArray

__all__ = ["TaskFeatures", "load_features"]

FILE = "features.npz"
PICTURES = {"cifar10n": "cifar10"}  # data sets whose tasks are the training images of a set, by their numbers


@dataclass(frozen=True, eq=False)
class TaskFeatures:
    """Features of the tasks that a crowd has labelled, and of others whose classes are known.

    Attributes
    ----------
    x : (n_tasks, …)
        A row for each task of the labels, in their order: numbers, an image, or a text.
    valid, test
        Features, and classes as positions in the classes of the labels; None where the files have no such part.
    """

    x: Any
    valid: tuple[Any, IntArray] | None
    test: tuple[Any, IntArray] | None


def load_features(dataset: Dataset) -> TaskFeatures | None:
    """The features of a data set's tasks, from files beside its labels, or images; None if there are none.

    NAME/text.csv (task, text), gzipped or not, holds texts. NAME/features.npz holds X_train and, where there are such,
    X_valid, y_valid, X_test, y_test; id_train names the rows (without it, tasks are row numbers), and classes what the
    numbers of y_* stand for (without it, themselves).
    """
    if dataset.name in PICTURES:
        images = load_pictures(PICTURES[dataset.name])
        file = {"X_train": images.x_train, "X_test": images.x_test, "y_test": images.y_test}
        return _align_features(file, dataset)
    for folder in folders():
        texts = find_file(folder / dataset.name, "text")
        if texts:
            return _align_features(_texts(texts), dataset)
        path = folder / dataset.name / FILE
        if path.is_file():
            try:
                file = dict(np.load(path, allow_pickle=False))
            except (OSError, ValueError) as error:
                raise InputError(f"The features in {quote(str(path))} cannot be read: {error}.") from error
            return _align_features(file, dataset)
    return None


def _texts(path: Path) -> dict[str, Any]:
    options = csv.ConvertOptions(include_columns=["task", "text"], column_types={"task": pa.string()})
    parsing = csv.ParseOptions(newlines_in_values=True)
    try:
        table = csv.read_csv(path, parse_options=parsing, convert_options=options)
    except (OSError, KeyError, pa.ArrowInvalid) as error:
        raise InputError(f"The texts in {quote(str(path))} cannot be read: {error}.") from error
    return {"X_train": np.array(table["text"].to_pylist()), "id_train": np.array(table["task"].to_pylist())}


def _align_features(file: dict[str, Any], dataset: Dataset) -> TaskFeatures:
    needed = {"X_train"} | {f"y_{name}" for name in ("valid", "test") if f"X_{name}" in file}
    if needed - set(file):
        raise InputError(f"The features of {dataset.name} lack {listing(sorted(needed - set(file)))}.")
    rows = file.get("id_train", np.arange(len(file["X_train"])))
    at = positions(dataset.labels.tasks, pa.array(rows))
    if (at < 0).any():
        missing = dataset.labels.tasks.filter(pa.array(at < 0)).to_pylist()
        raise InputError(f"{dataset.name} has no features of {len(missing)} of its tasks: {listing(missing)}.")
    parts = [
        _read_valid_or_test_part(file, name, dataset) if f"X_{name}" in file else None for name in ("valid", "test")
    ]
    return TaskFeatures(file["X_train"][at], *parts)


def _read_valid_or_test_part(file: dict[str, Any], name: str, dataset: Dataset) -> tuple[Any, IntArray]:
    numbers = file[f"y_{name}"]
    said = file["classes"][numbers] if "classes" in file else numbers
    codes = positions(pa.array(said), dataset.labels.classes)
    if (codes < 0).any():
        strange = sorted(set(said[codes < 0].tolist()))
        raise InputError(f"{dataset.name} has {name} tasks of classes that its labels do not have: {listing(strange)}.")
    return file[f"X_{name}"], codes
