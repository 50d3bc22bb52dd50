"""The data model: labels of many workers on many tasks, read from and written to tables."""

from crowdwise.labels.errors import CrowdwiseError, InputError, InputWarning
from crowdwise.labels.model import CrowdLabels
from crowdwise.labels.read import read_labels

__all__ = ["CrowdLabels", "CrowdwiseError", "InputError", "InputWarning", "read_labels"]
