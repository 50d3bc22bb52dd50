"""Which code runs a loop over labels; see `crowdwise.labels.engine_choice`, where reading labels can use it too."""

from crowdwise.labels.engine_choice import ENGINES, check_engine_name, choose_engine, use_engine

__all__ = ["ENGINES", "check_engine_name", "choose_engine", "use_engine"]
