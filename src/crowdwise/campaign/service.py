"""What the application shares between requests: the campaign, its consensus, rate limits, and templates."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from crowdwise.campaign.answer_tables import answer_columns
from crowdwise.campaign.api_models import Portrait
from crowdwise.campaign.live_consensus import LiveConsensus, read_known
from crowdwise.campaign.request_limits import RateLimit
from crowdwise.campaign.stop_keeper import StopKeeper
from crowdwise.labels.errors import CrowdwiseError, InputError

if TYPE_CHECKING:
    from crowdwise.campaign.running_campaign import Campaign, KnownWorker

__all__ = ["Service"]

RECENT = 600.0  # seconds over which the rate of answers is taken


class Service:
    """What requests share.

    Attributes
    ----------
    consensus
        The live consensus.
    answer_limit, login_limit, all_logins_limit, entry_limit, all_entries_limit
        How often a worker may make a request, and an address and everybody may log in or open the study.
    """

    def __init__(self, campaign: Campaign) -> None:
        self.campaign, self.project = campaign, campaign.project
        self.consensus = LiveConsensus(campaign)
        self.keeper = StopKeeper(self)
        self.stopping = False
        self._findings: list[Any] = []
        self._forecast: list[str] = []
        per_minute = self.project.answers_per_minute
        self.answer_limit = RateLimit(per_minute, max(per_minute, 20))
        self.login_limit = RateLimit(6, 6)
        self.all_logins_limit = RateLimit(60, 60)  # whoever changes addresses guesses no faster than this
        self.entry_limit = RateLimit(60, 60)
        self.all_entries_limit = RateLimit(1_000, 1_000)  # whoever changes addresses makes no more workers than this

    @property
    def secure(self) -> bool:
        """Whether browsers see the study over HTTPS, so that cookies may be bound to it."""
        return self.project.public_url.startswith("https://")

    def make_link(self, worker: KnownWorker, base: str) -> dict[str, str]:
        """A worker's personal link."""
        token = self.campaign.signer.make_link(worker.name, worker.link)
        return {
            "worker": worker.name,
            "token": token,
            "link": f"{self.project.public_url or base.rstrip('/')}/w/{token}",
        }

    def make_question(self, worker: int, task: int) -> dict[str, Any]:
        """A task as a worker gets it."""
        known = self.campaign.tasks[task]
        ticket = self.campaign.signer.make_ticket(worker, task)
        return {"task": known.name, "ticket": ticket, "content": known.content}

    def make_next(self, worker: int, tasks: tuple[int, ...], *, asked: bool = True) -> dict[str, Any]:
        """What a worker has before them; who asked for no question, or asks in a pause, is not done."""
        reply = {"questions": [self.make_question(worker, task) for task in tasks], **self.campaign.progress(worker)}
        reply["done"] = asked and not tasks and not self.campaign.paused
        if reply["done"] and self.project.completion_code:
            reply["completion_code"] = self.project.completion_code
        return reply

    def status(self, *, fresh: bool = False) -> dict[str, Any]:
        """Where the campaign stands."""
        campaign, project = self.campaign, self.project
        snapshot = self.consensus.snapshot(fresh=fresh)
        n_finished = len(campaign.tasks) - len(campaign.queue.taken)
        to_come = sum(max(project.per_task - taken, 0) for taken in list(campaign.queue.taken.values()))
        if project.budget:
            to_come = max(min(to_come, project.budget - snapshot.n_answers), 0)
        rate = self.answers_per_minute(snapshot.history)
        return {
            "title": project.title,
            "paused": campaign.paused,
            "tasks": len(campaign.tasks),
            "finished": n_finished,
            "answers": max(campaign.n_answers, snapshot.n_answers),
            "leased": campaign.n_leased,
            "workers": len(campaign.workers),
            "budget": project.budget or None,
            "spent": round(snapshot.n_answers * project.price, 2),
            "currency": project.currency,
            "answers_to_come": to_come,
            "answers_per_minute": round(rate, 2),
            "minutes_left": round(to_come / rate, 1) if rate else None,
            "mean_confidence": snapshot.mean_confidence,
        }

    def answers_per_minute(self, history: tuple[float, ...]) -> float:
        """Rate of answers in the last ten minutes, or since the first answer if that is less."""
        if not history:
            return 0.0
        now = self.campaign.store.clock.now()
        begin = max(now - RECENT, history[0])
        return 60 * sum(each >= begin for each in history) / max(now - begin, 1.0)

    def worker_rows(self) -> list[dict[str, Any]]:
        """Every worker's portrait, those with most answers first."""
        found = self.consensus.snapshot().workers
        rows = [
            {"worker": worker.name, "state": worker.state, "reason": worker.reason}
            | found.get(worker.name, Portrait()).model_dump()
            for worker in list(self.campaign.workers.values())
        ]
        return sorted(rows, key=lambda row: (-row["n_answers"], row["worker"]))

    def findings(self) -> list[Any]:
        """What the last audit found."""
        return self._findings

    def forecast(self) -> list[str]:
        """What the last forecast said, in sentences."""
        return self._forecast

    def run_audit(self) -> None:
        """Audit the answers so far (who guesses, who copies, what is in doubt), and forecast what more would bring."""
        from crowdwise.acquire import plan
        from crowdwise.audit.audit import audit_crowd
        from crowdwise.labels.read import read_labels

        question = self.project.question
        if question.kind != "classes":
            raise InputError(f"The audit is of classes. Export the labels and use crowdwise audit for {question.kind}.")
        table = self.campaign.counted_answers()
        if table.num_rows < 2:
            raise InputError("There are too few answers for an audit.")
        columns = answer_columns(table, question).select(["task", "worker", "label"])
        labels = read_labels(columns, classes=question.classes, kind="labels")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._findings = list(audit_crowd(labels, method="dawid-skene").findings)[:50]
            try:
                self._forecast = plan(labels, min(self.project.stop.target, 0.999), gold=read_known(table)).sentences()
            except CrowdwiseError as error:  # too few answers
                self._forecast = [str(error)]
        self.campaign.changed += 1
