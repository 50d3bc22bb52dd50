"""Crowdwise: learning from crowds.

Many people, or models, label the same things and disagree. Crowdwise turns those labels into the consensus
and how sure it is, and into a portrait of every worker.

>>> import crowdwise as cw
>>> labels = cw.load_dataset("anaesthetists").labels
>>> model = cw.DawidSkene().fit(labels)
>>> model.prior_.round(2).tolist()
[0.4, 0.42, 0.11, 0.07]
"""

from __future__ import annotations

__version__ = "0.1.0"
