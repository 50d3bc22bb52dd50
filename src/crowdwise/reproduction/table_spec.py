"""A table or figure of a paper as data: what to run, what was published, what the paper says of it.

`Table.jobs` gives its runs, each a plain dictionary that says everything that the run depends on; a run is known by the
digest of it. `reading` makes tables from files of TOML.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from crowdwise.fitting.parameter_checks import check_choice
from crowdwise.labels.errors import InputError, listing, quote

__all__ = [
    "PARTS",
    "Axis",
    "Claim",
    "Figure",
    "Job",
    "Measure",
    "Method",
    "Note",
    "Published",
    "Setting",
    "Table",
    "X",
    "job_digest",
]

PARTS = ("data", "crowd", "training")  # what the table, a setting, a method and `quick` may each say something of
Job = dict[str, Any]
X = float | str


@dataclass(frozen=True)
class Measure:
    """A number of each run: how it is called, what it is multiplied with to be as printed, and which is better."""

    title: str
    times: float = 1.0
    better: str = "more"
    digits: int = 2
    settings: tuple[str, ...] | None = None  # those that have it, if not all
    methods: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_choice("better", self.better, ("more", "less"))


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
    """A row of the table: a learner or an aggregator by its slug, its parameters, and who is left out before."""

    name: str
    learner: str | None = None
    aggregator: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    crowd: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    fit: dict[str, Any] = field(default_factory=dict)  # what an aggregator is told besides the labels
    remove: str | None = None  # the workers whose labels it does not see: a name of `worker_removal`
    settings: tuple[str, ...] | None = None  # those that it is run in, if not all
    seeds: int | None = None  # most that are run, if fewer than the table's
    proposed: bool = False  # whether the paper proposes it; otherwise it is a baseline

    def __post_init__(self) -> None:
        if (self.learner is None) == (self.aggregator is None):
            raise InputError(f"The method {quote(self.name)} must have either a learner or an aggregator.")


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
                raise InputError(f"axis.sets: {quote(place)} must have a list of {len(self.values)} values.")

    def keep_only(self, values: tuple[X, ...]) -> Axis:
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
        check_choice("over", self.over, ("mean", "worst"))


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
        check_choice("kind", self.kind, ("lines", "curves", "matrices"))

    def includes_cell(self, setting: str, method: str, x: X | None) -> bool:
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

    def quick_version(self) -> Table:
        """The small version, which runs in minutes on two cores: same methods, fewer tasks, epochs and seeds."""
        own = self.quick
        axis = self.axis and self.axis.keep_only(tuple(own.get("axis", self.axis.values)))
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
                raise InputError(f"{self.name} has no method {quote(name)}; it has {', '.join(known)}.")
        most = self.seeds if seeds is None else seeds
        return [
            self._job(setting, x, method, seed)
            for seed in range(most)
            for setting in self.settings
            for x in self._axis_values(setting)
            for method in self.methods
            if (methods is None or method.name in methods)
            and (method.settings is None or setting.name in method.settings)
            and (method.seeds is None or seed < method.seeds)
        ]

    def measures_of(self, setting: str, method: str) -> list[str]:
        """The measures that a cell has."""
        return [
            name
            for name, each in self.measures.items()
            if (each.settings is None or setting in each.settings) and (each.methods is None or method in each.methods)
        ]

    def _axis_values(self, setting: Setting) -> tuple[X | None, ...]:
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
        job = {part: _substitute_variables(value, let) for part, value in job.items()}
        parameters = _substitute_variables(parameters, let)
        kind = "learner" if method.learner is not None else "aggregator"
        job["model"] = {"kind": kind, "slug": method.learner or method.aggregator} | parameters
        if method.fit:
            job["fit"] = method.fit
        if method.remove is not None:
            job["remove"] = method.remove
        job["seed"] = seed
        job["measures"] = self.measures_of(setting.name, method.name)
        job["keep"] = [
            what
            for kind, what in (("curves", "history"), ("matrices", "confusion"))
            if any(
                figure.kind == kind and figure.includes_cell(setting.name, method.name, x) for figure in self.figures
            )
            and (kind == "curves" or seed == 0)
        ]
        cell = {"table": self.name, "setting": setting.name, "x": x, "method": method.name, "seed": seed}
        return {"cell": cell, "digest": job_digest(job), "run": job}


def _substitute_variables(value: Any, let: dict[str, Any]) -> Any:
    """The same with what "$name" stands for, at any depth."""
    if isinstance(value, dict):
        return {key: _substitute_variables(each, let) for key, each in value.items()}
    if not isinstance(value, str) or not value.startswith("$"):
        return value
    if value[1:] not in let:
        raise InputError(f"Nothing says what {quote(value)} stands for; `let` has {listing(sorted(let))}.")
    return let[value[1:]]


def job_digest(job: Job) -> str:
    """What a run is known by: everything that its numbers depend on, and nothing else."""
    known = {name: value for name, value in job.items() if name not in ("keep", "measures")}
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:16]
