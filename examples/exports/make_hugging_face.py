"""Data sets as datasets 5.2.0 saves them: the folders hugging-face and hugging-face-long beside this file.

    pip install datasets && python make_hugging_face.py

Eight texts with the answers of three workers; one a row with lists, one a row for each answer. Bob skips the last text.
"""

import random
import shutil
from pathlib import Path

from datasets import ClassLabel, Dataset, Features, List, Value

CLASSES = ["negative", "positive"]
SKILLS = {"ann": 0.95, "bob": 0.8, "cy": 0.7}

if __name__ == "__main__":
    rng, rows, long = random.Random(6), [], []
    for number in range(8):
        truth, answers = number % 2, {}
        for worker, skill in SKILLS.items():
            if (worker, number) != ("bob", 7):
                answers[worker] = truth if rng.random() < skill else rng.randrange(2)
        rows.append({
            "id": f"t{number}", "text": f"Review {number}", "source": "ab"[number % 4 // 2],
            "annotations": [{"annotator": worker, "label": label} for worker, label in answers.items()],
        })  # fmt: skip
        long += ({"task": f"t{number}", "worker": worker, "label": label} for worker, label in answers.items())
    label, text = ClassLabel(names=CLASSES), Value("string")
    nested = Features(id=text, text=text, source=text, annotations=List({"annotator": text, "label": label}))
    for name, data, features in (
        ("hugging-face", rows, nested),
        ("hugging-face-long", long, Features(task=text, worker=text, label=label)),
    ):
        folder = Path(__file__).parent / name
        shutil.rmtree(folder, ignore_errors=True)
        Dataset.from_list(data, features=features).save_to_disk(str(folder))
