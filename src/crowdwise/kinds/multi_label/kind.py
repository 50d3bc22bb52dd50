"""Sets of labels, as the command and the documentation know them."""

from __future__ import annotations

from crowdwise.kinds.kind_registry import Kind

__all__ = ["KIND"]

KIND = Kind(
    name="multi-label",
    words="sets of classes: tags, topics, findings",
    columns=(("task", "worker", "labels"),),
    roles=("task", "worker", "labels"),
    default="label-mixture",
    reader="crowdwise.kinds.multi_label.answers:read_label_sets",
    scorer="crowdwise.kinds.multi_label.metrics:score_sets",
    simulator="crowdwise.kinds.multi_label.simulation:simulate_label_sets",
    shown=(
        ("task", "labels", "confidence", "n_answers"),
        ("worker", "n_answers", "sensitivity", "specificity"),
    ),
)
