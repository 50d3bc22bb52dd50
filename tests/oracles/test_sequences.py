"""Sequence models against every truth of tiny sentences, in plain loops that share no code with the package."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import integrate, stats

import crowdwise as cw
from crowdwise.labels import CrowdLabels

if TYPE_CHECKING:
    from pathlib import Path

# Two sentences and a task that stands alone; the rows are out of order on purpose.
SENTENCES = [[3, 0, 4], [2, 5], [1]]
NAMES = ["a_2", "alone", "b_1", "a_1", "a_10", "b_7"]


def tiny(n_classes: int, seed: int, classes: Any = None) -> CrowdLabels:
    generator = np.random.default_rng(seed)
    edges = [(task, worker) for task in range(6) for worker in range(3) if generator.random() < 0.8]
    task, worker = np.array(edges).T
    return CrowdLabels.from_codes(
        task,
        worker,
        generator.integers(0, n_classes, task.size),
        tasks=NAMES,
        workers=3,
        classes=n_classes if classes is None else classes,
    )


def walked(labels: CrowdLabels, start: Any, move: Any, said: Any, gold: Any = None) -> tuple[float, Any]:
    """Log of the sum over all truths of the weight of the truth and the labels; posterior of each task.

    `said(edge, truth)` is the weight of one answer.
    """
    truths = list(itertools.product(range(labels.n_classes), repeat=labels.n_tasks))
    joint = []
    for truth in truths:
        weight = 1.0
        for sentence in SENTENCES:
            weight *= start[truth[sentence[0]]]
            for one, two in itertools.pairwise(sentence):
                weight *= move[truth[one], truth[two]]
        for edge, task in enumerate(labels.task):
            weight *= said(edge, truth[task])
        if gold is not None and any(truth[task] != true for task, true in gold.items()):
            weight = 0.0
        joint.append(weight)
    posterior = np.zeros((labels.n_tasks, labels.n_classes))
    for truth, weight in zip(truths, joint, strict=True):
        posterior[np.arange(labels.n_tasks), truth] += weight / np.sum(joint)
    return float(np.log(np.sum(joint))), posterior


GOLD = pytest.mark.parametrize("gold", [None, {0: 1, 4: 0}], ids=["", "gold"])


@GOLD
@pytest.mark.parametrize(("n_classes", "smoothing"), [(2, 0.0), (3, 0.0), (3, 0.4)])
def test_hmm_crowd(n_classes: int, smoothing: float, gold: Any) -> None:
    labels = tiny(n_classes, n_classes)
    known = None if gold is None else {NAMES[task]: true for task, true in gold.items()}
    for max_iter in (1, 4):
        model = cw.HmmCrowd(sequences="names", smoothing=smoothing, max_iter=max_iter, tol=0.0).fit(labels, gold=known)
        value, posterior = walked(
            labels,
            model.start_,
            model.transition_,
            lambda edge, truth, model=model: model.confusion_[labels.worker[edge], truth, labels.label[edge]],
            gold,
        )
        np.testing.assert_allclose(model.posterior_, posterior, atol=1e-10)
        assert model.log_likelihood_[-1] == pytest.approx(value, abs=1e-10)
        density = 0.0
        if smoothing:
            rows = model.confusion_.reshape(-1, n_classes)
            density = sum(stats.dirichlet.logpdf(row, np.full(n_classes, 1 + smoothing)) for row in rows)
        assert model.objective_[-1] == pytest.approx(value + density, abs=1e-10)


def test_the_chain_is_learnt_from_pairs_of_neighbours() -> None:
    """One M-step by hand: the transition matrix is the expected number of steps, from every truth of the start."""
    labels = tiny(3, 5)
    first, second = (cw.HmmCrowd(sequences="names", max_iter=n, tol=0.0).fit(labels) for n in (1, 2))
    steps, starts = np.zeros((3, 3)), np.zeros(3)
    total = 0.0
    for truth in itertools.product(range(3), repeat=6):
        weight = 1.0
        for sentence in SENTENCES:
            weight *= first.start_[truth[sentence[0]]]
            for one, two in itertools.pairwise(sentence):
                weight *= first.transition_[truth[one], truth[two]]
        for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
            weight *= first.confusion_[worker, truth[task], label]
        total += weight
        for sentence in SENTENCES:
            starts[truth[sentence[0]]] += weight
            for one, two in itertools.pairwise(sentence):
                steps[truth[one], truth[two]] += weight
    np.testing.assert_allclose(second.transition_, steps / steps.sum(axis=1, keepdims=True), atol=1e-10)
    np.testing.assert_allclose(second.start_, starts / starts.sum(), atol=1e-10)


def test_without_sequences_hmm_crowd_is_dawid_skene(crowd: CrowdLabels) -> None:
    for smoothing in (0.0, 0.3):
        one = cw.HmmCrowd(smoothing=smoothing).fit(crowd)
        other = cw.DawidSkene(smoothing=smoothing).fit(crowd)
        for name in ("posterior_", "confusion_", "prior_", "skill_", "objective_", "log_likelihood_"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-10, rtol=1e-10, err_msg=name)


def before(labels: CrowdLabels, edge: int) -> int:
    """What the worker of an answer said about the task before it; K for nothing."""
    for sentence in SENTENCES:
        for one, two in itertools.pairwise(sentence):
            if two == labels.task[edge]:
                found = (labels.task == one) & (labels.worker == labels.worker[edge])
                if found.any():
                    return int(labels.label[found][0])
    return labels.n_classes


@GOLD
def test_evidence_bound_of_bsc(gold: Any) -> None:
    """Two classes: every Dirichlet is a Beta, whose expected logarithms and divergence are integrals."""
    labels = tiny(2, 3)
    known = None if gold is None else {NAMES[task]: true for task, true in gold.items()}
    model = cw.BayesianSequenceCombination(sequences="names", right=2.5, wrong=1.3, steps=1.6, max_iter=3, tol=0.0).fit(
        labels, gold=known
    )
    habits = model.extra_["habits"].astype(int).tolist()
    answers, steps = model.extra_["answers"], model.extra_["steps"]

    def mean_log(shape: Any, cell: int) -> float:
        law = stats.beta(shape[cell], shape[1 - cell])
        return integrate.quad(lambda x: np.log(x) * law.pdf(x), 0, 1, limit=500, epsabs=1e-12)[0]

    def divergence(shape: Any, prior: Any) -> float:
        law, other = stats.beta(*shape), stats.beta(*prior)
        return integrate.quad(lambda x: law.pdf(x) * (law.logpdf(x) - other.logpdf(x)), 0, 1, limit=500)[0]

    move = np.exp([[mean_log(row, cell) for cell in (0, 1)] for row in steps])
    tables = {
        habit: np.exp([[mean_log(answers[place][truth], label) for label in (0, 1)] for truth in (0, 1)])
        for place, habit in enumerate(habits)
    }

    def said(edge: int, truth: int) -> float:
        habit = int(labels.worker[edge]) * 3 + before(labels, edge)
        return float(tables[habit][truth, labels.label[edge]])

    value, posterior = walked(labels, move[2], move[:2], said, gold)
    loss = sum(divergence(row, [1.6, 1.6]) for row in steps)
    for place in range(len(habits)):
        loss += divergence(answers[place][0], [2.5, 1.3]) + divergence(answers[place][1], [1.3, 2.5])
    np.testing.assert_allclose(model.posterior_, posterior, atol=1e-8)
    assert model.log_likelihood_[-1] == pytest.approx(value, abs=1e-8)
    assert model.objective_[-1] == pytest.approx(value - loss, abs=1e-8)
    expected = {int(labels.worker[edge]) * 3 + before(labels, edge) for edge in range(labels.n_labels)}
    assert set(habits) == expected


def test_the_bound_never_falls_along_sentences() -> None:
    for seed in range(5):
        labels = tiny(3, seed)
        gains = np.diff(cw.BayesianSequenceCombination(sequences="names", max_iter=30, tol=0.0).fit(labels).objective_)
        assert gains.min() > -1e-9
        gains = np.diff(cw.HmmCrowd(sequences="names", smoothing=0.1, max_iter=30, tol=0.0).fit(labels).objective_)
        assert gains.min() > -1e-9


TAGS = ["B-x", "I-x", "B-y", "I-y", "O"]


@pytest.mark.parametrize("make", [cw.HmmCrowd, cw.BayesianSequenceCombination])
def test_tags_keep_their_rule(make: Any) -> None:
    labels = tiny(5, 8, TAGS)
    model = make(sequences="names", max_iter=5, tol=0.0).fit(labels)
    for before_, after in [("O", "I-x"), ("B-y", "I-x"), ("I-x", "I-y")]:
        assert model.transition_[TAGS.index(before_), TAGS.index(after)] < 0.01
    assert model.start_[[1, 3]].max() < 0.01
    free = make(sequences="names", max_iter=5, tol=0.0, bio=False).fit(labels)
    assert free.start_[[1, 3]].max() > 0.05


@pytest.mark.parametrize("make", [cw.HmmCrowd, cw.BayesianSequenceCombination])
def test_tags_without_sequences_have_no_rule(make: Any) -> None:
    labels = tiny(5, 8, TAGS)
    one, other = (make(bio=bio, max_iter=5, tol=0.0).fit(labels) for bio in (True, False))
    np.testing.assert_array_equal(one.posterior_, other.posterior_)


def test_known_truths_may_break_the_rule() -> None:
    labels = tiny(5, 8, TAGS)
    for make in (cw.HmmCrowd, cw.BayesianSequenceCombination):
        model = make(sequences="names", max_iter=5, tol=0.0).fit(labels, gold={"b_1": "O", "b_7": "I-x"})
        assert np.isfinite(model.objective_).all()
        assert model.predict()[[2, 5]].tolist() == ["O", "I-x"]


@pytest.mark.parametrize("make", [cw.HmmCrowd, cw.BayesianSequenceCombination])
def test_new_sentences(make: Any) -> None:
    """By their names they are read as sentences; with a table those of the fit are known again, others stand alone."""
    labels = tiny(3, 5)
    table = {name: (name[0], int(name.rpartition("_")[2])) for name in NAMES if "_" in name} | {"alone": ("c", 0)}
    named, listed = (
        make(sequences="names", max_iter=5, tol=0.0).fit(labels),
        make(sequences=table, max_iter=5, tol=0.0).fit(labels),
    )
    np.testing.assert_allclose(named.posterior_, listed.posterior_, atol=1e-12)
    np.testing.assert_allclose(named.predict_proba(labels), named.posterior_, atol=1e-9)
    np.testing.assert_array_equal(listed.predict_proba(labels), listed.posterior_)
    others = CrowdLabels.from_codes(
        labels.task, labels.worker, labels.label, tasks=[f"new {each}" for each in range(labels.n_tasks)],
        workers=labels.n_workers, classes=labels.n_classes,
    )  # fmt: skip
    alone = listed.predict_proba(others)
    assert np.abs(alone[1] - listed.posterior_[1]).max() < 1e-9
    assert np.abs(alone - listed.posterior_).max() > 0.01


@pytest.mark.parametrize("make", [cw.HmmCrowd, cw.BayesianSequenceCombination])
def test_a_model_fitted_with_a_table_is_saved_without_it(make: Any, tmp_path: Path) -> None:
    labels = tiny(3, 5)
    table = {name: (0, place) for place, name in enumerate(NAMES)}
    model = make(sequences=table, max_iter=5, tol=0.0).fit(labels)
    model.save(tmp_path / "model")
    loaded = cw.load(tmp_path / "model")
    assert loaded.sequences is None
    np.testing.assert_array_equal(loaded.transition_, model.transition_)
    np.testing.assert_array_equal(loaded.start_, model.start_)
    np.testing.assert_array_equal(loaded.predict_proba(labels), model.predict_proba(labels))


@pytest.mark.parametrize("make", [cw.HmmCrowd, cw.BayesianSequenceCombination])
def test_strangers_and_labels_never_given_before(make: Any) -> None:
    model = make(sequences="names", max_iter=5, tol=0.0).fit(tiny(3, 5))
    new = {"task": ["n_1", "n_2", "n_2", "n_3"], "worker": [0, 0, "stranger", 0], "label": [2, 1, 1, 0]}
    posterior = model.predict_proba(cw.read_labels(new, classes=[0, 1, 2]))
    assert posterior.shape == (3, 3)
    np.testing.assert_allclose(posterior.sum(axis=1), 1, atol=1e-12)


def test_two_answers_to_the_task_before_are_none() -> None:
    labels = CrowdLabels.from_codes(
        [0, 0, 1, 1], [0, 0, 0, 1], [0, 1, 1, 1], tasks=["a_0", "a_1"], workers=2, classes=2, on_duplicate="all"
    )
    model = cw.BayesianSequenceCombination(sequences="names").fit(labels)
    assert model.extra_["habits"].tolist() == [2, 5]


@pytest.mark.parametrize("make", [cw.HmmCrowd, cw.BayesianSequenceCombination])
def test_bad_parameters(make: Any) -> None:
    labels = tiny(2, 0)
    with pytest.raises(cw.InputError, match="bio is 'yes'; it must be True or False"):
        make(bio="yes").fit(labels)
    with pytest.raises(cw.InputError, match="max_iter"):
        make(max_iter=0).fit(labels)
    with pytest.raises(cw.InputError, match="lacks the tasks"):
        make(sequences={"a_2": ("a", 2)}).fit(labels)


def test_bad_pseudo_counts() -> None:
    labels = tiny(2, 0)
    with pytest.raises(cw.InputError, match="smoothing is -1"):
        cw.HmmCrowd(smoothing=-1).fit(labels)
    for name in ("right", "wrong", "steps"):
        with pytest.raises(cw.InputError, match=f"{name} is 0; it must be a number, above 0"):
            cw.BayesianSequenceCombination(**{name: 0}).fit(labels)
