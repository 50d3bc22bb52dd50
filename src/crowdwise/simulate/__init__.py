"""Crowds with known parameters, as the papers simulate them.

A crowd is made in three steps that can be used apart: a population of workers (`workers`, functions that
return confusion matrices), an assignment (`assignment`, who labels what) and the labels drawn (`draws`).
`CROWDS` names the ready-made ones; every one returns a `Simulation`. Same seed, same bits.
"""

from crowdwise.simulate.crowds import CROWDS, simulate
from crowdwise.simulate.dawid_skene import simulate_crowd
from crowdwise.simulate.features import simulate_features
from crowdwise.simulate.known import simulate_workers
from crowdwise.simulate.simulation import Simulation

__all__ = ["CROWDS", "Simulation", "simulate", "simulate_crowd", "simulate_features", "simulate_workers"]
