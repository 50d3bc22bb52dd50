"""What a campaign promises, on SQLite and on PostgreSQL."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from tests.campaign.campaigns import answer, make_campaign, prepare, write_project

from crowdwise.campaign import tables as db
from crowdwise.campaign.answer_tables import counted_answers, every_answer
from crowdwise.campaign.clock import CampaignClock
from crowdwise.campaign.leases import ACCEPTED, REPEATED, Answer, Outcome
from crowdwise.campaign.manager_actions import ManagerActions
from crowdwise.campaign.project import read_project
from crowdwise.campaign.store import open_store
from crowdwise.campaign.writer import StoreUnavailableError
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from crowdwise.campaign.running_campaign import Campaign
    from crowdwise.campaign.writer import Work


class Time:
    """A monotonic clock that tests move."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


class Crowd:
    """A campaign with workers who ask and answer, without a server."""

    def __init__(self, campaign: Campaign) -> None:
        self.campaign, self.time = campaign, Time()
        campaign.store.clock = CampaignClock(1e9, monotonic=self.time)
        campaign.writer.regular = lambda work: None  # done when a test says so
        campaign.start()

    def run(self, work: Any) -> Any:
        return self.campaign.writer.run_blocking(work)

    def enter(self, name: str) -> int:
        self.run(lambda work: self.campaign.enter_within(work, name, {}))
        return self.campaign.worker_numbers[name]

    def lease(self, worker: int, n: int = 1) -> tuple[int, ...]:
        return self.run(lambda work: self.campaign._lease(work, worker, n)).tasks

    def submit(self, worker: int, task: int, value: Any = "cat", key: str = "", n_next: int = 1) -> Outcome:
        given = Answer(worker, task, key or f"{worker}-{task}", value and answer(value), n_next=n_next)
        return self.submit_many([given])[0]

    def submit_many(self, batch: list[Answer]) -> list[Outcome]:
        return self.run(lambda work: self.campaign._submit_many(work, batch))

    def undo(self, worker: int, key: str) -> Outcome:
        return self.run(lambda work: self.campaign.leases.undo(work.cursor, worker, key, work.now))

    def sweep(self) -> None:
        self.campaign._refreshed = -1e9
        self.run(self.campaign._do_regular_work)

    def labels(self) -> list[tuple[str, str, str]]:
        table = counted_answers(self.campaign.store)
        return list(zip(*(table[name].to_pylist() for name in ("task", "worker", "answer")), strict=True))

    def overlap(self) -> int:
        return max(Counter(task for task, _, _ in self.labels()).values(), default=0)


@contextlib.contextmanager
def make_crowds(tmp_path: Path) -> Iterator[Any]:
    """A function that begins campaigns, which are stopped in the end."""
    made: list[Crowd] = []

    def _make(n_tasks: int = 4, **more: Any) -> Crowd:
        made.append(Crowd(make_campaign(tmp_path, n_tasks, **more)))
        return made[-1]

    yield _make
    for crowd in made:
        crowd.campaign.stop()


@pytest.fixture
def make(database: str, tmp_path: Path) -> Iterator[Any]:
    with make_crowds(tmp_path) as made:
        yield made


def test_every_task_gets_its_answers_and_no_more(make: Any) -> None:
    """Ten workers, five places for each task, answers sent one by one and many in a transaction."""
    crowd = make(6, more="[answers]\nper_task = 5\n")
    workers = [crowd.enter(f"w{number}") for number in range(10)]
    held = {worker: crowd.lease(worker) for worker in workers}
    while any(held.values()):
        batch = [
            Answer(worker, tasks[0], f"{worker}-{tasks[0]}", answer("dog")) for worker, tasks in held.items() if tasks
        ]
        for given, outcome in zip(batch, crowd.submit_many(batch), strict=True):
            assert outcome.status == ACCEPTED
            held[given.worker] = outcome.tasks
    counts = Counter(task for task, _, _ in crowd.labels())
    assert set(counts.values()) == {5}
    assert len(counts) == 6
    assert len(set(crowd.labels())) == 30
    assert crowd.campaign.n_answers == 30
    assert crowd.campaign.n_leased == 0
    crowd.sweep()
    with crowd.campaign.store.read() as connection:
        assert set(connection.execute(sa.select(db.tasks.c.state, db.tasks.c.reason))) == {("finished", "cap")}


