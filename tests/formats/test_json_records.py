"""JSON record by record, whatever the size of the blocks in which it comes."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from crowdwise.formats import json_records
from crowdwise.formats.json_records import JsonRecords
from crowdwise.labels import InputError
from crowdwise.labels.byte_source import open_blob

if TYPE_CHECKING:
    from pathlib import Path

VALUES: list[Any] = [{"a": 'é\\"] ,{'}, {"b": [1, {"c": None}]}, {}, {"d": 1.5e3, "e": "x" * 200}]


@pytest.mark.parametrize("block", [1, 2, 7, 64, 1 << 20])
@pytest.mark.parametrize("form", ["array", "indented", "lines", "gzipped", "marked"])
def test_records_do_not_depend_on_blocks(block: int, form: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(json_records, "BLOCK", block)
    text = {
        "array": json.dumps(VALUES),
        "indented": json.dumps(VALUES, indent=2, ensure_ascii=False),
        "lines": "".join(json.dumps(value) + "\r\n\n" for value in VALUES),
        "gzipped": json.dumps(VALUES),
        "marked": "\ufeff" + json.dumps(VALUES),
    }[form]
    data = text.encode()
    (tmp_path / "f.json").write_bytes(gzip.compress(data) if form == "gzipped" else data)
    records = JsonRecords(open_blob(tmp_path / "f.json"))
    assert list(records) == VALUES
    assert list(records) == VALUES  # again from the beginning
    assert records.is_array == (form != "lines")
    assert records.number == len(VALUES)


def test_every_cut_is_refused_with_its_place(tmp_path: Path) -> None:
    data = json.dumps(VALUES).encode()
    for size in range(1, len(data)):
        (tmp_path / "f.json").write_bytes(data[:size])
        with pytest.raises(InputError, match=r"f\.json, byte \d+ \(record \d\) is not JSON"):
            list(JsonRecords(open_blob(tmp_path / "f.json")))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'[{"a": 1} {"b": 2}]', r"byte 10 \(record 1\) is not JSON \('\{' stands where a comma"),
        (b'[{"a": 1}] [2]', r"byte 11 .*stands after the end of the array"),
        (b'[{"a": 1}, {"b": \xff}]', r"is not UTF-8"),
        (b'[{"a": 1},\n {"b" 2}]', r"byte 17 \(record 2\) is not JSON"),
        (b"[" * 200_000, r"\(record 1\) is nested too deeply"),
        (b'[{"a": ' + b"1" * 5000 + b"}]", "an integer of more digits"),
    ],
)
def test_what_is_no_json(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "f.json").write_bytes(data)
    with pytest.raises(InputError, match=said):
        list(JsonRecords(open_blob(tmp_path / "f.json")))


def test_a_record_that_would_fill_the_memory(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text('[{"a": "' + "x" * 5_000_000 + '"}]')
    with pytest.raises(InputError, match=r"is longer than 1,000,000 characters"):
        list(JsonRecords(open_blob(tmp_path / "f.json"), largest=1_000_000))


def test_an_object_that_has_a_name_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text('[{"a": 1}, {"b": {"label": "x", "label": "y"}}]')
    with pytest.raises(InputError, match=r"f\.json, byte 11 \(record 2\) names 'label' twice in one object"):
        list(JsonRecords(open_blob(tmp_path / "f.json")))
    with pytest.raises(InputError, match="a cell names 'a' twice in one object"):
        json_records.parse_json_text('{"a": 1, "a": 2}', "a cell")
