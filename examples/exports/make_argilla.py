"""Exports of Argilla by its own package: pip install argilla==2.8.0 datasets.

Writes argilla.json (records.to_json), argilla.parquet (records.to_datasets, with drafts and discarded answers) and
argilla-1.jsonl (the fields of version 1, whose package is no longer made) beside this file.
"""

import json
import random
import uuid
from pathlib import Path

import argilla as rg
from argilla.records._io import GenericIO, JsonIO

from datasets import Dataset

HERE = Path(__file__).parent
LABELS = ["positive", "negative"]
USERS = [str(uuid.UUID(int=number)) for number in (1, 2, 3)]


def make_records(statuses: bool) -> list[rg.Record]:
    rng, records = random.Random(2), []
    for task in range(1, 11):
        responses = []
        for who, user in enumerate(USERS):
            said = LABELS[task % 2] if rng.random() < (0.95, 0.8, 0.7)[who] else rng.choice(LABELS)
            status = {(3, 1): "draft", (4, 2): "discarded"}.get((task, who), "submitted") if statuses else "submitted"
            responses.append(rg.Response("sentiment", said, user_id=user, status=status))
        suggestion = rg.Suggestion("sentiment", "positive", score=0.8, agent="small-1")
        records.append(rg.Record(
            id=f"r{task}",
            fields={"text": f"Review {task}"},
            metadata={"source": ["web", "app"][task % 2]},
            responses=responses,
            suggestions=[suggestion] if task <= 4 else [],
        ))  # fmt: skip
    return records


def make_first_version() -> list[dict]:
    lines = []
    for record in GenericIO.to_list(make_records(statuses=True), flatten=True):
        answers = zip(
            record["sentiment.responses"], record["sentiment.responses.users"], record["sentiment.responses.status"],
            strict=True,
        )  # fmt: skip
        lines.append({
            "text": record["text"],
            "sentiment": [{"user_id": user, "value": value, "status": status} for value, user, status in answers],
            "sentiment-suggestion": record.get("sentiment.suggestion"),
            "sentiment-suggestion-metadata": {"type": None, "score": record.get("sentiment.suggestion.score"),
                                              "agent": record.get("sentiment.suggestion.agent")},
            "external_id": record["id"],
            "metadata": json.dumps({"source": record["source"]}),
        })  # fmt: skip
    return lines


if __name__ == "__main__":
    (HERE / "argilla.json").unlink(missing_ok=True)
    JsonIO.to_json(make_records(statuses=False), HERE / "argilla.json")
    flat = GenericIO.to_list(make_records(statuses=True), flatten=True)
    Dataset.from_list(flat).to_parquet(HERE / "argilla.parquet")
    (HERE / "argilla-1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in make_first_version()))
