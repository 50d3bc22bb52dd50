"""Grades: posteriors by enumeration, steps by finite differences, distributions that are proper, hard and bad input."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from scipy.special import logsumexp

from crowdwise.kernels.grade_cells import Cells
from crowdwise.kinds import Grades, kind, read_grades, simulate_grades
from crowdwise.kinds.ordinal import (
    BinaryProblems,
    GradedResponse,
    MedianGrade,
    NominalDawidSkene,
    OrderedClasses,
    mean_absolute_error,
    quadratic_weighted_kappa,
)
from crowdwise.kinds.ordinal.binary_problems import make_falling, recombine
from crowdwise.kinds.ordinal.cell_steps import improve_cells, lay_out_cells, log_cells, shift_together
from crowdwise.kinds.ordinal.graded_response import NORMAL, PSEUDO_TASKS
from crowdwise.kinds.ordinal.ordered_classes import SMOOTHING, place_classes
from crowdwise.kinds.ordinal.worker_responses import (
    GRID,
    LEAST,
    Responses,
    as_responses,
    gap_signs,
    grade_probabilities,
    improve_workers,
    prior_spreads,
    start_workers,
    worker_gradient,
    worker_objective,
)
from crowdwise.labels.engine_choice import use_engine
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

METHODS = [OrderedClasses, GradedResponse, BinaryProblems, MedianGrade, NominalDawidSkene]
EVERY = pytest.mark.parametrize("model", METHODS)


def tiny(n_classes: int = 3, seed: int = 0) -> Grades:
    generator = np.random.default_rng(seed)
    task, worker = np.nonzero(generator.random((4, 3)) < 0.9)
    said = generator.integers(0, n_classes, task.size)
    return Grades.from_codes(task, worker, said, tasks=4, workers=3, classes=n_classes)


def chance(model: Any, worker: int, grade: int, score: float) -> float:
    """Probability of a grade, written out."""
    above = [1.0]
    above += [1 / (1 + np.exp(-(model.slope_[worker] * score - cut))) for cut in model.intercept_[worker]]
    above += [0.0]
    return above[grade] - above[grade + 1]


def density(model: Any, grades: Grades) -> float:
    """Log-density of the workers' priors, written out."""
    total = 0.0
    spreads = np.full(model.intercept_.shape[1] + 1, 0.5)
    spreads[:2] = 1.0, 2.0
    crowd = as_responses(model.crowd_slope_, model.crowd_intercept_[None]).parameters[0]
    own = as_responses(model.slope_, model.intercept_).parameters
    for row in np.vstack([own, start_workers(grades)[1].parameters]):
        total += stats.norm.logpdf(row, crowd, spreads).sum()
    return total


# ---- oracles ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_classes", "seed"), [(2, 0), (3, 1), (4, 2)])
@pytest.mark.parametrize("max_iter", [1, 4])
def test_ordered_classes_equal_the_sum_over_all_truths(n_classes: int, seed: int, max_iter: int) -> None:
    grades = tiny(n_classes, seed)
    model = OrderedClasses(max_iter=max_iter, tol=0.0).fit(grades)
    truths = list(itertools.product(range(n_classes), repeat=4))
    joint = []
    for truth in truths:
        if not model.prior_[list(truth)].all():
            joint.append(-np.inf)  # a class that nobody names
            continue
        value = sum(np.log(model.prior_[k]) for k in truth)
        for task, worker, said in zip(grades.task, grades.worker, grades.grade, strict=True):
            value += np.log(chance(model, worker, said, model.place_[truth[task]]))
        joint.append(value)
    total = logsumexp(joint)
    posterior = np.zeros((4, n_classes))
    for truth, value in zip(truths, joint, strict=True):
        posterior[np.arange(4), truth] += np.exp(value - total)
    np.testing.assert_allclose(model.posterior_, posterior, atol=1e-10)
    value = total + density(model, grades) + SMOOTHING * np.log(model.prior_[model.prior_ > 0]).sum()
    cuts = start_workers(grades)[1].intercept[0] / 2
    middle = [cuts[0] - 0.5, *((cuts[1:] + cuts[:-1]) / 2), cuts[-1] + 0.5]
    nearest = [GRID[np.abs(GRID - place).argmin()] for place in middle]
    value -= PSEUDO_TASKS / n_classes / 2 * ((model.place_ - nearest) ** 2).sum()
    assert model.objective_[-1] == pytest.approx(value, abs=1e-8)


