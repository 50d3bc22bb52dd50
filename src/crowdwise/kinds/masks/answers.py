"""`Masks`: answers that are outlines of a region in an image."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kinds.answer_table import open_task_table
from crowdwise.kinds.answers import TaskAnswers
from crowdwise.kinds.masks.image_files import SUFFIXES
from crowdwise.kinds.masks.region_cells import as_mask_array, find_table_folder, read_regions
from crowdwise.kinds.masks.run_lengths import encode_run_lengths
from crowdwise.kinds.reader_decorator import reader_of
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Unpack

    import numpy.typing as npt
    import pyarrow as pa

    from crowdwise.kinds.answer_table import TaskOptions
    from crowdwise.labels.types import BoolArray, Duplicates, IntArray

__all__ = ["Masks", "read_masks"]

NEEDS = (
    "Masks need the columns task, worker and mask (paths of images), polygon (with width and height) or rle, and a row "
    "for each answer; or a folder of images WORKER/TASK.png."
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Masks(TaskAnswers, kind="masks", noun="mask", said=("start",)):
    """Regions of images that workers outlined: one row for each answer, sorted by task. Immutable.

    Make one with `read_masks` or `Masks.from_codes`, from an array (height, width) for each answer; what is not 0 is
    inside.

    Attributes
    ----------
    bits : bytes
        Pixels of all answers, eight a byte, row by row; each answer begins a byte.
    start : (n_answers,)
        The byte at which each answer begins.
    height, width : (N,)
        Size of each task's image, in pixels; all masks of a task have it.

    Examples
    --------
    >>> read_masks({"task": ["a", "a"], "worker": ["ann", "bob"], "polygon": ["0 0 4 0 4 4 0 4", "1 0 4 0 4 4 1 4"],
    ...             "width": [6, 6], "height": [5, 5]})
    Masks: 2 masks by 2 workers on 1 task
    """

    start: IntArray
    bits: npt.NDArray[np.uint8]
    height: IntArray
    width: IntArray

    @classmethod
    def _code_said(cls, said: Iterable[Any]) -> dict[str, Any]:
        regions = []
        for row, each in enumerate(said):
            try:
                regions.append(as_mask_array(each))
            except InputError as error:
                raise InputError(f"mask {row} cannot be used: {error}.") from error
        return {"mask": regions}

    @classmethod
    def _from_columns(
        cls, columns: dict[str, Any], on_duplicate: Duplicates, place: Callable[[int], str] | None = None
    ) -> Masks:
        packed = _pack(columns.pop("mask"), columns["task"], columns["tasks"], place or "row {}".format)
        return super()._from_columns(columns | packed, on_duplicate, place)

    def mask(self, row: int) -> BoolArray:
        """The mask (height, width) of an answer."""
        task = self.task[row]
        height, width = int(self.height[task]), int(self.width[task])
        first = int(self.start[row])
        flat = np.unpackbits(self.bits[first : first + (height * width + 7) // 8], count=height * width)
        return flat.view(np.bool_).reshape(height, width)

    def masks_of_task(self, task: int) -> list[BoolArray]:
        """The masks (height, width) of a task, in the order of its answers."""
        return [self.mask(row) for row in range(self.task_ptr[task], self.task_ptr[task + 1])]

    def equality_columns(self) -> tuple[IntArray, IntArray]:
        """The task, and a number for each different mask."""
        said: dict[bytes, int] = {}
        codes = [said.setdefault(self.mask(row).tobytes(), len(said)) for row in range(self.n_answers)]
        return self.task, np.array(codes, np.int64)

    def _said_columns(self) -> dict[str, Any]:
        return {"rle": [encode_run_lengths(self.mask(row)) for row in range(self.n_answers)]}


def _pack(regions: Iterable[BoolArray], task: IntArray, tasks: pa.Array, place: Callable[[int], str]) -> dict[str, Any]:
    """Bits, starts and sizes of masks; those of one task must have one size."""
    packed: list[npt.NDArray[np.uint8]] = []
    start = np.zeros(task.size, np.int64)
    size: IntArray = np.zeros((len(tasks), 2), np.int64)
    first: dict[int, int] = {}
    at = 0
    for row, region in enumerate(regions):
        code = int(task[row])
        if code not in first:
            first[code], size[code] = row, region.shape
        elif tuple(size[code]) != region.shape:
            (height, width), before = region.shape, size[code]
            raise InputError(
                f"The masks of task {quote(tasks[code].as_py())} have different sizes: {before[1]} × {before[0]} "
                f"pixels ({place(first[code])}) and {width} × {height} ({place(row)}). Bring them to one size."
            )
        packed.append(np.packbits(region))
        start[row] = at
        at += packed[-1].size
    bits = np.concatenate(packed) if packed else np.zeros(0, np.uint8)
    bits.flags.writeable = False
    return {"bits": bits, "start": start, "height": np.maximum(size[:, 0], 1), "width": np.maximum(size[:, 1], 1)}


@reader_of(Masks)
def read_masks(
    source: Any, *, mask: str | None = None, folder: str | Path | None = None, **options: Unpack[TaskOptions]
) -> Masks:
    """Read masks from a file or a table with a row for each answer, or from a folder of images.

    Parameters
    ----------
    source
        A path or a table, as for `read_labels`; a folder with a folder for each worker and in it an image for each
        task (WORKER/TASK.png); or `Masks`, which come back as they are.
    mask
        Column name, where it is not the usual one. A mask is the path of an image (PNG, BMP, PBM or PGM) in which
        the region is not 0; polygons, as "x1 y1 x2 y2 …", a list or JSON, with columns width and height; or
        COCO's run lengths, {"size": [height, width], "counts": …}. An empty mask, and `[]` for polygons, says that
        there is no region.
    folder
        Where paths of images start, by default where the table is. Paths that lead out of it are refused.
    task, worker, on_duplicate
        As for `read_labels`.
    """
    if folder is not None and not isinstance(folder, str | Path):
        raise InputError(f"folder is {quote(folder)}; give the path of a folder, as text.")
    start = find_table_folder(source) if folder is None else Path(folder)
    only = source[0] if isinstance(source, list | tuple) and len(source) == 1 else source
    if isinstance(only, str | Path) and Path(only).is_dir():
        source, start = _list_images(Path(only)), Path(only)
    table = open_task_table(source, NEEDS, options, {"mask": mask}, {"width": None, "height": None})
    columns = table.encode_task_answers() | {"mask": read_regions(table, start)}
    return Masks._from_columns(columns, options.get("on_duplicate", "error"), table.place)


def _list_images(folder: Path) -> dict[str, list[str]]:
    """The images of a folder as a table: WORKER/TASK.png."""
    files = sorted(file for file in folder.glob("[!.]*/[!.]*") if file.suffix.lower() in SUFFIXES)
    if not files:
        raise InputError(f"The folder {quote(str(folder))} holds no images WORKER/TASK.png. {NEEDS}")
    return {
        "task": [file.stem for file in files],
        "worker": [file.parent.name for file in files],
        "mask": [str(file.relative_to(folder)) for file in files],
    }
