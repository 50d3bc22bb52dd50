"""What the documents show runs: each file's Python blocks in one namespace, in order; each example as a program."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))) if path.exists()]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


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
def test_python_blocks_run(path: Path, tmp_path: Path) -> None:
    program = tmp_path / f"{path.stem}.py"
    program.write_text(program_of(path), encoding="utf-8")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    _succeeds([sys.executable, "-W", "error", str(program)], tmp_path)


@pytest.mark.parametrize("path", EXAMPLES or [None], ids=lambda path: path.name if path else "none")
def test_examples_run(path: Path | None, tmp_path: Path) -> None:
    if path is None:
        pytest.skip("there are no examples")
    _succeeds([sys.executable, "-W", "error", str(path)], tmp_path)


def _succeeds(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_blocks_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("text\n```python\na = 1\n```\n```text\nno\n```\n```python\n>>> a + 1\n2\n```\n")
    assert blocks_of(page) == [(2, "a = 1\n"), (8, ">>> a + 1\n2\n")]
    assert program_of(page) == "\n\na = 1\n\n\n\n\n\na + 1\n"
