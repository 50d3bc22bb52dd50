"""Every example, cut and changed as a stranger might: it is read, or refused with its name in one message."""

from __future__ import annotations

import copy
import csv
import io
import json
import random
import shutil
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest

from crowdwise import read_export, read_labels
from crowdwise.cli import main
from crowdwise.labels import InputError, InputWarning

EXAMPLES = Path(__file__).parents[2] / "examples" / "exports"
MADE = sorted(path for path in EXAMPLES.iterdir() if path.suffix not in (".py", ".md") and path.name != "__pycache__")
JSON = [path for path in MADE if path.suffix in (".json", ".jsonl")]
TABLES = [path for path in MADE if path.suffix in (".csv", ".tsv")]
VALUES: list[Any] = [None, 5, -1.5, "", "x", "\x00", True, [], {}, [None], [[]], {"a": None}, 2**70, "x" * 2000]
CHANGES = 60  # of each file


def read_or_refuse(path: Path) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            export = read_export(path)
            if export.question is not None and export.question.kind == "labels":
                assert export.labels.n_labels
    except InputError as error:
        said = str(error)
    else:
        said = ""
    assert len(said) < 1500
    assert "\n" not in said


def name_of(path: Path) -> str:
    return path.name


@pytest.mark.parametrize("path", MADE, ids=name_of)
def test_every_example_is_read_without_a_flag(path: Path) -> None:
    if path.suffix == ".xlsx":
        pytest.importorskip("openpyxl")
    export = read_export(path)
    assert export.questions
    if export.question is not None and export.question.kind == "labels":
        assert export.labels.n_labels == export.question.n_answers
    assert (export.question is None) == (len(export.questions) > 1)


@pytest.mark.parametrize("path", [path for path in MADE if path.is_file()], ids=name_of)
def test_files_cut_short(path: Path, tmp_path: Path) -> None:
    data, rng = path.read_bytes(), random.Random(1)  # noqa: S311
    for size in sorted(rng.sample(range(1, len(data)), 25)):
        (tmp_path / path.name).write_bytes(data[:size])
        read_or_refuse(tmp_path / path.name)


@pytest.mark.parametrize("path", [path for path in MADE if path.is_file()], ids=name_of)
def test_bytes_changed(path: Path, tmp_path: Path) -> None:
    data, rng = path.read_bytes(), random.Random(2)  # noqa: S311
    for _ in range(25):
        changed = bytearray(data)
        for place in rng.sample(range(len(data)), 2):
            changed[place] = rng.randrange(256)
        (tmp_path / path.name).write_bytes(changed)
        read_or_refuse(tmp_path / path.name)


@pytest.mark.parametrize("name", ["coco", "cvat", "hugging-face", "lm-eval"])
def test_bytes_changed_in_a_folder(name: str, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / name, tmp_path / name)
    rng, files = random.Random(5), sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())  # noqa: S311
    for _ in range(25):
        file = rng.choice(files)
        data = file.read_bytes()
        changed = bytearray(data)
        for place in rng.sample(range(len(data)), 2):
            changed[place] = rng.randrange(256)
        file.write_bytes(changed)
        read_or_refuse(tmp_path / name)
        file.write_bytes(data)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [each for key, inner in inside for each in [(*path, key), *places(inner, (*path, key))]]


@pytest.mark.parametrize("path", JSON, ids=name_of)
def test_values_changed_in_json(path: Path, tmp_path: Path) -> None:
    text, rng = path.read_text(), random.Random(3)  # noqa: S311
    lines = path.suffix == ".jsonl"
    records = [json.loads(line) for line in text.splitlines()] if lines else json.loads(text)
    every = places(records)
    for _ in range(CHANGES):
        changed = copy.deepcopy(records)
        *above, last = rng.choice(every)
        target = changed
        for key in above:
            target = target[key]
        if rng.random() < 0.4:
            del target[last]
        else:
            target[last] = rng.choice(VALUES)
        made = "".join(json.dumps(each) + "\n" for each in changed) if lines else json.dumps(changed)
        (tmp_path / path.name).write_text(made)
        read_or_refuse(tmp_path / path.name)


@pytest.mark.parametrize("path", TABLES, ids=name_of)
def test_cells_changed_in_tables(path: Path, tmp_path: Path) -> None:
    rng = random.Random(4)  # noqa: S311
    dialect = "excel-tab" if path.suffix == ".tsv" else "excel"
    rows = list(csv.reader(path.read_text().splitlines(), dialect))
    for _ in range(CHANGES):
        changed = copy.deepcopy(rows)
        row, column = rng.randrange(len(rows)), rng.randrange(len(rows[0]))
        if rng.random() < 0.2:
            for each in changed:
                del each[column]
        else:
            changed[row][column] = rng.choice(
                ["", "x", "[]", "{}", "[{", '[{"a": 1}]', "null", "5", '[{"task": 3}]', "-"]
            )
        out = io.StringIO()
        csv.writer(out, dialect).writerows(changed)
        (tmp_path / path.name).write_text(out.getvalue())
        read_or_refuse(tmp_path / path.name)


@pytest.mark.parametrize("name", ["label-studio.json", "prodigy.jsonl", "argilla.json", "sagemaker-request.json"])
def test_nothing_is_written_where_the_export_is_broken(name: str, tmp_path: Path, capsys: Any) -> None:
    data = (EXAMPLES / name).read_bytes()
    (tmp_path / name).write_bytes(data[: len(data) * 2 // 3])
    out = tmp_path / "out"
    assert main(["aggregate", str(tmp_path / name), "--write-back", str(out), "--out", str(tmp_path / "r")]) == 2
    said = capsys.readouterr().err
    assert f"{name}, byte " in said
    assert sorted(each.name for each in tmp_path.iterdir()) == [name]


def test_a_damaged_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as archive:
        archive.writestr("ann.jsonl", '{"id": 1, "text": "a", "label": ["x"]}\n')
    data = bytearray((tmp_path / "d.zip").read_bytes())
    data[data.index(b'"text"')] = 0
    (tmp_path / "d.zip").write_bytes(data)
    with pytest.raises(InputError, match=r"d\.zip/ann\.jsonl is damaged in the archive"):
        read_export(tmp_path / "d.zip")


def test_an_empty_file_among_others_is_noted(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "sagemaker", tmp_path / "sagemaker")
    first = min((tmp_path / "sagemaker").rglob("*.json"))
    first.write_bytes(b"")
    with pytest.warns(InputWarning, match=f"{first.name} is empty, and left out"):
        read_export(tmp_path / "sagemaker")


def test_an_empty_archive_is_called_so(tmp_path: Path) -> None:
    zipfile.ZipFile(tmp_path / "d.zip", "w").close()
    with pytest.raises(InputError, match="with nothing in it"):
        read_labels(tmp_path / "d.zip")
