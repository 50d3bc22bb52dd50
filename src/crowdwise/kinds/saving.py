"""Models of answers that are no classes, as folders: the same header, arrays and names as other models."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crowdwise.fitting.array_files import open_arrays
from crowdwise.fitting.parameter_checks import check_choice, check_count, check_flag
from crowdwise.fitting.parquet_files import read_names
from crowdwise.fitting.part_digests import add_digests
from crowdwise.fitting.saved_arrays import check_values, match_shapes
from crowdwise.fitting.saving import (
    ARRAYS,
    HEADER,
    KINDS,
    PARAMETER,
    SCHEMA,
    report_errors_as_damage,
    set_parameters,
    stored_parameters,
)
from crowdwise.labels.atomic_output import replace_folder
from crowdwise.labels.errors import InputError
from crowdwise.labels.regular_files import as_folder
from crowdwise.labels.vocabulary import as_vocabulary

if TYPE_CHECKING:
    from crowdwise.kinds.model import KindModel

__all__ = ["ROOM", "restore_kind_model", "save_kind_model", "write_kind_model"]

ROOM = "kinds"


def save_kind_model(model: KindModel[Any], folder: str | Path) -> None:
    """Write a fitted model; the folder appears whole or not at all."""
    with replace_folder(as_folder(folder)) as draft:
        write_kind_model(model, draft)
        add_digests(draft)


def write_kind_model(model: KindModel[Any], draft: Path, **more: Any) -> None:
    """Write what every fitted model of a kind has into a folder: the header (and `more` in it), arrays and names."""
    plain, beside = stored_parameters(model)
    header = {
        "schema": SCHEMA,
        "room": ROOM,
        "kind_of_answers": model.kind,
        "slug": model.slug,
        "kind": model.table_kind_,
        "parameters": plain,
        "n_iter": model.n_iter_,
        "converged": model.converged_,
        **more,
    }
    declared = model._saved_arrays()
    arrays = {
        each.name: getattr(model, f"{each.name}_").astype(each.dtype)
        for each in declared
        if not each.together or hasattr(model, f"{each.name}_")
    }
    (draft / HEADER).write_text(json.dumps(header, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    np.savez(draft / ARRAYS, **arrays, **{f"{PARAMETER}{name}": values for name, values in beside.items()})
    for name in model.vocabularies:
        pq.write_table(pa.table({"name": model._names[name]}), draft / f"{name}.parquet")


def restore_kind_model(model: KindModel[Any], folder: str | Path, header: dict[str, Any]) -> None:
    """Give an unfitted model the parameters and arrays of a saved one, once all of it has been checked."""
    folder = Path(folder)
    with report_errors_as_damage(folder):
        declared = {each.name: each for each in model._saved_arrays()}
        with open_arrays(folder / ARRAYS) as stored:
            own = {name: found for name, found in stored.found.items() if not name.startswith(PARAMETER)}
            sizes = match_shapes(declared.values(), own)
            arrays = {name: stored.read(name) for name in own}
            given = {
                name.removeprefix(PARAMETER): stored.read(name) for name in stored.found if name.startswith(PARAMETER)
            }
        for name, values in arrays.items():
            check_values(declared[name], values, sizes)
        if "answers_per_worker" in arrays and not arrays["answers_per_worker"].any():
            raise InputError("no worker has an answer")
        check_count("n_iter", header["n_iter"], low=0)
        check_flag("converged", header["converged"])
        check_choice("kind", header["kind"], KINDS)
        set_parameters(model, header["parameters"], given)
        model._names = {
            name: as_vocabulary(read_names(folder / f"{name}.parquet", sizes[size]), name)
            for name, size in model.vocabularies.items()
        }
        for name, values in arrays.items():
            setattr(model, f"{name}_", values)
        model.n_iter_, model.converged_ = header["n_iter"], header["converged"]
        # Tables of a library that is not here are Arrow's.
        model.table_kind_ = header["kind"] if importlib.util.find_spec(header["kind"]) else "pyarrow"
        model._check_restored()
