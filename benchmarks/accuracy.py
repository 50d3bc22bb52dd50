"""Accuracy of every registered method on every data set with truth that is at hand (CROWDWISE_DATA).

    python benchmarks/accuracy.py

Default parameters; no truth is used by any method. Ties by rule, not at random.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import crowdwise as cw

RESULTS = Path(__file__).parent / "results" / "accuracy.json"


def main() -> None:
    rows = []
    methods = cw.methods()
    print(f"{'data set':18}" + "".join(f"{method.slug[:16]:>18}" for method in methods))
    for name in cw.datasets.available():
        data = cw.datasets.load(name)
        if data.truth is None:
            continue
        line = f"{name:18}"
        for method in methods:
            started = time.perf_counter()
            model = method.load()().fit(data.labels)
            seconds = time.perf_counter() - started
            accuracy = cw.metrics.accuracy(data.truth_codes, model._decide(model.posterior_))
            rows.append({"data": name, "method": method.slug, "accuracy": accuracy, "seconds": seconds})
            line += f"{accuracy:>18.4f}"
        print(line, flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
