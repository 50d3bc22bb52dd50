"""Files that are none: pipes, devices, links that lead nowhere, and files that are cut while they are read."""

from __future__ import annotations

import io
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crowdwise.labels import InputError, byte_source, read_labels
from crowdwise.labels.files import file_source
from crowdwise.labels.sequences import read_sequences
from crowdwise.labels.truth import read_truth
from crowdwise.report.task_items import read_items

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXT = "task,worker,label\na,ann,x\na,bob,y\nb,ann,y\n"
TABLE = pa.table({"task": ["a", "a", "b"], "worker": ["ann", "bob", "ann"], "label": ["x", "y", "y"]})
READERS: dict[str, Callable[[Any], Any]] = {
    "labels": read_labels,
    "several": lambda path: read_labels([path, path.with_name("other.csv")]),
    "truth": read_truth,
    "items": lambda path: read_items(path, TABLE["task"].unique()),
    "sequences": lambda path: read_sequences(path, ["a", "b"]),
}


@pytest.mark.parametrize("what", READERS)
def test_what_has_no_end_or_no_beginning_is_refused(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_source, "WAIT", 0.05)
    pipe, loop = tmp_path / "pipe.csv", tmp_path / "loop.csv"
    (tmp_path / "other.csv").write_text(TEXT)
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    device = tmp_path / "zero.csv"
    device.symlink_to("/dev/zero")
    for path, said in ((pipe, "nobody writes"), (device, "is a device"), (loop, "cannot be opened")):
        with pytest.raises(InputError, match=said):
            READERS[what](path)


def test_a_writer_may_come_late_and_take_time(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)

    def write() -> None:
        time.sleep(0.1)
        with pipe.open("w") as file:
            for line in TEXT.splitlines(keepends=True):
                time.sleep(0.05)
                file.write(line)
                file.flush()

    thread = threading.Thread(target=write)
    thread.start()
    assert read_labels(pipe).n_labels == 3
    thread.join()


@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd"])
def test_process_substitution(folder: str) -> None:
    read, write = os.pipe()
    os.write(write, TEXT.encode())
    os.close(write)
    try:
        assert read_labels(f"{folder}/{read}").n_labels == 3
    finally:
        os.close(read)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_file_cut_while_it_is_read_is_an_error(kind: str, tmp_path: Path) -> None:
    """Memory-mapped, it would end the process with a bus error."""
    path = tmp_path / f"l.{kind}"
    names = np.array([f"t{place}" for place in range(200_000)])
    large = pa.table({"task": names, "worker": names, "label": np.resize(["x", "y"], names.size)})
    if kind == "parquet":
        pq.write_table(large, path, compression="none", use_dictionary=False)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, large.schema) as writer:
            writer.write_table(large)
    found = file_source(path)
    os.truncate(path, 4096)
    if kind == "arrow":  # was read already
        assert found.column("task").to_pylist()[-1] == names[-1]  # type: ignore[union-attr]
    else:
        with pytest.raises(InputError, match="damaged or cut short"):
            list(found.batches(["task"]))  # type: ignore[union-attr,misc]


def test_open_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_bytes(TEXT.encode() + "é,ann,x\n".encode("latin-1"))
    closed = path.open()
    closed.close()
    with path.open(encoding="utf-8") as text, (tmp_path / "new").open("w") as new:
        for file, said in (
            (closed, "closed file"),
            (io.BytesIO(), "is empty"),
            (new, "not readable"),
            (text, "Open it in binary mode"),
            (type("Stream", (), {"read": lambda _: None})(), "gives None"),
        ):
            with pytest.raises(InputError, match=said):
                read_labels(file)


def test_damaged_dictionaries_and_offsets_do_not_reach_compiled_code(tmp_path: Path) -> None:
    codes = pa.array([0, 10**6, -7], pa.int32())
    offsets = pa.py_buffer(np.array([0, 1, 10**8, 3], np.int32))
    for label in (
        pa.DictionaryArray.from_arrays(codes, ["x", "y"], safe=False),
        pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"xyz")]),
    ):
        table = TABLE.set_column(2, "label", pa.chunked_array([label]))
        path = tmp_path / "l.arrow"
        try:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
        except pa.ArrowException:
            continue
        with pytest.raises(InputError, match="damaged"):
            read_labels(path)
    with pytest.raises(InputError, match="damaged"):
        read_labels({**TABLE.to_pydict(), "label": pa.DictionaryArray.from_arrays(codes, ["x", "y"], safe=False)})


def test_names_of_files_are_inert_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "\x1b[31m\u202el.csv"
    path.write_text("task,worker,label\na,ann,\n")
    with pytest.raises(InputError) as caught:
        read_labels(path)
    assert r"\x1b[31m\u202el.csv, line 2" in str(caught.value)
