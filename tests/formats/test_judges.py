"""What language models said, and who judged it: inspect_ai, lm-eval, AlpacaEval and MT-Bench."""

from __future__ import annotations

import json
import shutil
import zipfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crowdwise import read_export
from crowdwise.cli import main
from crowdwise.kinds import read_comparisons
from crowdwise.labels import InputError, read_labels

if TYPE_CHECKING:
    from crowdwise.formats import Export

EXAMPLES = Path(__file__).parents[2] / "examples" / "exports"


def count(export: Export) -> tuple[str, int, int, int, int, int]:
    assert export.question is not None
    left = (export.skipped.num_rows, export.drafts.num_rows, export.gold.num_rows, export.n_anchored)
    return (export.question.kind, export.question.n_answers, *left)


def lines(path: Path, *records: Any) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


# ---- inspect_ai -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["inspect-ai.eval", "inspect-ai.json"])
def test_inspect_ai(name: str, tmp_path: Path) -> None:
    export = read_export(EXAMPLES / name)
    assert export.format.slug == "inspect-ai"
    assert count(export) == ("labels", 23, 1, 0, 0, 0)
    assert export.labels.workers.to_pylist() == ["judge", "judge1", "judge2"]
    assert export.labels.tasks.to_pylist() == list(range(1, 9))
    assert export.task_attributes.column_names == ["task", "topic"]
    shutil.copy(EXAMPLES / name, tmp_path)
    assert read_export(tmp_path).labels.to_table() == export.labels.to_table()  # a folder of logs


def log(*samples: Any, **more: Any) -> dict[str, Any]:
    return {"version": 2, "status": "success", "eval": {"task": "t", "model": "m"}, "samples": list(samples)} | more


def sample(number: Any = 1, epoch: int = 1, **scores: Any) -> dict[str, Any]:
    return {"id": number, "epoch": epoch, "scores": scores}


def test_what_else_scores_may_be(tmp_path: Path) -> None:
    panel = {"votes": ["C", {"model": "gpt", "value": "I"}], "size": 3, "failures": ["timeout"]}
    (tmp_path / "log.json").write_text(json.dumps(log(
        sample(1, 1, judge={"value": 0.5}, other={"value": {"style": "C", "facts": 3}}),
        sample(1, 2, panel={"value": "C", "metadata": {"panel": panel}}),
        {"id": 2, "epoch": 1, "error": {"message": "no"}, "scores": {}}, status="cancelled",
    )))  # fmt: skip
    export = read_export(tmp_path / "log.json")
    assert [(each.name, each.kind, each.n_answers) for each in export.questions] == [
        ("score", "values", 1), ("style", "labels", 1), ("facts", "values", 1), ("score", "labels", 2)
    ]  # fmt: skip
    assert export.left_out == {"vote of a panel that failed": 1, "sample that ended with an error": 1}
    assert export.notes == ("log.json: the evaluation did not end (its status is 'cancelled').",)
    votes = read_export(tmp_path / "log.json", question="score", kind="labels").answers
    assert votes["worker"].to_pylist() == ["panel 1", "gpt"]
    assert votes["task"].to_pylist() == ["1/epoch 2"] * 2


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (log(sample(None, judge={"value": "C"})), r"log\.json, sample 1: 'id' is None"),
        (log(sample(judge={"answer": "C"})), r"sample 1, score 'judge' has no 'value'"),
        (log(sample(judge={"value": "C"}), sample(judge={"value": "I"})), r"sample 2: 'judge' scores sample 1 again"),
        (log("x"), r"log\.json, sample 1 is 'x', not an object"),
        (log(samples=None), r"log\.json has no list 'samples'"),
        (log(sample(judge={"value": "C", "metadata": {"panel": {}}})), r"'panel' has no list 'votes'"),
    ],
)
def test_logs_that_are_broken(written: Any, said: str, tmp_path: Path) -> None:
    (tmp_path / "log.json").write_text(json.dumps(written))
    with pytest.raises(InputError, match=said):
        read_export(tmp_path / "log.json")


