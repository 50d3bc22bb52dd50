"""Commands are found by their files; options are declared once; `--engine` says what runs the loops."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pytest
import typer

from crowdwise.cli import commands
from crowdwise.cli.options import AuditOptions, build_option_arguments, expand_option_groups
from crowdwise.labels.engine_choice import ENGINES, choose_engine

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = sorted(path.stem for path in Path(commands.__path__[0]).glob("[a-z]*.py"))


@dataclass(frozen=True, kw_only=True)
class Group:
    size: Annotated[int, typer.Option(help="How many.")]
    name: Annotated[str, typer.Option(help="Which.")] = "any"


def test_every_file_is_a_command(cw: Callable[..., Any]) -> None:
    ran = cw("--help")
    for name in NAMES:
        assert callable(getattr(importlib.import_module(f"crowdwise.cli.commands.{name}"), name))
        assert f" {name} " in ran.out
        assert cw(name, "--help").code == 0


def test_a_group_is_its_options() -> None:
    given: list[Any] = []

    def command(first: Annotated[int, typer.Argument()], *, group: Group, last: str = "z") -> None:
        """What it does."""
        given.extend((first, group, last))

    command.__annotations__ = {"first": Annotated[int, typer.Argument()], "group": Group, "last": str}
    expanded = expand_option_groups(command)
    assert list(inspect.signature(expanded).parameters) == ["first", "size", "name", "last"]
    assert expanded.__doc__ == "What it does."
    expanded(first=1, size=2, name="b", last="y")
    assert given == [1, Group(size=2, name="b"), "y"]


def test_words_leave_out_defaults() -> None:
    assert AuditOptions().build_command_arguments() == []
    options = AuditOptions(gold="gold.csv", engine="numpy", level=0.1)
    assert options.build_command_arguments() == ["--gold", "gold.csv", "--engine", "numpy", "--level", "0.1"]
    assert build_option_arguments({"a_b": 0, "c": None}) == ["--a-b", "0"]


def test_the_engines_are_those_that_lie_there() -> None:
    assert {"auto", "dask", "numba", "numpy", "stream"} <= set(ENGINES)


@pytest.mark.parametrize("command", ["aggregate", "audit", "report", "compare", "train"])
def test_unknown_engine(command: str, cw: Callable[..., Any], labels: Path) -> None:
    given = ["--features", "x.npz", "--labels", labels] if command == "train" else [labels]
    ran = cw(command, *given, "--engine", "abacus")
    assert (ran.code, ran.out) == (2, "")
    assert "'abacus' is not one of 'auto'," in ran.err


def test_the_engine_is_used_and_forgotten(
    cw: Callable[..., Any], labels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crowdwise.cli.commands import aggregate

    used = []
    real = aggregate.fit_and_score

    def fit(*given: Any) -> Any:
        used.append(choose_engine(1, 1))
        return real(*given)

    monkeypatch.setattr(aggregate, "fit_and_score", fit)
    monkeypatch.delenv("CROWDWISE_ENGINE", raising=False)
    answers = []
    for engine in ("auto", "numba", "numpy", None):
        words = [] if engine is None else ["--engine", engine]
        answers.append(cw("aggregate", labels, "--method", "dawid-skene", "--out", "-", *words).out)
    assert used == ["numpy", "numba", "numpy", "numpy"]
    assert len(set(answers)) == 1
    assert "--engine numba" in cw("aggregate", labels, "--engine", "numba").out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--truth-label-column", "x"), "--truth-label-column is about --truth or --gold, which is not given"),
        (("--memory", "1GB"), "--memory is for --engine stream"),
        (("--scratch", "s"), "--scratch is for --engine stream or --engine dask"),
        (("--scheduler", "tcp://x", "--engine", "stream"), "--scheduler is for --engine dask"),
        (("--outer", "workers"), "--outer) is for nested JSON"),
        (("--include-predictions",), "include_predictions: for exports"),
        (("--task-column", "task", "--question", "q"), "question: for exports"),
        (("--engine", "stream", "--question", "q"), "--question takes labels in memory"),
        (("--engine", "stream", "--outer", "tasks"), "--outer takes labels in memory"),
        (("--engine", "stream", "--kind", "values"), "--kind values takes answers in memory"),
        (("--engine", "stream", "--max-iter", "5"), "majority-vote takes no --max-iter"),
    ],
)
def test_no_option_is_left_aside_in_silence(
    cw: Callable[..., Any], labels: Path, options: tuple[str, ...], said: str
) -> None:
    ran = cw("aggregate", labels, "--method", "majority-vote", *options)
    assert (ran.code, said in " ".join(ran.err.split())) == (2, True)


def test_next_steps_name_the_column_of_a_truth_only_beside_one(
    cw: Callable[..., Any], labels: Path, truth: Path
) -> None:
    named = ("--truth-label-column", "label")
    ran = cw("aggregate", labels, "--method", "majority-vote", "--truth", truth, *named)
    commands = [line for line in ran.out.splitlines() if line.strip().startswith("crowdwise")]
    assert commands
    assert all(("--truth " in line) == ("--truth-label-column" in line) for line in commands)


def test_a_reduced_audit_takes_no_option_of_the_tests(cw: Callable[..., Any], labels: Path) -> None:
    for options in (("--level", "0.01"), ("--trusted", "a"), ("--details",)):
        ran = cw("audit", labels, "--engine", "stream", *options)
        assert (ran.code, "takes --gold alone" in ran.err) == (2, True)
    ran = cw("aggregate", "-", "--engine", "stream")
    assert (ran.code, "Standard input (-) takes labels in memory" in ran.err) == (2, True)
