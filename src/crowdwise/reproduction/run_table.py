"""Running a table: what is not there yet, several runs at once, a line of JSON for each as it ends."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any

from crowdwise.fitting.progress_bar import show_progress_of
from crowdwise.labels.errors import CrowdwiseError, InputError, quote
from crowdwise.reproduction.one_run import run_job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from crowdwise.reproduction.table_spec import Job, Table

__all__ = ["pending_jobs", "read_rows", "run_table", "select_failures", "select_rows"]

Row = dict[str, Any]


def read_rows(path: Path) -> list[Row]:
    """The runs that a file holds; a last line that was cut off by an interruption is left out."""
    if not path.exists():
        return []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{quote(str(path))} cannot be read: {error}.") from error
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            rows.append({"digest": row["digest"], **row})
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):
                break
            raise InputError(f"Line {number} of {quote(str(path))} is no run of a table: {error}.") from error
    return rows


def select_rows(jobs: list[Job], rows: list[Row]) -> list[Row]:
    """The rows of these jobs, in their order; one that was run twice counts once, the last time."""
    found = {row["digest"]: row for row in rows}
    # Two cells may be the same run: each has its own name.
    return [found[job["digest"]] | job["cell"] for job in jobs if _is_complete(found, job)]


def select_failures(jobs: list[Job], rows: list[Row]) -> list[Row]:
    """The rows of these jobs that hold an error and no numbers."""
    found = {row["digest"]: row for row in rows}
    return [found[job["digest"]] | job["cell"] for job in jobs if "error" in found.get(job["digest"], {})]


def pending_jobs(jobs: list[Job], rows: list[Row]) -> list[Job]:
    """The jobs that have no row yet; two cells that are the same run are one job, with all that either asks for."""
    found = {row["digest"]: row for row in rows}
    waiting: dict[str, Job] = {}
    for job in jobs:
        if not _is_complete(found, job):
            same = waiting.get(job["digest"])
            waiting[job["digest"]] = job if same is None else _join_jobs(same, job)
    return list(waiting.values())


def _join_jobs(first: Job, second: Job) -> Job:
    asked = {what: list(dict.fromkeys(first["run"][what] + second["run"][what])) for what in ("measures", "keep")}
    return first | {"run": first["run"] | asked}


def _is_complete(found: dict[str, Row], job: Job) -> bool:
    """Whether there is a run of this job, with all that is asked of it."""
    row = found.get(job["digest"], {})
    return set(job["run"]["measures"]) <= set(row.get("measures", ())) and set(job["run"]["keep"]) <= set(row)


def run_table(table: Table, jobs: list[Job], out: Path, *, device: str = "auto", processes: int = 1) -> list[Row]:
    """Run what `out` does not have yet, and give the rows of all jobs.

    A run that fails is a line with its error, and is tried again next time; the others go on.
    """
    rows = read_rows(out)
    waiting = pending_jobs(jobs, rows)
    if waiting:
        out.parent.mkdir(parents=True, exist_ok=True)
        _cut_half_written_line(out)
        with out.open("a", encoding="utf-8") as file, show_progress_of(table.name, len(waiting), "runs") as advance:
            for row in _run_jobs(waiting, device, processes):
                file.write(json.dumps(row) + "\n")
                file.flush()
                rows.append(row)
                advance()
    return select_rows(jobs, rows)


def _cut_half_written_line(out: Path) -> None:
    """Cut off what an interruption left half written, so that the next line begins on its own."""
    if out.exists():
        text = out.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        if whole != text:
            out.write_bytes(whole)


def _run_jobs(jobs: list[Job], device: str, processes: int) -> Iterator[Row]:
    if processes == 1:
        for job in jobs:
            yield _run_or_report(job, device)
        return
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=spawned, initializer=_set_up_process) as pool:
        try:
            # What trains longest begins first: the last to end says how long all take.
            longest_first = sorted(jobs, key=lambda job: -(job["run"]["training"].get("epochs") or 0))
            for future in as_completed([pool.submit(_run_or_report, job, device) for job in longest_first]):
                yield future.result()
        except BaseException:  # a signal to this process alone: the others would work on
            for child in multiprocessing.active_children():
                child.terminate()
            raise
        finally:  # stopped early: what has not begun is dropped
            pool.shutdown(wait=False, cancel_futures=True)


def _set_up_process() -> None:
    """In a process beside others: one thread each, before any library counts the cores; Ctrl-C ends it in silence."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = "1"


def _run_or_report(job: Job, device: str) -> Row:
    try:
        return run_job(job, device)
    except CrowdwiseError as error:
        return {**job["cell"], "digest": job["digest"], "error": str(error)}
