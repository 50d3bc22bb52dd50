"""Whether accelerated EM pays: plain EM of Dawid–Skene against SQUAREM on real crowds, by passes and objective.

    CROWDWISE_DATA=… python benchmarks/accelerated_em.py [TOL]    # gain per label at which to stop; 1e-6, the default

SQUAREM (Varadhan and Roland 2008, "Simple and globally convergent methods for accelerating the convergence of any EM
algorithm", scheme S3): from parameters x0 and two EM steps x1, x2, with r = x1 - x0, v = x2 - x1 - r, a = |r| / |v|, go
on from x0 + 2 a r + a² v if the objective there is no lower than at x1, and from x2 otherwise. Parameters are
logarithms of probabilities, normalised anew; cells that are 0 stay as EM has them, and |·| weighs cells by their
probability.
A pass is an E-step over all labels, also one that is refused. Both stop at the same gain of one EM step.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from crowdwise.aggregate.dawid_skene import log_density, m_step
from crowdwise.datasets import load
from crowdwise.engines import prepare
from crowdwise.fitting.categorical_em import ConfusionParameters

CROWDS = ("rte", "temp", "dog", "bluebird", "web", "sp")
FIRST_LONGEST, GROWTH = 4.0, 4.0  # of a, which grows where it is reached and falls where it is refused

Step = Callable[[ConfusionParameters], tuple[float, ConfusionParameters]]


def climb_plainly(start: ConfusionParameters, step: Step, tol: float) -> float:
    value, following = step(start)
    while True:
        before = value
        value, following = step(following)
        if value - before <= tol:
            return value


def climb_faster(start: ConfusionParameters, step: Step, tol: float) -> float:
    longest = FIRST_LONGEST
    first, (value, second) = start, step(start)
    while True:
        next_value, third = step(second)
        if next_value - value <= tol:
            return next_value
        found, length = extrapolate(first, second, third, longest)
        if length > 1:
            far_value, far_next = step(found)
            if far_value >= next_value:
                longest *= GROWTH if length == longest else 1
                first, value, second = found, far_value, far_next
                continue
            longest = max(longest / GROWTH, FIRST_LONGEST)
        first, (value, second) = third, step(third)
        if value - next_value <= tol:
            return value


def extrapolate(
    first: ConfusionParameters, second: ConfusionParameters, third: ConfusionParameters, longest: float
) -> tuple[ConfusionParameters, float]:
    x0, x1, x2 = (np.concatenate([each.log_prior, each.log_table.ravel()]) for each in (first, second, third))
    with np.errstate(invalid="ignore"):
        r = x1 - x0
        v = x2 - x1 - r
    finite = np.isfinite(v)
    r, v, weight = np.where(finite, r, 0), np.where(finite, v, 0), np.exp(x2)
    size = float(np.sqrt(weight @ v**2))
    length = min(float(np.sqrt(weight @ r**2)) / size, longest) if size > 0 else 1.0
    if length <= 1:
        return third, 1.0
    x = np.where(finite, x0 + 2 * length * r + length**2 * v, x2)
    n_classes = first.log_prior.size
    prior, table = x[:n_classes], x[n_classes:].reshape(first.log_table.shape)
    table = table - np.logaddexp.reduce(table, axis=2, keepdims=True)
    return ConfusionParameters(prior - np.logaddexp.reduce(prior), table), length


def main() -> None:
    tol = float(sys.argv[1]) if len(sys.argv) > 1 else 1e-6
    print("crowd      labels  smoothing  plain: passes    ms  SQUAREM: passes    ms  gain per label")
    for name in CROWDS:
        labels = load(name).labels
        prepared = prepare(labels)
        for smoothing in (0.0, 1.0):
            pseudo = np.full((1, labels.n_classes, labels.n_classes), smoothing)
            start = m_step(prepared.count_against_vote_shares(labels.class_shares), pseudo)
            passes = 0

            def step(
                parameters: ConfusionParameters, pseudo: np.ndarray = pseudo, prepared: object = prepared
            ) -> tuple[float, ConfusionParameters]:
                nonlocal passes
                passes += 1
                found = prepared.e_step(parameters.log_prior, parameters.log_table)
                return found.log_likelihood + log_density(parameters, pseudo), m_step(found, pseudo)

            row = []
            for climb in (climb_plainly, climb_faster):
                best = np.inf
                for _ in range(5):
                    passes, began = 0, time.process_time()
                    reached = climb(start, step, tol * labels.n_labels)
                    best = min(best, time.process_time() - began)
                row.append((passes, 1e3 * best, reached))
            (plain, plain_ms, low), (fast, fast_ms, high) = row
            print(
                f"{name:9}{labels.n_labels:>8,}{smoothing:>11}{plain:>15}{plain_ms:>6.1f}{fast:>17}{fast_ms:>6.1f}"
                f"{(high - low) / labels.n_labels:>+16.1e}",
                flush=True,
            )


if __name__ == "__main__":
    main()
