"""A table or figure of a paper as data: what to run, what was published, what the paper says of it.

A file of TOML in `papers/`, or one of the user's own. `Table.jobs` gives its runs, each a plain dictionary that says
everything that the run depends on; a run is known by the digest of it.
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from dataclasses import MISSING, dataclass, field, replace
from difflib import get_close_matches
from functools import reduce
from importlib import resources
from pathlib import Path
from typing import Any

from crowdwise.labels.errors import InputError, listed, quoted

__all__ = ["Claim", "Figure", "Measure", "Method", "Note", "Published", "Setting", "Table", "digest", "names", "read"]

PARTS = ("data", "crowd", "training")  # what the table, a setting, a method and `quick` may each say something of
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
Job = dict[str, Any]
X = float | str


@dataclass(frozen=True)
class Measure:
    """A number of each run: how it is called, what it is multiplied with to be as printed, and which is better."""

    title: str
    times: float = 1.0
    better: str = "more"
    digits: int = 2

    def __post_init__(self) -> None:
        _choice("better", self.better, ("more", "less"))


@dataclass(frozen=True)
class Setting:
    """A column of the table: what it changes of data, crowd and training."""

    name: str
    data: dict[str, Any] = field(default_factory=dict)
    crowd: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    let: dict[str, Any] = field(default_factory=dict)  # what "$name" stands for
    axis: tuple[X, ...] | None = None  # values of the axis that it has, if not all


@dataclass(frozen=True)
class Method:
    """A row of the table: a learner or an aggregator by its slug, and its parameters."""

    name: str
    learner: str | None = None
    aggregator: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    crowd: dict[str, Any] = field(default_factory=dict)
    settings: tuple[str, ...] | None = None  # those that it is run in, if not all
    seeds: int | None = None  # most that are run, if fewer than the table's

    def __post_init__(self) -> None:
        if (self.learner is None) == (self.aggregator is None):
            raise InputError(f"The method {quoted(self.name)} must have either a learner or an aggregator.")


@dataclass(frozen=True)
class Axis:
    """What a figure varies: a name, the values, and what they set.

    `sets` is the place that the values go to, such as "crowd.skill"; or several places, each with a list of what goes
    there, one for each value.
    """

    name: str
    sets: str | dict[str, list[Any]]
    values: tuple[X, ...]

    def __post_init__(self) -> None:
        for place, given in self.sets.items() if isinstance(self.sets, dict) else ():
            if not isinstance(given, list) or len(given) != len(self.values):
                raise InputError(f"axis.sets: {quoted(place)} must have a list of {len(self.values)} values.")

    def only(self, values: tuple[X, ...]) -> Axis:
        """The same with some of its values."""
        places = [self.values.index(x) for x in values]
        if isinstance(self.sets, str):
            return replace(self, values=values)
        return Axis(self.name, {place: [given[at] for at in places] for place, given in self.sets.items()}, values)

    def at(self, x: X) -> dict[str, Any]:
        """What goes where at one of the values."""
        if isinstance(self.sets, str):
            return {self.sets: x}
        return {place: given[self.values.index(x)] for place, given in self.sets.items()}


@dataclass(frozen=True)
class Published:
    """A number of the paper, as printed, and its standard deviation, where it has one."""

    setting: str
    method: str
    measure: str
    value: float
    deviation: float
    tolerance: float
    x: X | None = None


@dataclass(frozen=True)
class Claim:
    """What the paper says in words, or a bar.

    An order of methods; the least (most) that a method reaches; the most that its numbers differ between settings
    (`alike`); another measure, in which the method is worse than in this one (`beats`); methods that get worse along
    the axis (`falls`), from the first of `at`, or of the axis, to the last.
    """

    says: str
    measure: str
    settings: tuple[str, ...]
    at: tuple[X, ...] | None = None
    order: tuple[tuple[str, ...], ...] = ()
    falls: tuple[str, ...] = ()
    by: float = 0.0
    apart: bool = False  # whether the intervals must not overlap
    over: str = "mean"  # of the seeds, or "worst"
    reaches: dict[str, float] = field(default_factory=dict)
    alike: dict[str, float] = field(default_factory=dict)
    beats: dict[str, str] = field(default_factory=dict)
    note: str = ""  # what was tried, where it does not hold

    def __post_init__(self) -> None:
        _choice("over", self.over, ("mean", "worst"))


@dataclass(frozen=True)
class Note:
    """Why cells differ, and what was tried; a field that is left out stands for all of its kind."""

    text: str
    setting: str | None = None
    method: str | None = None
    measure: str | None = None
    x: X | None = None


@dataclass(frozen=True)
class Figure:
    """A picture: "lines" over the axis, "curves" over the epochs, or "matrices", the true ones and those recovered."""

    kind: str
    title: str
    settings: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    measure: str = "accuracy"
    x: X | None = None

    def __post_init__(self) -> None:
        _choice("kind", self.kind, ("lines", "curves", "matrices"))

    def shows(self, setting: str, method: str, x: X | None) -> bool:
        """Whether a cell is in the picture; what is not named stands for all."""
        return (
            (not self.settings or setting in self.settings)
            and (not self.methods or method in self.methods)
            and (self.x is None or self.x == x)
        )


@dataclass(frozen=True)
class Table:
    """One table, or figures that share their runs."""

    name: str
    title: str
    paper: str
    place: str
    about: str
    measures: dict[str, Measure]
    settings: tuple[Setting, ...]
    methods: tuple[Method, ...]
    seeds: int = 3
    interval: str = "sd"  # or "99 %"
    differs: tuple[str, ...] = ()
    data: dict[str, Any] = field(default_factory=dict)
    crowd: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    let: dict[str, Any] = field(default_factory=dict)
    axis: Axis | None = None
    published: tuple[Published, ...] = ()
    claims: tuple[Claim, ...] = ()
    notes: tuple[Note, ...] = ()
    figures: tuple[Figure, ...] = ()
    quick: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)  # of a small version: what they say counts last

    def quickened(self) -> Table:
        """The small version, which runs in minutes on two cores: same methods, fewer tasks, epochs and seeds."""
        own = self.quick
        axis = self.axis and self.axis.only(tuple(own.get("axis", self.axis.values)))
        return replace(
            self,
            axis=axis,
            settings=tuple(each for each in self.settings if each.name in own.get("settings", [each.name])),
            methods=tuple(each for each in self.methods if each.name in own.get("methods", [each.name])),
            seeds=own.get("seeds", 1),
            limits={part: own[part] for part in PARTS if part in own},
        )

    def jobs(self, methods: list[str] | None = None, seeds: int | None = None) -> list[Job]:
        """Every run, seed by seed, so that what is stopped early has all methods; `methods` by name."""
        known = [method.name for method in self.methods]
        for name in methods or ():
            if name not in known:
                raise InputError(f"{self.name} has no method {quoted(name)}; it has {', '.join(known)}.")
        most = self.seeds if seeds is None else seeds
        return [
            self._job(setting, x, method, seed)
            for seed in range(most)
            for setting in self.settings
            for x in self._values(setting)
            for method in self.methods
            if (methods is None or method.name in methods)
            and (method.settings is None or setting.name in method.settings)
            and (method.seeds is None or seed < method.seeds)
        ]

    def _values(self, setting: Setting) -> tuple[X | None, ...]:
        if self.axis is None:
            return (None,)
        return tuple(x for x in self.axis.values if setting.axis is None or x in setting.axis)

    def _job(self, setting: Setting, x: X | None, method: Method, seed: int) -> Job:
        job: Job = {}
        for part in PARTS:
            layers = (getattr(self, part), getattr(setting, part), getattr(method, part, {}), self.limits.get(part, {}))
            job[part] = reduce(dict.__or__, layers)
        parameters = dict(method.parameters)
        let = self.let | setting.let
        for place, value in self.axis.at(x).items() if x is not None and self.axis is not None else ():
            part, _, key = place.partition(".")
            ({"parameters": parameters, "let": let} | job)[part][key] = value
        job = {part: _replaced(value, let) for part, value in job.items()}
        parameters = _replaced(parameters, let)
        kind = "learner" if method.learner is not None else "aggregator"
        job["model"] = {"kind": kind, "slug": method.learner or method.aggregator} | parameters
        job["seed"] = seed
        job["measures"] = list(self.measures)
        job["keep"] = [
            what
            for kind, what in (("curves", "history"), ("matrices", "confusion"))
            if any(figure.kind == kind and figure.shows(setting.name, method.name, x) for figure in self.figures)
            and (kind == "curves" or seed == 0)
        ]
        cell = {"table": self.name, "setting": setting.name, "x": x, "method": method.name, "seed": seed}
        return {"cell": cell, "digest": digest(job), "run": job}


def _replaced(value: Any, let: dict[str, Any]) -> Any:
    """The same with what "$name" stands for, at any depth."""
    if isinstance(value, dict):
        return {key: _replaced(each, let) for key, each in value.items()}
    if not isinstance(value, str) or not value.startswith("$"):
        return value
    if value[1:] not in let:
        raise InputError(f"Nothing says what {quoted(value)} stands for; `let` has {listed(sorted(let))}.")
    return let[value[1:]]


def digest(job: Job) -> str:
    """What a run is known by: everything that its numbers depend on, and nothing else."""
    known = {name: value for name, value in job.items() if name not in ("keep", "measures")}
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:16]


def names() -> list[str]:
    """The tables that come with the package."""
    folder = resources.files(__package__) / PAPERS
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def read(name: str | Path) -> Table:
    """A table by its name, or from a file of TOML that describes one."""
    if str(name) in names():
        text = (resources.files(__package__) / PAPERS / f"{name}.toml").read_text(encoding="utf-8")
        return parsed(text, str(name))
    path = Path(name)
    if path.suffix != ".toml":
        close = get_close_matches(str(name), names(), 1)
        hint = f" Did you mean {quoted(close[0])}?" if close else ""
        raise InputError(
            f"There is no table {quoted(str(name))}.{hint} Tables: {', '.join(names())}; or give a file of TOML."
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{quoted(str(path))} cannot be read: {error}.") from error
    return parsed(text, path.stem)


def parsed(text: str, name: str) -> Table:
    """The table that a text of TOML describes."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"The table {quoted(name)} is no TOML: {error}.") from error
    try:
        return _table(given, name)
    except InputError as error:
        raise InputError(f"The table {quoted(name)}: {error}") from error


