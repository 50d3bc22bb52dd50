"""A program may ask NumPy to raise at underflow; fits are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.acquire import OnlineModel, next_questions
from crowdwise.audit import audit_crowd
from crowdwise.evaluate import compare
from crowdwise.kinds import kind
from crowdwise.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.labels import CrowdLabels

SEQUENCES = {task: (task // 4, task) for task in range(60)}


@pytest.fixture(scope="module")
def sure() -> CrowdLabels:
    return simulate("dawid-skene", n_tasks=60, n_workers=8, n_classes=3, labels_per_task=4, random_state=3).labels


@pytest.fixture
def _raising() -> Iterator[None]:
    with np.errstate(all="raise"):
        yield


@pytest.mark.usefixtures("_raising")
@pytest.mark.parametrize("slug", ["dawid-skene", "group-dawid-skene", "hmm-crowd", "spammer-em", "spectral"])
def test_fits_and_predictions(slug: str, sure: CrowdLabels) -> None:
    entry = cw.method(slug)
    model = entry.load()(**({"sequences": SEQUENCES} if entry.needs == "sequences" else {})).fit(sure)
    model.workers()
    model.consensus()
    model.predict_proba(sure)
    with np.errstate(all="ignore"):
        plain = entry.load()(**({"sequences": SEQUENCES} if entry.needs == "sequences" else {})).fit(sure)
    np.testing.assert_array_equal(model.posterior_, plain.posterior_)
    assert np.geterr()["under"] == "raise"


@pytest.mark.usefixtures("_raising")
def test_answers_of_other_kinds() -> None:
    boxes: Any = kind("boxes").simulate(n_tasks=20, n_workers=6, random_state=0).answers
    model = kind("boxes").method("object-em").load()().fit(boxes)
    model.consensus()
    model.predict(boxes)


@pytest.mark.usefixtures("_raising")
def test_audits_comparisons_and_streams(sure: CrowdLabels) -> None:
    audit_crowd(sure)
    compare(sure, ["dawid-skene", "majority-vote"])
    online = OnlineModel(sure.classes.to_pylist()).partial_fit(sure)
    online.refit()
    next_questions(sure, 3)


@pytest.mark.usefixtures("_raising")
def test_other_errors_are_still_raised() -> None:
    class Divides(cw.MajorityVote):
        def predict(self, labels: Any = None) -> Any:
            return np.ones(1) / np.zeros(1) if labels is None else labels

    with pytest.raises(FloatingPointError, match="divide by zero"):
        Divides().predict()
