"""`crowdwise bench`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.reproduction.small import SMALL

from crowdwise.cli.commands.bench import choose_methods
from crowdwise.labels.errors import InputError
from crowdwise.registry import _every_learner
from crowdwise.reproduction import run_table
from crowdwise.reproduction.table_files import parse_table, table_names

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

AXIS = '[axis]\nname = "skill"\nsets = "crowd.skill"\nvalues = [0.2, 0.4, 0.6, 0.7, 0.8, 0.9]\n'
FIGURE = '[[figures]]\nkind = "lines"\ntitle = "All"\nmeasure = "consensus"\n'


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "mine.toml"
    file.write_text(SMALL + FIGURE)
    return file


def test_the_tables(cw: Callable[..., Any]) -> None:
    ran = cw("bench")
    assert (ran.code, ran.err) == (0, "")
    assert all(name in ran.out for name in table_names())
    assert max(map(len, ran.out.splitlines())) <= 80
    listed = cw("bench", "--json").json
    assert [each["name"] for each in listed] == table_names()
    assert all(each["runs"] >= each["quick_runs"] > 0 for each in listed)


def test_a_page(cw: Callable[..., Any], table: Path, tmp_path: Path) -> None:
    ran = cw("bench", table, "--out", tmp_path / "out")
    assert (ran.code, ran.err) == (0, "")
    for part in ("A small crowd", "accuracy, %: few", "ours (published)", "verdict", "What the paper says", "In short"):
        assert part in ran.out
    assert "(70.00 ± 2.00)" in ran.out
    assert max(map(len, ran.out.split("\nWritten")[0].splitlines())) <= 80
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["mine-1.svg", "mine.jsonl", "mine.md"]
    page = (tmp_path / "out" / "mine.md").read_text(encoding="utf-8")
    assert f"crowdwise bench {table} --out {tmp_path / 'out'}" in page
    assert "8 runs, 2 seeds each" in page


def test_it_goes_on_and_shows_all_that_is_there(cw: Callable[..., Any], table: Path, tmp_path: Path) -> None:
    first = cw("bench", table, "--methods", "vote", "--seeds", 1, "--out", tmp_path, "--json").json
    assert first["runs"] == 2
    lines = (tmp_path / "mine.jsonl").read_text()
    both = cw("bench", table, "--methods", "dawid-skene", "--seeds", 1, "--out", tmp_path, "--json").json
    assert (tmp_path / "mine.jsonl").read_text().startswith(lines)
    assert both["runs"] == 4
    assert {cell["seeds"] for cell in both["cells"]} == {1}
    more = cw("bench", table, "--seeds", 3, "--out", tmp_path, "--json").json
    assert {cell["seeds"] for cell in more["cells"]} == {3}


def test_json(cw: Callable[..., Any], table: Path, tmp_path: Path) -> None:
    facts = cw("bench", table, "--methods", "VOTE", "--seeds", 1, "--out", tmp_path, "--json").json
    vote, ds = facts["cells"][:2]
    assert (vote["method"], vote["published"], vote["published_deviation"], vote["deviation"]) == ("vote", 70, 2, None)
    assert vote["verdict"] in ("reproduced", "better", "worse", "differs")
    assert (ds["mean"], ds["verdict"], ds["published_deviation"]) == (None, "not run", None)
    assert facts["claims"] == [
        {"says": "DS beats the vote", "verdict": "not run", "figures": facts["claims"][0]["figures"]}
    ]
    assert facts["failed"] == []
    assert facts["published"] == {vote["verdict"]: 1, "not run": 1}


def test_the_small_version_is_not_compared(cw: Callable[..., Any], table: Path, tmp_path: Path) -> None:
    ran = cw("bench", table, "--quick", "--out", tmp_path)
    assert "its numbers are not to be compared" in " ".join(ran.out.split())
    assert "verdict" not in ran.out
    assert "70.00 ± 2.00" not in (tmp_path / "mine-quick.md").read_text(encoding="utf-8")
    assert {file.name for file in tmp_path.iterdir()} == {
        "mine.toml",
        "mine-quick.md",
        "mine-quick-1.svg",
        "mine-quick.jsonl",
    }
    rows = run_table.read_rows(tmp_path / "mine-quick.jsonl")
    assert len(rows) == 4


def test_an_axis_fits_the_terminal(cw: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "axis.toml"
    file.write_text(SMALL[: SMALL.index("[[published]]")] + AXIS + FIGURE)
    ran = cw("bench", file, "--seeds", 1, "--out", tmp_path)
    assert max(map(len, ran.out.split("\nWritten")[0].splitlines())) <= 80
    assert [line.split()[1:] for line in ran.out.splitlines() if line.startswith("  skill")][:2] == [
        ["0.2", "0.4", "0.6", "0.7", "0.8"],
        ["0.9"],
    ]


def test_old_pictures_go(cw: Callable[..., Any], table: Path, tmp_path: Path) -> None:
    (tmp_path / "mine-7.svg").write_text("old")
    (tmp_path / "mine-other.svg").write_text("not ours")
    cw("bench", table, "--seeds", 1, "--out", tmp_path)
    assert sorted(file.name for file in tmp_path.glob("*.svg")) == ["mine-1.svg", "mine-other.svg"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-table"], "There is no table 'no-such-table'."),
        (["nowhere.toml"], "'nowhere.toml' cannot be read"),
        (["TABLE", "--methods", "SD"], "mine has no method 'SD'; it has vote, DS."),
        (["TABLE", "--methods", ""], "mine has no method ''"),
        (["TABLE", "--seeds", "0"], "Invalid value for '--seeds'"),
        (["TABLE", "--device", "tpu"], "Invalid value for '--device'"),
        (["TABLE", "--processes", "0"], "Invalid value for '--processes'"),
        (["TABLE", "--out", "mine.toml"], "exists and is not a folder"),
    ],
)
def test_bad_input(
    arguments: list[str], message: str, cw: Callable[..., Any], table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(table.parent)
    ran = cw("bench", *(str(table) if each == "TABLE" else each for each in arguments))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("crowdwise: ")
    assert ran.err.count("\n") == 1
    assert message in ran.err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title =", "title", "The table 'mine' is no TOML"),
        ("seeds = 2", "seeds = 2.5", "seeds of table is 2.5; it must be a whole number"),
        ("seeds = 2", 'seeds = 2\ndata = { name = "no_such" }', "no_such"),
        ("max_iter = 20", "speed = 20", "dawid-skene has no parameter 'speed'"),
        ("max_iter = 20", "max_iter = -1", "Every run failed: max_iter"),
    ],
)
def test_a_bad_table(old: str, new: str, message: str, cw: Callable[..., Any], table: Path, tmp_path: Path) -> None:
    table.write_text(table.read_text().replace(old, new))
    methods = ["--methods", "DS"] if "Every run" in message else []
    ran = cw("bench", table, *methods, "--out", tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_no_torch(cw: Callable[..., Any], table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table.write_text(table.read_text().replace('aggregator = "majority-vote"', 'learner = "trace"'))
    for name in [name for name in sys.modules if name.startswith("crowdwise.learn.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    _every_learner.cache_clear()
    ran = cw("bench", table, "--out", tmp_path)
    assert ran.code == 2
    assert ran.err == (
        "crowdwise: Learning a classifier needs torch, which is not installed: pip install 'crowdwise[learn]'.\n"
    )


def test_a_run_that_fails(cw: Callable[..., Any], table: Path, tmp_path: Path) -> None:
    table.write_text(table.read_text().replace("max_iter = 20", "max_iter = -1"))
    ran = cw("bench", table, "--out", tmp_path)
    assert ran.code == 2
    page = " ".join(ran.out.split())
    assert "4 runs failed; the same command tries them again" in page
    assert "DS, few, seed 0: max_iter" in page
    assert "Runs that failed" in (tmp_path / "mine.md").read_text(encoding="utf-8")
    failed = cw("bench", table, "--out", tmp_path, "--json")
    assert failed.code == 2
    assert len(failed.json["failed"]) == 4


def test_methods_by_name_whatever_is_in_it() -> None:
    table = parse_table(SMALL.replace('"vote"', '"votes, of all"'), "mine")
    assert choose_methods(table, "Votes, of ALL") == ["votes, of all"]
    assert choose_methods(table, "DS,votes, of all") == ["DS", "votes, of all"]
    assert choose_methods(table, "majority-vote, ds, dawid-skene") == ["votes, of all", "DS"]
    with pytest.raises(InputError, match="no method 'votes'"):
        choose_methods(table, "votes, DS")


def test_a_slug_stands_for_all_that_have_it() -> None:
    table = parse_table(SMALL.replace('aggregator = "majority-vote"', 'aggregator = "dawid-skene"'), "mine")
    assert choose_methods(table, "dawid-skene") == ["vote", "DS"]


def test_ctrl_c_keeps_what_is_done(table: Path, tmp_path: Path) -> None:
    table.write_text(table.read_text().replace("seeds = 2", "seeds = 500").replace("n_tasks = 30", "n_tasks = 1000"))
    program = "import sys; from crowdwise.cli import main; sys.exit(main())"
    words = [sys.executable, "-c", program, "bench", str(table), "--out", str(tmp_path)]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"COLUMNS": "80"}
    )
    rows = tmp_path / "mine.jsonl"
    for _ in range(1200):
        if rows.exists() and rows.read_text().count("\n") >= 3:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == b""
    kept = [json.loads(line) for line in rows.read_text().splitlines()]
    message = err.decode().strip()
    assert message == (
        f"crowdwise: Stopped. {len(kept):,} runs are kept in {rows}. To go on: crowdwise bench {table} --out {tmp_path}"
    )
