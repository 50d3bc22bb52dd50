"""Texts: distances against plain versions of them, models against enumeration and finite differences, bad input."""

from __future__ import annotations

import itertools
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import crowdwise as cw
from crowdwise.kinds import read_texts, simulate_texts
from crowdwise.kinds.texts import (
    AutoTexts,
    Medoid,
    Texts,
    WeightedMedoid,
    WordVotes,
    distances,
    gleu,
    score_texts,
    word_votes,
)
from crowdwise.kinds.texts.annotation_scaling import Scaling, log_posterior, start_scaling, update_variances
from crowdwise.kinds.texts.distances import edit_distance, measure_pairs, word_error_rate
from crowdwise.kinds.texts.model import TextCrowd
from crowdwise.kinds.texts.nearness import pair_weights, penalised_error
from crowdwise.kinds.texts.text_pairs import pair_answers
from crowdwise.kinds.texts.word_votes import align, collect_votes, word_posterior
from crowdwise.kinds.texts.words import compared_words, join_words, split_words
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


def random_texts(number: int, seed: int = 0) -> list[str]:
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(list("abcd"), generator.integers(1, 9))) for _ in range(number)]


def pairs_of(texts: list[str], n_tasks: int = 3, n_workers: int = 4) -> Any:
    task = np.sort(np.arange(len(texts)) % n_tasks)
    worker = np.arange(len(texts)) % n_workers
    return pair_answers(task, worker, texts, [str(each) for each in worker], n_tasks, "gleu")


def crowd_of(seed: int = 0) -> TextCrowd:
    pairs = pairs_of(random_texts(12, seed))
    q = np.array([0.9, 0.5, 0.6, 0.7, 0.65, 1.0])
    return TextCrowd(pairs, 1 - pairs.distance, q, np.ones(3))


# ---- words and distances ----------------------------------------------------------------------------------


def test_gleu_counts_shared_n_grams() -> None:
    def slow(first: str, second: str) -> float:
        one, other = (
            Counter(words[at : at + n] for n in range(1, 5) for at in range(len(words) - n + 1))
            for words in map(compared_words, (first, second))
        )
        return sum((one & other).values()) / max(sum(one.values()), sum(other.values()))

    texts = random_texts(40)
    task = np.repeat(np.arange(4), 10)
    rows = [(i, j) for i, j in itertools.permutations(range(40), 2) if task[i] == task[j]]
    one, other = np.array(rows).T
    found = measure_pairs(texts, task, one, other, "gleu")
    np.testing.assert_allclose(1 - found, [slow(texts[i], texts[j]) for i, j in rows], atol=1e-12)
    assert gleu("", "a") == 0
    assert gleu("A  b.", "a b .") == gleu("", "") == 1


def test_edit_distances_are_those_of_the_table() -> None:
    def slow(one: Any, other: Any) -> int:
        row = list(range(len(other) + 1))
        for i, first in enumerate(one, 1):
            above, row[0] = row[:], i
            for j, second in enumerate(other, 1):
                row[j] = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (first != second))
        return row[-1]

    for one, other in itertools.product(["", *random_texts(25, 1)], repeat=2):
        assert edit_distance(one, other) == slow(one, other)
    assert word_error_rate("the cat sat", "The cat sat down.") == pytest.approx(2 / 5)


def test_forms_of_letters_do_not_count() -> None:
    written = "Café № 5, “ﬁne”"
    forms = [unicodedata.normalize(form, written) for form in ("NFC", "NFD")] + [written.upper(), written + "\u200b"]
    assert len({compared_words(form) for form in forms}) == 1
    assert join_words(split_words("Hello, (you)  isn't it?")) == "Hello, (you) isn't it?"
    assert compared_words("日本 नमस्ते") == ("日", "本", "नमस्ते")
    texts = read_texts({"task": [1] * 4, "worker": list("abcd"), "text": forms})
    assert Medoid().fit(texts).consensus()["text"][0].as_py() in forms
    np.testing.assert_allclose(measure_pairs(forms, np.zeros(4, int), np.zeros(3, int), np.arange(1, 4), "gleu"), 0)


# ---- models -----------------------------------------------------------------------------------------------