@pytest.mark.parametrize(("n_classes", "seed"), [(2, 0), (3, 1), (4, 2)])
def test_graded_response_equals_the_sum_over_the_grid(n_classes: int, seed: int) -> None:
    grades = tiny(n_classes, seed)
    model = GradedResponse(max_iter=4, tol=0.0).fit(grades)
    total = 0.0
    for task in range(4):
        weights = model.score_prior_.copy()
        for worker, said in zip(grades.worker[grades.task == task], grades.grade[grades.task == task], strict=True):
            weights *= [chance(model, worker, said, score) for score in GRID]
        total += np.log(weights.sum())
        np.testing.assert_allclose(model.score_posterior_[task], weights / weights.sum(), atol=1e-10)
    value = total + density(model, grades) + PSEUDO_TASKS * NORMAL @ np.log(model.score_prior_)
    assert model.objective_[-1] == pytest.approx(value, abs=1e-8)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_the_gradient_is_that_of_finite_differences(n_classes: int) -> None:
    generator = np.random.default_rng(0)
    workers = Responses(generator.normal(0.5, 0.7, (4, n_classes)))
    crowd = Responses(generator.normal(0.5, 0.2, (1, n_classes)))
    counts = generator.gamma(1.0, size=(4, n_classes, GRID.size))
    gradient, information = worker_gradient(workers, crowd, counts, 0.8)
    for place in range(n_classes):
        step = np.zeros(n_classes)
        step[place] = 1e-6
        ends = [worker_objective(Responses(workers.parameters + way * step), crowd, counts, 0.8) for way in (1, -1)]
        np.testing.assert_allclose(gradient[:, place], (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-5)
    assert (np.linalg.eigvalsh(information) > 0).all()
    better = improve_workers(workers, crowd, counts, 0.8)
    assert (worker_objective(better, crowd, counts, 0.8) >= worker_objective(workers, crowd, counts, 0.8)).all()
    for _ in range(60):
        better = improve_workers(better, crowd, counts, 0.8)
    assert np.abs(worker_gradient(better, crowd, counts, 0.8)[0]).max() < 1e-4
    assert prior_spreads(workers, 2.0)[0] == 2.0


def test_intercepts_and_gaps_are_the_same_thing() -> None:
    intercept = np.array([[-2.0, -0.5, 0.3, 1.9], [0.0, 1.0, 1.1, 4.0]])
    again = as_responses(np.array([1.0, -2.0]), intercept)
    np.testing.assert_allclose(again.intercept, intercept)
    np.testing.assert_allclose(again.slope, [1.0, -2.0])
    assert gap_signs(2).shape == (1, 0)


def test_places_are_the_best_in_order() -> None:
    generator = np.random.default_rng(1)
    for _ in range(20):
        value = generator.normal(size=(3, 6))
        best = max(
            (value[0, a] + value[1, b] + value[2, c], (a, b, c))
            for a, b, c in itertools.combinations_with_replacement(range(6), 3)
        )
        assert tuple(place_classes(value)) == best[1]


@pytest.mark.parametrize("model", [OrderedClasses, GradedResponse, NominalDawidSkene])
def test_the_objective_never_falls(model: type) -> None:
    for seed in range(3):
        answers = simulate_grades(60, 12, n_classes=4, bias=0.8, slope=(-1.0, 5.0), random_state=seed).answers
        climbed = model(tol=0.0, max_iter=80).fit(answers, gold={0: 2, 5: 0}).objective_
        assert (np.diff(climbed) >= -1e-8 * np.abs(climbed[1:])).all()


# ---- K - 1 problems -----------------------------------------------------------------------------------------


def test_recombined_probabilities_are_proper_and_nearest() -> None:
    from sklearn.isotonic import IsotonicRegression

    above = np.random.default_rng(0).random((50, 4))
    falling = make_falling(above)
    expected = [IsotonicRegression(increasing=False).fit_transform(range(4), row) for row in above]
    np.testing.assert_allclose(falling, expected, atol=1e-12)
    found = recombine(above)
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_allclose(recombine(np.array([[0.9, 0.4]])), [[0.1, 0.5, 0.4]])


def test_two_classes_are_one_problem() -> None:
    answers = simulate_grades(80, 10, n_classes=2, random_state=1).answers
    one = BinaryProblems(smoothing=1.0).fit(answers)
    other = NominalDawidSkene(smoothing=1.0).fit(answers)
    np.testing.assert_allclose(one.posterior_, other.posterior_, atol=1e-10)
    np.testing.assert_allclose(
        one.predict(answers)["confidence"].to_numpy(), one.consensus()["confidence"].to_numpy(), atol=1e-10
    )


# ---- what the methods promise -------------------------------------------------------------------------------


def test_workers_are_recovered() -> None:
    crowd = simulate_grades(1500, 12, answers_per_task=8, random_state=0)
    model = GradedResponse().fit(crowd.answers)
    ratio = model.slope_ / crowd.slope
    assert np.corrcoef(model.slope_, crowd.slope)[0, 1] > 0.95
    np.testing.assert_allclose(model.intercept_ / model.slope_[:, None] * np.median(ratio), crowd.threshold, atol=0.3)
    mean = model.score_posterior_ @ GRID
    assert np.corrcoef(mean, crowd.score)[0, 1] > 0.95


def test_models_of_the_order_err_by_fewer_classes() -> None:
    errors: dict[str, list[float]] = {}
    for seed in range(4):
        crowd = simulate_grades(200, 20, bias=0.6, random_state=seed)
        for model in METHODS:
            found = model().fit(crowd.answers).decide()
            errors.setdefault(model.__name__, []).append(mean_absolute_error(found, crowd.grade))
    mean = {name: np.mean(found) for name, found in errors.items()}
    others = min(mean["MedianGrade"], mean["NominalDawidSkene"])
    assert max(mean["OrderedClasses"], mean["GradedResponse"]) < 0.85 * others


def test_a_worker_who_turns_the_scale_round_is_understood() -> None:
    crowd = simulate_grades(200, 10, n_classes=4, slope=(3.0, 6.0), bias=0.1, random_state=3)
    answers = crowd.answers
    said = np.where(answers.worker < 3, 3 - answers.grade, answers.grade)
    turned = Grades.from_codes(answers.task, answers.worker, said, tasks=200, workers=10, classes=4)
    model = OrderedClasses().fit(turned)
    assert (model.slope_[:3] < 0).all()
    assert (model.slope_[3:] > 0).all()
    assert mean_absolute_error(model.decide(), crowd.grade) < 0.25
    error = model.workers()["error"].to_numpy()
    assert error[:3].min() > error[3:].max()


@pytest.mark.parametrize("model", [OrderedClasses, GradedResponse, BinaryProblems, NominalDawidSkene])
def test_known_grades_are_kept_and_teach(model: type) -> None:
    crowd = simulate_grades(150, 15, random_state=2)
    gold = dict(zip(range(30), crowd.grade[:30].tolist(), strict=True))
    fitted = model().fit(crowd.answers, gold=gold)
    np.testing.assert_array_equal(fitted.decide()[:30], crowd.grade[:30])
    np.testing.assert_allclose(fitted.posterior_[:30].max(axis=1), 1)
    with pytest.raises(InputError, match="about other tasks"):
        model().fit(crowd.answers, gold={"nobody": 1})
    with pytest.raises(InputError, match="none of the classes"):
        model().fit(crowd.answers, gold={0: 77})


@EVERY
def test_new_tasks_by_known_and_unknown_workers(model: type) -> None:
    crowd = simulate_grades(100, 10, random_state=4)
    fitted = model().fit(crowd.answers)
    new = read_grades(
        {"task": ["a", "a", "b"], "worker": [int(crowd.slope.argmax()), 99, 99], "grade": [4, 4, 0]}, classes=range(5)
    )
    table = fitted.predict(new).to_pydict()
    assert table["label"][0] >= 3
    assert table["label"][1] <= 2
    assert (np.array(table["low"]) <= np.array(table["high"])).all()
    assert np.isfinite(fitted.log_density(new)).all()
    with pytest.raises(InputError, match="knows no class"):
        fitted.predict(read_grades({"task": ["a", "a"], "worker": [1, 2], "grade": [4, 9]}))


def test_probabilities_of_answers_sum_to_one() -> None:
    answers = simulate_grades(60, 8, n_classes=4, random_state=1).answers
    task, worker = np.array([0, 5, -1, -1]), np.array([0, 8, 3, 8])
    for model in METHODS:
        found = model().fit(answers)._answer_probabilities(task, worker)
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-9)
        assert (found >= 0).all()


