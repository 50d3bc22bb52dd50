"""The audit of a crowd: every test, at levels that together keep what is promised, and what they found."""

from __future__ import annotations

import importlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdwise.audit.bias import find_bias
from crowdwise.audit.colluders import find_colluders
from crowdwise.audit.dependence import company_of, screen_of
from crowdwise.audit.drift import find_drift
from crowdwise.audit.effective_size import size_of
from crowdwise.audit.fairness import find_disparity
from crowdwise.audit.identifiability import find_unidentifiable
from crowdwise.audit.inputs import known_of, skipped_attributes
from crowdwise.audit.leave_out_consensus import fit_reference
from crowdwise.audit.prune import prune
from crowdwise.audit.spammers import find_spammers
from crowdwise.audit.tasks import find_confused_classes, find_hard_tasks, find_mislabels
from crowdwise.audit.truth_mismatch import find_strange_truth
from crowdwise.fitting.base import check_enough
from crowdwise.fitting.parameters import check_count, check_number
from crowdwise.fitting.progress import show_progress_of
from crowdwise.labels.attributes import usable_attributes
from crowdwise.labels.model import CrowdLabels
from crowdwise.labels.read import read_labels
from crowdwise.labels.truth import read_truth
from crowdwise.labels.vocabulary import positions
from crowdwise.registry import method as method_called

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from crowdwise.audit.effective_size import EffectiveSize
    from crowdwise.audit.findings import Finding, Screen
    from crowdwise.fitting.base import Aggregator
    from crowdwise.fitting.company import Company
    from crowdwise.labels.truth import Truth
    from crowdwise.labels.types import IntArray

__all__ = ["ACCUSING_TESTS", "FINE", "Audit", "Screened", "audit_crowd", "screen_workers"]

