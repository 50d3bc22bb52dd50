"""The pages that docs/make.py makes agree with the registries; measured numbers are not looked at."""

from __future__ import annotations

import importlib
import json
import math
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.reproduction.small import SMALL

import crowdwise as cw
from crowdwise.reproduction import table_files
from crowdwise.reproduction.table_page import make_report

ROOT = Path(__file__).resolve().parents[2]


def test_every_method_is_on_the_page_once() -> None:
    lines = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8").splitlines()
    named = [line.removeprefix("#### ") for line in lines if line.startswith("#### ")]
    assert sorted(named) == sorted(entry.slug for entry in cw.methods())


def test_every_learner_is_on_the_page_once() -> None:
    text = (ROOT / "docs" / "learning.md").read_text(encoding="utf-8")
    place = text.partition("<!-- learners: ")[2].partition("<!-- end -->")[0]
    named = [line.split("`")[1] for line in place.splitlines() if line.startswith("| `")]
    assert sorted(named) == sorted(entry.slug for entry in cw.learners(None))


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module("make")


def test_pages_follow_the_registry(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["make.py", "--check", "--registry"])
    make.main()


def test_tables_of_compare(make: Any, tmp_path: Path) -> None:
    figures = {"spearman": -0.25, "held_out_best": 0.8, "auto": 0.9, "truth_best": 0.95, "misled": True}
    rows = [
        {"part": "simulated", "name": "families", "caution": True, **figures},
        {"part": "simulated", "name": "families", "caution": False, **figures, "auto": 0.7},
        {"part": "real", "name": "ducks", "caution": True, **figures, "misled": False, "spearman": math.nan},
        {"part": "check", "name": "independent", "caution": False},
        {"part": "coverage", "name": "independent", "coverage": 0.96, "draws": 30, "methods": 6},
    ]
    results = tmp_path / "compare_ranking.json"
    results.write_text(json.dumps({"rows": rows}))
    text = make.compare_tables(results, make.table)
    families = next(line for line in text.splitlines() if line.startswith("| families"))
    assert families.endswith("| −.250 | .800 | .800 | .950 | 2 of 2 | 1 of 2 |")
    assert "| `ducks` | – | .800 | .900 | .950 | no | yes |" in text
    assert "1 simulated crowds with a caution: Spearman −.250, best by held-out labels −.100 against `auto`" in text
    assert "in 96% of cases (30 comparisons)" in text
    assert "independent 0 of 1" in text


def test_league_of_learners(make: Any, tmp_path: Path) -> None:
    rows = [
        {"data": data, "method": method, "seed": seed, "accuracy": accuracy + 0.02 * seed, "consensus": 0.5}
        for data, method, accuracy, seeds in (
            ("labelme", "majority-vote", 0.7, 2),
            ("labelme", "trace", 0.8, 2),
            ("music", "trace", 0.6, 1),
            ("music", "em", 0.9, 2),
        )
        for seed in range(seeds)
    ]
    only = {"labelme": {"auto": 0.79, "dawid-skene": 0.8}, "music": {"auto": 0.81}}
    results = tmp_path / "learning.json"
    results.write_text(json.dumps({"rows": rows, "labels_only": only}))
    lines = [line for line in make.learning(results).splitlines() if line.startswith("| `")]
    assert lines == [
        "| `trace` (1 or 2 of 2 seeds) | .810 ± .010 | .500 ± .000 | .600 ± .000 | .500 ± .000 |",
        "| `majority-vote` | .710 ± .010 | .500 ± .000 | – | – |",
        "| `em` | – | – | .910 ± .010 | .500 ± .000 |",
        "| `dawid-skene`, labels only | – | .800 | – | – |",
        "| `auto`, labels only | – | .790 | – | .810 |",
    ]


def test_league_of_learners_before_it_is_measured(make: Any, tmp_path: Path) -> None:
    assert make.learning(tmp_path / "learning.json").startswith("Not measured yet: `python benchmarks/learning.py`")


@pytest.fixture
def copied(make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the pages, which `make` writes in place of ours."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "README.md", tmp_path)
    monkeypatch.setattr(make, "ROOT", tmp_path)
    monkeypatch.setattr(make, "DOCS", tmp_path / "docs")
    return tmp_path / "docs"


def test_pages_of_the_papers_tables(make: Any, copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are written, found to be as they should, and missed if changed, removed or left over."""
    reproduction = importlib.import_module("reproduction")
    monkeypatch.setattr(reproduction, "reports", cache(reproduction.reports))  # what was run does not change meanwhile
    monkeypatch.setattr(sys, "argv", ["make.py"])
    make.main()
    for name in table_files.table_names():
        assert (copied / "reproduction" / f"{name}.md").exists()
        assert f"](reproduction/{name}.md)" in (copied / "reproduction.md").read_text(encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["make.py", "--check"])
    make.main()
    page = copied / "reproduction" / f"{table_files.table_names()[0]}.md"
    text = page.read_text(encoding="utf-8")
    page.write_text(text + "more\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=f"out of date: {page.name}; run make docs"):
        make.main()
    page.write_text(text, encoding="utf-8")
    (page.parent / "old-1.svg").write_text("<svg/>")
    with pytest.raises(SystemExit, match=r"out of date: old-1.svg; run make docs"):
        make.main()
    monkeypatch.setattr(sys, "argv", ["make.py"])
    make.main()
    assert not (page.parent / "old-1.svg").exists()


def test_the_overview_of_the_papers_tables(make: Any, tmp_path: Path) -> None:
    """Counts, and in words what misses, from runs of which one is good and one is not."""
    reproduction = importlib.import_module("reproduction")
    text = SMALL.replace('place = "table 1"', 'place = "table 1"\ndiffers = ["Fewer tasks."]')
    text = text.replace('name = "DS"', 'name = "DS"\nproposed = true')
    table = table_files.parse_table(text, "mine")
    rows = [
        {"setting": "few", "x": None, "method": method, "seed": 0, "measures": {"consensus": value}, "seconds": 1.0}
        for method, value in (("vote", 0.95), ("DS", 0.6))
    ]
    text = reproduction.overview([make_report(table, rows)])
    assert "| [mine](reproduction/mine.md) | Nobody 2024, table 1 | 0 | 0 | 1 | 1 | 0 | 0 of 1 | 0 | 1 | 0 |" in text
    assert "- Worse than published: accuracy, %, few: DS." in text
    assert "- Does not hold: “DS beats the vote”." in text
    assert "- Done otherwise: Fewer tasks." in text
