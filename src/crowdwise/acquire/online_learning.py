"""The online model, which the methods' `partial_fit` share: see `fitting.online_model`."""

from crowdwise.fitting.online_model import OnlineModel

__all__ = ["OnlineModel"]
