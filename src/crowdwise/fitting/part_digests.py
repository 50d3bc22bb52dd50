"""The header of a saved model describes its other files: parts of two models are never taken for one."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.regular_files import open_regular_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

__all__ = ["MixedPartsError", "add_digests", "check_digests", "read_while_unchanged"]

HEADER = "model.json"
DIGESTS = "parts"  # in the header: the size and SHA-256 of every other file
MOST_READS = 100  # a model that is replaced while it is read is read again
FEW_READS = 2  # as is one whose parts do not belong together
PAUSE = 0.01  # seconds until then
Model = TypeVar("Model")


class MixedPartsError(InputError):
    """A file is not the one that the header describes."""


def add_digests(folder: Path) -> None:
    """Write the size and the SHA-256 of every other file into the header; the last step of saving."""
    header = json.loads((folder / HEADER).read_text(encoding="utf-8"))
    header[DIGESTS] = {path.name: _describe(path) for path in sorted(folder.iterdir()) if path.name != HEADER}
    (folder / HEADER).write_text(json.dumps(header, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def check_digests(folder: str | Path, header: dict[str, Any], names: Collection[str]) -> None:
    """Refuse a folder whose files are not those that its header was saved with; models of before have no digests.

    `names` are the files that have been read: a stranger's header might name others, of any length.
    """
    parts = header.get(DIGESTS, {})
    if not isinstance(parts, dict):
        raise InputError(f"The saved model in {quote(str(folder))} is damaged: its header names no files.")
    if strange := sorted(set(parts) - set(names)):
        raise InputError(
            f"The saved model in {quote(str(folder))} is damaged: its header names {quote(strange[0])}, which is no "
            "part of such a model. Fit and save it again."
        )
    for name, expected in parts.items():
        found: dict[str, Any] | str
        try:
            found = _describe(Path(folder) / name, expected.get("bytes") if isinstance(expected, dict) else None)
        except (OSError, ValueError) as error:
            found = str(error)
        if found != expected:
            raise MixedPartsError(
                f"The saved model in {quote(str(folder))} is not whole: {quote(name)} is not the file that "
                f"{HEADER} was saved with. It may be a mixture of two models. Save or copy it again."
            )


def read_while_unchanged(folder: str | Path, read: Callable[[], Model]) -> Model:
    """What `read` gives, or the error it raises, once no other model has taken the folder's place meanwhile."""
    path = Path(folder) / HEADER
    for number in range(MOST_READS):
        failure, model = None, None
        with _hold(path) as before:
            try:
                model = read()
            except InputError as error:
                failure = error
            changed = before != _identify(path)
        # Where files are renamed one by one, the header is the last: it may be on its way.
        if not changed and not (isinstance(failure, MixedPartsError) and number < FEW_READS):
            if failure is not None:
                raise failure
            return cast("Model", model)
        time.sleep(PAUSE)
    raise InputError(f"{quote(str(folder))} was replaced each of {MOST_READS} times that it was read. Load it again.")


@contextlib.contextmanager
def _hold(path: Path) -> Iterator[tuple[int, ...] | None]:
    """Keep a file open: while it is, no other file can have its number on the disk."""
    handle = None
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield _identify(path if handle is None else handle)
    finally:
        if handle is not None:
            os.close(handle)


def _identify(path: Path | int) -> tuple[int, ...] | None:
    try:
        facts = os.stat(path)  # noqa: PTH116 (an open file as well)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def _describe(path: Path, size: Any = None) -> dict[str, Any]:
    """The size and the SHA-256 of a file; of one that has not the size expected, its size alone."""
    with open_regular_file(path) as file:
        found = os.fstat(file.fileno()).st_size
        if size is not None and found != size:
            return {"bytes": found}
        return {"bytes": found, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
