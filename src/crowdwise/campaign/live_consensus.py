"""The consensus as answers come in: fitted again on all of them whenever somebody looks and something is new.

| question | method |
|---|---|
| classes | `acquire.OnlineModel` at its fixed point, with gold (`fit_online`); workers begin better than chance |
| values, comparison, multi-label | the default method of the kind |

A fit is made at most so often that it takes a twentieth of one core, so that a large campaign is not slowed by its own
charts. Until there is something to fit, the consensus is empty.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from scipy.special import betaincinv

from crowdwise.acquire import OnlineModel
from crowdwise.campaign.answer_tables import answer_columns
from crowdwise.campaign.api_models import Portrait
from crowdwise.campaign.project import format_number
from crowdwise.labels.errors import CrowdwiseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.campaign.running_campaign import Campaign

__all__ = ["LONGEST", "SHARE", "LiveConsensus", "Snapshot", "Verdict", "fit_online", "read_known"]

LEVEL = 0.9  # of credible intervals
ROW = 10  # answers for each class that a worker's confusion matrix needs; a rule of thumb, not tuned
SHARE, LONGEST = 20, 30.0  # a fit waits so many times as long as the last one took, at most so many seconds


@dataclass(frozen=True)
class Verdict:
    """What the answers to a task come to: the answer, how sure it is (None if that has no number), of how many."""

    answer: Any
    confidence: float | None
    n_answers: int
    votes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Snapshot:
    """The campaign's consensus at one moment; `note` says why there is none, if so."""

    changed: int = -1
    n_answers: int = 0
    tasks: dict[str, Verdict] = field(default_factory=dict)
    workers: dict[str, Portrait] = field(default_factory=dict)
    scores: list[dict[str, Any]] = field(default_factory=list)
    history: tuple[float, ...] = ()
    note: str = ""
    model: OnlineModel | None = field(default=None, repr=False, compare=False)  # of classes, once there are answers

    @property
    def mean_confidence(self) -> float | None:
        """Mean over tasks that have an answer."""
        found = [each.confidence for each in self.tasks.values() if each.confidence is not None]
        return statistics.fmean(found) if found else None

    def list_disputed(self, most: int = 20) -> list[tuple[str, Verdict]]:
        """Tasks of two answers or more whose consensus is least sure."""
        rows = [(name, each) for name, each in self.tasks.items() if each.n_answers > 1 and len(each.votes) > 1]
        return sorted(rows, key=lambda row: (row[1].confidence if row[1].confidence is not None else 1.0, row[0]))[
            :most
        ]


class LiveConsensus:
    """Fits when asked, and remembers."""

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self._lock = threading.Lock()
        self._snapshot, self._made, self._cost = Snapshot(), -1.0, 0.0

    def snapshot(self, *, fresh: bool = False) -> Snapshot:
        """The consensus now, or that of a moment ago if a fit is dear; `fresh` waits for all answers."""
        with self._lock:
            changed = self.campaign.changed
            due = self._made + min(SHARE * self._cost, LONGEST)
            if changed != self._snapshot.changed and (fresh or time.monotonic() >= due):
                began, is_first = time.thread_time(), self._made < 0
                self._snapshot = _make_snapshot(self.campaign, changed)
                self._cost = 0.0 if is_first else time.thread_time() - began  # the first imports and compiles
                self._made = time.monotonic()
            return self._snapshot

    def snapshot_number(self) -> int:
        """Which state of the campaign the last fit was made of."""
        return self._snapshot.changed


def _make_snapshot(campaign: Campaign, changed: int) -> Snapshot:
    table = campaign.counted_answers()
    given = [json.loads(each) for each in table["answer"].to_pylist()]
    names, people = table["task"].to_pylist(), table["worker"].to_pylist()
    votes: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    for name, answer in zip(names, given, strict=True):
        votes[name][_say(answer)] += 1
    portraits = _count_workers(table, people, given)
    history = tuple(table["time"].to_pylist())
    plain = {name: Verdict(max(found, key=found.get), max(found.values()) / sum(found.values()),  # type: ignore[arg-type]
                           sum(found.values()), dict(found)) for name, found in votes.items()}  # fmt: skip
    begun = Snapshot(changed, len(given), plain, portraits, [], history)
    if not given:
        return begun
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few answers: what is not sure is shown as such
            return _fit(campaign, table, begun)
    except CrowdwiseError as error:  # too few answers for a model
        return Snapshot(changed, len(given), plain, portraits, [], history, str(error))


def _say(answer: Any) -> str:
    return (
        " + ".join(answer) or "none"
        if isinstance(answer, list)
        else format_number(answer)
        if isinstance(answer, float | int)
        else answer
    )


