"""Texts, as the command and the documentation know them."""

from __future__ import annotations

from crowdwise.kinds.kind_registry import Kind

__all__ = ["KIND"]

KIND = Kind(
    name="texts",
    words="texts: translations, transcriptions, summaries, or anything with a distance",
    columns=(("task", "worker", "text"),),
    roles=("task", "worker", "text"),
    default="auto",
    reader="crowdwise.kinds.texts.answers:read_texts",
    scorer="crowdwise.kinds.texts.metrics:score_texts",
    simulator="crowdwise.kinds.texts.simulation:simulate_texts",
    shown=(
        ("task", "text", "confidence", "n_answers"),
        ("worker", "n_answers", "nearness", "nearness_low", "nearness_high"),
    ),
)
