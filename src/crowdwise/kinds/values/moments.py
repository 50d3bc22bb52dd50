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
| best linear weights v / d | `known_workers.infer_values` |
| biases and entries of v are drawn towards those of all, by how exactly they are known | `shrink` |

An iteration costs O(pairs of workers who share a task).

Departures: the paper has everybody answer everything; here pairs weigh as many tasks as they share. It takes the
leading eigenvector of a matrix whose diagonal is filled in; the descent fits the entries that there are. Workers who
share few tasks have covariances that say little: their biases, entries of v and noise are drawn towards those of all
(R. DerSimonian and N. Laird 1986, "Meta-analysis in clinical trials"), and what is left unknown of them widens the
intervals. Each of several coordinates has a factor of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, triu

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.rank_one import PairValues
from crowdwise.kinds.model import Found
from crowdwise.kinds.values.known_workers import KnownLineModel, KnownWorkers, as_arrays, infer_values
from crowdwise.kinds.values.line_posteriors import LinePosterior
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from crowdwise.kinds.values.answers import Values
    from crowdwise.labels.types import FloatArray

__all__ = ["MomentValues"]

HUBER = 1.345  # residuals beyond so many of their usual size count less
NEARLY_NORMAL = 20  # shared tasks from which a covariance is judged: of fewer it is skew, and most are below their mean
NOTHING = 1e-9  # share of the variance below which noise is rounding
TINY = 1e-60  # variance of answers that are all the same: powers of it are above 0
LEAST_NOISE = 0.05  # share of the usual noise that any worker has at least


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


class Factor(NamedTuple):
    """The vector v (M,) whose products fit most covariances, its variances, its mean entry, and how the fit went."""

    vector: FloatArray
    variance: FloatArray
    typical: float
    n_iter: int
    ended: bool


def fit_factor(pairs: PairValues, given: FloatArray, whole: float, *, max_iter: int, tol: float) -> Factor:
    """Fit v[i] v[j] to the covariances: each entry by regression on the others, entries being normal about their mean.

    Residuals of a pair with n shared tasks have a standard deviation of about 1/√n of some size common to all. The mean
    entry is the root of the mean covariance, and the variance about it what makes the entries most probable (EM). The
    covariances of one worker share their answers: were all others exact, v[i] would still be the mean of as many
    products as the worker gave answers (`given`), of answers whose variance is `whole`.
    """
    typical = float(np.sqrt(max(np.average(pairs.value, weights=pairs.weight), 0.0)))
    vector, trust = np.full(pairs.n_workers, typical), np.ones(pairs.value.size)
    between, variance = typical**2 / 4, np.zeros(pairs.n_workers)
    if typical <= 0:
        return Factor(vector, variance, 0.0, 1, True)
    many = pairs.weight >= NEARLY_NORMAL
    most = given / (whole + typical**2)
    n_iter, ended = 0, False
    while not ended and n_iter < max_iter:
        n_iter += 1
        rest = np.abs(pairs.value - vector[pairs.first] * vector[pairs.second]) * np.sqrt(pairs.weight)
        # The standard deviation of a normal with this median, where covariances are near to normal.
        usual = float(np.median(rest[many])) / 0.6745 if many.any() else float(np.sqrt((rest**2).mean()))
        usual = max(usual, NOTHING * typical**2)
        trust = np.where(many, np.minimum(1.0, HUBER * usual / np.maximum(rest, 1e-300)), 1.0)
        weight = pairs.weight * trust / usual**2
        told = pairs.matrix(weight) @ vector**2
        regressed = (pairs.matrix(weight * pairs.value) @ vector) / np.maximum(told, 1e-300)
        told = np.minimum(told, most)
        variance = 1 / (told + 1 / between)
        following = variance * (told * regressed + typical / between)
        moved = float(np.abs(following - vector).max())
        vector = (vector + following) / 2  # half a step: entries of whole steps may swing about each other
        between = max(float(((vector - typical) ** 2 + variance).mean()), NOTHING * typical**2)
        ended = moved <= tol * typical
    return Factor(vector, variance, typical, n_iter, ended)


def shrink(found: FloatArray, variance: FloatArray, centre: float) -> tuple[FloatArray, FloatArray]:
    """Estimates (M,) of these sampling variances drawn towards a centre, and their variances after that.

    The variance between workers is what the estimates have beyond their sampling variances (DerSimonian and Laird).
    """
    told = np.isfinite(variance)
    weight = 1 / variance[told]
    apart = (found[told] - centre) ** 2
    free = weight.sum() - (weight**2).sum() / max(weight.sum(), 1e-300)
    between = max(((weight * apart).sum() - (told.sum() - 1)) / free, 0.0) if free > 0 else 0.0
    share = np.zeros(found.size)
    share[told] = between / (between + variance[told]) if between > 0 else 0.0
    return centre + share * (found - centre), (1 - share) * between


