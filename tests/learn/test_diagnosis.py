"""What speaks against a fit, in sentences: the same for Python and for the command."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import crowdwise as cw
from crowdwise.learn.diagnosis import diagnose_fit

LABELS = cw.read_labels({"task": [0, 1, 2, 3], "worker": ["a", "a", "b", "b"], "label": ["x", "y", "x", "y"]})


@dataclass
class Finished:
    """What a diagnosis reads off a fitted learner: its history, its skills and its classifier."""

    shares: Any
    skill_: Any = field(default_factory=lambda: np.array([0.9, 0.8]))
    history_: Any = field(default_factory=lambda: pa.table({"loss": [2.0, 1.0], "held_out": [-1.0, -0.5]}))
    best_epoch_: int = 1
    n_epochs_: int = 2
    keep_epoch: str = "best"

    def predict_proba(self, _x: Any) -> Any:
        return self.shares


AGREES = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])


def sentences(model: Any, *, as_options: bool = False) -> list[str]:
    return diagnose_fit(model, None, LABELS, as_options=as_options)


def test_nothing_to_say() -> None:
    assert sentences(Finished(AGREES)) == []


def test_a_last_epoch_that_was_the_best() -> None:
    model = Finished(AGREES, best_epoch_=2)
    assert sentences(model) == ["The last of 2 epochs was the best. Give more (epochs)."]
    assert sentences(model, as_options=True) == ["The last of 2 epochs was the best. Give more with --epochs."]
    assert sentences(Finished(AGREES, best_epoch_=2, history_=pa.table({"loss": [2.0, 1.0]}))) == []
    assert sentences(Finished(AGREES, best_epoch_=2, keep_epoch="last")) == []


@pytest.mark.parametrize("table", [pa.table, pd.DataFrame])
def test_a_loss_that_is_no_number(table: Any) -> None:
    model = Finished(AGREES, history_=table({"loss": [2.0, float("nan")], "held_out": [-1.0, -1.0]}))
    assert sentences(model) == ["The loss ended in no number. Give a smaller learning_rate."]
    assert "--learning-rate" in sentences(model, as_options=True)[0]


def test_skills_that_promise_more_than_the_classifier_finds() -> None:
    found = sentences(Finished(1 - AGREES), as_options=True)
    assert len(found) == 1
    assert found[0].startswith("By the workers' skills 85% of the labels are right, but the classifier agrees with 0%.")
    assert found[0].endswith("Compare --method em.")


@pytest.mark.filterwarnings("ignore::crowdwise.NotIdentifiable")
def test_a_learner_diagnoses_itself() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    truth = (x[:, 0] > 0).astype(int)
    labels = {"task": np.repeat(np.arange(60), 2), "worker": ["a", "b"] * 60, "label": np.repeat(truth, 2)}
    model = cw.learner("trace").make(epochs=1, device="cpu", network="linear").fit(x, labels)
    found = model.diagnose(x, labels)
    assert "The last of 1 epochs was the best. Give more (epochs)." in found
