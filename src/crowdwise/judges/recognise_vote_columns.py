"""The columns of a table of votes or of people's labels: tasks, who answered, what, and what else is known of it.

| column | names that are found | meaning |
|---|---|---|
| task | task, item, question_id, … | what is judged |
| judge | judge, worker, annotator, model, … | who answers |
| vote | vote, label, verdict, score, … | the class; empty, null and NaN are unparseable |
| left, right, winner | left, model_a, first, …; winner, label, … | in place of vote: a comparison |
| prompt, temperature, version | judge_prompt, template, …; temperature; version | part of the judge |
| system | system, contestant | whose work the task shows |
| left_length, right_length | also length_a, length_b | lengths of the two compared answers |
| weight | weight | one over the chance that people were given the task |

A column `prompt` may hold the judge's prompt or the text that is judged. It is the judge's where one judge answered one
task under two prompts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.kinds.answer_table import AnswerTable, open_columns
from crowdwise.kinds.comparisons.outcome_words import MEANING, UNKNOWN, warn_of_two_readings
from crowdwise.labels.columns import Columns, candidates
from crowdwise.labels.errors import InputError, listing, quote

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["CLASSES_OF_PAIRS", "VoteColumns", "read_vote_columns"]

CLASSES_OF_PAIRS = ("first", "tie", "second")
UNPARSEABLE = ("", "nan", "null", "none", "<na>", "unparseable", "parse error")
EXTRA = {
    "template": ("judgeprompt", "promptversion", "promptname", "prompttemplate", "template", "rubric"),
    "prompt": ("prompt", "promptid"),
    "temperature": ("temperature", "temp"),
    "version": ("version", "judgeversion", "modelversion"),
    "system": ("system", "contestant", "systemid"),
    "left_length": ("leftlength", "lengtha", "lengthleft", "firstlength", "lena"),
    "right_length": ("rightlength", "lengthb", "lengthright", "secondlength", "lenb"),
    "weight": ("weight", "samplingweight"),
}
NEEDS = {
    "votes": "Votes need a column for the task, one for the judge and one for the vote; comparisons left, right and "
    "winner in place of the vote.",
    "humans": "Labels of people need a column for the task, one for the worker and one for the label; comparisons "
    "left, right and winner in place of the label.",
}


LEAST_WEIGHT = 1e-100  # products of smaller ones are 0


@dataclass(frozen=True, eq=False)
class VoteColumns:
    """Rows as they were read.

    Attributes
    ----------
    task, judge : (n,)
        Positions in `tasks` and `judges`.
    vote : (n,)
        Class names as text, null where a vote is unparseable.
    compared
        Whether the votes are comparisons. Then `left` and `right` (n,) are positions in `contestants`, and `outcome`
        (n,) is 1 for left, -1 for right, 0 for a tie, 9 for unparseable.
    left_length, right_length, weight : (n,) or None
    system : (n,) or None
    versions
        Pairs of judges that are versions of one, the earlier first.
    """

    task: IntArray
    judge: IntArray
    tasks: pa.Array
    judges: pa.Array
    vote: pa.Array
    compared: bool = False
    left: IntArray | None = None
    right: IntArray | None = None
    outcome: IntArray | None = None
    contestants: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    left_length: FloatArray | None = None
    right_length: FloatArray | None = None
    weight: FloatArray | None = None
    system: pa.Array | None = None
    versions: tuple[tuple[str, str], ...] = ()


def read_vote_columns(source: Any, what: str) -> VoteColumns:
    """Read the columns of votes (`what` is "votes") or of people's labels ("humans")."""
    columns = open_columns(source, NEEDS[what])
    if not isinstance(columns, Columns):
        raise InputError(f"The {what} are no table with named columns. {NEEDS[what]}")
    compared = all(candidates(role, columns.names) for role in ("left", "right"))
    extra = _find_extra(columns.names)
    free = [name for name in columns.names if name not in extra.values()]
    roles = _find_roles(free, columns.place.origin, what, compared=compared) | extra
    read = columns.read_whole_columns(list(dict.fromkeys(roles.values())))
    table = AnswerTable(
        {role: read[name] for role, name in roles.items()}, roles, columns.place, columns.text, columns.kind
    )
    if not len(next(iter(table.columns.values()))):
        raise InputError(f"{columns.place.origin} has columns but no rows. Give a row for each answer.")
    judge, judges, model, versions = _name_judges(table, what)
    numbers = {
        role: table.read_numbers(role, may_be_empty=role != "weight")
        for role in ("left_length", "right_length", "weight")
        if role in table
    }
    if "weight" in numbers and not (numbers["weight"] >= LEAST_WEIGHT).all():
        rows = columns.place.name_rows(np.flatnonzero(~(numbers["weight"] >= LEAST_WEIGHT)).tolist())
        raise InputError(f"Column {quote(roles['weight'])} holds weights that are not above 0 ({rows}).")
    for role in ("left_length", "right_length"):
        if role in numbers and (numbers[role] < 0).any():
            rows = columns.place.name_rows(np.flatnonzero(numbers[role] < 0).tolist())
            raise InputError(f"Column {quote(roles[role])} holds lengths below 0 ({rows}). Mend or empty those cells.")
    more: dict[str, Any] = {**numbers, "model": model, "versions": versions}
    if "system" in table:
        more["system"] = _as_text(table.columns["system"])
    if compared:
        return _read_pairs(table, judge, judges, more)
    tasks = table.encode("task")
    return VoteColumns(tasks.codes.astype(np.int64), judge, _as_text(tasks.names), judges, _read_classes(table), **more)


