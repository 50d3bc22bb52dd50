"""Values, grades and texts of real crowds with a truth: as near to it as was measured when the methods were chosen."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from crowdwise.kinds import kind, read_grades, read_texts, read_values
from crowdwise.kinds.held_out import choose_by_held_out
from crowdwise.kinds.ordinal import GradedResponse, MedianGrade, NominalDawidSkene, OrderedClasses
from crowdwise.kinds.ordinal.truth import align_true_grades
from crowdwise.kinds.texts import AutoTexts, Medoid, score_texts
from crowdwise.kinds.values import Mean, score_values
from crowdwise.labels.errors import InputWarning

DATA = Path(os.environ.get("CROWDWISE_DATA") or "nowhere")
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="CROWDWISE_DATA is not set")


def read_table(name: str, column: str) -> pa.Table:
    file = next((DATA / name).glob("labels.csv*"))
    return pyarrow.csv.read_csv(file).rename_columns(["task", "worker", column])


def test_values_of_four_crowds() -> None:
    found = {}
    for name in ("emotion_anger", "emotion_joy", "emotion_valence", "wordsim"):
        values = read_values(read_table(name, "value"))
        truth = pyarrow.csv.read_csv(DATA / name / "truth.csv").rename_columns(["task", "value"])
        models = kind("values").method().load()().fit(values), Mean().fit(values)
        found[name] = [score_values(model, truth)["pearson"] for model in models]
    correlations = np.array(list(found.values()))
    assert correlations[:, 0].mean() >= 0.80
    assert (correlations[:, 0] > correlations[:, 1] - 0.01).all(), found


def test_grades_of_adult_pages() -> None:
    with pytest.warns(InputWarning, match=r"Tasks whose names differ only in case.*'http://AOL\.com'"):
        grades = read_grades(read_table("adult2", "grade"), classes=["G", "P", "R", "X"], on_duplicate="all")
    true = align_true_grades(str(DATA / "adult2" / "truth.csv"), grades.tasks, grades.classes)
    known = true >= 0
    models = {"ours": OrderedClasses(), "votes": MedianGrade(), "plain": NominalDawidSkene(smoothing=0.0)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = {name: model.fit(grades) for name, model in models.items()}
    decided = {name: model.decide() for name, model in fits.items()}
    decided["majority"] = fits["votes"].posterior_.argmax(axis=1)
    errors = {name: np.abs(found[known] - true[known]).mean() for name, found in decided.items()}
    assert errors.pop("ours") < min(errors.values())


def test_held_out_grades_are_likelier_with_an_order() -> None:
    table = read_table("emotion_valence", "grade")
    bins = np.clip((table["grade"].to_numpy() + 100) // 40, 0, 4).astype(int)
    grades = read_grades(table.set_column(2, "grade", pa.array(bins)))
    nominal = {f"nominal {smoothing}": NominalDawidSkene(smoothing=smoothing) for smoothing in (0.1, 1.0)}
    league = choose_by_held_out({"ordered": OrderedClasses(), "graded": GradedResponse(), **nominal}, grades)
    assert {each.name for each in league[:2]} == {"ordered", "graded"}


def test_translations_are_nearer_than_the_medoid() -> None:
    answers = read_texts(str(DATA / "translations" / "answers.csv"), on_duplicate="all")
    truth = str(DATA / "translations" / "truth.csv")
    model = AutoTexts().fit(answers)
    assert model.chosen_method == "weighted-medoid"
    found, medoid = (score_texts(each, truth)["gleu"] for each in (model, Medoid().fit(answers)))
    assert found >= 0.42
    assert found > 1.05 * medoid
