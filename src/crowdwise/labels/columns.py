"""Which column is the task, which the worker, which the label, and which says when."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.source_location import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from crowdwise.labels.types import TableKind

__all__ = [
    "ROLES",
    "TRUTHS",
    "Columns",
    "Named",
    "candidates",
    "check_time_column",
    "choose_columns",
    "choose_roles",
    "choose_truth_columns",
    "refuse_names_not_text",
    "rename_columns",
    "simplify_name",
]

ROLES = ("task", "worker", "label")
Named: TypeAlias = tuple[str | None, str | None, str | None]  # columns as the user named them, None where not
NUMBERS = {2: "two", 3: "three"}  # of roles, where they are few

# Names that tables really have, in tiers: a later tier counts only where the earlier ones are absent.
# They are compared without case, blanks, dots, dashes and underscores.
SYNONYMS: dict[str, tuple[tuple[str, ...], ...]] = {
    "task": (
        ("task",),
        ("taskid", "taskname", "item", "itemid", "example", "exampleid", "question", "questionid", "instance",
         "instanceid", "unit", "unitid", "hitid", "document", "documentid", "docid", "sample", "sampleid",
         "image", "imageid", "subject", "subjectid", "object", "objectid", "record", "recordid"),
        ("id", "index", "text"),
    ),
    "worker": (
        ("worker",),
        ("workerid", "workername", "annotator", "annotatorid", "annotatorname", "rater", "raterid", "user",
         "userid", "username", "performer", "performerid", "labeler", "labelerid", "labeller", "labellerid",
         "coder", "coderid", "judge", "judgeid", "reviewer", "reviewerid", "participant", "participantid",
         "respondent", "turkerid", "volunteer", "volunteerid"),
        ("source", "model"),
    ),
    "label": (
        ("label",),
        ("labelid", "labelname", "answer", "annotation", "response", "rating", "class", "classid",
         "classname", "category", "judgment", "judgement", "vote", "verdict", "choice", "answerlabel",
         "answercategorylabel"),
        ("value", "result", "score", "output"),
    ),
    "grade": (
        ("grade",),
        ("rating", "stars", "grades", "label", "labelid", "labelname", "level", "rank"),
        ("score", "answer", "response", "value"),
    ),
    "time": (
        ("time",),
        ("timestamp", "datetime", "createdat", "created", "createtime", "creationtime", "submittedat", "submitted",
         "submittime", "submissiontime", "submissiondate", "completedat", "completed", "completiontime", "answeredat",
         "answertime", "annotatedat", "annotationtime", "labeledat", "labelledat", "labeltime", "judgedat", "ratedat",
         "votedat", "updatedat"),
        ("date", "day", "when"),
    ),
    # Of kinds that are no classes (`crowdwise.kinds`).
    "value": (("value",), ("score", "rating", "number", "measurement", "label", "answer")),
    "cost": (("cost",), ("price", "costpervote", "priceofvote", "usd", "dollars")),
    "winner": (("winner",), ("chosen", "preferred", "better")),
    "loser": (("loser",), ("rejected", "worse")),
    "left": (("left",), ("leftitem", "leftid", "itema", "item1", "task1", "modela", "responsea", "a", "first")),
    "right": (("right",), ("rightitem", "rightid", "itemb", "item2", "task2", "modelb", "responseb", "b", "second")),
    "same": (("same",), ("issame", "match", "similar", "label", "answer")),
    "cluster": (("cluster",), ("clusterid", "class", "label", "entity", "entityid", "group")),
    "outcome": (("label",), ("outcome", "winner", "choice", "answer", "preference", "preferred")),
    "item": (("item",), ("itemid", "candidate", "object")),
    "rank": (("rank",), ("position", "place")),
    "prompt": (("prompt",), ("promptid", "instruction", "conversation", "context")),
    "list": (("task",), ("taskid", "list", "listid", "ballot", "ballotid", "question", "query", "queryid")),
    "labels": (("labels",), ("tags", "classes", "categories", "topics"), ("label", "tag", "category", "answer")),
    "text": (("text",), ("output", "translation", "transcription", "answer", "response", "summary")),
    "mask": (("mask",), ("masks", "polygon", "polygons", "rle", "outline", "segmentation", "maskfile", "maskpath")),
    "width": (("width",), ("imagewidth", "w", "boxwidth")),
    "height": (("height",), ("imageheight", "h", "boxheight")),
    "class": (("label",), ("labelname", "class", "classname", "category", "categoryname", "type", "tag")),
    "x": (("x",), ("pointx", "xpos")),
    "y": (("y",), ("pointy", "ypos")),
    "start": (("start",), ("begin", "startoffset", "startchar", "starttoken", "from")),
    "end": (("end",), ("stop", "endoffset", "endchar", "endtoken", "to")),
    "x_min": (("xmin",), ("left", "x1", "x0")),
    "y_min": (("ymin",), ("top", "y1", "y0")),
    "x_max": (("xmax",), ("right", "x2")),
    "y_max": (("ymax",), ("bottom", "y2")),
}  # fmt: skip


@dataclass(frozen=True)
class Columns:
    """A table that gives its columns one by one, so that each can be encoded and let go."""

    names: list[str]  # column names as they stand in the source
    column: Callable[[str], pa.ChunkedArray]  # reads one column by name
    kind: TableKind = "pyarrow"  # the kind of table results should go out in
    place: Place = field(default_factory=Place)  # names a row in an error
    text: bool = False  # the source is text: names that are all plain integers are meant as integers
    index: pa.ChunkedArray | None = None  # row names outside the columns (a pandas index that says something), if any
    # Reads several columns together, batch after batch, so that a file is never in memory whole.
    batches: Callable[[list[str]], Iterator[list[pa.Array]]] | None = None
    in_turn: bool = False  # each column is given once, to be encoded before the next: slower, and in less memory

    def read_whole_columns(self, names: list[str]) -> dict[str, pa.ChunkedArray]:
        """Read several columns whole, going through the source once."""
        if self.batches is None:
            return {name: self.column(name) for name in names}
        rows = list(self.batches(names))
        if not rows:
            return {name: pa.chunked_array([], pa.string()) for name in names}
        return dict(zip(names, map(pa.chunked_array, zip(*rows, strict=True)), strict=True))


def rename_columns(columns: Columns, roles: Mapping[str, str]) -> Columns:
    """The same table with some columns called by their roles; others that are called so are left out.

    >>> table = Columns(["id", "task", "y"], lambda name: pa.chunked_array([[name]]))
    >>> renamed = rename_columns(table, {"task": "id"})
    >>> renamed.names, renamed.column("task").to_pylist()
    (['task', 'y'], ['id'])
    """
    called = {name: role for role, name in roles.items()}
    kept = {called.get(name, name): name for name in columns.names if name in called or name not in roles}
    batches = columns.batches

    def read_batches(names: list[str]) -> Iterator[list[pa.Array]]:
        assert batches is not None  # noqa: S101 (see below)
        return batches([kept[name] for name in names])

    return replace(
        columns,
        names=list(kept),
        column=lambda name: columns.column(kept[name]),
        batches=None if batches is None else read_batches,
    )


def choose_columns(
    names: list[str], origin: str, task: str | None, worker: str | None, label: str | None
) -> tuple[str, str, str]:
    """Find the three columns: those named by the user, then the default names, then synonyms."""
    found = choose_roles(names, origin, {"task": task, "worker": worker, "label": label})
    return found[0], found[1], found[2]


COMPARED = ("winner", "loser")  # columns of a table of comparisons
TRUTH_READER = "labels.truth.read_truth"
TRUTHS = (
    "truth", "gold", "truelabel", "goldlabel", "groundtruth", "goldstandard", "trueclass", "goldclass", "trueanswer",
    "goldanswer", "correctlabel", "correctanswer", "ytrue", "gt", "y",
)  # fmt: skip


def choose_truth_columns(names: list[str], origin: str, task: str | None, label: str | None) -> tuple[str, str]:
    """Find the two columns of a table of truths, whose label may also be called truth, gold and the like."""
    if label is None and not candidates("label", names):
        hits = [name for name in names if simplify_name(name) in TRUTHS]
        if len(hits) > 1:
            raise _doubtful_column_error("label", hits, origin, TRUTH_READER)
        label = hits[0] if hits else None
    found = choose_roles(names, origin, {"task": task, "label": label}, TRUTH_READER)
    return found[0], found[1]


def check_time_column(names: list[str], origin: str, time: str, others: tuple[str, ...]) -> str:
    """Check the column of times that the user named: it is there once, and is none of the others."""
    name = _check_named(time, names, origin, "time", "read_timed_labels")
    if name in others:
        raise InputError(f"{origin}: {quote(name)} cannot be the time, since it is the task, the worker or the label.")
    _refuse_repeated(names, origin, [name])
    return name


def refuse_names_not_text(given: Mapping[str, object]) -> None:
    """Refuse columns that are called by anything but text."""
    for role, name in given.items():
        if name is not None and not isinstance(name, str):
            raise InputError(f"{role} is {quote(name)}; give the name of a column as text, such as {role}={role!r}.")


def choose_roles(names: list[str], origin: str, given: dict[str, str | None], reader: str = "read_labels") -> list[str]:
    """Find the columns of some roles: those named by the user, then the default names, then synonyms.

    Messages say how the `reader`, and the command, are told of a column.
    """
    refuse_names_not_text(given)
    taken = {name for name in given.values() if name is not None}
    found = {
        role: _guess_column(role, names, origin, taken, reader)
        if name is None
        else _check_named(name, names, origin, role, reader)
        for role, name in given.items()
    }
    absent = [role for role, name in found.items() if name is None]
    if absent:
        raise InputError(_absent_message(absent, names, origin, list(given), reader))
    result = [str(name) for name in found.values()]
    if len(set(result)) < len(result):
        raise InputError(
            f"{origin}: {', '.join(given)} must be {NUMBERS.get(len(given), len(given))} different columns; they are "
            f"{listing(result)}."
        )
    _refuse_repeated(names, origin, result)
    return result


def _refuse_repeated(names: list[str], origin: str, chosen: list[str]) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1 and name in chosen]
    if repeated:
        raise InputError(
            f"{origin} has more than one column named {listing(repeated)}. Rename the columns so that each "
            "name occurs once."
        )


def candidates(role: str, names: list[str], taken: set[str] | None = None) -> list[str]:
    """Columns that may hold a role, from the best tier that has any."""
    free = [name for name in dict.fromkeys(names) if name not in (taken or set())]
    for tier in SYNONYMS[role]:
        hits = [name for name in free if simplify_name(name) in tier]
        if hits:
            return [role] if role in hits else hits
    return []


def simplify_name(name: str) -> str:
    """The name of a column as such names are compared: without case, blanks, dots, dashes and underscores."""
    return re.sub(r"[\s._:\-]+", "", str(name)).casefold()


def _option(role: str, reader: str) -> str:
    option = "truth-label" if reader == TRUTH_READER and role == "label" else role
    return f"{role}= in {reader} (on the command line --{option}-column)"


def _check_named(name: str, names: list[str], origin: str, role: str, reader: str) -> str:
    if name in names:
        return name
    close = difflib.get_close_matches(str(name), names, n=1)
    hint = f" Did you mean {quote(close[0])}?" if close else ""
    raise InputError(
        f"{origin} has no column {quote(name)}; it has {listing(names)}.{hint} "
        f"Give the name of an existing column as {_option(role, reader)}."
    )


def _guess_column(role: str, names: list[str], origin: str, taken: set[str], reader: str) -> str | None:
    hits = candidates(role, names, taken) or candidates(role, names)
    if len(hits) > 1:
        raise _doubtful_column_error(role, hits, origin, reader)
    return hits[0] if hits else None


def _doubtful_column_error(role: str, hits: list[str], origin: str, reader: str) -> InputError:
    return InputError(
        f"{origin} has more than one column that may be the {role}: {listing(hits)}. "
        f"Say which with {_option(role, reader)}."
    )


def _absent_message(absent: list[str], names: list[str], origin: str, roles: list[str], reader: str) -> str:
    options = ", ".join(_option(role, reader) for role in absent)
    what = " and no ".join(f"{role} column" for role in absent)
    if not names:
        return f"{origin} has no columns. Labels need three: task, worker and label."
    if set(COMPARED) <= {simplify_name(name) for name in names}:
        return (
            f"{origin} holds comparisons ({listing(names)}), not labels of tasks. With a column worker they are read "
            "as comparisons."
        )
    if len(names) == 1:
        return (
            f"{origin} has a single column, {quote(names[0])}. It needs {len(roles)}: {', '.join(roles)}, "
            "separated by commas, semicolons, tabs or bars; of JSON give the list of records alone."
        )
    if all(re.fullmatch(r"\s*[-+]?[0-9.]+\s*", str(name)) for name in names):
        return (
            f"{origin} has no {what}; its first line, {listing(names)}, looks like data. "
            f"Put a header line above it: {','.join(roles)}."
        )
    return (
        f"{origin} has no {what}; its columns are {listing(names)}. Name what is missing with {options}."
        f"{_explain_wide(names) if 'worker' in roles else ''}"
    )


def _explain_wide(names: list[str]) -> str:
    """Say when a table with a column for each worker is read so."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        return (
            f" If each column is a worker and each row a task: more than one column is called {listing(repeated)}. "
            "Give each a name of its own."
        )
    return (
        " If each column is a worker and each row a task, use CrowdLabels.from_dense in Python; a file is read so "
        "only where some cells are empty (no answer), or columns are called as workers are (annotator_1)."
    )
