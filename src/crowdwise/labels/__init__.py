"""The data model: labels of many workers on many tasks, read from and written to tables."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
