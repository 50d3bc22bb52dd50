"""Dawid–Skene on a graph: the bound by going through every truth, its limits, and the graph that is read."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.conftest import tiny_labels

import crowdwise as cw
from crowdwise.labels.task_graph import read_graph

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.labels import CrowdLabels

PAIRS = [(0, 1), (1, 2), (2, 0), (3, 2)]  # task 4 has no neighbour


def log_weight(labels: CrowdLabels, model: Any, coupling: float, truth: tuple[int, ...]) -> float:
    value = sum(np.log(model.prior_[true]) for true in truth)
    off = np.eye(labels.n_classes) - model.prior_
    value += sum(coupling * off[truth[one]] @ off[truth[two]] for one, two in PAIRS)
    for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
        value += np.log(model.confusion_[worker, truth[task], label])
    return float(value)


@pytest.mark.parametrize("gold", [None, {0: 1, 3: 0}], ids=["", "gold"])
@pytest.mark.parametrize("class_prior", [None, [0.5, 0.3, 0.2]], ids=["", "prior"])
@pytest.mark.parametrize(("n_classes", "coupling"), [(2, 0.7), (3, 0.7), (3, 2.0)])
def test_the_bound(n_classes: int, coupling: float, class_prior: Any, gold: Any) -> None:
    """Σ_y q(y) [log weight(y) - log q(y)] over all K^N truths, where q(y) is the product of the posteriors."""
    labels = tiny_labels(n_classes, 6)
    prior = None if class_prior is None else np.array(class_prior[:n_classes]) / np.sum(class_prior[:n_classes])
    model = cw.GraphDawidSkene(graph=PAIRS, coupling=coupling, smoothing=0.4, max_iter=3, tol=0.0)
    model.fit(labels, gold=gold, class_prior=prior)
    bound, weights = 0.0, []
    for truth in itertools.product(range(n_classes), repeat=labels.n_tasks):
        if gold is not None and any(truth[task] != true for task, true in gold.items()):
            continue
        value = log_weight(labels, model, coupling, truth)
        belief = np.prod([model.posterior_[task, true] for task, true in enumerate(truth)])
        weights.append(value)
        if belief > 0:
            bound += belief * (value - np.log(belief))
    assert model.log_likelihood_[-1] == pytest.approx(bound, abs=1e-10)
    assert bound <= np.logaddexp.reduce(weights) + 1e-12
    rows = model.confusion_.reshape(-1, n_classes)
    density = sum(stats.dirichlet.logpdf(row, np.full(n_classes, 1.4)) for row in rows)
    assert model.objective_[-1] == pytest.approx(bound + density, abs=1e-10)


def test_the_posterior_is_a_fixed_point() -> None:
    """Every task, given its neighbours' posteriors, has the posterior that the model says."""
    labels = tiny_labels(3, 6)
    model = cw.GraphDawidSkene(graph=PAIRS, coupling=0.7, smoothing=0.4, max_iter=300, tol=0.0).fit(labels)
    for task in range(5):
        logs = np.log(model.prior_)
        for one, two in PAIRS:
            if task in (one, two):
                logs = logs + 0.7 * (model.posterior_[one + two - task] - model.prior_)
        for other, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
            if other == task:
                logs = logs + np.log(model.confusion_[worker, :, label])
        expected = np.exp(logs - logs.max())
        np.testing.assert_allclose(model.posterior_[task], expected / expected.sum(), atol=1e-7)


def test_the_bound_never_falls() -> None:
    generator = np.random.default_rng(0)
    labels = cw.simulate.simulate(
        "dawid-skene", n_tasks=80, n_workers=6, n_classes=3, labels_per_task=3, random_state=1
    ).labels
    graph = generator.integers(0, 80, (150, 2))
    graph = graph[graph[:, 0] != graph[:, 1]]
    for coupling in (0.2, 1.0, 4.0):
        model = cw.GraphDawidSkene(graph=graph, coupling=coupling, max_iter=60, tol=0.0).fit(labels)
        assert np.diff(model.objective_).min() > -1e-9 * abs(model.objective_[-1])


