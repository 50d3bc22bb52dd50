"""Values from the covariance of workers: one factor that all share, and noise of their own.

The generative story. A task has a value f, in units of its standard deviation. Worker w says μ[w] + v[w] f and noise of
variance d[w]. Two workers whose noise is independent then have the covariance v[i] v[j], whatever their noise: the
covariance of workers is rank one off its diagonal. A few pairs whose noise is not independent (who copy, or work
together) are far from it, and are given less weight. The diagonal tells the noise, d = variance - v².

Y. Tenzer, O. Dror, B. Nadler, E. Bilal and Y. Kluger (2022), "Crowdsourcing regression: a spectral approach", AISTATS.

| equation | here |
|---|---|
| covariance of two workers over the tasks they share | `answer_covariances` |
| C[i,j] = v[i] v[j] for i ≠ j | `fit_factor`, by `fitting.rank_one.ProjectedGradientDescent` |
| pairs that do not fit are weighed down | `fit_factor`: Huber's weights of the residuals |
| best linear weights v / d | `infer_values` |

An iteration costs O(pairs of workers who share a task).

Departures: the paper has everybody answer everything; here pairs weigh as many tasks as they share. It takes the
leading eigenvector of a matrix whose diagonal is filled in; the descent fits the entries that there are. The noise of a
worker with few answers is drawn towards that of all. Plain values alone: each of several coordinates has a factor of
its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, triu

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.fitting.rank_one import PairValues, ProjectedGradientDescent, equal_starting_skills, majority_signs
from crowdwise.kinds.model import Found
from crowdwise.kinds.values.model import ValueModel, WorkerLines, infer_values
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from crowdwise.kinds.values.answers import Values
    from crowdwise.labels.types import FloatArray

__all__ = ["MomentValues"]

ROUNDS = 10  # of weights for pairs that do not fit
HUBER = 1.345  # residuals beyond so many of their usual size count less
LEAST_NOISE = 0.01  # share of a worker's variance that is noise at least


def answer_covariances(answers: Values, centred: FloatArray) -> PairValues:
    """Covariance of every two workers' answers over the tasks that they share, weighed by their number."""
    shape = answers.n_tasks, answers.n_workers
    cells: Any = (answers.task, answers.worker)
    said, asked = csr_array((centred, cells), shape=shape), csr_array((np.ones(centred.size), cells), shape=shape)
    shared = triu(asked.T @ asked, 1).tocoo()
    products = (said.T @ said).tocsr()
    first, second = shared.row.astype(np.int64), shared.col.astype(np.int64)
    sums = np.asarray(products[first, second]).ravel()
    return PairValues(first, second, sums / shared.data, shared.data.astype(np.float64), answers.n_workers)


def fit_factor(pairs: PairValues, *, max_iter: int, tol: float) -> tuple[FloatArray, int, bool]:
    """The vector v (M,) whose products fit most covariances best; steps, and whether it came to rest.

    Residuals of a pair with n shared tasks have a standard deviation of about 1/√n of some size common to all.
    """
    largest = float(np.sqrt(np.abs(pairs.value).max(initial=0.0)))
    vector, trust = equal_starting_skills(pairs), np.ones(pairs.value.size)
    if largest <= 0:
        return np.zeros(pairs.n_workers), 1, True
    vector = np.where(pairs.has_partner, np.minimum(vector, 2 * largest), 0.0)
    for _ in range(ROUNDS):
        trusted = PairValues(pairs.first, pairs.second, pairs.value, pairs.weight * trust, pairs.n_workers)
        descent = ProjectedGradientDescent(trusted, low=-10 * largest, high=10 * largest)
        vector, n_iter, ended = descent.run(vector, max_iter=max_iter, tol=tol)
        rest = np.abs(pairs.value - vector[pairs.first] * vector[pairs.second]) * np.sqrt(pairs.weight)
        usual = float(np.median(rest)) / 0.6745  # the standard deviation of a normal with this median
        if usual <= 0:
            break
        trust = np.minimum(1.0, HUBER * usual / np.maximum(rest, 1e-300))
    return vector * majority_signs(vector, pairs.parts()), n_iter, ended


