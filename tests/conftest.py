"""Labels that many tests share."""

from __future__ import annotations

import gc
import os

import numpy as np
import pytest
from hypothesis import settings

from crowdwise.dependence import effective_size
from crowdwise.evaluate import auto_members
from crowdwise.fitting import skill_sampler
from crowdwise.labels import CrowdLabels
from crowdwise.labels.engine_choice import has_gpu_driver
from crowdwise.simulate import simulate

gc.disable()  # while thousands of tests are collected, all of which stay: see pytest_collection_finish

if not has_gpu_driver():  # Triton reads it when it meets a loop
    os.environ["TRITON_INTERPRET"] = "1"

settings.register_profile("crowdwise", deadline=None)  # tests run side by side: how long one takes says nothing
settings.load_profile("crowdwise")

# Files that take longest, begun first, so that no process is left with one of them at the end: seconds of a core where
# one process runs them in this order, with nothing compiled before. A file of ten seconds or more has its line here.
LONGEST = {
    "tests/contract/test_contract.py": 57,
    "tests/surface/test_examples.py": 37,
    "tests/mutations/test_mutations.py": 24,
    "tests/reproduction/test_papers.py": 22,  # takes 56, but begins once the contract has compiled the same loops
    "tests/evaluate/test_auto.py": 20,
    "tests/cli/test_every_set.py": 20,
    "tests/statistical/test_coverage.py": 16,
    "tests/fuzz/test_fuzz.py": 15,
    "tests/engines/test_cuda.py": 14,
    "tests/campaign/test_faults.py": 14,
    "tests/learn/test_contract.py": 13,
    "tests/contract/test_hard_cases.py": 12,
    "tests/kinds/test_boxes.py": 12,
    "tests/kinds/test_command.py": 12,
    "tests/audit/test_audit.py": 11,
    "tests/cli/test_process.py": 11,
    "tests/engines/test_stored_labels.py": 11,
    "tests/dependence/test_effective_size.py": 11,
    "tests/engines/test_passes.py": 10,
    "tests/kinds/test_contract.py": 10,
    "tests/learn/test_engine.py": 10,
    "tests/robustness/test_mutated_models.py": 10,
    "tests/labels/test_read.py": 10,
    "tests/tables/test_published.py": 10,
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, what is in a file in its order; skip what needs data sets that are not there."""
    if not os.environ.get("CROWDWISE_DATA"):
        absent = pytest.mark.skip(reason="CROWDWISE_DATA is not set: it names the folder of the data sets")
        for item in items:
            if item.get_closest_marker("data"):
                item.add_marker(absent)
    items.sort(key=lambda item: -LONGEST.get(item.nodeid.partition("::")[0], 0))


def pytest_collection_finish() -> None:
    """What is collected stays: the garbage collector need not go through thousands of tests again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(10_000)  # of new objects: after every 700, it takes a fiftieth of the time


@pytest.fixture
def few_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals from a tenth of the usual draws, for tests of which no number depends on how many they are."""
    for name in ("BURN_IN", "SWEEPS", "COIN_BURN_IN", "COIN_SWEEPS"):
        monkeypatch.setattr(skill_sampler, name, getattr(skill_sampler, name) // 10)
    for name in ("WARM", "DRAWS", "GOLD_DRAWS"):
        monkeypatch.setattr(effective_size, name, getattr(effective_size, name) // 10)


@pytest.fixture
def fewer_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals from a quarter of the usual draws, for tests of how many hold the truth in hundreds of fits.

    Dawid-Skene and one coin keep all draws in tests/statistical/test_coverage.py. Half the variance turns most of the
    tests with a quarter red.
    """
    for name in ("BURN_IN", "SWEEPS", "COIN_BURN_IN", "COIN_SWEEPS"):
        monkeypatch.setattr(skill_sampler, name, getattr(skill_sampler, name) // 4)


@pytest.fixture
def few_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` weighs its members on two parts of the labels instead of five, for tests that look at something else."""
    monkeypatch.setattr(auto_members, "FOLDS", 2)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled loops however few the labels, for tests that fit many crowds; tests/engines holds NumPy against them."""
    monkeypatch.setenv("CROWDWISE_ENGINE", "numba")


@pytest.fixture
def no_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits that do not say how many workers the crowd is worth, which takes them longest and changes no finding."""
    monkeypatch.setattr(effective_size, "_reason_to_skip", lambda *_: "Nobody asked.")


@pytest.fixture(scope="session")
def crowd() -> CrowdLabels:
    """A middling crowd: 3 classes of unequal shares, 12 workers from good to useless, no ties to speak of."""
    return simulate(
        "dawid-skene", n_tasks=150, n_workers=12, n_classes=3, labels_per_task=5, skill=0.7, random_state=3
    ).labels


def tiny_labels(
    n_classes: int, seed: int, *, n_tasks: int = 5, n_workers: int = 3, repeats: bool = False
) -> CrowdLabels:
    """Few enough tasks to enumerate every truth; with repeats, a worker may answer a task twice."""
    generator = np.random.default_rng(seed)
    edges = [
        (task, worker)
        for task in range(n_tasks)
        for worker in range(n_workers)
        for _ in range(2 if repeats and worker == 0 else 1)
        if generator.random() < 0.8
    ]
    task, worker = np.array(edges).T
    label = generator.integers(0, n_classes, task.size)
    return CrowdLabels.from_codes(
        task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes, on_duplicate="all"
    )
