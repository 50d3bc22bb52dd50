"""A stop rule keeps its promise or makes none; forecasts; replays."""

from __future__ import annotations

import numpy as np
import pytest

from crowdwise.acquire import OnlineModel, StopEstimate, StopRule, plan, replay, replay_stopping
from crowdwise.acquire.stop_estimate import (
    DELTAS,
    SEEN,
    TaskPosteriors,
    Trials,
    find_chances,
    find_trials,
    weigh_calibrations,
)
from crowdwise.acquire.stopping import find_first_passages
from crowdwise.labels import CrowdLabels
from crowdwise.labels.errors import InputError
from crowdwise.simulate import simulate

SIZES = {"n_tasks": 400, "n_workers": 25, "n_classes": 2, "labels_per_task": 9}


@pytest.fixture(scope="module")
def honest():
    return simulate("dawid-skene", **SIZES, skill=0.8, random_state=2)


def mislead(crowd):
    """The same labels, but a third of the tasks look like the other class to everyone."""
    hard = np.random.default_rng(0).random(crowd.labels.n_tasks) < 1 / 3
    label = np.where(hard[crowd.labels.task], 1 - crowd.labels.label, crowd.labels.label)
    return CrowdLabels.from_codes(
        crowd.labels.task, crowd.labels.worker, label, tasks=crowd.labels.n_tasks, workers=25, classes=2
    )


def test_without_gold_nothing_is_promised_and_nothing_stopped(honest):
    model = OnlineModel().partial_fit(honest.labels)
    rule = StopRule().calibrate(model, {})
    assert not rule.can_promise
    assert not rule.find_stopped(model).any()
    assert "there are 0 gold tasks" in rule.promise()


def test_independent_workers_are_stopped_early_and_right(honest):
    truth = dict(enumerate(honest.truth.tolist()))
    runs = [replay_stopping(honest.labels, truth, gold=0.2, random_state=seed) for seed in range(4)]
    runs = [run for run in runs if run.promised]
    assert len(runs) >= 2
    assert np.mean([run.accuracy for run in runs]) >= 0.95
    assert np.mean([run.share_of_labels for run in runs]) < 0.9


def test_a_misled_crowd_is_not_stopped(honest):
    run = replay_stopping(mislead(honest), dict(enumerate(honest.truth.tolist())), gold=0.2)
    assert not run.promised
    assert run.share_of_labels == 1
    assert run.share_of_tasks == 0
    assert "gold tasks were right" in run.words


def test_checks_count_without_a_truth(honest):
    model = OnlineModel().partial_fit(honest.labels)
    gold = {task: int(honest.truth[task]) for task in range(80)}
    without, with_checks = (StopRule(delta=0.001).calibrate(model, gold, checks) for checks in ([], range(100, 400)))
    assert not without.can_promise
    assert with_checks._chance > without._chance > 0  # later labels hardly ever overturn these


def test_first_passage_by_hand():
    model = OnlineModel(["x", "y"], growth=0, right=8, wrong=2)
    for worker, label in (("a", "x"), ("b", "y"), ("c", "x"), ("d", "x")):
        model.add("t", worker, label)
    passed, final = find_first_passages(model, np.array([0]), np.array([0.75, 0.9, 0.99]))
    # one x more than y after three labels: 0.8; two more after four: 0.94
    assert passed.tolist() == [[0, 0, -1]]
    assert final.tolist() == [0]


def test_caps_and_value_of_information(honest):
    model = OnlineModel().partial_fit(honest.labels)
    assert StopRule(cap=9).find_stopped(model).all()
    assert not StopRule(cap=10).find_stopped(model).any()
    by_value = StopRule(value=0.01).find_stopped(model)
    unsure = model.posteriors.max(axis=1)
    assert unsure[by_value].min() > unsure[~by_value].max() - 0.2
    assert StopRule(cap=9).should_stop(model, 3)


def test_a_forecast_holds_where_it_can_be_checked(honest):
    truth = dict(enumerate(honest.truth.tolist()))
    rng = np.random.default_rng(0)
    order = rng.permutation(honest.labels.n_labels)
    few = np.zeros(honest.labels.n_labels, bool)
    few[order[:1800]] = True
    found = plan(honest.labels.keep(few), 0.95, gold=truth)
    whole = OnlineModel().partial_fit(honest.labels).posteriors.argmax(axis=1) == honest.truth
    at = np.interp(honest.labels.n_labels, found.labels, np.arange(found.labels.size)).round().astype(int)
    assert found.low[at] - 0.02 <= whole.mean() <= found.high[at] + 0.02
    assert (np.diff(found.accuracy) >= -1e-12).all()
    assert found.n_gold == 398  # two tasks have no label
    assert found.needed is None or found.needed_low <= found.needed <= (found.needed_high or np.inf)
    assert "Without gold" in " ".join(plan(honest.labels.keep(few)).sentences())


