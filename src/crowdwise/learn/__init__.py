"""Features and labels in, classifier out: one method, one file; worker models, losses and the one training loop."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
