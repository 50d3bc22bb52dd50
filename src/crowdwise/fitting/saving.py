"""Saved models: a folder of JSON, Parquet and npz that a stranger may send you. No pickle, ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crowdwise.fitting.base import Fit
from crowdwise.labels.errors import InputError, quoted
from crowdwise.labels.tables import written_folder

if TYPE_CHECKING:
    from crowdwise.fitting.base import Aggregator

__all__ = ["read_header", "restore", "save"]

SCHEMA = 1
HEADER = "model.json"
ARRAYS = "arrays.npz"
VOCABULARIES = ("tasks", "workers", "classes")
COUNTS = ("labels_per_task", "labels_per_worker", "label_shares")
COLUMN_SETS = ("worker_columns", "task_columns")
SCALARS = ("n_iter", "converged")


def save(model: Aggregator, folder: str | Path) -> None:
    """Write a fitted model; the folder appears whole or not at all."""
    arrays = {name: getattr(model, f"{name}_") for name in (*_array_names(model), *COUNTS)}
    for columns in COLUMN_SETS:
        arrays |= {f"{columns}/{name}": values for name, values in getattr(model, f"{columns}_").items()}
    header = {
        "schema": SCHEMA,
        "slug": model.slug,
        "kind": model.kind_,
        "parameters": {name: _stored_parameter(value, name, arrays) for name, value in model.get_params().items()},
        **{name: getattr(model, f"{name}_") for name in SCALARS},
    }
    with written_folder(Path(folder)) as draft:
        (draft / HEADER).write_text(json.dumps(header, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        np.savez(draft / ARRAYS, **arrays)
        for name in VOCABULARIES:
            pq.write_table(pa.table({"name": getattr(model, f"{name}_")}), draft / f"{name}.parquet")


def read_header(folder: str | Path) -> dict[str, Any]:
    """Read a saved model's slug and parameters, refusing what is not one."""
    path = Path(folder) / HEADER
    try:
        header: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        schema = header["schema"]
        header["slug"], header["parameters"], header["kind"]  # all must be there
    except FileNotFoundError as error:
        raise InputError(f"{quoted(str(folder))} holds no saved model: there is no {HEADER} in it.") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{quoted(str(path))} cannot be read as a saved model: {quoted(str(error))}.") from error
    if schema != SCHEMA:
        raise InputError(
            f"{quoted(str(path))} has schema {schema!r}; this version reads {SCHEMA}. Install the version of "
            "crowdwise that wrote it, or fit again."
        )
    return header


def restore(model: Aggregator, folder: str | Path, header: dict[str, Any]) -> None:
    """Give an unfitted model the parameters and fitted attributes of a saved one."""
    folder = Path(folder)
    try:
        with np.load(folder / ARRAYS, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        for name in VOCABULARIES:
            setattr(model, f"{name}_", pq.read_table(folder / f"{name}.parquet")["name"].combine_chunks())
        parameters = {
            name: arrays.pop(f"parameter/{name}") if isinstance(value, dict) and "array" in value else value
            for name, value in header["parameters"].items()
        }
        model.set_params(**parameters)
        for columns in COLUMN_SETS:
            setattr(model, f"{columns}_", {})
        for name, values in arrays.items():
            group, _, column = name.partition("/")
            if column:
                getattr(model, f"{group}_")[column] = values
            else:
                setattr(model, f"{name}_", values)
        for name in SCALARS:
            setattr(model, f"{name}_", header[name])
        model.kind_ = header["kind"]
    except (OSError, ValueError, KeyError, AttributeError, pa.ArrowException) as error:
        raise InputError(
            f"The saved model in {quoted(str(folder))} is damaged: {quoted(str(error))}. Fit and save it again."
        ) from error


def _array_names(model: Aggregator) -> list[str]:
    every = [name for name in Fit.__dataclass_fields__ if name not in (*COLUMN_SETS, *SCALARS)]
    return [name for name in every if hasattr(model, f"{name}_")]


def _stored_parameter(value: Any, name: str, arrays: dict[str, Any]) -> Any:
    """Plain values go to the header, arrays beside it; an object (another model) served the fit and is left out."""
    if isinstance(value, np.ndarray):
        arrays[f"parameter/{name}"] = value
        return {"array": name}
    return value if value is None or isinstance(value, str | int | float | bool) else None