def test_buying_what_is_uncertain_beats_random_buying(honest):
    truth = dict(enumerate(honest.truth.tolist()))
    found = replay(honest.labels, truth, ("random", "information-gain/best"), seeds=3, batch=0.05, start=0.15)
    random, active = found.mean
    assert np.array_equal(found.accuracy[0, :, 0], found.accuracy[1, :, 0])  # the first labels are the same
    assert active.mean() > random.mean() + 0.01
    assert found.labels_needed(2.0) == {"random": None, "information-gain/best": None}


def test_plans_go_by_content(honest):
    labels, truth = honest.labels, dict(enumerate(honest.truth[:60].tolist()))
    rng, table = np.random.default_rng(0), labels.to_table()
    one = plan(table, 0.95, gold=truth)
    other = plan(table.take(rng.permutation(len(table))), 0.95, gold=dict(reversed(truth.items())))
    np.testing.assert_allclose(one.accuracy, other.accuracy, atol=1e-9)
    np.testing.assert_allclose(one.low, other.low, atol=1e-9)
    assert (one.needed, one.needed_low, one.needed_high) == (other.needed, other.needed_low, other.needed_high)


def test_bad_rules_are_one_error(honest):
    for call, words in (
        (lambda: StopRule(target=1.0), "target is 1.0"),
        (lambda: StopRule(delta=0), "delta is 0"),
        (lambda: StopRule(cap=0), "cap is 0"),
        (lambda: StopRule(prior=(0, 1)), "prior is"),
        (lambda: plan(honest.labels, 1.5), "target is 1.5"),
        (lambda: plan(honest.labels, 1 - 1e-12), "at most 0.999999999"),
        (lambda: plan(CrowdLabels.from_dense([["x", "y"]])), "2 labels"),
        (lambda: replay(honest.labels, {"else": 1}), "other tasks"),
        (lambda: replay(honest.labels, {0: 0}, ["greedy"]), "policy is 'greedy'"),
    ):
        with pytest.raises(InputError, match=words):
            call()


def test_gold_that_the_model_was_told_cannot_vouch_for_it(honest):
    model = OnlineModel().partial_fit(honest.labels)
    model.set_gold({0: int(honest.truth[0])})
    with pytest.raises(InputError, match="told gold"):
        StopRule().calibrate(model, {0: int(honest.truth[0])})


def test_a_stop_rule_takes_gold_as_fit_does_and_bad_input_is_one_error(honest, tmp_path):
    model = OnlineModel().partial_fit(honest.labels)
    truth = dict(enumerate(honest.truth[:60].tolist()))
    (tmp_path / "gold.csv").write_text("task,label\n" + "".join(f"{task},{k}\n" for task, k in truth.items()))
    told = StopRule(0.9).calibrate(model, tmp_path / "gold.csv")
    assert told.threshold == StopRule(0.9).calibrate(model, truth).threshold
    empty = OnlineModel(["a", "b"])
    empty.add_task("t")
    assert not StopRule(value=0.1).find_stopped(empty).any()
    assert not StopRule(value=0.1).find_stopped(OnlineModel()).any()
    assert replay_stopping(honest.labels, truth, gold=1).share_of_tasks == 0
    for call, words in (
        (lambda: StopRule(prior="ab"), "prior is 'ab'"),
        (lambda: StopRule().calibrate(honest.labels, truth), "must be a crowdwise.acquire.OnlineModel"),
        (lambda: StopRule().find_stopped(None), "model is None"),
        (lambda: replay_stopping(honest.labels, truth, 3), "rule is 3"),
        (lambda: StopRule(prior=(1, "b")), "number of prior is 'b'"),
        (lambda: StopRule().calibrate(model, {0: 1}, "0"), "checks is '0'"),
        (lambda: replay(honest.labels, truth, random_state="x"), "random_state is 'x'"),
        (lambda: replay(honest.labels, truth, "random"), "policies is 'random'"),
        (lambda: replay_stopping(honest.labels, truth, random_state="x"), "random_state is 'x'"),
    ):
        with pytest.raises(InputError, match=words):
            call()


# ---- the estimate -----------------------------------------------------------------------------------


def test_an_estimate_stops_with_less_gold_than_a_promise_and_is_near_the_truth(honest):
    truth = dict(enumerate(honest.truth.tolist()))
    run = replay_stopping(honest.labels, truth, StopEstimate(), checks=0)
    assert replay_stopping(honest.labels, truth, StopRule(), checks=0).share_of_tasks == 0
    assert run.share_of_tasks > 0.5
    assert not run.promised
    assert run.accuracy >= 0.93
    assert run.share_of_labels < 0.75
    assert "this is no promise" in run.words


def test_an_estimate_says_that_a_misled_crowd_cannot_be_stopped(honest):
    run = replay_stopping(mislead(honest), dict(enumerate(honest.truth.tolist())), StopEstimate(), gold=0.2, checks=0)
    assert (run.share_of_tasks, run.share_of_labels) == (0, 1)
    assert run.words.startswith("No task is stopped: the surest task is right with an estimated chance of 0.")


