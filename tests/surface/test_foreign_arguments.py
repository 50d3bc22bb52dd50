"""What is no argument of a public function at all: an `InputError` that says so, and no foreign exception."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.labels import CrowdLabels

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LABELS = CrowdLabels.from_codes([0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 1, 0], tasks=2, workers=2, classes=2)
TABLE = {"task": [1, 1, 2], "worker": [1, 2, 1], "label": ["a", "b", "a"]}
MODEL = cw.MajorityVote().fit(LABELS)
ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)
STRANGE: dict[str, Any] = {
    "list": [1, 2],
    "array": np.zeros(3),
    "matrix": np.zeros((2, 2)),
    "no axes": np.array(2),
    "record": np.zeros(2, [("a", "i4")]),
    "long double": np.ones(2, np.longdouble),
    "bytes": b"x",
    "object": object(),
    "itself": ENDLESS,
}
CALLS: dict[str, Callable[[Any], Any]] = {
    "truth_codes": lambda given: cw.truth_codes({0: 0}, given),
    "simulate": cw.simulate.simulate,
    "level of workers": lambda given: MODEL.workers([given]),
    "plot": MODEL.plot,
    "task column": lambda given: cw.read_labels(TABLE, task=given),
    "on_duplicate": lambda given: cw.read_labels(TABLE, on_duplicate=given),
    "kind": lambda given: cw.read_labels(TABLE, kind=given),
    "with_kind": LABELS.with_kind,
    "engine": lambda given: cw.use_engine(given).__enter__(),
    "threads": lambda given: cw.use_threads([given]).__enter__(),
    "data set": cw.datasets.load,
    "load": cw.load,
    "save": MODEL.save,
    "missing": lambda given: CrowdLabels.from_dense([[0, 1], [1, 0]], missing=[given]),
    "compare": lambda given: cw.compare(LABELS, given),
    "prune": lambda given: cw.prune(LABELS, given),
    "concat": CrowdLabels.concat,
}


@pytest.mark.parametrize("given", STRANGE.values(), ids=STRANGE)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_strange_argument_is_refused(call: Callable[[Any], Any], given: Any) -> None:
    with pytest.raises(cw.InputError) as caught:
        call(given)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("given", [ENDLESS, [[1], [1, 2]], [[], []], np.ones(2, np.longdouble)], ids=["self", 1, 2, 3])
def test_names_are_plain(given: Any) -> None:
    """Arrow ends the process where a list is within itself."""
    words = r"names|no tasks|not in the labels|repeat"
    for call in (
        lambda: LABELS.select(tasks=given),
        lambda: CrowdLabels.from_codes([0], [0], [0], tasks=given, workers=1, classes=2),
    ):
        with pytest.raises(cw.InputError, match=words):
            call()


def test_a_column_within_itself() -> None:
    with pytest.raises(cw.InputError, match="lists within lists, more than 16 deep"):
        cw.read_labels({"task": ENDLESS, "worker": ["w"], "label": ["x"]})


def test_a_path_may_be_a_path(tmp_path: Path) -> None:
    MODEL.save(tmp_path / "a")
    MODEL.save(str(tmp_path / "a"))
    assert cw.load(tmp_path / "a").predict().tolist() == MODEL.predict().tolist()
    with pytest.raises(cw.InputError, match="The folder of a model is None; give its path"):
        cw.load(None)  # type: ignore[arg-type]
    for name in ("", "a\0b"):  # the one would be the folder where the program runs
        with pytest.raises(cw.InputError, match="is no name of a folder for a model"):
            MODEL.save(name)
