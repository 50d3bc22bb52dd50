"""Which workers err together: pair statistics, tests, groups, families, and how many votes a crowd is worth."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
