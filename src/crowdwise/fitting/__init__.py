"""The EM driver, convergence, intervals, saving, and the base of every aggregator."""

from crowdwise.fitting.base import Aggregator, Fit
from crowdwise.fitting.em import Climb, NotConverged, climb

__all__ = ["Aggregator", "Climb", "Fit", "NotConverged", "climb"]
