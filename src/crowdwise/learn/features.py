"""The features of tasks: arrays and tensors live on the device whole, Datasets are streamed."""

from __future__ import annotations

import warnings
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.vocabulary import as_vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from torch import Tensor

__all__ = ["Features", "HeldFeatures", "StreamedFeatures", "make_features"]

ALIKE = 200.0  # largest ratio of the deviations of features of one kind (95th to 5th percentile)
TASK = "task"  # column of a frame that names the rows
LARGEST = torch.finfo(torch.float32).max
MOST_DENSE = 2**31  # bytes that a sparse matrix may fill when made dense
MOST_AT_ONCE = 2**24  # numbers that are looked at together: features may lie on the disk, and be more than memory holds


class Features:
    """Features of `len(self)` tasks, each of shape `shape`; given batch by batch, as numbers, on the device.

    Attributes
    ----------
    names
        Names of the rows, where they came with some: one vocabulary or, where labels may call tasks otherwise (images
        with and without suffix), several, the usual one first.
    columns
        Names of the features, where they came with some.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    names: tuple[pa.Array, ...] = ()
    columns: tuple[str, ...] = ()

    def __len__(self) -> int:
        raise NotImplementedError

    def to(self, device: torch.device, dtype: torch.dtype) -> Features:
        """The same, given on another device and in another type."""
        raise NotImplementedError

    def batches(self, order: Tensor, size: int | list[int]) -> Iterator[Tensor]:
        """The features of the tasks `order`, `size` at a time, or as many as each entry of it says."""
        raise NotImplementedError

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of every feature, or of every channel of images, for scaling."""
        raise NotImplementedError

    def digest(self) -> str:
        """What a checkpoint knows other features by; of a Dataset, whose items may be drawn anew, the size alone."""
        return f"{len(self)} of shape {self.shape}"


class HeldFeatures(Features):
    """A tensor that lives on the device whole and is indexed there; bytes stay bytes until they are used."""

    def __init__(self, values: Tensor, dtype: torch.dtype = torch.float32) -> None:
        self.values = values if values.dtype == torch.uint8 else values.to(dtype)
        self.dtype = dtype
        self.shape = tuple(values.shape[1:])

    def __len__(self) -> int:
        return len(self.values)

    def to(self, device: torch.device, dtype: torch.dtype) -> Features:
        """The same, given on another device and in another type."""
        return HeldFeatures(self.values.to(device), dtype)

    def batches(self, order: Tensor, size: int | list[int]) -> Iterator[Tensor]:
        """The features of the tasks `order`, `size` at a time, or as many as each entry of it says."""
        for part in torch.split(order, size) if len(order) else ():
            yield _as_numbers(self.values.index_select(0, part), self.dtype)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation over tasks (and, of images, over pixels)."""
        if self.values.ndim > 2:
            return _moments(_as_numbers(self.values[:4096], torch.float64))
        if self.values.numel() <= MOST_AT_ONCE:
            return _moments(_as_numbers(self.values, torch.float64))
        parts, number = _row_parts(self.values), len(self.values)
        mean, square = torch.zeros(2, *self.shape, dtype=torch.float64, device=self.values.device)
        for part in parts:
            mean += _as_numbers(part, torch.float64).sum(dim=0) / number
        for part in parts:
            square += (_as_numbers(part, torch.float64) - mean).square_().sum(dim=0) / number
        return _scale_of_kinds(mean, square.sqrt())

    def digest(self) -> str:
        """Their number, shape and a checksum."""
        sum_so_far = 0
        for part in _row_parts(self.values):
            sum_so_far = zlib.crc32(part.cpu().numpy().tobytes(), sum_so_far)
        return f"{super().digest()}, CRC {sum_so_far:08x}"


class StreamedFeatures(Features):
    """A map-style Dataset, read by a DataLoader; an item is the features, or a tuple or list that begins with them."""

    def __init__(
        self,
        dataset: Dataset[Any],
        device: torch.device | None = None,
        dtype: torch.dtype = torch.float32,
        readers: int = 0,
    ) -> None:
        self.dataset, self.dtype, self.readers = dataset, dtype, readers
        self.device = device or torch.device("cpu")
        self.shape = tuple(_item_features(dataset[0]).shape)
        if 0 in self.shape:
            raise InputError(f"The first item of the Dataset has shape {self.shape}: there is nothing to learn from.")

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def to(self, device: torch.device, dtype: torch.dtype) -> Features:
        """The same, given on another device and in another type."""
        return StreamedFeatures(self.dataset, device, dtype, self.readers)

    def batches(self, order: Tensor, size: int | list[int]) -> Iterator[Tensor]:
        """The features of the tasks `order`, `size` at a time, or as many as each entry of it says."""
        loader = DataLoader(
            self.dataset,
            batch_sampler=[part.tolist() for part in torch.split(order, size)] if len(order) else [],
            collate_fn=_stack_items,
            num_workers=self.readers,
            pin_memory=self.device.type == "cuda",
        )
        for values in loader:
            yield _as_numbers(values.to(self.device, non_blocking=True), self.dtype)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation over (at most 512) tasks spread over the set."""
        some = torch.linspace(0, len(self) - 1, min(len(self), 512)).long()
        return _moments(torch.cat([x.double().cpu() for x in self.batches(some, 64)]))


