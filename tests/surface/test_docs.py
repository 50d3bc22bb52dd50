"""The pages that docs/make.py makes agree with the registry; measured numbers are not looked at."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import crowdwise as cw

ROOT = Path(__file__).resolve().parents[2]


def test_pages_follow_the_registry() -> None:
    command = [sys.executable, str(ROOT / "docs" / "make.py"), "--check", "--registry"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_method_is_on_the_page_once() -> None:
    lines = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8").splitlines()
    named = [line.removeprefix("#### ") for line in lines if line.startswith("#### ")]
    assert sorted(named) == sorted(entry.slug for entry in cw.methods())
