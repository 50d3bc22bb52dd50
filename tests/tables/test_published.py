"""Numbers that others published, one row each in `published.toml`."""

from __future__ import annotations

import os
import tomllib
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.reproduction.problems import Problem
from crowdwise.reproduction.worker_removal import workers_to_remove

ROWS: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))[
    "row"
]
FIELDS = {"paper", "table", "data", "method", "metric", "value", "status"}
OPTIONAL = {"tolerance", "at_least", "seeds", "ours", "reason", "worker", "parameters", "class_prior", "remove"}
BUILT_IN = ("anaesthetists",)

NEEDS_DATA = [
    pytest.mark.data,
    pytest.mark.skipif(
        not os.environ.get("CROWDWISE_DATA"),
        reason="CROWDWISE_DATA is not set: point it at the folder with NAME/labels.csv and NAME/truth.csv",
    ),
]

load = cache(cw.datasets.load)


def name_of(row: dict[str, Any]) -> str:
    without = f", without {row['remove']}" if "remove" in row else ""
    more = "".join(f", {name} {value}" for name, value in row.get("parameters", {}).items())
    return f"{row['data']}{without}, {row['method']}{more}, {row['metric']}, {row['paper']}"


def compute_measure(row: dict[str, Any]) -> Any:
    dataset = load(row["data"])
    parameters = row.get("parameters", {})
    if "seeds" in row:
        return float(np.mean([_measured(row, dataset, parameters | {"random_state": n}) for n in range(row["seeds"])]))
    return _measured(row, dataset, parameters)


def _measured(row: dict[str, Any], dataset: Any, parameters: dict[str, Any]) -> Any:
    labels = dataset.labels
    if "remove" in row:
        out = workers_to_remove(row["remove"], Problem(labels, dataset.truth_codes), 0)
        labels = labels.keep(~out[labels.worker])
    equal = np.full(labels.n_classes, 1 / labels.n_classes) if row.get("class_prior") == "equal" else None
    with warnings.catch_warnings():
        if "max_iter" in parameters:  # as many rounds as a paper's program has
            warnings.simplefilter("ignore", cw.NotConverged)
        model = cw.method(row["method"]).load()(**parameters).fit(labels, class_prior=equal)
    if row["metric"] == "class_shares":
        return model.prior_
    if row["metric"] == "confusion":
        return model.confusion_[dataset.labels.workers.to_pylist().index(row["worker"])]
    known = dataset.truth_codes >= 0
    names = dataset.labels.classes.to_numpy(zero_copy_only=False)
    return float((model.predict()[known] == names[dataset.truth_codes[known]]).mean())


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, id=name_of(row), marks=[] if row["data"] in BUILT_IN else NEEDS_DATA) for row in ROWS],
)
def test_published(row: dict[str, Any]) -> None:
    found = compute_measure(row)
    if row["status"] == "missed":
        assert not _meets(row, found), f"{found:.4f} reaches {row['value']} now: set the row's status to reached"
        assert found == pytest.approx(row["ours"], abs=row["tolerance"]), "the known difference has changed"
        return
    assert _meets(row, found), f"found {np.round(found, 4)}"


def _meets(row: dict[str, Any], found: Any) -> bool:
    if "at_least" in row:
        return bool(found >= row["at_least"])
    return bool(np.max(np.abs(np.asarray(found) - np.asarray(row["value"]))) <= row["tolerance"])


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_rows_are_complete(row: dict[str, Any]) -> None:
    assert FIELDS <= set(row) <= FIELDS | OPTIONAL
    assert ("tolerance" in row) != ("at_least" in row)
    assert row["status"] in ("reached", "missed")
    assert ("reason" in row) == ("ours" in row) == (row["status"] == "missed")
    assert row["metric"] in ("accuracy", "class_shares", "confusion")
    assert row["data"] in cw.datasets.names()
    cw.method(row["method"])


def test_no_row_twice() -> None:
    assert len({name_of(row) for row in ROWS}) == len(ROWS)
