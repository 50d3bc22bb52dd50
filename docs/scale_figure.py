"""docs/scale.svg: time per label and iteration of every engine, from `benchmarks/results/scale.json`.

    python docs/scale_figure.py

An engine is a key of that file; each figure of it with `n_labels` and `ns_per_label_iteration` is a point: those of as
many workers at every size, where an engine has them, and otherwise all whose name holds no comma (other clusters,
workers killed). The figures of crowd-kit are those of `benchmarks/aggregation.py`, 20 iterations from table to
posterior. Figures of an engine on another machine (cuda) are added there under its own key, with the machine's name.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

from crowdwise.reproduction.line_chart import Line, draw_line_chart

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
ITERATIONS = 20
SAME_WORKERS = ", 2000 workers"


def read_lines() -> list[Line]:
    """Engines, crowd-kit and what was published, as lines of logarithms."""
    points: dict[str, list[tuple[float, float]]] = {}
    for engine, figures in json.loads((RESULTS / "scale.json").read_text()).items():
        timed = {name: each for name, each in figures.items() if "ns_per_label_iteration" in each}
        alike = {name: each for name, each in timed.items() if name.endswith(SAME_WORKERS)}
        shown = alike or {name: each for name, each in timed.items() if "," not in name}
        points[engine] = [(each["n_labels"], each["ns_per_label_iteration"]) for each in shown.values()]
    rows = json.loads((RESULTS / "aggregation.json").read_text())["rows"]
    points["crowd-kit"] = [
        (row["labels"], 1e9 * row["seconds"] / row["labels"] / ITERATIONS)
        for row in rows
        if row["who"] == "crowd-kit" and row["method"] == "dawid-skene"
    ]
    nan = float("nan")
    return [
        Line(name, tuple((round(math.log10(x), 2), math.log10(y), nan) for x, y in sorted(at)))
        for name, at in points.items()
        if at
    ]


def main() -> None:
    text = draw_line_chart(
        read_lines(),
        "Time per label and iteration of dawid-skene",
        "labels, as a power of ten",
        "nanoseconds, as a power of ten",
        "K = 10, 5 labels a task. numba, stream and dask with 2,000 workers on two cores of one machine, cuda on one "
        "H200, crowd-kit as in the README; spark-crowd as published, its whole fit taken as 20 iterations.",
    )
    (ROOT / "docs" / "scale.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
