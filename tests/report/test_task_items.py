"""What tasks show: texts and pictures beside their names, never anything else of the machine or the network."""

from __future__ import annotations

import base64
import json
import os
import re
import zlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import crowdwise as cw
from crowdwise.report import task_items as room_of_items
from crowdwise.report.page import make_report
from crowdwise.report.task_items import LONG, MOST_BYTES, SHORT, PictureBudget, TaskItem, read_items

if TYPE_CHECKING:
    from pathlib import Path

TASKS = pa.array(["t1", "t2", "t3"])


def png(grey: int = 0, size: int = 4) -> bytes:
    """A small picture, all of one grey."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = zlib.crc32(kind + content)
        return len(content).to_bytes(4, "big") + kind + content + check.to_bytes(4, "big")

    head = size.to_bytes(4, "big") * 2 + bytes([8, 0, 0, 0, 0])
    rows = b"".join(b"\0" + bytes([grey]) * size for _ in range(size))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def uri(content: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def test_texts_are_lined_up_by_name_and_cut() -> None:
    long = "word " * 2000
    items = read_items({"id": ["t3", "t1", "other"], "Text": [f"one\n\ttwo \x1b {long}", "short", "aside"]}, TASKS)
    assert [items.describe(at)[:9] for at in range(3)] == ["short", "", "one\n\ttwo "]
    assert items.describe_named(["t1", "nobody"]) == ["short", ""]
    first, second, third = (items.show(at, PictureBudget()) for at in range(3))
    assert first == TaskItem("short")
    assert second == TaskItem()
    assert third.short.startswith("one two \\x1b word")
    assert third.short.endswith("…")
    assert len(third.short) == SHORT
    assert third.whole.startswith("one\n\\ttwo \\x1b word")
    assert len(third.whole) <= LONG + 20


def test_names_that_are_numbers_meet_those_of_the_labels(tmp_path: Path) -> None:
    file = tmp_path / "items.csv"
    file.write_text('task,text\n2,"a, b ""quoted""\nsecond line"\n10,plain\n')
    items = read_items(str(file), pa.array([10, 2]))
    assert items.describe_named([2, 10]) == ['a, b "quoted"\nsecond line', "plain"]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (png(), "png"),
        (b"\xff\xd8\xff\xe0rest", "jpeg"),
        (b"GIF89arest", "gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "webp"),
    ],
)
def test_pictures_become_data(content: bytes, kind: str, tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "one").write_bytes(content)
    file = tmp_path / "items.csv"
    file.write_text("task,image,text\nt1,pictures/one,\nt2,pictures/one,hello\n")
    items = read_items(file, TASKS)
    assert items.show(0, PictureBudget()) == TaskItem("", "", uri(content, kind))
    assert items.show(1, PictureBudget()) == TaskItem("hello", "", uri(content, kind))
    assert items.describe(0) == "pictures/one"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("secret.txt", "not shown: no PNG, JPEG, GIF or WebP"),
        ("drawing.svg", "not shown: no PNG, JPEG, GIF or WebP"),
        ("large.png", "not shown: larger than 300 kB"),
        ("https://example.org/x.png", "not on this machine, and not asked for"),
        ("file:///etc/passwd", "not on this machine, and not asked for"),
    ],
)
def test_other_files_are_named_and_not_shown(path: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("password")
    (tmp_path / "drawing.svg").write_text("<svg onload='window.pwned=1'/>")
    (tmp_path / "large.png").write_bytes(png() + b"\0" * MOST_BYTES)
    file = tmp_path / "items.csv"
    file.write_text(f"task,url\nt1,{path}\n")
    assert read_items(file, TASKS).show(0, PictureBudget()) == TaskItem(f"{path} ({why})")


def test_a_page_takes_so_many_pictures_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "one.png").write_bytes(png())
    file = tmp_path / "items.csv"
    file.write_text("task,path\nt1,one.png\nt2,one.png\n")
    items, room = read_items(file, TASKS), PictureBudget(len(png()))
    assert items.show(0, room).picture
    assert items.show(1, room).short == "one.png (not shown: the pictures before it fill the page)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task,size\nt1,4\n", r"items.csv'?: items need one column 'task' and a column 'text', or one with the paths"),
        ("text\nhello\n", "need one column 'task'"),
        ("who,text\nt1,hello\n", "the columns are 'who', 'text'"),
        ("task,text\nt1,a\nt1,b\n", "names task 't1' more than once"),
        ("task,text\nx,a\n", r"The items are about other tasks \('x', …\) than the labels"),
        ("task,text\n", "about other tasks|no rows|empty"),
    ],
)
def test_tables_that_are_none(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "items.csv"
    file.write_text(text)
    with pytest.raises(cw.InputError, match=message):
        read_items(str(file), TASKS)


def test_other_things_than_tables() -> None:
    with pytest.raises(cw.InputError, match="Items need a table"):
        read_items({"t1": {"text": "hello"}}, TASKS)
    with pytest.raises(cw.InputError, match="column 'text' does not hold text"):
        read_items({"task": ["t1"], "text": [["a", "list"]]}, TASKS)


def test_a_picture_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "items.csv"
    file.write_text("task,image\nt1,gone.png\nt2,.\nt3,a\0b\n".replace("\0", ""))
    items = read_items(file, TASKS)
    with pytest.raises(cw.InputError, match=r"The picture 'gone\.png' of task 't1' cannot be read: there is no such"):
        items.show(0, PictureBudget())
    with pytest.raises(cw.InputError, match="begin where the table is"):
        items.show(1, PictureBudget())


def test_tasks_may_be_named_by_their_pictures() -> None:
    items = read_items({"image": ["t1"], "text": ["a cat"]}, TASKS)
    assert items.show(0, PictureBudget()) == TaskItem("a cat")


# ---- on the page ------------------------------------------------------------------------------------------


def data_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_items_stand_beside_tasks_in_doubt(audited: Any, tmp_path: Path) -> None:
    audit, _ = audited()
    for at in range(300):
        (tmp_path / f"{at}.png").write_bytes(png(at % 256) + bytes([at % 256, at // 256]))
    evil = "<img src=x onerror=window.pwned=1>"
    table = {
        "task": [f"task-{at}" for at in range(300)],
        "text": [f"{evil} {at} " + "long " * 60 for at in range(300)],
        "image": [str(tmp_path / f"{at}.png") for at in range(300)],
    }
    page = make_report(audit, items=table)
    assert evil not in page
    assert "&lt;img src=x onerror=window.pwned=1&gt; 0 long" in page  # of the finding about task-0
    rows = data_of(page)["tables"]["tasks"]
    assert len(rows) > 25
    shown = re.findall(r'<img class="item" alt="What the task shows" src="([^"]*)" data-row="(\d+)">', page)
    assert [int(at) for _, at in shown] == list(range(25))
    for at, row in enumerate(rows):
        name, (short, whole, picture) = row[0], row[1]
        task = int(name.removeprefix("task-"))
        wanted = uri((tmp_path / f"{task}.png").read_bytes())
        assert picture == (at if at < 25 else wanted)
        assert at >= 25 or shown[at][0] == wanted
        assert short.startswith(f"{evil} {task} long")
        assert whole.count("long") == 60
    assert "img-src data:" in page


def test_a_page_without_items_has_no_room_for_them(audited: Any) -> None:
    page = make_report(audited()[0])
    assert 'data-type="item"' not in page
    assert len(data_of(page)["tables"]["tasks"][0]) == 6


def test_bytes_of_all_pictures_are_limited(audited: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one.png").write_bytes(png())
    monkeypatch.setattr(room_of_items.PictureBudget, "__init__", lambda self: setattr(self, "left", 3 * len(png())))
    audit, _ = audited()
    table = {"task": [f"task-{at}" for at in range(300)], "path": [str(tmp_path / "one.png")] * 300}
    assert make_report(audit, items=table).count("data:image/png;base64,") == 3


@pytest.mark.parametrize("what", ["a folder", "a pipe", "a device"])
def test_picture_that_is_no_plain_file_is_called_what_it_is(what: str, tmp_path: Path) -> None:
    picture = tmp_path / "p.png"
    if what == "a folder":
        picture.mkdir()
    elif what == "a pipe":
        os.mkfifo(picture)
    else:
        picture.symlink_to("/dev/zero")
    (tmp_path / "items.csv").write_text("task,image\nt1,p.png\n", encoding="utf-8")
    items = read_items(tmp_path / "items.csv", TASKS)
    with pytest.raises(
        cw.InputError, match=rf"The picture 'p\.png' of task 't1' cannot be read: 'p\.png' is {what}, not"
    ):
        items.show(0, PictureBudget())
