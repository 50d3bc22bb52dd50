"""Exports as a stranger might make them: nothing is merged, split or lost without a word."""

from __future__ import annotations

import contextlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crowdwise import read_export, read_labels
from crowdwise.cli import main
from crowdwise.labels import InputError

EXAMPLES = Path(__file__).parents[2] / "examples" / "exports"


def result(kind: str, value: Any, name: str = "q") -> dict[str, Any]:
    return {"from_name": name, "to_name": "text", "type": kind, "value": value}


def annotation(by: Any, *results: dict[str, Any]) -> dict[str, Any]:
    return {"id": 1, "completed_by": by, "result": list(results)}


def choose(by: Any, *choices: Any) -> dict[str, Any]:
    return annotation(by, result("choices", {"choices": list(choices)}))


def task(name: Any, *annotations: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": name, "data": {"text": "t"}, "annotations": list(annotations), **more}


def put(folder: Path, records: Any, name: str = "export.json") -> Path:
    path, lines = folder / name, name.endswith(".jsonl")
    path.write_text("".join(json.dumps(each) + "\n" for each in records) if lines else json.dumps(records))
    return path


def write_back(path: Path, *more: str) -> list[Any]:
    out = path.parent / "out"
    assert main(["aggregate", str(path), "--write-back", str(out), *more]) == 0
    text = out.read_text()
    return json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]


