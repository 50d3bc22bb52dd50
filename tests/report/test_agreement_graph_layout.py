"""The graph of agreement: lines where they were planted and nowhere else, and a layout that can be read."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.dependence.groups import Dependence, detect_groups
from crowdwise.report.agreement_graph_layout import (
    MOST_ALONE,
    MOST_GROUPS,
    MOST_LINES,
    MOST_NODES,
    AgreementGraph,
    agreement_graph,
)
from crowdwise.report.charts import graph_chart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.labels.types import IntArray


def planted(
    groups: Sequence[int],
    *,
    kappa: float = 0.6,
    noise: float = 2.0,
    shared: float = 100,
    pairs: Sequence[tuple[int, int]] = (),
) -> tuple[Dependence, IntArray]:
    """Every two share as many tasks; independent ones agree on half of them, those of a group by κ more."""
    group = np.array(groups)
    together = (group[:, None] == group) & (group[:, None] >= 0)
    for one, other in pairs:
        together[one, other] = together[other, one] = True
    size = group.size
    about = np.random.default_rng(0).normal(0, noise, (size, size))
    same = np.clip(shared / 2 * (1 + kappa * together) + about + about.T, 0, shared)
    zero, every = np.zeros((size, size)), np.full((size, size), shared)
    p_value = np.zeros(size)
    return Dependence(np.arange(size), group, p_value, 0.0, every, same, every / 2, zero, zero, zero, zero), group


def graph_of(groups: Sequence[int], **options: object) -> AgreementGraph:
    dependence, group = planted(groups, **options)  # type: ignore[arg-type]
    found = agreement_graph(dependence, group, np.arange(group.size)[::-1])
    assert found is not None
    return found


SEVERAL = [*[0] * 12, *[1] * 30, *[2] * 8, *[3] * 2, *[-1] * 60]


def test_lines_join_the_members_of_groups_and_nobody_else() -> None:
    graph = graph_of(SEVERAL)
    assert (graph.group[graph.first] == graph.group[graph.second]).all()
    assert (graph.group[graph.first] >= 0).all()
    ends = np.bincount(np.concatenate([graph.first, graph.second]), minlength=graph.workers.size)
    assert (ends[graph.group >= 0] >= 1).all()
    assert graph.first.size <= MOST_LINES * (graph.group >= 0).sum()
    assert np.median(graph.strength) == pytest.approx(0.6, abs=0.1)


def test_two_of_no_group_are_joined_only_if_chance_does_not_explain_it() -> None:
    many = graph_of(SEVERAL, pairs=[(70, 71)], shared=400, kappa=0.8)
    lone = many.group[many.first] < 0
    assert {
        (int(many.workers[a]), int(many.workers[b])) for a, b in zip(many.first[lone], many.second[lone], strict=True)
    } == {(70, 71)}
    few = graph_of(SEVERAL, pairs=[(70, 71)], shared=6, kappa=0.8, noise=0.0)
    assert (few.group[few.first] >= 0).all()
    assert few.first.size  # the groups were tested as groups


def test_an_independent_crowd_has_no_graph() -> None:
    drawn = 0
    for seed in range(10):
        labels = cw.simulate.simulate("dawid-skene", n_tasks=400, n_workers=30, n_classes=3, random_state=seed).labels
        dependence = detect_groups(labels, 0.05)
        assert dependence is not None
        drawn += agreement_graph(dependence, dependence.groups, labels.labels_per_worker) is not None
    assert drawn <= 2  # 5 % of 10 is 0.5; three or more have a chance of 1 %


@pytest.mark.usefixtures("no_size")
def test_a_crowd_in_groups_has_one() -> None:
    crowd = cw.simulate.simulate("groups", n_tasks=800, n_workers=24, n_groups=6, random_state=1)
    audit = cw.audit_crowd(crowd.labels, method="dawid-skene")
    assert audit.dependence is not None
    graph = agreement_graph(audit.dependence, audit.group, crowd.labels.labels_per_worker)
    assert graph is not None
    planted_groups = np.asarray(crowd.groups)[graph.workers]
    assert (planted_groups[graph.first] == planted_groups[graph.second]).mean() > 0.95
    assert graph.first.size >= 12


def test_copies_are_joined_in_a_ring_and_not_all_to_one() -> None:
    graph = graph_of([0] * 20, kappa=1.0, noise=0.0)
    ends = np.bincount(np.concatenate([graph.first, graph.second]))
    assert ends.tolist() == [2 * MOST_LINES] * 20


def test_of_many_workers_the_busiest_of_every_group_are_drawn() -> None:
    graph = graph_of([*np.repeat(np.arange(30), 7).tolist(), *[-1] * 100])
    assert graph.workers.size == MOST_NODES
    numbers, sizes = np.unique(graph.group, return_counts=True)
    assert numbers.tolist() == list(range(MOST_GROUPS))
    assert set(sizes.tolist()) == {MOST_NODES // MOST_GROUPS}
    assert {0, 1, 2, 3} <= set(graph.workers.tolist())  # the busiest of the first
    one = graph_of([*[0] * 5, *[-1] * 200])
    assert one.workers.tolist() == list(range(5 + MOST_ALONE))
    assert one.mark_joined_workers.sum() == 5


@pytest.mark.parametrize("groups", [SEVERAL, [0, 0, -1], [0] * 200, np.repeat(np.arange(40), 2).tolist()])
def test_the_layout_can_be_read(groups: list[int]) -> None:
    graph = graph_of(groups)
    apart = np.sqrt(((graph.place[:, None] - graph.place) ** 2).sum(axis=-1))
    np.fill_diagonal(apart, np.inf)
    assert apart.min() > 0.3
    assert np.isfinite(graph.place).all()
    boxes = [graph.place[graph.group == number] for number in np.unique(graph.group[graph.group >= 0])]
    boxes += [graph.place[~graph.mark_joined_workers]] if not graph.mark_joined_workers.all() else []
    for one, other in itertools.combinations(boxes, 2):
        gap = np.maximum(one.min(axis=0) - other.max(axis=0), other.min(axis=0) - one.max(axis=0))
        assert gap.max() > 0.7  # beside or below, with room for a number
    np.testing.assert_array_equal(graph.place, graph_of(groups).place)


def test_the_chart_shows_each_worker_and_line_once() -> None:
    graph = graph_of(SEVERAL)
    names = [f"<b>{at}" for at in graph.workers]
    spec = graph_chart(graph, names).to_dict()
    data = {layer["mark"]["type"]: spec["datasets"][layer["data"]["name"]] for layer in spec["layer"][:2]}
    assert [row["worker"] for row in data["point"]] == names
    assert {(row["one"], row["other"]) for row in data["rule"]} == {
        (names[a], names[b]) for a, b in zip(graph.first, graph.second, strict=True)
    }
    assert {row["group"] for row in data["point"]} == {"", "1", "2", "3", "4"}
    assert "<b>" not in str({name: value for name, value in spec.items() if name != "datasets"})
