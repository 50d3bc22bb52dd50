"""A word to the newcomer while the kernels compile, which happens once on a machine."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["say_if_compiling"]


def say_if_compiling() -> None:
    """Say on a terminal why the first run takes some seconds longer."""
    kept = Path(__file__).parent.parent / "kernels" / "compiled" / "__pycache__"
    if sys.stderr.isatty() and not any(kept.glob("*.nbi")):
        print("First run: compiling the kernels takes some seconds, once on this machine.", file=sys.stderr)
