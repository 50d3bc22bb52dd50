"""What the page says is what the labels say; what it draws has names as data alone; files are whole or not there."""

from __future__ import annotations

import json
import math
import re
from copy import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.audit.audit import FINE, Audit, count_confusion
from crowdwise.audit.consensus_scores import score_consensus
from crowdwise.audit.finding_types import Finding, Screen
from crowdwise.audit.summary import list_citations
from crowdwise.dependence.effective_size import effective_size
from crowdwise.evaluate.compare_methods import Comparison, MethodStanding
from crowdwise.labels.errors import InputError
from crowdwise.labels.unseen_characters import LETTER
from crowdwise.metrics.calibration import reliability_table
from crowdwise.report.audit_page import tables
from crowdwise.report.audit_page.audit_view import (
    MOST_DRAWN,
    MOST_FLAGGED,
    AuditView,
    choose_workers_to_draw,
    worker_confusion,
)
from crowdwise.report.audit_page.charts import write_charts
from crowdwise.report.display_names import display_name, distinct_names
from crowdwise.report.page import escaped_json, make_report, write_report

if TYPE_CHECKING:
    from pathlib import Path

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def portrait(audited: Any) -> AuditView:
    return AuditView(audited()[0])


# ---- numbers ----------------------------------------------------------------------------------------------


