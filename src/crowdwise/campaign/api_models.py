"""What the API takes and gives, as pydantic models: the server checks requests by them, the client reads replies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from crowdwise.labels.unseen_characters import LETTER

__all__ = [
    "ActionRow", "AnswerReply", "AnswerRequest", "ConsensusRow", "ErrorReply", "LinkReply", "NewTask", "NewWorker",
    "NextReply", "NextRequest", "PauseRequest", "Portrait", "ProjectReply", "Question", "SkipRequest", "StateRequest",
    "Status", "TaskReply", "TaskStateRequest", "TasksReply", "UndoRequest", "WorkerName", "WorkerRow",
]  # fmt: skip

# NUL is no letter of PostgreSQL, and a lone surrogate none of UTF-8.
NO_CONTROL = r"^[^\x00-\x1f\x7f\ud800-\udfff]*$(?!\n)"
NO_NUL = r"^[^\x00\ud800-\udfff]*$"
Key = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[\x21-\x7e]+$(?!\n)")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=NO_CONTROL)]


def _check_seen(name: str) -> str:
    """A new name: two that look alike would be taken for one person."""
    if not name.isprintable() or LETTER.search(name):
        raise ValueError("every letter of a name must be one that can be seen")
    return name


NewName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200, pattern=NO_CONTROL, strip_whitespace=True),
    AfterValidator(_check_seen),
]
TaskName = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=NO_CONTROL)]
Reason = Annotated[str, StringConstraints(max_length=500, pattern=NO_NUL)]
Shown = Annotated[str, StringConstraints(max_length=200_000, pattern=NO_NUL)]


class Model(BaseModel):
    """Strict: what nobody asked for is refused."""

    model_config = ConfigDict(extra="forbid", regex_engine="python-re")


class Reply(BaseModel):
    """What comes back; clients take no notice of what they do not know."""


class NextRequest(Model):
    """Ask for questions."""

    n: int = Field(default=1, ge=1, le=100, description="Questions to hold at once, for models that answer many.")


class AnswerRequest(Model):
    """An answer."""

    task: TaskName
    ticket: Annotated[str, StringConstraints(max_length=64)] = Field(description="As it came with the question.")
    answer: Any = Field(description="A class; a list of classes; left, right or tie; or a number.")
    key: Key = Field(description="Of the client's choice, one for each answer: sent again, it counts once.")
    seconds: float | None = Field(default=None, ge=0, le=1e7, description="How long the worker took.")
    next: int = Field(default=1, ge=0, le=100, description="Questions to hold afterwards.")


class SkipRequest(Model):
    """A question that a worker does not answer."""

    task: TaskName
    ticket: Annotated[str, StringConstraints(max_length=64)]
    key: Key
    reason: Reason = ""
    next: int = Field(default=1, ge=0, le=100)


class UndoRequest(Model):
    """Take the last answer back."""

    key: Key


class Question(Reply):
    """A task that a worker holds."""

    task: str
    ticket: str
    content: dict[str, str]


class NextReply(Reply):
    """What a worker has before them; nothing, if they are done."""

    questions: list[Question]
    answered: int
    limit: int | None = None
    done: bool = False
    completion_code: str | None = None


class AnswerReply(NextReply):
    """What became of an answer."""

    status: Literal["accepted", "repeated"]


class ProjectReply(Reply):
    """What is asked."""

    title: str
    kind: str
    question: str
    classes: list[str]
    low: float
    high: float
    step: float
    instructions: str


class ErrorReply(Reply):
    """Why a request was refused."""

    detail: str


class NewWorker(Model):
    """A worker who is to have a personal link."""

    worker: NewName


class WorkerName(Model):
    """A worker."""

    worker: Name


class LinkReply(Reply):
    """A personal link: whoever has it works in this name."""

    worker: str
    token: str
    link: str


class StateRequest(Model):
    """Pause, exclude or readmit a worker."""

    worker: Name
    state: Literal["active", "paused", "excluded"]
    reason: Reason = ""


class NewTask(Model):
    """A task to add."""

    task: TaskName
    text: Shown | None = None
    image: Shown | None = None
    left: Shown | None = None
    right: Shown | None = None
    left_text: Shown | None = None
    right_text: Shown | None = None
    left_image: Shown | None = None
    right_image: Shown | None = None
    gold: Any = None


class TasksReply(Reply):
    """How many tasks were new."""

    added: int


class TaskStateRequest(Model):
    """Stop or reopen a task."""

    task: TaskName
    state: Literal["open", "finished"]
    reason: Reason = ""


class PauseRequest(Model):
    """Pause the campaign or let it go on."""

    paused: bool
    reason: Reason = ""


class TaskReply(Reply):
    """A task with its answers."""

    task: str
    state: str
    reason: str
    content: dict[str, str]
    gold: Any = None
    answers: list[dict[str, Any]]


class ConsensusRow(Reply):
    """What the workers' answers to a task come to."""

    task: str
    answer: Any
    confidence: float | None
    n_answers: int
    state: str


class Portrait(Reply):
    """A worker: answers, skill with its interval (None where there is none yet), gold, and seconds for an answer."""

    n_answers: int = 0
    skill: float | None = None
    skill_low: float | None = None
    skill_high: float | None = None
    gold_right: int = 0
    gold_answered: int = 0
    seconds: float | None = None


class WorkerRow(Portrait):
    """A worker's portrait, and whether they may answer."""

    worker: str
    state: str
    reason: str


class Status(Reply):
    """Where the campaign stands."""

    title: str
    paused: bool
    tasks: int
    finished: int
    answers: int
    leased: int
    workers: int
    budget: int | None
    spent: float
    currency: str
    answers_to_come: int
    answers_per_minute: float
    minutes_left: float | None
    mean_confidence: float | None


class ActionRow(Reply):
    """What a manager did."""

    time: float
    manager: str
    action: str
    subject: str
    reason: str