def test_consensus_has_classes_and_the_expected_grade() -> None:
    table = {"task": [1, 1, 2, 2], "worker": ["x", "y"] * 2, "grade": ["low", "mid", "high", "high"]}
    grades = read_grades(table, classes=["low", "mid", "high"])
    found = MedianGrade().fit(grades).consensus().to_pydict()
    assert found["label"] == ["low", "high"]
    assert found["expected"] == [0.5, 2.0]
    stars = read_grades({**table, "grade": [10, 20, 30, 30]})
    assert MedianGrade().fit(stars).consensus().to_pydict()["expected"] == [15.0, 30.0]


def test_metrics_against_their_definitions() -> None:
    from sklearn.metrics import cohen_kappa_score

    generator = np.random.default_rng(0)
    one, other = generator.integers(0, 5, 200), generator.integers(0, 5, 200)
    other = np.where(generator.random(200) < 0.6, one, other)
    expected = cohen_kappa_score(one, other, weights="quadratic")
    assert quadratic_weighted_kappa(one, other) == pytest.approx(expected, abs=1e-12)
    assert mean_absolute_error(one, other) == pytest.approx(np.abs(one - other).mean())
    assert np.isnan(quadratic_weighted_kappa(np.zeros(3), np.zeros(3)))
    crowd = simulate_grades(random_state=1)
    scores = kind("ordinal").score(MedianGrade().fit(crowd.answers), crowd.truth)
    assert scores["n_truths"] == 100
    assert set(scores) == {"n_truths", "mean_absolute_error", "quadratic_weighted_kappa", "accuracy"}


