"""Comparisons, as the command and the documentation know them."""

from __future__ import annotations

from crowdwise.kinds.kind_registry import Kind

__all__ = ["KIND"]

KIND = Kind(
    name="comparisons",
    words="which of two items is better",
    columns=(
        ("worker", "left", "right", "label"),
        ("worker", "left", "right", "outcome"),
        ("worker", "left", "right", "winner"),
        ("model_a", "model_b", "winner"),
        ("response_a", "response_b", "label"),
        ("worker", "winner", "loser"),
        ("worker", "chosen", "rejected"),
    ),
    roles=("worker", "left", "right", "outcome"),
    default="auto",
    reader="crowdwise.kinds.comparisons.answers:read_comparisons",
    scorer="crowdwise.kinds.item_scores:score_items",
    simulator="crowdwise.kinds.comparisons.simulation:simulate_comparisons",
    shown=(
        ("item", "score", "low", "high", "rank", "group"),
        ("worker", "n_answers", "reliability", "reliability_low", "reliability_high", "position_bias"),
    ),
)
