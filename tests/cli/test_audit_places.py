"""Where `crowdwise audit` and `report` write: nothing that is read is lost, and what cannot be is said first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from crowdwise.audit import audit as room

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COMMANDS = [("audit", "--prune-to"), ("report", "--out")]


@pytest.fixture
def many(cw: Callable[..., Any], tmp_path: Path) -> Path:
    file = tmp_path / "many.csv"
    cw("simulate", "spammers", "--tasks", 150, "--workers", 8, "--classes", 3, "--seed", 2, "--out", file)
    return file


@pytest.fixture
def unheard(monkeypatch: pytest.MonkeyPatch) -> None:
    """No audit may begin."""

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("the work has begun")

    monkeypatch.setattr(room, "audit_crowd", never)


@pytest.mark.usefixtures("unheard")
@pytest.mark.parametrize(("command", "option"), COMMANDS)
def test_what_is_read_is_not_written_over(
    command: str, option: str, cw: Callable[..., Any], labels: Path, truth: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link.csv"
    link.symlink_to(labels)
    for file in (labels, truth, link):
        before = file.read_bytes()
        ran = cw(command, labels, "--truth", truth, option, file)
        assert ran.code == 2
        assert "is a file that is read, and would be lost" in ran.err
        assert file.read_bytes() == before


@pytest.mark.usefixtures("unheard")
@pytest.mark.parametrize(("command", "option"), COMMANDS)
@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("", "is empty. Give the name of a file"),
        (".", "is a folder"),
        ("folder/", "is a folder"),
        ("a\0b", "is no name for a file"),
        ("x" * 300, "is no name for a file"),
    ],
)
def test_no_place_for_a_file(
    command: str, option: str, place: str, message: str, cw: Callable[..., Any], labels: Path
) -> None:
    ran = cw(command, labels, option, place)
    assert ran.code == 2
    assert option in ran.err
    assert message in ran.err
    assert len(ran.err.strip().splitlines()) == 1


def test_pruned_labels_alone_on_standard_output(cw: Callable[..., Any], many: Path, tmp_path: Path) -> None:
    file = tmp_path / "pruned.csv"
    cw("audit", many, "--prune-to", file)
    ran = cw("audit", many, "--prune-to", "-")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == file.read_text()
    ran = cw("audit", many, "--prune-to", "-", "--json")
    assert ran.code == 2
    assert "--json and --prune-to - would both go to standard output" in ran.err


def test_page_on_standard_output(cw: Callable[..., Any], labels: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    ran = cw("report", labels, "--out", "-")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("<!DOCTYPE html>")
    assert ran.out.rstrip().endswith("</html>")
    assert not (tmp_path / "-").exists()


def test_truth_from_standard_input(cw: Callable[..., Any], labels: Path, truth: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    ran = cw("report", labels, "--truth", "-", "--out", out, stdin=truth.read_bytes())
    assert (ran.code, ran.err) == (0, "")
    assert "Calibration" in out.read_text(encoding="utf-8")


def test_what_next_repeats_what_was_asked(cw: Callable[..., Any], many: Path, tmp_path: Path) -> None:
    groups = tmp_path / "groups.csv"
    groups.write_text("worker,half\n" + "".join(f"{worker},{worker % 2}\n" for worker in range(8)))
    asked = ("--worker-attributes", str(groups), "--trusted", "0,1", "--level", "0.1", "--seed", "3")
    ran = cw("audit", many, *asked)
    command = next(line for line in ran.out.splitlines() if line.startswith("    crowdwise audit"))
    assert command.strip() == f"crowdwise audit {many} {' '.join(asked)} --prune-to pruned.csv"