def _table(given: dict[str, Any], name: str) -> Table:
    for needed in ("title", "paper", "place", "about", "measures", "settings", "methods"):
        if needed not in given:
            raise InputError(f"{needed} is missing.")
    for name_of, kind in (("measures", dict), ("quick", dict), ("axis", dict), *((each, list) for each in LISTS)):
        if not isinstance(given.get(name_of, kind()), kind):
            raise InputError(f"{name_of} must be {'a table' if kind is dict else 'written as [[' + name_of + ']]'}.")
    settings = tuple(_made(Setting, entry) for entry in given["settings"])
    methods = tuple(_made(Method, entry) for entry in given["methods"])
    measures = {key: _made(Measure, value) for key, value in given["measures"].items()}
    made = given | {
        "settings": settings,
        "methods": methods,
        "measures": measures,
        "axis": _made(Axis, given["axis"]) if "axis" in given else None,
        "published": tuple(each for block in given.get("published", ()) for each in _published(block)),
        "claims": tuple(
            _made(Claim, {"settings": [each.name for each in settings]} | entry) for entry in given.get("claims", ())
        ),
        "notes": tuple(_made(Note, entry) for entry in given.get("notes", ())),
        "figures": tuple(_made(Figure, entry) for entry in given.get("figures", ())),
    }
    table: Table = _made(Table, {"name": name} | made)
    _check_names(table)
    _check_numbers(table)
    _check_quick(table.quick)
    return table


