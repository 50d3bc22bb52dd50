"""A live campaign: a server on which people and models answer, and a manager watches the consensus come about."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
