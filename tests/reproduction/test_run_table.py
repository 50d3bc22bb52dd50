"""Runs: what is there is not run again, what was cut off is, and one that fails does not stop the others."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from tests.reproduction.small import SMALL

from crowdwise.labels.errors import InputError
from crowdwise.reproduction import run_table
from crowdwise.reproduction.job_checks import check_jobs
from crowdwise.reproduction.table_files import parse_table

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.reproduction.table_spec import Table


@pytest.fixture
def table() -> Table:
    return parse_table(SMALL, "mine")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The digests that were run, in order."""
    seen: list[str] = []

    def noted(job: Any, device: str) -> Any:
        seen.append(job["digest"])
        return real(job, device)

    real = run_table.run_job
    monkeypatch.setattr(run_table, "run_job", noted)
    return seen


def numbers(rows: list[dict[str, Any]]) -> list[Any]:
    return [(row["setting"], row["method"], row["seed"], row["measures"]) for row in rows]


def test_what_is_there_is_not_run_again(table: Table, ran: list[str], tmp_path: Path) -> None:
    out = tmp_path / "deep" / "mine.jsonl"
    jobs = table.jobs()
    first = run_table.run_table(table, jobs[:3], out)
    assert ran == [job["digest"] for job in jobs[:3]]
    every = run_table.run_table(table, jobs, out)
    assert ran == [job["digest"] for job in jobs]
    assert every[:3] == first
    assert len(out.read_text().splitlines()) == len(every) == 8
    assert 0 <= every[0]["measures"]["consensus"] <= 1


def test_a_line_that_was_cut_off_is_run_again(table: Table, ran: list[str], tmp_path: Path) -> None:
    out, jobs = tmp_path / "mine.jsonl", table.jobs(seeds=1)
    whole = run_table.run_table(table, jobs, out)
    out.write_text(out.read_text()[:-20])
    ran.clear()
    assert numbers(run_table.run_table(table, jobs, out)) == numbers(whole)
    assert ran == [jobs[-1]["digest"]]
    assert [json.loads(line)["digest"] for line in out.read_text().splitlines()] == [job["digest"] for job in jobs]


def test_a_strange_line_is_an_error(tmp_path: Path) -> None:
    out = tmp_path / "mine.jsonl"
    out.write_text('{"setting": "x"}\n{"digest": "y"}\n')
    with pytest.raises(InputError, match=r"Line 1 of .* is no run of a table: 'digest'"):
        run_table.read_rows(out)


def test_a_measure_that_is_new_is_run_for(table: Table, ran: list[str], tmp_path: Path) -> None:
    out, jobs = tmp_path / "mine.jsonl", table.jobs(seeds=1)
    run_table.run_table(table, jobs, out)
    more = parse_table(SMALL.replace("[measures]", '[measures]\nconfusion_error = { title = "error" }'), "mine")
    ran.clear()
    rows = run_table.run_table(more, more.jobs(seeds=1), out)
    assert ran == [job["digest"] for job in jobs]
    errors = [row["measures"]["confusion_error"] for row in rows]
    assert [math.isnan(error) for error in errors] == [True, False] * 2  # a vote has no matrices


def test_a_run_that_fails(ran: list[str], tmp_path: Path) -> None:
    """It is told, tried again next time, and the others are there."""
    table = parse_table(SMALL.replace("{ max_iter = 20 }", "{ max_iter = -1 }"), "mine")
    out, jobs = tmp_path / "mine.jsonl", table.jobs(seeds=1)
    rows = run_table.run_table(table, jobs, out)
    assert [row["method"] for row in rows] == ["vote", "vote"]
    failed = run_table.select_failures(jobs, run_table.read_rows(out))
    assert [(row["method"], row["setting"]) for row in failed] == [("DS", "few"), ("DS", "many")]
    assert "max_iter" in failed[0]["error"]
    ran.clear()
    run_table.run_table(table, jobs, out)
    assert ran == [job["digest"] for job in jobs if job["cell"]["method"] == "DS"]


def test_two_cells_that_are_one_run(ran: list[str], tmp_path: Path) -> None:
    table = parse_table(SMALL.replace("crowd = { labels_per_task = 5 }", ""), "mine")
    rows = run_table.run_table(table, table.jobs(["vote"], 1), tmp_path / "mine.jsonl")
    assert len(ran) == 1
    assert [row["setting"] for row in rows] == ["few", "many"]


def test_a_run_of_two_cells_has_what_either_asks_for(table: Table) -> None:
    job = table.jobs()[0]
    first, second = (job | {"run": job["run"] | asked} for asked in ({"keep": ["history"]}, {"measures": ["other"]}))
    (joint,) = run_table.pending_jobs([first, second], [])
    assert joint["run"]["keep"] == ["history", *job["run"]["keep"]]
    assert joint["run"]["measures"] == [*job["run"]["measures"], "other"]


def test_two_processes_find_the_same(table: Table, tmp_path: Path) -> None:
    jobs = table.jobs(seeds=1)
    one = run_table.run_table(table, jobs, tmp_path / "one.jsonl")
    two = run_table.run_table(table, jobs, tmp_path / "two.jsonl", processes=2)
    assert numbers(one) == numbers(two)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("max_iter = 20", "colour = 20", "dawid-skene has no parameter 'colour'; it has "),
        ("consensus = {", 'speed = { title = "x" }\nconsensus = {', "There is no measure 'speed'; there are accuracy"),
        ('name = "hammer-spammers"', 'name = "nobody"', "nobody"),
        ("seeds = 2", 'seeds = 2\ndata = { name = "no_such_data" }', "no_such_data"),
        ('aggregator = "majority-vote"', 'learner = "no-such"', "There is no learner 'no-such'"),
    ],
)
def test_what_cannot_run_is_refused_beforehand(old: str, new: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_jobs(parse_table(SMALL.replace(old, new), "mine").jobs())


def test_what_can_run_is_not(table: Table) -> None:
    check_jobs(table.jobs())