def test_sent_twice_counts_once(make: Any) -> None:
    crowd = make()
    worker = crowd.enter("ann")
    (task,) = crowd.lease(worker)
    assert crowd.lease(worker) == (task,)  # a reload shows the same question
    first = crowd.submit(worker, task, "cat", "k1")
    assert first.status == ACCEPTED
    assert crowd.submit(worker, task, "cat", "k1") == first._replace(status=REPEATED)
    assert crowd.submit(worker, task, "dog", "k2").status == "answered"
    assert crowd.submit(worker, first.tasks[0], "dog", "k1").status == "key"
    assert crowd.submit(worker, first.tasks[0], "dog", "k3").status == ACCEPTED  # its lease was not lost by that
    (third,) = crowd.lease(worker)
    twice = [Answer(worker, third, "k4", answer("dog"))] * 2
    assert sorted(each.status for each in crowd.submit_many(twice)) == [ACCEPTED, REPEATED]
    assert len(crowd.labels()) == 3


def test_a_full_task_takes_no_late_answer(make: Any) -> None:
    crowd = make(1, more="[answers]\nper_task = 1\nlease_seconds = 60\n")
    ann, bob = crowd.enter("ann"), crowd.enter("bob")
    assert crowd.lease(ann) == (1,)
    assert crowd.lease(bob) == ()
    crowd.time.seconds += 61
    crowd.sweep()
    assert crowd.lease(bob) == (1,)
    assert crowd.submit(bob, 1, "dog").status == ACCEPTED
    assert crowd.submit(ann, 1, "cat").status == "full"
    assert crowd.labels() == [("t0", "bob", '"dog"')]


def test_a_late_answer_is_taken_where_there_is_room(make: Any) -> None:
    crowd = make(1, more="[answers]\nper_task = 1\nlease_seconds = 60\n")
    ann = crowd.enter("ann")
    assert crowd.lease(ann) == (1,)
    crowd.time.seconds += 61
    crowd.sweep()
    assert crowd.campaign.n_leased == 0
    assert crowd.submit(ann, 1, "cat").status == ACCEPTED
    assert (crowd.campaign.n_answers, crowd.campaign.n_leased) == (1, 0)


def test_skip_and_undo_are_rows_of_their_own(make: Any) -> None:
    crowd = make(2, more="[answers]\nper_task = 1\n")
    ann = crowd.enter("ann")
    (first,) = crowd.lease(ann)
    (second,) = crowd.submit(ann, first, None, "skip").tasks
    assert second != first
    assert crowd.submit(ann, second, "cat", "one").tasks == ()  # nobody is asked again what they skipped
    crowd.sweep()
    assert crowd.undo(ann, "undo") == Outcome(ACCEPTED, (second,), second)
    assert crowd.undo(ann, "undo").status == REPEATED
    assert crowd.labels() == []
    assert crowd.submit(ann, second, "dog", "two").status == ACCEPTED
    events = every_answer(crowd.campaign.store)
    assert events["event"].to_pylist() == ["skip", "answer", "undo", "answer"]
    assert events["revision"].to_pylist() == [0, 0, 1, 2]
    assert [label[2] for label in crowd.labels()] == ['"dog"']
    assert crowd.undo(crowd.enter("bob"), "u").status == "nothing"


def test_a_clock_that_jumps_back_neither_keeps_nor_loses_leases(make: Any, tmp_path: Path) -> None:
    crowd = make(1, more="[answers]\nper_task = 1\nlease_seconds = 60\n")
    crowd.lease(crowd.enter("ann"))
    crowd.time.seconds += 30
    crowd.campaign.stop()
    again = Crowd(prepare(read_project(tmp_path / "project.toml")))
    begin = 1e9 - 86_400  # the clock of the machine is a day behind now
    with again.campaign.store.read() as connection:
        expires = connection.execute(sa.select(sa.func.max(db.slots.c.expires))).scalar_one()
    again.campaign.store.clock = CampaignClock(begin, expires - 60, monotonic=again.time)
    bob = again.enter("bob")
    assert again.lease(bob) == ()
    again.time.seconds += 61
    again.sweep()
    assert again.lease(bob) == (1,)
    again.campaign.stop()


def test_the_clock_of_a_store_begins_with_the_latest_time(make: Any, tmp_path: Path) -> None:
    crowd = make(1)
    crowd.campaign.store.clock = CampaignClock(4e9, monotonic=crowd.time)  # far ahead, then set right
    crowd.lease(crowd.enter("ann"))
    crowd.campaign.stop()
    store = open_store(read_project(tmp_path / "project.toml"))
    assert 4e9 <= store.clock.now() < 4e9 + 60
    store.close()