def test_archives_that_are_broken(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "out.eval", "w") as archive:
        archive.writestr("header.json", json.dumps(log()))
        archive.writestr("../samples/1_epoch_1.json", json.dumps(sample(judge={"value": "C"})))
    with pytest.raises(InputError, match=r"out\.eval holds '\.\./samples/1_epoch_1\.json', a file outside"):
        read_export(tmp_path / "out.eval")
    for deep, said in (("[" * 100_000, "nested too deeply"), ('{"id": 1', "is not JSON"), ("7", "holds 7, not an obj")):
        with zipfile.ZipFile(tmp_path / "log.eval", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("header.json", json.dumps(log()))
            archive.writestr("samples/1_epoch_1.json", deep)
        with pytest.raises(InputError, match=rf"log\.eval/samples/1_epoch_1\.json.* {said}"):
            read_export(tmp_path / "log.eval")
    (tmp_path / "text.eval").write_text("x")
    with pytest.raises(InputError, match=r"text\.eval is no log of inspect_ai: it is no archive"):
        read_export(tmp_path / "text.eval")
    whole = bytearray((EXAMPLES / "inspect-ai.eval").read_bytes())
    whole[2000:2010] = b"\0" * 10  # within what is packed
    (tmp_path / "bad.eval").write_bytes(whole)
    with pytest.raises(InputError, match=r"bad\.eval/.* is damaged in the archive"):
        read_export(tmp_path / "bad.eval")


# ---- lm-eval ----------------------------------------------------------------------------------------------


def test_lm_eval() -> None:
    export = read_export(EXAMPLES / "lm-eval")
    assert [(each.name, each.n_answers) for each in export.questions] == [
        ("colours", 24), ("sums/strict-match", 6), ("sums/flexible-extract", 8)
    ]  # fmt: skip
    colours = read_export(EXAMPLES / "lm-eval", question="colours")
    assert count(colours) == ("labels", 24, 2, 0, 6, 0)
    assert colours.labels.workers.to_pylist() == ["ada", "bo", "cleo", "dan"]
    assert colours.labels.classes.to_pylist() == ["0", "1", "2"]
    sums = read_export(EXAMPLES / "lm-eval", question="sums/strict-match")
    assert count(sums) == ("labels", 6, 2, 0, 2, 0)
    assert sorted(sums.gold["label"].to_pylist()) == ["1", "2"]
    one = next((EXAMPLES / "lm-eval" / "dan").glob("samples_colours*"))
    assert read_export(one).labels.workers.to_pylist() == ["dan"]


RESPONSE = {"doc_id": 0, "doc_hash": "a", "target": "x", "filtered_resps": ["x"]}


@pytest.mark.parametrize(
    ("record", "answer", "gold"),
    [
        ({"filtered_resps": [[-2.0, False], [-1.0, True]], "target": 1}, "1", ["1"]),  # as older versions write them
        ({"filtered_resps": ["-2.0", "-1.0"], "target": "blue", "arguments": [["c", " red"], ["c", " blue"]]},
         "1", ["1"]),
        ({"filtered_resps": [["x ", "y"]], "target": ["x", "z"]}, "x", []),
    ],
)  # fmt: skip
def test_forms_of_responses(record: Any, answer: str, gold: list[str], tmp_path: Path) -> None:
    export = read_export(lines(tmp_path / "ada" / "samples_t.jsonl", RESPONSE | record))
    assert (export.answers["label"].to_pylist(), export.gold["label"].to_pylist()) == ([answer], gold)


def test_documents_that_stand_twice_and_likelihoods_alone(tmp_path: Path) -> None:
    alone = {"doc_id": 1, "doc_hash": "b", "target": "x", "filtered_resps": [["-1.0", "False"]]}
    export = read_export(lines(tmp_path / "ada" / "samples_t.jsonl", RESPONSE, RESPONSE, alone))
    assert sorted(export.left_out.values()) == [1, 1]
    assert export.question.n_answers == 1  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"doc_id": 1, "target": "x"}, r"record 2 has not all of doc_id, target and filtered_resps"),
        ({**RESPONSE, "doc_hash": None}, r"record 2: 'doc_hash' is None"),
        ({**RESPONSE, "doc_hash": "b", "filtered_resps": []}, r"record 2: 'filtered_resps' is \[\], not a list of"),
        (
            {**RESPONSE, "doc_hash": "b", "filtered_resps": ["a", {}]},
            r"record 2: 'filtered_resps' cannot be read as likelihoods",
        ),
        ([1], r"record 2 has not all of"),
    ],
)
def test_samples_that_are_broken(second: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"samples_t\.jsonl, {said}"):
        read_labels(lines(tmp_path / "ada" / "samples_t.jsonl", RESPONSE, second))


def test_a_model_that_nobody_names() -> None:
    with pytest.raises(InputError, match=r"does not say which model answered\. Give the folder"):
        read_export(BytesIO(json.dumps(RESPONSE).encode()))


# ---- comparisons ------------------------------------------------------------------------------------------


def test_mt_bench() -> None:
    export = read_export(EXAMPLES / "mt-bench_pair.jsonl")
    assert count(export) == ("comparisons", 47, 1, 0, 0, 0)
    with pytest.warns(match="1 skipped answer"):
        answers = read_comparisons(EXAMPLES / "mt-bench_pair.jsonl")
    assert (answers.n_answers, answers.workers.to_pylist()) == (47, ["gpt-4", "claude-v1"])
    rows = export.answers.slice(0, 2).to_pylist()  # both orders; the winner is the same
    assert [(row["left"], row["right"], row["label"]) for row in rows] == [
        ("alpaca", "koala", "right"), ("koala", "alpaca", "left")
    ]  # fmt: skip