def _find_extra(names: list[str]) -> dict[str, str]:
    keys = {re.sub(r"[\s._\-]+", "", name).casefold(): name for name in names}
    found = {role: next((keys[each] for each in known if each in keys), None) for role, known in EXTRA.items()}
    return {role: name for role, name in found.items() if name is not None}


def _find_roles(names: list[str], origin: str, what: str, *, compared: bool) -> dict[str, str]:
    wanted = ["task", "worker", *(["left", "right", "outcome"] if compared else ["label"])]
    optional = {"task"} if compared else {"worker"} if what == "humans" else set()
    found: dict[str, str] = {}
    order = sorted(wanted, key=lambda role: role in ("task", "worker"))  # so that "model_a" is no worker
    for role in order:
        fitting = candidates(role, names, set(found.values()))
        if not fitting and role == "outcome":
            fitting = candidates("winner", names, set(found.values())) or candidates(
                "label", names, set(found.values())
            )
        if fitting:
            found[role] = fitting[0]
        elif role not in optional:
            role_name = {"worker": "judge" if what == "votes" else "worker", "label": "vote"}.get(role, role)
            raise InputError(
                f"{origin} has no column for the {role_name}; its columns are {listing(names)}. {NEEDS[what]}"
            )
    return found


def _as_text(column: Any) -> pa.Array:
    """Names as text; whole numbers without their decimals."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(whole.type):
        whole = whole.cast(whole.type.value_type)
    if pa.types.is_nested(whole.type):
        raise InputError(f"A column holds {whole.type} in place of plain values. Give text or numbers.")
    text = whole if pa.types.is_string(whole.type) else whole.cast(pa.string())
    if pa.types.is_floating(whole.type):
        text = pc.replace_substring_regex(text, r"^(-?\d+)\.0+$", r"\1")
    return pc.utf8_trim_whitespace(text)


def _read_classes(table: AnswerTable) -> pa.Array:
    text = _as_text(table.columns["label"])
    nothing = pc.is_in(pc.utf8_lower(text), pa.array(UNPARSEABLE))
    return pc.if_else(pc.fill_null(nothing, True), pa.scalar(None, pa.string()), text)


def _name_judges(
    table: AnswerTable, what: str
) -> tuple[IntArray, pa.Array, tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Who answered each row, (n,); names of the judges; the model of each; pairs of versions."""
    n = len(next(iter(table.columns.values())))
    if "worker" not in table:
        return np.arange(n), pa.array([f"person {row + 1}" for row in range(n)]), (), ()
    base = table.encode("worker")
    codes, names = base.codes.astype(np.int64), [str(name) for name in base.names.to_pylist()]
    model = list(names)
    if what != "votes":
        return codes, pa.array(names), tuple(model), ()
    version_of: list[tuple[str, str]] = [(name, "") for name in names]
    for role in ("template", "prompt", "temperature", "version"):
        if role not in table:
            continue
        part = _as_text(table.columns[role]).dictionary_encode()
        values = [str(each) for each in part.dictionary.to_pylist()]
        at = np.asarray(pc.fill_null(part.indices, len(values))).astype(np.int64)
        values.append("")
        group = codes if role != "prompt" else codes * (int(_task_codes(table).max()) + 1) + _task_codes(table)
        both = np.unique(np.stack([group, at], axis=1), axis=0)
        if np.unique(both[:, 0]).size == len(both):
            continue  # says nothing that the names do not say
        joined, codes = np.unique(codes * len(values) + at, return_inverse=True)
        sign = {"temperature": "T=", "version": "v"}.get(role, "")
        whose, which = joined // len(values), joined % len(values)
        model = [model[at] for at in whose]
        version_of = [
            (names[a], values[b]) if role == "version" else version_of[a] for a, b in zip(whose, which, strict=True)
        ]
        names = [
            f"{names[a]} · {sign}{values[b]}" if values[b] else names[a] for a, b in zip(whose, which, strict=True)
        ]
    if len(set(names)) != len(names):
        raise InputError(f"Two judges have the same name ({listing(names)}). Give each judge a name of its own.")
    order = sorted((each for each in range(len(names)) if version_of[each][1]), key=lambda each: version_of[each])
    pairs = [(names[a], names[b]) for a, b in pairwise(order) if version_of[a][0] == version_of[b][0]]
    return codes, pa.array(names), tuple(model), tuple(pairs)


