"""Values: posteriors against dense formulas, the bound against its definition, steps against finite differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import digamma
from scipy.stats import gamma, multivariate_normal, norm

from crowdwise.kernels import use_threads
from crowdwise.kernels.value_sums import UncertainLines, ValueEdges, value_pass, value_uncertainty
from crowdwise.kinds import Values, read_values, simulate_values
from crowdwise.kinds.values import (
    GaussianValues,
    Mean,
    Median,
    MomentValues,
    StandardisedMean,
    StudentValues,
    TrimmedMean,
    gaussian,
    score_values,
)
from crowdwise.kinds.values.first_beliefs import lay_out, start
from crowdwise.kinds.values.known_workers import KnownWorkers, infer_values
from crowdwise.kinds.values.line_posteriors import (
    VALUE_TASKS,
    Beliefs,
    Crowd,
    GammaShapes,
    LinePosterior,
    evidence_lower_bound,
    expect_values,
    improve,
    worker_sums,
)
from crowdwise.labels.engine_choice import use_engine
from crowdwise.labels.errors import InputError

EVERY = pytest.mark.parametrize("model", [Mean, Median, TrimmedMean, StandardisedMean, GaussianValues, StudentValues])


def some_values(n_coordinates: int = 1, seed: int = 0) -> Values:
    """Five tasks, one of them without an answer, and four workers."""
    generator = np.random.default_rng(seed)
    task, worker = np.nonzero(generator.random((5, 4)) < 0.8)
    kept = task != 3
    said = generator.normal(2, 3, (int(kept.sum()), n_coordinates))
    names = ("value",) if n_coordinates == 1 else tuple(f"x{place}" for place in range(n_coordinates))
    return Values.from_codes(task[kept], worker[kept], said, tasks=5, workers=4, coordinates=names)


def dense_parts(values: Values, scale: np.ndarray, place: int) -> np.ndarray:
    """The matrix (n_answers, N) by which answers depend on values."""
    design = np.zeros((values.n_answers, values.n_tasks))
    design[np.arange(values.n_answers), values.task] = scale[values.worker, place]
    return design


# ---- the posterior of values --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_coordinates", [1, 3])
def test_the_posterior_equals_a_dense_solve_of_the_joint_normal(n_coordinates: int) -> None:
    values = some_values(n_coordinates)
    generator = np.random.default_rng(1)
    shape = values.n_workers, n_coordinates
    scale, bias = generator.normal(1, 0.4, shape), generator.normal(0, 2, shape)
    variance, nothing = generator.uniform(0.5, 4, values.n_workers), np.zeros(shape)
    mean, spread = generator.normal(size=n_coordinates), generator.uniform(1, 5, n_coordinates)
    zero = np.zeros(n_coordinates)
    known = KnownWorkers(
        LinePosterior(scale, bias, nothing, nothing, nothing), variance, np.full(values.n_workers, 1e18), zero, mean,
        spread, zero, zero, np.inf,
    )  # fmt: skip
    found, variances = infer_values(values, values.worker, known)
    for place in range(n_coordinates):
        design = dense_parts(values, scale, place)
        noise = np.diag(1 / variance[values.worker])
        precision = design.T @ noise @ design + np.eye(values.n_tasks) / spread[place]
        right = design.T @ noise @ (values.value[:, place] - bias[values.worker, place]) + mean[place] / spread[place]
        np.testing.assert_allclose(found[:, place], np.linalg.solve(precision, right), atol=1e-10)
        np.testing.assert_allclose(variances[:, place], np.diag(np.linalg.inv(precision)), atol=1e-10)


def test_the_bound_is_the_density_of_the_answers_where_workers_are_known() -> None:
    values = some_values()
    crowd, units = lay_out(values, None, "none")
    known = start(crowd, 1e6)
    # Precisions whose posterior is their prior, which is all but a point: nothing is lost by it.
    half, noise, spread = 5e5, known.priors.noise, known.priors.spread[0]
    known = replace(known, shapes=GammaShapes.of(2 * half, np.zeros(4)), rate=np.full(4, half * noise))
    found = evidence_lower_bound(crowd, known, expect_values(crowd, known), worker_sums(crowd, known))
    found += half * (np.log(noise) + crowd.usual_noise / noise) + 0.5 * VALUE_TASKS * (np.log(spread) + 1 / spread)
    said = (values.value[:, 0] - units.centre[0]) / units.size
    design = dense_parts(values, np.ones((4, 1)), 0)
    covariance = spread * design @ design.T + noise * np.eye(values.n_answers)
    expected = multivariate_normal.logpdf(said, design @ np.full(5, known.priors.mean[0]), covariance)
    assert found == pytest.approx(expected, abs=1e-4)


def settled(
    n_coordinates: int = 1, *, gold: bool = False, student: bool = False, steps: int = 3
) -> tuple[Crowd, Beliefs]:
    """A crowd and its posteriors after some steps."""
    values = some_values(n_coordinates)
    known = None
    if gold:
        known = np.full((5, n_coordinates), np.nan)
        known[:2] = 1.0
    crowd, _ = lay_out(values, known, "scale")
    now = start(crowd, 4.0, 4.0 if student else np.inf)
    for _ in range(steps):
        now = improve(crowd, now, expect_values(crowd, now), worker_sums(crowd, now))
    return crowd, now


@pytest.mark.parametrize("student", [False, True])
def test_the_bound_is_the_expected_log_ratio(student: bool) -> None:
    crowd, now = settled(student=student)
    passes, own = expect_values(crowd, now), worker_sums(crowd, now)
    generator, draws = np.random.default_rng(0), 100_000
    edges, priors, lines = crowd.edges[0], now.priors, now.lines
    total = np.zeros(draws)
    value = np.empty((draws, 5))
    for task in (0, 1, 2, 4):
        law = norm(passes[0].mean[task], np.sqrt(passes[0].variance[task]))
        value[:, task] = law.rvs(draws, random_state=generator)
        total += norm.logpdf(value[:, task], priors.mean[0], np.sqrt(priors.spread[0])) - law.logpdf(value[:, task])
    line, precision = np.empty((draws, 4, 2)), np.empty((draws, 4))
    for worker in range(4):
        covariance = np.array(
            [[lines.scale_variance[worker, 0], lines.covariance[worker, 0]],
             [lines.covariance[worker, 0], lines.bias_variance[worker, 0]]]
        )  # fmt: skip
        law = multivariate_normal([lines.scale[worker, 0], lines.bias[worker, 0]], covariance)
        line[:, worker] = law.rvs(draws, random_state=generator)
        prior = multivariate_normal([1, 0], np.diag([priors.scale_variance[0], priors.bias_variance[0]]))
        total += prior.logpdf(line[:, worker]) - law.logpdf(line[:, worker])
        own_law = gamma(now.shapes.shape[worker], scale=1 / now.rate[worker])
        precision[:, worker] = own_law.rvs(draws, random_state=generator)
        half = priors.strength / 2
        total += gamma(half, scale=1 / (half * priors.noise)).logpdf(precision[:, worker])
        total -= own_law.logpdf(precision[:, worker])
    for edge, (task, worker) in enumerate(zip(edges.task, edges.worker, strict=True)):
        weight = np.ones(draws)
        if now.weight_rate is not None:
            law = gamma(now.weight_shape, scale=1 / now.weight_rate[edge])
            weight = law.rvs(draws, random_state=generator)
            total += gamma(priors.freedom / 2, scale=2 / priors.freedom).logpdf(weight) - law.logpdf(weight)
        mean = line[:, worker, 0] * value[:, task] + line[:, worker, 1]
        total += norm.logpdf(edges.value[edge], mean, 1 / np.sqrt(weight * precision[:, worker]))
    total -= 0.5 * VALUE_TASKS * (np.log(priors.spread[0]) + 1 / priors.spread[0])
    total -= 2.0 * (np.log(priors.noise) + crowd.usual_noise / priors.noise)
    total -= 0.5 * (np.log(priors.scale_variance[0]) + 0.1 / priors.scale_variance[0])
    total -= 0.5 * (np.log(priors.bias_variance[0]) + crowd.usual_noise / 4 / priors.bias_variance[0])
    error = total.std() / np.sqrt(draws)
    assert abs(evidence_lower_bound(crowd, now, passes, own) - total.mean()) < 5 * error + 1e-3


# ---- the steps ----------------------------------------------------------------------------------------------


def slope(crowd: Crowd, now: Beliefs, part: str, place: tuple[int, ...], passes: list, own: np.ndarray) -> float:
    """Derivative of the bound by one number of the lines, the rates or the priors."""
    group, _, name = part.rpartition(".")

    def at(step: float) -> float:
        holder = getattr(now, group) if group else now
        values = np.array(getattr(holder, name), np.float64)
        values[place] += step
        if isinstance(holder, LinePosterior):
            return evidence_lower_bound(crowd, replace(now, lines=holder._replace(**{name: values})), passes, own)
        changed = values if values.ndim else float(values)
        if holder is now:
            return evidence_lower_bound(crowd, replace(now, **{name: changed}), passes, own)
        return evidence_lower_bound(crowd, replace(now, priors=replace(now.priors, **{name: changed})), passes, own)

    return (at(1e-5) - at(-1e-5)) / 2e-5


@pytest.mark.parametrize("student", [False, True])
@pytest.mark.parametrize("n_coordinates", [1, 2])
def test_steps_are_where_the_bound_is_flat(n_coordinates: int, student: bool) -> None:
    crowd, before = settled(n_coordinates, gold=True, student=student, steps=4)
    passes, own = expect_values(crowd, before), worker_sums(crowd, before)
    now = improve(crowd, before, passes, own)
    own = own if not student else worker_sums(crowd, now)
    # Values known: no change of units. Priors follow everything else, so their slopes are taken at the end.
    for name in ("mean", "spread", "scale_variance", "bias_variance"):
        for place in range(n_coordinates):
            assert abs(slope(crowd, now, f"priors.{name}", (place,), passes, own)) < 1e-4, name
    assert abs(slope(crowd, now, "priors.noise", (), passes, own)) < 1e-4
    # Lines and noise are found with the priors (and weights) that there were before.
    old = worker_sums(crowd, before)
    then = replace(now, priors=before.priors, weight_rate=before.weight_rate, weight_shape=before.weight_shape)
    for worker in range(4):
        assert abs(slope(crowd, then, "rate", (worker,), passes, old)) < 1e-4
        at_lines = replace(then, rate=before.rate)
        for name in LinePosterior._fields:
            assert abs(slope(crowd, at_lines, f"lines.{name}", (worker, 0), passes, old)) < 1e-3, name


@pytest.mark.parametrize("model", [GaussianValues, StudentValues])
@pytest.mark.parametrize("lines", ["none", "bias", "scale"])
def test_the_bound_never_falls(model: type, lines: str) -> None:
    for seed in range(3):
        answers = simulate_values(30, 8, scale=0.3, bias=8.0, random_state=seed).answers
        climbed = model(lines=lines, strength=4.0, tol=1e-9, max_iter=300).fit(answers).objective_
        assert (np.diff(climbed) >= -1e-8 * np.abs(climbed[1:])).all()


def test_degrees_of_freedom_of_the_noise_are_found() -> None:
    generator = np.random.default_rng(0)
    true = generator.normal(0, 3, 800)
    task, worker = np.repeat(np.arange(800), 10), np.tile(np.arange(10), 800)
    normal, heavy = generator.normal(size=task.size), generator.standard_t(4, task.size)
    fits = [
        StudentValues(strength=16.0, lines="none").fit(
            Values.from_codes(task, worker, true[task] + noise, tasks=800, workers=10)
        )
        for noise in (normal, heavy)
    ]
    assert fits[0].noise_freedom_ > 30
    assert 3 <= fits[1].noise_freedom_ < 6


# ---- kernels ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_gold", [False, True])
def test_both_engines_make_the_same_pass(with_gold: bool) -> None:
    values = simulate_values(3000, 70, answers_per_task=7, random_state=1).answers
    generator = np.random.default_rng(0)
    known = np.where(generator.random(3000) < 0.1, 3.0, np.nan) if with_gold else np.empty(0)
    edges = ValueEdges(values.task_ptr, values.task, values.worker, values.value[:, 0] / 20, known)
    table = generator.uniform(0.5, 2, (70, 3))
    lines = UncertainLines(*generator.uniform(0.1, 2, (7, 70)))
    found = []
    for engine, threads in (("numpy", 1), ("numba", 1), ("numba", 2)):
        with use_engine(engine), use_threads(threads):
            each = value_pass(edges, table, 0.3, 2.0, None)
            found.append((*each, value_uncertainty(edges, lines, each.mean, each.variance, None)))
    for one, other, threaded in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-11, atol=1e-9)
        np.testing.assert_array_equal(other, threaded)


# ---- what the methods promise -------------------------------------------------------------------------------


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    settings = ({}, {"scale": 0.3, "bias": 10.0}, {"n_tasks": 150, "n_workers": 50, "answers_per_task": 3})
    for setting in settings:
        crowds = [simulate_values(random_state=seed, **setting) for seed in range(8)]
        scores = [score_values(GaussianValues(strength=4.0).fit(crowd.answers), crowd.truth) for crowd in crowds]
        assert 0.84 <= np.mean([each["coverage"] for each in scores]) <= 0.95
        plain = [score_values(Mean().fit(crowd.answers), crowd.truth)["pearson"] for crowd in crowds]
        assert np.mean([each["pearson"] for each in scores]) > np.mean(plain)


def test_moments_recover_planted_variances_and_mistrust_dependent_pairs() -> None:
    generator = np.random.default_rng(3)
    n_tasks, n_workers = 3000, 12
    true, error = generator.normal(50, 20, n_tasks), generator.uniform(5, 30, n_workers)
    noise = generator.normal(size=(n_tasks, n_workers))
    noise[:, 1] = 0.8 * noise[:, 0] + 0.6 * noise[:, 1]
    noise[:, 5] = 0.8 * noise[:, 4] + 0.6 * noise[:, 5]
    said = true[:, None] + noise * error
    task, worker = np.repeat(np.arange(n_tasks), n_workers), np.tile(np.arange(n_workers), n_tasks)
    answers = Values.from_codes(task, worker, said.ravel(), tasks=n_tasks, workers=n_workers)
    model = MomentValues().fit(answers)
    np.testing.assert_allclose(model.worker_error_, error, rtol=0.12)
    assert np.sqrt(model.prior_variance_[0]) == pytest.approx(20, rel=0.05)
    weights = 1 / error**2
    oracle = (said @ weights + 50 / 400) / (weights.sum() + 1 / 400)
    off, best = (np.sqrt(((found - true) ** 2).mean()) for found in (model.value_[:, 0], oracle))
    assert off < 1.05 * best


def test_moments_need_workers_who_share_tasks() -> None:
    with pytest.raises(InputError, match="No two workers answered the same task"):
        MomentValues().fit({"task": [1, 2], "worker": ["a", "b"], "value": [1.0, 2.0]})


@pytest.mark.parametrize("model", [GaussianValues, StudentValues])
def test_known_values_are_kept_and_fix_the_units(model: type) -> None:
    crowd = simulate_values(100, 12, random_state=2)
    answers = replace(crowd.answers, value=crowd.answers.value + 15)
    gold = dict(zip(range(40), crowd.value[:40].tolist(), strict=True))
    table = model(strength=4.0).fit(answers, gold=gold).consensus()
    found, low, high = (table[name].to_numpy() for name in ("value", "low", "high"))
    np.testing.assert_allclose(found[:40], crowd.value[:40], atol=1e-8)
    np.testing.assert_allclose(low[:40], high[:40], atol=1e-6)
    without = model(strength=4.0).fit(answers).value_[40:, 0]
    assert abs((found[40:] - crowd.value[40:]).mean()) < 4 < abs((without - crowd.value[40:]).mean())
    with pytest.raises(InputError, match="about other tasks"):
        model().fit(answers, gold={"nobody": 1.0})
    with pytest.raises(InputError, match="mean has no use for gold"):
        Mean().fit(answers, gold=gold)


def test_new_tasks_by_known_and_unknown_workers() -> None:
    crowd = simulate_values(200, 10, answers_per_task=6, error=(2.0, 30.0), random_state=4)
    model = GaussianValues(strength=4.0).fit(crowd.answers)
    best, worst = (int(pick(crowd.error)) for pick in (np.argmin, np.argmax))
    new = read_values({"task": ["a", "b", "c"], "worker": [best, worst, 99], "value": [80.0, 80.0, 80.0]})
    table = model.predict(new).to_pydict()
    width = np.array(table["high"]) - np.array(table["low"])
    assert width[0] < width[2] < 1.2 * width[1]
    assert table["value"][0] == pytest.approx(80, abs=4)
    assert abs(table["value"][1] - model.prior_mean_[0]) < abs(table["value"][0] - model.prior_mean_[0])
    assert model.log_density(new).shape == (3,)
    again = model.predict(crowd.answers)
    np.testing.assert_allclose(again["value"].to_numpy(), model.value_[:, 0], rtol=1e-10)


@EVERY
def test_several_coordinates(model: type) -> None:
    generator = np.random.default_rng(0)
    true = generator.normal(0, 10, (40, 2))
    task, worker = np.repeat(np.arange(40), 5), np.tile(np.arange(5), 40)
    said = true[task] + generator.normal(size=(200, 2)) * np.array([1, 2, 2, 4, 4.0])[worker][:, None]
    answers = Values.from_codes(task, worker, said, tasks=40, workers=5, coordinates=("start", "end"))
    fitted = model().fit(answers)
    names = ["task", "start", "start_low", "start_high", "end", "end_low", "end_high", "n_answers"]
    assert fitted.consensus().column_names == names
    assert np.corrcoef(fitted.value_[:, 1], true[:, 1])[0, 1] > 0.95
    assert {"scale_start", "bias_end"} <= set(fitted.workers().column_names)
    assert fitted.predict(answers).column_names == names


def test_an_answer_far_off_counts_little_under_student_noise() -> None:
    crowd = simulate_values(100, 10, error=(3.0, 6.0), random_state=0)
    said = crowd.answers.value.copy()
    said[::25] += 300
    answers = replace(crowd.answers, value=said)
    errors = [score_values(model().fit(answers), crowd.truth)["mean_absolute_error"] for model in
              (Mean, GaussianValues, StudentValues)]  # fmt: skip
    assert errors[2] < 0.6 * min(errors[:2])


def test_strength_is_chosen_by_held_out_answers() -> None:
    crowd = simulate_values(60, 10, random_state=1)
    model = GaussianValues().fit(crowd.answers)
    table = model.league().to_pydict()
    assert sorted(table["strength"]) == [4.0, 16.0, 64.0]
    assert model.strength_ == table["strength"][0]
    assert table["behind"][0] == 0
    assert table["held_out"] == sorted(table["held_out"], reverse=True)
    alike = simulate_values(60, 10, error=(15.0, 15.0), random_state=1)
    assert GaussianValues().fit(alike.answers).strength_ >= 16.0
    assert GaussianValues(strength=7.0).fit(crowd.answers).league().num_rows == 0


def test_of_many_answers_some_choose_the_strength(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = simulate_values(200, 10, random_state=1).answers
    monkeypatch.setattr(gaussian, "MOST", 300)
    some = gaussian._draw_tasks(answers)
    assert 250 <= some.n_answers <= 300
    assert some.answers_per_task.min() == 5
    table, whole = some.to_table().to_pylist(), answers.to_table().to_pylist()
    assert all(row in whole for row in table)
    assert GaussianValues().fit(answers).league().num_rows == 3


def test_units_do_not_matter() -> None:
    answers = simulate_values(40, 8, scale=0.2, bias=5.0, random_state=3).answers
    one = GaussianValues().fit(answers)
    other = GaussianValues().fit(replace(answers, value=1e6 + 1e-3 * answers.value))
    np.testing.assert_allclose(other.value_, 1e6 + 1e-3 * one.value_, rtol=1e-11)
    np.testing.assert_allclose(other.variance_, 1e-6 * one.variance_, rtol=1e-4)


# ---- hard and bad input -------------------------------------------------------------------------------------

HARD = {
    "one answer": {"task": ["a"], "worker": ["x"], "value": [3.0]},
    "one task": {"task": ["a"] * 4, "worker": list("wxyz"), "value": [1.0, 2.0, 3.0, 9.0]},
    "one worker": {"task": list("abcd"), "worker": ["x"] * 4, "value": [1.0, 2.0, 3.0, 9.0]},
    "all the same": {"task": [1, 1, 2, 2, 3, 3], "worker": ["x", "y"] * 3, "value": [7.0] * 6},
    "unanimous": {"task": [1, 1, 2, 2, 3, 3], "worker": ["x", "y"] * 3, "value": [1.0, 1.0, 5.0, 5.0, 2.0, 2.0]},
    "large numbers": {"task": [1, 1, 2, 2], "worker": ["x", "y"] * 2, "value": [1e39, 2e39, -1e39, -3e39]},
    "tiny numbers": {"task": [1, 1, 2, 2], "worker": ["x", "y"] * 2, "value": [1e-29, 2e-29, -1e-29, -3e-29]},
}


@EVERY
@pytest.mark.parametrize("name", HARD)
def test_hard_crowds_have_a_finite_answer(model: type, name: str) -> None:
    fitted = model().fit(HARD[name])
    for table in (fitted.consensus(), fitted.workers(), fitted.predict(HARD[name])):
        for column in table.columns:
            if pa.types.is_floating(column.type):
                assert np.isfinite(column.to_numpy()).all()
    low, high = (fitted.consensus()[each].to_numpy() for each in ("low", "high"))
    assert (low <= high).all()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0, float("nan")], "holds nothing"),
        ([1.0, float("inf")], "no finite numbers"),
        ([1.0, None], "holds nothing"),
        (["1", "two"], "'two' in place of numbers"),
        ([1e300, 1.0], "no finite numbers"),
        ([True, False], "in place of numbers"),
        ([], "no rows"),
    ],
)
def test_bad_values_are_refused_with_their_rows(value: list, message: str) -> None:
    size = len(value)
    with pytest.raises(InputError, match=message):
        read_values({"task": ["a", "b"][:size], "worker": ["x", "y"][:size], "value": value})


def test_duplicates_are_refused_or_resolved() -> None:
    table = {"task": ["a", "a", "b"], "worker": ["x", "x", "x"], "value": [1.0, 3.0, 5.0]}
    with pytest.raises(InputError, match="repeat an earlier one"):
        read_values(table)
    assert read_values(table, on_duplicate="first").value.ravel().tolist() == [1.0, 5.0]
    assert read_values(table, on_duplicate="last").value.ravel().tolist() == [3.0, 5.0]
    every = read_values(table, on_duplicate="all")
    assert Mean().fit(every).value_.ravel().tolist() == [2.0, 5.0]
    assert np.isfinite(GaussianValues().fit(every).value_).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"lines": "curve"}, "lines"),
        ({"strength": 0}, "strength"),
        ({"strength": "much"}, "strength"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        GaussianValues(**parameters).fit(HARD["one task"])


def test_expected_log_precision_is_that_of_the_gamma() -> None:
    """The bound uses E[log p] = ψ(shape) - log rate."""
    draws = gamma(3.0, scale=1 / 2.0).rvs(200_000, random_state=np.random.default_rng(0))
    assert np.log(draws).mean() == pytest.approx(digamma(3.0) - np.log(2.0), abs=0.01)
