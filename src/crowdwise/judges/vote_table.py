"""Votes of judges and labels of people, read from tables: one vote a judge and task.

A judge is a model with a prompt and a temperature (and a version). Several answers of one judge to one task are
repeats: their most frequent class is the judge's vote, and how often two of them agree is the judge's self-consistency.
They are never counted as several judges.

Comparisons (columns left and right) become votes about the pair: the class is "first", "second" or "tie", with the
contestants in the order of their names, whichever side they were shown on. Where repeats of a comparison, in both
orders say, contradict each other as often as not, the vote is a tie.

Judges are few. Votes are edges (`CrowdLabels`) all the same; `to_matrix` makes tasks × judges for panels, and refuses
tables with so many judges that they are a crowd.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.judges.recognise_vote_columns import CLASSES_OF_PAIRS, VoteColumns, read_vote_columns
from crowdwise.judges.score_grades import round_scores
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.several_files import expand_paths
from crowdwise.labels.similar_names import warn_of_similar_names
from crowdwise.labels.vocabulary import as_vocabulary, positions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["PanelVotes", "class_values", "read_panel"]

MOST_CELLS = 50_000_000  # tasks × judges that are held at once
MOST_CLASSES = 30  # distinct votes beyond which numbers are taken for scores, and rounded to grades


@dataclass(frozen=True, eq=False)
class PanelVotes:
    """Votes of a panel, and labels of people about the same tasks.

    Attributes
    ----------
    votes
        One vote a judge and task: the most frequent class of the judge's repeats.
    humans
        Labels of people over the same tasks and classes; None where there are none.
    unparseable, n_answers : (M,)
        Answers of each judge without a class, and all answers of each judge.
    n_repeated : (M,)
        Tasks that each judge answered more than once.
    consistency : (M,)
        Chance that two answers of the judge to one task agree; NaN where nothing was repeated.
    weight : (N,)
        One over the chance that the task was given to people, up to a factor; 1 where no weights were given.
    system : (N,)
        Position in `systems` of whose work the task shows, -1 where that is not said.
    columns
        The rows as they were read, for the biases of comparisons.
    versions
        Pairs of judges that are two versions of one.
    """

    votes: CrowdLabels
    humans: CrowdLabels | None
    unparseable: IntArray
    n_answers: IntArray
    n_repeated: IntArray
    consistency: FloatArray
    weight: FloatArray
    system: IntArray
    systems: tuple[str, ...]
    columns: VoteColumns
    human_columns: VoteColumns | None = None
    n_unparseable_human: int = 0
    versions: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def judges(self) -> list[str]:
        """Names of the judges."""
        return [str(name) for name in self.votes.workers.to_pylist()]

    @property
    def classes(self) -> list[str]:
        """Names of the classes."""
        return [str(name) for name in self.votes.classes.to_pylist()]

    @property
    def tasks(self) -> list[str]:
        """Names of the tasks."""
        return [str(name) for name in self.votes.tasks.to_pylist()]

    def to_matrix(self) -> IntArray:
        """Votes as tasks × judges, -1 where there is none."""
        return to_matrix(self.votes)

    def count_human_labels(self) -> FloatArray:
        """How often people gave each class, (N, K)."""
        if self.humans is None:
            return np.zeros((self.votes.n_tasks, self.votes.n_classes))
        counted: FloatArray = np.asarray(self.humans.vote_counts(), np.float64)
        return counted

    def find_reference(self) -> IntArray:
        """The class that most people gave, (N,); -1 where nobody did, and where two classes tie."""
        counts = self.count_human_labels()
        most = counts.max(axis=1, keepdims=True)
        unique = ((counts == most).sum(axis=1) == 1) & (most[:, 0] > 0)
        return np.where(unique, counts.argmax(axis=1), -1)


def to_matrix(labels: CrowdLabels) -> IntArray:
    """Labels as tasks × workers, -1 where there is none."""
    if labels.n_tasks * labels.n_workers > MOST_CELLS:
        raise InputError(
            f"{labels.n_workers:,} judges with {labels.n_tasks:,} tasks are no panel but a crowd. Is the judge column "
            "the right one? For crowds use `crowdwise aggregate` and `crowdwise audit`."
        )
    matrix = np.full((labels.n_tasks, labels.n_workers), -1, np.int64)
    matrix[labels.task, labels.worker] = labels.label
    return matrix


def class_values(classes: Sequence[str]) -> FloatArray | None:
    """The classes as numbers, where all of them are finite numbers; None where not.

    >>> class_values(["1", "2.5"]).tolist(), class_values(["yes", "no"])
    ([1.0, 2.5], None)
    """
    try:
        values = np.array([float(name) for name in classes])
    except ValueError:
        return None
    return values if np.isfinite(values).all() and np.unique(values).size == values.size else None


def read_panel(votes: Any, humans: Any = None, *, classes: Sequence[str] | None = None) -> PanelVotes:
    """Read the votes of a panel, and the labels of people about its tasks.

    Parameters
    ----------
    votes
        A file or table with a row for each answer: task, judge and vote; or task, judge, left, right and winner.
        Further columns that count: prompt, temperature, version, system, left_length, right_length.
    humans
        The same of people: task, worker and label, and weight where the tasks were not drawn with equal chances.
    classes
        All classes; other answers are then unparseable.
    """
    if isinstance(votes, str | Path) and isinstance(humans, str | Path):
        expand_paths([votes, humans])  # the votes taken for people's labels as well would be right wherever they agree
    read = _sort_tasks(read_vote_columns(votes, "votes"))
    people = None if humans is None else read_vote_columns(humans, "humans")
    if people is not None and people.compared != read.compared:
        one, other = ("comparisons" if each.compared else "labels" for each in (read, people))
        raise InputError(f"The votes are {one} and the people's answers {other}. Give both in the same columns.")
    rounded: tuple[str, ...] = ()
    if classes is None and not read.compared and _are_scores(read, people):
        read, people, said = round_scores(read, people)
        rounded = (said,)
    names = _find_classes(read, people, classes)
    warn_of_similar_names({"Judges": read.judges, "Classes": as_vocabulary(names, "class")})
    judged = _reduce_repeats(read, names)
    if not judged.labels.n_labels:
        raise InputError(_explain_no_vote(read, names))
    notes = (*rounded, *_count_unparseable(read, judged.unparseable, judged.n_answers))
    labels = judged.labels
    weight, system = np.ones(labels.n_tasks), np.full(labels.n_tasks, -1)
    systems: tuple[str, ...] = ()
    if read.system is not None:
        systems, system = _first_of_task(read.system, read.task, read.tasks)
    if people is None:
        return PanelVotes(labels, None, judged.unparseable, judged.n_answers, judged.n_repeated, judged.consistency,
                          weight, system, systems, read, versions=read.versions, notes=notes)  # fmt: skip
    place = positions(people.tasks, read.tasks)
    if (place < 0).all():
        raise InputError(
            f"People labelled other tasks ({listing(people.tasks.slice(0, 5).to_pylist())}) than the judges "
            f"({listing(read.tasks.slice(0, 5).to_pylist())}): no name matches. Use the same task names in both."
        )
    theirs = _reduce_repeats(people, names)
    at = place[theirs.labels.task]
    kept = at >= 0
    known = CrowdLabels.from_codes(
        at[kept], theirs.labels.worker[kept], theirs.labels.label[kept],
        tasks=labels.tasks, workers=theirs.labels.workers, classes=labels.classes,
    )  # fmt: skip
    if not known.n_labels:
        raise InputError("No answer of a person holds a class. Give the labels of people in a column `label`.")
    if people.weight is not None:
        of_row = place[people.task]
        of_row, told = of_row[of_row >= 0], people.weight[of_row >= 0]
        weight[of_row] = told
        if (weight[of_row] != told).any():
            differ = listing(read.tasks.take(pa.array(np.unique(of_row[weight[of_row] != told]))).to_pylist())
            raise InputError(
                f"The labels of people give task {differ} several weights. A task has one: mend those rows."
            )
    bad = int(theirs.unparseable.sum())
    notes = (*notes, *_note_people(theirs, int((place < 0).sum())))
    unvoiced = [names[code] for code in np.setdiff1d(known.label, labels.label)]
    if unvoiced:
        notes = (*notes, f"People used {listing(unvoiced)}, which no judge ever voted for.")
    return PanelVotes(labels, known, judged.unparseable, judged.n_answers, judged.n_repeated, judged.consistency,
                      weight, system, systems, read, people, bad, read.versions, notes)  # fmt: skip


def _note_people(theirs: _Reduced, strangers: int) -> Iterator[str]:
    """What of the people's labels does not count as it stands; `strangers` are tasks that no judge voted on."""
    repeated, bad = int(theirs.n_repeated.sum()), int(theirs.unparseable.sum())
    if repeated:
        yield f"People answered {repeated:,} of their tasks more than once: the most frequent answer counts."
    if strangers:
        yield f"People labelled {strangers:,} tasks that no judge voted on; these are left out."
    if bad:
        yield f"{bad:,} of {int(theirs.n_answers.sum()):,} answers of people hold no class and count for nothing."


