"""Texts as words: how a text is cut, what of a word counts when words are compared, and texts made of words again."""

from __future__ import annotations

import functools
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Word", "compared_words", "join_words", "split_words"]

UNSPACED = ((0x3040, 0x30FF), (0x3400, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x323AF))  # kana, Han: a sign is a word


class Word(NamedTuple):
    """A word of a text, or one sign of punctuation.

    `form` is what is compared: compatibility normal form without case and unseen characters. `surface` is as written,
    and `glued` says that no blank stands before it.
    """

    form: str
    surface: str
    glued: bool


def split_words(text: str) -> list[Word]:
    """The words of a text; each sign of punctuation, of Han and of kana is a word of its own.

    >>> [word.form for word in split_words("It isn't  SO, is it?")]
    ['it', 'isn', "'", 't', 'so', ',', 'is', 'it', '?']
    """
    words = []
    for piece in unicodedata.normalize("NFC", text).split():
        for place, surface in enumerate([piece] if piece.isascii() and piece.isalnum() else _cut(piece)):
            form = _form(surface)
            if form:
                words.append(Word(form, surface, place > 0))
    return words


def compared_words(text: str) -> tuple[str, ...]:
    """What of each word counts when texts are compared."""
    return tuple(word.form for word in split_words(text))


def join_words(words: list[Word]) -> str:
    """A text of these words, with blanks before those that are not glued to the word before."""
    return "".join(word.surface if word.glued or not at else f" {word.surface}" for at, word in enumerate(words))


def _cut(piece: str) -> Iterator[str]:
    start = 0
    for at, sign in enumerate(piece):
        if _stands_alone(sign):
            if start < at:
                yield piece[start:at]
            yield sign
            start = at + 1
    if start < len(piece):
        yield piece[start:]


@functools.lru_cache(maxsize=10_000)
def _stands_alone(sign: str) -> bool:
    """Whether a character is a word: punctuation, symbols, and signs of scripts without blanks."""
    return unicodedata.category(sign)[0] in "PS" or any(low <= ord(sign) <= high for low, high in UNSPACED)


@functools.lru_cache(maxsize=100_000)
def _form(surface: str) -> str:
    if surface.isascii():
        return surface.lower()
    seen = "".join(sign for sign in surface if unicodedata.category(sign) not in ("Cf", "Cc"))
    # Case can leave what is not in normal form.
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", seen).casefold())
