"""Comparisons: reading, bad input, groups, ties, sides, gold, new items, preferences, the command."""

from __future__ import annotations

import csv
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from crowdwise.cli.app import app
from crowdwise.kinds import read_comparisons, simulate_comparisons
from crowdwise.kinds.comparisons import AutoComparisons, BradleyTerry, Comparisons, CrowdBt, WinRate, WorkerSlope
from crowdwise.kinds.item_scores import align_item_scores, concordance, rank_in_groups, score_items
from crowdwise.labels.errors import InputError, InputWarning

ROWS = {"worker": ["ann", "bob", "cy"], "left": ["a", "b", "a"], "right": ["b", "c", "c"]}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"left": ["b", "b", "a"]}, r"same item in 1 answer: 'b' \(the table, row 0\). Remove those rows"),
        ({"left": [None, "b", "a"]}, "left.*missing|missing.*left|column 'left'"),
        ({"label": ["left", None, "tie"]}, "column 'label'"),
        ({"label": ["left", "up", "tie"]}, r"Column 'label' holds 'up' \(the table, row 1\), which is no outcome"),
        ({"label": ["left", 3.5, "tie"]}, "which is no outcome"),
        ({"label": ["a", "a", "c"]}, "which is no outcome"),
        (
            {"worker": ["ann", "ann", "ann"], "left": ["a"] * 3, "right": ["b"] * 3},
            "repeat an earlier one.*on_duplicate",
        ),
    ],
)
def test_bad_input_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_comparisons(ROWS | {"label": ["left", "right", "tie"]} | changed)


def test_missing_columns_are_named() -> None:
    with pytest.raises(InputError, match="Comparisons need the columns worker, left, right and label"):
        read_comparisons({"worker": ["ann"], "left": ["a"], "label": ["left"]})
    with pytest.raises(InputError, match="has columns but no rows"):
        read_comparisons({"worker": [], "winner": [], "loser": []})


@pytest.mark.parametrize(
    "said", [["left", "right", "tie"], ["A", "b", "Draw"], ["model_a", "model_b", "tie (bothbad)"], ["a", "c", "tie"]]
)
def test_words_of_outcomes(said: list[str]) -> None:
    assert read_comparisons(ROWS | {"label": said}).outcome.tolist() == [1, -1, 0]