def _sort_tasks(read: VoteColumns) -> VoteColumns:
    """The same with the tasks by name, so that rows may come in any order: draws and folds go by positions."""
    order = pc.sort_indices(read.tasks)
    place = np.empty(len(order), np.int64)
    place[order.to_numpy()] = np.arange(place.size)
    return replace(read, tasks=read.tasks.take(order), task=place[read.task])


@dataclass(frozen=True, eq=False)
class _Reduced:
    """One label a worker and task, and what was lost on the way."""

    labels: CrowdLabels
    unparseable: IntArray
    n_answers: IntArray
    n_repeated: IntArray
    consistency: FloatArray


def _find_classes(read: VoteColumns, people: VoteColumns | None, given: Sequence[str] | None) -> list[str]:
    """All classes: numbers by their value, other names by the alphabet."""
    if read.compared:
        return list(CLASSES_OF_PAIRS)
    if given is not None:
        if isinstance(given, str):  # its letters are no classes
            raise InputError(f"classes is {quote(given)}; give a list of class names.")
        names = [str(name).strip() for name in as_vocabulary(given, "class").to_pylist()]
        if len(set(names)) != len(names) or len(names) < 2:
            raise InputError(f"classes holds {listing(names)}; give two different names or more.")
        return names
    found = _list_answers(read, people)
    if not found:
        raise InputError("No vote holds a class: all are empty. Give the judges' answers in a column `vote`.")
    if len(found) == 1:
        raise InputError(
            f"Every vote and label is {listing(found)}: with one class nobody can err. Name all classes that could "
            "have been given (classes=, or --classes A,B)."
        )
    values = class_values(found)
    if len(found) > MOST_CLASSES:
        raise InputError(
            f"The votes have {len(found):,} distinct values, which are texts: give the class that each one means, at "
            f"most {MOST_CLASSES}."
        )
    return sorted(found) if values is None else [found[at] for at in np.argsort(values)]