def test_exclusion_asks_anew_and_can_be_taken_back(make: Any) -> None:
    crowd = make(1, more="[answers]\nper_task = 1\n")
    ann, bob, cid = (crowd.enter(name) for name in ("ann", "bob", "cid"))
    manager = ManagerActions(crowd.campaign, "test")
    crowd.lease(ann)
    crowd.submit(ann, 1, "cat")
    crowd.sweep()
    manager.set_worker_state("ann", "excluded", "guesses")
    assert crowd.labels() == []
    manager.set_worker_state("ann", "active")
    assert crowd.labels() == [("t0", "ann", '"cat"')]
    manager.set_worker_state("ann", "excluded", "guesses after all")
    assert crowd.lease(bob) == (1,)
    crowd.submit(bob, 1, "dog")
    manager.set_worker_state("ann", "active")
    assert crowd.labels() == [("t0", "bob", '"dog"')]  # the place was taken: the cap holds
    assert crowd.lease(cid) == ()
    log = [(row.action, row.subject, row.reason) for row in crowd.campaign.store.list_actions()][::-1]
    assert log[0] == ("set worker excluded", "ann", "guesses")
    assert len(log) == 4


def test_a_worker_can_be_forgotten(make: Any) -> None:
    crowd = make(2, more="[answers]\nper_task = 1\n")
    ann, bob = crowd.enter("ann"), crowd.enter("bob")
    manager = ManagerActions(crowd.campaign, "test")
    for worker in (ann, bob):
        crowd.submit(worker, crowd.lease(worker)[0], "cat", n_next=0)
    manager.set_worker_state("ann", "paused", "ann is ill")
    other = manager.pseudonymise("ann")
    assert {worker for _, worker, _ in crowd.labels()} == {other, "bob"}
    manager.delete_worker("bob")
    assert [worker for _, worker, _ in crowd.labels()] == [other]
    with crowd.campaign.store.read() as connection:
        everything = str([connection.execute(sa.select(table)).all() for table in (db.workers, db.answers, db.actions)])
    assert "ann" not in everything
    assert "bob" not in everything
    with pytest.raises(InputError, match="no worker 'bob'"):
        manager.delete_worker("bob")


def test_the_budget_and_the_limit_of_a_worker_hold(make: Any) -> None:
    crowd = make(5, more="[answers]\nper_worker = 2\n[budget]\nanswers = 3\n")
    ann, bob = crowd.enter("ann"), crowd.enter("bob")
    (task,) = crowd.lease(ann)
    (task,) = crowd.submit(ann, task).tasks
    assert crowd.submit(ann, task).tasks == ()
    (task,) = crowd.lease(bob)
    assert crowd.submit(bob, task).tasks == ()
    assert len(crowd.labels()) == 3


def test_what_a_worker_holds_counts_towards_their_limit(make: Any) -> None:
    crowd = make(9, more="[answers]\nper_worker = 3\n")
    ann = crowd.enter("ann")
    held = [*crowd.lease(ann, 3)]
    while held:
        held += [task for task in crowd.submit(ann, held.pop(0)).tasks if task not in held]
    assert len(crowd.labels()) == 3


def test_what_is_held_beyond_a_lower_limit_is_not_asked(make: Any, tmp_path: Path) -> None:
    crowd = make(9, more="[answers]\nper_worker = 3\n")
    ann = crowd.enter("ann")
    held = crowd.lease(ann, 3)
    crowd.campaign.leases.per_worker = 1
    assert crowd.submit(ann, held[0]).tasks == crowd.lease(ann, 5) == ()


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_limits_hold_for_two_servers(make: Any, tmp_path: Path) -> None:
    crowd = make(9, more="[answers]\nper_worker = 4\n[budget]\nanswers = 6\n")
    other = Crowd(prepare(read_project(tmp_path / "project.toml")))
    other.campaign.store.clock = crowd.campaign.store.clock
    ann, bob = crowd.enter("ann"), crowd.enter("bob")
    for worker, server in ((ann, crowd), (ann, other), (bob, other), (bob, crowd)):
        tasks = server.lease(worker, 3)
        while tasks:
            tasks = server.submit(worker, tasks[0]).tasks
    assert Counter(worker for _, worker, _ in crowd.labels()) == {"ann": 4, "bob": 2}
    other.campaign.stop()


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_server_sees_what_another_finished_and_who_skipped(make: Any, tmp_path: Path) -> None:
    crowd = make(2, more="[answers]\nper_task = 1\n")
    other = Crowd(prepare(read_project(tmp_path / "project.toml")))
    other.campaign.store.clock = crowd.campaign.store.clock
    ann, bob = crowd.enter("ann"), crowd.enter("bob")
    crowd.submit(ann, crowd.lease(ann)[0], n_next=0)
    (task,) = crowd.lease(bob)
    crowd.submit(bob, task, None, n_next=0)
    crowd.sweep()
    other.sweep()
    assert list(other.campaign.queue.taken) == [task]
    assert other.lease(bob) == ()
    other.campaign.stop()


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_task_that_one_worker_has_had_elsewhere_is_not_full(make: Any, tmp_path: Path) -> None:
    (tmp_path / "gold.csv").write_text("task,label\nt0,cat\n")
    crowd = make(1, more='[gold]\nfile = "gold.csv"\n')
    other = Crowd(prepare(read_project(tmp_path / "project.toml")))
    other.campaign.store.clock = crowd.campaign.store.clock
    ann, bob = crowd.enter("ann"), crowd.enter("bob")
    crowd.submit(ann, crowd.lease(ann)[0])
    assert (other.lease(ann), other.lease(bob)) == ((), (1,))
    other.campaign.stop()


