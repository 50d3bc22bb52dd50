"""Names of parameters that are going away: still taken, with a warning that names the line of the user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.dependence.effective_size import effective_size
from crowdwise.simulate import simulate_crowd, simulate_workers

if TYPE_CHECKING:
    from collections.abc import Callable

LABELS = simulate_crowd(n_tasks=60, n_workers=8, n_classes=2, random_state=0).labels
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "simulate_crowd": lambda **given: simulate_crowd(20, 6, 2, **given).labels.label,
    "simulate_workers": lambda **given: simulate_workers(np.stack([np.eye(2)] * 6), 20, **given).labels.label,
    "split": lambda **given: LABELS.split(**given)[0].label,
    "compare": lambda **given: [row.held_out for row in cw.compare(LABELS, ["one-coin", "mace"], **given).standings],
    "held_out_log_probability": lambda **given: cw.held_out_log_probability(cw.OneCoin(), LABELS, **given),
    "effective_size": lambda **given: effective_size(LABELS, **given).size,
    "audit_crowd": lambda **given: cw.audit_crowd(LABELS, method="one-coin", **given).model.posterior_,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_seed_is_taken_for_random_state(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"seed of {name} is now called random_state") as said:
        old = FUNCTIONS[name](seed=3)
    assert said[0].filename == __file__
    np.testing.assert_array_equal(old, FUNCTIONS[name](random_state=3))


def test_both_names_are_refused() -> None:
    with pytest.raises(TypeError, match="got both random_state and seed"):
        cw.simulate.simulate("one-coin", seed=1, random_state=1)
