"""Similarity, as the command and the documentation know it."""

from __future__ import annotations

from crowdwise.kinds.kind_registry import Kind

__all__ = ["KIND"]

KIND = Kind(
    name="similarity",
    words="whether two items are the same",
    columns=(
        ("worker", "left", "right", "same"),
        ("worker", "item_1", "item_2", "same"),
        ("worker", "item_a", "item_b", "same"),
        ("worker", "task_1", "task_2", "same"),
        ("worker", "left", "right", "is_same"),
        ("worker", "left", "right", "match"),
        ("worker", "item_1", "item_2", "match"),
    ),
    roles=("worker", "left", "right", "same"),
    default="belief-propagation",
    reader="crowdwise.kinds.similarity.answers:read_similarities",
    scorer="crowdwise.kinds.similarity.metrics:score_clusters",
    simulator="crowdwise.kinds.similarity.simulation:simulate_similarities",
    shown=(
        ("task", "cluster", "confidence", "n_answers", "group"),
        ("worker", "n_answers", "sensitivity", "sensitivity_low", "sensitivity_high", "specificity",
         "specificity_low", "specificity_high"),
    ),
)  # fmt: skip
