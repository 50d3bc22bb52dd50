"""Features from files: arrays, tables and folders of images, with the names of their rows."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch.utils.data import Dataset

from crowdwise.labels.columns import Columns, candidates
from crowdwise.labels.encode import encode
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.files import file_source
from crowdwise.labels.regular_files import open_regular_file
from crowdwise.labels.source_location import format_count
from crowdwise.labels.vocabulary import as_vocabulary
from crowdwise.learn.features import HeldFeatures, StreamedFeatures, make_features

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from crowdwise.learn.features import Features

__all__ = ["read_features"]

NAMES = ("task", "tasks", "id", "ids", "name", "names")  # arrays of an npz that name the rows
SPARSE = {"data", "shape", "format"}  # what scipy.sparse.save_npz writes
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pnm"}
EIGHT_BITS = {"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV"}
UNNAMED = re.compile(r"|Unnamed: \d+")  # as pandas calls a column of none
GREY = {"1", "L", "LA", "La"}
MOST_HELD = 2**30  # bytes of images or of an array that are kept in memory; more are read as they are needed


def read_features(source: str | Path, *, image_size: int | None = None) -> Features:
    """Features of tasks from a file or a folder, with the names of the rows where it has them.

    Parameters
    ----------
    source
        An array (.npy; one of more than a gibibyte, of single precision or bytes, stays on the disk and is read as it
        is needed), arrays (.npz: the one named X, or the only one with two axes or more; `FILE.npz:KEY` says which; the
        rows are named by one called task or id), a sparse matrix as scipy saves it, a table (CSV, TSV, JSON lines,
        Parquet, Arrow, plain or gzipped; a column task, all others numbers; "-" for standard input), or a folder of
        images, named by their files, with or without suffix.
    image_size
        Width and height in pixels that images are brought to; without it all must have the same.
    """
    path, key = _split_path_and_key(source)
    if path.is_dir():
        return _images(path, image_size)
    if image_size is not None:
        raise InputError(f"An image size is for a folder of images, which {quote(str(source))} is not.")
    head = b"" if str(source) == "-" or not path.is_file() else _head(path)
    if head.startswith(b"PK\x03\x04"):
        return _npz(path, key)
    if head.startswith(b"\x93NUMPY"):
        if path.stat().st_size > MOST_HELD:
            return make_features(_load_array(lambda: np.load(path, mmap_mode="r", allow_pickle=False), path))
        return make_features(_load_array(lambda: np.load(path, allow_pickle=False), path))
    return _table(source)


def _split_path_and_key(source: str | Path) -> tuple[Path, str | None]:
    """A file, and the array in it that is wanted: FILE.npz:KEY."""
    file, colon, key = str(source).rpartition(":")
    if colon and file.endswith(".npz") and not Path(source).exists():
        return Path(file), key
    return Path(source), None


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(8)
    except OSError as error:
        raise InputError(f"{quote(str(path))} cannot be read: {error.strerror}.") from error


def _set_row_names(features: Features, *names: Any) -> Features:
    features.names = tuple(as_vocabulary(each, "task") for each in names)
    return features


# ---- arrays ---------------------------------------------------------------------------------------------


def _load_array(load: Any, path: Path) -> Any:
    try:
        return load()
    except Exception as error:  # whatever a stranger's file can raise
        hint = " Save text as text: names.astype(str)." if "Object arrays" in str(error) else ""
        raise InputError(f"{quote(str(path))} cannot be read as NumPy's: {quote(str(error))}.{hint}") from error


def _npz(path: Path, key: str | None) -> Features:
    with path.open("rb") as file:
        stored = _load_array(lambda: np.load(file, allow_pickle=False), path)
        if set(stored.files) >= SPARSE:
            from scipy import sparse

            file.seek(0)
            return make_features(_load_array(lambda: sparse.load_npz(file), path))
        # Every array is read: the axes of one are not known before.
        arrays = {name: _load_array(lambda name=name: stored[name], path) for name in stored.files}
    strange = [name for name, values in arrays.items() if not isinstance(values, np.ndarray)]
    if strange:
        raise InputError(f"{quote(str(path))} holds {listing(strange)}, which NumPy did not write. Save arrays alone.")
    values = arrays[_chosen_key(arrays, key, path)]
    features = make_features(values)
    named = [name for name in NAMES if name in arrays and _is_column(arrays[name])]
    if not named:
        return features
    names = arrays[named[0]].reshape(-1)
    if len(names) != len(features):
        raise InputError(f"{path}: {named[0]} names {len(names)} rows, but there are {len(features)}.")
    return _set_row_names(features, names)


def _is_column(values: Any) -> bool:
    """Whether an array has one entry a row."""
    return bool(values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1))


def _chosen_key(arrays: dict[str, Any], key: str | None, path: Path) -> str:
    if key is not None:
        if key not in arrays:
            raise InputError(f"{path} has no array {quote(key)}; it has {listing(arrays)}.")
        return key
    several = [
        name for name, values in arrays.items() if values.ndim >= 2 and not (name in NAMES and _is_column(values))
    ]
    if "X" in several:
        return "X"
    if len(several) != 1:
        what = (
            f"more than one that may be the features: {listing(several)}" if several else "none with rows and columns"
        )
        hint = f"{path}:{several[0]}" if several else "an array of tasks × features"
        raise InputError(f"{path} has arrays {listing(arrays)}, {what}. Say which (or save it as X): {hint}.")
    return several[0]


# ---- tables ---------------------------------------------------------------------------------------------


def _table(source: str | Path) -> Features:
    columns = file_source(source, "Features need a column task, columns of numbers, and a row for each task.")
    if not isinstance(columns, Columns):
        raise InputError(f"{quote(str(source))} is nested JSON. Features need a table with a row for each task.")
    origin = columns.place.origin
    task = candidates("task", columns.names)
    if len(task) > 1:
        raise InputError(f"{origin} has more than one column that may name the tasks: {listing(task)}. Keep one.")
    wanted = [name for name in columns.names if name not in task]
    if len(set(columns.names)) < len(columns.names):
        raise InputError(f"{origin} has columns of the same name. Rename them so that each name occurs once.")
    unnamed = [name for name in wanted if UNNAMED.fullmatch(name)]
    if unnamed:
        raise InputError(
            f"{origin} has a column without a name ({listing(unnamed)}), as pandas writes the numbers of rows. Leave "
            "it out (to_csv(index=False)), or give it a name if it is a feature."
        )
    if not wanted:
        raise InputError(f"{origin} has no columns but {listing(columns.names)}. Features are columns of numbers.")
    table = columns.read_whole_columns(columns.names)
    if len({len(column) for column in table.values()}) > 1:
        sizes = ", ".join(f"{quote(name)} {len(column):,}" for name, column in table.items())
        raise InputError(f"{origin}: all columns must have the same length; the rows are {sizes}.")
    values = np.column_stack([_numbers(table[name], name, origin) for name in wanted])
    if not len(values):
        raise InputError(f"{origin} has columns but no rows. Give a row for each task.")
    features = make_features(values)
    features.columns = tuple(wanted)
    if not task:
        return features
    names = encode(table[task[0]], "task", name=task[0], place=columns.place, text=columns.text)
    return _set_row_names(features, names.names.take(pa.array(names.codes)))


def _numbers(column: pa.ChunkedArray, name: str, origin: str) -> Any:
    kind = column.type
    empty = column.null_count
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        empty += pc.sum(pc.equal(column, "")).as_py() or 0
    if empty:
        raise InputError(
            f"{origin}: the column {quote(name)} has {format_count(empty, 'empty cell')}. Fill in what is "
            "missing, or leave the column out."
        )
    try:
        if pa.types.is_temporal(kind):
            raise pa.ArrowInvalid(f"{kind} is no number")
        return column.cast(pa.float32()).to_numpy().astype(np.float32)
    except (pa.ArrowException, TypeError) as error:
        raise InputError(
            f"{origin}: the column {quote(name)} does not hold numbers ({quote(str(error))}). Turn it into numbers, "
            "or leave it out; the column that names the tasks is called task."
        ) from error


# ---- images ---------------------------------------------------------------------------------------------


class _Images(Dataset[Any]):
    """Images on the disk, brought to one size and mode, as bytes with the channels first."""

    def __init__(self, files: Sequence[Path], size: tuple[int, int], mode: str) -> None:
        self.files, self.size, self.mode = files, size, mode

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, at: int) -> Tensor:
        from PIL import Image

        file = self.files[at]
        try:
            with open_regular_file(file) as plain, Image.open(plain) as image:
                made = image.convert(self.mode)
            made = made if made.size == self.size else made.resize(self.size, Image.Resampling.BILINEAR)
        except Exception as error:  # whatever a stranger's file can raise
            raise _image_error(file, error) from error
        values = torch.from_numpy(np.array(made))
        return values.unsqueeze(0) if self.mode == "L" else values.permute(2, 0, 1)

    def __getitems__(self, places: list[int]) -> list[Tensor]:
        """Several at once: Pillow lets go of the interpreter's lock while it decodes."""
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            return list(pool.map(self.__getitem__, places))


