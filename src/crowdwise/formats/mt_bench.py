"""MT-Bench: judgments of language models and of people (JSON lines, or a table with the same columns).

| field | read as |
|---|---|
| `judge` (of [model, prompt], the model) | worker |
| `question_id` and `turn` | task |
| `model_1`, `model_2`, `g1_winner`, `g2_winner` | two comparisons: model_1 stands left, then right |
| `model_a`, `model_b`, `winner` (people) | a comparison, model_a left |
| `model`, `score` | values; the model's answer is the task |
| winner `error`, score -1 | skipped |

Winners are named, not placed, so that the second game needs no turning round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crowdwise.formats.export_format import Format
from crowdwise.labels.errors import InputError, listing, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crowdwise.formats.answer_collector import AnswerCollector
    from crowdwise.formats.export_files import ExportFiles

__all__ = ["FORMAT"]

ALWAYS = {"question_id", "judge"}
GAMES, PEOPLE, SINGLE = (
    {"model_1", "model_2", "g1_winner", "g2_winner"},
    {"model_a", "model_b", "winner"},
    {"model", "score", "turn"},
)
SCORED = "m1_score"  # where the winner is that of two scores, there was no second game
QUESTION, SCORE = "winner", "score"
TIES = ("tie", "tie (bothbad)", "tie (inconsistent)", "both_bad")
FAILED = -1  # the score where no number was found in what the judge wrote
SIDES = {"left": "right", "right": "left", "tie": "tie"}


def recognises(files: ExportFiles) -> bool:
    """Whether the first line has a question and a judge, and models with a winner or a score."""
    names = set(files.first_record)
    return names >= ALWAYS and any(names >= form for form in (GAMES, PEOPLE, SINGLE))


def read(files: ExportFiles, found: AnswerCollector) -> None:
    """Give both games of every line to the collector."""
    for record, records in files.records():
        names, where = set(record), records.where
        form = next((form for form in (GAMES, PEOPLE, SINGLE) if names >= form), None)
        if form is None or not names >= ALWAYS:
            raise InputError(
                f"{where} lacks fields of a judgment; it has {listing(record)}. It needs question_id, judge and "
                "model_1, model_2, g1_winner, g2_winner (or model_a, model_b, winner)."
            )
        worker = _worker_of(record, where)
        time = record.get("tstamp")
        if form is SINGLE:
            _read_score(record, worker, found, where)
            continue
        first, second = ("model_1", "model_2") if form is GAMES else ("model_a", "model_b")
        models = _model(record, first, where), _model(record, second, where)
        task = _task_of(record, where)
        if models[0] == models[1]:
            found.left_out["comparison of a model with itself"] += 1
            continue
        games = ("winner",) if form is PEOPLE else ("g1_winner",) if SCORED in record else ("g1_winner", "g2_winner")
        for field in games:
            side = _read_winner(record[field], (first, second), f"{where}: {field!r}")
            if side is None:
                found.skipped.add(task, worker)
                continue
            row = (*models, side) if field != "g2_winner" else (*reversed(models), SIDES[side])
            found.question(QUESTION, "comparisons").add(task, worker, row, time=_as_seconds(time))


def _read_winner(winner: Any, names: tuple[str, str], where: str) -> str | None:
    if winner in names:
        return "left" if winner == names[0] else "right"
    if winner in TIES:
        return "tie"
    if winner in ("error", None):
        return None
    raise InputError(f"{where} is {quote(winner)}; it must be {names[0]}, {names[1]}, tie or error.")


def _read_score(record: Mapping[str, Any], worker: str, found: AnswerCollector, where: str) -> None:
    task = f"{_task_of(record, where)}/{_model(record, 'model', where)}"
    score = record["score"]
    if score is not None and (isinstance(score, bool) or not isinstance(score, int | float)):
        raise InputError(f"{where}: 'score' is {quote(score)}, no number.")
    if score is None or score == FAILED:
        found.skipped.add(task, worker)
    else:
        found.question(SCORE, "values").add(task, worker, (float(score),), time=_as_seconds(record.get("tstamp")))


def _worker_of(record: Mapping[str, Any], where: str) -> str:
    judge = record["judge"]
    name = judge[0] if isinstance(judge, list) and judge else judge
    if not isinstance(name, str) or not name:
        raise InputError(f"{where}: 'judge' is {quote(judge)}, so that nobody knows whose judgment it is.")
    return name


def _task_of(record: Mapping[str, Any], where: str) -> str:
    question, turn = record["question_id"], record.get("turn", 1)  # older files are of the first turn
    if not isinstance(question, str | int) or not isinstance(turn, str | int):
        raise InputError(f"{where}: 'question_id' is {quote(question)} and 'turn' {quote(turn)}; both must be there.")
    return f"{question}/{turn}"


def _model(record: Mapping[str, Any], field: str, where: str) -> str:
    if not isinstance(record[field], str) or not record[field]:
        raise InputError(f"{where}: {field!r} is {quote(record[field])}, no name of a model.")
    return str(record[field])


def _as_seconds(time: Any) -> float | None:
    return float(time) if isinstance(time, int | float) and not isinstance(time, bool) else None


FORMAT = Format(
    slug="mt-bench",
    name="MT-Bench",
    files="judgments: <judge>_pair.jsonl, <judge>_single.jsonl, those of people",
    kinds=("comparisons", "values"),
)