def _explain_no_vote(read: VoteColumns, names: list[str]) -> str:
    if read.compared:
        return "No vote says which is better. Give left, right or tie, or the name of one of the two."
    voted = listing(sorted(_list_answers(read, None))) or "none"
    return (
        f"No vote holds any of the classes {listing(names)}; the votes hold {voted}. Name all classes as the judges' "
        "votes do (classes=, or --classes A,B)."
    )


def _list_answers(read: VoteColumns, people: VoteColumns | None) -> list[str]:
    columns = [read.vote] if people is None else [read.vote, people.vote]
    return [str(name) for name in pc.unique(pa.chunked_array(columns).drop_null()).to_pylist()]


def _are_scores(read: VoteColumns, people: VoteColumns | None) -> bool:
    found = _list_answers(read, people)
    return len(found) > MOST_CLASSES and class_values(found) is not None


def _reduce_repeats(read: VoteColumns, classes: list[str]) -> _Reduced:
    n_workers, n_classes = len(read.judges), len(classes)
    code = positions(as_vocabulary(read.vote.dictionary_encode().dictionary, "class"), as_vocabulary(classes, "class"))
    encoded = read.vote.dictionary_encode()
    at = np.asarray(pc.fill_null(encoded.indices, -1))
    label = np.where(at >= 0, code[np.maximum(at, 0)], -1) if len(code) else np.full(at.size, -1)
    told = label >= 0
    n_answers = np.bincount(read.judge, minlength=n_workers)
    unparseable = np.bincount(read.judge[~told], minlength=n_workers)
    edge = read.task[told] * n_workers + read.judge[told]
    places, back, times = np.unique(edge, return_inverse=True, return_counts=True)
    cells, first, counts = np.unique(back * n_classes + label[told], return_index=True, return_counts=True)
    pair, chosen = cells // n_classes, cells % n_classes
    # Most frequent first; among equals the one that was given first, or "tie" where votes are comparisons.
    early = np.where(chosen == 1, -1, first) if read.compared else first
    order = np.lexsort((early, -counts, pair))
    lead = order[np.unique(pair[order], return_index=True)[1]]
    winner = chosen[lead]
    if read.compared:
        best = counts[lead][pair] == counts
        winner = np.where(np.bincount(pair[best], minlength=places.size) > 1, 1, winner)
    agree = np.bincount(pair, counts * (counts - 1.0), places.size)
    judge, task = places % n_workers, places // n_workers
    several = times > 1
    pairs_of = np.bincount(judge[several], (times * (times - 1.0))[several], n_workers)
    with np.errstate(invalid="ignore"):
        consistency = np.bincount(judge[several], agree[several], n_workers) / np.where(pairs_of > 0, pairs_of, np.nan)
    labels = CrowdLabels.from_codes(
        task, judge, winner, tasks=read.tasks, workers=read.judges, classes=as_vocabulary(classes, "class")
    )
    return _Reduced(labels, unparseable, n_answers, np.bincount(judge[several], minlength=n_workers), consistency)


def _count_unparseable(read: VoteColumns, unparseable: IntArray, n_answers: IntArray) -> tuple[str, ...]:
    if not unparseable.any():
        return ()
    worst = int(np.argmax(unparseable / np.maximum(n_answers, 1)))
    share, name = unparseable[worst] / n_answers[worst], listing([read.judges[worst].as_py()])
    some = f"{int(unparseable.sum()):,} of {int(n_answers.sum()):,} votes"
    return (f"{some} hold no class and are counted as unparseable; most often those of {name} ({share:.1%}).",)


def _first_of_task(column: pa.Array, task: IntArray, tasks: pa.Array) -> tuple[tuple[str, ...], IntArray]:
    """Names, and the position of each task's; a task about two systems is refused."""
    encoded = column.dictionary_encode()
    codes = np.asarray(pc.fill_null(encoded.indices, -1))
    found = np.full(len(tasks), -1)
    found[task] = codes
    if (found[task] != codes).any():
        at = int(task[np.flatnonzero(found[task] != codes)[0]])
        raise InputError(
            f"Task {quote(tasks[at].as_py())} has answers about two systems. Name tasks so that each shows the work of "
            "one system."
        )
    return tuple(str(name) for name in encoded.dictionary.to_pylist()), found