def zip_files(folder: Path, files: dict[str, str], packed: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(folder / "export.zip", "w", packed) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return folder / "export.zip"


# ---- writing back -----------------------------------------------------------------------------------------


def test_several_labels_and_texts_are_written(tmp_path: Path) -> None:
    path = put(
        tmp_path, [task(i, *(choose(by, "x|y", "z") if i % 2 else choose(by, "z") for by in "abc")) for i in range(4)]
    )
    written = [each["predictions"][0]["result"][0]["value"] for each in write_back(path)]
    assert [set(each["choices"]) for each in written] == [{"z"}, {"x|y", "z"}] * 2
    path = put(
        tmp_path,
        [task(i, *(annotation(by, result("textarea", {"text": [f"so {i}"]})) for by in "abc")) for i in range(3)],
    )
    written = [each["predictions"][0]["result"][0]["value"] for each in write_back(path)]
    assert written == [{"text": [f"so {i}"]} for i in range(3)]


def test_a_step_of_a_taxonomy_may_hold_a_slash(tmp_path: Path) -> None:
    paths = [["Film", "Sci/Fi"], ["Film\\", "War"]]
    path = put(
        tmp_path,
        [
            task(i, *(annotation(by, result("taxonomy", {"taxonomy": [paths[i % 2]]})) for by in "abc"))
            for i in range(4)
        ],
    )
    written = [each["predictions"][0]["result"][0]["value"]["taxonomy"] for each in write_back(path)]
    assert written == [[each] for each in paths * 2]


def test_the_type_written_is_that_of_the_kind_asked_for(tmp_path: Path) -> None:
    asked = [{"from_name": "q", "value": {}}, result("rating", {"rating": 2}), result("choices", {"choices": ["x"]})]
    path = put(
        tmp_path,
        [task(1, annotation("a", *asked), annotation("b", *asked)), task(2, choose("a", "y"), choose("b", "y"))],
    )
    written = write_back(path, "--question", "q", "--kind", "labels")
    assert [each["predictions"][0]["result"][0]["type"] for each in written] == ["choices", "choices"]


def test_odd_fields_do_not_stop_the_writing(tmp_path: Path) -> None:
    tasks = [task(i, choose("a", "xy"[i]), choose("b", "xy"[i])) for i in range(2)]
    tasks[0]["data"]["half \ud83d"] = "half \ud83d"
    del tasks[1]["data"]
    assert [each["id"] for each in write_back(put(tmp_path, tasks))] == [0, 1]
    lines = [
        {"_task_hash": i, "answer": ["accept", "reject"][i], "_annotator_id": who, "meta": "src"}
        for i in (0, 1)
        for who in "ab"
    ]
    assert [each["meta"]["meta"] for each in write_back(put(tmp_path, lines, "p.jsonl"))] == ["src", "src"]


def test_records_of_argilla_are_written_by_the_name_they_were_read_by(tmp_path: Path) -> None:
    said = [[{"value": "xy"[i], "user_id": who} for who in "ab"] for i in range(2)]
    records = [
        {"id": i, "external_id": f"e{i}", "fields": {"a": "t"}, "suggestions": {}, "responses": {"q": said[i]}}
        for i in range(2)
    ]
    assert [each["id"] for each in write_back(put(tmp_path, records))] == [0, 1]
    for each in records:
        del each["external_id"]
    assert [each["id"] for each in write_back(put(tmp_path, records))] == [0, 1]


@pytest.mark.parametrize(
    "name", ["res", "res/consensus.csv", "res/model", "res/model/model.json", "./res/../res/workers.csv"]
)
def test_results_are_not_overwritten(name: str, tmp_path: Path, capsys: Any) -> None:
    words = ["aggregate", str(EXAMPLES / "label-studio.json"), "--out", str(tmp_path / "res")]
    assert main([*words, "--write-back", str(tmp_path / name)]) == 2
    assert "is where --out writes its results" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


# ---- names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tasks",
    [
        [task("\ud800", choose("a", "x")), task("\ud801", choose("b", "y"))],
        [task(1, choose("\ud800", "x")), task(2, choose("\ud801", "y"))],
        [task(1, choose("a", "\ud800")), task(2, choose("a", "\ud801"))],
        [task(1, annotation("a", result("choices", {"choices": ["x"]}, "\ud800")))],
    ],
    ids=["tasks", "workers", "labels", "question"],
)
def test_names_that_are_no_unicode_do_not_become_one(tasks: list[Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not Unicode"):
        read_export(put(tmp_path, tasks))


def test_fields_of_tasks_that_are_no_unicode_spoil_nothing(tmp_path: Path) -> None:
    tasks = [task(i, choose("a", "x"), data={"\ud800": "ab"[i % 2], "text": "\ud83d"}) for i in range(4)]
    assert read_export(put(tmp_path, tasks)).labels.n_tasks == 4


@pytest.mark.parametrize("name", [True, 1.5, [1], {"a": 1}, None])
def test_what_names_nothing_is_refused(name: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no 'id'"):
        read_export(put(tmp_path, [task(name, choose("a", "x"))]))
    content = json.dumps({"q": {"label": "x"}})
    request = {"datasetObjectId": name, "annotations": [{"workerId": "a", "annotationData": {"content": content}}]}
    with pytest.raises(InputError, match="needs 'datasetObjectId'"):
        read_export(put(tmp_path, [request]))


def test_a_model_with_the_name_of_a_worker_is_another(tmp_path: Path) -> None:
    predicted = {"model_version": "7", "result": [result("choices", {"choices": ["y"]})]}
    path = put(tmp_path, [task(1, choose(7, "x")), task(2, predictions=[predicted])])
    assert read_export(path, include_predictions=True).labels.workers.to_pylist() == ["7", "7 (model)"]


def test_tasks_named_by_several_fields_stay_apart(tmp_path: Path) -> None:
    asked = [("a/b", "c"), ("a", "b/c"), ("a\\", "b")]
    lines = [{"text": text, "label": label, "answer": "accept", "_annotator_id": "a"} for text, label in asked]
    assert read_export(put(tmp_path, lines, "p.jsonl")).labels.n_tasks == 3
    rows = ["INPUT:a\tINPUT:b\tOUTPUT:q\tASSIGNMENT:worker_id", "a | b\tc\tx\tw", "a\tb | c\ty\tw", "a \\| b\tc\tx\tw"]
    (tmp_path / "t.tsv").write_text("\n".join(rows) + "\n")
    assert read_export(tmp_path / "t.tsv").labels.n_tasks == 3


# ---- lists ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", ["cat", {"cat": 1}, [None], [["cat"]], ["cat", {"a": 1}]])
def test_what_is_no_list_of_choices_is_refused(chosen: Any, tmp_path: Path) -> None:
    lines = [{"_input_hash": 1, "_view_id": "choice", "accept": chosen, "answer": "accept", "_annotator_id": "a"}]
    box = {"x": 1, "y": 1, "width": 1, "height": 1, "rectanglelabels": chosen}
    said = [{"value": value, "user_id": who} for who, value in zip("ab", (["dog", "cat"], chosen), strict=True)]
    argilla = {"id": "r", "fields": {"a": "t"}, "suggestions": {}, "responses": {"q": said}}
    for records, name in [
        ([task(1, annotation("a", result("choices", {"choices": chosen})))], "ls.json"),
        ([task(1, annotation("a", result("rectanglelabels", box)))], "ls.json"),
        (lines, "p.jsonl"),
        ([argilla], "a.json"),
    ]:
        with pytest.raises(InputError):
            read_export(put(tmp_path, records, name))
    flat = {"id": "r", "q.responses": "xy", "q.responses.users": "ab"}
    with pytest.raises(InputError, match="'xy' is no list"):
        read_export(put(tmp_path, [flat], "a.jsonl"))


def test_choices_of_several_types_are_texts(tmp_path: Path) -> None:
    export = read_export(put(tmp_path, [task(1, choose("a", "x", 1), choose("b", 1, 2))]))
    assert export.answers["labels"].to_pylist() == [["x", "1"], ["1", "2"]]


# ---- files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_packed_file_that_is_damaged(packed: int, tmp_path: Path) -> None:
    lines = "".join(json.dumps({"id": i, "text": f"t{i * i}", "label": ["xy"[i % 2]]}) + "\n" for i in range(200))
    data = zip_files(tmp_path, {"ann.jsonl": lines}, packed).read_bytes()
    for place in range(40, len(data) - 120, 23):
        changed = bytearray(data)
        changed[place] ^= 0xFF
        with contextlib.suppress(InputError):  # and nothing else; a bit of a header may not matter
            read_export(io.BytesIO(changed))


def test_the_list_of_an_archive_is_read_once(tmp_path: Path, monkeypatch: Any) -> None:
    path = zip_files(tmp_path, {f"w{i}.jsonl": '{"id": 1, "text": "t", "label": ["x"]}\n' for i in range(9)})
    opened, zip_file = [], zipfile.ZipFile

    def open_zip(*given: Any) -> zipfile.ZipFile:
        opened.append(given)
        return zip_file(*given)

    monkeypatch.setattr(zipfile, "ZipFile", open_zip)
    assert read_export(path).labels.n_workers == 9
    assert len(opened) == 1


def test_jobs_of_sagemaker_are_not_mixed(tmp_path: Path) -> None:
    answers = json.dumps({"answers": [{"workerId": "a", "answerContent": {"q": {"label": "x"}}}]})
    rows = "annotations/worker-response/iteration-1"
    with pytest.raises(InputError, match="the answers of 2 jobs"):
        read_export(zip_files(tmp_path, {f"{job}/{rows}/0/f.json": answers for job in ("one", "two")}))
    path = zip_files(tmp_path, {f"job/{rows}/{row}/f.json": answers for row in ("3", "03", "9" * 5000)})
    assert read_export(path).answers["task"].to_pylist() == ["03", "3", "9" * 5000]


def test_gold_alone(tmp_path: Path, capsys: Any) -> None:
    path = put(tmp_path, [task(1, choose("a", "x") | {"ground_truth": True})])
    assert main(["aggregate", str(path)]) == 2
    assert "holds no answer to read: 1 gold answer" in capsys.readouterr().err


def test_a_table_with_two_columns_of_one_name_is_no_export(tmp_path: Path) -> None:
    names = ["task", "worker", "label", "label"]
    pq.write_table(pa.table([["t"], ["w"], ["x"], ["y"]], names=names), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="more than one column named 'label'"):
        read_labels(tmp_path / "t.parquet")


def test_arguments_of_read_export() -> None:
    export = read_export(EXAMPLES / "label-studio-questions.json")
    with pytest.raises(InputError, match="was read already"):
        read_export(export, question="stars")
    with pytest.raises(InputError, match="There is no format"):
        read_export(EXAMPLES / "label-studio.json", format=["toloka"])  # type: ignore[arg-type]
