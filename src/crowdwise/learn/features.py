"""The features of tasks: arrays and tensors live on the device whole, Datasets are streamed."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from crowdwise.labels.errors import InputError
from crowdwise.labels.vocabulary import as_vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from torch import Tensor

__all__ = ["Features", "HeldFeatures", "StreamedFeatures", "features_of"]

ALIKE = 200.0  # largest ratio of the deviations of features of one kind (95th to 5th percentile)
TASK = "task"  # column of a frame that names the rows
MOST_DENSE = 2**31  # bytes that a sparse matrix may fill when made dense


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
        return _moments(_as_numbers(self.values[:4096] if self.values.ndim > 2 else self.values, torch.float64))


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
        self.shape = tuple(_first(dataset[0]).shape)

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
            collate_fn=_stacked,
            num_workers=self.readers,
            pin_memory=self.device.type == "cuda",
        )
        for values in loader:
            yield _as_numbers(values.to(self.device, non_blocking=True), self.dtype)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation over (at most 512) tasks spread over the set."""
        some = torch.linspace(0, len(self) - 1, min(len(self), 512)).long()
        return _moments(torch.cat([x.double().cpu() for x in self.batches(some, 64)]))


def features_of(given: Any) -> Features:
    """Features of tasks from what users have: an array, a tensor, a frame, a sparse matrix, a Dataset, a path.

    A path is that of an array, a table or a folder of images, as `reading.read_features` reads them. A column `task` of
    a frame names the rows, as that of a table in a file does. Numbers must be finite. Images are (tasks, height,
    width), (tasks, height, width, channels) or (tasks, channels, height, width); they go to networks with the channels
    first. Bytes are divided by 255.
    """
    if isinstance(given, Features):
        return given
    if isinstance(given, Dataset):
        if not hasattr(given, "__len__") or len(given) == 0:
            raise InputError("The Dataset of features has no length or is empty; a map-style Dataset is needed.")
        return StreamedFeatures(given)
    if isinstance(given, str | Path):
        from crowdwise.learn.reading import read_features

        return read_features(given)
    frame = nw.from_native(given, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return _of_frame(frame)
    return _held(_tensor_of(given))


def _of_frame(frame: nw.DataFrame[Any]) -> Features:
    columns = [name for name in frame.columns if name != TASK]
    features = _held(_tensor_of(frame.select(columns).to_numpy()))
    features.columns = tuple(columns) if all(isinstance(name, str) for name in columns) else ()
    if TASK in frame.columns:
        features.names = (as_vocabulary(frame[TASK].to_native(), "task"),)
    return features


def _held(values: Tensor) -> HeldFeatures:
    if values.ndim < 2 or len(values) == 0 or values[0].numel() == 0:
        raise InputError(
            f"Features have shape {tuple(values.shape)}; there must be one row for each task, and at least one column."
        )
    if values.is_floating_point():
        finite = torch.isfinite(values.flatten(1)).all(dim=1)
        if not finite.all():
            row = int((~finite).nonzero()[0, 0])
            raise InputError(f"Features of row {row} hold a missing or infinite value. Fill it in or drop the row.")
    if values.ndim == 3:
        values = values.unsqueeze(1)
    elif values.ndim == 4 and values.shape[-1] in (1, 3, 4) and values.shape[1] not in (1, 3, 4):
        values = values.permute(0, 3, 1, 2)
    return HeldFeatures(values.contiguous())


def _tensor_of(given: Any) -> Tensor:
    if isinstance(given, torch.Tensor):
        return given.detach().cpu()
    if hasattr(given, "toarray"):  # scipy's sparse matrices
        if 4 * np.prod(given.shape, dtype=np.float64) > MOST_DENSE:
            raise InputError(
                f"A sparse matrix of shape {given.shape} would fill {4 * np.prod(given.shape) / 2**30:.0f} GiB. "
                "Keep fewer columns (TruncatedSVD, SelectKBest), or give a Dataset whose items are dense rows."
            )
        given = given.astype(np.float32).toarray()
    elif hasattr(given, "to_numpy"):
        given = given.to_numpy()
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise InputError("Features must be one table of numbers: the rows have different lengths.") from error
    if array.dtype.kind == "O":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"Features must be numbers ({error}). Turn text into numbers first (TfidfVectorizer); names of "
                "the rows go to tasks=, or into a column called task."
            ) from error
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"Features must be numbers, not {array.dtype}. Turn text into numbers first (TfidfVectorizer)."
        )
    if array.dtype.kind == "f":
        array = array.astype(np.float32) if array.dtype != np.float64 else array
    elif array.dtype != np.uint8:
        array = array.astype(np.float32)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writ")
        return torch.from_numpy(np.ascontiguousarray(array))


def _first(item: Any) -> Tensor:
    values = item[0] if isinstance(item, tuple | list) else item
    return values if isinstance(values, torch.Tensor) else _tensor_of(values)


def _stacked(items: list[Any]) -> Tensor:
    return torch.stack([_first(item) for item in items])


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
    mean, deviation = values.mean(dim=over, keepdim=True)[0], values.std(dim=over, keepdim=True, correction=0)[0]
    # What varies by rounding alone does not vary.
    varies = deviation > 1e-6 * (1 + mean.abs())
    some = deviation[varies]
    if len(some) and some.quantile(0.95) < ALIKE * some.quantile(0.05):
        deviation = some.square().mean().sqrt().expand_as(deviation)
    return mean, torch.where(varies, deviation, 1.0)
