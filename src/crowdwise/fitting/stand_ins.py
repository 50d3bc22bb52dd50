"""Stand-ins for libraries that are not installed, under which classes can be read but nothing can be done.

Documentation tools do the same ("mock imports"): what a class says of itself is known without the libraries that its
methods need.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["stand_ins"]


class _AnythingType(type):
    """Of a class that stands for anything, every attribute is that class."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls


class _Anything(metaclass=_AnythingType):
    """Stands for whatever a missing library has: a base class, a decorator, a function, a number type."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take whatever is given."""

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self

    def __class_getitem__(cls, _: Any) -> Any:
        return cls

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


class _StandIn(ModuleType):
    """A module that has whatever is asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []  # a package: it may have submodules

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything


class _Finder:
    """Finds submodules of the stand-ins, which are stand-ins too."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        inside = name.partition(".")[0] in self.names
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if inside else None  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


@contextlib.contextmanager
def stand_ins(libraries: Sequence[str], package: str) -> Iterator[None]:
    """Within, those of the libraries that are missing seem to be there; what `package` imports then is forgotten."""
    missing = [name for name in libraries if name not in sys.modules and importlib.util.find_spec(name) is None]
    missing += [name for name in libraries if name in sys.modules and sys.modules[name] is None]
    if not missing:
        yield
        return
    room = importlib.import_module(package)
    before, attributes = dict(sys.modules), set(vars(room))
    finder: Any = _Finder(missing)
    sys.modules.update({name: _StandIn(name) for name in missing})
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in list(sys.modules):
            if name.partition(".")[0] in missing or (name.startswith(f"{package}.") and name not in before):
                del sys.modules[name]
        sys.modules.update({name: before[name] for name in missing if name in before})
        for name in set(vars(room)) - attributes:
            delattr(room, name)
