"""Tables out: whole or not at all, and harmless."""

# ruff: noqa: E501  (tables of cases read best with a case a line)
from __future__ import annotations

import csv
import errno
import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from crowdwise.labels import InputError, InputWarning, read_labels
from crowdwise.labels.atomic_output import replace_file, replace_folder
from crowdwise.labels.table_output import native_table, restore_names, write_csv

if TYPE_CHECKING:
    from pathlib import Path

DISK_FULL = OSError(errno.ENOSPC, "No space left on device")


def test_names_are_defused(tmp_path: Path) -> None:
    names = [
        "=1+1",
        "+a",
        "-a",
        "@a",
        "\ta",
        "-5",
        "+1.5e3",
        "plain",
        "a=b",
        "es\x1bcape",
        "two\nlines",
        'a "b", c',
        None,
    ]
    write_csv(pa.table({"name": names, "n": range(len(names))}), tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="") as file:
        written = [row[0] for row in csv.reader(file)][1:]
    assert written == [
        "'=1+1", "'+a", "'-a", "'@a", "'\ta", "-5", "+1.5e3", "plain", "a=b", "es\\u001bcape", "two\nlines", 'a "b", c', "",
    ]  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


FORMULAS = [" =1+1", "\n=1+1", "\u00a0=1+1", "\u3000=1+1", "\t\r\n @a", "\uff1d1+1", "'=1+1", "''-a"]
UNSEEN = [
    "\u200b=1+1",
    "a\u202eb",
    "a\u2066b\u2069",
    "\u200e",
    "\u061ca",
    "a\u200cb\u200d",
    "\u2060a",
    "\ufeffa",
    "\u3164a",
    "\U000e0041a",
]


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_behind_blanks_are_defused(name: str, tmp_path: Path) -> None:
    assert written(tmp_path, [name]) == ["'" + name]


@pytest.mark.parametrize("name", UNSEEN)
def test_what_is_not_seen_is_written_out(name: str, tmp_path: Path) -> None:
    (text,) = written(tmp_path, [name])
    assert text.isascii()
    assert text.isprintable()
    assert not text.startswith(("=", "'"))


def test_names_of_columns_are_defused(tmp_path: Path) -> None:
    write_csv(pa.table({"=1+1": ["x"], "a\u202eb": ["y"]}), tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text().splitlines()[0] == '"\'=1+1","a\\u202eb"'


def test_what_is_written_is_read_as_it_was(tmp_path: Path) -> None:
    names = ["\u00a0=2+1", *FORMULAS[5:], *UNSEEN[:3], *UNSEEN[4:], "-5", "'-5", "plain", "C:\\u0041", "\\ud800"]
    table = pa.table(
        {
            "task": names,
            "worker": names[::-1],
            "label": ["=x", "y\u200d"] * (len(names) // 2) + ["=x"] * (len(names) % 2),
        }
    )
    write_csv(table, tmp_path / "t.csv")
    with pytest.warns(match="differ only"), pytest.warns(match="written out"), pytest.warns(match="apostrophe"):
        labels = read_labels(tmp_path / "t.csv")
    assert labels.tasks.to_pylist() == names
    assert sorted(labels.workers.to_pylist()) == sorted(names)
    assert labels.classes.to_pylist() == ["=x", "y\u200d"]


def test_files_of_other_make_stay_as_they_are() -> None:
    for names in (
        ["'=x", "=y"],
        ["a\\u200bb", "c\u200d"],
        ["'-5", "''-5"],
        ["'ann'", "'bob'"],
        [r"C:\x10", r"C:\users"],
    ):
        assert restore_names(pa.array(names)).to_pylist() == names


LOOK_ALIKE = [
    "a\u200bb",
    r"a\u200bb",
    r"a\\u200bb",
    "a\\\u200bb",
    r"a\U0000200bb",
    r"\x1b",
    "q\x1b",
    r"q\u001b",
    "s\xad",
    r"s\u00ad",
]


def test_different_names_are_written_differently_and_read_back(tmp_path: Path) -> None:
    assert len(set(written(tmp_path, LOOK_ALIKE))) == len(LOOK_ALIKE)
    assert written(tmp_path, ["s\xad", r"s\u00ad", r"C:\x10"]) == [r"s\u00ad", r"s\\u00ad", r"C:\x10"]
    n = len(LOOK_ALIKE)
    write_csv(pa.table({"task": LOOK_ALIKE, "worker": ["ann"] * n, "label": ["x"] * n}), tmp_path / "t.csv")
    with pytest.warns(InputWarning, match=r"column 'task' holds 4 names with an unseen character written out"):
        assert read_labels(tmp_path / "t.csv").tasks.to_pylist() == LOOK_ALIKE


@pytest.mark.filterwarnings("error")
def test_a_name_that_would_become_blank_stays_written_out(tmp_path: Path) -> None:
    for name in (r"\u200b", r"a\u0000"):
        (tmp_path / "t.csv").write_text(f"task,worker,label\n{name},ann,x\nb,ann,y\n")
        assert read_labels(tmp_path / "t.csv").tasks.to_pylist() == [name, "b"]


def written(folder: Path, names: list[str]) -> list[str]:
    write_csv(pa.table({"name": names}), folder / "t.csv")
    with (folder / "t.csv").open(newline="") as file:
        return [row[0] for row in csv.reader(file)][1:]


def test_kinds() -> None:
    for kind in ("pyarrow", "pandas", "polars"):
        table = native_table({"a": [1, 2]}, kind)  # type: ignore[arg-type]
        assert type(table).__module__.split(".")[0] == kind


def test_a_failed_write_changes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "t.csv"
    target.write_text("before")

    def fail(error: BaseException) -> None:
        with replace_file(target) as draft:
            draft.write_text("half")
            raise error

    with pytest.raises(InputError, match=r"t\.csv' failed: No space left on device\. Nothing was changed"):
        fail(DISK_FULL)
    with pytest.raises(KeyboardInterrupt):
        fail(KeyboardInterrupt())
    assert target.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_a_failed_folder_changes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "out"

    def fail() -> None:
        with replace_folder(target) as draft:
            (draft / "a").write_text("half")
            raise DISK_FULL

    with pytest.raises(InputError, match="No space left on device"):
        fail()
    assert not list(tmp_path.iterdir())
    for text in ("one", "two"):
        with replace_folder(target) as draft:
            (draft / "a").write_text(text)
    assert (target / "a").read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Choose another place"):
        write_csv(pa.table({"a": [1]}), tmp_path / "file" / "t.csv")
    with pytest.raises(InputError, match="is a folder"):
        write_csv(pa.table({"a": [1]}), tmp_path)
    with pytest.raises(InputError, match="is not a folder"), replace_folder(tmp_path / "file"):
        pass


def test_links_stay_and_devices_are_not_replaced(tmp_path: Path) -> None:
    target, link, pipe = tmp_path / "target.csv", tmp_path / "link.csv", tmp_path / "pipe"
    target.write_text("before")
    link.symlink_to(target)
    with replace_file(link) as draft:
        draft.write_text("after")
    assert link.is_symlink()
    assert target.read_text() == "after"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="not a plain file"), replace_file(pipe):
        pass


def test_a_clash_in_the_folder_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "out" / "b").mkdir(parents=True)
    (tmp_path / "out" / "a").write_text("old")
    with pytest.raises(InputError, match="exists and is a folder"), replace_folder(tmp_path / "out") as draft:
        [(draft / name).write_text("new") for name in ("a", "b")]
    assert (tmp_path / "out" / "a").read_text() == "old"
