"""COCO: images, categories and annotations in one JSON file for each worker.

| field | read as |
|---|---|
| name of the file, or of its archive or folder; a field of annotations that names someone | worker |
| `file_name` of an image | task |
| `bbox` | boxes, in pixels |
| `segmentation` | masks: a question for each category, the union of what has it |
| `iscrowd` | no box: it stands for many objects |
| image without annotations | the worker saw nothing in it |

Written back is one file with the consensus: boxes with their confidence as `score`, or masks as run lengths.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from crowdwise.formats.consensus_answers import AGENT
from crowdwise.formats.drawn_marks import DrawnMarks, lies_outside
from crowdwise.formats.export_format import Format
from crowdwise.formats.files_of_workers import find_first_file, name_workers
from crowdwise.formats.json_records import format_json
from crowdwise.labels.columns import candidates
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from crowdwise.formats.answer_collector import AnswerCollector
    from crowdwise.formats.consensus_answers import ConsensusAnswers
    from crowdwise.formats.export_files import ExportFile, ExportFiles

__all__ = ["FORMAT"]

PARTS = ("images", "categories", "annotations")
LARGE = re.compile(rb'"(images|annotations|categories)"\s*:\s*\[\s*\{[^{}]*"(file_name|image_id|supercategory)"')
QUESTION = "bbox"
SUFFIX = ".json"


def recognises(files: ExportFiles) -> bool:
    """Whether the first JSON file has images, categories and annotations."""
    first = find_first_file(files, SUFFIX)
    if not first.files or first.head[:1] != b"{":
        return False
    record = first.first_record
    return all(isinstance(record.get(part), list) for part in PARTS) or (
        not record and LARGE.search(first.files[0].blob.head()) is not None  # too large to be looked at whole
    )


def read(files: ExportFiles, found: AnswerCollector) -> None:
    """Give the marks of every file to the collector."""
    drawn = DrawnMarks(QUESTION)
    for worker, file in _list_files(files):
        document = _read_document(file)
        images = _by_id(document, "images", "file_name", file.blob.name)
        categories = _by_id(document, "categories", "name", file.blob.name)
        field = _worker_field(document["annotations"])
        sizes = {key: _size_of(image, f"{file.blob.name}, image {quote(key)}") for key, image in images.items()}
        if field is None:
            for key, image in images.items():
                drawn.see(image["file_name"], worker, sizes[key])
        met: set[Any] = set()
        for number, annotation in enumerate(document["annotations"], 1):
            where = f"{file.blob.name}, annotation {number}"
            _check_annotation(annotation, images, categories, met, where)
            name = worker if field is None else _name_in(annotation, field, where)
            task = images[annotation["image_id"]]["file_name"]
            drawn.see(task, name, sizes[annotation["image_id"]])  # who else saw it is not told where a field names them
            label = str(categories[annotation["category_id"]]["name"])
            if "keypoints" in annotation:
                found.left_out["set of key points"] += 1
            _read_marks(annotation, (task, name, label), drawn, found, where)
    drawn.give(found)


def _list_files(files: ExportFiles) -> list[tuple[str, ExportFile]]:
    """The files with their workers; one file alone if its annotations say whose they are."""
    whole = [file for file in files.files if file.has_suffix(SUFFIX)]
    if len(whole) == len(files.files) == 1:
        annotations = _read_document(whole[0])["annotations"]
        if _worker_field(annotations) is not None:
            return [(whole[0].name_without(SUFFIX), whole[0])]
    return name_workers(files, SUFFIX, what="marks")


def _read_document(file: ExportFile) -> Mapping[str, Any]:
    record = file.only_record()
    lacking = [part for part in PARTS if not isinstance(record, dict) or not isinstance(record.get(part), list)]
    if not isinstance(record, dict) or lacking:
        raise InputError(f"{file.blob.name} has no list {lacking[0]!r}, as files of COCO have. Export it again.")
    return record


def _by_id(document: Mapping[str, Any], part: str, name: str, where: str) -> dict[Any, Any]:
    """Images or categories by their ids; each has one, and a name of its own."""
    found: dict[Any, Any] = {}
    names: set[str] = set()
    for number, each in enumerate(document[part], 1):
        place = f"{where}, {part} {number}"
        if not isinstance(each, dict) or not isinstance(each.get("id"), str | int) or not _is_name(each.get(name)):
            raise InputError(f"{place} needs 'id' and {name!r}: {quote(each)}. Export the file again.")
        if each["id"] in found:
            raise InputError(f"{place} has the id {quote(each['id'])} of one before. Give one export of one project.")
        if str(each[name]) in names:
            raise InputError(f"{place} has the {name} {quote(each[name])} of one before. Give each a name of its own.")
        found[each["id"]] = each
        names.add(str(each[name]))
    return found


def _is_name(value: Any) -> bool:
    return isinstance(value, str | int) and value != ""


def _size_of(image: Mapping[str, Any], where: str) -> tuple[int, int]:
    height, width = image.get("height"), image.get("width")
    if not isinstance(height, int) or not isinstance(width, int) or height < 1 or width < 1:
        raise InputError(
            f"{where}: 'height' is {quote(height)} and 'width' {quote(width)}; both are needed, in pixels."
        )
    return height, width


def _worker_field(annotations: list[Any]) -> str | None:
    """The field of annotations that names a worker, if any has one: that others lack it is an error."""
    fields = dict.fromkeys(name for each in annotations if isinstance(each, dict) for name in each)
    names = [name for name in candidates("worker", list(fields)) if name.casefold() not in ("source", "model")]
    return names[0] if names else None


def _name_in(annotation: Mapping[str, Any], field: str, where: str) -> str:
    if not isinstance(annotation.get(field), str | int) or annotation[field] == "":
        raise InputError(
            f"{where}: {field!r} is {quote(annotation.get(field))}, so that nobody knows whose mark it is."
        )
    return str(annotation[field])


def _check_annotation(
    annotation: Any, images: dict[Any, Any], categories: dict[Any, Any], met: set[Any], where: str
) -> None:
    if not isinstance(annotation, dict):
        raise InputError(f"{where} is {quote(annotation)}, not an object. Export the file again.")
    for field, known in (("image_id", images), ("category_id", categories)):
        each = annotation.get(field)
        if not isinstance(each, str | int) or each not in known:
            raise InputError(f"{where}: {field!r} is {quote(each)}, which the file does not have. Export it again.")
    name = annotation.get("id")
    if isinstance(name, str | int):
        if name in met:
            raise InputError(f"{where} has the id {quote(name)} of one before. Give one export of one project.")
        met.add(name)


def _read_marks(
    annotation: Mapping[str, Any], about: tuple[Any, str, str], drawn: DrawnMarks, found: AnswerCollector, where: str
) -> None:
    task, worker, label = about
    box, region = annotation.get("bbox"), annotation.get("segmentation")
    if not box and not region:
        raise InputError(f"{where} has neither 'bbox' nor 'segmentation'. Export the file again.")
    if box and annotation.get("iscrowd"):
        found.left_out["box of a crowd"] += 1
    elif box:
        left, top, width, height = _read_box(box, where)
        corners = (left, top, left + width, top + height)
        drawn.add_box(task, worker, (*corners, label))
        if lies_outside(corners, drawn.seen[task, worker]):
            found.outside.append(where)
    if region:
        if not isinstance(region, list | dict):
            raise InputError(f"{where}: 'segmentation' is {quote(region)}; it must be polygons or run lengths.")
        drawn.add_region(task, worker, label, region)


def _read_box(box: Any, where: str) -> list[float]:
    """Four numbers; a text or an object would be taken letter by letter, or by its keys."""
    wrong = InputError(f"{where}: 'bbox' is {quote(box)}; it must be [x, y, width, height].")
    if not isinstance(box, list) or len(box) != 4 or any(isinstance(each, bool) for each in box):
        raise wrong
    try:
        return [float(each) for each in box]
    except (TypeError, ValueError, OverflowError) as error:
        raise wrong from error


# ---- writing ----------------------------------------------------------------------------------------------


def write(files: ExportFiles, consensus: ConsensusAnswers, out: Path) -> None:
    """Write images and categories of all workers, and the consensus as annotations."""
    images: dict[str, dict[str, Any]] = {}
    categories: dict[str, dict[str, Any]] = {}
    for _, file in _list_files(files):
        document = _read_document(file)
        for part, name, known in (("images", "file_name", images), ("categories", "name", categories)):
            for each in document[part]:
                # Numbered anew: the ids of two workers' files may be the same and mean something else.
                known.setdefault(str(each[name]), {**each, "id": len(known) + 1})
    marks = _boxes(consensus) if consensus.question.kind == "boxes" else _masks(consensus)
    annotations = [
        {"id": number, "image_id": images[task]["id"], "category_id": categories[label]["id"], "iscrowd": 0} | mark
        for number, (task, label, mark) in enumerate(marks, 1)
    ]
    document = {"info": {"description": f"Consensus by {AGENT}"}, "images": list(images.values())}
    document |= {"categories": list(categories.values()), "annotations": annotations}
    out.write_text(format_json(document) + "\n", encoding="utf-8")


def _boxes(consensus: ConsensusAnswers) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for row in consensus.table.to_pylist():
        if row["x_min"] is not None:
            width, height = row["x_max"] - row["x_min"], row["y_max"] - row["y_min"]
            box = {"bbox": [row["x_min"], row["y_min"], width, height], "area": width * height, "segmentation": []}
            yield str(row["task"]), str(row["label"]), box | {"score": row["confidence"]}


def _masks(consensus: ConsensusAnswers) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for row in consensus.table.to_pylist():
        if row["pixels"]:
            left, top, right, bottom = row["bounds"]
            mark = {"segmentation": json.loads(row["rle"]), "area": row["pixels"]}
            mark |= {"bbox": [left, top, right - left, bottom - top], "score": row["confidence"]}
            yield str(row["task"]), consensus.question.name, mark


FORMAT = Format(
    slug="coco",
    name="COCO",
    files="one JSON file for each worker, in a folder or one after the other",
    kinds=("boxes", "masks"),
    writes="one file with the consensus",
    is_of_one_worker=True,
)
