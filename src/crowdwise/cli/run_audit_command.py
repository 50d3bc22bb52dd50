"""The audit that `audit` shows and `report` draws."""

from __future__ import annotations

import warnings
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from crowdwise.cli.fitted_model_output import note_missing_structure, print_notes_to_stderr
from crowdwise.cli.label_files import announce_compilation, read_task_items, split_names
from crowdwise.labels.errors import InputError, listing

if TYPE_CHECKING:
    import pyarrow as pa

    from crowdwise.audit.audit import Audit
    from crowdwise.cli.label_files import LabelFiles
    from crowdwise.cli.options import AuditOptions
    from crowdwise.labels.times import TimedLabels
    from crowdwise.report.task_items import TaskItems

__all__ = ["run_audit"]


def run_audit(files: LabelFiles, timed: TimedLabels, options: AuditOptions) -> tuple[Audit, TaskItems | None]:
    """The audit of labels, with their times if they have any, and what their tasks show."""
    from crowdwise.audit.audit import audit_crowd
    from crowdwise.audit.finding_types import Screen
    from crowdwise.fitting.em import StillImproving
    from crowdwise.registry import method

    if not 0 < options.level < 1:  # not a number is neither
        raise InputError("--level must lie between 0 and 1, both excluded.")
    if [*files.files, *options.files].count("-") > 1:
        raise InputError("Only one of LABELS and the files of options can be standard input (-).")
    announce_compilation(timed.labels)
    print_notes_to_stderr(note_missing_structure([options.method], "crowdwise aggregate --{}"))
    given = asdict(options) | {"trusted": _find_trusted(options.trusted, timed.labels.workers)}
    items = read_task_items(given.pop("items"), timed.labels, files)
    for name in ("truth", "gold", "task_attributes", "worker_attributes"):
        given[name] = files.open_side_table(given[name], has_labels=name in ("truth", "gold"))
    if options.gold is None:
        given["gold"] = files.find_gold(method(options.method).load())
    given["random_state"] = given.pop("seed")
    del given["engine"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StillImproving)  # said as a note
        found = audit_crowd(timed.labels, time=timed.time, **given)
    if timed.why_not:
        found = replace(found, screens=(*found.screens, Screen("drift", skipped=timed.why_not)))
    return found, items


def _find_trusted(given: str | None, workers: pa.Array) -> list[Any] | None:
    """The workers named on the command line, as the labels have them."""
    if given is None:
        return None
    known = {str(name): name for name in workers.to_pylist()}
    names = split_names(given, "--trusted")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(
            f"--trusted: no worker of these labels is called {listing(unknown)}; there are {listing(known)}."
        )
    return [known[name] for name in names]
