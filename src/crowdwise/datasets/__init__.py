"""Named data sets, found on disk, with their published numbers."""

from crowdwise.datasets.load import Dataset, available, load, names

__all__ = ["Dataset", "available", "load", "names"]