def test_penalised_error_has_its_gradient() -> None:
    crowd = crowd_of()
    known = np.array([np.nan, np.nan, np.nan, np.nan, np.nan, 1.0])
    at = np.random.default_rng(1).uniform(0.2, 0.9, known.size + 4)
    given = crowd.pairs, crowd.similarity, pair_weights(crowd.pairs), known
    value, gradient = penalised_error(at, *given)
    pairs, few = crowd.pairs, 4 * crowd.similarity.mean()
    q, t = np.append(at[:5], 1.0), at[6:9]
    plain = sum(
        (s - t[pairs.task[i]] * q[pairs.worker[i]] * q[pairs.worker[j]]) ** 2 / 3
        for i, j, s in zip(pairs.one, pairs.other, crowd.similarity, strict=True)
    )
    assert value == pytest.approx(plain + few * ((q[:5] - at[-1]) ** 2).sum() + few**2 * ((t - 1) ** 2).sum())
    steps = 1e-6 * np.eye(at.size)
    slopes = [(penalised_error(at + h, *given)[0] - penalised_error(at - h, *given)[0]) / 2e-6 for h in steps]
    np.testing.assert_allclose(gradient, slopes, atol=1e-6)


def test_posterior_of_points_has_its_gradient_and_variances_climb() -> None:
    crowd = crowd_of(2)
    distance = 1 - crowd.similarity
    at = start_scaling(crowd, distance, 2, 0.05)
    generator = np.random.default_rng(0)
    at = at._replace(point=generator.normal(size=at.point.shape) / 3, task=generator.uniform(0.5, 2, 3), noise=0.02)
    value, gradient = log_posterior(crowd.pairs, distance, at)
    step = 1e-6
    for row, column in itertools.product(range(12), range(2)):
        ends = []
        for sign in (1, -1):
            point = at.point.copy()
            point[row, column] += sign * step
            ends.append(log_posterior(crowd.pairs, distance, at._replace(point=point))[0])
        assert gradient[row, column] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4, abs=1e-5)
    better = update_variances(crowd.pairs, distance, at)
    assert log_posterior(crowd.pairs, distance, better)[0] > value
    # In closed form: at the maximum no variance moved by a little does better.
    for name in ("worker", "noise", "task"):
        for factor in (0.99, 1.01):
            moved = at._replace(**{name: getattr(update_variances(crowd.pairs, distance, at), name) * factor})
            best = at._replace(**{name: getattr(update_variances(crowd.pairs, distance, at), name)})
            if name == "task":
                moved, best = (each._replace(worker=better.worker, noise=better.noise) for each in (moved, best))
            assert _log_posterior(crowd, distance, moved) < _log_posterior(crowd, distance, best)


def _log_posterior(crowd: TextCrowd, distance: Any, at: Scaling) -> float:
    if at.worker.size == crowd.q.size:  # the last worker, gold, has no answers here and keeps its variance
        at = at._replace(worker=np.append(at.worker[:-1], 1e-4))
    return log_posterior(crowd.pairs, distance, at)[0]


def test_classical_scaling_keeps_distances() -> None:
    points = np.random.default_rng(0).normal(size=(4, 2))
    pairs = pairs_of(["a", "b", "c", "d"], 1)
    distance = np.linalg.norm(points[pairs.one] - points[pairs.other], axis=1)
    crowd = TextCrowd(pairs, 1 - distance, np.full(6, 0.5), np.ones(1))
    found = start_scaling(crowd, distance, 3, 1.0).point
    np.testing.assert_allclose(np.linalg.norm(found[pairs.one] - found[pairs.other], axis=1), distance, atol=1e-9)


def test_word_posterior_by_enumeration() -> None:
    slots = collect_votes(crowd_of(3))
    accuracy = np.array([0.9, 0.4, 0.7, 0.6, 0.8, 0.999])
    posterior, likelihood = word_posterior(slots, accuracy)
    total = 0.0
    for slot, size in enumerate(slots.sizes):
        votes = np.flatnonzero(slots.slot == slot)
        chances = []
        for true in range(slots.first[slot], slots.first[slot + 1]):
            said = [
                accuracy[slots.worker[vote]]
                if slots.candidate[vote] == true
                else (1 - accuracy[slots.worker[vote]]) / (size + 2)
                for vote in votes
            ]
            chances.append(np.prod(said) / size)
        total += np.log(sum(chances))
        here = posterior[slots.first[slot] : slots.first[slot + 1]]
        np.testing.assert_allclose(here, np.array(chances) / sum(chances), atol=1e-10)
    assert likelihood == pytest.approx(total, abs=1e-10)