def test_a_shorter_lease_does_not_move_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CROWDWISE_DATABASE", raising=False)
    for seconds in (1_000_000, 600, 600):
        campaign = make_campaign(tmp_path, more=f"[answers]\nlease_seconds = {seconds}\n")
        campaign.start()
        campaign.writer.run_blocking(lambda work, own=campaign: own.enter_within(work, "ann", {}))
        campaign.writer.run_blocking(lambda work, own=campaign: own._lease(work, own.worker_numbers["ann"], 1))
        assert abs(campaign.store.clock.now() - time.time()) < 60
        campaign.stop()


def test_a_deleted_database_takes_no_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CROWDWISE_DATABASE", raising=False)
    crowd = Crowd(make_campaign(tmp_path))
    (tmp_path / "campaign.db").unlink()
    with pytest.raises(StoreUnavailableError):
        crowd.enter("ann")
    assert crowd.campaign.writer.failing
    crowd.campaign.stop()


def test_a_stopped_task_is_not_asked(make: Any) -> None:
    crowd = make(2)
    manager = ManagerActions(crowd.campaign, "test")
    manager.set_task_state("t0", "finished", "clear")
    ann = crowd.enter("ann")
    assert crowd.lease(ann, 5) == (2,)
    manager.set_task_state("t0", "open")
    assert sorted(crowd.lease(ann, 5)) == [1, 2]


def test_a_failed_transaction_stores_nothing_and_the_next_one_works(make: Any) -> None:
    crowd = make(2)
    ann = crowd.enter("ann")
    (task,) = crowd.lease(ann)

    def break_down(work: Work) -> None:
        crowd.campaign.leases.submit(work.cursor, Answer(ann, task, "k", answer("cat")), work.now)
        raise KeyError("in the middle")

    with pytest.raises(KeyError):
        crowd.run(break_down)
    assert crowd.labels() == []
    assert crowd.campaign.n_answers == 0
    assert crowd.submit(ann, task, "cat", "k").status == ACCEPTED


def test_two_servers_share_one_database(make: Any, tmp_path: Path, database: str) -> None:
    """Whatever one has in memory, the places of a task are in the database."""
    crowd = make(8, more="[answers]\nper_task = 2\n")
    other = Crowd(prepare(read_project(tmp_path / "project.toml")))
    other.campaign.store.clock = crowd.campaign.store.clock
    workers = [crowd.enter(f"w{number}") for number in range(6)]
    link = crowd.campaign.signer.make_link("w5", crowd.campaign.workers[workers[5]].link)
    assert other.campaign.read_link(link).name == "w5"  # at once, although the other server made it
    ManagerActions(crowd.campaign, "test").renew_link("w5")
    other.sweep()
    assert other.campaign.read_link(link) is None
    held: dict[tuple[int, int], tuple[int, ...]] = {}
    for number, worker in enumerate(workers):
        held[worker, number % 2] = (crowd, other)[number % 2].lease(worker)
    for _ in range(20):
        for (worker, side), tasks in list(held.items()):
            if tasks:
                held[worker, side] = (crowd, other)[side].submit(worker, tasks[0], "dog").tasks
    assert len(crowd.labels()) == 16
    assert crowd.overlap() == 2
    other.campaign.stop()


def test_migration_keeps_a_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CROWDWISE_DATABASE", raising=False)
    project = read_project(write_project(tmp_path))
    open_store(project).close()
    assert not list(tmp_path.glob("*.backup"))
    with sqlite3.connect(tmp_path / "campaign.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'later'")
    with pytest.raises(InputError, match="of a newer crowdwise"):
        open_store(project)
    from crowdwise.campaign.database import back_up

    copy = back_up(tmp_path / "campaign.db")
    with sqlite3.connect(copy) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == ("later",)
