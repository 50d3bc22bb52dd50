"""What is known of a labelling tool's export."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from crowdwise.formats.answer_collector import AnswerCollector
    from crowdwise.formats.collected_answers import CollectedTask
    from crowdwise.formats.consensus_answers import ConsensusAnswers
    from crowdwise.formats.export import Question
    from crowdwise.formats.export_files import ExportFiles
    from crowdwise.labels.columns import Columns, Named

__all__ = ["TABLE_KINDS", "Format"]

# Kinds that a table tells by its columns.
TABLE_KINDS = (
    "labels", "multi-label", "ordinal", "values", "texts", "comparisons", "rankings", "spans", "boxes", "points",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Format:
    """The export of a tool. What reads and writes it are functions of the module that is called as the tool.

    Attributes
    ----------
    slug
        As on the command line: "label-studio" for the module `label_studio`.
    name
        The tool's, as its makers write it.
    files
        Which of its exports are read, in a few words.
    kinds
        Kinds of answers that it can hold.
    writes
        What `write` writes, in a few words; "" where there is no writer.
    is_of_one_worker
        Whether a file may hold the answers of one worker without saying whose they are.
    collects
        Kinds of answers that `write_answers` writes, which were collected elsewhere.
    suffixes
        Of the files that `write_answers` and `write` make, where there is a `write_answers`.
    """

    slug: str
    name: str
    files: str
    kinds: tuple[str, ...]
    writes: str = ""
    is_of_one_worker: bool = False
    collects: tuple[str, ...] = ()
    suffixes: tuple[str, str] = ("", "")

    def recognises(self, files: ExportFiles) -> bool:
        """Whether these files are its export; looks at the first record or the header line alone, and never raises."""
        return bool(self._module.recognises(files))

    def read(self, files: ExportFiles, found: AnswerCollector) -> None:
        """Give every answer to the collector."""
        self._module.read(files, found)

    @property
    def write(self) -> Callable[[ExportFiles, ConsensusAnswers, Path], None] | None:
        """Writes the consensus so that the tool takes it: the export that was read, the consensus, and the file."""
        return getattr(self._module, "write", None) if self.writes else None

    @property
    def write_answers(self) -> Callable[[Sequence[CollectedTask], Question, Path], None] | None:
        """Writes answers that were collected elsewhere as the tool exports its own, so that `read` reads them."""
        return getattr(self._module, "write_answers", None) if self.collects else None

    @property
    def find_answers(self) -> Callable[[Columns, Named], tuple[Columns, Named] | None] | None:
        """For tables in memory: takes any table and the columns that the user named.

        Gives the rows that are answers and their columns, or None if the table is no such export.
        """
        return getattr(self._module, "find_answers", None)

    @property
    def _module(self) -> Any:
        return import_module(f"crowdwise.formats.{self.slug.replace('-', '_')}")