def test_alignment_costs_what_the_edit_distance_says() -> None:
    for first, second in itertools.product(random_texts(8, 4), repeat=2):
        one, other = first.split(), second.split()
        table = align([one, other])
        edits = sum(
            i < 0 or j < 0 or one[i] != other[j] for i, j in table.T
        )  # fmt: skip
        assert edits == edit_distance(one, other)
        assert [one[i] for i in table[0] if i >= 0] == one
        assert [other[j] for j in table[1] if j >= 0] == other


def test_votes_mend_single_words() -> None:
    said = ["The cat sat on the mat.", "the cat sat on mat.", "The bat sat on the mat.", "The cat sad on the mat."]
    model = WordVotes().fit(read_texts({"task": [1] * 4, "worker": list("abcd"), "text": said}))
    assert model.consensus()["text"].to_pylist() == ["The cat sat on the mat."]


def test_methods_in_simulated_crowds() -> None:
    crowd = simulate_texts(n_tasks=60, n_workers=15, answers_per_task=6, random_state=1)
    found = {each: score_texts(each().fit(crowd.answers), crowd.truth) for each in (Medoid, WeightedMedoid, WordVotes)}
    assert found[WordVotes]["gleu"] > found[WeightedMedoid]["gleu"] > found[Medoid]["gleu"] - 0.01
    assert found[WordVotes]["word_error_rate"] < found[Medoid]["word_error_rate"]
    chosen = AutoTexts().fit(crowd.answers)
    assert chosen.chosen_method == "word-votes"
    assert chosen.league()["chosen"].to_pylist() == [False, True]


def test_intervals_hold_the_nearness_of_workers() -> None:
    held = []
    for seed in range(6):
        crowd = simulate_texts(n_tasks=60, n_workers=15, answers_per_task=5, random_state=seed)
        model, answers = WeightedMedoid().fit(crowd.answers), crowd.answers
        both = [*answers.text.to_pylist(), *crowd.truth["text"].to_pylist()]
        rows, task = np.arange(answers.n_answers), np.concatenate([answers.task, np.arange(60)])
        away = measure_pairs(both, task, rows, answers.n_answers + answers.task.astype(int), "gleu")
        near = np.bincount(answers.worker, 1 - away / model.chance_[0], 15) / answers.answers_per_worker
        table = model.workers(level=0.9)
        low, high = table["nearness_low"].to_numpy(), table["nearness_high"].to_numpy()
        held.append(((low <= near) & (near <= high))[~crowd.spammer])
        assert table["nearness"].to_numpy()[crowd.spammer].max() < 0.3
    assert 0.85 <= np.concatenate(held).mean() <= 0.99


# ---- use --------------------------------------------------------------------------------------------------


def test_gold_is_followed_and_teaches_about_workers() -> None:
    crowd = simulate_texts(n_tasks=40, error=(0.2, 0.8), random_state=2)
    gold = dict(zip(range(20), crowd.truth["text"].to_pylist(), strict=False))
    plain, told = WeightedMedoid().fit(crowd.answers), WeightedMedoid().fit(crowd.answers, gold)
    assert told.consensus()["text"].to_pylist()[:20] == list(gold.values())
    assert (told.confidence_[:20] == 1).all()
    truth = {task: text for task, text in enumerate(crowd.truth["text"].to_pylist()) if task >= 20}
    assert score_texts(told, truth)["gleu"] > score_texts(plain, truth)["gleu"] - 0.02
    with pytest.raises(InputError, match="medoid has no use for gold"):
        Medoid().fit(crowd.answers, gold)
    with pytest.raises(InputError, match="contradicts itself about task 1"):
        WeightedMedoid().fit(crowd.answers, {"task": [1, 1], "text": ["a", "b"]})


@pytest.mark.parametrize("method", [WeightedMedoid, WordVotes])
def test_prediction_for_new_tasks_by_known_workers(method: Any) -> None:
    crowd = simulate_texts(n_tasks=60, random_state=3)
    seen = crowd.answers.task < 40
    model = method().fit(crowd.answers.keep(seen))
    new = crowd.answers.keep(~seen).to_table()
    stranger = pa.table({"task": [59], "worker": [99], "text": ["ba be"]}).cast(new.schema)
    new = pa.concat_tables([new, stranger])
    found = model.predict(new)
    true = dict(zip(crowd.truth["task"].to_pylist(), crowd.truth["text"].to_pylist(), strict=True))
    assert np.mean([gleu(row["text"], true[row["task"]]) for row in found.to_pylist()]) > 0.6


