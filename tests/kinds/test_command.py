"""The command on every kind of answers: recognised by columns, described, aggregated, written and read again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.csv as pacsv
import pytest
from typer.testing import CliRunner

import crowdwise as cw
from crowdwise.cli.app import app
from crowdwise.cli.options import LabelKind
from crowdwise.kinds import kinds
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.kinds.kind_registry import Kind

EVERY_KIND = pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)

FEW = 15  # tasks, or items that are compared
# The quickest method of each kind, where any method will do.
BASELINES = {"borda", "components", "distance-clusters", "iou-clusters", "majority", "majority-vote", "mean", "median",
             "medoid", "votes", "win-rate"}  # fmt: skip


def run(*words: Any) -> str:
    ran = CliRunner().invoke(app, [str(word) for word in words])
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def test_the_command_knows_every_kind() -> None:
    assert {each.value for each in LabelKind} == {"labels", *(kind.name for kind in kinds())}


@EVERY_KIND
def test_described_and_aggregated(kind: Kind, tmp_path: Path) -> None:
    made = kind.simulate(FEW, random_state=3)
    file = tmp_path / "answers.csv"
    pacsv.write_csv(made.answers.to_table(), file)
    assert "What next" in run("describe", file)
    assert kind.default in run("methods", "--kind", kind.name)
    page = run("aggregate", file, "--out", tmp_path / "out")
    assert "Consensus of" in page
    model = cw.load(tmp_path / "out" / "model")
    written = pacsv.read_csv(tmp_path / "out" / "consensus.csv")
    assert written.column_names == model.consensus().column_names
    assert written.num_rows == model.consensus().num_rows
    assert (tmp_path / "out" / "workers.csv").is_file()


@EVERY_KIND
def test_compared_audited_and_drawn(kind: Kind, tmp_path: Path) -> None:
    made = kind.simulate(FEW, random_state=3)
    file = tmp_path / "answers.csv"
    pacsv.write_csv(made.answers.to_table(), file)
    plain = next(method.slug for method in kind.methods() if method.slug in BASELINES)
    compared = json.loads(run("compare", file, "--methods", f"{kind.default},{plain}", "--folds", 2, "--json"))
    assert compared["kind"] == kind.name
    assert {row["method"] for row in compared["methods"]} == {kind.default, plain}
    assert compared["best"] in {kind.default, plain}
    found = json.loads(run("audit", file, "--json", "--method", plain))
    assert {row["worker"] for row in found["workers"]} == set(made.answers.to_table()["worker"].to_pylist())
    run("report", file, "--out", tmp_path / "page.html", "--method", plain)
    page = (tmp_path / "page.html").read_text()
    assert "<script" not in page
    assert "script-src &#39;none&#39;" in page
    assert kind.name.capitalize() in page


def test_names_stay_inert_on_the_page(tmp_path: Path) -> None:
    file = tmp_path / "answers.csv"
    hostile = "<script>alert(1)</script>"
    rows = [f'"{hostile}{task}","{hostile}{worker}",{10 * task + worker}.5' for task in range(6) for worker in range(4)]
    file.write_text("task,worker,value\n" + "\n".join(rows) + "\n")
    run("report", file, "--out", tmp_path / "page.html", "--title", hostile)
    assert "<script" not in (tmp_path / "page.html").read_text()


def test_options_of_labels_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "answers.csv"
    pacsv.write_csv(kinds()[0].simulate(random_state=3).answers.to_table(), file)
    for words in (
        ["audit", file, "--trusted", "a"],
        ["report", file, "--compare"],
        ["compare", file, "--folds", 10**6],
        ["compare", file, "--methods", "no-such"],
    ):
        ran = CliRunner().invoke(app, [str(word) for word in words])
        assert isinstance(ran.exception, InputError), ran.output


def test_one_answer_a_task_tells_nothing_of_errors(tmp_path: Path) -> None:
    file = tmp_path / "one.csv"
    file.write_text("task,worker,value\n1,a,3\n2,b,40\n")
    assert "No task has two answers" in run("aggregate", file)
    file.write_text("task,worker,value\n1,a,3\n1,b,40\n")
    assert "No task has two answers" not in run("aggregate", file)


def test_a_method_without_a_score_has_no_seconds(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("task,worker,value\n" + "".join(f"t{each},w,{each}\n" for each in range(6)))
    page = run("compare", tmp_path / "a.csv", "--kind", "values", "--methods", "mean,moments")
    assert "moments has no score" in page
    assert "nan" not in page


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ("task,worker,value\na,x,1\na,y,2\n", "values"),
        ("task,worker,start,end,label\na,x,0,3,PER\na,y,0,3,LOC\n", "spans"),
    ],
)
def test_other_kinds_are_not_streamed_as_labels(tmp_path: Path, table: str, kind: str) -> None:
    (tmp_path / "answers.csv").write_text(table)
    with pytest.raises(InputError, match=f"These are {kind}"):
        CliRunner().invoke(
            app, ["aggregate", str(tmp_path / "answers.csv"), "--engine", "stream"], catch_exceptions=False
        )
