"""Lanes of work over threads, by the name that kernels know them by; labels are read with them too."""

from crowdwise.labels.thread_lanes import VARIABLE, map_lanes, n_threads, run_lanes, use_threads

__all__ = ["VARIABLE", "map_lanes", "n_threads", "run_lanes", "use_threads"]