def test_items_that_are_called_as_sides_are() -> None:
    rows = {"worker": ["ann", "ann", "bob"], "left": ["left", "right", "left"], "right": ["right", "left", "right"]}
    with pytest.warns(InputWarning, match=r"row 1: 'left' in column 'label' is the name.*the better item's name"):
        answers = read_comparisons(rows | {"label": ["left", "left", "right"]})
    assert answers.outcome.tolist() == [1, -1, -1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same = {"worker": [1, 2], "left": ["left"] * 2, "right": ["right"] * 2, "label": ["left", "right"]}
        read_comparisons(same)  # whichever is meant
        read_comparisons(ROWS | {"label": ["a", "c", "a"]})  # c is no side
        read_comparisons(ROWS | {"label": ["a", "right", "b"]})  # b is none of the two items of its row


def test_winners_and_losers_have_no_sides() -> None:
    answers = read_comparisons({"worker": [1, 2, 3], "winner": ["a", "b", "a"], "loser": ["b", "c", "c"]})
    assert not answers.sided
    assert answers.to_table().column_names == ["worker", "winner", "loser"]
    model = WorkerSlope().fit(answers)
    assert "position_bias" not in model.workers().column_names
    with pytest.warns(InputWarning, match="Every answer is left"):
        again = read_comparisons(ROWS | {"label": ["left"] * 3})
    assert not again.sided


def test_repeated_answers() -> None:
    rows = {"worker": ["ann"] * 3, "left": ["a", "a", "b"], "right": ["b", "b", "a"], "label": ["left", "tie", "left"]}
    assert [len(read_comparisons(rows, on_duplicate=each)) for each in ("first", "last", "all")] == [2, 2, 3]
    assert read_comparisons(rows, on_duplicate="last").outcome.tolist() == [0, 1]


def test_groups_are_said_and_ranked_apart() -> None:
    rows = {"worker": [1, 1, 2, 2], "winner": ["a", "x", "a", "y"], "loser": ["b", "y", "b", "z"]}
    with pytest.warns(InputWarning, match=r"2 groups that were never compared.*the largest has 3 of 5"):
        answers = read_comparisons(rows)
    table = BradleyTerry().fit(answers).consensus()
    assert table["group"].to_pylist() == [0, 0, 1, 1, 1]
    assert table["rank"].to_pylist() == [1, 2, 1, 2, 3]
    assert table["item"].to_pylist() == ["a", "b", "x", "y", "z"]


def test_an_optimum_where_one_item_always_wins() -> None:
    answers = read_comparisons({"worker": [1, 2, 3], "winner": ["a"] * 3, "loser": ["b", "b", "b"]})
    found = BradleyTerry(spread=1.0).fit(answers)
    assert found.converged_
    d = found.score_[0] - found.score_[1]
    assert 3 / (1 + np.exp(d)) == pytest.approx(d / 2, abs=1e-9)  # the derivative of the objective is 0


@pytest.mark.parametrize("method", [BradleyTerry, CrowdBt, WorkerSlope])
def test_answers_that_are_all_alike_are_sure(method: Any) -> None:
    """Any spread of scores explains them, the larger the better; flip rates are small all the same."""
    rates = []
    for n_workers in (1, 3, 10):
        pair, worker = np.repeat(np.arange(50), n_workers), np.tile(np.arange(n_workers), 50)
        answers = Comparisons.from_codes(
            worker, 2 * pair, 2 * pair + 1, np.ones(pair.size), items=100, workers=n_workers, sided=False
        )
        rates.append(method().fit(answers).preferences()["flip_rate"][0].as_py())
    assert 0.5 > rates[0] > rates[1]
    assert rates[2] < 0.15


def test_adversaries_and_sides_are_found() -> None:
    crowd = simulate_comparisons(40, 20, answers_per_worker=80, adversaries=0.3, bias=0.8, ties=0.4, random_state=2)
    for method in (CrowdBt, WorkerSlope):
        workers = method().fit(crowd.answers).workers()
        assert ((workers["reliability"].to_numpy() < 0.5) == (crowd.slope < 0)).all()
    model = WorkerSlope().fit(crowd.answers)
    assert concordance(model.score_, crowd.score) > concordance(BradleyTerry().fit(crowd.answers).score_, crowd.score)
    assert np.corrcoef(model.worker_bias_, crowd.bias)[0, 1] > 0.85
    assert model.tie_[0] == pytest.approx(0.4, abs=0.15)


def test_intervals_cover() -> None:
    inside, within = [], []
    for seed in range(6):
        crowd = simulate_comparisons(30, 15, answers_per_worker=60, slope=0.4, random_state=seed)
        model = WorkerSlope().fit(crowd.answers)
        size = np.sqrt((crowd.slope**2).mean())
        table = model.consensus().sort_by("item")
        true = crowd.score * size
        inside.append((table["low"].to_numpy() <= true) & (true <= table["high"].to_numpy()))
        reach = 1.645 * np.sqrt(model.worker_slope_variance_)
        within.append(np.abs(model.worker_slope_ - crowd.slope / size) <= reach)
    assert 0.83 <= np.mean(inside) <= 0.96
    assert 0.8 <= np.mean(within) <= 0.97


def test_gold_turns_a_crowd_of_adversaries() -> None:
    crowd = simulate_comparisons(30, 12, answers_per_worker=60, adversaries=0.7, slope=0.1, bias=0.0, random_state=4)
    gold = {item: float(crowd.score[item]) for item in range(0, 30, 2)}
    rest = np.arange(1, 30, 2)
    for method in (CrowdBt, WorkerSlope, AutoComparisons):
        model = method().fit(crowd.answers, gold)
        assert concordance(model.score_[rest], crowd.score[rest]) > 0.85
    with pytest.raises(InputError, match="at least two items of different scores"):
        BradleyTerry().fit(crowd.answers, {0: 1.0, 1: 1.0})
    with pytest.raises(InputError, match="no name matches"):
        BradleyTerry().fit(crowd.answers, {"other": 1.0})
    with pytest.raises(InputError, match="win-rate has no use for gold"):
        WinRate().fit(crowd.answers, gold)


def test_new_items_are_placed_among_known_ones() -> None:
    crowd = simulate_comparisons(20, 10, answers_per_worker=120, adversaries=0.3, ties=0.0, random_state=1)
    answers = crowd.answers
    new = (answers.left < 3) | (answers.right < 3)
    table = answers.to_table()
    model = WorkerSlope().fit(read_comparisons(table.filter(~new)))
    assert model.predict(read_comparisons(table.filter(~new))).equals(model.consensus())
    found = model.predict(read_comparisons(table.filter(new))).sort_by("item")
    assert concordance(found["score"].to_numpy(), crowd.score[found["item"].to_numpy()]) > 0.9


def test_flip_rates_are_probabilities() -> None:
    """Over many pairs, as many are the wrong way round as the flip rates say."""
    generator = np.random.default_rng(0)
    rows: dict[str, list[Any]] = {"prompt": [], "worker": [], "chosen": [], "rejected": []}
    quality = generator.normal(size=(300, 2))
    for prompt in range(300):
        for worker in generator.permutation(20)[:5]:
            better = generator.random() < 1 / (1 + np.exp(-2 * (quality[prompt, 0] - quality[prompt, 1])))
            texts = ["yes", "no"] if better ^ (worker < 6) else ["no", "yes"]  # the same texts below every prompt
            for name, value in zip(rows, (f"question {prompt}", f"w{worker}", *texts), strict=True):
                rows[name].append(value)
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputWarning)
        answers = read_comparisons(rows)
    assert answers.n_items == 600
    table = WorkerSlope().fit(answers).preferences()
    assert table.column_names == ["prompt", "chosen", "rejected", "weight", "flip_rate", "n_answers"]
    at = [int(name.split()[1]) for name in table["prompt"].to_pylist()]
    better = np.where(quality[at, 0] > quality[at, 1], "yes", "no")
    wrong = np.mean(better != np.array(table["chosen"].to_pylist()))
    assert abs(wrong - table["flip_rate"].to_numpy().mean()) < 0.06
    assert wrong < 0.2
    np.testing.assert_allclose(table["weight"].to_numpy(), 1 - 2 * table["flip_rate"].to_numpy())


