"""Do workers err independently? Two posterior predictive checks of the model that most methods share.

Nearly every method takes workers to answer independently given the truth, each by a confusion matrix of their own.
Where they do not, a method that predicts the mistakes that workers share predicts hidden labels well without being
right, so that held-out labels rank methods wrongly. The checks say whether the labels themselves show this.

| check | statistic | what raises it |
|---|---|---|
| pairs of workers | mean over pairs of (agreements - expected)² / variance | copies, families of judges, camps |
| tasks | the same over tasks | hard tasks among easy ones, tasks that mislead many |

Two workers i and j are expected to agree with probability Σ_k π[k] Σ_l A[i, k, l] A[j, k, l] on each task that they
share. The model is fitted by mean field; `DRAWS` crowds of independent workers are drawn from its posterior on the same
pairs of task and worker, fitted in the same way, and z says by how many of their standard deviations the real labels
stand out (Rubin 1984, Annals of Statistics 12; Gelman, Meng and Stern 1996, Statistica Sinica 6). So the crowd's size,
class shares and skills, and the error of the fit, are allowed for.

What no check of labels can see: tasks that mislead everybody alike look like tasks of another class. Many labels make
the checks sensitive, so at most `MOST_LABELS` labels and `MOST_CELLS` / K² pairs of labels are used, of tasks drawn at
random, and of very many workers the busiest. Workers with few labels are left out: of them the prior says more than
their answers. Cost: `DRAWS` + 1 fits.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from crowdwise.aggregate.mean_field import MeanField
from crowdwise.fitting.em import StillImproving
from crowdwise.fitting.variational import diagonal_prior
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.simulate.draws import draw_from_rows

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Independence", "check_independence"]

DRAWS = 30  # crowds of independent workers
LIMIT = 2.5  # standard deviations from which a check fails; chosen on simulated crowds alone, see docs/choosing.md
MOST_LABELS = 20_000  # labels that are looked at
MOST_CELLS = 4_000_000  # pairs of labels × K²
FEWEST_PAIRS = 100  # pairs of labels below which nothing is said
FEWEST_LABELS, FEWEST_PER_CLASS = 20, 5  # labels of a worker, and for each class: with fewer, the prior decides
SPARE = 4  # times as many labels as that, on average, that a sample leaves a worker
RIGHT, WRONG = 1.0, 0.5  # pseudo-counts of a worker's row, the wrong one spread over the other classes
CHUNK = 1 << 21  # cells of matrices gathered at a time


@dataclass(frozen=True)
class Independence:
    """How far the labels are from what independent workers would give.

    Attributes
    ----------
    pairs, tasks
        Standard deviations (z) by which pairs of workers, and tasks, differ in agreement beyond what independent
        workers do.
    """

    pairs: float
    tasks: float

    @property
    def failed_check(self) -> Literal["pairs", "tasks"] | None:
        """The check that fails by more; None where workers may be independent.

        Only one is named: families of workers also make tasks differ, and hard tasks pairs, but less.
        """
        if max(self.pairs, self.tasks) <= LIMIT:
            return None
        return "pairs" if self.pairs >= self.tasks else "tasks"


class _LabelPairs:
    """All pairs of labels of the same task by two different workers."""

    def __init__(self, labels: CrowdLabels) -> None:
        start, size = labels.task_ptr[:-1], np.diff(labels.task_ptr)
        firsts, seconds = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for number in np.unique(size[size > 1]):
            one, two = np.triu_indices(int(number), 1)
            begin = start[size == number][:, None]
            firsts.append((begin + one).ravel())
            seconds.append((begin + two).ravel())
        first, second = np.concatenate(firsts), np.concatenate(seconds)
        different = labels.worker[first] != labels.worker[second]
        self.first, self.second = first[different], second[different]
        low = np.minimum(labels.worker[self.first], labels.worker[self.second]).astype(np.int64)
        high = np.maximum(labels.worker[self.first], labels.worker[self.second])
        key, self.couple = np.unique(low * labels.n_workers + high, return_inverse=True)
        self.couples = np.stack(np.divmod(key, labels.n_workers))
        self.task = np.unique(labels.task[self.first], return_inverse=True)[1]

    def excess_agreement_statistics(self, label: IntArray, prior: FloatArray, confusion: FloatArray) -> FloatArray:
        """Mean squared standardised excess of agreement over pairs of workers, and over tasks."""
        expected = np.empty(self.couples.shape[1])
        step = max(1, CHUNK // confusion[0].size)
        for begin in range(0, expected.size, step):
            some = slice(begin, begin + step)
            one, two = self.couples[:, some]
            expected[some] = np.einsum("k,ekl,ekl->e", prior, confusion[one], confusion[two])
        expected = np.clip(expected, 1e-6, 1 - 1e-6)[self.couple]
        excess, variance = (label[self.first] == label[self.second]) - expected, expected * (1 - expected)
        return np.array(
            [np.mean(np.bincount(by, excess) ** 2 / np.bincount(by, variance)) for by in (self.couple, self.task)]
        )


def check_independence(labels: CrowdLabels, *, random_state: int = 0) -> Independence | None:
    """Check whether workers err independently given the truth; None where too few workers share tasks.

    Parameters
    ----------
    labels
        The labels.
    random_state
        For the tasks that are looked at, where there are many, and for the crowds that are drawn.

    Examples
    --------
    >>> from crowdwise.simulate import simulate
    >>> copies = simulate("groups", n_tasks=200, n_workers=20, labels_per_task=8, n_groups=4, random_state=0).labels
    >>> check_independence(copies).failed_check
    'pairs'
    """
    generator = np.random.default_rng(random_state)
    sample = _drop_rare_workers(_sample_tasks(_keep_busiest(labels), generator))
    pairs = _LabelPairs(sample)
    if pairs.first.size < FEWEST_PAIRS or sample.n_classes < 2:
        return None
    model = _fit_dawid_skene(sample)
    prior, counts = model.prior_, model.confusion_counts_
    drawn = np.empty((DRAWS, 2))
    for draw in range(DRAWS):
        truth = generator.choice(sample.n_classes, sample.n_tasks, p=prior / prior.sum())
        matrices = generator.standard_gamma(counts)
        matrices /= matrices.sum(axis=2, keepdims=True)
        label = draw_from_rows(sample.worker, truth[sample.task], matrices, generator)
        again = _fit_dawid_skene(
            CrowdLabels.from_codes(
                sample.task, sample.worker, label,
                tasks=sample.n_tasks, workers=sample.n_workers, classes=sample.n_classes, on_duplicate="all",
            )
        )  # fmt: skip
        drawn[draw] = pairs.excess_agreement_statistics(label, again.prior_, again.confusion_)
    seen = pairs.excess_agreement_statistics(sample.label, prior, model.confusion_)
    z = (seen - drawn.mean(axis=0)) / np.maximum(drawn.std(axis=0, ddof=1), 1e-12)
    return Independence(float(z[0]), float(z[1]))


def _fit_dawid_skene(labels: CrowdLabels) -> MeanField:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StillImproving)
        prior = diagonal_prior(RIGHT, WRONG / (labels.n_classes - 1), labels.n_classes)
        return MeanField(confusion_prior=prior, max_iter=100, tol=1e-4).fit(labels)


def _min_labels_per_worker(labels: CrowdLabels) -> int:
    return max(FEWEST_LABELS, FEWEST_PER_CLASS * labels.n_classes)


def _keep_busiest(labels: CrowdLabels) -> CrowdLabels:
    """Labels of the busiest workers, so few that each keeps labels enough when tasks are sampled."""
    given = np.bincount(labels.worker, minlength=labels.n_workers)
    most = MOST_LABELS // (SPARE * _min_labels_per_worker(labels))
    kept = given >= _min_labels_per_worker(labels)
    kept[np.argsort(-given, kind="stable")[most:]] = False
    return labels.keep(kept[labels.worker])


def _drop_rare_workers(labels: CrowdLabels) -> CrowdLabels:
    given = np.bincount(labels.worker, minlength=labels.n_workers)
    return labels.keep((given >= _min_labels_per_worker(labels))[labels.worker])


def _sample_tasks(labels: CrowdLabels, generator: np.random.Generator) -> CrowdLabels:
    """Tasks with several labels, drawn at random, as many as the limits allow; only workers who label them."""
    size = labels.labels_per_task.astype(np.int64)
    order = generator.permutation(np.flatnonzero(size > 1))
    cells = np.cumsum(size[order] * (size[order] - 1) // 2) * labels.n_classes**2
    few = min(np.searchsorted(cells, MOST_CELLS), np.searchsorted(np.cumsum(size[order]), MOST_LABELS))
    edges = np.isin(labels.task, order[: int(few) + 1])
    task, worker = (np.unique(codes[edges], return_inverse=True)[1] for codes in (labels.task, labels.worker))
    return CrowdLabels.from_codes(
        task, worker, labels.label[edges],
        tasks=int(task.max(initial=-1)) + 1, workers=int(worker.max(initial=-1)) + 1, classes=labels.n_classes,
        on_duplicate="all",
    )  # fmt: skip
