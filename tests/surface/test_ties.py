"""The documented rule for ties: the class more common in all labels, then the class that comes first."""

from __future__ import annotations

import crowdwise as cw


def test_the_more_common_class_wins_then_the_first() -> None:
    labels = {"task": [1, 1, 2, 3, 3, 4, 4], "worker": [1, 2, 1, 3, 4, 5, 6], "label": list("xyyyxab")}
    model = cw.MajorityVote().fit(labels)
    assert model.predict().tolist() == ["y", "y", "y", "a"]
    assert model.consensus()["label"].to_pylist() == ["y", "y", "y", "a"]


def test_ties_are_drawn_only_when_a_seed_says_so() -> None:
    labels = {"task": [1, 1, 2, 2, 2], "worker": [1, 2, 1, 2, 3], "label": list("xyyyx")}
    drawn = {cw.MajorityVote(random_state=seed).fit(labels).predict()[0] for seed in range(20)}
    assert drawn == {"x", "y"}
    assert {cw.MajorityVote(random_state=seed).fit(labels).predict()[1] for seed in range(20)} == {"y"}
