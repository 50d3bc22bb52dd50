"""{task: {worker: label}} or {worker: {task: label}}: which of the two a nested mapping is.

Read the wrong way round, tasks and workers change places without an error. In this order:

| evidence | example |
|---|---|
| most names of one level speak of workers or models, or of tasks, and those of the other do not | \
annotator_1, gpt-4o; item_7, img3.png |
| one level is at least three times as large, its names are numbered, and those of the other are words | {ann: {1: …}} |
| the outer level is at least three times as large: there are more tasks than workers, in the documented order | |

Everything else is asked about. Where the outer names are taken for workers, a warning says so.
"""

from __future__ import annotations

import re
import warnings
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from crowdwise.labels.columns import ROLES, candidates
from crowdwise.labels.errors import InputError, InputWarning, UnclearInputError, listing, quote
from crowdwise.labels.source_location import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from crowdwise.labels.types import Outer

__all__ = ["by_task", "columns_of_rows", "infer_level_role"]

SAMPLED = 1000  # names of a level that are looked at
MOST = 0.8  # share of them that must speak of workers, or of tasks
LARGER = 3.0  # times as many names as the other level has
MOST_FIELDS = 20  # inner names, with a worker and a label among them, that are fields of a record
WORKERS = (
    "worker annotator rater judge coder labeler labeller reviewer participant turker volunteer respondent user human "
    "expert doctor student crowd model llm gpt chatgpt claude gemini gemma llama mistral mixtral qwen deepseek grok"
)
TASKS = (
    "task item example question instance unit document doc sample image img picture photo sentence sent text record "
    "subject object video clip pair prompt tweet query comment frame row"
)
WORKER, TASK = (
    re.compile(rf"(?<![a-z])({'|'.join(words.split())}|{single}\d+)(?![a-z])|{more}", re.IGNORECASE)
    for words, single, more in ((WORKERS, "[w]", r"command-r"), (TASKS, "[tqx]", r"\.(jpe?g|png|gif|txt|wav|mp3|mp4)$"))
)


def columns_of_rows(nested: Mapping[Any, Mapping[Any, Any]]) -> dict[str, list[Any]] | None:
    """The columns of {column: {row: value}}, as pandas writes a table; None if the outer names are no columns.

    >>> columns_of_rows({"task": {0: "a", 1: "a"}, "worker": {0: "ann", 1: "bob"}, "label": {0: "x", 1: "y"}})
    {'task': ['a', 'a'], 'worker': ['ann', 'bob'], 'label': ['x', 'y']}
    """
    names = [str(name) for name in nested]
    if not all(candidates(role, names) for role in ROLES):
        return None
    rows = list(next(iter(nested.values())))
    if any(list(column) != rows for column in nested.values()):
        return None
    return {name: list(column.values()) for name, column in zip(names, nested.values(), strict=True)}


def by_task(nested: Mapping[Any, Mapping[Any, Any]], outer: Outer | None) -> Mapping[Any, Mapping[Any, Any]]:
    """Give {task: {worker: label}}, as it is or turned round.

    Parameters
    ----------
    nested
        A mapping of mappings.
    outer
        What its own keys are, "tasks" or "workers", where the user says so.
    """
    if outer not in (None, "tasks", "workers"):
        raise InputError(f"outer is {quote(outer)}; it must be 'tasks' or 'workers'.")
    inner = list(dict.fromkeys(name for answers in nested.values() for name in answers))
    if not inner or outer == "tasks":
        return nested
    if outer is None:
        _refuse_records(inner)
        outer = infer_outer(list(nested), inner)
        if outer is None:
            raise _unclear_error(nested, inner)
        if outer == "workers":
            warnings.warn(
                f"The outer names ({listing(nested)}) were taken for {format_count(len(nested), 'worker')}, the inner "
                f"ones ({listing(inner)}) for {format_count(len(inner), 'task')}. If it is the other way round, say "
                "outer='tasks' in read_labels (on the command line --outer tasks).",
                InputWarning,
                stacklevel=2,
            )
    return nested if outer == "tasks" else _swap_levels(nested)


def infer_outer(outer: list[Any], inner: list[Any]) -> Outer | None:
    """Tell by the names of both levels what the outer ones are; None where they do not tell.

    >>> infer_outer(["annotator_1", "annotator_2"], ["7", "8", "9"])
    'workers'
    >>> infer_outer(["a", "b"], ["c", "d"]) is None
    True
    """
    told = infer_level_role(outer), infer_level_role(inner)
    if told[0] != told[1]:
        return "workers" if told[0] == "worker" or told[1] == "task" else "tasks"
    if len(inner) >= LARGER * len(outer) and len(outer) > 1 and _are_words(outer) and _are_numbered(inner):
        return "workers"
    if len(outer) >= LARGER * len(inner):
        return "tasks"
    return None


def infer_level_role(names: list[Any]) -> Literal["worker", "task"] | None:
    """What most names of a level speak of, if they speak of one thing only."""
    sample = [str(name) for name in islice(names, SAMPLED)]
    worker, task = (
        sum(bool(pattern.search(name)) for name in sample) >= MOST * len(sample) for pattern in (WORKER, TASK)
    )
    if worker == task:
        return None
    return "worker" if worker else "task"


def _are_words(names: Iterable[Any]) -> bool:
    return all(isinstance(name, str) and not re.search(r"\d", name) for name in names)


def _are_numbered(names: list[Any]) -> bool:
    return sum(bool(re.search(r"\d", str(name))) for name in names) >= MOST * len(names)


def _refuse_records(inner: list[Any]) -> None:
    """Refuse {id: {"worker": …, "label": …}}, whose inner names are fields."""
    names = [str(name) for name in inner]
    if len(names) <= MOST_FIELDS and candidates("worker", names) and candidates("label", names):
        raise InputError(
            f"The inner names of this mapping are fields of records ({listing(names)}), neither tasks nor workers. "
            "Give a list of records, or a table with a row for each answer."
        )


def _unclear_error(nested: Mapping[Any, Any], inner: list[Any]) -> UnclearInputError:
    return UnclearInputError(
        f"It cannot be told whether this is {{task: {{worker: label}}}} or {{worker: {{task: label}}}}. Outer names, "
        f"{len(nested):,}: {listing(nested)}. Inner names, {len(inner):,}: {listing(inner)}. Say what the outer names "
        "are with outer='tasks' or outer='workers' in read_labels (on the command line --outer).",
        [
            ("The outer names are tasks:", ("--outer", "tasks")),
            ("The outer names are workers:", ("--outer", "workers")),
        ],
    )


def _swap_levels(nested: Mapping[Any, Mapping[Any, Any]]) -> dict[Any, dict[Any, Any]]:
    turned: dict[Any, dict[Any, Any]] = {}
    for outer, answers in nested.items():
        for inner, label in answers.items():
            turned.setdefault(inner, {})[outer] = label
    return turned
