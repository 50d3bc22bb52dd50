"""Audits made by hand from simulated crowds, with names as a test wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.audit.audit import Audit
from crowdwise.audit.finding_types import Finding, Screen
from crowdwise.dependence.groups import detect_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HOSTILE = (
    "</script><script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    '"><svg onload=window.pwned=1>',
    "'); window.pwned=1; ('",
    "${window.pwned=1} {{7*7}} {% raw %}",
    "<!-- <script>",
    "]]><script>window.pwned=1</script>",
    "javascript:window.pwned=1",
    "&lt;b&gt; &amp;",
    "datum.constructor.constructor('window.pwned=1')()",
    "\u202egpj.exe\u2066\u2028\u0001\x1b[31m",
    "שלום עולם",
    "مرحبا بالعالم",
    "two\nlines\tand a tab",
    "x" * 10_240 + "<script>",
    "x" * 10_240 + "</script>",
    "Z̷̧̛͓a̵͎͐l̸̠̚g̶̱̈o̷͇͝" * 40,
    "__proto__",
    "constructor",
    "hasOwnProperty",
)


def finding(kind: str, about: str, names: tuple[Any, ...], score: float = 0.9, p_value: float = 0.001) -> Finding:
    listed = ", ".join(map(str, names))
    return Finding(kind, about, names, score, f"{listed}.", f"{listed} did it.", p_value, "999 draws", "Ask them.")


def made_audit(
    *,
    n_tasks: int = 300,
    n_workers: int = 40,
    n_classes: int = 3,
    labels_per_task: int = 5,
    workers: Sequence[Any] | None = None,
    tasks: Sequence[Any] | None = None,
    classes: Sequence[Any] | None = None,
    model: Any = None,
    seed: int = 0,
) -> tuple[Audit, dict[Any, Any]]:
    """An audit with findings of every shape, and the truth of its tasks."""
    crowd = cw.simulate.simulate(
        "spammers",
        n_tasks=n_tasks,
        n_workers=n_workers,
        n_classes=n_classes,
        labels_per_task=labels_per_task,
        random_state=seed,
    )
    edges = crowd.labels
    labels = cw.CrowdLabels.from_codes(
        edges.task,
        edges.worker,
        edges.label,
        tasks=[f"task-{at}" for at in range(n_tasks)] if tasks is None else tasks,
        workers=[f"worker-{at:04}" for at in range(n_workers)] if workers is None else workers,
        classes=[f"class {at}" for at in range(n_classes)] if classes is None else classes,
    )
    who = labels.workers.to_pylist()
    spam = [who[at] for at, kind in enumerate(crowd.kinds or ()) if kind != "honest"]
    group = np.full(n_workers, -1)
    group[:3], group[3:8] = 0, 1
    screens = (
        Screen("spammer", tuple(finding("spammer", "worker", (name,)) for name in spam)),
        Screen(
            "dependent workers",
            tuple(finding("dependent workers", "workers", tuple(who[part])) for part in (slice(3), slice(3, 8))),
        ),
        Screen("mislabel", (finding("mislabel", "task", (labels.tasks[0].as_py(),)),)),
        Screen("bias", (finding("bias", "attribute", ("region",)),)),
        Screen("drift", skipped="The labels have no order in time."),
    )
    truth = dict(zip(labels.tasks.to_pylist(), crowd.truth_table()["label"].to_pylist(), strict=True))
    named = {task: labels.classes[int(code)].as_py() for task, code in truth.items()}
    fitted = (model or cw.DawidSkene()).fit(labels)
    dependence = detect_groups(labels, 0.05)
    return Audit(labels, fitted, screens, group, 0.05, dependence=dependence), named


@pytest.fixture(autouse=True)
def _few_draws(few_sweeps: None, few_folds: None, compiled: None) -> None:
    """Pages are looked at, not the numbers on them."""


@pytest.fixture(scope="session")
def audited() -> Callable[..., tuple[Audit, dict[Any, Any]]]:
    return made_audit


@pytest.fixture(scope="session")
def hostile() -> tuple[str, ...]:
    return HOSTILE


@pytest.fixture(scope="session")
def hostile_audit() -> tuple[Audit, dict[Any, Any]]:
    """Every hostile name is a worker's, a task's and a class's; the worst are flagged too."""
    return made_audit(
        n_classes=len(HOSTILE),
        n_tasks=400,
        workers=[*HOSTILE, *(f"worker-{at}" for at in range(40 - len(HOSTILE)))],
        tasks=[*HOSTILE, *(f"task-{at}" for at in range(400 - len(HOSTILE)))],
        classes=HOSTILE,
    )
