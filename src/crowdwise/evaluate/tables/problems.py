"""What a run learns from and is scored on: images or rows of numbers, a crowd real or simulated, and the truth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer

from crowdwise.aggregate.majority_vote import MajorityVote
from crowdwise.datasets.features import load_features
from crowdwise.datasets.load import load
from crowdwise.datasets.pictures import load_pictures, picture_sets
from crowdwise.labels.errors import InputError, listed, quoted
from crowdwise.labels.model import CrowdLabels
from crowdwise.metrics.dominance import not_dominant
from crowdwise.simulate.crowds import simulate

if TYPE_CHECKING:
    from crowdwise.datasets.load import Dataset
    from crowdwise.labels.types import FloatArray, IntArray
    from crowdwise.simulate.simulation import Simulation

__all__ = ["Problem", "problem_of"]

TEST_SEED = 1_000_000  # added to a run's seed for what the crowd says of the test tasks
DRAWS = 100  # of a crowd, until it is diagonally dominant
OURS = ("name", "dominant", "only", "voted")  # what is said of a crowd besides the parameters of its simulation
DIGITS = "digits"  # scikit-learn's 1,797 images of digits, odd or even
MOST_WORDS = 1000


@dataclass(frozen=True, eq=False)
class Problem:
    """A crowd and what is known of it; features where there are some.

    Attributes
    ----------
    labels
        Their tasks are the rows of `x`, in that order, where there are features.
    truth : (N,)
        True class of each task, as a position in the classes of the labels; -1 where unknown.
    confusion : (M, K, K)
        The workers' true matrices, where the crowd is simulated.
    valid, test
        Features and true classes to choose the epoch by, and to be scored on.
    test_labels
        What the same crowd says of the test tasks.
    crowd
        The simulation, where there is one.
    """

    labels: CrowdLabels
    truth: IntArray
    x: Any = None
    confusion: FloatArray | None = None
    valid: tuple[Any, IntArray] | None = None
    test: tuple[Any, IntArray] | None = None
    test_labels: CrowdLabels | None = None
    crowd: Simulation | None = None


def problem_of(data: dict[str, Any], crowd: dict[str, Any], seed: int, *, heard: bool = False) -> Problem:
    """The problem of a run.

    Parameters
    ----------
    data
        `name` of images or of a data set, or none for a crowd that is simulated without features; `train`, how many
        tasks are drawn; `validation`, the share of them that is held out, with its truth, or "own" for the validation
        set that the data come with; `test`, how many test tasks are taken; `only`, classes of images; `folds`, for
        data without test tasks: one of so many parts is scored on, a different one for each of so many seeds.
    crowd
        `name` of the simulation and its parameters, or none where the data have a crowd of their own; `only`, the kind
        of simulated workers whose labels are kept; `voted`, whether what is learnt from is the winner of each task's
        vote, as if one rater had said it.
    seed
        Draws images, workers and labels.
    heard
        Whether the crowd is asked about the test tasks as well.
    """
    problem = _found(data, crowd, seed, heard=heard)
    if "folds" in data:
        problem = _without_fold(problem, data["folds"], seed)
    if problem.x is not None and problem.x.dtype.kind == "U":
        problem = _in_numbers(problem)
    return replace(problem, labels=_voted(problem.labels)) if crowd.get("voted") else problem


def _found(data: dict[str, Any], crowd: dict[str, Any], seed: int, *, heard: bool) -> Problem:
    name = data.get("name")
    if name is None:
        return _of_simulation(_drawn(crowd, seed, None))
    if name == DIGITS:
        rows, digit = load_digits(return_X_y=True)
        return replace(_of_simulation(_drawn(crowd, seed, digit % 2)), x=rows / 16)
    if name in picture_sets():
        return _with_pictures(data, crowd, seed, heard=heard)
    return _with_own_crowd(load(name), data, seed)


def _of_simulation(found: Simulation) -> Problem:
    return Problem(found.labels, found.truth, confusion=found.confusion, crowd=found)


def _with_own_crowd(real: Dataset, data: dict[str, Any], seed: int) -> Problem:
    """A real crowd, with the features of its tasks where there are some."""
    features = load_features(real)
    train, held = _drawn_tasks(real.labels.n_tasks, data, seed)
    kept = np.zeros(real.labels.n_tasks, np.bool_)
    kept[train] = True
    problem = Problem(real.labels.keep_tasks(kept), real.truth_codes[kept])
    if features is None:
        return problem
    held = held[real.truth_codes[held] >= 0]
    valid = (features.x[held], real.truth_codes[held]) if held.size else None
    if data.get("validation") == "own":
        if features.valid is None:
            raise InputError(f"The data {quoted(real.name)} have no validation set of their own. Give a share instead.")
        valid = features.valid
    test = features.test
    if test is not None and "test" in data:
        test = test[0][: data["test"]], test[1][: data["test"]]
    return replace(problem, x=features.x[kept], valid=valid, test=test)


def _drawn_tasks(n_tasks: int, data: dict[str, Any], seed: int) -> tuple[IntArray, IntArray]:
    """Tasks to learn from, and tasks whose truth chooses the epoch."""
    chosen = np.random.default_rng([seed, n_tasks]).permutation(n_tasks)[: data.get("train", n_tasks)]
    share = data.get("validation", 0.0)
    n_valid = 0 if share == "own" else round(share * chosen.size)
    return chosen[n_valid:], chosen[:n_valid]


def _without_fold(problem: Problem, folds: int, seed: int) -> Problem:
    """What is left of a problem when one of its parts is scored on."""
    if problem.x is None:
        raise InputError("There are no features to predict the tasks of a fold from: leave out folds.")
    n_tasks = problem.labels.n_tasks
    out = np.random.default_rng([seed // folds, n_tasks]).permutation(n_tasks) % folds == seed % folds
    return replace(
        problem,
        labels=problem.labels.keep_tasks(~out),
        truth=problem.truth[~out],
        x=problem.x[~out],
        test=(problem.x[out], problem.truth[out]),
        test_labels=problem.labels.keep_tasks(out),
    )


def _in_numbers(problem: Problem) -> Problem:
    """Texts as TF-IDF of the words and pairs of words of those that are learnt from."""
    words = TfidfVectorizer(max_features=MOST_WORDS, ngram_range=(1, 2), sublinear_tf=True)
    x = words.fit_transform(problem.x).toarray()
    return replace(problem, x=x, test=problem.test and (words.transform(problem.test[0]).toarray(), problem.test[1]))


def _voted(labels: CrowdLabels) -> CrowdLabels:
    """The winners of the votes, as one rater's labels."""
    return CrowdLabels.from_arrays(
        labels.tasks.to_pylist(),
        ["majority"] * labels.n_tasks,
        MajorityVote().fit(labels).predict(),
        classes=labels.classes.to_pylist(),
    )


