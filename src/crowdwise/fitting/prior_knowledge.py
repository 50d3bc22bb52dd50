"""What is known before the labels are read: truths of some tasks, shares of the classes, workers met earlier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.fitting.parameter_checks import as_numbers, check_number
from crowdwise.kernels import NO_GOLD
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.truth import truth_codes
from crowdwise.labels.vocabulary import as_vocabulary, positions, same_names

if TYPE_CHECKING:
    import pyarrow as pa

    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["GOLD", "KNOWN_WORKERS", "PRIOR", "PriorKnowledge", "align_knowledge"]

GOLD, PRIOR, KNOWN_WORKERS = "gold", "class_prior", "known_workers"
HEAVIEST = 1e9  # answers beyond this would drown those of the labels in rounding
_WORDS = {GOLD: "gold labels", PRIOR: "a class prior", KNOWN_WORKERS: "workers known from elsewhere"}


@dataclass(frozen=True)
class PriorKnowledge:
    """What a method may be told besides the labels.

    Attributes
    ----------
    gold : (N,) or empty
        True class of each task, -1 where unknown; empty where none is known.
    class_prior : (K,) or None
        Shares of the classes, which are then not learnt.
    worker_counts : (M, K, K) [worker, truth, label] or None
        Answers that each worker counts as having given already; zeros for workers not met before.
    """

    gold: IntArray = field(default_factory=lambda: NO_GOLD)
    class_prior: FloatArray | None = None
    worker_counts: FloatArray | None = None

    @property
    def log_prior(self) -> FloatArray | None:
        """Logarithm of the class prior, where it is given."""
        if self.class_prior is None:
            return None
        with np.errstate(divide="ignore"):
            logs: FloatArray = np.log(self.class_prior)
        return logs


def align_knowledge(
    labels: CrowdLabels,
    *,
    gold: Any,
    class_prior: Any,
    known_workers: Any,
    known_weight: Any,
    slug: str,
    uses: frozenset[str],
) -> PriorKnowledge:
    """Line up what the user knows with the labels, refusing what the method cannot use."""
    given = {GOLD: gold, PRIOR: class_prior, KNOWN_WORKERS: known_workers}
    for name, value in given.items():
        if value is not None and name not in uses:
            raise InputError(
                f"{slug} has no use for {_WORDS[name]} ({name}). Fit without, or use a method that has, such as "
                "dawid-skene."
            )
    check_number("known_weight", known_weight, low=0, high=HEAVIEST, above=True)
    known = PriorKnowledge(
        NO_GOLD if gold is None else truth_codes(gold, labels),
        None if class_prior is None else _read_class_prior(class_prior, labels),
        None if known_workers is None else _read_known_workers(known_workers, labels, float(known_weight)),
    )
    _check_gold_agrees_with_prior(known, labels)
    return known


def _check_gold_agrees_with_prior(known: PriorKnowledge, labels: CrowdLabels) -> None:
    """Refuse gold labels of a class that the class prior rules out: together they have no probability."""
    if known.class_prior is None or not known.gold.size:
        return
    named = np.unique(known.gold[known.gold >= 0])
    barred = [labels.classes[int(place)].as_py() for place in named if known.class_prior[place] == 0]
    if barred:
        raise InputError(
            f"class_prior gives no share to {listing(barred)}, which gold names as the truth of some task. Give every "
            "class that occurs a share above 0."
        )


def _as_mapping(series: Any) -> dict[Any, Any]:
    """Shares by the names in a Series' index."""
    if not series.index.is_unique:
        raise InputError("class_prior names a class more than once. Give each class one share.")
    shares: dict[Any, Any] = series.to_dict()
    return shares


def _read_class_prior(given: Any, labels: CrowdLabels) -> FloatArray:
    """Class prior (K,) from a mapping or Series from class to share, or an array in the order of the classes."""
    if hasattr(given, "index") and hasattr(given, "to_dict") and not hasattr(given, "columns"):  # a pandas Series
        given = given.to_numpy() if _is_count(given.index) else _as_mapping(given)
    if isinstance(given, Mapping):
        places = positions(as_vocabulary(list(given), "label"), labels.classes)
        strange = [name for name, place in zip(given, places, strict=True) if place < 0]
        if strange:
            raise InputError(
                f"class_prior names classes that the labels do not have: {listing(strange)}. They have "
                f"{listing(labels.classes.to_pylist())}."
            )
        silent = np.setdiff1d(np.flatnonzero(labels.class_shares), places)
        if silent.size:
            raise InputError(
                f"class_prior gives no share to {listing([labels.classes[int(k)].as_py() for k in silent])}, which "
                "some labels name. Give every class a share, 0 for one that is never true."
            )
        shares = np.zeros(labels.n_classes)
        shares[places] = as_numbers(list(given.values()), "class_prior")
    else:
        shares = as_numbers(given, "class_prior")
    if shares.shape != (labels.n_classes,):
        raise InputError(
            f"class_prior has shape {shares.shape}; it must have one share for each of the {labels.n_classes} classes."
        )
    fractions = bool(((shares >= 0) & (shares <= 1 + 1e-6)).all())
    total = shares.sum() if fractions else 0.0  # the sum of what is no share might not be a number
    if abs(total - 1) > 1e-6:
        raise InputError(f"class_prior must hold shares that sum to 1; these are {quote(shares.tolist())}.")
    fixed: FloatArray = shares / total
    return fixed