def test_a_report_is_of_an_audit(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give what audit_crowd found"):
        write_report(cw.CrowdLabels.from_dense([["x", "y"]]), tmp_path / "page.html")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_matrices_counted_from_the_posterior_where_the_model_has_none(portrait: AuditView) -> None:
    labels, posterior = portrait.labels, portrait.model.posterior_
    bare = SimpleNamespace(posterior_=posterior)
    wanted = np.zeros((labels.n_classes, labels.n_classes))
    of_seven = np.zeros_like(wanted)
    for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
        wanted[:, label] += posterior[task]
        of_seven[:, label] += posterior[task] * (worker == 7)
    np.testing.assert_allclose(
        count_confusion(posterior, labels.task, labels.label), wanted / wanted.sum(axis=1, keepdims=True)
    )
    np.testing.assert_allclose(worker_confusion(bare, labels, 7), of_seven / of_seven.sum(axis=1, keepdims=True))


def test_the_crowds_matrix_is_the_workers_mean_by_labels(portrait: AuditView) -> None:
    weights = portrait.labels.labels_per_worker / portrait.labels.n_labels
    wanted = sum(weight * matrix for weight, matrix in zip(weights, portrait.model.confusion_, strict=True))
    np.testing.assert_allclose(portrait.mean_confusion, wanted)


def test_consensus_is_the_models_own(portrait: AuditView) -> None:
    table = portrait.model.consensus()
    np.testing.assert_allclose(portrait.confidence, table["confidence"].to_numpy())
    names = [portrait.classes[at] for at in portrait.chosen]
    assert names == table["label"].to_pylist()


def test_disputes_are_the_tasks_whose_votes_differ_most(portrait: AuditView) -> None:
    disputes = portrait.disputes(10)
    table = portrait.model.consensus()
    shares = portrait.labels.vote_counts() / portrait.labels.labels_per_task[:, None]
    differing = [-sum(share * np.log(share) for share in row if share > 0) for row in shares.tolist()]
    order = sorted(range(len(differing)), key=lambda at: (-round(differing[at], 9), table["confidence"][at].as_py()))
    order = order[:10]
    assert [each.task for each in disputes] == [table["task"][at].as_py() for at in order]
    votes = portrait.labels.vote_counts()[order]
    for dispute, counts in zip(disputes, votes, strict=True):
        assert {name: n for n, name in dispute.votes} == {
            portrait.classes[k]: n for k, n in enumerate(counts.tolist()) if n
        }
        assert dispute.n_labels == counts.sum()


def test_groups_are_told_with_what_was_seen_and_what_skill_explains(portrait: AuditView) -> None:
    labels = portrait.labels
    said = np.full((labels.n_workers, labels.n_tasks), -1)
    said[labels.worker, labels.task] = labels.label
    found = tables.group_rows(portrait)
    assert [(number, size, more) for number, _, more, size, _, _ in found] == [(2, 5, 0), (1, 3, 0)]
    assert set(found[0][1]) == {f"worker-{at:04}" for at in range(3, 8)}
    pairs = [(a, b) for a in range(3, 8) for b in range(3, 8) if a != b]
    both = [(said[a] >= 0) & (said[b] >= 0) for a, b in pairs]
    same = [(said[a] == said[b]) & met for (a, b), met in zip(pairs, both, strict=True)]
    assert found[0][4] == pytest.approx(np.sum(same) / np.sum(both))
    assert 1 / 3 < found[0][5] < 1
    unasked = Audit(labels, portrait.model, (), portrait.audit.group, 0.05)
    assert all(math.isnan(row[4]) for row in tables.group_rows(AuditView(unasked)))


def test_the_map_keeps_everyone_flagged_and_some_of_the_others() -> None:
    flagged = np.full(10_000, -1.0)
    flagged[::10] = 0.5
    counts = np.ones(10_000, np.int64)
    counts[5] = 0
    chosen = choose_workers_to_draw(flagged, counts)
    assert chosen.size == MOST_DRAWN
    assert set(np.flatnonzero(flagged >= 0)) <= set(chosen)
    assert 5 not in chosen
    np.testing.assert_array_equal(chosen, choose_workers_to_draw(flagged, counts))
    everyone = choose_workers_to_draw(np.linspace(0, 1, 10_000), np.ones(10_000, np.int64))
    assert everyone.tolist() == list(range(10_000 - MOST_FLAGGED, 10_000))


def test_examples_are_flagged_worst_and_best(portrait: AuditView) -> None:
    examples = portrait.choose_example_workers()
    reasons = [why for why, _ in examples]
    assert reasons[:3] == ["flagged: dependent workers", "flagged: spammer", "flagged: dependent workers"]
    best = [who for why, who in examples if why == "among the most skilled"]
    assert int(np.argmax(portrait.skill)) in best
    assert len({who for _, who in examples}) == len(examples)


def test_bins_of_confidence_are_those_of_the_truth(portrait: AuditView, audited: Any) -> None:
    _, truth = audited()
    codes = [int(truth[task].split()[1]) for task in portrait.labels.tasks.to_pylist()]
    score = score_consensus(portrait.audit, truth)
    assert score is not None
    table = reliability_table(codes, portrait.model.posterior_, n_bins=10)
    filled = table.n_tasks > 0
    for name, wanted in (("confidence", table.confidence), ("right", table.accuracy), ("n", table.n_tasks)):
        np.testing.assert_allclose([getattr(each, name) for each in score.bins], wanted[filled])
    assert all(each.low <= each.right <= each.high for each in score.bins)


def test_flagged_scores_and_verdicts_agree(portrait: AuditView) -> None:
    assert [score >= 0 for score in portrait.flagged] == [verdict != FINE for verdict in portrait.verdicts]


# ---- words ------------------------------------------------------------------------------------------------


def test_summary_counts_what_was_found(portrait: AuditView) -> None:
    text = " ".join(claim.text for claim in portrait.audit.summary())
    assert "40 workers gave 1,500 labels on 300 tasks, 5 a task, choosing between 3 classes." in text
    assert "20 of 40 workers are flagged: 12 spammers, 8 dependent workers. False alarms are rare" in text
    assert "at least 95 of 100 such audits would flag no worker at all." in text
    assert "Besides the workers: 1 probably wrong label, 1 bias of a group." in text
    sure = int((portrait.confidence >= 0.9).sum())
    assert f"at least 90% sure of {sure} of 300 tasks" in text


def test_findings_are_sentences_with_those_they_are_about(portrait: AuditView) -> None:
    def found(about: str, names: tuple[Any, ...], verdict: str) -> dict[str, Any]:
        finding = Finding("spammer", about, names, 0.5, verdict, "So it is.", 0.01, "how", "Do it.")
        audit = Audit(portrait.labels, portrait.model, (Screen("spammer", (finding,)),), np.full(40, -1), 0.05)
        (kind,) = tables.finding_groups(audit)
        assert kind["title"] == "Spammers"
        told: dict[str, Any] = kind["told"][0]
        return told

    said = found("worker", ("ann",), "labels carry nothing")
    assert (said["who"], said["names"], said["alone"]) == ("Worker", ["ann"], False)
    assert said["verdict"] == "labels carry nothing."
    whole = found("task", ("t1",), "Task 't1' is hard.")
    assert (whole["names"], whole["alone"], whole["verdict"]) == ([], True, "Task 't1' is hard.")
    several = found("class", ("cat", "dog"), "The crowd takes one for the other.")
    assert (several["who"], several["names"], several["alone"]) == ("Classes", ["cat", "dog"], True)
    assert found("class", ("cat", "dog"), "The crowd takes 'cat' for 'dog'.")["names"] == []


def test_tests_are_told_with_what_they_ask(portrait: AuditView) -> None:
    asked = {title: (asks, result) for title, asks, result in tables.test_rows(portrait.audit)}
    assert asked["Spammers"] == ("Whose labels carry no information, or say the opposite?", "12 findings")
    assert asked["Drift"][1] == "Not tested: The labels have no order in time."
    assert "at least 95 of 100 such audits would flag no worker at all" in make_report(portrait.audit)


def test_what_the_crowd_is_worth_is_told(portrait: AuditView) -> None:
    worth = effective_size(portrait.labels)
    assert f"What the crowd is worth: {worth.summary}" in make_report(replace(portrait.audit, effective=worth))


def test_a_crowd_of_one_volume_is_told_as_such(portrait: AuditView) -> None:
    assert tables.worker_map_note(portrait).startswith("Skill against the number of labels.")
    labels = cw.simulate.simulate("one-coin", n_tasks=50, n_workers=4, n_classes=2, labels_per_task=4).labels
    whole = AuditView(Audit(labels, cw.DawidSkene().fit(labels), (), np.full(4, -1), 0.05))
    assert tables.worker_map_note(whole).startswith("Workers by skill; each gave 50 labels.")


def test_nothing_to_find_is_said_so(portrait: AuditView) -> None:
    calm = Audit(portrait.labels, portrait.model, (Screen("spammer"),), np.full(40, -1), 0.05)
    page = make_report(calm)
    assert "No worker is flagged" in page
    assert "Nothing was found." in page
    assert "No group of workers was found" in page
    assert "--truth" in page


def test_doubts_are_told() -> None:
    parts = cw.CrowdLabels.from_arrays(
        task=["a", "a", "b", "b"], worker=["u", "v", "x", "y"], label=["yes", "no", "yes", "no"]
    )
    model = cw.DawidSkene(max_iter=1)
    with pytest.warns(cw.NotConverged):
        model.fit(parts)
    told = Audit(parts, model, (), np.full(4, -1), 0.05).checks()
    assert [fine for fine, _ in told] == [False, False, told[2][0], False]
    assert "fall into 2 parts" in told[1][1]
    assert "Only 0% of the tasks have three labels" in told[0][1]
    assert "still changing after 1 iteration" in told[3][1]


def test_swapped_classes_are_told(portrait: AuditView) -> None:
    swapped = copy(portrait.model)
    swapped.confusion_ = portrait.model.confusion_[:, ::-1]
    audit = Audit(portrait.labels, swapped, (), np.full(40, -1), 0.05)
    fine, told = audit.checks()[2]
    assert not fine
    assert "classes may have been swapped" in told


def test_citations_name_method_and_tests(portrait: AuditView) -> None:
    cited = dict(list_citations(portrait.audit))
    assert cited["This software"] == f"Crowdwise, version {cw.__version__}."
    assert cited["The consensus, by dawid-skene"].startswith("Dawid & Skene 1979")
    assert "The test for dependent workers" in cited


# ---- pages of odd crowds ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "charts_drawn"),
    [
        ({"model": cw.MajorityVote()}, {"confidence", "workers", "agreement"}),
        ({"n_classes": 30}, {"confidence", "workers", "agreement", "confusion"}),
        ({"n_classes": 100, "n_tasks": 600}, {"confidence", "workers", "agreement"}),
        ({"n_workers": 9, "labels_per_task": 1}, {"confidence", "workers"}),
    ],
)
def test_pages_of_other_crowds(audited: Any, options: dict[str, Any], charts_drawn: set[str]) -> None:
    audit, _ = audited(**options)
    assert set(data_of(make_report(audit))["charts"]) == charts_drawn


