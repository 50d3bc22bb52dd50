"""Saved models: a folder of JSON, Parquet and npz that a stranger may send you. No pickle, ever."""

from __future__ import annotations

import contextlib
import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crowdwise.fitting.array_files import open_arrays
from crowdwise.fitting.crowd_model import Fit, ModelNames
from crowdwise.fitting.parameter_checks import check_choice, check_count, check_flag
from crowdwise.fitting.parquet_files import read_names
from crowdwise.fitting.part_digests import add_digests
from crowdwise.fitting.saved_arrays import check_values, match_shapes
from crowdwise.labels.atomic_output import replace_folder
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.old_names import rename_parameters
from crowdwise.labels.regular_files import as_folder, open_regular_file
from crowdwise.labels.vocabulary import as_vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.fitting.crowd_model import CrowdModel
    from crowdwise.fitting.estimator_parameters import Estimator

__all__ = [
    "ARRAYS",
    "HEADER",
    "KINDS",
    "PARAMETER",
    "SCHEMA",
    "read_header",
    "report_errors_as_damage",
    "restore_model",
    "save_model",
    "set_parameters",
    "stored_parameters",
    "write_model",
]

SCHEMA = 2  # tables [worker, truth, label] throughout
HEADER = "model.json"
ARRAYS = "arrays.npz"
VOCABULARIES = ("tasks", "workers", "classes")
COUNTS = ("labels_per_task", "labels_per_worker", "label_shares")
COLUMN_SETS = ("worker_columns", "task_columns", "extra")
SCALARS = ("n_iter", "converged")
KINDS = ("pyarrow", "pandas", "polars")
PARAMETER = "parameter/"
STORABLE = "fiubU"  # kinds of arrays of numbers or text
PLAIN = (str, int, float, bool, dict)  # of parameters; a dict names an array
FEWEST_CLASSES = 2
LONGEST_REASON = 300  # letters
LONGEST_HEADER = 1 << 23  # bytes; names of features are in it


def save_model(model: CrowdModel, folder: str | Path) -> None:
    """Write a fitted model; the folder appears whole or not at all."""
    with replace_folder(as_folder(folder)) as draft:
        write_model(model, draft)
        add_digests(draft)


def write_model(model: CrowdModel, draft: Path, **more: Any) -> None:
    """Write what every fitted model has into a folder: the header (and `more` in it), arrays and vocabularies."""
    arrays = {name: getattr(model, f"{name}_") for name in (*_array_names(model), *COUNTS)}
    declared = {each.name: each.dtype for each in model._saved_arrays()}
    arrays |= {name: np.asarray(arrays[name], declared[name]) for name in COUNTS}  # on the disk they are narrower
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


def stored_parameters(model: Estimator) -> tuple[dict[str, Any], dict[str, Any]]:
    """Plain values go to the header, arrays beside it; an object (another model) served the fit and is left out.

    So are parameters of a class of the user's own: what is saved is loaded as the method that it derives from.
    """
    plain: dict[str, Any] = {}
    beside = {}
    method = next(each for each in type(model).__mro__ if "slug" in vars(each))
    known: dict[str, Any] = method._parameters()  # type: ignore[attr-defined]
    for name, given in model.get_params(deep=False).items():
        if name not in known:
            continue
        value = given.item() if isinstance(given, np.generic) else given
        if isinstance(value, np.ndarray) and value.dtype.kind in STORABLE:
            beside[name] = value
            plain[name] = {"array": name}
        else:
            plain[name] = value if value is None or isinstance(value, str | int | float | bool) else None
    if plain.get("engine", "auto") is None:  # one with settings, such as a folder, which were of this fit alone
        plain["engine"] = "auto"
    set_parameters(method(), plain, beside)  # one that was changed after the fit may be what `load` refuses
    return plain, beside


def read_header(folder: str | Path) -> dict[str, Any]:
    """Read a saved model's slug and parameters, refusing what is not one."""
    path = Path(folder) / HEADER
    try:
        with open_regular_file(path) as file:
            text = file.read(LONGEST_HEADER + 1)
        header = _parse_header(text)
        schema = header["schema"]
    except FileNotFoundError as error:
        hint = " Did you mean the folder model in it?" if (Path(folder) / "model" / HEADER).is_file() else ""
        raise InputError(f"{quote(str(folder))} holds no saved model: there is no {HEADER} in it.{hint}") from error
    except NotADirectoryError as error:
        raise InputError(f"{quote(str(folder))} is no folder. Give the folder that the model was saved in.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{quote(str(path))} cannot be read as a saved model: {_explain(error)}. Save or copy it again."
        ) from error
    if schema != SCHEMA or type(schema) is not int:
        raise InputError(
            f"{quote(str(path))} has schema {quote(schema)}; this version reads {SCHEMA}. Install the version of "
            "crowdwise that wrote it, or fit again."
        )
    return header


