"""Saved learners: what every model saves, and the weights as safetensors. No pickle, ever."""

from __future__ import annotations

import math
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pyarrow.parquet as pq
import torch
from safetensors.torch import load
from torch import nn
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from crowdwise.fitting.parameter_checks import check_count
from crowdwise.fitting.parquet_files import read_numbers
from crowdwise.fitting.part_digests import add_digests
from crowdwise.fitting.saving import (
    ARRAYS,
    HEADER,
    report_errors_as_damage,
    restore_model,
    stored_parameters,
    write_model,
)
from crowdwise.labels.atomic_output import replace_folder
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.regular_files import as_folder, open_regular_file
from crowdwise.labels.table_output import native_table
from crowdwise.learn.batches import Crowd
from crowdwise.learn.features import HeldFeatures
from crowdwise.learn.networks import (
    NETWORKS,
    Classifier,
    build_network,
    default_network,
    find_sizes,
    representation_width,
)
from crowdwise.learn.tensor_files import save_tensors
from crowdwise.learn.torch_settings import find_device

if TYPE_CHECKING:
    from crowdwise.labels.types import TableKind
    from crowdwise.learn.base import Learner
    from crowdwise.learn.features import Features
    from crowdwise.learn.objective import Objective
    from crowdwise.learn.trained_model import TrainedModel

__all__ = [
    "check_network_given",
    "check_network_unchanged",
    "describe_network",
    "parameters_here",
    "restore_history",
    "restore_learner",
    "restore_network",
    "save",
    "write_training",
]

WEIGHTS, WORKERS, HISTORY = "network.safetensors", "objective.safetensors", "history.parquet"
LARGEST = 2**28  # numbers in the features of one task: a file that says more is not believed
LARGEST_RUN = 2**24  # of them, where a module of the user's must be run to find its sizes
LONGEST_TENSOR_LIST = 1 << 20  # bytes: names and shapes of the tensors in a file
SMALL = 1 << 25  # bytes of a tensor that may serve training alone
FACTORIES = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn)


def save(model: Learner, folder: str | Path) -> None:
    """Write a fitted learner; the folder appears whole or not at all."""
    network = describe_network(model) | {"n_classes": len(model.classes_)}
    fresh = _make_objective_as_loaded(model)
    own = fresh.state_dict()
    state = {
        name: value.to(own[name].dtype)
        for name, value in model.module_.state_dict().items()
        if name in own and own[name].shape == value.shape
    }
    check_network_unchanged(model)
    with replace_folder(as_folder(folder)) as draft:
        more = {"state": sorted(state), "best_epoch": model.best_epoch_, "n_epochs": model.n_epochs_}
        write_model(model, draft, room="learn", network=network, **more)
        _save_tensors(state, draft / WORKERS)
        write_training(model, draft)
        add_digests(draft)


def describe_network(model: TrainedModel) -> dict[str, Any]:
    """What the header of a saved model says of its network."""
    if isinstance(model.network, nn.Module):
        network: dict[str, Any] = {"custom": type(model.network).__name__}
    else:
        network = {"name": model.network or default_network(model.shape_)}
    return network | {"shape": list(model.shape_), "columns": list(model.columns_)}


def write_training(model: TrainedModel, draft: Path) -> None:
    """Write the weights of the network and the history of its training."""
    _save_tensors(model.network_.state_dict(), draft / WEIGHTS)
    pq.write_table(nw.from_native(model.history_, eager_only=True).to_arrow(), draft / HISTORY)


def restore_learner(kind: type[Learner], folder: str | Path, header: dict[str, Any], network: Any) -> Learner:
    """The learner that was saved, once all of it has been checked; `network` where it was trained with a user's own."""
    folder = Path(folder)
    check_network_given(folder, header, network)
    model = kind()
    restore_model(model, folder, header | {"parameters": parameters_here(folder, header)})
    with report_errors_as_damage(folder):
        if header["network"]["n_classes"] != len(model.classes_):
            raise InputError(f"{header['network']['n_classes']!r} classes in the network, {len(model.classes_)} names")
        restore_network(model, folder, header, network)
        with _RefuseLarge(sum((folder / name).stat().st_size for name in (WORKERS, ARRAYS))):
            objective = _fresh_objective(model, model.network_, len(model.workers_))
        state = _read_state(objective, folder / WORKERS)
        if sorted(state) != header["state"]:
            raise InputError(f"{WORKERS} holds {sorted(state)}, not {header['state']}")
        objective.load_state_dict(state, strict=False)  # what is sized by tasks or labels stays as it starts
        objective.check_restored()
        model.module_ = objective.eval()
        restore_history(model, folder, header, model.kind_)
    return model


