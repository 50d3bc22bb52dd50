"""Answers of the form elements that SageMaker Ground Truth and Mechanical Turk share (`crowd-classifier` and others).

| what an element holds | kind |
|---|---|
| `{label}`, or an option of a group that is true | labels |
| `{labels}`, or several options that are true | multi-label |
| `{entities}` | spans |
| `{boundingBoxes}`, also inside `annotatedResult` | boxes, in pixels |
| a text or number by itself | labels |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crowdwise.formats.answer_columns import check_choices
from crowdwise.formats.drawn_marks import lies_outside
from crowdwise.formats.json_records import explain_unreadable
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crowdwise.formats.answer_collector import AnswerCollector

__all__ = ["add_content", "chosen_options"]


def add_content(content: Any, task: Any, worker: Any, found: AnswerCollector, where: str, **more: Any) -> None:
    """Give what a worker entered into a form, an object with an entry for each element, to the collector."""
    if not isinstance(content, dict):
        raise InputError(f"{where}: an answer is {quote(content)}, not an object with an entry for each form element.")
    for name, said in content.items():
        with explain_unreadable(f"{where}: the answer to {quote(name)}", said):
            read = _read_element(said)
        if read is None:
            found.left_out[f"form element {quote(name)}"] += 1
        elif read[1] or read[0] != "labels":
            found.question(name, read[0]).add(task, worker, *read[1], **more)
            if read[0] == "boxes" and (size := _size_of_image(said)) is not None:
                found.outside += [where for row in read[1] if lies_outside(row, size)]


def chosen_options(options: Mapping[str, Any]) -> list[str] | None:
    """The options that are true, of an object with an entry for each; None where it is something else."""
    said = {"true": True, "false": False}
    values = {name: said.get(value.casefold()) if isinstance(value, str) else value for name, value in options.items()}
    if not values or not all(isinstance(value, bool) for value in values.values()):
        return None
    return [name for name, value in values.items() if value]


def _read_element(said: Any) -> tuple[str, list[tuple[Any, ...]]] | None:
    if isinstance(said, str | int | float | bool):
        return "labels", [(str(said),)] if said != "" else []
    if not isinstance(said, dict):
        return None
    said = said.get("annotatedResult", said)
    if isinstance(said.get("label"), str):
        return "labels", [(said["label"],)]
    if isinstance(said.get("labels"), list):
        return _read_chosen(said["labels"])
    if isinstance(said.get("entities"), list) or isinstance(said.get("boundingBoxes"), list):
        return _read_marks(said)
    options = chosen_options({name: _flatten(value) for name, value in said.items()})
    return None if options is None else _read_chosen(options)


def _read_marks(said: Mapping[str, Any]) -> tuple[str, list[tuple[Any, ...]]]:
    if "entities" in said:
        return "spans", [(each["startOffset"], each["endOffset"], each["label"]) for each in said["entities"]]
    return "boxes", [_corners(box) for box in said["boundingBoxes"]]


def _size_of_image(said: Any) -> tuple[float, float] | None:
    """Height and width of the image that boxes were drawn in, where the answer says them."""
    about = said.get("annotatedResult", said).get("inputImageProperties")
    height, width = (about.get("height"), about.get("width")) if isinstance(about, dict) else (None, None)
    return (height, width) if isinstance(height, int | float) and isinstance(width, int | float) else None


def _flatten(value: Any) -> Any:
    """A radio button says {"on": true} in some forms."""
    return value.get("on") if isinstance(value, dict) else value


def _read_chosen(chosen: list[Any]) -> tuple[str, list[tuple[Any, ...]]]:
    check_choices(chosen)
    if len(chosen) == 1:
        return "labels", [(str(chosen[0]),)]
    return ("multi-label", [([str(each) for each in chosen],)]) if chosen else ("labels", [])


def _corners(box: Mapping[str, Any]) -> tuple[Any, ...]:
    left, top = float(box["left"]), float(box["top"])
    return left, top, left + float(box["width"]), top + float(box["height"]), box["label"]
