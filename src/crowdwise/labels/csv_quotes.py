"""Double quotes in CSV that stand where none should: one that is never closed, or closed in the middle of a field.

Only a quote at the beginning of a field opens one; anywhere else it is a letter (`13" laptop`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Quotes", "StrayQuotes", "find_stray_quotes"]

QUOTE = ord('"')
BESIDE_QUOTES = b',;\t|\r\n"'
LETTERS_ALIKE = bytes(byte if byte in BESIDE_QUOTES else ord("a") for byte in range(256))
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Quotes:
    """What a quick look at the quotes of a file, block after block, tells of them."""

    def __init__(self) -> None:
        self.odd = self.among_letters = False
        self.last_is_followed: bool | None = False  # by a letter; None: the end of a block hides it

    def look(self, block: bytes) -> None:
        """Look at one more block."""
        if self.last_is_followed is None:
            self.last_is_followed = block[0] not in BESIDE_QUOTES
        count = block.count(b'"')
        if not count:
            return
        self.odd ^= bool(count % 2)
        after = block.rfind(b'"') + 1
        self.last_is_followed = block[after] not in BESIDE_QUOTES if after < len(block) else None
        self.among_letters = self.among_letters or b'a"a' in block.translate(LETTERS_ALIKE)

    @property
    def are_doubtful(self) -> bool:
        """Whether a closer look is needed: in a proper file quotes come in pairs, and letters are on one side only."""
        return self.odd or self.among_letters or bool(self.last_is_followed)


class StrayQuotes(NamedTuple):
    """Lines of quotes that are probably meant otherwise; None where there are none."""

    never_closed: int | None  # where the quote is opened that runs to the end of the file
    closed_amid: tuple[int, int] | None  # first and last line of a field with text behind its closing quote


def find_stray_quotes(blocks: Iterable[bytes], delimiter: str) -> StrayQuotes:
    r"""Go from quote to quote as a reader of CSV does.

    >>> find_stray_quotes([b'a,b\n13" nail,x\n"y,z\n'], ",")
    StrayQuotes(never_closed=3, closed_amid=None)
    """
    begins = f"{delimiter}\r\n".encode()
    line, before, newline = 1, begins[-1], b""
    opened: int | None = None  # the line of the quote that is open
    closed: tuple[int, int] | None = None  # lines of the field whose closing quote is the byte before
    amid: tuple[int, int] | None = None
    for number, block in enumerate(blocks):
        newline = newline or (b"\n" if b"\n" in block else b"\r")
        start = len(BYTE_ORDER_MARK) if number == 0 and block.startswith(BYTE_ORDER_MARK) else 0
        counted, first = 0, start
        while True:
            if closed is not None and first < len(block):  # what follows the closing quote
                if block[first] == QUOTE:  # doubled: a letter, and the field goes on
                    opened, closed = closed[0], None
                    first += 1
                    continue
                if amid is None and closed[0] < closed[1] and block[first] not in begins:
                    amid = closed
                closed = None
            place = block.find(b'"', first)
            if place < 0:
                break
            if opened is None:
                if (block[place - 1] if place > start else before) in begins:
                    line += block.count(newline, counted, place)
                    counted, opened = place, line
            else:
                line += block.count(newline, counted, place)
                counted, closed, opened = place, (opened, line), None
            first = place + 1
        line += block.count(newline, counted)
        before = block[-1]
    return StrayQuotes(opened, amid)
