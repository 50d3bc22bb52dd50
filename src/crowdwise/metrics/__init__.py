"""Pure functions that judge: with the truth, without it, agreement of workers, calibration.

Arrays in, numbers or arrays out. The truth comes first and holds class positions, -1 for unknown; confusion
matrices are `[worker, truth, label]`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
