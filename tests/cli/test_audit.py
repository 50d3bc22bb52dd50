"""`crowdwise audit`: a page for people, JSON for programs, and the labels without those flagged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def many(cw: Callable[..., Any], tmp_path: Path) -> Path:
    file = tmp_path / "many.csv"
    cw("simulate", "spammers", "--tasks", 400, "--workers", 10, "--classes", 3, "--seed", 2, "--out", file)
    return file


def test_page_and_pruned_labels(cw: Callable[..., Any], many: Path, tmp_path: Path) -> None:
    ran = cw("audit", many)
    assert (ran.code, ran.err) == (0, "")
    for part in (
        "What was found",
        "spammer",
        "7:",
        "8:",
        "9:",
        "score",
        "p = ",
        "What the crowd is worth",
        "--prune-to",
    ):
        assert part in ran.out
    assert max(len(line) for line in ran.out.splitlines() if not line.startswith("    crowdwise")) <= 80
    out = tmp_path / "pruned.csv"
    ran = cw("audit", many, "--prune-to", out)
    assert "3 workers are left out" in ran.out
    left = out.read_text().splitlines()[1:]
    assert len(left) == 7 * 400
    assert {line.split(",")[1] for line in left} == {"0", "1", "2", "3", "4", "5", "6"}


def test_json(cw: Callable[..., Any], many: Path) -> None:
    ran = cw("audit", many, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert {tuple(finding["names"]) for finding in ran.json["findings"]} == {(7,), (8,), (9,)}
    assert all(0 <= finding["score"] <= 1 and finding["p_value"] <= 0.05 for finding in ran.json["findings"])
    assert ran.json["effective_size"]["n_workers"] == 10


def test_nothing_found_is_said(cw: Callable[..., Any], labels: Path) -> None:
    ran = cw("audit", labels)
    assert (ran.code, ran.err) == (0, "")
    for part in ("Nothing was found", "no proof of honesty", "Not asked"):
        assert part in " ".join(ran.out.split())


def test_hostile_names_are_inert(cw: Callable[..., Any], many: Path) -> None:
    text = many.read_text().replace(",9,", ",\x1b[31m[bold]<script>,")
    many.write_text(text)
    ran = cw("audit", many)
    assert ran.code == 0
    assert "\x1b[31m" not in ran.out
    assert "\\x1b[31m[bold" in ran.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--level", "0"], "--level must lie between 0 and 1"),
        (["--trusted", "nobody"], "no worker of these labels is called 'nobody'; there are 'ann', 'bob', 'cy'"),
        (["--seed", "-1"], "--seed"),
    ],
)
def test_bad_input(words: list[str], message: str, cw: Callable[..., Any], labels: Path) -> None:
    ran = cw("audit", labels, *words)
    assert ran.code == 2
    assert message in ran.err
    assert len(ran.err.strip().splitlines()) == 1


def test_a_place_that_is_none_is_refused_before_the_work(cw: Callable[..., Any], labels: Path) -> None:
    ran = cw("audit", labels, "--prune-to", labels / "pruned.csv")
    assert ran.code == 2
    assert "--prune-to" in ran.err
    assert "is not a folder" in ran.err


def test_report_is_one_page(cw: Callable[..., Any], many: Path, tmp_path: Path) -> None:
    out = tmp_path / "pages" / "report.html"
    ran = cw("report", many, "--out", out, "--title", "Who <b>can</b> be trusted")
    assert (ran.code, ran.err) == (0, "")
    assert "findings. Open this page in a browser:" in ran.out
    assert str(out) in ran.out
    page = out.read_text(encoding="utf-8")
    assert "Who &lt;b&gt;can&lt;/b&gt; be trusted" in page
    assert "spammer" in page


def test_report_that_cannot_be_made(cw: Callable[..., Any], many: Path, tmp_path: Path) -> None:
    ran = cw("report", many, "--out", many / "report.html")
    assert (ran.code, "is not a folder" in ran.err) == (2, True), ran.err
    ran = cw("report", many, "--out", tmp_path / "report.html", "--truth", "gone.csv")
    assert (ran.code, "gone.csv" in ran.err) == (2, True), ran.err
    assert not (tmp_path / "report.html").exists()
