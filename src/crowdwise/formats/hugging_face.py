"""Hugging Face data sets on disk: the folder of `save_to_disk`, or a folder of Parquet files.

| columns | read as |
|---|---|
| task, worker, label (or another usual name of each), a row for each answer | labels; other kinds by their columns |
| a row for each task: a list of {annotator, label} | an answer for each entry |
| a row for each task: a list of annotators and one of labels | an answer for each pair |
| numbers of a `ClassLabel` | the names of the classes |
| a column called id, text, … of a table with a row for each task; else the number of the row | task |
| other columns of such a table | attributes of tasks |

A list of labels alone does not say who gave which, and is refused. Written back is a Parquet file with the consensus,
its confidence and the probabilities of all classes (`soft_label`), beside the columns of the tasks.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from crowdwise.formats.export_format import TABLE_KINDS, Format
from crowdwise.formats.plain_rows import add_answer, add_rows, are_long
from crowdwise.formats.table_records import is_binary_table
from crowdwise.labels.columns import Columns, candidates
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.files import file_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from crowdwise.formats.answer_collector import AnswerCollector
    from crowdwise.formats.collected_answers import CollectedTask
    from crowdwise.formats.consensus_answers import ConsensusAnswers
    from crowdwise.formats.export import Question
    from crowdwise.formats.export_files import ExportFile, ExportFiles

__all__ = ["FORMAT"]

TABLES = (".arrow", ".parquet")
QUESTION = "label"
CONSENSUS, CONFIDENCE, SOFT = "consensus", "confidence", "soft_label"
FEATURES = b"huggingface"  # where the schema of a file says what its columns mean


def recognises(files: ExportFiles) -> bool:
    """Whether these are Arrow or Parquet files of a folder, or hold a list of answers in a row."""
    tables = [file for file in files.files if file.path.suffix in TABLES]
    if not tables or not is_binary_table(files.head) or len(tables) < len(files.files):
        return False
    return files.is_bundle or _find_lists(files.first_record) is not None


def read(files: ExportFiles, found: AnswerCollector) -> None:
    """Give every answer to the collector."""
    for file in files.files:
        _read_schema(file)  # what is damaged is said before anything else
    names = list(files.first_record)
    if are_long(names):
        rows = ((_with_names(row, classes, names), where) for row, classes, where in _rows(files))
        add_rows(rows, names, QUESTION, found, files.origin)
        return
    lists = _find_lists(files.first_record)
    if lists is None:
        raise InputError(
            f"{files.origin} has no answers that can be read; its columns are {listing(names)}. It needs task, worker "
            "and label in a row for each answer, or a list of annotators and one of labels in a row for each task."
        )
    column, who, said = lists
    task_column = _choose_task_column(files.first_record)
    met: dict[Any, str] = {}
    for number, (row, classes, where) in enumerate(_rows(files)):
        task = number if task_column is None else row[task_column]
        if not isinstance(task, str | int):
            raise InputError(f"{where}: {quote(task_column)} is {quote(task)}, no name of a task.")
        if task in met:
            raise InputError(f"{where} has the {task_column} {quote(task)} of {met[task]} again. Give each task once.")
        met[task] = where
        about = {name: value for name, value in row.items() if name not in (column, who, said)}
        found.tasks.add(task, about)
        found.shown.add(task, about)
        for worker, answer in _answers_of(row, lists, where):
            if not isinstance(worker, str | int) or worker == "":
                raise InputError(f"{where}: an annotator is {quote(worker)}, so that nobody knows whose answer it is.")
            label = _name_class(answer, classes.get(said) or classes.get(column))
            add_answer(label, task, worker, QUESTION, found, where)


def _choose_task_column(row: Mapping[str, Any]) -> str | None:
    """The column that names the tasks; None where rows are but numbered."""
    return next((name for name in candidates("task", list(row)) if isinstance(row[name], str | int)), None)


def _find_lists(row: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """The column that holds a row's answers ("" where they are in two), and what annotators and labels are called."""
    for name, value in row.items():
        inside = value[0] if isinstance(value, list) and value and isinstance(value[0], dict) else value
        if isinstance(inside, dict):
            roles = _roles(list(inside))
            if roles is not None:
                return (name, *roles)
    lists = [name for name, value in row.items() if isinstance(value, list)]
    roles = _roles(lists)
    return None if roles is None else ("", *roles)


