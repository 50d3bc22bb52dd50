"""Grades: error against a truth, and the probability of held-out answers, for every method.

    CROWDWISE_DATA=… python benchmarks/ordinal.py

adult2 has a truth: mean absolute error, quadratic weighted kappa. The others are scored by five-fold held-out answers:
mean log-probability. The emotion scales, which are numbers, are cut into five bins of equal width.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from crowdwise.kinds import read_grades
from crowdwise.kinds.held_out import choose_by_held_out
from crowdwise.kinds.ordinal import (
    BinaryProblems,
    GradedResponse,
    MedianGrade,
    NominalDawidSkene,
    OrderedClasses,
    mean_absolute_error,
)
from crowdwise.kinds.ordinal.metrics import quadratic_weighted_kappa
from crowdwise.kinds.ordinal.truth import align_true_grades

METHODS = {
    "ordered-classes": OrderedClasses(),
    "graded-response": GradedResponse(),
    "binary-problems": BinaryProblems(),
    "median": MedianGrade(),
    **{f"dawid-skene, {smoothing}": NominalDawidSkene(smoothing=smoothing) for smoothing in (0.0, 0.01, 0.1, 0.3, 1.0)},
}
SCALES = {"emotion_anger": 20, "emotion_joy": 20, "emotion_valence": 40}


def read(folder: Path, **options):
    name = next(folder.glob("labels.csv*"))
    table = pa.csv.read_csv(name)
    if folder.name in SCALES:
        numbers = table["label"].to_numpy().astype(float)
        low = -100 if numbers.min() < 0 else 0
        bins = np.clip((numbers - low) // SCALES[folder.name], 0, 4).astype(int)
        table = table.set_column(2, "label", pa.array(bins))
    return read_grades(table.rename_columns(["task", "worker", "grade"]), on_duplicate="all", **options)


def score_adult2(root: Path) -> None:
    grades = read(root / "adult2", classes=["G", "P", "R", "X"])
    true = align_true_grades(str(root / "adult2" / "truth.csv"), grades.tasks, grades.classes)
    known = true >= 0
    print(f"adult2: {grades}, {int(known.sum())} truths")
    for name, model in METHODS.items():
        fitted = model.fit(grades)
        ways = {"median": fitted.decide(), "mode": fitted.posterior_.argmax(axis=1)}
        for way, found in ways.items():
            error, kappa = mean_absolute_error(found[known], true[known]), quadratic_weighted_kappa(
                found[known], true[known]
            )  # fmt: skip
            shown = "majority vote" if name == "median" and way == "mode" else f"{name} ({way})"
            print(f"  {shown:32} mean absolute error {error:.4f}   weighted kappa {kappa:.4f}")


def main() -> None:
    warnings.simplefilter("ignore")
    root = Path(os.environ["CROWDWISE_DATA"])
    score_adult2(root)
    for name in ("popquorn_offensive", *SCALES):
        grades = read(root / name)
        print(f"{name}: {grades}")
        for each in choose_by_held_out(METHODS, grades):
            print(f"  {each.name:20} {each.mean:8.4f}   behind {each.behind:.4f} ± {each.error:.4f}")


if __name__ == "__main__":
    main()
