"""Which code runs a loop over labels; see `crowdwise.labels.choice`, where reading labels can use it too."""

from crowdwise.labels.choice import ENGINES, check_engine, choose_engine, use_engine

__all__ = ["ENGINES", "check_engine", "choose_engine", "use_engine"]
