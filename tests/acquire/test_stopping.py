"""A stop rule keeps its promise or makes none; forecasts; replays."""

from __future__ import annotations

import numpy as np
import pytest

from crowdwise import Auto, DawidSkene
from crowdwise.acquire import OnlineModel, StopEstimate, StopRule, plan, replay, replay_stopping, stop_estimate
from crowdwise.acquire.chance_to_stop import chance_to_stop
from crowdwise.acquire.stop_estimate import (
    DELTAS,
    SEEN,
    Look,
    Trials,
    find_chances,
    find_trials,
    fit_calibration,
    weigh_calibrations,
)
from crowdwise.acquire.stopping import find_first_passages
from crowdwise.evaluate.likelihood_tempering import temper_posterior
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


def test_bad_rules_are_one_error(honest):
    for call, words in (
        (lambda: StopRule(target=1.0), "target is 1.0"),
        (lambda: StopRule(delta=0), "delta is 0"),
        (lambda: StopRule(cap=0), "cap is 0"),
        (lambda: StopRule(prior=(0, 1)), "prior is"),
        (lambda: plan(honest.labels, 1.5), "target is 1.5"),
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


def fit_quickly(model):
    """A consensus that takes milliseconds."""
    fit = DawidSkene().fit(model.to_labels())
    return Look(temper_posterior(fit.posterior_, model.labels_per_task), fit.confusion_)


@pytest.fixture
def quick_consensus(monkeypatch):
    monkeypatch.setattr(stop_estimate, "fit_consensus", fit_quickly)


@pytest.fixture(scope="module")
def labelled(honest):
    """A model with all labels of a part of the tasks, their truth, and gold for the first sixty."""
    few = honest.labels.keep_tasks(np.arange(400) < 160)
    return OnlineModel().partial_fit(few), honest.truth[:160], dict(enumerate(honest.truth[:60].tolist()))


@pytest.mark.usefixtures("quick_consensus")
def test_an_estimate_stops_with_less_gold_than_a_promise_and_is_near_the_truth():
    crowd = simulate("dawid-skene", n_tasks=120, n_workers=8, n_classes=2, labels_per_task=7, skill=0.9, random_state=1)
    truth = dict(enumerate(crowd.truth.tolist()))
    run = replay_stopping(crowd.labels, truth, StopEstimate(0.9), gold=0.1)
    assert replay_stopping(crowd.labels, truth, StopRule(), gold=0.1, checks=0).share_of_tasks == 0
    assert run.share_of_tasks > 0.8
    assert not run.promised
    assert run.accuracy >= 0.93
    assert run.share_of_labels < 0.75
    assert "this is no promise" in run.words


@pytest.mark.usefixtures("quick_consensus")
def test_a_crowd_that_nobody_can_be_sure_of_is_given_up_and_not_stopped(honest):
    few = np.arange(400) < 100
    run = replay_stopping(
        mislead(honest).keep_tasks(few), dict(enumerate(honest.truth[:100].tolist())), StopEstimate(), gold=0.4
    )
    assert run.share_of_tasks == 0
    assert run.share_given_up > 0.9
    assert run.share_of_labels < 0.8
    assert run.words.startswith("No task is stopped: the surest task is right with an estimated chance of 0.")


@pytest.mark.usefixtures("quick_consensus")
def test_the_estimated_share_is_the_mean_chance_of_the_stopped_tasks(labelled):
    model, truth, gold = labelled
    rule = StopEstimate(0.98, min_labels=3).calibrate(model, gold)
    stopped = rule.find_stopped(model)
    assert 0.98 <= rule.estimate < 1
    assert 0 < rule.spread < 0.1
    assert (model.labels_per_task[stopped] >= 3).all()
    posterior = rule.posteriors(model)
    assert posterior.max(axis=1)[stopped].min() >= rule.threshold > posterior.max(axis=1)[~stopped].max()
    others = stopped & (np.arange(160) >= 60)
    right = posterior.argmax(axis=1)[others] == truth[others]
    assert abs(right.mean() - rule.estimate) < 3 * rule.spread
    assert rule.should_stop(model, int(np.flatnonzero(stopped)[0]))
    # a higher target stops fewer; wrong gold stops none
    assert StopEstimate(0.99, min_labels=3).calibrate(model, gold).find_stopped(model).sum() < stopped.sum()
    wrong = {task: 1 - label for task, label in gold.items()}
    assert not StopEstimate(0.9).calibrate(model, wrong).can_stop


def test_what_is_stopped_is_the_consensus_of_auto():
    crowd = simulate("dawid-skene", n_tasks=30, n_workers=5, n_classes=2, labels_per_task=4, random_state=1)
    model = OnlineModel().partial_fit(crowd.labels)
    assert np.allclose(StopEstimate().posteriors(model), Auto().fit(model.to_labels()).posterior_)
    assert StopEstimate().posteriors(OnlineModel(["a", "b"])).shape == (0, 2)


@pytest.mark.usefixtures("quick_consensus")
def test_tasks_are_given_up_that_few_labels_more_would_not_settle(labelled):
    model, _, gold = labelled
    rule = StopEstimate(0.99).calibrate(model, gold)
    stopped, none_left, many_left = (
        rule.find_stopped(model), rule.find_given_up(model, 9), rule.find_given_up(model, np.full(160, 60))
    )  # fmt: skip
    assert stopped.any()
    assert np.array_equal(none_left, ~stopped)  # no label is left
    assert not (many_left & ~none_left).any()
    assert many_left.sum() < none_left.sum()
    assert not StopEstimate(0.99, hope=0).calibrate(model, gold).find_given_up(model, 9).any()
    few = OnlineModel(["x", "y"])
    few.partial_fit({"task": list("aaabbb"), "worker": [*range(3)] * 2, "label": list("xxyxyy")})
    assert not StopEstimate().find_given_up(few, 9).any()  # not calibrated


def test_the_calibration_finds_what_trials_were_drawn_from():
    rng = np.random.default_rng(0)
    logit = rng.uniform(0, 6, 4000)
    right = rng.random(4000) < 1 / (1 + np.exp(0.5 - 0.5 * logit))
    trials = Trials(logit, right, np.ones(4000))
    shares = weigh_calibrations(trials, tuple(SEEN.values()))
    assert abs((shares.sum(axis=1) * DELTAS).sum() + 0.5) < 0.2
    assert np.allclose(fit_calibration(trials), (-0.5, 0.5), atol=0.1)
    at = np.array([1.0, 5.0])
    assert np.allclose(find_chances(shares, at), 1 / (1 + np.exp(0.5 - 0.5 * at)), atol=0.02)
    nothing = weigh_calibrations(Trials(np.empty(0), np.empty(0, bool), np.empty(0)), tuple(SEEN.values()))
    assert find_chances(nothing, np.array([np.log(99)]))[0] < 0.95  # crowds alone do not vouch for a posterior of .99


def test_trials_are_where_a_task_becomes_surer_than_before():
    confidence = np.array([[0.9, 0.6, 0.8, 0.7, 0.95, 0.9]])
    right = np.array([[True, True, False, True, True, True]])
    trials = find_trials(confidence, right, np.array([[False, True, True, True, True, True]]))
    assert np.allclose(trials.logit, np.log([0.6 / 0.4, 0.8 / 0.2, 0.95 / 0.05]))
    assert np.allclose(trials.weight, 1 / 3)
    assert trials.right.tolist() == [True, False, True]


@pytest.mark.parametrize("left", [0, 1, 2, 3])
def test_the_chance_to_stop_is_that_of_all_futures(left):
    """One worker of known matrix, so that all truths and labels to come can be counted."""
    matrix, start, chance, number, enough = np.array([[0.9, 0.1], [0.3, 0.7]]), np.array([0.7, 0.3]), 0.8, 2, 0.8

    def weigh(truth, logs, further):
        if further == left:
            return 0.0
        total = 0.0
        for label in (0, 1):
            then = logs + np.log(matrix[:, label])
            powered = np.exp(then * (number + further + 2.0) ** -0.4)
            top = 0.998 * powered.max() / powered.sum() + 0.001
            total += matrix[truth, label] * (1.0 if top >= enough else weigh(truth, then, further + 1))
        return total

    first = np.log(start) * 3.0**0.4
    exact = chance * weigh(0, first, 0) + (1 - chance) * weigh(1, first, 0)
    size = 2000
    found = chance_to_stop(
        np.tile(start, (size, 1)), np.full(size, chance), np.full(size, number), np.full(size, left), matrix[None],
        np.array([7]), np.ones(1), lambda confidence, _: confidence >= enough, np.random.default_rng(0),
    )  # fmt: skip
    assert abs(found.mean() - exact) < 4 * np.sqrt(exact * (1 - exact) / (32 * size)) + 1e-12


def test_bad_estimates_are_one_error(labelled):
    model, *_ = labelled
    for call, words in (
        (lambda: StopEstimate(target=1.0), "target is 1.0"),
        (lambda: StopEstimate(hope=2), "hope is 2"),
        (lambda: StopEstimate(seen=[(0, 1)]), "at least four crowds"),
        (lambda: StopEstimate(seen=[(0, 0)] * 4), "α of seen is 0"),
        (lambda: StopEstimate(seen=[(0, 1)] * 4), "differ"),
        (lambda: StopEstimate().calibrate(model.to_labels(), {}), "must be a crowdwise.acquire.OnlineModel"),
        (lambda: StopEstimate().find_stopped(None), "model is None"),
        (lambda: StopEstimate().find_given_up(model, 2.5), "most_labels is 2.5"),
        (lambda: StopEstimate().find_given_up(model, [1, 2]), "most_labels is"),
    ):
        with pytest.raises(InputError, match=words):
            call()
    rule = StopEstimate().calibrate(model, {0: 1})
    assert "1 gold tasks have 2 labels" in rule.describe()
    assert not rule.find_stopped(model).any()
    assert not StopEstimate().calibrate(OnlineModel(["a", "b"]), {}).find_stopped(OnlineModel()).any()


def test_one_known_answer_is_no_certainty(honest):
    task = next(iter(dict(enumerate(honest.truth))))
    found = plan(honest.labels, 0.95, gold={task: honest.truth[task]})
    assert (found.high - found.low > 0.5).all()
    with pytest.raises(InputError, match="at least two classes"):
        plan(CrowdLabels.from_dense([["x"] * 5] * 5))
