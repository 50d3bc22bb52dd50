"""What a run learns from and is scored on: images or rows of numbers, a crowd real or simulated, and the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.ndimage import gaussian_filter1d
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer

from crowdwise.datasets.features import load_features
from crowdwise.datasets.loading import load
from crowdwise.datasets.pictures import load_pictures, picture_sets
from crowdwise.labels.errors import InputError, quote
from crowdwise.reproduction.crowd_of_run import (
    TEST_SEED,
    add_colluders,
    alter_crowd,
    draw_crowd,
    majority_labels,
    majority_labels_drawn,
    true_labels,
)
from crowdwise.reproduction.machine_annotators import MACHINES, label_by_machines
from crowdwise.reproduction.two_groups import draw_grouped_tasks

if TYPE_CHECKING:
    from crowdwise.datasets.loading import Dataset
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray
    from crowdwise.simulate.simulation import Simulation

__all__ = ["Problem", "make_problem"]

BLUR_REACH = 3.0  # standard deviations at which a blur ends
DIGITS = "digits"  # scikit-learn's 1,797 images of digits, odd or even
TWO_GROUPS = "two-groups"  # tasks and workers of `two_groups`
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
    test_labels, valid_labels
        What the same crowd says of the test tasks, and of the validation tasks, where these are the same.
    crowd
        The simulation, where there is one.
    kinds
        The kind of each worker, where it is known.
    group, test_group : (N,)
        Group of each task, and of each test task, where they have one.
    """

    labels: CrowdLabels
    truth: IntArray
    x: Any = None
    confusion: FloatArray | None = None
    valid: tuple[Any, IntArray] | None = None
    test: tuple[Any, IntArray] | None = None
    test_labels: CrowdLabels | None = None
    valid_labels: CrowdLabels | None = None
    crowd: Simulation | None = None
    kinds: tuple[str, ...] | None = None
    group: IntArray | None = None
    test_group: IntArray | None = None


def make_problem(data: dict[str, Any], crowd: dict[str, Any], seed: int, *, label_test: bool = False) -> Problem:
    """The problem of a run.

    Parameters
    ----------
    data
        `name` of images or of a data set, or none for a crowd that is simulated without features; `train`, how many
        tasks are drawn; `draw`, a number for another draw of them; `validation`, the share of them that is held out,
        with its truth, or "own" for the validation set that the data come with, or "test" for the test images, as in
        programs that take the best epoch on these; `test`, how many test tasks are taken; `only`, classes of images;
        `sizes`, pixels that these are scaled to, one after the other; `blur`, standard deviation in pixels of a
        Gaussian blur; `folds`, for data without test tasks: one of so many parts is scored on, a different one for each
        of so many seeds.
    crowd
        `name` of the simulation and its parameters, or "machines" of `machine_annotators`; or none where the data have
        a crowd of their own, to which `tasks_per_worker` (most answers of a worker that are kept) and `n_spammers`
        (workers added who label all tasks at random) may be done, or `colluders`, a share of the workers who agree on
        the same wrong answer with probability `p_corr`; `only`, the kind of workers whose labels are kept; `voted`,
        whether what is learnt from is the winner of each task's vote, as if one rater had said it, and with "drawn",
        ties broken by a draw; `true`, whether it is the truth; `busiest`, of a real crowd the labels of one worker, 1
        for the one with the most; `bought`, the share of the labels that the `policy` of a replay buys, the first share
        `start` of them at random.
    seed
        Draws images, workers and labels.
    label_test
        Whether the crowd is asked about the test tasks as well.
    """
    problem = _load_problem(data, crowd, seed, label_test=label_test)
    if "folds" in data:
        problem = _hold_out_fold(problem, data["folds"], seed)
    if problem.x is not None and problem.x.dtype.kind == "U":
        problem = _vectorise_texts(problem)
    if crowd.get("true"):
        return replace(problem, labels=true_labels(problem.labels, problem.truth))
    if crowd.get("voted") == "drawn":
        return replace(problem, labels=majority_labels_drawn(problem.labels, seed))
    return replace(problem, labels=majority_labels(problem.labels)) if crowd.get("voted") else problem


def _load_problem(data: dict[str, Any], crowd: dict[str, Any], seed: int, *, label_test: bool) -> Problem:
    name = data.get("name")
    if name is None:
        return _simulated_problem(draw_crowd(crowd, seed, None))
    if name == TWO_GROUPS:
        train, test, labels = draw_grouped_tasks(data, crowd, seed)
        tested = test.x, test.truth
        return Problem(labels, train.truth, train.x, test=tested, group=train.group, test_group=test.group)
    if name == DIGITS:
        rows, digit = load_digits(return_X_y=True)
        return replace(_simulated_problem(draw_crowd(crowd, seed, digit % 2)), x=rows / 16)
    if name in picture_sets():
        return _picture_problem(data, crowd, seed, label_test=label_test)
    return _real_problem(load(name), data, crowd, seed)


def _simulated_problem(found: Simulation) -> Problem:
    return Problem(found.labels, found.truth, confusion=found.confusion, crowd=found, kinds=found.kinds)


