"""Known truths: read like labels, and lined up with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from crowdwise.labels.column_checks import refuse_header_row
from crowdwise.labels.columns import Columns, choose_truth_columns
from crowdwise.labels.encode import encode
from crowdwise.labels.errors import SHOWN, InputError, listing, quote
from crowdwise.labels.read import open_source
from crowdwise.labels.similar_names import warn_of_missed_tasks
from crowdwise.labels.vocabulary import as_text, parse_integers, positions, union

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.source_location import Place
    from crowdwise.labels.types import IntArray

__all__ = ["Truth", "add_classes_of_truth", "read_truth", "truth_codes"]


class Truth(NamedTuple):
    """Task names, each once, and their true labels."""

    tasks: pa.Array
    labels: pa.Array


def read_truth(source: Any, *, task: str | None = None, label: str | None = None) -> Truth:
    """Read known truths from whatever they are held in.

    Parameters
    ----------
    source
        A mapping from task to label, or a path or table as for `read_labels`, with a column for the task and one
        for the label.
    task, label
        Column names, where they are not the usual ones.

    Examples
    --------
    >>> read_truth({"t1": "cat", "t2": "dog"}).labels.to_pylist()
    ['cat', 'dog']
    """
    if isinstance(source, Truth):
        return source
    if isinstance(source, Mapping) and not {"task", "label"} <= set(source):
        source = {"task": list(source.keys()), "label": list(source.values())}
    if hasattr(source, "index") and hasattr(source, "to_dict") and not hasattr(source, "columns"):  # a pandas Series
        source = {"task": source.index.to_series(), "label": source}
    _refuse_bare_values(source)
    columns = open_source(source, "Known answers need the columns task and label, and a row for each.")
    if not isinstance(columns, Columns):
        raise InputError("A truth needs two columns, task and label, or a mapping from task to label.")
    names = choose_truth_columns(columns.names, columns.place.origin, task, label)
    tasks, labels = (
        encode(columns.column(name), role, name=name, place=columns.place, text=columns.text)
        for role, name in zip(("task", "label"), names, strict=True)
    )
    if tasks.codes.size != labels.codes.size:
        raise InputError(
            f"task and label must have the same length; they have {tasks.codes.size} and {labels.codes.size}."
        )
    if tasks.codes.size == 0:
        raise InputError(
            f"{columns.place.origin} has columns but no rows. Give a row for each task whose truth is known."
        )
    if columns.text:
        refuse_header_row((tasks, labels), names, columns.place)
    truth = np.full(len(tasks.names), -1, np.int64)
    truth[tasks.codes] = labels.codes
    _refuse_contradiction(truth, tasks.codes, labels.codes, tasks.names, columns.place)
    return Truth(tasks.names, labels.names.take(pa.array(truth)))


def _refuse_bare_values(source: Any) -> None:
    """Refuse labels that are not said to be of a task; a list of text might be taken for one of files."""
    shape = getattr(source, "shape", None)
    values = isinstance(source, list | tuple) and source and not all(isinstance(each, Mapping) for each in source)
    files = values and all(isinstance(each, str | Path) for each in source) and any(map(_is_there, source))
    if (values and not files) or (isinstance(shape, tuple) and len(shape) == 1 and not _has_fields(source)):
        raise InputError(
            f"The truth is a {type(source).__name__} of {len(source):,} values, without the tasks that they are of. "
            "Give a mapping from task to label, or a table with the columns task and label."
        )


def _has_fields(source: Any) -> bool:
    return bool(getattr(getattr(source, "dtype", None), "names", None))


def _is_there(path: str | Path) -> bool:
    try:
        return Path(path).exists() or any(mark in str(path) for mark in "*?[")
    except (OSError, ValueError):
        return False


def truth_codes(source: Any, labels: CrowdLabels) -> IntArray:
    """Known truth of each task of `labels` as a class position, -1 where unknown.

    Truths of tasks that are not among the labels are left aside; if none is, that is an error, and so is a true
    class that the labels do not have.

    Examples
    --------
    >>> from crowdwise.labels import read_labels
    >>> labels = read_labels({"task": [1, 1, 2], "worker": ["ann", "bob", "ann"], "label": ["no", "yes", "yes"]})
    >>> truth_codes({2: "yes"}, labels).tolist()
    [-1, 1]
    """
    if not hasattr(labels, "classes") or not hasattr(labels, "n_tasks"):
        raise InputError(f"labels are {quote(type(labels).__name__)}; give CrowdLabels, as crowdwise.read_labels does.")
    truth = read_truth(source)
    tasks = positions(truth.tasks, labels.tasks)
    if (tasks < 0).all():
        raise InputError(
            f"The truth is about other tasks ({listing(truth.tasks.to_pylist()[:5])}, …) than the labels "
            f"({listing(labels.tasks.slice(0, 5).to_pylist())}, …): no name matches. Use the same task names in both."
        )
    warn_of_missed_tasks(truth.tasks.filter(pa.array(tasks < 0)), labels.tasks)
    classes = positions(truth.labels, labels.classes)
    strange = np.unique(np.flatnonzero((classes < 0) & (tasks >= 0)))
    if strange.size:
        names = truth.labels.take(pa.array(strange)).unique()
        _refuse_class_twins(names, labels)
        raise InputError(
            f"The truth holds classes that the labels do not have ({listing(labels.classes.to_pylist())}): "
            f"{listing(names.to_pylist())}. Declare all classes with classes= (on the command line --classes) when "
            "reading the labels."
        )
    codes = np.full(labels.n_tasks, -1, np.int32)
    codes[tasks[tasks >= 0]] = classes[tasks >= 0]
    return codes


def add_classes_of_truth(source: Any, labels: CrowdLabels) -> CrowdLabels:
    """The labels, with the classes that only the truth names after their own.

    A truth of which no class is a class of the labels is an error: its classes have other names.

    Examples
    --------
    >>> from crowdwise.labels import read_labels
    >>> labels = read_labels({"task": [1, 1, 2], "worker": ["ann", "bob", "ann"], "label": ["no", "yes", "yes"]})
    >>> add_classes_of_truth({1: "unclear", 2: "yes"}, labels).classes.to_pylist()
    ['no', 'yes', 'unclear']
    """
    truth = read_truth(source)
    about = positions(truth.tasks, labels.tasks) >= 0
    named = truth.labels.filter(pa.array(about)).unique()
    known = positions(named, labels.classes) >= 0
    if known.all():
        return labels
    if not known.any():
        raise InputError(
            f"No class of the known truths ({listing(named.to_pylist())}) is a class of the labels "
            f"({listing(labels.classes.to_pylist())}). Use the same names in both, or declare all classes with "
            "classes= (on the command line --classes) when reading the labels."
        )
    new = named.filter(pa.array(~known))
    if not labels.in_memory:
        raise InputError(
            f"The known truths name classes that the labels on the disk do not have: {listing(new.to_pylist())}. "
            "Declare all classes with classes= (on the command line --classes), and read the labels anew."
        )
    _refuse_class_twins(new, labels)
    classes = union([labels.classes, new])
    was_numbered = pa.types.is_integer(labels.classes.type)
    return replace(labels, classes=parse_integers(as_text(classes)) if was_numbered else classes)


def _refuse_class_twins(new: pa.Array, labels: CrowdLabels) -> None:
    """Refuse classes that the labels do not have, but have in another case or with other blanks."""
    have = {str(name).strip().casefold(): name for name in labels.classes.to_pylist()}
    twins = [(name, have[key]) for name in new.to_pylist() if (key := str(name).strip().casefold()) in have]
    if twins:
        shown = "; ".join(f"{quote(one)} and {quote(other)}" for one, other in twins[:SHOWN])
        raise InputError(
            f"Classes of the known truths differ from those of the labels only in case or blanks: {shown}. Write them "
            "the same way, or declare both with classes= (on the command line --classes) when reading the labels."
        )


def _refuse_contradiction(truth: IntArray, tasks: IntArray, labels: IntArray, names: pa.Array, place: Place) -> None:
    wrong = np.flatnonzero(truth[tasks] != labels)
    if wrong.size:
        shown = listing(dict.fromkeys(names.take(pa.array(tasks[wrong])).to_pylist()))
        raise InputError(
            f"The truth contradicts itself about task {shown} ({place.name_rows(wrong.tolist())}). Keep one truth for "
            "each task."
        )