def parameters_here(folder: Path, header: dict[str, Any]) -> dict[str, Any]:
    """Parameters of a saved model; a device that is not here becomes "auto"."""
    with report_errors_as_damage(folder):
        parameters = dict(header["parameters"])
        if parameters.get("device") in ("cuda", "mps") and find_device(parameters["device"]).type == "cpu":
            parameters["device"] = "auto"  # trained on a device that is not here
    return parameters


def restore_network(model: TrainedModel, folder: Path, header: dict[str, Any], network: Any) -> None:
    """The network with the saved weights, and what it takes."""
    model.network = model.network if network is None else network
    model.shape_ = _shape(header)
    model.columns_ = _columns(header, model.shape_)
    own = header["network"]["name"] if network is None else network
    model.network_ = _classifier(own, model.shape_, model._n_outputs, folder / WEIGHTS)


def restore_history(model: TrainedModel, folder: Path, header: dict[str, Any], table_kind: TableKind) -> None:
    """How the saved model was trained."""
    check_count("n_epochs", header["n_epochs"])
    check_count("best_epoch", header["best_epoch"], high=header["n_epochs"])
    model.best_epoch_, model.n_epochs_ = header["best_epoch"], header["n_epochs"]
    history = read_numbers(folder / HISTORY, model.n_epochs_)
    if "epoch" not in history.column_names:
        raise InputError(f"{HISTORY} is no table of epochs")
    columns = {name: history[name].combine_chunks() for name in history.column_names}
    model.history_ = native_table(columns, table_kind)


