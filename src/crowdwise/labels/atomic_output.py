"""Files and folders written beside their place and put there in one step: whole or not at all.

A process may be killed at any moment, and several may write to one place: what is there is always what one of them
wrote, the old or the new. Drafts stand beside the target as `.NAME-….crowdwise`. They are removed when writing fails or
is stopped; what a killed process leaves is removed when the same target is next written. Everything is sent to the disk
(fsync) before it takes its place, so that the same holds when the machine itself stops.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.folder_exchange import (
    clear_exchanged,
    copy_permissions,
    has_to_stay,
    put_in_place,
    refuse_clashes,
)

try:
    import fcntl
except ImportError:  # Windows: there drafts of killed processes stay
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["replace_file", "replace_files", "replace_folder"]

SUFFIX = ".crowdwise"  # of drafts; what is called otherwise is never removed
LONGEST = 180  # bytes of a name that a draft may repeat: file systems take 255
PATIENCE = 10.0  # seconds to wait for other processes that put something in the same place


@contextlib.contextmanager
def replace_file(target: Path) -> Iterator[Path]:
    """Give a name beside `target` to write to; it takes the target's place, and its permissions, once all is written.

    What a link points to is replaced; the link stays.
    """
    with replace_files([target]) as (draft,):
        yield draft


@contextlib.contextmanager
def replace_files(targets: list[Path]) -> Iterator[list[Path]]:
    """The same for several files: none is replaced before all are written."""
    for target in targets:
        _refuse_stream(target)
    places = [_follow_links(target) for target in targets]
    for place in places:
        if place.is_dir():
            raise InputError(f"{str(place)!r} is a folder. Give the name of a file in it.")
        if place.exists() and not place.is_file():
            raise InputError(f"{str(place)!r} is not a plain file, and is not replaced. Use - for standard output.")
    with contextlib.ExitStack() as stack:
        drafts = [stack.enter_context(_make_draft(place, place.parent, folder=False)) for place in places]
        yield drafts
        for draft, place in zip(drafts, places, strict=True):
            if place.exists():
                copy_permissions(place, draft)
            else:
                draft.chmod(0o666 & ~_umask())
            _flush(draft)
        for number, (draft, place) in enumerate(zip(drafts, places, strict=True)):
            try:
                draft.replace(place)
            except OSError as error:
                if not number:
                    raise
                before = ", ".join(str(each) for each in places[:number])
                raise InputError(
                    f"Writing {str(place)!r} failed: {error.strerror or error}. Already written: {before}."
                ) from error


@contextlib.contextmanager
def replace_folder(target: Path) -> Iterator[Path]:
    """Give a new folder that takes the target's place once all is written, and not on failure.

    Files of the same names give way; whatever else is in the target stays, and so do the permissions. The new folder
    takes the place of the old one in one step where the system can do that: Linux and macOS, on their usual file
    systems. Otherwise files are renamed one by one, those called .json last. So it is also where the target is the
    working directory or holds it, is where a disk is mounted, belongs to someone else, has links in the place of what
    is written, or more than ten thousand other files, or some that cannot be linked, and where its parent cannot be
    written.
    """
    target = _follow_links(target)
    if target.exists() and not target.is_dir():
        raise InputError(f"{str(target)!r} exists and is not a folder. Choose another name.")
    there = target.is_dir()
    if there and not os.access(target, os.W_OK | os.X_OK):
        raise InputError(f"You may not write in {str(target)!r}. Choose another place.")
    inside = there and (has_to_stay(target) or not os.access(target.parent, os.W_OK | os.X_OK))
    with _make_draft(target, target if inside else target.parent, folder=True) as draft:
        draft.chmod(target.stat().st_mode & 0o777 | 0o700 if there else 0o777 & ~_umask())
        yield draft
        with ThreadPoolExecutor(8) as pool:  # the disk takes several at once for the time of one
            list(pool.map(_flush, (*draft.rglob("*"), draft)))
        refuse_clashes(draft, target)
        with _lock(draft.parent):
            put_in_place(draft, target)


# ---- drafts -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _make_draft(target: Path, place: Path, *, folder: bool) -> Iterator[Path]:
    """A draft of a target in a place, gone afterwards; and errors of the disk in words."""
    lacking = [each for each in (place, *place.parents) if not each.exists()]
    try:
        place.mkdir(parents=True, exist_ok=True)
        with _lock(place) as locked:
            if locked:
                _remove_dead_drafts(target, place)
            draft = _new_folder(target, place) if folder else _new_file(target, place)
            held = _open_locked(draft)  # shows others that this process lives
    except OSError as error:
        _remove_empty(lacking)
        raise InputError(f"Cannot write in {str(place)!r}: {error.strerror or error}. Choose another place.") from error
    try:
        yield draft
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)  # Arrow's own text repeats itself
        raise InputError(
            f"Writing {str(target)!r} failed: {reason}. Nothing was changed; free some space or choose another place."
        ) from error
    finally:
        _discard(draft, target)
        if held is not None:
            os.close(held)
        if not target.exists():
            _remove_empty(lacking)


def _new_file(target: Path, place: Path) -> Path:
    handle, name = tempfile.mkstemp(prefix=_prefix(target), suffix=SUFFIX, dir=place)
    os.close(handle)
    return Path(name)


def _new_folder(target: Path, place: Path) -> Path:
    """A folder whose name is its own number on the disk: another number shows that it was exchanged for the target."""
    made = Path(tempfile.mkdtemp(prefix=_prefix(target), suffix=SUFFIX, dir=place))
    return made.rename(place / f"{_prefix(target)}{made.stat().st_ino}{SUFFIX}")


def _prefix(target: Path) -> str:
    name = os.fsencode(target.name)
    return f".{target.name}-" if len(name) <= LONGEST else f".{zlib.crc32(name):08x}-"


def _discard(draft: Path, target: Path) -> None:
    """Remove a draft; where it holds what was in the target before, only what the target has."""
    with contextlib.suppress(OSError):  # the target is as it should be: nothing to tell the user
        if not draft.is_dir():
            draft.unlink(missing_ok=True)
        elif draft.name == f"{_prefix(target)}{draft.stat().st_ino}{SUFFIX}":
            shutil.rmtree(draft, ignore_errors=True)
        elif target.is_dir():
            clear_exchanged(draft, target)


def _remove_dead_drafts(target: Path, place: Path) -> None:
    """Remove what processes that were killed have left of the same target."""
    for path in place.iterdir():
        if path.name.startswith(_prefix(target)) and path.name.endswith(SUFFIX) and not path.is_symlink():
            held = _open_locked(path)
            if held is not None:
                _discard(path, target)
                os.close(held)


def _remove_empty(folders: list[Path]) -> None:
    with contextlib.suppress(OSError):
        for each in folders:
            each.rmdir()


# ---- the disk ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[bool]:
    """Keep other processes from putting anything in the folder meanwhile; gives whether that could be done."""
    held, until = None, time.monotonic() + PATIENCE
    own = folder.name.endswith(SUFFIX)  # a draft, locked by its only writer
    while held is None and fcntl is not None and not own:
        held = _open_locked(folder)
        if held is None and time.monotonic() > until:
            break  # one that does not move shall not stop this one
        if held is None:
            time.sleep(0.002)
    try:
        yield held is not None
    finally:
        if held is not None:
            fcntl.flock(held, fcntl.LOCK_UN)  # also for a process forked meanwhile
            os.close(held)


def _open_locked(path: Path) -> int | None:
    """Open and lock a file or folder; None where another process has locked it, or it cannot be locked."""
    if fcntl is None:
        return None
    handle = None
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        if handle is not None:
            os.close(handle)
        return None
    return handle


def _flush(path: Path) -> None:
    """Send a file or folder to the disk, where the file system can do that."""
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF):
            raise


def _refuse_stream(target: Path) -> None:
    """Refuse /dev/stdout and its like: what they lead to, a log that is appended to, would be replaced."""
    where = os.path.abspath(target)  # noqa: PTH100 (a Path would keep the ..)
    if where.startswith(("/dev/std", "/dev/fd/", "/proc/")):
        raise InputError(f"{str(target)!r} is not a plain file, and is not replaced. Use - for standard output.")


def _follow_links(target: Path) -> Path:
    try:
        found = Path(target).resolve()
        found.exists()  # whether it is a name that the system can look for
    except FileNotFoundError as error:
        raise InputError("The working folder is gone. Change to another folder, or give full paths.") from error
    except (OSError, RuntimeError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            raise InputError(f"{quote(str(target))} is too long a name. Choose a shorter one.") from error
        # links in a circle
        raise InputError(f"{str(target)!r} is a link that leads nowhere. Choose another place.") from error
    return found


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
