"""A campaign of simulated workers, played from its first question to its last: what `crowdwise demo` shows.

Workers are of one coin each: right with a chance of their own, else one of the other classes at random. They answer
over HTTP, as people's browsers do, each in a thread. The campaign stops a task when its consensus is sure.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from crowdwise.campaign.client import Client, ClientError
from crowdwise.campaign.in_process import serve_in_thread
from crowdwise.campaign.live_consensus import fit_online
from crowdwise.campaign.page_templates import render_saved_page
from crowdwise.campaign.project import read_project
from crowdwise.campaign.running_campaign import open_campaign

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.campaign.api_models import Question

__all__ = ["PlayedCampaign", "play_campaign"]

CLASSES = ("cat", "dog", "bird", "fish")
SKILLS = (0.95, 0.92, 0.9, 0.88, 0.85, 0.82, 0.8, 0.75, 0.7, 0.6, 0.4, 0.25)
N_TASKS, CAP = 120, 7
THINKING = 0.2  # seconds at most: long enough that the consensus keeps up with the answers
PROJECT = f"""title = "Animals, by simulated workers"

[question]
text = "Which animal is it about?"
classes = ["cat", "dog", "bird", "fish"]

[instructions]
text = "Read the line and say which animal it is about."

[tasks]
file = "tasks.csv"

[answers]
per_task = {CAP}
per_minute = 100000

[stop]
rule = "confidence"
target = 0.97
at_least = 2
"""


@dataclass(frozen=True)
class PlayedCampaign:
    """What came out."""

    # Answers that were bought, and how many the cap would have allowed.
    n_answers: int
    n_possible: int
    n_tasks: int
    accuracy: float  # share of tasks whose consensus is right
    skills: dict[str, tuple[float, float]]  # true and estimated skill of each worker, by name
    page: str


def play_campaign(folder: Path, seed: int = 0) -> PlayedCampaign:
    """Make a project in a folder, let simulated workers answer, and return what came out with the manager's page."""
    dice = random.Random(seed)  # noqa: S311
    truth = {f"line {number}": dice.choice(CLASSES) for number in range(N_TASKS)}
    rows = [f"{task},{task} is about an animal." for task in truth]
    (folder / "tasks.csv").write_text("task,text\n" + "\n".join(rows) + "\n", encoding="utf-8")
    (folder / "project.toml").write_text(PROJECT, encoding="utf-8")
    campaign = open_campaign(read_project(folder / "project.toml"))
    token = secrets.token_urlsafe(24)
    warm = {"task": ["a", "b"], "worker": ["x", "x"], "label": list(CLASSES[:2])}
    fit_online(pa.table(warm), CLASSES, None)  # compiles what is needed, before anybody is asked
    with serve_in_thread(campaign, token) as address, Client(address, token) as manager:
        threads = [
            threading.Thread(
                target=_work, args=(address, manager.add_worker(f"worker {number + 1}").token, skill, truth, seed)
            )
            for number, skill in enumerate(SKILLS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = {row.task: row.answer for row in manager.consensus()}
        rows_of_workers = manager.workers()
        status = manager.status()
        page = render_saved_page(campaign)
    right = sum(found.get(task) == answer for task, answer in truth.items())
    skills = {f"worker {number + 1}": skill for number, skill in enumerate(SKILLS)}
    return PlayedCampaign(
        status.answers,
        N_TASKS * CAP,
        N_TASKS,
        right / N_TASKS,
        {row.worker: (skills[row.worker], row.skill) for row in rows_of_workers if row.skill is not None},
        page,
    )


def _work(address: str, token: str, skill: float, truth: dict[str, str], seed: int) -> None:
    """One worker, until there is nothing left to answer."""
    dice = random.Random(f"{seed} {skill}")  # noqa: S311

    def decide(question: Question) -> str:
        right = truth[question.task]
        return right if dice.random() < skill else dice.choice([each for each in CLASSES if each != right])

    with Client(address, token) as worker:
        found = worker.next_questions()
        while found.questions:
            question = found.questions[0]
            time.sleep(THINKING * dice.random())
            try:
                found = worker.answer(question, decide(question))
            except ClientError as error:
                if error.status != 409:  # the task was stopped meanwhile
                    raise
                found = worker.next_questions()
