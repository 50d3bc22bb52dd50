"""What the documents show runs: each file's Python blocks in one namespace, in order; each example as a program.

One process imports the libraries, and forks for each program; the package itself is imported by the program.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))) if path.exists()]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


RUNNER = """
import json, os, runpy, sys, traceback, warnings
import lightning.fabric, narwhals, numba, pyarrow.compute, safetensors.torch, scipy.optimize, scipy.stats
import sklearn.model_selection, sklearn.pipeline, torch

for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(order["folder"])
        output = os.open("printed.txt", os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.argv, sys.path[0] = [order["program"]], os.path.dirname(order["program"])
        warnings.simplefilter("error")
        code = 0
        try:
            runpy.run_path(order["program"], run_name="__main__")
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def succeeds() -> Iterator[Callable[[Path, Path], None]]:
    """Run a program in a folder, and see that it ends well."""
    process = subprocess.Popen([sys.executable, "-c", RUNNER], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None

    def run(program: Path, folder: Path) -> None:
        process.stdin.write(json.dumps({"program": str(program), "folder": str(folder)}) + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "0\n", (folder / "printed.txt").read_text(encoding="utf-8")

    yield run
    process.stdin.close()
    process.wait(60)
    process.stdout.close()


def blocks_of(path: Path) -> list[tuple[int, str]]:
    """Line of the first statement, and text, of each Python block; a block with `>>>` is a session."""
    text = path.read_text(encoding="utf-8")
    return [(text.count("\n", 0, found.start(1)), found.group(1)) for found in BLOCK.finditer(text)]


def without_prompts(block: str) -> str:
    if ">>> " not in block:
        return block
    return "\n".join(line[4:] if line.startswith((">>> ", "... ")) else "" for line in block.splitlines())


def program_of(path: Path) -> str:
    """The blocks at the lines where they stand, so that a traceback names the document's own line."""
    lines: list[str] = []
    for line, block in blocks_of(path):
        lines += [""] * (line - len(lines))
        lines += without_prompts(block).splitlines()
    return "\n".join(lines) + "\n"


WITH_BLOCKS = [path for path in DOCUMENTS if blocks_of(path)]


@pytest.mark.parametrize("path", WITH_BLOCKS, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_blocks_run(path: Path, tmp_path: Path, succeeds: Callable[[Path, Path], None]) -> None:
    program = tmp_path / f"{path.stem}.py"
    program.write_text(program_of(path), encoding="utf-8")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    succeeds(program, tmp_path)


@pytest.mark.parametrize("path", EXAMPLES or [None], ids=lambda path: path.name if path else "none")
def test_examples_run(path: Path | None, tmp_path: Path, succeeds: Callable[[Path, Path], None]) -> None:
    if path is None:
        pytest.skip("there are no examples")
    succeeds(path, tmp_path)


def test_a_program_that_fails_is_seen(tmp_path: Path, succeeds: Callable[[Path, Path], None]) -> None:
    for number, line in enumerate(("import warnings; warnings.warn('beware')", "1 / 0", "raise SystemExit(2)")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "program.py").write_text(line)
        with pytest.raises(AssertionError, match=r"beware|division by zero|SystemExit: 2"):
            succeeds(folder / "program.py", folder)


def test_blocks_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("text\n```python\na = 1\n```\n```text\nno\n```\n```python\n>>> a + 1\n2\n```\n")
    assert blocks_of(page) == [(2, "a = 1\n"), (8, ">>> a + 1\n2\n")]
    assert program_of(page) == "\n\na = 1\n\n\n\n\n\na + 1\n"
