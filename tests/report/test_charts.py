"""Charts of models and of audits: what they show, and files of them that are whole or not there."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.audit.audit import FINE
from crowdwise.labels.errors import InputError
from crowdwise.report import charts
from crowdwise.report.audit_page.audit_view import AuditView
from crowdwise.report.audit_page.charts import write_charts
from crowdwise.report.vega_pictures import draw_svg

if TYPE_CHECKING:
    from pathlib import Path

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def portrait(audited: Any) -> AuditView:
    return AuditView(audited()[0])


def test_charts_of_an_audit_can_be_saved(tmp_path: Path, audited: Any) -> None:
    audit, truth = audited()
    for what in ("workers", "agreement", "confidence", "confusion", "calibration"):
        options = {"truth": truth} if what == "calibration" else {}
        audit.plot(what, **options).save(str(tmp_path / f"{what}.svg"))
        assert (tmp_path / f"{what}.svg").read_text(encoding="utf-8").startswith("<svg")
    (verdicts,) = (
        {row["verdict"] for row in values}
        for values in audit.plot().to_dict()["datasets"].values()
        if "verdict" in values[0]
    )
    assert verdicts == {FINE, "spammer", "dependent workers"}
    with pytest.raises(InputError, match=r"no chart 'calibration'\. It has: confidence, workers, confusion, agreement"):
        audit.plot("calibration")


def test_charts_as_files_are_whole_or_not_there(tmp_path: Path, hostile_audit: Any) -> None:
    folder = tmp_path / "charts"
    (folder / "agreement.svg").mkdir(parents=True)
    (folder / "workers.png").write_text("old")
    with pytest.raises(InputError, match=r"agreement.svg' exists and is a folder\. Nothing was changed"):
        write_charts(hostile_audit[0], folder)
    assert (folder / "workers.png").read_text() == "old"
    assert sorted(each.name for each in folder.iterdir()) == ["agreement.svg", "workers.png"]
    assert write_charts(hostile_audit[0], tmp_path / "new") == ["confidence", "workers", "confusion", "agreement"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["charts", "new"]
    for file in (tmp_path / "new").glob("*.svg"):
        root = ET.fromstring(file.read_text(encoding="utf-8"))  # noqa: S314
        assert not [each.tag for each in root.iter() if each.tag in (f"{SVG}script", f"{SVG}image", f"{SVG}a")]


@pytest.mark.parametrize("what", ["overview", "confidence", "workers", "confusion", "calibration"])
@pytest.mark.parametrize("kind", ["svg", "png"])
def test_charts_of_a_model_can_be_saved(
    tmp_path: Path, portrait: AuditView, audited: Any, what: str, kind: str
) -> None:
    options = {"truth": audited()[1]} if what == "calibration" else {}
    path = tmp_path / f"chart.{kind}"
    portrait.model.plot(what, **options).save(str(path))
    start = {"svg": b"<svg", "png": b"\x89PNG"}[kind]
    assert path.read_bytes().startswith(start)


def test_calibration_on_the_gold_of_the_fit() -> None:
    crowd = cw.simulate.simulate(
        "dawid-skene", n_tasks=120, n_workers=8, n_classes=2, labels_per_task=3, random_state=0
    )
    model = cw.DawidSkene().fit(crowd.labels, gold=dict(enumerate(crowd.truth[:40].tolist())))
    drawn = next(rows for rows in model.plot("calibration").to_dict()["datasets"].values() if "right" in rows[0])
    table = model.calibration()
    assert [row["tasks"] for row in drawn] == table["n"].to_pylist()
    np.testing.assert_allclose([row["low"] for row in drawn], table["low"].to_pylist())
    with pytest.raises(InputError, match="This needs gold"):
        cw.DawidSkene().fit(crowd.labels).plot("calibration")


def test_a_workers_matrix_is_drawn_by_name(portrait: AuditView) -> None:
    chart = portrait.model.plot("confusion", worker="worker-0003")
    (values,) = chart.to_dict()["datasets"].values()
    assert values[1] == {
        "truth": "class 0",
        "label": "class 1",
        "row": 0,
        "column": 1,
        "chance": round(float(portrait.model.confusion_[3, 0, 1]), 4),
    }


def test_what_cannot_be_drawn(portrait: AuditView) -> None:
    with pytest.raises(InputError, match=r"There is no chart 'pie'\. There are: overview, confidence"):
        portrait.model.plot("pie")
    with pytest.raises(InputError, match="knows no worker 'nobody'"):
        portrait.model.plot("confusion", worker="nobody")
    with pytest.raises(InputError, match="not fitted yet"):
        cw.DawidSkene().plot()
    with pytest.raises(InputError, match="MajorityVote has no confusion matrices"):
        cw.MajorityVote().fit(portrait.labels).plot("confusion")


def test_bins_of_confidence_hold_every_task(portrait: AuditView) -> None:
    chart = charts.confidence_chart(np.array([0.35, 0.4, 1.0, 1.0 + 1e-12, 0.95]))
    (values,) = chart.to_dict()["datasets"].values()
    assert {row["low"]: row["tasks"] for row in values if row["tasks"]} == {0.35: 1, 0.4: 1, 0.95: 3}
    assert values[0]["low"] == 0.35


def test_without_the_extra_one_is_told_what_to_install() -> None:
    program = (
        "import importlib, sys\n"
        "for extra, module in (('altair', 'charts'), ('vl_convert', 'page')):\n"
        "    sys.modules[extra] = None\n"
        "    try:\n        importlib.import_module(f'crowdwise.report.{module}')\n"
        "    except ValueError as error:\n        print(error)\n"
        "    del sys.modules[extra]"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "Charts need altair, which is not installed: pip install 'crowdwise[report]'.",
        "Charts as files need vl_convert, which is not installed: pip install 'crowdwise[report]'.",
    ]


def test_workers_of_one_volume_stand_side_by_side() -> None:
    counts, skill = np.full(4, 108), np.array([0.9, 0.5, 0.7, 0.6])
    spec = charts.worker_chart(list("abcd"), counts, skill, [FINE] * 4, 2).to_dict()
    assert spec["layer"][1]["encoding"]["x"]["field"] == "rank"
    (values,) = (rows for rows in spec["datasets"].values() if "rank" in rows[0])
    assert [row["rank"] for row in values] == [3, 0, 2, 1]
    counts[0] = 107
    spec = charts.worker_chart(list("abcd"), counts, skill, [FINE] * 4, 2).to_dict()
    assert spec["layer"][1]["encoding"]["x"]["field"] == "labels"


def test_too_few_addresses_for_vega(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would end the process: charts are refused instead."""
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (8 << 30, 8 << 30))
    with pytest.raises(InputError, match=r"`ulimit -v` allows 8.0 GB here. Raise it"):
        draw_svg({}, {})


def test_letters_that_vega_would_cut_in_two() -> None:
    names = ["\U0001f3f3" * 23, "b"]
    assert "\U0001f3f3" in draw_svg(charts.confusion_chart(np.eye(2), names).to_dict(), {})
