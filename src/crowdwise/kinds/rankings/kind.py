"""Rankings, as the command and the documentation know them."""

from __future__ import annotations

from crowdwise.kinds.kind_registry import Kind

__all__ = ["KIND"]

KIND = Kind(
    name="rankings",
    words="some items in order, from the best to the worst",
    columns=(("worker", "item", "rank"),),
    roles=("worker", "item", "task", "rank"),
    default="plackett-luce",
    reader="crowdwise.kinds.rankings.answers:read_rankings",
    scorer="crowdwise.kinds.item_scores:score_items",
    simulator="crowdwise.kinds.rankings.simulation:simulate_rankings",
    shown=(
        ("item", "score", "low", "high", "rank", "group"),
        ("worker", "n_answers", "reliability", "reliability_low", "reliability_high"),
    ),
)
