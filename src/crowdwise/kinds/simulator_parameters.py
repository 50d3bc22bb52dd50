"""Parameters of simulators of all kinds: what their annotations say of them, and the checks by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from crowdwise.fitting.parameter_checks import as_numbers, check_count, check_number
from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Range", "Share", "Shares", "SignedRange", "check_numbers"]

# None is below 0 but a signed one.
Share: TypeAlias = float  # at most 1
Range: TypeAlias = tuple[float, float]  # the smallest and the largest
Shares: TypeAlias = Range  # both at most 1
SignedRange: TypeAlias = tuple[float, float]
ENDS = {"Range": "float", "Shares": "Share", "SignedRange": "signed", "tuple[int, int]": "int"}
LARGEST_PARAMETER = 1e6  # beyond it, odds and exponentials are no numbers


def check_numbers(given: Mapping[str, Any], annotations: Mapping[str, str]) -> dict[str, Any]:
    """Parameters of a simulator as Python's own numbers, refusing those that are not what their annotations say."""
    return {name: _check_number(name, value, annotations.get(name, "")) for name, value in given.items()}


def _check_number(name: str, value: Any, said: str) -> Any:
    if said in ENDS:
        ends = as_numbers(value, name)
        if ends.shape != (2,) or not ends[0] <= ends[1]:
            raise InputError(f"{name} is {quote(value)}; it must be two numbers, the smallest and the largest.")
        return tuple(_check_number(name, end, ENDS[said]) for end in value)
    if said == "int":
        check_count(name, value)
        return int(value)
    if said in ("float", "signed", "Share"):
        low = -LARGEST_PARAMETER if said == "signed" else 0
        check_number(name, value, low=low, high=1 if said == "Share" else LARGEST_PARAMETER)
        return float(value)
    return value
