"""Every table that comes with the package: it is written as it should be, and its small version runs."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdwise.labels.errors import InputError
from crowdwise.reproduction import fairness_measures, problems, run_table, verdicts
from crowdwise.reproduction.job_checks import check_jobs
from crowdwise.reproduction.measures import MEASURES
from crowdwise.reproduction.problems import make_problem
from crowdwise.reproduction.table_files import read_table, table_names

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "tables"
SIMULATED = [
    name for name in table_names() if all("name" not in job["run"]["data"] for job in read_table(name).jobs(seeds=1))
]
OTHERS = [name for name in table_names() if name not in SIMULATED]
DATA = [
    pytest.mark.data,
    pytest.mark.skipif("CROWDWISE_DATA" not in os.environ, reason="CROWDWISE_DATA is not set"),
]
SHARES = {"accuracy", "forecast", "consensus", "first_of_ties", "inference", "sure", "spammer", "last", "best"}
TABLES = [*SIMULATED, *(pytest.param(name, marks=DATA) for name in OTHERS)]


def test_there_are_some() -> None:
    assert "tanno-table-1" in table_names()


@pytest.mark.parametrize("name", table_names())
def test_a_table_says_what_it_is(name: str) -> None:
    table = read_table(name)
    assert all((table.title, table.paper, table.place, table.about.strip(), table.quick))
    assert set(table.measures) <= set(MEASURES)
    assert table.published or table.claims
    small = table.quick_version()
    assert {method.name for method in small.methods} == {method.name for method in table.methods}
    assert len(small.jobs()) <= len(table.jobs())


@pytest.mark.parametrize("name", TABLES)
def test_models_and_parameters_are_there(name: str) -> None:
    table = read_table(name)
    check_jobs(replace(table, limits=table.quick_version().limits).jobs(seeds=1))  # of every setting, on few tasks


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("name", TABLES)
def test_the_small_version_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairness_measures, "TREES", 10)
    for read_files in ("load", "load_features"):  # once for all runs of the table
        monkeypatch.setattr(problems, read_files, cache(getattr(problems, read_files)))
    table = read_table(name).quick_version()
    jobs = table.jobs()
    rows = run_table.run_table(table, jobs, tmp_path / "rows.jsonl", device="cpu")
    assert run_table.select_failures(jobs, run_table.read_rows(tmp_path / "rows.jsonl")) == []
    assert len(rows) == len(jobs)
    assert {row["method"] for row in rows} == {method.name for method in table.methods}
    assert all(0 <= row["measures"][share] <= 1 for row in rows for share in SHARES & row["measures"].keys())
    cells = verdicts.compute_cells(table, rows)
    for cell in cells:
        assert cell.values, (cell.setting, cell.x, cell.method, cell.measure)
        assert np.isfinite(cell.mean)
        assert cell.verdict != "not run"
    assert all(one.verdict != "not run" for one in verdicts.judge_claims(table, cells) if one.figures)
    if name in SAYS:
        SAYS[name]({(cell.setting, cell.x, cell.method): cell.mean for cell in cells})


def says_of_spammers(found: dict[Any, float]) -> None:
    # The same run under two names: the oracle of malicious annotators.
    assert found["spammers", 0.5, "oracle, malicious instead"] == found["malicious", 0.5, "oracle"]
    assert found["malicious", 0.8, "MV"] < 50 < found["malicious", 0.8, "oracle"]


def says_of_colluders(found: dict[Any, float]) -> None:
    assert found["colluders", 0.5, "MV"] < 30 < found["colluders", 0.5, "MV, spammers"]


def says_of_agreement(found: dict[Any, float]) -> None:
    assert len(found) == 12
    assert all(0.7 < mean < 1.2 for mean in found.values())
    assert len(set(found.values())) > 4  # streams and losses are not all one


# What the small version of a table says already.
SAYS = {
    "tutorial-spammers": says_of_spammers,
    "tutorial-colluders": says_of_colluders,
    "learn2agree-table-3": says_of_agreement,
}


@pytest.mark.parametrize("name", table_names())
def test_what_misses_says_what_was_tried(name: str) -> None:
    table = read_table(name)
    rows = run_table.select_rows(table.jobs(), run_table.read_rows(RESULTS / f"{name}.jsonl"))
    found = verdicts.compute_cells(table, rows)
    silent = [
        (cell.setting, cell.x, cell.method, cell.measure, cell.mean)
        for cell in found
        if cell.verdict in (verdicts.WORSE, verdicts.DIFFERS) and not cell.note
    ]
    silent += [
        (each.claim.says, *each.figures)
        for each in verdicts.judge_claims(table, found)
        if each.verdict == verdicts.FAILS and not each.claim.note
    ]
    assert silent == []


@pytest.mark.parametrize("name", table_names())
def test_an_order_is_one_of_all_methods(name: str) -> None:
    """A chain of methods that leaves one out would hide that it breaks the order."""
    table = read_table(name)
    if table.published and len(table.methods) > 1:  # a lone method, such as a description of the data, has no order
        assert any(method.proposed for method in table.methods)
    for claim in table.claims:
        told = {each.method for each in table.published if each.measure == claim.measure}
        if len(claim.order) > 2:
            assert told <= {method for group in claim.order for method in group}, claim.says


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_results_are_those_of_the_table(path: Path) -> None:
    """A row that no job asks for was run with other settings than the table has now."""
    rows = run_table.read_rows(path)
    known = {job["digest"] for job in read_table(path.stem).jobs(seeds=1 + max(row["seed"] for row in rows))}
    strange = [row for row in rows if row["digest"] not in known or "error" in row]
    assert strange == []


def test_a_crowd_that_is_missing() -> None:
    with pytest.raises(InputError, match="no name: there is nothing to simulate"):
        make_problem({}, {}, 0)