@pytest.mark.parametrize("no_pairs", [{"graph": None}, {"graph": []}, {"graph": [(0, 1), (2, 3)], "coupling": 0.0}])
def test_without_pairs_it_is_dawid_skene(no_pairs: Any, crowd: CrowdLabels) -> None:
    for smoothing in (0.0, 0.3):
        one = cw.GraphDawidSkene(smoothing=smoothing, **no_pairs).fit(crowd)
        other = cw.DawidSkene(smoothing=smoothing).fit(crowd)
        for name in ("posterior_", "confusion_", "prior_", "skill_", "objective_", "log_likelihood_"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-10, rtol=1e-10, err_msg=name)


def test_order_of_rows_does_not_matter() -> None:
    labels = cw.simulate.simulate(
        "dawid-skene", n_tasks=60, n_workers=6, n_classes=3, labels_per_task=3, random_state=2
    ).labels
    graph = [(task, (task + 1) % 60) for task in range(60)]
    table = labels.to_table().to_pandas()
    one = cw.GraphDawidSkene(graph=graph).fit(table)
    other = cw.GraphDawidSkene(graph=graph[::-1]).fit(table.sample(frac=1, random_state=3))
    place = [one.tasks_.tolist().index(task) for task in other.tasks_.tolist()]
    np.testing.assert_allclose(other.posterior_, one.posterior_[place], atol=1e-7)


def neighbours(source: Any, tasks: Any) -> dict[Any, list[Any]]:
    found = read_graph(source, tasks)
    return {
        task: [tasks[other] for other in found.neighbour[found.ptr[place] : found.ptr[place + 1]]]
        for place, task in enumerate(tasks)
    }


def test_graphs(tmp_path: Path) -> None:
    tasks = ["a", "b", "c", "d"]
    expected = {"a": ["b", "c"], "b": ["a"], "c": ["a"], "d": []}
    pairs = [("a", "b"), ("c", "a"), ("b", "a"), ("a", "unasked")]
    file = tmp_path / "graph.csv"
    file.write_text("from,to\n" + "".join(f"{one},{two}\n" for one, two in pairs))
    sources = [
        pairs,
        np.array(pairs),
        {"a": ["b", "c"], "b": ["a"]},
        {"task": ["a", "c"], "neighbour": ["b", "a"]},
        pd.DataFrame(pairs, columns=["one", "two"]),
        str(file),
    ]
    for source in sources:
        assert neighbours(source, tasks) == expected
    assert neighbours(np.array([[10, 30]]), [30, 20, 10]) == {30: [10], 20: [], 10: [30]}
    assert read_graph(pairs, tasks).n_pairs == 2


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([("a", "x"), ("y", "z")], "no pair joins two of the tasks"),
        ([("a", "b"), ("b", "b")], r"the list, pair 1 joins a task to itself \(b\)"),
        ([("a", "b", "c")], "a list must hold pairs of task names"),
        (["ab"], "a list must hold pairs of task names"),
        ({"a": "b"}, "from task to a list of neighbours; it does not for 'a'"),
        (pd.DataFrame({"one": ["a"], "two": ["b"], "three": ["c"]}), "exactly two columns, one for each task; it has"),
        (pd.DataFrame({"one": ["a", None], "two": ["b", "c"]}), "missing"),
        ("no such file.csv", "no such file.csv"),
        (7, "not something labels can be read from"),
    ],
)
def test_bad_graphs(source: Any, message: str) -> None:
    with pytest.raises(cw.InputError, match=message):
        read_graph(source, ["a", "b", "c"])


def test_bad_parameters() -> None:
    labels = tiny_labels(2, 0)
    for name in ("coupling", "smoothing", "tol"):
        with pytest.raises(cw.InputError, match=f"{name} is -1; it must be a number, 0 or more"):
            cw.GraphDawidSkene(**{name: -1}).fit(labels)