def _count_workers(table: pa.Table, people: list[str], given: list[Any]) -> dict[str, Portrait]:
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    right, asked, n_answers = Counter[str](), Counter[str](), Counter[str]()
    for worker, answer, gold, took in zip(
        people, given, table["gold"].to_pylist(), table["seconds"].to_pylist(), strict=True
    ):
        n_answers[worker] += 1
        if took is not None:
            seconds[worker].append(took)
        if gold is not None:
            asked[worker] += 1
            right[worker] += json.loads(gold) == answer
    return {
        worker: Portrait(
            n_answers=n,
            gold_right=right[worker],
            gold_answered=asked[worker],
            seconds=statistics.median(seconds[worker]) if seconds[worker] else None,
        )
        for worker, n in n_answers.items()
    }


def _fit(campaign: Campaign, table: pa.Table, begun: Snapshot) -> Snapshot:
    question = campaign.project.question
    contents = {task.name: task.content for task in campaign.tasks.values()} if question.kind == "comparison" else None
    columns = answer_columns(table, question, contents).drop_columns(["time", "seconds"])
    return (
        _fit_classes(campaign, columns, table, begun)
        if question.kind == "classes"
        else _fit_kind(campaign, columns, begun)
    )


def _fit_classes(campaign: Campaign, columns: pa.Table, table: pa.Table, begun: Snapshot) -> Snapshot:
    model = fit_online(columns, campaign.project.question.classes, read_known(table))
    best = model.posteriors.argmax(axis=1)
    sure = model.posteriors.max(axis=1)
    tasks = {}
    for place, name in enumerate(model.tasks.every):
        was = begun.tasks[str(name)]
        tasks[str(name)] = Verdict(str(model.classes.every[best[place]]), float(sure[place]), was.n_answers, was.votes)
    right, wrong = model.skill_counts.T
    low, high = (betaincinv(right, wrong, share) for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    found = {"worker": list(map(str, model.workers.every)), "skill": model.skills, "skill_low": low, "skill_high": high}
    workers = _add_skill(begun.workers, pa.table(found), "skill")
    return Snapshot(begun.changed, begun.n_answers, tasks, workers, [], begun.history, model=model)


def fit_online(labels: pa.Table, classes: Sequence[str], gold: dict[str, Any] | None) -> OnlineModel:
    """The online model at its fixed point, of a worker's confusion where rows have answers enough, else of one coin."""
    n_rows = len(set(labels["worker"].to_pylist())) * len(classes)
    family = "dawid-skene" if labels.num_rows >= ROW * n_rows else "one-coin"
    model = OnlineModel(classes, family=family)
    model.partial_fit(labels, gold)
    model.replay(max_iter=100, tol=1e-6)
    return model


def read_known(table: pa.Table) -> dict[str, Any] | None:
    """Known answers of the tasks in a table of answers; None if there are none."""
    rows = zip(table["task"].to_pylist(), table["gold"].to_pylist(), strict=True)
    return {task: json.loads(known) for task, known in rows if known is not None} or None


def _add_skill(portraits: dict[str, Portrait], table: Any, name: str) -> dict[str, Portrait]:
    """Portraits with a number of the model's table of workers, and its interval."""
    found = dict(portraits)
    for row in table.to_pylist():
        was = portraits.get(row["worker"])
        if was is not None and row.get(name) is not None:
            skill = {f"skill{end}": row.get(f"{name}{end}") for end in ("", "_low", "_high")}
            found[row["worker"]] = was.model_copy(update=skill)
    return found


WORKER_NUMBERS = {"values": "error", "comparisons": "reliability", "multi-label": "sensitivity"}


def _fit_kind(campaign: Campaign, columns: pa.Table, begun: Snapshot) -> Snapshot:
    from crowdwise.kinds.kind_registry import kind

    question = campaign.project.question
    described = kind("comparisons" if question.kind == "comparison" else question.kind)
    more: dict[str, Any] = {"classes": question.classes} if question.kind == "multi-label" else {}
    if question.kind == "comparison":
        columns = columns.drop_columns(["task"])
        more["on_duplicate"] = "all"  # two tasks may compare the same items: systems, on several inputs
    slug = "bradley-terry" if question.kind == "comparison" else None
    model = described.method(slug).load()().fit(described.read(columns, **more))
    rows = model.consensus().to_pylist()
    workers = _add_skill(begun.workers, model.workers(), WORKER_NUMBERS[described.name])
    if question.kind == "comparison":  # the tasks are pairs: votes say who won, the scores are of the items
        return Snapshot(begun.changed, begun.n_answers, begun.tasks, workers, rows, begun.history)
    tasks = {}
    for row in rows:
        was = begun.tasks[row["task"]]
        answer = row["value"] if question.kind == "values" else row["labels"]
        tasks[row["task"]] = Verdict(answer, row.get("confidence"), was.n_answers, was.votes)
    return Snapshot(begun.changed, begun.n_answers, tasks, workers, [], begun.history)
