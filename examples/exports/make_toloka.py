"""Results of a Toloka pool: toloka.tsv beside this file. The columns are those that toloka-kit==1.2.3 asks for
(with httpx<0.28 and cattrs<22.3, which it needs and does not say).

Eight tasks, three workers; two tasks are golden, one assignment is rejected, one was skipped.
"""

import csv
import random
from pathlib import Path

from toloka.client.assignment import GetAssignmentsTsvParameters

LABELS = ["cat", "dog"]
NAMES = {each.value for each in GetAssignmentsTsvParameters.Field}


def make_rows() -> list[dict]:
    rng, rows = random.Random(7), []
    for task in range(8):
        for number, (who, skill) in enumerate({"w1": 0.95, "w2": 0.8, "w3": 0.7}.items()):
            status = {(4, "w3"): "REJECTED", (6, "w2"): "SKIPPED"}.get((task, who), "APPROVED")
            said = LABELS[task % 2] if rng.random() < skill else rng.choice(LABELS)
            rows.append({
                "INPUT:image": f"https://example.org/{task}.jpg",
                "OUTPUT:animal": "" if status == "SKIPPED" else said,
                "GOLDEN:animal": LABELS[task % 2] if task < 2 else "",
                "HINT:text": "",
                "ASSIGNMENT:link": f"https://example.org/task/{task}/{number}",
                "ASSIGNMENT:assignment_id": f"a{task}{number}",
                "ASSIGNMENT:worker_id": who,
                "ASSIGNMENT:status": status,
                "ASSIGNMENT:started": f"2023-03-0{task + 1}T10:0{number}:00.000",
            })  # fmt: skip
    return rows


if __name__ == "__main__":
    rows = make_rows()
    asked = {name for name in rows[0] if name.startswith("ASSIGNMENT:")}
    assert asked <= NAMES, asked - NAMES
    with (Path(__file__).parent / "toloka.tsv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), dialect="excel-tab", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
