"""How long a large export takes to read, and how much memory, against orjson, which parses the file whole.

    pip install orjson
    python benchmarks/export_reading.py --answers 1000000

Makes a Label Studio export (JSON, about 780 bytes an answer) in a temporary folder, then reads it in a process of its
own by each: `orjson.loads` of the whole file, `read_export`, and `read_labels`. Of `--repeats` runs the least time
counts, in seconds of the processor, so that other work on the machine does not, and the most memory.

Growth is the peak of resident memory over what the process held before the call; "the tables" are all that
`read_export` keeps, for `read_labels` too, which reads the same and keeps less. Memory is read from /proc: Linux only.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

WORDS = [
    "lorem",
    "ipsum",
    "dolor",
    "sit",
    "amet",
    "consectetur",
    "adipiscing",
    "elit",
    "sed",
    "do",
    "eiusmod",
    "tempor",
]
WORKERS, A_TASK = 50, 5  # answers a task
READERS = {
    "orjson": "import orjson; kept = orjson.loads(open(path, 'rb').read())",
    "read_export": "from crowdwise.formats import read_export; kept = read_export(path)",
    "read_labels": "from crowdwise.labels import read_labels; kept = read_labels(path)",
}
# The tables that an `Export` holds, and those that `CrowdLabels` hold.
TABLES = (
    ("answers", "gold", "predictions", "skipped", "drafts", "task_attributes", "worker_attributes", "items"),
    ("task", "worker", "label", "task_ptr", "tasks", "workers", "classes"),
)
# What is imported and compiled on first use is no memory of the export: a small one is read before, by compiled loops.
MEASURE = """
import gc, json, os, sys, time
from pathlib import Path
def in_memory(what):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(what))
{imports}
path = sys.argv[2]
os.environ["CROWDWISE_ENGINE"] = "numba"
{call}
del os.environ["CROWDWISE_ENGINE"], kept
gc.collect()
Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here on
held = in_memory("VmRSS")
path = sys.argv[1]
before = time.process_time()
{call}
seconds, peak = time.process_time() - before, in_memory("VmHWM")
tables = next((names for names in {tables!r} if all(hasattr(kept, name) for name in names)), ())
print(json.dumps({{"seconds": seconds, "peak_mb": peak, "growth_mb": peak - held,
                   "tables_mb": sum(getattr(kept, name).nbytes for name in tables) / 2**20}}))
"""


def make_task(task: int, rng: random.Random) -> dict[str, object]:
    annotations = []
    for number, worker in enumerate(rng.sample(range(WORKERS), A_TASK)):
        time = f"2026-03-{rng.randrange(1, 28):02d}T10:{rng.randrange(60):02d}:{rng.randrange(60):02d}.123456Z"
        value = {"choices": [rng.choice(["Positive", "Negative", "Neutral"])]}
        result = {"value": value, "id": f"{rng.getrandbits(40):010x}", "from_name": "sentiment", "to_name": "text",
                  "type": "choices", "origin": "manual"}  # fmt: skip
        annotations.append({
            "id": task * A_TASK + number, "completed_by": worker, "result": [result], "was_cancelled": False,
            "ground_truth": False, "created_at": time, "updated_at": time, "draft_created_at": None,
            "lead_time": round(rng.uniform(1, 60), 3), "prediction": {}, "result_count": 1,
            "unique_id": f"{rng.getrandbits(128):032x}", "import_id": None, "last_action": None, "bulk_created": False,
            "task": task, "project": 3, "updated_by": worker, "parent_prediction": None, "parent_annotation": None,
            "last_created_by": None,
        })  # fmt: skip
    return {
        "id": task, "annotations": annotations, "file_upload": "reviews.csv", "drafts": [], "predictions": [],
        "data": {"text": " ".join(rng.choices(WORDS, k=30)), "source": rng.choice(["mail", "chat"])}, "meta": {},
        "created_at": "2026-03-01T09:00:00.000000Z", "updated_at": "2026-03-28T09:00:00.000000Z", "inner_id": task + 1,
        "total_annotations": A_TASK, "cancelled_annotations": 0, "total_predictions": 0, "comment_count": 0,
        "unresolved_comment_count": 0, "last_comment_updated_at": None, "project": 3, "updated_by": 1,
        "comment_authors": [],
    }  # fmt: skip


def write_export(path: Path, answers: int) -> None:
    rng = random.Random(0)  # noqa: S311
    with path.open("w") as file:
        for task in range(answers // A_TASK):
            file.write(("," if task else "[") + json.dumps(make_task(task, rng)))
        file.write("]")


def measure(path: Path, small: Path, call: str, repeats: int) -> dict[str, float]:
    imports, _, statement = call.partition("; ")
    command = [sys.executable, "-c", MEASURE.format(imports=imports, call=statement, tables=TABLES)]
    runs = [
        json.loads(subprocess.run([*command, str(path), str(small)], check=True, stdout=subprocess.PIPE).stdout)
        for _ in range(repeats)
    ]
    return {name: (min if name == "seconds" else max)(run[name] for run in runs) for name in runs[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, small = Path(folder) / "export.json", Path(folder) / "small.json"
        write_export(path, given.answers)
        write_export(small, 500)
        print(f"{given.answers:,} answers, {path.stat().st_size / 2**20:.0f} MB")
        tables = 0.0
        for name, call in READERS.items():
            found = measure(path, small, call, given.repeats)
            sizes = f"peak {found['peak_mb']:6.0f} MB, growth {found['growth_mb']:6.0f} MB"
            if found["tables_mb"]:
                tables = tables or found["tables_mb"]
                sizes += f", keeps {found['tables_mb']:.0f} MB, growth {found['growth_mb'] / tables:.2f} × the tables"
            print(f"{name:12s} {found['seconds']:7.2f} s, {sizes}")


if __name__ == "__main__":
    main()
