"""Forty saved models, changed as a stranger might: none ends in a crash, a hang, a foreign error or much memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "mutate_models.py"
QUICK = ["dawid-skene", "majority-vote", "hmm-crowd", "bsc", "cbcc", "group-dawid-skene", "mean-field"]
LEARNERS = ["trace", "max-mig"]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc, and processes are forked")
def test_forty_changed_models() -> None:
    """In a process of their own, which forks: whatever happens there, this one goes on."""
    command = [sys.executable, str(SCRIPT), "--cases", "40", "--seed", "3", "--only", *QUICK, *LEARNERS]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "40 changed models" in ended.stdout
