"""The alternative annotator test against a plain reading of the paper, and against the paper's own numbers."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from crowdwise.judges import read_panel, run_alternative_annotator_test
from crowdwise.judges.alternative_annotator import reject_by_benjamini_yekutieli
from crowdwise.judges.vote_table import class_values
from crowdwise.labels.errors import InputError

# Score, ε, and ω and ρ of each judge to two places, as the authors' notebook prints them for these sets (- for none).
JUDGES = ("gemini_flash", "gemini_pro", "gpt-4o", "llama-31", "gpt-4o-mini", "mistral-v03")
PRINTED: dict[str, tuple[str, float, str, str]] = {
    "cebab_aspects": ("accuracy", 0.1, ".70 .90 .90 .60 .50 .10", ".91 .94 .93 .89 .90 .81"),
    "cebab_stars": ("rmse", 0.1, ".60 .80 .90 .60 .90 .50", ".82 .87 .90 .85 .89 .83"),
    "framing": ("accuracy", 0.15, "1.0 1.0 1.0 .50 1.0 .25", ".83 .91 .92 .80 .87 .80"),
    "prompts10k": ("rmse", 0.15, ".31 .08 .69 .15 .92 .15", ".67 .63 .76 .67 .80 .67"),
    "lesion": ("rmse", 0.15, ".17 1.0 .00 - .67", ".71 .81 .62 - .73"),
}


def score_by_hand(label: str, others: list[str], score: str) -> float:
    if score == "accuracy":
        return sum(label == other for other in others) / len(others)
    return -((sum((float(label) - float(other)) ** 2 for other in others) / len(others)) ** 0.5)


def compare_by_hand(votes: dict[str, str], people: dict[str, dict[str, str]], score: str) -> list[tuple[Any, Any]]:
    """Of each person with 30 tasks or more: where the judge scores at least as well, and where the person does."""
    on_task = defaultdict(list)
    for person, labels in people.items():
        for task in labels:
            on_task[task].append(person)
    compared = []
    for person, labels in people.items():
        wins, losses = [], []
        for task, label in labels.items():
            if task not in votes or len(on_task[task]) < 2:
                continue
            others = [people[other][task] for other in on_task[task] if other != person]
            mine, judged = score_by_hand(label, others, score), score_by_hand(votes[task], others, score)
            wins.append(float(judged >= mine))
            losses.append(float(mine >= judged))
        if len(wins) >= 30:
            compared.append((wins, losses))
    return compared


def decide_by_hand(compared: list[tuple[Any, Any]], epsilon: float) -> tuple[float, float, list[float]]:
    """ω, ρ and the p-values."""
    p_values = [
        stats.ttest_1samp(np.subtract(losses, wins), epsilon, alternative="less").pvalue for wins, losses in compared
    ]
    # Benjamini and Yekutieli: the largest k whose p is at most k q / (m Σ 1/i).
    m = len(p_values)
    bound = 0.05 / (m * sum(1 / i for i in range(1, m + 1)))
    rejected = max((k for k, p in enumerate(sorted(p_values), 1) if p <= k * bound), default=0)
    return rejected / m, float(np.mean([np.mean(wins) for wins, _ in compared])), p_values


@pytest.mark.data
@pytest.mark.parametrize("name", PRINTED)
def test_five_panels(name: str) -> None:
    score, printed_epsilon, *printed = PRINTED[name]
    rates, advantages = (dict(zip(JUDGES, each.split(), strict=False)) for each in printed)
    folder = Path(os.environ["CROWDWISE_DATA"]) / f"judges_{name}"
    panel = read_panel(folder / "judges.csv", folder / "humans.csv")
    assert panel.humans is not None
    tasks, classes, humans = panel.tasks, panel.classes, panel.humans
    people: dict[str, dict[str, str]] = defaultdict(dict)
    for task, worker, label in zip(humans.task, humans.worker, humans.label, strict=True):
        people[str(humans.workers[int(worker)])][tasks[task]] = classes[label]
    matrix, values = panel.to_matrix(), class_values(classes)
    for at, judge in enumerate(panel.judges):
        votes = {tasks[row]: classes[code] for row, code in enumerate(matrix[:, at]) if code >= 0}
        compared = compare_by_hand(votes, people, score)
        for epsilon in (0.0, 0.05, printed_epsilon, 0.2):
            found = run_alternative_annotator_test(matrix[:, at], humans, epsilon=epsilon, score=score, values=values)
            rate, advantage, p_values = decide_by_hand(compared, epsilon)
            assert found.winning_rate == pytest.approx(rate, abs=1e-9)
            assert found.advantage == pytest.approx(advantage, abs=1e-9)
            assert sorted(found.p_value) == pytest.approx(sorted(p_values), abs=1e-9)
            assert found.passes == (rate >= 0.5)
            if epsilon == printed_epsilon:
                assert found.winning_rate == pytest.approx(float(rates[judge]), abs=0.0051)
                assert found.advantage == pytest.approx(float(advantages[judge]), abs=0.0051)


def test_rejections() -> None:
    # Thresholds of four: k / 4 × .05 / 2.0833 = .006, .012, .018, .024; the third hypothesis carries the second.
    p_values = np.array([0.001, 0.5, 0.017, 0.015])
    assert reject_by_benjamini_yekutieli(p_values).tolist() == [True, False, True, True]
    assert not reject_by_benjamini_yekutieli(np.array([0.04, 0.9])).any()


def test_one_person_and_bad_parameters() -> None:
    votes = {"task": [1, 2], "judge": ["a", "a"], "vote": ["x", "y"]}
    panel = read_panel(votes, {"task": [1, 2], "worker": ["ann", "ann"], "label": ["x", "y"]})
    assert panel.humans is not None
    found = run_alternative_annotator_test(panel.to_matrix()[:, 0], panel.humans)
    assert np.isnan(found.winning_rate)
    assert not found.passes
    assert "One person alone" in found.skipped
    with pytest.raises(InputError, match="needs classes that are numbers"):
        run_alternative_annotator_test(panel.to_matrix()[:, 0], panel.humans, score="rmse")
    for name, wrong in (("epsilon", float("nan")), ("epsilon", "0.1"), ("fewest_tasks", np.zeros(2))):
        with pytest.raises(InputError, match=f"{name} is"):
            run_alternative_annotator_test(panel.to_matrix()[:, 0], panel.humans, **{name: wrong})
    with pytest.raises(InputError, match="humans is"):
        run_alternative_annotator_test(panel.to_matrix()[:, 0], votes)  # type: ignore[arg-type]
    for vote in ("x", [0], [0, 2], [0.5, 0]):
        with pytest.raises(InputError, match="vote must be"):
            run_alternative_annotator_test(vote, panel.humans)  # type: ignore[arg-type]
