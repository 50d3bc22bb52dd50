"""Scores of many different values as grades: rounded to the multiples of a round step.

Judges that score from 0 to 100 hardly ever agree to the point, so that points are no classes. The step is the least of
1, 2 and 5 times a power of ten for which the scores between their 1st and 99th percentile make at most `MOST_GRADES`
grades; scores beyond are taken for the grade at that end. Rounding to the nearest grade moves a mean by little: it is
as often up as down where scores are spread over a step.
"""

from __future__ import annotations

from dataclasses import replace
from math import floor, log10
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from crowdwise.judges.recognise_vote_columns import VoteColumns
    from crowdwise.labels.types import FloatArray

__all__ = ["choose_step", "round_scores"]

MOST_GRADES = 11  # as from 0 to 100 by tens
TAIL = 1.0  # percent of the scores at either end that do not widen the steps


def round_scores(read: VoteColumns, people: VoteColumns | None) -> tuple[VoteColumns, VoteColumns | None, str]:
    """The same votes and labels of people with scores rounded to grades, and a sentence that says so."""
    columns = [read, *([] if people is None else [people])]
    scores = [np.array([float(cell) if cell is not None else np.nan for cell in each.vote.to_pylist()])
              for each in columns]  # fmt: skip
    known = np.concatenate(scores)
    known = known[np.isfinite(known)]
    low, high = (float(end) for end in np.percentile(known, [TAIL, 100 - TAIL]))
    step = choose_step(low, high)
    ends = np.round(low / step), np.round(high / step)
    rounded = [np.clip(np.round(each / step), *ends) for each in scores]
    made = [replace(each, vote=_name_grades(grades, step)) for each, grades in zip(columns, rounded, strict=True)]
    beyond = int(((known < (ends[0] - 0.5) * step) | (known > (ends[1] + 0.5) * step)).sum())
    far = (
        f"; {beyond:,} beyond {ends[0] * step:g} to {ends[1] * step:g} count as the nearest of these" if beyond else ""
    )
    said = (
        f"The votes are scores of {np.unique(known).size:,} different values. They are rounded to multiples of {step:g}"
        f"{far}: judges agree where these do, and mean grades are those of rounded scores."
    )
    return made[0], made[1] if people is not None else None, said


def choose_step(low: float, high: float) -> float:
    """The least round step for which the multiples from `low` to `high` are few.

    >>> choose_step(0, 100), choose_step(0.1, 0.9), choose_step(3, 17)
    (10.0, 0.1, 2.0)
    """
    power = floor(log10(max((high - low) / MOST_GRADES, 1e-300)))
    steps = [float(f"{digit}e{exponent}") for exponent in (power, power + 1) for digit in (1, 2, 5)]
    return next(step for step in steps if round(high / step) - round(low / step) < MOST_GRADES)


def _name_grades(grades: FloatArray, step: float) -> pa.Array:
    names: list[Any] = [f"{grade * step:.12g}" if np.isfinite(grade) else None for grade in (grades + 0.0).tolist()]
    return pa.array(names, pa.string())
