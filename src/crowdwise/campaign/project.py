"""The project file of a campaign: what is asked, of whom, how often, and when to stop.

`read_project` reads `project.toml` and refuses a mistake with one sentence that names the table, the key and what is
allowed. Nothing in the file is secret but the address of a PostgreSQL database, which may stand in the environment
variable CROWDWISE_DATABASE instead. Paths are relative to the file.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from crowdwise.acquire.pair_worth import JOINT
from crowdwise.acquire.task_policies import TASK_POLICIES
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.unseen_characters import LETTER

__all__ = ["KINDS", "Example", "Project", "Question", "StopRule", "format_number", "read_project"]

KINDS = ("classes", "comparison", "values", "multi-label")
OUTCOMES = ("left", "right", "tie")
LINKS = ("personal", "open")
RULES = ("cap", "confidence", "promise", "estimate")
BY_GOLD = ("promise", "estimate")
POLICIES = (*TASK_POLICIES, JOINT)
PLAIN_POLICIES = ("round-robin", "uniform")  # need no consensus
SECTIONS = ("question", "instructions", "tasks", "answers", "gold", "workers", "stop", "budget", "server")
MOST_CLASSES = 200
MOST_TEXT = 100_000  # letters of instructions; a page that is longer is not read
SCHEME = re.compile(r"^(?P<scheme>\w[\w+.-]*)://", re.ASCII)
LARGEST = 1e12  # of a number in the file


@dataclass(frozen=True)
class Question:
    """What is asked of each task.

    Attributes
    ----------
    kind
        "classes" (one of them), "multi-label" (any of them), "comparison" (left or right) or "values" (a number).
    text
        The question in words.
    classes
        What may be chosen; of a comparison left, right and, where allowed, tie.
    low, high, step
        The scale of values.
    """

    kind: str
    text: str
    classes: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 100.0
    step: float = 1.0

    def check_answer(self, answer: object) -> str | float | list[str]:
        """The answer as it is stored; raises `InputError` for anything that was not asked."""
        if self.kind == "values":
            return self._check_value(answer)
        if self.kind == "multi-label":
            if not isinstance(answer, list) or not all(isinstance(each, str) for each in answer):
                raise InputError("The answer must be a list of classes.")
            if unknown := [each for each in answer if each not in self.classes]:
                raise InputError(f"{listing(unknown)} is no class of this project: {listing(self.classes)}.")
            return [each for each in self.classes if each in answer]
        if not isinstance(answer, str) or answer not in self.classes:
            raise InputError(f"{quote(answer)} is no class of this project: {listing(self.classes)}.")
        return answer

    def _check_value(self, answer: object) -> float:
        try:
            if isinstance(answer, bool) or (isinstance(answer, str) and "_" in answer):
                raise InputError
            value = float(answer)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            value = math.nan
        if not self.low <= value <= self.high:
            raise InputError(f"{quote(answer)} is no number from {self._scale}.")
        value = float(format_number(value)) + 0.0  # 0.1 + 0.2 is 0.3, and -0 is 0
        n_steps = (value - self.low) / self.step
        if abs(n_steps - round(n_steps)) > 1e-6 * max(1.0, abs(n_steps)) and value != self.high:
            raise InputError(f"{quote(answer)} is no number from {self._scale} in steps of {format_number(self.step)}.")
        return value

    @property
    def _scale(self) -> str:
        return f"{format_number(self.low)} to {format_number(self.high)}"


@dataclass(frozen=True)
class Example:
    """A task with its answer and the reason, shown with the instructions."""

    text: str
    answer: str
    why: str = ""


@dataclass(frozen=True)
class StopRule:
    """When a task needs no more answers."""

    # "cap": when it has all its answers. "confidence": when the live consensus is this sure of it. "promise": when
    # tasks as sure as it are right often enough, as gold shows (`crowdwise.acquire`). "estimate": when they are by a
    # calibrated estimate.
    rule: str = "cap"
    # Confidence, or the share that is right, as promised or estimated.
    target: float = 0.95
    at_least: int = 2  # answers that a task has before it may be stopped
    delta: float = 0.1  # chance that the share is lower than promised
    checks: float = 0.0  # share of the tasks that are asked to the end all the same


@dataclass(frozen=True)
class Project:
    """A campaign as its project file describes it.

    Attributes
    ----------
    per_task
        Answers that a task has at most, each of another worker.
    per_worker
        Answers that a worker gives at most; 0 for no limit.
    policy
        Which task is asked next: a task policy of `crowdwise.acquire`, or "joint".
    lease_seconds
        How long a task is held for a worker who has it before them.
    gold, gold_share
        File of known answers, and the share of a worker's questions that are taken from them.
    links
        "personal": only with a link that the manager made. "open": anyone with the address of the study.
    budget
        Answers that are bought at most; 0 for no limit. `price` is paid for one.
    """

    path: Path
    title: str
    question: Question
    tasks: Path
    instructions: str = ""
    examples: tuple[Example, ...] = ()
    per_task: int = 3
    per_worker: int = 0
    policy: str = "round-robin"
    lease_seconds: float = 600.0
    gold: Path | None = None
    gold_share: float = 0.05
    links: str = "personal"
    completion_code: str = ""
    completion_url: str = ""
    stop: StopRule = field(default_factory=StopRule)
    budget: int = 0
    price: float = 0.0
    currency: str = ""
    database: str = ""
    public_url: str = ""
    images: Path | None = None
    webhooks: tuple[str, ...] = ()
    answers_per_minute: int = 240

    @property
    def folder(self) -> Path:
        """Where relative paths begin."""
        return self.path.parent

    @property
    def database_place(self) -> Path | str:
        """Where the database is: the file of SQLite, or SQLAlchemy's address of PostgreSQL."""
        given = os.environ.get("CROWDWISE_DATABASE") or self.database or "campaign.db"
        found = SCHEME.match(given)
        scheme = found["scheme"].lower().partition("+")[0] if found else "sqlite"
        rest = given[found.end() :] if found else given
        if scheme == "postgresql":
            return _check_server(f"postgresql+psycopg://{rest}")
        path = rest.removeprefix("/").partition("?")[0] if found else rest
        if scheme != "sqlite" or not path.strip() or path.startswith(":") or not path.isprintable():
            raise InputError(
                f"{self.path}: the database must be the name of a file (SQLite), or an address postgresql://…"
            )
        return (self.folder / path).resolve()


