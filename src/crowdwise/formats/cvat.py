"""CVAT: "CVAT for images 1.1", an XML file for each worker, or the zip archive that it comes in.

| element | read as |
|---|---|
| name of the file, or of its archive or folder | worker |
| `name` of an `image` | task |
| `box` | boxes, in pixels; one that is rotated is counted and left out |
| `polygon`, `mask` | masks: a question for each label, the union of what has it |
| `points` | points |
| `tag` | labels, or multi-label where some images have several |
| `polyline`, `ellipse`, `cuboid`, `skeleton` | counted and left out |
| image without a mark | the worker saw nothing in it |

Written back is one such file with the consensus, which CVAT takes as annotations of a job or task.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

import numpy as np

from crowdwise.formats.drawn_marks import DrawnMarks, lies_outside
from crowdwise.formats.export_format import Format
from crowdwise.formats.files_of_workers import find_first_file, name_workers
from crowdwise.formats.xml_elements import Element, read_elements
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from crowdwise.formats.answer_collector import AnswerCollector
    from crowdwise.formats.consensus_answers import ConsensusAnswers, ConsensusMark
    from crowdwise.formats.export_files import ExportFile, ExportFiles

__all__ = ["FORMAT"]

SUFFIX = ".xml"
BOXES, POINTS, TAGS = "box", "points", "tag"
NOT_READ = ("polyline", "ellipse", "cuboid", "skeleton")
MARKS = (BOXES, POINTS, TAGS, "polygon", "mask", *NOT_READ)
BEGINNING = re.compile(rb"<annotations\b.*?<(image|track|meta|version)\b", re.DOTALL)
IMAGE = ("id", "name", "width", "height")  # attributes of an image that are written
SOURCE = "auto"  # what CVAT calls marks that nobody drew by hand
MOST_PIXELS = 2**26  # of one image, as masks may have


def recognises(files: ExportFiles) -> bool:
    """Whether the first XML file begins with annotations, as those of CVAT do."""
    first = find_first_file(files, SUFFIX)
    return bool(first.files) and first.head[:1] == b"<" and BEGINNING.search(first.files[0].blob.head()) is not None


def read(files: ExportFiles, found: AnswerCollector) -> None:
    """Give the marks of every file to the collector."""
    drawn = DrawnMarks(BOXES)
    points: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for worker, file in name_workers(files, SUFFIX, what="marks"):
        _read_file(file, worker, drawn, points, found)
    drawn.give(found)
    if points:
        for key in drawn.seen:
            found.question(POINTS, "points").add(*key, *points.get(key, ()))


def _read_file(
    file: ExportFile,
    worker: str,
    drawn: DrawnMarks,
    points: dict[tuple[str, str], list[tuple[Any, ...]]],
    found: AnswerCollector,
) -> None:
    tags: dict[str, list[str]] = {}
    size, task, any_image = (0, 0), "", False
    for element in read_elements(file.blob):
        where = f"{file.blob.name}, line {element.line}"
        if element.name == "track":
            raise InputError(f"{where} is a track of a video. Export the job as 'CVAT for images 1.1'.")
        if element.name == "image" and element.path == ("annotations",):
            task, size, any_image = _text(element, "name", where), _size_of(element, where), True
            if (task, worker) in drawn.seen:
                raise InputError(f"{where} has the image {quote(task)} again. Give one export of one job for a worker.")
            drawn.see(task, worker, size)
        elif element.name in MARKS and element.path[-1:] == ("image",):
            if element.name in NOT_READ or ("rotation" in element.attributes and _number(element, "rotation", where)):
                found.left_out["rotated box" if element.name == BOXES else element.name] += 1
                continue
            label = _text(element, "label", where)
            if element.name == BOXES:
                corners = [_number(element, name, where) for name in ("xtl", "ytl", "xbr", "ybr")]
                drawn.add_box(task, worker, (*corners, label))
                if lies_outside(corners, size):
                    found.outside.append(where)
            elif element.name == TAGS:
                tags.setdefault(task, []).append(label)
            elif element.name == POINTS:
                points.setdefault((task, worker), []).extend((x, y, label) for x, y in _pairs(element, where))
            elif element.name == "polygon":
                polygon = [each for pair in _pairs(element, where) for each in pair]
                drawn.add_region(task, worker, label, [polygon])
            else:
                drawn.add_region(task, worker, label, _unpack_mask(element, size, where))
    if not any_image:
        raise InputError(f"{file.blob.name} holds no image. Export the job as 'CVAT for images 1.1'.")
    for name, chosen in tags.items():
        kind = "labels" if len(chosen) == 1 else "multi-label"
        found.question(TAGS, kind).add(name, worker, (chosen[0] if kind == "labels" else chosen,))


def _text(element: Element, name: str, where: str) -> str:
    if not element.attributes.get(name):
        raise InputError(f"{where}: <{element.name}> has no {name!r}. Export the file again.")
    return element.attributes[name]


def _number(element: Element, name: str, where: str) -> float:
    try:
        return float(_text(element, name, where))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{where}: {name!r} of <{element.name}> is {quote(element.attributes[name])}, no number. Export it again."
        ) from error


def _whole_number(element: Element, name: str, where: str) -> int:
    number = _number(element, name, where)
    if not number.is_integer():  # nor are infinities and what is no number
        shown = quote(element.attributes[name])
        raise InputError(f"{where}: {name!r} of <{element.name}> is {shown}, no whole number. Export it again.")
    return int(number)


def _size_of(element: Element, where: str) -> tuple[int, int]:
    height, width = (_number(element, name, where) for name in ("height", "width"))
    if not (height >= 1 and width >= 1 and height * width <= MOST_PIXELS):
        raise InputError(f"{where}: an image of {width:g} × {height:g} pixels cannot be read.")
    return int(height), int(width)


def _pairs(element: Element, where: str) -> list[tuple[float, float]]:
    """The points of an attribute "x,y;x,y;…"."""
    text = _text(element, "points", where)
    try:
        return [(float(x), float(y)) for x, y in (pair.split(",") for pair in text.split(";"))]
    except ValueError as error:
        raise InputError(f"{where}: 'points' of <{element.name}> is {quote(text)}; it must be x,y;x,y;….") from error


def _unpack_mask(element: Element, size: tuple[int, int], where: str) -> dict[str, Any]:
    """Run lengths along the rows of a part of the image, as those down the columns of the whole, which COCO has."""
    left, top, width, height = (_whole_number(element, name, where) for name in ("left", "top", "width", "height"))
    text = _text(element, "rle", where)
    try:
        counts = np.array([int(each) for each in text.split(",")], np.int64)
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"{where}: 'rle' of <mask> is {quote(text)}; it must be counts with commas between."
        ) from error
    inside = left >= 0 and top >= 0 and width > 0 and height > 0 and left + width <= size[1] and top + height <= size[0]
    if not inside or (counts < 0).any() or (counts > width * height).any() or counts.sum() != width * height:
        raise InputError(f"{where}: <mask> does not fit: its counts, its place and the size of the image differ.")
    whole = np.zeros(size, np.bool_)
    whole[top : top + height, left : left + width] = np.repeat(np.arange(counts.size) % 2 == 1, counts).reshape(
        height, width
    )
    flat = whole.ravel(order="F")
    ends = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    runs = np.diff(np.concatenate([[0], ends, [flat.size]])).tolist()
    return {"size": list(size), "counts": [0, *runs] if flat[0] else runs}


# ---- writing ----------------------------------------------------------------------------------------------


def write(files: ExportFiles, consensus: ConsensusAnswers, out: Path) -> None:
    """Write the images with the marks of the consensus."""
    marks = _elements_of(consensus)
    images: dict[str, dict[str, str]] = {}
    for _, file in name_workers(files, SUFFIX, what="marks"):
        for element in read_elements(file.blob):
            if element.name == "image" and element.path == ("annotations",):
                images.setdefault(element.attributes["name"], element.attributes)
    with out.open("w", encoding="utf-8") as target:
        target.write('<?xml version="1.0" encoding="utf-8"?>\n<annotations>\n  <version>1.1</version>\n')
        for name, attributes in images.items():
            kept = {each: value for each, value in attributes.items() if each in IMAGE}
            target.write(f"  <image{_format_attributes(kept)}>\n")
            for what, facts in marks.get(name, ()):
                target.write(f"    <{what}{_format_attributes(facts)}></{what}>\n")
            target.write("  </image>\n")
        target.write("</annotations>\n")


def _format_attributes(facts: Mapping[str, Any]) -> str:
    texts = {name: f"{value:.6g}" if isinstance(value, float) else str(value) for name, value in facts.items()}
    return "".join(f" {name}={quoteattr(text)}" for name, text in texts.items())


def _elements_of(consensus: ConsensusAnswers) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """The elements of each image: their names and attributes."""
    kind = consensus.question.kind
    if kind in ("boxes", "points"):
        make = _box_element if kind == "boxes" else _points_element
        return {task: [make(mark) for mark in marks] for task, marks in consensus.marks_by_task.items()}
    if kind == "masks":
        rows = [row for row in consensus.table.to_pylist() if row["pixels"]]
        return {str(row["task"]): [_mask_element(row, consensus.question.name)] for row in rows}
    return {
        task: [
            (TAGS, {"label": label, "source": SOURCE})
            for label in (said.answer if isinstance(said.answer, list) else [said.answer])
        ]
        for task, said in consensus.by_task.items()
    }


def _box_element(mark: ConsensusMark) -> tuple[str, dict[str, Any]]:
    corners = dict(zip(("xtl", "ytl", "xbr", "ybr"), (f"{each:.2f}" for each in mark.place), strict=True))
    return BOXES, {"label": mark.label, "source": SOURCE, "occluded": 0, **corners, "score": mark.confidence}


def _points_element(mark: ConsensusMark) -> tuple[str, dict[str, Any]]:
    place = ",".join(f"{each:.2f}" for each in mark.place)
    return POINTS, {"label": mark.label, "source": SOURCE, "occluded": 0, "points": place, "score": mark.confidence}


def _mask_element(row: Mapping[str, Any], label: str) -> tuple[str, dict[str, Any]]:
    left, top, right, bottom = row["bounds"]
    runs = ", ".join(map(str, row["row_runs"]))
    place = {"rle": runs, "left": left, "top": top, "width": right - left, "height": bottom - top}
    return "mask", {"label": label, "source": SOURCE, "occluded": 0, **place, "score": row["confidence"]}


FORMAT = Format(
    slug="cvat",
    name="CVAT",
    files="CVAT for images 1.1, an XML file or archive for each worker",
    kinds=("boxes", "masks", "points", "labels", "multi-label"),
    writes="one file with the consensus (XML)",
    is_of_one_worker=True,
)
