"""Preferences as programs that train language models read them: a line of JSON for each pair.

| field | what |
|---|---|
| prompt | what both texts answer, if the comparisons have it |
| chosen, rejected | the text that is better by all answers and the workers who gave them, and the other |
| weight | 1 - 2 × flip_rate: 1 for a sure pair, 0 for a toss-up |
| flip_rate | probability that the rejected one is better: ε of robust DPO (Chowdhury et al. 2024) |
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.kinds.comparisons.model import ComparisonModel

__all__ = ["preference_lines"]

DIGITS = 6


def preference_lines(model: ComparisonModel) -> Iterator[str]:
    """A line of JSON for each pair that was compared; texts are texts, also where all are numbers."""
    table: Any = model.preferences()
    if hasattr(table, "to_dicts"):  # polars
        rows = table.to_dicts()
    else:
        rows = table.to_dict("records") if hasattr(table, "to_dict") else table.to_pylist()
    for row in rows:
        texts = {name: str(row[name]) for name in ("prompt", "chosen", "rejected") if name in row}
        numbers = {name: round(float(row[name]), DIGITS) for name in ("weight", "flip_rate")}
        yield json.dumps(texts | numbers, ensure_ascii=False) + "\n"