FINE = "nothing found"
ACCUSING_TESTS = 3  # of every audit: dependent workers, spammers, colluders
if TYPE_CHECKING:
    Test = tuple[Callable[..., Screen], dict[str, Any]]


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """Everything that was found in a crowd.

    Attributes
    ----------
    labels
        What was audited.
    model
        The fitted aggregator whose consensus, skills and matrices are shown: the method asked for, `auto` by default.
    screens
        What each test says, the ones that do not apply included.
    group : (M,)
        Workers with the same number depend on each other; -1 for those who depend on nobody.
    level
        Chance that anyone is flagged in a crowd where there is nothing to find.
    effective
        How many independent workers the crowd is worth; None if it was not asked.
    truth
        True labels that were given to score and to be doubted, if any were.
    company
        How far every two workers agree beyond the truth; None if it was not asked, or cannot be said.
    gold
        Known answers that the consensus learnt from, if any were given.
    """

    labels: CrowdLabels
    model: Any
    screens: tuple[Screen, ...]
    group: IntArray
    level: float
    effective: EffectiveSize | None = None
    truth: Truth | None = None
    company: Company | None = None
    gold: Truth | None = None

    def __repr__(self) -> str:
        times = Counter(finding.kind for finding in self.findings)
        found = ", ".join(f"{kind} ({n:,})" for kind, n in times.items()) or FINE
        return f"Audit of {self.labels!r}: {found}"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All of them, the surest first."""
        every = [finding for screen in self.screens for finding in screen.findings]
        return tuple(sorted(every, key=lambda finding: (finding.p_value, -finding.score)))

    @property
    def verdicts(self) -> list[str]:
        """The kind of each worker's worst finding, by position in the labels' workers."""
        worst = np.full(self.labels.n_workers, -1.0)
        found = [FINE] * self.labels.n_workers
        place = {name: number for number, name in enumerate(self.labels.workers.to_pylist())}
        for finding in self.findings:
            if finding.about not in ("worker", "workers"):
                continue
            for name in finding.names:
                if finding.score > worst[place[name]]:
                    worst[place[name]], found[place[name]] = finding.score, finding.kind
        return found

    def plot(self, what: str = "workers", *, truth: Any = None) -> Any:
        """A Vega-Altair chart of the audit, for notebooks; `.save("x.svg")` or `"x.png"` writes it.

        Parameters
        ----------
        what
            "workers" (skill against volume, coloured by what was found), "agreement" (who agrees with whom beyond what
            skill explains, if anyone does), "confidence", "confusion", "calibration" (with `truth`) or
            "gold-calibration" (where gold was given, and the method can tell).
        truth
            True labels of some tasks: a mapping, or a path or table with columns task and label; by default those
            given to the audit.
        """
        # Found by name: the room of charts lies above this one, and needs an extra that audits do not.
        return importlib.import_module("crowdwise.report.audit_page.charts").plot(self, what, truth)


class Screened(NamedTuple):
    """What the tests of single workers and of groups of them say."""

    company: Company | None
    screens: tuple[Screen, Screen, Screen]


def screen_workers(
    labels: CrowdLabels,
    *,
    level: float = 0.05,
    n_tests: int = ACCUSING_TESTS,
    seed: int = 0,
    trusted: Sequence[Any] | None = None,
) -> Screened:
    """Dependent workers, spammers and colluders; one test uses what another has found.

    Removes colluders before it looks for spammers: otherwise honest workers disagree with the block and look opposite.

    Parameters
    ----------
    level
        As for `audit_crowd`. Of those flagged as spammers it is the share expected to be none: that is no chance of
        flagging anyone in an honest crowd, which is far smaller (`benchmarks/false_alarms.py`).
    n_tests
        Tests that share the level.
    """
    share = level / n_tests
    company = company_of(labels, share, seed)
    groups = None if company is None else company.groups
    blocks = find_colluders(labels, level=share, seed=seed, trusted=trusted, groups=groups)
    alone = int((labels.labels_per_worker > 0).sum()) > sum(len(block.names) for block in blocks.findings)
    rest = prune(labels, blocks.findings)[0] if alone else labels
    spam = find_spammers(rest, level=level, seed=seed, opposite_level=share)
    return Screened(company, (screen_of(labels, company), spam, blocks))


def audit_crowd(
    labels: Any,
    *,
    method: str = "auto",
    gold: Any = None,
    truth: Any = None,
    task_attributes: Any = None,
    worker_attributes: Any = None,
    time: Any = None,
    trusted: Sequence[Any] | None = None,
    level: float = 0.05,
    seed: int = 0,
) -> Audit:
    """Ask of a crowd who guesses, who copies, what is in doubt, and what it is worth; no truth is needed.

    Parameters
    ----------
    labels
        `CrowdLabels`, or anything that `read_labels` takes.
    method
        Slug of the method that makes the consensus and judges the workers; `crowdwise.methods()` lists them. Only what
        is shown depends on it: the tests make models of their own.
    gold
        Known answers of some tasks, as a mapping, a path or a table (task, label): the consensus learns from them.
    truth
        Labels that tasks are given as true, as a mapping, a path or a table (task, label): to score the consensus, to
        be doubted, and to judge bias by. The consensus never sees them.
    task_attributes, worker_attributes
        Groups of tasks or workers that may be treated, or judge, differently: mappings, paths or tables. An attribute
        that makes no groups (more than 50 values, or 20 numbers) is left out, and a screen of its own says so.
    time
        Time of each label, in the order of the labels, as `read_timed_labels` gives them: for drift.
    trusted
        Workers who are known to be honest; without them, at least half of the crowd is taken to be.
    level
        Chance that any worker is flagged in a crowd where there is nothing to find, above 0 and below 1: the tests that
        accuse share it. Tests of tasks and of classes have it each.
    seed
        Same seed, same answer.

    Examples
    --------
    >>> from crowdwise.simulate import simulate
    >>> crowd = simulate("spammers", n_tasks=500, n_workers=10, n_classes=3, share=0.2, seed=0)
    >>> found = audit_crowd(crowd.labels)
    >>> [(finding.kind, finding.names) for finding in found.findings if finding.about == "worker"]
    [('spammer', (8,)), ('spammer', (9,))]
    >>> found
    Audit of CrowdLabels: 5,000 labels by 10 workers on 500 tasks, 3 classes (0, 1, 2): spammer (2)
    """
    check_number("level", level, low=0, high=1, above=True)
    check_count("seed", seed, low=0)
    answers = read_labels(labels)
    check_enough(answers)
    known = known_of(answers, truth, task_attributes, worker_attributes, time, trusted)
    gold = None if gold is None else read_truth(gold)
    model = fit_method(answers, method, gold, seed)  # first: what it cannot use is said before any long work
    if len(model.classes_) > answers.n_classes:  # gold may name a class that no worker used
        answers = with_classes(answers, model.classes_)
    reference = {"reference": fit_reference(answers)}
    accusing: list[Test] = []
    attributes = {"task_attributes": known.of_tasks, "worker_attributes": known.of_workers}
    if any(map(usable_attributes, attributes.values())):
        accusing.append((find_bias, attributes | {"truth": known.truth} | reference))
    if usable_attributes(known.of_tasks):
        accusing.append((find_disparity, {"task_attributes": known.of_tasks, "truth": known.truth} | reference))
    if time is not None:
        accusing.append((find_drift, {"time": time, "truth": known.truth} | reference))
    others: list[Test] = [
        (find_mislabels, {"truth": known.truth}),
        (find_hard_tasks, reference),
        (find_confused_classes, reference),
        (find_unidentifiable, reference),
    ]
    if known.truth is not None:
        others.insert(0, (find_strange_truth, {"truth": known.truth}))
    n_tests = len(accusing) + ACCUSING_TESTS
    with show_progress_of("audit", len(accusing) + len(others) + 2, "tests") as advance:
        found = screen_workers(answers, level=level, n_tests=n_tests, seed=seed, trusted=trusted)
        company, screens = found.company, list(found.screens)
        advance()
        effective = size_of(answers, company, seed, truth=gold if known.truth is None else known.truth)
        advance()
        for tests, each in ((accusing, level / n_tests), (others, level)):
            for test, more in tests:
                screens.append(test(answers, level=each, seed=seed, **more))
                advance()
    screens += skipped_attributes(known)
    return Audit(answers, model, tuple(screens), effective.groups, level, effective, known.truth, company, gold)


def with_classes(labels: CrowdLabels, classes: pa.Array) -> CrowdLabels:
    """The same labels in a longer list of classes."""
    place = positions(labels.classes, classes)
    names = {"tasks": labels.tasks, "workers": labels.workers, "classes": classes}
    made = CrowdLabels.from_codes(labels.task, labels.worker, place[labels.label], **names, on_duplicate="all")
    return made.with_kind(labels.kind)


def fit_method(labels: CrowdLabels, slug: str, gold: Truth | None, seed: int) -> Aggregator:
    """Fit a method of the registry, found by its slug, with the seed where it draws at random."""
    model: Aggregator = method_called(slug).load()()
    parameters = model.get_params()
    if "seed" in parameters and (seed or parameters["seed"] is not None):  # without one, the vote has a rule for ties
        model.set_params(seed=seed)
    return model.fit(labels, gold=gold)
