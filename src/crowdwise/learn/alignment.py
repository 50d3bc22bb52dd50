"""Which row of the features is which task, and which class a true label is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch

from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.read import read_labels
from crowdwise.labels.sklearn_rows import LabelRows
from crowdwise.labels.vocabulary import as_text, as_vocabulary, positions

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.labels.truth import Truth
    from crowdwise.labels.types import IntArray
    from crowdwise.learn.features import Features

__all__ = ["align_to_rows", "find_known_rows", "find_rows", "labels_of_rows", "true_classes", "truth_of_rows"]


def align_to_rows(labels: CrowdLabels, features: Features, tasks: Any = None) -> CrowdLabels:
    """The labels with task t being row t of the features; rows without labels stay.

    Parameters
    ----------
    tasks
        Names of the rows; None for those that the features came with or, if they came with none, row numbers.
    """
    names, row = find_known_rows(labels.tasks, features, tasks)
    return CrowdLabels.from_codes(
        row[labels.task],
        labels.worker,
        labels.label,
        tasks=names,
        workers=labels.workers,
        classes=labels.classes,
        on_duplicate="all",
        kind=labels.kind,
    )


def labels_of_rows(given: Any, features: Features, tasks: Any = None, *, new: bool = False) -> CrowdLabels:
    """Labels of any kind that a learner takes, with task t being row t of the features.

    Parameters
    ----------
    tasks
        As for `align_to_rows`; not looked at where the labels are rows already.
    new
        Whether a model knows the classes, so that a few labels of new tasks are not asked whether they are values.
    """
    if not isinstance(given, LabelRows):
        return align_to_rows(read_labels(given, kind="labels" if new else None), features, tasks)
    if len(given) != len(features):
        raise InputError(f"There are {len(given):,} rows of labels for {len(features):,} rows of features.")
    return given.labels


def find_known_rows(
    wanted: pa.Array, features: Features, tasks: Any = None, *, things: str = "tasks", said: str = "labels"
) -> tuple[pa.Array, IntArray]:
    """Names of all rows of the features, and the row of each name that is wanted; a name without a row is refused."""
    names, row = find_rows(wanted, features, tasks)
    strangers = np.flatnonzero(row < 0)
    if strangers.size:
        few = [wanted[int(t)].as_py() for t in strangers[:5]]
        raise InputError(
            f"{strangers.size:,} of {len(wanted):,} {things} have {said} but no features: {listing(few)}. The rows "
            f"of the features are {listing(names[:3].to_pylist())}, …: use the same names in both, or keep only the "
            f"{said} of {things} that have features."
        )
    return names, row


def find_rows(wanted: pa.Array, features: Features, tasks: Any = None) -> tuple[pa.Array, IntArray]:
    """Names of all rows of the features, and the row of each name that is wanted, -1 for a stranger."""
    n_rows = len(features)
    if tasks is None and not features.names:
        return pa.array(np.arange(n_rows)), _row_numbers(wanted, n_rows)
    every = features.names if tasks is None else (as_vocabulary(_check_row_names(tasks), "task"),)
    if len(every[0]) != n_rows:
        raise InputError(f"tasks names {len(every[0])} rows, but the features have {n_rows}.")
    found = [positions(as_text(wanted), as_text(names)) for names in every]
    best = int(np.argmax([(row >= 0).sum() for row in found]))  # the first of those that know most tasks
    return every[best], found[best]


def truth_of_rows(truth: Truth, features: Features) -> pa.Array:
    """The true label of every row of the features; a row without one is an error, a truth without a row is not used."""
    names, row = find_rows(truth.tasks, features)
    place = np.full(len(features), -1)
    place[row[row >= 0]] = np.flatnonzero(row >= 0)
    unknown = np.flatnonzero(place < 0)
    if unknown.size:
        few = [names[int(at)].as_py() for at in unknown[:5]]
        raise InputError(
            f"{unknown.size:,} of {len(features):,} rows of the features have no truth: {listing(few)}. Give every row "
            "one."
        )
    return truth.labels.take(pa.array(place))


def true_classes(truth: Any, classes: pa.Array, n_rows: int) -> Tensor:
    """Positions among `classes` of true labels given by name, one for each row."""
    values = truth if isinstance(truth, pa.Array) else np.asarray(truth)
    if getattr(values, "ndim", 1) != 1:
        raise InputError(
            f"True labels have shape {values.shape}; give one for each row of the features, in their order "
            "(of a table, its column)."
        )
    given = values if isinstance(values, pa.Array) else pa.array(values)
    if len(given) != n_rows:
        raise InputError(f"There are {len(given)} true labels for {n_rows} rows of features.")
    found = positions(as_text(given), as_text(classes))
    if (found < 0).any():
        few = [given[int(row)].as_py() for row in np.flatnonzero(found < 0)[:5]]
        raise InputError(
            f"True labels hold classes that no worker used: {listing(few)}. There are {listing(classes.to_pylist())}."
        )
    return torch.as_tensor(found.astype(np.int64))


def _check_row_names(tasks: Any) -> Any:
    """Names of rows as given, where these have an order, and one for each row."""
    if isinstance(tasks, torch.Tensor):
        tasks = tasks.numpy(force=True)
    if (
        not isinstance(tasks, Iterable)
        or isinstance(tasks, str | bytes | Set | Mapping)
        or getattr(tasks, "ndim", 1) != 1
    ):
        raise InputError(f"tasks is {quote(tasks)}; it must be a list of names in the order of the rows.")
    return tasks


def _row_numbers(wanted: pa.Array, n_rows: int) -> Any:
    """Tasks named by row number, as numbers or as text."""
    names = wanted
    if not pa.types.is_integer(names.type):
        try:
            names = as_text(names).cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise InputError(
                f"The labels name tasks ({listing(wanted[:3].to_pylist())}, …), but the rows of the features have "
                "no names. Give them in tasks=, one for each row; in a file, as a column task or, beside X in an .npz, "
                "an array task."
            ) from error
    row = names.to_numpy(zero_copy_only=False).astype(np.int64)
    outside = np.flatnonzero((row < 0) | (row >= n_rows))
    if outside.size:
        raise InputError(
            f"Task {wanted[int(outside[0])].as_py()} is no row of the features, which are numbered 0 to "
            f"{n_rows - 1}. If tasks have names of their own, give those of the rows in tasks=."
        )
    return row
