"""Which task is asked next, and which is asked no more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.campaign.campaigns import answer, make_campaign

from crowdwise.campaign.leases import Answer
from crowdwise.campaign.manager_pages import make_overview
from crowdwise.campaign.service import Service
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
    queue.add(100, gold=True)
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


@pytest.mark.parametrize(
    ("head", "tasks", "answers", "wanted"),
    [
        ('kind = "values"\nlow = 0\nhigh = 10\n', "task,text\na,x\nb,y\nc,z\n", [2.0, 3.0, 2.5], "2.5"),
        ('kind = "multi-label"\nclasses = ["r", "s"]\n', "task,text\na,x\nb,y\nc,z\n", [["r"], ["r"], ["r", "s"]], "r"),
        ('kind = "comparison"\n', "task,left,right\na,x,y\nb,y,z\nc,x,z\n", ["left", "left", "right"], "left"),
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
