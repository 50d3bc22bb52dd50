"""Spans, as the command and the documentation know them."""

from __future__ import annotations

from crowdwise.kinds.kind_registry import Kind

__all__ = ["KIND"]

KIND = Kind(
    name="spans",
    words="stretches of a text, with a label each: names, symptoms, quotations",
    columns=(("task", "worker", "start", "end"),),
    roles=("task", "worker", "label"),
    default="bsc",
    reader="crowdwise.kinds.spans.answers:read_spans",
    scorer="crowdwise.kinds.spans.metrics:score_spans",
    simulator="crowdwise.kinds.spans.simulation:simulate_spans",
    shown=(
        ("task", "span", "start", "end", "label", "confidence"),
        ("worker", "n_answers", "precision", "recall", "skill", "skill_low", "skill_high"),
    ),
    labelled=True,
)
