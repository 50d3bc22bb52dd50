"""What a manager does to a campaign that runs. Each is one transaction, with its line in the log of actions."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING

import sqlalchemy as sa

from crowdwise.campaign import tables as db
from crowdwise.campaign.running_campaign import INVITED
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.campaign.running_campaign import Campaign, KnownWorker
    from crowdwise.campaign.writer import Work

__all__ = ["ManagerActions"]


class ManagerActions:
    """Actions of one manager.

    Parameters
    ----------
    campaign
        The campaign.
    manager
        How they came in: "password", "token" or "command".
    """

    def __init__(self, campaign: Campaign, manager: str) -> None:
        self.campaign, self.manager = campaign, manager

    def _run(self, work: Callable[[Work], None], action: str, subject: str, reason: str = "") -> None:
        def whole(given: Work) -> None:
            work(given)
            given.connection.execute(
                db.actions.insert().values(
                    created=given.now, manager=self.manager, action=action, subject=subject, reason=reason
                )
            )

        self.campaign.writer.run_blocking(whole)
        self.campaign.changed += 1

    def _find_worker(self, name: str) -> KnownWorker:
        if name not in self.campaign.worker_numbers:  # another server may have just added them
            self.campaign.writer.run_blocking(lambda given: self.campaign.load_workers(given.connection))
        if name not in self.campaign.worker_numbers:
            raise InputError(f"There is no worker {quote(name)}.")
        return self.campaign.workers[self.campaign.worker_numbers[name]]

    def add_worker(self, name: str) -> KnownWorker:
        """A worker who is to have a link."""

        def work(given: Work) -> None:
            self.campaign.enter_within(given, name, {})
            self._note_invited(given, name)

        self._run(work, "add worker", name)
        return self._find_worker(name)

    @staticmethod
    def _note_invited(work: Work, name: str) -> None:
        """Nobody else comes in under the name of a worker who came by the open link and is sent a personal one."""
        where = db.workers.c.name == name
        details = json.loads(work.connection.execute(sa.select(db.workers.c.details).where(where)).scalar() or "{}")
        if details and INVITED not in details:
            work.connection.execute(
                db.workers.update().where(where).values(details=json.dumps({**details, INVITED: "yes"}))
            )

    def renew_link(self, name: str) -> KnownWorker:
        """Make the worker's links invalid, so that a new one can be made."""
        worker = self._find_worker(name)

        def work(given: Work) -> None:
            given.connection.execute(
                db.workers.update().where(db.workers.c.id == worker.id).values(link=db.workers.c.link + 1)
            )
            self._note_invited(given, name)
            self.campaign.load_workers(given.connection)

        self._run(work, "renew link", name)
        return self._find_worker(name)

    def set_worker_state(self, name: str, state: str, reason: str = "") -> None:
        """Let a worker work ("active"), pause them, or exclude them: their answers do not count, and are asked anew.

        A worker who is admitted again gets back the places of their answers that nobody has taken meanwhile.
        """
        worker = self._find_worker(name)

        def work(given: Work) -> None:
            was = given.connection.execute(sa.select(db.workers.c.state).where(db.workers.c.id == worker.id)).scalar()
            given.connection.execute(
                db.workers.update().where(db.workers.c.id == worker.id).values(state=state, reason=reason)
            )
            if state != "active":
                self.campaign.leases.leave(given.cursor, worker.id)
            if state == "excluded":
                self._free_answers(given, worker.id)
            elif was == "excluded":
                self._restore_answers(given, worker.id)
            self.campaign.load_workers(given.connection)
            self.campaign.load_queue(given.connection)
            self.campaign.count_answers(given.connection)

        self._run(work, f"set worker {state}", name, reason)

    @staticmethod
    def _free_answers(work: Work, worker: int) -> None:
        held = sa.select(db.slots.c.task_id).where(db.slots.c.worker_id == worker)
        work.connection.execute(
            db.tasks.update().where(db.tasks.c.id.in_(held), db.tasks.c.reason == "cap")
            .values(state="open", reason="", finished=None)
        )  # fmt: skip
        is_open = db.slots.c.task_id.in_(sa.select(db.tasks.c.id).where(db.tasks.c.state == "open"))
        state = sa.case((is_open, db.FREE), else_=db.CLOSED)
        work.connection.execute(
            db.slots.update().where(db.slots.c.worker_id == worker).values(worker_id=None, state=state, expires=None)
        )

    @staticmethod
    def _restore_answers(work: Work, worker: int) -> None:
        last, later = db.answers.alias("last"), db.answers.alias("later")
        newer = sa.exists().where(
            later.c.task_id == last.c.task_id, later.c.worker_id == worker, later.c.revision > last.c.revision
        )
        given = sa.select(last.c.task_id).where(last.c.worker_id == worker, last.c.kind == "answer", ~newer)
        for task in work.connection.execute(given).scalars().all():
            free = sa.select(sa.func.min(db.slots.c.slot)).where(
                db.slots.c.task_id == task, db.slots.c.state.in_((db.FREE, db.CLOSED))
            )
            work.connection.execute(
                db.slots.update()
                .where(db.slots.c.task_id == task, db.slots.c.slot == free.scalar_subquery())
                .values(worker_id=worker, state=db.ANSWERED, expires=None)
            )

    def pseudonymise(self, name: str) -> str:
        """Replace a worker's name by one that says nothing, and forget what is known of them; returns the new name."""
        worker = self._find_worker(name)
        other = f"worker-{secrets.token_hex(6)}"

        def work(given: Work) -> None:
            values = {"name": other, "details": "{}", "reason": "", "link": db.workers.c.link + 1}
            given.connection.execute(db.workers.update().where(db.workers.c.id == worker.id).values(values))
            self._forget(given, name, other)
            self.campaign.load_workers(given.connection)

        self._run(work, "pseudonymise worker", other)
        return other

    def delete_worker(self, name: str) -> None:
        """Delete a worker with every answer they gave; the questions are asked anew."""
        worker = self._find_worker(name)

        def work(given: Work) -> None:
            self._free_answers(given, worker.id)
            given.connection.execute(db.answers.delete().where(db.answers.c.worker_id == worker.id))
            given.connection.execute(db.workers.delete().where(db.workers.c.id == worker.id))
            self._forget(given, name, "(deleted)")
            self.campaign.load_workers(given.connection)
            self.campaign.load_queue(given.connection)
            self.campaign.count_answers(given.connection)

        self._run(work, "delete worker", "(deleted)")

    @staticmethod
    def _forget(work: Work, name: str, other: str) -> None:
        """The log of actions keeps what was done, but not to whom."""
        work.connection.execute(
            db.actions.update()
            .where(
                db.actions.c.subject == name,
                db.actions.c.action.like("%worker%") | (db.actions.c.action == "renew link"),
            )
            .values(subject=other, reason="")
        )

    def set_task_state(self, name: str, state: str, reason: str = "") -> None:
        """Stop a task ("finished") or ask it again ("open")."""
        if name not in self.campaign.task_numbers:  # another server may have just added it
            self.campaign.writer.run_blocking(self.campaign.load_new)
        task = self.campaign.task_numbers.get(name)
        if task is None:
            raise InputError(f"There is no task {quote(name)}.")

        def work(given: Work) -> None:
            self.change_task(given, task, state, f"manager: {reason}" if reason else "manager")

        self._run(work, f"set task {state}", name, reason)

    def change_task(self, work: Work, task: int, state: str, reason: str) -> None:
        """The same within a transaction."""
        old, new = (db.FREE, db.CLOSED) if state == "finished" else (db.CLOSED, db.FREE)
        work.connection.execute(
            db.slots.update().where(db.slots.c.task_id == task, db.slots.c.state == old).values(state=new)
        )
        finished = state == "finished"
        values = {"state": state, "reason": reason if finished else "", "finished": work.now if finished else None}
        this, others = db.tasks.c.id == task, db.tasks.c.state != state
        changed = work.connection.execute(db.tasks.update().where(this, others).values(values))
        if finished and reason.startswith("manager"):  # what was finished by itself is not opened again either
            work.connection.execute(db.tasks.update().where(this).values(reason=reason))
        if finished:
            self.campaign.queue.close(task)
            if changed.rowcount:
                self.campaign.announce_finished(work, [task])
            return
        taken = sa.select(sa.func.count()).where(db.slots.c.task_id == task, db.slots.c.state != db.FREE)
        n_taken = work.connection.execute(taken).scalar_one()
        self.campaign.queue.add(task, n_taken)
        self.campaign.leases.touched.add(task)  # it may have all its answers, and is finished again

    def set_paused(self, paused: bool, reason: str = "") -> None:
        """Give out no more questions, or go on; answers to questions that are out are still taken."""

        def work(given: Work) -> None:
            line = self.campaign.store.insert(db.settings).values(name="paused", value="yes" if paused else "no")
            given.connection.execute(
                line.on_conflict_do_update(index_elements=["name"], set_={"value": "yes" if paused else "no"})
            )
            self.campaign.paused = paused

        self._run(work, "pause" if paused else "continue", "campaign", reason)
