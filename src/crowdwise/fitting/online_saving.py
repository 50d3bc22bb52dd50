"""Saving an online model: its settings, its names, the labels as they came, and what the stream has made of them.

Tables and class shares follow from the counts, the order of a task's labels from the labels: neither is saved.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crowdwise.fitting.array_files import open_arrays
from crowdwise.fitting.online_model import OnlineModel
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.fitting.parquet_files import read_names
from crowdwise.fitting.part_digests import add_digests, check_digests, read_while_unchanged
from crowdwise.fitting.saved_arrays import MOST_LABELS, ROUNDING, SavedArray, check_values, match_shapes
from crowdwise.fitting.saving import ARRAYS, HEADER, SCHEMA, VOCABULARIES, read_header, report_errors_as_damage
from crowdwise.labels.atomic_output import replace_folder
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.regular_files import as_folder
from crowdwise.labels.vocabulary import as_vocabulary

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["load_online_model", "save_online_model"]

ROOM = "online"  # in the header: what kind of model this is
SAVED = (
    SavedArray("posterior", "N K", low=0, high=1 + ROUNDING),
    SavedArray("score", "N K", high=0),
    SavedArray("gold", "N", low=-1, codes="K", integer=True),
    SavedArray("counts", "M K K", low=0, high=MOST_LABELS),
    SavedArray("weight", "M", low=0, high=1 + ROUNDING),
    SavedArray("class_counts", "K", low=-ROUNDING, high=MOST_LABELS),
    SavedArray("edge_task", "S", low=0, codes="N", integer=True),
    SavedArray("edge_worker", "S", low=0, codes="M", integer=True),
    SavedArray("edge_label", "S", low=0, codes="K", integer=True),
)


def save_online_model(model: OnlineModel, folder: str | Path) -> None:
    """Write the model; the folder appears whole or not at all."""
    with model.lock:
        _write(model, as_folder(folder))


def _write(model: OnlineModel, folder: Path) -> None:
    sizes = {"N": len(model.tasks), "M": len(model.workers), "S": model.n_labels}
    arrays = {
        each.name: getattr(model._arrays, each.name)[: sizes.get(each.shape[0], len(model.classes))] for each in SAVED
    }
    header = {"schema": SCHEMA, "slug": model.family, "kind": "pyarrow", "room": ROOM, "parameters": model.settings}
    following = model.next_refit if np.isfinite(model.next_refit) else None
    header |= {"next_refit": following}
    with replace_folder(folder) as draft:
        (draft / HEADER).write_text(json.dumps(header, indent=2) + "\n", encoding="utf-8")
        np.savez(draft / ARRAYS, **arrays)
        for name in VOCABULARIES:
            names = getattr(model, name).every
            whole = all(type(each) is int for each in names)
            column = pa.array(names, pa.int64()) if whole else pa.array([str(each) for each in names], pa.string())
            pq.write_table(pa.table({"name": column}), draft / f"{name}.parquet", use_dictionary=False)
        add_digests(draft)


def load_online_model(folder: str | Path) -> OnlineModel:
    """Read a saved model, all of it checked before it is used."""
    folder = as_folder(folder)
    return read_while_unchanged(folder, lambda: _read(folder))


def _read(folder: Path) -> OnlineModel:
    header = read_header(folder)
    if header.get("room") != ROOM:
        raise InputError(f"{quote(str(folder))} holds another kind of model. Read it with crowdwise.load.")
    with report_errors_as_damage(folder):
        with open_arrays(folder / ARRAYS) as stored:
            sizes = match_shapes(SAVED, stored.found)
            arrays = {each.name: stored.read(each.name) for each in SAVED}
        for each in SAVED:
            check_values(each, arrays[each.name], sizes)
        _check_posterior(arrays)
        lengths = (len(arrays["gold"]), len(arrays["weight"]), len(arrays["class_counts"]))
        tasks, workers, classes = (
            as_vocabulary(read_names(folder / f"{name}.parquet", size), name).to_pylist() if size else []
            for name, size in zip(VOCABULARIES, lengths, strict=True)
        )
        parameters: dict[str, Any] = header["parameters"]
        model = OnlineModel(classes, **parameters)
        model.restore(tasks, workers, arrays)
        following = header["next_refit"]
        if following is not None:
            check_number("next_refit", following, low=0)
        model.next_refit = np.inf if following is None else float(following)
    check_digests(folder, header, {ARRAYS, *(f"{name}.parquet" for name in VOCABULARIES)})
    return model


def _check_posterior(arrays: dict[str, Any]) -> None:
    """Refuse rows that are no probabilities; those of tasks without labels or gold have not been made yet."""
    told = arrays["gold"] >= 0
    told[arrays["edge_task"]] = True
    if not np.allclose(arrays["posterior"][told].sum(axis=1), 1, atol=ROUNDING):
        raise InputError("posterior does not sum to 1 along its last axis")