def _parse_header(text: bytes) -> dict[str, Any]:
    if len(text) > LONGEST_HEADER:
        raise ValueError(f"it is longer than {LONGEST_HEADER:,} bytes")
    header: dict[str, Any] = json.loads(text.decode("utf-8"))
    if not isinstance(header, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 (of what is read)
    try:
        json.dumps(header, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError("it holds half a character, which is no text") from error
    lacking = [name for name in ("schema", "slug", "kind", "parameters") if name not in header]
    if lacking:
        raise ValueError(f"it has no {lacking[0]}")
    if not isinstance(header["parameters"], dict):
        raise ValueError("its parameters are no JSON object")  # noqa: TRY004
    if not all(value is None or isinstance(value, PLAIN) for value in header["parameters"].values()):
        raise ValueError("its parameters are not plain values")
    return header


@contextlib.contextmanager
def report_errors_as_damage(folder: str | Path) -> Iterator[None]:
    """Turn whatever a stranger's file can raise, memory included, into one error."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) and error.filename:
            fault = "is damaged" if isinstance(error, FileNotFoundError) else "cannot be read"
            what = f"{quote(Path(str(error.filename)).name)}: {error.strerror}"
            raise InputError(
                f"The saved model in {quote(str(folder))} {fault}: {what}. Save or copy it again."
            ) from error
        raise InputError(
            f"The saved model in {quote(str(folder))} is damaged: {_explain(error)}. Fit and save it again."
        ) from error


def _explain(error: BaseException) -> str:
    """What is wrong with a file, of a length that a message can hold."""
    if isinstance(error, InputError):
        return str(error).removesuffix(".")[:LONGEST_REASON]
    if isinstance(error, KeyError):
        return f"it has no {quote(error.args[0] if error.args else '')}"
    return (isinstance(error, OSError) and error.strerror) or quote(str(error))


def restore_model(model: CrowdModel, folder: str | Path, header: dict[str, Any]) -> None:
    """Give an unfitted model the parameters and fitted attributes of a saved one, once all of it has been checked.

    Sizes and types are checked before anything of their size is read, values before any of them is used.
    """
    folder = Path(folder)
    with report_errors_as_damage(folder):
        arrays, given = _read_arrays(type(model), folder / ARRAYS)
        sizes = (len(arrays["posterior"]), arrays["skill"].size, arrays["prior"].size)
        if sizes[2] < FEWEST_CLASSES:  # a fit refuses such labels, so that nothing need divide by K - 1 with care
            raise InputError(f"a model of {sizes[2]} classes")
        vocabularies = {
            name: as_vocabulary(read_names(folder / f"{name}.parquet", size), name)
            for name, size in zip(VOCABULARIES, sizes, strict=True)
        }
        check_count("n_iter", header["n_iter"], low=0)
        check_flag("converged", header["converged"])
        check_choice("kind", header["kind"], KINDS)
        set_parameters(model, header["parameters"], given)
        model._set_names(ModelNames(**vocabularies))
        for columns in COLUMN_SETS:
            prefix = f"{columns}/"
            found = {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}
            setattr(model, f"{columns}_", found)
        for name in arrays:
            if "/" not in name:
                setattr(model, f"{name}_", arrays[name])
        model.n_iter_, model.converged_ = header["n_iter"], header["converged"]
        # Tables of a library that is not here are Arrow's.
        model.kind_ = header["kind"] if importlib.util.find_spec(header["kind"]) else "pyarrow"
        model._is_loaded = True
        model._check_restored()


def _read_arrays(cls: type[CrowdModel], path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays of a model of this class, and those that are parameters of it."""
    with open_arrays(path) as stored:
        own = {name: found for name, found in stored.found.items() if not name.startswith(PARAMETER)}
        declared = {each.name: each for each in cls._saved_arrays()}
        sizes = match_shapes(declared.values(), own)
        arrays = {name: stored.read(name) for name in own}
        for name, values in arrays.items():
            check_values(declared[name], values, sizes)
        given = {name.removeprefix(PARAMETER): stored.read(name) for name in stored.found if name.startswith(PARAMETER)}
    return arrays, given


def set_parameters(model: Estimator, plain: dict[str, Any], beside: dict[str, Any]) -> None:
    """Set the parameters, and check them as a fit does; paths of whoever saved the model are left out."""
    arrays = {name for name, value in plain.items() if isinstance(value, dict)}
    if arrays != set(beside) or any(plain[name] != {"array": name} for name in arrays):
        raise InputError("the arrays that are parameters are not those that the header names")
    given = rename_parameters(plain | beside, type(model).__name__, warn=False)
    for name, words in model.path_parameters.items():
        if isinstance(given.get(name), str) and given[name] not in words:
            given[name] = None
    model.set_params(**given)
    model._check_parameters()


def _array_names(model: CrowdModel) -> list[str]:
    every = [name for name in Fit.__dataclass_fields__ if name not in (*COLUMN_SETS, *SCALARS)]
    return [name for name in every if hasattr(model, f"{name}_")]
