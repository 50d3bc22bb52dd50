"""Saved models: a folder of JSON, Parquet and npz that a stranger may send you. No pickle, ever."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crowdwise.fitting.crowd_model import Fit, ModelNames
from crowdwise.fitting.parameter_checks import check_choice
from crowdwise.fitting.part_digests import add_digests
from crowdwise.labels.atomic_output import replace_folder
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.old_names import rename_parameters
from crowdwise.labels.vocabulary import as_vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.fitting.crowd_model import CrowdModel

__all__ = ["read_header", "report_errors_as_damage", "restore_model", "save_model", "stored_parameters", "write_model"]

SCHEMA = 2  # tables [worker, truth, label] throughout
HEADER = "model.json"
ARRAYS = "arrays.npz"
VOCABULARIES = ("tasks", "workers", "classes")
COUNTS = ("labels_per_task", "labels_per_worker", "label_shares")
COLUMN_SETS = ("worker_columns", "task_columns", "extra")
SCALARS = ("n_iter", "converged")
KINDS = ("pyarrow", "pandas", "polars")


def save_model(model: CrowdModel, folder: str | Path) -> None:
    """Write a fitted model; the folder appears whole or not at all."""
    with replace_folder(Path(folder)) as draft:
        write_model(model, draft)
        add_digests(draft)


def write_model(model: CrowdModel, draft: Path, **more: Any) -> None:
    """Write what every fitted model has into a folder: the header (and `more` in it), arrays and vocabularies."""
    arrays = {name: getattr(model, f"{name}_") for name in (*_array_names(model), *COUNTS)}
    for columns in COLUMN_SETS:
        arrays |= {f"{columns}/{name}": values for name, values in getattr(model, f"{columns}_").items()}
    plain, beside = stored_parameters(model)
    arrays |= {f"parameter/{name}": values for name, values in beside.items()}
    header = {
        "schema": SCHEMA,
        "slug": model.slug,
        "kind": model.kind_,
        "parameters": plain,
        **{name: getattr(model, f"{name}_") for name in SCALARS},
        **more,
    }
    (draft / HEADER).write_text(json.dumps(header, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    np.savez(draft / ARRAYS, **arrays)
    for name in VOCABULARIES:
        pq.write_table(pa.table({"name": getattr(model._names, name)}), draft / f"{name}.parquet")


def stored_parameters(model: CrowdModel) -> tuple[dict[str, Any], dict[str, Any]]:
    """Plain values go to the header, arrays beside it; an object (another model) served the fit and is left out."""
    plain: dict[str, Any] = {}
    beside = {}
    for name, given in model.get_params(deep=False).items():
        value = given.item() if isinstance(given, np.generic) else given
        if isinstance(value, np.ndarray):
            beside[name] = value
            plain[name] = {"array": name}
        else:
            plain[name] = value if value is None or isinstance(value, str | int | float | bool) else None
    return plain, beside


def read_header(folder: str | Path) -> dict[str, Any]:
    """Read a saved model's slug and parameters, refusing what is not one."""
    path = Path(folder) / HEADER
    try:
        header: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        schema = header["schema"]
        header["slug"], header["parameters"], header["kind"]  # all must be there
    except FileNotFoundError as error:
        hint = " Did you mean the folder model in it?" if (Path(folder) / "model" / HEADER).is_file() else ""
        raise InputError(f"{quote(str(folder))} holds no saved model: there is no {HEADER} in it.{hint}") from error
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{quote(str(path))} cannot be read as a saved model: {quote(str(error))}.") from error
    if schema != SCHEMA:
        raise InputError(
            f"{quote(str(path))} has schema {schema!r}; this version reads {SCHEMA}. Install the version of "
            "crowdwise that wrote it, or fit again."
        )
    return header


@contextlib.contextmanager
def report_errors_as_damage(folder: str | Path) -> Iterator[None]:
    """Turn whatever a stranger's file can raise, memory included, into one error."""
    try:
        yield
    except Exception as error:
        raise InputError(
            f"The saved model in {quote(str(folder))} is damaged: {quote(str(error))}. Fit and save it again."
        ) from error


def restore_model(model: CrowdModel, folder: str | Path, header: dict[str, Any]) -> None:
    """Give an unfitted model the parameters and fitted attributes of a saved one, once all of it has been checked."""
    folder = Path(folder)
    with report_errors_as_damage(folder):
        vocabularies = {name: _read_vocabulary(folder / f"{name}.parquet") for name in VOCABULARIES}
        with (folder / ARRAYS).open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        given = {name: arrays.pop(f"parameter/{name}", value) for name, value in header["parameters"].items()}
        _check_arrays(arrays, *(len(vocabularies[name]) for name in VOCABULARIES))
        scalars = int(header["n_iter"]), bool(header["converged"])
        check_choice("kind", header["kind"], KINDS)
        model.set_params(**rename_parameters(given, type(model).__name__, warn=False))
    model._set_names(ModelNames(**vocabularies))
    for columns in COLUMN_SETS:
        prefix = f"{columns}/"
        found = {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}
        setattr(model, f"{columns}_", found)
    for name in set(_array_shapes(0, 0, 0)) & set(arrays):
        setattr(model, f"{name}_", arrays[name])
    model.n_iter_, model.converged_ = scalars
    model.kind_ = header["kind"]


def _array_shapes(n: int, m: int, k: int) -> dict[str, tuple[int, ...] | None]:
    """Every array that a model may have, and its shape (None: one value per iteration)."""
    return {
        "posterior": (n, k),
        "prior": (k,),
        "confusion": (m, k, k),
        "skill": (m,),
        "skill_beta": (m, 2),
        "log_likelihood": None,
        "objective": None,
        "labels_per_task": (n,),
        "labels_per_worker": (m,),
        "label_shares": (k,),
    }


def _check_arrays(arrays: dict[str, Any], n: int, m: int, k: int) -> None:
    """Refuse arrays that no fit could have saved: the kernels trust what they are given."""
    shapes = _array_shapes(n, m, k)
    lacking = set(shapes) - {"confusion"} - set(arrays)
    if lacking:
        raise InputError(f"{ARRAYS} lacks {', '.join(sorted(lacking))}")
    for name, values in arrays.items():
        group = name.partition("/")[0]
        if (group not in COLUMN_SETS) if "/" in name else (name not in shapes):
            raise InputError(f"{ARRAYS} holds {quote(name)}, which no model has")
        expected = {"worker_columns": (m,), "task_columns": (n,), "extra": None}[group] if "/" in name else shapes[name]
        if values.dtype.kind not in "fi" or (expected is not None and values.shape != expected):
            raise InputError(f"{name} has type {values.dtype} and shape {values.shape}, not {expected}")
    for name in ("posterior", "prior", "confusion"):
        values = arrays.get(name, np.ones(1))
        if not (values >= 0).all() or not np.allclose(values.sum(axis=-1), 1, atol=1e-6):
            raise InputError(f"{name} does not hold probabilities")


def _read_vocabulary(path: Path) -> pa.Array:
    return as_vocabulary(pq.read_table(path)["name"].combine_chunks(), path.stem)


def _array_names(model: CrowdModel) -> list[str]:
    every = [name for name in Fit.__dataclass_fields__ if name not in (*COLUMN_SETS, *SCALARS)]
    return [name for name in every if hasattr(model, f"{name}_")]