def test_the_estimated_share_is_the_mean_chance_of_the_stopped_tasks(honest):
    model = OnlineModel().partial_fit(honest.labels)
    gold = dict(enumerate(honest.truth[:60].tolist()))
    rule = StopEstimate(0.9, min_labels=3).calibrate(model, gold)
    stopped = rule.find_stopped(model)
    assert 0.9 <= rule.estimate < 1
    assert 0 < rule.spread < 0.1
    assert not stopped[:60].any()
    assert (model.labels_per_task[stopped] >= 3).all()
    right = model.posteriors.argmax(axis=1)[stopped] == honest.truth[stopped]
    assert abs(right.mean() - rule.estimate) < 3 * rule.spread
    assert rule.should_stop(model, int(np.flatnonzero(stopped)[0]))
    # a higher target stops fewer; wrong gold stops none
    assert StopEstimate(0.98, min_labels=3).calibrate(model, gold).find_stopped(model).sum() < stopped.sum()
    wrong = {task: 1 - label for task, label in gold.items()}
    assert not StopEstimate(0.9).calibrate(model, wrong).can_stop


def test_the_calibration_finds_what_trials_were_drawn_from():
    rng = np.random.default_rng(0)
    logit = rng.uniform(0, 6, 4000)
    right = (rng.random(4000) < 1 / (1 + np.exp(0.5 - 0.5 * logit))).astype(float)
    shares = weigh_calibrations([Trials(logit, right, np.ones(4000))], tuple(SEEN.values()))
    assert abs((shares.sum(axis=1) * DELTAS).sum() + 0.5) < 0.2
    at = np.array([1.0, 5.0])
    assert np.allclose(find_chances(shares, at), 1 / (1 + np.exp(0.5 - 0.5 * at)), atol=0.02)
    nothing = weigh_calibrations([], tuple(SEEN.values()))
    assert find_chances(nothing, np.array([np.log(99)]))[0] < 0.95  # crowds alone do not vouch for a posterior of .99


def test_trials_are_where_a_task_becomes_surer_than_before():
    first = np.array([0.9, 0.6, 0.8, 0.95, 0.9])[None, :, None]
    trials = find_trials(np.concatenate([first, 1 - first], axis=2), np.array([5]), np.array([[1.0, 0.0]]), 2)
    assert np.allclose(trials.logit, np.log([0.6 / 0.4, 0.8 / 0.2, 0.95 / 0.05]))
    assert np.allclose(trials.weight, 1 / 3)
    assert trials.right.tolist() == [1, 1, 1]


def test_every_label_weighs_by_the_other_answers_of_its_worker(honest):
    model = OnlineModel().partial_fit(honest.labels)
    task, evidence = model.evidence_of_every_label()
    for each in (3, 77):
        assert np.allclose(evidence[task == each], model.evidence_of_labels(each))


def test_first_labels_are_those_that_came_first_or_of_the_most_skilled(honest):
    model = OnlineModel().partial_fit(honest.labels)
    posteriors = TaskPosteriors(model)
    at = np.array([5, 2])
    came = posteriors.with_first_labels(at)
    last = posteriors.n_labels[at] - 1
    assert np.allclose(came[[0, 1], last], posteriors.with_all_labels[at])
    key = np.arange(model.n_labels, dtype=float)
    turned = posteriors.with_first_labels(at, key)  # the last label first
    assert np.allclose(turned[[0, 1], last], came[[0, 1], last])
    assert not np.allclose(turned[:, 0], came[:, 0])


def test_bad_estimates_are_one_error(honest):
    model = OnlineModel().partial_fit(honest.labels)
    for call, words in (
        (lambda: StopEstimate(target=1.0), "target is 1.0"),
        (lambda: StopEstimate(cap=0), "cap is 0"),
        (lambda: StopEstimate(seen=[(0, 1)]), "at least four crowds"),
        (lambda: StopEstimate(seen=[(0, 0)] * 4), "α of seen is 0"),
        (lambda: StopEstimate(seen=[(0, 1)] * 4), "differ"),
        (lambda: StopEstimate().calibrate(honest.labels, {}), "must be a crowdwise.acquire.OnlineModel"),
        (lambda: StopEstimate().find_stopped(None), "model is None"),
    ):
        with pytest.raises(InputError, match=words):
            call()
    rule = StopEstimate(cap=9).calibrate(model, {0: 1})
    assert "1 gold tasks have 2 labels" in rule.describe()
    assert rule.find_stopped(model)[1:].all()  # by the cap


def test_one_known_answer_is_no_certainty(honest):
    task = next(iter(dict(enumerate(honest.truth))))
    found = plan(honest.labels, 0.95, gold={task: honest.truth[task]})
    assert (found.high - found.low > 0.5).all()
    with pytest.raises(InputError, match="at least two classes"):
        plan(CrowdLabels.from_dense([["x"] * 5] * 5))