def test_models_are_the_same_items_below_many_prompts() -> None:
    rows = {"judge": ["x", "y", "x"], "prompt": ["p", "q", "r"], "model_a": ["m", "m", "n"], "model_b": ["n", "n", "m"],
            "winner": ["model_a", "tie", "model_b"]}  # fmt: skip
    assert read_comparisons(rows).n_items == 2
    assert read_comparisons(rows, prompt="prompt").n_items == 6


def test_command_writes_preferences(tmp_path: Path) -> None:
    crowd = simulate_comparisons(8, 6, answers_per_worker=30, random_state=3)
    rows = crowd.answers.to_table().to_pylist()
    file, out = tmp_path / "preferences.jsonl", tmp_path / "dpo.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ["aggregate", str(file), "--write-dpo", str(out), "--out", str(tmp_path / "results")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "comparisons of 8 items by 6 workers" in done.output
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(lines) == crowd.answers.graph.n_pairs
    assert set(lines[0]) == {"chosen", "rejected", "weight", "flip_rate"}
    header = (tmp_path / "results" / "consensus.csv").read_text().splitlines()[0]
    assert header.replace('"', "").startswith("item,score,low,high,rank")
    labels = tmp_path / "labels.csv"
    labels.write_text("task,worker,label\n1,a,x\n1,b,y\n2,a,x\n")
    refused = CliRunner().invoke(app, ["aggregate", str(labels), "--write-dpo", str(out)])
    assert isinstance(refused.exception, InputError)
    assert "--write-dpo takes comparisons, and these are labels" in str(refused.exception)


def test_auto_says_how_it_chose() -> None:
    crowd = simulate_comparisons(25, 12, answers_per_worker=70, adversaries=0.25, random_state=6)
    league = AutoComparisons().fit(crowd.answers).league().to_pylist()
    assert [row["method"] for row in league] == ["worker-slope", "crowd-bt", "bradley-terry"]
    assert sum(row["chosen"] for row in league) == 1
    assert league[0]["held_out"] > league[2]["held_out"]


def test_scores_of_items() -> None:
    assert rank_in_groups(np.array([3.0, 1.0, 3.0, 5.0]), np.array([0, 0, 0, 1])).tolist() == [1, 3, 1, 1]
    generator = np.random.default_rng(0)
    score, truth = generator.integers(5, size=40).astype(float), generator.integers(4, size=40).astype(float)
    apart = truth[:, None] > truth
    ahead = np.sign(score[:, None] - score)[apart]
    assert concordance(score, truth) == pytest.approx((0.5 + 0.5 * ahead).mean())
    with pytest.raises(InputError, match="contradicts itself about item 1"):
        align_item_scores(
            {"item": [1, 1], "score": [2.0, 3.0]},
            read_comparisons(ROWS | {"left": [1, 2, 1], "right": [2, 3, 3], "label": ["left", "right", "tie"]}).items,
        )


@pytest.mark.skipif(not os.environ.get("CROWDWISE_DATA"), reason="CROWDWISE_DATA is not set")
def test_reading_levels() -> None:
    """A real set: the concordance with the grade, and with three workers in ten turned into their opposites."""
    data_dir = Path(os.environ["CROWDWISE_DATA"])
    with (data_dir / "pair_readinglevel" / "pairs.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    rows = [row for row in rows if row["winner"] != row["loser"]]
    table = {name: [row[name] for row in rows] for name in ("worker", "winner", "loser")}
    truth = data_dir / "pair_readinglevel" / "item_truth.csv"
    plain = read_comparisons(table, on_duplicate="all")
    found = score_items(AutoComparisons().fit(plain), truth)["concordance"]
    assert found >= 0.69
    workers = np.array(table["worker"])
    names = np.unique(workers)
    bad = np.isin(workers, np.random.default_rng(0).permutation(names)[: round(0.3 * names.size)])
    turned = {
        "worker": workers,
        "winner": np.where(bad, table["loser"], table["winner"]),
        "loser": np.where(bad, table["winner"], table["loser"]),
    }
    after = score_items(AutoComparisons().fit(read_comparisons(turned, on_duplicate="all")), truth)["concordance"]
    assert after >= found - 0.005


def test_one_item_is_compared_with_none() -> None:
    with pytest.raises(InputError, match="n_items is 1; comparisons need two items"):
        simulate_comparisons(1, 3)