class _RefuseLarge(TorchFunctionMode):
    """Refuse to make a tensor of many more bytes than the files hold: a parameter may ask for any size."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if func in FACTORIES and args and named.get("device") != "meta":
            lengths = args[0] if isinstance(args[0], tuple | list) else [each for each in args if type(each) is int]
            if 4 * math.prod(lengths) > self.most + SMALL:
                raise InputError(
                    f"a parameter asks for a tensor of shape {tuple(lengths)}, which no file here can fill"
                )
        return func(*args, **named)


def check_network_unchanged(model: TrainedModel) -> None:
    """Refuse to save what could not be loaded: a model whose network was changed after it was fitted."""
    if isinstance(model.network, nn.Module):
        return
    with torch.device("meta"):
        made = NETWORKS[model.network or default_network(model.shape_)](model.shape_, model._n_outputs)
    if _shapes(made.state_dict()) != _shapes(model.network_.network.state_dict()):
        raise InputError("The parameter network was changed after it was fitted. Fit again before saving.")


def _shapes(tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    return {name: value.shape for name, value in tensors.items()}


def check_network_given(folder: Path, header: dict[str, Any], network: Any) -> None:
    """Whether the user must give a network, and has."""
    stored = header.get("network")
    custom = stored.get("custom") if isinstance(stored, dict) else None
    if custom is not None and network is None:
        raise InputError(
            f"The model in {quote(str(folder))} was trained with a network of your own, {quote(custom)}, whose code "
            "is not saved. Give one like it: crowdwise.load(folder, network=module)."
        )
    if custom is None and network is not None:
        raise InputError(
            f"The model in {quote(str(folder))} was trained with one of our networks, and needs no network=."
        )
    if network is not None and not isinstance(network, nn.Module):
        raise InputError(f"network is a {type(network).__name__}; it must be a torch module.")


def _shape(header: dict[str, Any]) -> tuple[int, ...]:
    shape = tuple(header["network"]["shape"])
    if not shape or not all(type(length) is int and length > 0 for length in shape) or math.prod(shape) > LARGEST:
        raise InputError(f"features of shape {shape}")
    return shape


def _columns(header: dict[str, Any], shape: tuple[int, ...]) -> tuple[str, ...]:
    columns = tuple(header["network"].get("columns", ()))
    if not all(isinstance(name, str) for name in columns) or len(columns) not in (0, shape[0]):
        raise InputError(f"{len(columns)} names of features of shape {shape}")
    return columns


def _classifier(network: Any, shape: tuple[int, ...], n_classes: int, path: Path) -> Classifier:
    """The classifier with the saved weights; for a named network, nothing is allocated that the file does not hold."""
    if isinstance(network, nn.Module):
        classifier = build_network(network, _make_zero_features(shape), n_classes).eval()
        sized = find_sizes(classifier, shape)
        if sized is None and math.prod(shape) > LARGEST_RUN:
            raise InputError(f"features of shape {shape}, too large to find the sizes of this network by running it")
        if sized is None and any(is_lazy(each) for each in (*classifier.parameters(), *classifier.buffers())):
            representation_width(classifier, _make_zero_features(shape))  # they learn their size from what they meet
        # Lazy layers take their sizes from the file, once those are the ones that they would learn.
        saved = _read_state(classifier if sized is None else sized.classifier, path)
    else:
        # The scaling has one number for each feature of a row, or for each channel of an image.
        form = shape if len(shape) == 1 else (shape[0], *(1 for _ in shape[1:]))
        with torch.device("meta"):
            classifier = Classifier(NETWORKS[network](shape, n_classes), torch.zeros(form), torch.ones(form))
        saved = _read_state(classifier, path)
    # A buffer of a user's own module may hold infinity, as a mask does.
    own = classifier.named_parameters() if isinstance(network, nn.Module) else classifier.state_dict().items()
    infinite = [name for name, _ in own if name in saved and saved[name].isinf().any()]
    if infinite:
        raise InputError(f"{path.name} holds {quote(infinite[0])} with values that are infinite")
    classifier.load_state_dict(saved, assign=True)
    if classifier.deviation is not None and not (classifier.deviation > 0).all():
        raise InputError(f"{path.name} holds deviations of the features that are not above 0")
    return classifier.eval()


def _fresh_objective(model: Learner, classifier: Classifier, n_workers: int) -> Objective:
    """An objective that has learnt nothing, for as many workers and classes."""
    n_classes = len(model.classes_)
    worker = np.arange(n_workers)
    labels = CrowdLabels.from_codes(
        worker % 2, worker, worker % n_classes, tasks=2, workers=n_workers, classes=n_classes
    )
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an aggregator may find two tasks too few
        return model._restored_objective(Crowd(labels), classifier, _make_zero_features(model.shape_)).to(
            "cpu", torch.float32
        )


def _read_state(module: nn.Module, path: Path) -> dict[str, torch.Tensor]:
    """Tensors of a file, each of which must be one of the module's state; a longer file is not read."""
    own = module.state_dict()
    with open_regular_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        listed = int.from_bytes(file.read(8), "little")
        if listed > LONGEST_TENSOR_LIST or size > 8 + listed + sum(each.nbytes for each in own.values()):
            raise InputError(f"{path.name} is longer than the tensors that belong there")
        file.seek(0)
        saved = load(file.read())
    for key, value in saved.items():
        if key not in own or (own[key].shape, own[key].dtype) != (value.shape, value.dtype):
            raise InputError(
                f"{path.name} holds {quote(key)} of shape {tuple(value.shape)}, which does not belong there"
            )
        if value.isnan().any() or value.isposinf().any():  # the logarithm of 0 may be there
            raise InputError(f"{path.name} holds {quote(key)} with values that are no numbers, or infinite")
    return saved


def _make_objective_as_loaded(model: Learner) -> Objective:
    """The objective as it will be made when the model is loaded: without parameters that cannot be saved."""
    plain, beside = stored_parameters(model)
    copy = type(model)(**plain | beside)
    copy.network, copy.shape_ = model.network, model.shape_
    copy._set_names(model._names)
    try:
        return _fresh_objective(copy, model.network_, len(model.workers_))
    except Exception as error:
        kept = {name for name, value in (plain | beside).items() if value is not None}
        lost = [name for name, value in model.get_params(deep=False).items() if value is not None and name not in kept]
        hint = f" A file cannot hold the object that its parameter {', '.join(lost)} is." if lost else ""
        raise InputError(f"This {type(model).__name__} cannot be saved: {quote(str(error))}.{hint}") from error


def _make_zero_features(shape: tuple[int, ...]) -> Features:
    return HeldFeatures(torch.zeros(1).expand(2, *shape))


def _save_tensors(tensors: dict[str, torch.Tensor], path: Path) -> None:
    save_tensors(tensors, path)
    path.chmod((path.parent / HEADER).stat().st_mode & 0o777)  # it is made readable for its owner alone
