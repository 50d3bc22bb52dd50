"""AlpacaEval: annotations (`annotations.json`, a list of records).

| field | read as |
|---|---|
| `annotator` | worker |
| `instruction` | task |
| `generator_1`, `generator_2` | the two items of a comparison; the one that was shown first stands left |
| `is_switched_outputs` (older files: `is_switch_output_1_output_2`) | whether output_2 was shown first |
| `preference` | 1 for output_1, 2 for output_2, 1.5 for a tie; a number between counts for the nearer |
| `preference` 0, or none | skipped |

`preference` is in the order of the file, whatever was shown first, as the tool maps it back itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from crowdwise.formats.export_format import Format
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crowdwise.formats.answer_collector import AnswerCollector
    from crowdwise.formats.export_files import ExportFiles

__all__ = ["FORMAT"]

NEEDED = ("instruction", "generator_1", "generator_2", "annotator", "preference")
SWITCHED = ("is_switched_outputs", "is_switch_output_1_output_2")
QUESTION = "preference"
FIRST, TIE, SECOND = 1.0, 1.5, 2.0
WEIGHED = "answer with a preference between 1 and 2, counted for the nearer"


def recognises(files: ExportFiles) -> bool:
    """Whether the first record has an instruction, two generators and a preference."""
    return set(files.first_record) >= {"instruction", "generator_1", "generator_2", "preference"}


def read(files: ExportFiles, found: AnswerCollector) -> None:
    """Give every preference to the collector."""
    weighed = 0
    for record, records in files.records():
        where = records.where
        lacking = next((name for name in NEEDED if name not in record), None)
        if lacking is not None:
            raise InputError(f"{where} has no {lacking!r}. Give annotations.json as AlpacaEval wrote it.")
        for name in NEEDED[:-1]:
            if not isinstance(record[name], str) or not record[name]:
                raise InputError(f"{where}: {name!r} is {quote(record[name])}, not a text.")
        task, worker = record["instruction"], record["annotator"]
        models = record["generator_1"], record["generator_2"]
        preference = _preference_of(record, where)
        if preference is None:
            found.skipped.add(task, worker)
        elif models[0] == models[1]:
            found.left_out["comparison of a model with itself"] += 1
        else:
            weighed += preference not in (FIRST, TIE, SECOND)
            # The side on which each was shown; where the file does not tell, the order of the file.
            if any(record.get(name) for name in SWITCHED):
                models, preference = (models[1], models[0]), FIRST + SECOND - preference
            side = "tie" if preference == TIE else "left" if preference < TIE else "right"
            found.question(QUESTION, "comparisons").add(task, worker, (*models, side))
        dataset = record.get("dataset")
        found.tasks.add(task, {"dataset": dataset} if isinstance(dataset, str) else {})
    if weighed:
        found.notes.append(f"{files.origin}: {weighed:,} × {WEIGHED}.")


def _preference_of(record: Mapping[str, Any], where: str) -> float | None:
    said = record["preference"]
    if said is None or (isinstance(said, float) and math.isnan(said)) or said == 0:
        return None
    if isinstance(said, bool) or not isinstance(said, int | float) or not FIRST <= said <= SECOND:
        raise InputError(f"{where}: 'preference' is {quote(said)}; it must be from 1 (output_1) to 2 (output_2).")
    return float(said)


FORMAT = Format(
    slug="alpaca-eval",
    name="AlpacaEval",
    files="annotations.json",
    kinds=("comparisons",),
)
