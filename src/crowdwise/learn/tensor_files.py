"""Tensors as a file of safetensors, whose errors are those of any file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from safetensors import SafetensorError
from safetensors.torch import save_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torch import Tensor

__all__ = ["save_tensors"]


def save_tensors(tensors: Mapping[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write tensors as they are now, from any device.

    Raises
    ------
    OSError
        If the disk is full, which safetensors says by an error of its own.
    """
    copies = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    try:
        save_file(copies, path, metadata)
    except SafetensorError as error:
        raise OSError(str(error)) from error
