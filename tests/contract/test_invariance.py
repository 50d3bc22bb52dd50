"""The same answers give the same results, however rows, tasks, workers and classes are ordered and named."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from sklearn.base import clone

import crowdwise as cw
from crowdwise.fitting.content_order import average_twins, order_by_content
from crowdwise.fitting.prior_knowledge import PriorKnowledge
from crowdwise.labels import CrowdLabels
from crowdwise.simulate import simulate

if TYPE_CHECKING:
    from crowdwise.labels.types import IntArray
    from crowdwise.registry import Method

pytestmark = pytest.mark.usefixtures("few_sweeps")
EVERY = pytest.mark.parametrize("method", cw.methods(), ids=lambda method: method.slug)
BOTH = pytest.mark.parametrize(("which", "engine"), [("sparse", "numba"), ("dense", "numpy")])
DRAWN = (
    cw.DawidSkene(init="random", n_restarts=2),
    cw.DawidSkene(init="majority"),
    cw.Mace(n_restarts=3),
    cw.BayesianClassifierCombination(inference="gibbs", n_sweeps=20, burn_in=5),
    cw.MaxMarginMajorityVote(inference="m3v"),
    cw.MinimaxEntropy(regularisation="auto", max_iter=5, tol=0.0),
    cw.GroupDawidSkene(groups=2),
    cw.GroupDawidSkene(groups=2, fusion="dawid-skene"),
    cw.CoupledNmf(max_workers=5),
)


class Disguise(NamedTuple):
    """The answers of a crowd under other numbers, and where its tasks, workers and classes are there."""

    labels: CrowdLabels
    tasks: IntArray
    workers: IntArray
    classes: IntArray


def disguise(labels: CrowdLabels, *, more_workers: int = 3, more_tasks: int = 3) -> Disguise:
    """Shuffle the rows, renumber and rename all, turn the classes, and add workers and tasks without answers."""
    generator = np.random.default_rng(7)
    task_of = generator.permutation(labels.n_tasks + more_tasks)[: labels.n_tasks]
    worker_of = generator.permutation(labels.n_workers + more_workers)[: labels.n_workers]
    class_of = np.roll(np.arange(labels.n_classes), 1)
    order = generator.permutation(labels.n_labels)
    other = CrowdLabels.from_codes(
        task_of[labels.task][order],
        worker_of[labels.worker][order],
        class_of[labels.label][order],
        tasks=[f"t{n}" for n in range(labels.n_tasks + more_tasks)],
        workers=[f"w{n}" for n in range(labels.n_workers + more_workers)],
        classes=[f"c{n}" for n in range(labels.n_classes)],
        on_duplicate="all",
    )
    return Disguise(other, task_of, worker_of, class_of)


@pytest.fixture(scope="module")
def crowds(crowd: CrowdLabels) -> dict[str, CrowdLabels]:
    """A middling crowd, and one of two classes: six workers who answered all tasks, the last as the first did."""
    five = simulate("dawid-skene", n_tasks=60, n_workers=5, n_classes=2, labels_per_task=None, random_state=4).labels
    dense = five.label.reshape(60, 5)
    return {"sparse": crowd, "dense": CrowdLabels.from_dense(np.column_stack([dense, dense[:, 0]]))}


_FITS: dict[tuple[str, str, str], Any] = {}


def fitted(method: Method, crowds: dict[str, CrowdLabels], which: str, engine: str) -> Any:
    """The method fitted to a crowd, once for all tests."""
    key = method.slug, which, engine
    if key not in _FITS:
        _FITS[key] = method.load()(engine=engine).fit(crowds[which])
    return _FITS[key]


def assert_same(first: Any, second: Any, there: Disguise) -> None:
    """All that is fitted is the same, and so is the consensus."""
    np.testing.assert_allclose(second.posterior_[there.tasks][:, there.classes], first.posterior_, atol=1e-8)
    np.testing.assert_allclose(second.skill_[there.workers], first.skill_, atol=1e-8)
    np.testing.assert_allclose(second.prior_[there.classes], first.prior_, atol=1e-8)
    if hasattr(first, "confusion_"):
        matrices = second.confusion_[there.workers][:, there.classes][:, :, there.classes]
        np.testing.assert_allclose(matrices, first.confusion_, atol=1e-8)
    np.testing.assert_allclose(second.skill_beta_[there.workers], first.skill_beta_, rtol=1e-6)
    sure = np.diff(np.sort(first.posterior_, axis=1)[:, -2:]).ravel() > 1e-8
    decided = second._decide(second.posterior_)[there.tasks]
    np.testing.assert_array_equal(decided[sure], there.classes[first._decide(first.posterior_)][sure])


@EVERY
@BOTH
@pytest.mark.filterwarnings("ignore::crowdwise.NotConverged")
def test_order_names_and_who_is_silent_do_not_matter(
    method: Method, which: str, engine: str, crowds: dict[str, CrowdLabels]
) -> None:
    there = disguise(crowds[which])
    first = fitted(method, crowds, which, engine)
    assert_same(first, method.load()(engine=engine).fit(there.labels), there)


@pytest.mark.parametrize("model", DRAWN, ids=lambda model: f"{model.slug}")
def test_other_parameters_that_draw(model: Any, crowds: dict[str, CrowdLabels]) -> None:
    there = disguise(crowds["sparse"])
    first, second = (clone(model) for _ in range(2))
    assert_same(first.fit(crowds["sparse"]), second.fit(there.labels), there)


@pytest.mark.parametrize("slug", ["hmm-crowd", "bsc"])
@pytest.mark.parametrize("source", ["names", "table"])
@pytest.mark.filterwarnings("ignore::crowdwise.NotConverged")
def test_sequences_without_labels_do_not_matter(slug: str, source: str, crowds: dict[str, CrowdLabels]) -> None:
    """Nor does a task without labels that is a link of a sequence vanish from it."""
    crowd, method = crowds["sparse"], cw.method(slug).load()
    tasks = [f"s{n // 4}_{n % 4}" for n in range(crowd.n_tasks)]
    more = [f"silent_{n}" for n in range(40)]

    def fit(names: list[str]) -> Any:
        table = {name: (name.split("_")[0], int(name.split("_")[1])) for name in names}
        labels = CrowdLabels.from_codes(
            crowd.task, crowd.worker, crowd.label, tasks=names, workers=crowd.workers, classes=crowd.classes
        )
        return method(sequences="names" if source == "names" else table).fit(labels)

    alone, beside = fit(tasks), fit(tasks + more)
    np.testing.assert_allclose(beside.posterior_[: crowd.n_tasks], alone.posterior_, atol=1e-12)
    np.testing.assert_allclose(beside.skill_, alone.skill_, atol=1e-12)
    chain = beside.start_ @ np.linalg.matrix_power(beside.transition_, 39)
    assert np.abs(beside.posterior_[-1] - chain).max() < (1e-6 if slug == "hmm-crowd" else 0.05)


@pytest.mark.parametrize(("slug", "seed"), [("sml", 2), ("sml", 3), ("pgd", 14), ("pgd", 22)])
@pytest.mark.filterwarnings("ignore::crowdwise.NotConverged")
def test_silent_workers_of_a_degenerate_crowd_do_not_matter(slug: str, seed: int) -> None:
    """Six workers who guess: the descent hardly moves, and silent workers once changed the length of its steps."""
    generator = np.random.default_rng(seed)
    codes = np.repeat(np.arange(6), 2), generator.integers(0, 6, 12), generator.integers(0, 2, 12)
    alone, beside = (
        cw.method(slug)
        .load()()
        .fit(CrowdLabels.from_codes(*codes, tasks=6, workers=n_workers, classes=2, on_duplicate="all"))
        for n_workers in (6, 46)
    )
    np.testing.assert_allclose(beside.posterior_, alone.posterior_, atol=1e-8)
    np.testing.assert_allclose(beside.skill_[:6], alone.skill_, atol=1e-8)


@pytest.mark.filterwarnings("ignore::crowdwise.NotConverged")
def test_gold_of_auto(crowds: dict[str, CrowdLabels]) -> None:
    """Its bootstrap once followed the order of tasks, and its levels of confidence those without labels."""
    codes, sizes = crowds["sparse"], {"tasks": crowds["sparse"].tasks, "workers": crowds["sparse"].workers}
    # Text: of classes that are numbers, it learns from the distance as well.
    classes = [f"class {k}" for k in range(codes.n_classes)]
    crowd = CrowdLabels.from_codes(codes.task, codes.worker, codes.label, **sizes, classes=classes)
    there = disguise(crowd)
    truth = np.random.default_rng(3).integers(0, crowd.n_classes, 30)
    names, classes = there.labels.tasks.to_pylist(), there.labels.classes.to_pylist()
    known = {crowd.tasks[task].as_py(): crowd.classes[int(k)].as_py() for task, k in enumerate(truth)}
    first = cw.Auto().fit(crowd, gold=known)
    gold = {names[there.tasks[task]]: classes[there.classes[k]] for task, k in enumerate(truth)}
    assert_same(first, cw.Auto().fit(there.labels, gold=gold), there)


@pytest.mark.data
@pytest.mark.skipif(
    not os.environ.get("CROWDWISE_DATA"), reason="CROWDWISE_DATA is not set: dog/labels.csv is looked for there"
)
@pytest.mark.parametrize("slug", ["glad", "max-margin", "ebcc"])
def test_real_labels(slug: str) -> None:
    """L-BFGS ended at other digits in another order of these."""
    labels = cw.datasets.load("dog").labels
    there, method = disguise(labels), cw.method(slug).load()
    assert_same(method().fit(labels), method().fit(there.labels), there)


@EVERY
@BOTH
@pytest.mark.filterwarnings("ignore::crowdwise.NotConverged")
def test_prediction_on_the_same_labels_is_the_posterior(
    method: Method, which: str, engine: str, crowds: dict[str, CrowdLabels]
) -> None:
    model, crowd = fitted(method, crowds, which, engine), crowds[which]
    np.testing.assert_allclose(model.predict_proba(crowd), model.posterior_, atol=1e-8)
    some = crowd.select(tasks=crowd.tasks.to_pylist()[5:20])
    np.testing.assert_allclose(model.predict_proba(some), model.posterior_[5:20], atol=1e-8)


@EVERY
def test_a_task_with_other_labels_is_judged_anew(method: Method, crowds: dict[str, CrowdLabels]) -> None:
    model, crowd = fitted(method, crowds, "sparse", "numba"), crowds["sparse"]
    first = crowd.task == 0
    other = CrowdLabels.from_codes(
        crowd.task[first], crowd.worker[first], np.full(first.sum(), 2), tasks=crowd.tasks[:1], workers=crowd.workers,
        classes=crowd.classes,
    )  # fmt: skip
    assert model.predict_proba(other).argmax() == 2


def test_what_is_known_is_content() -> None:
    labels = CrowdLabels.from_dense([[0, 1], [0, 1], [0, 1], [1, 0]])
    gold = np.array([-1, 1, -1, -1])
    known = PriorKnowledge(gold=gold, worker_counts=np.stack([np.zeros((2, 2)), np.eye(2)]))
    order = order_by_content(labels, known)
    assert sorted(np.bincount(order.alike_tasks)) == [1, 1, 2], "the first and the third task are alike, no others"
    assert order.alike_workers.size == np.unique(order.alike_workers).size == 2
    arranged, told = order.arrange(labels), order.arrange_knowledge(known)
    assert told.worker_counts is not None
    for place, task in enumerate(order.tasks):
        answers = {(order.workers[w], order.classes[c]) for t, w, c in _edges(arranged) if t == place}
        assert answers == {(w, c) for t, w, c in _edges(labels) if t == task}
        assert gold[task] == (-1 if told.gold[place] < 0 else order.classes[told.gold[place]])
    assert known.worker_counts is not None
    np.testing.assert_array_equal(order.restore_matrices(told.worker_counts, np.zeros((2, 2, 2))), known.worker_counts)


@pytest.mark.parametrize("count", [0.5078125, 1.0, 0.1, 2 / 3, 1e6, 0.0000005])
def test_rounding_of_what_is_known_is_no_content(count: float) -> None:
    labels = CrowdLabels.from_dense([[0, 1, 1], [0, 1, 0], [0, 1, 1], [1, 0, 1]])
    orders = []
    for nudge in (-1, 0, 1):
        counts = np.full((3, 2, 2), count) * (1 + nudge * 1e-15)
        orders.append(order_by_content(labels, PriorKnowledge(worker_counts=counts)))
    for other in orders[1:]:
        assert other.workers.tolist() == orders[0].workers.tolist()
        assert other.tasks.tolist() == orders[0].tasks.tolist()


def test_workers_with_the_same_answers_are_one() -> None:
    labels = CrowdLabels.from_dense([[0, 1, 0, 0], [1, 1, 1, 0]])
    averaged = average_twins(labels, np.array([2, 1, 0]), np.array([[3.0, 0.0], [5.0, 5.0], [1.0, 2.0]]))
    assert averaged.tolist() == [[2, 1], [5, 5], [2, 1]]


def _edges(labels: CrowdLabels) -> list[tuple[int, int, int]]:
    return list(zip(labels.task.tolist(), labels.worker.tolist(), labels.label.tolist(), strict=True))
