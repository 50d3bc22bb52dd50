"""Where data sets are looked for on disk."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["VARIABLE", "find_file", "folders"]

VARIABLE = "CROWDWISE_DATA"


def folders() -> list[Path]:
    """List the folders that are searched, in order: $CROWDWISE_DATA, then the user's cache folder."""
    given = os.environ.get(VARIABLE)
    cache = os.environ.get("XDG_CACHE_HOME")
    parent = Path(cache) if cache and Path(cache).is_absolute() else Path.home() / ".cache"
    return ([Path(given).expanduser()] if given else []) + [parent / "crowdwise"]


def find_file(folder: Path, stem: str) -> Path | None:
    """Find `stem`.csv or `stem`.csv.gz in a folder."""
    for ending in (".csv", ".csv.gz"):
        file = folder / (stem + ending)
        if file.is_file():
            return file
    return None
