"""Where the labels of a command are, how to read them, and what the reader warns of."""

from __future__ import annotations

import csv
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from crowdwise.cli import console_tables
from crowdwise.labels.errors import InputError, InputWarning, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crowdwise.labels import CrowdLabels
    from crowdwise.labels.describe import Description
    from crowdwise.labels.times import TimedLabels

__all__ = ["Reading", "describe_files", "listed_names", "read", "read_timed"]


@dataclass(frozen=True)
class Reading:
    """Where the labels are and how to read them; `source` is one file, or several."""

    source: str | Sequence[str]
    task: str | None = None
    worker: str | None = None
    label: str | None = None
    classes: str | None = None
    on_duplicate: Any = "error"
    time: str | None = None
    kind: Any = None
    outer: Any = None

    @property
    def files(self) -> list[str]:
        """The files, one by one."""
        return [self.source] if isinstance(self.source, str) else list(self.source)

    def options(self) -> dict[str, Any]:
        """Give the same to `read_labels`."""
        columns = {"task": self.task, "worker": self.worker, "label": self.label, "on_duplicate": self.on_duplicate}
        plain = {name: None if value is None else str(value) for name, value in self._shape().items()}
        return columns | plain | {"classes": None if self.classes is None else listed_names(self.classes)}

    def _shape(self) -> dict[str, Any]:
        return {"kind": self.kind, "outer": self.outer}

    def words(self) -> list[str]:
        """Give the same on a command line."""
        options = {
            "--task-column": self.task,
            "--worker-column": self.worker,
            "--label-column": self.label,
            "--classes": self.classes,
            "--on-duplicate": None if self.on_duplicate == "error" else self.on_duplicate,
            "--time-column": self.time,
            **{f"--{name}": value for name, value in self._shape().items()},
        }
        given = [[option, str(value)] for option, value in options.items() if value is not None]
        return [*self.files, *(word for pair in given for word in pair)]


def read(reading: Reading) -> CrowdLabels:
    """Read labels as the options say; what is doubtful about them is said on standard error."""
    from crowdwise.labels import read_labels

    labels: CrowdLabels = _read_saying(lambda: read_labels(reading.files, **reading.options()))
    return labels


def read_timed(reading: Reading) -> TimedLabels:
    """Read labels and their times as the options say; what is doubtful about them is said on standard error."""
    from crowdwise.labels.times import read_timed_labels

    timed: TimedLabels = _read_saying(lambda: read_timed_labels(reading.files, time=reading.time, **reading.options()))
    return timed


def describe_files(reading: Reading) -> Description:
    """Describe labels; those that look like values as well, which is said among the warnings."""
    from crowdwise.labels import read_labels

    labels, notes = _heard(lambda: read_labels(reading.files, **reading.options() | {"kind": "labels"}))
    found: Description = labels.describe()
    told = " ".join(found.warnings)
    return replace(found, warnings=[*(note for note in notes if note not in told), *found.warnings])


def _read_saying(read: Callable[[], Any]) -> Any:

    labels, notes = _heard(read)
    console_tables.notes(console_tables.page(stderr=True), notes)
    return labels


def _heard(read: Callable[[], Any]) -> tuple[Any, list[str]]:
    """What was read, and what the reader warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InputWarning)
        labels = read()
    for other in caught:
        if not issubclass(other.category, InputWarning):
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    ours = [str(each.message) for each in caught if issubclass(each.category, InputWarning)]
    return labels, list(dict.fromkeys(ours))


def listed_names(given: str, option: str = "--classes") -> list[str]:
    """Split names at commas; a name with a comma stands in double quotes, as in CSV."""
    try:
        names = next(csv.reader([given], skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        raise InputError(f"{option} {quote(given)} cannot be read as a list of names: {error}.") from error
    if not names or not all(name.strip() for name in names):
        raise InputError(f"{option} {quote(given)} holds an empty name. Give names with commas between: cat,dog.")
    return [name.strip() for name in names]
