"""Words that a user sees: a worker is "they"."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "crowdwise"
HER = re.compile(r"\b(she|her|hers|herself|he|his|him|himself)\b", re.IGNORECASE)
FILES = [path for path in SOURCE.rglob("*") if path.suffix in (".py", ".html", ".js")]


def strings(path: Path) -> list[str]:
    """What a file may say to a user: all of a template, and of code the strings that document nothing."""
    if path.suffix != ".py":
        return [path.read_text(encoding="utf-8")]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    places = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    documented = {id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, places) and _documents(node)}
    said = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in documented]
    return [node.value for node in said if isinstance(node.value, str)]


def _documents(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return bool(node.body) and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)


def test_a_worker_is_they() -> None:
    said = {path.relative_to(SOURCE).as_posix(): [text for text in strings(path) if HER.search(text)] for path in FILES}
    assert {path: texts for path, texts in said.items() if texts} == {}
