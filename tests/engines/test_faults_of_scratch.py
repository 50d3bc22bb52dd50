"""Scratch folders: only what was made here is removed, and what is damaged there is said."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crowdwise as cw
from crowdwise.cli import main
from crowdwise.engines import Dask, Stream, label_store
from crowdwise.engines.label_store import LabelStore
from crowdwise.engines.stored_labels import StoredLabels
from crowdwise.labels import InputError
from crowdwise.labels.engine_choice import ENGINES

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("duckdb")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    names = [(f"t{task}", worker, "ab"[task % 2]) for task in range(9) for worker in ("x", "y")]
    task, worker, label = map(list, zip(*names, strict=True))
    pq.write_table(pa.table({"task": task, "worker": worker, "label": label}), tmp_path / "l.parquet")
    return tmp_path / "l.parquet"


def test_a_folder_of_the_user_is_not_removed(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "o.scratch").mkdir()
    (tmp_path / "o.scratch" / "thesis.tex").write_text("dear")
    command = ["aggregate", str(table), "--engine", "stream", "--out", str(tmp_path / "o")]
    assert main(command) == 2
    assert "holds other files" in capsys.readouterr().err
    assert (tmp_path / "o.scratch" / "thesis.tex").read_text() == "dear"
    (tmp_path / "o.scratch" / "thesis.tex").unlink()
    assert main(command) == 0
    assert not (tmp_path / "o.scratch").exists()


def test_labels_that_are_refused_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("task,worker,label\nt,x,a\nt,x,b\n")
    command = ["aggregate", str(tmp_path / "l.csv"), "--engine", "stream", "--out", str(tmp_path / "o")]
    assert main(command) == 2
    assert not (tmp_path / "o.scratch").exists()
    assert main([*command, "--memory", "1KB"]) == 2
    assert [each.name for each in tmp_path.iterdir()] == ["l.csv"]


def test_a_folder_that_no_disk_can_have(table: Path) -> None:
    with pytest.raises(InputError, match="Cannot make the scratch folder"):
        Stream(scratch="a\0b").read(table)
    for folder in ("", 5, b"x"):
        with pytest.raises(InputError, match="give its path, as text"):
            Stream(scratch=folder).read(table)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    ["answers.npy", "classes.ends", "labels_per_task.i4", "tasks.data", "workers.ends", "workers.data", "store.json"],
)
def test_files_that_were_cut_or_changed(table: Path, tmp_path: Path, name: str) -> None:
    Stream(scratch=tmp_path / "s").read(table)
    file = tmp_path / "s" / name
    content = file.read_bytes()
    changed = content[:-1] + bytes([content[-1] ^ 1])  # of a name, another letter
    for other in (content[: len(content) // 2], b"", changed):
        file.write_bytes(other)
        with pytest.raises(InputError, match=r"Delete"):
            cw.MajorityVote().fit(Stream(scratch=tmp_path / "s").read(table)).consensus()
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(InputError, match=r"Delete"):
        cw.MajorityVote().fit(Stream(scratch=tmp_path / "s").read(table)).consensus()


def test_a_model_of_labels_on_the_disk_is_saved(table: Path, tmp_path: Path) -> None:
    labels = Stream(scratch=tmp_path / "s").read(table)
    model = cw.DawidSkene(engine=Stream()).fit(labels)
    model.save(tmp_path / "m")
    assert np.array_equal(cw.load(tmp_path / "m").posterior_, model.posterior_)


def test_engines_are_those_that_run() -> None:
    assert set(ENGINES) == {"auto", "cuda", "dask", "numba", "numpy", "stream"}


def test_some_of_the_labels_are_in_memory(table: Path) -> None:
    some = Stream().read(table).select(workers=["x"])
    assert (some.n_labels, some.in_memory) == (9, True)


def test_known_truths_of_a_new_class(table: Path) -> None:
    with pytest.raises(InputError, match=r"do not have: 'emu'\. Declare all classes"):
        cw.DawidSkene().fit(Stream().read(table), gold={"t0": "emu", "t1": "a"})


@pytest.mark.parametrize("name", ["row", "label", "slot", "ptr", "lanes", "dtype", "byte order", "name"])
def test_indices_that_no_sort_wrote_are_not_followed(name: str, table: Path, tmp_path: Path) -> None:
    Stream(scratch=tmp_path / "s").read(table)
    facts = json.loads((tmp_path / "s" / "store.json").read_text())
    part = facts["parts"][0]
    path = tmp_path / "s" / part["file"]
    data = bytearray(path.read_bytes())
    if name == "dtype":
        part["arrays"]["row"][0] = "|O"
    elif name == "byte order":
        part["arrays"]["row"][0] = ">i4"
    elif name == "name":
        part["arrays"]["evil"] = part["arrays"].pop("row")
    else:
        kind, length, offset = part["arrays"][name]
        strange = np.full(length, np.iinfo(kind).max // 2 + 1, kind).tobytes()
        data[offset : offset + len(strange)] = strange
    path.write_bytes(data)
    part["checksum"] = zlib.crc32(bytes(data))  # as a stranger would
    (tmp_path / "s" / "store.json").write_text(json.dumps(facts))
    label_store._checked.clear()
    for method in (cw.DawidSkene, cw.MajorityVote):
        with pytest.raises(InputError, match="is damaged"):
            method().fit(StoredLabels(LabelStore(tmp_path / "s"), Stream().make_passes))


@pytest.mark.parametrize("given", [0, -5, 0.5, "many", True])
def test_sizes_of_parts_that_are_none(given: Any) -> None:
    for engine in (Stream, Dask):
        with pytest.raises(InputError, match="part_labels is"):
            engine(part_labels=given)


def test_what_is_no_engine_and_no_client() -> None:
    with pytest.raises(InputError, match=r"Give an engine: Stream\(\)"):
        cw.DawidSkene(engine=Stream).fit({"task": [1, 1], "worker": ["a", "b"], "label": ["x", "y"]})
    with pytest.raises(InputError, match=r"give a distributed\.Client"):
        Dask("tcp://head:8786")


def test_a_scratch_folder_that_was_deleted_is_made_anew(table: Path, tmp_path: Path) -> None:
    for _ in range(2):
        cw.OneCoin(engine=Stream(scratch=tmp_path / "s")).fit(str(table))
        shutil.rmtree(tmp_path / "s")