# ---- hard and bad input -------------------------------------------------------------------------------------

HARD = {
    "one answer": {"task": ["a"], "worker": ["x"], "grade": [1]},
    "one task": {"task": ["a"] * 4, "worker": list("wxyz"), "grade": [0, 1, 2, 2]},
    "one worker": {"task": list("abcd"), "worker": ["x"] * 4, "grade": [0, 1, 2, 1]},
    "one class used": {"task": [1, 1, 2, 2], "worker": ["x", "y"] * 2, "grade": [1, 1, 1, 1]},
    "unanimous": {"task": [1, 1, 2, 2, 3, 3], "worker": ["x", "y"] * 3, "grade": [0, 0, 2, 2, 1, 1]},
}


@EVERY
@pytest.mark.parametrize("name", HARD)
def test_hard_crowds_have_a_proper_answer(model: type, name: str) -> None:
    fitted = model().fit(read_grades(HARD[name], classes=range(4)))
    np.testing.assert_allclose(fitted.posterior_.sum(axis=1), 1)
    for table in (fitted.consensus(), fitted.workers(), fitted.predict(read_grades(HARD[name], classes=range(4)))):
        for column in table.columns:
            if pa.types.is_floating(column.type):
                assert np.isfinite(column.to_numpy()).all()
    if name == "unanimous":
        assert fitted.consensus()["label"].to_pylist() == [0, 2, 1]


