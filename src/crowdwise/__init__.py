"""Crowdwise: learning from crowds.

Many people, or models, label the same things and disagree. Crowdwise turns those labels into the consensus and
how sure it is, into a portrait of every worker and, where the things have features, into a classifier.

>>> import crowdwise as cw
>>> labels = cw.datasets.load("anaesthetists").labels
>>> model = cw.DawidSkene().fit(labels)
>>> model.prior_.round(2).tolist()
[0.4, 0.42, 0.11, 0.07]
"""

import importlib

import lazy_loader

from crowdwise.labels.fork_safety import register_fork_hooks

__version__ = "0.1.0"
register_fork_hooks()

# Public names are imported when first used, so that `import crowdwise` is light. What the rooms of the first line
# export in their stubs is public here as well; `__init__.pyi` says the same to type checkers.
_WHOLE = ("aggregate", "audit", "evaluate", "labels", "learn", "report")
_NAMES = {
    "engines": ["use_engine"],
    "fitting": ["Aggregator", "NotConverged"],
    "formats": ["Export", "read_export"],
    "kernels.threads": ["use_threads"],
    "registry": ["learner", "learners", "method", "methods"],
    "saved": ["load"],
}
_ROOMS = (*_WHOLE, "acquire", "campaign", "datasets", "fitting", "formats", "judges", "metrics", "simulate")

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    (*_ROOMS, "engines"),
    _NAMES | {room: importlib.import_module(f"crowdwise.{room}").__all__ for room in _WHOLE},
)
