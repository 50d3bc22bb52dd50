"""`crowdwise aggregate` with --sequences and --graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from crowdwise.saved import load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WORDS = "".join(
    f"{sentence}_{place},{worker},{label}\n"
    for sentence in range(4)
    for place, said in enumerate(["BBO", "IIO", "OOO"])
    for worker, label in zip(["ann", "bob", "cy"], said, strict=True)
)


@pytest.fixture
def words(tmp_path: Path) -> Path:
    file = tmp_path / "words.csv"
    file.write_text(f"task,worker,label\n{WORDS}")
    return file


@pytest.mark.parametrize("slug", ["hmm-crowd", "bsc"])
def test_sequences(slug: str, cw: Callable[..., Any], words: Path, tmp_path: Path) -> None:
    ran = cw("aggregate", words, "--method", slug, "--sequences", "names", "--json", "--out", tmp_path / "names")
    assert ran.code == 0, ran.err
    named = load(tmp_path / "names" / "model")
    assert named.sequences == "names"
    assert named.predict().tolist() == ["B", "I", "O"] * 4

    table = tmp_path / "sequences.csv"
    table.write_text(
        "task,sequence,position\n" + "".join(f"{s}_{p},{s},{p}\n" for p in (2, 0, 1) for s in (3, 1, 0, 2))
    )
    ran = cw("aggregate", words, "--method", slug, "--sequences", table, "--json", "--out", tmp_path / "table")
    assert ran.code == 0, ran.err
    listed = load(tmp_path / "table" / "model")
    assert abs(listed.posterior_ - named.posterior_).max() < 1e-12
    assert abs(listed.transition_ - named.transition_).max() < 1e-12


def test_graph(cw: Callable[..., Any], labels: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("one,two\nt1,t3\nt2,t4\n")
    ran = cw(
        "aggregate", labels, "--method", "graph-dawid-skene", "--graph", pairs, "--json", "--out", tmp_path / "out"
    )
    assert ran.code == 0, ran.err
    alone = cw("aggregate", labels, "--method", "graph-dawid-skene", "--json", "--out", tmp_path / "alone")
    assert alone.code == 0
    joined, apart = (load(tmp_path / name / "model") for name in ("out", "alone"))
    assert joined.predict().tolist() == ["cat", "dog", "cat", "dog"]
    assert (
        joined.objective_[-1] > apart.objective_[-1] + 0.9
    )  # two pairs that agree, of two even classes: half a nat each


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--sequences", "names"],
            "dawid-skene takes no --sequences. Leave it out, or take a method that does: bsc, hmm-crowd",
        ),
        (["--graph", "g.csv"], "dawid-skene takes no --graph. Leave it out, or take a method that does: graph-dawid"),
        (["--method", "bsc", "--sequences", "gone.csv"], "gone.csv"),
        (["--method", "graph-dawid-skene", "--graph", "gone.csv"], "gone.csv"),
        (["--method", "bsc", "--sequences", "-", "--gold", "-"], "only one of LABELS"),
    ],
)
def test_refused(arguments: list[str], message: str, cw: Callable[..., Any], labels: Path) -> None:
    arguments = arguments if "--method" in arguments else ["--method", "dawid-skene", *arguments]
    ran = cw("aggregate", labels, *arguments)
    assert ran.code == 2
    assert message in " ".join(ran.err.replace("│", " ").split())


@pytest.mark.parametrize(
    ("command", "note"),
    [
        (("audit", "--json", "--method", "hmm-crowd"), "hmm-crowd is made for tasks that belong together"),
        (
            ("compare", "--json", "--methods", "graph-dawid-skene,majority-vote"),
            "Tell it with crowdwise aggregate --graph",
        ),
    ],
)
def test_structure_that_a_command_cannot_give_is_noted(
    command: tuple[str, ...], note: str, cw: Callable[..., Any], labels: Path
) -> None:
    name, *options = command
    ran = cw(name, labels, *options)
    assert ran.code == 0, ran.err
    assert ran.err.count("crowdwise: note: ") == ran.err.count("is made for") == 1
    assert note in ran.err