def test_the_smallest_crowd_has_a_page() -> None:
    labels = cw.CrowdLabels.from_codes([0], [0], [0], tasks=["t", "never"], workers=["w", "idle"], classes=["a", "b"])
    audit = Audit(labels, cw.MajorityVote().fit(labels), (), np.full(2, -1), 0.05)
    page = make_report(audit, truth={"t": "a"})
    assert "1 worker gave 1 label on 1 task" in page
    assert "nan" not in re.sub(r"<script.*?</script>|<svg.*?</svg>", "", page, flags=re.DOTALL)
    assert [row[0] for row in data_of(page)["tables"]["workers"]] == ["w", "idle"]


def test_league_is_shown_with_notes_for_what_failed(audited: Any) -> None:
    audit, truth = audited()
    done = MethodStanding("majority-vote", -1.25, 0.01, 0.0, 0.0, 0.1, 1.0, 0.75, 0.05, 0.5)
    league = Comparison((done, MethodStanding("kos", note="needs <two> classes")), np.eye(2), n_truth=300)
    page = make_report(audit, league=league, truth=truth)
    row = page[page.index("majority-vote</th>") :].partition("</tr>")[0]
    assert re.findall(r">([^<>]+)</td>", row) == ["-1.250 ± 0.010", "best", "100.0%", "75.0%", "0.050", "0.5"]
    assert '<td colspan="6">needs &lt;two&gt; classes</td>' in page


