"""Formats are found by walking their room; each has an example that is read without a flag."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from crowdwise.cli import main
from crowdwise.formats import find_format, formats, read_export
from crowdwise.formats.answer_collector import KIND_COLUMNS
from crowdwise.kinds.kind_registry import kinds
from crowdwise.labels import InputError, read_labels

EXAMPLES = Path(__file__).parents[2] / "examples" / "exports"


def test_every_format_is_described_once() -> None:
    found = formats()
    assert [each.name for each in found] == sorted(each.name for each in found)
    assert len({each.slug for each in found}) == len(found)
    assert {"label-studio", "prodigy"} <= {each.slug for each in found}
    for each in found:
        assert set(each.kinds) <= set(KIND_COLUMNS), each.slug
        assert bool(each.writes) == (each.write is not None), each.slug


def test_the_columns_of_every_kind_are_those_that_its_reader_knows() -> None:
    for each in kinds():
        if each.name in KIND_COLUMNS and each.name != "ordinal":  # whose column is known by another usual name
            assert each.recognises(["task", "worker", *KIND_COLUMNS[each.name]]), each.name


def test_a_format_that_there_is_not() -> None:
    with pytest.raises(InputError, match=r"no format 'labelstudio'\. Did you mean label-studio\?"):
        find_format("labelstudio")


def test_plain_tables_are_no_exports(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("task,worker,label\na,ann,x\na,bob,y\n")
    assert read_labels(tmp_path / "l.csv").n_labels == 2
    with pytest.raises(InputError, match=r"l\.csv is no export that is known \(.*Label Studio"):
        read_export(tmp_path / "l.csv")
    with pytest.raises(InputError, match="has no questions"):
        read_labels(tmp_path / "l.csv", question="sentiment")


def test_archives(tmp_path: Path) -> None:
    tasks = (EXAMPLES / "label-studio.json").read_text()
    with zipfile.ZipFile(tmp_path / "good.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("project/tasks.json", tasks)
    assert read_export(tmp_path / "good.zip").question.n_answers == 34  # type: ignore[union-attr]
    with zipfile.ZipFile(tmp_path / "outside.zip", "w") as archive:
        archive.writestr("../../tasks.json", tasks)
    with pytest.raises(InputError, match=r"outside\.zip holds '\.\./\.\./tasks\.json', a file outside"):
        read_labels(tmp_path / "outside.zip")
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tasks.json", b" " * (1 << 28) + b"[]")
    with pytest.raises(InputError, match="more than 200 times its size"):
        read_labels(tmp_path / "bomb.zip")
    (tmp_path / "cut.zip").write_bytes((tmp_path / "good.zip").read_bytes()[:500])
    with pytest.raises(InputError, match=r"cut\.zip is a damaged zip archive"):
        read_labels(tmp_path / "cut.zip")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "tasks.json").write_text(tasks)
    assert read_export(tmp_path / "folder").origin == "folder"


def test_standard_input_is_read_once(tmp_path: Path) -> None:
    with (EXAMPLES / "label-studio.json").open("rb") as stream:
        assert read_export(stream).question.n_answers == 34  # type: ignore[union-attr]
    with pytest.raises(InputError, match="a table in memory"):
        read_export([{"task": 1}], question="x")


def test_an_export_is_read_by_every_kind_that_it_holds(tmp_path: Path) -> None:
    box = {"x": 1, "y": 2, "width": 30, "height": 40, "rotation": 0, "rectanglelabels": ["cat"]}
    said = {"textarea": {"text": ["a cat"]}, "number": {"number": 3}, "rectanglelabels": box}
    for type_, value in said.items():
        result = {"from_name": "q", "to_name": "t", "type": type_, "value": value}
        tasks = [
            {"id": task, "data": {}, "annotations": [{"completed_by": who, "result": [result]} for who in (1, 2)]}
            for task in (1, 2)
        ]
        (tmp_path / "e.json").write_text(json.dumps(tasks))
        export = read_export(tmp_path / "e.json")
        kind = next(each for each in kinds() if each.name == export.chosen_question().kind)
        assert kind.read(export).n_workers == 2
        assert main(["describe", str(tmp_path / "e.json"), "--json"]) == 0


def test_exports_of_other_kinds_name_them(tmp_path: Path) -> None:
    task = {"id": 1, "data": {}, "annotations": [{"id": 1, "completed_by": 1, "result": [
        {"from_name": "outline", "to_name": "img", "type": "brushlabels",
         "value": {"format": "rle", "rle": [0, 1], "brushlabels": ["cat"]}}]}]}  # fmt: skip
    (tmp_path / "m.json").write_text(json.dumps([task]))
    assert read_export(tmp_path / "m.json").question.kind == "outlines"  # type: ignore[union-attr]
    if "outlines" not in {each.name for each in kinds()}:
        with pytest.raises(InputError, match=r"outlines, which cannot be aggregated yet.*--question 'outline'"):
            read_labels(tmp_path / "m.json")
