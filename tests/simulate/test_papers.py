"""The crowds of the papers have the numbers that the papers give."""

from __future__ import annotations

import numpy as np
import pytest

from crowdwise.metrics import cohen_kappa
from crowdwise.simulate import CROWDS, simulate
from crowdwise.simulate.experts import senior_confusion
from crowdwise.simulate.tanno_annotators import CIFAR10, cifar_confusion
from crowdwise.simulate.workers import draw_flipper_confusion


def dense(slug: str, **parameters: object) -> tuple[np.ndarray, np.ndarray]:
    """Labels tasks × workers of a crowd where everyone labels everything, and the truth."""
    simulation = simulate(slug, **parameters)
    labels = simulation.labels
    assert len(labels) == labels.n_tasks * labels.n_workers
    return labels.label.reshape(labels.n_tasks, labels.n_workers), simulation.truth


# ---- Tanno et al. 2019: section 3.1, appendix B ----------------------------------------------------------


@pytest.mark.parametrize("skill", [0.1, 0.3, 0.9])
def test_pairwise_flippers_have_one_target_a_class(skill: float) -> None:
    confusion = simulate("pairwise-flippers", skill=skill, n_tasks=10, random_state=2).confusion
    assert confusion.shape == (5, 10, 10)
    assert ((confusion > 0).sum(axis=2) == 2).all()
    diagonal = np.einsum("wkk->wk", confusion)
    assert (np.ptp(diagonal, axis=1) == 0).all()  # figure 8: one value for each annotator
    assert (np.abs(diagonal - skill) < 5 * 0.01).all()


def test_flip_targets_are_uniform_over_the_other_classes() -> None:
    # 40,000 workers × 4 classes; 12 off-diagonal cells of share 1/3, |z| < 4.5: false alarm 1 in 12,000.
    targets = (draw_flipper_confusion(np.zeros(40_000), 4, np.random.default_rng(0)) == 1).sum(axis=0)
    assert (np.diag(targets) == 0).all()
    off = targets[~np.eye(4, dtype=bool)]
    assert (np.abs(off - 40_000 / 3) / np.sqrt(40_000 * 2 / 9) < 4.5).all()


def test_noise_of_the_skills_is_a_standard_deviation() -> None:
    skills = simulate("hammer-spammers", uniform_over="others", n_workers=4000, labels_per_task=1, random_state=1).skill
    assert skills.std() == pytest.approx(0.01, rel=4 / np.sqrt(2 * 4000))
    assert skills.mean() == pytest.approx(0.3, abs=4 * 0.01 / np.sqrt(4000))


def test_hammer_spammers_guess_over_all_classes_or_the_others() -> None:
    every = simulate("hammer-spammers", noise=0.0, skill=0.3).confusion
    np.testing.assert_allclose(every[0], 0.3 * np.eye(10) + 0.07)
    others = simulate("hammer-spammers", noise=0.0, skill=0.3, uniform_over="others").confusion
    np.testing.assert_allclose(np.diag(others[0]), 0.3)
    np.testing.assert_allclose(others[0][0, 1:], 0.7 / 9)


def test_cifar_annotators_are_right_45_percent_of_the_time() -> None:
    simulation = simulate("cifar-annotators", n_tasks=50_000, random_state=1)
    assert simulation.skill.mean() == pytest.approx(0.45, abs=1e-12)
    assert abs(simulation.accuracy - 0.45) < 4 * np.sqrt(0.25 / 200_000)
    assert simulation.labels.classes.to_pylist() == list(CIFAR10)
    assert simulate("cifar-annotators", labels_per_task=1).labels.n_labels == 1000


def test_cifar_annotators_are_as_described() -> None:
    matrices = cifar_confusion()
    at = {name: code for code, name in enumerate(CIFAR10)}
    assert matrices[1, at["cat"], at["dog"]] == matrices[1, at["dog"], at["cat"]] == pytest.approx(0.4)
    assert matrices[1, at["automobile"], at["truck"]] == pytest.approx(0.4)
    assert np.flatnonzero(matrices[2, 4]).tolist() == [3, 4, 5]
    assert (matrices[3].argmax(axis=1) != np.arange(10)).all()  # the adversary's likeliest label is wrong …
    assert np.unique(matrices[3].argmax(axis=1)).size == 10  # … and every class goes to another
    mean = matrices.mean(axis=0)  # theorem 1 of Tanno et al. 2019 ask for a mean matrix with a dominant diagonal
    assert (np.diag(mean) > (mean - np.diag(np.diag(mean))).max(axis=1)).all()
    assert (np.diag(mean) > (mean - np.diag(np.diag(mean))).max(axis=0)).all()