def make_features(given: Any) -> Features:
    """Features of tasks from what users have: an array, a tensor, a frame, a sparse matrix, a Dataset, a path.

    A path is that of an array, a table or a folder of images, as `feature_files.read_features` reads them. A column
    `task` of a frame names the rows, as that of a table in a file does. Numbers must be finite. Images are (tasks,
    height, width), (tasks, height, width, channels) or (tasks, channels, height, width); they go to networks with the
    channels first. Bytes are divided by 255.
    """
    if isinstance(given, Features):
        return given
    if isinstance(given, Dataset):
        if isinstance(given, IterableDataset) or not hasattr(given, "__len__") or len(given) == 0:
            raise InputError("The Dataset of features has no length or is empty; a map-style Dataset is needed.")
        return StreamedFeatures(given)
    if isinstance(given, str | Path):
        from crowdwise.learn.feature_files import read_features

        return read_features(given)
    try:
        frame = nw.from_native(given, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise InputError("Several columns of the features have the same name. Name each of them once.") from error
    if isinstance(frame, nw.LazyFrame):
        frame = _collect(frame)
    if isinstance(frame, nw.DataFrame):
        return _features_of_frame(frame)
    return _hold_tensor(_make_tensor(given))


def _collect(frame: nw.LazyFrame[Any]) -> nw.DataFrame[Any]:
    try:
        return frame.collect()
    except Exception as error:  # whatever the user's query can raise
        raise InputError(f"The lazy table of features cannot be computed: {quote(str(error))}.") from error


def _features_of_frame(frame: nw.DataFrame[Any]) -> Features:
    columns = [name for name in frame.columns if name != TASK]
    features = _hold_tensor(_make_tensor(frame.select(nw.col(*columns)).to_numpy() if columns else np.empty((0, 0))))
    features.columns = tuple(columns) if all(isinstance(name, str) for name in columns) else ()
    if TASK in frame.columns:
        features.names = (as_vocabulary(frame[TASK].to_native(), "task"),)
    return features


def _hold_tensor(values: Tensor) -> HeldFeatures:
    if values.ndim < 2 or len(values) == 0 or values[0].numel() == 0:
        raise InputError(
            f"Features have shape {tuple(values.shape)}; there must be one row for each task, and at least one column."
        )
    if values.is_floating_point():
        values = values.float()  # what single precision cannot hold becomes infinite
        finite = torch.cat([torch.isfinite(part.flatten(1)).all(dim=1) for part in _row_parts(values)])
        if not finite.all():
            row = int((~finite).nonzero()[0, 0])
            raise InputError(
                f"Features of row {row} hold a missing or infinite value, or one beyond {LARGEST:.1g}. Fill it in or "
                "drop the row."
            )
    if values.ndim == 3:
        values = values.unsqueeze(1)
    elif values.ndim == 4:
        values = _channels_first(values)
    return HeldFeatures(values.contiguous())


def _row_parts(values: Tensor) -> tuple[Tensor, ...]:
    """The rows, `MOST_AT_ONCE` numbers or a row at a time."""
    return torch.split(values, max(MOST_AT_ONCE // values[0].numel(), 1))


def _make_tensor(given: Any) -> Tensor:
    if isinstance(given, torch.Tensor):
        return _plain_tensor(given)
    if hasattr(given, "toarray"):  # scipy's sparse matrices
        _refuse_too_large_dense(given.shape)
        try:
            _check_sparse_positions(given)
        except (ValueError, TypeError, IndexError) as error:
            raise InputError(f"The sparse matrix of features is damaged: {quote(str(error))}.") from error
        if given.dtype.kind not in "fiub":
            raise InputError(f"The sparse matrix of features holds {given.dtype}, not real numbers.")
        with np.errstate(over="ignore"):  # what is too large is found, and refused, below
            given = given.astype(np.float32).toarray()
    elif hasattr(given, "to_numpy"):
        given = given.to_numpy()
    elif isinstance(given, np.ma.MaskedArray) and given.dtype.kind != "c":  # refused below
        given = np.ma.filled(given.astype(np.float64), np.nan)
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise InputError("Features must be one table of numbers: the rows have different lengths.") from error
    except (TypeError, RuntimeError) as error:  # a list of tensors with gradients
        raise InputError(f"Features cannot be made an array: {quote(str(error))}.") from error
    if array.dtype.kind == "O":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"Features must be numbers ({error}). Turn text into numbers first (TfidfVectorizer); names of "
                "the rows go to tasks=, or into a column called task."
            ) from error
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"Features must be numbers, not {array.dtype}. Turn text into numbers first (TfidfVectorizer)."
        )
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):  # a long double that becomes infinite is refused by the caller
            array = array.astype(np.float32, copy=False) if array.dtype != np.float64 else array
    elif array.dtype != np.uint8:
        array = array.astype(np.float32)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writ")
        return torch.from_numpy(np.ascontiguousarray(array))


