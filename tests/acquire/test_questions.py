"""Policies against brute force, and what a batch of questions must keep to."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from crowdwise.acquire import TASK_POLICIES, WORKER_POLICIES, OnlineModel, choose_task, next_questions
from crowdwise.acquire.pair_worth import score_pairs
from crowdwise.acquire.worker_policies import EpsilonGreedy, WorkersSoFar
from crowdwise.labels.errors import InputError
from crowdwise.simulate import simulate

CROWD = simulate("dawid-skene", n_tasks=30, n_workers=6, n_classes=3, labels_per_task=2, skill=0.7, random_state=5)


@pytest.fixture(scope="module")
def model():
    made = OnlineModel().partial_fit(CROWD.labels)
    made.add_task("empty")
    made.set_gold({name: int(CROWD.truth[name]) for name in range(4)})
    return made


def enumerate_answers(q, table):
    """Posterior of the truth after each answer, and the chance of the answer."""
    for label in range(len(q)):
        joint = q * table[:, label]
        yield joint.sum(), joint / joint.sum()


def test_worth_is_what_all_answers_give_on_average():
    rng = np.random.default_rng(0)
    posterior, table = rng.dirichlet(np.ones(3), 5), rng.dirichlet(np.ones(3), 3)

    def entropy(q):
        return -(q * np.log(q)).sum()

    gain = [entropy(q) - sum(p * entropy(after) for p, after in enumerate_answers(q, table)) for q in posterior]
    less = [sum(p * after.max() for p, after in enumerate_answers(q, table)) - q.max() for q in posterior]
    number = np.zeros(5, np.int64)
    assert np.allclose(TASK_POLICIES["information-gain"]().score(posterior, number, table), gain)
    assert np.allclose(TASK_POLICIES["error-reduction"]().score(posterior, number, table), less)
    assert np.allclose(TASK_POLICIES["uncertainty"]().score(posterior, number, table), [entropy(q) for q in posterior])
    top = np.sort(posterior, axis=1)
    assert np.allclose(TASK_POLICIES["margin"]().score(posterior, number, table), 1 - top[:, 2] + top[:, 1])


def test_workers_are_chosen_by_skill_and_cost():
    so_far = WorkersSoFar(np.array([[9.0, 1], [5, 5], [1, 9]]), np.array([10, 10, 10]), np.ones(3), 500, 2)
    rng = np.random.default_rng(0)
    assert WORKER_POLICIES["best"]().score(so_far, rng).argmax() == 0
    dear = so_far._replace(costs=np.array([100.0, 1, 1]), counts=np.array([[9.0, 1], [8, 2], [1, 9]]))
    assert WORKER_POLICIES["best"]().score(dear, rng).argmax() == 1
    rare = so_far._replace(n_answers=np.array([200, 200, 1]))
    assert WORKER_POLICIES["bandit"]().score(rare, rng).argmax() == 2
    thompson = Counter(int(WORKER_POLICIES["thompson"]().score(so_far, rng).argmax()) for _ in range(200))
    assert thompson[0] > 150
    for n_labels, epsilon in ((10, 0.5), (500, 0.05)):
        others = sum(EpsilonGreedy().score(so_far._replace(n_labels=n_labels), rng).argmax() != 0 for _ in range(2000))
        assert abs(others / 2000 - epsilon * 2 / 3) < 0.04


LIMITS = {"cap": 3, "capacity": {0: 2, 1: 0}, "gold_share": 0.3, "workers": [0, 1, 2, 3], "costs": {2: 0.5}}
CHOICES = [*((policy, worker) for policy in TASK_POLICIES for worker in WORKER_POLICIES), ("joint", None)]


@pytest.mark.parametrize(("policy", "worker_policy"), CHOICES)
def test_a_batch_keeps_to_what_is_allowed(model, policy, worker_policy):
    found = next_questions(model, 25, policy=policy, worker_policy=worker_policy, budget=12.0, **LIMITS)
    pairs = [(each.task, each.worker) for each in found]
    assert pairs
    assert len(set(pairs)) == len(pairs)
    assert not any(model.has_answered(*pair) for pair in pairs)
    assert sum(each.cost for each in found) <= 12
    asked = Counter(each.worker for each in found)
    assert asked[1] == 0
    assert asked[0] <= 2
    for task, number in Counter(each.task for each in found if not each.gold).items():
        assert model.labels_per_task[model.tasks.find(task)] + number <= 3
    assert {each.task for each in found if each.gold} <= set(range(4))
    assert found == next_questions(model, 25, policy=policy, worker_policy=worker_policy, budget=12.0, **LIMITS)


def test_one_question_for_one_worker(model):
    assert choose_task(model, 0, policy="round-robin").task == "empty"
    assert choose_task(model, "someone new", tasks=["empty"], pending={"empty": 3}, cap=3) is None
    assert choose_task(model, 0, gold_share=1.0).gold
    labelled = next(name for name in model.tasks.every if model.has_answered(name, 0))
    assert choose_task(model, 0, tasks=[labelled]) is None


def test_bad_limits_are_one_error(model):
    for options, words in (
        ({"costs": {0: 0}}, "cost of 0 is 0"),
        ({"costs": -1}, "costs is -1"),
        ({"costs": {"nobody": 1}}, "no labels: 'nobody'"),
        ({"workers": ["nobody"]}, "no worker 'nobody'"),
        ({"workers": []}, "no worker to ask"),
        ({"budget": 0}, "budget is 0"),
        ({"cap": 0}, "cap is 0"),
        ({"capacity": {0: -1}}, "capacity of 0 is -1"),
        ({"gold_share": 2}, "gold_share is 2"),
        ({"n": 0}, "n is 0"),
        ({"policy": "best"}, "policy is 'best'"),
        ({"worker_policy": "worst"}, "worker_policy is 'worst'"),
        ({"workers": [0, "0"]}, "workers names 0 more than once"),
        ({"workers": "01"}, "workers is '01'"),
        ({"costs": {0: 1, "0": 5}}, "costs names 0 more than once"),
        ({"policy": NotAPolicy()}, "policy is"),
        ({"tasks": 3}, "tasks is 3"),
        ({"policy": Scores(np.nan)}, "of it not a number; it must be"),
        ({"policy": Scores("a")}, "array of numbers"),
        ({"worker_policy": Scores([1.0])}, "must be 6 numbers"),
    ):
        with pytest.raises(InputError, match=words):
            next_questions(model, **options)
    for options, words in (
        ({"rng": 3}, "rng is 3"),
        ({"pending": [0]}, "pending is"),
        ({"pending": {0: 1, "0": 2}}, "pending names 0 more than once"),
        ({"worker": None}, "Give every worker a name"),
    ):
        with pytest.raises(InputError, match=words):
            choose_task(model, **{"worker": 0, **options})


@pytest.mark.parametrize("policy", list(TASK_POLICIES))
def test_one_class_leaves_nothing_to_tell_and_none_is_an_error(policy):
    model = OnlineModel()
    model.add_task("t")
    with pytest.raises(InputError, match="no classes yet"):
        choose_task(model, "w", policy=policy)
    model.add("t", "ann", "only")
    assert choose_task(model, "bob", policy=policy).worth <= 0 or policy == "uniform"


class NotAPolicy:
    score = 3


class Scores:
    """A policy of the user's own that gives the same whatever is asked."""

    def __init__(self, given):
        self.given = given

    def score(self, first, *_):
        return [self.given] * len(first) if isinstance(self.given, float | str) else self.given


