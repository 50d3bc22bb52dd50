"""Where a pass over the labels runs: one protocol, and a module NAME_engine.py for each engine.

An engine owns how labels are laid out and the order of axes inside; here and above, a confusion array is
[worker, truth, label].
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from crowdwise.engines.protocol import Engine, Prepared, Statistics
from crowdwise.labels.engine_choice import choose_pass_engine, use_engine

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels

__all__ = ["Engine", "Prepared", "Statistics", "load_engine", "prepare", "use_engine"]

# Layouts live as long as their labels, beside them: labels are saved, copied and pickled without.
_layouts: WeakKeyDictionary[CrowdLabels, dict[tuple[str, int | None], Any]] = WeakKeyDictionary()


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
    name = choose_pass_engine(labels.n_labels, n_states or labels.n_classes)
    engine = load_engine(name)
    layouts = _layouts.setdefault(labels, {})
    if (name, n_states) not in layouts:
        layouts[name, n_states] = engine.lay_out(labels, n_states)
    return engine.make_passes(layouts[name, n_states])
