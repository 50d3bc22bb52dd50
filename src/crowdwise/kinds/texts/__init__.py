"""Texts: answers that are sentences, or anything else with a distance."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
