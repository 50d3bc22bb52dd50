"""Panels of language models as judges: can they be trusted, what would people say, what to check next."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
