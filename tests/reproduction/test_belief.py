"""Kim et al.'s figures as tables: what they are made of, and that a small version of them says what the paper does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import digamma, expit, logit
from scipy.stats import beta

import crowdwise as cw
from crowdwise.labels import CrowdLabels
from crowdwise.reproduction import problems, run_table, table_files, verdicts
from crowdwise.reproduction.measures import MEASURES, FittedModel
from crowdwise.reproduction.verdicts import FAILS, HOLDS
from crowdwise.simulate.coins import one_coin

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "tables"
LABELS_ALONE = ("belief-inference", "belief-figure-4", "belief-figure-8")
WITH_IMAGES = (
    "belief-figure-1",
    "belief-figure-2",
    "belief-figure-3-prior",
    "belief-figure-3-spammers",
    "belief-figure-7-penalty",
    "belief-figure-7-start",
)
OTHER_CROWDS = ("belief-figure-5", "belief-figure-5-labelme", "belief-figure-6")
TABLES = (*LABELS_ALONE, *WITH_IMAGES, *OTHER_CROWDS)


def plain_mean_field(labels: Any, alpha: tuple[float, float], n_iter: int) -> tuple[Any, Any, Any]:
    """Equations 16 and 27-29 for one coin and two classes: posterior of class 1, and right and wrong answers."""
    right = wrong = np.zeros(labels.n_workers)
    said = np.where(labels.label == 1, 1.0, -1.0)
    for at in range(n_iter):
        bonus = digamma(alpha[0] + right) - digamma(alpha[1] + wrong)
        first = expit(np.bincount(labels.task, said * bonus[labels.worker], minlength=labels.n_tasks))
        agreed = np.where(labels.label == 1, first[labels.task], 1 - first[labels.task])
        if at < n_iter - 1:
            right = np.bincount(labels.worker, agreed, minlength=labels.n_workers)
            wrong = labels.labels_per_worker - right
    return first, alpha[0] + right, alpha[1] + wrong


# ---- mean field with one coin ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("alpha", "n_spammers"), [((0.2, 0.1), 0), ((2.0, 1.0), 1), ((2.0, 1.6), 2)])
@pytest.mark.parametrize("n_iter", [1, 7])
def test_mean_field_is_the_papers(alpha: tuple[float, float], n_spammers: int, n_iter: int) -> None:
    labels = one_coin(200, 150, n_spammers=n_spammers, random_state=2).labels
    model = cw.MeanField(coin_prior=alpha, share_prior=1e6, max_iter=n_iter, tol=0.0).fit(labels)
    first, right, wrong = plain_mean_field(labels, alpha, n_iter)
    np.testing.assert_allclose(logit(model.posterior_[:, 1]), logit(first), atol=2e-3)
    np.testing.assert_allclose(model.coin_counts_, np.stack([right, wrong], axis=1), atol=2e-3)
    np.testing.assert_allclose(model.confusion_[:, 0, 0], right / (right + wrong), atol=1e-4)
    np.testing.assert_allclose(model.confusion_.sum(axis=2), 1, atol=1e-12)


def test_bound_of_coins_never_falls_and_new_tasks_are_judged_alike() -> None:
    labels = one_coin(120, 90, n_classes=3, random_state=1).labels
    model = cw.MeanField(coin_prior=(2.0, 1.0), tol=1e-12).fit(labels)
    assert (np.diff(model.objective_) > -1e-9).all()
    np.testing.assert_allclose(model.predict_proba(labels), model.posterior_, atol=1e-9)
    stranger = CrowdLabels.from_arrays(["new"], ["stranger"], [2], classes=[0, 1, 2])
    assert model.predict_proba(stranger)[0].argmax() == 2


def test_bound_of_coins() -> None:
    """E[log p(labels, truths, accuracies)] − E[log q], with accuracies on a fine grid."""
    labels = one_coin(12, 9, n_classes=3, random_state=4).labels
    model = cw.MeanField(coin_prior=(2.0, 1.5), max_iter=3, tol=0.0).fit(labels, class_prior=[0.2, 0.3, 0.5])
    q, coins = model.posterior_, model.coin_counts_
    value = float((q * (np.log([0.2, 0.3, 0.5]) - np.log(q))).sum())
    grid = (np.arange(200_000) + 0.5) / 200_000
    for worker, (right, wrong) in enumerate(coins):
        weights = beta(right, wrong).pdf(grid) / grid.size
        value -= float((weights * (beta(right, wrong).logpdf(grid) - beta(2.0, 1.5).logpdf(grid))).sum())
        for at in np.flatnonzero(labels.worker == worker):
            agreed = q[labels.task[at], labels.label[at]]
            value += float((weights * (agreed * np.log(grid) + (1 - agreed) * np.log((1 - grid) / 2))).sum())
    assert model.objective_[-1] == pytest.approx(value, abs=1e-4)


def test_known_workers_count_as_right_and_wrong_answers() -> None:
    labels = one_coin(40, 30, random_state=0).labels
    matrix = np.array([[0.9, 0.1], [0.3, 0.7]])
    told = cw.MeanField(coin_prior=(2.0, 1.0), max_iter=1, tol=0.0).fit(
        labels, known_workers={3: matrix}, known_weight=10
    )
    np.testing.assert_allclose(told.coin_counts_[3], [2 + 16, 1 + 4])
    np.testing.assert_allclose(told.coin_counts_[2], [2, 1])


@pytest.mark.parametrize("wrong", [(1.0,), (1.0, 0.0), "x", (1.0, np.inf)])
def test_bad_coins_are_named(wrong: Any) -> None:
    labels = one_coin(8, 6, random_state=0).labels
    with pytest.raises(cw.InputError, match="coin_prior"):
        cw.MeanField(coin_prior=wrong).fit(labels)
    with pytest.raises(cw.InputError, match="not both"):
        cw.MeanField(coin_prior=(2, 1), confusion_prior=[[2, 1], [1, 2]]).fit(labels)
    with pytest.raises(AttributeError, match="another prior"):
        _ = cw.MeanField(coin_prior=(2, 1)).fit(labels).confusion_counts_


# ---- problems -------------------------------------------------------------------------------------------------


def test_blur_by_hand() -> None:
    """One white pixel becomes the product of two bells; a picture of one colour stays."""
    point = np.zeros((1, 1, 9, 9), np.uint8)
    point[0, 0, 4, 4] = 255
    bell = np.exp(-0.5 * np.arange(-3, 4) ** 2)
    bell /= bell.sum()
    found = problems.blur_images(point, 1.0)
    np.testing.assert_allclose(found[0, 0, 1:8, 1:8], np.outer(bell, bell), atol=1e-6)
    assert found[0, 0, 0].max() == 0
    corner = np.zeros((1, 1, 5, 5), np.uint8)
    corner[0, 0, :, 1] = 255
    weights = np.exp(-0.5 * np.arange(4) ** 2)
    weights /= weights.sum() * 2 - 1
    np.testing.assert_allclose(problems.blur_images(corner, 1.0)[0, 0, :, 0], 2 * weights[1], atol=1e-6)
    flat = np.full((2, 3, 6, 8), 51, np.uint8)
    np.testing.assert_allclose(problems.blur_images(flat, 40.0), 0.2, atol=1e-6)
    assert problems.blur_images(flat, 0) is flat


def test_real_crowds_are_thinned_and_spammed() -> None:
    crowd = {"tasks_per_worker": 2, "n_spammers": 3}
    found = problems.make_problem({"name": "anaesthetists"}, crowd, 0).labels
    whole = problems.make_problem({"name": "anaesthetists"}, {}, 0).labels
    assert found.labels_per_worker[: whole.n_workers].tolist() == [2] * whole.n_workers
    assert found.labels_per_worker[whole.n_workers :].tolist() == [whole.n_tasks] * 3
    assert found.workers.to_pylist()[-1] == "spammer 2"
    other = problems.make_problem({"name": "anaesthetists"}, crowd, 1).labels
    assert not np.array_equal(found.label, other.label)


def test_the_busiest_worker_alone() -> None:
    whole = problems.make_problem({"name": "anaesthetists"}, {}, 0)
    for place, number in ((1, 135), (2, 45)):
        found = problems.make_problem({"name": "anaesthetists"}, {"busiest": place}, 0)
        assert np.unique(found.labels.worker).size == 1
        truth = np.arange(whole.labels.n_tasks) % 4  # nobody knows it: a made-up one
        fitted = FittedModel(replace(found, truth=truth), None)
        assert MEASURES["labels"](fitted) == number
        right = np.mean([truth[t] == label for t, label in zip(found.labels.task, found.labels.label, strict=True)])
        assert MEASURES["right_labels"](fitted) == pytest.approx(right)


# ---- measures and claims --------------------------------------------------------------------------------------


def test_measures_by_hand() -> None:
    crowd = one_coin(8, 6, n_spammers=1, random_state=0)
    problem = problems.Problem(crowd.labels, crowd.truth, confusion=crowd.confusion, crowd=crowd)

    class Model:
        posterior_ = np.where(crowd.truth[:, None] == [0, 1], 0.96, 0.04)
        confusion_ = np.tile(np.array([[0.3, 0.7], [0.9, 0.1]]), (7, 1, 1))

    Model.posterior_[0] = [0.7, 0.3] if crowd.truth[0] else [0.3, 0.7]
    fitted = FittedModel(problem, Model)
    found = {name: MEASURES[name](fitted) for name in ("inference", "sure", "overconfidence", "spammer")}
    assert found == pytest.approx(
        {"inference": 7 / 8, "sure": 7 / 8, "overconfidence": (7 * 0.96 + 0.7) / 8 - 7 / 8, "spammer": 0.2}
    )
    assert MEASURES["spammer_distance"](fitted) == pytest.approx(0.3)
    assert MEASURES["log_score"](fitted) == pytest.approx((7 * np.log(0.96) + np.log(0.3)) / 8)
    with pytest.raises(cw.InputError, match="no spammers"):
        MEASURES["spammer"](FittedModel(problems.Problem(crowd.labels, crowd.truth), Model))


TEXT = """
title = "t"
paper = "p"
place = "figure"
about = "a"
seeds = 2
[measures]
inference = { title = "c" }
[crowd]
name = "one-coin"
alpha = "$prior"
[axis]
name = "x"
values = [1, 2]
[axis.sets]
"let.prior" = [[2.0, 1.0], [3.0, 1.0]]
"crowd.n_spammers" = [0, 4]
[quick]
axis = [2]
[[settings]]
name = "s"
[[methods]]
name = "MF"
aggregator = "mean-field"
parameters = { coin_prior = "$prior" }
[[claims]]
says = "falls"
measure = "inference"
falls = ["MF"]
[[claims]]
says = "the worst"
measure = "inference"
reaches = { "MF" = 0.6 }
at = [1]
over = "worst"
"""


def test_axis_sets_several_places_and_names_are_replaced() -> None:
    table = table_files.parse_table(TEXT, "t")
    jobs = [job["run"] for job in table.jobs(seeds=1)]
    assert [job["crowd"]["alpha"] for job in jobs] == [job["model"]["coin_prior"] for job in jobs]
    assert [job["crowd"] for job in jobs] == [
        {"name": "one-coin", "alpha": [2.0, 1.0], "n_spammers": 0},
        {"name": "one-coin", "alpha": [3.0, 1.0], "n_spammers": 4},
    ]
    assert [job["run"] for job in table.quick_version().jobs(seeds=1)] == jobs[1:]
    with pytest.raises(cw.InputError, match="stands for"):
        table_files.parse_table(TEXT.replace('alpha = "$prior"', 'alpha = "$other"'), "t").jobs()
    with pytest.raises(cw.InputError, match="list of 2 values"):
        table_files.parse_table(TEXT.replace("[0, 4]", "[0]"), "t")


@pytest.mark.parametrize(
    ("at_one", "at_two", "expected"),
    [((0.7, 0.9), (0.5, 0.6), [HOLDS, HOLDS]), ((0.5, 0.9), (0.8, 0.9), [FAILS, FAILS])],
)
def test_claims_that_fall_and_of_the_worst(at_one: Any, at_two: Any, expected: list[str]) -> None:
    table = table_files.parse_table(TEXT, "t")
    rows = [
        {"setting": "s", "x": x, "method": "MF", "measures": {"inference": value}}
        for x, values in ((1, at_one), (2, at_two))
        for value in values
    ]
    assert [each.verdict for each in verdicts.judge_claims(table, verdicts.compute_cells(table, rows))] == expected


# ---- the tables -----------------------------------------------------------------------------------------------


def test_belief_propagation_is_ahead_in_a_small_panel() -> None:
    """A sparse prior: over 50 seeds of 1,000 tasks 98 and 87 %; here 8 seeds of 200, so 1.5 points are 4 errors."""
    table = table_files.read_table("belief-inference")
    means = {}
    for method in ("MF", "BP"):
        jobs = [job for job in table.jobs([method], seeds=8) if job["cell"]["setting"] == "true prior, α₁ = 0.2"]
        right = []
        for job in jobs:
            job["run"]["crowd"] |= {"n_tasks": 200, "n_workers": 150}
            right.append(run_table.run_job(job)["measures"]["inference"])
        means[method] = np.mean(right)
    assert means["BP"] > means["MF"] + 0.05


@pytest.mark.parametrize("name", [*LABELS_ALONE, "belief-figure-5"])
def test_kept_results_are_whole_and_hold_what_the_table_says(name: str) -> None:
    """The only claims that fail are those that have a note on why."""
    table = table_files.read_table(name)
    rows = run_table.select_rows(table.jobs(), run_table.read_rows(RESULTS / f"{name}.jsonl"))
    assert len(rows) == len(table.jobs())
    for each in verdicts.judge_claims(table, verdicts.compute_cells(table, rows)):
        assert each.verdict == HOLDS or (each.verdict == FAILS and each.claim.note), each.claim.says


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_the_papers_crowd(name: str) -> None:
    """1,000 tasks, 750 workers with four labels each, but in figures 5 and 6; each claim is about what is there."""
    table = table_files.read_table(name)
    crowds = [job["run"]["crowd"] for job in table.jobs(seeds=1)]
    if name not in OTHER_CROWDS:
        assert all(crowd["name"] == "one-coin" and "n_workers" not in crowd for crowd in crowds)
    assert table.interval == "99 %"
    places = {(job["cell"]["setting"], job["cell"]["x"]) for job in table.jobs(seeds=1)}
    for claim in table.claims:
        assert claim.at is None or all((claim.settings[0], x) in places for x in claim.at)
