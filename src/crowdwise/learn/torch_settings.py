"""Torch as this package expects it, whatever the user has set, and the device that a name stands for."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["device_name", "find_device", "find_precision", "use_default_torch_settings"]

# A forked process has none of the threads of OpenMP, and would wait for them for ever. It takes one thread, as the data
# loaders of torch do.
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


@contextmanager
def use_default_torch_settings() -> Iterator[None]:
    """New tensors on the CPU, in single precision and with gradients, whatever the user's settings of torch.

    The loop moves them where they are needed.
    """
    dtype = torch.get_default_dtype()
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        if torch.get_default_device().type != "cpu":  # the context costs a little at every operation
            stack.enter_context(torch.device("cpu"))
        if dtype != torch.float32:
            stack.callback(torch.set_default_dtype, dtype)
            torch.set_default_dtype(torch.float32)
        yield


def find_device(name: str) -> torch.device:
    """The device that Fabric takes for this name; the CPU where it is not to be had, as for a model from elsewhere."""
    if name in ("auto", "cuda") and torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    if name in ("auto", "mps") and torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def device_name(name: str) -> str:
    """What the device is called: "cpu", or the GPU's own name."""
    device = find_device(name)
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def find_precision(name: str, device: str) -> str:
    """The precision that "auto" stands for on this device; another as it is."""
    if name != "auto":
        return name
    return "bf16-mixed" if find_device(device).type == "cuda" and torch.cuda.is_bf16_supported() else "32-true"