GAME = {"question_id": 81, "model_1": "a", "model_2": "b", "g1_winner": "model_1", "g2_winner": "model_1",
        "judge": ["gpt-4", "pair-v2"], "turn": 1, "tstamp": 1.5}  # fmt: skip


def test_other_judgments(tmp_path: Path) -> None:
    human = {"question_id": 81, "model_a": "a", "model_b": "b", "winner": "model_b", "judge": "expert_0", "turn": 2}
    people = read_export(lines(tmp_path / "h.jsonl", human, {**human, "winner": "tie", "judge": "expert_1"}))
    assert people.answers.select(["task", "worker", "left", "label"]).to_pylist() == [
        {"task": "81/2", "worker": "expert_0", "left": "a", "label": "right"},
        {"task": "81/2", "worker": "expert_1", "left": "a", "label": "tie"},
    ]
    single = {"question_id": 81, "model": "a", "judge": ["gpt-4", "single-v1"], "score": 7, "turn": 1}
    scores = read_export(lines(tmp_path / "s.jsonl", single, {**single, "turn": 2, "score": -1}))
    assert count(scores) == ("values", 1, 1, 0, 0, 0)
    assert scores.answers["task"].to_pylist() == ["81/1/a"]
    scored = {name: value for name, value in GAME.items() if name != "turn"} | {"m1_score": 5, "g2_winner": "model_1"}
    itself = {**GAME, "model_2": "a"}
    export = read_export(lines(tmp_path / "m.jsonl", scored, itself))
    assert (count(export)[1], export.left_out) == (1, {"comparison of a model with itself": 1})


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({**GAME, "judge": None}, r"record 2: 'judge' is None"),
        ({**GAME, "judge": []}, r"record 2: 'judge' is \[\]"),
        ({**GAME, "g2_winner": "both"}, r"record 2: 'g2_winner' is 'both'; it must be model_1, model_2, tie or error"),
        ({**GAME, "model_1": 3}, r"record 2: 'model_1' is 3, no name of a model"),
        ({**GAME, "question_id": None}, r"record 2: 'question_id' is None"),
        ({"question_id": 1, "judge": "x"}, r"record 2 lacks fields of a judgment"),
        (GAME, r"repeat an earlier one of the same worker about the same pair"),
    ],
)
def test_judgments_that_are_broken(second: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        read_comparisons(lines(tmp_path / "gpt-4_pair.jsonl", GAME, second))


def test_alpaca_eval(capsys: pytest.CaptureFixture[str]) -> None:
    export = read_export(EXAMPLES / "alpaca-eval.json")
    assert count(export) == ("comparisons", 39, 1, 0, 0, 0)
    assert export.notes[0].startswith("alpaca-eval.json: 20 × answer with a preference between 1 and 2")
    records = json.loads((EXAMPLES / "alpaca-eval.json").read_text())
    rows = export.answers.to_pylist()
    first = {(row["task"], row["worker"], *sorted((row["left"], row["right"]))): row for row in rows}
    for record in records[:-1]:
        models = record["generator_1"], record["generator_2"]
        row = first[record["instruction"], record["annotator"], *sorted(models)]
        assert (row["left"] == models[1]) == record["is_switched_outputs"]
        assert row[row["label"]] == models[record["preference"] > 1.5]
    assert main(["aggregate", str(EXAMPLES / "alpaca-eval.json")]) == 0
    assert "gpt4_turbo" in capsys.readouterr().out


PREFERENCE = {"instruction": "i", "output_1": "", "generator_1": "a", "output_2": "", "generator_2": "b",
              "annotator": "x", "preference": 1.5, "is_switched_outputs": False}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"annotator": None}, r"record 2: 'annotator' is None, not a text"),
        ({"preference": 3}, r"record 2: 'preference' is 3; it must be from 1"),
        ({"preference": "1"}, r"record 2: 'preference' is '1'"),
        ({"instruction": ""}, r"record 2: 'instruction' is '', not a text"),
        ({}, r"repeat an earlier one"),
    ],
)
def test_annotations_that_are_broken(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps([PREFERENCE, PREFERENCE | change]))
    with pytest.raises(InputError, match=said):
        read_comparisons(tmp_path / "a.json")
    (tmp_path / "a.json").write_text(json.dumps([PREFERENCE])[:-30])
    assert main(["aggregate", str(tmp_path / "a.json")]) == 2


def test_annotations_that_lack_a_field(tmp_path: Path) -> None:
    lacking = {name: value for name, value in PREFERENCE.items() if name != "annotator"}
    (tmp_path / "a.json").write_text(json.dumps([lacking]))
    with pytest.raises(InputError, match=r"a\.json, record 1 has no 'annotator'"):
        read_export(tmp_path / "a.json")