@estimator
class MomentValues(ValueModel):
    """Consensus of values with weights from the covariance of workers, steady where some pairs of them depend.

    Facts
    -----
    Assumes: what two workers have in common is the truth, but for a few pairs; workers met tasks that are alike
    Fails with: workers who share few tasks, large groups who work together
    Cost: O(pairs of workers who share a task) an iteration
    Paper: Tenzer et al. 2022, AISTATS

    Parameters
    ----------
    strength : float, above 0
        How many answers of a common worker count beside a worker's own in the variance of their noise.
    max_iter : int
        Most steps of each of the ten descents.
    tol : float
        A descent stops when no entry of v moves by more than this share of the largest.

    Notes
    -----
    Needs answers that are repeated neither by a worker nor by task, and workers who share tasks; who shares with nobody
    counts as the average worker.
    """

    slug = "moments"

    strength: float = 4.0
    max_iter: int = 1000
    tol: float = 1e-9

    def _check(self) -> None:
        check_number("strength", self.strength, low=0, above=True)

    def _fit(self, answers: Values, gold: FloatArray | None) -> Found:  # noqa: ARG002
        parts = [self._fit_coordinate(answers, column) for column in answers.value.T]
        arrays = {name: np.column_stack([part[0][name] for part in parts]) for name in parts[0][0]}
        noise = arrays.pop("noise").mean(axis=1)
        mean = arrays["prior_mean"].ravel()
        arrays |= {
            "worker_error": np.sqrt(noise),
            "freedom": np.maximum(answers.answers_per_worker - 2.0, 0.0),
            "prior_mean": mean,
            "prior_variance": arrays["prior_variance"].ravel(),
        }
        lines = WorkerLines(arrays["worker_scale"], arrays["worker_bias"], noise)
        value, variance = infer_values(answers, answers.worker, lines, mean, arrays["prior_variance"])
        arrays |= {"value": value, "variance": variance}
        return Found(arrays, n_iter=max(part[1] for part in parts), converged=all(part[2] for part in parts))

    def _fit_coordinate(self, answers: Values, said: FloatArray) -> tuple[dict[str, FloatArray], int, bool]:
        """Line and noise of every worker for one coordinate, on the scale of the average answer."""
        counts = np.maximum(answers.answers_per_worker, 1).astype(np.float64)
        means = np.bincount(answers.worker, said, answers.n_workers) / counts
        centred = said - means[answers.worker]
        pairs = answer_covariances(answers, centred)
        if not pairs.value.size:
            raise InputError("No two workers answered the same task: moments has nothing to compare. Use mean.")
        vector, n_iter, ended = fit_factor(pairs, max_iter=self.max_iter, tol=self.tol)
        variance = np.bincount(answers.worker, centred**2, answers.n_workers) / counts
        given = answers.answers_per_worker.astype(np.float64)
        told = pairs.has_partner
        typical = float(np.average(vector[told], weights=given[told]))
        if typical <= 0:  # they have nothing in common that could be told from noise
            typical = float(np.sqrt(max(np.average(variance, weights=given), 1e-200)))
            vector = np.full(answers.n_workers, typical)
        vector = np.where(told, vector, typical)
        whole = max(float(np.average(variance, weights=given)), 1e-200)
        own = np.maximum(variance - vector**2, LEAST_NOISE * np.maximum(variance, whole))
        common = float(np.average(own, weights=given))
        noise = (given * own + self.strength * common) / (given + self.strength)
        mean = float(np.average(means, weights=given))
        scale = vector / typical
        bias = np.where(given > 0, means, mean) - scale * mean
        return (
            {
                "worker_scale": scale,
                "worker_bias": bias,
                "noise": noise,
                "prior_mean": np.array([mean]),
                "prior_variance": np.array([typical**2]),
            },
            n_iter,
            ended,
        )
