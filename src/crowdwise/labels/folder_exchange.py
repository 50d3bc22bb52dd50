"""A finished folder put in the place of another in one rename, and nothing lost that others keep in it."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from crowdwise.labels.errors import InputError

__all__ = ["clear_exchanged", "copy_permissions", "has_to_stay", "put_in_place", "refuse_clashes"]

AT_WORKING_DIRECTORY, EXCHANGE = -100, 2  # of Linux's renameat2; of macOS's renamex_np, 2 as well
MOST_LINKS = 10_000  # files of others in a folder: linking them takes a fifth of a second


def has_to_stay(target: Path) -> bool:
    """Whether a folder cannot be exchanged: a disk is mounted there, or this process works in it."""
    with contextlib.suppress(OSError):
        return target.is_mount() or Path.cwd().is_relative_to(target)
    return False


def refuse_clashes(draft: Path, target: Path) -> None:
    """Find what stands in the way before anything is moved."""
    for entry in draft.rglob("*"):
        place = target / entry.relative_to(draft)
        if place.exists() and place.is_dir() != entry.is_dir():
            kind = "a folder" if place.is_dir() else "not a folder"
            raise InputError(f"{str(place)!r} exists and is {kind}. Nothing was changed; choose another place.")


def put_in_place(draft: Path, target: Path) -> None:
    """Rename a finished folder to its place, in one step where that can be done."""
    if not os.path.lexists(target):
        try:
            draft.rename(target)
        except OSError:
            if not target.is_dir():  # otherwise another program has made it meanwhile
                raise
        else:
            return
    if draft.is_relative_to(target) or has_to_stay(target) or not _exchange_whole(draft, target):
        _rename_one_by_one(draft, target)


def _exchange_whole(draft: Path, target: Path) -> bool:
    """Exchange two folders once both hold the same files of others; False, and nothing changed, where it cannot be."""
    linked: dict[Path, int] = {}
    made: list[Path] = []
    try:
        _link_others(target, draft, linked, made)
        exchange(draft, target)
    except OSError:
        for path in linked:
            path.unlink()
        for path in reversed(made):
            path.rmdir()
        return False
    with contextlib.suppress(OSError):  # all is in place; what is left goes when the target is next written
        clear_exchanged(draft, target, {target / path.relative_to(draft): number for path, number in linked.items()})
    return True


def exchange(one: Path, other: Path) -> None:
    """Give two folders each other's names, in one step."""
    import ctypes

    library: Any = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None
    if hasattr(library, "renameat2"):  # Linux
        here = AT_WORKING_DIRECTORY
        failed = library.renameat2(here, os.fsencode(one), here, os.fsencode(other), EXCHANGE)
    elif hasattr(library, "renamex_np"):  # macOS
        failed = library.renamex_np(os.fsencode(one), os.fsencode(other), EXCHANGE)
    else:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(other))


def _link_others(old: Path, new: Path, linked: dict[Path, int], made: list[Path], *, fresh: bool = False) -> None:
    """Give the new folder what else is in the old one, and the same owner, permissions and attributes.

    Raises an OSError where that cannot be done. `linked` and `made` are told what was added.
    """
    if not os.access(old, os.W_OK | os.X_OK):  # it could not be removed afterwards
        raise PermissionError(errno.EACCES, "may not be written", str(old))
    with os.scandir(old) as entries:
        for entry in entries:
            path, place = Path(entry.path), new / entry.name
            if entry.is_dir(follow_symlinks=False):
                if path.is_mount():
                    raise OSError(errno.EXDEV, "a disk is mounted there")
                lacking = not place.exists()
                if lacking:
                    place.mkdir()
                    made.append(place)
                _link_others(path, place, linked, made, fresh=lacking)
            elif not os.path.lexists(place):
                if len(linked) + len(made) > MOST_LINKS:
                    raise OSError(errno.EMLINK, "too many files to link")
                os.link(path, place, follow_symlinks=False)
                linked[place] = place.lstat().st_ino
            elif entry.is_symlink():
                raise OSError(errno.EMLINK, "a link stays, and what it points to is replaced")
            else:
                copy_permissions(path, place)
    before, after = old.stat(), new.stat()
    if (before.st_uid, before.st_gid) != (after.st_uid, after.st_gid):
        os.chown(new, before.st_uid, before.st_gid)
    shutil.copystat(old, new)
    if not fresh:
        os.utime(new)  # some of its files are new


def clear_exchanged(old: Path, new: Path, linked: dict[Path, int] | None = None) -> None:
    """Remove a folder that was exchanged for another; what others put there meanwhile moves to the new one.

    `linked` are files that the new one was given, with their numbers on the disk: where the old one has another of that
    name, someone has replaced it since.
    """
    for _ in range(3):  # once more, if something came at the last moment
        for entry in os.scandir(old):
            path, place = Path(entry.path), new / entry.name
            if entry.is_dir(follow_symlinks=False) and place.is_dir():
                clear_exchanged(path, place, linked)
            elif not os.path.lexists(place) or entry.inode() != (linked or {}).get(place, entry.inode()):
                path.replace(place)
            else:
                path.unlink()
        with contextlib.suppress(OSError):
            old.rmdir()
            return


def _rename_one_by_one(draft: Path, target: Path) -> None:
    """Rename the files of a folder to their places; a file .json, which may describe the others, goes last."""
    moved: list[str] = []
    for entry in sorted(draft.iterdir(), key=lambda path: (path.suffix == ".json", path.name)):
        place = target / entry.name
        try:
            if entry.is_dir():
                put_in_place(entry, place.resolve())
            else:
                _replace_one(entry, place)
        except OSError as error:
            if not moved:
                raise
            raise InputError(
                f"Writing {str(place)!r} failed: {error.strerror or error}. Already replaced in {str(target)!r}: "
                f"{', '.join(moved)}. Write it again, or to another place."
            ) from error
        moved.append(entry.name)


def _replace_one(entry: Path, place: Path) -> None:
    if place.exists():
        copy_permissions(place, entry)
    if not place.is_symlink():
        entry.replace(place)
        return
    place = place.resolve()  # the link stays; what it points to may be on another disk
    handle, name = tempfile.mkstemp(dir=place.parent)
    os.close(handle)
    try:
        shutil.copy(entry, name)
        Path(name).replace(place)
    finally:
        Path(name).unlink(missing_ok=True)


def copy_permissions(old: Path, new: Path) -> None:
    """Give a file the permissions of the one that it replaces, and its owner where that is allowed."""
    before, after = old.stat(), new.stat()
    if (before.st_uid, before.st_gid) != (after.st_uid, after.st_gid):
        with contextlib.suppress(OSError):
            os.chown(new, before.st_uid, before.st_gid)
    new.chmod(before.st_mode & 0o777)
