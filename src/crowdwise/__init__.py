"""Crowdwise: learning from crowds.

Many people, or models, label the same things and disagree. Crowdwise turns those labels into the consensus and
how sure it is, and into a portrait of every worker.

>>> import crowdwise as cw
>>> labels = cw.datasets.load("anaesthetists").labels
>>> model = cw.DawidSkene().fit(labels)
>>> model.prior_.round(2).tolist()
[0.4, 0.42, 0.11, 0.07]
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crowdwise import datasets, metrics, simulate
    from crowdwise.aggregate.confusion_vector import ConfusionVector
    from crowdwise.aggregate.crh import Crh
    from crowdwise.aggregate.dawid_skene import DawidSkene
    from crowdwise.aggregate.glad import Glad
    from crowdwise.aggregate.lfc_binary import LfcBinary
    from crowdwise.aggregate.mace import Mace
    from crowdwise.aggregate.majority_vote import MajorityVote
    from crowdwise.aggregate.max_margin import MaxMarginMajorityVote
    from crowdwise.aggregate.minimax_entropy import MinimaxEntropy
    from crowdwise.aggregate.one_coin import OneCoin
    from crowdwise.aggregate.spammer_em import SpammerEm
    from crowdwise.aggregate.weighted_majority_vote import WeightedMajorityVote
    from crowdwise.aggregate.zencrowd import ZenCrowd
    from crowdwise.fitting.em import NotConverged
    from crowdwise.kernels.threads import use_threads
    from crowdwise.labels.errors import CrowdwiseError, InputError
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.read import read_labels
    from crowdwise.labels.truth import read_truth, truth_codes
    from crowdwise.registry import load, method, methods

__version__ = "0.1.0"

# Public names are imported when first used, so that `import crowdwise` is light.
_HOMES = {
    "CrowdLabels": "labels.model",
    "CrowdwiseError": "labels.errors",
    "InputError": "labels.errors",
    "NotConverged": "fitting.em",
    "load": "registry",
    "method": "registry",
    "methods": "registry",
    "read_labels": "labels.read",
    "read_truth": "labels.truth",
    "truth_codes": "labels.truth",
    "use_threads": "kernels.threads",
    "ConfusionVector": "aggregate.confusion_vector",
    "Crh": "aggregate.crh",
    "DawidSkene": "aggregate.dawid_skene",
    "Glad": "aggregate.glad",
    "LfcBinary": "aggregate.lfc_binary",
    "Mace": "aggregate.mace",
    "MajorityVote": "aggregate.majority_vote",
    "MaxMarginMajorityVote": "aggregate.max_margin",
    "MinimaxEntropy": "aggregate.minimax_entropy",
    "OneCoin": "aggregate.one_coin",
    "SpammerEm": "aggregate.spammer_em",
    "WeightedMajorityVote": "aggregate.weighted_majority_vote",
    "ZenCrowd": "aggregate.zencrowd",
}
_ROOMS = ("datasets", "metrics", "simulate")

__all__ = [
    "ConfusionVector",
    "Crh",
    "CrowdLabels",
    "CrowdwiseError",
    "DawidSkene",
    "Glad",
    "InputError",
    "LfcBinary",
    "Mace",
    "MajorityVote",
    "MaxMarginMajorityVote",
    "MinimaxEntropy",
    "NotConverged",
    "OneCoin",
    "SpammerEm",
    "WeightedMajorityVote",
    "ZenCrowd",
    "datasets",
    "load",
    "method",
    "methods",
    "metrics",
    "read_labels",
    "read_truth",
    "simulate",
    "truth_codes",
    "use_threads",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"crowdwise.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'crowdwise' has no attribute {name!r}")
    return getattr(importlib.import_module(f"crowdwise.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