@pytest.mark.parametrize(
    ("grade", "options", "message"),
    [
        (["good", "bad"], {}, "need their order"),
        ([1, 1], {}, "nothing to choose from"),
        ([1, None], {}, "grade"),
        (["a", "c"], {"classes": ["a", "b"]}, "none of the classes"),
        (["a", "b"], {"classes": ["a", "a"]}, "class"),
        ([1.0, float("inf")], {}, "grade"),
    ],
)
def test_bad_grades_are_refused(grade: list, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_grades({"task": ["a", "b"], "worker": ["x", "y"], "grade": grade}, **options)


def test_too_many_grades_are_values() -> None:
    table = {"task": list(range(200)), "worker": ["x"] * 200, "grade": list(range(200))}
    with pytest.raises(InputError, match="Read them as values"):
        read_grades(table)


def test_duplicates_and_columns() -> None:
    table = {"item": ["a", "a", "b"], "rater": ["x", "x", "x"], "rating": [1, 3, 2]}
    with pytest.raises(InputError, match="repeat an earlier one"):
        read_grades(table)
    assert read_grades(table, on_duplicate="last").grade.tolist() == [2, 1]
    assert read_grades(table, on_duplicate="all").n_answers == 3


def test_the_order_of_numbers_is_not_that_of_words(tmp_path: Path) -> None:
    path = tmp_path / "grades.csv"
    path.write_text("task,worker,grade\na,x,10\na,y,9\nb,x,2\n")
    assert read_grades(path).classes.to_pylist() == [2, 9, 10]


def test_workers_and_crowd_move_together_uphill() -> None:
    """All are moved alike, and the answers with the crowd's prior are likelier; their prior about it stays."""
    generator = np.random.default_rng(2)
    first = as_responses(np.array([2.0]), np.array([[-1.0, 0.5, 1.5]]))
    workers = Responses(first.parameters + generator.normal(0, 0.3, (50, 4)))
    counts = generator.gamma(0.2, 1, (50, 4, GRID.size)) * np.array([4, 2, 1, 1])[:, None]
    worker, grade = np.divmod(np.arange(200), 4)
    every = Cells(np.arange(0, 201, 4), grade.astype(np.int32), worker.astype(np.int32))
    moved, crowd = shift_together(workers, first, first, every, counts.reshape(200, -1), 1.0)
    step = crowd.parameters - first.parameters
    assert np.abs(step).max() > 0.1
    assert np.allclose(moved.parameters, workers.parameters + step, rtol=0, atol=1e-12)
    totals = [
        float(worker_objective(each, about, counts, 1.0).sum())
        - 0.5 * float((((about.parameters - first.parameters) / prior_spreads(first, 1.0)) ** 2).sum())
        for each, about in ((workers, first), (moved, crowd))
    ]
    assert totals[1] > totals[0] + 1.0


@pytest.mark.parametrize("n_classes", [2, 5])
def test_compiled_steps_are_those_of_numpy(n_classes: int) -> None:
    """Of workers with few of the grades, one who turns the scale round, and one without answers."""
    generator = np.random.default_rng(n_classes)
    answers = Grades.from_codes(
        generator.integers(0, 20, 60), generator.integers(0, 12, 60), generator.integers(0, n_classes, 60),
        tasks=20, workers=13, classes=n_classes, on_duplicate="all",
    )  # fmt: skip
    cells, said, _ = lay_out_cells(answers)
    workers, crowd = start_workers(answers)
    workers = Responses(workers.parameters + 0.5 * generator.normal(size=workers.parameters.shape))
    workers.parameters[3, 0] *= -1
    counts = np.asarray(said.T @ generator.dirichlet(np.full(31, 0.3), answers.n_tasks))
    found = []
    for engine in ("numpy", "numba"):
        with use_engine(engine):
            moved = shift_together(workers, crowd, crowd, cells, counts, 0.8)
            better = improve_cells(workers, crowd, cells, counts, 0.8)
            found.append([log_cells(workers, cells), better.parameters, *(each.parameters for each in moved)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)
    dense = np.log(np.maximum(grade_probabilities(workers), LEAST))
    np.testing.assert_allclose(found[1][0], dense[cells.worker, cells.grade], atol=1e-12)
