"""The data model: labels of many workers on many tasks, read from and written to tables."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from crowdwise.labels.errors import CrowdwiseError, InputError, InputWarning

if TYPE_CHECKING:
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.read import read_labels

__all__ = ["CrowdLabels", "CrowdwiseError", "InputError", "InputWarning", "read_labels"]

_HOMES = {"CrowdLabels": "model", "read_labels": "read"}  # loaded on first use: the errors alone need no pyarrow


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