def format_number(value: float) -> str:
    """A number as people write it, to the last digit that a step of a scale may have.

    >>> format_number(1_000_001.0), format_number(0.1 + 0.2)
    ('1000001', '0.3')
    """
    return f"{value:.15g}"


def _check_server(url: str) -> str:
    """The address of a PostgreSQL server; one that cannot be read is not shown, as it may hold a password."""
    try:
        urlsplit(url).port  # noqa: B018 (looks at it)
    except ValueError as error:
        raise InputError(
            "The address of the database cannot be read. Write postgresql://name:password@host:5432/database, "
            "with signs of the password as %40 and the like."
        ) from error
    return url


class Section:
    """One table of the file: values are taken out with a check, and what is left over is a mistake."""

    def __init__(self, name: str, values: object, origin: Path) -> None:
        if not isinstance(values, Mapping):
            raise InputError(f"{origin}: {name} must be a table, [{name}].")
        self.name, self.values, self.origin = name, dict(values), origin

    def _fail(self, key: str, given: object, allowed: str) -> InputError:
        where = f"{key} of [{self.name}]" if self.name else key
        return InputError(f"{self.origin}: {where} is {quote(given)}. It must be {allowed}.")

    def text(self, key: str, default: str | None = None, *, most: int = 2_000) -> str:
        """A text; needed where there is no default."""
        given = self.values.pop(key, default)
        if given is None:
            where = f" in [{self.name}]" if self.name else " at its top"
            raise InputError(f'{self.origin} has no {key}{where}. Write {key} = "…".')
        if not isinstance(given, str) or (default is None and not given.strip()) or len(given) > most:
            raise self._fail(key, given, f"a text of at most {most:,} letters")
        return given

    def choice(self, key: str, default: str, allowed: Iterable[str]) -> str:
        """One of some words."""
        given = self.values.pop(key, default)
        if not isinstance(given, str) or given not in tuple(allowed):
            raise self._fail(key, given, f"one of {', '.join(allowed)}")
        return given

    def number(self, key: str, default: float, low: float, high: float = LARGEST) -> float:
        """A number within bounds, both included."""
        given = self.values.pop(key, default)
        if isinstance(given, bool) or not isinstance(given, int | float) or not low <= given <= high:
            raise self._fail(key, given, f"a number from {low:g} to {high:g}")
        return given

    def flag(self, key: str) -> bool:
        """True or false; false by default."""
        given = self.values.pop(key, False)
        if not isinstance(given, bool):
            raise self._fail(key, given, "true or false")
        return given

    def count(self, key: str, default: int, low: int = 0, high: int = 1_000_000_000) -> int:
        """A whole number within bounds."""
        given = self.number(key, default, low, high)
        if given != int(given):
            raise self._fail(key, given, "a whole number")
        return int(given)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts, each there once."""
        given = self.values.pop(key, [])
        if not isinstance(given, list) or not all(isinstance(each, str) and each.strip() for each in given):
            raise self._fail(key, given, "a list of texts, none of them empty")
        if hidden := [each for each in given if each != each.strip() or not each.isprintable() or LETTER.search(each)]:
            raise self._fail(
                key,
                given,
                f"a list of texts on one line, without blanks around them or unseen letters: {quote(hidden[0])}",
            )
        if repeated := sorted({each for each in given if given.count(each) > 1}):
            raise self._fail(key, given, f"a list without repeats ({listing(repeated)})")
        return tuple(given)

    def file(self, key: str) -> Path | None:
        """A path relative to the file."""
        given = self.text(key, "")
        if not given.isprintable():
            raise self._fail(key, given, "the name of a file or folder")
        return self.origin.parent / given if given else None

    def section(self, key: str) -> Section:
        """A table within; empty where there is none."""
        return Section(key, self.values.pop(key, {}), self.origin)

    def close(self) -> None:
        """Refuse what nobody asked for."""
        if self.values:
            where = f"[{self.name}]" if self.name else "the top of the file"
            raise InputError(f"{self.origin}: {where} has {listing(self.values)}, which is not known there.")


def read_project(path: str | Path) -> Project:
    """Read a project file; raises `InputError` for the first mistake in it."""
    path = Path(path)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file. docs/campaign.md has one to begin with.") from error
    except RecursionError as error:
        raise InputError(f"{path} is nested too deeply for a project file.") from error
    except ValueError as error:  # no TOML, no UTF-8, or a number of thousands of digits
        raise InputError(f"{path} is no TOML file: {error}.") from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}.") from error
    if path.is_symlink():
        path = path.resolve()  # what it names lies beside the file itself, as the database does
    whole = Section("", values, path)
    sections = {name: whole.section(name) for name in SECTIONS}
    title = whole.text("title", most=200)
    if not re.sub(r"[\u00a0\u202f]", " ", title).isprintable():  # blanks at which no line is broken can be seen
        raise whole._fail("title", title, "a text on one line, without unseen letters")
    whole.close()
    gold, workers, budget, server = (sections[name] for name in ("gold", "workers", "budget", "server"))
    tasks = sections["tasks"].file("file")
    if tasks is None:
        raise InputError(f'{path} names no tasks. Write [tasks] and under it file = "tasks.csv".')
    stop = _read_stop(sections["stop"])
    project = Project(
        path=path.resolve(),
        title=title,
        question=_read_question(sections["question"]),
        tasks=tasks,
        images=sections["tasks"].file("images"),
        instructions=sections["instructions"].text("text", "", most=MOST_TEXT),
        examples=_read_examples(sections["instructions"]),
        per_task=sections["answers"].count("per_task", 3, 1, 1_000),
        per_worker=sections["answers"].count("per_worker", 0),
        policy=sections["answers"].choice("policy", "round-robin" if stop.rule == "cap" else "uncertainty", POLICIES),
        lease_seconds=sections["answers"].number("lease_seconds", 600, 1, 1e6),
        answers_per_minute=sections["answers"].count("per_minute", 240, 1),
        gold=gold.file("file"),
        gold_share=gold.number("share", 0.05, 0, 0.5),
        links=workers.choice("links", "personal", LINKS),
        completion_code=workers.text("completion_code", ""),
        completion_url=_check_address(workers, "completion_url"),
        stop=stop,
        budget=budget.count("answers", 0),
        price=budget.number("price", 0, 0),
        currency=budget.text("currency", "", most=8),
        database=server.text("database", ""),
        public_url=_check_origin(server, "public_url"),
        webhooks=server.texts("webhooks"),
    )
    for section in sections.values():
        section.close()
    _check_together(project)
    return project


def _read_question(section: Section) -> Question:
    kind = section.choice("kind", "classes", KINDS)
    text = section.text("text")
    classes = section.texts("classes")
    if absent := [key for key in ("low", "high", "step") if key in section.values and kind != "values"]:
        raise InputError(f"{section.origin}: {absent[0]} of [question] is for questions of kind values. Leave it out.")
    low, high = section.number("low", 0, -LARGEST), section.number("high", 100, -LARGEST)
    step, ties = section.number("step", 1, 1e-9), section.flag("ties")
    if ties and kind != "comparison":
        raise InputError(f"{section.origin}: ties of [question] is for questions of kind comparison. Leave it out.")
    if kind in ("classes", "multi-label") and not (1 if kind == "multi-label" else 2) <= len(classes) <= MOST_CLASSES:
        raise InputError(f'{section.origin}: [question] needs classes = ["…", "…"], from 2 to {MOST_CLASSES} of them.')
    if kind in ("comparison", "values") and classes:
        raise InputError(f"{section.origin}: a question of kind {kind} has no classes. Leave them out.")
    if kind == "values" and not low < high:
        raise InputError(f"{section.origin}: low of [question] is {low:g} and must be below high, {high:g}.")
    if kind == "values" and step > high - low:
        raise InputError(f"{section.origin}: step of [question] is {step:g}, more than from {low:g} to {high:g}.")
    if kind == "comparison":
        classes = OUTCOMES if ties else OUTCOMES[:2]
    return Question(kind, text, classes, low, high, step)


def _read_examples(section: Section) -> tuple[Example, ...]:
    given = section.values.pop("examples", [])
    if not isinstance(given, list):
        raise InputError(f"{section.origin}: examples must be tables, [[instructions.examples]].")
    found = []
    for each in given:
        part = Section("instructions.examples", each, section.origin)
        found.append(Example(part.text("text"), part.text("answer"), part.text("why", "")))
        part.close()
    return tuple(found)


def _read_stop(section: Section) -> StopRule:
    return StopRule(
        section.choice("rule", "cap", RULES),
        section.number("target", 0.95, 0.5, 1),
        section.count("at_least", 2, 1),
        section.number("delta", 0.1, 0.001, 0.5),
        section.number("checks", 0, 0, 0.5),
    )


def _check_address(section: Section, key: str) -> str:
    given = section.text(key, "")
    if given and not _is_web_address(given):
        raise section._fail(key, given, "an address that begins with https:// or http://")
    return given


def _check_origin(section: Section, key: str) -> str:
    """An address of a whole host: pages lead to its root, so that none can lie below a path."""
    given = _check_address(section, key).rstrip("/")
    if given and not re.fullmatch(r"https?://[^/?#@\\]+", given):
        raise section._fail(key, given, "an address of a host alone, such as https://label.example.org, without a path")
    return given


def _is_web_address(given: str) -> bool:
    """Whether something is an address of the web, of a host with a port that there may be."""
    if not re.fullmatch(r"https?://[\x21-\x7e]+", given):
        return False
    try:
        found = urlsplit(given)
        return bool(found.hostname and found.hostname.strip(".")) and (found.port is None or found.port > 0)
    except ValueError:
        return False


def _check_together(project: Project) -> None:
    """Refuse what is wrong only in view of something else."""
    if project.stop.rule != "cap" and project.question.kind != "classes":
        raise InputError(
            f"{project.path}: the stop rule {project.stop.rule} is for questions of kind classes; of kind "
            f'{project.question.kind} use rule = "cap".'
        )
    if project.stop.rule != "cap" and project.stop.at_least > project.per_task:
        raise InputError(
            f"{project.path}: at_least of [stop] is {project.stop.at_least}, and a task has {project.per_task} answers "
            "at most (per_task of [answers]), so that none would ever be stopped. Lower at_least, or raise per_task."
        )
    if project.stop.rule in BY_GOLD and project.gold is None:
        raise InputError(
            f"{project.path}: the stop rule {project.stop.rule} learns from gold. Name a file under [gold]."
        )
    if project.stop.rule in BY_GOLD and project.stop.target == 1:
        raise InputError(
            f"{project.path}: target of [stop] is 1. No gold can vouch for that; it must be below 1, such as 0.95."
        )
    if project.policy not in PLAIN_POLICIES and project.question.kind != "classes":
        raise InputError(
            f"{project.path}: the policy {project.policy} of [answers] is for questions of kind classes; of kind "
            f"{project.question.kind} use one of {', '.join(PLAIN_POLICIES)}."
        )
    for example in project.examples if project.question.kind == "classes" else ():
        if example.answer not in project.question.classes:
            raise InputError(
                f"{project.path}: answer of [[instructions.examples]] is {quote(example.answer)}, which is no class."
            )
    for address in project.webhooks:
        if not _is_web_address(address):
            raise InputError(f"{project.path}: webhooks of [server] holds {quote(address)}, which is no web address.")