def _roles(names: list[str]) -> tuple[str, str] | None:
    """Which of these are annotators and which labels; plurals are as good."""
    single = {name.removesuffix("s"): name for name in names}
    worker, label = candidates("worker", list(single)), candidates("label", list(single))
    return (single[worker[0]], single[label[0]]) if worker and label else None


def _answers_of(row: Mapping[str, Any], lists: tuple[str, str, str], where: str) -> Iterator[tuple[Any, Any]]:
    column, who, said = lists
    inside = row[column] if column else row
    if isinstance(inside, list):
        for entry in inside:
            if not isinstance(entry, dict):
                raise InputError(f"{where}: an entry of {quote(column)} is {quote(entry)}, not an answer.")
            yield entry.get(who), entry.get(said)
        return
    workers, labels = (inside.get(name) if inside else None for name in (who, said))
    if not isinstance(workers, list) or not isinstance(labels, list) or len(workers) != len(labels):
        raise InputError(
            f"{where}: {quote(who)} and {quote(said)} are no lists of one length. Give a list of workers and "
            "one of their answers for each task, or a row for each answer with the columns task, worker and label."
        )
    yield from zip(workers, labels, strict=True)


# ---- names of classes -------------------------------------------------------------------------------------


def _rows(files: ExportFiles) -> Iterator[tuple[Mapping[str, Any], dict[str, list[str]], str]]:
    """Every row, the names of classes by column, and where it stands."""
    for file in files.files:
        classes = _class_names(_read_schema(file))
        records = file.records()
        for row in records:
            yield row, classes, records.where


def _read_schema(file: ExportFile) -> Mapping[bytes, bytes]:
    import pyarrow.parquet as pq

    head = file.blob.head()
    try:
        if head.startswith(b"PAR1"):
            schema = pq.ParquetFile(file.blob.open_for_random_access()).schema_arrow
        elif head.startswith(b"ARROW1"):
            schema = pa.ipc.open_file(file.blob.open_for_random_access()).schema
        else:
            schema = pa.ipc.open_stream(file.blob.open_for_arrow()).schema
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{file.blob.name} is damaged or cut short ({quote(str(error))}). Write it again.") from error
    return schema.metadata or {}


