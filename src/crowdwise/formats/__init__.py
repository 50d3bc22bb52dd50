"""Exports of labelling tools: one file for each, with a `FORMAT` that says how it is recognised, read and written.

`read_labels` and every command ask every format in turn; adding one is adding a file here, and its test.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
