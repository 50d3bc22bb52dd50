"""`crowdwise aggregate` for grades."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

ROWS = "task,worker,label\n" + "".join(
    f"{task},{worker},{grade}\n"
    for task, grades in {"a": "GGP", "b": "XXR", "c": "PPP", "d": "RXX"}.items()
    for worker, grade in zip("xyz", grades, strict=True)
)


def test_words_with_their_order(cw: Any, tmp_path: Path) -> None:
    file = tmp_path / "pages.csv"
    file.write_text(ROWS)
    out = tmp_path / "out"
    ran = cw("aggregate", file, "--kind", "ordinal", "--classes", "G,P,R,X", "--out", out)
    assert ran.code == 0, ran.err
    header, first, *_ = (out / "consensus.csv").read_text().replace('"', "").splitlines()
    assert header == "task,label,confidence,expected,low,high,n_answers"
    assert first.startswith("a,G,")
    assert (
        (out / "workers.csv")
        .read_text()
        .replace('"', "")
        .startswith("worker,n_answers,error,error_low,error_high,bias")
    )


def test_words_without_their_order(cw: Any, tmp_path: Path) -> None:
    file = tmp_path / "pages.csv"
    file.write_text(ROWS)
    ran = cw("aggregate", file, "--kind", "ordinal")
    assert ran.code == 2
    assert "need their order" in ran.err
    values = cw("aggregate", file, "--kind", "values", "--classes", "G,P")
    assert values.code == 2
    assert "leave --classes out" in values.err


def test_a_column_of_grades_is_known(cw: Any, tmp_path: Path) -> None:
    file = tmp_path / "stars.csv"
    file.write_text("task,worker,grade\na,x,5\na,y,4\nb,x,1\nb,y,1\n")
    ran = cw("aggregate", file)
    assert ran.code == 0, ran.err
    assert "4 grades by 2 workers on 2 tasks" in ran.out
