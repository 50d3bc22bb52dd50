"""The pages that docs/make.py makes agree with the registries; measured numbers are not looked at."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import crowdwise as cw

ROOT = Path(__file__).resolve().parents[2]


def test_pages_follow_the_registry() -> None:
    command = [sys.executable, str(ROOT / "docs" / "make.py"), "--check", "--registry"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_method_is_on_the_page_once() -> None:
    lines = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8").splitlines()
    named = [line.removeprefix("#### ") for line in lines if line.startswith("#### ")]
    assert sorted(named) == sorted(entry.slug for entry in cw.methods())


def test_every_learner_is_on_the_page_once() -> None:
    text = (ROOT / "docs" / "learning.md").read_text(encoding="utf-8")
    place = text.partition("<!-- learners: ")[2].partition("<!-- end -->")[0]
    named = [line.split("`")[1] for line in place.splitlines() if line.startswith("| `")]
    assert sorted(named) == sorted(entry.slug for entry in cw.learners())


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module("make")


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


def test_a_learner_without_a_family(make: Any) -> None:
    with pytest.raises(SystemExit, match="every learner of the registry once; look at b, c"):
        make.check_placed(["a", "b"], ["a", "c"], "learner")
    with pytest.raises(SystemExit, match="look at a"):
        make.check_placed(["a", "a"], ["a"], "learner")