def _images(folder: Path, image_size: int | None) -> Features:
    try:
        import PIL  # noqa: F401
    except ModuleNotFoundError as error:
        raise InputError(
            "Reading images needs Pillow, which is not installed: pip install 'crowdwise[learn]'."
        ) from error
    every = [file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES]
    files = sorted(file for file in every if not any(part[0] == "." for part in file.relative_to(folder).parts))
    if not files:
        raise InputError(f"The folder {quote(str(folder))} holds no images ({', '.join(sorted(SUFFIXES))}).")
    whole = isinstance(image_size, Integral) and not isinstance(image_size, bool)
    if image_size is not None and not (whole and 1 <= image_size <= 4096):
        raise InputError(f"The image size is {quote(image_size)}; it must be a whole number from 1 to 4096 pixels.")
    size, mode = _common_size_and_mode(files, image_size)
    dataset = _Images(files, size, mode)
    bytes_needed = len(files) * size[0] * size[1] * len(mode)
    if bytes_needed > MOST_HELD:
        features: Features = StreamedFeatures(dataset)
    else:
        features = HeldFeatures(torch.stack(dataset.__getitems__(list(range(len(files))))))
    names = [file.name for file in files]
    stems = [file.stem for file in files]
    return _set_row_names(features, names, stems) if len(set(stems)) == len(stems) else _set_row_names(features, names)


