"""brat standoff: a folder for each annotator, in it an `.ann` file for each document.

| line | read as |
|---|---|
| first folder of the path | worker |
| path of the file below it, without `.ann` | task |
| `T1⇥Type start end⇥text` | spans |
| `T1⇥Type start end;start end⇥text` | a span in pieces: counted and left out |
| `R`, `E`, `A`, `M`, `N`, `*`, `#` | relations, events, attributes, notes: counted and left out |
| empty file | the worker marked nothing |

Written back is a zip archive with the folder of one more annotator, crowdwise: the spans of the consensus, and the
texts where they lie beside the annotations.
"""

from __future__ import annotations

import re
import zipfile
from typing import TYPE_CHECKING

from crowdwise.formats.consensus_answers import AGENT
from crowdwise.formats.export_format import Format
from crowdwise.formats.marked_spans import MarkedSpans
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.formats.answer_collector import AnswerCollector
    from crowdwise.formats.consensus_answers import ConsensusAnswers
    from crowdwise.formats.export_files import ExportFile, ExportFiles

__all__ = ["FORMAT"]

SUFFIX, TEXTS = ".ann", ".txt"
QUESTION = "entities"
LINE_END = re.compile(r"\r\n|\r|\n")  # not those that only Unicode knows, which a text may hold
LINE = re.compile(rb"([TREAMN]\d+|\*|#\S*)\t")
SPAN = re.compile(r"T\S*\t(\S+) (\d+) (\d+)((?:;\d+ \d+)*)(?:\t.*)?")
OTHERS = {
    "R": "relation",
    "E": "event",
    "A": "attribute",
    "M": "attribute",
    "N": "link",
    "*": "equivalence",
    "#": "note",
}


def recognises(files: ExportFiles) -> bool:
    """Whether there are .ann files, and the first that is not empty begins as those of brat do."""
    heads = (file.blob.head().removeprefix(b"\xef\xbb\xbf") for file in files.files if file.has_suffix(SUFFIX))
    first = next((head for head in heads if head.strip()), None)
    return first is not None and LINE.match(first) is not None


def read(files: ExportFiles, found: AnswerCollector) -> None:
    """Give the spans of every document to the collector."""
    marked = MarkedSpans()
    documents = [file for file in files.files if file.has_suffix(SUFFIX)]
    above = _count_folders_above([file for file in documents if file.worker is None])
    for file in documents:
        worker, *below = file.path.parts[above:] if file.worker is None else (file.worker, *file.path.parts)
        if not below:
            raise InputError(
                f"{file.blob.name} does not say who marked it. Put the documents of each annotator into a folder of "
                "their name, and give the folder above; or name them: --worker NAME=FOLDER."
            )
        task = "/".join((*below[:-1], file.name_without(SUFFIX)))
        if (task, worker) in marked.seen:
            raise InputError(f"{files.origin} holds two files of {quote(worker)} on {quote(task)}. Give one of them.")
        _read_document(file, task, worker, marked, found)
    marked.give(found)


def _count_folders_above(documents: list[ExportFile]) -> int:
    """How many folders all documents lie in, above those of the annotators: archives often begin with one."""
    above = 0
    while len({file.path.parts[above] for file in documents}) == 1 and all(
        len(file.path.parts) > above + 2 for file in documents
    ):
        above += 1
    return above


def _read_document(file: ExportFile, task: str, worker: str, marked: MarkedSpans, found: AnswerCollector) -> None:
    marked.see(task, worker)
    try:
        lines = LINE_END.split(file.blob.all().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{file.blob.name} is not UTF-8 ({error.reason}). Save the file as UTF-8.") from error
    met: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        where = f"{'/'.join(file.path.parts)}, line {number}"
        if not line.strip():
            continue
        if line[0] in OTHERS:
            found.left_out[OTHERS[line[0]]] += 1
            continue
        span = SPAN.fullmatch(line)
        if span is None:
            raise InputError(f"{where} is {quote(line)}, no line of brat (T1⇥Type start end⇥text). Export it again.")
        name = line.partition("\t")[0]
        if name in met:
            raise InputError(f"{where} has the id {quote(name)} of line {met[name]} again. Export the file again.")
        met[name] = number
        if span[4]:
            found.left_out["span in several pieces"] += 1
            continue
        if len(span[2]) > 15 or len(span[3]) > 15 or int(span[2]) >= int(span[3]):
            raise InputError(f"{where}: a span from {quote(span[2])} to {quote(span[3])} holds no character.")
        marked.add(QUESTION, task, worker, (int(span[2]), int(span[3]), span[1]))


def write(files: ExportFiles, consensus: ConsensusAnswers, out: Path) -> None:
    """Write a zip archive with a folder of .ann files, and the texts that they are about."""
    texts: dict[str, str] = {}
    for file in files.files:
        below = file.path.parts[file.worker is None :]
        if file.path.suffix == TEXTS and below:
            # As brat reads them: the ends of lines count as they stand, and what is no UTF-8 is a character each.
            task = "/".join(below).removesuffix(TEXTS)
            texts.setdefault(task, file.blob.all().decode("utf-8", "replace"))
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for task, marks in consensus.marks_by_task.items():
            lines = []
            for number, mark in enumerate(marks, 1):
                start, end = mark.place
                covered = " ".join(texts[task][start:end].split("\n")) if task in texts else ""
                lines.append(f"T{number}\t{mark.label} {start} {end}\t{covered}\n")
            archive.writestr(f"{AGENT}/{task}{SUFFIX}", "".join(lines))
            if task in texts:
                archive.writestr(f"{AGENT}/{task}{TEXTS}", texts[task])


FORMAT = Format(
    slug="brat",
    name="brat",
    files="standoff, a folder of .ann files for each annotator",
    kinds=("spans",),
    writes="a folder of .ann files with the consensus (zip)",
    is_of_one_worker=True,
)
