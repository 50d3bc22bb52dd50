"""A writer that is killed leaves the old or the new, whenever that is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_killed_before_every_operation_on_files() -> None:
    """In a process of its own, which has no threads and can fork."""
    script = Path(__file__).with_name("kill_writers.py")
    ran = subprocess.run([sys.executable, script, "--steps"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout + ran.stderr
    assert ran.stdout.count("old or new") == 3
