"""Which task is asked next, and which is asked no more."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.campaign.campaigns import answer, make_campaign

from crowdwise.acquire.pair_worth import score_pairs
from crowdwise.campaign import stop_keeper
from crowdwise.campaign.leases import Answer
from crowdwise.campaign.manager_pages import make_overview
from crowdwise.campaign.service import Service
from crowdwise.campaign.stop_by_gold import is_check
from crowdwise.campaign.task_order import choose_for_workers, rank_tasks
from crowdwise.campaign.task_queue import TaskQueue

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def first(queue: TaskQueue, worker: int = 1) -> int | None:
    return next(queue.candidates(worker), None)


def test_the_fewest_answers_come_first() -> None:
    queue = TaskQueue(cap=2, random_state=0)
    for task, taken in ((1, 1), (2, 0), (3, 2)):
        queue.add(task, taken)
    assert first(queue) == 2
    queue.seen[1].add(2)
    assert first(queue) == 1
    queue.change(1, 1)
    assert first(queue) is None
    assert first(queue, worker=2) == 2
    queue.close(2)
    assert first(queue, worker=2) is None
    queue.change(3, -1)
    assert first(queue, worker=2) == 3


def test_ranks_come_before_and_a_new_answer_puts_a_task_behind() -> None:
    queue = TaskQueue(cap=9, random_state=0)
    for task in (1, 2, 3):
        queue.add(task)
    queue.set_ranks({1: 7, 2: 3, 3: 5})
    assert first(queue) == 2
    queue.change(2, 1)
    assert first(queue) == 3
    queue.change(3, 1)
    assert first(queue) == 1
    queue.set_ranks(None)
    assert first(queue) == 1


def test_chance_decides_among_equals_and_gold_is_mixed_in() -> None:
    queue = TaskQueue(cap=1_000, gold_share=0.25, random_state=0)
    for task in range(100):
        queue.add(task)
    queue.note_gold(100)
    queue.add(100)
    drawn = [first(queue, worker) for worker in range(2_000)]
    assert len(set(drawn)) == 101
    assert 400 < drawn.count(100) < 600  # 25% of 2,000; four standard deviations are 77
    assert queue.n_open == 100


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.delenv("CROWDWISE_DATABASE", raising=False)
    more = '[answers]\nper_task = 9\n[stop]\nrule = "confidence"\ntarget = 0.95\nat_least = 2\n'
    campaign = make_campaign(tmp_path, 6, more=more)
    campaign.start()
    yield Service(campaign)
    campaign.stop()


def give(service: Service, worker: str, task: int, value: str) -> None:
    campaign = service.campaign
    campaign.writer.run_blocking(lambda work: campaign.enter_within(work, worker, {}))
    given = Answer(campaign.worker_numbers[worker], task, f"{task}", answer(value), n_next=0)
    campaign.writer.run_blocking(lambda work: campaign._submit_many(work, [given]))
    campaign.changed += 1


def test_a_sure_task_is_stopped_and_the_least_sure_is_next(service: Service) -> None:
    for worker in ("ann", "bob", "cid", "dan"):
        for task in range(1, 6):
            says_dog = task in (3, 4) or (task == 5 and worker in ("ann", "bob"))
            give(service, worker, task, "dog" if says_dog else "cat")
    snapshot = service.consensus.snapshot(fresh=True)
    assert [snapshot.tasks[f"t{number}"].answer for number in range(4)] == ["cat", "cat", "dog", "dog"]
    assert snapshot.tasks["t0"].confidence > 0.95 > snapshot.tasks["t4"].confidence
    assert snapshot.workers["cid"].skill > snapshot.workers["ann"].skill - 0.3
    assert [name for name, _ in snapshot.list_disputed()] == ["t4"]
    assert service.keeper.look(snapshot) == 4
    assert set(service.campaign.queue.taken) == {5, 6}
    assert list(service.campaign.queue.candidates(99)) == [6, 5]  # without any answer; then the disputed one
    assert service.campaign.store.find_task("t0").reason == "confidence of 0.95 reached"
    assert service.status()["finished"] == 4
    service.run_audit()
    assert service.forecast()
    assert "Forecast" in bytes(make_overview(service, "session", "http://x/").body).decode()


def test_chosen_tasks_come_first_but_not_before_those_with_few_answers() -> None:
    queue = TaskQueue(cap=9, random_state=0)
    for task, taken in ((1, 3), (2, 3), (3, 3), (4, 0)):
        queue.add(task, taken)
    queue.set_ranks({1: 2, 2: 5, 3: 7, 4: 0})
    queue.set_choices({7: [3, 2]}, after=2)
    assert list(queue.candidates(7)) == [4, 3, 2, 1, 2, 3]
    assert list(queue.candidates(8)) == [4, 1, 2, 3]
    queue.change(3, 1)  # somebody has it now
    assert list(queue.candidates(7))[:2] == [4, 2]
    queue.close(2)
    queue.seen[7].add(4)
    assert list(queue.candidates(7)) == [1, 3]
    assert list(queue.recent) == [8, 7]


def test_any_task_is_asked_where_the_policy_is_uniform() -> None:
    queue = TaskQueue(cap=9, fewest_first=False, random_state=0)
    for task in range(5):
        queue.add(task, taken=task)
    assert {first(queue, worker) for worker in range(60)} == set(range(5))


def play(service: Service, n_workers: int, wrong: float) -> None:
    """Workers who answer all tasks; even tasks are cats; each is wrong in some."""
    campaign = service.campaign
    dice = random.Random(1)  # noqa: S311
    for worker in range(n_workers):
        campaign.writer.run_blocking(lambda work, name=f"w{worker}": campaign.enter_within(work, name, {}))
        number = campaign.worker_numbers[f"w{worker}"]
        batch = [
            Answer(number, task, f"{task}", answer("cat" if (task % 2 == 0) != (dice.random() < wrong) else "dog"),
                   n_next=0) for task in campaign.tasks
        ]  # fmt: skip
        campaign.writer.run_blocking(lambda work, batch=batch: campaign._submit_many(work, batch))
    campaign.changed += 1


@pytest.fixture
def open_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes services of forty tasks, the first 25 of them gold."""
    monkeypatch.delenv("CROWDWISE_DATABASE", raising=False)
    rows = [f"t{number},{'dog' if number % 2 == 0 else 'cat'}" for number in range(25)]  # numbers of tasks begin at 1
    (tmp_path / "gold.csv").write_text("task,label\n" + "\n".join(rows) + "\n")
    opened = []

    def make(more: str) -> Service:
        campaign = make_campaign(tmp_path, 40, more=more + '[gold]\nfile = "gold.csv"\n')
        campaign.start()
        opened.append(campaign)
        return Service(campaign)

    yield make
    for campaign in opened:
        campaign.stop()


