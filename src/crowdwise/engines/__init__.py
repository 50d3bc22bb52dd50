"""Where a pass over the labels runs: one protocol, and a module NAME_engine.py for each engine.

An engine owns how labels are laid out and the order of axes inside; here and above, a confusion array is
[worker, truth, label].
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from crowdwise.engines.protocol import Engine, Prepared, Statistics
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.engine_choice import check_engine_name, choose_pass_engine, use_engine
from crowdwise.labels.read import read_labels

if TYPE_CHECKING:
    from crowdwise.engines.dask_engine import Dask
    from crowdwise.engines.stream_engine import Stream

__all__ = [
    "Dask",
    "Engine",
    "Prepared",
    "Statistics",
    "Stream",
    "load_engine",
    "prepare",
    "read_on_engine",
    "use_engine",
]

# Layouts live as long as their labels, beside them: labels are saved, copied and pickled without.
_layouts: WeakKeyDictionary[CrowdLabels, dict[tuple[Any, int | None], Any]] = WeakKeyDictionary()
_OBJECTS = {"Stream": "stream_engine", "Dask": "dask_engine"}  # engines with settings of their own, imported when used


_READERS = ("stream", "dask")


def __getattr__(name: str) -> Any:
    if name not in _OBJECTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"crowdwise.engines.{_OBJECTS[name]}"), name)


def load_engine(name: str) -> Engine:
    """The engine of this name; its libraries are imported now and not before."""
    engine: Engine = import_module(f"crowdwise.engines.{name}_engine").ENGINE
    return engine


def prepare(labels: CrowdLabels, n_states: int | None = None) -> Prepared:
    """Labels ready for passes, on the engine that was asked for or that their size suggests.

    Labels are laid out once, however many fits ask.

    Parameters
    ----------
    n_states
        States of a task's truth, where there are more than classes.
    """
    if not labels.in_memory:
        passes: Prepared = labels.passes  # type: ignore[attr-defined]  # of the engine that stored them
        return passes
    name = choose_pass_engine(labels.n_labels, n_states or labels.n_classes)
    engine: Engine = load_engine(name) if isinstance(name, str) else name
    layouts = _layouts.setdefault(labels, {})
    if (name, n_states) not in layouts:
        layouts[name, n_states] = engine.lay_out(labels, n_states)
    return engine.make_passes(layouts[name, n_states])


def read_on_engine(source: Any, engine: Any) -> CrowdLabels:
    """Labels as the engine asked for reads them: into memory, or by those that keep them on the disk, there."""
    if isinstance(engine, str):
        engine = load_engine(engine) if engine in _READERS else None
    elif engine is not None:
        check_engine_name(engine)
    if engine is None or not hasattr(engine, "read") or isinstance(source, CrowdLabels):
        return read_labels(source)
    found: CrowdLabels = engine.read(source)
    return found
