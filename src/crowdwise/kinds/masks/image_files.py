"""Masks as image files: read with Pillow, hostile until checked; soft masks written as PNG of 16 bits."""

from __future__ import annotations

import struct
import warnings
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kinds.masks.frame import check_frame
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.regular_files import open_regular_file

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from crowdwise.labels.types import BoolArray

__all__ = ["SUFFIXES", "encode_png", "read_mask_file"]

FORMATS = ("PNG", "BMP", "PPM")  # without loss: what JPEG leaves outside of a region is not quite 0
SUFFIXES = (".png", ".bmp", ".pbm", ".pgm")
WITH_ALPHA = ("LA", "La", "PA", "RGBA", "RGBa")


def read_mask_file(path: Path) -> BoolArray:
    """Where an image (height, width) is not 0: not black, not transparent; of a palette, not its first colour."""
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise InputError(
            "Reading images needs Pillow, which is not installed: pip install 'crowdwise[masks]'."
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Pillow only warns of images that unpack to a great deal
            with open_regular_file(path) as plain, Image.open(plain, formats=FORMATS) as image:
                check_frame(image.size[::-1])
                values = np.asarray(image)
                with_alpha = image.mode in WITH_ALPHA
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError("there is no such file. Paths of masks start where the table is") from error
    except Exception as error:  # whatever a stranger's file can raise
        raise InputError(f"it cannot be read as an image ({', '.join(FORMATS)}): {quote(str(error))}") from error
    return _find_inside(values, with_alpha=with_alpha)


def _find_inside(values: npt.NDArray[Any], *, with_alpha: bool) -> BoolArray:
    if values.ndim == 2:
        return np.asarray(values != 0)
    colours = values[..., :-1] if with_alpha else values
    inside: BoolArray = (colours != 0).any(axis=2)
    return inside & (values[..., -1] != 0) if with_alpha else inside


def encode_png(values: npt.NDArray[np.uint16]) -> bytes:
    """A grey PNG of 16 bits a pixel from numbers (height, width)."""
    height, width = values.shape
    rows = np.zeros((height, 1 + 2 * width), np.uint8)  # each row begins with its filter: 2, the difference upwards
    plain = values.astype(">u2").view(np.uint8).reshape(height, 2 * width)
    rows[:, 0] = 2
    rows[:, 1:] = plain
    rows[1:, 1:] -= plain[:-1]
    header = struct.pack(">IIBBBBB", width, height, 16, 0, 0, 0, 0)
    parts = (b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
