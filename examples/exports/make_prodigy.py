"""An export of Prodigy (`prodigy db-out`), by its documented fields: its package is not for everyone to install.

Writes prodigy.jsonl beside this file: a single choice (view `choice`), three sessions, two tasks ignored, one rejected.
"""

import json
import random
import zlib
from pathlib import Path

LABELS = ["positive", "negative", "neutral"]


def hash_text(text: str) -> int:
    return zlib.crc32(text.encode()) - 2**31


def make_lines() -> list[dict]:
    rng, lines = random.Random(5), []
    for task in range(10):
        text = f"Review {task}: the room was {['great', 'dirty', 'fine'][task % 3]}."
        for who, skill in {"ann": 0.95, "bob": 0.8, "cy": 0.7}.items():
            said = LABELS[task % 3] if rng.random() < skill else rng.choice(LABELS)
            answer = {(3, "cy"): "ignore", (7, "bob"): "ignore", (8, "cy"): "reject"}.get((task, who), "accept")
            lines.append({
                "text": text,
                "meta": {"source": ["web", "app"][task % 2]},
                "options": [{"id": label, "text": label.capitalize()} for label in LABELS],
                "_input_hash": hash_text(text),
                "_task_hash": hash_text(text + "options"),
                "_is_binary": False,
                "_view_id": "choice",
                "config": {"choice_style": "single"},
                "accept": [said] if answer == "accept" else [],
                "answer": answer,
                "_timestamp": 1772359200 + 60 * task,
                "_annotator_id": f"reviews-{who}",
                "_session_id": f"reviews-{who}",
            })  # fmt: skip
    return lines


if __name__ == "__main__":
    out = Path(__file__).parent / "prodigy.jsonl"
    out.write_text("".join(json.dumps(line) + "\n" for line in make_lines()))
