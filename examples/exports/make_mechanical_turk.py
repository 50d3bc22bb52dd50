"""Results of Amazon Mechanical Turk, by their documented columns (the service has closed): mechanical-turk.csv.

Eight tasks, three workers, one assignment rejected.
"""

import csv
import random
from pathlib import Path

LABELS = ["relevant", "not relevant"]


def make_rows() -> list[dict]:
    rng, rows = random.Random(6), []
    for task in range(8):
        for number, (who, skill) in enumerate({"A1": 0.95, "A2": 0.8, "A3": 0.7}.items()):
            rows.append({
                "HITId": f"3H{task}",
                "HITTypeId": "3T",
                "Title": "Is it relevant?",
                "AssignmentId": f"3A{task}{number}",
                "WorkerId": who,
                "AssignmentStatus": "Rejected" if (task, who) == (5, "A3") else "Approved",
                "AcceptTime": f"Mon Mar 0{task + 1} 10:0{number}:00 PST 2021",
                "SubmitTime": f"Mon Mar 0{task + 1} 10:0{number}:30 PST 2021",
                "WorkTimeInSeconds": 30 - task,
                "Input.page": f"page {task}",
                "Input.site": "ab"[task % 2],
                "Answer.relevance": LABELS[task % 2] if rng.random() < skill else rng.choice(LABELS),
                "Approve": "",
                "Reject": "",
            })  # fmt: skip
    return rows


if __name__ == "__main__":
    rows = make_rows()
    with (Path(__file__).parent / "mechanical-turk.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)
