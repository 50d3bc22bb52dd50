"""`Texts`: answers that are texts, such as translations, transcriptions and summaries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.kinds.answer_table import open_task_table
from crowdwise.kinds.answers import TaskAnswers
from crowdwise.kinds.reader_decorator import reader_of
from crowdwise.kinds.texts.words import split_words
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.unseen_in_columns import drop_unseen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Unpack

    from crowdwise.kinds.answer_table import TaskOptions

__all__ = ["Texts", "check_texts", "read_texts"]

NEEDS = "Texts need the columns task, worker and text, and a row for each answer."
LONGEST = 200_000  # characters, some 30,000 words: words are aligned and n-grams counted in memory


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Texts(TaskAnswers, kind="texts", noun="text", said=("text",)):
    """Texts that workers gave to tasks: one row for each answer, sorted by task. Immutable.

    Make one with `read_texts` or `Texts.from_codes`.

    Attributes
    ----------
    text : pyarrow array (n_answers,)
        As the workers wrote them.

    Examples
    --------
    >>> read_texts({"task": ["a", "a"], "worker": ["ann", "bob"], "text": ["A small house.", "a small home"]})
    Texts: 2 texts by 2 workers on 1 task
    """

    text: pa.Array

    @classmethod
    def _code_said(cls, said: Any) -> dict[str, Any]:
        texts = _as_texts(said)
        check_texts(texts)
        return {"text": texts}


def _as_texts(given: Iterable[Any]) -> pa.Array:
    texts = list(given)
    wrong = [row for row, each in enumerate(texts) if each is None or isinstance(each, bytes)]
    if wrong:
        raise InputError(f"text holds {quote(texts[wrong[0]])} at row {wrong[0]} in place of a text. Give texts.")
    try:
        return pa.array([each if isinstance(each, str) else str(each) for each in texts], pa.string())
    except UnicodeEncodeError as error:
        raise InputError("text holds half of a character (a lone surrogate). Clean the texts.") from error


def check_texts(text: pa.Array, name: str = "text", place: Callable[[int], str] | None = None) -> None:
    """Refuse texts without a word, with a NUL character, and those that are too long to compare."""
    where = place or (lambda row: f"row {row}")

    def refuse(rows: Any, what: str, remedy: str) -> None:
        wrong = np.flatnonzero(rows)
        if wrong.size:
            shown = ", ".join(where(int(row)) for row in wrong[:5])
            raise InputError(f"Column {quote(name)} holds {what} ({shown}). {remedy}")

    letters = pc.match_substring_regex(text, "[0-9A-Za-z]").to_numpy(zero_copy_only=False)
    empty = ~letters
    for row in np.flatnonzero(empty):
        seen = drop_unseen(text.slice(int(row), 1))[0].as_py()
        empty[row] = not seen.strip() or not split_words(seen)
    refuse(empty, "texts without a word", "Remove those rows, or fill them in.")
    refuse(pc.match_substring(text, "\0").to_numpy(zero_copy_only=False), "texts with a NUL character", "Clean them.")
    refuse(
        pc.utf8_length(text).to_numpy(zero_copy_only=False) > LONGEST,
        f"texts of more than {LONGEST:,} characters",
        "Cut them into parts (sentences, paragraphs), each a task of its own.",
    )


@reader_of(Texts)
def read_texts(source: Any, *, text: str | None = None, **options: Unpack[TaskOptions]) -> Texts:
    """Read texts from a file or a table with a row for each answer.

    Texts are kept as they are. When they are compared, case, unseen characters, blanks and Unicode's normal forms do
    not count. An empty text is refused: it cannot be told from an answer that is missing.

    Parameters
    ----------
    text, task, worker, on_duplicate
        As for `read_labels`; `text` names the column of the texts, where it is not the usual one.
    """
    table = open_task_table(source, NEEDS, options, {"text": text})
    said = table.read_texts("text")
    check_texts(said, table.names["text"], table.place)
    columns = table.encode_task_answers() | {"text": said}
    return Texts._from_columns(columns, options.get("on_duplicate", "error"), table.place)
