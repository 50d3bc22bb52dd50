"""What a consensus says of itself: an expected number only where there is one, and always what it rests on."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import crowdwise as cw
from crowdwise.audit.audit import audit_crowd
from crowdwise.audit.consensus_scores import ConsensusScore, score_consensus
from crowdwise.audit.consensus_sentences import (
    confidence_claims,
    consensus_claims,
    describe_measured_accuracy,
    skill_sentences,
)
from crowdwise.labels.truth import read_truth
from crowdwise.metrics import expected_calibration_error
from crowdwise.report.page import make_report
from crowdwise.simulate import simulate

if TYPE_CHECKING:
    from crowdwise.audit.audit import Audit

TESTED = re.compile(r"\bbits?\b|Holm|\bp = |p-value|κ|[Bb]ootstrap")
BASIS = "How often held-out labels were predicted."


class Estimating(cw.DawidSkene):
    """A method that knows how many of its answers are wrong, and how well its confidence holds."""

    def expected_wrong(self, level: float = 0.9) -> SimpleNamespace:
        assert level == 0.9
        return SimpleNamespace(count=23.4, low=11.6, high=40.2, basis=BASIS)

    def calibration(self, n_bins: int = 15, *, level: float = 0.95) -> pa.Table:
        assert (n_bins, level) == (10, 0.9)
        bins = {"bin_low": [0.8], "bin_high": [0.9], "confidence": [0.9], "share_right": [0.8]}
        return pa.table(bins | {"low": [0.6], "high": [0.9], "n": [30]})


@pytest.fixture(scope="module")
def estimating(audited: Any) -> Audit:
    found, truth = audited(model=Estimating())
    return replace(found, gold=read_truth(dict(list(truth.items())[:30])))


def text_of(page: str) -> str:
    """What a reader sees before any fold is opened."""
    page = re.sub(r"<(script|style|noscript).*?</\1>", "", page, flags=re.DOTALL)
    page = re.sub(r'<details class="why">.*?</details>', "", page, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def test_expected_wrong_answers_come_with_their_interval_and_what_they_rest_on(estimating: Audit) -> None:
    alone = confidence_claims(estimating.model)
    assert len(alone) == 2
    assert alone[1].text == "About 23 of its 300 answers are wrong (90% interval 11 to 41)."
    claims = consensus_claims(estimating, None)
    assert "unchecked" not in claims[0].text
    assert claims[1].text.startswith("About 23 of its 270 answers that are not gold are wrong (90% interval 11")
    assert claims[1].basis == BASIS
    assert claims[2].text == (
        "On 30 gold answers, each judged as if it were not known, it is right 80.0% of the time, where its confidence "
        "says 90.0%."
    )
    page = text_of(make_report(estimating))
    assert f"{claims[1].text} {BASIS}" in page
    assert "answers probably wrong (90% interval) 11 to 41" in page


def test_no_number_of_wrong_answers_where_the_method_has_none(audited: Any) -> None:
    audit, _ = audited()
    (claim,) = confidence_claims(audit.model)
    sure = int((audit.model.posterior_.max(axis=1) >= 0.9).sum())
    assert f"at least 90% sure of {sure} of 300 tasks" in claim.text
    assert claim.text.endswith("This confidence is the method's own (dawid-skene), and unchecked.")
    assert claim.basis == "the labels alone"
    page = text_of(make_report(audit))
    assert not re.search(r"answers (are|is|probably) wrong", page)


def test_every_sentence_of_the_summary_says_what_it_rests_on(audited: Any) -> None:
    audit, truth = audited()
    gold = read_truth({task: truth[task] for task in list(truth)[:50]})
    known = replace(audit, truth=read_truth(truth), gold=gold, model=cw.DawidSkene().fit(audit.labels, gold=gold))
    summary = known.summary()
    assert [claim.basis for claim in summary] == [
        "a count of the labels",
        "the labels and 50 gold answers",
        "the labels and the other gold answers",
        "the truth given",
        "the labels and 50 gold answers",
        "the labels and the truth given",
        "the labels and the truth given",
        "the labels and 50 gold answers",
    ]
    assert "Measured on 250 tasks" in summary[3].text  # what was learnt from is not scored
    page = text_of(make_report(known))
    assert page.count("Rests on:") >= len(summary)
    assert "from the labels and 50 gold answers. Scored against 250 known truths" in page


def test_measured_accuracy_stands_beside_the_claim(audited: Any) -> None:
    audit, truth = audited()
    score = score_consensus(audit, truth)
    assert score is not None
    chosen = audit.model.predict()
    share = np.mean([chosen[at] == truth[task] for at, task in enumerate(audit.labels.tasks.to_pylist())])
    text = describe_measured_accuracy(score).text
    assert f"{round(300 * share)} answers are right, {share:.1%} (90% interval" in text
    codes = [audit.labels.classes.to_pylist().index(truth[task]) for task in audit.labels.tasks.to_pylist()]
    error = expected_calibration_error(codes, audit.model.posterior_)
    assert score.calibration_error == pytest.approx(error)
    assert f"off by {error:.1%}" in text
    assert len(consensus_claims(audit, score)) == 2
    only_gold = replace(audit, truth=read_truth(truth), gold=read_truth(truth))
    assert score_consensus(only_gold) is None


@pytest.mark.parametrize(
    ("sure", "n_right", "told"),
    [
        (0.9, 91, "as often as that, within chance"),
        (0.9, 70, "less often than that"),
        (0.6, 95, "more often than that"),
    ],
)
def test_a_measure_says_more_or_less_only_beyond_chance(sure: float, n_right: int, told: str) -> None:
    score = ConsensusScore(np.full(100, sure), np.arange(100) < n_right)
    text = describe_measured_accuracy(score).text
    assert f"{n_right} answers are right, {n_right}.0% (90% interval" in text
    assert f"where its confidence says {sure:.1%}: right {told}. Confidence is off by" in text
    assert score.calibration_error == pytest.approx(abs(sure - n_right / 100))


def test_calibration_by_gold_is_drawn_and_told(estimating: Audit) -> None:
    page = make_report(estimating)
    assert 'data-chart="gold-calibration"' in page
    assert "Calibration by gold answers, each judged as if it were not known" in page
    assert 'data-chart="calibration"' not in page
    text = text_of(page)
    assert "Mean confidence Right 90% interval Tasks 90.0% 80.0% 60 to 90% 30 " in text


def test_skill_is_the_models_own() -> None:
    crowd = simulate("spammers", n_tasks=300, n_workers=10, n_classes=4, share=0.2, random_state=0)
    found = audit_crowd(crowd.labels)
    row = found.model.workers().to_pylist()[9]
    skill, low, high = (f"{row[name]:.0%}" for name in ("skill", "skill_low", "skill_high"))
    wanted = f"Skill by the consensus: {skill} (90% interval {low} to {high}; guessing has 25%)."
    assert skill_sentences(found, [9])[9] == wanted
    assert wanted in text_of(make_report(found))
    assert skill_sentences(found, ["nobody"]) == {}


def test_nothing_before_the_fold_needs_statistics() -> None:
    crowd = simulate("colluders", n_tasks=400, n_workers=20, n_classes=3, share=0.3, random_state=0)
    labels = crowd.labels
    found = audit_crowd(
        labels,
        method="dawid-skene",
        truth={task: int(label + 1) % 3 for task, label in enumerate(crowd.truth[:100])},
        task_attributes={task: "long" if task % 2 else "short" for task in range(400)},
        worker_attributes={worker: "team" if worker < 14 else "crowd" for worker in range(20)},
        time=np.arange(labels.n_labels),
    )
    assert len({finding.kind for finding in found.findings}) >= 3
    assert not TESTED.search(text_of(make_report(found)))
    for finding in found.findings:
        assert not TESTED.search(finding.verdict)
        assert not TESTED.search(finding.advice)
    whole = make_report(found)
    assert all(part in whole for part in ('<details class="why">', "Why, and how sure", "Chance of such evidence"))
