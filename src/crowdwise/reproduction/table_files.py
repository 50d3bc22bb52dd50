"""Tables from files of TOML: those of `papers/`, or one of the user's own, with an error in words for what is wrong."""

from __future__ import annotations

import math
import tomllib
from dataclasses import MISSING, replace
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any

from crowdwise.fitting.parameter_checks import check_choice
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.reproduction.table_spec import (
    PARTS,
    Axis,
    Claim,
    Figure,
    Measure,
    Method,
    Note,
    Published,
    Setting,
    Table,
    X,
)
from crowdwise.reproduction.worker_removal import REMOVALS

__all__ = ["parse_table", "read_table", "table_names"]

PLACES = (*PARTS, "parameters", "let")  # where the values of an axis may go
HOW: dict[str, Any] = {
    "at": None,
    "by": 0.0,
    "apart": False,
    "over": "mean",
    "note": "",
}  # what makes no claim by itself
LISTS = ("settings", "methods", "published", "claims", "notes", "figures")
QUICK = (*PARTS, "settings", "methods", "axis", "seeds")
PAPERS = "papers"


def table_names() -> list[str]:
    """The tables that come with the package."""
    folder = resources.files(__package__) / PAPERS
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def read_table(name: str | Path) -> Table:
    """A table by its name, or from a file of TOML that describes one."""
    if str(name) in table_names():
        text = (resources.files(__package__) / PAPERS / f"{name}.toml").read_text(encoding="utf-8")
        return parse_table(text, str(name))
    path = Path(name)
    if path.suffix != ".toml":
        close = get_close_matches(str(name), table_names(), 1)
        hint = f" Did you mean {quote(close[0])}?" if close else ""
        raise InputError(
            f"There is no table {quote(str(name))}.{hint} Tables: {', '.join(table_names())}; or give a file of TOML."
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{quote(str(path))} cannot be read: {error}.") from error
    return parse_table(text, path.stem)


def parse_table(text: str, name: str) -> Table:
    """The table that a text of TOML describes."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"The table {quote(name)} is no TOML: {error}.") from error
    try:
        return _make_table(given, name)
    except InputError as error:
        raise InputError(f"The table {quote(name)}: {error}") from error


def _make_table(given: dict[str, Any], name: str) -> Table:
    for needed in ("title", "paper", "place", "about", "measures", "settings", "methods"):
        if needed not in given:
            raise InputError(f"{needed} is missing.")
    for name_of, kind in (("measures", dict), ("quick", dict), ("axis", dict), *((each, list) for each in LISTS)):
        if not isinstance(given.get(name_of, kind()), kind):
            raise InputError(f"{name_of} must be {'a table' if kind is dict else 'written as [[' + name_of + ']]'}.")
    settings = tuple(_make_entry(Setting, entry) for entry in given["settings"])
    methods = tuple(_make_entry(Method, entry) for entry in given["methods"])
    measures = {key: _make_entry(Measure, value) for key, value in given["measures"].items()}
    made = given | {
        "settings": settings,
        "methods": methods,
        "measures": measures,
        "axis": _make_entry(Axis, given["axis"]) if "axis" in given else None,
        "published": tuple(each for block in given.get("published", ()) for each in _read_published(block)),
        "claims": tuple(
            _make_entry(Claim, {"settings": [each.name for each in settings]} | entry)
            for entry in given.get("claims", ())
        ),
        "notes": tuple(_make_entry(Note, entry) for entry in given.get("notes", ())),
        "figures": tuple(_make_entry(Figure, entry) for entry in given.get("figures", ())),
    }
    table: Table = _make_entry(Table, {"name": name} | made)
    _check_names(table)
    _check_axis_seeds_and_claims(table)
    _check_quick(table.quick)
    return table


def _read_published(block: Any) -> list[Published]:
    """Cells of `values.SETTING.METHOD = [value, deviation]`; `x` for one place of the axis."""
    if not isinstance(block, dict) or not {"measure", "tolerance", "values"} <= set(block):
        raise InputError("published must have measure, tolerance and values.")
    strange = [key for key in block if key not in ("measure", "tolerance", "values", "x")]
    if strange:
        raise InputError(f"published has no field {quote(strange[0])}; it has measure, tolerance, values, x.")
    found = []
    for setting, row in (block["values"] if isinstance(block["values"], dict) else {"": None}).items():
        if not isinstance(row, dict):
            raise InputError("values of published must be written as SETTING.METHOD = [value, deviation].")
        for method, value in row.items():
            told = list(value) if isinstance(value, list) else [value, math.nan]
            if len(told) != 2 or not all(_has_type(each, "float") for each in told):
                raise InputError(f"{setting}.{method} of published is {quote(value)}; it must be [value, deviation].")
            shared = {name: block.get(name) for name in ("measure", "tolerance", "x")}
            cell = {"setting": setting, "method": method, "value": float(told[0]), "deviation": float(told[1])}
            found.append(_make_entry(Published, cell | {key: each for key, each in shared.items() if each is not None}))
    return found


def _make_entry(kind: Any, entry: dict[str, Any]) -> Any:
    what = kind.__name__.lower()
    if not isinstance(entry, dict):
        raise InputError(f"{what} must be a table of TOML, not {quote(entry)}.")
    fields = kind.__dataclass_fields__
    strange = [key for key in entry if key not in fields]
    if strange:
        raise InputError(f"{what} has no field {quote(strange[0])}; it has {', '.join(fields)}.")
    needed = (key for key, each in fields.items() if each.default is MISSING and each.default_factory is MISSING)
    missing = [key for key in needed if key not in entry]
    if missing:
        raise InputError(f"{what} is incomplete: {missing[0]} is missing.")
    made = {key: _lists_to_tuples(value) if key not in (*PARTS, "let") else value for key, value in entry.items()}
    for key, value in made.items():
        wanted = fields[key].type
        if not _has_type(value, wanted):
            raise InputError(f"{key} of {what} is {quote(entry[key])}; it must be {_type_in_words(wanted)}.")
    return kind(**made)


WORDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "X": "a number or a text",
    "dict[str, Any]": "a table",
    "dict[str, float]": "a table of numbers",
    "tuple[str, ...]": "a list of texts",
    "tuple[X, ...]": "a list of numbers or texts",
    "tuple[tuple[str, ...], ...]": "a list of lists of texts",
}


def _type_in_words(wanted: str) -> str:
    return WORDS[wanted.removesuffix(" | None")]


def _has_type(value: Any, wanted: str) -> bool:
    """Whether a value is of the kind that a field's annotation names; what this module has made itself always is."""
    wanted = wanted.removesuffix(" | None")
    if wanted.startswith("tuple[") and wanted in WORDS:
        inside = wanted.removeprefix("tuple[").removesuffix(", ...]")
        return isinstance(value, tuple) and all(_has_type(each, inside) for each in value)
    if wanted == "dict[str, float]":
        return isinstance(value, dict) and all(_has_type(each, "float") for each in value.values())
    plain = {"str": str, "int": int, "float": int | float, "bool": bool, "X": int | float | str, "dict[str, Any]": dict}
    if wanted in ("int", "float", "X") and isinstance(value, bool):
        return False
    return wanted not in plain or isinstance(value, plain[wanted])


def _lists_to_tuples(value: Any) -> Any:
    """Lists as tuples; what is inside dictionaries stays as it is, for it goes into jobs."""
    return tuple(_lists_to_tuples(each) for each in value) if isinstance(value, list | tuple) else value


def _check_names(table: Table) -> None:
    """Refuse cells, claims, notes and figures of settings, methods and measures that are not there."""
    settings = {each.name for each in table.settings}
    methods = {each.name for each in table.methods}
    told: list[Published | Note] = [*table.published, *table.notes]
    for cell in told:
        _check_known(cell.setting, settings, "setting")
        _check_known(cell.method, methods, "method")
        _check_known(cell.measure, set(table.measures), "measure")
    for claim in table.claims:
        _check_known(claim.measure, set(table.measures), "measure")
        for name in claim.settings:
            _check_known(name, settings, "setting")
        ordered = [each for group in claim.order for each in group]
        for name in (*claim.reaches, *claim.alike, *claim.beats, *claim.falls, *ordered):
            _check_known(name, methods, "method")
            if all(claim.measure not in table.measures_of(setting, name) for setting in claim.settings):
                raise InputError(f"The measure {quote(claim.measure)} is not asked of {quote(name)}.")
        for name in claim.beats.values():
            _check_known(name, set(table.measures), "measure")
    for figure in table.figures:
        if figure.kind == "lines":
            _check_known(figure.measure, set(table.measures), "measure")
        for name in figure.settings:
            _check_known(name, settings, "setting")
        for name in figure.methods:
            _check_known(name, methods, "method")
    for measure in table.measures.values():
        for name in measure.settings or ():
            _check_known(name, settings, "setting")
        for name in measure.methods or ():
            _check_known(name, methods, "method")
    for method in table.methods:
        for name in method.settings or ():
            _check_known(name, settings, "setting")
        if method.remove is not None:
            check_choice(f"remove of {quote(method.name)}", method.remove, tuple(REMOVALS))
    if len(settings) < len(table.settings) or len(methods) < len(table.methods):
        raise InputError("Two settings or two methods have the same name.")


def _check_axis_seeds_and_claims(table: Table) -> None:
    """Refuse what names cannot tell: no cells at all, places that the axis has not, claims that say nothing."""
    for what in ("measures", "settings", "methods"):
        if not getattr(table, what):
            raise InputError(f"There are no {what}.")
    check_choice("interval", table.interval, ("sd", "99 %"))
    if table.seeds < 1:
        raise InputError(f"seeds is {table.seeds}; it must be 1 or more.")
    values: tuple[X, ...] = () if table.axis is None else table.axis.values
    if table.axis is not None:
        for place in [table.axis.sets] if isinstance(table.axis.sets, str) else table.axis.sets:
            part, _, key = place.partition(".")
            if part not in PLACES or not key:
                named = ", ".join(f"{each}.NAME" for each in PLACES)
                raise InputError(f"sets of axis is {quote(place)}; it must be one of {named}.")
        if not values:
            raise InputError("values of axis is empty.")
    for claim in table.claims:
        if len(claim.order) == 1 or replace(claim, **HOW) == Claim(claim.says, claim.measure, claim.settings):
            raise InputError(
                f"The claim {quote(claim.says)} says nothing: it needs an order of two or more, or reaches."
            )
    asked = [x for each in table.settings for x in each.axis or ()] + [
        x for each in table.claims for x in each.at or ()
    ]
    told: list[Published | Note | Figure] = [*table.published, *table.notes, *table.figures]
    for x in (*asked, *(each.x for each in told)):
        if x is not None and x not in values:
            raise InputError(f"The axis has no value {quote(x)}; it has {listing(values) or 'none'}.")
    if table.axis is not None and any(each.x is None for each in table.published):
        raise InputError("published must say x, the value of the axis that it is for.")


def _check_quick(quick: dict[str, Any]) -> None:
    """Refuse what the small version cannot be told."""
    for key, value in quick.items():
        _check_known(key, set(QUICK), "field of quick")
        wanted = "int" if key == "seeds" else "dict[str, Any]" if key in PARTS else "tuple[X, ...]"
        if not _has_type(_lists_to_tuples(value), wanted):
            raise InputError(f"{key} of quick is {quote(value)}; it must be {_type_in_words(wanted)}.")


def _check_known(name: str | None, known: set[str], what: str) -> None:
    if name is not None and name not in known:
        raise InputError(f"There is no {what} {quote(name)}; there are {listing(sorted(known))}.")