# ---- hostile names, without a browser ---------------------------------------------------------------------


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    loaded: dict[str, Any] = json.loads(found[1])
    return loaded


def test_markup_of_the_page_is_the_same_whatever_the_names(
    audited: Any, hostile_audit: Any, hostile: tuple[str, ...]
) -> None:
    """Same crowd, other names: the same elements in the same order."""
    harmless, truth = audited(n_classes=len(hostile), n_tasks=400)
    ours, their_truth = hostile_audit
    one, other = make_report(harmless, truth=truth), make_report(ours, truth=their_truth)
    tags = [
        re.findall(r"</?[a-zA-Z!][a-zA-Z0-9-]*", re.sub(r"<noscript>.*?</noscript>", "", page)) for page in (one, other)
    ]
    assert tags[0] == tags[1]


def test_pictures_hold_hostile_names_as_text(hostile_audit: Any, hostile: tuple[str, ...]) -> None:
    pictures = re.findall(r"<noscript>(<svg.*?</svg>)</noscript>", make_report(hostile_audit[0]), re.DOTALL)
    assert len(pictures) == 4
    for picture in pictures:
        root = ET.fromstring(picture)  # noqa: S314
        assert not [each.tag for each in root.iter() if each.tag in (f"{SVG}script", f"{SVG}image", f"{SVG}a")]
        assert not [name for each in root.iter() for name in each.attrib if name.startswith("on")]


def test_names_are_data_of_charts_and_nothing_else(hostile_audit: Any, hostile: tuple[str, ...]) -> None:
    specs = data_of(make_report(hostile_audit[0]))["charts"]
    assert set(specs) == {"confidence", "workers", "agreement", "confusion"}
    for spec in specs.values():
        kept = json.dumps({name: value for name, value in spec.items() if name != "datasets"})
        assert "pwned" not in kept
        assert "xxxx" not in kept
        assert "proto" not in kept
    assert "pwned" in json.dumps(specs["workers"]["datasets"])


def test_what_is_not_seen_is_written_out_on_the_page_and_in_pictures(audited: Any, tmp_path: Path) -> None:
    names = ["a\u200bb", "\u202eevil\u202c", "\u2066b\u2069", "\ufeffc", "d\u3164", "\u061ce", "f\u00ad", "g\U000e0041"]
    audit, truth = audited(
        n_classes=len(names),
        n_tasks=60,
        workers=[*names, *(f"worker-{at}" for at in range(40 - len(names)))],
        tasks=[*names, *(f"task-{at}" for at in range(60 - len(names)))],
        classes=names,
    )
    page = re.sub(r"<script>.*?</script>", "", make_report(audit, truth=truth, title=names[1]), flags=re.DOTALL)
    charts = [(tmp_path / f"{name}.svg").read_text() for name in write_charts(audit, tmp_path)]
    for text in (page, *charts):
        own = text.replace("\u2068", "").replace("\u2069", "")  # with which the page keeps names to themselves
        assert not LETTER.search(own)
    assert r"\u202eevil\u202c" in page


def test_json_in_a_page_has_no_markup() -> None:
    text = escaped_json({"<a>": ["</script>", "\u2028", math.inf, 1.5, None], "b": "&amp;"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"<a>": ["</script>", "\u2028", None, 1.5, None], "b": "&amp;"}


def test_names_shown() -> None:
    assert display_name("  ") == "‘  ’"
    assert display_name("") == "‘’"
    assert display_name("שלום") == "שלום"
    assert len(display_name("x" * 10_240)) == 120
    assert len(display_name("\n" * 10_240)) <= 122
    assert distinct_names(["a", "x" * 200, "x" * 300], 50)[1:] == ["x" * 49 + "… (2)", "x" * 49 + "… (3)"]


def test_a_page_of_long_names_stays_small(audited: Any) -> None:
    audit, _ = audited(workers=[f"{at}" + "x" * 10_240 for at in range(40)])
    assert len(make_report(audit)) < 1_500_000


# ---- files ------------------------------------------------------------------------------------------------


def test_a_page_that_fails_leaves_the_old_one(tmp_path: Path, audited: Any) -> None:
    audit, _ = audited()
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(InputError, match="The truth is about other tasks"):
        write_report(audit, path, truth={"no such task": "class 0"})
    assert path.read_text() == "old"
    write_report(audit, path)
    assert path.read_text().startswith("<!DOCTYPE html>")
    assert list(tmp_path.iterdir()) == [path]


def test_same_audit_same_page(audited: Any) -> None:
    assert make_report(audited()[0]) == make_report(audited()[0])
