"""What becomes of questions, places and tasks where undo, leases, exclusion and stops meet, on both databases."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from tests.campaign.campaigns import prepare, write_project
from tests.campaign.test_databases import Crowd, make_crowds

from crowdwise.campaign import tables as db
from crowdwise.campaign.exports import export_table
from crowdwise.campaign.leases import BARRED
from crowdwise.campaign.manager_actions import ManagerActions
from crowdwise.campaign.project import read_project
from crowdwise.campaign.running_campaign import open_campaign
from crowdwise.campaign.service import Service
from crowdwise.campaign.task_files import Task

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def make(database: str, tmp_path: Path) -> Iterator[Any]:
    with make_crowds(tmp_path) as made:
        yield made


def restart(crowd: Crowd) -> Crowd:
    """The same campaign, begun anew at the same time."""
    clock, project = crowd.campaign.store.clock, crowd.campaign.project
    crowd.campaign.stop()
    other = Crowd(prepare(project))
    other.campaign.store.clock, other.time = clock, crowd.time
    return other


def wait_for_the_end_of_leases(crowd: Crowd) -> None:
    crowd.time.seconds += crowd.campaign.project.lease_seconds + 1
    crowd.sweep()


@pytest.mark.parametrize("gold", ["", "task,label\nt0,cat\n"])
def test_a_question_comes_again_after_its_lease_has_ended(make: Any, tmp_path: Path, gold: str) -> None:
    (tmp_path / "gold.csv").write_text(gold)
    crowd = make(1, more='[gold]\nfile = "gold.csv"\n' if gold else "")
    worker = crowd.enter("ann")
    assert crowd.lease(worker) == (1,)
    wait_for_the_end_of_leases(crowd)
    assert crowd.lease(worker) == (1,)


def test_what_was_taken_back_is_asked_again(make: Any) -> None:
    crowd = make(1)
    worker = crowd.enter("ann")
    crowd.submit(worker, crowd.lease(worker)[0])
    assert crowd.undo(worker, "u").tasks == (1,)
    wait_for_the_end_of_leases(crowd)
    assert crowd.lease(worker) == (1,)
    crowd.run(lambda work: crowd.campaign.leases.leave(work.cursor, worker))
    other = restart(crowd)
    assert other.lease(worker) == (1,)
    assert other.submit(worker, 1, None, "skip").tasks == ()
    last = restart(other)
    assert last.lease(worker) == ()
    last.campaign.stop()


def test_an_undo_of_a_stopped_task_frees_its_other_places(make: Any) -> None:
    crowd = make(1, more="[answers]\nper_task = 4\n")
    ann, bob = crowd.enter("ann"), crowd.enter("bob")
    crowd.submit(ann, crowd.lease(ann)[0], n_next=0)
    crowd.run(lambda work: ManagerActions(crowd.campaign, "rule").change_task(work, 1, "finished", "sure"))
    crowd.undo(ann, "u")
    assert crowd.campaign.queue.taken == {1: 1}
    assert crowd.lease(bob) == (1,)


def test_gold_stays_gold_after_a_restart_and_an_undo(make: Any, tmp_path: Path) -> None:
    (tmp_path / "gold.csv").write_text("task,label\nt0,cat\n")
    crowd = make(2, more='[answers]\nper_task = 1\n[gold]\nfile = "gold.csv"\n')
    worker = crowd.enter("ann")
    crowd.campaign.queue.gold_share = 1
    for task in reversed(crowd.lease(worker, 2)):  # gold comes first, and is answered last
        crowd.submit(worker, task, n_next=0)
    crowd.sweep()
    other = restart(crowd)
    other.undo(worker, "u")
    other.run(lambda work: other.campaign.leases.leave(work.cursor, worker))
    assert (list(other.campaign.queue.taken), other.campaign.queue.n_open) == ([1], 0)
    other.campaign.stop()


@pytest.mark.parametrize("then", ["exclude", "undo"])
def test_the_manager_stops_a_task_that_has_all_its_answers(make: Any, then: str) -> None:
    crowd = make(1, more="[answers]\nper_task = 1\n")
    worker, actions = crowd.enter("ann"), ManagerActions(crowd.campaign, "test")
    crowd.submit(worker, crowd.lease(worker)[0])
    crowd.sweep()
    assert crowd.campaign.store.find_task("t0").reason == "cap"
    actions.set_task_state("t0", "finished", "broken")
    if then == "exclude":
        actions.set_worker_state("ann", "excluded")
    else:
        crowd.undo(worker, "u")
    row = crowd.campaign.store.find_task("t0")
    assert (row.state, row.reason) == ("finished", "manager: broken")


def test_a_full_task_that_is_opened_is_finished_again(make: Any) -> None:
    crowd = make(1, more="[answers]\nper_task = 1\n")
    worker = crowd.enter("ann")
    crowd.submit(worker, crowd.lease(worker)[0])
    crowd.sweep()
    ManagerActions(crowd.campaign, "test").set_task_state("t0", "open")
    crowd.sweep()
    assert crowd.campaign.store.find_task("t0").state == "finished"


@pytest.mark.parametrize("freed_by", ["time", "exclusion"])
def test_a_stopped_task_takes_no_late_answer(make: Any, freed_by: str) -> None:
    crowd = make(1)
    ann, bob = crowd.enter("ann"), crowd.enter("bob")
    actions = ManagerActions(crowd.campaign, "test")
    crowd.lease(ann)
    crowd.lease(bob)
    actions.set_task_state("t0", "finished")
    wait_for_the_end_of_leases(crowd) if freed_by == "time" else actions.set_worker_state("bob", "excluded")
    if freed_by == "exclusion":
        crowd.run(lambda work: crowd.campaign.leases.leave(work.cursor, ann))
    assert crowd.submit(ann, 1).status == "full"
    actions.set_task_state("t0", "open")
    assert crowd.submit(ann, 1, key="again").status == "accepted"


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
@pytest.mark.parametrize("state", ["excluded", "paused", "deleted"])
def test_who_is_barred_on_one_server_is_barred_on_the_other(make: Any, tmp_path: Path, state: str) -> None:
    crowd = make(3)
    other = Crowd(prepare(read_project(tmp_path / "project.toml")))
    other.campaign.store.clock = crowd.campaign.store.clock
    ann, actions = crowd.enter("ann"), ManagerActions(crowd.campaign, "test")
    other.sweep()
    (task,) = other.lease(ann)
    actions.delete_worker("ann") if state == "deleted" else actions.set_worker_state("ann", state)
    assert other.campaign.workers[ann].state == "active"  # as far as is known there
    assert other.submit(ann, task).status == BARRED
    assert other.lease(ann) == ()
    assert crowd.labels() == []
    other.campaign.stop()


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_manager_finds_what_another_server_has_just_added(make: Any, tmp_path: Path) -> None:
    crowd = make(1)
    other = Crowd(prepare(read_project(tmp_path / "project.toml")))
    crowd.enter("ann")
    crowd.campaign.store.add_tasks([Task("late", {"text": "x"})])
    actions = ManagerActions(other.campaign, "test")
    actions.set_worker_state("ann", "paused")
    actions.set_task_state("late", "finished")
    assert crowd.campaign.store.find_task("late").state == "finished"
    other.campaign.stop()


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_task_that_another_server_has_just_added(make: Any, tmp_path: Path) -> None:
    head = 'title = "x"\n[question]\nkind = "comparison"\ntext = "Which?"\n'
    crowd = make(head=head, tasks="task,left,right\nt0,a,b\n")
    other = Crowd(prepare(read_project(tmp_path / "project.toml")))
    other.campaign.store.clock = crowd.campaign.store.clock
    ann = crowd.enter("ann")

    def add(name: str) -> int:
        crowd.campaign.store.add_tasks([Task(name, {"left": "u", "right": "v"})])
        crowd.run(crowd.campaign.load_new)
        return crowd.campaign.task_numbers[name]

    late = add("late")
    assert late in crowd.lease(ann, 2)
    assert late in other.lease(ann, 2)
    assert other.campaign.tasks[late].name == "late"
    later = add("later")
    assert asyncio.run(other.campaign.find_task("later")) == later
    last = add("last")
    crowd.submit(ann, last, "left")
    labels = export_table(Service(other.campaign), "labels")
    assert labels.select(["task", "left", "right"]).to_pylist() == [{"task": "last", "left": "u", "right": "v"}]
    other.campaign.stop()


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_servers_that_start_at_once_with_another_number_of_answers(make: Any, tmp_path: Path) -> None:
    make(50).campaign.stop()
    project = read_project(write_project(tmp_path, 50, more="[answers]\nper_task = 5\n"))
    with ThreadPoolExecutor(4) as pool:
        for campaign in pool.map(lambda _: open_campaign(project), range(4)):
            campaign.store.close()
    with campaign.store.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(db.slots)).scalar() == 250
    campaign.store.close()