def _published(block: Any) -> list[Published]:
    """Cells of `values.SETTING.METHOD = [value, deviation]`; `x` for one place of the axis."""
    if not isinstance(block, dict) or not {"measure", "tolerance", "values"} <= set(block):
        raise InputError("published must have measure, tolerance and values.")
    strange = [key for key in block if key not in ("measure", "tolerance", "values", "x")]
    if strange:
        raise InputError(f"published has no field {quoted(strange[0])}; it has measure, tolerance, values, x.")
    found = []
    for setting, row in (block["values"] if isinstance(block["values"], dict) else {"": None}).items():
        if not isinstance(row, dict):
            raise InputError("values of published must be written as SETTING.METHOD = [value, deviation].")
        for method, value in row.items():
            told = list(value) if isinstance(value, list) else [value, math.nan]
            if len(told) != 2 or not all(_fits(each, "float") for each in told):
                raise InputError(f"{setting}.{method} of published is {quoted(value)}; it must be [value, deviation].")
            shared = {name: block.get(name) for name in ("measure", "tolerance", "x")}
            cell = {"setting": setting, "method": method, "value": float(told[0]), "deviation": float(told[1])}
            found.append(_made(Published, cell | {key: each for key, each in shared.items() if each is not None}))
    return found


def _made(kind: Any, entry: dict[str, Any]) -> Any:
    what = kind.__name__.lower()
    if not isinstance(entry, dict):
        raise InputError(f"{what} must be a table of TOML, not {quoted(entry)}.")
    fields = kind.__dataclass_fields__
    strange = [key for key in entry if key not in fields]
    if strange:
        raise InputError(f"{what} has no field {quoted(strange[0])}; it has {', '.join(fields)}.")
    needed = (key for key, each in fields.items() if each.default is MISSING and each.default_factory is MISSING)
    missing = [key for key in needed if key not in entry]
    if missing:
        raise InputError(f"{what} is incomplete: {missing[0]} is missing.")
    made = {key: _frozen(value) if key not in (*PARTS, "let") else value for key, value in entry.items()}
    for key, value in made.items():
        wanted = fields[key].type
        if not _fits(value, wanted):
            raise InputError(f"{key} of {what} is {quoted(entry[key])}; it must be {_in_words(wanted)}.")
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


def _in_words(wanted: str) -> str:
    return WORDS[wanted.removesuffix(" | None")]


