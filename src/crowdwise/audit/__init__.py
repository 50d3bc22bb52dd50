"""Worker models to verdicts: who guesses, who copies, which classes and tasks are in doubt, and how sure that is."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