def _read_known_workers(known: Any, labels: CrowdLabels, weight: float) -> FloatArray:
    """Known confusion matrices as answers already given, [worker, truth, label]; workers are matched by name.

    A model's classes are matched by name too, see `_match_classes`.
    """
    if hasattr(known, "workers_") and not isinstance(known, type):
        if not hasattr(known, "classes_"):
            raise InputError(
                f"known_workers is a {type(known).__name__}, a model of answers that are no labels. Give one that was "
                "fitted to labels."
            )
        if not hasattr(known, "confusion_"):
            raise InputError("known_workers is a model without confusion matrices: fit it, or take another method.")
        names, classes = as_vocabulary(known.workers_, "worker"), as_vocabulary(known.classes_, "class")
        confusion = np.asarray(known.confusion_)
        if not same_names(classes, labels.classes):
            return _match_classes(labels, classes, _match_workers(labels, names, confusion, weight))
        matrices = list(confusion)
    elif isinstance(known, Mapping):
        if not known:
            raise InputError("known_workers is empty. Name at least one worker, or leave it out.")
        names, matrices = as_vocabulary(list(known), "worker"), list(known.values())
    else:
        raise InputError(
            "known_workers must be a fitted model (crowdwise.load reads a saved one) or a mapping from worker to "
            "confusion matrix."
        )
    size = labels.n_classes
    checked = []
    for name, given in zip(names.to_pylist(), matrices, strict=True):
        matrix = as_numbers(_by_class_names(given, labels, name), f"known_workers: the matrix of {name!r}")
        square = matrix.shape == (size, size)
        if not square or not ((matrix >= 0) & (matrix <= 1 + 1e-6)).all() or (abs(matrix.sum(axis=1) - 1) > 1e-6).any():
            raise InputError(
                f"known_workers: the matrix of {name!r} must have shape {(size, size)} [truth, label] and rows that "
                "sum to 1."
            )
        checked.append(matrix)
    return _match_workers(labels, names, np.array(checked).reshape(-1, size, size), weight)


def _by_class_names(given: Any, labels: CrowdLabels, worker: Any) -> Any:
    """A pandas table with rows and columns in the order of the classes; one that names none is in that order."""
    if not hasattr(given, "iloc") or len(getattr(given, "shape", ())) != 2:
        return given
    axes = [axis for axis in (given.index, given.columns) if not _is_count(axis)]
    if not axes:
        return given
    places = []
    for axis in (given.index, given.columns):
        found = positions(labels.classes, as_vocabulary(axis.tolist(), "class"))
        if (found < 0).any() or len(axis) != labels.n_classes:
            raise InputError(
                f"known_workers: the matrix of {worker!r} has the rows {listing(given.index.tolist())} and the columns "
                f"{listing(given.columns.tolist())}; both must be the classes, {listing(labels.classes.to_pylist())}."
            )
        places.append(found)
    return given.iloc[places[0], places[1]]


def _is_count(index: Any) -> bool:
    """Whether an index of pandas is the one that it gives where there are no names."""
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1


def _match_workers(labels: CrowdLabels, names: pa.Array, matrices: FloatArray, weight: float) -> FloatArray:
    """Matrices as answers of the workers of the labels (M, …); zeros for workers who are not among the names."""
    counts = np.zeros((labels.n_workers, *matrices.shape[1:]))
    places = positions(names, labels.workers)
    if (places < 0).all():
        raise InputError(
            f"None of the known workers ({listing(names.slice(0, 5).to_pylist())}, …) is among those of the labels "
            f"({listing(labels.workers.slice(0, 5).to_pylist())}, …). Use the same worker names in both."
        )
    counts[places[places >= 0]] = weight * matrices[places >= 0]
    return counts


def _match_classes(labels: CrowdLabels, old: pa.Array, answers: FloatArray) -> FloatArray:
    """Answers in other classes (M, L, L) as answers in those of the labels (M, K, K), matched by name.

    Of a class that the labels do not have, the answers are left out. Of a new class nothing is known. Its row is zero:
    what workers say of it is learnt from the labels alone, as of a worker not met before. Its column is filled with
    what a worker's wrong answers are on average, for each truth: zeros would say that a worker who could not choose the
    new class never does.
    """
    places = positions(labels.classes, old)
    kept = np.flatnonzero(places >= 0)
    if kept.size == 0:
        raise InputError(
            f"known_workers was fitted with the classes {listing(old.to_pylist())}; these labels have none of them, "
            f"but {listing(labels.classes.to_pylist())}. Use the same class names in both."
        )
    found = np.zeros((labels.n_workers, labels.n_classes, labels.n_classes))
    found[:, kept[:, None], kept] = answers[:, places[kept][:, None], places[kept]]
    new = np.flatnonzero(places < 0)
    right = np.einsum("wkk->wk", answers)
    wrong = (answers.sum(axis=2) - right) / max(len(old) - 1, 1)
    found[:, kept[:, None], new] = wrong[:, places[kept], None]
    return found