def _class_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    try:
        features = json.loads(metadata.get(FEATURES, b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    found: dict[str, list[str]] = {}
    left = [("", features)]
    while left:
        name, feature = left.pop()
        if isinstance(feature, list):
            left += [(name, each) for each in feature]
        elif isinstance(feature, dict) and feature.get("_type") == "ClassLabel":
            found[name] = list(map(str, feature.get("names") or []))
        elif isinstance(feature, dict):
            left += [(name if key == "feature" else key, each) for key, each in feature.items() if key != "_type"]
    return found


def _with_names(row: Mapping[str, Any], classes: dict[str, list[str]], names: list[str]) -> dict[str, Any]:
    return {name: _name_class(row.get(name), classes.get(name)) for name in names}


def _name_class(said: Any, names: list[str] | None) -> Any:
    """The name of a class that is written as its number; -1 stands for none."""
    if not names or isinstance(said, bool):
        return said
    if isinstance(said, list):
        return [_name_class(each, names) for each in said]
    if not isinstance(said, int):
        return said
    return names[said] if 0 <= said < len(names) else None if said == -1 else said


# ---- writing ----------------------------------------------------------------------------------------------


def write(files: ExportFiles, consensus: ConsensusAnswers, out: Path) -> None:
    """Write a row for each task: its columns, the consensus, its confidence and the probability of each class."""
    import pyarrow.parquet as pq

    if consensus.soft is None:
        raise InputError(f"{consensus.question.kind} are not written for Hugging Face yet. Leave --write-back out.")
    table, names = consensus.table, list(map(str, consensus.soft.classes))
    columns, order = {"task": table["task"]}, pa.array(range(table.num_rows), pa.int64())
    if not are_long(list(files.first_record)):
        columns, order = _columns_of_tasks(files, table["task"].to_pylist())
    codes = pa.array([names.index(str(label)) for label in table["label"].to_pylist()], pa.int64())
    soft = pa.FixedSizeListArray.from_arrays(pa.array(consensus.soft.probabilities.ravel(), pa.float64()), len(names))
    added = {CONSENSUS: codes.take(order), CONFIDENCE: table["confidence"].take(order), SOFT: soft.take(order)}
    written = pa.table(columns | added)
    features = {name: _describe(written.schema.field(name).type) for name in written.column_names}
    features[CONSENSUS] = {"names": names, "_type": "ClassLabel"}
    about = json.dumps({"info": {"features": features}})
    pq.write_table(written.replace_schema_metadata({FEATURES: about.encode()}), out)


def write_answers(tasks: Sequence[CollectedTask], question: Question, out: Path) -> None:  # noqa: ARG001
    """Write a row for each task: what it shows, a list of annotators and one of their labels."""
    import pyarrow.parquet as pq

    shown = dict.fromkeys(name for task in tasks for name in task.shows)
    columns: dict[str, pa.Array] = {"task": pa.array([task.name for task in tasks])}
    columns |= {name: pa.array([task.shows.get(name) for task in tasks], pa.string()) for name in shown}
    columns["annotators"] = pa.array([[each.worker for each in task.answers] for task in tasks], pa.list_(pa.string()))
    columns["labels"] = pa.array([[each.answer for each in task.answers] for task in tasks])
    pq.write_table(pa.table(columns), out)


def _columns_of_tasks(files: ExportFiles, tasks: list[Any]) -> tuple[dict[str, Any], pa.Array]:
    """The columns of the tasks that have a consensus, in the order of the files, and for each its row there."""
    first = files.first_record
    opened = [file_source(file.blob) for file in files.files]
    tables = [pa.table(each.read_whole_columns(list(first))) for each in opened if isinstance(each, Columns)]
    whole = pa.concat_tables(tables, promote_options="permissive")
    column = _choose_task_column(first)
    names = list(range(whole.num_rows)) if column is None else whole[column].to_pylist()
    place = {str(task): row for row, task in enumerate(tasks)}
    kept = [row for row, name in enumerate(names) if str(name) in place]
    rows = whole.take(pa.array(kept, pa.int64()))
    return {name: rows[name] for name in rows.column_names}, pa.array(
        [place[str(names[row])] for row in kept], pa.int64()
    )


def _describe(kind: pa.DataType) -> Any:
    """A type as the package writes it down."""
    if pa.types.is_fixed_size_list(kind):
        return {"feature": _describe(kind.value_type), "length": kind.list_size, "_type": "List"}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return {"feature": _describe(kind.value_type), "_type": "List"}
    if pa.types.is_struct(kind):
        return {field.name: _describe(field.type) for field in kind}
    plain = {"double": "float64", "float": "float32"}.get(str(kind), str(kind))
    return {"dtype": plain, "_type": "Value"}


FORMAT = Format(
    slug="hugging-face",
    name="Hugging Face data set",
    files="the folder of save_to_disk, or of Parquet files",
    kinds=TABLE_KINDS,
    writes="Parquet with soft labels",
    collects=("labels", "multi-label", "values"),
    suffixes=("parquet", "parquet"),
)
