"""Make the tables of the README and docs/methods.md from the registry and from benchmarks/results."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import crowdwise as cw

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def table(headings: list[str], rows: list[list[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def methods() -> str:
    return table(
        ["method", "class", "assumes", "paper"],
        [[f"`{entry.slug}`", f"`{entry.class_name}`", entry.summary, entry.paper] for entry in cw.methods()],
    )


def accuracy() -> str:
    rows = json.loads((RESULTS / "accuracy.json").read_text())
    slugs = [entry.slug for entry in cw.methods()]
    found = {(row["data"], row["method"]): row["accuracy"] for row in rows}
    names = list(dict.fromkeys(row["data"] for row in rows))
    lines = [[name, *(f"{found[name, slug]:.3f}".lstrip("0") for slug in slugs)] for name in names]
    note = (
        "Accuracy over the tasks with truth, default parameters, ties by rule, `python benchmarks/accuracy.py`. The "
        "data sets are not part of this repository; `crowdwise.datasets` says where to put them."
    )
    return f"{table(['data set', *slugs], lines)}\n\n{note}"


def speed() -> str:
    found = json.loads((RESULTS / "aggregation.json").read_text())
    lines = []
    for row in found["rows"]:
        if row["who"] == "crowdwise":
            same = {
                other["who"]: other
                for other in found["rows"]
                if (other["method"], other["labels"]) == (row["method"], row["labels"])
            }
            peer, bare = same["crowd-kit"], same.get("bare")
            lines.append(
                [
                    f"`{row['method']}`",
                    f"{row['labels']:,}",
                    f"{row['seconds']:.3g} s",
                    f"{peer['seconds']:.3g} s",
                    f"{peer['ratio']:.0f} ×",
                    f"{row['peak_mb']:.0f} / {peer['peak_mb']:.0f} MB",
                    "" if bare is None else f"{row['seconds'] / bare['seconds']:.2f}",
                ]
            )
    headings = ["method", "labels", "crowdwise", "crowd-kit", "faster", "peak memory", "× a bare loop"]
    note = (
        f"`make benchmark`, each case in one run on {found['machine']}: 10 classes, 5 labels a task, 20 EM iterations "
        "(GLAD: one), from an integer table in memory to the posterior, two threads. Compiling, once on a machine, is "
        "apart. The last column compares with a loop that has nothing around it (`benchmarks/bare.py`)."
    )
    return f"{table(headings, lines)}\n\n{note}"


def methods_page() -> str:
    parts = [
        "# Methods: what each assumes, and when it fails",
        "Made by `docs/make.py` from the registry. `crowdwise methods --long` says the same in a terminal.",
    ]
    for entry in cw.methods():
        uses = ", ".join(f"`{name}`" for name in entry.uses) or "nothing besides the labels"
        climbs = "climbs an objective that never falls" if entry.climbs else "has no objective to climb"
        parts.append(
            f"## {entry.slug}\n\n`crowdwise.{entry.class_name}` · {entry.paper}\n\n"
            f"- **Assumes**: {entry.summary}.\n- **Do not use it when**: {entry.fails}.\n"
            f"- It {climbs}; `fit` can be told {uses}."
        )
    return "\n\n".join(parts) + "\n"


def filled(text: str) -> str:
    for name, make in (("methods", methods), ("accuracy", accuracy), ("speed", speed)):
        pattern = rf"(<!-- {name}: [^>]*-->\n).*?(<!-- end -->)"
        made = make()
        text, count = re.subn(pattern, lambda found, made=made: f"{found[1]}{made}\n{found[2]}", text, flags=re.DOTALL)
        if count != 1:
            raise SystemExit(f"README.md has {count} places for {name}; it needs one")
    return text


def main() -> None:
    pages = {ROOT / "README.md": filled((ROOT / "README.md").read_text()), ROOT / "docs" / "methods.md": methods_page()}
    if "--check" in sys.argv:
        stale = [path.name for path, text in pages.items() if path.read_text() != text]
        if stale:
            raise SystemExit(f"out of date: {', '.join(stale)}; run make docs")
        return
    for path, text in pages.items():
        path.write_text(text)


if __name__ == "__main__":
    main()