# ---- task and worker together -----------------------------------------------------------------------


def test_a_joint_batch_begins_with_tasks_without_a_label_and_has_gold(model):
    found = next_questions(model, 25, policy="joint", budget=12.0, **LIMITS)
    assert len(found) > 10
    assert any(each.gold for each in found)
    assert next(each for each in found if not each.gold).task == "empty"


def test_a_joint_batch_is_the_best_pairs_one_after_the_other(model):
    costs = np.array([1.0, 2, 1, 1, 0.5, 1])
    found = next_questions(model, 12, policy="joint", costs=dict(enumerate(costs.tolist())), cap=4)
    task, worker = (each.ravel() for each in np.meshgrid(np.arange(31), np.arange(6), indexing="ij"))
    worth = score_pairs(model, task, worker).reshape(31, 6) / costs
    number = model.labels_per_task.astype(float)
    waiting = np.zeros(31)
    for at, name in enumerate(model.workers.every):
        worth[[model.tasks.find(each) for each in model.tasks.every if model.has_answered(each, name)], at] = -1
    worth[model.gold >= 0] = -1
    for each in found:
        now = np.where(worth >= 0, worth / (1 + waiting[:, None]), -1)
        now[number + waiting >= 4] = -1
        without = (number + waiting == 0) & (now >= 0).any(axis=1)
        if without.any():
            now[~without] = -1
        assert np.isclose(each.worth, now.max())
        at = model.tasks.find(each.task), model.workers.find(each.worker)
        assert np.isclose(now[at], now.max())
        waiting[at[0]] += 1
        worth[at] = -1


def test_joint_asks_those_whom_the_others_confirm():
    crowd = simulate("spammers", n_tasks=100, n_workers=12, n_classes=3, labels_per_task=5, share=0.5, random_state=1)
    honest = [kind != "spammer" for kind in crowd.kinds]
    found = next_questions(crowd.labels, 30, policy="joint")
    assert np.mean([honest[each.worker] for each in found]) > 0.9
    model = OnlineModel().partial_fit(crowd.labels)
    chosen = choose_task(model, 0, policy="joint")
    at = np.array([task for task in range(100) if not model.has_answered(task, 0)])
    assert np.isclose(chosen.worth, score_pairs(model, at, np.zeros(at.size, np.int64)).max())
    assert choose_task(model, "someone new", policy="joint") is not None


def test_joint_takes_no_worker_policy_and_needs_classes(model):
    with pytest.raises(InputError, match="'joint' chooses the worker too: leave worker_policy out"):
        next_questions(model, policy="joint", worker_policy="best")
    with pytest.raises(InputError, match="'error-reduction', 'joint'"):
        next_questions(model, policy="together")
    empty = OnlineModel()
    empty.add_task("t")
    empty.add_worker("w")
    with pytest.raises(InputError, match="no classes yet"):
        next_questions(empty, policy="joint")
    fresh = OnlineModel(["x", "y"])
    fresh.add_task("t")
    fresh.add_worker("w")
    assert [(each.task, each.worker) for each in next_questions(fresh, policy="joint")] == [("t", "w")]
    assert next_questions(fresh, policy="joint", costs=3.0, budget=2.0) == []
