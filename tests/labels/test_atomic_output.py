"""Folders and files that take their place in one step: what is kept, what is cleared, and where it cannot be."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Any

import pytest

from crowdwise.labels import InputError, folder_exchange
from crowdwise.labels.atomic_output import replace_file, replace_files, replace_folder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder of ours with files of the user's in it."""
    place = tmp_path / "out"
    write(place, "old")
    (place / "pictures" / "deep").mkdir(parents=True)
    for name in ("notes", "part/notes", "pictures/deep/one"):
        (place / name).write_text("mine")
    return place


def write(place: Path, text: str) -> None:
    with replace_folder(place) as draft:
        (draft / "part").mkdir()
        for name in ("a", "b.json", "part/c"):
            (draft / name).write_text(text)


def read(place: Path) -> dict[str, str]:
    return {str(path.relative_to(place)): path.read_text() for path in place.rglob("*") if path.is_file()}


def expected(text: str, **more: str) -> dict[str, str]:
    mine = dict.fromkeys(("notes", "part/notes", "pictures/deep/one"), "mine")
    return dict.fromkeys(("a", "b.json", "part/c"), text) | mine | more


def test_a_folder_is_exchanged_and_others_files_stay(out: Path) -> None:
    before, notes = out.stat().st_ino, (out / "notes").stat().st_ino
    write(out, "new")
    assert read(out) == expected("new")
    assert out.stat().st_ino != before  # one step: this is another folder
    assert (out / "notes").stat().st_ino == notes  # and the very file, for a program that has it open
    assert [path.name for path in out.parent.iterdir()] == ["out"]


def test_what_comes_while_folders_are_exchanged_is_kept(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange = folder_exchange.exchange

    def come_between(one: Path, other: Path) -> None:
        (other / "came").write_text("mine")
        (other / "pictures" / "came").write_text("mine")
        (other / "editor").write_text("changed")
        (other / "editor").replace(other / "notes")  # as editors save
        exchange(one, other)

    monkeypatch.setattr(folder_exchange, "exchange", come_between)
    write(out, "new")
    assert read(out) == expected("new", came="mine", notes="changed", **{"pictures/came": "mine"})
    assert [path.name for path in out.parent.iterdir()] == ["out"]


@pytest.mark.parametrize("why", ["system", "links", "many", "owner"])
def test_where_folders_cannot_be_exchanged_files_are_renamed(
    why: str, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSYS, "not here")

    if why == "system":
        monkeypatch.setattr(folder_exchange, "exchange", refuse)
    elif why == "links":
        monkeypatch.setattr(os, "link", refuse)
    elif why == "many":
        monkeypatch.setattr(folder_exchange, "MOST_LINKS", 1)
    else:
        monkeypatch.setattr(folder_exchange.shutil, "copystat", refuse)
    before = out.stat().st_ino
    write(out, "new")
    assert read(out) == expected("new")
    assert out.stat().st_ino == before
    assert [path.name for path in out.parent.iterdir()] == ["out"]


@pytest.mark.parametrize("where", [".", "pictures"])
def test_the_working_directory_is_never_exchanged(where: str, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(out / where)
    before = out.stat().st_ino
    write(out, "new")
    assert (out.stat().st_ino, read(out)) == (before, expected("new"))
    assert (out / where).samefile(".")


def test_files_renamed_one_by_one_say_which_were(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(out)
    rename = folder_exchange._replace_one

    def fails(entry: Path, place: Path) -> None:
        if entry.name == "b.json":  # the last
            raise OSError(errno.EIO, "Input/output error")
        rename(entry, place)

    monkeypatch.setattr(folder_exchange, "_replace_one", fails)
    with pytest.raises(InputError, match=r"b\.json' failed: Input/output error\. Already replaced in .*: a, part\."):
        write(out, "new")
    assert read(out)["b.json"] == "old"


def test_a_parent_that_may_not_be_written(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, _: path != out.parent)
    parent = out.parent.stat().st_mtime_ns
    write(out, "new")
    assert read(out) == expected("new")
    assert out.parent.stat().st_mtime_ns == parent
    monkeypatch.setattr(os, "access", lambda path, _: path != out)
    with pytest.raises(InputError, match="You may not write in"):
        write(out, "newer")


def test_links_stay(out: Path) -> None:
    real = out.parent / "elsewhere"
    real.mkdir()
    for name in ("part", "b.json"):
        (out / name).rename(real / name)
        (out / name).symlink_to(real / name)
    (out.parent / "link").symlink_to(out)
    write(out.parent / "link", "new")
    assert (out.parent / "link").is_symlink()
    assert all((out / name).is_symlink() for name in ("part", "b.json"))
    assert read(out)["a"] == (real / "b.json").read_text() == (real / "part" / "c").read_text() == "new"
    (out.parent / "loop").symlink_to(out.parent / "loop")
    for replace in (replace_file, replace_folder):
        with pytest.raises(InputError, match="a link that leads nowhere"), replace(out.parent / "loop"):
            pass


def test_permissions_stay(out: Path) -> None:
    out.chmod(0o2750)
    (out / "a").chmod(0o600)
    write(out, "new")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (out, out / "a")] == [0o2750, 0o600]
    with replace_file(out / "a") as draft:
        draft.write_text("newer")
    assert stat.S_IMODE((out / "a").stat().st_mode) == 0o600


def test_drafts_of_the_dead_are_cleared_and_of_the_living_kept(out: Path) -> None:
    with replace_folder(out) as first, replace_file(out.parent / "out.csv") as file:
        dead = out.parent / ".out-1234.crowdwise"  # as after an exchange: its number on the disk is another
        dead.mkdir()
        (dead / "a").write_text("older")
        (dead / "came").write_text("mine")  # came while it was exchanged, and then the process was killed
        for name in (".out-mine", ".out.csv-mine", ".out.csv-dead.crowdwise"):
            (out.parent / name).write_text("")
        write(out, "new")
        with replace_file(out.parent / "out.csv") as draft:
            draft.write_text("")
        assert first.exists()
        assert file.exists()
        assert not dead.exists()
        (first / "a").write_text("newest")
    assert read(out) == expected("new", a="newest", came="mine")
    assert sorted(path.name for path in out.parent.iterdir()) == [".out-mine", ".out.csv-mine", "out", "out.csv"]


def test_several_files_or_none(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "new" / "two"
    one.write_text("before")

    def fail() -> None:
        with replace_files([one, two]) as drafts:
            drafts[0].write_text("after")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(InputError, match="No space left on device"):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
    assert one.read_text() == "before"

    def meet_a_folder() -> None:
        with replace_files([one, two]):
            two.mkdir()

    with pytest.raises(InputError, match=r"two' failed: Is a directory\. Already written: .*one\."):
        meet_a_folder()


def test_long_names(tmp_path: Path) -> None:
    with replace_file(tmp_path / ("x" * 255)) as draft:
        draft.write_text("")
    assert [len(path.name) for path in tmp_path.iterdir()] == [255]
