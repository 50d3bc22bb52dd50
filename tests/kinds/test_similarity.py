"""Similarity: reading, bad input, groups, clusters and workers found, gold, new items and pairs, the baselines."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from typer.testing import CliRunner

from crowdwise.cli.app import app
from crowdwise.kinds import find_kind, read_similarities, simulate_similarities
from crowdwise.kinds.similarity import (
    ConnectedComponents,
    CorrelationClustering,
    PairBeliefPropagation,
    PairMeanField,
    Similarities,
    adjusted_rand,
    score_clusters,
)
from crowdwise.labels.errors import InputError, InputWarning

ROWS = {"worker": ["ann", "bob", "cy"], "left": ["a", "b", "a"], "right": ["b", "c", "c"]}
METHODS = (PairBeliefPropagation, PairMeanField, CorrelationClustering, ConnectedComponents)
MODELS = (PairBeliefPropagation, PairMeanField)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"left": ["b", "b", "a"]},
            r"same item in 1 answer: 'b' \(the table, row 0\). Remove those rows.*be asked about",
        ),
        ({"left": [None, "b", "a"]}, "left"),
        ({"same": ["yes", None, "no"]}, "column 'same'"),
        ({"same": ["yes", "maybe", "no"]}, r"Column 'same' holds 'maybe' \(the table, row 1\), which is neither same"),
        ({"same": [1, 0, 2]}, "which is neither same nor different"),
        ({"worker": ["ann"] * 3, "left": ["a", "b", "a"], "right": ["b", "a", "b"]}, "repeat an earlier.*on_duplicate"),
    ],
)
def test_bad_input_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_similarities(ROWS | {"same": ["yes", "no", "no"]} | changed)


def test_missing_columns_and_rows() -> None:
    with pytest.raises(InputError, match="need the columns worker, left, right and same"):
        read_similarities({"worker": ["ann"], "left": ["a"], "same": ["yes"]})
    with pytest.raises(InputError, match="has columns but no rows"):
        read_similarities({"worker": [], "left": [], "right": [], "same": []})
    with pytest.raises(InputError, match="same must be 1"):
        Similarities.from_codes([0], [0], [1], [2], items=2, workers=1)
    with pytest.raises(InputError, match="worker, left, right and same must have the same length"):
        Similarities.from_codes([0], [0], [1], [1, 0], items=2, workers=1)


@pytest.mark.parametrize(
    "said", [["same", "Different", "no match"], ["Yes", "no", "n"], [1, 0, 0], [True, False, False], [1.0, 0.0, 0.0]]
)
def test_words(said: list[Any]) -> None:
    assert read_similarities(ROWS | {"same": said}).same.tolist() == [True, False, False]


def test_names_of_columns() -> None:
    named = {"worker": [1, 2], "item_1": ["a", "b"], "item_2": ["b", "c"], "same": ["yes", "no"]}
    found = find_kind(named)
    assert found is not None
    assert found.name == "similarity"
    assert read_similarities(named).items.to_pylist() == ["a", "b", "c"]
    plain = find_kind(["worker", "left", "right", "label"])
    assert plain is not None
    assert plain.name == "comparisons"
    labelled = ROWS | {"verdict": ["same", "different", "same"]}
    assert read_similarities(labelled, same="verdict").same.tolist() == [True, False, True]


def test_repeated_answers_whichever_side_an_item_stands_on() -> None:
    rows = {"worker": ["ann"] * 3, "left": ["a", "b", "a"], "right": ["b", "a", "c"], "same": [1, 0, 1]}
    kept = {each: read_similarities(rows, on_duplicate=each).same.tolist() for each in ("first", "last", "all")}
    assert kept == {"first": [True, True], "last": [False, True], "all": [True, False, True]}


@pytest.mark.parametrize("method", METHODS)
def test_groups_are_never_joined(method: Any) -> None:
    rows = {"worker": [1, 2, 3] * 3, "left": ["a"] * 3 + ["x"] * 6, "right": ["b"] * 3 + ["y"] * 3 + ["z"] * 3}
    with pytest.warns(InputWarning, match=r"2 groups between which no pair was asked about \(the largest has 3 of 5"):
        answers = read_similarities(rows | {"same": [1] * 6 + [0] * 3})
    table = method().fit(answers).consensus()
    cluster = dict(zip(table["task"].to_pylist(), table["cluster"].to_pylist(), strict=True))
    assert table["group"].to_pylist() == [0, 1, 0, 1, 1]
    assert cluster["a"] == cluster["b"] != cluster["x"] == cluster["y"] != cluster["z"] != cluster["a"]


@pytest.mark.parametrize("method", METHODS)
def test_one_pair(method: Any) -> None:
    for said, together in ((1, True), (0, False)):
        rows = {"worker": [1, 2, 3], "left": ["a"] * 3, "right": ["b"] * 3, "same": [said] * 3}
        model = method().fit(read_similarities(rows))
        assert (model.cluster_[0] == model.cluster_[1]) == together
        assert (model.pairs()["same"][0].as_py() > 0.5) == together
        assert (model.confidence_ > 0.5).all()


def test_an_item_without_answers() -> None:
    answers = Similarities.from_codes([0, 1], [0, 0], [1, 1], [1, 1], items=4, workers=3)
    for method in METHODS:
        model = method().fit(answers)
        assert model.cluster_[0] == model.cluster_[1]
        assert np.unique(model.cluster_).size == 3
        assert np.isfinite(model.confidence_).all()


def test_the_bar() -> None:
    """1,000 items of 5 clusters, 5 % of the pairs asked about once, workers right in 70 to 95 % of their answers."""
    crowd = simulate_similarities(1000, 50, n_clusters=5, share=0.05, random_state=3)
    model = PairBeliefPropagation().fit(crowd.answers)
    assert score_clusters(model, crowd.truth)["adjusted_rand"] > 0.95
    assert np.unique(model.cluster_).size == 5
    votes = [score_clusters(each().fit(crowd.answers), crowd.truth) for each in METHODS[2:]]
    assert [each["adjusted_rand"] < 0.99 for each in votes] == [True, True]
    assert not model.caveat()


@pytest.mark.parametrize("method", MODELS)
def test_adversaries_are_found(method: Any) -> None:
    crowd = simulate_similarities(200, 20, n_clusters=4, share=0.2, adversaries=0.25, random_state=1)
    model = method(n_clusters=4).fit(crowd.answers)
    assert score_clusters(model, crowd.truth)["adjusted_rand"] > 0.9
    workers = model.workers()
    wrong = workers["sensitivity"].to_numpy() + workers["specificity"].to_numpy() < 1
    assert (wrong == (crowd.sensitivity + crowd.specificity < 1)).all()


def test_intervals_cover_and_probabilities_are_calibrated() -> None:
    inside, chance, together, sure, right = [], [], [], [], []
    for seed in range(8):
        crowd = simulate_similarities(150, 15, n_clusters=3, share=0.2, random_state=seed)
        model = PairBeliefPropagation().fit(crowd.answers)
        workers = model.workers()
        for name in ("sensitivity", "specificity"):
            true = getattr(crowd, name)
            inside.append((workers[f"{name}_low"].to_numpy() <= true) & (true <= workers[f"{name}_high"].to_numpy()))
        pairs = model.pairs()
        left, right_item = pairs["left"].to_numpy(), pairs["right"].to_numpy()
        chance.append(pairs["same"].to_numpy())
        together.append(crowd.cluster[left] == crowd.cluster[right_item])
        sure.append(model.confidence_)
        common = np.array([np.bincount(crowd.cluster[model.cluster_ == each]).argmax() for each in model.cluster_])
        right.append(common == crowd.cluster)
    assert 0.82 <= np.mean(inside) <= 0.97
    every, truth = np.concatenate(chance), np.concatenate(together)
    bins = np.minimum((every * 10).astype(int), 9)
    gaps = np.bincount(bins, every) - np.bincount(bins, truth)
    assert np.abs(gaps).sum() / every.size < 0.02
    assert np.concatenate(sure).mean() == pytest.approx(np.concatenate(right).mean(), abs=0.03)


def test_small_groups() -> None:
    """Records of a few things each, as when duplicates are looked for: belief propagation beats the vote."""
    generator = np.random.default_rng(0)
    pairs, clusters = [], []
    for group in range(120):
        start = len(clusters)
        clusters += (3 * group + generator.integers(3, size=4)).tolist()
        pairs += [(start + i, start + j) for i in range(4) for j in range(i)]
    left, right = (np.tile(each, 3) for each in np.array(pairs).T)
    cluster, worker = np.array(clusters), np.concatenate([(np.arange(len(pairs)) + 7 * turn) % 30 for turn in range(3)])
    skill = generator.uniform(0.6, 0.98, 30)
    says = (cluster[left] == cluster[right]) == (generator.random(left.size) < skill[worker])
    answers = Similarities.from_codes(worker, left, right, says, items=cluster.size, workers=30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = PairBeliefPropagation(n_clusters=3).fit(answers)
    vote = CorrelationClustering().fit(answers)
    assert adjusted_rand(found.cluster_, cluster) > adjusted_rand(vote.cluster_, cluster)
    losses = []
    for model in (found, vote):
        true = cluster[model.pair_first_] == cluster[model.pair_second_]
        losses.append(-np.log(np.clip(np.where(true, model.pair_same_, 1 - model.pair_same_), 1e-6, 1)).mean())
    assert losses[0] < losses[1] - 0.02


def test_answers_that_tell_nothing() -> None:
    crowd = simulate_similarities(200, 20, n_clusters=5, share=0.03, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PairBeliefPropagation().fit(crowd.answers)
    assert "hardly tell the clusters apart" in model.caveat()


@pytest.mark.parametrize("method", MODELS)
def test_gold(method: Any) -> None:
    crowd = simulate_similarities(60, 10, n_clusters=3, share=0.15, adversaries=0.6, random_state=2)
    known = {item: f"cluster {crowd.cluster[item]}" for item in range(40)}
    model = method().fit(crowd.answers, known)
    assert adjusted_rand(model.cluster_[:40], crowd.cluster[:40]) == 1
    assert adjusted_rand(model.cluster_[40:], crowd.cluster[40:]) > 0.8
    left, right = np.repeat(np.arange(20), 20), np.tile(np.arange(20, 40), 20)
    pairs = {"left": left, "right": right, "same": crowd.cluster[left] == crowd.cluster[right]}
    model = method().fit(crowd.answers, pairs)
    assert adjusted_rand(model.cluster_[:40], crowd.cluster[:40]) > 0.95
    with pytest.raises(InputError, match="Gold contradicts itself"):
        method().fit(crowd.answers, {"left": [0, 1, 0], "right": [1, 2, 2], "same": [1, 1, 0]})
    with pytest.raises(InputError, match="contradicts itself about item 1"):
        method().fit(crowd.answers, {"task": [1, 1], "cluster": ["a", "b"]})
    with pytest.raises(InputError, match="no name matches"):
        method().fit(crowd.answers, {"other": 1})
    with pytest.raises(InputError, match="components has no use for gold"):
        ConnectedComponents().fit(crowd.answers, known)


def test_new_items_and_pairs_by_known_workers() -> None:
    crowd = simulate_similarities(120, 10, n_clusters=3, share=0.4, adversaries=0.2, random_state=4)
    new = (crowd.answers.left < 20) | (crowd.answers.right < 20)
    table = crowd.answers.to_table()
    model = PairBeliefPropagation().fit(read_similarities(table.filter(~new)))
    found = model.predict(read_similarities(table.filter(new))).sort_by("task")
    tasks = found["task"].to_numpy()
    assert adjusted_rand(found["cluster"].to_numpy(), crowd.cluster[tasks]) > 0.95
    fresh = tasks < 20
    old = {
        cluster: crowd.cluster[tasks[~fresh]][found["cluster"].to_numpy()[~fresh] == cluster][0] for cluster in range(3)
    }
    assert np.mean([old.get(each) for each in found["cluster"].to_numpy()[fresh]] == crowd.cluster[tasks[fresh]]) > 0.9
    apart = {"worker": [0, 1, 0], "left": ["x", "x", "y"], "right": ["y", "z", "z"], "same": [1, 0, 0]}
    alone = model.predict(apart)["cluster"].to_pylist()
    assert min(alone) > int(model.cluster_.max())
    rows = np.flatnonzero(~new)[:400]
    again = model.predict_pairs(read_similarities(table.take(rows)))
    true = crowd.cluster[again["left"].to_numpy()] == crowd.cluster[again["right"].to_numpy()]
    assert np.mean((again["same"].to_numpy() > 0.5) == true) > 0.97
    stranger = {"worker": ["nobody"], "left": [30], "right": ["nothing"], "same": ["yes"]}
    assert 0 < model.predict_pairs(stranger)["same"][0].as_py() < 1
    assert np.isfinite(model.log_density(stranger)).all()


def test_held_out_answers() -> None:
    crowd = simulate_similarities(150, 12, n_clusters=3, share=0.3, random_state=2)
    seen, hidden = crowd.answers.split(random_state=1)
    by_chance = np.log(np.where(hidden.same, seen.same.mean(), 1 - seen.same.mean())).mean()
    scores = {each.slug: float(each().fit(seen).log_density(hidden).mean()) for each in METHODS}
    assert scores["belief-propagation"] > by_chance + 0.1
    assert scores["belief-propagation"] >= max(scores.values()) - 1e-3


def test_adjusted_rand_is_that_of_others() -> None:
    generator = np.random.default_rng(0)
    for _ in range(5):
        one, other = generator.integers(4, size=30), generator.integers(3, size=30)
        assert adjusted_rand(one, other) == pytest.approx(adjusted_rand_score(one, other))
    assert adjusted_rand(np.zeros(1, int), np.zeros(1, int)) == 1.0
    assert adjusted_rand(np.zeros(5, int), np.zeros(5, int)) == 1.0


def test_the_command(tmp_path: Any) -> None:
    file, truth = tmp_path / "same.csv", tmp_path / "truth.csv"
    crowd = simulate_similarities(30, 6, random_state=1)
    lines = [",".join(map(str, row.values())) for row in crowd.answers.to_table().to_pylist()]
    file.write_text("worker,left,right,label\n" + "\n".join(lines) + "\n")
    truth.write_text("item,cluster\n" + "\n".join(f"{item},{each}" for item, each in enumerate(crowd.cluster)) + "\n")
    done = CliRunner().invoke(
        app, ["aggregate", str(file), "--kind", "similarity", "--truth", str(truth), "--out", str(tmp_path / "out")]
    )
    assert done.exit_code == 0, done.output
    assert "adjusted rand" in done.output
    header = (tmp_path / "out" / "consensus.csv").read_text().splitlines()[0]
    assert header.replace('"', "").startswith("task,cluster,confidence")
