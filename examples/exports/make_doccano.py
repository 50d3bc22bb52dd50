"""An export of doccano, by its documented fields (doccano itself is a server): doccano.zip beside this file.

Three members, eight texts, one label each; bob has not seen the last text.
"""

import json
import random
import zipfile
from pathlib import Path

LABELS = ["spam", "ham"]


def make_files() -> dict[str, str]:
    rng, files = random.Random(8), {}
    for who, skill in {"ann": 0.95, "bob": 0.8, "cy": 0.7}.items():
        lines = []
        for task in range(1, 9):
            said = LABELS[task % 2] if rng.random() < skill else rng.choice(LABELS)
            label = [] if (who, task) == ("bob", 8) else [said]
            line = {"id": task, "text": f"Mail {task}", "label": label, "source": "ab"[task % 4 // 2], "Comments": []}
            lines.append(json.dumps(line) + "\n")
        files[f"{who}.jsonl"] = "".join(lines)
    return files


if __name__ == "__main__":
    with zipfile.ZipFile(Path(__file__).parent / "doccano.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in make_files().items():
            archive.writestr(zipfile.ZipInfo(name), text)