def _fits(value: Any, wanted: str) -> bool:
    """Whether a value is of the kind that a field's annotation names; what this module has made itself always is."""
    wanted = wanted.removesuffix(" | None")
    if wanted.startswith("tuple[") and wanted in WORDS:
        inside = wanted.removeprefix("tuple[").removesuffix(", ...]")
        return isinstance(value, tuple) and all(_fits(each, inside) for each in value)
    if wanted == "dict[str, float]":
        return isinstance(value, dict) and all(_fits(each, "float") for each in value.values())
    plain = {"str": str, "int": int, "float": int | float, "bool": bool, "X": int | float | str, "dict[str, Any]": dict}
    if wanted in ("int", "float", "X") and isinstance(value, bool):
        return False
    return wanted not in plain or isinstance(value, plain[wanted])


def _frozen(value: Any) -> Any:
    """Lists as tuples; what is inside dictionaries stays as it is, for it goes into jobs."""
    return tuple(_frozen(each) for each in value) if isinstance(value, list | tuple) else value


def _check_names(table: Table) -> None:
    """Refuse cells, claims, notes and figures of settings, methods and measures that are not there."""
    settings = {each.name for each in table.settings}
    methods = {each.name for each in table.methods}
    told: list[Published | Note] = [*table.published, *table.notes]
    for cell in told:
        _known(cell.setting, settings, "setting")
        _known(cell.method, methods, "method")
        _known(cell.measure, set(table.measures), "measure")
    for claim in table.claims:
        _known(claim.measure, set(table.measures), "measure")
        for name in claim.settings:
            _known(name, settings, "setting")
        ordered = [each for group in claim.order for each in group]
        for name in (*claim.reaches, *claim.alike, *claim.beats, *claim.falls, *ordered):
            _known(name, methods, "method")
        for name in claim.beats.values():
            _known(name, set(table.measures), "measure")
    for figure in table.figures:
        if figure.kind == "lines":
            _known(figure.measure, set(table.measures), "measure")
        for name in figure.settings:
            _known(name, settings, "setting")
        for name in figure.methods:
            _known(name, methods, "method")
    for method in table.methods:
        for name in method.settings or ():
            _known(name, settings, "setting")
    if len(settings) < len(table.settings) or len(methods) < len(table.methods):
        raise InputError("Two settings or two methods have the same name.")


def _check_numbers(table: Table) -> None:
    """Refuse what names cannot tell: no cells at all, places that the axis has not, claims that say nothing."""
    for what in ("measures", "settings", "methods"):
        if not getattr(table, what):
            raise InputError(f"There are no {what}.")
    _choice("interval", table.interval, ("sd", "99 %"))
    if table.seeds < 1:
        raise InputError(f"seeds is {table.seeds}; it must be 1 or more.")
    values: tuple[X, ...] = () if table.axis is None else table.axis.values
    if table.axis is not None:
        for place in [table.axis.sets] if isinstance(table.axis.sets, str) else table.axis.sets:
            part, _, key = place.partition(".")
            if part not in PLACES or not key:
                named = ", ".join(f"{each}.NAME" for each in PLACES)
                raise InputError(f"sets of axis is {quoted(place)}; it must be one of {named}.")
        if not values:
            raise InputError("values of axis is empty.")
    for claim in table.claims:
        if len(claim.order) == 1 or replace(claim, **HOW) == Claim(claim.says, claim.measure, claim.settings):
            raise InputError(
                f"The claim {quoted(claim.says)} says nothing: it needs an order of two or more, or reaches."
            )
    asked = [x for each in table.settings for x in each.axis or ()] + [
        x for each in table.claims for x in each.at or ()
    ]
    told: list[Published | Note | Figure] = [*table.published, *table.notes, *table.figures]
    for x in (*asked, *(each.x for each in told)):
        if x is not None and x not in values:
            raise InputError(f"The axis has no value {quoted(x)}; it has {listed(values) or 'none'}.")
    if table.axis is not None and any(each.x is None for each in table.published):
        raise InputError("published must say x, the value of the axis that it is for.")


def _check_quick(quick: dict[str, Any]) -> None:
    """Refuse what the small version cannot be told."""
    for key, value in quick.items():
        _known(key, set(QUICK), "field of quick")
        wanted = "int" if key == "seeds" else "dict[str, Any]" if key in PARTS else "tuple[X, ...]"
        if not _fits(_frozen(value), wanted):
            raise InputError(f"{key} of quick is {quoted(value)}; it must be {_in_words(wanted)}.")


def _known(name: str | None, known: set[str], what: str) -> None:
    if name is not None and name not in known:
        raise InputError(f"There is no {what} {quoted(name)}; there are {listed(sorted(known))}.")


def _choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(f"{name} is {quoted(value)}; it must be one of {', '.join(allowed)}.")
