"""Tables out, in the kind that came in; files written beside and renamed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.labels.types import TableKind

__all__ = ["native_table", "written_folder"]


def native_table(columns: dict[str, Any], kind: TableKind) -> Any:
    """A table of the given kind from Arrow or NumPy columns."""
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    if kind == "pandas":
        return table.to_pandas()
    if kind == "polars":
        import polars

        return polars.from_arrow(table)
    return table


@contextlib.contextmanager
def written_folder(target: Path) -> Iterator[Path]:
    """A new folder beside `target` that takes its place once all is written; on failure nothing changes."""
    target = Path(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise InputError(f"Cannot write in {str(target.parent)!r}: {error.strerror}. Choose another place.") from error
    try:
        draft.chmod(0o777 & ~_umask())
        yield draft
        _move_in(draft, target)
    except OSError as error:
        raise InputError(
            f"Writing {str(target)!r} failed: {error.strerror or error}. Nothing was changed; free some space or choose "
            "another place."
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _move_in(draft: Path, target: Path) -> None:
    """Rename a finished draft to its place; in a folder that exists, only the files of the same name give way."""
    if not target.exists():
        draft.rename(target)
        return
    if not target.is_dir():
        raise InputError(f"{str(target)!r} exists and is not a folder. Choose another name.")
    for entry in draft.iterdir():
        if entry.is_dir():
            _move_in(entry, target / entry.name)
        else:
            entry.replace(target / entry.name)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
