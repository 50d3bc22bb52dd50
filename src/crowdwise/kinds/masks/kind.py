"""Masks, as the command and the documentation know them."""

from __future__ import annotations

from crowdwise.kinds.kind_registry import Kind

__all__ = ["KIND"]

KIND = Kind(
    name="masks",
    words="outlines of regions in images: PNG files, polygons or run lengths",
    columns=(("task", "worker", "mask"), ("task", "worker", "polygon"), ("task", "worker", "rle")),
    roles=("task", "worker", "mask"),
    default="signed-distance",
    reader="crowdwise.kinds.masks.answers:read_masks",
    scorer="crowdwise.kinds.masks.metrics:score_masks",
    simulator="crowdwise.kinds.masks.simulation:simulate_masks",
    shown=(
        ("task", "file", "area", "confidence", "n_answers"),
        ("worker", "n_answers", "sensitivity", "specificity", "dice", "bias"),
    ),
)
