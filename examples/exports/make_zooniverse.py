"""A classification export of Zooniverse, by its documented columns: zooniverse.csv beside this file.

Eight subjects, three volunteers (one without an account), one question; one subject seen twice, one gold answer.
"""

import csv
import json
import random
from pathlib import Path

LABELS = ["Spiral", "Elliptical"]


def make_rows() -> list[dict]:
    rng, rows = random.Random(9), []
    who = {"ann": 0.95, "bob": 0.8, "not-logged-in-0f3a": 0.7}
    asked = [(task, name, skill) for task in range(8) for name, skill in who.items()]
    asked += [(3, "bob", 1.0), (5, "expert", 1.0)]
    for number, (task, name, skill) in enumerate(asked):
        said = LABELS[task % 2] if rng.random() < skill else rng.choice(LABELS)
        day = f"2026-03-0{task + 1}"
        metadata = {"started_at": f"{day}T10:00:00.000Z", "finished_at": f"{day}T10:00:08.500Z",
                    "subject_selection_state": {"already_seen": number == 24, "retired": False}}  # fmt: skip
        rows.append({
            "classification_id": 1000 + number,
            "user_name": name,
            "user_id": "" if name.startswith("not") else 10 + number % 3,
            "user_ip": "0f3a",
            "workflow_id": 5,
            "workflow_name": "Galaxies",
            "workflow_version": "3.7",
            "created_at": f"2026-03-0{task + 1} 10:00:09 UTC",
            "gold_standard": "true" if name == "expert" else "",
            "expert": "",
            "metadata": json.dumps(metadata),
            "annotations": json.dumps([{"task": "T0", "task_label": "Which shape is it?", "value": said}]),
            "subject_data": json.dumps({str(50 + task): {"retired": None, "survey": "ab"[task % 2]}}),
            "subject_ids": 50 + task,
        })  # fmt: skip
    return rows


if __name__ == "__main__":
    rows = make_rows()
    with (Path(__file__).parent / "zooniverse.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
