"""Where results go: folders, files and standard output."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from crowdwise.cli.fitted_model_output import FittedResult
    from crowdwise.cli.kind_output import KindResult

__all__ = [
    "check_file",
    "check_folder",
    "check_results",
    "json_values",
    "output_csv",
    "output_csvs",
    "print_csv",
    "print_json",
    "print_text",
    "write_results",
    "write_text",
    "write_texts",
]

BATCH = 1 << 16  # rows of CSV made at a time for standard output


def check_folder(out: str, option: str = "--out") -> Path:
    """Refuse, before any long fit, a folder that cannot be written."""
    if not out:
        raise InputError(f"{option} is empty. Give the name of a folder.")
    if out == "-":
        raise InputError(f"{option} is -, but several files are written. Give the name of a folder.")
    place = Path(out)
    try:
        nearest = next(folder for folder in (place, *place.absolute().parents) if os.path.lexists(folder))
    except FileNotFoundError as error:  # of the folder that relative names begin in
        raise InputError("The working folder is gone. Change to another folder, or give full paths.") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{option} {quote(out)} is no name for a folder: {error}.") from error
    if not nearest.is_dir():
        raise InputError(f"{option}: {quote(str(nearest))} exists and is not a folder. Choose another name.")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise InputError(f"{option}: you may not write in {quote(str(nearest))}. Choose another place.")
    return place


def check_file(out: str, option: str, inputs: Iterable[str | None]) -> None:
    """Refuse, before any long work, a file that cannot be written, and one that is read."""
    if out == "-":
        return
    if not out:
        raise InputError(f"{option} is empty. Give the name of a file, or - for standard output.")
    place = Path(out)
    check_folder(str(place.parent), option)
    try:
        place.stat()
        there = True
    except FileNotFoundError:
        there = False
    except (OSError, ValueError) as error:
        raise InputError(f"{option} {quote(out)} is no name for a file: {error}.") from error
    if place.is_dir() or out.endswith(("/", os.sep)):
        raise InputError(f"{option} {quote(out)} is a folder. Give the name of a file in it.")
    if there and any(_is_part_of(place, given) for given in inputs if given and given != "-"):
        raise InputError(f"{option} {quote(out)} is a file that is read, and would be lost. Choose another name.")


def check_results(out: str, names: Iterable[str], inputs: Iterable[str | None]) -> Path:
    """Refuse, before any long fit, a folder that cannot be written, and one where a result would replace an input.

    A name that ends in a slash is that of a folder, which is written anew.
    """
    from crowdwise.labels.several_files import expand_paths

    place, given = check_folder(out), [each for each in inputs if each and each != "-"]
    for name in names:
        if not name.endswith("/"):
            check_file(str(place / name), "--out", given)
        elif any(Path(each).resolve().is_relative_to((place / name).resolve()) for each in expand_paths(given)):
            raise InputError(
                f"--out {quote(out)} would write its folder {name} anew, where a file lies that is read. Choose "
                "another name."
            )
    return place


def refuse_name_of_result(out: str, option: str, place: Path, names: Iterable[str]) -> None:
    """Refuse a file that is the folder of the results, one of them, or lies in the folder of one."""
    path, folder = Path(os.path.realpath(out)), Path(os.path.realpath(place))
    if path == folder or any((folder / name) in (path, *path.parents) for name in names):
        raise InputError(f"{option} {quote(out)} is where --out writes its results. Choose another name.")


def _is_part_of(place: Path, given: str) -> bool:
    """Whether a file is the one given, matches the pattern, or lies in the folder given; `X.npz:key` is X.npz."""
    from crowdwise.labels.several_files import expand_paths

    path, _, key = given.rpartition(":")
    if key and not Path(given).exists() and Path(path).is_file():
        given = path
    inputs = (Path(each) for each in expand_paths([given]))
    return any(
        place.resolve().is_relative_to(each.resolve()) if each.is_dir() else each.exists() and place.samefile(each)
        for each in inputs
    )


def write_results(result: FittedResult | KindResult, place: Path, **more: pa.Table) -> None:
    """Write consensus.csv, workers.csv, `more` tables and model/ into the folder: all of them, or none."""
    from crowdwise.labels.atomic_output import replace_folder
    from crowdwise.labels.table_output import write_csv

    with replace_folder(place) as draft, _name_place(draft, place):
        for name, table in {"consensus": result.consensus, "workers": result.workers, **more}.items():
            write_csv(table, draft / f"{name}.csv")
        if hasattr(result.model, "write_files"):  # what no table can hold, such as images
            result.model.write_files(draft)
        result.model.save(draft / "model")


@contextlib.contextmanager
def _name_place(draft: Path, place: Path) -> Iterator[None]:
    """Name in errors the place that the user knows."""
    try:
        yield
    except InputError as error:
        raise InputError(str(error).replace(str(draft), str(place))) from error


def write_text(text: str, path: Path) -> None:
    """Write a file, whole or not at all."""
    from crowdwise.labels.atomic_output import replace_file

    with replace_file(path) as draft:
        draft.write_text(text, encoding="utf-8")


def write_texts(texts: dict[str, str], place: Path) -> None:
    """Write files into a folder: all of them, or none."""
    from crowdwise.labels.atomic_output import replace_folder

    with replace_folder(place) as draft:
        for name, text in texts.items():
            (draft / name).write_text(text, encoding="utf-8")


def output_csv(table: pa.Table, out: str) -> None:
    """Write a table to a file, or to standard output if that is "-"."""
    output_csvs({out: table})


def output_csvs(tables: dict[str, pa.Table]) -> None:
    """Write tables to files, or to standard output if that is "-": no file is replaced before all are written."""
    from crowdwise.labels.atomic_output import replace_files
    from crowdwise.labels.table_output import write_csv

    files = {out: table for out, table in tables.items() if out != "-"}
    with replace_files([Path(out) for out in files]) as drafts:
        for draft, (out, table) in zip(drafts, files.items(), strict=True):
            with _name_place(draft, Path(out)):
                write_csv(table, draft)
        if "-" in tables:
            print_csv(tables["-"])


def print_csv(table: pa.Table) -> None:
    """Write a table to standard output as CSV, names defused."""
    import pyarrow as pa
    import pyarrow.csv as pacsv

    from crowdwise.labels.table_output import defuse_table

    _refuse_closed_output()
    rows = defuse_table(table).combine_chunks()
    header = rows.slice(0, 0)  # by itself: a table without rows has no batch
    for part in (header, *rows.to_batches(max_chunksize=BATCH)):
        sink = pa.BufferOutputStream()
        pacsv.write_csv(part, sink, pacsv.WriteOptions(include_header=part is header))
        sys.stdout.buffer.write(sink.getvalue())
    sys.stdout.buffer.flush()


def print_text(text: str) -> None:
    """Print a text that is the result, and nothing else."""
    _refuse_closed_output()
    print(text)


def print_json(facts: Any) -> None:
    """Print one JSON value, and nothing else; numbers that JSON does not have are null."""
    _refuse_closed_output()
    print(json.dumps(_without_nan(facts), indent=2))


def _refuse_closed_output() -> None:
    """Refuse to lose a result: what stands in for a closed standard output is the null device, by its own name."""
    if getattr(sys.stdout, "name", None) == os.devnull:
        raise InputError("Standard output is closed, so that the result would be lost. Write it to a file.")


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_values(facts: dict[str, Any]) -> dict[str, Any]:
    """The same in what JSON has: no NaN, names that are no text or number as text."""

    def to_json_value(value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return value if isinstance(value, str | int | float | bool) or value is None else str(value)

    return {name: [to_json_value(each) for each in value] if isinstance(value, tuple | list) else to_json_value(value)
            for name, value in facts.items()}  # fmt: skip