# ---- Cao et al. 2019: cases 4.1 to 4.3, appendix B, example E.2 ------------------------------------------


def test_expertise_of_appendix_b() -> None:
    cat, dog = 0, 1
    experts = senior_confusion("dogs-vs-cats", "high")
    assert experts[:, dog, dog].tolist() == [0.6, 0.6, 0.9, 0.7, 0.6]
    assert experts[:, cat, cat].tolist() == [0.8, 0.6, 0.6, 0.7, 0.7]
    luna = senior_confusion("luna16", "high")
    assert luna[:, 0, 0].tolist() == [0.6, 0.7, 0.9, 0.6, 0.7]
    assert luna[:, 1, 1].tolist() == [0.9, 0.7, 0.6, 0.7, 0.6]
    for data, skill in (("dogs-vs-cats", 0.55), ("cifar10", 0.2), ("luna16", 0.6)):
        low = senior_confusion(data, "low")
        assert len(low) == 10
        np.testing.assert_allclose(np.einsum("wkk->wk", low), skill)
    np.testing.assert_allclose(senior_confusion("cifar10", "low")[0, 0, 1:], 0.8 / 9)


def test_hard_pairs_of_cifar10() -> None:
    experts = senior_confusion("cifar10", "high")
    at = {name: code for code, name in enumerate(CIFAR10)}

    def block(expert: str, one: str, other: str) -> list[list[float]]:
        pair = [at[one], at[other]]
        return experts["ABCDE".index(expert)][np.ix_(pair, pair)].tolist()

    same, guess, known = [[1, 0], [1, 0]], [[0.5, 0.5], [0.5, 0.5]], [[1, 0], [0, 1]]
    assert block("A", "cat", "dog") == block("A", "frog", "ship") == same
    assert block("B", "automobile", "truck") == guess
    assert block("C", "deer", "horse") == known
    assert block("C", "airplane", "bird") == guess
    assert block("D", "airplane", "bird") == block("D", "frog", "ship") == known
    assert block("D", "cat", "dog") == same
    assert block("E", "automobile", "truck") == [[0.6, 0.4], [0.4, 0.6]]
    np.testing.assert_allclose(experts.sum(axis=2), 1)


@pytest.mark.parametrize("data", ["dogs-vs-cats", "cifar10", "luna16"])
@pytest.mark.parametrize("level", ["high", "low"])
def test_three_cases_have_the_same_seniors(data: str, level: str) -> None:
    n_seniors = 5 if level == "high" else 10
    parameters = {"data": data, "level": level, "n_tasks": 400, "random_state": 9}
    alone, truth = dense("independent-mistakes", **parameters)
    naive, truth_of_naive = dense("naive-majority", **parameters)
    copies, _ = dense("correlated-mistakes", **parameters)
    assert alone.shape[1] == n_seniors
    assert np.array_equal(truth, truth_of_naive)
    assert np.array_equal(naive[:, :n_seniors], alone)
    assert np.array_equal(copies[:, :n_seniors], alone)
    assert naive.shape[1] - n_seniors == (5 if level == "high" else 15)
    assert (naive[:, n_seniors:] == 0).all()
    copied = [0, 0, 2, 2, 2] if level == "high" else [0, 2]
    assert np.array_equal(copies[:, n_seniors:], alone[:, copied])
    groups = simulate("correlated-mistakes", **parameters).groups
    assert groups is not None
    assert groups.tolist() == [*range(n_seniors), *copied]


def test_lazy_juniors_choose_the_class_of_the_paper() -> None:
    for data, first in (("dogs-vs-cats", "cat"), ("cifar10", "airplane"), ("luna16", "benign")):
        assert simulate("naive-majority", data=data).labels.classes[0].as_py() == first


