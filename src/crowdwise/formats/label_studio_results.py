"""What one result of Label Studio says: its kind of answer, and the rows of it.

| result | kind |
|---|---|
| `choices`, `taxonomy` (a path, with / between) | labels; multi-label where an answer holds several |
| `rating` | ordinal |
| `number` | values |
| `textarea` | texts |
| `pairwise` | comparisons where the two items have names in the task's data, else labels (left or right) |
| `ranker` with one list | rankings |
| `labels`, `hypertextlabels`, `paragraphlabels` | spans |
| `rectanglelabels` | boxes, in percent of the image |
| `polygonlabels`, `brushlabels` | outlines, which cannot be aggregated yet |

Results of other types are counted as left out.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from crowdwise.formats.answer_columns import check_choices
from crowdwise.formats.drawn_marks import lies_outside
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from crowdwise.formats.answer_collector import AnswerCollector

__all__ = ["Rows", "join_path", "place_of_span", "question_of_result", "read_result", "split_path", "type_of_value"]

Rows = list[tuple[Any, ...]]
KEYS = {"pairwise": "selected", "textarea": "text", "hypertextlabels": "hypertextlabels"}  # type → field of its value
PERCENT = (100.0, 100.0)  # height and width of every image
REGION = ("start", "x", "points", "rle", "startOffset")  # fields of a value that say where in the task it is


def _choices(value: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[str, Rows]:
    chosen = check_choices(value["choices"])
    if len(chosen) > 1:
        return "multi-label", [(chosen,)]
    return "labels", [(each,) for each in chosen]


def _taxonomy(value: Mapping[str, Any], data: Mapping[str, Any]) -> tuple[str, Rows]:
    return _choices({"choices": [join_path(check_choices(path)) for path in value["taxonomy"]]}, data)


def join_path(path: list[Any]) -> str:
    r"""The name of a place in a taxonomy: the steps to it with / between them, \/ where a step holds one.

    >>> join_path(["Film", "Sci/Fi"])
    'Film/Sci\\/Fi'
    """
    return "/".join(re.sub(r"([\\/])", r"\\\1", str(step)) for step in path)


def split_path(name: str) -> list[str]:
    r"""The steps to a place in a taxonomy.

    >>> split_path(join_path(["Film", "Sci/Fi"]))
    ['Film', 'Sci/Fi']
    """
    return [re.sub(r"\\(.)", r"\1", step) for step in re.findall(r"(?:\\.|[^\\/])+", name)]


def _rating(value: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[str, Rows]:
    return "ordinal", [(value["rating"],)]


def _number(value: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[str, Rows]:
    return "values", [(float(value["number"]),)]


def _textarea(value: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[str, Rows]:
    said = value["text"]
    return "texts", [(said if isinstance(said, str) else "\n".join(said),)]


def _pairwise(value: Mapping[str, Any], data: Mapping[str, Any]) -> tuple[str, Rows]:
    sides = data.get("left"), data.get("right")
    if all(isinstance(side, str | int) for side in sides):
        return "comparisons", [(*map(str, sides), value["selected"])]
    return "labels", [(value["selected"],)]


def _ranker(value: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[str, Rows]:
    lists = [items for items in value["ranker"].values() if items]
    if len(lists) > 1:
        raise NotImplementedError("ranker with several lists")
    return "rankings", [(item, place) for place, item in enumerate(lists[0], 1)] if lists else []


def place_of_span(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Start and end in characters: in pages of HTML `start` is a path, and `globalOffsets` count characters."""
    place: Mapping[str, Any] = value.get("globalOffsets") or value
    return place


def _spans(field: str) -> Callable[[Mapping[str, Any], Mapping[str, Any]], tuple[str, Rows]]:
    def read_spans(value: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[str, Rows]:
        place = place_of_span(value)
        if not isinstance(place["start"], int | float):
            raise NotImplementedError(f"{field} without globalOffsets")
        return "spans", [(place["start"], place["end"], each) for each in check_choices(value[field])]

    return read_spans


def _rectangles(value: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[str, Rows]:
    if value.get("rotation"):
        raise NotImplementedError("rotated rectangle")
    left, top = float(value["x"]), float(value["y"])
    right, bottom = left + float(value["width"]), top + float(value["height"])
    return "boxes", [(left, top, right, bottom, each) for each in check_choices(value["rectanglelabels"])]


def _outlines(field: str) -> Callable[[Mapping[str, Any], Mapping[str, Any]], tuple[str, Rows]]:
    def read_outlines(value: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[str, Rows]:
        shape = json.dumps({name: each for name, each in value.items() if name != field})
        return "outlines", [(shape, each) for each in check_choices(value[field])]

    return read_outlines


READERS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], tuple[str, Rows]]] = {
    "choices": _choices,
    "taxonomy": _taxonomy,
    "rating": _rating,
    "number": _number,
    "textarea": _textarea,
    "pairwise": _pairwise,
    "ranker": _ranker,
    "labels": _spans("labels"),
    "hypertextlabels": _spans("hypertextlabels"),
    "paragraphlabels": _spans("paragraphlabels"),
    "rectanglelabels": _rectangles,
    "polygonlabels": _outlines("polygonlabels"),
    "brushlabels": _outlines("brushlabels"),
}


def type_of_value(value: Mapping[str, Any]) -> str:
    """The type of a result whose value alone is there, as in JSON_MIN and CSV; "" for one that is not known."""
    for name in READERS:
        if KEYS.get(name, name) in value and (name != "textarea" or len(value) == 1):
            return name
    return ""


def read_result(
    result: Mapping[str, Any], data: Mapping[str, Any], found: AnswerCollector, where: Callable[[], str]
) -> tuple[str, Rows] | None:
    """The kind of a result and its rows; None, and counted, for one that is not read."""
    kind = result.get("type")
    reader = READERS.get(kind) if isinstance(kind, str) else None
    value = result.get("value")
    if reader is None:
        found.left_out[f"result of type {quote(kind)}"] += 1
        return None
    if not isinstance(value, dict):
        raise InputError(f"{where()}: a result of type {quote(kind)} has no 'value'. Export the file again.")
    if kind in ("choices", "textarea", "rating", "number", "taxonomy") and any(name in value for name in REGION):
        found.left_out[f"{kind} about a region of a task"] += 1
        return None
    try:
        read = reader(value, data)
    except NotImplementedError as error:
        found.left_out[str(error)] += 1
        return None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        missing = f"lacks the field {error}" if isinstance(error, KeyError) else f"cannot be read ({error})"
        raise InputError(
            f"{where()}: the value of a result of type {quote(kind)} {missing}: {quote(value)}. It is of another "
            "version of Label Studio, or was changed after the export."
        ) from error
    if not read[1] and kind in ("choices", "taxonomy"):
        found.left_out[f"{kind} without a choice"] += 1
        return None
    if read[0] == "boxes" and any(lies_outside(row, PERCENT) for row in read[1]):
        found.outside.append(where())
    return read


def question_of_result(result: Mapping[str, Any], where: Callable[[], str]) -> str:
    """The name of the question that a result answers."""
    name = result.get("from_name")
    if not isinstance(name, str) or not name:
        raise InputError(f"{where()}: a result has no 'from_name', which says what was asked. Export the file again.")
    return name
