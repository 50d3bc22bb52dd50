"""`load`: a data set by name."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.datasets.anaesthetists import anaesthetists
from crowdwise.datasets.catalogue import CATALOGUE, OTHER_KINDS
from crowdwise.datasets.folders import VARIABLE, find_file, folders
from crowdwise.datasets.truth import align_truth, find_unknown_classes, read_truth
from crowdwise.labels.errors import InputError, InputWarning, quote
from crowdwise.labels.vocabulary import as_text, parse_integers, union

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import Duplicates, IntArray

__all__ = ["Dataset", "available", "load", "names"]

BUILT_IN = "anaesthetists"


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A named set of labels.

    Attributes
    ----------
    name
        Its name in the catalogue, or of its folder.
    labels : CrowdLabels
        The labels. The classes are those that occur, and those of the truth that nobody said.
    truth : pyarrow.Table or None
        The truth (task, label) as its file has it, tasks without labels included; None if there is none.
    truth_codes : int32 array (n_tasks,)
        True class of each task of `labels` as a position in `labels.classes`, -1 where unknown. Tasks that
        have a truth but no label are left out: there is nothing to find a consensus from.
    description, citation
        What the labels are about, and whom to cite.
    majority_vote
        Accuracy of the majority vote that the catalogue expects, or None.
    published
        Numbers that others report: source → method → value.
    """

    name: str
    labels: CrowdLabels
    truth: pa.Table | None
    truth_codes: IntArray
    description: str = ""
    citation: str = ""
    majority_vote: float | None = None
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __repr__(self) -> str:
        known = int((self.truth_codes >= 0).sum())
        return f"Dataset {self.name}: {self.labels!r}, truth of {known:,} tasks"


def names() -> list[str]:
    """List the data sets of the catalogue; `available` says which of them are at hand."""
    return sorted(CATALOGUE)


def available() -> list[str]:
    """List the data sets that can be loaded now: built in, or found in one of the folders."""
    found = {
        entry.name
        for folder in folders()
        if folder.is_dir()
        for entry in folder.iterdir()
        if entry.name not in OTHER_KINDS and find_file(entry, "labels")
    }
    return sorted(found | {BUILT_IN})


def load(name: str) -> Dataset:
    """Load a data set by name.

    "anaesthetists" is built in. All others are files: NAME/labels.csv (task, worker, label) and, if there is
    a truth, NAME/truth.csv (task, label), either of them gzipped or not, in the folder of the environment
    variable CROWDWISE_DATA or else in the cache folder (~/.cache/crowdwise). A folder of your own that is
    not in the catalogue is loaded just so.

    Examples
    --------
    >>> load("anaesthetists").labels
    CrowdLabels: 315 labels by 5 workers on 45 tasks, 4 classes (1, 2, 3, 4)
    """
    if not isinstance(name, str):
        raise InputError(f"{quote(name)} is no name of a data set.")
    if name in OTHER_KINDS:
        raise InputError(f"The data set {quote(name)} holds {OTHER_KINDS[name]}, not class labels.")
    if name == BUILT_IN:
        return _make_dataset(name, anaesthetists(), None)
    labels_file, folder = _locate(name)
    truth_file = find_file(folder, "truth")
    truth = read_truth(truth_file) if truth_file else None
    if name not in CATALOGUE:
        return _make_dataset(name, _read_labels(labels_file, truth, "error"), truth)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)  # names of a known set are as its authors wrote them
        labels = _read_labels(labels_file, truth, CATALOGUE[name].on_duplicate)
    return _make_dataset(name, labels, truth)


def _read_labels(file: Path, truth: pa.Table | None, on_duplicate: Duplicates) -> CrowdLabels:
    from crowdwise.labels.read import read_labels

    def read_with_classes(classes: list[Any] | None = None) -> CrowdLabels:
        return read_labels(
            file, task="task", worker="worker", label="label", classes=classes, on_duplicate=on_duplicate
        )

    labels = read_with_classes()
    unsaid = None if truth is None else find_unknown_classes(truth, labels)
    if unsaid:  # rare: read once more, with the classes of both in one order
        classes = parse_integers(as_text(union([labels.classes, unsaid]))).to_pylist()
        labels = read_with_classes(sorted(classes))
    return labels


def _make_dataset(name: str, labels: CrowdLabels, truth: pa.Table | None) -> Dataset:
    codes = np.full(labels.n_tasks, -1, np.int32) if truth is None else align_truth(truth, labels)
    codes.flags.writeable = False
    entry = CATALOGUE.get(name)
    if entry is None:
        return Dataset(name, labels, truth, codes)
    return Dataset(name, labels, truth, codes, entry.description, entry.citation, entry.majority_vote, entry.published)


def _locate(name: str) -> tuple[Path, Path]:
    """Find the labels file of a data set and its folder, or say what to put where."""
    searched = folders()
    if re.fullmatch(r"\w[\w.-]*", name):
        for parent in searched:
            file = find_file(parent / name, "labels")
            if file:
                return file, parent / name
    places = ", ".join(str(folder) for folder in searched)
    unset = "" if len(searched) > 1 else f" (the environment variable {VARIABLE} is not set)"
    if name not in CATALOGUE:
        close = get_close_matches(name, CATALOGUE, 1)
        hint = f" Did you mean {quote(close[0])}?" if close else ""
        raise InputError(
            f"There is no data set {quote(name)}.{hint} The catalogue has {', '.join(names())}. "
            f"A data set of your own is a folder with labels.csv in it. Searched: {places}{unset}."
        )
    wanted = searched[0] / name
    needs_truth = CATALOGUE[name].n_truth > 0
    raise InputError(
        f"The data set {quote(name)} is not on this machine. Put its labels (columns task, worker, label) "
        f"at {wanted / 'labels.csv'} or labels.csv.gz"
        + (f", and its truth (columns task, label) at {wanted / 'truth.csv'}" if needs_truth else "")
        + f". Searched: {places}{unset}. Source: {CATALOGUE[name].citation}."
    )
