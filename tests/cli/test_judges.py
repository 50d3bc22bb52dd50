"""`crowdwise judges`: the table, the page, JSON, tasks to label, and the exit code for continuous integration."""

from __future__ import annotations

import csv
import html
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

EXPORTS = Path(__file__).resolve().parents[2] / "examples" / "exports"
HOSTILE = "<script>alert(1)</script>"
pytestmark = pytest.mark.usefixtures("no_size")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=120)
    with (tmp_path / "votes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["item", "judge", "vote"])
        for task in range(120):
            for judge, right in (("good", 0.95), (HOSTILE, 0.8), ("poor", 0.6)):
                said = truth[task] if rng.random() < right else 1 - truth[task]
                writer.writerow([f"t{task}", judge, ["no", "yes"][said]])
    with (tmp_path / "humans.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["item", "worker", "label"])
        for task in range(80):
            for person in "xyz":
                said = truth[task] if rng.random() < 0.95 else 1 - truth[task]
                writer.writerow([f"t{task}", person, ["no", "yes"][said]])
    (tmp_path / "costs.csv").write_text(f'judge,cost\ngood,3\n"{HOSTILE}",1\npoor,0.5\n')
    (tmp_path / "items.csv").write_text(
        "task,text\n" + "".join(f"t{each},text of <b>{each}</b>\n" for each in range(120))
    )
    return tmp_path


def test_page_table_and_tasks(cw: Callable[..., Any], files: Path) -> None:
    ran = cw("judges", files / "votes.csv", "--human", files / "humans.csv", "--costs", files / "costs.csv", "--items",
             files / "items.csv", "--out", files / "page.html", "--next", 10, "--next-to", files / "next.csv",
             "--charts", files / "charts")  # fmt: skip
    assert ran.code == 0, ran.err
    said = " ".join(ran.out.split())
    assert "good agrees with people most often" in said
    assert "May stand in for a person" in said
    page = (files / "page.html").read_text()
    assert HOSTILE not in page
    assert "<b>" not in page
    assert "<script" not in page
    assert "script-src 'none'" in html.unescape(page)
    assert "Where people and panel differ" in page
    assert "text of &lt;b&gt;" in page
    assert page.count("<svg") == 3
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    rows = list(csv.DictReader((files / "next.csv").read_text().splitlines()))
    assert len(rows) == 10
    assert sum(float(row["weight"]) for row in rows) == pytest.approx(40)
    assert {path.name for path in (files / "charts").iterdir()} == {
        f"{name}.{kind}" for name in ("judges", "tree", "reliability") for kind in ("svg", "png")
    }


def test_json_and_fail_under(cw: Callable[..., Any], files: Path) -> None:
    given = ["judges", files / "votes.csv", "--human", files / "humans.csv", "--json"]
    ran = cw(*given, "--fail-under", 0.999)
    assert ran.code == 1
    assert "Below --fail-under: the panel's lower bound is" in ran.err
    facts = ran.json
    assert [judge["name"] for judge in facts["judges"]] == ["good", HOSTILE, "poor"]
    assert cw(*given, "--fail-under", facts["panel"]["lower_bound"] - 0.001).code == 0


def test_without_people(cw: Callable[..., Any], files: Path) -> None:
    ran = cw("judges", files / "votes.csv")
    assert ran.code == 0
    assert "No labels of people were given" in " ".join(ran.out.split())
    refused = cw("judges", files / "votes.csv", "--fail-under", 0.9)
    assert refused.code == 2
    assert "--fail-under needs the labels of people" in refused.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fail-under", "nan"], "must lie between 0 and 1"),
        (["--out", "votes.csv"], "is a file that is read"),
        (["--human", "humans.csv", "--next-to", "x/votes.csv", "--classes", "yes"], "two different names"),
        (["--human", "votes.csv"], "'votes.csv' is given more than once"),
        (["--human", "costs.csv"], "has no column for the"),
    ],
)
def test_refused(
    cw: Callable[..., Any], files: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(files)
    before = sorted(path.name for path in files.iterdir())
    ran = cw("judges", "votes.csv", *words)
    assert ran.code == 2
    assert message in " ".join(ran.err.split())
    assert sorted(path.name for path in files.iterdir()) == before


@pytest.mark.parametrize(
    ("name", "n_judges"),
    [("alpaca-eval.json", 2), ("inspect-ai.eval", 3), ("mt-bench_pair.jsonl", 2), ("lm-eval", None)],
)
def test_files_of_tools_are_read_as_they_are(cw: Callable[..., Any], name: str, n_judges: int | None) -> None:
    file = EXPORTS / name
    if n_judges is None:
        refused = cw("judges", file)
        assert refused.code == 2
        assert "--question colours" in refused.err
        assert cw("judges", file, "--question", "colours", "--json").json["n_tasks"] > 0
        return
    facts = cw("judges", file, "--json").json
    assert facts["n_judges"] == n_judges
    assert bool(facts["biases"]) == (name != "inspect-ai.eval")
