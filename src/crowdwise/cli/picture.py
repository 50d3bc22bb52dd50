"""The demo's picture: how its workers take one digit for another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdwise.report.matrices import drawn_matrices

if TYPE_CHECKING:
    from crowdwise.cli.digits import Digits

__all__ = ["drawn_digits"]


def drawn_digits(digits: Digits) -> str:
    """How the demo's workers err, in truth and as recovered, as SVG text."""
    words = (
        f"{digits.n_images:,} images, one label each, {digits.labels_right:.0%} of the labels right. The classifier "
        f"gets {digits.accuracy['trace']:.0%} of new images right; trained on these as they are, "
        f"{digits.accuracy['hard-labels']:.0%}."
    )
    return drawn_matrices(
        digits.true,
        digits.found,
        range(10),
        "How five workers take one digit for another",
        words,
        recovered_from="from labels and images",
        shown="digit shown",
    )