@estimator
class MomentValues(KnownLineModel):
    """Consensus of values with weights from the covariance of workers, steady where some pairs of them depend.

    Facts
    -----
    Assumes: what two workers have in common is the truth, but for a few pairs; workers met tasks that are alike
    Fails with: workers who share few tasks, large groups who work together
    Cost: O(pairs of workers who share a task) an iteration
    Paper: Tenzer et al. 2022, AISTATS

    Parameters
    ----------
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

    max_iter: int = 1000
    tol: float = 1e-9

    def _fit(self, answers: Values, gold: FloatArray | None) -> Found:  # noqa: ARG002
        parts = [self._fit_coordinate(answers, column) for column in answers.value.T]
        columns = {name: np.column_stack([part[0][name] for part in parts]) for name in parts[0][0]}
        centre, spread = columns["centre"].ravel(), columns["spread"].ravel()
        number = max(int((answers.answers_per_worker > 0).sum()), 2)
        known = KnownWorkers(
            LinePosterior(
                columns["scale"], columns["bias"], columns["scale_variance"], columns["bias_variance"],
                np.zeros_like(columns["scale"]),
            ),
            columns["noise"].mean(axis=1),
            np.maximum(columns["freedom"].sum(axis=1), 2.0),
            centre, centre, spread,
            # Means over workers have one share of their variance.
            (columns["bias"].var(axis=0) + columns["bias_variance"].mean(axis=0)) / (number - 1),
            (columns["scale"].var(axis=0) + columns["scale_variance"].mean(axis=0)) / (number - 1),
            np.inf,
        )  # fmt: skip
        value, variance = infer_values(answers, answers.worker, known)
        arrays = as_arrays(known) | {"value": value, "variance": variance}
        return Found(arrays, n_iter=max(part[1] for part in parts), converged=all(part[2] for part in parts))

    def _fit_coordinate(self, answers: Values, said: FloatArray) -> tuple[dict[str, FloatArray], int, bool]:
        """Line and noise of every worker for one coordinate, on the scale of the average answer."""
        # In units of about their standard deviation, so that no power of them is lost; powers of two are exact.
        unit = float(np.exp2(np.round(np.log2(said.std())))) if said.std() > 0 else 1.0
        said = said / unit
        given = answers.answers_per_worker.astype(np.float64)
        counts = np.maximum(given, 1)
        centre = float(said.mean())
        means = np.bincount(answers.worker, said, answers.n_workers) / counts - centre
        within = float(((said - centre - means[answers.worker]) ** 2).sum() / max(said.size - (given > 0).sum(), 1))
        whole = max(within, NOTHING * float(said.var()), TINY)
        bias, bias_variance = shrink(np.where(given > 0, means, 0.0), np.where(given > 0, whole / counts, np.inf), 0.0)
        centred = said - centre - bias[answers.worker]
        pairs = answer_covariances(answers, centred)
        if not pairs.value.size:
            raise InputError("No two workers answered the same task: moments has nothing to compare. Use mean.")
        factor = fit_factor(pairs, given, whole, max_iter=self.max_iter, tol=self.tol)
        vector, vector_variance, typical = factor.vector, factor.variance, factor.typical
        if typical**2 <= LEAST_NOISE * whole:  # they have nothing in common that could be told from noise
            typical = float(np.sqrt(whole / 2))
            vector, vector_variance = np.full(answers.n_workers, typical), np.zeros(answers.n_workers)
        # A variance of n answers has itself the variance 2/n of its square; the usual one, lest small ones look exact.
        noise = np.bincount(answers.worker, centred**2, answers.n_workers) / counts - vector**2
        common = max(float(np.average(noise, weights=given)), LEAST_NOISE * whole)
        uncertain = 2 * (common + vector**2) ** 2 / counts + 4 * vector**2 * vector_variance
        noise, noise_variance = shrink(noise, np.where(given > 0, uncertain, np.inf), common)
        noise = np.maximum(noise, LEAST_NOISE * common)
        return (
            {
                "scale": vector / typical,
                "scale_variance": vector_variance / typical**2,
                "bias": bias * unit,
                "bias_variance": bias_variance * unit**2,
                "noise": noise * unit**2,
                "freedom": 2 * noise**2 / np.maximum(noise_variance, noise**2 / np.maximum(given, 4) * 2),
                "centre": np.array([centre * unit]),
                "spread": np.array([(typical * unit) ** 2]),
            },
            factor.n_iter,
            factor.ended,
        )
