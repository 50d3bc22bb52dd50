"""Answers that are no classes: a room for each kind, with its reader, methods, metrics and simulator."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
