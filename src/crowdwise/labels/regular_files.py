"""Opening files that someone else may have put there: regular files alone, so that no open can hang."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from io import BufferedReader

__all__ = ["as_folder", "open_regular_file"]

KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
# A pipe that takes the file's place between the look at it and the open must not hang either.
FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def as_folder(given: object) -> Path:
    """The folder that a user names for a model."""
    if not isinstance(given, str | os.PathLike) or not isinstance(os.fspath(given), str):
        raise InputError(f"The folder of a model is {quote(given)}; give its path, as text.")
    try:
        os.fsencode(given)
        known = bool(os.fspath(given)) and "\0" not in os.fspath(given)
    except UnicodeEncodeError:
        known = False
    if not known:
        raise InputError(f"{quote(os.fspath(given))} is no name of a folder for a model. Give its path.")
    return Path(given)


def open_regular_file(path: Path) -> BufferedReader:
    """Open a file for reading, or a link to one; refuse pipes, devices, sockets and folders.

    What the system refuses (a file that is not there, or may not be read) is an OSError, as for `open`.
    """
    _refuse_others(path, path.stat().st_mode)
    handle = os.open(path, FLAGS)
    try:
        _refuse_others(path, os.fstat(handle).st_mode)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def _refuse_others(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((name for is_kind, name in KINDS if is_kind(mode)), "no plain file")
        raise InputError(f"{quote(path.name)} is {kind}, not a plain file. Put the file itself there.")
