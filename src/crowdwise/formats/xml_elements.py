"""Elements of an XML file one by one, as they stand in it; entities and document types are refused.

An entity may stand for a file of the reader's machine, or for a text that grows a billion times as it is put in; no
export of a labelling tool has any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from xml.parsers import expat

from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.labels.byte_source import Blob

__all__ = ["Element", "read_elements"]

BLOCK = 1 << 20
DEEPEST = 100  # elements within each other


class Element(NamedTuple):
    """The beginning of an element: its name, those it stands in, its attributes, and its line in the file."""

    name: str
    path: tuple[str, ...]
    attributes: dict[str, str]
    line: int


def read_elements(blob: Blob) -> Iterator[Element]:
    """Give every element where it begins; raises `InputError` where the file is no XML, or has a document type."""
    parser: Any = expat.ParserCreate()
    met: list[Element] = []
    path: list[str] = []

    def begin(name: str, attributes: dict[str, str]) -> None:
        met.append(Element(name, tuple(path), attributes, parser.CurrentLineNumber))
        path.append(name)
        if len(path) > DEEPEST:
            raise InputError(f"{blob.name}, line {parser.CurrentLineNumber} is nested too deeply. No export is.")

    def refuse(*_: Any) -> None:
        raise InputError(
            f"{blob.name}, line {parser.CurrentLineNumber} declares a document type or an entity, which may stand for "
            "other files or endless text. No export of a labelling tool does."
        )

    parser.StartElementHandler, parser.EndElementHandler = begin, lambda _: path.pop()
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    blob.refuse_bomb()
    with blob.stream() as stream:
        while True:
            block = blob.read_from(stream, BLOCK)
            try:
                parser.Parse(block, not block)
            except expat.ExpatError as error:
                raise InputError(
                    f"{blob.name}, line {error.lineno} is not XML ({quote(expat.ErrorString(error.code))}). The file "
                    "may be cut short: export it again."
                ) from error
            except (LookupError, ValueError) as error:  # an encoding that is not known
                if isinstance(error, InputError):
                    raise
                raise InputError(
                    f"{blob.name} cannot be read as XML ({quote(str(error))}). Save it as UTF-8."
                ) from error
            yield from met
            met.clear()
            if not block:
                return
