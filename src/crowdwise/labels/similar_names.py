"""Names that are probably one name written in two ways: noted, never merged."""

from __future__ import annotations

import re
import unicodedata
import warnings
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.labels.errors import SHOWN, InputWarning, listing, quote
from crowdwise.labels.string_encoder import Interner
from crowdwise.labels.unseen_characters import escape_letters
from crowdwise.labels.unseen_in_columns import drop_unseen, has_unusual_letters, text_bytes
from crowdwise.labels.vocabulary import as_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crowdwise.labels.crowd_labels import CrowdLabels

__all__ = ["name_notes", "twin_notes", "warn_of_missed_tasks", "warn_of_similar_names", "warn_of_twins"]

NUMBER = r"^[-+]?\.?[0-9][0-9.,]*$"
BARE_FRACTION = r"^([-+]?)\.([0-9])"  # .5 is 0.5
POWER_OF_TEN = r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]{1,2}\s*$"  # 1e3 is 1000
GROUPED = r"^[-+]?[0-9]{1,3}([ '’_\x{a0}\x{202f}][0-9]{3})+$"  # and so are 1 000, 1'000 and 1_000
FOREIGN_DIGIT = r"[^\P{Nd}0-9]"
MINUS = "\u2212"  # as typesetters write it
WHOLE = r"^[+]?(-?)0*([0-9]+?)(\.0*)?$"  # 1, 01, +1, 1. and 1.0 are one number
FRACTION = r"^[+]?(-?)0*([0-9]+\.[0-9]*[1-9])0*$"  # and so are 0.5 and 0.50
THOUSANDS = r"^[-+]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?$"
DECIMAL_COMMA = r"^([-+]?[0-9]+),([0-9]+)$"
SHORTENED = r"^[0-9](\.[0-9]+)?E\+[0-9]{2}$"  # 1.23E+15, as spreadsheets show 1234567890123456
# As R, pandas, spreadsheets and databases write no value, or one that could not be computed.
MISSING = r"(?i)^\s*(na|n/a|<na>|nan|nat|null|#(n/a|ref!|value!|div/0!|name\?|null!|num!))\s*$"
DIFFERENCES = "case, blanks, unseen characters, Unicode form or the way a value is written"


def warn_of_twins(labels: CrowdLabels, *, declared: bool) -> None:
    """Warn once of all twins; classes that the user declared are meant as they are."""
    notes = list(twin_notes(labels, declared=declared))
    if notes:
        warnings.warn(" ".join(notes), InputWarning, stacklevel=3)


def twin_notes(labels: CrowdLabels, *, declared: bool = False) -> Iterator[str]:
    """Sentences about tasks, workers and classes whose names hardly differ, with up to five pairs each."""
    columns = {"Tasks": labels.tasks, "Workers": labels.workers}
    return name_notes(columns if declared else {**columns, "Classes": labels.classes})


def warn_of_similar_names(columns: dict[str, pa.Array]) -> None:
    """Warn once of names that hardly differ, by what they name ("Workers")."""
    notes = list(name_notes(columns))
    if notes:
        warnings.warn(" ".join(notes), InputWarning, stacklevel=4)


def name_notes(columns: dict[str, pa.Array]) -> Iterator[str]:
    """Sentences about names of each sort that hardly differ, or look like no names."""
    for what, names in columns.items():
        pairs = find_twins(names, classes=what == "Classes")
        if pairs:
            shown = "; ".join(_show_difference(*pair) for pair in pairs[:SHOWN])
            more = f" and {len(pairs) - SHOWN:,} more" if len(pairs) > SHOWN else ""
            yield (f"{what} whose names differ only in {DIFFERENCES} may be one: {shown}{more}. They are kept apart.")
        missing = _find_missing_markers(names)
        if missing:
            yield (
                f"{what} whose names are what programs write where nothing is known ({listing(missing)}): they count "
                "like any other. Leave such rows out, or their cells empty, if no answer was given."
            )
        short = _find_shortened(names)
        if short:
            yield (
                f"{what} whose names look like long numbers that a spreadsheet has shortened ({listing(short)}): "
                "digits are lost, and several names may have become one. Export the column as text."
            )


def warn_of_missed_tasks(missed: pa.Array, tasks: pa.Array) -> None:
    """Warn of tasks that a table names in another way than the labels do, and that are left aside therefore."""
    missed, tasks = as_text(missed), as_text(tasks)
    if not len(missed) or not len(tasks):
        return
    found = pc.index_in(_keys(missed), value_set=_keys(tasks))
    hits = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
    if hits.size:
        pairs = [(missed[at].as_py(), tasks[found[at].as_py()].as_py()) for at in hits[:SHOWN].tolist()]
        more = f" and {hits.size - SHOWN:,} more" if hits.size > SHOWN else ""
        warnings.warn(
            f"Known truths of tasks whose names differ from those of the labels only in {DIFFERENCES} are left out: "
            f"{'; '.join(_show_difference(*pair) for pair in pairs)}{more}. Write them the same way.",
            InputWarning,
            stacklevel=3,
        )