def test_example_e2() -> None:
    labels, truth = dense("copied-coin", random_state=4)
    assert labels.shape == (1000, 101)
    assert np.array_equal(labels[:, 0], truth)
    assert (labels[:, 1:] == labels[:, [1]]).all()
    assert abs((labels[:, 1] == truth).mean() - 0.5) < 4.5 * np.sqrt(0.25 / 1000)


# ---- Kim et al. 2022: section 4.1 ------------------------------------------------------------------------


def test_one_coin_defaults_are_the_papers() -> None:
    simulation = simulate("one-coin", random_state=1)
    labels = simulation.labels
    assert (labels.n_tasks, labels.n_workers, labels.n_classes) == (1000, 750, 2)
    assert set(labels.labels_per_task.tolist()) == {3}
    assert set(labels.labels_per_worker.tolist()) == {4}
    assert (simulation.confusion[:, 0, 0] == simulation.confusion[:, 1, 1]).all()
    assert abs(simulation.skill.mean() - 2 / 3) < 4 * np.sqrt(2 / 9 / 4 / 750)  # Beta(2, 1)


@pytest.mark.parametrize(("slug", "n_classes"), [("one-coin", 2), ("two-coin", 2), ("two-coin", 5), ("one-coin", 5)])
def test_diagonals_are_beta(slug: str, n_classes: int) -> None:
    right, wrong = 0.5, 0.25
    simulation = simulate(slug, alpha=(right, wrong), n_classes=n_classes, n_tasks=6000, n_workers=6000, random_state=3)
    diagonal = simulation.confusion[:, 0, 0]
    total = right + wrong
    variance = right * wrong / total**2 / (total + 1)
    assert abs(diagonal.mean() - right / total) < 4 * np.sqrt(variance / 6000)
    assert diagonal.var() == pytest.approx(variance, rel=0.1)
    first, second = diagonal, simulation.confusion[:, 1, 1]
    correlation = np.corrcoef(first, second)[0, 1]
    assert correlation == pytest.approx(1) if slug == "one-coin" else abs(correlation) < 4.5 / np.sqrt(6000)


def test_general_dirichlet_rows() -> None:
    counts = np.array([[4.0, 1, 1], [2, 6, 1], [1, 1, 2]])
    simulation = simulate("two-coin", n_classes=3, alpha=counts, n_tasks=4000, n_workers=4000, random_state=8)
    mean = counts / counts.sum(axis=1, keepdims=True)
    error = np.sqrt(mean * (1 - mean) / (counts.sum(axis=1, keepdims=True) + 1) / 4000)
    assert (np.abs(simulation.confusion.mean(axis=0) - mean) < 4.5 * error).all()


def test_extreme_spammers_label_everything() -> None:
    simulation = simulate("one-coin", n_spammers=3, random_state=5)
    assert simulation.labels.labels_per_worker[-3:].tolist() == [1000] * 3
    assert set(simulation.labels.labels_per_task.tolist()) == {6}
    assert (simulation.confusion[-3:] == 0.5).all()
    assert simulation.kinds is not None
    assert simulation.kinds[-4:] == ("worker", "spammer", "spammer", "spammer")


# ---- Ibrahim et al. 2025: part III -----------------------------------------------------------------------


def test_sizes_of_the_tutorial() -> None:
    for slug, sizes in (
        ("spammers", (10_000, 20, 4)),
        ("colluders", (5000, 60, 3)),
        ("groups", (5000, 40, 3)),
    ):
        labels = simulate(slug).labels
        assert (labels.n_tasks, labels.n_workers, labels.n_classes) == sizes
        assert len(labels) == sizes[0] * sizes[1]


def test_spammers_have_no_capacity() -> None:
    simulation = simulate("spammers", share=0.25)
    assert simulation.kinds is not None
    assert simulation.kinds.count("spammer") == 5
    assert (np.ptp(simulation.confusion[-5:], axis=1) == 0).all()
    assert (np.ptp(simulation.confusion[:-5], axis=1) > 0).any()