def _plain_tensor(given: Tensor) -> Tensor:
    """A tensor on the CPU, dense, without a history."""
    try:
        if given.layout in (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc):
            _refuse_too_large_dense(tuple(given.shape))
            given = _rebuild_checked(given).to_dense()
        values = given.detach().cpu()
        if values.is_complex() or values.is_quantized or values.is_nested:
            raise InputError(f"Features must be one table of numbers, not a tensor of {given.dtype}.")
        return values.float() if values.is_floating_point() and values.dtype != torch.float64 else values
    except (RuntimeError, NotImplementedError) as error:  # one of another layout, or of a device without memory
        raise InputError(f"Features cannot be read from this tensor: {quote(str(error))}.") from error


def _check_sparse_positions(matrix: Any) -> None:
    """Refuse positions outside the matrix: scipy looks at none of them when it fills the dense array."""
    if hasattr(matrix, "check_format"):
        # scipy's own check believes the last pointer, and skips the others where it says that nothing is stored.
        starts = matrix.indptr  # compared, not subtracted: a difference of these may overflow
        if starts[0] != 0 or (starts[1:] < starts[:-1]).any() or starts[-1] > len(matrix.indices):
            raise ValueError("the pointers to its rows or columns do not rise from 0")
        matrix.check_format(full_check=True)
    for places, length in zip(getattr(matrix, "coords", ()), matrix.shape, strict=False):
        if len(places) and not 0 <= places.min() <= places.max() < length:
            raise ValueError(f"positions from {places.min()} to {places.max()} on an axis of length {length}")


