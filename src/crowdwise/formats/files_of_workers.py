"""Whose file it is, for tools whose exports do not say it: a file, an archive or a folder for each worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdwise.formats.export_files import ZIP, ExportFiles, open_files
from crowdwise.labels.errors import InputError, listing

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.formats.export_files import ExportFile

__all__ = ["find_first_file", "name_workers"]


def name_workers(files: ExportFiles, suffix: str, *, what: str) -> list[tuple[str, ExportFile]]:
    """Every file that ends so, with its worker: the name of the file, or of the archive or folder that it lies in.

    Raises
    ------
    InputError
        If there is one file alone, which does not say whose `what` it holds, or if files cannot be told apart.
    """
    named = [(file.worker, file) for file in files.files if file.worker is not None and file.path.suffix == suffix]
    if named:
        return named
    found: list[tuple[tuple[str, ...], ExportFile]] = []
    for file in files.files:
        if file.blob.head().startswith(ZIP):
            inside = [each for each in open_files(file.blob).files if each.has_suffix(suffix)]
            found += (((file.path.stem, *each.path.parts), each) for each in inside)
        else:
            inside = [file] if file.has_suffix(suffix) else []
            found += ((each.path.parts, each) for each in inside)
        if (
            not inside and not files.is_bundle
        ):  # beside others in a folder it may be anything, given by name it is meant
            raise InputError(f"{file.blob.name} is not, and does not hold, a file that ends in {suffix}. Leave it out.")
    if len(found) < 2:
        raise InputError(
            f"{files.origin} does not say who drew its {what}, and is one file. Give a file for each worker (as "
            f"ann{suffix} and bob{suffix}), one after the other or in a folder: their names are the workers'. Or name "
            f"them: --worker ann=FILE --worker bob=FILE."
        )
    ways: tuple[Callable[[tuple[str, ...], ExportFile], str], ...] = (
        lambda parts, file: parts[0] if len(parts) > 1 else file.name_without(suffix),
        lambda _, file: file.name_without(suffix),
    )
    for name in ways:
        workers = [name(*each) for each in found]
        if len(set(workers)) == len(workers):
            return list(zip(workers, (file for _, file in found), strict=True))
    raise InputError(
        f"{files.origin} holds files that cannot be told apart by their names "
        f"({listing(['/'.join(parts) for parts, _ in found])}). Give each the name of its worker, or name "
        "them: --worker NAME=FILE."
    )


def find_first_file(files: ExportFiles, suffix: str) -> ExportFiles:
    """The first file that ends so, also in the first archive; nothing where there is none."""
    for file in files.files:
        inside: tuple[ExportFile, ...] = (file,)
        try:
            if file.path.suffix == ".zip" and file.blob.head().startswith(ZIP):
                inside = open_files(file.blob).files
        except InputError:
            if all(each.path.suffix == ".zip" for each in files.files):
                raise
            inside = ()  # beside an export of another tool, perhaps
        found = [each for each in inside if each.has_suffix(suffix)]
        if found or file.path.suffix == ".zip":
            return ExportFiles(files.origin, tuple(found[:1]))
    return ExportFiles(files.origin, ())