def _common_size_and_mode(files: Sequence[Path], image_size: int | None) -> tuple[tuple[int, int], str]:
    """One width and height, and one mode, grey where all are grey; only the heads of the files are read."""
    from PIL import Image

    first: tuple[int, int] = (0, 0)
    grey = True
    for file in files:
        try:
            with open_regular_file(file) as plain, Image.open(plain) as image:
                size, mode = image.size, image.mode
        except Exception as error:
            raise _image_error(file, error) from error
        if mode not in EIGHT_BITS:
            raise InputError(
                f"The image {quote(file.name)} has pixels of type {mode}, not of 8 bits. Convert it, or give all "
                "images as one array in an .npz file."
            )
        grey = grey and mode in GREY
        first = first if first[0] else size
        if image_size is None and size != first:
            raise InputError(
                f"{quote(file.name)} has {size[0]} × {size[1]} pixels, {quote(files[0].name)} has "
                f"{first[0]} × {first[1]}. Bring all to one size with image_size= in read_features (on the command "
                "line --image-size)."
            )
    return (first if image_size is None else (image_size, image_size)), ("L" if grey else "RGB")


def _image_error(file: Path, error: Exception) -> InputError:
    if isinstance(error, InputError):
        return error
    strange = type(error).__name__ == "UnidentifiedImageError"  # whose text is the path once more
    reason = "it is no image" if strange else quote(str(error))
    return InputError(f"The image {quote(file.name)} cannot be read: {reason}. Repair or remove it.")
