"""The command, run in this process: arguments and standard input in, exit code and both outputs out."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from crowdwise.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LABELS = """task,worker,label
t1,ann,cat
t1,bob,cat
t1,cy,dog
t2,ann,dog
t2,bob,dog
t2,cy,dog
t3,ann,cat
t3,bob,cat
t3,cy,cat
t4,ann,dog
t4,bob,dog
t4,cy,cat
"""
TRUTH = "task,label\nt1,cat\nt2,dog\nt3,cat\nt4,dog\n"


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def cw(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, few_sweeps: None, few_folds: None
) -> Callable[..., Ran]:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def run(*arguments: object, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    file = tmp_path / "labels.csv"
    file.write_text(LABELS)
    return file


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    file = tmp_path / "truth.csv"
    file.write_text(TRUTH)
    return file