def _real_problem(real: Dataset, data: dict[str, Any], crowd: dict[str, Any], seed: int) -> Problem:
    """A real crowd, with the features of its tasks where there are some."""
    features = load_features(real)
    train, held = _draw_training_and_validation(real.labels.n_tasks, data, seed)
    kept = np.zeros(real.labels.n_tasks, np.bool_)
    kept[train] = True
    truth = real.truth_codes[kept]
    labels, kinds = add_colluders(alter_crowd(real.labels.keep_tasks(kept), crowd, seed), truth, crowd, seed)
    problem = Problem(labels, truth, kinds=kinds)
    if features is None:
        return problem
    held = held[real.truth_codes[held] >= 0]
    valid = (features.x[held], real.truth_codes[held]) if held.size else None
    if data.get("validation") == "own":
        if features.valid is None:
            raise InputError(f"The data {quote(real.name)} have no validation set of their own. Give a share instead.")
        valid = features.valid
    test = features.test
    if test is not None and "test" in data:
        test = test[0][: data["test"]], test[1][: data["test"]]
    return replace(problem, x=features.x[kept], valid=valid, test=test)


def _draw_training_and_validation(n_tasks: int, data: dict[str, Any], seed: int) -> tuple[IntArray, IntArray]:
    """Tasks to learn from, and tasks whose truth chooses the epoch."""
    number = data.get("train", n_tasks)
    if "draw" in data:
        chosen: IntArray = np.random.default_rng([seed, data["draw"]]).choice(n_tasks, number, replace=False)
    else:
        chosen = np.random.default_rng([seed, n_tasks]).permutation(n_tasks)[:number]
    share = data.get("validation", 0.0)
    n_valid = 0 if isinstance(share, str) else round(share * chosen.size)
    return chosen[n_valid:], chosen[:n_valid]


def _hold_out_fold(problem: Problem, folds: int, seed: int) -> Problem:
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


def _vectorise_texts(problem: Problem) -> Problem:
    """Texts as TF-IDF of the words and pairs of words of those that are learnt from."""
    words = TfidfVectorizer(max_features=MOST_WORDS, ngram_range=(1, 2), sublinear_tf=True)
    x = words.fit_transform(problem.x).toarray()
    return replace(problem, x=x, test=problem.test and (words.transform(problem.test[0]).toarray(), problem.test[1]))


def _picture_problem(data: dict[str, Any], crowd: dict[str, Any], seed: int, *, label_test: bool) -> Problem:
    pictures = load_pictures(data["name"])
    if "only" in data:
        pictures = pictures.keep_only(data["only"])
    train, valid = _draw_training_and_validation(len(pictures.y_train), data, seed)
    if crowd.get("name") == MACHINES:
        rest = np.setdiff1d(np.arange(len(pictures.y_train)), np.concatenate([train, valid]))
        own = pictures.x_train[rest], pictures.y_train[rest]
        truth = pictures.y_train[train]
        labels = label_by_machines(pictures.x_train[train], truth, own, crowd, len(pictures.classes), seed)
        problem = Problem(labels, truth)
    else:
        problem = _simulated_problem(draw_crowd(crowd, seed, pictures.y_train[train]))
    tested = slice(0, data.get("test"))
    x_test, y_test = pictures.x_test[tested], pictures.y_test[tested]
    test_labels = _label_test_tasks(y_test, problem, crowd, seed) if label_test else None
    problem = replace(
        problem,
        x=_change_images(pictures.x_train[train], data),
        valid=(_change_images(pictures.x_train[valid], data), pictures.y_train[valid]) if valid.size else None,
        test=(_change_images(x_test, data), y_test),
        test_labels=test_labels,
    )
    chosen_on_test = data.get("validation") == "test"
    return replace(problem, valid=problem.test, valid_labels=test_labels) if chosen_on_test else problem


def _change_images(x: Any, data: dict[str, Any]) -> Any:
    for size in data.get("sizes", ()):
        x = scale_images(x, size)
    return blur_images(x, data.get("blur", 0.0))


def scale_images(x: Any, size: int) -> Any:
    """Square images (n, channels, height, width) of bytes in another size, by linear interpolation of means."""
    matrix = _resampling_matrix(x.shape[-1], size)
    return np.rint(matrix @ x.astype(np.float32) @ matrix.T).astype(np.uint8)


def _resampling_matrix(before: int, after: int) -> Any:
    """Weights (after, before) of old pixels in new ones: a triangle around each, as wide as a pixel of the coarser."""
    place = (np.arange(after) + 0.5) * before / after - 0.5
    distance = np.abs(place[:, None] - np.arange(before))
    weights = np.maximum(1 - distance / max(1.0, before / after), 0)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def blur_images(x: Any, deviation: float) -> Any:
    """Gaussian blur of images (n, channels, height, width) of bytes: numbers from 0 to 1, mirrored at the edges."""
    if deviation == 0:
        return x
    found = x.astype(np.float32) / 255
    # What becomes of each single pixel of a row or column: a product with that is quicker than a filter of every image.
    rows, columns = (
        gaussian_filter1d(
            np.eye(size, dtype=np.float32),
            deviation,
            axis=0,
            mode="mirror",
            radius=min(math.ceil(BLUR_REACH * deviation), size - 1),  # an image is mirrored once
        )
        for size in x.shape[2:]
    )
    return rows @ found @ columns.T


def _label_test_tasks(truth: IntArray, problem: Problem, crowd: dict[str, Any], seed: int) -> CrowdLabels:
    """What the same workers say of other tasks."""
    later = draw_crowd(crowd, seed + TEST_SEED, truth)
    if problem.confusion is None or not np.array_equal(later.confusion, problem.confusion):
        raise InputError(
            f"The crowd {quote(crowd['name'])} draws its workers anew: it cannot be asked about new tasks."
        )
    return later.labels
