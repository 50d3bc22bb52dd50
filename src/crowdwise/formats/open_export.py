"""`read_export`: recognise whose export it is, and read it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.formats.answer_collector import AnswerCollector
from crowdwise.formats.export import Export, make_export
from crowdwise.formats.export_files import open_files, open_files_of_workers
from crowdwise.formats.format_registry import find_answers, find_format, formats, recognise
from crowdwise.labels.byte_source import Blob, open_blob
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.several_files import join_sources

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["find_answers", "find_export", "read_export", "refuse_export_options"]


def read_export(
    source: Any,
    format: str | None = None,  # noqa: A002 (what it is called on the command line)
    question: str | None = None,
    *,
    kind: str | None = None,
    include_predictions: bool = False,
    workers: Sequence[str] | None = None,
) -> Export:
    """Read the export of a labelling tool as it is.

    Parameters
    ----------
    source
        A file, several, a folder or a zip archive as the tool wrote it, plain or gzipped; "-" for standard input.
    format
        Whose export it is, as `crowdwise formats` lists them, where it might be that of several; by default told from
        the content.
    question
        Which question to read, where there are several.
    kind
        Which kind of answers to read, where a question has several.
    include_predictions
        Count the predictions of models as answers, each model as a worker.
    workers
        Whose file each of several is, for tools that write a file for each worker and do not say whose it is.

    Returns
    -------
    Export
        Questions with their kinds; answers, gold and predictions of the chosen one; what was left out.

    Raises
    ------
    InputError
        If it is no export that is known, or is broken: the message names the record and field.
    """
    held, export = find_export(
        source, format=format, question=question, kind=kind, include_predictions=include_predictions, workers=workers
    )
    if export is None:
        known = ", ".join(each.name for each in formats())
        name = held.name if isinstance(held, Blob) else str(source)
        raise InputError(
            f"{name} is no export that is known ({known}). If it is a table of task, worker and label, use "
            "read_labels; if it is an export, name its format."
        )
    return export


def find_export(
    source: Any,
    *,
    format: str | None = None,  # noqa: A002
    question: str | None = None,
    kind: str | None = None,
    include_predictions: bool = False,
    workers: Sequence[str] | None = None,
) -> tuple[Any, Export | None]:
    """The source, held in memory where it can be read once only; and the export that it is, None if it is no tool's.

    Tables, one for each of the workers, are joined to one with a column for them.
    """
    if not isinstance(include_predictions, bool):
        raise InputError(f"include_predictions is {quote(include_predictions)}; it must be True or False.")
    if isinstance(source, Export):
        if question is not None and (source.question is None or source.question.name != question):
            raise InputError(
                f"{source.origin} was read already, with another question than {quote(question)} or none. Give its "
                "path again, with the question."
            )
        return source, source
    held = hold_source(source)
    if held is None:
        what = "this is a table in memory, or standard input among several files"
        refuse_export_options(format, question, include_predictions, what)
        return source, None
    files = open_files(held) if workers is None else open_files_of_workers(_check_workers(held, workers), workers)
    form = recognise(files) if files.files else None
    if format is not None:
        named = find_format(format)
        if not files.files or not named.recognises(files):
            other = f"an export of {form.name}" if form is not None else "a table, or something else"
            raise InputError(
                f"{files.origin} is no export of {named.name} ({named.files}), but {other}. Name another, or none."
            )
        form = named
    if form is None:
        if question is not None:
            raise InputError(
                f"{files.origin} is no export that is known, and has no questions. Leave --question out, or name its "
                "format (crowdwise formats lists them)."
            )
        refuse_export_options(None, None, include_predictions, f"{files.origin} is a table, or something else")
        return held if workers is None else join_sources(held, workers=workers), None
    if workers is not None and not form.is_of_one_worker:
        raise InputError(
            f"{files.origin} is an export of {form.name}, which says whose each answer is. Leave --worker out."
        )
    found = AnswerCollector()
    form.read(files, found)
    return held, make_export(form, files, found, question=question, kind=kind, include_predictions=include_predictions)


def refuse_export_options(format: str | None, question: str | None, include_predictions: bool, what: str) -> None:  # noqa: A002
    """Refuse options of exports where the answers are read as something else: they would be left aside."""
    given = {"format": format, "question": question, "include_predictions": include_predictions or None}
    names = [name for name, value in given.items() if value is not None]
    if names:
        raise InputError(f"{' and '.join(names)}: for exports of labelling tools alone, and {what}. Leave it out.")


def _check_workers(held: Any, workers: Sequence[str]) -> Sequence[str | Path]:
    if not isinstance(held, list) or len(held) != len(workers) or "-" in held:
        raise InputError(f"{len(workers)} workers are named, and each needs a file of their own.")
    twice = [name for name, times in Counter(workers).items() if times > 1]
    if twice or not all(workers):
        raise InputError(f"Each worker has one name and one file: {listing(twice or workers)}.")
    return held


def hold_source(source: Any) -> Any:
    """The source if it is files; what can be read only once is held in memory.

    None for tables in memory, and for several files of which one can be read once: to recognise them would take it.
    """
    if isinstance(source, Blob):
        return source
    if hasattr(source, "read") and not hasattr(source, "__arrow_c_stream__"):
        return open_blob(source)
    several = list(source) if isinstance(source, list | tuple) else [source]
    if not several or not all(isinstance(each, str | Path) for each in several):
        return None
    if any(map(_can_be_read_once, several)):
        return open_blob(several[0]) if len(several) == 1 else None
    return several


def _can_be_read_once(given: str | Path) -> bool:
    """Whether it is standard input, or a pipe."""
    try:
        return str(given) == "-" or (Path(given).exists() and not Path(given).is_file() and not Path(given).is_dir())
    except (OSError, ValueError):  # a name that no file can have is said to be so when it is opened
        return False