def test_an_estimate_stops_tasks_and_the_page_says_that_it_is_no_promise(open_service: Any) -> None:
    service = open_service('[answers]\nper_task = 9\n[stop]\nrule = "estimate"\ntarget = 0.9\nchecks = 0.3\n')
    page = bytes(make_overview(service, "session", "http://x/").body).decode()
    assert "Stop rule <b>estimate</b>: No task is stopped: nobody has looked yet." in page
    play(service, 6, wrong=0.05)
    checks = {number for number in service.campaign.tasks if is_check(number, 0.3)}
    assert service.keeper.look(service.consensus.snapshot(fresh=True)) == len(set(range(26, 41)) - checks) > 0
    assert checks & set(range(26, 41)) <= set(service.campaign.queue.taken)
    page = bytes(make_overview(service, "session", "http://x/").body).decode()
    assert "of the stopped tasks are right, with a standard error of" in page
    assert "this is no promise." in page
    assert "Next task by the policy <b>uncertainty</b>" in page


def test_a_promise_is_made_or_refused_in_a_sentence(open_service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    service = open_service('[answers]\nper_task = 9\n[stop]\nrule = "promise"\ndelta = 0.4\ntarget = 0.8\n')
    play(service, 6, wrong=0.05)
    monkeypatch.setattr(stop_keeper, "AT_ONCE", 4)
    writer, transactions = service.campaign.writer, []
    run = writer.run_blocking
    monkeypatch.setattr(writer, "run_blocking", lambda work: (transactions.append(work), run(work)))
    assert service.keeper.look(service.consensus.snapshot(fresh=True)) == 15
    assert len(transactions) == 5  # four for 15 tasks, so that answers come between; one for the order
    assert "With a probability of 0.6, 80% or more of the stopped tasks are right" in service.keeper.describe()
    strict = replace(service.project, stop=replace(service.project.stop, delta=0.001, target=0.99))
    service.project = strict
    assert service.keeper.look(service.consensus.snapshot(fresh=True)) == 0
    assert service.keeper.describe().startswith("Nothing is promised yet, and no task is stopped")


def test_a_worker_is_asked_what_they_would_tell_most_of(open_service: Any) -> None:
    service = open_service('[answers]\npolicy = "joint"\nper_task = 9\n')
    play(service, 4, wrong=0.2)
    campaign = service.campaign
    campaign.writer.run_blocking(lambda work: campaign.enter_within(work, "new", {}))
    number = campaign.worker_numbers["w0"]
    campaign.queue.seen[number] -= set(range(26, 41))
    list(campaign.queue.candidates(number))
    list(campaign.queue.candidates(campaign.worker_numbers["new"]))
    snapshot = service.consensus.snapshot(fresh=True)
    assert snapshot.model is not None
    chosen = choose_for_workers(service, snapshot)
    assert list(chosen) == [number]  # of the new one nothing is known
    at = np.array([snapshot.model.tasks.find(f"t{task - 1}") for task in range(26, 41)])
    place = np.full(at.size, snapshot.model.workers.find("w0"))
    worth = score_pairs(snapshot.model, at, place)
    assert np.allclose(np.sort(-worth), [-worth[task - 26] for task in chosen[number]])
    assert service.keeper.look(snapshot) == 0
    campaign.queue.gold_share = 0
    assert next(campaign.queue.candidates(number)) == chosen[number][0]
    ranks = rank_tasks(service, snapshot)
    assert ranks is not None
    unsure = min(range(26, 41), key=lambda task: snapshot.tasks[f"t{task - 1}"].confidence)
    assert ranks[unsure] == min(ranks[task] for task in range(26, 41))


@pytest.mark.parametrize(
    ("head", "tasks", "answers", "wanted"),
    [
        ('kind = "values"\nlow = 0\nhigh = 10\n', "task,text\na,x\nb,y\nc,z\n", [2.0, 3.0, 2.5], "2.5"),
        ('kind = "multi-label"\nclasses = ["r", "s"]\n', "task,text\na,x\nb,y\nc,z\n", [["r"], ["r"], ["r", "s"]], "r"),
        ('kind = "comparison"\n', "task,left,right\na,x,y\nb,y,z\nc,x,z\n", ["left", "left", "right"], "left"),
        # The same items on several inputs.
        ('kind = "comparison"\n', "task,left,right\na,x,y\nb,x,y\nc,y,z\n", ["left", "left", "right"], "left"),
    ],
)
def test_other_kinds_have_a_live_consensus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: str, tasks: str, answers: list[Any], wanted: str
) -> None:
    monkeypatch.delenv("CROWDWISE_DATABASE", raising=False)
    campaign = make_campaign(tmp_path, head=f'title = "x"\n[question]\ntext = "?"\n{head}', tasks=tasks)
    campaign.start()
    service = Service(campaign)
    for number, value in enumerate(answers):
        for task in (1, 2, 3):
            give(service, f"w{number}", task, value)
    found = service.consensus.snapshot(fresh=True)
    campaign.stop()
    assert found.note == ""
    said = found.tasks["a"].answer
    assert wanted in (f"{said:.1f}" if isinstance(said, float) else json.dumps(said))
    assert found.workers["w0"].n_answers == 3
    if "comparison" in head:
        assert [row["item"] for row in found.scores] == ["x", "y", "z"]
