"""What is known of a labelling tool's export."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from crowdwise.formats.answer_collector import AnswerCollector
    from crowdwise.formats.consensus_answers import ConsensusAnswers
    from crowdwise.formats.export_files import ExportFiles
    from crowdwise.labels.columns import Columns, Named

__all__ = ["Format"]


@dataclass(frozen=True, kw_only=True)
class Format:
    """The export of a tool.

    Attributes
    ----------
    slug
        As on the command line: "label-studio".
    name
        The tool's, as its makers write it.
    files
        Which of its exports are read, in a few words.
    kinds
        Kinds of answers that it can hold.
    recognises
        Whether these files are its export; looks at the first record or the header line alone, and never raises.
    read
        Gives every answer to the collector.
    writes
        What `write` writes, in a few words; "" where there is no writer.
    write
        Writes the consensus so that the tool takes it: the export that was read, the consensus, and the file to write.
    find_answers
        For tables in memory: takes any table and the columns that the user named; gives the rows that are answers and
        their columns, or None if the table is no such export.
    """

    slug: str
    name: str
    files: str
    kinds: tuple[str, ...]
    recognises: Callable[[ExportFiles], bool]
    read: Callable[[ExportFiles, AnswerCollector], None]
    writes: str = ""
    write: Callable[[ExportFiles, ConsensusAnswers, Path], None] | None = None
    find_answers: Callable[[Columns, Named], tuple[Columns, Named] | None] | None = None
