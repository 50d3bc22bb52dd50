"""Exports of Label Studio, checked and converted by its own package: pip install label-studio-sdk==2.1.2.

Writes label-studio.json (one question; skipped, drafts, gold, predictions), label-studio-questions.json (the same with
four questions), label-studio-min.json and label-studio.csv (one question), beside this file.
"""

import json
import random
import shutil
import tempfile
from pathlib import Path

from label_studio_sdk.converter import Converter
from label_studio_sdk.label_interface import LabelInterface

HERE = Path(__file__).parent
CONFIG = """<View>
  <Text name="text" value="$text"/>
  <Choices name="sentiment" toName="text" choice="single">
    <Choice value="Positive"/><Choice value="Negative"/><Choice value="Neutral"/>
  </Choices>
  <Choices name="topics" toName="text" choice="multiple">
    <Choice value="price"/><Choice value="service"/><Choice value="food"/>
  </Choices>
  <Rating name="stars" toName="text" maxRating="5"/>
  <Labels name="names" toName="text"><Label value="PERSON"/><Label value="PLACE"/></Labels>
</View>"""
ONE_QUESTION = """<View>
  <Text name="text" value="$text"/>
  <Choices name="sentiment" toName="text" choice="single">
    <Choice value="Positive"/><Choice value="Negative"/><Choice value="Neutral"/>
  </Choices>
</View>"""
WORKERS = ["ann@example.org", "bob@example.org", "cy@example.org", "dee@example.org"]


def result(name: str, kind: str, value: dict, number: int) -> dict:
    return {"id": f"r{number}", "from_name": name, "to_name": "text", "type": kind, "value": value, "origin": "manual"}


def make_tasks() -> list[dict]:
    rng, tasks, number = random.Random(3), [], 0
    for task in range(1, 13):
        truth = ["Positive", "Negative", "Neutral"][task % 3]
        annotations = []
        for who, email in enumerate(WORKERS):
            if (task + who) % 4 == 3:
                continue  # three of four workers a task
            number += 1
            said = (
                truth if rng.random() < (0.9, 0.8, 0.85, 0.5)[who] else rng.choice(["Positive", "Negative", "Neutral"])
            )
            results = [
                result("sentiment", "choices", {"choices": [said]}, number),
                result("stars", "rating", {"rating": {"Positive": 5, "Neutral": 3, "Negative": 1}[said]}, number),
                result("topics", "choices", {"choices": ["price", "food"] if task % 2 else ["service"]}, number),
                result("names", "labels", {"start": 0, "end": 5, "text": "Maria", "labels": ["PERSON"]}, number),
            ]
            skipped = number in (5, 17)
            annotations.append({
                "id": number,
                "completed_by": {"id": who + 1, "email": email, "first_name": "", "last_name": ""},
                "result": [] if skipped else results,
                "was_cancelled": skipped,
                "ground_truth": False,
                "created_at": f"2026-03-{task:02d}T10:{who:02d}:00.000000Z",
                "updated_at": f"2026-03-{task:02d}T10:{who:02d}:30.000000Z",
                "lead_time": 10.5 + who,
                "parent_prediction": 900 + task if who == 1 and task <= 4 else None,
                "parent_annotation": None,
            })  # fmt: skip
        if task <= 2:
            number += 1
            annotations.append({
                "id": number,
                "completed_by": {"id": 9, "email": "lead@example.org", "first_name": "", "last_name": ""},
                "result": [result("sentiment", "choices", {"choices": [truth]}, number)],
                "was_cancelled": False,
                "ground_truth": True,
                "created_at": "2026-02-01T08:00:00.000000Z",
                "updated_at": "2026-02-01T08:00:00.000000Z",
                "lead_time": 4.0,
                "parent_prediction": None,
                "parent_annotation": None,
            })  # fmt: skip
        predictions = [{
            "id": 900 + task,
            "model_version": "small-1",
            "score": 0.75,
            "result": [result("sentiment", "choices", {"choices": ["Positive"]}, 900 + task)],
        }] if task <= 6 else []  # fmt: skip
        drafts = [{"id": 1, "user": "ann@example.org", "result": [], "lead_time": 1.0}] if task == 12 else []
        data = {"text": f"Maria wrote review {task} of the place.", "source": ["web", "app"][task % 2]}
        tasks.append({"id": task, "annotations": annotations, "drafts": drafts, "predictions": predictions,
                      "data": data, "meta": {}, "inner_id": task, "project": 1})  # fmt: skip
    return tasks


def check(tasks: list[dict]) -> None:
    interface = LabelInterface(CONFIG)
    for task in tasks:
        assert interface.validate_task({"data": task["data"]})
        for each in task["annotations"]:
            assert each["was_cancelled"] or interface.validate_annotation({"result": each["result"]}), each
        for each in task["predictions"]:
            assert interface.validate_prediction(each), each


def convert(tasks: list[dict]) -> None:
    """JSON_MIN and CSV as the converter of Label Studio writes them; gold is an annotation as any other there."""
    for task in tasks:
        task["annotations"] = [each for each in task["annotations"] if not each["ground_truth"]]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "tasks.json"
        source.write_text(json.dumps(tasks))
        converter = Converter(ONE_QUESTION, project_dir=folder)
        converter.convert_to_json_min(str(source), f"{folder}/min", is_dir=False)
        converter.convert_to_csv(str(source), f"{folder}/csv", is_dir=False, sep=",")
        shutil.copy(f"{folder}/min/result.json", HERE / "label-studio-min.json")
        shutil.copy(f"{folder}/csv/result.csv", HERE / "label-studio.csv")


if __name__ == "__main__":
    made = make_tasks()
    check(made)
    (HERE / "label-studio-questions.json").write_text(json.dumps(made) + "\n")
    for task in made:
        for each in task["annotations"]:
            each["result"] = [one for one in each["result"] if one["from_name"] == "sentiment"]
    (HERE / "label-studio.json").write_text(json.dumps(made, indent=1) + "\n")
    convert(made)
