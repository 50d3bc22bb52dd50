"""Names that are probably one name written in two ways: noted, never merged."""

from __future__ import annotations

import unicodedata
import warnings
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.labels.errors import SHOWN, InputWarning, quote
from crowdwise.labels.string_encoder import Interner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.labels.crowd_labels import CrowdLabels

__all__ = ["twin_notes", "warn_of_twins"]

WHOLE = r"^[+]?(-?)0*([0-9]+?)(\.0*)?$"  # 1, 01, +1, 1. and 1.0 are one number


def warn_of_twins(labels: CrowdLabels, *, declared: bool) -> None:
    """Warn once of all twins; classes that the user declared are meant as they are."""
    notes = list(twin_notes(labels, declared=declared))
    if notes:
        warnings.warn(" ".join(notes), InputWarning, stacklevel=3)


def twin_notes(labels: CrowdLabels, *, declared: bool = False) -> Iterator[str]:
    """Sentences about tasks, workers and classes whose names hardly differ, with up to five pairs each."""
    columns = [("Tasks", labels.tasks), ("Workers", labels.workers)]
    for what, names in columns if declared else [*columns, ("Classes", labels.classes)]:
        pairs = find_twins(names)
        if pairs:
            shown = "; ".join(_show_difference(*pair) for pair in pairs[:SHOWN])
            more = f" and {len(pairs) - SHOWN:,} more" if len(pairs) > SHOWN else ""
            yield (
                f"{what} whose names differ only in case, blanks, Unicode form or the way a number is written may be "
                f"one: {shown}{more}. They are kept apart."
            )


def find_twins(names: pa.Array) -> list[tuple[str, str]]:
    r"""Pairs of names that are the same once normalised (NFKC, lower case, no blanks at the ends, 1.0 as 1).

    >>> find_twins(pa.array(["1", "ann", "Ann ", "bob", "1.0"]))
    [('1', '1.0'), ('ann', 'Ann ')]
    """
    if not pa.types.is_string(names.type):
        return []
    keys = _keys(names)
    if not _has_repeated_key(keys, names):
        return []
    counts = pc.value_counts(keys)
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    mask = pc.is_in(keys, value_set=repeated)
    first: dict[str, str] = {}
    pairs: dict[str, tuple[str, str]] = {}
    for key, name in zip(keys.filter(mask).to_pylist(), names.filter(mask).to_pylist(), strict=True):
        if key in first:
            pairs.setdefault(key, (first[key], name))
        else:
            first[key] = name
    return [pairs[key] for key in first]


def _keys(names: pa.Array) -> pa.Array:
    """Names with everything taken away that hardly anyone means as a difference."""
    if not pc.all(pc.string_is_ascii(names)).as_py():
        names = pc.utf8_normalize(names, form="NFKC")
    keys = pc.utf8_lower(pc.utf8_trim_whitespace(names))
    if not pc.any(pc.match_substring_regex(keys, WHOLE)).as_py():  # much faster than replacing
        return keys
    return pc.replace_substring_regex(keys, WHOLE, r"\1\2")


def _has_repeated_key(keys: pa.Array, names: pa.Array) -> bool:
    """Whether a key occurs twice. Names do not: where all are keys themselves, there is nothing to count."""
    if keys.equals(names):
        return False
    interner = Interner()
    interner.add(keys)
    return interner.count < len(keys)


def _show_difference(one: str, other: str) -> str:
    """Show two names so that they are seen to differ: code points where both look the same."""
    text = f"{quote(one)} and {quote(other)}"
    if unicodedata.normalize("NFKC", one) == unicodedata.normalize("NFKC", other):
        return text.encode("ascii", "backslashreplace").decode()
    return text
