"""`crowdwise audit`: a page for people, JSON for programs, and the labels without those flagged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.audit.crowds import DRIFTERS, drifting

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("compiled")


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
        "The consensus, by auto",
        "Rests on: the labels alone.",
        "Spammers",
        "7:",
        "8:",
        "9:",
        "Skill by the consensus:",
        "What the crowd is worth",
        "--prune-to",
    ):
        assert part in " ".join(ran.out.split())
    assert max(len(line) for line in ran.out.splitlines() if not line.startswith("    crowdwise")) <= 80
    assert "p = " not in ran.out
    told = cw("audit", many, "--details").out
    assert ("p = " in told, "score" in told) == (True, True)
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
    assert ran.json["time_column"] is None
    assert "--time-column" in ran.json["skipped"]["drift"]


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
    assert "Not tested: There is no time column" in page


def test_report_with_its_charts_as_files(cw: Callable[..., Any], many: Path, tmp_path: Path) -> None:
    folder = tmp_path / "charts"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    (folder / "workers.svg").write_text("old")
    truth = b"task,label\n" + b"".join(b"%d,%d\n" % (task, task % 3) for task in range(50))
    ran = cw("report", many, "--out", tmp_path / "report.html", "--charts", folder, "--truth", "-", stdin=truth)
    assert (ran.code, ran.err) == (0, "")
    assert "confidence, workers, calibration, confusion" in " ".join(ran.out.split())
    names = ["calibration", "confidence", "confusion", "workers"]
    assert sorted(file.name for file in folder.iterdir()) == sorted(
        ["mine.txt", *(f"{name}.{kind}" for name in names for kind in ("png", "svg"))]
    )
    for name in names:
        assert (folder / f"{name}.svg").read_text(encoding="utf-8").startswith("<svg")
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["charts", "many.csv", "report.html"]
    assert "50 known truths" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_report_that_cannot_be_made(cw: Callable[..., Any], many: Path, tmp_path: Path) -> None:
    ran = cw("report", many, "--out", many / "report.html")
    assert (ran.code, "is not a folder" in ran.err) == (2, True), ran.err
    ran = cw("report", many, "--out", tmp_path / "report.html", "--truth", "gone.csv")
    assert (ran.code, "gone.csv" in ran.err) == (2, True), ran.err
    ran = cw("report", many, "--out", tmp_path / "report.html", "--charts", many)
    assert (ran.code, "--charts" in ran.err, "is not a folder" in ran.err) == (2, True, True), ran.err
    assert not (tmp_path / "report.html").exists()


# ---- drift ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three workers of thirty get worse after about 14:24; the rows in no order."""
    labels, time = drifting(0)
    dates = (np.datetime64("2026-05-31T00:00:00") + (time * 86400).astype("timedelta64[s]")).astype(str)
    rows = [
        f"{task},{worker},{label},{when.replace('T', ' ')}"
        for task, worker, label, when in zip(labels.task, labels.worker, labels.label, dates, strict=True)
    ]
    order = np.random.default_rng(1).permutation(len(rows))
    file = tmp_path_factory.mktemp("timed") / "timed.csv"
    file.write_text("\n".join(["task,worker,label,Submitted At", *(rows[at] for at in order)]))
    return file


@pytest.mark.usefixtures("no_size")
def test_drift_is_found_where_the_file_has_times(cw: Callable[..., Any], timed: Path) -> None:
    renamed = timed.read_text().replace("Submitted At", "moment").encode()
    ran = cw("audit", "-", "--time-column", "moment", "--method", "dawid-skene", "--json", stdin=renamed)
    assert (ran.code, ran.err) == (0, "")
    found = {each["names"][0]: each["verdict"] for each in ran.json["findings"] if each["kind"] == "drift"}
    assert set(found) == set(DRIFTERS)
    for verdict in found.values():
        assert 13 <= int(verdict.partition("got worse from about 2026-05-31 ")[2][:2]) <= 15
    assert ran.json["time_column"] == "moment"
    assert "drift" not in ran.json["skipped"]
    page = " ".join(cw("audit", timed, "--method", "dawid-skene").out.split())
    assert "Drift is looked for over the times in column 'Submitted At'." in page
    assert all(verdict in page for verdict in found.values())


@pytest.mark.parametrize(
    ("header", "cell", "words", "message"),
    [
        ("when", "31/05/2026", ["--time-column", "when"], "Column 'when' cannot be read as times: '31/05/2026'"),
        ("when", "noon", ["--time-column", "whne"], "Did you mean 'when'?"),
        ("when", "1", ["--time-column", "label"], "'label' cannot be the time"),
    ],
)
def test_times_that_cannot_be_read(
    header: str, cell: str, words: list[str], message: str, cw: Callable[..., Any], labels: Path
) -> None:
    first, *rest = labels.read_text().splitlines()
    labels.write_text("\n".join([f"{first},{header}", *(f"{row},{cell}" for row in rest)]))
    ran = cw("audit", labels, *words)
    assert ran.code == 2
    assert message in ran.err
    assert len(ran.err.strip().splitlines()) == 1
