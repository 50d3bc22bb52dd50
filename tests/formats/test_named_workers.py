"""`--worker NAME=FILE`, for tools that write a file for each worker and do not say whose it is."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crowdwise import read_export
from crowdwise.cli import main
from crowdwise.formats.open_export import find_export
from crowdwise.labels import InputError, read_labels

if TYPE_CHECKING:
    from crowdwise.formats import Export

EXAMPLES = Path(__file__).parents[2] / "examples" / "exports"


def answers_of(export: Export) -> dict[str, int]:
    names = export.answers["worker"].to_pylist()
    return {name: names.count(name) for name in dict.fromkeys(names)}


def test_marks_and_spans(tmp_path: Path) -> None:
    files = [EXAMPLES / "cvat" / "ann.xml", EXAMPLES / "cvat" / "bob.xml"]
    with zipfile.ZipFile(tmp_path / "job.zip", "w") as archive:  # as CVAT gives it
        archive.write(files[0], "annotations.xml")
    named = read_export([tmp_path / "job.zip", files[1]], question="tag", workers=["Ann B.", "Bob"])
    assert answers_of(named) == {"Ann B.": 4, "Bob": 4}
    same = read_export(EXAMPLES / "cvat", question="tag")
    assert named.answers.drop(["worker"]) == same.answers.drop(["worker"])
    with zipfile.ZipFile(EXAMPLES / "brat.zip") as archive:
        archive.extractall(tmp_path)
    spans = read_export([tmp_path / "ann", tmp_path / "bob"], workers=["1", "2"])
    assert spans.answers.drop(["worker"]) == read_export(EXAMPLES / "brat.zip").answers.drop(["worker"])


def test_lines(tmp_path: Path) -> None:
    (tmp_path / "all.jsonl").write_text(json.dumps({"id": 1, "text": "x", "label": ["spam"]}))
    assert answers_of(read_export([tmp_path / "all.jsonl"], workers=["ann"])) == {"ann": 1}
    line = {"text": "x", "label": "A", "_input_hash": 1, "_task_hash": 2, "answer": "accept"}
    for name in ("1.jsonl", "2.jsonl"):
        (tmp_path / name).write_text(json.dumps(line))
    files = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    assert answers_of(read_export(files, workers=["ann", "bob"])) == {"ann": 1, "bob": 1}
    with pytest.raises(InputError, match=r"name them: --worker NAME=FILE"):
        read_export(files)


def test_tables(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("task,label\na,x\nb,y\n")
    (tmp_path / "2.csv").write_text("task,label\na,x\n")
    joined, export = find_export([tmp_path / "1.csv", tmp_path / "2.csv"], workers=["ann", "bob"])
    assert export is None
    rows = read_labels(joined).to_table().to_pylist()
    assert {(row["task"], row["worker"], row["label"]) for row in rows} == {
        ("a", "ann", "x"), ("b", "ann", "y"), ("a", "bob", "x"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--worker", "ann"], "--worker 'ann' is not NAME=FILE"),
        (["--worker", "ann=1.csv", "--worker", "ann=2.csv"], "Each worker has one name and one file: 'ann'"),
        (["2.csv", "--worker", "ann=1.csv"], "'2.csv' has no worker. Give --worker NAME=FILE for each file"),
        (["--worker", "ann=3.csv"], "3.csv has the column 'rater', which says whose each answer is"),
        (["--worker", f"ann={EXAMPLES / 'label-studio.json'}"], "an export of Label Studio, which says whose"),
        ([], "Missing argument 'LABELS'"),
    ],
)
def test_what_is_refused(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, header in {"1.csv": "task,label", "2.csv": "task,label", "3.csv": "task,rater,label"}.items():
        Path(name).write_text(f"{header}\n{'a,b,c'[: len(header.split(',')) * 2 - 1]}\n")
    assert main(["describe", *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_the_command_that_is_advised_names_the_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for name in ("ann", "bob") for word in ("--worker", f"{name}={EXAMPLES / 'cvat' / name}.xml")]
    assert main(["describe", *words]) == 0
    advised = f"crowdwise describe {' '.join(words)} --question box"
    assert advised in " ".join(capsys.readouterr().out.split())