def _task_codes(table: AnswerTable) -> IntArray:
    if "task" not in table:
        return np.zeros(len(next(iter(table.columns.values()))), np.int64)
    codes: IntArray = table.encode("task").codes.astype(np.int64)
    return codes


def _read_pairs(table: AnswerTable, judge: IntArray, judges: pa.Array, more: dict[str, Any]) -> VoteColumns:
    """Comparisons as votes about pairs, contestants in the order of their names."""
    one, other = (_as_text(table.columns[role]) for role in ("left", "right"))
    contestants = sorted(
        {str(name) for side in (one, other) for name in pc.unique(side).to_pylist() if name is not None}
    )
    place = {name: at for at, name in enumerate(contestants)}
    left, right = (np.array([place.get(str(name), -1) for name in side.to_pylist()]) for side in (one, other))
    bad = np.flatnonzero((left < 0) | (right < 0) | (left == right))
    if bad.size:
        raise InputError(
            f"A comparison needs two different contestants ({table.place.name_rows(bad.tolist())}). Mend those rows."
        )
    outcome = _read_outcomes(table, one, other)
    first, second = np.minimum(left, right), np.maximum(left, right)
    codes = np.where(outcome == 0, 1, np.where((outcome == 1) == (left == first), 0, 2))
    vote = pa.array(CLASSES_OF_PAIRS).take(pa.array(codes))
    vote = pc.if_else(pa.array(outcome == 9), pa.scalar(None, pa.string()), vote)
    task = (
        _as_text(table.encode("task").names).take(pa.array(_task_codes(table))).to_pylist() if "task" in table else None
    )
    names = [
        f"{contestants[a]} / {contestants[b]}" + (f" on {task[row]}" if task else "")
        for row, (a, b) in enumerate(zip(first, second, strict=True))
    ]
    encoded = pa.array(names).dictionary_encode()
    return VoteColumns(
        np.asarray(encoded.indices).astype(np.int64), judge, encoded.dictionary, judges, vote, True,
        left, right, outcome, tuple(contestants), **more,
    )  # fmt: skip


def _read_outcomes(table: AnswerTable, one: pa.Array, other: pa.Array) -> IntArray:
    """1 for left, -1 for right, 0 for a tie, 9 where it cannot be told.

    A word that is the name of one contestant and of the other's side is the name, unless other rows show that the table
    says sides and no names.
    """
    said = _as_text(table.columns["outcome"])
    words = ["" if word is None or word.casefold() in UNPARSEABLE else word for word in said.to_pylist()]
    meaning = np.array([MEANING.get(re.sub(r"[\s._:()\-]+", "", word).casefold(), UNKNOWN) for word in words])
    pairs = zip(words, one.to_pylist(), other.to_pylist(), strict=True)
    named = np.array([1 if word == left else -1 if word == right else 0 for word, left, right in pairs])
    says_sides = bool(((np.abs(meaning) == 1) & (named == 0)).any())
    says_names = bool(((meaning == UNKNOWN) & (named != 0)).any())
    if says_sides and not says_names:
        return meaning
    if says_sides == says_names:
        warn_of_two_readings(np.flatnonzero(named * meaning == -1), said, table)
    return np.where(named, named, meaning)
