"""Saved models, of labels alone or with a classifier: one way to read them."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from crowdwise.labels.errors import InputError, UnknownNameError, quote

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["load"]

ROOMS = (None, "learn", "kinds", "online")  # that models are saved by; aggregators name none


def load(folder: str | Path, *, network: Any = None) -> Any:
    """Read a model that `save` wrote. Safe with a stranger's file: nothing in it is run.

    All of it is compared with what the method says that it saves, sizes before anything is read. Paths among the
    parameters (`checkpoint`, a file of sequences or of a graph) are not loaded: they are None.

    Parameters
    ----------
    folder
        Where the model was saved.
    network
        For a learner that was trained with a torch module of yours: one like it, whose weights do not matter.
    """
    from crowdwise.fitting.part_digests import read_while_unchanged
    from crowdwise.labels.regular_files import as_folder

    folder = as_folder(folder)
    return read_while_unchanged(folder, lambda: _read_model(folder, network))


def _read_model(folder: str | Path, network: Any) -> Any:
    """The model in the folder, where its parts belong together."""
    from crowdwise.fitting.part_digests import check_digests
    from crowdwise.fitting.saving import read_header

    header = read_header(folder)
    model = _restore(folder, header, network)
    check_digests(folder, header, _list_parts(model, header))  # last: what was read was there when the check began
    return model


def _list_parts(model: Any, header: dict[str, Any]) -> set[str]:
    """The files beside the header that are read of such a model."""
    from crowdwise.fitting.saving import ARRAYS, VOCABULARIES

    names = {ARRAYS, *(f"{name}.parquet" for name in getattr(model, "vocabularies", VOCABULARIES))}
    if header.get("room") == "learn":
        from crowdwise.learn.saving import HISTORY, WEIGHTS, WORKERS

        names |= {WEIGHTS, HISTORY} if hasattr(model, "vocabularies") else {WEIGHTS, HISTORY, WORKERS}
    return names


def _restore_kind(folder: str | Path, header: dict[str, Any]) -> Any:
    from crowdwise.kinds.kind_registry import kind
    from crowdwise.kinds.saving import restore_kind_model

    with _refuse_unknown_method(folder, header.get("kind_of_answers", ""), "kind of answers"):
        answers = kind(header.get("kind_of_answers", ""))
    with _refuse_unknown_method(folder, header["slug"]):
        found = answers.method(str(header["slug"]))
    model: Any = found.load()()
    restore_kind_model(model, folder, header)
    return model


def _restore(folder: str | Path, header: dict[str, Any], network: Any) -> Any:
    from crowdwise.fitting.saving import restore_model
    from crowdwise.registry import learner, method

    if header.get("room") not in ROOMS:
        raise InputError(
            f"The saved model in {quote(str(folder))} is damaged: its room is {quote(header['room'])}. Fit and save it "
            "again."
        )
    if header.get("room") != "learn":
        if network is not None:
            what = "answers" if header.get("room") == "kinds" else "labels"
            raise InputError(f"network= is for models that learn a classifier; this one is of {what} alone.")
        if header.get("room") == "kinds":
            return _restore_kind(folder, header)
        if header.get("room") == "online":
            raise InputError(
                f"{quote(str(folder))} holds a model of a stream of labels. Read it with "
                "crowdwise.acquire.OnlineModel.load."
            )
        with _refuse_unknown_method(folder, header["slug"]):
            found = method(header["slug"])
        model: Any = found.load()()
        restore_model(model, folder, header)
        return model
    with warnings.catch_warnings(), _refuse_unknown_method(folder, header["slug"]):
        warnings.simplefilter("ignore", DeprecationWarning)  # a model keeps the name that its learner had
        entry = learner(header["slug"])  # says how to install torch, where it is not
    from crowdwise.learn.answer_saving import restore_answer_learner
    from crowdwise.learn.saving import restore_learner
    from crowdwise.learn.torch_settings import use_default_torch_settings

    restore = restore_learner if entry.kind == "labels" else restore_answer_learner
    with use_default_torch_settings():
        return restore(entry.load(), folder, header, network)


@contextmanager
def _refuse_unknown_method(folder: str | Path, name: Any, noun: str = "method") -> Iterator[None]:
    """Say which method, or kind of answers, it is that this version does not know."""
    try:
        yield
    except UnknownNameError as error:
        raise InputError(
            f"The saved model in {quote(str(folder))} is of {quote(name)}, which is no {noun} of this "
            "version. Install the version of crowdwise that wrote it, or fit again."
        ) from error