@pytest.mark.parametrize("labels_per_task", [None, 20])
def test_colluders_agree_and_attack_nine_tasks_in_ten(labels_per_task: int | None) -> None:
    simulation = simulate("colluders", labels_per_task=labels_per_task, random_state=2)
    labels = simulation.labels
    answer, attacked = simulation.extras["answer"], simulation.extras["attacked"]
    theirs = labels.worker >= 42
    assert np.array_equal(labels.label[theirs], answer[labels.task[theirs]])
    assert np.array_equal(answer != simulation.truth, attacked)
    assert abs(attacked.mean() - 0.9) < 4.5 * np.sqrt(0.09 / 5000)
    assert simulation.groups is not None
    assert np.array_equal(simulation.groups, np.where(np.arange(60) < 42, -1, 0))
    np.testing.assert_allclose(simulation.confusion[-1], 0.45 - 0.35 * np.eye(3))


def test_groups_depend_within_and_not_between() -> None:
    # Errors of two workers given the truth: correlated inside a group, |r| under 4.5 / √n between groups.
    simulation = simulate(
        "groups", n_tasks=20_000, n_workers=6, n_groups=2, truth=np.zeros(20_000, int), random_state=6
    )
    assert simulation.groups is not None
    assert simulation.groups.tolist() == [0, 0, 0, 1, 1, 1]
    wrong = simulation.labels.label.reshape(20_000, 6) != 0
    correlation = np.corrcoef(wrong.T)
    inside, between = correlation[np.triu_indices(3, 1)], correlation[:3, 3:]
    assert (inside > 0.2).all()
    assert (np.abs(between) < 4.5 / np.sqrt(20_000)).all()


def test_group_marginals_are_the_product() -> None:
    simulation = simulate("groups", n_workers=7, n_groups=3)
    assert simulation.groups is not None
    hidden, own = simulation.extras["group_confusion"], simulation.extras["worker_confusion"]
    for worker, group in enumerate(simulation.groups):
        np.testing.assert_allclose(simulation.confusion[worker], hidden[group] @ own[worker])
    assert simulation.extras["opinion"].shape == (5000, 3)


# ---- Wang et al. 2023: MURA ------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [[0.5, 0.5], [0.9, 0.1], [0.2, 0.3, 0.5]])
def test_raters_have_the_kappa_wanted(prior: list[float]) -> None:
    # 100,000 tasks: the standard error of a kappa is under 0.004 even where one task in ten is positive.
    label, truth = dense("kappa-raters", n_tasks=100_000, n_classes=len(prior), prior=prior, random_state=4)
    found = [cohen_kappa(truth, label[:, rater]) for rater in range(3)]
    np.testing.assert_allclose(found, [0.8, 0.75, 0.7], atol=4.5 * 0.004)
    shares = np.array([np.bincount(label[:, rater]) for rater in range(3)]) / len(label)
    np.testing.assert_allclose(shares, np.tile(prior, (3, 1)), atol=0.01)


def test_raters_at_both_ends_of_kappa() -> None:
    confusion = simulate("kappa-raters", kappas=(1.0, 0.0), prior=[0.7, 0.3]).confusion
    np.testing.assert_allclose(confusion, [np.eye(2), [[0.7, 0.3], [0.7, 0.3]]])


def test_all_slugs_of_the_issue_are_there() -> None:
    assert {
        "dawid-skene", "pairwise-flippers", "hammer-spammers", "cifar-annotators", "independent-mistakes",
        "naive-majority", "correlated-mistakes", "one-coin", "two-coin", "spammers", "colluders", "groups",
    } <= set(CROWDS)  # fmt: skip


def test_malicious_workers_say_the_next_class_and_know_the_truth() -> None:
    simulation = simulate("malicious", n_workers=8, share=0.25, concentration=200, random_state=3)
    assert simulation.kinds == ("honest",) * 6 + ("malicious",) * 2
    assert (simulation.confusion[:6].argmax(axis=2) == np.arange(4)).all()
    assert (simulation.confusion[6:].argmax(axis=2) == (np.arange(4) + 1) % 4).all()
    np.testing.assert_allclose(simulation.confusion.max(axis=2), 0.7, atol=0.15)
    theirs = simulation.labels.worker >= 6
    meant = (simulation.labels.label[theirs] - 1) % 4 == simulation.truth[simulation.labels.task[theirs]]
    assert abs(meant.mean() - 0.7) < 0.05
