"""What is no argument of a metric at all: an `InputError` that names it, and no foreign exception."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from crowdwise import metrics
from crowdwise.labels import CrowdLabels, InputError

if TYPE_CHECKING:
    from collections.abc import Callable

LABELS = CrowdLabels.from_codes([0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 1, 0], tasks=2, workers=2, classes=2)
Q = np.full((2, 2), 0.5)
CONFUSION = np.full((2, 2, 2), 0.5)
RAGGED = [[1, 2], [1]]
STRANGE: list[Any] = [5, "x", None, {}, object(), RAGGED, [RAGGED], ["x"], [[None, 1], ["a", 2]], b"x", 1j, [1j, 2]]

CALLS: dict[str, Callable[[Any], Any]] = {
    "observed_agreement": metrics.observed_agreement,
    "fleiss_kappa": metrics.fleiss_kappa,
    "krippendorff_alpha": metrics.krippendorff_alpha,
    "level": lambda given: metrics.krippendorff_alpha(LABELS, level=given),
    "cohen_kappa": lambda given: metrics.cohen_kappa(given, [0, 1]),
    "skill_correlation": lambda given: metrics.skill_correlation(given, [0.1, 0.2]),
    "method": lambda given: metrics.skill_correlation([0.1, 0.2], [0.1, 0.2], method=given),
    "q": lambda given: metrics.held_out_log_likelihood(given, CONFUSION, LABELS),
    "confusion": lambda given: metrics.held_out_log_likelihood(Q, given, LABELS),
    "held_out": lambda given: metrics.held_out_log_likelihood(Q, CONFUSION, given),
    "floor": lambda given: metrics.held_out_log_likelihood(Q, CONFUSION, LABELS, floor=given),
    "truth": lambda given: metrics.span_scores(given, ["O", "O"]),
    "accuracy": lambda given: metrics.accuracy([0, 10**400], [0, 1]),
}


@pytest.mark.parametrize("given", STRANGE, ids=lambda given: type(given).__name__)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_strange_argument_is_refused(call: Callable[[Any], Any], given: Any) -> None:
    with pytest.raises(InputError):
        call(given)


@pytest.mark.parametrize(
    "given", [given for given in STRANGE if given is not None], ids=lambda given: type(given).__name__
)
def test_strange_weights_and_values_are_refused(given: Any) -> None:
    with pytest.raises(InputError):
        metrics.cohen_kappa([0, 1], [1, 1], weights=given)
    with pytest.raises(InputError):
        metrics.krippendorff_alpha(LABELS, level="interval", values=given)


def test_labels_are_no_tags_and_floor_is_one_number() -> None:
    with pytest.raises(InputError, match="truth must hold tags"):
        metrics.span_scores(LABELS, ["O", "O"])
    for floor in ((0.1, 0.2), np.array([0.1, 0.2])):
        with pytest.raises(InputError, match="floor is"):
            metrics.held_out_log_likelihood(Q, CONFUSION, LABELS, floor=floor)
    with pytest.raises(InputError, match="held_out are 'list'"):
        metrics.held_out_log_likelihood(Q, CONFUSION, [1, 2])


def test_positions_in_sixteen_bits() -> None:
    assert metrics.accuracy(np.array([0, 1], np.float16), np.array([0, 1], np.float16)) == 1


@pytest.mark.parametrize("given", [RAGGED, [1, None], [None, None]], ids=str)
def test_sequences_that_have_no_names(given: Any) -> None:
    with pytest.raises(InputError, match="sequences"):
        metrics.span_scores(["O", "O"], ["O", "O"], sequences=given)
