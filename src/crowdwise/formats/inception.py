"""INCEpTION: the archive of a project, exported with its documents as UIMA CAS JSON.

| file or field | read as |
|---|---|
| `annotation/DOCUMENT/USER.json` (or an archive with one) | task and worker |
| `curation/DOCUMENT/CURATION_USER.json` | gold |
| `INITIAL_CAS` | the document before anyone worked on it: not read |
| `%FEATURE_STRUCTURES` with `begin` and `end` | spans: a question for each feature of a layer, its value the label |
| a layer without a feature that is filled in | a question of its own, the layer the label |
| tokens, sentences, relations and what describes the document | not read |

UIMA counts UTF-16 units; spans are in characters, as those of other tools. XMI is not read.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from crowdwise.formats.export_files import ZIP, open_files
from crowdwise.formats.export_format import Format
from crowdwise.formats.marked_spans import MarkedSpans
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crowdwise.formats.answer_collector import AnswerCollector
    from crowdwise.formats.export_files import ExportFile, ExportFiles

__all__ = ["FORMAT"]

STRUCTURES, TYPE, ID = "%FEATURE_STRUCTURES", "%TYPE", "%ID"
SOFA = "uima.cas.Sofa"
BY_WORKERS, CURATED = "annotation", "curation"
NO_WORKERS = ("INITIAL_CAS",)
SUFFIX = ".json"
NO_LAYERS = (
    "Token",
    "Sentence",
    "DocumentAnnotation",
    "DocumentMetaData",
    "TagsetDescription",
    "CASMetadata",
    "Heading",
)
RELATION = {"@Governor", "@Dependent"}  # what an annotation that joins two others has
NO_FEATURES = ("begin", "end", "order", "id")
ENDING = re.compile(r"\.[^.]*$")
WIDE = 0xFFFF  # characters above it are two units of UTF-16


def recognises(files: ExportFiles) -> bool:
    """Whether the archive has documents below annotation, or the file is a CAS as JSON."""
    if any(_role_of(file) is not None for file in files.files):
        return True
    return STRUCTURES in files.first_record


def read(files: ExportFiles, found: AnswerCollector) -> None:
    """Give the spans of every document to the collector."""
    marked = MarkedSpans()
    placed = [file for file in files.files if _role_of(file) is not None]
    for file in placed or files.files:
        worker = ENDING.sub("", file.path.name)  # names of users may hold dots
        if worker in NO_WORKERS:
            continue
        task = file.path.parent.name
        if not task:
            raise InputError(
                f"{file.blob.name} does not say which document it is, or who worked on it. Give the archive of the "
                "project, or a folder DOCUMENT/USER.json."
            )
        who = None if _role_of(file) == CURATED else worker
        if (task, who) in marked.seen:
            raise InputError(f"{files.origin} holds two files of {quote(worker)} on {quote(task)}. Give one export.")
        marked.see(task, who)
        _read_document(_find_json(file), task, who, marked, found)
    marked.give(found)


def _role_of(file: ExportFile) -> str | None:
    """Which folder of a project a file is in: that of workers, or of curated documents."""
    parts = file.path.parts
    return parts[-3] if len(parts) > 2 and parts[-3] in (BY_WORKERS, CURATED) else None


def _find_json(file: ExportFile) -> ExportFile:
    if file.blob.head().startswith(ZIP):
        inside = [each for each in open_files(file.blob).files if each.path.suffix == SUFFIX]
        if len(inside) == 1:
            return inside[0]
    elif file.path.suffix == SUFFIX:
        return file
    raise InputError(
        f"{'/'.join(file.path.parts)} is no UIMA CAS JSON. In INCEpTION, export the project with the secondary format "
        "'UIMA CAS JSON 0.4.0'."
    )


def _read_document(
    file: ExportFile, task: str, worker: str | None, marked: MarkedSpans, found: AnswerCollector
) -> None:
    cas = file.only_record()
    structures = cas.get(STRUCTURES) if isinstance(cas, dict) else None
    if isinstance(structures, dict):  # of version 0.1: by id
        structures = [{ID: name, **each} for name, each in structures.items() if isinstance(each, dict)]
    if not isinstance(structures, list):
        raise InputError(f"{file.blob.name} has no list {STRUCTURES!r}. Export it as UIMA CAS JSON 0.4.0.")
    met: set[Any] = set()
    texts: dict[Any, list[int] | None] = {}
    for number, each in enumerate(structures, 1):
        where = f"{file.blob.name}, feature structure {number}"
        name = each.get(ID) if isinstance(each, dict) else None
        if not isinstance(each, dict) or not isinstance(each.get(TYPE), str) or not isinstance(name, str | int):
            raise InputError(f"{where} needs {ID!r} and {TYPE!r}: {quote(each)}. Export the file again.")
        if name in met:
            raise InputError(f"{where} has the id {quote(name)} of one before. Export the file again.")
        met.add(name)
        if each[TYPE] == SOFA:
            texts[name] = _map_offsets(each.get("sofaString"))
    for number, each in enumerate(structures, 1):
        layer = each[TYPE].rpartition(".")[2]
        if each[TYPE] == SOFA or layer in NO_LAYERS or not ("begin" in each or "end" in each):
            continue
        if RELATION & set(each):
            found.left_out[f"{layer} (joins other annotations)"] += 1
            continue
        where = f"{file.blob.name}, feature structure {number}"
        start, end = _offsets_of(each, texts, where)
        said = {name: value for name, value in each.items() if _is_label(name, value)}
        for name, value in said.items():
            marked.add(f"{layer}.{name}", task, worker, (start, end, str(value)))
        if not said:
            marked.add(layer, task, worker, (start, end, layer))


def _is_label(name: str, value: Any) -> bool:
    return not name.startswith(("%", "@", "^")) and name not in NO_FEATURES and isinstance(value, str | bool | int)


def _map_offsets(text: Any) -> list[int] | None:
    """The place in UTF-16 of each character, where it is another one; None where it is the same."""
    if not isinstance(text, str) or not any(ord(letter) > WIDE for letter in text):
        return None
    units = [0, *accumulate(2 if ord(letter) > WIDE else 1 for letter in text)]
    places = [-1] * (units[-1] + 1)
    for place, unit in enumerate(units):
        places[unit] = place
    return places


def _offsets_of(each: Mapping[str, Any], texts: Mapping[Any, list[int] | None], where: str) -> tuple[int, int]:
    start, end = each.get("begin", 0), each.get("end", 0)  # 0 is left out by some writers
    if any(isinstance(place, bool) or not isinstance(place, int) for place in (start, end)) or not 0 <= start <= end:
        raise InputError(f"{where}: 'begin' is {quote(start)} and 'end' {quote(end)}, no span of a text.")
    if start == end:
        raise InputError(f"{where}: a span from {start} to {end} holds no character.")
    text = each.get("@sofa", next(iter(texts)) if len(texts) == 1 else None)
    if texts and (not isinstance(text, str | int) or text not in texts):
        raise InputError(f"{where}: '@sofa' is {quote(text)}, which the file does not have. Export it again.")
    places = texts.get(text)
    if places is None:
        return start, end
    if end >= len(places):
        raise InputError(f"{where}: 'end' is {end}, beyond the end of the text.")
    if places[start] < 0 or places[end] < 0:
        raise InputError(f"{where}: the span from {start} to {end} cuts a character in two. Export the file again.")
    return places[start], places[end]


FORMAT = Format(
    slug="inception",
    name="INCEpTION",
    files="the archive of a project, with UIMA CAS JSON",
    kinds=("spans",),
)