def _rebuild_checked(given: Tensor) -> Tensor:
    """The same sparse tensor, whose positions torch has checked; by default it does not."""
    if given.layout == torch.sparse_coo:
        made = torch.sparse_coo_tensor(given._indices(), given._values(), given.shape, check_invariants=True)
    elif given.layout == torch.sparse_csr:
        made = torch.sparse_csr_tensor(
            given.crow_indices(), given.col_indices(), given.values(), given.shape, check_invariants=True
        )
    else:
        made = torch.sparse_csc_tensor(
            given.ccol_indices(), given.row_indices(), given.values(), given.shape, check_invariants=True
        )
    return made


def _refuse_too_large_dense(shape: tuple[int, ...]) -> None:
    if 4 * np.prod(shape, dtype=np.float64) > MOST_DENSE:
        raise InputError(
            f"A sparse matrix of shape {shape} would fill {4 * np.prod(shape, dtype=np.float64) / 2**30:.0f} GiB. "
            "Keep fewer columns (TruncatedSVD, SelectKBest), or give a Dataset whose items are dense rows."
        )


def _channels_first(images: Tensor) -> Tensor:
    """Images (..., height, width, channels) with the channels first; others as they are."""
    if images.shape[-1] in (1, 3, 4) and images.shape[-3] not in (1, 3, 4):
        return images.movedim(-1, -3)
    return images


def _item_features(item: Any) -> Tensor:
    """The features of an item; pictures and arrays are laid out as in `make_features`, tensors as they are."""
    values = item[0] if isinstance(item, tuple | list) else item
    if isinstance(values, torch.Tensor):
        plain = _plain_tensor(values)
        return plain if plain.ndim else plain.unsqueeze(0)
    values = _make_tensor(values)
    return _channels_first(values) if values.ndim == 3 else values


def _stack_items(items: list[Any]) -> Tensor:
    found = [_item_features(item) for item in items]
    shapes = list(dict.fromkeys(tuple(each.shape) for each in found))
    if len(shapes) > 1:
        raise InputError(
            f"Items of the Dataset have features of shapes {shapes[0]} and {shapes[1]}; all must be alike."
        )
    values = torch.stack(found)
    if values.is_floating_point() and not values.float().isfinite().all():
        raise InputError(
            f"An item of the Dataset holds a missing or infinite value, or one beyond {LARGEST:.1g}. Fill it in or "
            "leave it out."
        )
    return values


def _as_numbers(values: Tensor, dtype: torch.dtype) -> Tensor:
    if values.dtype == torch.uint8:
        return values.to(dtype) / 255
    return values.to(dtype)


def _moments(values: Tensor) -> tuple[Tensor, Tensor]:
    """Over tasks and, where there are channels, pixels; a constant feature has a deviation of 1.

    Features of one kind (embeddings, pixels, word counts) share one deviation: blown up to the size of the others,
    those that hardly vary would be noise. Features measured in units of their own have each their own.
    """
    over = (0,) if values.ndim == 2 else (0, *range(2, values.ndim))
    return _scale_of_kinds(values.mean(dim=over, keepdim=True)[0], values.std(dim=over, keepdim=True, correction=0)[0])


def _scale_of_kinds(mean: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation by which features are scaled, from those of each."""
    # What varies by rounding alone does not vary, but tiny units are no rounding.
    varies = deviation > 1e-6 * (mean.abs() + deviation.max().clamp(max=1))
    some, alone = deviation[varies], deviation.clamp(min=1)
    if len(some) and some.quantile(0.95, interpolation="higher") < ALIKE * some.quantile(0.05, interpolation="lower"):
        deviation = some.square().mean().sqrt().expand_as(deviation)
    return mean, torch.where(varies, deviation, alone)
