"""Scratch folders: only what was made here is removed, and what is damaged there is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crowdwise.cli import main
from crowdwise.engines import Stream
from crowdwise.labels import InputError

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


def test_a_folder_that_no_disk_can_have(table: Path) -> None:
    with pytest.raises(InputError, match="Cannot make the scratch folder"):
        Stream(scratch="a\0b").read(table)
