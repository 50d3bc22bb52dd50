"""Choosing and combining methods without a truth."""

from crowdwise.evaluate.compare import Comparison, compare
from crowdwise.evaluate.held_out import held_out_log_probability

__all__ = ["Comparison", "compare", "held_out_log_probability"]