def test_a_distance_of_ones_own(tmp_path: Path) -> None:
    answers = {"task": [1] * 3 + [2] * 3, "worker": list("abc") * 2, "text": ["10", "11", "40", "3", "8", "7.5"]}

    def apart(one: str, other: str) -> float:
        return abs(float(one) - float(other))

    model = WeightedMedoid(distance=apart).fit(answers)
    assert model.consensus()["text"].to_pylist()[1] in ("8", "7.5")
    assert model.consensus()["text"].to_pylist()[0] in ("10", "11")
    model.save(tmp_path / "model")
    again = cw.load(tmp_path / "model")
    assert again.consensus().equals(model.consensus())
    with pytest.raises(InputError, match="function, which is not saved"):
        again.predict(answers)
    assert (
        again.set_params(distance=apart).predict(answers)["text"].to_pylist() == model.consensus()["text"].to_pylist()
    )
    with pytest.raises(InputError, match="must be a number from 0"):
        Medoid(distance=lambda one, other: float("nan")).fit(answers)
    with pytest.raises(InputError, match=r"is 1e\+308; it must be a number from 0 to 1e\+50"):
        Medoid(distance=lambda one, other: 1e308 * (one != other)).fit(answers)
    with pytest.raises(InputError, match="'gleu', 'words', 'characters' or a function"):
        Medoid(distance="bleu").fit(answers)
    crowd = simulate_texts(n_tasks=20)
    own = AutoTexts(distance=lambda one, other: float(one != other)).fit(crowd.answers)
    assert np.isnan(own.league()["held_out"].to_numpy()[1])


def test_several_answers_of_one_worker_do_not_agree_with_themselves() -> None:
    table = {"task": [1] * 5, "worker": ["a", "a", "a", "b", "c"], "text": ["x y z"] * 3 + ["p q r", "p q s"]}
    with pytest.raises(InputError, match="Some answers repeat an earlier one"):
        read_texts(table)
    model = Medoid().fit(read_texts(table, on_duplicate="all"))
    assert model.consensus()["text"][0].as_py() in ("p q r", "p q s")


def test_small_and_odd_input() -> None:
    for method in (AutoTexts, Medoid, WeightedMedoid, WordVotes):
        one = method().fit({"task": ["t"], "worker": ["w"], "text": ["only one"]})
        assert one.consensus()["text"].to_pylist() == ["only one"]
        assert "No task has two answers" in one.caveat()
    numbers = read_texts({"task": [1, 1, 2], "worker": ["=a", 'b,"c', "<i>"], "text": [5, 5, 7]})
    assert Medoid().fit(numbers).consensus()["text"].to_pylist() == ["5", "7"]
    empty_task = Texts.from_codes([0, 0], [0, 1], ["a b", "a c"], tasks=2, workers=2)
    assert WordVotes().fit(empty_task).consensus()["text"].to_pylist()[1] is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (["a", ""], "holds no text"),
        (["a", None], "holds no text"),
        (["a", "\u200b"], "texts without a word .*row 1"),
        (["a", "\0b"], "NUL"),
        ([["a"], ["b"]], "in place of texts"),
        (["a", "word " * 100_000], "more than 200,000 characters .*row 1.* Cut them into parts"),
    ],
)
def test_texts_that_are_none(text: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_texts({"task": [1, 1], "worker": ["a", "b"], "text": text})


def test_long_texts_are_refused_where_they_cost_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    long = [" ".join(map(str, np.random.default_rng(seed).integers(0, 99, 100))) for seed in range(24)]
    texts = read_texts({"task": [1, 2] * 12, "worker": list(range(24)), "text": long})
    assert Medoid().fit(texts).consensus().num_rows == 2
    monkeypatch.setattr(word_votes, "MOST_CELLS", 1e4)
    monkeypatch.setattr(distances, "MOST_STEPS", 1e3)
    with pytest.raises(InputError, match="too long to be aligned"):
        WordVotes().fit(texts)
    with pytest.raises(InputError, match="Take distance='gleu'"):
        Medoid(distance="words").fit(texts)
    assert np.isnan(AutoTexts().fit(texts).held_out_).tolist() == [False, True]