def _with_pictures(data: dict[str, Any], crowd: dict[str, Any], seed: int, *, heard: bool) -> Problem:
    pictures = load_pictures(data["name"])
    if "only" in data:
        pictures = pictures.only(data["only"])
    train, valid = _drawn_tasks(len(pictures.y_train), data, seed)
    problem = _of_simulation(_drawn(crowd, seed, pictures.y_train[train]))
    tested = slice(0, data.get("test"))
    x_test, y_test = pictures.x_test[tested], pictures.y_test[tested]
    return replace(
        problem,
        x=pictures.x_train[train],
        valid=(pictures.x_train[valid], pictures.y_train[valid]) if valid.size else None,
        test=(x_test, y_test),
        test_labels=_said_of(y_test, problem, crowd, seed) if heard else None,
    )


def _drawn(crowd: dict[str, Any], seed: int, truth: Any) -> Simulation:
    """A crowd; with `dominant`, drawn anew until its mean matrix is diagonally dominant, if that can be had."""
    parameters = {key: value for key, value in crowd.items() if key not in OURS}
    if truth is not None:
        parameters["truth"] = truth
    if "name" not in crowd:
        raise InputError("The crowd has no name: there is nothing to simulate.")
    first = simulate(crowd["name"], **parameters, seed=seed)
    if "only" in crowd:
        return _of_kind(first, crowd["only"])
    if not crowd.get("dominant"):
        return first
    drawn = first
    for draw in range(1, DRAWS):
        if not not_dominant(drawn.confusion.mean(axis=0)):
            return drawn
        drawn = simulate(crowd["name"], **parameters, seed=seed * DRAWS + draw + TEST_SEED)
    return first


def _of_kind(drawn: Simulation, kind: str) -> Simulation:
    """A crowd without the workers of other kinds."""
    kept = np.array([each == kind for each in drawn.kinds or ()], np.bool_)
    if not kept.any():
        raise InputError(f"The crowd has no workers of the kind {quoted(kind)}; it has {listed(drawn.kinds or ())}.")
    labels = drawn.labels.select(workers=drawn.labels.workers.filter(pa.array(kept)).to_pylist())
    return replace(drawn, labels=labels, confusion=drawn.confusion[kept], kinds=(kind,) * int(kept.sum()), groups=None)


def _said_of(truth: IntArray, problem: Problem, crowd: dict[str, Any], seed: int) -> CrowdLabels:
    """What the same workers say of other tasks."""
    later = _drawn(crowd, seed + TEST_SEED, truth)
    if problem.confusion is None or not np.array_equal(later.confusion, problem.confusion):
        raise InputError(
            f"The crowd {quoted(crowd['name'])} draws its workers anew: it cannot be asked about new tasks."
        )
    return later.labels