def find_twins(names: pa.Array, *, classes: bool = False) -> list[tuple[str, str]]:
    r"""Pairs of names that are the same once normalised (NFKC, lower case, blanks and unseen characters, 1.0 as 1).

    Parameters
    ----------
    names
        Distinct names.
    classes
        Whether true is 1, false is 0 and 1e3 is 1000: names of tasks may be hexadecimal, and none of these.

    >>> find_twins(pa.array(["1", "ann", "Ann ", "bob", "1.0"]))
    [('1', '1.0'), ('ann', 'Ann ')]
    """
    if not pa.types.is_string(names.type):
        return []
    keys = _keys(_plain_numbers(names) if classes else names)
    if classes:
        keys = pc.replace_substring_regex(pc.replace_substring_regex(keys, "^true$", "1"), "^false$", "0")
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
        names = _plain_digits(pc.replace_substring(pc.utf8_normalize(names, form="NFKC"), MINUS, "-"))
    if _has_odd_blanks(names):
        names = drop_unseen(pc.replace_substring_regex(names, r"[\s\p{Z}]+", " "))
        names = pc.replace_substring_regex(names, r"[\x{fe0e}\x{fe0f}]", "")  # which emoji have, and may lose
    keys = pc.utf8_lower(pc.utf8_trim_whitespace(names))
    if not pc.any(pc.match_substring_regex(keys, NUMBER)).as_py():  # much faster than replacing
        return keys
    if pc.any(pc.match_substring(keys, ",")).as_py():
        plain = pc.replace_substring(keys, ",", "")
        keys = pc.if_else(pc.match_substring_regex(keys, THOUSANDS), plain, keys)
        keys = pc.replace_substring_regex(keys, DECIMAL_COMMA, r"\1.\2")
    if b"." in text_bytes(keys):  # looked at first: much faster than replacing
        keys = pc.replace_substring_regex(keys, BARE_FRACTION, r"\10.\2")
    keys = pc.replace_substring_regex(keys, WHOLE, r"\1\2")
    if pc.any(pc.match_substring(keys, ".")).as_py():
        keys = pc.replace_substring_regex(keys, FRACTION, r"\1\2")
    return pc.if_else(pc.equal(keys, "-0"), "0", keys)


def _plain_digits(names: pa.Array) -> pa.Array:
    """Digits of other scripts (Arabic, Devanagari) as 0 to 9."""

    def write_plain(name: str) -> str:
        return "".join(str(unicodedata.decimal(letter)) if letter.isdecimal() else letter for letter in name)

    return _change_matching(names, FOREIGN_DIGIT, write_plain)


def _plain_numbers(names: pa.Array) -> pa.Array:
    """Numbers without a power of ten and without marks between thousands."""
    names = _change_matching(names, POWER_OF_TEN, lambda name: f"{Decimal(name.strip()):f}")
    return _change_matching(names, GROUPED, lambda name: "".join(re.findall(r"[-+0-9]", name)))


def _change_matching(names: pa.Array, pattern: str, change: Callable[[str], str]) -> pa.Array:
    """The names, those that match changed one by one: they are few."""
    matches = pc.match_substring_regex(names, pattern)
    if not pc.any(matches).as_py():
        return names
    changed = pa.array([change(name) for name in names.filter(matches).to_pylist()], names.type)
    return pc.replace_with_mask(names, matches, changed)


def _has_odd_blanks(names: pa.Array) -> bool:
    """Whether there are controls or two blanks side by side, in bytes: much faster than text by text."""
    return has_unusual_letters(names) or b"  " in text_bytes(names)


def _find_missing_markers(names: pa.Array) -> list[str]:
    """Names such as NA and NULL."""
    if not pa.types.is_string(names.type):
        return []
    found: list[str] = names.filter(pc.match_substring_regex(names, MISSING)).to_pylist()
    return found


def _find_shortened(names: pa.Array) -> list[str]:
    """Names such as 1.23E+15."""
    if not pa.types.is_string(names.type) or b"E+" not in text_bytes(names):
        return []
    found: list[str] = names.filter(pc.match_substring_regex(names, SHORTENED)).to_pylist()
    return found


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
    return escape_letters(text)
