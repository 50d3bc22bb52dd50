"""What a campaign gives out for labelling tools: its answers and consensus as files of theirs.

The formats' own writers write them (`Format.write_answers`, `Format.write`), so that `read_export` reads the answers
again, and a tool takes the consensus as after `crowdwise aggregate --write-back`.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import sqlalchemy as sa

from crowdwise.campaign import tables as db
from crowdwise.campaign.answer_tables import answer_columns
from crowdwise.campaign.live_consensus import fit_online, read_known
from crowdwise.formats.collected_answers import CollectedTask, GivenAnswer, restore_numbers
from crowdwise.formats.consensus_answers import ConsensusAnswers, SoftLabels
from crowdwise.formats.export import Question
from crowdwise.formats.format_registry import find_format, formats
from crowdwise.formats.open_export import find_export, read_export
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.campaign.service import Service
    from crowdwise.formats.export_format import Format

__all__ = ["CONTENT_TYPES", "Content", "Tool", "export_for_tool", "list_tools"]

Tool = Literal["doccano", "hugging-face", "label-studio", "prodigy"]
Content = Literal["answers", "consensus"]
CONTENT_TYPES = {
    "json": "application/json",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
    "zip": "application/zip",
}
KINDS = {"classes": "labels", "multi-label": "multi-label", "values": "values", "comparison": "comparisons"}
COLUMNS = {"labels": "label", "comparisons": "label", "values": "value", "multi-label": "labels"}  # of a consensus


def list_tools(kind: str) -> list[Format]:
    """The tools whose files can hold answers to a campaign's question of this kind."""
    return [each for each in formats() if KINDS[kind] in each.collects]


def export_for_tool(service: Service, tool: str, content: str) -> tuple[bytes, str]:
    """The answers (with the consensus, where the tool's file has a place for it) or the consensus; and the suffix."""
    form, asked = find_format(tool), service.project.question
    if form not in list_tools(asked.kind):
        able = ", ".join(each.name for each in list_tools(asked.kind))
        raise InputError(f"{form.name} has no place for answers of kind {asked.kind}. Those that have: {able}.")
    answers = service.campaign.counted_answers()
    question = _find_question(service, form)
    consensus = _find_consensus(service, question, answers)
    tasks = _collect_tasks(service, answers, consensus)
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / f"answers.{form.suffixes[0]}"
        assert form.write_answers is not None  # noqa: S101 (it collects)
        form.write_answers(tasks, question, written)
        if content == "answers":
            return written.read_bytes(), form.suffixes[0]
        if not answers.num_rows:
            raise InputError("There is no answer yet, and no consensus.")
        out = Path(folder) / f"consensus.{form.suffixes[1]}"
        _write_consensus(form, written, consensus, out)
        return out.read_bytes(), form.suffixes[1]


def _write_consensus(form: Format, answers: Path, consensus: ConsensusAnswers, out: Path) -> None:
    """Write the consensus as `--write-back` does, from the tool's file of answers."""
    export = read_export(answers, form.slug)
    assert form.write is not None  # noqa: S101 (whatever collects writes as well)
    try:
        form.write(export.files, replace(consensus, question=export.chosen_question()), out)
    except InputError as error:
        raise InputError(str(error).removesuffix(" Leave --write-back out.")) from error


def _find_question(service: Service, form: Format) -> Question:
    """The question as the tool calls it, where the tasks are of its export and it asked the same; else one of ours."""
    asked = service.project.question
    kind = KINDS[asked.kind]
    with contextlib.suppress(InputError, OSError):  # the file is of no use any more
        _, export = find_export(service.project.tasks)
        found = None if export is None or export.format is not form else export.question
        if export is not None and found is not None and found.kind == kind:
            chosen = export.answers["label"].unique().to_pylist() if kind == "labels" else []
            if set(map(str, chosen)) <= set(asked.classes):
                return found
    return Question("label", kind, 0)


def _find_consensus(service: Service, question: Question, answers: pa.Table) -> ConsensusAnswers:
    found, kind = service.consensus.snapshot(fresh=True), question.kind
    tasks = found.tasks
    if found.note and kind in ("values", "multi-label"):  # too few answers for a model: what was said, in words
        tasks = {}
    soft = None
    if kind == "labels" and answers.num_rows:
        asked = service.project.question
        columns = answer_columns(answers, asked).select(["task", "worker", "label"])
        model = fit_online(columns, asked.classes, read_known(answers))
        place = {str(name): row for row, name in enumerate(model.tasks.every)}
        tasks = {name: each for name, each in tasks.items() if name in place}
        soft = SoftLabels(tuple(model.classes.every), model.posteriors[[place[name] for name in tasks]])
    said = [each.answer for each in tasks.values()]
    table = pa.table(
        {
            "task": pa.array(list(tasks), pa.string()),
            COLUMNS[kind]: pa.array(said, pa.float64() if kind == "values" else pa.string()),
            "confidence": pa.array([each.confidence for each in tasks.values()], pa.float64()),
        }
    )
    return ConsensusAnswers(question, table, soft, tuple(tasks))


def _collect_tasks(service: Service, answers: pa.Table, consensus: ConsensusAnswers) -> Sequence[CollectedTask]:
    given: defaultdict[str, list[GivenAnswer]] = defaultdict(list)
    for row in answers.to_pylist():
        given[row["task"]].append(GivenAnswer(row["worker"], json.loads(row["answer"]), row["time"], row["seconds"]))
    with service.campaign.store.read() as connection:
        found = connection.execute(sa.select(db.tasks.c.name, db.tasks.c.gold).where(db.tasks.c.gold.is_not(None)))
        known = {name: json.loads(gold) for name, gold in found}
    tasks = list(service.campaign.tasks.values())
    numbered = restore_numbers([task.name for task in tasks])
    said = consensus.by_task
    return [
        CollectedTask(name, task.content, given[task.name], known.get(task.name), said.get(task.name))
        for name, task in zip(numbered, tasks, strict=True)
    ]
