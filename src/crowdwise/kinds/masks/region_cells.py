"""What a cell of a table says of a region, as a mask: the path of an image, polygons, or run lengths."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crowdwise.kinds.masks.frame import check_frame
from crowdwise.kinds.masks.image_files import read_mask_file
from crowdwise.kinds.masks.polygons import fill_polygons, parse_polygons
from crowdwise.kinds.masks.run_lengths import decode_run_lengths
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.kinds.answer_table import AnswerTable
    from crowdwise.labels.types import BoolArray

__all__ = ["as_mask_array", "find_table_folder", "read_regions"]

NUMBERS = re.compile(r"\s*[-+]?[\d.][\s\d.,;eE+\-]*[\s,;][\s\d.,;eE+\-]*")


def find_table_folder(source: Any) -> Path | None:
    """The folder of a table that is a file, or of several; None if they lie in several, the working directory if none.

    >>> find_table_folder("project/masks.csv")
    PosixPath('project')
    """
    files = source if isinstance(source, list | tuple) else [source]
    folders = {Path(each).parent if isinstance(each, str | os.PathLike) else Path() for each in files}
    return folders.pop() if len(folders) == 1 else None


def read_regions(table: AnswerTable, folder: Path | None) -> Iterator[BoolArray]:
    """The mask (height, width) of each row of a table; an error names the row.

    Parameters
    ----------
    folder
        Where paths of images start; None where that is not one folder.
    """
    cells = _list_cells(table)
    sizes: list[Any] = [None] * len(cells)
    if "width" in table and "height" in table:
        sizes = list(zip(table.read_numbers("height").tolist(), table.read_numbers("width").tolist(), strict=True))
    runs = "rle" in table.names["mask"].casefold()
    for row, (cell, size) in enumerate(zip(cells, sizes, strict=True)):
        try:
            yield _read_cell(cell, size, folder, runs=runs)
        except InputError as error:
            shown = f" {quote(cell)}" if isinstance(cell, str) else ""
            end = "" if str(error).endswith(".") else "."
            raise InputError(f"The mask{shown} ({table.place(row)}) cannot be used: {error}{end}") from error


def as_mask_array(given: Any) -> BoolArray:
    """An array of two axes as a mask: true where it is not 0."""
    try:
        values = np.asarray(given)
    except ValueError as error:  # rows of unequal length
        raise InputError("it is no array of height × width") from error
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        raise InputError(
            f"it is an array of type {values.dtype} and shape {values.shape}; give numbers, height × width"
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError("it holds what is no finite number")
    check_frame(values.shape)
    return np.asarray(values != 0)


def _read_cell(cell: Any, size: Any, folder: Path | None, *, runs: bool) -> BoolArray:
    if isinstance(cell, np.ndarray) and cell.ndim == 2:
        return as_mask_array(cell)
    text = cell.strip() if isinstance(cell, str) else None
    if text is not None and text.startswith("{") and '"regions"' in text:
        return _unite_regions(text)
    if runs or isinstance(cell, dict | bytes) or (text is not None and text.startswith("{")):
        return decode_run_lengths(cell, size)
    if text is None or text.startswith("[") or NUMBERS.fullmatch(text):
        polygons = parse_polygons(cell)
        if size is None:
            raise InputError("a polygon needs the size of its image: give columns width and height")
        return fill_polygons(polygons, *check_frame(size))
    return read_mask_file(_find_image(text, folder))


def _unite_regions(text: str) -> BoolArray:
    """The union of several regions, {"size": [height, width], "regions": [polygons or run lengths, …]}."""
    try:
        given = json.loads(text)
        size, regions = check_frame(given["size"]), list(given["regions"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"it is no JSON with size and regions ({quote(str(error))})") from error
    united = np.zeros(size, np.bool_)
    for region in regions:
        drawn = decode_run_lengths(region) if isinstance(region, dict) else fill_polygons(parse_polygons(region), *size)
        if drawn.shape != size:
            raise InputError(
                f"its run lengths have {drawn.shape[1]} × {drawn.shape[0]} pixels, the image {size[1]} × {size[0]}"
            )
        united |= drawn
    return united


def _list_cells(table: AnswerTable) -> list[Any]:
    column = table.columns["mask"]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_null(column.type):
        texts: list[Any] = table.read_texts("mask").to_pylist()
        return texts
    if not (pa.types.is_nested(column.type) or pa.types.is_binary(column.type)):
        raise InputError(
            f"Column {quote(table.names['mask'])} holds {column.type} in place of masks. Give paths of images, "
            "polygons or run lengths."
        )
    table._refuse(column.is_null(), "mask", "nothing", "Remove those rows, or fill them in.")
    cells: list[Any] = column.to_pylist()
    return cells


def _find_image(text: str, folder: Path | None) -> Path:
    """The file that a cell names; one that leads out of the folder is refused."""
    if folder is None:
        raise InputError("the tables lie in several folders. Read them one by one, or give folder= in read_masks")
    if "\0" in text:
        raise InputError("a path has no zero bytes")
    inside = Path(os.path.normpath(text))
    if inside.is_absolute() or inside.parts[:1] == (os.pardir,):
        raise InputError(
            f"its path leads out of the folder {quote(str(folder))}. Keep images below the table, or give folder= in "
            "read_masks"
        )
    return folder / inside
