"""Crowds with known parameters, as the papers simulate them.

A crowd is made in three steps that can be used apart: a population of workers (`workers`, functions that
return confusion matrices), an assignment (`assignment`, who labels what) and the labels drawn (`draws`).
`CROWDS` names the ready-made ones; every one returns a `Simulation`. Same seed, same bits.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
